package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sort"

	"mqctl/store"
	"mqctl/store/internal/commitlog"
	"mqctl/store/internal/segfile"
	"mqctl/store/record"
)

// Report is what a verification looked at.
type Report struct {
	LogMin, LogEnd int64 // positions of the first byte and behind the last record
	Records        int64
	RecordBytes    int64
	Fillers        int64 // records that stand in the place of damage that was repaired
	LogFiles       int
	Queues         int
	QueueEntries   int64
	IndexFiles     int
	IndexEntries   int64
	Findings       int64
	Worst          Severity // "" if nothing was found
	Files          []FileReport
}

// FileReport is what one file of the log holds.
type FileReport struct {
	File
	Records     int64
	First, Last int64 // position of its first record and behind its last; -1 if it has none
}

// verifier is one run of Verify.
type verifier struct {
	s    *Store
	rep  Report
	out  func(Found)
	ctx  context.Context
	plan int64 // bytes to read of the log
	told int64 // position at the last progress
	file int   // of rep.Files, where the scan is

	topics  map[string]map[int32]*queueCheck
	checks  []*queueCheck
	holes   []span // damaged parts of the log, in order
	missing []span // where files of the log are missing, in order
	index   *indexCheck
	deleted map[string]int64 // by the side file: topic -> records before do not count
	known   map[string]bool  // topics of config/topics.json, nil if it cannot be read

	props        props
	lastEnd      int64 // behind the record before
	lastAt       int64 // where the record before begins, -1 at first
	lastMs       int64
	back         Found        // records older than the one before
	killed       bool         // the file abort is there
	repaired     bool         // a repair wrote it, and removed the checkpoint
	missesDelays bool         // config/delayOffset.json is not there although there are queues
	listed       []store.Hole // by the file mqctl/holes
	noLogs       bool         // the log is gone, so nothing can be said about queues and index
}

type span struct{ from, to int64 }

// Verify checks everything and calls found for each thing it found, without changing
// anything. The error is that of the context or one of the disk: then the report is
// of what was read until then.
func (s *Store) Verify(ctx context.Context, found func(Found)) (Report, error) {
	v := s.verifier(ctx, found)
	v.plan = s.logCapacity() - s.LogMin()
	rep, err := v.run(v.kinds, v.names, v.sideFiles, v.config, v.journals, v.loadQueues, v.startIndex, v.scan, v.finishLog, v.listedHoles, v.finishQueues, v.finishIndex, v.checkpoint, v.delays, v.timers)
	if err == nil && s.opt.Progress != nil {
		s.opt.Progress(v.plan, v.plan)
	}
	return rep, err
}

// VerifyLight is Verify without reading the log, its queues and its index: names and
// sizes of files, the configuration, mqctl's own files. It takes milliseconds, whatever
// the size of the store.
func (s *Store) VerifyLight(ctx context.Context, found func(Found)) (Report, error) {
	v := s.verifier(ctx, found)
	return v.run(v.kinds, v.names, v.sideFiles, v.config, v.journals, v.listedInFiles)
}

func (s *Store) verifier(ctx context.Context, found func(Found)) *verifier {
	v := &verifier{s: s, out: found, ctx: ctx, topics: map[string]map[int32]*queueCheck{}, lastAt: -1}
	v.rep.LogMin, v.rep.LogFiles, v.rep.Queues = s.LogMin(), len(s.logFiles), len(s.queues)
	for _, f := range s.LogFiles() {
		v.rep.Files = append(v.rep.Files, FileReport{File: f, First: -1, Last: -1})
	}
	return v
}

// run takes the steps of a verification.
func (v *verifier) run(steps ...func() error) (Report, error) {
	for _, step := range steps {
		if err := v.ctx.Err(); err != nil {
			return v.rep, err
		}
		if err := step(); err != nil {
			return v.rep, err
		}
	}
	return v.rep, nil
}

// find passes a finding on.
func (v *verifier) find(f Found) {
	if v.s.opt.Live && livesWith(f.Kind) {
		return
	}
	v.rep.Findings++
	if Worse(f.Severity, v.rep.Worst) {
		v.rep.Worst = f.Severity
	}
	v.out(f)
}

