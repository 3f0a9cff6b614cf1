package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"mqctl/cli/shell"
)

func shellCommands() []*command {
	return []*command{{
		path: "shell", summary: "interactive shell, or the commands of a file", args: "[FILE]", max: 1, argFrom: "file", attrs: local, run: runShell,
		exits: []int{ExitBadConfig},
		examples: []string{
			"mqctl shell", "mqctl shell runbook.mq", "mqctl shell -e 'cluster list; stats ha'", "mqctl shell --keep-going runbook.mq", "mqctl shell --context prod",
		},
		flags: []flagSpec{
			{key: "execute", letter: "e", kind: kindList, meta: "'COMMAND; COMMAND'", help: "run these commands and end"},
			{key: "keep-going", kind: kindBool, help: "go on after a failure; the status is the highest one"},
			{key: "namesrv", also: []string{"namesrvAddr"}, letter: "n", kind: kindList, meta: "LIST", help: "nameservers of all commands"},
			{key: "context", meta: "NAME", complete: "context", help: "context of all commands"},
		},
	}}
}

// onTerminal reports whether somebody sits in front of both streams.
func onTerminal(stdio Stdio) bool { return isTerminal(stdio.In) && isTerminal(stdio.Out) }

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && shell.IsTerminal(int(f.Fd()))
}

func runShell(ctx context.Context, c *call) (*result, error) {
	if c.given("execute") && len(c.args) > 0 {
		return nil, usage("CONTRADICTION", "-e and a FILE are both commands to run").try("mqctl shell -e 'source " + c.arg(0) + "'")
	}
	code, err := c.shell(ctx, strings.Join(c.values["namesrv"], ","))
	if err != nil {
		return nil, err
	}
	if status, ok := interruption(ctx); ok {
		code = status
	}
	return &result{streamed: true, final: &code}, nil
}

// shell runs a session of the shell and returns its status. namesrv is "" for
// what the environment and the client file say.
func (c *call) shell(ctx context.Context, namesrv string) (int, error) {
	host := newSession(ctx, c.io)
	defer host.close()
	settings := map[string]string{}
	if namesrv != "" {
		settings["namesrv"] = namesrv
	}
	if c.given("context") {
		settings["context"] = c.str("context")
	}
	o := shell.Options{
		Host: host, KeepOn: c.on("keep-going"), Settings: shellSettings, UTF8: localeUTF8(c.io.Env), Dumb: c.io.Env("TERM") == "dumb",
		Streams: shell.Streams{In: c.io.In, Out: c.io.Out, Err: c.io.Err, Env: c.io.Env},
	}
	interactive := !c.given("execute") && len(c.args) == 0 && onTerminal(c.io)
	if interactive {
		look := newStyle(c.io.Out, c.colourChoice(), c.io.Env)
		o.Colour = look.colours(c.str("color"), c.io.Env)
		o.History = c.history()
	}
	s := shell.New(o)
	for name, value := range settings {
		if err := s.Choose(name, value); err != nil {
			return 0, usage("BAD_VALUE", "--%s: %v", name, err)
		}
	}
	return c.shellInput(ctx, s, interactive, o.Dumb)
}

// shellInput runs what the shell is to run: -e, a file, the input, or a user.
func (c *call) shellInput(ctx context.Context, s *shell.Session, interactive, dumb bool) (int, error) {
	switch {
	case c.given("execute"):
		return s.Script(ctx, strings.NewReader(strings.Join(c.values["execute"], "\n")), "-e"), nil
	case len(c.args) > 0 && c.arg(0) != "-":
		f, err := os.Open(c.arg(0))
		if err != nil {
			return 0, unreadable(c.arg(0), err)
		}
		defer f.Close()
		return s.Script(ctx, f, c.arg(0)), nil
	case !interactive:
		return s.Script(ctx, c.io.In, "stdin"), nil
	}
	editor, err := c.editor(dumb)
	if err != nil {
		return 0, fail(ExitFailed, "NO_TERMINAL", "the terminal cannot be used: %v", err)
	}
	code := s.Interact(ctx, editor)
	return code, editor.Close()
}

// editor is the line editor for this terminal.
func (c *call) editor(dumb bool) (shell.LineEditor, error) {
	in, isFile := c.io.In.(*os.File)
	out, alsoFile := c.io.Out.(*os.File)
	if dumb || !isFile || !alsoFile {
		return shell.NewPlain(c.io.In, c.io.Out), nil
	}
	return shell.NewTerminal(in, out)
}

// history opens the file of the shell's lines.
func (c *call) history() *shell.History {
	limit := 2000
	if n := c.clientSettings().Defaults.History; n != nil {
		limit = int(min(*n, 100000))
	}
	path := c.io.Env("MQCTL_HISTORY")
	if path == "" {
		path = filepath.Join(stateDir(c.io.Env), "history")
	}
	h, err := shell.OpenHistory(path, limit)
	if err != nil {
		m := warning("NO_HISTORY", path, "the history %s cannot be used: %v", path, err)
		c.p.message(&m, "warning")
	}
	return h
}
