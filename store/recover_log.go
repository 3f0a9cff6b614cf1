package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mqctl/store/internal/commitlog"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/internal/segfile"
	"mqctl/store/record"
)

// meter tells how far a scan is, at most once in a while.
type meter struct {
	report      func(done, total int64)
	from, total int64
	next        int64
}

// meterBytes is how much is scanned between two reports.
const meterBytes = 16 << 20

func (m *meter) begin(from, end int64) {
	m.from, m.total, m.next = from, end-from, from+meterBytes
}

func (m *meter) at(pos int64) {
	if pos < m.next || m.report == nil {
		return
	}
	m.next = pos + meterBytes
	m.report(pos-m.from, m.total)
}

// beginHoles starts a scan's list: known holes before it, and missing files.
func (r *recovery) beginHoles() {
	log := r.s.log
	r.holes = nil
	for _, h := range r.inv.holes {
		if h.To > log.Min() && h.To <= r.from {
			r.holes = append(r.holes, h)
		}
	}
	r.damaged = len(r.holes) > 0
	bases := log.Bases()
	for i := 1; i < len(bases); i++ {
		if want := bases[i-1] + log.SegmentBytes(); bases[i] != want {
			r.damaged = true
			millis := max(r.s.storeTimeAt(bases[i]), 1)
			r.addHole(commitlog.Hole{From: want, To: bases[i], StoreMillis: millis, Missing: true})
		}
	}
}

// addHole notes a hole. One that was known keeps its time, so that its filler stays
// the same.
func (r *recovery) addHole(h commitlog.Hole) {
	for _, old := range r.inv.holes {
		if old.From == h.From && old.To == h.To {
			h.StoreMillis = old.StoreMillis
		}
	}
	r.holes = append(r.holes, h)
}

// finishHoles makes the list of holes safe and reports each.
func (r *recovery) finishHoles(end int64) error {
	holes := sortHoles(slices.DeleteFunc(r.holes, func(h commitlog.Hole) bool { return h.To > end }))
	for _, h := range holes {
		r.rec.Findings = append(r.rec.Findings, r.s.holeFinding(h))
		if !slices.Contains(r.inv.holes, h) {
			r.rec.Notes = append(r.rec.Notes, r.s.holeFinding(h).String())
		}
	}
	return r.s.setHoles(holes)
}

// holeFinding describes a hole.
func (s *Store) holeFinding(h commitlog.Hole) Finding {
	f := Finding{
		Kind: Damaged, Phys: record.PhysOffset(h.From), Bytes: h.To - h.From,
		What: fmt.Sprintf("the log is damaged from %d to %d: messages there are lost, those behind it are kept", h.From, h.To),
		Done: "left as it is, readers pass over it", Try: "mqctl store repair " + s.opt.Dir + " --fill",
	}
	f.File, f.Offset = s.logFile(h.From)
	switch {
	case h.Missing:
		f.Kind, f.Done = MissingFile, "readers pass over it"
		f.What = fmt.Sprintf("commit log files from %d to %d are missing: their messages are lost", h.From, h.To)
	case h.Kept:
		f.Kind, f.Done = WrongPosition, "served from its queue; keys do not lead to it"
		f.What = fmt.Sprintf("the record at %d states another position, all else of it is right", h.From)
	}
	return f
}

// setEnd ends the log behind its last good record: an unfinished write there is
// copied aside and zeroed, later files are moved aside. If more than one file would
// lose bytes that were safe, a human decides.
func (r *recovery) setEnd(end int64) error {
	s := r.s
	tail, err := s.log.Behind(end, r.trusted)
	if err != nil {
		return err
	}
	files := len(tail.Files)
	if tail.Bytes > 0 {
		files++
	}
	if files > 1 && !r.mayCut(end) {
		return r.tooMuch(end, tail)
	}
	if err := r.copyTail(end, tail.Bytes); err != nil {
		return fmt.Errorf("keep a copy of what lies behind the end of the log: %w", err)
	}
	safe := int64(-1)
	if r.defers() && !s.opt.SyncFlush && files == 0 {
		safe = r.inv.progress.log
	}
	if err := s.log.SetEnd(end, tail, s.ownDir, safe); err != nil {
		return err
	}
	r.rec.CutBytes = tail.Bytes
	for _, base := range tail.Files {
		r.found(Finding{
			Kind: Damaged, Phys: record.PhysOffset(base), Bytes: s.log.SegmentBytes(),
			What: "no record can be read in this file behind the end of the log",
			Done: "moved to mqctl/commitlog-" + segfile.Name(base),
		})
	}
	return nil
}