// livesWith reports whether a running broker has such a thing by itself: what
// is on its way to the disk.
func livesWith(k store.FindingKind) bool {
	return slices.Contains([]store.FindingKind{
		store.TornTail, store.QueueBehind, store.QueueAhead, IndexBehind, IndexAhead, NotStopped, QueueTail, EmptyFile, ZeroFile, SpareFile,
	}, k)
}

func notLog(kind store.FindingKind, file, format string, args ...any) store.Finding {
	return store.Finding{Kind: kind, File: file, Phys: -1, What: fmt.Sprintf(format, args...)}
}

// inLog is a finding at a position of the log.
func (v *verifier) inLog(kind store.FindingKind, pos, bytes int64, format string, args ...any) store.Finding {
	file, off := v.s.logPlace(pos)
	return store.Finding{Kind: kind, File: file, Offset: off, Phys: record.PhysOffset(pos), Bytes: bytes, What: fmt.Sprintf(format, args...)}
}

const (
	tryMove    = "move it away"
	tryRestore = "restore it from a replica or a backup"
	tryRebuild = "mqctl store repair DIR"
	tryStart   = "start the broker: it makes the queue again from the log"
	tryFill    = "mqctl store repair DIR --fill"
)

// names checks names and sizes of the log's files, and what has no place.
func (v *verifier) names() error {
	s := v.s
	for _, path := range s.strange {
		f := notLog(store.StrangeFile, s.relative(path), "is no data file; mqctl passes over it, RocketMQ does not start with it")
		f.Try = tryMove
		v.find(Found{Finding: f, Severity: Note})
	}
	if len(s.logFiles) == 0 {
		return v.noLog()
	}
	return v.logNames()
}

func (v *verifier) noLog() error {
	for _, q := range v.s.queues {
		if len(q.files) > 0 {
			f := notLog(store.MissingFile, v.s.relative(v.s.opt.CommitLogDir), "there is no commit log although there are queues: all messages are gone")
			f.Phys, f.Try = 0, "mount or restore the commit log; mqctl store repair DIR gives up all messages"
			v.find(Found{Finding: f, Severity: Damage})
			v.noLogs = true
			return nil
		}
	}
	return nil
}

func (v *verifier) logNames() error {
	s := v.s
	for i, lf := range s.logFiles {
		name := s.relative(filepath.Join(s.opt.CommitLogDir, segfile.Name(lf.Base)))
		last := i == len(s.logFiles)-1
		f := store.Finding{File: name, Phys: record.PhysOffset(lf.Base)}
		switch {
		case lf.Base%s.segBytes != 0:
			f.Kind, f.What, f.Try = store.StrangeFile, fmt.Sprintf("its name is not a multiple of the file size %d", s.segBytes), tryMove
			v.find(Found{Finding: f, Severity: Damage})
		case lf.Size == 0:
			f.Kind, f.What = EmptyFile, "has no content: its making was interrupted"
			v.find(Found{Finding: f, Severity: Note})
		case lf.Size < s.segBytes:
			f.Kind, f.Bytes, f.Offset = store.ShortFile, s.segBytes-lf.Size, lf.Size
			f.What = fmt.Sprintf("has %d bytes instead of %d", lf.Size, s.segBytes)
			sev := Repair // a start extends the last one
			if !last {
				sev, f.Try = Damage, tryRestore+", or "+tryRebuild
			}
			v.find(Found{Finding: f, Severity: sev})
		case lf.Size > s.segBytes:
			f.Kind, f.Try = OddSize, tryRebuild
			f.Bytes, f.Offset = lf.Size-s.segBytes, s.segBytes
			f.What = fmt.Sprintf("has %d bytes, but the files here have %d", lf.Size, s.segBytes)
			v.find(Found{Finding: f, Severity: Damage})
		}
	}
	bases := s.log.Bases()
	for i := 1; i < len(bases); i++ {
		for want := bases[i-1] + s.segBytes; want < bases[i]; want += s.segBytes {
			f := v.inLog(store.MissingFile, want, s.segBytes, "is missing between its neighbours: its messages are lost")
			f.Try = tryRestore + ", or " + tryFill
			v.find(Found{Finding: f, Severity: Damage})
		}
		if end := bases[i-1] + s.segBytes; end < bases[i] {
			v.missing = append(v.missing, span{end, bases[i]})
		}
	}
	return nil
}

