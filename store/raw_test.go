package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// replica are options of a small store that follows a master.
func replica(fsys vfs.FS) store.Options {
	o := small(fsys)
	o.Replica = true
	return o
}

// master makes a store with n messages and returns it with all bytes of its log.
func master(t testing.TB, n int) (*store.Store, []byte) {
	t.Helper()
	s, _ := open(t, small(vfs.NewMem()))
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	for i := range n {
		put(t, s, fmt.Sprintf("t%d", rng.IntN(3)), int32(rng.IntN(2)), fmt.Sprintf("%d %s", i, bytes.Repeat([]byte("x"), rng.IntN(500))),
			"KEYS", fmt.Sprintf("k%d", i), "TAGS", "a", "UNIQ_KEY", fmt.Sprintf("u%d", i))
	}
	return s, rawBytes(t, s)
}

// rawBytes reads the whole log of a store.
func rawBytes(t testing.TB, s *store.Store) []byte {
	t.Helper()
	pos := s.Positions()
	var out []byte
	buf := make([]byte, 1000)
	for p := pos.Min; p < pos.Max; {
		n, err := s.ReadRaw(buf, p)
		if err != nil || n == 0 {
			t.Fatalf("read raw at %d of %+v: %d bytes, %v", p, pos, n, err)
		}
		out = append(out, buf[:n]...)
		p += record.PhysOffset(n)
	}
	return out
}

// feed appends b in pieces of random length, as a socket brings them.
func feed(t testing.TB, s *store.Store, b []byte, rng *rand.Rand, most int) {
	t.Helper()
	have := 0
	for len(b) > 0 {
		have = min(have+1+rng.IntN(most), len(b))
		n, err := s.AppendRaw(b[:have])
		if err != nil {
			t.Fatalf("append raw at %d: %v", s.Positions().Max, err)
		}
		if n == 0 && have == len(b) {
			t.Fatalf("%d bytes are not taken", have)
		}
		b, have = b[n:], have-n
	}
}

// sameUnits compares all queues of two stores, unit by unit.
func sameUnits(t testing.TB, got, want *store.Store) {
	t.Helper()
	for _, topic := range want.QueueTopics() {
		for _, w := range want.Queues(topic) {
			g := got.Lookup([]byte(topic), w.ID())
			if g == nil {
				if w.Max() > 0 {
					t.Errorf("%s-%d is missing", topic, w.ID())
				}
				continue
			}
			if g.Min() != w.Min() || g.Max() != w.Max() {
				t.Errorf("%s-%d has %d to %d, want %d to %d", topic, w.ID(), g.Min(), g.Max(), w.Min(), w.Max())
				continue
			}
			gu := got.Units(nil, g, g.Min(), int(g.Max()-g.Min()))
			wu := want.Units(nil, w, w.Min(), int(w.Max()-w.Min()))
			if fmt.Sprint(gu) != fmt.Sprint(wu) {
				t.Errorf("%s-%d has other units", topic, w.ID())
			}
		}
	}
}

