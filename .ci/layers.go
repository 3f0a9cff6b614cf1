// Layers checks what no linter knows: that the packages import only what the
// picture in broker/ARCHITECTURE.md allows, that data files are touched only
// through store/vfs, and that tests do not sleep.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// allowed lists, for each package prefix, what of ours it may import. The
// longest matching prefix counts.
var allowed = map[string][]string{
	"mqctl/cli/mqctl":         {"mqctl/cli"},
	"mqctl/cli/admin":         {"mqctl/broker/remoting", "mqctl/broker/topic", "mqctl/subgroup", "mqctl/store/record", "mqctl/store/table", "mqctl/store/fastjson"},
	"mqctl/cli/shell":         {},
	"mqctl/cli/top":           {"mqctl/cli/admin", "mqctl/cli/top", "mqctl/broker/remoting"},
	"mqctl/cli":               {"mqctl/cli/admin", "mqctl/cli/shell", "mqctl/cli/top", "mqctl/broker", "mqctl/subgroup", "mqctl/store"},
	"mqctl/broker":            {"mqctl/broker", "mqctl/subgroup", "mqctl/store", "mqctl/replication"},
	"mqctl/broker/nameserver": {"mqctl/broker/remoting", "mqctl/broker/topic", "mqctl/subgroup", "mqctl/store/vfs", "mqctl/store/table", "mqctl/store/fastjson"},
	"mqctl/broker/remoting":   {"mqctl/broker/remoting", "mqctl/store/fastjson"},
	"mqctl/broker/topic":      {"mqctl/store", "mqctl/subgroup"},
	"mqctl/broker/hold":       {"mqctl/store", "mqctl/subgroup"},
	"mqctl/broker/delay":      {"mqctl/store", "mqctl/broker/topic", "mqctl/subgroup"},
	"mqctl/broker/stats":      {"mqctl/broker/topic", "mqctl/subgroup"},
	"mqctl/replication":       {"mqctl/store", "mqctl/replication"},
	"mqctl/subgroup":          {"mqctl/subgroup", "mqctl/store/table", "mqctl/store/record", "mqctl/store/vfs", "mqctl/store/fastjson"},
	"mqctl/store/record":      {},
	"mqctl/store/vfs":         {},
	"mqctl/store/vfs/vfstest": {"mqctl/store/vfs"},
	"mqctl/store/fastjson":    {},
	"mqctl/store/table":       {"mqctl/store/vfs", "mqctl/store/fastjson"},
	"mqctl/store/inspect":     {"mqctl/store"},
	"mqctl/store/archive":     {"mqctl/store"},
	"mqctl/store":             {"mqctl/store/internal", "mqctl/store/record", "mqctl/store/table", "mqctl/store/vfs", "mqctl/store/fastjson"},
}

// onlyStart are the files of cli that may import broker and store themselves.
var onlyStart = regexp.MustCompile(`^cli/(serve|start|cmd_broker_start|cmd_start|cmd_nameserver|cmd_config|local)[a-z_]*\.go$`)

type pkg struct {
	ImportPath, Dir string
	Imports         []string
}

func main() {
	problems, err := check()
	if err != nil {
		fmt.Fprintln(os.Stderr, "layers:", err)
		os.Exit(2)
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func check() (problems []string, err error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		may := rule(p.ImportPath)
		for _, i := range p.Imports {
			if strings.HasPrefix(i, "mqctl/") && i != p.ImportPath && !within(i, may) {
				problems = append(problems, fmt.Sprintf("%s imports %s: not in the picture of layers", p.ImportPath, i))
			}
		}
	}
	more, err := sources()
	return append(problems, more...), err
}

func rule(path string) []string {
	best := ""
	for p := range allowed {
		if (path == p || strings.HasPrefix(path, p+"/")) && len(p) > len(best) {
			best = p
		}
	}
	return allowed[best]
}

func within(path string, prefixes []string) bool {
	for _, p := range prefixes {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

var (
	sleeps  = regexp.MustCompile(`\btime\.Sleep\(`)
	osCalls = regexp.MustCompile(`\bos\.(Open|Create|OpenFile|Remove|RemoveAll|Rename|Mkdir|MkdirAll|ReadFile|WriteFile|Stat|ReadDir|Link)\(`)
	prints  = regexp.MustCompile(`\bfmt\.Print(f|ln)?\(`)
)

// outsideVFS are the files below cli that may touch the machine's own files, and why.
var outsideVFS = map[string]string{
	"store/process.go": "reads the host's and the container's memory limit",
}

func sources() (problems []string, err error) {
	for _, root := range []string{"broker", "cli", "replication", "store", "subgroup"} {
		err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			lines := bufio.NewScanner(f)
			lines.Buffer(nil, 1<<20)
			n := 0
			for lines.Scan() {
				n++
				if p := line(filepath.ToSlash(path), lines.Text()); p != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: %s", path, n, p))
				}
			}
			if n > 800 && !strings.HasSuffix(path, "_test.go") {
				problems = append(problems, fmt.Sprintf("%s: %d lines, at most 800", path, n))
			}
			return lines.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	return problems, nil
}

func line(path, text string) string {
	test := strings.HasSuffix(path, "_test.go")
	switch {
	case test && sleeps.MatchString(text):
		return "a test sleeps: wait for the condition, or use virtual time"
	case test:
		return ""
	case strings.HasPrefix(path, "store/") && !strings.HasPrefix(path, "store/vfs/") && outsideVFS[path] == "" && osCalls.MatchString(text):
		return "a file of the store is touched outside store/vfs"
	case !strings.HasPrefix(path, "cli/") && prints.MatchString(text):
		return "prints to stdout outside cli"
	case strings.HasPrefix(path, "cli/") && strings.Count(path, "/") == 1 && !onlyStart.MatchString(path) &&
		(strings.Contains(text, `"mqctl/broker"`) || strings.Contains(text, `"mqctl/store"`)):
		return "only the start commands import broker and store"
	}
	return ""
}
