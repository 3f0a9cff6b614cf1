package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"

	"mqctl/store/internal/segfile"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// fillTopic is the topic of the records that Bridge puts in place of damage.
const fillTopic = "MQCTL_DAMAGED"

// SetEnd says where the log ends, after a scan: it zeroes what lies behind in
// the same segment, keeps one empty segment behind it for use and takes the
// others away: empty ones are removed, others moved to asideDir. cut is the
// number of bytes that were not zero, up to the last of them. trusted leaves the
// bytes behind the end unread: they were zero when the log was closed.
func (l *Log) SetEnd(end int64, asideDir string, trusted bool) (cut int64, err error) {
	l.end.Store(end)
	var keep []*segment
	for _, s := range *l.segs.Load() {
		switch {
		case s.base <= end && end < s.base+l.segBytes:
			l.active = s
			keep = append(keep, s)
			if trusted {
				continue
			}
			if cut, err = l.clear(s, end); err != nil {
				return cut, err
			}
		case s.base < end:
			l.active = s // full up to its end, unless another follows
			keep = append(keep, s)
		default:
			if err := l.takeAway(s, asideDir); err != nil {
				return cut, err
			}
		}
	}
	l.segs.Store(&keep)
	return cut, l.Datasync()
}

// takeAway handles a segment behind the end of the log.
func (l *Log) takeAway(s *segment, asideDir string) error {
	name := filepath.Join(l.dir, segfile.Name(s.base))
	empty, err := l.empty(s)
	if err != nil {
		return err
	}
	if next := l.active != nil && s.base == l.active.base+l.segBytes; empty && next && l.ready.Load() == nil {
		l.ready.Store(s)
		return nil
	}
	if err := s.f.Close(); err != nil {
		return err
	}
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

// clear zeroes what is not zero from pos to the end of s, up to a long run of
// zeros. It returns the distance to the last byte that was not.
func (l *Log) clear(s *segment, pos int64) (cut int64, err error) {
	start := pos
	buf := make([]byte, min(scanWindow, l.segBytes))
	zeros := int64(0)
	for end := s.base + l.segBytes; pos < end && zeros < zeroRun; {
		n := min(int64(len(buf)), end-pos)
		if _, err := s.f.ReadAt(buf[:n], pos-s.base); err != nil && !errors.Is(err, io.EOF) {
			return cut, err
		}
		if allZero(buf[:n]) {
			zeros += n
		} else {
			zeros = 0
			last := len(buf[:n])
			for buf[last-1] == 0 {
				last--
			}
			cut = pos + int64(last) - start
			clear(buf[:last])
			if _, err := s.f.WriteAt(buf[:last], pos-s.base); err != nil {
				return cut, err
			}
		}
		pos += n
	}
	return cut, nil
}

func (l *Log) empty(s *segment) (bool, error) {
	buf := make([]byte, min(scanWindow, l.segBytes))
	zeros := int64(0)
	for at := int64(0); at < l.segBytes && zeros < zeroRun; {
		n := min(int64(len(buf)), l.segBytes-at)
		if _, err := s.f.ReadAt(buf[:n], at); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if !allZero(buf[:n]) {
			return false, nil
		}
		at += n
		zeros += n
	}
	return true, nil
}

// Datasync syncs the active segment and takes everything before End for safe;
// for the end of a recovery.
func (l *Log) Datasync() error {
	for _, s := range *l.segs.Load() {
		if err := s.f.Datasync(); err != nil {
			return err
		}
	}
	l.flushed.Store(l.end.Load())
	return nil
}

// Bridge replaces the damaged bytes [from, to) by records that no queue and no
// index gets to see (their transaction bits say rollback), so that Apache too
// reads across them. Most of the bytes stay, as the body of such a record; a
// copy of all of them is kept in asideDir.
func (l *Log) Bridge(from, to, storeMillis int64, asideDir string) error {
	for from < to {
		s := l.find(from)
		if s == nil {
			if from = l.following(from); from < 0 {
				return nil
			}
			continue
		}
		segEnd := s.base + l.segBytes
		n := min(to, segEnd) - from
		old := make([]byte, n)
		if _, err := s.f.ReadAt(old, from-s.base); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		name := filepath.Join(asideDir, "damaged-"+segfile.Name(from))
		if err := vfs.WriteFile(l.fs, name, old); err != nil {
			return err
		}
		switch {
		case to >= segEnd:
			if n >= record.BlankSize {
				blank := record.AppendBlank(nil, int32(n))
				if _, err := s.f.WriteAt(blank, from-s.base); err != nil {
					return err
				}
			}
		default:
			if err := fillAll(s, from, old, storeMillis); err != nil {
				return err
			}
		}
		from += n
	}
	return nil
}

// fillBytes is how long a filler may be: a replica takes no longer records than
// clients can send.
const fillBytes = 8 << 20

// fillAll writes records over the whole of old.
func fillAll(s *segment, pos int64, old []byte, storeMillis int64) error {
	for len(old) > 2*fillBytes {
		if err := fill(s, pos, old[:fillBytes], storeMillis); err != nil {
			return err
		}
		pos, old = pos+fillBytes, old[fillBytes:]
	}
	return fill(s, pos, old, storeMillis)
}

// fill writes a record of exactly the length of old in its place.
func fill(s *segment, pos int64, old []byte, storeMillis int64) error {
	room := len(old) - record.MinSize
	if room < 0 {
		return fmt.Errorf("commit log: %d damaged bytes at %d are fewer than a record has", len(old), pos)
	}
	topic := []byte(fillTopic)[:min(room, len(fillTopic))]
	body := old[record.MinSize-3:][:room-len(topic)]
	none := netip.AddrPortFrom(netip.AddrFrom4([4]byte{}), 0)
	rec, err := record.AppendDraft(nil, &record.Draft{
		Topic: topic, Body: slices.Clone(body), SysFlag: record.FlagRollback,
		BornMillis: storeMillis, BornHost: none, StoreHost: none,
	})
	if err != nil {
		return err
	}
	if len(rec) != len(old) {
		return fmt.Errorf("commit log: filler of %d bytes for %d damaged ones at %d", len(rec), len(old), pos)
	}
	record.Patch(rec, 0, record.PhysOffset(pos), storeMillis)
	_, err = s.f.WriteAt(rec, pos-s.base)
	return err
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
