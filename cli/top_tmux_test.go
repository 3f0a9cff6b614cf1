package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTopTerminal: started from the shell, the live view gets every key and
// survives a resize and a lost broker; afterwards the prompt is intact.
func TestTopTerminal(t *testing.T) {
	p := newPane(t, 100, 30)
	addr := p.cluster()
	p.line("mqctl shell -n " + addr)
	p.until("the prompt and its status", func(s string) bool {
		return strings.Contains(s, "dev · broker-a/0 master · gap ") && strings.HasSuffix(strings.TrimRight(s, " "), "mqctl>")
	})
	p.line("top")
	p.shows("[1 brokers]")
	p.shows("in sync")
	for _, x := range [][2]string{{"2", "[2 groups]"}, {"3", "[3 topics]"}, {"4", "[4 ha]"}, {"5", "[5 pull]"}, {"6", "[6 clients]"}, {"7", "[7 events]"}, {"1", "[1 brokers]"}} {
		p.keys(x[0])
		p.shows(x[1])
	}
	p.keys("7")
	p.shows("id 1")
	p.keys("1")
	p.shows("[1 brokers]")
	p.keys("Enter")
	p.shows("bootTimestamp")
	p.keys("Escape")
	p.shows("READS BY")
	p.text("/slave")
	p.keys("Enter")
	p.until("only the slave", func(s string) bool { return !strings.Contains(s, "broker-a/0  master") })
	p.keys("Escape")
	p.tmux("resize-window", "-t", "t", "-x", "60", "-y", "20")
	p.until("a narrow screen", func(s string) bool {
		return strings.Contains(s, "broker-a/0") && !strings.Contains(s, "SENDQ") && strings.Contains(s, "STATE")
	})
	p.terminate(p.slave())
	p.until("the lost broker", func(s string) bool { return strings.Contains(s, "1 broker down") })
	p.keys("7")
	p.shows("KIND") // a head of the events alone
	p.shows("not registered")
	p.text("11117q") // at once, as on a slow link
	p.await("mqctl>")
	p.line("version -o name")
	p.shows("\n" + versionOf().Version)
	p.await("mqctl>")
	p.keys("C-d")
	p.await("sh:")
	p.cooked()
}

// cluster starts a throw-away cluster and returns its nameserver.
func (p *pane) cluster() string {
	p.t.Helper()
	ready := filepath.Join(p.dir, "ready")
	cmd := exec.Command(filepath.Join(p.dir, "mqctl"), "dev", "--no-shell", "-o", "json")
	out, err := os.Create(ready)
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = out
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(p.dir, "state"), "TMPDIR="+p.dir, "HOME="+p.dir)
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // its status says how it was ended
	})
	end := time.Now().Add(60 * time.Second)
	for time.Now().Before(end) {
		if _, rest, ok := strings.Cut(p.file("ready"), `"namesrv":"`); ok && strings.HasSuffix(rest, "\n") {
			return rest[:strings.IndexByte(rest, '"')]
		}
		<-time.After(20 * time.Millisecond)
	}
	p.t.Fatal("the cluster does not start")
	return ""
}

// slave is the pid of the cluster's slave.
func (p *pane) slave() string {
	p.t.Helper()
	_, rest, _ := strings.Cut(p.file("ready"), `"role":"SLAVE"`)
	_, rest, _ = strings.Cut(rest, `"pid":`)
	return rest[:strings.IndexByte(rest, '}')]
}
