// Package checkpoint is the codec of the store's checkpoint file (Java:
// StoreCheckpoint): 4096 bytes, of which the first 40 hold five big-endian
// 64-bit values.
package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"mqctl/store/vfs"
)

// Bytes is the size of the file.
const Bytes = 4096

// Checkpoint is what the file holds. Times are Unix milliseconds of message
// store times. Java starts the recovery after a crash at the newest log file
// whose first message is older than the smaller of Phys and Logics, less three
// seconds; so neither may run ahead of what is safe on disk.
type Checkpoint struct {
	PhysMillis    int64 // the commit log is safe up to the message of this time
	LogicsMillis  int64 // and the consume queues
	IndexMillis   int64 // and the index files
	MasterFlushed int64 // kept for Java: slave acting as master
	ConfirmPhys   int64 // kept for Java: confirm offset
}

// Decode reads the file's bytes. An empty file is an empty checkpoint.
func Decode(b []byte) (Checkpoint, error) {
	if len(b) == 0 {
		return Checkpoint{}, nil
	}
	if len(b) < 40 {
		return Checkpoint{}, fmt.Errorf("checkpoint has %d bytes, want %d", len(b), Bytes)
	}
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) }
	return Checkpoint{at(0), at(8), at(16), at(24), at(32)}, nil
}

// Encode is the content of the file.
func (c Checkpoint) Encode() []byte {
	b := make([]byte, Bytes)
	for i, v := range []int64{c.PhysMillis, c.LogicsMillis, c.IndexMillis, c.MasterFlushed, c.ConfirmPhys} {
		binary.BigEndian.PutUint64(b[8*i:], uint64(v))
	}
	return b
}

// SafeMillis is the store time up to which log and queues are safe by Java's
// rule, less its three seconds of grace; 0 if unknown.
func (c Checkpoint) SafeMillis() int64 {
	return max(0, min(c.PhysMillis, c.LogicsMillis)-3000)
}

// Read reads the file called name; a missing or short one is empty, which
// only makes recovery start earlier.
func Read(fsys vfs.FS, name string) (c Checkpoint, ok bool, err error) {
	b, err := vfs.ReadFile(fsys, name, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return Checkpoint{}, false, nil
	}
	if err != nil {
		return Checkpoint{}, false, err
	}
	c, err = Decode(b)
	if err != nil || len(b) == 0 {
		return Checkpoint{}, false, nil
	}
	return c, true, nil
}

// File is an open checkpoint file. It is overwritten in place: the five values
// lie in one sector, which a disk writes whole.
type File struct {
	f vfs.File
}

// OpenFile opens or makes the file, 4096 bytes long.
func OpenFile(fsys vfs.FS, name string) (*File, error) {
	f, err := fsys.OpenReadWrite(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(name)
	}
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err == nil && size != Bytes {
		err = f.Truncate(Bytes)
	}
	if err != nil {
		f.Close() // nothing was written
		return nil, err
	}
	return &File{f: f}, nil
}

// Write stores and syncs c.
func (f *File) Write(c Checkpoint) error {
	if _, err := f.f.WriteAt(c.Encode()[:40], 0); err != nil {
		return err
	}
	return f.f.Datasync()
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }
