package cli

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// printTable writes the table form: with head and foot lines on a terminal,
// bare rows of words in a pipe.
func (p *printer) printTable(r *result) {
	if r.text != nil {
		for _, line := range r.text {
			p.printf("%s\n", line)
		}
		return
	}
	if p.style.terminal && p.view.people != nil && len(p.fields) == 0 {
		p.view.people(p, r)
		return
	}
	if !p.style.terminal && p.view.piped != nil && len(p.fields) == 0 {
		p.view.piped(p, r)
		return
	}
	if p.style.terminal && p.view.head != nil {
		p.view.head(p, r)
	}
	if len(r.items) > 0 {
		p.rows(p.columns(), r.items)
	}
	if p.style.terminal && p.view.foot != nil {
		p.view.foot(p, r)
	}
}

// columns are those of the view that the flags leave.
func (p *printer) columns() []column {
	if len(p.fields) > 0 {
		out := make([]column, len(p.fields))
		for i, f := range p.fields {
			out[i] = p.columnOf(f)
		}
		return out
	}
	var out []column
	for _, c := range p.view.columns {
		if !c.wide || p.format == "wide" {
			out = append(out, c)
		}
	}
	return out
}

// columnOf finds the column of a JSON field, or makes a plain one.
func (p *printer) columnOf(name string) column {
	for _, c := range p.view.columns {
		if c.field == name {
			return c
		}
	}
	return column{head: strings.ToUpper(name), field: name, as: formatOf(name)}
}

// formatOf is how a field is shown whose name tells its unit.
func formatOf(name string) format {
	for suffix, f := range map[string]format{"Bytes": asBytes, "Millis": asMillis, "PerSecond": asRate, "Percent": asPercent, "At": asTime} {
		if strings.HasSuffix(name, suffix) {
			return f
		}
	}
	return asText
}

// numeric reports whether all that is known of a field is numbers.
func numeric(items []any, field string) bool {
	some := false
	for _, item := range items {
		v := lookup(item, field)
		if v == nil {
			continue
		}
		if rv := reflect.ValueOf(v); !rv.CanInt() && !rv.CanUint() && !rv.CanFloat() {
			return false
		}
		some = true
	}
	return some
}

// rows renders items, dropping foldable columns while the terminal is too narrow.
func (p *printer) rows(columns []column, items []any) {
	for {
		text := p.grid(columns, items)
		if !p.style.terminal || p.style.width <= 0 || p.format == "wide" || widest(text) <= p.style.width {
			p.write(text)
			return
		}
		worst := -1
		for i, c := range columns {
			if c.fold > 0 && (worst < 0 || c.fold >= columns[worst].fold) {
				worst = i
			}
		}
		if worst < 0 {
			p.write(text)
			return
		}
		columns = append(append([]column(nil), columns[:worst]...), columns[worst+1:]...)
	}
}

func widest(text []byte) int {
	most := 0
	for line := range bytes.Lines(text) {
		most = max(most, twwidth.Width(strings.TrimRight(string(line), "\n")))
	}
	return most
}

// grid is the text of a table. Widths follow the content; names are never cut.
func (p *printer) grid(columns []column, items []any) []byte {
	heads := make([]string, len(columns))
	aligns := make([]tw.Align, len(columns))
	for i, c := range columns {
		heads[i] = c.head
		if !p.style.terminal {
			heads[i] = strings.ReplaceAll(c.head, " ", "_")
		}
		aligns[i] = tw.AlignLeft
		if c.as.right() || c.as == asText && numeric(items, c.field) {
			aligns[i] = tw.AlignRight
		}
	}
	rows := make([][]string, len(items))
	for i, item := range items {
		rows[i] = make([]string, len(columns))
		for j, c := range columns {
			rows[i][j] = p.style.cell(lookup(item, c.field), c.as)
			if r := []rune(rows[i][j]); p.style.terminal && c.cut > 0 && len(r) > c.cut && p.format != "wide" {
				rows[i][j] = string(r[:c.cut]) + "..."
			}
		}
	}
	if !p.headers {
		heads = nil
	}
	return grid(heads, rows, aligns, p.style.bold)
}

func widestRow(rows [][]string) int {
	n := 0
	for _, r := range rows {
		n = max(n, len(r))
	}
	return n
}

// manyRows is from where on tables are aligned here: tablewriter takes longer for
// the 460 settings of a broker than the broker, the network and all else together.
const manyRows = 60

// longGrid is the text that grid makes of rows of single lines, in a tenth of the time.
func longGrid(heads []string, rows [][]string, aligns []tw.Align, paint func(string) string) []byte {
	if heads != nil {
		rows = slices.Concat([][]string{heads}, rows)
	}
	widths := make([]int, len(aligns))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], cellWidth(text))
		}
	}
	blanks := strings.Repeat(" ", slices.Max(append(widths, 0))+2)
	var out bytes.Buffer
	var line []byte
	for n, row := range rows {
		line = line[:0]
		for i, text := range row {
			free := blanks[:widths[i]-cellWidth(text)]
			if aligns[i] == tw.AlignRight {
				line = append(append(line, free...), text...)
			} else {
				line = append(append(line, text...), free...)
			}
			line = append(line, blanks[:2]...)
		}
		line = bytes.TrimRight(line, " ")
		if n == 0 && heads != nil {
			out.WriteString(paint(string(line)))
		} else {
			out.Write(line)
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// cellWidth is how many columns of a terminal a text takes.
func cellWidth(text string) int {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return twwidth.Width(text)
		}
	}
	return len(text)
}

// grid renders rows with two blanks between the columns and no lines at all.
func grid(heads []string, rows [][]string, aligns []tw.Align, paint func(string) string) []byte {
	if aligns == nil {
		aligns = make([]tw.Align, max(len(heads), widestRow(rows)))
		for i := range aligns {
			aligns[i] = tw.AlignLeft
		}
	}
	if len(rows) > manyRows {
		return longGrid(heads, rows, aligns, paint)
	}
	var b bytes.Buffer
	pad := tw.CellPadding{Global: tw.Padding{Left: "", Right: "  ", Overwrite: true}}
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoFormat: tw.Off, AutoWrap: tw.WrapNone},
		Padding:    pad,
		Alignment:  tw.CellAlignment{PerColumn: aligns},
	}
	t := tablewriter.NewTable(&b,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone, Symbols: tw.NewSymbols(tw.StyleNone),
			Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
		})),
		tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell, Behavior: tw.Behavior{TrimSpace: tw.Off}}),
	)
	if heads != nil {
		t.Header(heads)
	}
	if err := t.Bulk(rows); err != nil {
		return []byte(fmt.Sprintf("table: %v\n", err))
	}
	if err := t.Render(); err != nil {
		return []byte(fmt.Sprintf("table: %v\n", err))
	}
	var out bytes.Buffer
	first := heads != nil
	for line := range bytes.Lines(b.Bytes()) {
		text := strings.TrimRight(string(line), " \n")
		if first {
			text, first = paint(text), false
		}
		out.WriteString(text)
		out.WriteByte('\n')
	}
	return out.Bytes()
}
