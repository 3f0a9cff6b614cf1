package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/archive"
	"mqctl/store/inspect"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

func options(fsys vfs.FS, millis *int64) store.Options {
	return store.Options{
		FS: fsys, Dir: "/store", CommitLogBytes: 65536, QueueFileBytes: 400, IndexSlots: 64, IndexEntries: 256, MemoryBytes: 1 << 30,
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.UnixMilli(*millis) },
	}
}

// fill makes a store of n messages, ten of each millisecond.
func fill(t testing.TB, fsys vfs.FS, n int, millis int64) {
	t.Helper()
	s, _, err := store.Open(options(fsys, &millis))
	if err != nil {
		t.Fatal(err)
	}
	host := netip.MustParseAddrPort("10.0.0.7:50311")
	for i := range n {
		d := &record.Draft{
			Topic: []byte("orders"), QueueID: int32(i % 3), BornMillis: millis - 1, BornHost: host, StoreHost: host, Body: fmt.Appendf(nil, "body %d", i),
			Properties: record.AppendProperty(record.AppendProperty(nil, "UNIQ_KEY", fmt.Sprintf("U%d", i)), "TAGS", "red"),
		}
		if _, err := s.Append(t.Context(), s.Queue("orders", d.QueueID), d, false); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			millis++
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// records lists the messages of a store: everything that an import keeps.
func records(t testing.TB, fsys vfs.FS) (out []string) {
	t.Helper()
	each(t, fsys, func(v record.View) {
		out = append(out, fmt.Sprintf("%s %d %s %s born %d stored %d", v.Topic(), v.QueueID(), v.Body(), v.Properties(), v.BornMillis(), v.StoreMillis()))
	})
	return out
}

func each(t testing.TB, fsys vfs.FS, do func(v record.View)) {
	t.Helper()
	s, err := inspect.Open(inspect.Options{FS: fsys, Dir: "/store"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Records(t.Context(), 0, math.MaxInt64, func(st inspect.Stretch) (bool, error) {
		if st.Err != nil {
			t.Errorf("at %d: %v", st.Pos, st.Err)
		} else {
			do(st.Record)
		}
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
}

// export writes everything.
func export(t testing.TB, fsys vfs.FS) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, archive.Header{ID: archive.NewID(0, 1, "", nil), To: 1})
	if err != nil {
		t.Fatal(err)
	}
	each(t, fsys, func(v record.View) {
		if err := w.Add(v.Raw()); err != nil {
			t.Fatal(err)
		}
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sound checks that nothing is wrong with a store.
func sound(t testing.TB, fsys vfs.FS) {
	t.Helper()
	s, err := inspect.Open(inspect.Options{FS: fsys, Dir: "/store"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Verify(t.Context(), func(f inspect.Found) {
		if f.File != "config" {
			t.Errorf("found: %s", f.Finding)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func equal(t testing.TB, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d messages, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("message %d is\n%s, want\n%s", i, got[i], want[i])
		}
	}
}

func of(b []byte) func() (io.Reader, error) {
	return func() (io.Reader, error) { return bytes.NewReader(b), nil }
}

const (
	day  = 86400000
	then = 1735689600000
)

func TestImport(t *testing.T) {
	from, to := vfs.NewMem(), vfs.NewMem()
	fill(t, from, 1000, then)
	arc := export(t, from)
	fill(t, to, 5, then-day)
	before := records(t, to)
	now := int64(0)
	res, err := archive.Import(t.Context(), options(to, &now), of(arc), false)
	if err != nil || res.Records != 1000 || res.Raised != 0 || res.Resumed != 0 || res.Topics["orders"] != 1000 {
		t.Fatalf("%+v, %v", res, err)
	}
	sound(t, to)
	want := append(before, records(t, from)...)
	equal(t, records(t, to), want)
	if _, err := archive.Import(t.Context(), options(to, &now), of(arc), false); !errors.Is(err, archive.ErrImported) {
		t.Errorf("a second time: %v", err)
	}
	equal(t, records(t, to), want)
	if res, err = archive.Import(t.Context(), options(to, &now), of(arc), true); err != nil || res.Records != 1000 || res.Raised == 0 {
		t.Errorf("again: %+v, %v", res, err)
	}
	sound(t, to)
	if n := len(records(t, to)); n != 2005 {
		t.Errorf("%d messages after importing again", n)
	}
}

// broken ends in the middle.
type broken struct {
	in    *bytes.Reader
	left  int
	at    func()
	again bool
}

var errBroken = errors.New("the line broke")

func (b *broken) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if b.at != nil {
			b.at()
			b.at = nil
		}
		if !b.again {
			return 0, errBroken
		}
		return b.in.Read(p)
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// An import that was interrupted at any point, by an error or by the death of the process
// or of the machine, is finished by doing it again.
func TestImportInterrupted(t *testing.T) {
	from := vfs.NewMem()
	fill(t, from, 12000, then)
	arc, want := export(t, from), records(t, from)
	if len(arc) < 5<<18 {
		t.Fatalf("only %d bytes: one block", len(arc))
	}
	for _, part := range []int{100, len(arc) / 3, len(arc) * 2 / 3, len(arc) - 10} {
		for _, how := range []string{"error", "kill", "power"} {
			t.Run(fmt.Sprint(how, part), func(t *testing.T) {
				to := vfs.NewMem()
				fill(t, to, 3, then-day)
				before := records(t, to)
				now := int64(0)
				b := &broken{in: bytes.NewReader(arc), left: part, again: how != "error"}
				disk := to
				switch how {
				case "kill":
					b.at = func() { disk = to.ProcessKillClone() }
				case "power":
					b.at = func() { disk = to.CrashClone(rand.New(rand.NewPCG(1, uint64(part))), vfs.CrashOptions{}) }
				}
				_, err := archive.Import(t.Context(), options(to, &now), func() (io.Reader, error) { return b, nil }, false)
				if how == "error" && !errors.Is(err, errBroken) || how != "error" && err != nil {
					t.Fatal(err)
				}
				res, err := archive.Import(t.Context(), options(disk, &now), of(arc), false)
				if err != nil || res.Records != 12000 {
					t.Fatalf("%+v, %v", res, err)
				}
				t.Logf("%d of %d were there", res.Resumed, res.Records)
				sound(t, disk)
				equal(t, records(t, disk), append(before, want...))
			})
		}
	}
}

// What was written after an interrupted import is not taken for a part of it.
func TestImportChanged(t *testing.T) {
	from, to := vfs.NewMem(), vfs.NewMem()
	fill(t, from, 12000, then)
	arc := export(t, from)
	now := int64(0)
	b := &broken{in: bytes.NewReader(arc), left: len(arc) * 2 / 3}
	if err := to.MkdirAll("/store/config"); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Import(t.Context(), options(to, &now), func() (io.Reader, error) { return b, nil }, false); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	fill(t, to, 1, then+day)
	n := len(records(t, to))
	var changed *archive.ChangedError
	if _, err := archive.Import(t.Context(), options(to, &now), of(arc), false); !errors.As(err, &changed) || changed.Done != int64(n-1) {
		t.Errorf("%v, want a change behind %d", err, n-1)
	}
	if len(records(t, to)) != n {
		t.Error("something was imported")
	}
}

func TestBadArchives(t *testing.T) {
	from := vfs.NewMem()
	fill(t, from, 20, then)
	arc := export(t, from)
	read := func(b []byte) error {
		r, err := archive.NewReader(bytes.NewReader(b))
		for err == nil {
			_, err = r.Next()
		}
		return err
	}
	if err := read(arc); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	var format *archive.FormatError
	for n := range len(arc) {
		if err := read(arc[:n]); !errors.As(err, &format) {
			t.Fatalf("the first %d bytes are taken: %v", n, err)
		}
	}
	for _, more := range [][]byte{{0}, []byte("\n"), arc} {
		if err := read(slices.Concat(arc, more)); !errors.As(err, &format) {
			t.Fatalf("%d bytes behind the end are taken: %v", len(more), err)
		}
	}
	for n := range len(arc) {
		bad := bytes.Clone(arc)
		bad[n] ^= 0x10
		if err := read(bad); !errors.As(err, &format) {
			t.Fatalf("a flipped bit at %d is taken: %v", n, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	from := vfs.NewMem()
	fill(f, from, 3, then)
	f.Add(export(f, from))
	f.Add([]byte("MQCTL-ARCHIVE 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := archive.NewReader(bytes.NewReader(b))
		n := 0
		for err == nil {
			var v record.View
			if v, err = r.Next(); err == nil {
				n += v.Size()
			}
		}
		var format *archive.FormatError
		if !errors.Is(err, io.EOF) && !errors.As(err, &format) || n > len(b) {
			t.Errorf("%d bytes of records out of %d: %v", n, len(b), err)
		}
	})
}
