package cli

import (
	"fmt"
	"sort"
	"strings"
)

// tasks are what the root help shows: the usual work, not the whole list.
var tasks = []struct {
	title string
	paths []string
}{
	{"run", []string{"broker start", "broker stop", "nameserver start"}},
	{"look", []string{"cluster list", "broker status", "stats offsets", "topic list", "topic status", "group list", "group lag", "client list"}},
	{"master and slave", []string{"stats ha", "stats pull", "check ha", "wait ha", "ha promote", "broker drain", "dev"}},
	{"change", []string{"group set", "topic set", "broker config set", "topic delete", "group delete"}},
	{"messages", []string{"message send", "message tail", "message find"}},
	{"learn", []string{"schema list", "completion", "version"}},
}

// rootHelp is the short help.
func rootHelp() string {
	var b strings.Builder
	b.WriteString("mqctl runs RocketMQ-compatible brokers and nameservers and looks into them.\n\n")
	b.WriteString("usage   mqctl NOUN VERB [flags]        mqctl MQADMIN-NAME [flags]\n\n")
	r := commands()
	for _, t := range tasks {
		b.WriteString(t.title + "\n")
		for _, p := range t.paths {
			if c := r.byPath[p]; c != nil {
				fmt.Fprintf(&b, "  %-20s %s\n", p, c.summary)
			}
		}
	}
	b.WriteString("\nmqctl help NOUN          all commands of a noun: " + strings.Join(builtNouns(r), " ") + "\n")
	b.WriteString("mqctl help mqadmin       the mqadmin names with their modern twins\n")
	b.WriteString("mqctl help output        formats, fields, templates\n")
	b.WriteString("mqctl help names         what broker-a, broker-a/1 and an address mean\n")
	b.WriteString("mqctl help exit-codes    what the exit codes mean\n")
	b.WriteString("mqctl COMMAND --help     flags, examples, exit codes\n")
	return b.String()
}

// builtNouns are the nouns with at least one command that works.
func builtNouns(r *registry) []string {
	var out []string
	for _, noun := range r.nouns[""] {
		for _, c := range r.commands {
			if c.path == noun || strings.HasPrefix(c.path, noun+" ") {
				out = append(out, noun)
				break
			}
		}
	}
	return out
}

// nounHelpText lists the commands below a path.
func nounHelpText(path string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage   mqctl %s VERB [flags]\n\n", path)
	for _, c := range commands().commands {
		if !strings.HasPrefix(c.path, path+" ") {
			continue
		}
		fmt.Fprintf(&b, "  %-28s %s\n", c.path, c.summary)
	}
	return b.String()
}

// oldHelp lists the mqadmin names.
func oldHelp() string {
	var b strings.Builder
	b.WriteString("usage   mqctl NAME [flags]\n\nmqadmin-compatible names, in any case, with mqadmin's letters\n\n")
	r := commands()
	names := append([]string(nil), r.oldNames...)
	sort.Strings(names)
	for _, n := range names {
		c := r.byOld[strings.ToLower(n)]
		twin := c.path
		if twin == "" {
			twin = c.twin
		}
		fmt.Fprintf(&b, "  %-34s %s\n", n, twin)
	}
	return b.String()
}

