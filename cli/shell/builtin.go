package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// builtin is a command of the shell itself.
type builtin struct {
	usage, text string
	own         func(words []string) bool // nil: always; else only such words are the shell's
	run         func(ctx context.Context, s *Session, words []string, out Streams) (int, error)
}

var builtins map[string]builtin

func init() {
	builtins = map[string]builtin{
		"help":    {"help [COMMAND]", "what there is, or one command", nil, runHelp},
		"?":       {"?", "the same", nil, runHelp},
		"watch":   {"watch [2s] COMMAND", "run a command again and again until Ctrl-C", nil, runWatch},
		"use":     {"use [broker NAME[/ID] | group NAME]", "what later commands mean; alone: nothing", nil, runUse},
		"set":     {"set [NAME VALUE]", "output json, timeout 10s and the like; set -e drops the rest of a paste after a failure", nil, runSet},
		"time":    {"time COMMAND", "how long a command takes", nil, runTime},
		"repeat":  {"repeat N COMMAND", "run a command N times, or to its first failure", nil, runRepeat},
		"history": {"history [N]", "the last lines", nil, runHistory},
		"source":  {"source FILE", "run the commands of a file", nil, runSource},
		"alias":   {"alias [NAME COMMAND]", "a short name; alone: all of them", nil, runAlias},
		"connect": {"connect LIST", "other nameservers", nil, runConnect},
		"context": {"context use NAME", "another context, for this session", func(w []string) bool { return len(w) > 1 && w[1] == "use" }, runContext},
		"ctx":     {"", "", func(w []string) bool { return len(w) > 1 && w[1] == "use" }, runContext},
		"clear":   {"clear", "an empty screen", nil, runClear},
		"exit":    {"exit [CODE]", "leave, with the status of the last command; Ctrl-D does the same", nil, runExit},
		"quit":    {"", "", nil, runExit},
		"shell": {"", "", nil, func(_ context.Context, s *Session, _ []string, _ Streams) (int, error) {
			return s.fail(codeUsage, "IN_SHELL", "this is the shell; source FILE runs a script"), nil
		}},
	}
}

// Builtins are the names of the shell's own commands with what they do.
func Builtins() []Candidate {
	var out []Candidate
	for name, b := range builtins {
		if b.text != "" && b.own == nil && name != "?" {
			out = append(out, Candidate{Word: name, Text: b.text})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Word < out[j].Word })
	return out
}

func (s *Session) misused(words []string) (int, error) {
	b := builtins[words[0]]
	return s.fail(codeUsage, "BAD_VALUE", "%s: this is how it is written: %s", words[0], b.usage), nil
}

func runHelp(ctx context.Context, s *Session, words []string, out Streams) (int, error) {
	if len(words) > 1 {
		if b, ok := builtins[words[1]]; ok && b.usage != "" && (b.own == nil || b.own(words[1:])) {
			fmt.Fprintf(out.Out, "%s: %s\n\nusage   %s\n", words[1], b.text, b.usage)
			return codeOK, nil
		}
		return s.host(ctx, append([]string{"help"}, words[1:]...), out), nil
	}
	var text strings.Builder
	text.WriteString(s.o.Host.Help())
	text.WriteString("\nthe shell itself\n")
	for _, c := range Builtins() {
		fmt.Fprintf(&text, "  %-37s %s\n", builtins[c.Word].usage, c.Text)
	}
	text.WriteString("\nCOMMAND | jq .     COMMAND > FILE     !ls     a && b     a || b     a; b     # comment     $?     $NAME\n")
	text.WriteString("Tab completes, twice Tab lists; Up and Ctrl-R look through the history; Ctrl-C ends the command, not the shell\n")
	_, _ = io.WriteString(out.Out, text.String()) // a reader that has gone misses it
	return codeOK, nil
}

// every reads the optional time of watch.
func every(words []string) (time.Duration, []string, error) {
	pause := 2 * time.Second
	if len(words) > 0 {
		if d, err := time.ParseDuration(words[0]); err == nil {
			if d < 100*time.Millisecond {
				return 0, nil, errors.New("less than 100ms")
			}
			return d, words[1:], nil
		}
	}
	return pause, words, nil
}

