package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"mqctl/store"
	"mqctl/store/internal/segfile"
	"mqctl/store/vfs"
)

// passOver is a file system on which a folder in the place of a file is not there, and the
// other way round: kinds tells of both.
type passOver struct{ vfs.FS }

func (p passOver) ReadDir(dir string) ([]vfs.Entry, error) {
	list, err := p.FS.ReadDir(dir)
	return list, absent(err)
}

func (p passOver) Split(dir string) (dirs, others []string, err error) {
	dirs, others, err = p.FS.Split(dir)
	return dirs, others, absent(err)
}

func absent(err error) error {
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// listWrong finds the names with which a start is refused.
func (s *Store) listWrong() (err error) {
	if s.wrong, err = store.WrongKinds(s.opt.FS, s.opt.Dir, s.opt.CommitLogDir); err != nil {
		return err
	}
	for _, root := range []string{"consumequeue", "batchconsumequeue"} {
		topics, err := s.splitOff(filepath.Join(s.opt.Dir, root), store.TopicName)
		if err != nil {
			return err
		}
		for _, topic := range topics {
			if _, err := s.splitOff(filepath.Join(s.opt.Dir, root, topic), store.QueueName); err != nil {
				return err
			}
		}
	}
	return nil
}

// splitOff lists the folders in dir; what is none and has the name of one is wrong.
func (s *Store) splitOff(dir string, named func(string) bool) ([]string, error) {
	dirs, others, err := s.opt.FS.Split(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range others {
		if named(name) {
			s.wrong = append(s.wrong, store.WrongKind{Path: filepath.Join(dir, name)})
		}
	}
	return dirs, nil
}

// kinds reports folders in the place of files, and the other way round.
func (v *verifier) kinds() error {
	for _, w := range v.s.wrong {
		f := notLog(store.StrangeFile, v.s.relative(w.Path), "%s: a start is refused", w)
		f.Try = w.Try()
		v.find(Found{Finding: f, Severity: Damage})
	}
	return nil
}

// strangeFiles tells the files that are no data files.
func (s *Store) strangeFiles(list []string) {
	for _, path := range list {
		if _, ok := segfile.Parse(filepath.Base(path)); ok {
			s.wrong = append(s.wrong, store.WrongKind{Path: path, Folder: true})
		} else {
			s.strange = append(s.strange, path)
		}
	}
}

// isWrong says whether a folder has the place of that file.
func (s *Store) isWrong(name string) bool {
	for _, w := range s.wrong {
		if w.Path == filepath.Join(s.opt.Dir, name) {
			return true
		}
	}
	return false
}
