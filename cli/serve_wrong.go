package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// wrongKind tells of a folder in the place of a file, or the other way round; nil if err is
// something else.
func wrongKind(err error) *Message {
	var path *fs.PathError
	var link *os.LinkError
	name := ""
	switch {
	case errors.As(err, &path):
		name = path.Path
	case errors.As(err, &link):
		name = link.New
	default:
		return nil
	}
	is, wanted := "a folder", "a file"
	switch {
	case errors.Is(err, syscall.EISDIR):
	case errors.Is(err, syscall.ENOTDIR):
		is, wanted = "a file", "a folder"
		for _, serr := os.Stat(name); serr != nil && name != filepath.Dir(name); _, serr = os.Stat(name) {
			name = filepath.Dir(name) // the file may lie above what was asked for
		}
	default:
		return nil
	}
	return fail(ExitStoreDamaged, "STORE_DAMAGED", "%s is %s, but the broker needs %s there", name, is, wanted).
		because("somebody put it there; the broker never does").
		try(fmt.Sprintf("mv %s %s", shellWord(name), shellWord(name+".aside")), "put a good copy there if you have one")
}