func runWatch(ctx context.Context, s *Session, words []string, out Streams) (int, error) {
	pause, rest, err := every(words[1:])
	if err != nil || len(rest) == 0 {
		return s.misused(words)
	}
	ctx, done := s.interruptible(ctx)
	defer done()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if s.onTerminal(out) && !s.o.Dumb {
			fmt.Fprintf(out.Out, "\x1b[H\x1b[2Jevery %s: %s   %s   Ctrl-C ends\n\n", pause, strings.Join(rest, " "), s.o.Now().Format("15:04:05"))
		}
		code, exit := s.run(ctx, rest, out)
		if exit != nil || code == codeUsage {
			return code, exit
		}
		select {
		case <-ctx.Done():
			return codeOK, nil
		case <-tick.C:
		}
	}
}

// onTerminal reports whether the output of a command is the terminal of this session.
func (s *Session) onTerminal(out Streams) bool { return s.interactive && out.Out == s.o.Streams.Out }

func runTime(ctx context.Context, s *Session, words []string, out Streams) (int, error) {
	if len(words) < 2 {
		return s.misused(words)
	}
	begin := s.o.Now()
	code, exit := s.run(ctx, words[1:], out)
	s.say("took    %s", s.o.Now().Sub(begin).Round(100*time.Microsecond))
	return code, exit
}

func runRepeat(ctx context.Context, s *Session, words []string, out Streams) (int, error) {
	if len(words) < 3 {
		return s.misused(words)
	}
	n, err := strconv.Atoi(words[1])
	if err != nil || n < 1 {
		return s.misused(words)
	}
	ctx, done := s.interruptible(ctx)
	defer done()
	for range n {
		code, exit := s.run(ctx, words[2:], out)
		if exit != nil || code != codeOK || ctx.Err() != nil {
			return code, exit
		}
	}
	return codeOK, nil
}

func runUse(_ context.Context, s *Session, words []string, _ Streams) (int, error) {
	switch {
	case len(words) == 1:
		s.focus = Focus{}
	case len(words) == 3 && words[1] == "broker":
		s.focus.Broker = words[2]
	case len(words) == 3 && words[1] == "group":
		s.focus.Group = words[2]
	default:
		code, err := s.misused(words)
		if len(words) == 2 && words[1] != "broker" && words[1] != "group" {
			s.say("try     use broker %s   or   use group %s", Quote(words[1]), Quote(words[1]))
		}
		return code, err
	}
	if s.watcher != nil {
		s.watcher.settings(s.streams())
	}
	return codeOK, nil
}

func runSet(_ context.Context, s *Session, words []string, out Streams) (int, error) {
	switch {
	case len(words) == 1:
		for _, name := range s.settings() {
			if v := s.env(s.o.Settings[name]); v != "" {
				fmt.Fprintf(out.Out, "%s %s\n", name, Quote(v))
			}
		}
		if s.stopOnError {
			fmt.Fprintln(out.Out, "-e")
		}
	case len(words) == 2 && (words[1] == "-e" || words[1] == "+e"):
		s.stopOnError = words[1] == "-e"
		s.o.KeepOn = !s.stopOnError && !s.interactive
	case len(words) == 2 && s.o.Settings[words[1]] != "":
		s.vars[s.o.Settings[words[1]]] = "" // as if it had never been set
	case len(words) == 3 && s.o.Settings[words[1]] != "":
		s.vars[s.o.Settings[words[1]]] = words[2]
	case len(words) == 3 || len(words) == 2:
		return s.fail(codeUsage, "BAD_VALUE", "set knows no %q; there are: %s", words[1], strings.Join(s.settings(), ", ")), nil
	default:
		return s.misused(words)
	}
	if s.watcher != nil {
		s.watcher.settings(s.streams())
	}
	return codeOK, nil
}

