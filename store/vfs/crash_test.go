package vfs_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"mqctl/store/vfs"
)

func crash(m *vfs.Mem, seed uint64, o vfs.CrashOptions) *vfs.Mem {
	return m.CrashClone(rand.New(rand.NewPCG(seed, 7)), o)
}

// Synced content under a synced name survives everything; so does nothing less.
func TestCrashKeepsWhatIsSynced(t *testing.T) {
	mem := vfs.NewMem()
	must(t, vfs.MkdirAllSync(mem, "/d/e"))
	write(t, mem, "/d/e/a", "synced")
	must(t, mem.SyncDir("/d/e"))
	write(t, mem, "/d/e/no-name", "synced")
	f, err := mem.Create("/d/e/no-data")
	must(t, err)
	_, err = f.WriteAt([]byte("written"), 0)
	must(t, err)
	must(t, mem.SyncDir("/d/e"))
	must(t, mem.Remove("/d/e/no-name"))
	write(t, mem, "/d/e/late", "synced")
	g, err := mem.OpenReadWrite("/d/e/a")
	must(t, err)
	_, err = g.WriteAt([]byte("SYNC"), 0)
	must(t, err)

	seen := map[string]int{}
	for seed := range uint64(200) {
		c := crash(mem, seed, vfs.CrashOptions{ReorderNames: seed%2 == 0})
		switch s := read(t, c, "/d/e/a"); s {
		case "synced", "SYNCed":
			seen[s]++
		default:
			t.Fatalf("a holds %q", s)
		}
		switch s := read(t, c, "/d/e/no-data"); s {
		case "", "written":
			seen["data "+s]++
		case "\x00\x00\x00\x00\x00\x00\x00":
			seen["data zero"]++
		default:
			t.Fatalf("no-data holds %q", s)
		}
		for _, name := range []string{"no-name", "late"} {
			_, err := c.Stat("/d/e/" + name)
			seen[fmt.Sprintf("%s there %v", name, err == nil)]++
		}
	}
	for _, what := range []string{"synced", "SYNCed", "data ", "data written", "data zero",
		"no-name there true", "no-name there false", "late there true", "late there false"} {
		if seen[what] == 0 {
			t.Errorf("never in 200 crashes: %s (%v)", what, seen)
		}
	}
	lost := crash(mem, 1, vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost})
	if read(t, lost, "/d/e/a") != "synced" || read(t, lost, "/d/e/no-name") != "synced" || read(t, lost, "/d/e/no-data") != "" {
		t.Error("FateLost")
	}
	kept := crash(mem, 1, vfs.CrashOptions{Data: vfs.FateKept, Names: vfs.FateKept})
	if read(t, kept, "/d/e/a") != "SYNCed" || read(t, kept, "/d/e/late") != "synced" || second(kept.Stat("/d/e/no-name")) == nil {
		t.Error("FateKept")
	}
	// What a clone holds is durable, and apart from the original.
	write(t, mem, "/d/e/a", "changed")
	if again := crash(kept, 3, vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost}); read(t, again, "/d/e/a") != "SYNCed" || read(t, again, "/d/e/late") != "synced" {
		t.Error("a clone lost something in a second crash")
	}
}

// Torn writes: whole sectors, old or new, and a length in between.
func TestCrashTearsSectors(t *testing.T) {
	mem := vfs.NewMem()
	write(t, mem, "/a", strings.Repeat("o", 5000))
	must(t, mem.SyncDir("/"))
	f, err := mem.OpenReadWrite("/a")
	must(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte("n"), 9000), 0)
	must(t, err)
	mixed, between := 0, 0
	for seed := range uint64(300) {
		s := read(t, crash(mem, seed, vfs.CrashOptions{}), "/a")
		if len(s) < 5000 || len(s) > 9000 {
			t.Fatalf("length %d", len(s))
		}
		if len(s) > 5000 && len(s) < 9000 {
			between++
		}
		kinds := map[byte]bool{}
		for at := 0; at < len(s); at += 512 {
			sector := s[at:min(at+512, len(s))]
			kinds[sector[0]] = true
			// The old file ended within sector 9, which may be half old.
			if at != 4608 && strings.Trim(sector, sector[:1]) != "" {
				t.Fatalf("sector at %d is torn: %q", at, sector)
			}
			if sector[0] == 0 && at < 4608 {
				t.Fatalf("sector at %d lost what was synced", at)
			}
		}
		if len(kinds) > 1 {
			mixed++
		}
	}
	if mixed < 50 || between < 20 {
		t.Errorf("of 300 crashes %d are mixed and %d of a length in between", mixed, between)
	}
}

