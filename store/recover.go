package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"mqctl/store/internal/commitlog"
	"mqctl/store/internal/consumequeue"
	"mqctl/store/internal/segfile"
	"mqctl/store/record"
	"mqctl/store/vfs"

	"golang.org/x/sync/errgroup"
)

// recovery finds the end of the log and rebuilds what queues and index lack.
//
// It scans the log from a position before which everything is known to be in
// queues and index. Queues are taken up to that position, checked by their last
// unit, and continued from the records. If one of them turns out to have a gap
// before the position, the scan starts again at the beginning of the log.
type recovery struct {
	s   *Store
	inv *inventory
	rec *Recovery

	mu        sync.Mutex // guards from while queues are loaded in parallel
	from      int64      // where the scan starts
	limit     int64      // units of messages from here on are rebuilt
	full      bool       // the scan starts where the log does
	trusted   bool       // our own clean stop: nothing to doubt
	unknown   bool       // no side file says what of queues is safe on disk
	damaged   bool       // records were lost in the middle
	gap       bool       // a queue had to be cut below the limit
	indexFrom int64      // records from here on go into the index
	holes     []commitlog.Hole
	millis    int64     // newest store time seen
	wrong     []Finding // single units and numbers, a bounded list
	shifted   int       // units that could not get the number of their record
	states    map[*Queue]*queueState
	cut       map[*Queue][]consumequeue.BatchUnit // what did not fit the log, the newest first
	batches   map[*Queue]*batchState
	restored  bool     // the queues are as a snapshot has them
	resumed   bool     // and it is one of a process that was killed: see resume.go
	touched   []*Queue // got units then, in the order of their first one
	buf       []byte
	meter     meter
}

// errGap says that a queue lacks units of records before the scan.
var errGap = errors.New("a queue has a gap before the scanned part of the log")

func (s *Store) recover(inv *inventory, rec *Recovery) error {
	if sn := inv.snapshot; sn != nil && !sn.clean && inv.cut < 0 {
		if err := s.resume(inv, rec, sn); !errors.Is(err, errDoubt) {
			return err
		}
		s.forgetQueues()
	}
	r := &recovery{s: s, inv: inv, rec: rec, trusted: rec.Clean && inv.lastWriter && !inv.removed, states: map[*Queue]*queueState{}, meter: meter{report: s.opt.Progress}}
	if err := r.chooseStart(); err != nil {
		return err
	}
	if err := r.loadQueues(); err != nil {
		return err
	}
	if r.gap || inv.removed {
		if err := r.doubt(); err != nil {
			return err
		}
	}
	if inv.removed {
		r.note("folders or files of queues are gone, all queues are checked against the whole log")
		r.from, r.full = s.log.Min(), true
	}
	end, err := r.scan()
	for errors.Is(err, errGap) { // more than twice only if files are missing
		r.note("a queue lacks entries, all queues are checked against the whole log")
		if err := r.doubt(); err != nil {
			return err
		}
		r.from, r.full, r.shifted, r.wrong = s.log.Min(), true, 0, r.wrong[:0]
		end, err = r.scan()
	}
	if err != nil {
		return err
	}
	r.queueReport()
	// What was deleted may have reached the disk before the messages it was about:
	// new ones will take their places, and those count.
	capDeleted(s.keep.deleted, end)
	if err := s.rewriteLog(r.inv.rewrite, end); err != nil {
		return err
	}
	if err := r.setEnd(end); err != nil {
		return err
	}
	return r.finish(end)
}

// found adds a finding, and its sentence to the notes.
func (r *recovery) found(f Finding) {
	if f.File == "" {
		f.File, f.Offset = r.s.logFile(int64(f.Phys))
	}
	r.rec.add(f)
}

func (r *recovery) note(format string, args ...any) {
	r.rec.Notes = append(r.rec.Notes, fmt.Sprintf(format, args...))
}