// scan reads the log.
func (v *verifier) scan() error {
	log := v.s.log
	sc := log.Scan(v.s.LogMin(), false)
	for {
		rec, err := sc.Next()
		var bad *commitlog.BadError
		switch {
		case err == nil:
			if err := v.record(rec); err != nil {
				return err
			}
		case errors.Is(err, io.EOF):
			v.rep.LogEnd = max(v.lastEnd, v.rep.LogEnd)
			return nil
		case errors.As(err, &bad):
			next, more, err := v.behind(bad)
			if err != nil || !more {
				return err
			}
			sc = log.Scan(next, false)
		default:
			return err
		}
	}
}

// record takes one good record.
func (v *verifier) record(rec record.View) error {
	pos, size := int64(rec.PhysOffset()), int64(rec.Size())
	if pos-v.told >= 8<<20 {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		v.told = pos
		if v.s.opt.Progress != nil {
			v.s.opt.Progress(pos-v.s.LogMin(), v.plan)
		}
	}
	if err := v.fileEnd(pos); err != nil {
		return err
	}
	ms := rec.StoreMillis()
	if ms < v.lastMs {
		if v.back.Count++; v.back.Count == 1 {
			v.back.Finding = v.inLog(TimeBack, pos, size,
				"is %d ms older than the record before: the clock was set back, or it is left from an earlier life of the file", v.lastMs-ms)
			v.back.Severity = Note
		}
	}
	v.lastMs = max(v.lastMs, ms)
	v.lastAt, v.lastEnd = pos, pos+size
	v.count(pos, size)
	if string(rec.Topic()) == fillTopic {
		v.rep.Fillers++
	}
	if _, has := rec.PropertyCRC(); has && rec.CheckPropertyCRC() != nil {
		f := v.inLog(store.Damaged, pos, size, "%v (message %d of queue %d of %s)", record.ErrPropertyCRC, rec.QueueOffset(), rec.QueueID(), rec.Topic())
		v.find(Found{Finding: f, Severity: Damage})
	}
	v.props.parse(rec)
	if err := v.index.record(v, rec); err != nil {
		return err
	}
	return v.inQueue(rec)
}

// count adds a record to the report.
func (v *verifier) count(pos, size int64) {
	v.rep.Records++
	v.rep.RecordBytes += size
	for v.file < len(v.rep.Files) && v.rep.Files[v.file].Base+v.s.segBytes <= pos {
		v.file++
	}
	if v.file == len(v.rep.Files) {
		return
	}
	f := &v.rep.Files[v.file]
	if f.Records++; f.First < 0 {
		f.First = pos
	}
	f.Last = pos + size
}

// fillTopic is the topic of records that a repair puts in the place of damage.
const fillTopic = "MQCTL_DAMAGED"

// fileEnd checks how the file of the record before ends, when the next one lies in
// another file.
func (v *verifier) fileEnd(pos int64) error {
	seg := v.s.segBytes
	if v.lastAt < 0 || v.lastAt/seg == pos/seg || v.lastEnd == pos && pos%seg != 0 {
		return nil
	}
	end := v.lastAt/seg*seg + seg
	if v.inHole(v.lastEnd) {
		return nil
	}
	left := end - v.lastEnd
	if left < record.BlankSize {
		f := v.inLog(NoBlank, v.lastAt, v.lastEnd-v.lastAt,
			"ends %d bytes before the end of its file, with no room for a blank: RocketMQ takes it for the end of the log and deletes all later files; mqctl reads on", left)
		v.find(Found{Finding: f, Severity: Note})
		return nil
	}
	var b [record.BlankSize]byte
	if ok, err := v.s.log.Read(b[:], v.lastEnd); !ok || err != nil {
		return err
	}
	if n, ok := record.Blank(b[:]); ok && int64(n) != left {
		f := v.inLog(BadBlank, v.lastEnd, record.BlankSize, "the blank says %d bytes are left in the file, there are %d", n, left)
		v.find(Found{Finding: f, Severity: Note})
	}
	return nil
}

