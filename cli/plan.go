package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mqctl/cli/admin"
)

// A change of the cluster is a plan: all targets are read before any is
// written, the difference is shown, each part is written and read back, and
// what was done is noted in the audit file so that it can be undone. Commands
// work out the parts (edits); carryOut does the rest for all of them.

// edit is one part of a plan: one thing at one broker or nameserver.
type edit struct {
	target admin.Target
	items  []any // what the result says about it; write and revert keep them true
	same   bool  // the target has the values already
	// beside is a word that edits share which stand next to each other and may be
	// written at the same time: a broker saves what comes at once in one go.
	beside string
	// listed is the thing when one request can write many such, those beside it.
	listed *planItem
	// write changes the target. sent says that the target may
	// have the change, whatever err is.
	write func(ctx context.Context) (sent bool, err error)
	// verify reads the change back, after other edits of the target were written
	// too; nil: write has done it.
	verify func(ctx context.Context) error
	// revert puts the previous value back, for --on-error rollback.
	revert func(ctx context.Context) error
	// things is what the change did, for the audit file.
	things func() []auditThing

	notes    []Message // warnings of write
	sent, ok bool
	err      error
}

// Values of --on-error.
const (
	onErrorStop     = "stop"
	onErrorContinue = "continue"
	onErrorRollback = "rollback"
)

// carryOut executes a plan: nothing with --dry-run, else its edits in order,
// --parallel at a time, with --on-error deciding what a failure means for the
// others. The items are in r afterwards, and what was done is in the audit file.
func (c *call) carryOut(ctx context.Context, r *result, edits []*edit) {
	for _, e := range edits {
		r.add(e.items...)
	}
	if c.dryRun() {
		r.done += len(edits)
		return
	}
	c.writeAll(ctx, edits)
	left := leftOver(edits)
	for _, e := range edits {
		switch n := left[e.target.Addr]; {
		case e.ok:
			r.done++
		case e.err != nil:
			r.failed(c.at(e.err, e.target))
		case n != nil:
			delete(left, e.target.Addr)
			r.failed(c.notTried(ctx, e.target, n))
		}
		r.change.Applied = r.change.Applied || e.sent
		r.warnings = append(r.warnings, e.notes...)
	}
	if len(r.errors) > 0 && c.str("on-error") == onErrorRollback {
		c.rollBack(ctx, r, edits)
	}
	c.noteEdits(r, edits)
	c.sumUp(r, edits)
}

// notDone is what was not tried at one target.
type notDone struct {
	edits  int
	failed bool // an edit of the same target failed
}

// leftOver counts by target what was not tried.
func leftOver(edits []*edit) map[string]*notDone {
	left := map[string]*notDone{}
	for _, e := range edits {
		n := left[e.target.Addr]
		if n == nil {
			n = &notDone{}
			left[e.target.Addr] = n
		}
		if n.failed = n.failed || e.err != nil; e.err == nil && !e.ok {
			n.edits++
		}
	}
	return left
}

// sumUp is message 14 of the contract: it goes before the failures of the single
// targets when others were done.
func (c *call) sumUp(r *result, edits []*edit) {
	if r.done == 0 || len(r.errors) == 0 || r.rolledBack {
		return
	}
	targets, changed, had := map[string]bool{}, []string{}, []string{}
	for _, e := range edits {
		if name := e.target.String(); !targets[name] {
			targets[name] = true
			switch {
			case e.ok && e.sent:
				changed = append(changed, name)
			case e.ok:
				had = append(had, name)
			}
		}
	}
	var parts, names []string
	for i := range r.errors {
		m := &r.errors[i]
		what := firstOf(m.Target, m.Addr)
		if what == "" || slices.Contains(names, what) {
			continue
		}
		targets[what] = true
		names = append(names, what)
		parts = append(parts, m.short())
	}
	if len(parts) == 0 {
		return
	}
	m := fail(ExitPartial, "PARTIAL", "%d of %s not changed: %s", len(parts), count(len(targets), "target"), strings.Join(parts[:min(5, len(parts))], "; "))
	switch {
	case len(changed) > 0:
		m.reason("%s changed and read back before", wereOf(changed))
	default:
		m.reason("%s that already", strings.Join(had[:min(5, len(had))], ", ")+" had")
	}
	if r.reachedAll() {
		m.offer("the same command again when that is mended: it is safe to repeat")
	} else {
		m.offer("the same command again when " + strings.Join(names[:min(5, len(names))], ", ") + " can be reached: it is safe to repeat")
	}
	if r.change.UndoID != nil {
		m.offer("mqctl undo " + *r.change.UndoID)
	}
	r.errors = append([]Message{*m}, r.errors...)
}

