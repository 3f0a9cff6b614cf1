package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mqctl/store"
	"mqctl/store/vfs"
	"mqctl/store/vfs/vfstest"
)

// folder is one recorded store: what Apache, or somebody who damaged it, left.
type folder struct{ *vfstest.Set }

// folders reads all recorded stores. Equal files share their bytes.
var folders = sync.OnceValues(func() (map[string]*folder, error) {
	sets, err := vfstest.Sets(filepath.Join("..", "testdata", "store", "folders.tar.gz"))
	out := make(map[string]*folder, len(sets))
	for name, set := range sets {
		out[name] = &folder{set}
	}
	return out, err
})

// log is the bytes of the commit log from its first file on; missing files are zero.
func (f *folder) log() []byte {
	var out []byte
	for name, b := range f.Files {
		base, ok := strings.CutPrefix(name, "/store/commitlog/")
		if !ok || len(base) != 20 {
			continue
		}
		at := 0
		for _, c := range base {
			at = at*10 + int(c-'0')
		}
		if n := at + len(b); n > len(out) {
			out = append(out, make([]byte, n-len(out))...)
		}
		copy(out[at:], b)
	}
	return out
}

// folderWant is what a folder must give beyond the rule for all.
type folderWant struct {
	kinds   string // of the findings, in their order, without repetition
	end     int64  // of the log; 0: where the recorded scan ends
	refused bool
	stays   bool // the findings are there at the second start too
	// not is from where on messages are not served although Apache does: it serves what
	// was torn in its properties, and what one of its recoveries had cut off.
	not int64
}

const (
	killedEnd, cleanEnd = 358761, 254789
	tornTail            = "QUEUE_WRONG_ENTRY TORN_TAIL"
)

var folderWants = map[string]folderWant{
	"clean-no-commitlog":                  {refused: true},
	"clean-flip-last":                     {kinds: "TORN_TAIL QUEUE_AHEAD"},
	"clean-flip-middle-last-file":         {kinds: "DAMAGED", end: cleanEnd},
	"clean-flip-old-file":                 {kinds: "DAMAGED", end: cleanEnd},
	"clean-no-consumequeue":               {kinds: "QUEUE_BEHIND"},
	"clean-no-topic-queue":                {kinds: "QUEUE_BEHIND"},
	"clean-queue-behind":                  {kinds: "QUEUE_BEHIND"},
	"clean-queue-reset-counter":           {kinds: "QUEUE_BEHIND"},
	"clean-queue-zero-file-after-full":    {kinds: "QUEUE_BEHIND"},
	"killed-exact-fill":                   {end: killedEnd},
	"killed-flip-last":                    {kinds: "TORN_TAIL QUEUE_AHEAD"},
	"killed-flip-first-of-last-file":      {kinds: "DAMAGED", end: killedEnd},
	"killed-flip-middle-last-file":        {kinds: "DAMAGED", end: killedEnd},
	"killed-flip-middle-second-last-file": {kinds: "DAMAGED", end: killedEnd},
	"killed-flip-old-file":                {kinds: "DAMAGED", end: killedEnd},
	"killed-log-hole":                     {kinds: "MISSING_FILE", end: killedEnd},
	"killed-no-consumequeue":              {kinds: "QUEUE_BEHIND"},
	"killed-no-consumequeue-restarted":    {kinds: "QUEUE_WRONG_ENTRY QUEUE_BEHIND"},
	"killed-no-first-file":                {end: killedEnd},
	"killed-no-topic-queue":               {kinds: "QUEUE_BEHIND"},
	"killed-queue-ahead":                  {kinds: "QUEUE_WRONG_ENTRY"},
	"killed-queue-behind":                 {kinds: "QUEUE_BEHIND"},
	"killed-queue-far-behind":             {kinds: "QUEUE_BEHIND"},
	"killed-queue-short-file":             {kinds: "SHORT_FILE"},
	"killed-queue-wrong-unit":             {kinds: "QUEUE_WRONG_ENTRY"},
	"killed-queue-zero-file-after-full":   {kinds: "QUEUE_BEHIND"},
	"killed-short-log":                    {kinds: "SHORT_FILE"},
	"killed-stale-tail":                   {kinds: "STALE_RECORDS TORN_TAIL QUEUE_AHEAD", end: 343462, not: 343462},
	"killed-temp-file":                    {kinds: "STRANGE_FILE", stays: true},
	"killed-torn-body":                    {kinds: tornTail},
	"killed-torn-header":                  {kinds: tornTail},
	"killed-torn-length":                  {kinds: "QUEUE_WRONG_ENTRY"},
	"killed-torn-properties":              {kinds: "TORN_TAIL QUEUE_AHEAD", end: 358059, not: 358059},
	"killed-torn-topic":                   {kinds: tornTail},
	"killed-wrong-magic":                  {kinds: "DAMAGED", end: killedEnd},
	"killed-wrong-physical-offset":        {kinds: "WRONG_POSITION", end: killedEnd},
	"killed-wrong-size":                   {kinds: "DAMAGED", end: killedEnd},
	"killed-zero-length-file":             {kinds: "SHORT_FILE"},
	"killed-zeroed-16k":                   {kinds: "QUEUE_WRONG_ENTRY TORN_TAIL QUEUE_AHEAD", end: 343462, not: 343462},
	"killed-zeroed-middle-page":           {kinds: "DAMAGED", end: killedEnd},
	"killed-zeroed-page":                  {kinds: tornTail},
}

