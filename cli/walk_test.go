package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// lineFor is a command line of c that is right as far as its words go: one of
// closedLines, else the first example in this vocabulary, without what names
// nameservers. nil: there is none.
func lineFor(c *command, old bool) []string {
	words := exampleLine(c, old)
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "127.0.0.1:10911", "127.0.0.1:1") // whoever runs the tests may have a broker
	}
	return words
}

func exampleLine(c *command, old bool) []string {
	name := c.name(old)
	if line, ok := closedLines[name]; ok {
		return strings.Fields(line)
	}
	for _, e := range c.examples {
		words := exampleWords(e)
		if words == nil {
			continue
		}
		l, err := commands().normalise("mqctl", words)
		if err != nil || l.cmd != c || l.old != old {
			continue
		}
		delete(l.values, "namesrv")
		delete(l.values, "output")
		delete(l.values, "watch")
		return written(l)
	}
	if !old {
		return nil
	}
	words := []string{c.old}
	for i := range c.flags {
		if f := &c.flags[i]; f.required {
			words = append(words, spelledOld(f), sampleOf(f))
		}
	}
	if _, err := commands().normalise("mqctl", words); err != nil {
		return nil
	}
	return words
}

// written is a line that the front door has understood, as words for it.
func written(l *line) []string {
	v := vocabularyOf(l.cmd, l.old)
	var out []string
	if l.old {
		out = append(out, l.cmd.old)
	} else {
		out = strings.Fields(l.cmd.path)
	}
	for _, f := range v.flags {
		for _, value := range l.values[f.key] {
			word := v.spelled(f)
			if _, long, both := strings.Cut(word, "/"); both {
				word = long
			}
			if o, _, _, err := v.find(word); err == nil && !o.value && !o.optional {
				if value == "false" {
					word = "--no-" + f.key
				}
				out = append(out, word)
				continue
			}
			out = append(out, word+"="+value)
		}
	}
	for i, a := range l.args {
		if l.old {
			for j := range l.cmd.flags {
				if f := &l.cmd.flags[j]; f.arg == i+1 && a != "" {
					out = append(out, spelledOld(f), a)
				}
			}
			continue
		}
		out = append(out, a)
	}
	return out
}

func spelledOld(f *flagSpec) string {
	if f.long != "" {
		return "--" + f.long
	}
	return "-" + f.short
}

// exampleWords cuts the call of mqctl out of an example.
func exampleWords(example string) []string {
	at := strings.LastIndex(example, "mqctl ")
	if at < 0 {
		return nil
	}
	line, _, _ := strings.Cut(example[at:], " | ")
	words, err := splitWords(line)
	if err != nil {
		return nil
	}
	for i, w := range words {
		if w == ">" || w == "<" {
			words = words[:i]
			break
		}
		words[i] = strings.TrimSuffix(w, ")")
	}
	return words[1:]
}

func sampleOf(f *flagSpec) string {
	switch {
	case f.kind == kindBool:
		return "true"
	case f.kind == kindInt:
		return fmt.Sprint(max(f.min, min(7, max(f.max, 7))))
	case f.kind == kindDuration || f.kind == kindOptional && f.of == kindDuration:
		return "1s"
	case f.kind == kindEnum:
		return f.enum[0]
	case f.complete == "broker" || strings.Contains(strings.ToLower(f.key+f.long), "addr"):
		return "127.0.0.1:1"
	}
	return "x1"
}

// eachCommand runs f for every command that works, in both vocabularies, several
// at a time.
func eachCommand(t *testing.T, f func(t *testing.T, c *command, old bool, line []string)) {
	t.Helper()
	type job struct {
		c    *command
		old  bool
		line []string
	}
	var jobs []job
	for _, c := range commands().commands {
		for _, old := range []bool{false, true} {
			if c.name(old) == "" || old && c.old == "" || !old && c.path == "" {
				continue
			}
			line := lineFor(c, old)
			if line == nil {
				t.Errorf("no example of %s can be tried", c.name(old))
				continue
			}
			jobs = append(jobs, job{c, old, line})
		}
	}
	next := make(chan job, len(jobs))
	for i, j := range jobs {
		if raceDetector && i%8 != 0 {
			continue // all of them take minutes, and the same code runs
		}
		next <- j
	}
	close(next)
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			for j := range next {
				f(t, j.c, j.old, j.line)
			}
		})
	}
	wg.Wait()
}

