// Package vfstest brings recorded store folders into memory for tests of other
// packages.
package vfstest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"testing"

	"mqctl/store/vfs"
)

// each calls f for each entry of a .tar.gz, with the content of regular files.
func each(file string, f func(h *tar.Header, content []byte) error) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read from
	z, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b := []byte{}
		if h.Typeflag == tar.TypeReg {
			if b, err = io.ReadAll(r); err != nil {
				return err
			}
		}
		if err := f(h, b); err != nil {
			return err
		}
	}
}

// put makes a file with its folders.
func put(m *vfs.Mem, name string, content []byte) error {
	if err := m.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	return vfs.WriteFile(m, name, content)
}

// Folder is a file system with what a .tar.gz holds, below the root. Nothing of it
// counts as synced.
func Folder(t testing.TB, file string) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	err := each(file, func(h *tar.Header, b []byte) error {
		name := path.Join("/", h.Name)
		if h.Typeflag == tar.TypeDir {
			return m.MkdirAll(name)
		}
		return put(m, name, b)
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Set is one of several folders in a .tar.gz, and what was noted about it.
type Set struct {
	Files map[string][]byte // by path from the root; nil for a folder
	JSON  []byte            // of NAME.json beside it
}

// Sets reads a .tar.gz with several folders NAME/ and their NAME.json. Equal files may
// be links.
func Sets(file string) (map[string]*Set, error) {
	out, all := map[string]*Set{}, map[string][]byte{}
	err := each(file, func(h *tar.Header, b []byte) error {
		switch h.Typeflag {
		case tar.TypeReg:
			all[h.Name] = b
		case tar.TypeLink:
			b = all[h.Linkname]
		default:
			b = nil
		}
		name, rest, inside := strings.Cut(h.Name, "/")
		name = strings.TrimSuffix(name, ".json")
		if out[name] == nil {
			out[name] = &Set{Files: map[string][]byte{}}
		}
		if inside {
			out[name].Files["/"+rest] = b
		} else {
			out[name].JSON = b
		}
		return nil
	})
	return out, err
}

// Folder is a file system with the files of the set.
func (s *Set) Folder(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	for name, b := range s.Files {
		var err error
		if b == nil {
			err = m.MkdirAll(name)
		} else {
			err = put(m, name, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return m
}
