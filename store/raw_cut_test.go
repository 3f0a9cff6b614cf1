package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// TestReadersDuringCuts reads queues and the log while the log is cut and grows
// again with the messages of another master, over and over.
func TestReadersDuringCuts(t *testing.T) {
	f := &follower{t: t, rng: rand.New(rand.NewPCG(9, 9))}
	f.grow(60)
	s, _ := open(t, replica(vfs.NewMem()))
	defer runStore(t, s)()
	if n, err := s.AppendRaw(f.truth); err != nil || n != len(f.truth) {
		t.Fatal(n, err)
	}
	var done atomic.Bool
	var reads atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				for _, topic := range s.QueueTopics() {
					for _, q := range s.Queues(topic) {
						readDuringCut(t, s, q)
					}
				}
				reads.Add(1)
			}
		})
	}
	wg.Go(func() {
		buf := make([]byte, 700)
		for p := record.PhysOffset(0); !done.Load(); {
			n, err := s.ReadRaw(buf, p)
			var no *store.NoRecordError
			if err != nil && !errors.As(err, &no) {
				t.Errorf("raw at %d: %v", p, err)
			}
			if p += record.PhysOffset(n); n == 0 {
				p = 0
			}
			_, _ = s.RawSum(0, s.Positions().Max)
			s.Query(nil, "t1", "u7", 10, 0, 1<<60, true)
			s.Positions()
		}
	})
	f.end = int64(len(f.truth))
	for range 40 {
		starts := f.starts()
		p := starts[len(starts)-1-f.rng.IntN(min(len(starts), 30))]
		if _, err := s.TruncateTo(record.PhysOffset(p)); err != nil {
			t.Error(err)
			break
		}
		f.truth = f.truth[:p]
		f.grow(1 + f.rng.IntN(40))
		for now := reads.Load(); reads.Load() == now && !t.Failed(); { // who reads sees each state
			s.Positions()
		}
		if n, err := s.AppendRaw(f.truth[p:]); err != nil || n != len(f.truth)-int(p) {
			t.Error(n, err)
			break
		}
		f.end = int64(len(f.truth))
	}
	done.Store(true)
	wg.Wait()
	f.compare(s, f.end)
}

// readDuringCut reads a queue once: whatever comes belongs there.
func readDuringCut(t *testing.T, s *store.Store, q *store.Queue) {
	for off := q.Min(); ; {
		b, res := s.Read(nil, q, off, 32, nil)
		if res.Err != nil {
			t.Errorf("%s-%d at %d: %v", q.Topic(), q.ID(), off, res.Err)
		}
		for len(b) > 0 {
			v, err := record.Parse(b)
			if err == nil {
				err = v.CheckCRC()
			}
			if err != nil || string(v.Topic()) != q.Topic() || v.QueueID() != q.ID() || v.QueueOffset() != off {
				t.Errorf("%s-%d at %d: message %d of %s-%d, %v", q.Topic(), q.ID(), off, v.QueueOffset(), v.Topic(), v.QueueID(), err)
				return
			}
			off++
			b = b[v.Size():]
		}
		if res.Status == store.MessageWasRemoving {
			t.Errorf("%s-%d at %d: %v", q.Topic(), q.ID(), off, res.Status)
		}
		if res.Status != store.Found {
			return
		}
	}
}

func TestTruncateRefuses(t *testing.T) {
	m, log := master(t, 60)
	if _, err := m.TruncateTo(0); err == nil {
		t.Error("a master's log is cut")
	}
	if _, err := m.SetAside(); err == nil {
		t.Error("a master's log is set aside")
	}
	s, _ := open(t, replica(vfs.NewMem()))
	if n, err := s.AppendRaw(log); err != nil || n != len(log) {
		t.Fatal(n, err)
	}
	for _, p := range []record.PhysOffset{-1, 1, 50, record.PhysOffset(len(log) - 1), record.PhysOffset(len(log) + 1), 1 << 60} {
		if _, err := s.TruncateTo(p); err == nil {
			t.Errorf("cut at %d", p)
		}
	}
	if a, err := s.TruncateTo(record.PhysOffset(len(log))); err != nil || a.Path != "" {
		t.Errorf("nothing to cut: %+v, %v", a, err)
	}
	if !bytes.Equal(rawBytes(t, s), log) {
		t.Error("the log has changed")
	}
	// In front of a blank, and of everything.
	blank := bytes.Index(log, []byte{0xCB, 0xD4, 0x31, 0x94}) - 4
	for _, p := range []int{blank, 0} {
		if _, err := s.TruncateTo(record.PhysOffset(p)); err != nil {
			t.Errorf("cut at %d: %v", p, err)
		}
		if !bytes.Equal(rawBytes(t, s), log[:p]) {
			t.Errorf("cut at %d: %+v", p, s.Positions())
		}
	}
	if n, err := s.AppendRaw(log); err != nil || n != len(log) {
		t.Error(n, err)
	}
	sameUnits(t, s, m)
}