// tried is what became of one line.
type tried struct {
	code      int
	out, errs string
	took      time.Duration
}

// try runs a line in a folder of its own with a time limit; a command that does
// not end by then has failed.
func try(args []string, env map[string]string, limit time.Duration) tried {
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, errors.New("the test's limit"))
	defer cancel()
	var out, errs bytes.Buffer
	begin := time.Now()
	code := Run(ctx, append([]string{"mqctl"}, args...), Stdio{In: strings.NewReader(""), Out: &out, Err: &errs, Env: func(k string) string { return env[k] }})
	return tried{code, out.String(), errs.String(), time.Since(begin)}
}

// decent holds what every failure must be: told on stderr with a code, never a
// stack trace, never half a document on stdout.
func (r tried) decent(t *testing.T, what string) {
	t.Helper()
	switch {
	case r.code == ExitOK:
		t.Errorf("%s: exit 0\n%s%s", what, r.out, r.errs)
	case r.code == ExitBug || strings.Contains(r.errs+r.out, "goroutine ") || strings.Contains(r.errs+r.out, "panic:"):
		t.Errorf("%s: an internal error\n%s%s", what, r.out, r.errs)
	case exitNames[r.code] == "":
		t.Errorf("%s: exit %d has no name", what, r.code)
	case r.errs == "":
		t.Errorf("%s: exit %d without a word", what, r.code)
	case strings.ContainsRune(r.out+r.errs, '\x1b'):
		t.Errorf("%s: escape sequences in a pipe", what)
	}
	advised(t, what, r.errs)
	if out := strings.TrimSpace(r.out); strings.HasPrefix(out, "{") {
		for doc := json.NewDecoder(strings.NewReader(out)); ; {
			var v map[string]any
			if err := doc.Decode(&v); err == io.EOF {
				break
			} else if err != nil {
				t.Errorf("%s: half a document: %v\n%s", what, err, r.out)
				break
			}
		}
	}
}

// advised fails where an error does not say what to try.
func advised(t *testing.T, what, errs string) {
	t.Helper()
	lines := strings.Split(errs, "\n")
	for i, l := range lines {
		if !strings.HasPrefix(l, "error   ") {
			continue
		}
		rest := strings.Join(lines[i+1:min(len(lines), i+3)], "\n")
		if !strings.HasPrefix(rest, "try     ") && !strings.Contains(rest, "\ntry     ") && (i == 0 || !strings.Contains(lines[0], "[PARTIAL]")) {
			t.Errorf("%s: an error without a try:\n%s", what, errs)
		}
	}
}

