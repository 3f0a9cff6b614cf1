package inspect

import (
	"context"
	"errors"
	"io"

	"mqctl/store/internal/commitlog"
	"mqctl/store/record"
)

// Stretch is a part of the log: a record, or bytes that are none.
type Stretch struct {
	Pos, Bytes int64
	File       string
	Offset     int64 // in File
	Record     record.View
	Err        error // why it is no record; then Record is not set
}

// Records calls do for what lies in [from, to) of the log, in order: each record, and
// each damaged part between records. A from inside of a record begins at the next one.
// The record is valid during the call. It stops when do is false.
func (s *Store) Records(ctx context.Context, from, to int64, do func(Stretch) (bool, error)) error {
	from = max(from, s.LogMin())
	if from >= s.logCapacity() {
		return nil
	}
	sc := s.log.Scan(from, false)
	first, told := true, from
	for {
		r, err := sc.Next()
		var bad *commitlog.BadError
		switch {
		case err == nil:
			pos := int64(r.PhysOffset())
			if pos >= to {
				return nil
			}
			if pos-told >= 8<<20 {
				told = pos
				if s.opt.Progress != nil {
					s.opt.Progress(pos-from, min(to, s.logCapacity())-from)
				}
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			if more, err := do(s.stretch(pos, int64(r.Size()), r, nil)); err != nil || !more {
				return err
			}
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &bad):
			next, more, err := s.log.FindRecord(bad.Pos)
			if err != nil || !more {
				return err
			}
			if !first || from == s.LogMin() {
				if bad.Pos >= to {
					return nil
				}
				if more, err := do(s.stretch(bad.Pos, next-bad.Pos, record.View{}, bad.Err)); err != nil || !more {
					return err
				}
			}
			sc = s.log.Scan(next, false)
		default:
			return err
		}
		first = false
	}
}

func (s *Store) stretch(pos, bytes int64, r record.View, err error) Stretch {
	file, off := s.logPlace(pos)
	return Stretch{Pos: pos, Bytes: bytes, File: file, Offset: off, Record: r, Err: err}
}

// FileRecords is Records for one file of records outside of a store, such as one of
// RocketMQ's compaction log: the records state positions of the log that they came
// from, so these are not compared.
func FileRecords(ctx context.Context, in io.ReaderAt, size int64, name string, do func(Stretch) (bool, error)) error {
	buf := make([]byte, 0, 1<<20)
	for at, told := int64(0), int64(0); at+record.BlankSize <= size; {
		var err error
		if buf, err = window(in, buf, at, size, record.BlankSize); err != nil {
			return err
		}
		n, ok := int64(0), false
		if n, ok = recordBytes(buf); !ok || n > size-at {
			if _, blank := record.Blank(buf); blank || allZero(buf) {
				return nil
			}
			_, err := do(Stretch{Pos: -1, Bytes: size - at, File: name, Offset: at, Err: record.ErrMagic})
			return err
		}
		if buf, err = window(in, buf, at, size, n); err != nil {
			return err
		}
		st := Stretch{Bytes: n, File: name, Offset: at}
		if st.Record, st.Err = record.Parse(buf[:n]); st.Err == nil {
			st.Pos = int64(st.Record.PhysOffset())
			st.Err = st.Record.CheckCRC()
		}
		if more, err := do(st); err != nil || !more {
			return err
		}
		if at += n; at-told > 8<<20 {
			told = at
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordBytes is the length of the record that begins with b.
func recordBytes(b []byte) (int64, bool) {
	magic := int32(be32(b[4:]))
	n := int64(int32(be32(b)))
	return n, (magic == record.MagicV1 || magic == record.MagicV2) && n >= record.MinSize
}

// maxFileRecord is the longest record that FileRecords takes memory for.
const maxFileRecord = 1 << 30

// window returns at least n bytes of in from at on, more if there are.
func window(in io.ReaderAt, buf []byte, at, size, n int64) ([]byte, error) {
	if n > maxFileRecord {
		return nil, record.ErrLengths
	}
	if int64(len(buf)) >= n && n > record.BlankSize {
		return buf, nil
	}
	want := min(max(n, 1<<16), size-at)
	if int64(cap(buf)) < want {
		buf = make([]byte, want)
	}
	buf = buf[:want]
	got, err := in.ReadAt(buf, at)
	if int64(got) < n {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return buf[:got], nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// SeekMillis is the position of the first record that was stored at or after a time,
// found by the first records of the files and then record by record.
func (s *Store) SeekMillis(ctx context.Context, millis int64) (int64, error) {
	from := s.LogMin()
	for _, base := range s.log.Bases() {
		r, err := s.log.FirstRecord(base)
		if err == nil && r.StoreMillis() >= millis {
			break
		}
		if err == nil {
			from = base
		}
	}
	pos := s.logCapacity()
	err := s.Records(ctx, from, s.logCapacity(), func(st Stretch) (bool, error) {
		if st.Err != nil || st.Record.StoreMillis() < millis {
			return true, nil
		}
		pos = st.Pos
		return false, nil
	})
	return pos, err
}

// Bounds are the limits of a queue as its files tell: entries from First on that lead
// into the log, up to but not including End.
type Bounds struct {
	First, End int64
	Entries    int64 // that lead to a message
	MinPhys    int64 // position of the first of them, -1 if there is none
	MaxPhys    int64 // behind the last of them
}

// Bounds reads the queue.
func (q *Queue) Bounds() (Bounds, error) {
	b := Bounds{First: q.First(), End: q.First(), MinPhys: -1, MaxPhys: -1}
	found := false
	err := q.Each(0, func(n int64, e Entry) (bool, error) {
		number, end := n, n+1
		if q.Type == BatchQueue {
			number, end = e.Base, e.Base+int64(e.Count)
		}
		b.End = end
		if e.Void() || e.Phys < q.s.LogMin() {
			b.First = end
			return true, nil
		}
		if !found {
			found, b.First, b.MinPhys = true, number, e.Phys
		}
		b.Entries++
		b.MaxPhys = max(b.MaxPhys, e.Phys+int64(e.Size))
		return true, nil
	})
	return b, err
}

// LogEnd is the position behind the last record: of the newest file that has any,
// read from its beginning.
func (s *Store) LogEnd(ctx context.Context) (int64, error) {
	bases := s.log.Bases()
	for i := len(bases) - 1; i >= 0; i-- {
		end := int64(-1)
		err := s.Records(ctx, bases[i], bases[i]+s.segBytes, func(st Stretch) (bool, error) {
			if st.Err == nil {
				end = st.Pos + st.Bytes
			}
			return true, nil
		})
		if err != nil || end >= 0 {
			return end, err
		}
	}
	return s.LogMin(), nil
}
