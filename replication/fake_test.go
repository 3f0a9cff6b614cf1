package replication

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"sync"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
)

// memLog is a Log in memory, with the rules of the store's.
type memLog struct {
	mu      sync.Mutex
	seg     int64
	min     int64
	b       []byte // [min, min+len(b))
	starts  []int64
	flushed int64
	asides  []store.Aside
	fail    error // of the next appends
	fsyncs  int
	holes   []span
}

func newMemLog(seg int64) *memLog { return &memLog{seg: seg} }

func (l *memLog) end() int64 { return l.min + int64(len(l.b)) }

func (l *memLog) Positions() store.Positions {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := record.PhysOffset(l.end())
	return store.Positions{Min: record.PhysOffset(l.min), Flushed: record.PhysOffset(l.flushed), Max: e, Confirmed: e, Dispatched: e}
}

func (l *memLog) ReadRaw(dst []byte, p record.PhysOffset) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if int64(p) < l.min || int64(p) > l.end() {
		return 0, &store.NoRecordError{Phys: p}
	}
	most := l.seg - int64(p)%l.seg
	src := l.b[int64(p)-l.min:]
	return copy(dst, src[:min(int64(len(src)), most)]), nil
}

func (l *memLog) RawFile(record.PhysOffset, int64) (store.RawRange, bool, error) {
	return store.RawRange{}, false, nil
}

func (l *memLog) RawSum(from, to record.PhysOffset) (uint32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if int64(from) < l.min || int64(to) > l.end() || from > to {
		return 0, &store.NoRecordError{Phys: from}
	}
	return crc32.Checksum(l.b[int64(from)-l.min:int64(to)-l.min], castagnoli), nil
}

func (l *memLog) AppendRaw(p []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return 0, l.fail
	}
	for len(p) >= 8 {
		size := int64(0)
		at := l.end()
		if left, ok := record.Blank(p); ok {
			if size = int64(left); at%l.seg+size != l.seg {
				return n, &store.RawError{At: record.PhysOffset(at), Why: "blank does not end the segment"}
			}
			if int64(len(p)) < size {
				return n, nil
			}
		} else {
			v, err := record.Parse(p)
			if errors.Is(err, record.ErrTruncated) {
				return n, nil
			}
			if err == nil {
				err = v.CheckCRC()
			}
			if err == nil && int64(v.PhysOffset()) != at {
				err = fmt.Errorf("it says it lies at %d", v.PhysOffset())
			}
			if err != nil {
				return n, &store.RawError{At: record.PhysOffset(at), Why: err.Error()}
			}
			size = int64(v.Size())
		}
		l.starts = append(l.starts, at)
		l.b = append(l.b, p[:size]...)
		p, n = p[size:], n+int(size)
	}
	return n, nil
}

func (l *memLog) Sync(context.Context) (record.PhysOffset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushed = l.end()
	l.fsyncs++
	return record.PhysOffset(l.flushed), nil
}

func (l *memLog) StartAt(p record.PhysOffset) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.b) > 0 || int64(p)%l.seg != 0 {
		return fmt.Errorf("cannot start at %d", p)
	}
	l.min = int64(p)
	return nil
}

func (l *memLog) TruncateTo(p record.PhysOffset) (store.Aside, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := store.Aside{Path: "tail", From: p, Bytes: l.end() - int64(p)}
	l.b = l.b[:int64(p)-l.min]
	for len(l.starts) > 0 && l.starts[len(l.starts)-1] >= int64(p) {
		l.starts = l.starts[:len(l.starts)-1]
	}
	l.asides = append(l.asides, a)
	return a, nil
}

func (l *memLog) SetAside() (store.Aside, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := store.Aside{Path: "old", From: record.PhysOffset(l.min), Bytes: int64(len(l.b))}
	l.asides = append(l.asides, a)
	l.min, l.b, l.starts = 0, nil, nil
	return a, nil
}

func (l *memLog) LastRecord() (record.PhysOffset, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.starts) == 0 {
		return 0, false
	}
	return record.PhysOffset(l.starts[len(l.starts)-1]), true
}

func (l *memLog) RecordBefore(p record.PhysOffset) (record.PhysOffset, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.starts) - 1; i >= 0; i-- {
		if l.starts[i] <= int64(p) {
			return record.PhysOffset(l.starts[i]), true, nil
		}
	}
	return 0, false, nil
}