// listener is a port that takes connections and lets serve have them.
func listener(t *testing.T, serve func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// TestEveryCommandMeetsBadPeers runs every command against a port where nobody
// listens, one that never answers and one that answers junk.
func TestEveryCommandMeetsBadPeers(t *testing.T) {
	silent := listener(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	junk := listener(t, func(c net.Conn) {
		b := make([]byte, 1)
		if _, err := c.Read(b); err == nil {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
		}
		_ = c.Close()
	})
	short := listener(t, func(c net.Conn) { // a frame of JSON that is none
		b := make([]byte, 64)
		if _, err := c.Read(b); err == nil {
			_, _ = c.Write([]byte("\x00\x00\x00\x08\x00\x00\x00\x04{\"c\""))
		}
		_, _ = io.Copy(io.Discard, c)
	})
	eachCommand(t, func(t *testing.T, c *command, old bool, line []string) {
		if c.is(local) {
			return
		}
		for _, peer := range []struct{ what, addr string }{{"closed", "127.0.0.1:1"}, {"silent", silent}, {"junk", junk}, {"broken frame", short}} {
			for _, format := range []string{"", "json"} {
				args := append([]string{"-n", peer.addr, "--timeout=150ms", "--retries=0"}, addressed(line, peer.addr)...)
				if strings.HasPrefix(c.path, "wait ") {
					args = append(args, "--for=400ms")
				}
				if format != "" {
					args = append(args, "--output", format)
				}
				if c.is(destructive) && !old || c.is(mutates) && slices.ContainsFunc(vocabularyOf(c, old).flags, func(f *flagSpec) bool { return f.key == "yes" }) && !old {
					args = append(args, "--yes")
				}
				r := try(args, map[string]string{"HOME": t.TempDir()}, 20*time.Second)
				what := peer.what + ": mqctl " + strings.Join(args, " ")
				r.decent(t, what)
				if r.took > 10*time.Second {
					t.Errorf("%s took %s", what, r.took)
				}
				if format == "json" && r.code != ExitUsage && c.schema != "" && !json.Valid([]byte(r.out)) {
					t.Errorf("%s: exit %d and no envelope: %q", what, r.code, r.out)
				}
			}
		}
	})
}

// addressed replaces the addresses of a line by one.
func addressed(line []string, addr string) []string {
	out := slices.Clone(line)
	for i, w := range out {
		name, value, has := strings.Cut(w, "=")
		if !has {
			name, value = "", w
		}
		if host, port, err := net.SplitHostPort(value); err == nil && host != "" && port != "" && !strings.HasPrefix(value, "-") && strings.Count(value, ":") == 1 {
			if has {
				out[i] = name + "=" + addr
			} else {
				out[i] = addr
			}
		}
	}
	return out
}

// TestEveryFlagRefusesNonsense gives every flag of every command a value it
// cannot take, then an unknown flag and a stray argument.
func TestEveryFlagRefusesNonsense(t *testing.T) {
	var tries atomic.Int64
	t.Cleanup(func() {
		if n := tries.Load(); n < 1000 && !raceDetector {
			t.Errorf("only %d lines were tried", n)
		}
	})
	eachCommand(t, func(t *testing.T, c *command, old bool, line []string) {
		v := vocabularyOf(c, old)
		refused := func(args []string) {
			t.Helper()
			tries.Add(1)
			r := try(args, map[string]string{"HOME": t.TempDir()}, 20*time.Second)
			what := "mqctl " + strings.Join(args, " ")
			r.decent(t, what)
			if r.code != ExitUsage && r.code != ExitBadConfig || r.out != "" {
				t.Errorf("%s: exit %d, stdout %q, stderr %q", what, r.code, r.out, r.errs)
			}
		}
		for name, o := range v.long {
			bad := nonsense(o)
			if bad == "" || o.flag.absent {
				continue
			}
			refused(append(without(line, v, o.flag), "--"+name+"="+bad))
		}
		refused(append(slices.Clone(line), "--no-such-flag"))
		refused(append(slices.Clone(line), "--no-such-flag=1"))
		if old || c.max == 0 {
			refused(append(slices.Clone(line), "stray"))
		} else if c.max > 0 {
			refused(append(slices.Clone(line), strings.Fields(strings.Repeat("stray ", c.max+1))...))
		}
		for i := range c.flags {
			if f := &c.flags[i]; old && f.required {
				refused(without(line, v, f))
			}
		}
		if !old && c.min > 0 {
			refused(strings.Fields(c.path))
		}
	})
}

// without is a line without one of its flags.
func without(line []string, v *vocabulary, f *flagSpec) []string {
	var out []string
	for i := 0; i < len(line); i++ {
		if strings.HasPrefix(line[i], "-") {
			if o, _, has, err := v.find(line[i]); err == nil && o.flag == f {
				if o.value && !has {
					i++
				}
				continue
			}
		}
		out = append(out, line[i])
	}
	return out
}

// nonsense is a value that a flag cannot take; "" when it takes any.
func nonsense(o option) string {
	f := o.flag
	k := f.kind
	if k == kindOptional {
		k = f.of
	}
	switch {
	case o.negate:
		return "x"
	case k == kindInt || k == kindDuration || k == kindEnum || k == kindBool:
		return "nonsense?"
	case f.key == "namesrv":
		return "http://x"
	case f.key == "output" || f.key == "fields" || f.key == "sort" || f.key == "filter":
		return "no such thing?"
	}
	return ""
}

// TestQuietPipe: a reader that goes away after the first line is no error, of
// commands that end and of those that go on until somebody ends them.
func TestQuietPipe(t *testing.T) {
	f := newFakeCluster(t)
	f.add("127.0.0.1", "b", 0, 100, nil)
	for _, line := range []string{"config keys", "config keys -o json", "config keys -o csv", "config keys -o jsonl", "schema list", "help mqadmin", "explain 907 -o json",
		"cluster list", "clusterList", "cluster list -o json", "broker list -o name", "broker config get --all", "getBrokerConfig -b 127.0.0.1:PORT", "stats offsets -o csv",
		"cluster list -o jsonl --watch=10ms", "clusterList -i 1 --output jsonl"} {
		line = strings.ReplaceAll(line, "127.0.0.1:PORT", f.brokers[0].addr)
		if word, _, _ := strings.Cut(line, " "); !slices.Contains([]string{"config", "schema", "help", "explain"}, word) {
			line += " --namesrv " + f.ns.addr
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		var errs bytes.Buffer
		code := Run(context.Background(), append([]string{"mqctl"}, strings.Fields(line)...), Stdio{In: strings.NewReader(""), Out: w, Err: &errs, Env: func(string) string { return "" }})
		_ = w.Close()
		if code != ExitOK || errs.Len() > 0 {
			t.Errorf("%s: exit %d, %q", line, code, errs.String())
		}
	}
}

// TestSecretsStayInside: a secret key appears nowhere, whatever is asked for.
func TestSecretsStayInside(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "sk")
	if err := os.WriteFile(key, []byte("S3CR3T-word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config.toml")
	text := "current = \"a\"\n[context.a]\nnamesrv = [\"127.0.0.1:1\"]\naccess_key = \"ops\"\nsecret_key = \"S3CR3T-word\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	envs := []map[string]string{
		{"MQCTL_ACCESS_KEY": "ops", "MQCTL_SECRET_KEY": "S3CR3T-word"},
		{"MQCTL_ACCESS_KEY": "ops", "MQCTL_SECRET_KEY_FILE": key},
		{"MQCTL_CONFIG": config},
	}
	for _, env := range envs {
		env["HOME"] = dir
		for _, line := range []string{
			"cluster list --trace", "cluster list -o json --log-level debug", "config show --origin", "config show -o json", "context list -o json", "context show -o wide",
			"context test", "group set g --slow-broker 1 --trace --dry-run", "topic create t -o json", "clusterList",
		} {
			args := strings.Fields(line)
			if env["MQCTL_CONFIG"] == "" && !strings.HasPrefix(line, "con") {
				args = append([]string{"-n", "127.0.0.1:1"}, args...)
			}
			if r := try(args, env, 20*time.Second); strings.Contains(r.out+r.errs, "S3CR3T") {
				t.Errorf("%s shows the secret:\n%s%s", line, r.out, r.errs)
			}
		}
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == key || path == config {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("S3CR3T")) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	// The report of an internal error has the command line, without what is secret.
	t.Setenv("TMPDIR", t.TempDir())
	var errs bytes.Buffer
	reportBug(Stdio{Err: &errs, Env: os.Getenv}, []string{"mqctl", "createUser", "-u", "ops", "-p", "S3CR3T-word"}, "broken", nil)
	reports, err := filepath.Glob(filepath.Join(os.TempDir(), "mqctl-bug-*"))
	if err != nil || len(reports) != 1 {
		t.Fatal(err, reports)
	}
	if b, err := os.ReadFile(reports[0]); err != nil || bytes.Contains(b, []byte("S3CR3T")) || !bytes.Contains(b, []byte("createUser -u ops -p ***")) {
		t.Errorf("%v: %s", err, b)
	}
	// No flag takes a secret as its value, apart from mqadmin's own.
	for _, c := range commands().commands {
		for i := range c.flags {
			f := &c.flags[i]
			name := strings.ToLower(f.key)
			if f.oldOnly || f.absent || !strings.Contains(name, "secret") && !strings.Contains(name, "password") {
				continue
			}
			if !strings.HasSuffix(name, "-file") && !strings.HasSuffix(name, "-env") {
				t.Errorf("%s takes a secret by --%s", c.name(false), f.key)
			}
		}
	}
}
