package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// TestOutputFlags runs the flags that arrange items over one cluster.
func TestOutputFlags(t *testing.T) {
	f := newFakeCluster(t)
	f.add("127.0.0.1", "b", 0, 100, nil)
	f.add("127.0.0.1", "b", 1, 60, nil)
	_, stop := f.add("127.0.0.1", "a", 0, 5, nil)
	cases := []struct {
		line, out string
		code      int
	}{
		{"cluster list -o name", "a/0\nb/0\nb/1\n", 0},
		{"cluster list -o name --reverse", "b/1\nb/0\na/0\n", 0},
		{"cluster list -o name --sort brokerId", "a/0\nb/0\nb/1\n", 0},
		{"cluster list -o name --sort brokerId --reverse --limit 1", "b/1\n", 0},
		{"cluster list -o name --filter role==SLAVE", "b/1\n", 0},
		{"cluster list -o name --filter broker~^b$&&brokerId<1", "b/0\n", 0},
		{"cluster list -o csv --fields broker,brokerId --filter broker=b", "broker,brokerId\nb,0\nb,1\n", 0},
		{"cluster list -o csv --no-headers --fields brokerId,broker --limit 1", "0,a\n", 0},
		{"clusterList -o name --filter brokerId=1", "", ExitUsage},
		{"clusterList --output name --filter brokerId=1", "b/1\n", 0},
		{"cluster list --filter nope=1", "", ExitUsage},
		{"cluster list --sort nope", "", ExitUsage},
		{"cluster list --fields nope", "", ExitUsage},
		{"cluster list --limit 0", "", ExitUsage},
		{"cluster list --watch -o json", "", ExitUsage},
		{"cluster list --watch -o name", "", ExitUsage},
	}
	for _, c := range cases {
		code, out, errs := runLine(append([]string{"mqctl", "-n", f.ns.addr}, strings.Fields(c.line)...)...)
		if code != c.code || out != c.out || code == 0 && errs != "" {
			t.Errorf("%s: exit %d, %q, %q", c.line, code, out, errs)
		}
	}
	stop()
	if code, _, _ := runLine("mqctl", "-n", f.ns.addr, "cluster", "list"); code != ExitPartial {
		t.Errorf("one broker is gone: exit %d", code)
	}
	code, out, errs := runLine("mqctl", "-n", f.ns.addr, "cluster", "list", "--allow-partial", "-o", "name")
	if code != ExitOK || out != "a/0\nb/0\nb/1\n" || !strings.Contains(errs, "connection refused") {
		t.Errorf("--allow-partial: exit %d, %q, %q", code, out, errs)
	}
}

// linesThenEnd ends its context after so many lines were written to it.
type linesThenEnd struct {
	bytes.Buffer
	lines  int
	cancel context.CancelCauseFunc
}

func (w *linesThenEnd) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if bytes.Count(w.Bytes(), []byte("\n")) >= w.lines {
		w.cancel(&Interrupted{Code: ExitInterrupted})
	}
	return n, err
}

// TestWatchOfAnyRead: any read repeats itself until the user interrupts, which is a
// normal end; rows in a pipe have a time.
func TestWatchOfAnyRead(t *testing.T) {
	f := newFakeCluster(t)
	f.add("127.0.0.1", "b", 0, 100, nil)
	for _, line := range []string{"cluster list -o jsonl --watch=100ms", "broker list -o csv --watch=100ms", "clusterList -i 1 --output jsonl", "stats offsets --watch=100ms -o jsonl"} {
		ctx, cancel := context.WithCancelCause(context.Background())
		timer := time.AfterFunc(20*time.Second, func() { cancel(context.DeadlineExceeded) })
		out := &linesThenEnd{lines: 3, cancel: cancel}
		var errs bytes.Buffer
		code := Run(ctx, append([]string{"mqctl", "-n", f.ns.addr}, strings.Fields(line)...),
			Stdio{In: strings.NewReader(""), Out: out, Err: &errs, Env: func(string) string { return "" }})
		timer.Stop()
		if code != ExitOK || errs.Len() > 0 || strings.Count(out.String(), "\n") < 3 {
			t.Errorf("%s: exit %d, %q, %q", line, code, out.String(), errs.String())
		}
	}
}
