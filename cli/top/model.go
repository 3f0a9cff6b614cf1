package top

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// Options of a view.
type Options struct {
	Collect  func(ctx context.Context) *Frame
	Every    time.Duration // between two refreshes
	Panel    string
	ReadOnly bool   // no keys that change anything
	Colour   bool   // escape sequences for colours
	UTF8     bool   // signs beyond ASCII
	Accent   string // of the head line: red on protected contexts
	// Command runs a command line of mqctl in the foreground, for the keys that
	// change something; words come without "mqctl".
	Command func(words []string) tea.ExecCommand
	Dir     string                // where x writes files
	Raw     func(sequence string) // writes an escape sequence; nil: the terminal has none
}

// Model is the live view: bubbletea's model, usable without a terminal.
type Model struct {
	o             Options
	ctx           context.Context
	frame         *Frame
	asking        bool
	width, height int
	panel         int
	cursor        string // name of the row under it
	at            int    // its place when the name has gone
	offset        int
	filter        string
	filtering     bool
	sortBy        map[string]int // by panel: column + 1, below 0: downwards, 0: as it comes
	paused        bool
	page          []string // detail or keys, instead of the rows
	pageAt        int
	pageOf        *row // the row that the page is about
	said          string
	pending       []string // command that waits for y
	series        map[string]*series
	totalIn       ring
	worstGap      ring
	history       []Event
	quit          bool
}

// series are the samples of one replica.
type series struct{ in, out, gap ring }

// mostEvents bounds what the panel of events remembers.
const mostEvents = 1000

// NewModel makes a view that has not been asked anything yet.
func NewModel(ctx context.Context, o Options) *Model {
	m := &Model{o: o, ctx: ctx, width: 80, height: 24, sortBy: map[string]int{}, series: map[string]*series{}}
	for i, name := range Panels {
		if name == o.Panel {
			m.panel = i
		}
	}
	return m
}

type (
	frameMsg struct{ f *Frame }
	tickMsg  struct{}
	doneMsg  struct{ err error }
)

// Init begins the first refresh.
func (m *Model) Init() tea.Cmd { return m.refresh() }

func (m *Model) refresh() tea.Cmd {
	if m.asking {
		return nil
	}
	m.asking = true
	return func() tea.Msg { return frameMsg{m.o.Collect(m.ctx)} }
}

func (m *Model) tick() tea.Cmd {
	return tea.Tick(m.o.Every, func(time.Time) tea.Msg { return tickMsg{} })
}

// Update takes one message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(20, msg.Width), max(6, msg.Height)
	case frameMsg:
		m.asking = false
		m.take(msg.f)
		return m, m.tick()
	case tickMsg:
		if m.paused {
			return m, m.tick()
		}
		return m, m.refresh()
	case doneMsg:
		m.said = "the command has ended"
		if msg.err != nil {
			m.said = msg.err.Error()
		}
	case tea.KeyMsg:
		return m, m.keys(msg)
	}
	return m, nil
}

// keys handles what was typed: on a slow link several keys come at once, and Esc
// with another one behind it looks like Alt.
func (m *Model) keys(k tea.KeyMsg) tea.Cmd {
	if k.Alt && !k.Paste {
		k.Alt = false
		return tea.Batch(m.key(tea.KeyMsg{Type: tea.KeyEsc}), m.keys(k))
	}
	if k.Type != tea.KeyRunes || k.Paste || k.Alt || m.filtering {
		return m.key(k)
	}
	var all []tea.Cmd
	for _, r := range k.Runes {
		all = append(all, m.key(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}}))
	}
	return tea.Batch(all...)
}