// chooseStart decides where to scan from: where our own side file says that all
// before is known, else at the start of the log.
func (r *recovery) chooseStart() error {
	log, p := r.s.log, r.inv.progress
	switch {
	case r.inv.lastWriter && p.dispatched >= log.Min() && p.dispatched <= log.End():
		r.from = p.dispatched
		r.limit = r.from
		if r.millis = r.inv.check.LogicsMillis; r.millis == 0 { // taken back by a recovery that died
			r.millis = r.inv.check.PhysMillis
		}
	default:
		// What queues have is compared with the log, and stays if it is right.
		r.from, r.limit, r.trusted = log.Min(), log.End(), false
		r.unknown = true
		r.inv.holes = nil
	}
	if r.inv.cut >= 0 {
		// Queues that were made anew behind the cut had other entries before it.
		r.from, r.limit, r.trusted = log.Min(), log.Min(), false
		r.inv.holes = nil
	}
	if err := r.startIndex(); err != nil {
		return err
	}
	r.full = r.from <= log.Min()
	return nil
}

// startIndex begins the scan early enough for the index. What it has from
// there on is put in again: that part may be torn or ahead of the log. After the death of
// the process alone it is neither.
func (r *recovery) startIndex() error {
	x := r.s.index
	if x == nil {
		return nil
	}
	if !r.rec.Clean || r.inv.short {
		if !r.resumed {
			if err := x.Truncate(r.from); err != nil {
				return err
			}
		}
	}
	// A file that was damaged, or removed by a recovery that died, takes keys with it.
	index := int64(-1)
	switch {
	case r.resumed:
		index = r.inv.snapshot.index
	case r.inv.lastWriter:
		index = r.inv.progress.index
	}
	if end := x.EndPhys(); index >= r.s.log.Min() && end < index {
		r.from, r.trusted = max(r.s.log.Min(), min(r.from, end)), false
	}
	r.indexFrom = x.EndPhys() + 1
	return nil
}

// loadQueues finds the end of each queue below the limit.
func (r *recovery) loadQueues() error {
	if sn := r.inv.snapshot; sn != nil {
		if r.trusted {
			r.restore(sn)
			return r.raiseRestored(sn)
		}
		if err := r.s.listQueues(r.inv, r.rec); err != nil {
			return err
		}
	}
	if err := r.cutLong(); err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(2 * runtime.GOMAXPROCS(0))
	if len(r.inv.queues) <= syncAlone {
		g.SetLimit(1) // in order, so that a simulation can be repeated
	}
	for _, qf := range r.inv.queues {
		g.Go(func() error {
			q := r.s.Queue(qf.topic, qf.id)
			files, err := r.wholeFiles(q, qf)
			if err != nil {
				return err
			}
			if light(q) {
				return q.cq.Load(files, r.s.log.End())
			}
			if err := q.cq.Load(files, r.limit); err != nil {
				return err
			}
			if err := r.lackingFile(q, files); err != nil {
				return err
			}
			if err := r.finishDeletion(q); err != nil {
				return err
			}
			return r.verify(q)
		})
	}
	return g.Wait()
}

// queueFinding says that the units of q from good to end do not fit the log.
func (r *recovery) queueFinding(q *Queue, good, end int64, kind FindingKind, done string) {
	r.found(Finding{
		Kind: kind, File: r.s.relative(q.cq.Dir()), Offset: good * consumequeue.UnitBytes,
		Phys: -1, Bytes: (end - good) * consumequeue.UnitBytes,
		What: fmt.Sprintf("queue %d of %s: %d entries from number %d on do not fit the log", q.id, q.topic, end-good, good), Done: done,
	})
}

// light queues of Apache (enableLmq) have units of records of other topics. They
// are left as they are: mqctl can read but not rebuild them.
func light(q *Queue) bool { return strings.HasPrefix(q.topic, "%LMQ%") }

