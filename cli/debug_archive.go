package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mqctl/store/vfs"
)

// A bundle is a gzip'd tar of small files, its parts, and manifest.json, which is
// the last one and lists them all, also those that are missing, with the reason.
// Names begin with client/, nameservers/N/, brokers/NAME-ID/ or store/.

const (
	manifestName   = "manifest.json"
	manifestSchema = "mqctl.debug.manifest/v1"

	// Bounds of an archive that is read: parts, bytes of one part, of all.
	mostParts     = 20_000
	mostPartBytes = mostProfile
	mostBundle    = 1 << 30
)

// bundlePart is one file of a bundle, or one that is not there.
type bundlePart struct {
	Name    string  `json:"name"`
	Bytes   int64   `json:"bytes" min:"0"`
	SHA256  *string `json:"sha256"`
	Error   *string `json:"error"`   // why it could not be had
	Skipped *string `json:"skipped"` // why there is none: nothing is wrong
}

// manifest says what a bundle holds.
type manifest struct {
	Schema    string       `json:"schema"`
	CreatedAt string       `json:"createdAt"`
	Version   string       `json:"version"`
	Cluster   *string      `json:"cluster"`
	Since     string       `json:"since"`
	Redact    string       `json:"redact"`
	Brokers   []bundled    `json:"brokers"`
	Parts     []bundlePart `json:"parts"`
}

// bundled is a broker that was asked, under the folder that has its parts.
type bundled struct {
	Folder   string  `json:"folder"`
	Broker   string  `json:"broker"`
	BrokerID int64   `json:"brokerId"`
	Addr     string  `json:"addr"`
	Answered bool    `json:"answered"`
	Ours     bool    `json:"ours"`
	Error    *string `json:"error"`
	At       string  `json:"at"` // when it was asked
}

// archiveWriter writes a bundle beside its place and moves it there at the end, so
// that there is never half of one.
type archiveWriter struct {
	path string
	tmp  *os.File
	gz   *gzip.Writer
	tar  *tar.Writer
	now  time.Time
}

func newArchive(path string, now time.Time) (*archiveWriter, error) {
	path, err := vfs.OS{}.Place(path)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".mqctl-bundle-*") // mode 0600
	if err != nil {
		return nil, err
	}
	a := &archiveWriter{path: path, tmp: f, gz: gzip.NewWriter(f), now: now}
	a.tar = tar.NewWriter(a.gz)
	return a, nil
}

func (a *archiveWriter) add(name string, b []byte) error {
	err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(b)), Mode: 0o600, ModTime: a.now.Truncate(time.Second), Format: tar.FormatPAX})
	if err == nil {
		_, err = a.tar.Write(b)
	}
	return err
}

// finish moves the archive to its place and tells its size.
func (a *archiveWriter) finish() (size int64, err error) {
	if err := errors.Join(a.tar.Close(), a.gz.Close()); err != nil {
		return 0, errors.Join(err, a.drop())
	}
	info, err := a.tmp.Stat()
	if err != nil {
		return 0, errors.Join(err, a.drop())
	}
	if err := a.tmp.Close(); err != nil {
		return 0, errors.Join(err, os.Remove(a.tmp.Name()))
	}
	if err := os.Rename(a.tmp.Name(), a.path); err != nil {
		return 0, errors.Join(err, os.Remove(a.tmp.Name()))
	}
	return info.Size(), nil
}

// drop gives the archive up.
func (a *archiveWriter) drop() error { return errors.Join(a.tmp.Close(), os.Remove(a.tmp.Name())) }

func sumOf(b []byte) *string {
	sum := sha256.Sum256(b)
	return ptr(hex.EncodeToString(sum[:]))
}

// readBundle reads an archive, or the folder that one was unpacked to, into memory.
func readBundle(path string) (map[string][]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, noFile(path).try("mqctl debug bundle --out " + shellWord(path))
	case err != nil:
		return nil, badBundle(path, "%v", err)
	case info.IsDir():
		return readBundleFolder(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, badBundle(path, "%v", err)
	}
	defer f.Close()
	parts, err := readArchive(f)
	if err != nil {
		return nil, badBundle(path, "%v", err)
	}
	return parts, nil
}

func readArchive(in io.Reader) (map[string][]byte, error) {
	gz, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("it is no bundle: %w", err)
	}
	all := &io.LimitedReader{R: gz, N: mostBundle + 1}
	out := map[string][]byte{}
	for r := tar.NewReader(all); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("it is no bundle, or not a whole one: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if len(out) >= mostParts || h.Size > mostPartBytes || all.N <= 0 {
			return nil, fmt.Errorf("it is larger than a bundle: more than %d parts, or one of more than %d bytes", mostParts, mostPartBytes)
		}
		var b bytes.Buffer
		if _, err := io.Copy(&b, r); err != nil {
			return nil, fmt.Errorf("it is not a whole bundle: %s: %w", shown(h.Name), err)
		}
		out[strings.TrimPrefix(h.Name, "./")] = b.Bytes()
	}
	if out[manifestName] == nil {
		return nil, errors.New("it is no bundle: it has no " + manifestName)
	}
	return out, nil
}

func readBundleFolder(dir string) (map[string][]byte, error) {
	out, size := map[string][]byte{}, int64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if size += info.Size(); len(out) >= mostParts || info.Size() > mostPartBytes || size > mostBundle {
			return errors.New("it is larger than a bundle")
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = b
		return err
	})
	if err != nil {
		return nil, badBundle(dir, "%v", err)
	}
	if out[manifestName] == nil {
		return nil, badBundle(dir, "it is no unpacked bundle: it has no %s", manifestName)
	}
	return out, nil
}

func badBundle(path, format string, args ...any) *Message {
	return badFile(path, format, args...).because("an archive of mqctl debug bundle is expected, or the folder that one was unpacked to")
}
