package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"mqctl/store"
	"mqctl/store/vfs"
)

// killed is a store of 60 messages whose process was killed.
func killed(t testing.TB) *vfs.Mem {
	mem := vfs.NewMem()
	s, _ := open(t, small(mem))
	for i := range 60 {
		put(t, s, "orders", int32(i%2), fmt.Sprintf("%d %s", i, strings.Repeat("x", i*7%300)), "KEYS", fmt.Sprint("k", i))
	}
	s.FlushOnce()
	s.KeepOnce()
	return crashed(t, mem)
}

// crashed is a disk as a crash of the machine leaves it that took nothing: what the
// process noted for a start after kill -9 does not count, and all is looked at.
func crashed(t testing.TB, mem *vfs.Mem) *vfs.Mem {
	t.Helper()
	c := mem.ProcessKillClone()
	if err := c.Remove("/store/mqctl/queues"); err != nil {
		t.Fatal(err)
	}
	return c
}

// damage writes b over a file of a clone.
func damage(t testing.TB, mem *vfs.Mem, name string, at int64, b []byte) *vfs.Mem {
	t.Helper()
	c := mem.ProcessKillClone()
	f, err := c.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return c
}

// FuzzRecovery writes garbage over any file of a killed store. Open must not
// fail on it but for a stated reason, must not make up messages, must keep all
// that is not near the damage, and what it leaves must be sound.
func FuzzRecovery(f *testing.F) {
	base := killed(f)
	files := []string{
		"/store/commitlog/00000000000000000000", "/store/commitlog/00000000000000004096", "/store/commitlog/00000000000000008192",
		"/store/consumequeue/orders/0/00000000000000000000", "/store/consumequeue/orders/1/00000000000000000400",
		"/store/checkpoint",
	}
	f.Add(uint8(0), uint16(0), []byte("garbage"))
	f.Add(uint8(1), uint16(100), make([]byte, 700))
	f.Add(uint8(2), uint16(4000), []byte{0xDA, 0xA3, 0x20, 0xA7})
	f.Add(uint8(3), uint16(40), make([]byte, 20))
	f.Add(uint8(4), uint16(0), []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(uint8(5), uint16(0), []byte("\xff\xff"))
	f.Fuzz(func(t *testing.T, which uint8, at uint16, b []byte) {
		name := files[int(which)%len(files)]
		size := int64(4096)
		if strings.Contains(name, "consumequeue") {
			size = 400
		}
		pos := int64(at) % size
		b = b[:min(int64(len(b)), size-pos)]
		o := small(damage(t, base, name, pos, b))
		s, rec, err := store.Open(o)
		var d *store.DamagedError
		if errors.As(err, &d) {
			return
		}
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		seen := map[string]bool{}
		for _, topic := range s.QueueTopics() {
			for _, q := range s.Queues(topic) {
				for _, v := range readAll(t, s, q) {
					if v.CheckCRC() == nil && seen[string(v.Body())] {
						t.Errorf("message %.9q is there twice (%+v)", v.Body(), rec)
					}
					seen[string(v.Body())] = true
				}
			}
		}
		put(t, s, "orders", 0, "after")
		closeStore(t, s)
		again, rec := open(t, o)
		if !rec.Clean {
			t.Errorf("second start: %+v", rec)
		}
		closeStore(t, again)
	})
}

// One damaged place costs the messages in it and no other.
func TestDamageInTheMiddle(t *testing.T) {
	base := killed(t)
	rng := rand.New(rand.NewPCG(3, 3))
	stopped := 0
	for range 60 {
		pos := int64(rng.IntN(9000))
		junk := make([]byte, 1+rng.IntN(300))
		for i := range junk {
			junk[i] = byte(rng.Uint32())
		}
		c := base
		for at := pos; at < pos+int64(len(junk)); at++ {
			c = damage(t, c, fmt.Sprintf("/store/commitlog/%020d", at/4096*4096), at%4096, junk[at-pos:at-pos+1])
		}
		// Without our own notes and queues everything is scanned.
		for _, dir := range []string{"/store/mqctl", "/store/consumequeue", "/store/checkpoint"} {
			if err := c.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		o := small(c)
		s, rec := open(t, o)
		lost := 60
		for _, q := range s.Queues("orders") {
			for _, v := range readAll(t, s, q) {
				if v.CheckCRC() != nil {
					t.Errorf("a damaged message is served")
				}
				lost--
			}
		}
		if lost > 6 { // the shortest records have 120 bytes
			t.Errorf("%d bytes of damage at %d cost %d messages: %+v", len(junk), pos, lost, rec)
		}
		holes := s.Holes()
		closeStore(t, s)
		if len(holes) > 0 && apacheScan(t, c) < logEnd(t, o) {
			stopped++
		}
		filled, err := store.FillHoles(o, nil)
		if err != nil || len(filled) != len(holes) {
			t.Fatalf("fill %v: %v, %v", holes, filled, err)
		}
		if end, want := apacheScan(t, c), logEnd(t, o); end != want {
			t.Fatalf("damage at %d: Apache's scan ends at %d of %d", pos, end, want)
		}
		// What was filled is no damage any more, not even for a scan of everything.
		for _, dir := range []string{"/store/mqctl", "/store/consumequeue", "/store/checkpoint"} {
			if err := c.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := vfs.WriteFile(c, "/store/abort", []byte("1")); err != nil {
			t.Fatal(err)
		}
		again, rec := open(t, o)
		found := kinds(rec.Findings) // the queues were removed, and a number may be damaged
		if rec.CutBytes > 0 || found != "QUEUE_BEHIND" && found != "WRONG_NUMBER QUEUE_BEHIND" || len(rec.Findings) > 4 || len(again.Holes()) > 0 {
			t.Errorf("damage at %d is found again: %+v", pos, rec)
		}
		readsOn(t, again)
		closeStore(t, again)
	}
	if stopped < 50 {
		t.Errorf("only %d of the damages stop Apache's scan before they are filled", stopped)
	}
}

// A wrong entry of a queue is found by comparing with the log.
func TestWrongLastUnit(t *testing.T) {
	base := killed(t)
	wrong := []byte("\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x78\x00\x00\x00\x00\x00\x00\x00\x00")
	c := damage(t, base, "/store/consumequeue/orders/0/00000000000000000400", 9*20, wrong)
	s, rec := open(t, small(c))
	if n := len(readAll(t, s, s.Queue("orders", 0))); n != 30 {
		t.Errorf("%d messages, %+v", n, rec)
	}
	closeStore(t, s)
}

// TestKeysOfDeletedTopic: the keys of a deleted topic are found as long as its messages
// are in the log, also by an index that a recovery made anew.
func TestKeysOfDeletedTopic(t *testing.T) {
	mem := vfs.NewMem()
	o := small(mem)
	s, _ := open(t, o)
	for i := range 10 {
		put(t, s, "orders", 0, "old", "KEYS", fmt.Sprint("key", i))
		put(t, s, "bills", 0, "b", "KEYS", fmt.Sprint("key", i))
	}
	if err := s.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	put(t, s, "orders", 0, "new", "KEYS", "key10")
	check := func(s *store.Store, how string) {
		t.Helper()
		for i := range 11 {
			if _, res := s.Query(nil, "orders", fmt.Sprint("key", i), 5, 0, 1<<62, false); res.Count != 1 {
				t.Errorf("%s: %d messages with key%d", how, res.Count, i)
			}
		}
		if n := s.Queue("orders", 0).Max(); n != 1 {
			t.Errorf("%s: the queue has %d messages", how, n)
		}
	}
	check(s, "before the kill")
	crashed := mem.ProcessKillClone()
	if err := crashed.RemoveAll("/store/index"); err != nil {
		t.Fatal(err)
	}
	o.FS = crashed
	again, _ := open(t, o)
	check(again, "after it")
	closeStore(t, again)
	closeStore(t, s)
}

// logEnd is where the log of a store that nobody has open ends.
func logEnd(t *testing.T, o store.Options) int64 {
	t.Helper()
	o.FS = o.FS.(*vfs.Mem).ProcessKillClone()
	s, _ := open(t, o)
	defer closeStore(t, s)
	return int64(s.Positions().Max)
}

// readsOn has a consumer read each queue from its beginning, over whatever is missing, to
// its end, and then a new message.
func readsOn(t *testing.T, s *store.Store) {
	t.Helper()
	for _, q := range s.Queues("orders") {
		put(t, s, "orders", q.ID(), "new")
		var last []byte
		for off, turns := q.Min(), 0; off < q.Max(); turns++ {
			b, res := s.Read(nil, q, off, 32, nil)
			if res.Next <= off || turns > 1000 || res.Err != nil {
				t.Fatalf("queue %d: a consumer does not come over %d: %+v", q.ID(), off, res)
			}
			off, last = res.Next, b
		}
		if !bytes.Contains(last, []byte("new")) {
			t.Errorf("queue %d: the newest message is not read", q.ID())
		}
	}
}

// apacheScan walks over all files as CommitLog.recoverAbnormally and
// checkMessageAndReturnSize do, and returns where that ends: at the first record that is not
// whole, which is the end of the log for RocketMQ. A file ends with its blank.
func apacheScan(t *testing.T, fsys vfs.FS) int64 {
	t.Helper()
	entries, err := fsys.ReadDir("/store/commitlog")
	if err != nil {
		t.Fatal(err)
	}
	end := int64(0)
	for i, e := range entries {
		var base int64
		if _, err := fmt.Sscanf(e.Name, "%020d", &base); err != nil || i > 0 && base != end {
			t.Fatalf("%s follows %d: %v", e.Name, end, err)
		}
		b, err := vfs.ReadFile(fsys, "/store/commitlog/"+e.Name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for {
			n, blank := apacheRecord(b[at:])
			if n == 0 {
				return base + int64(at)
			}
			if at += n; blank {
				break
			}
		}
		end = base + int64(len(b))
	}
	return end
}

// apacheRecord returns the length of a record that RocketMQ accepts, 0 if it does not. The
// test writes with IPv4 addresses only.
func apacheRecord(b []byte) (n int, blank bool) {
	at := func(i int) int {
		if i+4 > len(b) {
			return -1
		}
		return int(int32(binary.BigEndian.Uint32(b[i:])))
	}
	size := at(0)
	topic := 1
	switch uint32(at(4)) {
	case 0xCBD43194:
		return len(b), true
	case 0xDAA320A7:
	case 0xDAA320AB:
		topic = 2
	default:
		return 0, false
	}
	body := at(84)
	if size < 0 || size > len(b) || body < 0 || 88+body+topic > size {
		return 0, false
	}
	if body > 0 && int(crc32.ChecksumIEEE(b[88:88+body])&0x7FFFFFFF) != at(8) {
		return 0, false
	}
	names := int(b[88+body])
	if topic == 2 {
		names = int(binary.BigEndian.Uint16(b[88+body:]))
	}
	props := 88 + body + topic + names
	if props+2 > size || size != props+2+int(binary.BigEndian.Uint16(b[props:])) {
		return 0, false
	}
	return size, false
}