// commandHelp is the page of one command, examples first.
func commandHelp(c *command, old bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", c.name(old), c.summary)
	if len(c.examples) > 0 {
		b.WriteString("\nexamples\n")
		for _, e := range c.examples {
			b.WriteString("  " + e + "\n")
		}
	}
	args := ""
	if !old && c.args != "" {
		args = " " + c.args
	}
	fmt.Fprintf(&b, "\nusage   mqctl %s%s [flags]\n", c.name(old), args)
	if other := c.name(!old); other != "" && other != c.name(old) {
		fmt.Fprintf(&b, "also    mqctl %s\n", other)
	}
	v := vocabularyOf(c, old)
	own := map[string]bool{}
	for i := range c.flags {
		own[c.flags[i].key] = true
	}
	var mine, common strings.Builder
	for _, f := range v.flags {
		if f.absent || f.arg > 0 && !old {
			continue
		}
		w := &common
		if own[f.key] {
			w = &mine
		}
		writeFlag(w, v, f)
	}
	if mine.Len() > 0 {
		b.WriteString("\nflags\n" + mine.String())
	}
	b.WriteString("\ncommon flags\n" + common.String())
	b.WriteString("\nexit codes\n")
	for _, code := range exitsOf(c) {
		fmt.Fprintf(&b, "  %-3d %s\n", code, exitNames[code])
	}
	if c.schema != "" {
		fmt.Fprintf(&b, "\nJSON   mqctl schema show %s\n", c.schema)
	}
	return b.String()
}

// exitsOf are all codes of a command in order.
func exitsOf(c *command) []int {
	codes := append(append([]int(nil), generalExits...), c.exits...)
	if c.is(local) {
		codes = append([]int{ExitOK, ExitFailed, ExitUsage}, c.exits...)
	}
	sort.Ints(codes)
	var out []int
	for i, code := range codes {
		if i == 0 || code != codes[i-1] {
			out = append(out, code)
		}
	}
	return out
}

func writeFlag(b *strings.Builder, v *vocabulary, f *flagSpec) {
	name, text := flagText(v, f)
	fmt.Fprintf(b, "  %-42s %s\n", name, text)
}

// flagText is how a flag is written, and what it means.
func flagText(v *vocabulary, f *flagSpec) (name, text string) {
	name = v.spelled(f)
	if len(f.also) > 0 && !v.old {
		name = "--" + strings.Join(f.also, ", --") + ", " + name
	}
	o := v.optionOf(f, false)
	if f.key == "help" {
		o.value = false
	}
	if v.old && f.long == "" && f.short == "" {
		o.value = f.kind != kindBool && f.kind != kindOptional
	}
	meta := f.meta
	if meta == "" {
		switch f.kind {
		case kindEnum:
			meta = strings.Join(f.enum, "|")
		case kindBool:
			meta = "BOOL"
		default:
			meta = "VALUE"
		}
	}
	switch {
	case o.optional:
		name += "[=" + meta + "]"
	case o.value:
		name += " " + meta
	case f.negative:
		name += ", --no-" + f.key
	}
	text = f.help
	if v.old && f.required {
		text += " (required)"
	}
	if f.def != "" {
		text += " (default " + f.def + ")"
	}
	if len(f.env) > 0 {
		text += " [" + strings.Join(f.env, ", ") + "]"
	}
	return name, text
}

// helpTopic answers "mqctl help ...".
func helpTopic(io Stdio, words []string) int {
	r := commands()
	path := strings.Join(words, " ")
	if len(words) > 0 {
		if full, ok := nounAlias[words[0]]; ok {
			words[0] = full
			path = strings.Join(words, " ")
		}
	}
	switch {
	case path == "":
		return writeText(io, rootHelp())
	case helpTopics[path] != nil:
		return writeText(io, helpTopics[path]())
	case r.byPath[path] != nil:
		return writeText(io, commandHelp(r.byPath[path], false))
	case r.nouns[path] != nil:
		return writeText(io, nounHelpText(path))
	case r.byOld[strings.ToLower(path)] != nil:
		return writeText(io, commandHelp(r.byOld[strings.ToLower(path)], true))
	}
	return helpUnknown(io, r, path)
}

// nounHelp is for a command line that names no command: the help that was asked
// for, or a usage error.
func nounHelp(io Stdio, l *line) int {
	text := rootHelp()
	switch {
	case l.noun != "":
		text = nounHelpText(l.noun)
	case l.mqadmin:
		text = oldHelp()
	}
	if l.help {
		return writeText(io, text)
	}
	fmt.Fprint(io.Err, text)
	return ExitUsage
}
