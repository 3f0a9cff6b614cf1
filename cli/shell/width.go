package shell

import "github.com/olekukonko/tablewriter/pkg/twwidth"

// cells is how many columns a text takes.
func cells(s string) int { return twwidth.Width(s) }

// cut shortens a text to some columns; 0 and less cut nothing.
func cut(s string, width int) string {
	if width <= 0 || cells(s) <= width {
		return s
	}
	return twwidth.Truncate(s, width, "…")
}