func (l *memLog) Message(dst []byte, p record.PhysOffset) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if int64(p) < l.min || int64(p) >= l.end() {
		return dst, &store.NoRecordError{Phys: p}
	}
	v, err := record.Parse(l.b[int64(p)-l.min:])
	if err != nil || v.PhysOffset() != p {
		return dst, &store.NoRecordError{Phys: p, Err: err}
	}
	return append(dst, v.Raw()...), nil
}

// put appends a record with this body, as a master does, rolling to the next
// segment where it does not fit.
func (l *memLog) put(body string) (end record.PhysOffset) {
	rec, err := record.AppendDraft(nil, &record.Draft{
		Topic: []byte("t"), Body: []byte(body), StoreHost: netip.MustParseAddrPort("127.0.0.1:1"),
	})
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	left := l.seg - l.end()%l.seg
	l.mu.Unlock()
	if int64(len(rec))+8 > left {
		blank := append(record.AppendBlank(nil, int32(left)), make([]byte, left-8)...)
		if n, err := l.AppendRaw(blank); err != nil || n != len(blank) {
			panic(fmt.Sprint(n, err))
		}
	}
	l.mu.Lock()
	at := l.end()
	l.mu.Unlock()
	record.Patch(rec, 0, record.PhysOffset(at), time.Now().UnixMilli())
	if n, err := l.AppendRaw(rec); err != nil || n != len(rec) {
		panic(fmt.Sprint(n, err))
	}
	return l.Positions().Max
}

// drop removes the segments before p, as retention does.
func (l *memLog) drop(p int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b, l.min = l.b[p-l.min:], p
	for len(l.starts) > 0 && l.starts[0] < p {
		l.starts = l.starts[1:]
	}
}

func (l *memLog) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]byte(nil), l.b...)
}

// clone is a copy, for a slave that has followed so far.
func (l *memLog) clone() *memLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &memLog{seg: l.seg, min: l.min, b: append([]byte(nil), l.b...), starts: append([]int64(nil), l.starts...), holes: append([]span(nil), l.holes...)}
}

func TestMemLog(t *testing.T) {
	l := newMemLog(4096)
	for i := range 100 {
		l.put(fmt.Sprint("body", i))
	}
	if l.end() < 2*4096 || len(l.starts) < 100 {
		t.Fatal(l.end(), len(l.starts))
	}
}

// Lost is the hole around p.
func (l *memLog) Lost(p record.PhysOffset) (from, to record.PhysOffset, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.holes {
		if h.from <= int64(p) && int64(p) < h.to {
			return record.PhysOffset(h.from), record.PhysOffset(h.to), true
		}
	}
	return 0, 0, false
}

// AppendLost appends one record that says that its messages are lost.
func (l *memLog) AppendLost(to record.PhysOffset) error {
	end := l.Positions().Max
	n, err := l.AppendRaw(lostRecord(int64(end), int64(to)))
	if err == nil && end+record.PhysOffset(n) != to {
		err = errors.New("not filled")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holes = append(l.holes, span{int64(end), int64(to)})
	return err
}

// lostRecord is what fills a hole within one segment.
func lostRecord(from, to int64) []byte {
	topic := []byte("MQCTL_DAMAGED")
	rec, err := record.AppendDraft(nil, &record.Draft{Topic: topic, Body: make([]byte, int(to-from)-record.MinSize-len(topic)),
		SysFlag: record.FlagRollback, StoreHost: netip.MustParseAddrPort("0.0.0.0:0"), BornHost: netip.MustParseAddrPort("0.0.0.0:0")})
	if err != nil {
		panic(err)
	}
	record.Patch(rec, 0, record.PhysOffset(from), 1)
	return rec
}

// holed is a copy that has lost the records from the i-th to before the j-th; it
// reads as a store's log does.
func holed(l *memLog, i, j int) *memLog {
	l = l.clone()
	from, to := l.starts[i], l.starts[j]
	copy(l.b[from-l.min:], lostRecord(from, to))
	l.starts = append(l.starts[:i+1:i+1], l.starts[j:]...)
	l.holes = append(l.holes, span{from, to})
	return l
}
