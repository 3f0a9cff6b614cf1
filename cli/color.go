package cli

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/fatih/color"
	"golang.org/x/sys/unix"
)

// style is how text looks on one stream.
type style struct {
	terminal bool
	width    int // columns; 0 is unknown
	utf8     bool
	units    string
	time     string
	now      time.Time

	red, yellow, green, cyan, bold, dim func(string) string
}

// paints says whether colours are in use.
func (s *style) paints() bool { return s.bold != nil && s.bold("x") != "x" }

// newStyle looks at one stream by itself. choice is --color or MQCTL_COLOR.
func newStyle(w io.Writer, choice string, env func(string) string) style {
	s := style{now: time.Now(), utf8: localeUTF8(env)}
	if f, ok := w.(*os.File); ok {
		s.terminal, s.width = terminal(f)
	}
	paint := func(a ...color.Attribute) func(string) string {
		c := color.New(a...)
		if s.colours(choice, env) {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		return func(text string) string { return c.Sprint(text) }
	}
	s.red, s.yellow, s.green = paint(color.FgRed, color.Bold), paint(color.FgYellow), paint(color.FgGreen)
	s.cyan, s.bold, s.dim = paint(color.FgCyan), paint(color.Bold), paint(color.Faint)
	return s
}

// colourWish names the variable by which the environment asks for colours or for
// none; "" if it does not.
func colourWish(env func(string) string) string {
	for _, name := range []string{"FORCE_COLOR", "CLICOLOR_FORCE", "NO_COLOR"} {
		if env(name) != "" {
			return name
		}
	}
	if env("TERM") == "dumb" {
		return "TERM"
	}
	return ""
}

// colourChoice is --color or MQCTL_COLOR, else what the environment wishes, which
// newStyle looks up, else what the client file says.
func (c *call) colourChoice() string {
	if !c.given("color") && c.io.Env("MQCTL_COLOR") == "" && colourWish(c.io.Env) != "" {
		return "auto"
	}
	return c.str("color")
}

// colours decides by --color, MQCTL_COLOR, FORCE_COLOR, NO_COLOR, terminal, in
// this order.
func (s *style) colours(choice string, env func(string) string) bool {
	switch choice {
	case "always":
		return true
	case "never":
		return false
	}
	if env("FORCE_COLOR") != "" || env("CLICOLOR_FORCE") != "" {
		return true
	}
	if env("NO_COLOR") != "" || env("TERM") == "dumb" {
		return false
	}
	return s.terminal
}

// terminal reports whether f is one, and its width in columns.
func terminal(f *os.File) (bool, int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return false, 0
	}
	return true, int(size.Col)
}

// localeUTF8 reports whether arrows and such may be printed.
func localeUTF8(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := env(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// arrow is the sign between before and after.
func (s *style) arrow() string {
	if s.utf8 {
		return "→"
	}
	return "->"
}