// mayCut says that the bytes of several files behind end may go: they were
// written after the last mark, of which a power loss leaves what it likes, or the
// master has them.
func (r *recovery) mayCut(end int64) bool {
	return r.s.opt.CutFiles || r.s.opt.Replica || r.inv.lastWriter && end >= r.inv.progress.log
}

func (r *recovery) tooMuch(end int64, tail commitlog.Tail) error {
	var names []string
	for _, base := range tail.Files {
		names = append(names, segfile.Name(base))
	}
	file, at := r.s.logFile(end)
	return &DamagedError{
		What:  fmt.Sprintf("the log would end at %d, and what lies behind it would be cut: %d bytes of this file, and all of %s", at, tail.Bytes, strings.Join(names, ", ")),
		Where: filepath.Join(r.s.opt.Dir, filepath.FromSlash(file)),
		Try:   "mqctl store repair " + r.s.opt.Dir,
		Err:   errors.New("no crash leaves that: a wrong disk may be mounted, or files come from another store"),
	}
}

// copyTail keeps n bytes from end on in a file of ownDir.
func (r *recovery) copyTail(end, n int64) error {
	if n == 0 {
		return nil
	}
	s := r.s
	name, err := s.asideName("tail", end, end+n)
	if err != nil {
		return err
	}
	if err := s.log.CopyOut(s.asideTemp(), end, end+n); err != nil {
		return err
	}
	if err := s.opt.FS.Rename(s.asideTemp(), filepath.Join(s.ownDir, name)); err != nil {
		return err
	}
	if err := s.opt.FS.SyncDir(s.ownDir); err != nil {
		return err
	}
	r.found(Finding{
		Kind: TornTail, Phys: record.PhysOffset(end), Bytes: n,
		What: fmt.Sprintf("the log ends at %d, behind it lies an unfinished write", end),
		Done: "copied to mqctl/" + name + " and zeroed",
	})
	return nil
}

// maxWrong is how many units and numbers are named one by one, and of how many
// queues it is said that they lacked some.
const maxWrong = 64

// misnumbered notes a record that states another number than it has in its queue.
func (r *recovery) misnumbered(e *entry) {
	if r.shifted++; r.shifted > maxWrong {
		return
	}
	f := Finding{Kind: WrongNumber, Phys: record.PhysOffset(e.phys), Bytes: int64(e.size),
		What: fmt.Sprintf("a message of queue %d of %s states the number %d, which is not its place", e.q.id, e.q.topic, e.offset),
		Done: "its place counts"}
	f.File, f.Offset = r.s.logFile(e.phys)
	r.wrong = append(r.wrong, f)
}

// wrongUnit notes a unit that leads to another message than its own.
func (r *recovery) wrongUnit(e *entry, old consumequeue.Unit) {
	if len(r.wrong) >= 2*maxWrong {
		return
	}
	r.wrong = append(r.wrong, Finding{
		Kind: QueueWrongEntry, File: r.s.relative(e.q.cq.Dir()), Offset: e.offset * consumequeue.UnitBytes, Phys: -1, Bytes: consumequeue.UnitBytes,
		What: fmt.Sprintf("entry %d of queue %d of %s leads to %d, its message is at %d", e.offset, e.q.id, e.q.topic, old.Phys, e.phys),
		Done: "written again",
	})
}

// queueReport says what the scan changed in queues. What it adds behind the last
// mark is no finding.
func (r *recovery) queueReport() {
	for _, f := range r.wrong {
		r.found(f)
	}
	if r.shifted > maxWrong {
		r.note("%d more messages state another number than the one they have in their queue", r.shifted-maxWrong)
	}
	if !r.full || r.s.log.Min() >= r.s.log.End() || r.inv.lastWriter && r.inv.progress.dispatched <= r.s.log.Min() {
		return
	}
	var list []Finding
	units := int64(0)
	for q, st := range r.states {
		if st.made == 0 {
			continue
		}
		units += st.made
		list = append(list, Finding{
			Kind: QueueBehind, File: r.s.relative(q.cq.Dir()), Phys: -1, Bytes: st.made * consumequeue.UnitBytes,
			What: fmt.Sprintf("queue %d of %s lacked %d entries", q.id, q.topic, st.made), Done: "made from the log",
		})
	}
	slices.SortFunc(list, func(a, b Finding) int { return strings.Compare(a.File, b.File) })
	if len(list) > maxWrong {
		list = []Finding{{
			Kind: QueueBehind, File: r.s.relative(r.s.queueDir), Phys: -1, Bytes: units * consumequeue.UnitBytes,
			What: fmt.Sprintf("%d queues lacked %d entries", len(list), units), Done: "made from the log",
		}}
	}
	for _, f := range list {
		r.found(f)
	}
}