// TestAsideIsNeverOverwritten: the same cut twice within a second.
func TestAsideIsNeverOverwritten(t *testing.T) {
	_, log := master(t, 20)
	fsys := vfs.NewMem()
	s, _ := open(t, replica(fsys))
	last := map[string]bool{}
	for range 3 {
		if _, err := s.AppendRaw(log); err == nil {
			a, err := s.SetAside()
			if err != nil || last[a.Path] || !strings.Contains(a.Path, fmt.Sprintf("%020d-%020d", 0, len(log))) {
				t.Errorf("%+v, %v", a, err)
			}
			last[a.Path] = true
			kept, err := vfs.ReadFile(fsys, filepath.Join(a.Path, "commitlog", "00000000000000000000"), 1<<20)
			if err != nil || !bytes.HasPrefix(log, kept) {
				t.Errorf("kept %d bytes, %v", len(kept), err)
			}
		}
	}
	if len(last) != 3 {
		t.Errorf("%d were kept", len(last))
	}
	got, err := s.Asides()
	if err != nil || len(got) != 3 || !last[got[0]] || !last[got[1]] || !last[got[2]] {
		t.Errorf("listed are %q, %v", got, err)
	}
	for _, name := range []string{got[0], got[1] + "-x"} { // one is removed, a stranger comes
		if err := fsys.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.MkdirAll(got[1] + "-x"); err != nil {
		t.Fatal(err)
	}
	if left, err := s.Asides(); err != nil || !slices.Equal(left, got[1:]) {
		t.Errorf("left are %q of %q, %v", left, got, err)
	}
}

// otherDisk is a file system where nothing can be moved to what is set aside.
type otherDisk struct{ vfs.FS }

func (o otherDisk) Rename(a, b string) error {
	if strings.Contains(b, "/mqctl/log-") {
		return &errorOtherDisk{}
	}
	return o.FS.Rename(a, b)
}

type errorOtherDisk struct{}

func (*errorOtherDisk) Error() string { return "other disk" }
func (*errorOtherDisk) Unwrap() error { return syscall.EXDEV }

func TestSetAsideOnAnotherDisk(t *testing.T) {
	m, log := master(t, 60)
	o := replica(vfs.NewMem())
	s, _ := open(t, o)
	if _, err := s.AppendRaw(log); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s) // queue files are there
	o.FS = otherDisk{o.FS}
	s, _ = open(t, o)
	a, err := s.SetAside()
	if err != nil || !strings.HasPrefix(a.Path, "/store/commitlog/") {
		t.Fatalf("%+v, %v", a, err)
	}
	if got, err := s.Asides(); err != nil || len(got) != 1 || filepath.Base(got[0]) != filepath.Base(a.Path) {
		t.Errorf("%q, %v", got, err)
	}
	kept, err := vfs.ReadFile(o.FS, filepath.Join(a.Path, "00000000000000000000"), 1<<20)
	if err != nil || !bytes.Equal(kept, log[:4096]) {
		t.Errorf("kept %d bytes, %v", len(kept), err)
	}
	if n, err := s.AppendRaw(log); err != nil || n != len(log) {
		t.Fatal(n, err)
	}
	sameUnits(t, s, m)
	closeStore(t, s)
	s, rec := open(t, o)
	if !rec.Clean || len(rec.Notes) > 0 {
		t.Errorf("%+v", rec)
	}
	closeStore(t, s)
}

