package topic_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mqctl/broker/topic"
	"mqctl/store/vfs"
)

// journalled is a large table with three topics more in its journal, and the journal's text.
func journalled(t *testing.T) (*vfs.Mem, []byte) {
	t.Helper()
	mem, tab := twoGenerations(t)
	for _, name := range []string{"one", "two", "three"} {
		if _, err := tab.Put(topic.Defaults(name)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := vfs.ReadFile(mem, dir+"/topics.json.journal", 1<<20)
	if err != nil || bytes.Count(text, []byte("\n")) != 4 {
		t.Fatalf("%v:\n%s", err, text)
	}
	return mem, text
}

// twoGenerations is a large table that was saved twice.
func twoGenerations(t *testing.T) (*vfs.Mem, *topic.Table) {
	t.Helper()
	mem, tab := largeTable(t)
	_, err := tab.Put(topic.Defaults("second"))
	if err = errors.Join(err, tab.Flush()); err != nil {
		t.Fatal(err)
	}
	return mem, tab
}

func write(t *testing.T, fsys vfs.FS, name string, text []byte) {
	t.Helper()
	if err := vfs.WriteFile(fsys, dir+"/"+name, text); err != nil {
		t.Fatal(err)
	}
}

// flip damages the part of text that is old.
func flip(text []byte, old string) []byte {
	return bytes.Replace(text, []byte(old), []byte(strings.Repeat("#", len(old))), 1)
}

// TestDamagedJournal: what a journal holds behind or beside damage is taken where it can be;
// what cannot is told, naming the journal, and kept when the table is saved, also if that
// fails first and if the process dies at any operation of it.
func TestDamagedJournal(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(mem *vfs.Mem, text []byte) []byte
		left   string // of one, two and three
		lost   string
	}{
		"a line in the middle": {func(_ *vfs.Mem, text []byte) []byte { return flip(text, `"two"`) }, "one three", "1 of 3 changes are damaged"},
		"the first line":       {func(_ *vfs.Mem, text []byte) []byte { return flip(text, `"one"`) }, "two three", "1 of 3 changes are damaged"},
		"the last line":        {func(_ *vfs.Mem, text []byte) []byte { return flip(text, `"three"`) }, "one two", ""}, // as if torn
		"the head":             {func(_ *vfs.Mem, text []byte) []byte { return flip(text, "mqctl") }, "", "another version wrote it"},
		"a newer version":      {func(_ *vfs.Mem, text []byte) []byte { return bytes.Replace(text, []byte("l 1 "), []byte("l 2 "), 1) }, "", "another version wrote it"},
		"another type": {func(_ *vfs.Mem, text []byte) []byte {
			return append(text, "4f198db2 {\"set\":[]}\n"...)
		}, "one two three", "1 of 4 changes cannot be used"},
		"the table itself": {func(mem *vfs.Mem, text []byte) []byte {
			write(t, mem, "topics.json", []byte("{"))
			return text
		}, "", "its 3 changes belong to a generation that cannot be used"},
		"no table": {func(mem *vfs.Mem, text []byte) []byte {
			for _, name := range []string{"topics.json", "topics.json.bak"} {
				if err := mem.Remove(dir + "/" + name); err != nil {
					t.Fatal(err)
				}
			}
			return text
		}, "", "its 3 changes belong to a generation that cannot be used"},
		"nothing":         {func(_ *vfs.Mem, text []byte) []byte { return text }, "one two three", ""},
		"its first write": {func(_ *vfs.Mem, text []byte) []byte { return make([]byte, 512) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			mem, whole := journalled(t)
			text := c.damage(mem, whole)
			write(t, mem, "topics.json.journal", text)
			tab := load(t, options(mem))
			var left []string
			for _, name := range []string{"one", "two", "three"} {
				if tab.Get(name) != nil {
					left = append(left, name)
				}
			}
			if strings.Join(left, " ") != c.left {
				t.Errorf("found %q, want %q", left, c.left)
			}
			lost := tab.Lost()
			if (lost != nil) != (c.lost != "") || lost != nil && (!strings.Contains(lost.Error(), c.lost) || !strings.Contains(lost.Error(), dir+"/topics.json.journal:")) {
				t.Fatalf("lost: %v, want %q", lost, c.lost)
			}
			if lost != nil {
				_, aside, _ := strings.Cut(lost.Error(), "keeps it as ")
				keptAside(t, mem, tab, aside, text)
			}
		})
	}
}

// keptAside saves the table and looks for its damaged journal.
func keptAside(t *testing.T, mem *vfs.Mem, tab *topic.Table, aside string, text []byte) {
	t.Helper()
	killed := mem.ProcessKillClone()
	in := vfs.NewInjector(killed)
	again := load(t, options(in))
	var dead []*vfs.Mem
	in.OnOp = func(op vfs.Op, _ string) {
		if op.Changes() {
			dead = append(dead, killed.ProcessKillClone())
		}
	}
	in.Fail(vfs.Fault{Op: vfs.OpRename, Path: "journal", Left: 1, Err: errors.New("sick")})
	for _, name := range []string{"more", "and-more"} {
		if _, err := again.Put(topic.Defaults(name)); err != nil {
			t.Fatal(err)
		}
	}
	found := func(mem *vfs.Mem) bool {
		for _, name := range []string{aside, dir + "/topics.json.journal"} {
			if b, err := vfs.ReadFile(mem, name, 1<<20); err == nil && bytes.Equal(b, text) {
				return true
			}
		}
		return false
	}
	for i, mem := range append(dead, killed) {
		if !found(mem) {
			t.Fatalf("the journal is gone at operation %d of %d", i, len(dead))
		}
	}
	if err := tab.Flush(); err != nil { // as a clean stop does
		t.Fatal(err)
	}
	if _, err := mem.Stat(dir + "/topics.json.journal"); err == nil || !found(mem) {
		t.Errorf("after a flush: %v, kept %v", err, found(mem))
	}
	after := load(t, options(mem))
	if err := errors.Join(after.Lost(), after.Fallback()); err != nil {
		t.Errorf("after a flush: %v", err)
	}
}

// TestFallbackBehindJournals: the version after a fallback is behind all that were told,
// however many changes went to journals.
func TestFallbackBehindJournals(t *testing.T) {
	mem, tab := twoGenerations(t)
	many := map[string]topic.Config{}
	for i := range 3000 { // so many that a quarter of the document has room for a thousand changes
		c := topic.Defaults(fmt.Sprintf("t%d", i))
		many[c.TopicName] = c
	}
	_, version := tab.All()
	if _, err := tab.Replace(many, version); err != nil {
		t.Fatal(err)
	}
	for i := range 2400 {
		c := topic.Defaults(fmt.Sprintf("t%d", i%10))
		c.ReadQueueNums = int32(20 + i)
		if _, err := tab.Put(c); err != nil {
			t.Fatal(err)
		}
		if i%199 > 0 || i < 1200 {
			continue
		}
		left := mem.ProcessKillClone()
		write(t, left, "topics.json", []byte(`{"dataVersion":{"cou`))
		again := load(t, options(left))
		_, told := tab.All()
		if _, v := again.All(); v.Counter <= told.Counter || again.Fallback() == nil {
			t.Fatalf("change %d: version %d after a fallback, %d was told", i, v.Counter, told.Counter)
		}
	}
}
