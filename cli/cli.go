// Package cli is the command line of mqctl: one table of commands that feeds
// two vocabularies, mqadmin's camel-case names and a tree of nouns and verbs.
//
// A command line passes the front door (normalise.go), which understands every
// way of writing a flag and leaves nothing to guess; then urfave/cli runs the
// command's handler (app.go); the handler returns one result, and output.go
// prints it in the format asked for. Exit codes are in exit.go.
//
// Goroutines: commands start none of their own, apart from the ones that start
// a server (serve.go says which), and the client's (package admin).
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"text/template"
	"time"

	"mqctl/cli/shell"
)

// Run runs the command line args (args[0] is the program's name) and returns
// the exit status. ctx ends when the user interrupts; its cause may be an
// *Interrupted.
func Run(ctx context.Context, args []string, io Stdio) (code int) {
	if io.Env == nil {
		io.Env = os.Getenv
	}
	defer func() {
		if p := recover(); p != nil {
			code = reportBug(io, args, p, debug.Stack())
		}
	}()
	if len(args) == 0 {
		args = []string{"mqctl"}
	}
	if len(args) > 1 && args[1] == "__complete" {
		return complete(ctx, args[2:], io)
	}
	args = withFocus(io, args)
	l, err := normaliseAsking(ctx, io, args)
	if words := aliasOf(args, err, io.Env); words != nil {
		l, err = normaliseAsking(ctx, io, append([]string{args[0]}, words...))
	}
	if err != nil {
		return compat(io, printUsage(io, asMessage(err), lineByName(l.name())))
	}
	for _, m := range l.notes {
		(&printer{err: io.Err, errStyle: newStyle(io.Err, io.Env("MQCTL_COLOR"), io.Env)}).message(m, "warning")
	}
	l.mqadmin = l.mqadmin || hasWord(io.Env("MQCTL_COMPAT"), "mqadmin")
	switch {
	case l.version:
		return writeText(io, fmt.Sprintf("mqctl %s\n", versionOf().Version))
	case l.topic != nil:
		if l.mqadmin && len(l.topic) == 0 {
			l.topic = []string{"mqadmin"}
		}
		return helpTopic(io, l.topic)
	case l.cmd == nil && len(args) == 1 && !l.mqadmin && onTerminal(io):
		return Run(ctx, []string{args[0], "shell"}, io)
	case l.cmd == nil:
		return nounHelp(io, l)
	case l.help:
		return writeText(io, commandHelp(l.cmd, l.old))
	}
	boundMemory(l.cmd, io)
	return compat(io, runApp(ctx, l, io))
}

// hasWord looks for one word in a list with commas.
func hasWord(list, word string) bool {
	for _, w := range strings.Split(list, ",") {
		if strings.TrimSpace(w) == word {
			return true
		}
	}
	return false
}

// compat is MQCTL_COMPAT=exit0: a site that depends on mqadmin's status.
func compat(io Stdio, code int) int {
	if code == ExitOK || !hasWord(io.Env("MQCTL_COMPAT"), "exit0") {
		return code
	}
	fmt.Fprintf(io.Err, "warning MQCTL_COMPAT=exit0 hides exit status %d  [EXIT_HIDDEN]\n", code)
	return ExitOK
}

// printUsage writes an error of the command line; nothing goes to stdout.
func printUsage(io Stdio, m *Message, line lineWith) int {
	m.complete(line)
	p := printer{err: io.Err, errStyle: newStyle(io.Err, io.Env("MQCTL_COLOR"), io.Env)}
	p.message(m, "error")
	return m.ExitCode
}

