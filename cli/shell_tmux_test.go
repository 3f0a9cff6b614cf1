package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShellPaste: 500 pasted lines are 500 commands, and with set -e they stop
// at the first failure.
func TestShellPaste(t *testing.T) {
	p := newPane(t, 100, 50)
	p.line("mqctl")
	p.await("mqctl>")
	count := filepath.Join(p.dir, "count")
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "!echo 行%03d >> %s\n", i, count)
	}
	p.paste(b.String() + "version -o name\n")
	p.shows("\n" + versionOf().Version + "\n")
	p.await("mqctl>")
	data, err := os.ReadFile(count)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 500 {
		t.Fatalf("%d commands of 500", len(lines))
	}
	for i, l := range lines {
		if l != fmt.Sprintf("行%03d", i) {
			t.Fatalf("command %d wrote %q", i, l)
		}
	}
	p.line("clear")
	p.paste("\t!echo\tone\ttwo; !echo\tthree\n")
	p.shows("\none two\nthree\n")
	after := filepath.Join(p.dir, "after")
	p.line("set -e; clear")
	p.await("mqctl>")
	p.paste("version\nnonsense\n" + strings.Repeat("!touch "+after+"\n", 200))
	p.shows("200 lines that were typed or pasted behind this one are not run: set -e")
	p.await("mqctl [2]>")
	if _, err := os.Stat(after); err == nil {
		t.Error("a line behind the failed one was run")
	}
	p.keys("C-d")
	p.await("sh:")
}

// TestShellEdit: a name in Chinese is edited, wrapped and deleted at every width.
func TestShellEdit(t *testing.T) {
	for _, width := range []int{40, 80, 200} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			p := newPane(t, width, 24)
			p.line("mqctl")
			p.await("mqctl>")
			name := strings.Repeat("订单消费组", 9)
			want := "\"" + "订X" + strings.Repeat("订单消费组", 9)[len("订单"):] + "尾" + "\""
			flat := func(s string) string { return strings.ReplaceAll(s, "\n", "") }
			p.text("version " + name + " end")
			p.shows("end")
			p.keys("Home")
			for range 9 {
				p.keys("Right") // behind "version 订"
			}
			p.text("X")
			p.keys("Delete", "End", "BSpace", "BSpace", "BSpace")
			p.text("尾")
			p.keys("Left", "BSpace")
			edited := "mqctl> version " + strings.Trim(want, "\"")
			p.until("the line once, and nothing stale", func(s string) bool {
				return strings.HasSuffix(flat(strings.ReplaceAll(s, " \n", "\n")), edited) && strings.Count(s, "mqctl>") == 1
			})
			p.keys("Enter")
			p.until(want, func(s string) bool { return strings.Contains(flat(s), want) })
			p.await("mqctl [2]>")
			p.keys("Up")
			p.keys("C-u")
			p.await("mqctl [2]>")
			p.keys("C-d")
			p.await("sh:")
			p.cooked()
		})
	}
}