func TestReplicaEqualsMaster(t *testing.T) {
	m, log := master(t, 300)
	for _, sync := range []bool{false, true} {
		for _, most := range []int{1, 7, 100, 3000, len(log)} {
			fsys := vfs.NewMem()
			o := replica(fsys)
			o.SyncFlush = sync
			s, _ := open(t, o)
			feed(t, s, log, rand.New(rand.NewPCG(1, uint64(most))), most)
			if sync {
				if _, err := s.Sync(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			check := func() {
				t.Helper()
				if !bytes.Equal(rawBytes(t, s), log) {
					t.Fatal("the logs differ")
				}
				sameUnits(t, s, m)
				if _, res := s.Query(nil, "t1", "k77", 10, 0, 1<<60, false); res.Count > 1 {
					t.Fatalf("k77 is found %d times", res.Count)
				}
				a, err := m.RawSum(100, record.PhysOffset(len(log)-100))
				b, err2 := s.RawSum(100, record.PhysOffset(len(log)-100))
				if err != nil || err2 != nil || a != b {
					t.Fatalf("sums %x %v, %x %v", a, err, b, err2)
				}
				pm, _ := m.LastRecord()
				ps, ok := s.LastRecord()
				if pm != ps || !ok || s.TimeOf(ps) != m.TimeOf(pm) {
					t.Fatalf("last record at %d (%v), want %d", ps, ok, pm)
				}
			}
			check()
			closeStore(t, s)
			var rec store.Recovery
			s, rec = open(t, o)
			if !rec.Clean || len(rec.Notes) > 0 {
				t.Fatalf("reopen: %+v", rec)
			}
			check()
			closeStore(t, s)
		}
	}
}

func TestReplicaRefusesAppends(t *testing.T) {
	m, log := master(t, 5)
	if _, err := m.AppendRaw(log); err == nil {
		t.Error("a master's store takes raw bytes")
	}
	s, _ := open(t, replica(vfs.NewMem()))
	if err := s.Writable(); !errors.Is(err, store.ErrReplica) {
		t.Errorf("writable: %v", err)
	}
	if _, err := s.Append(context.Background(), s.Queue("a", 0), draft("a", 0, "x"), false); !errors.Is(err, store.ErrReplica) {
		t.Errorf("append: %v", err)
	}
	if n, err := s.AppendRaw(log); n != len(log) || err != nil {
		t.Fatalf("raw: %d, %v", n, err)
	}
	s.SetReplica(false)
	for _, topic := range m.QueueTopics() {
		for _, q := range m.Queues(topic) {
			it := put(t, s, topic, q.ID(), "after")
			if it.QueueOffset != q.Max() {
				t.Errorf("%s-%d goes on at %d, want %d", topic, q.ID(), it.QueueOffset, q.Max())
			}
		}
	}
}

func TestRecordBefore(t *testing.T) {
	m, log := master(t, 200)
	starts := map[record.PhysOffset]bool{}
	for _, topic := range m.QueueTopics() {
		for _, q := range m.Queues(topic) {
			for _, u := range m.Units(nil, q, 0, int(q.Max())) {
				starts[u.Phys] = true
			}
		}
	}
	want := record.PhysOffset(-1)
	for p := range record.PhysOffset(len(log)) {
		if starts[p] {
			want = p
		}
		if !starts[p] && !starts[p+1] && p%11 != 0 {
			continue // the edges of every record, and samples between
		}
		got, ok, err := m.RecordBefore(p)
		if err != nil || !ok || got != want {
			t.Fatalf("before %d: %d, %v, %v; want %d", p, got, ok, err, want)
		}
	}
	if got, ok, _ := m.RecordBefore(1 << 50); !ok || got != want {
		t.Errorf("before everything: %d, want %d", got, want)
	}
	if _, ok, err := m.RecordBefore(-1); ok || err != nil {
		t.Errorf("before the log: %v, %v", ok, err)
	}
}

// TestReplicaStartsInTheMiddle: a slave that begins at the master's last file.
func TestReplicaStartsInTheMiddle(t *testing.T) {
	m, log := master(t, 300)
	base := int64(len(log)) / 4096 * 4096
	fsys := vfs.NewMem()
	o := replica(fsys)
	s, _ := open(t, o)
	if err := s.StartAt(100); err == nil {
		t.Error("starts inside of a file")
	}
	if err := s.StartAt(record.PhysOffset(base)); err != nil {
		t.Fatal(err)
	}
	feed(t, s, log[base:], rand.New(rand.NewPCG(1, 1)), 200)
	check := func() {
		t.Helper()
		if pos := s.Positions(); int64(pos.Min) != base || int64(pos.Max) != int64(len(log)) {
			t.Fatalf("log from %d to %d", pos.Min, pos.Max)
		}
		for _, topic := range s.QueueTopics() {
			for _, q := range s.Queues(topic) {
				w := m.Lookup([]byte(topic), q.ID())
				if q.Max() != w.Max() || q.Min() == 0 {
					t.Errorf("%s-%d has %d to %d, the master's ends at %d", topic, q.ID(), q.Min(), q.Max(), w.Max())
				}
				for _, v := range readAll(t, s, q) {
					if int64(v.PhysOffset()) < base {
						t.Errorf("a message at %d", v.PhysOffset())
					}
				}
			}
		}
	}
	check()
	if err := s.StartAt(0); err == nil {
		t.Error("starts anew over messages")
	}
	crashed := fsys.ProcessKillClone()
	closeStore(t, s)
	s, _ = open(t, o)
	check()
	closeStore(t, s)
	o.FS = crashed
	s, rec := open(t, o)
	check()
	if rec.CutBytes != 0 {
		t.Errorf("recovery: %+v", rec)
	}
	closeStore(t, s)
}

func TestAppendRawRefuses(t *testing.T) {
	_, log := master(t, 3)
	v, err := record.Parse(log)
	if err != nil {
		t.Fatal(err)
	}
	first := v.Size()
	change := func(at int, b ...byte) []byte {
		out := bytes.Clone(log)
		copy(out[at:], b)
		return out
	}
	for _, c := range []struct {
		name string
		p    []byte
		n    int
	}{
		{"junk", bytes.Repeat([]byte{0x5A}, 200), 0},
		{"zeros", make([]byte, 200), 0},
		{"another position", log[first:], 0},
		{"size too large", change(0, 0x7F), 0},
		{"size negative", change(0, 0xFF), 0},
		{"size too small", change(0, 0, 0, 0, 9), 0},
		{"size too large with a part of it", change(0, 0x7F)[:40], 0},
		{"body", change(first-60, 'y'), 0},
		{"second", change(first+4, 1), first},
		{"negative queue", change(12, 0xFF), 0},
		{"negative number", change(20, 0xFF), 0},
		{"blank of a wrong length", record.AppendBlank(nil, 100), 0},
	} {
		s, _ := open(t, replica(vfs.NewMem()))
		n, err := s.AppendRaw(c.p)
		var raw *store.RawError
		if n != c.n || !errors.As(err, &raw) || raw.At != record.PhysOffset(c.n) {
			t.Errorf("%s: %d bytes taken, %v", c.name, n, err)
		}
		if pos := s.Positions(); pos.Max != record.PhysOffset(c.n) {
			t.Errorf("%s: the log ends at %d", c.name, pos.Max)
		}
		closeStore(t, s)
	}
}

// TestAppendRawPieces offers a part of a log that is far larger than one write, whole
// and with damage in its middle.
func TestAppendRawPieces(t *testing.T) {
	burst := newRawBurst(t, 4096)
	open := func() *store.Store {
		o := replica(vfs.NewMem())
		o.CommitLogBytes = 64 << 20
		s, _ := open(t, o)
		t.Cleanup(func() { closeStore(t, s) })
		return s
	}
	s := open()
	if n, err := s.AppendRaw(burst.bytes); n != len(burst.bytes) || err != nil {
		t.Fatal(n, err)
	}
	if !bytes.Equal(rawBytes(t, s), burst.bytes) || s.Positions().Dispatched != s.Positions().Max {
		t.Fatal("the replica differs")
	}
	for _, at := range []int{0, 700, 1500, 4095} {
		s, begin := open(), int(burst.records[at].PhysOffset())
		bad := bytes.Clone(burst.bytes)
		bad[begin+len(burst.records[at].Raw())/2] ^= 1 // its body
		n, err := s.AppendRaw(bad)
		var raw *store.RawError
		if n != begin || !errors.As(err, &raw) || int(raw.At) != begin {
			t.Fatal(at, n, begin, err)
		}
		if !bytes.Equal(rawBytes(t, s), burst.bytes[:begin]) {
			t.Fatal("not what comes before the damage")
		}
		if n, err := s.AppendRaw(burst.bytes[begin:]); begin+n != len(burst.bytes) || err != nil {
			t.Fatal(n, err)
		}
	}
}

// TestPropertiesParse compares the store's own walk over property text with record's.
func TestPropertiesParse(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	parts := []string{"TAGS", "KEYS", "UNIQ_KEY", "DELAY", "WAIT", "T", "", "\x01", "\x02", "a", "1 2", "TAGSX", "\x01\x02", "\x02"}
	for range 200000 {
		var text []byte
		for range rnd.IntN(12) {
			text = append(text, parts[rnd.IntN(len(parts))]...)
		}
		var want store.Properties
		record.EachProperty(text, func(name, value []byte) bool {
			switch string(name) {
			case "TAGS":
				want.Tags = value
			case "KEYS":
				want.Keys = value
			case "DELAY":
				want.Delay = value
			case "UNIQ_KEY":
				if want.UniqueKey == nil {
					want.UniqueKey = value
				}
			}
			return true
		})
		if got := store.ParseProperties(text); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %q, expected %q", text, got, want)
		}
	}
}

// TestAppendLost: a replica whose master has a hole from the replica's end on, over
// the ends of files too, goes on behind it with a log that can be walked; what fills it
// counts as lost, and nothing else does.
func TestAppendLost(t *testing.T) {
	m, all := master(t, 100)
	starts := []int64{}
	for p := int64(0); p < int64(len(all)); {
		starts = append(starts, p)
		size := int64(all[p])<<24 | int64(all[p+1])<<16 | int64(all[p+2])<<8 | int64(all[p+3])
		p += size
	}
	closeStore(t, m)
	for _, r := range [][2]int{{3, 4}, {3, 40}, {10, 99}, {50, 51}} {
		from, to := starts[r[0]], starts[r[1]]
		s, _ := open(t, replica(vfs.NewMem()))
		rng := rand.New(rand.NewPCG(1, 2))
		feed(t, s, all[:from], rng, 3000)
		if err := s.AppendLost(record.PhysOffset(to)); err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		feed(t, s, all[to:], rng, 3000)
		if got := s.Positions(); int64(got.Max) != int64(len(all)) {
			t.Fatalf("%v: %+v, %d", r, got, len(all))
		}
		for i, p := range starts {
			f, e, lost := s.Lost(record.PhysOffset(p))
			if want := i >= r[0] && i < r[1]; lost != want && !blankAt(all, p) || lost && (int64(f) > p || int64(e) <= p || int64(f) < from || int64(e) > to) {
				t.Errorf("%v: record %d at %d: lost %v, %d to %d", r, i, p, lost, f, e)
			}
		}
		if got := rawBytes(t, s); !bytes.Equal(got[:from], all[:from]) || !bytes.Equal(got[to:], all[to:]) {
			t.Errorf("%v: what is not lost differs", r)
		}
		closeStore(t, s)
	}
}

// blankAt says whether the end of a file begins at p.
func blankAt(log []byte, p int64) bool {
	_, ok := record.Blank(log[p:])
	return ok
}
