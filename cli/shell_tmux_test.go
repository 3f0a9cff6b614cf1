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
	after := filepath.Join(p.dir, "after")
	p.line("set -e; clear")
	p.await("mqctl>")
	p.paste("version\nnonsense\n" + strings.Repeat("!touch "+after+"\n", 200))
	p.shows("lines that were pasted behind the failed one were not run")
	p.await("mqctl [2]>")
	if _, err := os.Stat(after); err == nil {
		t.Error("a line behind the failed one was run")
	}
	p.keys("C-d")
	p.await("sh:")
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
