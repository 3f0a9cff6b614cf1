package inspect

import (
	"fmt"
	"path/filepath"
	"sort"

	"mqctl/store"
	"mqctl/store/record"
)

// finishQueues reports what the scan of the log found about the queues.
func (v *verifier) finishQueues() error {
	sort.SliceStable(v.checks, func(i, j int) bool {
		a, b := v.checks[i], v.checks[j]
		return a.topic < b.topic || a.topic == b.topic && a.id < b.id
	})
	if !v.s.opt.Live { // the files of a new queue come with its first entries
		v.missingQueues()
	}
	below, queues := int64(0), 0
	for _, c := range v.checks {
		if c.below > 0 {
			below += c.below
			queues++
		}
		if c.q == nil {
			continue
		}
		v.report(c)
		if err := v.unclaimed(c); err != nil {
			return err
		}
		c.q.drop()
	}
	if below > 0 {
		f := notLog(LogBegins, v.s.relative(v.s.opt.CommitLogDir),
			"the log begins at %d: %d entries of %d queues lead to messages before it, as after the deletion of old files", v.s.LogMin(), below, queues)
		f.Phys = record.PhysOffset(v.s.LogMin())
		v.find(Found{Finding: f, Severity: Note, Count: below})
	}
	return nil
}

// missingQueues reports queues without any entry although the log has messages of theirs:
// once for the folder of all, or of a topic.
func (v *verifier) missingQueues() {
	type lost struct {
		queues, all int
		records     int64
		phys        int64
	}
	topics := map[string]*lost{}
	var names []string
	total, have := int64(0), 0
	for _, c := range v.checks {
		t := topics[c.topic]
		if t == nil {
			t = &lost{phys: -1}
			topics[c.topic] = t
			names = append(names, c.topic)
		}
		t.all++
		if c.q != nil {
			have++
			continue
		}
		t.queues++
		t.records += c.behind.n
		total += c.behind.n
		if c.behind.n > 0 && (t.phys < 0 || c.behind.phys < t.phys) {
			t.phys = c.behind.phys
		}
	}
	if have == 0 && total > 0 {
		f := notLog(store.MissingFile, "consumequeue", "there are no queues, the log has %d messages of %d topics: a start makes them anew", total, len(names))
		v.find(Found{Finding: f, Severity: Repair, Count: total})
		return
	}
	for _, topic := range names {
		t := topics[topic]
		if t.records == 0 {
			continue
		}
		file := filepath.ToSlash(filepath.Join("consumequeue", topic))
		f := notLog(store.MissingFile, file, "%d of %d queues are missing, the log has %d messages of them: a start makes them anew", t.queues, t.all, t.records)
		f.Phys = record.PhysOffset(t.phys)
		sev := Repair
		if v.known != nil && !v.known[topic] {
			f.Kind, sev = EarlierLife, Note
			f.What = fmt.Sprintf("the log has %d messages of a topic that is not configured and has no queues: it was deleted", t.records)
		}
		v.find(Found{Finding: f, Severity: sev, Count: t.records})
	}
}

// report tells of what was counted in one queue.
func (v *verifier) report(c *queueCheck) {
	say := func(t *tally, kind store.FindingKind, sev Severity, try, format string, args ...any) {
		if t.n == 0 {
			return
		}
		file, off := c.q.place(t.entry)
		f := store.Finding{Kind: kind, File: file, Offset: off, Phys: record.PhysOffset(t.phys), Try: try}
		f.Bytes = t.n * c.q.Type.unitBytes()
		f.What = fmt.Sprintf("queue %d of %s: ", c.id, c.topic) + fmt.Sprintf(format, args...)
		if t.text != "" {
			f.What += ": " + t.text
		}
		v.find(Found{Finding: f, Severity: sev, Count: t.n})
	}
	say(&c.front, QueueBegins, Repair, tryStart, "begins at %d, but the log has %d messages before, from number %d on", c.first, c.front.n, c.front.entry)
	say(&c.void, QueueVoid, Damage, tryRebuild, "%d entries from %d on are blank although the log has their messages", c.void.n, c.void.entry)
	say(&c.middle, store.QueueBehind, Damage, tryRebuild, "%d messages of the log have no entry, first number %d", c.middle.n, c.middle.entry)
	say(&c.behind, store.QueueBehind, Repair, "", "ends at %d, but the log has %d messages more, from number %d on", c.end, c.behind.n, c.behind.entry)
	say(&c.number, store.WrongNumber, Note, "", "%d records state another number than their entry has", c.number.n)
	say(&c.tag, QueueWrongTag, Damage, tryRebuild, "%d entries from %d on have a tag code that is not of their record", c.tag.n, c.tag.entry)
	say(&c.ext, ExtDamaged, Repair, "", "%d entries from %d on: filters let their messages pass", c.ext.n, c.ext.entry)
	say(&c.earlier, EarlierLife, Note, "", "the log has %d messages from before the topic was deleted and made again", c.earlier.n)
}

// wrong are entries that lead nowhere.
type wrong struct {
	ahead, entry tally
}

// unclaimed reads a queue again if it has entries that no record owns.
func (v *verifier) unclaimed(c *queueCheck) error {
	if v.noLogs || c.end-c.first-c.voids-c.below <= c.claimed {
		return nil
	}
	var w wrong
	err := c.q.Each(c.first, func(n int64, e Entry) (bool, error) {
		if e.Void() || e.Phys < v.s.LogMin() {
			return true, nil
		}
		return true, v.judge(c, n, e, &w)
	})
	if err != nil {
		return err
	}
	v.sayWrong(c, &w.ahead, store.QueueAhead, Repair, "",
		fmt.Sprintf("%d entries from %d on lead to where the log has no record: it ends at %d", w.ahead.n, w.ahead.entry, v.rep.LogEnd))
	v.sayWrong(c, &w.entry, store.QueueWrongEntry, Damage, tryRebuild,
		fmt.Sprintf("%d entries do not lead to their message, first number %d", w.entry.n, w.entry.entry))
	return nil
}

func (v *verifier) sayWrong(c *queueCheck, t *tally, kind store.FindingKind, sev Severity, try, what string) {
	if t.n == 0 {
		return
	}
	file, off := c.q.place(t.entry)
	f := store.Finding{Kind: kind, File: file, Offset: off, Phys: record.PhysOffset(t.phys), Bytes: t.n * c.q.Type.unitBytes(), Try: try}
	f.What = fmt.Sprintf("queue %d of %s: %s", c.id, c.topic, what)
	if t.text != "" {
		f.What += ": " + t.text
	}
	v.find(Found{Finding: f, Severity: sev, Count: t.n})
}

// judge decides what an entry is that perhaps nobody owns.
func (v *verifier) judge(c *queueCheck, n int64, e Entry, w *wrong) error {
	if e.Phys >= v.rep.LogEnd || e.Phys+int64(e.Size) > v.rep.LogEnd && v.rep.LogEnd > 0 {
		w.ahead.add(n, e.Phys, "")
		return nil
	}
	if v.inHole(e.Phys) {
		return nil
	}
	r, ok, err := v.s.recordAt(e.Phys, e.Size)
	if err != nil {
		return err
	}
	switch {
	case !ok:
		w.entry.add(n, e.Phys, fmt.Sprintf("at %d is no record of %d bytes", e.Phys, e.Size))
	case c.light:
	case string(r.Topic()) != c.topic || r.QueueID() != c.id:
		w.entry.add(n, e.Phys, fmt.Sprintf("at %d is message %d of queue %d of %s", e.Phys, r.QueueOffset(), r.QueueID(), r.Topic()))
	}
	return nil
}
