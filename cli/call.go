package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mqctl/broker/remoting"
	"mqctl/cli/admin"
	"mqctl/cli/shell"
)

// Stdio is what a command reads and writes, and the environment it sees.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(name string) string // nil: the process's own

	session *session // of the shell that runs the command; nil outside
	focus   shell.Focus
}

// call is one run of a command: its flags and arguments, its streams, its client.
type call struct {
	cmd     *command
	old     bool
	mqadmin bool
	io      Stdio
	values  map[string][]string // given on the command line
	args    []string
	vocab   *vocabulary
	p       *printer
	begun   time.Time
	client  *admin.Client
	memo    memo
	singly  sync.Map // address and kind of what a broker does not take as a list
	slaves  standIns
	tracing sync.Mutex
	ctx     context.Context //nolint:containedctx // of the run, for questions: Ctrl-C ends them

	outFile  string              // of commands that write one: what -o named
	file     *clientFile         // nil before useClientFile
	active   activeContext       // of the client file
	fallback map[string][]string // values of the context and of the file's defaults
}

// name is how the command is written, without the program's name.
func (c *call) name() string { return c.cmd.name(c.old) }

// given reports whether the flag stands on the command line.
func (c *call) given(key string) bool { return len(c.values[key]) > 0 }

// str is the flag's value: command line, environment, default.
func (c *call) str(key string) string {
	v := c.list(key)
	if len(v) == 0 {
		return ""
	}
	return v[0]
}

// list is all values of a flag.
func (c *call) list(key string) []string {
	if v := c.values[key]; len(v) > 0 {
		return v
	}
	f := c.flag(key)
	if f == nil {
		return nil
	}
	for _, name := range f.env {
		if v := c.io.Env(name); v != "" {
			return []string{v}
		}
	}
	if v := c.fallback[key]; len(v) > 0 {
		return v
	}
	if f.def != "" {
		return []string{f.def}
	}
	return nil
}

func (c *call) flag(key string) *flagSpec {
	for _, f := range c.vocab.flags {
		if f.key == key {
			return f
		}
	}
	// A flag that this vocabulary does not spell still has its default.
	for i := range c.cmd.flags {
		if c.cmd.flags[i].key == key {
			return &c.cmd.flags[i]
		}
	}
	return nil
}

// on is a boolean flag.
func (c *call) on(key string) bool {
	b, _ := parseBool(c.str(key))
	return b
}

// whole is an integer flag; 0 when it is not there.
func (c *call) whole(key string) int64 {
	n, _ := strconv.ParseInt(c.str(key), 10, 64)
	return n
}

// duration is a flag with a length of time; 0 when it is not there.
func (c *call) duration(key string) time.Duration {
	d, _ := parseDuration(c.str(key))
	return d
}

// arg is the n-th argument (from 0), "" when it is not there.
func (c *call) arg(n int) string {
	if n < len(c.args) {
		return c.args[n]
	}
	return ""
}

// hint is how a flag is written for this vocabulary, for lines to paste.
func (c *call) hint(key string) string {
	if f := c.flag(key); f != nil {
		return c.vocab.hint(f)
	}
	return "--" + key
}

// checkEnvironment validates values that come from the environment, as the
// front door did with those of the command line, and the addresses of -n.
func (c *call) checkEnvironment() error {
	for _, f := range c.vocab.flags {
		if c.given(f.key) || f.absent {
			continue
		}
		for _, name := range f.env {
			if v := c.io.Env(name); v != "" {
				if _, err := f.check(v, name, name+"="); err != nil {
					return err
				}
				break
			}
		}
	}
	if c.given("namesrv") {
		_, err := addresses(c.list("namesrv"))
		return err
	}
	return nil
}

// admin is the client of this command, made at first use.
func (c *call) admin() (*admin.Client, error) {
	if c.client != nil {
		return c.client, nil
	}
	addrs, err := addresses(c.list("namesrv"))
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, usage("VALUE_MISSING", "the list of nameservers is empty").because("nothing was sent").try("-n HOST:9876")
	}
	o, err := c.adminOptions(addrs)
	if err != nil {
		return nil, err
	}
	if s := c.io.session; s != nil && o.Trace == nil {
		c.client = s.client(c.active.Name, o)
	} else {
		c.client = admin.New(o)
	}
	return c.client, nil
}

