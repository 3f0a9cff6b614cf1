package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"mqctl/broker"
)

// detach starts this very program again in a session of its own, with the same
// arguments but --detach, and waits for what it says through a pipe. The log
// goes to --log or to a file in the state folder.
func detach(ctx context.Context, c *call, cfg *broker.Config) (*result, error) {
	name := cfg.Value("log.file")
	if name == "" {
		name = filepath.Join(stateDir(c.io.Env), fmt.Sprintf("%s-%d.log", cfg.Value("brokerName"), cfg.ConfiguredID())) // the id of now changes with the roles
	}
	line, err := c.launch(ctx, name)
	if err != nil {
		return nil, err
	}
	var it readyItem
	if err := json.Unmarshal(line, &it); err != nil {
		return nil, fail(ExitFailed, "START_FAILED", "the started process said something else than that it is ready: %q", line)
	}
	if c.p.format == "json" || c.p.format == "jsonl" {
		return &result{raw: line}, nil
	}
	was := ""
	if id := cfg.ConfiguredID(); id != it.BrokerID {
		was = fmt.Sprintf(" (configured as %s/%d: its log keeps that name)", it.Broker, id)
	}
	fmt.Fprintf(c.io.Err, "broker %s/%d is ready at %s   pid %d   log %s%s\n", it.Broker, it.BrokerID, it.Addr, it.Pid, name, was)
	if len(it.Namesrv) > 0 {
		fmt.Fprintf(c.io.Err, "next   mqctl -n %s cluster list   or   mqctl broker stop %s/%d\n", it.Namesrv[0], it.Broker, it.BrokerID)
	}
	return &result{raw: []byte{}}, nil
}

// launch runs the program again, in a session of its own, and returns its ready
// line.
func (c *call) launch(ctx context.Context, logName string) ([]byte, error) {
	line, cmd, err := c.spawn(ctx, spawning{args: c.again(), logName: logName, attr: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return nil, err
	}
	return line, cmd.Process.Release()
}

// spawning is how this program is started again.
type spawning struct {
	args    []string
	env     []string // besides our own
	logName string   // takes its stdout and stderr
	attr    *syscall.SysProcAttr
}

// spawn starts this very program again and waits for its ready line. The
// program is the one that runs, whatever is found under its name elsewhere.
func (c *call) spawn(ctx context.Context, o spawning) ([]byte, *exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fail(ExitFailed, "START_FAILED", "cannot find this program: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(o.logName), 0o700); err != nil {
		return nil, nil, fail(ExitBadConfig, "BAD_CONFIG", "cannot make the folder of the log: %v", err)
	}
	logFile, err := os.OpenFile(o.logName, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o640)
	if err != nil {
		return nil, nil, fail(ExitBadConfig, "BAD_CONFIG", "cannot write the log: %v", err)
	}
	defer logFile.Close()
	begin, err := logFile.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, nil, fail(ExitBadConfig, "BAD_CONFIG", "cannot write the log: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fail(ExitFailed, "START_FAILED", "cannot make a pipe: %v", err)
	}
	defer r.Close()
	cmd := exec.Command(self)
	cmd.Args = append([]string{"mqctl"}, o.args...) // not the name of a link, which would be read into the line again
	cmd.Env = append(append(os.Environ(), readyEnv+"=3"), o.env...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = logFile, logFile, []*os.File{w}
	cmd.SysProcAttr = o.attr
	err = cmd.Start()
	_ = w.Close() // ours; the child has its own
	if err != nil {
		return nil, nil, fail(ExitFailed, "START_FAILED", "cannot start: %v", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // an interrupt ends the start
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(r, maxNote)).ReadBytes('\n')
	if err == nil {
		c.passWarnings(logFile, begin)
		return line, cmd, nil
	}
	return nil, nil, launchFailed(cmd.Wait(), logFile, begin, o.logName)
}

// again is the command line without --detach.
func (c *call) again() []string {
	var out []string
	out = append(out, strings.Fields(c.cmd.path)...)
	for _, f := range c.vocab.flags {
		for _, v := range c.values[f.key] {
			if f.key != "detach" && f.key != "output" {
				out = append(out, "--"+f.key+"="+v)
			}
		}
	}
	return out
}

// passWarnings shows what the started process warned of: its stderr is the log.
func (c *call) passWarnings(logFile *os.File, begin int64) {
	if c.p.format == "json" || c.p.format == "jsonl" {
		return
	}
	inside := false
	for _, l := range tail(logFile, begin, 100) {
		label := firstWord(l)
		inside = label == "warning" || inside && (label == "why" || label == "try")
		if inside {
			fmt.Fprintln(c.io.Err, oneLine(l))
		}
	}
}

// launchFailed passes the failure of the started process on: its exit code, its
// own message and the last lines of its log.
func launchFailed(err error, logFile *os.File, begin int64, name string) error {
	code := ExitFailed
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		code = exit.ExitCode()
	}
	said := tail(logFile, begin, 20)
	m := fail(code, "START_FAILED", "it did not start; the end of its log %s follows", name)
	if len(said) == 0 {
		return fail(code, "START_FAILED", "it did not start and said nothing in %s", name)
	}
	m.after = said
	return m
}

// tail is the last n lines that were written behind a position.
func tail(f *os.File, from int64, n int) []string {
	const most = 64 << 10
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	from = max(from, end-most)
	b := make([]byte, end-from)
	if _, err := f.ReadAt(b, from); err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	lines := strings.Split(string(bytes.TrimRight(b, "\n")), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines
}
