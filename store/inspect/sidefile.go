package inspect

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"mqctl/store"
	"mqctl/store/vfs"
)

// maxSideFile bounds what is read of a small file, in bytes.
const maxSideFile = 64 << 20

// SideFile is a text file of mqctl's own, a value a line.
type SideFile struct {
	Path   string
	Bytes  int64
	Head   string // its first line
	Values [][2]string
	Err    error // why it cannot be believed

	text []byte
}

// SideFiles reads the sealed files in mqctl/: those that end with their checksum.
func (s *Store) SideFiles() ([]SideFile, error) {
	dir := filepath.Join(s.opt.Dir, "mqctl")
	entries, err := s.opt.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []SideFile
	for _, e := range entries {
		if e.Dir || e.Size > maxSideFile || !sealedName(e.Name) {
			continue
		}
		b, err := vfs.ReadFile(s.opt.FS, filepath.Join(dir, e.Name), maxSideFile)
		if err != nil {
			return nil, err
		}
		f := SideFile{Path: "mqctl/" + e.Name, Bytes: int64(len(b)), text: b}
		f.parse(string(b))
		out = append(out, f)
	}
	return out, nil
}

// sealedName reports whether a file of that name in mqctl/ is one with a checksum.
func sealedName(name string) bool {
	switch name {
	case "progress", "cut", "holes", "births", "import", "imported":
		return true
	}
	return false
}

func (f *SideFile) parse(text string) {
	i := strings.LastIndex(text, "\ncrc ")
	if i < 0 || text[i+1:] != fmt.Sprintf("crc %08x\n", crc32.ChecksumIEEE([]byte(text[:i+1]))) {
		f.Err = errors.New("its checksum does not match")
		return
	}
	lines := strings.Split(text[:i], "\n")
	f.Head = lines[0]
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, " ")
		f.Values = append(f.Values, [2]string{name, value})
	}
}

// sideFiles reads what mqctl noted about the store.
func (v *verifier) sideFiles() error {
	v.deleted = map[string]int64{}
	files, err := v.s.SideFiles()
	if err != nil {
		return err
	}
	for _, f := range files {
		v.sideFile(&f)
		if f.Err != nil || f.Path != "mqctl/progress" {
			continue
		}
		for _, l := range f.Values {
			pos, quoted, ok := strings.Cut(l[1], " ")
			topic, err := strconv.Unquote(quoted)
			if l[0] != "deleted" || !ok || err != nil {
				continue
			}
			if at, err := strconv.ParseInt(pos, 10, 64); err == nil {
				v.deleted[topic] = at
			}
		}
	}
	pid, ok, err := v.s.Abort()
	if err != nil || !ok {
		return err
	}
	v.killed = true
	n := notLog(NotStopped, "abort", "is there: the broker was killed, or runs; the next start is a recovery")
	if v.repaired = pid == store.NobodysPID; v.repaired {
		n.What = "says that the store was repaired: the next start compares queues and index with the whole log"
	}
	v.find(Found{Finding: n, Severity: Note})
	return nil
}