// TestShellInterrupt: Ctrl-C ends the line or the command, never the shell; a
// signal ends the shell and leaves the terminal as it was.
func TestShellInterrupt(t *testing.T) {
	p := newPane(t, 100, 50)
	p.line("mqctl")
	p.await("mqctl>")
	p.text("half a line")
	p.keys("C-c")
	p.await("mqctl>")
	p.line("version '")
	p.await("…>")
	p.keys("C-c")
	p.await("mqctl>")
	p.line("!sleep 1000")
	p.shows("sleep 1000")
	p.keys("C-c")
	p.await("mqctl [130]>")
	p.line("clear")
	p.await("mqctl>")
	p.line("repeat 1000000 version -o name")
	p.shows("\n" + versionOf().Version + "\n")
	p.keys("C-c")
	p.until("a prompt", func(s string) bool { return strings.HasSuffix(strings.TrimRight(s, " \n"), ">") })
	p.line("clear")
	p.await("mqctl>")
	after := filepath.Join(p.dir, "after")
	for _, l := range []string{"!sleep 1000", "version; !touch " + after, "repeat 1000000 version -o name", "version {\r}", "!sleep 1000\r!touch " + after + "\r!touch " + after} {
		p.paste(l + "\r\x03") // Enter and Ctrl-C in one piece
		p.line("clear; version -o name")
		p.until("the version at its top", func(s string) bool { return strings.HasPrefix(s, versionOf().Version+"\n") })
		if _, err := os.Stat(after); err == nil {
			t.Errorf("%q: something ran behind Ctrl-C", l)
		}
		p.line("clear")
		p.await("mqctl>")
	}
	p.paste("!sleep 1000 && touch " + after + "\r!touch " + after + "\r")
	p.shows("touch " + after)
	p.keys("C-c")
	p.shows("1 line that was typed or pasted behind this one is not run: Ctrl-C")
	if _, err := os.Stat(after); err == nil {
		t.Error("something ran behind Ctrl-C")
	}
	p.line("clear")
	p.await("mqctl>")
	p.line("watch 1s version -o name")
	p.shows("every 1s: version -o name")
	p.keys("C-c")
	p.await("mqctl>")
	p.line("exit 9")
	p.await("sh:")
	p.line("echo status $?")
	p.shows("status 9")
	p.cooked()

	p.line("mqctl shell & echo $! > pid; fg")
	p.await("mqctl>")
	p.text("something")
	p.shows("mqctl> something")
	pid := strings.TrimSpace(p.file("pid"))
	p.terminate(pid)
	p.await("sh:")
	p.line("echo status $?")
	p.shows("status 143")
	p.cooked()
}

// TestShellDumb: a terminal without escape sequences gets none.
func TestShellDumb(t *testing.T) {
	p := newPane(t, 40, 24, "TERM=dumb")
	p.line("mqctl 2>&1 | cat; script -q -c mqctl out.txt")
	p.await("mqctl>")
	p.line("version -o name")
	p.shows("\n" + versionOf().Version + "\n")
	p.await("mqctl>")
	p.line("nonsense")
	p.await("mqctl [2]>")
	p.line("exit")
	p.await("sh:")
	if out := p.file("out.txt"); strings.ContainsRune(out, '\x1b') || !strings.Contains(out, "mqctl [2]>") {
		t.Errorf("a dumb terminal gets %q", out)
	}
}

// TestShellFocus: use chooses a broker for later commands; the role is in the
// prompt; a throw-away cluster opens the shell and stops with it.
func TestShellFocus(t *testing.T) {
	p := newPane(t, 160, 50)
	p.line("mqctl dev")
	p.await("mqctl>")
	p.line("use broker broker-a/1")
	p.until("the role", func(s string) bool {
		if strings.Contains(s, "mqctl(broker-a/1 slave)>") {
			return true
		}
		if strings.Contains(s, "no nameserver") {
			t.Fatalf("another broker of the same cluster, and no nameserver is left:\n%s", s)
		}
		p.keys("Enter")
		return false
	})
	p.line("clear")
	p.line("broker config get slaveReadEnable -o csv --fields broker,brokerId --no-headers")
	if s := p.shows(",1\n"); strings.Contains(s, ",0\n") {
		t.Errorf("the focus is not kept:\n%s", s)
	}
	p.text("broker stat")
	p.keys("Tab")
	p.shows("broker status")
	p.keys("C-u", "C-d")
	p.await("sh:")
}

// TestNoQuestion: the program does not ask the terminal for its colours when it
// starts, as the library of the live view would.
func TestNoQuestion(t *testing.T) {
	p := newPane(t, 80, 24)
	p.line("TERM=xterm-256color script -q -c 'mqctl version' out.txt; echo done")
	p.shows("\ndone")
	if out := p.file("out.txt"); strings.ContainsRune(out, '\x1b') {
		t.Errorf("the terminal is asked: %q", out)
	}
}
