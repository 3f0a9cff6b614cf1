package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// gap is a value that a command cannot do without and that its line does not give.
// On a terminal somebody is asked for it, with the names that there are.
type gap struct {
	cmd    *command
	old    bool
	flag   *flagSpec           // nil: an argument
	ways   []*flagSpec         // one of these is needed; nil among them: the argument
	word   string              // what help calls the value
	from   string              // where candidates come from: topic, group, broker, cluster, ...
	known  []string            // candidates that are known already
	values map[string][]string // what the line gives
}

// lacks tells that a flag is missing; on a terminal it is asked for.
func (m *Message) lacks(cmd *command, old bool, f *flagSpec, values map[string][]string) *Message {
	g := &gap{cmd: cmd, old: old, flag: f, word: firstOf(f.meta, f.key), from: f.complete, values: values}
	if f.kind == kindEnum {
		g.known = f.enum
	}
	m.missing = g
	return m
}

// lacksArgument tells that the n-th argument (from 0) is missing.
func (m *Message) lacksArgument(cmd *command, n int, values map[string][]string) *Message {
	words := strings.Fields(cmd.args)
	word := "value"
	if n < len(words) {
		word = strings.Trim(words[n], "[]().")
	}
	m.missing = &gap{cmd: cmd, word: word, from: cmd.argFrom, values: values}
	return m
}

// lacksOne tells that one of several flags is missing; the key "" stands for the
// argument. On a terminal it is asked which, and then for its value.
func (m *Message) lacksOne(c *call, keys ...string) *Message {
	g := &gap{cmd: c.cmd, old: c.old, values: c.values}
	for _, k := range keys {
		if k == "" {
			g.ways = append(g.ways, nil)
		} else if f := c.flag(k); f != nil {
			g.ways = append(g.ways, f)
		}
	}
	m.missing = g
	return m
}

// needTarget is what mqadmin's commands demand: -b or -c.
func (c *call) needTarget() error {
	if !c.old || c.str("broker") != "" || c.str("cluster") != "" {
		return nil
	}
	return usage("TARGET_MISSING", "%s needs a target: -b or -c", c.cmd.old).because("nothing was sent").lacksOne(c, "cluster", "broker")
}

// either is the error of two flags of which none or both were given.
func (c *call) either(try, a, b string) *Message {
	m := usage("CONTRADICTION", "%s needs either --%s or --%s", c.cmd.name(c.old), a, b).try(try)
	if !c.given(a) && !c.given(b) {
		return m.lacksOne(c, a, b)
	}
	return m
}

// mayAsk reports whether somebody is there to answer and has not said otherwise:
// both sides are terminals, nothing runs unattended, and no program reads the output.
func (g *gap) mayAsk(io Stdio) bool {
	said := func(key string, env ...string) string {
		if v := g.values[key]; len(v) > 0 {
			return v[0]
		}
		for _, name := range env {
			if v := io.Env(name); v != "" {
				return v
			}
		}
		return ""
	}
	yes, _ := parseBool(said("yes", "MQCTL_YES"))
	ci, _ := parseBool(io.Env("CI"))
	output := said("output", "MQCTL_OUTPUT")
	return isTerminal(io.In) && isTerminal(io.Err) && !yes && !ci && output != "json" && output != "jsonl"
}

// mostOffered is how many names a question shows.
const mostOffered = 20

// askingTime bounds how long a question waits for the names of the cluster.
const askingTime = 2 * time.Second

// ask asks for the value that m says is missing. What comes back is checked; an
// empty answer is m itself.
func (m *Message) ask(ctx context.Context, io Stdio, args []string) (string, error) {
	g := m.missing
	in, ok := io.In.(*os.File)
	if !ok {
		return "", m
	}
	fmt.Fprintf(io.Err, "%s\n", oneLine(m.Text))
	if len(g.ways) > 0 {
		if err := m.choose(ctx, io, in); err != nil {
			return "", err
		}
		if g.flag != nil && g.flag.kind == kindBool {
			return "true", nil
		}
	}
	names := g.known
	if names == nil {
		names = g.candidates(ctx, io, args)
	}
	for i, n := range names[:min(len(names), mostOffered)] {
		fmt.Fprintf(io.Err, "%4d  %s\n", i+1, oneLine(n))
	}
	if n := len(names) - mostOffered; n > 0 {
		fmt.Fprintf(io.Err, "      and %s more\n", count(n, "name"))
	}
	prompt := g.word + ": "
	if len(names) > 0 {
		prompt = g.word + " (a name or a number): "
	}
	for range 3 {
		fmt.Fprint(io.Err, prompt)
		answer, err := readAnswer(ctx, in)
		if err != nil {
			fmt.Fprintln(io.Err)
			return "", err
		}
		if answer = strings.TrimSpace(answer); answer == "" {
			return "", m
		}
		if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= min(len(names), mostOffered) && !slices.Contains(names, answer) && (g.flag == nil || g.flag.kind != kindInt) {
			answer = names[n-1]
		}
		if g.flag == nil {
			return answer, nil
		}
		v := vocabularyOf(g.cmd, g.old)
		value, err := g.flag.check(answer, v.spelled(g.flag), v.hint(g.flag))
		if err == nil {
			return value, nil
		}
		fmt.Fprintf(io.Err, "%s\n", oneLine(err.Error()))
	}
	return "", m
}

