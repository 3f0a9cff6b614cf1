package top

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
)

// Only this file and run.go know how things are drawn.

// paint colours a text by what it means.
func (m *Model) paint(mark, text string) string {
	if !m.o.Colour {
		return text
	}
	code := map[string]string{"bad": "1;31", "warn": "33", "good": "32", "dim": "2", "bold": "1", "cursor": "7", "red": "31", "yellow": "33", "green": "32", "cyan": "36", "blue": "34", "magenta": "35"}[mark]
	if code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// fit cuts or fills a text to some columns.
func fit(s string, width int, right bool) string {
	w := lipgloss.Width(s)
	if w > width {
		return cutTo(s, width)
	}
	pad := strings.Repeat(" ", width-w)
	if right {
		return pad + s
	}
	return s + pad
}

// cutTo shortens a text without colours.
func cutTo(s string, width int) string {
	if width <= 0 {
		return ""
	}
	w := 0
	for i, r := range s {
		n := lipgloss.Width(string(r))
		if w+n > width {
			return s[:i]
		}
		w += n
	}
	return s
}

// signs of a sparkline, the lowest first.
var (
	signsUTF8  = []rune("▁▂▃▄▅▆▇█")
	signsASCII = []rune("_.-=+*#@")
)

// spark draws values as one sign each, scaled to the largest.
func (m *Model) spark(values []float64) string {
	signs := signsASCII
	if m.o.UTF8 {
		signs = signsUTF8
	}
	top := 1.0
	for _, v := range values {
		top = max(top, v)
	}
	var b strings.Builder
	for _, v := range values {
		b.WriteRune(signs[int(max(0, v)/top*float64(len(signs)-1))])
	}
	return b.String()
}

// visible is how many rows fit.
func (m *Model) visible() int { return max(1, m.height-9) }

// View draws the whole screen.
func (m *Model) View() string {
	if m.quit {
		return ""
	}
	lines := m.top()
	if m.page != nil {
		lines = append(lines, m.pageLines()...)
	} else {
		lines = append(lines, m.table()...)
	}
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines[:min(len(lines), max(1, m.height-2))], m.footer()...)
	return strings.Join(lines, "\n")
}

// top is the head: who, how much, how it went, the panels.
func (m *Model) top() []string {
	if m.frame == nil {
		return []string{" asking ...", "", "", "", m.tabs(), ""}
	}
	f := m.frame
	var who []string
	for _, s := range []*string{f.Context, f.Cluster} {
		if s != nil {
			who = append(who, *s)
		}
	}
	state, mark := "live", "good"
	switch {
	case m.paused:
		state, mark = "paused", "warn"
	case f.Problem != nil:
		state, mark = "no nameserver", "bad"
	}
	dot := "* "
	if m.o.UTF8 {
		dot = "● "
	}
	left := " " + strings.Join(who, m.dot())
	right := fmt.Sprintf("%s   every %s   ", f.at.Format("15:04:05"), m.o.Every)
	if lipgloss.Width(left+right+dot+state)+1 > m.width {
		right = ""
	}
	state = cutTo(state, m.width-lipgloss.Width(right+dot)-1)
	head := fit(left, max(0, m.width-lipgloss.Width(right)-lipgloss.Width(dot+state)-1), false) + right + m.paint(mark, dot+state)
	if m.o.Accent != "" {
		head = m.paint(m.o.Accent, head)
	}
	spark := max(5, (m.width-20)/2)
	return []string{
		head, m.sums(),
		cutTo(" in  "+fit(m.spark(m.totalIn.last(spark)), spark, false)+"   gap "+m.spark(m.worstGap.last(spark)), m.width),
		strings.Repeat(m.rule(), m.width), m.tabs(), "",
	}
}

func (m *Model) dot() string {
	if m.o.UTF8 {
		return " · "
	}
	return " - "
}

func (m *Model) rule() string {
	if m.o.UTF8 {
		return "─"
	}
	return "-"
}

