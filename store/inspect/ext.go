package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"

	"mqctl/store/internal/segfile"
)

// extLimit is the highest value that is an address in the extension files and no
// tag code.
const extLimit = -2147483649

// defaultExtBytes is mappedFileSizeConsumeQueueExt.
const defaultExtBytes = 50331648

// Ext is one entry of the extension files of a queue.
type Ext struct {
	Address     int64 // as in the tag code of the queue's entry
	File        string
	Offset      int64 // in File
	Bytes       int64
	Tags        int64
	StoreMillis int64
	Bits        []byte // bloom filter of the groups whose SQL filter matches
}

// extAt reads the entry of the extension files at an address; false if there is none.
func (s *Store) extAt(topic string, id int32, address int64) (Ext, bool, error) {
	at := address - math.MinInt64
	dir := filepath.Join(s.opt.Dir, "consumequeue_ext", topic, strconv.Itoa(int(id)))
	files, _, err := segfile.List(s.opt.FS, dir)
	if err != nil || len(files) == 0 {
		return Ext{}, false, err
	}
	size := sizeOf(files, 0, defaultExtBytes)
	if at < 0 || size <= 0 {
		return Ext{}, false, nil
	}
	base := at / size * size
	name := filepath.Join(dir, segfile.Name(base))
	e, err := s.readExt(name, at-base)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoExt) {
		return Ext{}, false, nil
	}
	e.Address = address
	return e, err == nil, err
}

var errNoExt = errors.New("no extension entry")

// readExt reads one entry: int16 length, int64 tag code, int64 store time, int16
// length of the bit map, bit map.
func (s *Store) readExt(name string, at int64) (Ext, error) {
	f, err := s.opt.FS.Open(name)
	if err != nil {
		return Ext{}, err
	}
	defer f.Close() // only read from
	var head [20]byte
	if n, err := f.ReadAt(head[:], at); n < len(head) {
		return Ext{}, fmt.Errorf("%w: %w", errNoExt, err)
	}
	be := binary.BigEndian
	size, bits := int(int16(be.Uint16(head[:]))), int(int16(be.Uint16(head[18:])))
	if size < len(head) || bits != size-len(head) {
		return Ext{}, errNoExt
	}
	e := Ext{
		File: s.relative(name), Offset: at, Bytes: int64(size),
		Tags: int64(be.Uint64(head[2:])), StoreMillis: int64(be.Uint64(head[10:])), Bits: make([]byte, bits),
	}
	if n, err := f.ReadAt(e.Bits, at+int64(len(head))); n < bits {
		return Ext{}, fmt.Errorf("%w: %w", errNoExt, err)
	}
	return e, nil
}

// extFits checks that the address in an entry leads to the record's tag code.
func (v *verifier) extFits(c *queueCheck, n int64, e Entry, tag tagCode, phys int64) error {
	x, ok, err := v.s.extAt(c.topic, c.id, e.Tags)
	if err != nil {
		return err
	}
	switch {
	case !ok:
		c.ext.add(n, phys, fmt.Sprintf("address %d leads to no entry of the extension files", e.Tags))
	case tag.known && x.Tags != tag.code:
		c.ext.add(n, phys, fmt.Sprintf("%s at %d has tag code %d, the record's tag %q has %d", x.File, x.Offset, x.Tags, v.props.tags, tag.code))
	}
	return nil
}

// EachExt reads the extension entries of the entries of a queue.
func (q *Queue) EachExt(do func(n int64, e Ext) (bool, error)) error {
	return q.Each(0, func(n int64, e Entry) (bool, error) {
		if e.Tags > extLimit {
			return true, nil
		}
		x, ok, err := q.s.extAt(q.Topic, q.ID, e.Tags)
		if err != nil || !ok {
			return true, err
		}
		return do(n, x)
	})
}
