package topic_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"mqctl/broker/topic"
	"mqctl/store/vfs"
)

// fileBytes is the size of a file, 0 if there is none.
func fileBytes(t testing.TB, m *vfs.Mem, name string) int {
	t.Helper()
	b, err := vfs.ReadFile(m, name, 1<<30)
	if err != nil {
		return 0
	}
	return len(b)
}

// Topics made one after the other are durable each, without a new generation of a
// large table for each; topics.json catches up with Flush.
func TestTopicsOneByOne(t *testing.T) {
	mem := vfs.NewMem()
	tab := load(t, options(mem))
	const n = 1500
	generations, last := 0, 0
	for i := range n {
		if _, err := tab.Put(topic.Defaults(fmt.Sprintf("topic-%05d", i))); err != nil {
			t.Fatal(err)
		}
		if size := fileBytes(t, mem, options(nil).Dir+"/topics.json"); size != last && i > 700 {
			generations, last = generations+1, size
		}
	}
	if generations == 0 || generations > 40 {
		t.Errorf("%d generations for %d topics", generations, n-701)
	}
	for i := range 100 {
		if _, err := tab.Delete(fmt.Sprintf("topic-%05d", i*7)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(tab *topic.Table, what string) {
		t.Helper()
		all, version := tab.All()
		_, want := load(t, options(mem)).All()
		if version.Counter < want.Counter {
			t.Errorf("%s: version %+v, behind %+v", what, version, want)
		}
		for i := range n {
			gone := i%7 == 0 && i < 700
			if (all[fmt.Sprintf("topic-%05d", i)] == nil) != gone {
				t.Fatalf("%s: topic %d: gone %v", what, i, !gone)
			}
		}
	}
	check(tab, "in memory")
	killed := mem.ProcessKillClone()
	power := mem.CrashClone(rand.New(rand.NewPCG(1, 2)), vfs.CrashOptions{})
	again := load(t, options(power))
	check(again, "after a power loss")
	check(load(t, options(killed)), "after a kill")
	// The next change after a start writes all of it.
	if _, err := again.Put(topic.Defaults("after")); err != nil {
		t.Fatal(err)
	}
	if _, err := power.Stat(options(nil).Dir + "/topics.json.journal"); err == nil {
		t.Error("the journal is still there")
	}
	check(load(t, options(power)), "after another start")

	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	// Somebody else writes the table: the journal of another generation counts no more.
	old, err := vfs.ReadFile(mem, options(nil).Dir+"/topics.json", 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tab.Put(topic.Defaults("journalled")); err != nil {
		t.Fatal(err)
	}
	if load(t, options(mem)).Get("journalled") == nil {
		t.Error("a change of the journal is lost")
	}
	if err := vfs.WriteFile(mem, options(nil).Dir+"/topics.json", append(old, '\n')); err != nil {
		t.Fatal(err)
	}
	if load(t, options(mem)).Get("journalled") != nil {
		t.Error("the journal of another document was applied")
	}
}

// A journal that ends in the middle of a line, at any byte, gives the lines before it.
func TestTornJournal(t *testing.T) {
	if raceDetector {
		t.Skip("runs without the race detector: it has one goroutine")
	}
	mem := vfs.NewMem()
	tab := load(t, options(mem))
	for i := range 700 {
		if _, err := tab.Put(topic.Defaults(fmt.Sprintf("a-rather-long-name-of-a-topic-%05d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if _, err := tab.Put(topic.Defaults(name)); err != nil {
			t.Fatal(err)
		}
	}
	path := options(nil).Dir + "/topics.json.journal"
	whole, err := vfs.ReadFile(mem, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	had := false
	for cut := len(whole); cut >= 0; cut -= 13 {
		if err := vfs.WriteFile(mem, path, whole[:cut]); err != nil {
			t.Fatal(err)
		}
		got := load(t, options(mem))
		one, two := got.Get("one") != nil, got.Get("two") != nil
		if two && (cut < len(whole) || !one) {
			t.Fatalf("cut at %d of %d: one %v, two %v", cut, len(whole), one, two)
		}
		had = had || one && !two
	}
	if !had {
		t.Error("no cut left the first line alone")
	}
}

// BenchmarkCreateTopic makes topics one after the other in a table that has 5,000.
func BenchmarkCreateTopic(b *testing.B) {
	o := options(vfs.OS{})
	o.Dir = b.TempDir()
	tab, err := topic.Load(o)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 5000 {
		if _, err := tab.Put(topic.Defaults(fmt.Sprintf("old-%05d", i))); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for i := range b.N {
		if _, err := tab.Put(topic.Defaults(fmt.Sprintf("new-%05d", i))); err != nil {
			b.Fatal(err)
		}
	}
}

// largeTable is a saved table that is large enough for a journal.
func largeTable(t testing.TB) (*vfs.Mem, *topic.Table) {
	t.Helper()
	fsys := vfs.NewMem()
	tab := load(t, options(fsys))
	changed := map[string]topic.Config{}
	for i := range 700 {
		c := topic.Defaults(fmt.Sprintf("topic-%05d", i))
		changed[c.TopicName] = c
	}
	_, version := tab.All()
	if _, err := tab.Replace(changed, version); err != nil {
		t.Fatal(err)
	}
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	return fsys, tab
}

// FuzzJournal: whatever stands in a journal, a table loads or says why not, and what it loads
// can be changed and read again. The table is a small one, that a broker would write no journal
// for, so that a try takes little time.
func FuzzJournal(f *testing.F) {
	base := vfs.NewMem()
	if _, err := load(f, options(base)).Put(topic.Defaults("topic-00001")); err != nil {
		f.Fatal(err)
	}
	doc, err := vfs.ReadFile(base, dir+"/topics.json", 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"dataVersion":{"counter":9,"stateVersion":0,"timestamp":1},"deleted":[],"set":{"one-more":{"topicName":"one-more","perm":6}}}`))
	f.Add([]byte(`{"dataVersion":{"counter":-1},"deleted":["topic-00001",""],"set":{"a/b":null,"topic-00002":{"perm":1e99}}}`))
	f.Fuzz(func(t *testing.T, change []byte) {
		mem := base.ProcessKillClone()
		b := fmt.Appendf(nil, "mqctl-journal 1 %08x %d\n", crc32.ChecksumIEEE(doc), len(doc))
		for range 2 {
			b = fmt.Appendf(b, "%08x %s\n", crc32.ChecksumIEEE(change), change)
		}
		if err := vfs.WriteFile(mem, dir+"/topics.json.journal", b); err != nil {
			t.Fatal(err)
		}
		tab, err := topic.Load(options(mem))
		if err != nil {
			return
		}
		if !bytes.ContainsRune(change, 0x0a) && json.Valid(change) == (tab.Lost() != nil && strings.Contains(tab.Lost().Error(), "damaged")) {
			t.Fatalf("%q: %v", change, tab.Lost())
		}
		if _, err := tab.Put(topic.Defaults("fuzz-new")); err != nil {
			t.Fatal(err)
		}
		again := load(t, options(mem))
		all, _ := tab.All()
		for name, c := range all {
			if topic.CheckName(name) != nil && !tab.IsSystem(name) {
				t.Fatalf("name %q was accepted", name)
			}
			if got := again.Get(name); got == nil || !got.Equal(*c) {
				t.Fatalf("%q: %v became %v", name, c, got)
			}
		}
	})
}
