package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// errorWorld is where the errors of the contract are provoked: nameservers and
// brokers in processes of their own.
type errorWorld struct {
	t          *testing.T
	dir        string
	two        string // a nameserver with the clusters DefaultCluster (broker-a, broker-a/1) and Archive (broker-c)
	half       string // with broker-a and with broker-b, which nobody can reach
	empty      string // without brokers
	port, free int    // of broker-a; of nobody
}

// start runs a server of mqctl in the background.
func (w *errorWorld) start(args ...string) {
	w.t.Helper()
	if code, _, errs := w.mqctl(nil, append(args, "--detach")...); code != ExitOK {
		w.t.Fatalf("%v: exit %d\n%s", args, code, errs)
	}
}

func (w *errorWorld) freePort() int {
	w.t.Helper()
	p, err := freePorts()
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *errorWorld) nameserver() string {
	w.t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", w.freePort())
	w.start("nameserver", "start", "--listen", addr)
	return addr
}

func (w *errorWorld) broker(ns, store string, args ...string) int {
	w.t.Helper()
	port := w.freePort()
	w.start(append([]string{"broker", "start", "-n", ns, "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--store", filepath.Join(w.dir, store), "--http", "off"}, args...)...)
	return port
}

// mqctl runs one command line as a process in a pipe.
func (w *errorWorld) mqctl(env []string, args ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(w.dir, "mqctl"), args...)
	cmd.Dir = w.dir
	cmd.Env = append([]string{"HOME=" + w.dir, "XDG_STATE_HOME=" + filepath.Join(w.dir, "state"), "LC_ALL=C.UTF-8", "GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH")}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, 10*time.Second
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("%v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// newWorld is a folder for brokers in processes of their own, which end with the test.
func newWorld(t *testing.T) *errorWorld {
	t.Helper()
	if testing.Short() || raceDetector {
		t.Skip("starts brokers, one command after another: without the race detector, and not with -short")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &errorWorld{t: t, dir: t.TempDir()}
	if err := os.Symlink(self, filepath.Join(w.dir, "mqctl")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopAll(filepath.Join(w.dir, "state", "mqctl", "run")) })
	return w
}

func newErrorWorld(t *testing.T) *errorWorld {
	t.Helper()
	w := newWorld(t)
	w.two, w.half, w.empty, w.free = w.nameserver(), w.nameserver(), w.nameserver(), w.freePort()
	w.port = w.broker(w.two, "a", "--name", "broker-a")
	w.broker(w.two, "s", "--name", "broker-a", "--role", "slave", "--id", "1")
	w.broker(w.two, "c", "--name", "broker-c", "--cluster", "Archive")
	w.broker(w.half, "a2", "--name", "broker-a")
	w.broker(w.half, "b2", "--name", "broker-b", "--advertise", "127.0.0.2") // where nobody listens
	for _, line := range []string{"topic create orders --write-queues 4 --read-queues 4", "group create order_consumer", "group create orders"} {
		if code, _, errs := w.mqctl(nil, append(strings.Fields(line), "-n", w.two, "--cluster", "DefaultCluster")...); code != ExitOK {
			t.Fatalf("%s: %s", line, errs)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "broker.conf"), []byte("brokerName=x\nbrokerClusterName=C\nbrokerRole=SLAVE\nbrokerId=0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// contractErrors are the 15 errors that the contract names, each with a line that
// provokes it and what it says. In the texts, NS is the nameserver with two
// clusters, HALF that with a dead broker, EMPTY that without any, PORT the port of
// broker-a, FREE one of nobody and DIR the folder. An error begins with "error",
// a warning with "warning"; "why" and "try" lines follow.
var contractErrors = []struct {
	line string
	exit int
	says []string // regular expressions, each for one whole line, in order
	code string
}{
	{"clusterList", ExitUnreachable, []string{
		`error   no nameserver reachable: 127\.0\.0\.1:9876 connection refused  \[NAMESRV_UNREACHABLE\]`,
		`why     no -n, NAMESRV_ADDR or context was given, so the default address was tried`,
		`try     mqctl -n HOST:9876 clusterList   or   mqctl context add prod --namesrv HOST:9876`,
	}, ""},
	{"cluster list -n http://10.0.0.4:9876", ExitUsage, []string{
		`error   "http://10\.0\.0\.4:9876" is not a nameserver address  \[BAD_ADDRESS\]`,
		`why     host:port is expected, without a scheme`,
		`try     -n 10\.0\.0\.4:9876`,
	}, ""},
	{"updateSubGroup -n NS -g orders -w 1", ExitUsage, []string{
		`error   updateSubGroup needs a target  \[TARGET_MISSING\]`,
		`why     2 clusters are registered: Archive, DefaultCluster; nothing was changed`,
		`try     .*mqctl updateSubGroup -c DefaultCluster -g orders -w 1 -n NS`,
	}, "TARGET_MISSING"},
	{"cluster list -n EMPTY", ExitNotFound, []string{
		`error   nameserver EMPTY knows no broker  \[CLUSTER_EMPTY\]`,
		`why     it has been up for \d+ (ms|s|min); brokers register when they start and every 30 s`,
		`try     mqctl wait broker NAME --ready   or   check namesrvAddr of the broker`,
	}, "CLUSTER_EMPTY"},
	{"group get order_consumr -n NS --cluster DefaultCluster", ExitNotFound, []string{
		`error   group "order_consumr" exists on no broker of DefaultCluster  \[GROUP_NOT_FOUND\]`,
		`try     order_consumer   or   mqctl group list --filter 'group~order'`,
	}, "GROUP_NOT_FOUND"},
	{"updateSubGroup -n NS -g orders -c C -s yess", ExitUsage, []string{
		`error   -s/--consumeEnable: "yess" is not a boolean  \[BAD_VALUE\]`,
		`why     true, false, yes, no, on, off, 1 or 0; mqadmin would have read this as false and stopped consumption`,
		`try     -s true`,
	}, ""},
	{"group set orders --slow-broker 3 -n NS --cluster DefaultCluster", ExitOK, []string{
		`warning broker-a has no broker id 3 \(registered: 0 master, 1 slave\)  \[BROKER_ID_MISSING\]`,
		`why     .*clients that are sent there fall back to the master`,
		`try     --slow-broker 1   or   --strict makes this an error`,
	}, ""},
	{"group set orders --slow-broker 4 -n NS --cluster DefaultCluster --strict", ExitUsage, []string{
		`error   broker-a has no broker id 4 \(registered: 0 master, 1 slave\); nothing was sent  \[BROKER_ID_MISSING\]`,
		`why     .*clients that are sent there fall back to the master`,
		`try     --slow-broker 1`,
	}, ""},
	{"broker config set flushDiskTyp=SYNC_FLUSH -n NS --cluster DefaultCluster", ExitUsage, []string{
		`error   unknown key "flushDiskTyp"; nothing was sent  \[UNKNOWN_KEY\]`,
		`try     flushDiskType   or   mqctl broker config explain flushDiskType.*`,
	}, ""},
	{"broker start --store DIR/a --listen 127.0.0.1:FREE --http off --no-nameserver", ExitStoreInUse, []string{
		`error   store DIR/a is in use by pid [0-9]+ \(mqctl broker broker-a/0, up .*\)  \[STORE_IN_USE\]`,
		`try     mqctl broker status broker-a/0   or   mqctl broker stop --store DIR/a`,
	}, ""},
	{"broker start --store DIR/new --listen 127.0.0.1:PORT --http off --no-nameserver", ExitPortInUse, []string{
		`error   cannot listen on 127\.0\.0\.1:PORT: address in use  \[PORT_IN_USE\]`,
		`why     pid [0-9]+ \(.*\) holds it; a broker needs ports PORT, [0-9]+ and, for its slaves, [0-9]+`,
		`try     --listen 127\.0\.0\.1:[0-9]+   or   stop the other process`,
	}, ""},
	{"broker start -c broker.conf --store DIR/new --listen 127.0.0.1:FREE --http off -n NS", ExitBadConfig, []string{
		`error   broker\.conf:4: brokerId: 0 is the id of a master, but brokerRole is SLAVE  \[BAD_CONFIG\]`,
		`try     brokerId=1, or --id 1.*`,
	}, ""},
	{"broker start --name broker-a --store DIR/new --listen 127.0.0.1:FREE --http off -n NS", ExitIdentityConflict, []string{
		`error   broker-a/0 is already registered from 127\.0\.0\.1:PORT  \[IDENTITY_CONFLICT\]`,
		`why     two masters of one name split the queues; this process did not register`,
		`try     --role slave --id 1   or   another --name`,
	}, ""},
	{"topic delete orders -n NS --cluster DefaultCluster", ExitAborted, []string{
		`error   deleting topic "orders" needs confirmation and stdin is not a terminal  \[CONFIRMATION_NEEDED\]`,
		`why     0 messages in 4 queues on 1 broker, 0 msg/s now, read by no group; nothing was changed`,
		`try     add --yes   or   look first: mqctl topic delete orders --dry-run`,
	}, "CONFIRMATION_NEEDED"},
	{"group set g --retry-max 32 --cluster DefaultCluster -n HALF", ExitPartial, []string{
		`error   1 of 2 targets not changed: broker-b/0 127\.0\.0\.2:[0-9]+ connection refused  \[PARTIAL\]`,
		`why     broker-a/0 was changed and read back before`,
		`try     the same command again when broker-b/0 can be reached: it is safe to repeat   or   mqctl undo [0-9a-f]+`,
	}, "PARTIAL"},
}

// TestErrorsOfTheContract provokes each of them.
func TestErrorsOfTheContract(t *testing.T) {
	t.Parallel()
	w := newErrorWorld(t)
	places := strings.NewReplacer("NS", w.two, "HALF", w.half, "EMPTY", w.empty, "PORT", fmt.Sprint(w.port), "FREE", fmt.Sprint(w.free), "DIR", w.dir)
	codes := strings.NewReplacer(" NS", " "+w.two, "EMPTY knows", w.empty+" knows", "DIR/", w.dir+"/", ":PORT", fmt.Sprintf(":%d", w.port), " PORT,", fmt.Sprintf(" %d,", w.port))
	for _, c := range contractErrors {
		args := strings.Fields(places.Replace(c.line))
		if c.line == "clusterList" {
			if conn, err := net.Dial("tcp", "127.0.0.1:9876"); err == nil {
				_ = conn.Close()
				t.Log("somebody has the nameserver's default port: that error cannot be provoked now")
				continue
			}
		}
		code, _, errs := w.mqctl(nil, args...)
		if code != c.exit {
			t.Errorf("%s: exit %d, want %d\n%s", c.line, code, c.exit, errs)
		}
		inOrder(t, c.line, errs, c.says, codes)
		if c.code == "" {
			continue
		}
		code, out, _ := w.mqctl(nil, append(args, "-o", "json")...)
		var doc struct{ Errors []Message }
		if c.exit == ExitUsage && out == "" {
			continue // the flags themselves are wrong: nothing on stdout
		}
		if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Errors) == 0 || doc.Errors[0].Code != c.code || doc.Errors[0].ExitCode != code {
			t.Errorf("%s -o json: exit %d, %v\n%s", c.line, code, err, out)
		}
	}
}

// inOrder checks that lines of a text match, one after another.
func inOrder(t *testing.T, what, text string, says []string, places *strings.Replacer) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	at := -1
	for i, s := range says {
		re := regexp.MustCompile("^" + places.Replace(s) + "$")
		if i == 0 {
			for at++; at < len(lines) && !re.MatchString(lines[at]); at++ {
			}
		} else {
			at++
		}
		if at >= len(lines) || !re.MatchString(lines[at]) {
			t.Errorf("%s: no line %q at its place in\n%s", what, s, text)
			return
		}
	}
}

// TestGapNotClosed is the last error of the contract: a slave that is held back.
func TestGapNotClosed(t *testing.T) {
	t.Parallel()
	b := newCookbook(t)
	b.bash(`mqctl dev --lag 1MiB --no-shell -o json > dev.json 2> dev.err &
trap 'kill %1; wait' EXIT
for i in $(seq 300); do test -s dev.json && break; /bin/sleep 0.1; done
unset MQCTL_CONTEXT
export MQCTL_NAMESRV=$(jq -r .namesrv dev.json)
mqctl topic create orders
mqctl bench send --topic orders --count 4000 --size 1KiB --warmup 0s --no-progress
rc=0; mqctl ha promote broker-a --id 1 --planned --wait=2s 2> errors || rc=$?
test $rc = 5
mqctl message send orders --body after`, ExitOK)
	text, err := os.ReadFile(filepath.Join(b.dir, "errors"))
	if err != nil {
		t.Fatal(err)
	}
	inOrder(t, "ha promote", string(text), []string{
		`error   broker-a/1 is still [0-9.]+ [KM]iB behind after 2s; promotion cancelled, broker-a/0 is master and writable again  \[GAP_NOT_CLOSED\]`,
		`why     (shrinking by .*/s, about .* more|it is not shrinking: .*)`,
		`try     --wait=10m   or   mqctl stats ha --broker broker-a --watch`,
	}, strings.NewReplacer())
}
