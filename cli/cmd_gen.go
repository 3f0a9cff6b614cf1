package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	return c.generate(".1", manPage)
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
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"mqctl %s\" \"mqctl\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B mqctl %s\n%s [flags]\n",
		strings.ToUpper(roff(pageName(c))), roff(versionOf().Version), roff(pageName(c)), roff(c.summary), roff(c.name(old)), roff(c.args))
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
	for _, part := range []struct {
		title string
		lines [][2]string
	}{{"OPTIONS", own}, {"COMMON OPTIONS", common}} {
		if len(part.lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, ".SH %s\n", part.title)
		for _, l := range part.lines {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(l[0]), roff(l[1]))
		}
	}
	b.WriteString(".SH EXIT STATUS\n")
	for _, code := range exitsOf(c) {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", code, roff(exitNames[code]))
	}
	if c.schema != "" {
		fmt.Fprintf(&b, ".SH OUTPUT\nmqctl schema show %s\n", roff(c.schema))
	}
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
	var names []string
	for _, l := range common {
		names = append(names, "`"+l[0]+"`")
	}
	if len(names) > 0 {
		b.WriteString("Common flags: " + strings.Join(names, ", ") + "\n\n")
	}
	var codes []string
	for _, code := range exitsOf(c) {
		codes = append(codes, fmt.Sprintf("%d %s", code, exitNames[code]))
	}
	b.WriteString("Exit status: " + strings.Join(codes, "; ") + "\n\n")
	return b.String()
}