// take keeps a frame and its samples.
func (m *Model) take(f *Frame) {
	m.frame = f
	for i := range f.Brokers {
		b := &f.Brokers[i]
		s := m.series[b.Name()]
		if s == nil {
			s = &series{}
			m.series[b.Name()] = s
		}
		s.in.add(value(b.InPerSecond))
		s.out.add(value(b.OutPerSecond))
		if b.GapBytes != nil {
			s.gap.add(float64(*b.GapBytes))
		}
	}
	m.totalIn.add(value(f.InPerSecond))
	if f.WorstGap != nil {
		m.worstGap.add(float64(*f.WorstGap))
	} else {
		m.worstGap.add(0)
	}
	m.history = append(m.history, f.Events...)
	if n := len(m.history); n > mostEvents {
		m.history = append([]Event(nil), m.history[n-mostEvents:]...)
	}
	if m.pageOf != nil {
		for _, r := range m.rows() {
			if r.name == m.pageOf.name {
				m.page = m.detail(r)
			}
		}
	}
}

func (m *Model) panelName() string { return Panels[m.panel] }

// rows are those of the panel that pass the filter, in the chosen order.
func (m *Model) rows() []row {
	if m.frame == nil {
		return nil
	}
	var out []row
	for _, r := range panels[m.panelName()].rows(m.frame, m.history) {
		if m.filter == "" || strings.Contains(strings.ToLower(strings.Join(r.cells, " ")), strings.ToLower(m.filter)) {
			out = append(out, r)
		}
	}
	if by := m.sortBy[m.panelName()]; by != 0 {
		col, down := by, by < 0
		if down {
			col = -by
		}
		sort.SliceStable(out, func(i, j int) bool {
			if down {
				i, j = j, i
			}
			return less(out[i].order[col-1], out[j].order[col-1])
		})
	}
	return out
}

func less(a, b any) bool {
	if x, ok := a.(float64); ok {
		y, _ := b.(float64)
		return x < y
	}
	return fmt.Sprint(a) < fmt.Sprint(b)
}

// place is where the cursor is among the rows.
func (m *Model) place(rows []row) int {
	for i, r := range rows {
		if r.name == m.cursor {
			m.at = i
			return i
		}
	}
	m.at = max(0, min(m.at, len(rows)-1))
	if len(rows) > 0 {
		m.cursor = rows[m.at].name
	}
	return m.at
}

// move puts the cursor on another row.
func (m *Model) move(by int) {
	if m.page != nil {
		m.pageAt = max(0, min(m.pageAt+by, len(m.page)-1))
		return
	}
	rows := m.rows()
	if len(rows) == 0 {
		return
	}
	m.at = max(0, min(m.place(rows)+by, len(rows)-1))
	m.cursor = rows[m.at].name
}

func (m *Model) show(panel int) {
	m.panel, m.cursor, m.at, m.offset = (panel+len(Panels))%len(Panels), "", 0, 0
	m.closePage()
}

func (m *Model) closePage() { m.page, m.pageOf, m.pageAt = nil, nil, 0 }

// current is the row under the cursor.
func (m *Model) current() (row, bool) {
	rows := m.rows()
	if len(rows) == 0 {
		return row{}, false
	}
	return rows[m.place(rows)], true
}

// key handles one key.
func (m *Model) key(k tea.KeyMsg) tea.Cmd {
	name := k.String()
	m.said = ""
	switch {
	case m.pending != nil:
		return m.confirm(name)
	case m.filtering:
		m.typeFilter(k)
		return nil
	}
	switch name {
	case "q", "ctrl+c":
		m.quit = true
		return tea.Quit
	case "esc":
		m.filter = ""
		m.closePage()
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup", "ctrl+b":
		m.move(-m.visible())
	case "pgdown", "ctrl+f", " ":
		m.move(m.visible())
	case "home", "g":
		m.move(-1 << 30)
	case "end", "G":
		m.move(1 << 30)
	case "tab", "right", "l":
		m.show(m.panel + 1)
	case "shift+tab", "left", "h":
		m.show(m.panel - 1)
	case "1", "2", "3", "4", "5", "6", "7":
		m.show(int(name[0] - '1'))
	default:
		return m.otherKey(name)
	}
	return nil
}

