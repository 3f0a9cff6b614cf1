package table

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"mqctl/store/vfs"
)

// maxBytes bounds what Load reads: a document that is larger was not written
// by a broker.
const maxBytes = 1 << 30

// File is one config document, e.g. config/topics.json. Save may be called
// concurrently; Load must come first.
type File struct {
	fs             vfs.FS
	dir            string
	path, bak      string
	temp, tempBak  string
	mu             sync.Mutex // held by the Save that is under way
	dirReady       bool
	keepBak        bool  // the main file is bad: .bak is the generation to keep
	whyBak         error // why Load passed over the main file
	cannotHardLink bool
	journal        journal
}

// NewFile names the document; dir is made when first saved.
func NewFile(fs vfs.FS, dir, name string) *File {
	path := filepath.Join(dir, name)
	return &File{
		fs: fs, dir: dir,
		path: path, bak: path + ".bak",
		temp: path + ".tmp", tempBak: path + ".bak.tmp",
		journal: journal{path: path + ".journal"},
	}
}

// Path is the path of the main file.
func (f *File) Path() string { return f.path }

// CorruptError says that a document is there and no generation of it is
// readable.
type CorruptError struct {
	Path, Bak       string
	PathErr, BakErr error // BakErr is fs.ErrNotExist if there is no .bak
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("no readable generation of %s: %v; %s: %v; put a good copy in place of the first, or remove both to start without it",
		e.Path, e.PathErr, e.Bak, e.BakErr)
}

// Unwrap returns what is wrong with each generation.
func (e *CorruptError) Unwrap() []error { return []error{e.PathErr, e.BakErr} }

var errEmpty = errors.New("the file is empty")

// Load calls parse with the newest readable generation: the main file, else
// .bak (when main is missing, empty or refused by parse). parse may be called
// twice, so it must not keep what it got from a text that it refused.
// Nothing written yet, or only empty files, as a crash of RocketMQ leaves
// them: found=false. Content in at least one generation and none readable: a
// *CorruptError naming both paths. A file that cannot be read for lack of
// permission or with an I/O error is that error: the generation behind it is
// no substitute for what a human can still repair.
//
// What Load gives back is durable: the process that renamed it may have been
// killed before it synced the folder, and a power loss now would take back a
// version that others have seen by then.
func (f *File) Load(parse func([]byte) error) (found bool, err error) {
	found, err = f.load(parse)
	if found {
		if err = f.fs.SyncDir(f.dir); err != nil {
			return false, err
		}
	}
	return found, err
}

func (f *File) load(parse func([]byte) error) (found bool, err error) {
	f.keepBak, f.whyBak, f.journal.lost = false, nil, nil
	mainErr, err := f.try(f.path, func(b []byte) error {
		err := parse(b)
		if err == nil {
			f.journal.base(b)
		}
		return err
	})
	if err != nil || mainErr == nil {
		return err == nil, err
	}
	bakErr, err := f.try(f.bak, parse)
	if err != nil {
		return false, err
	}
	if bakErr == nil {
		f.keepBak, f.whyBak = true, fmt.Errorf("%s cannot be used (%w): the older %s is used instead", f.path, mainErr, f.bak)
		return true, nil
	}
	if blank(mainErr) && blank(bakErr) {
		return false, nil
	}
	return false, &CorruptError{Path: f.path, Bak: f.bak, PathErr: mainErr, BakErr: bakErr}
}

func blank(err error) bool { return errors.Is(err, errEmpty) || errors.Is(err, fs.ErrNotExist) }

// try reads one generation. unusable says why the other one has to do.
func (f *File) try(path string, parse func([]byte) error) (unusable, err error) {
	b, err := vfs.ReadFile(f.fs, path, maxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fs.ErrNotExist, nil
	case err != nil:
		return nil, err
	case len(b) == 0:
		return errEmpty, nil
	}
	return parse(b), nil
}

// UsedBak returns why the last Load took .bak instead of the main file, naming both;
// nil if it did not.
func (f *File) UsedBak() error { return f.whyBak }

// behindBak is how much further a version counts after a fallback: what the lost
// generation had been told to name servers and slaves must not be newer.
const behindBak = 1000

// Version is the version of what the last Load gave back: v, as the document says, or
// after a fallback to .bak one that is newer than that of the lost generation.
func (f *File) Version(v DataVersion) DataVersion {
	if f.whyBak != nil {
		v.Counter += behindBak
	}
	return v
}

// Save makes data the new generation, durably: temp file, fsync, old one kept
// as .bak, rename, directory synced. On error the old generations stay.
//
// The order lets no crash lose both: the new file is complete before it gets
// its name, and the old one has a second name before it loses its first.
func (f *File) Save(data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.dirReady {
		if err := vfs.MkdirAllSync(f.fs, f.dir); err != nil {
			return err
		}
		// Whoever made the folder may have died, or failed, before its name was safe.
		if err := f.fs.SyncDir(filepath.Dir(f.dir)); err != nil {
			return err
		}
		f.dirReady = true
	}
	if err := vfs.WriteFile(f.fs, f.temp, data); err != nil {
		f.discard(f.temp)
		return fmt.Errorf("save %s: %w", f.path, err)
	}
	if err := f.swap(); err != nil {
		f.discard(f.temp)
		return fmt.Errorf("save %s: %w", f.path, err)
	}
	f.keepBak = false
	had := f.journal.bytes > 0 || f.journal.found || f.journal.aside != ""
	f.journal.base(data)
	if had {
		f.drop()
	}
	return nil
}

// discard removes a file of a failed save; one that stays is overwritten by
// the next.
func (f *File) discard(path string) { _ = f.fs.Remove(path) }

// swap gives the temporary file the name of the document.
func (f *File) swap() error {
	linked, err := f.linkOld()
	if err != nil {
		return err
	}
	if err := f.fs.Rename(f.temp, f.path); err != nil {
		f.discard(f.tempBak)
		return err
	}
	if linked {
		if err := f.fs.Rename(f.tempBak, f.bak); err != nil {
			f.restore(f.tempBak)
			return err
		}
	}
	if err := f.fs.SyncDir(f.dir); err != nil {
		// Nobody knows what is on the disk now. Let at least the running
		// system agree with the caller, who was told that nothing changed.
		if linked && f.fs.Link(f.bak, f.tempBak) == nil {
			f.restore(f.tempBak)
		}
		return err
	}
	return nil
}

// restore makes the old generation the main file again.
func (f *File) restore(from string) {
	if err := f.fs.Rename(from, f.path); err == nil {
		_ = f.fs.SyncDir(f.dir) // the error of the save is what the caller hears
	}
}

// linkOld gives the old main file a second name. linked is false if there is
// none or it is not worth keeping.
func (f *File) linkOld() (linked bool, err error) {
	if f.keepBak {
		return false, nil
	}
	if !f.cannotHardLink {
		err := f.fs.Link(f.path, f.tempBak)
		if errors.Is(err, fs.ErrExist) { // left by a crash
			f.discard(f.tempBak)
			err = f.fs.Link(f.path, f.tempBak)
		}
		if err == nil {
			return true, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
	}
	return f.copyOld()
}

// copyOld replaces the hard link where the file system has none.
func (f *File) copyOld() (linked bool, err error) {
	old, err := vfs.ReadFile(f.fs, f.path, maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f.cannotHardLink = true
	if err := vfs.WriteFile(f.fs, f.tempBak, old); err != nil {
		f.discard(f.tempBak)
		return false, err
	}
	return true, nil
}
