package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func genCommands() []*command {
	out := flagSpec{key: "out", meta: "DIR", complete: "file", help: "one file for each command in this folder, instead of all on stdout"}
	return []*command{
		{path: "gen man", summary: "manual pages of all commands", attrs: local, run: runGenMan, flags: []flagSpec{out},
			examples: []string{"mqctl gen man --out /usr/local/share/man/man1", "mqctl gen man | man -l -"}},
		{path: "gen markdown", summary: "the manual as Markdown", attrs: local, run: runGenMarkdown, flags: []flagSpec{out},
			examples: []string{"mqctl gen markdown > commands.md", "mqctl gen markdown --out docs"}},
	}
}

func runGenMan(_ context.Context, c *call) (*result, error) {
	dir := c.str("out")
	if dir == "" {
		return c.generate(".1", manPage)
	}
	r, err := c.generate(".1", manPage)
	if err != nil {
		return r, err
	}
	more := map[string]string{"mqctl": manRoot()}
	for _, cmd := range commands().commands {
		if cmd.old != "" && cmd.path != "" {
			more["mqctl-"+cmd.old] = ".so man1/" + pageName(cmd) + ".1\n"
		}
	}
	for _, name := range sortedKeys(more) {
		if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(more[name]), 0o644); err != nil {
			return nil, fail(ExitFailed, "NOT_WRITTEN", "cannot write the page: %v", err)
		}
	}
	return r, nil
}

func runGenMarkdown(_ context.Context, c *call) (*result, error) {
	return c.generate(".md", markdownPage)
}

// generate writes the page of each command that there is, in both vocabularies
// where a command has only one name, else in the modern one.
func (c *call) generate(ext string, page func(*command) string) (*result, error) {
	dir := c.str("out")
	var all strings.Builder
	if dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fail(ExitFailed, "BAD_FOLDER", "cannot make the folder: %v", err)
		}
	}
	for _, cmd := range commands().commands {
		text := page(cmd)
		if dir == "" {
			all.WriteString(text)
			continue
		}
		path := filepath.Join(dir, pageName(cmd)+ext)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, fail(ExitFailed, "NOT_WRITTEN", "cannot write the page: %v", err)
		}
	}
	return &result{raw: []byte(all.String())}, nil
}

// pageName is mqctl-group-set.
func pageName(c *command) string {
	return "mqctl-" + strings.ReplaceAll(c.name(c.path == ""), " ", "-")
}

// roff protects what a line of a manual page must not begin with or contain.
func roff(s string) string {
	s = strings.NewReplacer("\\", "\\e", "-", "\\-").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = "\\&" + s
	}
	return s
}

// manPage is the help of a command as a page of section 1.
func manPage(c *command) string {
	old := c.path == ""
	var b strings.Builder
	fmt.Fprintf(&b, "%s.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B mqctl %s\n%s [flags]\n",
		manHead(pageName(c)), roff(pageName(c)), roff(c.summary), roff(c.name(old)), roff(c.args))
	if c.old != "" && !old {
		fmt.Fprintf(&b, ".PP\nmqadmin's name: %s\n", roff(c.old))
	}
	if len(c.examples) > 0 {
		b.WriteString(".SH EXAMPLES\n.nf\n")
		for _, e := range c.examples {
			b.WriteString(roff(e) + "\n")
		}
		b.WriteString(".fi\n")
	}
	own, common := flagLines(c, old)
	manList(&b, "OPTIONS", own)
	if c.old != "" && !old {
		theirs, _ := flagLines(c, true)
		manList(&b, "OPTIONS OF "+c.old, theirs)
	}
	manList(&b, "COMMON OPTIONS", common)
	manList(&b, "EXIT STATUS", exitLines(exitsOf(c)))
	if c.schema != "" {
		fmt.Fprintf(&b, ".SH OUTPUT\nmqctl schema show %s\n", roff(c.schema))
	}
	b.WriteString(".SH SEE ALSO\n.BR mqctl (1)\n")
	return b.String()
}

// manHead is the first line of a page: its name, the day of the build and the version.
func manHead(name string) string {
	v := versionOf()
	day := ""
	if v.BuiltAt != nil {
		day, _, _ = strings.Cut(*v.BuiltAt, "T")
	}
	return fmt.Sprintf(".TH %s 1 \"%s\" \"mqctl %s\" \"mqctl\"\n", strings.ToUpper(roff(name)), day, roff(v.Version))
}

