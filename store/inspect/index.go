package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"mqctl/store/internal/keyindex"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

const (
	indexHeaderBytes = 40
	indexSlotBytes   = 4
	indexEntryBytes  = 20
)

// IndexFile is one file of the key index with its header.
type IndexFile struct {
	Path  string // relative to the store folder
	Bytes int64

	BeginMillis, EndMillis int64
	BeginPhys, EndPhys     int64
	UsedSlots              int32
	Count                  int32 // number of the next entry; 1 in an empty file

	Slots, Entries int32 // how many the file has room for

	name string
}

// Sane reports whether the header can be true.
func (f *IndexFile) Sane() bool {
	return f.Slots > 0 && f.Count >= 1 && f.Count <= f.Entries && f.UsedSlots >= 0 && f.UsedSlots <= min(f.Slots, f.Count-1) &&
		f.BeginMillis <= f.EndMillis && f.BeginPhys >= 0 && f.BeginPhys <= f.EndPhys
}

// EntryOffset is where entry n lies in the file.
func (f *IndexFile) EntryOffset(n int32) int64 {
	return indexHeaderBytes + indexSlotBytes*int64(f.Slots) + indexEntryBytes*int64(n)
}

// IndexEntry is one key of one record.
type IndexEntry struct {
	Number  int32 // from 1
	Hash    int32 // of topic#key
	Phys    int64
	Seconds int32 // since the first entry of the file
	Prev    int32 // the entry before in the same slot, 0 for none
}

// IndexFiles lists the files of the key index by name, which is by age.
func (s *Store) IndexFiles() ([]IndexFile, error) {
	dir := filepath.Join(s.opt.Dir, "index")
	entries, err := s.opt.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []IndexFile
	for _, e := range entries {
		if e.Dir || !digits(e.Name) {
			continue
		}
		f := IndexFile{Path: s.relative(filepath.Join(dir, e.Name)), Bytes: e.Size, name: filepath.Join(dir, e.Name)}
		if err := s.readIndexHeader(&f); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func digits(name string) bool {
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return name != ""
}

func (s *Store) readIndexHeader(f *IndexFile) error {
	// A file does not say how many slots it has. RocketMQ has four entries for
	// each by default, and few people change one number without the other.
	room := f.Bytes - indexHeaderBytes
	slots := int64(s.opt.IndexSlots)
	if slots <= 0 {
		slots = room / (indexSlotBytes + 4*indexEntryBytes)
	}
	if entries := (room - slots*indexSlotBytes) / indexEntryBytes; slots > 0 && slots < 1<<30 && entries > 1 && entries < 1<<30 {
		f.Slots, f.Entries = int32(slots), int32(entries)
	}
	var b [indexHeaderBytes]byte
	h, err := s.opt.FS.Open(f.name)
	if err != nil {
		return err
	}
	defer h.Close() // only read from
	if _, err := h.ReadAt(b[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	be := binary.BigEndian
	f.BeginMillis, f.EndMillis = int64(be.Uint64(b[:])), int64(be.Uint64(b[8:]))
	f.BeginPhys, f.EndPhys = int64(be.Uint64(b[16:])), int64(be.Uint64(b[24:]))
	f.UsedSlots, f.Count = int32(be.Uint32(b[32:])), max(int32(be.Uint32(b[36:])), 1)
	return nil
}

// indexReader reads the entries of one file in order.
type indexReader struct {
	in   vfs.File
	f    *IndexFile
	next int32
	buf  []byte
	at   int
}

func (s *Store) openIndex(f *IndexFile) (*indexReader, error) {
	in, err := s.opt.FS.Open(f.name)
	if err != nil {
		return nil, err
	}
	return &indexReader{in: in, f: f, next: 1}, nil
}

// read returns the next entry; false behind the last.
func (r *indexReader) read() (IndexEntry, bool, error) {
	if r.next >= r.f.Count || r.next >= r.f.Entries {
		return IndexEntry{}, false, nil
	}
	if r.at >= len(r.buf) {
		n := min(r.f.Count, r.f.Entries) - r.next
		if r.buf == nil {
			r.buf = make([]byte, min(int64(n), 13107)*indexEntryBytes)
		}
		r.buf = r.buf[:min(int64(n)*indexEntryBytes, int64(cap(r.buf)))]
		at := r.f.EntryOffset(r.next)
		got, err := r.in.ReadAt(r.buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return IndexEntry{}, false, err
		}
		r.buf, r.at = r.buf[:got/indexEntryBytes*indexEntryBytes], 0
		if len(r.buf) == 0 {
			return IndexEntry{}, false, nil
		}
	}
	b, be := r.buf[r.at:], binary.BigEndian
	e := IndexEntry{
		Number: r.next, Hash: int32(be.Uint32(b)), Phys: int64(be.Uint64(b[4:])),
		Seconds: int32(be.Uint32(b[12:])), Prev: int32(be.Uint32(b[16:])),
	}
	r.at += indexEntryBytes
	r.next++
	return e, true, nil
}

func (r *indexReader) close() { _ = r.in.Close() } // only read from

// EachIndexEntry calls do for the entries of a file until it is false.
func (s *Store) EachIndexEntry(f *IndexFile, do func(e IndexEntry) (bool, error)) error {
	r, err := s.openIndex(f)
	if err != nil {
		return err
	}
	defer r.close()
	for {
		e, ok, err := r.read()
		if err != nil || !ok {
			return err
		}
		if more, err := do(e); err != nil || !more {
			return err
		}
	}
}

// props are the properties of a record that the store reads. Of duplicates the
// last counts, as in Java's map. RocketMQ 5.3.3 appends the unique key of a client's
// batch behind the message's own, and files the message under that one; mqctl
// files it under its own.
type props struct {
	tags, keys, delay []byte
	unique, batch     []byte // the first and the last unique key
	light             []byte // names of light queues that got the message too
	lightOffsets      []byte
}

func (p *props) parse(v record.View) {
	*p = props{}
	record.EachProperty(v.Properties(), func(name, value []byte) bool {
		switch string(name) {
		case record.PropertyTags:
			p.tags = value
		case record.PropertyKeys:
			p.keys = value
		case record.PropertyDelay:
			p.delay = value
		case record.PropertyUniqueKey:
			if p.unique == nil {
				p.unique = value
			}
			p.batch = value
		case "INNER_MULTI_DISPATCH":
			p.light = value
		case "INNER_MULTI_QUEUE_OFFSET":
			p.lightOffsets = value
		}
		return true
	})
}

// appendHashes appends the hashes of the keys.
func (p *props) appendHashes(dst []int32, topic []byte) []int32 {
	for keys := p.keys; len(keys) > 0; {
		key, rest, _ := bytes.Cut(keys, []byte{' '})
		if len(key) > 0 {
			dst = append(dst, keyindex.KeyHash(topic, key))
		}
		keys = rest
	}
	return dst
}
