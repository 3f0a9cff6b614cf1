package commitlog

import (
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"mqctl/store/internal/segfile"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// Tail is what lies behind the end of the log before it is cleared.
type Tail struct {
	Bytes int64   // from the end to the last byte in its file that is not zero
	Files []int64 // later files that are not empty
}

// Behind looks at what lies behind end. clean leaves the file that end lies in unread:
// the rest of it was zero when the log was closed.
func (l *Log) Behind(end int64, clean bool) (t Tail, err error) {
	for _, s := range *l.segs.Load() {
		switch {
		case s.base+l.segBytes <= end:
		case s.base <= end:
			if clean {
				continue
			}
			if t.Bytes, err = l.used(s, end); err != nil {
				return t, err
			}
		default:
			n, err := l.used(s, s.base)
			if err != nil {
				return t, err
			}
			if n > 0 {
				t.Files = append(t.Files, s.base)
			}
		}
	}
	return t, nil
}

// used is the distance from pos to the last byte of s that is not zero; a long
// run of zeros ends the search.
func (l *Log) used(s *segment, pos int64) (used int64, err error) {
	start := pos
	buf := make([]byte, min(scanWindow, l.segBytes))
	zeros := int64(0)
	for end := s.base + l.segBytes; pos < end && zeros < zeroRun; {
		n := min(int64(len(buf)), end-pos)
		if _, err := s.f.ReadAt(buf[:n], pos-s.base); err != nil && !errors.Is(err, io.EOF) {
			return used, err
		}
		if allZero(buf[:n]) {
			zeros += n
		} else {
			zeros = 0
			last := n
			for buf[last-1] == 0 {
				last--
			}
			used = pos + last - start
		}
		pos += n
	}
	return used, nil
}

// CopyOut writes the bytes [from, to) of the files as they are, holes and all, into a
// new file and syncs it. Where there is no file, nothing is written.
func (l *Log) CopyOut(name string, from, to int64) (err error) {
	f, err := l.fs.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	buf := make([]byte, min(scanWindow, to-from))
	for at := from; at < to; {
		s := l.find(at)
		if s == nil {
			if at = l.following(at); at < 0 {
				break
			}
			continue
		}
		n := min(int64(len(buf)), to-at, s.base+l.segBytes-at)
		if _, err := s.f.ReadAt(buf[:n], at-s.base); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := f.WriteAt(buf[:n], at-from); err != nil {
			return err
		}
		at += n
	}
	return f.Sync()
}

// SetEnd says where the log ends, after a scan: it zeroes what lies behind in
// the same segment, keeps one empty segment behind it for use and takes the
// others away: empty ones are removed, others (tail.Files) moved to asideDir. All of that is
// safe then; but with a safe position, what lies behind it waits for the next Sync.
func (l *Log) SetEnd(end int64, tail Tail, asideDir string, safe int64) error {
	l.end.Store(end)
	var keep []*segment
	for _, s := range *l.segs.Load() {
		switch {
		case s.base <= end && end < s.base+l.segBytes:
			l.active = s
			keep = append(keep, s)
			if err := l.clear(s, end, tail.Bytes); err != nil {
				return err
			}
		case s.base < end:
			l.active = s // full up to its end, unless another follows
			keep = append(keep, s)
		default:
			if err := l.takeAway(s, !slices.Contains(tail.Files, s.base), asideDir); err != nil {
				return err
			}
		}
	}
	l.segs.Store(&keep)
	if safe < 0 {
		return l.Datasync()
	}
	if err := l.syncNames(); err != nil {
		return err
	}
	l.flushed.Store(max(min(safe, end), l.Min()))
	return nil
}

// syncNames makes the names of all segments safe, and the length of one that holds nothing
// yet: whoever made it may have died before it was.
func (l *Log) syncNames() error {
	for _, s := range []*segment{l.active, l.ready.Load()} {
		if s == nil || s.base < l.end.Load() {
			continue
		}
		if err := s.f.Datasync(); err != nil {
			return &vfs.SyncError{Err: err}
		}
	}
	return l.fs.SyncDir(l.dir)
}

// takeAway handles a segment behind the end of the log.
func (l *Log) takeAway(s *segment, empty bool, asideDir string) error {
	name := filepath.Join(l.dir, segfile.Name(s.base))
	if next := l.active != nil && s.base == l.active.base+l.segBytes; empty && next && l.ready.Load() == nil {
		l.ready.Store(s)
		return nil
	}
	if err := s.f.Close(); err != nil {
		return err
	}
	var err error
	if empty {
		err = l.fs.Remove(name)
	} else {
		err = l.fs.Rename(name, filepath.Join(asideDir, "commitlog-"+segfile.Name(s.base)))
	}
	if err != nil {
		return err
	}
	return l.fs.SyncDir(l.dir)
}

// Rewrite writes the bytes [from, to) of the files over themselves, where a sync of them
// failed: the kernel may have taken what it did not write for written, and writes only
// what is written again. Before SetEnd.
func (l *Log) Rewrite(from, to int64) error {
	buf := make([]byte, min(scanWindow, max(to-from, 0)))
	for _, s := range *l.segs.Load() {
		end := min(to, s.base+l.segBytes)
		for at := max(from, s.base); at < end; {
			n := min(int64(len(buf)), end-at)
			if _, err := s.f.ReadAt(buf[:n], at-s.base); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if _, err := s.f.WriteAt(buf[:n], at-s.base); err != nil {
				return err
			}
			at += n
		}
	}
	return nil
}

// clear zeroes n bytes of s from pos on.
func (l *Log) clear(s *segment, pos, n int64) error {
	zero := make([]byte, min(scanWindow, n))
	for n > 0 {
		k := min(int64(len(zero)), n)
		if _, err := s.f.WriteAt(zero[:k], pos-s.base); err != nil {
			return err
		}
		pos, n = pos+k, n-k
	}
	return nil
}

// Datasync syncs all segments and their names, and takes everything before End for
// safe; for the end of a recovery. Whoever made the last one may have died before its
// length and its name were safe.
func (l *Log) Datasync() error {
	for _, s := range *l.segs.Load() {
		if err := s.f.Datasync(); err != nil {
			return &vfs.SyncError{Err: err}
		}
	}
	if err := l.syncNames(); err != nil {
		return err
	}
	l.flushed.Store(l.end.Load())
	return nil
}

// ExtendShort gives a last segment whose making was interrupted its length.
func (l *Log) ExtendShort() error {
	segs := *l.segs.Load()
	if len(segs) == 0 {
		return nil
	}
	f := segs[len(segs)-1].f
	size, err := f.Size()
	if err != nil || size >= l.segBytes {
		return err
	}
	if err := f.Truncate(l.segBytes); err != nil {
		return err
	}
	return f.Sync()
}

// StoreMillisAt reads the store time of the record at pos without its body;
// false if there is none.
func (l *Log) StoreMillisAt(pos int64, buf []byte) (int64, bool) {
	const upTo = 76 // behind the store time with an IPv6 born host
	b := buf[:upTo]
	if ok, err := l.Read(b, pos); !ok || err != nil {
		return 0, false
	}
	magic := int32(binary.BigEndian.Uint32(b[4:]))
	if magic != record.MagicV1 && magic != record.MagicV2 || int64(binary.BigEndian.Uint64(b[28:])) != pos {
		return 0, false
	}
	at := 56
	if binary.BigEndian.Uint32(b[36:])&record.FlagBornV6 != 0 {
		at += 12
	}
	return int64(binary.BigEndian.Uint64(b[at:])), true
}