// reachedAll reports whether no target failed by being out of reach.
func (r *result) reachedAll() bool {
	return !slices.ContainsFunc(r.errors, func(m Message) bool { return m.ExitCode == ExitUnreachable || m.ExitCode == ExitTimeout })
}

// wereOf is "broker-a/0 was" or "broker-a/0, broker-b/0 were".
func wereOf(names []string) string {
	if len(names) == 1 {
		return names[0] + " was"
	}
	return strings.Join(names[:min(5, len(names))], ", ") + " were"
}

// notTried says why a target was left alone.
func (c *call) notTried(ctx context.Context, t admin.Target, n *notDone) *Message {
	m := fail(ExitFailed, "NOT_TRIED", "%s was not changed, since a broker before it failed", t)
	if n.failed {
		m = fail(ExitFailed, "NOT_TRIED", "not tried at %s, since one before failed: %s", t, count(n.edits, "change"))
	}
	if ctx.Err() != nil {
		m = c.at(ctx.Err(), t)
	}
	m.Target, m.Addr = t.String(), t.Addr
	return m
}

// writeAll writes the edits. Those of one target go one after another, in the
// order of the plan; --parallel is about targets.
func (c *call) writeAll(ctx context.Context, edits []*edit) {
	var order []string
	byTarget := map[string][]*edit{}
	for _, e := range edits {
		if _, known := byTarget[e.target.Addr]; !known {
			order = append(order, e.target.Addr)
		}
		byTarget[e.target.Addr] = append(byTarget[e.target.Addr], e)
	}
	goOn := c.str("on-error") == onErrorContinue
	next := make(chan []*edit, len(order))
	for _, addr := range order {
		next <- byTarget[addr]
	}
	close(next)
	var (
		wg      sync.WaitGroup
		stopped atomic.Bool
	)
	failed := func(e *edit) {
		if e.err != nil && !goOn {
			stopped.Store(true)
		}
	}
	for range min(max(1, int(c.whole("parallel"))), len(order)) {
		wg.Go(func() {
			for part := range next {
				c.writePart(ctx, part, stopped.Load, failed)
			}
		})
	}
	wg.Wait()
}

// writePart writes the edits of one target in batches, each twice as long as
// the one before, and reads a batch back when it is written: what a broker tells
// only as a whole, its table of groups, is read a few times and not once for
// each group, and a broker that does not keep what it took is noticed at once.
func (c *call) writePart(ctx context.Context, part []*edit, halted func() bool, note func(*edit)) {
	for size := 1; len(part) > 0; size *= 2 {
		batch := part[:min(size, len(part))]
		part = part[len(batch):]
		for rest := batch; len(rest) > 0; {
			n := besides(rest)
			c.writeBeside(ctx, rest[:n], halted, note)
			rest = rest[n:]
		}
		for _, e := range batch {
			if e.sent && e.err == nil && e.verify != nil {
				c.verifyOne(ctx, e)
				note(e)
			}
		}
	}
}

// writesAtOnce is how many edits of one target are written at the same time, at most.
const writesAtOnce = 32

// besides is how many of the edits, from the first on, may be written at the same time.
func besides(edits []*edit) int {
	n := 1
	for n < len(edits) && edits[0].beside != "" && edits[n].beside == edits[0].beside {
		n++
	}
	return n
}

// listedAtOnce is how many things one request writes, at most.
const listedAtOnce = 1000