// execute runs the handler of a command and prints its result.
func execute(ctx context.Context, c *call) int {
	if c.on("examples") {
		return writeText(c.io, strings.Join(append(slices.Clone(c.cmd.examples), ""), "\n"))
	}
	if c.given("schema") {
		return printOwnSchema(c)
	}
	if err := c.checkEnvironment(); err != nil {
		return printUsage(c.io, asMessage(err), c.lineWith)
	}
	if err := c.useClientFile(); err != nil {
		return printUsage(c.io, asMessage(err), c.lineWith)
	}
	p, err := newPrinter(c)
	if err != nil {
		return printUsage(c.io, asMessage(err), c.lineWith)
	}
	c.p = p
	if err := c.refuseReadOnly(); err != nil {
		return c.finish(ctx, nil, err)
	}
	if d := c.duration("deadline"); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	defer func() {
		if c.client != nil && !c.io.session.keeps(c.client) {
			c.client.Close()
		}
	}()
	c.ctx = ctx
	r, err := c.handle(ctx)
	return c.finish(ctx, r, err)
}

// handle runs the command, again and again with --watch.
func (c *call) handle(ctx context.Context) (*result, error) {
	if c.is(watches) || !c.given("watch") && !c.given("interval") || !c.cmd.repeats() {
		return c.runAsking(ctx)
	}
	return c.watch(ctx, func(ctx context.Context) (*result, error) { return c.cmd.run(ctx, c) }, nil)
}

// finish prints what a handler returned and chooses the exit status.
func (c *call) finish(ctx context.Context, r *result, err error) int {
	code := ExitOK
	c.noteOthers(r)
	c.sayStandIns(r)
	if err == nil && r.streamed && deadlineOver(ctx) {
		err = fail(ExitTimeout, "DEADLINE", "the deadline is over")
	}
	if err != nil {
		if status, ok := interruption(ctx); ok && r == nil {
			printUsage(c.io, asMessage(c.explain(context.Canceled)), c.lineWith)
			return status
		}
		m := asMessage(c.explain(err))
		code = m.ExitCode
		if r == nil {
			r = &result{}
			c.sayStandIns(r)
		}
		r.errors = append(r.errors, *m)
		r.complete(c.lineWith)
		if m.ExitCode == ExitUsage && r.items == nil {
			return printUsage(c.io, m, c.lineWith)
		}
		if c.p.format != "json" && len(r.items) == 0 {
			c.p.messages(r)
			return code
		}
	} else if len(r.errors) > 0 || r.exit != 0 || r.final != nil {
		code = r.code()
		r.complete(c.lineWith)
	}
	if code == ExitPartial && c.on("allow-partial") {
		code = ExitOK
	}
	if code == ExitOK && c.on("detailed-exit-code") && r.change != nil && r.change.DryRun && r.wouldChange() {
		code = ExitChanges
	}
	if !r.streamed {
		if err := c.p.print(r); err != nil {
			if m := asMessage(err); m.ExitCode != ExitOK {
				return printUsage(c.io, m, c.lineWith)
			}
			c.p.message(asMessage(err), "warning")
		}
	}
	c.p.messages(r)
	if r.empty != "" && len(r.items) == 0 && len(r.errors) == 0 && (c.p.format == "table" || c.p.format == "wide") {
		fmt.Fprintf(c.io.Err, "note    %s\n", r.empty)
	}
	if r.change != nil && r.change.UndoID != nil && c.p.errStyle.terminal {
		fmt.Fprintf(c.io.Err, "undo    mqctl undo %s\n", *r.change.UndoID)
	}
	if (code == ExitOK || code == ExitChanges) && c.p.plansQuietly(r) {
		fmt.Fprintln(c.io.Err, "note    dry run: nothing was written")
	}
	if c.p.broken != nil && !quiet(c.p.broken) {
		return printUsage(c.io, outputFailed(c.p.broken), c.lineWith)
	}
	if status, ok := interruption(ctx); ok && code != ExitOK && code != ExitPartial {
		return status
	}
	return code
}

