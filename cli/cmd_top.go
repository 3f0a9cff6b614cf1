package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"mqctl/cli/top"
)

func topCommands() []*command {
	return []*command{{
		path: "top", summary: "live view of brokers, groups, topics and replication", run: runTop, schema: "mqctl.top/v1", attrs: watches,
		exits: []int{ExitNotFound, ExitConditionFalse},
		examples: []string{
			"mqctl top", "mqctl top --panel ha", "mqctl top --once --fail-if 'gapBytes>64MiB'", "mqctl top --watch=5s -o jsonl",
		},
		flags: []flagSpec{
			{key: "panel", kind: kindEnum, enum: top.Panels, help: "the panel to begin with (default: brokers, or what the client file says)"},
			{key: "refresh", kind: kindDuration, meta: "DUR", help: "time between two rounds of requests (default: 1s, or what the client file says)"},
			{key: "once", kind: kindBool, help: "print one frame and end, as in a pipe"},
			{key: "read-only", kind: kindBool, negative: true, help: "no keys that change anything; the default on protected contexts"},
			{key: "fail-if", meta: "EXPR", help: "with --once: exit 7 when it is true of a broker, a slave, a group, a topic or a pull"},
		},
		view: view{
			item: top.Frame{}, columns: []column{{head: "AT", field: "at"}, {head: "LAG", field: "lag", as: asNumber}, {head: "GAP", field: "worstGapBytes", as: asBytes}, {head: "DOWN", field: "brokersDown", as: asNumber}},
			name: func(item any) string {
				if f := item.(*top.Frame); f.Cluster != nil {
					return *f.Cluster
				}
				return ""
			},
		},
	}}
}

// topSettings are the flags over the section [top] of the client file.
func (c *call) topSettings() (panel string, every time.Duration, err error) {
	file := c.clientSettings().Top
	panel, every = c.str("panel"), c.duration("refresh")
	if panel == "" {
		panel = firstOf(file.Panel, "brokers")
	}
	if every == 0 && file.Refresh != "" {
		every, err = parseDuration(file.Refresh)
		if err != nil {
			return "", 0, fail(ExitBadConfig, "BAD_CONFIG", "top.refresh: %v", err)
		}
	}
	if every == 0 {
		every = time.Second
	}
	return panel, max(every, shortestWatch), nil
}

func runTop(ctx context.Context, c *call) (*result, error) {
	panel, every, err := c.topSettings()
	if err != nil {
		return nil, err
	}
	failIf, err := c.failIf()
	if err != nil {
		return nil, err
	}
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	// The answers of brokers with thousands of queues are garbage once they are read.
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	collector := &top.Collector{Client: a, Selector: c.selector(false), Context: c.active.Name, Patience: c.duration("timeout"), Hidden: systemGroup, Version: versionText}
	o := top.Options{
		Panel: panel, Every: every, UTF8: c.p.style.utf8, ReadOnly: c.active.Protected, Accent: c.active.Accent,
		Collect: collector.Refresh,
	}
	if c.given("read-only") {
		o.ReadOnly = c.on("read-only")
	}
	o.Colour = c.p.style.colours(c.str("color"), c.io.Env)
	live := onTerminal(c.io) && !c.on("once") && !c.given("watch") && c.p.format == "table" && c.io.Env("TERM") != "dumb"
	if live && c.given("fail-if") {
		return nil, usage("CONTRADICTION", "--fail-if is for --once").try("mqctl top --once --fail-if '" + c.str("fail-if") + "'")
	}
	if live {
		collector.Patience = min(every, 500*time.Millisecond)
		return c.topLive(ctx, o)
	}
	return c.watch(ctx, func(ctx context.Context) (*result, error) {
		f := collector.Refresh(ctx)
		if err := collector.Err(); err != nil {
			return nil, err
		}
		r := &result{items: []any{f}, done: 1}
		if f.Cluster != nil {
			r.cluster = *f.Cluster
		}
		width := c.p.style.width
		if width == 0 {
			width = 200
		}
		r.text = strings.Split(strings.TrimRight(top.Text(f, o, width), "\n"), "\n")
		for i := range f.Brokers {
			if b := &f.Brokers[i]; b.MaxOffset == nil {
				r.warnings = append(r.warnings, warning("BROKER_UNREACHABLE", b.Name(), "%s %s: %s", b.Name(), b.Addr, b.State))
			}
		}
		if failIf != nil && failIf(f) {
			r.final = ptr(ExitConditionFalse)
		}
		return r, nil
	}, nil)
}