// sums is the second line.
func (m *Model) sums() string {
	f := m.frame
	parts := []string{"in " + number(f.InPerSecond) + "/s"}
	if f.InBytes != nil {
		n := int64(*f.InBytes)
		parts[0] += "  " + bytesText(&n) + "/s"
	}
	parts = append(parts, "out "+number(f.OutPerSecond)+"/s")
	if f.PutP99 != nil {
		parts = append(parts, "put p99 "+number(f.PutP99)+" ms")
	}
	if f.Lag != nil {
		lag := float64(*f.Lag)
		parts = append(parts, "lag "+number(&lag))
	}
	if f.WorstGap != nil {
		parts = append(parts, "worst gap "+bytesText(f.WorstGap))
	}
	down := ""
	switch {
	case f.Down == 1:
		down = "   1 broker down"
	case f.Down > 1:
		down = fmt.Sprintf("   %d brokers down", f.Down)
	}
	down = cutTo(down, m.width)
	whole := fold(parts[1:], "", "   ", m.width-len(down)-lipgloss.Width(parts[0])-4)
	return cutTo(" "+strings.TrimRight(parts[0]+"   "+whole, " "), m.width-len(down)) + m.paint("bad", down)
}

// tabs are the panels; where there is no room only the present one has its name.
func (m *Model) tabs() string {
	full, short := make([]string, 0, len(Panels)), make([]string, 0, len(Panels))
	for i, name := range Panels {
		text := fmt.Sprintf("%d %s", i+1, name)
		if i == m.panel {
			full, short = append(full, "["+text+"]"), append(short, "["+text+"]")
			continue
		}
		full, short = append(full, text), append(short, fmt.Sprint(i+1))
	}
	line := strings.Join(full, "  ")
	if lipgloss.Width(line) > m.width {
		line = strings.Join(short, "  ")
	}
	return cutTo(line, m.width)
}

// table is the rows of the panel with the cursor in view.
func (m *Model) table() []string {
	p := panels[m.panelName()]
	rows := m.rows()
	at, n := m.place(rows), m.visible()
	m.offset = max(0, min(m.offset, at, len(rows)-n))
	if at >= m.offset+n {
		m.offset = at - n + 1
	}
	shown := rows[m.offset:min(len(rows), m.offset+n)]
	widths := m.widths(p.heads, shown)
	out := []string{m.paint("dim", m.line(p.heads, widths, func(i int) string { return m.headText(p.heads[i], i) }, " "))}
	for i, r := range shown {
		sign := " "
		if m.offset+i == at {
			sign = m.cursorSign()
		}
		out = append(out, m.paint(r.mark, m.line(p.heads, widths, func(j int) string { return m.cell(r.cells[j]) }, sign)))
	}
	if len(rows) == 0 {
		out = append(out, cutTo(" "+m.nothing(), m.width))
	}
	return out
}

// cell replaces signs that the terminal may not have.
func (m *Model) cell(s string) string {
	if m.o.UTF8 {
		return s
	}
	return strings.ReplaceAll(s, none, "-")
}

func (m *Model) headText(h head, i int) string {
	switch m.sortBy[m.panelName()] {
	case i + 1:
		return h.name + "^"
	case -i - 1:
		return h.name + "v"
	}
	return h.name
}

func (m *Model) cursorSign() string {
	if m.o.UTF8 {
		return "▸"
	}
	return ">"
}

// nothing is why there are no rows.
func (m *Model) nothing() string {
	switch {
	case m.frame == nil:
		return ""
	case m.filter != "":
		return "nothing passes the filter " + m.filter
	case m.frame.Problem != nil:
		return cutTo(*m.frame.Problem, m.width-2)
	}
	return map[string]string{
		"groups": "no group has a position yet", "topics": "no topic is consumed yet", "ha": "no slave is connected or registered",
		"pull": "no broker tells what it suggested: ours do, when somebody pulls", "clients": "no client is connected", "events": "nothing has changed since this view was opened",
	}[m.panelName()]
}

// widths are those of the columns; 0 is one that was folded away.
func (m *Model) widths(heads []head, rows []row) []int {
	out := make([]int, len(heads))
	for i, h := range heads {
		out[i] = lipgloss.Width(h.name) + 1
		for _, r := range rows {
			out[i] = max(out[i], lipgloss.Width(r.cells[i]))
		}
	}
	for {
		sum, last := 1, -1
		for i, h := range heads {
			if out[i] == 0 {
				continue
			}
			sum += out[i] + 2
			if h.fold > 0 && (last < 0 || h.fold > heads[last].fold) {
				last = i
			}
		}
		if sum <= m.width+2 || last < 0 {
			return out
		}
		out[last] = 0
	}
}