func (s *Session) settings() []string {
	var out []string
	for name := range s.o.Settings {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

func runHistory(_ context.Context, s *Session, words []string, out Streams) (int, error) {
	if s.o.History == nil {
		return s.fail(codeUsage, "NO_HISTORY", "a script has no history"), nil
	}
	n := 50
	if len(words) == 2 {
		var err error
		if n, err = strconv.Atoi(words[1]); err != nil || n < 1 {
			return s.misused(words)
		}
	} else if len(words) > 2 {
		return s.misused(words)
	}
	all := s.o.History.Lines()
	for i := max(0, len(all)-n); i < len(all); i++ {
		fmt.Fprintf(out.Out, "%5d  %s\n", i+1, all[i])
	}
	return codeOK, nil
}

// deepest bounds scripts that call scripts.
const deepest = 20

func runSource(ctx context.Context, s *Session, words []string, _ Streams) (int, error) {
	if len(words) != 2 {
		return s.misused(words)
	}
	if s.depth >= deepest {
		return s.fail(codeFailed, "TOO_DEEP", "%s: scripts call each other more than %d deep", words[1], deepest), nil
	}
	f, err := os.Open(words[1])
	if err != nil {
		return s.fail(codeNotFound, "BAD_FILE", "%v", err), nil
	}
	defer f.Close()
	ctx, done := s.interruptible(ctx)
	defer done()
	s.depth++
	s.status = codeOK
	// A script within the shell stops at its first failure as one outside does.
	s.sourcing = true
	code := s.script(ctx, f, words[1])
	s.depth--
	s.sourcing = s.depth > 0
	if s.left {
		return code, errExit
	}
	return code, nil
}

func runAlias(_ context.Context, s *Session, words []string, out Streams) (int, error) {
	if len(words) == 1 {
		names := make([]string, 0, len(s.aliases))
		for n := range s.aliases {
			names = append(names, n)
		}
		sort.Strings(names)
		for _, n := range names {
			fmt.Fprintf(out.Out, "alias %s=%s\n", n, Quote(s.aliases[n]))
		}
		return codeOK, nil
	}
	name, text, has := strings.Cut(words[1], "=")
	if !has {
		quoted := make([]string, 0, len(words))
		for _, w := range words[2:] {
			quoted = append(quoted, Quote(w))
		}
		text = strings.Join(quoted, " ")
	} else if len(words) > 2 {
		return s.misused(words)
	}
	if name == "" || text == "" || builtins[name].run != nil || strings.ContainsAny(name, " -") {
		return s.misused(words)
	}
	s.aliases[name] = text
	return codeOK, nil
}

func runConnect(_ context.Context, s *Session, words []string, _ Streams) (int, error) {
	if len(words) < 2 {
		return s.misused(words)
	}
	return s.choose("namesrv", strings.Join(words[1:], ","))
}

func runContext(_ context.Context, s *Session, words []string, _ Streams) (int, error) {
	if len(words) != 3 {
		return s.misused([]string{"context"})
	}
	return s.choose("context", words[2])
}

// Choose sets a setting that says where the session talks to: context, namesrv.
func (s *Session) Choose(setting, value string) error {
	if err := s.o.Host.Check(setting, value, s.streams()); err != nil {
		return err
	}
	s.vars[s.o.Settings[setting]] = value
	return nil
}

// choose changes where the session talks to: what it knew of the cluster is void.
func (s *Session) choose(setting, value string) (int, error) {
	if err := s.Choose(setting, value); err != nil {
		return s.fail(codeUsage, "BAD_VALUE", "%v", err), nil
	}
	if setting == "context" {
		delete(s.vars, s.o.Settings["namesrv"]) // the context says it
		delete(s.vars, s.o.Settings["cluster"])
	}
	s.focus = Focus{}
	if s.watcher != nil {
		s.watcher.settings(s.streams())
	}
	return codeOK, nil
}

func runClear(_ context.Context, s *Session, _ []string, out Streams) (int, error) {
	if s.onTerminal(out) && !s.o.Dumb {
		_, _ = io.WriteString(out.Out, "\x1b[H\x1b[2J") // a terminal that has gone is noticed at the prompt
	}
	return codeOK, nil
}

func runExit(_ context.Context, s *Session, words []string, _ Streams) (int, error) {
	code := s.status
	if len(words) == 2 {
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 0 || n > 255 {
			return s.misused([]string{"exit"})
		}
		code = n
	} else if len(words) > 2 {
		return s.misused([]string{"exit"})
	}
	s.left = true
	return code, errExit
}

// prefixOf counts the words of a built-in that is followed by another command.
func prefixOf(words []string) int {
	switch {
	case len(words) > 1 && words[0] == "time":
		return 1
	case len(words) > 1 && words[0] == "watch":
		if _, err := time.ParseDuration(words[1]); err == nil && len(words) > 2 {
			return 2
		}
		return 1
	case len(words) > 2 && words[0] == "repeat":
		return 2
	}
	return 0
}

// commandWords are the words of the command itself, without watch, time, repeat.
func commandWords(words []string) []string {
	for {
		n := prefixOf(words)
		if n == 0 {
			return words
		}
		words = slices.Clone(words[n:])
	}
}
