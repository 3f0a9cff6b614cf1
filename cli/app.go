package cli

import (
	"context"
	"io"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
)

// runApp hands a normalised command line to urfave/cli, which finds the command,
// parses the flags and runs the action. Its own texts and statuses never reach
// the user: the front door has found every mistake before.
func runApp(ctx context.Context, l *line, stdio Stdio) int {
	code := ExitOK
	failed := error(nil)
	app := &urfave.App{
		Name: "mqctl", HideHelp: true, HideVersion: true, HideHelpCommand: true, DisableSliceFlagSeparator: true,
		Writer: io.Discard, ErrWriter: io.Discard,
		Commands: appCommands(l, func(c *urfave.Context) error {
			code = execute(c.Context, newCall(c, l, stdio))
			return nil
		}),
		OnUsageError:    func(_ *urfave.Context, err error, _ bool) error { return err },
		CommandNotFound: func(_ *urfave.Context, name string) { failed = usage("UNKNOWN_COMMAND", "unknown command %q", name) },
		ExitErrHandler:  func(_ *urfave.Context, _ error) {},
	}
	if err := app.RunContext(ctx, l.canonical()); err != nil {
		failed = usage("BAD_COMMAND_LINE", "%v", err)
	}
	if failed != nil {
		return printUsage(stdio, asMessage(failed), lineByName(l.name()))
	}
	return code
}

// newCall collects what urfave parsed.
func newCall(c *urfave.Context, l *line, stdio Stdio) *call {
	out := &call{
		cmd: l.cmd, old: l.old, mqadmin: l.mqadmin, io: stdio, begun: time.Now(),
		values: map[string][]string{}, vocab: vocabularyOf(l.cmd, l.old), args: c.Args().Slice(),
	}
	for _, f := range out.vocab.flags {
		if c.IsSet(f.key) {
			out.values[f.key] = c.StringSlice(f.key)
		}
	}
	return out
}

// appCommands is the part of the tree that the command line runs through: its
// first word with everything below it. Building only that keeps start-up short.
func appCommands(l *line, action urfave.ActionFunc) []*urfave.Command {
	if l.old {
		return []*urfave.Command{leafOf(l.cmd, true, action)}
	}
	return []*urfave.Command{nodeOf(firstWord(l.cmd.path), firstWord(l.cmd.path), action)}
}

// nodeOf builds the commands below a path.
func nodeOf(path, word string, action urfave.ActionFunc) *urfave.Command {
	r := commands()
	if c := r.byPath[path]; c != nil {
		return leafOf(c, false, action)
	}
	n := &urfave.Command{Name: word, HideHelp: true}
	for _, verb := range r.nouns[path] {
		n.Subcommands = append(n.Subcommands, nodeOf(path+" "+verb, verb, action))
	}
	return n
}

// leafOf builds one command of either vocabulary.
func leafOf(c *command, old bool, action urfave.ActionFunc) *urfave.Command {
	words := strings.Fields(c.name(old))
	n := &urfave.Command{
		Name: words[len(words)-1], Usage: c.summary, HideHelp: true, Action: action,
		OnUsageError: func(_ *urfave.Context, err error, _ bool) error { return err },
	}
	if old {
		n.Category = "mqadmin-compatible"
	}
	for _, f := range vocabularyOf(c, old).flags {
		n.Flags = append(n.Flags, flagOf(f))
	}
	return n
}

// flagOf is the urfave form of a flag. Values are texts here: the front door
// has checked them and written them in one canonical form.
func flagOf(f *flagSpec) urfave.Flag {
	return &urfave.StringSliceFlag{Name: f.key, Usage: f.help, KeepSpace: true}
}
