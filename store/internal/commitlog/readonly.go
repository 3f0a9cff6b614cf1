package commitlog

import (
	"errors"
	"io"
	"path/filepath"

	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// OpenRead opens the segments that were found in dir for reading: nothing is
// changed, and nobody else is kept from writing. A file shorter than segBytes
// reads as if zeros followed, and End is the end of the last segment. Only Scan,
// FindRecord, FirstRecord, Read, Bases and Close may be used.
func OpenRead(fsys vfs.FS, dir string, segBytes int64, files []segfile.Found) (*Log, error) {
	l := newLog(fsys, dir, segBytes)
	var segs []*segment
	l.segs.Store(&segs)
	for _, found := range files {
		f, err := fsys.Open(filepath.Join(dir, segfile.Name(found.Base)))
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		segs = append(segs, newSegment(found.Base, padded{f, segBytes}))
		l.segs.Store(&segs)
		l.end.Store(found.Base + segBytes)
	}
	return l, nil
}

// padded reads zeros behind the end of a file that is too short.
type padded struct {
	vfs.File
	size int64
}

// ReadAt implements io.ReaderAt.
func (p padded) ReadAt(b []byte, at int64) (int, error) {
	n, err := p.File.ReadAt(b, at)
	if !errors.Is(err, io.EOF) || n == len(b) {
		return n, err
	}
	if end := min(int64(len(b)), p.size-at); end > int64(n) {
		clear(b[n:end])
		n = int(end)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
