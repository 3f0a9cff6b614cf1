package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
	"mqctl/store/vfs/vfstest"
)

// golden is what the JSON beside a recorded store says about it.
type golden struct {
	Settings map[string]string
	Log      struct {
		ScanEnd int64 `json:"scan_end"`
	}
	Messages goldenMessages
	Recovery struct {
		After struct {
			Queues map[string]goldenQueue
		} `json:"afterRecovery"`
	} `json:"apache_recovery"`
}

// goldenMessages are listed only where the store is no damaged copy of another.
type goldenMessages []goldenMessage

type goldenMessage struct {
	Topic          string
	QueueID        int32 `json:"queueId"`
	QueueOffset    int64
	PhysicalOffset int64
	Size           int
	BodySha256     string
	Properties     map[string]string
}

func (m *goldenMessages) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return nil // the name of the original
	}
	type plain goldenMessages
	return json.Unmarshal(b, (*plain)(m))
}

type goldenQueue struct {
	Min, Max, Next int64
	Readable       int
	Bad            int `json:"readableButBadCrcOrUndecodable"`
	RecordsSha256  string
}

// unpack puts a recorded store into memory.
func unpack(t *testing.T, name string) (*vfs.Mem, golden, store.Options) {
	t.Helper()
	dir := filepath.Join("..", "testdata", "store")
	var g golden
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	fsys := vfstest.Folder(t, filepath.Join(dir, name+".tar.gz"))
	return fsys, g, goldenOptions(fsys, g)
}

func goldenOptions(fsys vfs.FS, g golden) store.Options {
	o := small(fsys)
	o.CommitLogBytes, o.QueueFileBytes = 0, 0 // learned
	o.IndexSlots, _ = strconv.Atoi(g.Settings["maxHashSlotNum"])
	o.IndexEntries, _ = strconv.Atoi(g.Settings["maxIndexNum"])
	return o
}

func splitName(t *testing.T, name string) (string, int32) {
	i := strings.LastIndexByte(name, '-')
	id, err := strconv.Atoi(name[i+1:])
	if err != nil {
		t.Fatal(err)
	}
	return name[:i], int32(id)
}

func sha(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// rawQueue is all records of a queue as a pull from min to max returns them.
func rawQueue(t *testing.T, s *store.Store, q *store.Queue) (raw []byte, n int) {
	for _, v := range readAll(t, s, q) {
		raw = append(raw, v.Raw()...)
		n++
	}
	return raw, n
}

// sameQueues compares every queue with what Apache's recovery made of it,
// except those in skip.
func sameQueues(t *testing.T, s *store.Store, g golden, skip func(name string) bool) {
	t.Helper()
	for name, want := range g.Recovery.After.Queues {
		if skip != nil && skip(name) {
			continue
		}
		topic, id := splitName(t, name)
		q := s.Lookup([]byte(topic), id)
		if q == nil {
			if want.Max != 0 {
				t.Errorf("%s is missing, want %d to %d", name, want.Min, want.Max)
			}
			continue
		}
		if q.Batch() {
			want.Next = want.Max // Apache counts these elsewhere
		}
		if int64(q.Min()) != want.Min || int64(q.Max()) != want.Max || int64(q.Next()) != want.Next {
			t.Errorf("%s is %d to %d, next %d; want %d to %d, next %d", name, q.Min(), q.Max(), q.Next(), want.Min, want.Max, want.Next)
			continue
		}
		raw, n := rawQueue(t, s, q)
		if n != want.Readable || n > 0 && sha(raw) != want.RecordsSha256 {
			t.Errorf("%s: %d messages with sum %s, want %d with %s", name, n, sha(raw), want.Readable, want.RecordsSha256)
		}
	}
}

// everyMessage checks that each recorded message is there: by position, in its
// queue, and by its keys.
func everyMessage(t *testing.T, s *store.Store, g golden, lost func(phys int64) bool) {
	t.Helper()
	for _, m := range g.Messages {
		if lost != nil && lost(m.PhysicalOffset) {
			continue
		}
		b, err := s.Message(nil, record.PhysOffset(m.PhysicalOffset))
		if err != nil {
			t.Errorf("message at %d: %v", m.PhysicalOffset, err)
			continue
		}
		v, err := record.Parse(b)
		if err != nil {
			t.Errorf("message at %d: %v", m.PhysicalOffset, err)
			continue
		}
		if len(b) != m.Size || sha(v.Body()) != m.BodySha256 || v.CheckCRC() != nil || string(v.Topic()) != m.Topic {
			t.Errorf("message at %d differs from the recorded one", m.PhysicalOffset)
		}
		q := s.Lookup([]byte(m.Topic), m.QueueID)
		if q == nil {
			t.Errorf("queue %s-%d is missing", m.Topic, m.QueueID)
			continue
		}
		u := s.Units(nil, q, record.QueueOffset(m.QueueOffset), 1)
		if len(u) != 1 || int64(u[0].Phys) != m.PhysicalOffset || int(u[0].Size) != m.Size {
			t.Errorf("unit %d of %s-%d is %+v, want position %d", m.QueueOffset, m.Topic, m.QueueID, u, m.PhysicalOffset)
		}
		key := m.Properties["UNIQ_KEY"]
		if key == "" {
			continue
		}
		if found, res := s.Query(nil, m.Topic, key, 64, 0, 1<<60, true); !holds(t, found, m.PhysicalOffset) {
			t.Errorf("message at %d is not among the %d found by its key %s", m.PhysicalOffset, res.Count, key)
		}
	}
}

func holds(t *testing.T, found []byte, phys int64) bool {
	for _, v := range views(t, found) {
		if int64(v.PhysOffset()) == phys {
			return true
		}
	}
	return false
}

func TestGoldenClean(t *testing.T) {
	fsys, g, o := unpack(t, "clean")
	s, rec := open(t, o)
	if !rec.Clean || int64(rec.Max) != g.Log.ScanEnd || rec.CutBytes != 0 || len(rec.Notes) != 0 {
		t.Errorf("recovery: %+v", rec)
	}
	sameQueues(t, s, g, nil)
	everyMessage(t, s, g, nil)

	// Life goes on behind the recorded messages, and after a restart all is
	// there still.
	q := s.Lookup([]byte("orders"), 0)
	if it := put(t, s, "orders", 0, "new"); it.QueueOffset != 92 || int64(it.Phys) != g.Log.ScanEnd {
		t.Errorf("new message: %+v", it)
	}
	if q.Max() != 93 {
		t.Errorf("orders-0 ends at %d", q.Max())
	}
	closeStore(t, s)
	o.FS = fsys.ProcessKillClone()
	s, rec = open(t, o)
	if !rec.Clean || len(rec.Notes) != 0 {
		t.Errorf("second recovery: %+v", rec)
	}
	everyMessage(t, s, g, nil)
	closeStore(t, s)
}

// Light queues have units of messages of other queues; they stay as they are.
func TestGoldenLightQueues(t *testing.T) {
	_, g, o := unpack(t, "light-queues-abort")
	s, _ := open(t, o)
	sameQueues(t, s, g, nil)
	closeStore(t, s)
	s, _ = open(t, o)
	sameQueues(t, s, g, nil)
	closeStore(t, s)
}

func TestGoldenFormats(t *testing.T) {
	_, g, o := unpack(t, "formats")
	s, rec := open(t, o)
	if !rec.Clean || int64(rec.Max) != g.Log.ScanEnd {
		t.Errorf("recovery: %+v", rec)
	}
	sameQueues(t, s, g, nil)
	closeStore(t, s)
}

// Stores whose broker was killed, with one more fault each. Where Apache keeps
// all that is on disk, so do we; where it does not, the messages named in lost
// are all that may be missing.
func TestGoldenKilled(t *testing.T) {
	const end = 358761
	all := func(int64) bool { return false }
	at := func(list ...int64) func(int64) bool {
		return func(p int64) bool {
			for _, l := range list {
				if p == l {
					return true
				}
			}
			return false
		}
	}
	tests := []struct {
		name   string
		end    int64
		cut    bool
		lost   func(phys int64) bool
		apache bool // all queues as Apache has them
	}{
		{"killed", end, false, all, true},
		{"killed-torn-body", 358059, true, at(358059), true},
		{"killed-torn-properties", 358059, true, at(358059), false}, // Apache serves garbage
		{"killed-wrong-queue-offset", end, false, all, false},
		{"killed-no-consumequeue", end, false, all, false},
		{"killed-no-topic-queue", end, false, all, false},
		{"killed-queue-far-behind", end, false, all, false},
		{"killed-queue-ahead", end, false, all, true},
		{"killed-flip-middle-last-file", end, false, at(342815), false},
		{"killed-zeroed-middle-page", end, false, func(p int64) bool { return p > 294902 && p < 299008 }, false},
	}
	_, base, _ := unpack(t, "killed")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys, g, o := unpack(t, tt.name)
			s, rec := open(t, o)
			t.Logf("%+v", rec)
			if rec.Clean || int64(rec.Max) != tt.end || (rec.CutBytes > 0) != tt.cut {
				t.Errorf("recovery: %+v, want end %d, cut %v", rec, tt.end, tt.cut)
			}
			if tt.apache {
				sameQueues(t, s, g, nil)
			}
			everyMessage(t, s, base, tt.lost)
			it := put(t, s, "orders", 1, "new")
			// Killed once more: nothing comes back, nothing goes.
			o.FS = fsys.ProcessKillClone()
			again, rec := open(t, o)
			if rec.CutBytes != 0 || rec.Max != record.PhysOffset(int64(it.Phys)+int64(it.Size)) {
				t.Errorf("after another kill: %+v", rec)
			}
			everyMessage(t, again, base, tt.lost)
			q := again.Lookup([]byte("orders"), 1)
			if u := again.Units(nil, q, it.QueueOffset, 5); len(u) != 1 || u[0].Phys != it.Phys {
				t.Errorf("new message after another kill: %v, want position %d", u, it.Phys)
			}
			closeStore(t, again)
		})
	}
}