// writeTogether writes edits of one target that share a word with one request for
// many of them, since a broker saves its table as often as it is asked. What the
// broker refuses, or does not know as a list, it leaves to single requests: they tell
// the good things from the bad.
func (c *call) writeTogether(ctx context.Context, edits []*edit, halted func() bool, note func(*edit)) {
	var todo []*edit
	for _, e := range edits {
		if !e.same && e.listed != nil {
			todo = append(todo, e)
		}
	}
	for part := range slices.Chunk(todo, listedAtOnce) {
		first := part[0]
		if _, singly := c.singly.Load(first.target.Addr + first.beside); len(part) < 2 || singly || ctx.Err() != nil || halted() {
			return
		}
		plans := make([]*planItem, len(part))
		for i, e := range part {
			plans[i] = e.listed
		}
		steadily, done := steady(ctx)
		err := c.writeListed(steadily, first.target, plans)
		done()
		c.memo.forget(first.target.Addr)
		if err != nil && !mayBeThere(err) {
			var refused *admin.Refused
			if errors.As(err, &refused) && refused.Unsupported() {
				c.singly.Store(first.target.Addr+first.beside, true)
			}
			return
		}
		for _, e := range part {
			e.sent, e.err, e.ok = true, err, err == nil
			e.listed.Applied = err == nil
			note(e)
		}
	}
}

// mayBeThere reports whether a request that failed may have been carried out.
func mayBeThere(err error) bool {
	var late *admin.Timeout
	var gone *admin.Unreachable
	var strange *admin.BadAnswer
	return errors.As(err, &late) || errors.As(err, &gone) && gone.Lost || errors.As(err, &strange)
}

// writeBeside writes edits of one target at the same time, and ends when all have ended.
func (c *call) writeBeside(ctx context.Context, edits []*edit, halted func() bool, note func(*edit)) {
	c.writeTogether(ctx, edits, halted, note)
	edits = slices.DeleteFunc(slices.Clone(edits), func(e *edit) bool { return e.sent })
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(writesAtOnce, len(edits)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(edits); i = int(next.Add(1)) - 1 {
				if e := edits[i]; ctx.Err() == nil && (e.same || !halted()) {
					c.writeOne(ctx, e)
					note(e)
				}
			}
		})
	}
	wg.Wait()
}

// verifyOne reads back what was written, also when the user interrupts.
func (c *call) verifyOne(ctx context.Context, e *edit) {
	steadily, done := steady(ctx)
	defer done()
	e.err = e.verify(steadily)
	e.ok = e.err == nil
}

// writeOne finishes what it has begun even when the user interrupts.
func (c *call) writeOne(ctx context.Context, e *edit) {
	if e.same {
		e.ok = true
		return
	}
	steadily, done := steady(ctx)
	defer done()
	e.sent, e.err = e.write(steadily)
	e.ok = e.err == nil
	c.memo.forget(e.target.Addr)
}

// rollBack puts back what was changed before a failure, the last change first.
func (c *call) rollBack(ctx context.Context, r *result, edits []*edit) {
	steadily, done := steady(ctx)
	defer done()
	kept := false
	for _, e := range slices.Backward(edits) {
		if !e.sent {
			continue
		}
		err := fail(ExitFailed, "NO_WAY_BACK", "%s: this change cannot be taken back", e.target)
		if e.revert != nil {
			if back := e.revert(steadily); back != nil {
				err = c.at(back, e.target)
			} else {
				err = nil
			}
		}
		if err != nil {
			m := fail(ExitFailed, "NOT_ROLLED_BACK", "%s keeps the change: %s", e.target, err.Text)
			m.Target, m.Addr = e.target.String(), e.target.Addr
			r.failed(m)
			kept = true
			continue
		}
		if e.ok {
			r.done--
		}
		e.sent, e.ok = false, false
		r.warn(warning("ROLLED_BACK", e.target.String(), "%s has its previous value again", e.target))
	}
	if !kept {
		// Nothing is left of the plan: those that needed no change do not make it a partial success.
		r.change.Applied, r.done = false, 0
	}
	r.rolledBack = true
}

// noteEdits writes the audit line of a plan.
func (c *call) noteEdits(r *result, edits []*edit) {
	var things []auditThing
	for _, e := range edits {
		if e.sent && e.things != nil {
			things = append(things, e.things()...)
		}
	}
	if len(things) > 0 || r.rolledBack {
		c.note(r, things)
	}
}

// wouldChange reports whether a dry run found something to change: items say
// it by "changed", or are there only because they would be.
func (r *result) wouldChange() bool {
	for _, item := range r.items {
		switch v := lookup(item, "changed").(type) {
		case bool:
			if v {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// notVerified is the error of a value that was read back and is another.
func notVerified(t fmt.Stringer, why string) *Message {
	return fail(ExitFailed, "NOT_VERIFIED", "%s took the change, but shows another value", t).because("%s", why)
}
