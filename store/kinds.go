package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"mqctl/store/vfs"
)

// WrongKind is a folder in the place of a file of the store, or the other way round. Nobody
// knows what was there, and the name is needed: a start is refused.
type WrongKind struct {
	Path   string
	Folder bool // it is a folder, or a pipe or device
}

// String says what is wrong with it.
func (w WrongKind) String() string {
	if w.Folder {
		return "is a folder (or a pipe or device), but only a file can have this name here"
	}
	return "is a file, but only a folder can have this name here"
}

// Try is the command that helps.
func (w WrongKind) Try() string { return fmt.Sprintf("mv %s %s.aside", w.Path, w.Path) }

func (w WrongKind) refusal() error {
	return &DamagedError{What: w.String(), Where: w.Path, Try: w.Try()}
}

// Names in a store by what they are. Files of the folders of data files are not here: they
// are known by their digits.
var (
	rootFolders = []string{"commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index", "config", "mqctl"}
	rootFiles   = []string{"lock", "abort", "checkpoint"}
	ownFiles    = []string{
		"progress", "queues", "unsafe", "cut", "blank", "holes", "import", "imported", "aside", "new-queue-file", "new-batch-file",
		"members.json", "delivered.json",
	}
	tableFiles = []string{"topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json", "messageRequestMode.json"}
	// besides are the ends of names of what is written beside a file.
	besides = []string{"", ".bak", ".tmp", ".bak.tmp", ".journal"}
)

// WrongKinds looks at the commit log's folder, also in another place, at the names in the
// store folder, config, mqctl and index, and at the topics that have extensions. Those of
// queues are many: who lists them looks too, by TopicName and QueueName.
func WrongKinds(fsys vfs.FS, dir, logDir string) (wrong []WrongKind, err error) {
	look := func(dir string, folder, file func(name string) bool) {
		dirs, others, lerr := fsys.Split(dir)
		if lerr != nil && !errors.Is(lerr, fs.ErrNotExist) && !slices.ContainsFunc(wrong, func(w WrongKind) bool { return w.Path == dir }) {
			err = errors.Join(err, lerr)
		}
		for _, name := range dirs {
			if file(name) {
				wrong = append(wrong, WrongKind{filepath.Join(dir, name), true})
			}
		}
		for _, name := range others {
			if folder(name) {
				wrong = append(wrong, WrongKind{filepath.Join(dir, name), false})
			}
		}
	}
	none := func(string) bool { return false }
	look(dir, oneOf(rootFolders, ""), oneOf(rootFiles, ""))
	if filepath.Clean(logDir) != filepath.Join(dir, "commitlog") {
		e, serr := fsys.Stat(logDir) // what else is beside it is not ours to list
		if serr == nil && !e.Dir {
			wrong = append(wrong, WrongKind{Path: logDir})
		} else if serr != nil && !errors.Is(serr, fs.ErrNotExist) {
			err = serr
		}
	}
	look(filepath.Join(dir, "mqctl"), none, oneOf(ownFiles, besides...))
	look(filepath.Join(dir, "config"), none, oneOf(tableFiles, besides...))
	look(filepath.Join(dir, "index"), none, indexName)
	look(filepath.Join(dir, "consumequeue_ext"), TopicName, none)
	return wrong, err
}

func oneOf(names []string, ends ...string) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(ends, func(end string) bool {
			base, ok := strings.CutSuffix(name, end)
			return ok && slices.Contains(names, base)
		})
	}
}

// indexName says whether a file of the index can have this name: a time to the millisecond.
func indexName(name string) bool { return len(name) == 17 && strings.Trim(name, "0123456789") == "" }

// TopicName says whether the folder of a topic can have this name.
func TopicName(name string) bool {
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '-' && c != '%' && c != '|' {
			return false
		}
	}
	return name != ""
}

// QueueName says whether the folder of a queue can have this name.
func QueueName(name string) bool {
	return len(name) <= 10 && strings.Trim(name, "0123456789") == "" && name != ""
}
