package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mqctl/cli/admin"
)

func auditCommands() []*command {
	return []*command{
		{
			path: "audit list", summary: "local record of changes", attrs: local, run: runAuditList, schema: "mqctl.audit.list/v1", exits: []int{ExitBadConfig},
			examples: []string{"mqctl audit list", "mqctl audit list --reverse --limit 5", "mqctl audit list --since 24h --target broker-a -o json"},
			flags: []flagSpec{
				{key: "since", meta: "TIME", help: "only changes after a moment: 2h, 2026-11-29T10:00"},
				{key: "target", meta: "NAME", help: "only changes of this broker, topic, group or key"},
			},
			view: view{
				item: auditEntry{}, name: func(item any) string {
					if id := item.(*auditEntry).UndoID; id != nil {
						return *id
					}
					return "-"
				},
				columns: []column{
					{head: "AT", field: "at", as: asTime}, {head: "UNDO", field: "undoId"}, {head: "RESULT", field: "result"}, {head: "CONTEXT", field: "context"},
					{head: "COMMAND", field: "command", as: asCommand}, {head: "REASON", field: "reason"},
				},
			},
		},
		{
			path: "undo", summary: "take a change back, unless somebody changed it since", args: "[ID]", max: 1,
			run: runUndo, schema: "mqctl.undo/v1", attrs: mutates | planned, exits: []int{ExitNotFound, ExitPartial, ExitConditionFalse, ExitChanges, ExitBadConfig},
			examples: []string{"mqctl undo", "mqctl undo 4f1c2a --dry-run"},
			view:     view{item: planItem{}, name: planName, columns: planColumns, foot: planFoot},
		},
	}
}

// auditEntries reads the audit file of this call.
func (c *call) auditEntries(r *result) ([]auditEntry, error) {
	path := c.auditPath()
	if path == "" {
		return nil, fail(ExitNotFound, "AUDIT_OFF", "no audit file is kept").because("MQCTL_AUDIT=off, or audit = false in the client file")
	}
	entries, damaged, err := readAudit(path)
	if err != nil {
		return nil, fail(ExitBadConfig, "AUDIT_UNREADABLE", "the audit file cannot be read: %v", err)
	}
	if damaged > 0 {
		r.warn(warning("AUDIT_DAMAGED", "", "%s of %s cannot be read and are left out", count(damaged, "line"), path))
	}
	return entries, nil
}

func runAuditList(_ context.Context, c *call) (*result, error) {
	r := &result{}
	entries, err := c.auditEntries(r)
	if err != nil {
		return nil, err
	}
	since := ""
	if text := c.str("since"); text != "" {
		ms, err := sinceMillis(c, text)
		if err != nil {
			return nil, err
		}
		since = *stampMillis(max(ms, 1))
	}
	undone := undoneIDs(entries)
	for i := range entries {
		e := &entries[i]
		if e.At < since || c.str("target") != "" && !e.touches(c.str("target")) {
			continue
		}
		e.Undone = e.UndoID != nil && undone[*e.UndoID]
		r.add(e)
	}
	r.empty = "nothing has been changed from here"
	return r, nil
}

// sinceMillis reads a length of time back from now, or a moment.
func sinceMillis(c *call, text string) (int64, error) {
	if d, err := parseDuration(text); err == nil && !strings.HasPrefix(text, "-") {
		if _, plain := parseMillis(text); !plain {
			return c.begun.Add(-d).UnixMilli(), nil
		}
	}
	return parseTime(text, c.begun, "--since")
}

// touches reports whether an entry is about a broker, thing or key.
func (e *auditEntry) touches(name string) bool {
	return slices.ContainsFunc(e.Items, func(t auditThing) bool {
		broker, _, _ := strings.Cut(t.Target, "/")
		return t.Target == name || broker == name || t.Addr == name || slices.Contains(strings.Split(t.Key, "/"), name)
	})
}

func undoneIDs(entries []auditEntry) map[string]bool {
	out := map[string]bool{}
	for i := range entries {
		if entries[i].Undoes != nil && entries[i].Result == "APPLIED" {
			out[*entries[i].Undoes] = true
		}
	}
	return out
}

// entryToUndo finds the change with that id, or the newest that has not been
// taken back.
func entryToUndo(entries []auditEntry, id string) (*auditEntry, error) {
	undone := undoneIDs(entries)
	var found *auditEntry
	for i := range slices.Backward(entries) {
		e := &entries[i]
		switch {
		case e.UndoID == nil && id == "" && e.Result != "FAILED" && e.Result != "ROLLED_BACK":
			m := fail(ExitFailed, "NO_WAY_BACK", "the newest change cannot be taken back: %s, at %s; nothing was changed", strings.Join(e.Command, " "), e.At)
			if before, err := entryToUndo(entries[:i], ""); err == nil {
				m.offer("mqctl undo " + *before.UndoID)
			}
			return nil, m.try("mqctl audit list")
		case e.UndoID == nil:
		case id == "" && (e.Undoes != nil || undone[*e.UndoID]):
		case id == "":
			return e, nil
		case *e.UndoID == id:
			return e, nil
		case strings.HasPrefix(*e.UndoID, id) && len(id) >= 3:
			if found != nil {
				return nil, usage("BAD_VALUE", "%q is the beginning of several changes: %s, %s", id, *e.UndoID, *found.UndoID)
			}
			found = e
		}
	}
	switch {
	case found != nil:
		return found, nil
	case id == "":
		return nil, fail(ExitNotFound, "NOTHING_TO_UNDO", "the audit file has no change that could be taken back").try("mqctl audit list")
	}
	return nil, fail(ExitNotFound, "CHANGE_NOT_FOUND", "the audit file has no change %q", id).try("mqctl audit list")
}

