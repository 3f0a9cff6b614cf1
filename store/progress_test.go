package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"mqctl/store/internal/checkpoint"
	"mqctl/store/internal/commitlog"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

func TestProgress(t *testing.T) {
	p := &progress{
		pid: 77, clean: true, end: 12345, dispatched: 12000, checkpoint: 0xABCDEF01,
		deleted: map[string]int64{"orders": 5, "with \"quotes\"\nand a line": 6},
	}
	got, err := decodeProgress(p.encode())
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v, %v", got, err)
	}
	m := vfs.NewMem()
	if p, why, err := readProgress(m, "/progress"); p != nil || why != "" || err != nil {
		t.Errorf("missing: %v, %q, %v", p, why, err)
	}
	if err := writeProgress(m, "/progress", p); err != nil {
		t.Fatal(err)
	}
	if got, why, err := readProgress(m, "/progress"); why != "" || err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%v, %q, %v", got, why, err)
	}
	if err := vfs.WriteFile(m, "/progress", p.encode()[1:]); err != nil {
		t.Fatal(err)
	}
	if p, why, err := readProgress(m, "/progress"); p != nil || !strings.Contains(why, "checksum") || err != nil {
		t.Errorf("torn: %v, %q, %v", p, why, err)
	}
}

func FuzzProgress(f *testing.F) {
	f.Add((&progress{deleted: map[string]int64{"t": 1}}).encode())
	f.Add([]byte("mqctl-progress 1\ncrc 00000000\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeProgress(b)
		if err != nil {
			return
		}
		again, err := decodeProgress(p.encode())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%q became %+v, then %+v, %v", b, p, again, err)
		}
	})
}

// FuzzHoles: what is read of a list of holes is in order and is written the same way.
func FuzzHoles(f *testing.F) {
	f.Add(encodeHoles([]commitlog.Hole{{From: 1, To: 5, StoreMillis: 7}, {From: 5, To: 9, Missing: true}, {From: 20, To: 30, Kept: true}}))
	f.Add([]byte("mqctl-holes 1\ndamaged 1 2 -9\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:bytes.LastIndexByte(b, '\n')+1]
		if i := bytes.LastIndex(b, []byte("\ncrc ")); i >= 0 {
			b = b[:i+1]
		}
		holes, err := decodeHoles(seal(bytes.NewBuffer(bytes.Clone(b))))
		if err != nil {
			return
		}
		end := int64(0)
		for _, h := range holes {
			if h.From < end || h.To <= h.From {
				t.Fatalf("%q became %+v", b, holes)
			}
			end = h.To
		}
		again, err := decodeHoles(encodeHoles(holes))
		if err != nil || !reflect.DeepEqual(again, holes) {
			t.Errorf("%q became %+v, then %+v, %v", b, holes, again, err)
		}
	})
}

// FuzzUnsafe: a note that cannot be read has the whole log written again.
func FuzzUnsafe(f *testing.F) {
	f.Add([]byte("mqctl-unsafe 1\nfrom 294\ncrc 00000000\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := vfs.NewMem()
		s := newStore(Options{FS: m, Dir: "/s", Log: slog.New(slog.DiscardHandler)})
		if err := errors.Join(m.MkdirAll("/s/mqctl"), vfs.WriteFile(m, s.unsafeFile(), b)); err != nil {
			t.Fatal(err)
		}
		if from, err := s.readUnsafe(); err == nil && from < 0 {
			t.Errorf("%q has nothing written again", b)
		}
	})
}

