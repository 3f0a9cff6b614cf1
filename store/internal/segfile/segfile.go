// Package segfile knows the files that make up a file queue of the store
// (commit log, consume queue): all of one size, zero where unwritten, named by
// the 20-digit decimal position of their first byte (Java: MappedFileQueue).
package segfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"mqctl/store/vfs"
)

const nameDigits = 20

// Name is the file name of the file that starts at position base.
func Name(base int64) string { return fmt.Sprintf("%020d", base) }

// Parse is the position a file name stands for.
func Parse(name string) (base int64, ok bool) {
	if len(name) != nameDigits || name[0] != '0' {
		return 0, false // 20 digits starting with 1 to 9 do not fit in an int64
	}
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if base > (1<<63-1-int64(c-'0'))/10 {
			return 0, false
		}
		base = base*10 + int64(c-'0')
	}
	return base, true
}

// Found is one file of a directory.
type Found struct {
	Base int64 // position of its first byte
	Size int64 // bytes
}

// FileError says why a file makes its directory unusable, for Apache too.
type FileError struct {
	Path string
	What string
}

func (e *FileError) Error() string { return e.Path + ": " + e.What }

// List returns the files of dir by position; subdirectories are ignored as
// Java ignores them. A missing dir has none. foreign are the paths of files
// that are no data files: Apache refuses to start because of them, mqctl only
// tells. Folders that have the name of a data file are among them.
func List(fsys vfs.FS, dir string) (files []Found, foreign []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		base, ok := Parse(e.Name)
		if e.Dir {
			if ok {
				foreign = append(foreign, filepath.Join(dir, e.Name))
			}
			continue
		}
		if ok {
			files = append(files, Found{Base: base, Size: e.Size})
		} else {
			foreign = append(foreign, filepath.Join(dir, e.Name))
		}
	}
	return files, foreign, nil
}

// CheckSizes returns the size all files share, except that the last one may be
// empty or shorter (its making was interrupted). want is the configured size,
// 0 to learn it; def is used when there is nothing to learn from.
func CheckSizes(dir string, files []Found, want, def int64) (int64, error) {
	size := want
	for i, f := range files {
		last := i == len(files)-1
		if f.Size == size && size != 0 {
			continue
		}
		if last && (f.Size == 0 || f.Size < size) {
			continue
		}
		if size == 0 && f.Size > 0 {
			size = f.Size
			continue
		}
		return 0, &FileError{
			Path: filepath.Join(dir, Name(f.Base)),
			What: fmt.Sprintf("has %d bytes, but the files here must have %d", f.Size, size),
		}
	}
	if size == 0 {
		size = def
	}
	for _, f := range files {
		if f.Base%size != 0 {
			return 0, &FileError{
				Path: filepath.Join(dir, Name(f.Base)),
				What: fmt.Sprintf("its name is not a multiple of the file size %d", size),
			}
		}
	}
	return size, nil
}

// CheckShort is CheckSizes for files whose content can be made again: any of them may be
// shorter than the others, as long as all names fit the size.
func CheckShort(dir string, files []Found, want, def int64) (int64, error) {
	size, err := CheckSizes(dir, files, want, def)
	if err == nil {
		return size, nil
	}
	whole := want
	for _, f := range files {
		if want == 0 {
			whole = max(whole, f.Size)
		}
	}
	for _, f := range files {
		if whole == 0 || f.Size > whole || f.Base%whole != 0 {
			return 0, err
		}
	}
	return whole, nil
}

// Short says whether a file but the last, whose making may have been interrupted, lacks
// a part of size.
func Short(files []Found, size int64) bool {
	for i := range len(files) - 1 {
		if files[i].Size < size {
			return true
		}
	}
	return false
}