// TestTopicMadeAgain: the master deleted a topic and made it again, and its
// messages are here before the news of that.
func TestTopicMadeAgain(t *testing.T) {
	m, _ := open(t, small(vfs.NewMem()))
	for i := range 30 {
		put(t, m, "a", 0, fmt.Sprint(i), "UNIQ_KEY", fmt.Sprint(i))
	}
	if err := m.DeleteTopic("a"); err != nil {
		t.Fatal(err)
	}
	for i := range 7 {
		put(t, m, "a", 0, fmt.Sprint("again", i))
	}
	fsys := vfs.NewMem()
	s, _ := open(t, replica(fsys))
	log := rawBytes(t, m)
	old := int(m.Units(nil, m.Lookup([]byte("a"), 0), 0, 1)[0].Phys)
	if _, err := s.AppendRaw(log[:old]); err != nil {
		t.Fatal(err)
	}
	if err := s.Mark(); err != nil { // a recovery begins behind the old messages
		t.Fatal(err)
	}
	if _, err := s.AppendRaw(log[old:]); err != nil {
		t.Fatal(err)
	}
	s.SyncLog()
	sameUnits(t, s, m)
	for _, names := range []vfs.Fate{vfs.FateLost, vfs.FateKept} {
		c, _ := open(t, replica(fsys.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{Data: vfs.FateLost, Names: names})))
		sameUnits(t, c, m)
		closeStore(t, c)
	}
	s.SetReplica(false)
	if it := put(t, s, "a", 0, "more"); it.QueueOffset != 7 {
		t.Errorf("the next message is number %d", it.QueueOffset)
	}
}

// TestRawFile reads a log of the operating system through its descriptors, also
// after the file was cut off.
func TestRawFile(t *testing.T) {
	_, log := master(t, 60)
	if s, _ := open(t, replica(vfs.NewMem())); true {
		if _, err := s.AppendRaw(log); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := s.RawFile(0, 100); ok || err != nil {
			t.Errorf("a file in memory: %v, %v", ok, err)
		}
	}
	o := replica(vfs.OS{})
	o.Dir = t.TempDir()
	s, _ := open(t, o)
	if _, err := s.AppendRaw(log); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for p := record.PhysOffset(0); int(p) < len(log); {
		r, ok, err := s.RawFile(p, 1500)
		if err != nil || !ok || r.Len == 0 {
			t.Fatalf("at %d: %+v, %v, %v", p, r, ok, err)
		}
		f, _ := vfs.Descriptor(r.File)
		b := make([]byte, r.Len)
		if _, err := f.ReadAt(b, r.Offset); err != nil {
			t.Fatal(err)
		}
		r.Release()
		got = append(got, b...)
		p += record.PhysOffset(r.Len)
	}
	if !bytes.Equal(got, log) {
		t.Error("other bytes")
	}
	var no *store.NoRecordError
	if _, _, err := s.RawFile(record.PhysOffset(len(log)+1), 1); !errors.As(err, &no) {
		t.Errorf("behind the end: %v", err)
	}
	r, ok, err := s.RawFile(4096, 100)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, err := s.TruncateTo(0); err != nil {
		t.Fatal(err)
	}
	f, _ := vfs.Descriptor(r.File)
	if _, err := f.ReadAt(make([]byte, 10), r.Offset); err != nil {
		t.Errorf("a file that is held was closed: %v", err)
	}
	r.Release()
	if _, err := f.ReadAt(make([]byte, 10), r.Offset); err == nil {
		t.Error("a file that was cut off is still open")
	}
	closeStore(t, s)
}

// TestCutFails: an error of the disk before the cut leaves all as it was; one in
// the middle makes the store read-only until the next start, which finishes it.
func TestCutFails(t *testing.T) {
	m, log := master(t, 60)
	p := m.Units(nil, m.Lookup([]byte("t1"), 0), 3, 1)[0].Phys
	for _, c := range []struct {
		op    vfs.Op
		path  string
		begun bool
	}{
		{vfs.OpWrite, "aside.tmp", false}, {vfs.OpSync, "aside.tmp", false}, {vfs.OpRename, "/mqctl/cut-", false},
		{vfs.OpSync, "/commitlog/", true}, {vfs.OpWrite, "/commitlog/", true}, {vfs.OpRename, "/progress", true},
		{vfs.OpWrite, "/checkpoint", true},
	} {
		mem := vfs.NewMem()
		inj := vfs.NewInjector(mem)
		s, _ := open(t, replica(inj))
		if _, err := s.AppendRaw(log); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sync(context.Background()); err != nil {
			t.Fatal(err)
		}
		inj.Fail(vfs.Fault{Op: c.op, Path: c.path, Err: syscall.EIO})
		_, err := s.TruncateTo(p)
		if err == nil {
			t.Errorf("%s %s: no error", c.op, c.path)
		}
		inj.Heal()
		if _, err := s.AppendRaw(nil); (err != nil) != c.begun {
			t.Errorf("%s %s: afterwards %v", c.op, c.path, err)
		}
		_ = s.Close()
		s, rec := open(t, replica(mem.ProcessKillClone()))
		if got := rawBytes(t, s); !bytes.Equal(got, log[:p]) && (c.begun || !bytes.Equal(got, log)) {
			t.Errorf("%s %s: the log ends at %d, %+v", c.op, c.path, len(got), rec)
		}
		closeStore(t, s)
	}
}