func runUndo(ctx context.Context, c *call) (*result, error) {
	r := &result{change: &change{DryRun: c.dryRun()}}
	entries, err := c.auditEntries(r)
	if err != nil {
		return nil, err
	}
	e, err := entryToUndo(entries, c.arg(0))
	if err != nil {
		return nil, err
	}
	if _, err := c.admin(); err != nil {
		return nil, err
	}
	if len(e.Namesrv) > 0 && !overlap(e.Namesrv, c.client.Nameservers()) {
		return nil, usage("OTHER_CLUSTER", "change %s was made through %s, not %s; nothing was changed", *e.UndoID, strings.Join(e.Namesrv, ","), strings.Join(c.client.Nameservers(), ",")).
			try("mqctl undo " + *e.UndoID + " -n " + strings.Join(e.Namesrv, ","))
	}
	r.undoes = *e.UndoID
	edits, conflicts, err := c.planUndo(ctx, r, e)
	if err != nil {
		return nil, err
	}
	if len(conflicts) > 0 {
		for _, it := range conflicts {
			r.add(it)
		}
		m := fail(ExitConditionFalse, "CHANGED_SINCE", "%s of change %s changed since; nothing was written", count(len(conflicts), "thing"), *e.UndoID).
			because("the values of now are neither those that it left nor those of before it").try("mqctl audit list --target " + conflicts[0].Broker)
		for _, it := range conflicts {
			m.after = append(m.after, fmt.Sprintf("%s %s/%s: %s", it.Broker, strings.ToLower(it.Kind), it.Name, joinedChanges(it.Changes)))
		}
		r.failed(m)
		return r, nil
	}
	c.carryOut(ctx, r, edits)
	return r, nil
}

// planUndo reads what a change left and plans the way back, the last part
// first. Conflicts are things that are neither as the change left them nor as
// they were before; their changes lead from what was left to what is.
func (c *call) planUndo(ctx context.Context, r *result, e *auditEntry) (edits []*edit, conflicts []*planItem, err error) {
	var stay []string // what cannot be taken back
	reason := ""
	for _, t := range slices.Backward(e.Items) {
		if !undoKind(t.Key) || string(t.Before) == string(t.After) {
			continue
		}
		target := c.whereNow(ctx, t)
		now, err := c.readThing(ctx, target, t.Key)
		if err != nil {
			return nil, nil, c.at(err, target)
		}
		before, after := stateFrom(t.Before), stateFrom(t.After)
		back := before
		if before != nil && after != nil && now != nil {
			back = now.with(before)
		}
		isAfter := (now == nil) == (after == nil) && now.holds(after)
		isBefore := (now == nil) == (before == nil) && now.holds(before)
		if !isAfter && !isBefore {
			it := planThing(target, t.Key, after, after.seen(now))
			conflicts = append(conflicts, it)
			continue
		}
		if why := noWayBack(t.Key, before != nil, after != nil); why != "" && !isBefore {
			stay, reason = append(stay, t.Key+" at "+target.String()), why
			continue
		}
		if before != nil && after == nil && strings.HasPrefix(t.Key, kindTopic+"/") && isAfter {
			r.warn(warning("TOPIC_EMPTY", target.String(), "topic %q comes back without its messages", strings.TrimPrefix(t.Key, kindTopic+"/")))
		}
		edits = append(edits, c.thingEdit(planThing(target, t.Key, now, back)))
	}
	list := strings.Join(stay[:min(5, len(stay))], ", ")
	switch {
	case len(edits)+len(conflicts) == 0 && len(stay) > 0:
		return nil, nil, fail(ExitFailed, "NO_WAY_BACK", "change %s cannot be taken back: %s", *e.UndoID, list).
			because("%s; nothing was changed", reason).try("mqctl audit list")
	case len(stay) > 0:
		r.warn(warning("NO_WAY_BACK", *e.UndoID, "%s of the change cannot be taken back: %s: %s", count(len(stay), "part"), list, reason))
	}
	if len(edits)+len(conflicts) == 0 {
		return nil, nil, fail(ExitFailed, "NO_WAY_BACK", "change %s holds nothing that could be taken back", *e.UndoID)
	}
	return edits, conflicts, nil
}

// seen is what a thing has now of the settings in s; nil when it is gone.
func (s state) seen(now state) state {
	if now == nil || s == nil {
		return now
	}
	out := state{}
	for k := range s {
		out[k] = now[k]
	}
	return out
}

// whereNow finds the broker of an audit record at its present address.
func (c *call) whereNow(ctx context.Context, t auditThing) admin.Target {
	if t.Target != t.Addr && !admin.IsAddress(t.Target) {
		found, err := recall(&c.memo, "", "target/"+t.Target, func() ([]admin.Target, error) {
			return c.client.Targets(ctx, admin.Selector{Broker: t.Target})
		})
		if err == nil && len(found) == 1 {
			return found[0]
		}
	}
	return admin.Target{Broker: brokerPart(t.Target), ID: -1, Addr: t.Addr}
}

// brokerPart is the broker name of NAME/ID, "" of an address.
func brokerPart(target string) string {
	name, _, ok := strings.Cut(target, "/")
	if !ok || admin.IsAddress(target) {
		return ""
	}
	return name
}