// failIf reads --fail-if: it is about any kind of row that has its fields.
func (c *call) failIf() (func(f *top.Frame) bool, error) {
	text := c.str("fail-if")
	if text == "" {
		return nil, nil
	}
	var tests []func(f *top.Frame) bool
	var wrong error // of the kind that is meant most likely: the one with most of the fields
	most := -1
	var kinds []string
	try := func(kind string, sample any, rows func(f *top.Frame) []any) {
		names := jsonNames(sample)
		kinds = append(kinds, "a "+kind+" has "+strings.Join(names, ", "))
		match, err := parseFilterOf("--fail-if", text, sample)
		if err != nil {
			if n := fieldsIn(text, names); n > most {
				wrong, most = err, n
			}
			return
		}
		tests = append(tests, func(f *top.Frame) bool {
			for _, r := range rows(f) {
				if match(r) {
					return true
				}
			}
			return false
		})
	}
	try("broker", top.Broker{}, func(f *top.Frame) []any { return anys(f.Brokers) })
	try("slave", top.Link{}, func(f *top.Frame) []any { return anys(f.HA) })
	try("group", top.Group{}, func(f *top.Frame) []any { return anys(f.Groups) })
	try("topic", top.Topic{}, func(f *top.Frame) []any { return anys(f.Topics) })
	try("pull", top.Pull{}, func(f *top.Frame) []any { return anys(f.Pulls) })
	if len(tests) == 0 {
		var m *Message
		if most == 0 && errors.As(wrong, &m) && m.Code == "UNKNOWN_FIELD" {
			m.Why, m.Try = strings.Join(kinds, "; "), []string{"mqctl top --once --fail-if 'gapBytes>64MiB'"}
		}
		return nil, wrong
	}
	return func(f *top.Frame) bool {
		for _, t := range tests {
			if t(f) {
				return true
			}
		}
		return false
	}, nil
}

// fieldsIn counts the words of an expression that are fields of a kind.
func fieldsIn(text string, names []string) int {
	words, err := filterWords(text)
	if err != nil {
		return 0
	}
	n := 0
	for _, w := range words {
		first, _, _ := strings.Cut(w, ".")
		if contains(names, first) {
			n++
		}
	}
	return n
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// topLive takes the terminal until the user leaves.
func (c *call) topLive(ctx context.Context, o top.Options) (*result, error) {
	in, _ := c.io.In.(*os.File)
	out, _ := c.io.Out.(*os.File)
	if !o.ReadOnly {
		o.Command = func(words []string) tea.ExecCommand { return &topCommand{ctx: ctx, c: c, words: words} }
	}
	if err := top.Run(ctx, o, in, out); err != nil {
		return nil, fail(ExitFailed, "NO_TERMINAL", "the view cannot be shown: %v", err)
	}
	r := &result{streamed: true}
	if status, ok := interruption(ctx); ok && status != ExitInterrupted {
		r.final = &status
	}
	return r, nil
}

// topCommand runs a command of mqctl in the foreground, while the view waits.
type topCommand struct {
	ctx      context.Context
	c        *call
	words    []string
	in       io.Reader
	out, err io.Writer
}

func (t *topCommand) SetStdin(r io.Reader)  { t.in = r }
func (t *topCommand) SetStdout(w io.Writer) { t.out = w }
func (t *topCommand) SetStderr(w io.Writer) { t.err = w }

// Run shows the command line, so that people learn to script it, runs it and
// waits for Enter.
func (t *topCommand) Run() error {
	stdio := t.c.io
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer interruptsOf(t.ctx).take(cancel)()
	defer cancel(nil)
	for _, key := range []string{"context", "cluster", "namesrv"} {
		if v := t.c.values[key]; len(v) > 0 {
			t.words = append(t.words, "--"+key+"="+strings.Join(v, ","))
		}
	}
	fmt.Fprintf(stdio.Out, "\nmqctl %s\n\n", strings.Join(t.words, " "))
	code := Run(ctx, append([]string{"mqctl"}, t.words...), stdio)
	fmt.Fprintf(stdio.Out, "\nEnter goes back to the view ")
	if in, ok := stdio.In.(*os.File); ok && ctx.Err() == nil {
		_, _ = bufio.NewReader(in).ReadString('\n') // the end of the input goes back too
	}
	if code != ExitOK {
		return errors.New("the command ended with status " + fmt.Sprint(code))
	}
	return nil
}