func (m *Model) otherKey(name string) tea.Cmd {
	switch name {
	case "enter":
		if m.page != nil {
			m.closePage()
		} else if r, ok := m.current(); ok {
			m.page, m.pageOf = m.detail(r), &r
		}
	case "?":
		m.closePage()
		m.page = m.keysPage()
	case "/":
		m.filtering = true
	case "s":
		m.sortNext()
	case "r", "S":
		m.sortBy[m.panelName()] = -m.sortBy[m.panelName()]
	case "p":
		m.paused = !m.paused
	case "x":
		m.export()
	case "y":
		if r, ok := m.current(); ok {
			m.said = panels[m.panelName()].command(r)
			return m.copyText(m.said)
		}
	case "w", "d":
		m.change(name)
	}
	return nil
}

// sortNext chooses the next column, downwards first where it has numbers.
func (m *Model) sortNext() {
	n := len(panels[m.panelName()].heads)
	by := m.sortBy[m.panelName()]
	if by < 0 {
		by = -by
	}
	by = (by + 1) % (n + 1)
	if by > 0 && panels[m.panelName()].heads[by-1].right {
		by = -by
	}
	m.sortBy[m.panelName()] = by
}

// typeFilter edits the filter.
func (m *Model) typeFilter(k tea.KeyMsg) {
	switch k.Type {
	case tea.KeyEnter:
		m.filtering = false
	case tea.KeyEsc, tea.KeyCtrlC:
		m.filtering, m.filter = false, ""
	case tea.KeyBackspace:
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	case tea.KeySpace:
		m.filter += " "
	case tea.KeyRunes:
		if len(m.filter) < 200 {
			m.filter += string(k.Runes)
		}
	default:
	}
}

// change prepares the command of w or d.
func (m *Model) change(key string) {
	r, ok := m.current()
	if !ok {
		return
	}
	if m.o.ReadOnly || m.o.Command == nil {
		m.said = "read-only: nothing is changed here"
		return
	}
	switch it := r.item.(type) {
	case Group:
		m.slowSwitch(key, it.Group)
	case Pull:
		m.slowSwitch(key, it.Group)
	case Broker:
		if key == "d" {
			m.pending = []string{"broker", "drain", it.Broker}
		}
	}
	if m.pending == nil {
		m.said = map[string]string{"w": "w is for a group: panel 2 or 5", "d": "d is for a broker: panel 1"}[key]
	}
}

// slowSwitch turns reading from a slave on for a group that is told the master
// when it is slow, and back.
func (m *Model) slowSwitch(key, group string) {
	if key != "w" {
		return
	}
	to := "1"
	for _, p := range m.frame.Pulls {
		if p.Group == group && p.slow != 0 {
			to = "0"
		}
	}
	m.pending = []string{"group", "set", group, "--slow-broker", to}
}

// confirm runs the command after y; the command shows its plan and asks itself
// where it must.
func (m *Model) confirm(key string) tea.Cmd {
	words := m.pending
	m.pending = nil
	if key != "y" {
		m.said = "nothing was changed"
		return nil
	}
	return tea.Exec(m.o.Command(words), func(err error) tea.Msg { return doneMsg{err} })
}

// export writes the visible rows to a file.
func (m *Model) export() {
	rows := m.rows()
	name := fmt.Sprintf("mqctl-%s-%s", m.panelName(), time.Now().Format("20060102-150405"))
	items := make([]any, len(rows))
	table := [][]string{{}}
	for _, h := range panels[m.panelName()].heads {
		table[0] = append(table[0], h.name)
	}
	for i, r := range rows {
		items[i] = r.item
		table = append(table, r.cells)
	}
	b, err := json.MarshalIndent(items, "", "  ")
	if err == nil {
		err = writeNew(m.path(name+".json"), append(b, '\n'))
	}
	if err == nil {
		var text strings.Builder
		w := csv.NewWriter(&text)
		if err = w.WriteAll(table); err == nil {
			err = writeNew(m.path(name+".csv"), []byte(text.String()))
		}
	}
	if err != nil {
		m.said = err.Error()
		return
	}
	m.said = fmt.Sprintf("%d rows written to %s.json and .csv", len(rows), m.path(name))
}

func (m *Model) path(name string) string {
	if m.o.Dir == "" {
		return name
	}
	return m.o.Dir + string(os.PathSeparator) + name
}

// writeNew writes a file that must not be there yet.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