// wholeFiles gives files their length: the last one, whose making was interrupted, and
// any that was cut since.
func (r *recovery) wholeFiles(q *Queue, qf queueFiles) ([]segfile.Found, error) {
	files, whole := qf.files, r.inv.fileOf(qf.batch)
	if !slices.ContainsFunc(files, func(f segfile.Found) bool { return f.Size != whole }) {
		return files, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	files, err := r.s.dropEmptyLast(q.cq.Dir(), files, r.rec)
	for i := 0; i < len(files) && err == nil; i++ {
		if files[i].Size == whole {
			continue
		}
		name := filepath.Join(q.cq.Dir(), segfile.Name(files[i].Base))
		r.found(Finding{Kind: ShortFile, File: r.s.relative(name), Offset: files[i].Size, Phys: -1, Bytes: whole - files[i].Size,
			What: fmt.Sprintf("the file has only %d bytes", files[i].Size), Done: "extended with zeros"})
		err = setSize(r.s.opt.FS, name, whole)
	}
	return files, err
}

// lackingFile empties a queue that lacks a file between others: it is made again.
func (r *recovery) lackingFile(q *Queue, files []segfile.Found) error {
	whole := r.inv.fileOf(q.batch)
	for i := 1; i < len(files); i++ {
		missing := files[i-1].Base + whole
		if files[i].Base == missing {
			continue
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.found(Finding{Kind: MissingFile, File: r.s.relative(filepath.Join(q.cq.Dir(), segfile.Name(missing))), Phys: -1,
			Bytes: files[i].Base - missing, What: "it is missing between its neighbours", Done: "the queue is made again from the log"})
		r.inv.removed = true
		return q.cq.Discard(files)
	}
	return nil
}

// finishDeletion removes the files of a queue whose topic was deleted, if the
// process died before it had removed them all: its messages do not count any more.
func (r *recovery) finishDeletion(q *Queue) error {
	pos, deleted := r.s.keep.deleted[q.topic]
	first, end := q.cq.Bounds()
	if !deleted || first == end {
		return nil
	}
	for _, n := range []int64{first, end - 1} {
		u, err := r.anyUnitAt(q, n)
		if err != nil {
			return err
		}
		if !u.IsVoid() && u.Phys < pos {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.trusted = false
			return q.cq.Reset()
		}
	}
	return nil
}

// matches reports whether the record of u is unit number n of q.
func (r *recovery) matches(q *Queue, n int64, u consumequeue.Unit, buf []byte) ([]byte, bool, error) {
	if u.Size < record.MinSize || int64(u.Size) > r.s.log.SegmentBytes() {
		return buf, false, nil
	}
	if cap(buf) < int(u.Size) {
		buf = make([]byte, u.Size)
	}
	buf = buf[:u.Size]
	if ok, err := r.s.log.Read(buf, u.Phys); !ok {
		return buf, false, err
	}
	v, err := record.Parse(buf)
	return buf, err == nil && v.Size() == int(u.Size) && int64(v.PhysOffset()) == u.Phys &&
		string(v.Topic()) == q.topic && v.QueueID() == q.id && int64(v.QueueOffset()) == n, nil
}

// scan replays the records from r.from on and returns the end of the log.
func (r *recovery) scan() (end int64, err error) {
	log := r.s.log
	r.beginHoles()
	r.meter.begin(r.from, log.End())
	sc := r.scanner(r.from)
	last := int64(0) // store time of the record before
	crossed := 0     // by scanners before sc
	defer func() {
		r.rec.FilesChecked += crossed + sc.Crossed()
		sc.Close()
	}()
	for {
		v, err := sc.Next()
		var bad *commitlog.BadError
		switch {
		case err == nil && r.revived(v, last):
			return int64(v.PhysOffset()), nil
		case err == nil:
			last = v.StoreMillis()
			r.millis = max(r.millis, last)
			if err := r.replay(v); err != nil {
				return 0, err
			}
			r.meter.at(sc.Pos())
			continue
		case errors.Is(err, io.EOF):
			return sc.Pos(), nil
		case !errors.As(err, &bad):
			return 0, err
		}
		next, more, err := r.pass(bad, last)
		if err != nil {
			return 0, err
		}
		if !more {
			return bad.Pos, nil
		}
		crossed += sc.Crossed()
		sc.Close()
		sc = r.scanner(next)
	}
}

// scanner reads the records from pos on: a long way with another goroutine ahead.
func (r *recovery) scanner(pos int64) recordScanner {
	if r.s.log.End()-pos >= commitlog.AheadBytes {
		return r.s.log.ScanAhead(pos)
	}
	return stepScanner{r.s.log.Scan(pos, false)}
}

// recordScanner is a commitlog.Scanner or a commitlog.Ahead.
type recordScanner interface {
	Next() (record.View, error)
	Pos() int64
	Crossed() int
	Close()
}

type stepScanner struct{ *commitlog.Scanner }

func (s stepScanner) Crossed() int { return s.Scanner.Crossed }
func (s stepScanner) Close()       {}

// revivedMillis is how much older than the one before it a record must be that a cut
// is thought to have left: clocks are set back by less.
const revivedMillis = 3000

// revived says that a record and what follows were cut off by a recovery of Apache, which
// does not zero what it cuts, and only line up with a newer record: they lie behind the
// end of that recovery, and are older than what was stored after it.
func (r *recovery) revived(v record.View, last int64) bool {
	confirm, pos := r.inv.check.ConfirmPhys, int64(v.PhysOffset())
	if r.inv.lastWriter || confirm <= 0 || pos <= confirm || v.StoreMillis() >= last-revivedMillis {
		return false
	}
	r.found(Finding{Kind: StaleRecords, Phys: v.PhysOffset(),
		What: fmt.Sprintf("records from %d on were cut off by an earlier recovery (it ended behind %d) and are older than what was stored after it", pos, confirm),
		Done: "not taken"})
	return true
}

// pass finds where the log goes on behind a bad place, and notes the hole. Not
// more means that it ends there.
func (r *recovery) pass(bad *commitlog.BadError, last int64) (next int64, more bool, err error) {
	if r.resumed {
		if _, more, err = r.behind(bad, last); more && err == nil {
			err = errDoubt
		}
		return 0, false, err
	}
	if v, ok, err := r.misplaced(bad, last); ok || err != nil {
		if err == nil {
			r.millis = max(r.millis, v.StoreMillis())
			r.addHole(commitlog.Hole{From: bad.Pos, To: bad.Next, StoreMillis: v.StoreMillis(), Kept: true})
			err = r.replay(v)
		}
		return bad.Next, true, err
	}
	next, more, err = r.behind(bad, last)
	if err != nil || !more || r.leave(bad, next) {
		return 0, false, err
	}
	if last <= 0 { // nothing good before: the time of what follows
		last = r.s.storeTimeAt(next)
	}
	r.damaged = true
	r.addHole(commitlog.Hole{From: bad.Pos, To: next, StoreMillis: max(last, 1)})
	return next, true, nil
}

// behind looks for good records behind a bad place. Older ones than what came
// before it are left from an earlier life of the file, unless a queue knows them.
func (r *recovery) behind(bad *commitlog.BadError, last int64) (next int64, more bool, err error) {
	if r.trusted {
		return 0, false, nil
	}
	log := r.s.log
	if bad.Next > 0 {
		v, err := log.Scan(bad.Next, false).Next()
		if err == nil && v.StoreMillis() >= last {
			return bad.Next, true, nil
		}
		if err != nil && !commitlog.NoRecord(err) {
			return 0, false, err
		}
	}
	next, more, err = log.FindRecord(bad.Pos)
	if err != nil || !more {
		return 0, false, err
	}
	v, err := log.Scan(next, false).Next()
	if err != nil {
		return 0, false, err
	}
	has, err := r.queueHas(v, next)
	if err != nil {
		return 0, false, err
	}
	if v.StoreMillis() < last && !has {
		r.found(Finding{Kind: StaleRecords, Phys: record.PhysOffset(next),
			What: fmt.Sprintf("records behind the end %d are older than it: left from an earlier life of the file", bad.Pos), Done: "not taken"})
		return 0, false, nil
	}
	return next, true, nil
}

// queueHas reports whether the queue of a record has a unit that leads to it.
func (r *recovery) queueHas(v record.View, pos int64) (bool, error) {
	q := r.s.Lookup(v.Topic(), v.QueueID())
	if q == nil {
		return false, nil
	}
	first, end := q.cq.Bounds()
	n := int64(v.QueueOffset())
	if n < first || n >= end {
		return false, nil
	}
	u, err := r.unitAt(q, n)
	if consumequeue.Missing(err) {
		return false, nil
	}
	return err == nil && u.Phys == pos && int(u.Size) == v.Size(), err
}

// misplaced is the record at a bad place if nothing of it is wrong but the position
// that it states, which no checksum covers: it is whole, the next one follows
// right behind in time, and it has its place in its queue. Its view states the true
// position.
func (r *recovery) misplaced(bad *commitlog.BadError, last int64) (v record.View, ok bool, err error) {
	if bad.Next <= 0 || !errors.Is(bad, commitlog.ErrPosition) {
		return v, false, nil
	}
	if v, ok, err = r.s.log.Misplaced(bad.Pos, bad.Next); !ok || err != nil {
		return v, false, err
	}
	after, err := r.s.log.Scan(bad.Next, false).Next()
	if err != nil && !commitlog.NoRecord(err) {
		return v, false, err
	}
	if err != nil || v.StoreMillis() < last || after.StoreMillis() < v.StoreMillis() {
		return v, false, nil
	}
	if has, err := r.queueHas(v, bad.Pos); has || err != nil {
		return v, has, err
	}
	q := r.s.Lookup(v.Topic(), v.QueueID())
	if q == nil {
		return v, false, nil
	}
	_, end := q.cq.Bounds()
	return v, end == int64(v.QueueOffset()), nil
}

// finish gives the queues their final ends and notes the new state on disk.
func (r *recovery) finish(end int64) error {
	s := r.s
	s.lastMillis = r.millis
	s.storedMillis.Store(r.millis)
	s.flushedMillis.Store(r.millis)
	s.dispatchedMillis = r.millis
	s.queuedEnd.Store(end)
	s.dispatched.Store(end)
	if err := r.finishHoles(end); err != nil {
		return err
	}
	var failed error
	minPhys := s.log.Min()
	s.queues.each(func(q *Queue) {
		if failed == nil && !r.restored {
			failed = r.finishQueue(q, minPhys)
		}
	})
	if failed == nil && r.resumed {
		failed = r.finishTouched(minPhys)
	}
	if failed != nil {
		return failed
	}
	for _, q := range s.disp.arrived {
		q.arrived = false
	}
	s.disp.arrived = nil
	s.keep.lastMark = time.Now()
	if len(s.log.Bases()) == 0 && r.inv.fresh {
		return nil // a new store: the first mark comes with the first messages
	}
	if r.defers() {
		r.leaveSyncs()
		return nil
	}
	if r.unknown {
		if err := r.syncAll(); err != nil {
			return err
		}
	}
	return s.mark(false)
}

// syncAll makes all queue files and their names safe. Whoever wrote them may have been
// killed before it did, and what is read here may be on no disk.
func (r *recovery) syncAll() error {
	if r.resumed { // queues are not listed
		if err := r.s.disk.Sync(); err != nil {
			return &vfs.SyncError{Err: err}
		}
		return nil
	}
	fsys := r.s.opt.FS
	dirs := map[string]bool{}
	var g errgroup.Group
	g.SetLimit(1)
	if len(r.inv.queues) > r.s.opt.syncAlone {
		g.SetLimit(syncParallel)
	}
	disk := r.s.disk
	if len(r.inv.queues) > r.s.opt.syncAlone && disk != nil && r.inv.rewrite < 0 { // else they are written again
		if err := disk.Sync(); err != nil {
			return &vfs.SyncError{Err: err}
		}
	} else {
		disk = nil
	}
	err := r.eachFile(func(dir string, found segfile.Found) {
		if disk != nil && disk.Holds(filepath.Join(dir, segfile.Name(found.Base))) {
			return
		}
		topic := filepath.Dir(dir)
		dirs[dir], dirs[topic], dirs[filepath.Dir(topic)], dirs[r.s.opt.Dir] = true, true, true, true
		g.Go(func() error { return r.syncFile(filepath.Join(dir, segfile.Name(found.Base))) })
	})
	if err := errors.Join(err, g.Wait()); err != nil {
		return err
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if err := fsys.SyncDir(dir); err != nil {
			return &vfs.SyncError{Err: err}
		}
	}
	return nil
}

// eachFile calls f for the files of all queues and of their extensions.
func (r *recovery) eachFile(f func(dir string, found segfile.Found)) error {
	for _, qf := range r.inv.queues {
		dir := r.s.Queue(qf.topic, qf.id).cq.Dir()
		for _, found := range qf.files {
			f(dir, found)
		}
	}
	if !r.s.hasExt {
		return nil
	}
	return r.s.eachQueueDir(r.s.extDir(), func(_ string, _ int32, dir string) error {
		files, _, err := segfile.List(r.s.opt.FS, dir)
		for _, found := range files {
			f(dir, found)
		}
		return err
	})
}

// syncFile makes a queue file safe.
func (r *recovery) syncFile(name string) error {
	f, err := r.s.opt.FS.OpenReadWrite(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since
	}
	if err != nil {
		return err
	}
	defer f.Close() // synced here
	if r.inv.rewrite >= 0 {
		if err := rewriteUnits(f); err != nil {
			return err
		}
	}
	if err := f.Datasync(); err != nil {
		return &vfs.SyncError{Err: err}
	}
	return nil
}

func (r *recovery) finishQueue(q *Queue, minPhys int64) error {
	if !r.trusted {
		if err := r.cutQueue(q); err != nil {
			return err
		}
		if err := r.keepNumbers(q); err != nil {
			return err
		}
		if err := q.cq.Settle(); err != nil {
			return err
		}
	}
	_, end := q.cq.Bounds()
	first, err := q.cq.FirstFrom(minPhys)
	if err == nil && q.batch {
		first, end, err = batchBounds(q, first)
	}
	if err != nil {
		return err
	}
	q.min.Store(first)
	q.max.Store(end)
	q.next.Store(end)
	if !r.trusted {
		r.s.touch(q)
	}
	return nil
}

// cutQueue drops the units that lead behind the end of the log, which is known by
// now: what they led to was torn in its body only, or lies behind damage.
func (r *recovery) cutQueue(q *Queue) error {
	first, end := q.cq.Bounds()
	if first == end {
		return nil
	}
	if !q.batch {
		u, err := r.unitAt(q, end-1)
		if err != nil || u.IsVoid() || u.Phys < r.s.log.End() {
			return err
		}
	}
	good, err := q.cq.FirstFrom(r.s.log.End())
	if err != nil || good >= end {
		return err
	}
	q.cq.Cut(good)
	r.queueFinding(q, good, end, QueueAhead, "cut off")
	return nil
}

// leave says that good records behind damage are left to the master, which has
// them and what is damaged here too. Damage in what was safe on disk becomes a hole
// like in a master, since all behind it would have to be copied again.
func (r *recovery) leave(bad *commitlog.BadError, next int64) bool {
	if !r.s.opt.Replica || r.inv.lastWriter && bad.Pos < r.inv.progress.log {
		return false
	}
	r.note("the log is damaged from %d to %d (%v): it is cut there, the master has what follows", bad.Pos, next, bad.Err)
	return true
}