// FuzzAppendRaw offers junk behind a good start, in pieces: the log always is
// what was taken, and can be opened again.
func FuzzAppendRaw(f *testing.F) {
	_, log := master(f, 12)
	f.Add([]byte{}, uint16(100), uint16(0), byte(0))
	f.Add([]byte("junk"), uint16(300), uint16(7), byte(3))
	f.Add(log, uint16(4000), uint16(12), byte(0xFF))
	f.Add(record.AppendBlank(nil, 4096), uint16(0), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, junk []byte, cut, at uint16, change byte) {
		if len(junk) > 1<<14 {
			return
		}
		p := append(bytes.Clone(log[:int(cut)%len(log)]), junk...)
		if len(p) > 0 {
			p[int(at)%len(p)] ^= change
		}
		fsys := vfs.NewMem()
		o := replica(fsys)
		s, _ := open(t, o)
		taken, have := 0, 0
		for taken+have < len(p) {
			have = min(have+1+int(cut)%777, len(p)-taken)
			n, err := s.AppendRaw(p[taken : taken+have])
			taken, have = taken+n, have-n
			if err != nil {
				var raw *store.RawError
				if !errors.As(err, &raw) || raw.At != record.PhysOffset(taken) {
					t.Fatalf("at %d: %v", taken, err)
				}
				break
			}
		}
		if got := rawBytes(t, s); !bytes.Equal(got, p[:taken]) {
			t.Fatalf("%d bytes taken, %d in the log", taken, len(got))
		}
		_, _, _ = s.RecordBefore(record.PhysOffset(taken))
		for _, q := range s.Queues("t1") {
			readAll(t, s, q)
		}
		closeStore(t, s)
		s, _ = open(t, o)
		if got := rawBytes(t, s); !bytes.HasPrefix(p, got) {
			t.Fatalf("%d bytes after a start, which nobody sent", len(got))
		}
		closeStore(t, s)
	})
}

// cutNote is the file as FORMAT.md shows it.
const cutNote = `mqctl-cut 1
kind cut
pid 24788
next 0
at 294
segment 1073741824
name ""
crc 6d9bad53
`

func TestCutNote(t *testing.T) {
	got, err := store.RewriteCutNote([]byte(cutNote))
	if err != nil || string(got) != cutNote {
		t.Errorf("%v\n%s", err, got)
	}
	for _, bad := range []string{
		"", "crc 00000000\n", strings.Replace(cutNote, "294", "295", 1), strings.Replace(cutNote, "mqctl-cut 1", "mqctl-cut 2", 1),
		cutNote[:40],
	} {
		if _, err := store.RewriteCutNote([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzCutNote(f *testing.F) {
	f.Add([]byte(cutNote))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum is right, so that the lines count.
		b = fmt.Appendf(append(b, '\n'), "crc %08x\n", crc32.ChecksumIEEE(append(b, '\n')))
		again, err := store.RewriteCutNote(b)
		if err != nil {
			return
		}
		twice, err := store.RewriteCutNote(again)
		if err != nil || !bytes.Equal(again, twice) {
			t.Errorf("%q becomes %q, %v", again, twice, err)
		}
	})
}

// TestReplicaTakesRepairedLog: what a master put in the place of large damage is
// no longer than a replica takes.
func TestReplicaTakesRepairedLog(t *testing.T) {
	fsys := vfs.NewMem()
	o := small(fsys)
	o.CommitLogBytes = 64 << 20
	m, _ := open(t, o)
	for i := range 14 {
		put(t, m, "big", 0, fmt.Sprint(i)+strings.Repeat("x", 3<<20))
	}
	from, to := int64(100), int64(39<<20)
	o.FS = fsys.ProcessKillClone()
	if err := o.FS.Remove("/store/mqctl/progress"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	f, err := o.FS.OpenReadWrite("/store/commitlog/00000000000000000000")
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte("?"), int(to-from)), from)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, rec := open(t, o)
	log := rawBytes(t, m)
	if len(rec.Notes) == 0 || len(log) < 42<<20 {
		t.Fatalf("%d bytes, %+v", len(log), rec)
	}
	o = replica(vfs.NewMem())
	o.CommitLogBytes = 64 << 20
	s, _ := open(t, o)
	if n, err := s.AppendRaw(log); err != nil || n != len(log) {
		t.Errorf("%d bytes of %d taken, %v", n, len(log), err)
	}
}