// A missing first file is what retention leaves: queues begin at their first
// unit that is still in the log.
func TestGoldenNoFirstFile(t *testing.T) {
	_, g, o := unpack(t, "killed-no-first-file")
	s, _ := open(t, o)
	defer closeStore(t, s)
	first := s.Positions().Min
	if first != 65536 {
		t.Fatalf("log begins at %d", first)
	}
	seen := 0
	for _, topic := range s.QueueTopics() {
		for _, q := range s.Queues(topic) {
			if q.Min() == q.Max() {
				continue
			}
			u := s.Units(nil, q, q.Min(), 1)
			if len(u) != 1 || u[0].Phys < first {
				t.Errorf("%s-%d begins at %d with %+v", topic, q.ID(), q.Min(), u)
			}
			if before := s.Units(nil, q, q.Min()-1, 1); len(before) != 0 {
				t.Errorf("%s-%d has units before its first", topic, q.ID())
			}
			_, n := rawQueue(t, s, q)
			seen += n
		}
	}
	want := 0
	for _, q := range g.Recovery.After.Queues {
		want += q.Readable
	}
	if seen != want {
		t.Errorf("%d messages, want %d", seen, want)
	}
}

// Stale records behind the end line up with it; a reader cannot tell. They are
// taken, as Apache does, and nothing of the rest suffers.
func TestGoldenStaleTail(t *testing.T) {
	_, _, o := unpack(t, "killed-stale-tail")
	s, rec := open(t, o)
	defer closeStore(t, s)
	t.Logf("%+v", rec)
	total := 0
	for _, topic := range s.QueueTopics() {
		for _, q := range s.Queues(topic) {
			_, n := rawQueue(t, s, q)
			total += n
		}
	}
	if total < 673 {
		t.Errorf("%d messages, want at least 673", total)
	}
}

// A file missing in the middle of the log hides its messages and no others.
func TestGoldenLogHole(t *testing.T) {
	_, _, o := unpack(t, "killed-log-hole")
	_, base, _ := unpack(t, "killed")
	s, rec := open(t, o)
	defer closeStore(t, s)
	t.Logf("%+v", rec)
	everyMessage(t, s, base, func(p int64) bool { return p/65536 == 3 })
}

func TestSizesAreLearnedAndChecked(t *testing.T) {
	_, _, o := unpack(t, "clean")
	o.CommitLogBytes = 1 << 20
	_, _, err := store.Open(o)
	var d *store.DamagedError
	if !asDamaged(err, &d) || !strings.Contains(d.Try, "mappedFileSizeCommitLog") {
		t.Fatalf("other commit log size: %v", err)
	}
	if _, err := o.FS.Stat("/store/abort"); err == nil {
		t.Error("a refused start left abort")
	}
	o.CommitLogBytes, o.QueueFileBytes = 65536, 6000000
	if _, _, err = store.Open(o); !asDamaged(err, &d) || !strings.Contains(d.Try, "mappedFileSizeConsumeQueue") {
		t.Fatalf("other queue file size: %v", err)
	}
	o.QueueFileBytes = 400
	s, _ := open(t, o)
	closeStore(t, s)
}
