package compat

import (
	"bytes"
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

// fleet is a nameserver with brokers of names n0, n1 ..., each the first master of its name.
func fleet(b *testing.B, brokers int) (namesrv string) {
	port, err := freePorts(1)
	if err != nil {
		b.Fatal(err)
	}
	namesrv = fmt.Sprintf("127.0.0.1:%d", port)
	dir := b.TempDir()
	for i := range brokers {
		port, err := freePorts(4)
		if err != nil {
			b.Fatal(err)
		}
		args := []string{"broker", "start", "--name", fmt.Sprint("n", i), "--listen", fmt.Sprintf("127.0.0.1:%d", port+2),
			"--store", filepath.Join(dir, strconv.Itoa(i)), "-n", namesrv, "--http", "off"}
		if i == 0 {
			args = append(args, "--with-nameserver="+namesrv)
		} else {
			args = append(args, "--no-nameserver")
		}
		c, err := launch(filepath.Join(dir, strconv.Itoa(i)+".log"), args...)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.kill(syscall.SIGKILL) })
	}
	until(b, 30*time.Second, "registration of all brokers", func() bool {
		out, err := exec.Command(target.binary, "cluster", "list", "-n", namesrv, "-o", "json").Output()
		return err == nil && bytes.Count(out, []byte(`"n`)) >= brokers
	})
	return namesrv
}

// timeCommand runs a command b.N times: ms of one, from its start to its end as a shell
// sees it, and the most memory that one took.
func timeCommand(b *testing.B, cmd func() *exec.Cmd) {
	var most int64
	for b.Loop() {
		c := cmd()
		out, err := c.CombinedOutput()
		if err != nil {
			b.Fatalf("%v: %v\n%s", c.Args, err, out)
		}
		if u, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
			most = max(most, u.Maxrss)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N), "ms/run")
	b.ReportMetric(float64(most)/1024, "MiB")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkCommand is what an operator waits for: whole processes on loopback, with the
// original's mqadmin beside them where it is there. four is a cluster of four masters, and
// groups what it lists of a thousand.
func BenchmarkCommand(b *testing.B) {
	home := b.TempDir()
	run := func(args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			c := exec.Command(target.binary, args...)
			c.Env = append(os.Environ(), "HOME="+home, "MQCTL_AUDIT=off")
			return c
		}
	}
	for _, line := range []string{"--help", "version", "completion bash", "help mqadmin"} {
		b.Run("offline/"+strings.ReplaceAll(line, " ", "_"), func(b *testing.B) { timeCommand(b, run(strings.Fields(line)...)) })
	}
	one := fleet(b, 1)
	for _, line := range []string{"clusterList", "topicList", "brokerStatus -b n0", "stats offsets", "stats ha", "stats pull", "group list", "cluster health"} {
		b.Run("one/"+strings.ReplaceAll(line, " ", "_"), func(b *testing.B) {
			timeCommand(b, run(append(strings.Fields(line), "-n", one)...))
		})
	}
	for _, c := range mqadminCommands(b, one) {
		b.Run("one/mqadmin_"+c.name, func(b *testing.B) { timeCommand(b, c.cmd) })
	}
	four := fleet(b, 4)
	var groups strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&groups, "[groups.\"load-%04d\"]\nretryMaxTimes = 3\n", i)
	}
	file := filepath.Join(home, "groups.toml")
	if err := os.WriteFile(file, []byte(groups.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	if out, err := run("group", "apply", "-f", file, "-n", four, "-y")().CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{"clusterList", "topicList", "stats offsets", "stats ha", "group list", "cluster health", "top --once"} {
		b.Run("four/"+strings.ReplaceAll(line, " ", "_"), func(b *testing.B) {
			timeCommand(b, run(append(strings.Fields(line), "-n", four)...))
		})
	}
}

// namedCommand is a command of another tool.
type namedCommand struct {
	name string
	cmd  func() *exec.Cmd
}