func TestMemoryLimits(t *testing.T) {
	if n, ok := memTotal("MemFree: 5 kB\nMemTotal:       24689432 kB\n"); !ok || n != 24689432<<10 {
		t.Errorf("%d, %v", n, ok)
	}
	for text, want := range map[string]int64{"max\n": 0, "536870912\n": 536870912, "9223372036854771712\n": 0, "": 0, "-1": 0} {
		if n, ok := parseLimit(text); ok != (want > 0) || ok && n != want {
			t.Errorf("%q: %d, %v", text, n, ok)
		}
	}
	got := strings.Join(limitFiles("0::/system.slice/mqctl.service\n4:cpu,memory:/docker/ab\n2:cpuset:/x\njunk\n"), " ")
	want := "/sys/fs/cgroup/memory.max /sys/fs/cgroup/system.slice/memory.max /sys/fs/cgroup/system.slice/mqctl.service/memory.max " +
		"/sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory/docker/memory.limit_in_bytes /sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes"
	if got != want {
		t.Errorf("files %s", got)
	}
	if n := machineMemory(); n < 1<<20 {
		t.Errorf("this machine has %d bytes", n)
	}
}

func TestNamesOfStatus(t *testing.T) {
	if PutOK.String() != "PUT_OK" || UnknownError.String() != "UNKNOWN_ERROR" || Status(99).String() != "UNKNOWN_ERROR" ||
		CreateFailed.String() != "CREATE_MAPPED_FILE_FAILED" || PropertiesExceeded.String() != "PROPERTIES_SIZE_EXCEEDED" {
		t.Error("put status")
	}
	if Found.String() != "FOUND" || OffsetReset.String() != "OFFSET_RESET" || NoMessageInQueue.String() != "NO_MESSAGE_IN_QUEUE" || ReadStatus(99).String() != "UNKNOWN" {
		t.Error("read status")
	}
}

// TestCheckpointOfIndex: by the checkpoint RocketMQ keeps the index files that end no later
// and deletes the rest. So it tells of the last full file once that is synced, and after a
// kill at no time of more than what is on disk.
func TestCheckpointOfIndex(t *testing.T) {
	mem := vfs.NewMem()
	now, host := time.UnixMilli(1735689600000), netip.MustParseAddrPort("127.0.0.1:10911")
	o := Options{
		FS: mem, Dir: "/store", CommitLogBytes: 64 << 10, QueueFileBytes: 4000, IndexSlots: 16, IndexEntries: 10,
		MemoryBytes: 1 << 30, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
	}
	s, _, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	put := func(n int) {
		t.Helper()
		for range n {
			now = now.Add(time.Second)
			d := &record.Draft{Topic: []byte("t"), BornHost: host, StoreHost: host, Body: []byte("b")}
			d.Properties = record.AppendProperty(d.Properties, "KEYS", "k")
			if _, err := s.Append(t.Context(), s.Queue("t", 0), d, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	ends := func(fsys vfs.FS) (out []int64) { // of the files of the index, by their headers
		list, err := fsys.ReadDir("/store/index")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			b, err := vfs.ReadFile(fsys, "/store/index/"+e.Name, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, int64(binary.BigEndian.Uint64(b[8:])))
		}
		return out
	}
	check := func(how string, want int64) {
		t.Helper()
		c, _, err := checkpoint.Read(mem, "/store/checkpoint")
		if err != nil || c.IndexMillis != want {
			t.Errorf("%s: the checkpoint says %d of the index, want %d (%v)", how, c.IndexMillis, want, err)
		}
		// What a power loss leaves has every file that the checkpoint tells of, whole.
		lost := mem.CrashClone(nil, vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost})
		if want > 0 && !slices.Contains(ends(lost), want) {
			t.Errorf("%s: no file on disk ends at %d: %v", how, want, ends(lost))
		}
	}
	put(4)
	if err := s.Mark(); err != nil {
		t.Fatal(err)
	}
	check("no file is full", 0)
	put(8) // the first has its 9 entries, the second 3
	check("full, but not synced", 0)
	if err := s.Mark(); err != nil {
		t.Fatal(err)
	}
	full := ends(mem)
	check("synced", full[0])
	put(3)
	if err := s.Mark(); err != nil {
		t.Fatal(err)
	}
	check("the second is not full", full[0])
	put(19)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	full = ends(mem)
	check("clean stop", full[len(full)-2])
	// A restart does not go back.
	if s, _, err = Open(o); err != nil {
		t.Fatal(err)
	}
	put(1)
	if err := s.Mark(); err != nil {
		t.Fatal(err)
	}
	check("after a restart", full[len(full)-2])
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