// manList is a section of words and what they mean.
func manList(b *strings.Builder, title string, lines [][2]string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", roff(title))
	for _, l := range lines {
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(l[0]), roff(l[1]))
	}
}

func exitLines(codes []int) (lines [][2]string) {
	for _, code := range codes {
		lines = append(lines, [2]string{strconv.Itoa(code), exitNames[code]})
	}
	return lines
}

// manRoot is the page of mqctl itself: what there is, and where it is described.
func manRoot() string {
	var b strings.Builder
	b.WriteString(manHead("mqctl") + ".SH NAME\nmqctl \\- RocketMQ\\-compatible brokers and nameservers, and the tool that looks into them\n" +
		".SH SYNOPSIS\n.B mqctl\nNOUN VERB [flags]\n.PP\n.B mqctl\nMQADMIN\\-NAME [flags]\n" +
		".SH DESCRIPTION\nOn a terminal and without arguments it is a shell. Each command has a page of its own, mqctl\\-NOUN\\-VERB, under mqadmin's name too.\n")
	var modern, old [][2]string
	r := commands()
	for _, c := range r.commands {
		if c.path != "" {
			modern = append(modern, [2]string{"mqctl " + strings.TrimSpace(c.path+" "+c.args), c.summary})
		}
	}
	for _, name := range slices.Sorted(slices.Values(r.oldNames)) {
		c := r.byOld[strings.ToLower(name)]
		twin := c.twin
		if c.path != "" {
			twin = c.path
		}
		old = append(old, [2]string{"mqctl " + name, c.summary + ": mqctl " + twin})
	}
	manList(&b, "COMMANDS", modern)
	manList(&b, "MQADMIN'S NAMES", old)
	var env [][2]string
	for i := range commonFlags {
		f := &commonFlags[i]
		for _, name := range f.env {
			env = append(env, [2]string{name, "as --" + f.key + ": " + f.help})
		}
	}
	manList(&b, "ENVIRONMENT", env)
	manList(&b, "EXIT STATUS", exitLines(slices.Sorted(maps.Keys(exitNames))))
	return b.String()
}

// flagLines are flags and what they mean: the command's own, and the common ones.
func flagLines(c *command, old bool) (own, common [][2]string) {
	mine := map[string]bool{}
	for i := range c.flags {
		mine[c.flags[i].key] = true
	}
	v := vocabularyOf(c, old)
	for _, f := range v.flags {
		if f.absent || f.arg > 0 && !old {
			continue
		}
		name, text := flagText(v, f)
		if mine[f.key] {
			own = append(own, [2]string{name, text})
		} else {
			common = append(common, [2]string{name, text})
		}
	}
	return own, common
}

// markdownPage is the help of a command as a section.
func markdownPage(c *command) string {
	old := c.path == ""
	var b strings.Builder
	fmt.Fprintf(&b, "## mqctl %s\n\n%s\n\n", strings.TrimSpace(c.name(old)+" "+strings.ReplaceAll(c.args, "|", "\\|")), c.summary)
	if c.old != "" && !old {
		fmt.Fprintf(&b, "mqadmin's name: `%s`\n\n", c.old)
	}
	if len(c.examples) > 0 {
		b.WriteString("```sh\n" + strings.Join(c.examples, "\n") + "\n```\n\n")
	}
	own, common := flagLines(c, old)
	if len(own) > 0 {
		b.WriteString("| Flag | Meaning |\n|---|---|\n")
		for _, l := range own {
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(l[0], "|", "\\|"), strings.ReplaceAll(l[1], "|", "\\|"))
		}
		b.WriteString("\n")
	}
	if c.old != "" && !old {
		theirs, _ := flagLines(c, true)
		markdownNames(&b, "Options of `"+c.old+"`", theirs)
	}
	markdownNames(&b, "Common flags", common)
	var codes []string
	for _, code := range exitsOf(c) {
		codes = append(codes, fmt.Sprintf("%d %s", code, exitNames[code]))
	}
	b.WriteString("Exit status: " + strings.Join(codes, "; ") + "\n\n")
	return b.String()
}

// markdownNames is a line of flags without what they mean.
func markdownNames(b *strings.Builder, title string, lines [][2]string) {
	if len(lines) == 0 {
		return
	}
	var names []string
	for _, l := range lines {
		names = append(names, "`"+l[0]+"`")
	}
	b.WriteString(title + ": " + strings.Join(names, ", ") + "\n\n")
}