// trace writes one line for each request; requests to several brokers end at once.
func (c *call) trace(code int, addr string, out, in int, took time.Duration, err error) {
	end := ""
	if err != nil {
		end = "  " + oneLine(err.Error())
	}
	c.tracing.Lock()
	defer c.tracing.Unlock()
	fmt.Fprintf(c.io.Err, "trace   %d %s  %s  %d B out  %d B in  %.1f ms%s\n",
		code, remoting.RequestName(code), addr, out, in, float64(took.Microseconds())/1000, end)
}

// selector is what --cluster and --broker choose.
func (c *call) selector(mastersOnly bool) admin.Selector {
	return admin.Selector{Cluster: c.str("cluster"), Broker: c.str("broker"), MastersOnly: mastersOnly}
}

// targets resolves the selector; errors are Messages.
func (c *call) targets(ctx context.Context, mastersOnly bool) ([]admin.Target, error) {
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	t, err := a.Targets(ctx, c.selector(mastersOnly))
	if err != nil {
		return nil, c.explain(err)
	}
	return t, nil
}

// clusterOf is the cluster that all targets share, "" if there is none.
func clusterOf(targets []admin.Target) string {
	name := ""
	for _, t := range targets {
		if t.Cluster == "" || name != "" && t.Cluster != name {
			return ""
		}
		name = t.Cluster
	}
	return name
}

// dryRun reports whether nothing may be written.
func (c *call) dryRun() bool { return c.on("dry-run") }

// confirm asks before something is destroyed. Camel-case commands ask in a
// protected context only, as mqadmin never does. There, and with confirm =
// "name" in the client file, the name of the thing must be typed.
func (c *call) confirm(what, impact string) error {
	active := c.context()
	if (c.old || active.Confirm == "never") && !active.Protected || c.on("yes") || c.dryRun() {
		return nil
	}
	in, _ := c.io.In.(*os.File)
	if !c.asks() {
		return fail(ExitAborted, "CONFIRMATION_NEEDED", "%s needs confirmation and stdin is not a terminal", what).
			because("%s; nothing was changed", impact).
			try("add --yes", "look first: mqctl "+c.cmd.name(c.old)+c.ownRest()+" --dry-run")
	}
	wanted, question := []string{"y", "yes"}, "continue? [y/N] "
	if active.Protected || active.Confirm == "name" {
		name := firstOf(c.arg(0), active.Name, "yes")
		wanted, question = []string{strings.ToLower(name)}, fmt.Sprintf("type %s to continue: ", name)
	}
	fmt.Fprintf(c.io.Err, "%s: %s\n%s", what, impact, question)
	answer, err := readAnswer(c.ctx, in)
	if err != nil {
		fmt.Fprintln(c.io.Err)
		return err
	}
	if !slices.Contains(wanted, strings.ToLower(strings.TrimSpace(answer))) {
		return fail(ExitAborted, "ABORTED", "%s was not confirmed; nothing was changed", what)
	}
	return nil
}

// asks reports whether there is somebody to ask.
func (c *call) asks() bool {
	in, ok := c.io.In.(*os.File)
	if !ok {
		return false
	}
	yes, _ := terminal(in)
	return yes
}

// patience is how long --wait waits; 0 without it.
func (c *call) patience() time.Duration {
	if !c.given("wait") {
		return 0
	}
	return c.duration("wait")
}

// steady is ctx without the user's interrupt but with its deadline: a change
// that has begun at a broker is finished there.
func steady(ctx context.Context) (context.Context, context.CancelFunc) {
	out := context.WithoutCancel(ctx)
	if end, ok := ctx.Deadline(); ok {
		return context.WithDeadline(out, end)
	}
	return out, func() {}
}

// until asks done again and again until it is true or patience is over; at
// least once. The error is that of the last attempt.
func until(ctx context.Context, patience time.Duration, done func(ctx context.Context) (bool, error)) (bool, error) {
	ok, err := done(ctx)
	if ok || patience <= 0 {
		return ok, err
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-wait.Done():
			return false, err
		case <-tick.C:
		}
		if ok, err = done(ctx); ok {
			return true, nil
		}
	}
}
