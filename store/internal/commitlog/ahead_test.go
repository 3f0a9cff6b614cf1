package commitlog

import (
	"errors"
	"io"
	"net/netip"
	"testing"

	"mqctl/store/internal/segfile"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// aLog is a log of some files of 3 MiB with records of many sizes, the position of each,
// and the file system that it lies in.
func aLog(t *testing.T) (*Log, []int64, *vfs.Mem) {
	t.Helper()
	const segBytes = 3 << 20
	mem := vfs.NewMem()
	l, err := Open(mem, "/", segBytes, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	host := netip.MustParseAddrPort("127.0.0.1:10911")
	var at []int64
	for i := range 3000 {
		d := &record.Draft{Topic: []byte("orders"), QueueID: int32(i % 4), BornMillis: 1, BornHost: host, StoreHost: host, Body: make([]byte, i*7919%9000)}
		raw, err := record.AppendDraft(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		for l.Room() < int64(len(raw))+record.BlankSize {
			if err := l.Prepare(); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Roll(); err != nil {
				t.Fatal(err)
			}
		}
		record.Patch(raw, record.QueueOffset(i), record.PhysOffset(l.End()), int64(i+1))
		at = append(at, l.End())
		if err, _ := l.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	return l, at, mem
}

// Reading ahead finds what a scan step by step finds, also where it begins later, where the
// log is damaged, and if it is given up in the middle.
func TestScanAhead(t *testing.T) {
	l, at, mem := aLog(t)
	same := func(from int64) (records int, end error) {
		t.Helper()
		step, ahead := l.Scan(from, false), l.ScanAhead(from)
		defer ahead.Close()
		for {
			want, werr := step.Next()
			got, err := ahead.Next()
			if (err == nil) != (werr == nil) || err != nil && err.Error() != werr.Error() || ahead.Pos() != step.Pos() {
				t.Fatalf("from %d, record %d: %v at %d, want %v at %d", from, records, err, ahead.Pos(), werr, step.Pos())
			}
			if err != nil {
				if ahead.Crossed() != step.Crossed {
					t.Errorf("from %d: %d files, want %d", from, ahead.Crossed(), step.Crossed)
				}
				if _, again := ahead.Next(); again == nil {
					t.Error("it goes on behind its end")
				}
				return records, err
			}
			if got.PhysOffset() != want.PhysOffset() || got.QueueOffset() != want.QueueOffset() || got.CheckCRC() != nil {
				t.Fatalf("from %d, record %d: at %d, want %d", from, records, got.PhysOffset(), want.PhysOffset())
			}
			records++
		}
	}
	for _, n := range []int{0, 1, 1777, len(at) - 1} {
		records, err := same(at[n])
		var bad *BadError
		if records != len(at)-n || !errors.As(err, &bad) && !errors.Is(err, io.EOF) {
			t.Errorf("from record %d: %d records, %v", n, records, err)
		}
	}
	for _, n := range []int{0, 1500} {
		a := l.ScanAhead(at[0])
		for range n {
			if _, err := a.Next(); err != nil {
				t.Fatal(err)
			}
		}
		a.Close()
	}
	pos := at[2000] + 100 // in the body
	f, err := mem.OpenReadWrite("/" + segfile.Name(pos/l.SegmentBytes()*l.SegmentBytes()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("damage"), pos%l.SegmentBytes()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	records, err := same(0)
	if bad := new(BadError); records != 2000 || !errors.As(err, &bad) || bad.Next != at[2001] {
		t.Errorf("%d records before the damage, then %v", records, err)
	}
}
