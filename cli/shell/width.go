package shell

import "github.com/mattn/go-runewidth"

// cells is how many columns a text takes.
func cells(s string) int { return runewidth.StringWidth(s) }

// cut shortens a text to some columns; 0 and less cut nothing.
func cut(s string, width int) string {
	if width <= 0 || cells(s) <= width {
		return s
	}
	return runewidth.Truncate(s, width, "…")
}
