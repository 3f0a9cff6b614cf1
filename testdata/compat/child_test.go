package compat

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// child is a process of ours that said that it is ready.
type child struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// launch starts mqctl and returns when it has said that it is ready.
func launch(logFile string, args ...string) (*child, error) {
	cmd := exec.Command(target.binary, append(args, "--output", "json")...)
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd, make(chan struct{})}
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	var ready struct{ Schema string }
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	failed := err != nil || !strings.HasSuffix(ready.Schema, ".ready/v1")
	if failed { // it says why, and ends
		rest, _ := io.ReadAll(io.LimitReader(lines, 4000))
		line = append(line, rest...)
	}
	go func() { io.Copy(io.Discard, lines); cmd.Wait(); close(c.exited) }()
	if failed {
		c.kill(syscall.SIGKILL)
		text, _ := os.ReadFile(logFile)
		return nil, fmt.Errorf("mqctl %v: no ready line (%q, %v); its log:\n%s", args, line, err, tail(text, 4000))
	}
	return c, nil
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

func (c *child) kill(sig syscall.Signal) {
	c.cmd.Process.Signal(sig)
	if sig == syscall.SIGSTOP || sig == syscall.SIGCONT {
		return
	}
	<-c.exited
}