// choose asks which of several ways it shall be; an empty answer is m itself.
func (m *Message) choose(ctx context.Context, io Stdio, in *os.File) error {
	g := m.missing
	v := vocabularyOf(g.cmd, g.old)
	for i, f := range g.ways {
		switch {
		case f == nil:
			fmt.Fprintf(io.Err, "%4d  %s\n", i+1, g.cmd.args)
		case f.kind == kindBool:
			fmt.Fprintf(io.Err, "%4d  %s   %s\n", i+1, v.hint(f), f.help)
		default:
			fmt.Fprintf(io.Err, "%4d  %s %s   %s\n", i+1, v.hint(f), f.meta, f.help)
		}
	}
	for range 3 {
		fmt.Fprint(io.Err, "which of them (a number): ")
		answer, err := readAnswer(ctx, in)
		if err != nil {
			fmt.Fprintln(io.Err)
			return err
		}
		if answer = strings.TrimSpace(answer); answer == "" {
			return m
		}
		n, err := strconv.Atoi(answer)
		if err != nil || n < 1 || n > len(g.ways) {
			continue
		}
		if f := g.ways[n-1]; f != nil {
			*g = *m.lacks(g.cmd, g.old, f, g.values).missing
		} else {
			*g = *m.lacksArgument(g.cmd, 0, g.values).missing
		}
		m.missing = g
		return nil
	}
	return m
}

// candidates are what completion would offer.
func (g *gap) candidates(ctx context.Context, io Stdio, args []string) []string {
	c := &completer{r: commands(), io: io, seen: map[string]bool{}, patience: askingTime}
	f := g.flag
	if f == nil {
		f = &flagSpec{complete: g.from}
	}
	if f.kind == kindBool || f.complete == "file" || f.complete == "" && len(f.enum) == 0 {
		return nil
	}
	l := commands().unfinishedLine(args)
	if l.cmd != g.cmd {
		l.cmd, l.old, l.v = g.cmd, g.old, vocabularyOf(g.cmd, g.old)
	}
	c.values(ctx, f, l)
	var names []string
	for line := range strings.Lines(c.out.String()) {
		name, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		names = append(names, name)
	}
	return names
}

// with is the command line with the value that was missing.
func (g *gap) with(args []string, value string) []string {
	out := slices.Clone(args)
	if g.flag == nil {
		if strings.HasPrefix(value, "-") && !slices.Contains(out, "--") {
			out = append(out, "--")
		}
		return append(out, value)
	}
	word := "--" + g.flag.key + "=" + value
	if g.old && g.flag.long != "" {
		word = "--" + g.flag.long + "=" + value
	} else if g.old && g.flag.short != "" {
		word = "-" + g.flag.short + "=" + value
	}
	at := slices.Index(out, "--")
	if at < 0 {
		at = len(out)
	}
	return slices.Insert(out, at, word)
}

// normaliseAsking is the front door where somebody may stand: what is missing is
// asked for until the line is complete.
func normaliseAsking(ctx context.Context, io Stdio, args []string) (*line, error) {
	for {
		l, err := commands().normalise(args[0], args[1:])
		m, ok := err.(*Message) //nolint:errorlint // made by the front door, never wrapped
		if !ok || m.missing == nil || !m.missing.mayAsk(io) {
			return l, err
		}
		value, err := m.ask(ctx, io, args[1:])
		if err != nil {
			return l, err
		}
		args = m.missing.with(args, value)
	}
}

// runAsking runs the handler; where it finds that a value is missing, before it has
// sent anything, somebody is asked and it runs again.
func (c *call) runAsking(ctx context.Context) (*result, error) {
	for {
		r, err := c.cmd.run(c.look(ctx), c)
		if err == nil {
			return r, nil
		}
		err = c.explain(err)
		var m *Message
		if !errors.As(err, &m) || r != nil || m.missing == nil || m.missing.flag == nil && m.missing.ways == nil || !m.missing.mayAsk(c.io) {
			return r, err
		}
		words := []string{}
		for _, n := range c.list("namesrv") {
			words = append(words, "--namesrv="+n)
		}
		value, err := m.ask(ctx, c.io, words)
		if err != nil {
			return nil, err
		}
		if m.missing.flag == nil {
			c.args = append(c.args, value)
			continue
		}
		c.values[m.missing.flag.key] = []string{value}
	}
}

// readAnswer reads one line that somebody types. Ctrl-C ends it, and nothing that
// is typed later is taken from whoever reads the terminal next.
func readAnswer(ctx context.Context, in *os.File) (string, error) {
	var line []byte
	fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}
	if ctx == nil {
		ctx = context.Background()
	}
	for {
		if ctx.Err() != nil {
			if status, ok := interruption(ctx); ok {
				return "", fail(status, "INTERRUPTED", "interrupted").because("nothing was sent")
			}
			return "", ctx.Err()
		}
		n, err := unix.Poll(fds, 50)
		switch {
		case err == unix.EINTR || err == nil && n == 0:
			continue
		case err != nil:
			return "", err
		}
		var b [1]byte // not more than the line: what follows belongs to others
		if n, err = unix.Read(int(in.Fd()), b[:]); err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 || b[0] == '\n' || len(line) >= 4096 {
			return string(line), nil // the end of the input answers as Enter does
		}
		line = append(line, b[0])
	}
}

// hidden runs do while the terminal shows nothing of what is typed. A prompt
// belongs inside: who sees it before the terminal is silent and types at once shows
// the first letters of a password.
func hidden(in *os.File, do func() error) error {
	fd := int(in.Fd())
	had, err := unix.IoctlGetTermios(fd, readTermios)
	if err != nil {
		return err
	}
	quiet := *had
	quiet.Lflag &^= unix.ECHO
	quiet.Lflag |= unix.ICANON | unix.ISIG
	quiet.Iflag |= unix.ICRNL
	if err := unix.IoctlSetTermios(fd, writeTermios, &quiet); err != nil {
		return err
	}
	defer func() { _ = unix.IoctlSetTermios(fd, writeTermios, had) }()
	return do()
}