// behind looks at what follows a place that is no record: the end of the log, a
// torn record, or damage with good records behind it.
func (v *verifier) behind(bad *commitlog.BadError) (next int64, more bool, err error) {
	log := v.s.log
	if bad.Next > 0 {
		if r, err := log.Scan(bad.Next, false).Next(); err == nil && r.StoreMillis() >= v.lastMs {
			next, more = bad.Next, true
		}
	}
	if !more {
		if next, more, err = log.FindRecord(bad.Pos); err != nil {
			return 0, false, err
		}
	}
	if more {
		if r, err := log.Scan(next, false).Next(); err != nil || r.StoreMillis() < v.lastMs {
			f := v.inLog(store.StaleRecords, next, 0, "good records behind the end of the log are older than the end: left from an earlier life of the file")
			v.find(Found{Finding: f, Severity: Repair})
			more = false
		}
	}
	if !more {
		v.rep.LogEnd = bad.Pos
		return 0, false, v.tornTail(bad)
	}
	v.damage(bad, next)
	return next, true, nil
}

// damage reports a damaged part of the log.
func (v *verifier) damage(bad *commitlog.BadError, next int64) {
	v.holes = append(v.holes, span{bad.Pos, next})
	kind, what := store.Damaged, bad.Err.Error()
	if errors.Is(bad.Err, commitlog.ErrPosition) && next == bad.Next {
		kind = store.WrongPosition
	}
	if who := v.describe(bad); who != "" {
		what += " (" + who + ")"
	}
	f := v.inLog(kind, bad.Pos, next-bad.Pos, "%s; good records follow at %d", what, next)
	f.Try = tryFill
	v.find(Found{Finding: f, Severity: Damage})
	v.lastAt, v.lastEnd = bad.Pos, next
}

// describe names the message of a damaged record if its lengths can be believed.
func (v *verifier) describe(bad *commitlog.BadError) string {
	size := bad.Next - bad.Pos
	if bad.Next == 0 || size > v.s.segBytes {
		return ""
	}
	b := make([]byte, size)
	if ok, err := v.s.log.Read(b, bad.Pos); !ok || err != nil {
		return ""
	}
	r, err := record.Parse(b)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("message %d of queue %d of %s, which states position %d", r.QueueOffset(), r.QueueID(), r.Topic(), r.PhysOffset())
}

// tornTail reports what lies behind the end of the log.
func (v *verifier) tornTail(bad *commitlog.BadError) error {
	last := int64(-1)
	seg := v.s.segBytes
	for _, base := range v.s.log.Bases() {
		if base+seg <= bad.Pos {
			continue
		}
		name := filepath.Join(v.s.opt.CommitLogDir, segfile.Name(base))
		at, err := v.s.lastByte(name, max(bad.Pos-base, 0))
		if err != nil {
			return err
		}
		if at >= 0 {
			last = base + at
		} else if base > bad.Pos {
			v.find(Found{Finding: v.inLog(SpareFile, base, seg, "is all zero: made ahead, not used yet"), Severity: Note})
		}
	}
	if last < 0 {
		return nil
	}
	what := bad.Err.Error()
	if who := v.describe(bad); who != "" {
		what += " (" + who + ")"
	}
	f := v.inLog(store.TornTail, bad.Pos, last+1-bad.Pos, "%s; no good record follows: an unfinished write at the end of the log", what)
	sev := Repair
	files := last/seg - bad.Pos/seg
	if !v.killed || files > 0 { // a clean stop leaves no unfinished write, and no crash more than one file
		sev, f.Try = Damage, "start the broker: it keeps a copy of the end in mqctl/ and cuts it off"
	}
	if files > 0 {
		f.What += fmt.Sprintf(", over %d files more", files)
		f.Try = tryRebuild
	}
	v.find(Found{Finding: f, Severity: sev, Count: files})
	return nil
}

func (v *verifier) inHole(pos int64) bool { return inSpans(v.holes, pos) || inSpans(v.missing, pos) }

// inSpans looks pos up in spans in order.
func inSpans(list []span, pos int64) bool {
	i := sort.Search(len(list), func(i int) bool { return list[i].to > pos })
	return i < len(list) && pos >= list[i].from
}

// finishLog reports what was counted during the scan.
func (v *verifier) finishLog() error {
	if v.back.Count > 0 {
		if v.back.Count > 1 {
			v.back.What += fmt.Sprintf("; %d records are older than one before them", v.back.Count)
		}
		v.find(v.back)
	}
	return nil
}