// TestGoldenFolders opens every recorded store. For each: what Apache's recovery keeps is
// kept, and so are the messages that are intact on the disk and that it loses; no byte
// of the log is changed before its end; a second start finds nothing more.
func TestGoldenFolders(t *testing.T) {
	all, err := folders()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 72 {
		t.Fatalf("%d recorded stores", len(all))
	}
	for name, f := range all {
		t.Run(name, func(t *testing.T) { f.check(t, name, all) })
	}
}

func (f *folder) check(t *testing.T, name string, all map[string]*folder) {
	want := folderWants[name]
	var g golden
	if err := json.Unmarshal(f.JSON, &g); err != nil {
		t.Fatal(err)
	}
	fsys := f.Folder(t)
	o := goldenOptions(fsys, g)
	s, rec, err := store.Open(o)
	var damaged *store.DamagedError
	if want.refused {
		if !errors.As(err, &damaged) || damaged.Try == "" {
			t.Fatalf("not refused with a hint: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	end := want.end
	if end == 0 {
		end = g.Log.ScanEnd
	}
	if int64(rec.Max) != end {
		t.Errorf("the log ends at %d, want %d: %+v", rec.Max, end, rec)
	}
	if got := kinds(rec.Findings); got != want.kinds {
		t.Errorf("findings %q, want %q: %v", got, want.kinds, rec.Findings)
	}
	for _, x := range rec.Findings {
		if x.File == "" || x.Bytes == 0 && x.Kind != store.StaleRecords && x.Kind != store.StrangeFile && x.Kind != store.ShortFile ||
			x.What == "" || x.Done == "" && x.Try == "" {
			t.Errorf("incomplete finding %+v", x)
		}
	}
	f.logIsUntouched(t, fsys, end)
	if want.not == 0 {
		f.keepsApaches(t, s, g)
	}
	f.keepsIntact(t, s, name, all, want)
	closeStore(t, s)
	o.FS = fsys.ProcessKillClone()
	s, again := open(t, o)
	if !again.Clean || again.CutBytes > 0 || !want.stays && (len(again.Notes) > 0 || len(again.Findings) != len(s.Holes())) {
		t.Errorf("second start: %+v", again)
	}
	closeStore(t, s)
}

func kinds(list []store.Finding) string {
	var out []string
	for _, x := range list {
		if k := string(x.Kind); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return strings.Join(out, " ")
}

// logIsUntouched compares the files before the end with the recorded ones.
func (f *folder) logIsUntouched(t *testing.T, fsys *vfs.Mem, end int64) {
	t.Helper()
	for name, old := range f.Files {
		if !strings.HasPrefix(name, "/store/commitlog/0") || old == nil || len(old) == 0 {
			continue
		}
		base := int64(0)
		for _, c := range path.Base(name) {
			base = base*10 + int64(c-'0')
		}
		n := min(int64(len(old)), end-base)
		if n <= 0 {
			continue
		}
		b, err := vfs.ReadFile(fsys, name, 1<<20)
		if err != nil || !bytes.Equal(b[:n], old[:n]) {
			t.Errorf("%s was changed before the end of the log (%v)", name, err)
		}
	}
}

// keepsApaches compares the number of readable messages of each queue with what
// Apache's recovery leaves, less those that it serves damaged.
func (f *folder) keepsApaches(t *testing.T, s *store.Store, g golden) {
	t.Helper()
	for name, want := range g.Recovery.After.Queues {
		topic, id := splitName(t, name)
		q := s.Lookup([]byte(topic), id)
		if q == nil {
			if want.Readable > 0 {
				t.Errorf("%s is missing", name)
			}
			continue
		}
		if _, n := rawQueue(t, s, q); n < want.Readable-want.Bad {
			t.Errorf("%s has %d messages, Apache keeps %d", name, n, want.Readable-want.Bad)
		}
	}
}

// keepsIntact looks for each message of the undamaged original whose bytes are the
// same here.
func (f *folder) keepsIntact(t *testing.T, s *store.Store, name string, all map[string]*folder, want folderWant) {
	t.Helper()
	original := strings.SplitN(name, "-", 2)[0]
	if original != "clean" && original != "killed" {
		return // no damage: keepsApaches says all
	}
	var base golden
	if err := json.Unmarshal(all[original].JSON, &base); err != nil {
		t.Fatal(err)
	}
	was, is := all[original].log(), f.log()
	intact := 0
	lost := func(p int64) bool {
		i := slices.IndexFunc(base.Messages, func(m goldenMessage) bool { return m.PhysicalOffset == p })
		to := p + int64(base.Messages[i].Size)
		if to > int64(len(is)) || !bytes.Equal(was[p:to], is[p:to]) || want.not > 0 && p >= want.not {
			return true
		}
		intact++
		return false
	}
	everyMessage(t, s, base, lost)
	if intact == 0 {
		t.Error("no message of the original is intact here: the test compares nothing")
	}
}
