package cli

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mqctl": program, "mqadmin": program, "mqbroker": program, "mqnamesrv": program})
}

// program is what cli/mqctl/main.go does, so that the scripts run this test binary.
func program() {
	os.Exit(Run(Signals(), os.Args, Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// TestScripts runs testdata/scripts/*.txtar: each is a session of mqctl against
// brokers that it starts itself on loopback.
//
// Besides testscript's own commands there are
//
//	mq CODE ARGS...   runs mqctl and checks its exit status
//	ports NAME        sets $NAME to a free port with two more below and one above it
//	valid FILE        checks JSON documents (or lines) against their schemas; stdout works
//	words FILE        checks that all lines have the same number of words
func TestScripts(t *testing.T) {
	t.Parallel()
	// Started by nohup, the scripts' brokers would ignore a hangup too. A signal that
	// is caught here has its default again in what is started from here.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	if testing.Short() {
		t.Skip("starts brokers")
	}
	schemas, err := filepath.Abs(filepath.Join("..", "testdata", "schemas"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(schemas); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("..", "testdata", "scripts"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("LC_ALL", "C.UTF-8")
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each command waits for a second at its end
			e.Defer(func() { stopAll(filepath.Join(e.WorkDir, "state", "mqctl", "run")) })
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"mq": scriptMq, "ports": scriptPorts, "valid": scriptValid, "words": scriptWords, "http": scriptHTTP,
		},
	})
}

// stopAll kills what a script left running.
func stopAll(dir string) {
	notes, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return
	}
	for _, path := range notes {
		var n struct {
			Pid      int
			StoreDir string
		}
		if readNote(path, &n) != nil || n.Pid <= 1 {
			continue
		}
		if lockHolder(lockPath(n.StoreDir)) == n.Pid || lockHolder(path+".lock") == n.Pid {
			_ = syscall.Kill(n.Pid, syscall.SIGKILL) // it may have gone by itself
			waitGone(n.Pid, 5*time.Second, func() bool { return false })
		}
	}
}

func scriptMq(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: mq CODE ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("mqctl", args[1:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("mqctl: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("mqctl %s: exit %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

func scriptPorts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: ports NAME...")
	}
	for _, name := range args {
		port, err := freePorts()
		ts.Check(err)
		ts.Setenv(name, strconv.Itoa(port))
	}
}

// nextPort goes through the ports that tests take. They lie below those that
// systems give to outgoing connections, of which one of anybody's could otherwise
// take the port before the broker does; and no port is given twice, as one that a
// test needs to be dead must not come alive in another.
var nextPort atomic.Int64

func init() { nextPort.Store(10240 + rand.Int64N(20000)) }

// freePorts finds a port that is free together with the two below and one above.
func freePorts() (int, error) {
next:
	for range 1000 {
		port := 10240 + int(nextPort.Add(4)%21600)
		for p := port - 2; p <= port+1; p++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			if err != nil {
				continue next
			}
			_ = l.Close()
		}
		return port, nil
	}
	return 0, errors.New("no free ports")
}

func scriptValid(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: valid FILE")
	}
	text := ts.ReadFile(args[0])
	docs := []string{text}
	if strings.HasPrefix(text, `{"schema"`) {
		docs = strings.Split(strings.TrimSpace(text), "\n")
	}
	for _, d := range docs {
		if err := validLine([]byte(d)); (err != nil) != neg {
			ts.Fatalf("%v\n%s", err, d)
		}
	}
}

func scriptWords(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: words FILE")
	}
	want := 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		n := len(strings.Fields(line))
		if want == 0 {
			want = n
		}
		if n != want {
			ts.Fatalf("%d words, the first line has %d: %s", n, want, line)
		}
	}
}

// scriptHTTP asks a health address: http STATUS URL.
func scriptHTTP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: http STATUS HOST:PORT/PATH")
	}
	host, path, _ := strings.Cut(args[1], "/")
	conn, err := net.DialTimeout("tcp", host, time.Second)
	ts.Check(err)
	defer conn.Close()
	ts.Check(conn.SetDeadline(time.Now().Add(5 * time.Second)))
	_, err = fmt.Fprintf(conn, "GET /%s HTTP/1.0\r\n\r\n", path)
	ts.Check(err)
	b := make([]byte, 64)
	n, err := conn.Read(b)
	ts.Check(err)
	if !strings.HasPrefix(string(b[:n]), "HTTP/1.0 "+args[0]) {
		ts.Fatalf("%s answers %q, want %s", args[1], b[:n], args[0])
	}
}
