package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pane is a terminal in tmux with a system shell in it.
type pane struct {
	t      *testing.T
	dir    string
	socket string
}

// newPane starts a terminal. $PATH finds this test binary as mqctl; the home
// directory is empty.
func newPane(t *testing.T, width, height int, env ...string) *pane {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a terminal")
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed: what a terminal shows cannot be tested")
	}
	p := &pane{t: t, dir: t.TempDir()}
	p.socket = filepath.Join(p.dir, "tmux")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(p.dir, "mqctl")); err != nil {
		t.Fatal(err)
	}
	set := append([]string{
		"PATH=" + p.dir + ":" + os.Getenv("PATH"), "HOME=" + p.dir, "XDG_STATE_HOME=" + filepath.Join(p.dir, "state"),
		"LC_ALL=C.UTF-8", "PS1=sh:", "NAMESRV_ADDR=127.0.0.1:1", "ENV=", "TMPDIR=" + p.dir,
	}, env...)
	// Nothing else of the environment: CI=true, NO_COLOR or a MQCTL_ variable of
	// whoever runs the tests changes what is asked and shown.
	line := `env -i TERM="$TERM"`
	for _, s := range set {
		line += " '" + s + "'"
	}
	p.tmux("-f", "/dev/null", "new-session", "-d", "-s", "t", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "cd "+p.dir+" && exec "+line+" sh -i")
	t.Cleanup(func() { p.tmux("kill-server") })
	p.tmux("set-option", "-g", "history-limit", "20000")
	p.await("sh:")
	return p
}

// tmux runs one command of it and returns what it prints.
func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "tmux", append([]string{"-S", p.socket}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// keys presses keys: names as Enter, C-c, Home, or texts as they are.
func (p *pane) keys(keys ...string) {
	p.t.Helper()
	p.tmux(append([]string{"send-keys", "-t", "t"}, keys...)...)
}

// text types a text as it is.
func (p *pane) text(s string) {
	p.t.Helper()
	p.tmux("send-keys", "-t", "t", "-l", "--", s)
}

// line types a text and presses Enter.
func (p *pane) line(s string) {
	p.t.Helper()
	p.text(s)
	p.keys("Enter")
}

// paste puts a text into the terminal at once.
func (p *pane) paste(s string) {
	p.t.Helper()
	file := filepath.Join(p.dir, "paste")
	if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.tmux("load-buffer", file)
	p.tmux("paste-buffer", "-t", "t")
}

// screen is what the terminal shows, without blank lines at its end.
func (p *pane) screen() string {
	p.t.Helper()
	return strings.TrimRight(p.tmux("capture-pane", "-p", "-t", "t"), "\n")
}

// until waits for a condition on the screen.
func (p *pane) until(what string, done func(screen string) bool) string {
	p.t.Helper()
	end := time.Now().Add(60 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s := p.screen()
		if done(s) {
			return s
		}
		if time.Now().After(end) {
			p.t.Fatalf("the terminal never shows %s, but\n%s", what, s)
		}
		<-tick.C
	}
}

// await waits until the last line is text, blanks at its end aside.
func (p *pane) await(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%q as its last line", text), func(s string) bool {
		return strings.TrimRight(s[strings.LastIndexByte(s, '\n')+1:], " ") == text
	})
}

// shows waits until the screen contains a text.
func (p *pane) shows(text string) string {
	p.t.Helper()
	return p.until(fmt.Sprintf("%q", text), func(s string) bool { return strings.Contains(s, text) })
}

// cooked checks that the terminal is as a system shell wants it.
func (p *pane) cooked() {
	p.t.Helper()
	p.line("clear; stty -a")
	s := p.shows("-echoprt")
	for _, want := range []string{" icanon", " echo ", " isig", " icrnl", " opost"} {
		if !strings.Contains(strings.ReplaceAll(s, "\n", " "), want) {
			p.t.Errorf("the terminal is not %s:\n%s", want, s)
		}
	}
	p.line("clear")
	p.await("sh:")
}

// file reads a file that a program in the terminal has written.
func (p *pane) file(name string) string {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// terminate sends SIGTERM to a process of the terminal.
func (p *pane) terminate(pid string) {
	p.t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 1 {
		p.t.Fatalf("no pid: %q", pid)
	}
	if err := syscall.Kill(n, syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}