// A shrunk file may have its old length and content again.
func TestCrashRevertsTruncation(t *testing.T) {
	mem := vfs.NewMem()
	old := strings.Repeat("o", 10000)
	write(t, mem, "/a", old)
	must(t, mem.SyncDir("/"))
	f, err := mem.OpenReadWrite("/a")
	must(t, err)
	must(t, f.Truncate(100))
	if s := read(t, crash(mem, 1, vfs.CrashOptions{Data: vfs.FateLost}), "/a"); s != old {
		t.Errorf("%d bytes", len(s))
	}
	must(t, f.Truncate(9000))
	if s := read(t, mem, "/a"); s != old[:100]+strings.Repeat("\x00", 8900) {
		t.Error("old bytes came back without a crash")
	}
	must(t, f.Sync())
	if s := read(t, crash(mem, 1, vfs.CrashOptions{Data: vfs.FateLost}), "/a"); s != old[:100]+strings.Repeat("\x00", 8900) {
		t.Errorf("synced truncation was lost")
	}
}

// A rename happens in both folders or in none.
func TestCrashRenameIsAtomic(t *testing.T) {
	for seed := range uint64(60) {
		mem := vfs.NewMem()
		must(t, vfs.MkdirAllSync(mem, "/from"))
		must(t, vfs.MkdirAllSync(mem, "/to"))
		write(t, mem, "/from/a", "x")
		must(t, mem.SyncDir("/from"))
		must(t, mem.Rename("/from/a", "/to/a"))
		if seed%3 == 0 {
			must(t, mem.SyncDir("/to"))
		}
		c := crash(mem, seed, vfs.CrashOptions{ReorderNames: seed%2 == 0})
		from, to := second(c.Stat("/from/a")) == nil, second(c.Stat("/to/a")) == nil
		if from == to || seed%3 == 0 && !to {
			t.Fatalf("seed %d: in the old folder %v, in the new %v", seed, from, to)
		}
	}
}

func TestCrashIsReproducible(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/d"))
	for i := range 30 {
		f, err := mem.Create(fmt.Sprintf("/d/%d", i))
		must(t, err)
		_, err = f.WriteAt(bytes.Repeat([]byte{byte(i)}, 3000), 0)
		must(t, err)
	}
	dump := func(m *vfs.Mem) string {
		var s strings.Builder
		list, _ := m.ReadDir("/d")
		for _, e := range list {
			fmt.Fprintf(&s, "%s=%x\n", e.Name, read(t, m, "/d/"+e.Name))
		}
		return s.String()
	}
	for seed := range uint64(20) {
		first, second := crash(mem, seed, vfs.CrashOptions{}), crash(mem, seed, vfs.CrashOptions{})
		if dump(first) != dump(second) {
			t.Fatalf("seed %d gives two different crashes", seed)
		}
	}
}

// kill -9 keeps everything that was written, but makes nothing safer.
func TestProcessKill(t *testing.T) {
	mem := vfs.NewMem()
	l, err := mem.Lock("/lock")
	must(t, err)
	defer l.Close()
	must(t, mem.MkdirAll("/d"))
	f, err := mem.Create("/d/a")
	must(t, err)
	_, err = f.WriteAt([]byte("written"), 0)
	must(t, err)
	must(t, mem.Link("/d/a", "/d/b"))
	c := mem.ProcessKillClone()
	_, err = f.WriteAt([]byte("later"), 0)
	must(t, err)
	if read(t, c, "/d/a") != "written" || read(t, c, "/d/b") != "written" {
		t.Error("written data was lost, or is shared with the dead process")
	}
	if _, err := c.Lock("/lock"); err != nil {
		t.Errorf("the lock outlived its process: %v", err)
	}
	g, err := c.OpenReadWrite("/d/b")
	must(t, err)
	_, err = g.WriteAt([]byte("W"), 0)
	must(t, err)
	if s := read(t, c, "/d/a"); s != "Written" {
		t.Errorf("hard link after the clone: %q", s)
	}
	if _, err := crash(c, 1, vfs.CrashOptions{Names: vfs.FateLost, Data: vfs.FateLost}).Stat("/d"); err == nil {
		t.Error("a clone of kill -9 made a name safe")
	}
	must(t, g.Sync())
	must(t, c.SyncDir("/"))
	must(t, c.SyncDir("/d"))
	if s := read(t, crash(c, 1, vfs.CrashOptions{Names: vfs.FateLost, Data: vfs.FateLost}), "/d/a"); s != "Written" {
		t.Errorf("synced after the clone: %q", s)
	}
}

// TestSyncedRenameKeepsOrder: a rename that a sync of its old folder made safe is not
// undone by the removal of an older file of that name, which a later sync covers.
func TestSyncedRenameKeepsOrder(t *testing.T) {
	m := vfs.NewMem()
	must(t, m.MkdirAll("/a"))
	must(t, m.MkdirAll("/b"))
	must(t, vfs.WriteFile(m, "/b/x", []byte("old")))
	must(t, m.SyncDir("/"))
	must(t, m.SyncDir("/b"))
	must(t, m.Remove("/b/x"))
	must(t, vfs.WriteFile(m, "/a/t", []byte("new")))
	must(t, m.Rename("/a/t", "/b/x"))
	must(t, m.SyncDir("/a"))
	must(t, m.SyncDir("/b"))
	got, err := vfs.ReadFile(crash(m, 1, vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost}), "/b/x", 100)
	if err != nil || string(got) != "new" {
		t.Errorf("after a crash: %q, %v", got, err)
	}
}