// deadlineOver reports whether --deadline ended a command that would have gone
// on: a failure, where an end by the user is none.
func deadlineOver(ctx context.Context) bool {
	_, byUser := interruption(ctx)
	return !byUser && ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// newPrinter reads the flags about output.
func newPrinter(c *call) (*printer, error) {
	p := &printer{
		out: c.io.Out, err: c.io.Err, view: c.cmd.view, schema: c.cmd.schema,
		style: newStyle(c.io.Out, c.colourChoice(), c.io.Env), errStyle: newStyle(c.io.Err, c.colourChoice(), c.io.Env),
		sort: c.str("sort"), limit: int(c.whole("limit")), headers: !c.on("no-headers"), now: c.begun,
	}
	p.textIntegers, p.pager = c.str("json-int") == "string", c.io.Env("MQCTL_PAGER")
	if err := c.checkSchemaVersion(); err != nil {
		return nil, err
	}
	p.style.units, p.style.time, p.style.now = c.str("units"), c.str("time"), c.begun
	p.context = c.active.Name
	if v := c.cmd.variant; v != nil && v.when(c) {
		p.view, p.schema = v.view, v.schema
	}
	if err := p.chooseFormat(c); err != nil {
		return nil, err
	}
	sample := p.view.item
	if f := c.str("fields"); f != "" {
		for _, name := range strings.Split(f, ",") {
			name = strings.TrimSpace(name)
			if err := knownField(name, sample, "--fields"); err != nil {
				return nil, err
			}
			p.fields = append(p.fields, name)
		}
	}
	p.reverse, p.silent = c.on("reverse"), c.str("log-level") == "error"
	if text := c.str("filter"); text != "" {
		var err error
		if p.filter, err = parseFilter(text, sample); err != nil {
			return nil, err
		}
	}
	if p.sort != "" {
		if err := knownField(p.sort, sample, "--sort"); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// chooseFormat applies --output, MQCTL_OUTPUT and the rule for camel-case
// names: mqadmin's layout in a pipe or through a link called mqadmin.
func (p *printer) chooseFormat(c *call) error {
	text := c.str("output")
	p.format = "table"
	asked := c.given("output") || c.io.Env("MQCTL_OUTPUT") != ""
	if !asked && (c.old || text == "name" && p.view.name == nil || text == "mqadmin" && p.view.old == nil) {
		text = "" // the client file's default fits some commands only, and never changes mqadmin's layout
	}
	if c.cmd.outFile && c.given("output") && isFile(text) {
		c.outFile, text = text, ""
	}
	if text == "" {
		if c.old && p.view.old != nil && (!p.style.terminal || c.mqadmin) {
			p.format = "mqadmin"
		}
		return nil
	}
	if tmpl, ok := strings.CutPrefix(text, "template="); ok {
		t, err := template.New("output").Option("missingkey=error").Parse(tmpl)
		if err != nil {
			return usage("BAD_TEMPLATE", "the template cannot be read: %v", err)
		}
		p.format, p.tmpl = "template", t
		return nil
	}
	known := p.formats()
	for _, f := range known {
		if f == text {
			p.format = text
		}
	}
	switch {
	case p.format != text:
		m := usage("BAD_VALUE", "there is no output format %q", text).because("one of %s", strings.Join(known, ", "))
		for _, n := range nearest(text, known) {
			m.offer("--output " + n)
		}
		return m
	case text == "mqadmin" && p.view.old == nil:
		return usage("BAD_VALUE", "%s has no mqadmin layout", c.cmd.name(c.old)).try("--output table")
	case text == "name" && p.view.name == nil:
		return usage("BAD_VALUE", "%s prints nothing that has a name", c.cmd.name(c.old)).try("--output json")
	}
	return nil
}

// formats are the values of --output that the command takes.
func (p *printer) formats() []string {
	own := sortedKeys(p.view.outputs)
	if p.view.body != nil {
		own = append(own, "raw")
	}
	return append(own, formats...)
}

// reportBug keeps the stack of an internal error in a file.
func reportBug(io Stdio, args []string, p any, stack []byte) int {
	name := filepath.Join(os.TempDir(), fmt.Sprintf("mqctl-bug-%d-%d.txt", os.Getpid(), time.Now().UnixNano()))
	text := fmt.Sprintf("mqctl %s\ncommand: %s\n%v\n\n%s", versionOf().Version, shell.Redact(strings.Join(args, " ")), p, stack)
	where := name
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		where = "(not written: " + err.Error() + ")"
	}
	return printUsage(io, fail(ExitBug, "BUG", "internal error: %v", p).because("the report is in %s", where), lineByName(""))
}
