package cli

import "slices"

// changeColumns are the columns of a change in a pipe: one row a setting.
var changeColumns = []column{
	{head: "BROKER", field: "broker"}, {head: "SETTING", field: "setting"}, {head: "BEFORE", field: "before"}, {head: "AFTER", field: "after"}, {head: "STATE", field: "state"},
}

// changeRow is one setting at one broker, before and after.
type changeRow struct {
	Broker  string `json:"broker"`
	Setting string `json:"setting"`
	Before  string `json:"before"`
	After   string `json:"after"`
	State   string `json:"state"` // new, changed, same, or what a dry run would do, or failed
}

// changed is what one broker's item says about its settings.
type changed struct {
	broker           string
	created, applied bool
	changes          []settingChange
	now              []field  // all settings afterwards
	keys             []string // settings that were given
	name             string   // the setting that is the thing's name
}

// rows are the settings that change and those that were given but are the same.
func (ch *changed) rows(dryRun bool) []any {
	state := "changed"
	if ch.created {
		state = "new"
	}
	switch {
	case dryRun && ch.created:
		state = "would-create"
	case dryRun:
		state = "would-change"
	case !ch.applied:
		state = "failed"
	}
	var out []any
	for _, f := range ch.now {
		at := slices.IndexFunc(ch.changes, func(c settingChange) bool { return c.Key == f.name })
		switch {
		case f.name == ch.name:
		case at >= 0:
			before := ""
			if ch.changes[at].Before != nil {
				before = valueText(ch.changes[at].Before)
			}
			out = append(out, changeRow{ch.broker, f.name, before, valueText(f.value), state})
		case slices.Contains(ch.keys, f.name):
			out = append(out, changeRow{ch.broker, f.name, valueText(f.value), valueText(f.value), "same"})
		}
	}
	if out == nil {
		out = append(out, changeRow{Broker: ch.broker, State: "same"})
	}
	return out
}

// changeRows is the form of group set and topic set in a pipe.
func (p *printer) changeRows(r *result) {
	var rows []any
	for _, item := range r.items {
		var ch changed
		switch it := item.(type) {
		case *groupSetItem:
			ch = changed{broker: it.Broker, created: it.Created, applied: it.Applied, changes: it.Changes, now: fieldsOf(it.After), name: "groupName"}
			if patch, ok := r.extra.(*groupPatch); ok {
				ch.keys = patch.keys
			}
		case *topicSetItem:
			ch = changed{broker: it.Broker, created: it.Created, applied: it.Applied, changes: it.Changes, now: fieldsOf(it.After), name: "topicName"}
			if patch, ok := r.extra.(*topicPatch); ok {
				ch.keys = patch.keys
			}
		default:
			continue
		}
		rows = append(rows, ch.rows(r.change.DryRun)...)
	}
	if len(rows) > 0 {
		p.rows(changeColumns, rows)
	}
}

// plansQuietly reports whether the text form of a dry run does not say itself
// that it was one: the forms for people and JSON do.
func (p *printer) plansQuietly(r *result) bool {
	if r.change == nil || !r.change.DryRun {
		return false
	}
	switch p.format {
	case "json", "jsonl":
		return false
	case "table", "wide":
		return !p.style.terminal
	}
	return true
}
