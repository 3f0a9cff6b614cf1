package shell

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// longestHistory is how many lines the history keeps unless it is told otherwise.
const longestHistory = 2000

// History is the lines that were typed, in a file that sessions share by
// appending. Secrets never reach it.
type History struct {
	path  string
	limit int
	lines []string // the oldest first, without duplicates
}

// OpenHistory reads the file, if it is there. An empty path or a limit of 0
// keep nothing on disk. Errors leave a history that works in memory.
func OpenHistory(path string, limit int) (*History, error) {
	h := &History{path: path, limit: limit}
	if path == "" || limit <= 0 {
		h.path = ""
		return h, nil
	}
	all, err := readLines(path)
	if err != nil {
		h.path = ""
		return h, err
	}
	h.lines = h.last(all)
	if len(all) > 2*limit {
		return h, h.rewrite()
	}
	return h, nil
}

// Lines are the lines, the oldest first.
func (h *History) Lines() []string { return h.lines }

// readLines reads a history; one that is not there is empty.
func readLines(path string) ([]string, error) {
	if info, err := os.Stat(path); err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 {
		return nil, fmt.Errorf("%s is a pipe or socket, and not a file for the history", path) // opening it would wait for a writer
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, longestLine)
	for s.Scan() {
		if l := strings.TrimSpace(s.Text()); l != "" {
			out = append(out, l)
		}
	}
	return out, s.Err()
}

// last drops all but the last of equal lines, and the oldest above the limit.
func (h *History) last(all []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, l := range slices.Backward(all) {
		if len(out) == h.limit {
			break
		}
		if !seen[l] {
			seen[l] = true
			out = append(out, l)
		}
	}
	slices.Reverse(out)
	return out
}

// Add takes a line as it was typed. Lines that begin with a blank are not kept.
func (h *History) Add(line string) error {
	if line == "" || line[0] == ' ' || line[0] == '\t' {
		return nil
	}
	line = Redact(strings.NewReplacer("\\\n", "", "\n", " ").Replace(strings.TrimSpace(line)))
	if line == "" || len(line) > longestLine/2 || h.limit <= 0 {
		return nil
	}
	if i := slices.Index(h.lines, line); i >= 0 {
		h.lines = slices.Delete(h.lines, i, i+1)
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > h.limit {
		h.lines = slices.Delete(h.lines, 0, len(h.lines)-h.limit)
	}
	if h.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// rewrite shortens a file that has grown to more than twice the limit, under a
// lock; a session that appends at the same time loses at most that line.
func (h *History) rewrite() error {
	lock, err := os.OpenFile(h.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil // another session does it
	}
	temp := h.path + ".new"
	if err := os.WriteFile(temp, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, h.path)
}

// secretWords are in the names of settings that hold secrets.
const secretWords = `(?:password|passwd|secret|token|access[-_]?key|credential|authenticationuser|exporterheader)`

// secrets is where the secret part of a line begins: the value of --password,
// --secret and their longer forms, of sk= and the like, of -p of the mqadmin
// commands about users, and of settings whose name says that they are secrets.
var secrets = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(--?[a-z-]*(?:password|passwd|secret|token)|\bsk=|` + secretWords + `[\w.-]*=|` +
		`\b(?:config set|kv set|update(?:broker|namesrv|controller|kv)config)\b.*?` + secretWords + `[\w.-]*["']?[ =]|` +
		`\b(?:create|update)user\b.*?\s-p).*`)
})

// Redact replaces everything behind the beginning of a secret by "***".
func Redact(line string) string {
	return secrets().ReplaceAllStringFunc(line, func(s string) string {
		head := secrets().FindStringSubmatch(s)[1]
		if strings.HasSuffix(head, "=") || strings.HasSuffix(head, " ") {
			return head + "***"
		}
		return head + " ***"
	})
}