func (m *Model) line(heads []head, widths []int, text func(i int) string, sign string) string {
	var b strings.Builder
	b.WriteString(sign)
	first := true
	for i, h := range heads {
		if widths[i] == 0 {
			continue
		}
		if !first {
			b.WriteString("  ")
		}
		first = false
		b.WriteString(fit(text(i), widths[i], h.right))
	}
	return cutTo(strings.TrimRight(b.String(), " "), m.width)
}

// pageLines are the visible lines of a page.
func (m *Model) pageLines() []string {
	n := m.visible() + 1
	m.pageAt = max(0, min(m.pageAt, len(m.page)-n))
	var out []string
	for _, l := range m.page[m.pageAt:min(len(m.page), m.pageAt+n)] {
		out = append(out, cutTo(" "+strings.Map(printable, l), m.width))
	}
	return out
}

// printable keeps what brokers say from moving the cursor.
func printable(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return '?'
	}
	return r
}

// footer is what was just said, and the keys.
func (m *Model) footer() []string {
	text := m.said
	switch {
	case m.pending != nil:
		text = "mqctl " + strings.Join(m.pending, " ") + "   run it? y/N"
	case m.filtering:
		text = "filter: " + m.filter + "_"
	case text == "" && m.filter != "":
		text = "filter: " + m.filter + "   Esc ends it"
	case text == "":
		text = m.about()
	}
	keys := []string{"/ filter", "s sort", "Enter detail", "p pause", "x export", "y command"}
	if !m.o.ReadOnly && m.o.Command != nil {
		keys = []string{"/ filter", "s sort", "Enter detail", "w slow-group switch", "d drain", "p pause", "x export", "y command"}
	}
	return []string{cutTo(" "+text, m.width), m.paint("dim", cutTo(" "+fold(keys, "? keys  q quit", "  ", m.width-1), m.width))}
}

// fold joins as many parts as there is room for beside last, which is always there.
func fold(parts []string, last, between string, width int) string {
	line := ""
	for _, p := range parts {
		if lipgloss.Width(line+p+between+last) > width {
			break
		}
		line += p + between
	}
	return line + last
}

// about is a line on the broker under the cursor.
func (m *Model) about() string {
	r, ok := m.current()
	b, is := r.item.(Broker)
	if !ok || !is || m.page != nil {
		return ""
	}
	run := m.frame.runs[b.Name()]
	if run == nil {
		return ""
	}
	text := b.Name() + "  " + b.Addr
	if b.MaxOffset != nil {
		text += fmt.Sprintf("  commit log %d", *b.MaxOffset)
	}
	if v := run["mqctlVersion"]; v != "" {
		text += "  mqctl " + v
	} else if v := run["brokerVersionDesc"]; v != "" {
		text += "  " + v
	}
	return strings.Map(printable, text)
}

// keysPage lists the keys.
func (m *Model) keysPage() []string {
	out := []string{
		"1 ... 7, Tab       panels", "Up Down PgUp PgDn  rows", "Enter              detail of a row, and back", "/                  filter by a text; Esc ends it",
		"s, r               sort by the next column, reverse", "p                  pause", "x                  write the visible rows to a JSON and a CSV file",
		"y                  show and copy the command that shows the same",
	}
	if !m.o.ReadOnly && m.o.Command != nil {
		out = append(out, "w                  switch the slow reads of a group between master and slave", "d                  drain a broker")
	}
	return append(out, "q, Ctrl-C          quit")
}

// copyText hands a text to the terminal's clipboard, where it has one.
func (m *Model) copyText(s string) tea.Cmd {
	if m.o.Raw == nil {
		return nil
	}
	return func() tea.Msg {
		m.o.Raw("\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(s)) + "\x07")
		return nil
	}
}

// Text is one frame without a terminal: the head and all rows of a panel.
func Text(f *Frame, o Options, width int) string {
	m := NewModel(context.Background(), o)
	m.width, m.height = width, 1<<20
	m.take(f)
	lines := append(m.top(), m.table()...)
	return strings.Join(lines, "\n") + "\n"
}
