package top

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
)

func ptr[T any](v T) *T { return &v }

// sample is a pair of which the slave is lost, with n groups.
func sample(n int) *Frame {
	f := &Frame{
		At: "2026-11-29T15:04:05.000Z", at: time.Date(2026, 11, 29, 15, 4, 5, 0, time.UTC), Context: ptr("prod"), Cluster: ptr("DefaultCluster"),
		InPerSecond: ptr(7991.0), InBytes: ptr(8.2 * 1024 * 1024), OutPerSecond: ptr(11873.0), PutP99: ptr(1.8), Lag: ptr(int64(10_300_000)), WorstGap: ptr(int64(8192)), Down: 1,
		Brokers: []Broker{
			{Broker: "broker-a", Role: "ASYNC_MASTER", Addr: "10.0.0.4:10911", InPerSecond: ptr(4120.0), OutPerSecond: ptr(4233.0), P99: ptr(1.8), SendQueue: ptr(int64(0)), DiskPercent: ptr(61.0), MaxOffset: ptr(int64(2147607104789)), PullsPercent: ptr(31.0), State: "ok"},
			{Broker: "broker-a", BrokerID: 1, Role: "SLAVE", Addr: "10.0.0.5:10911", InPerSecond: ptr(0.0), OutPerSecond: ptr(6020.0), SendQueue: ptr(int64(0)), DiskPercent: ptr(61.0), GapBytes: ptr(int64(8192)), MaxOffset: ptr(int64(2147607096597)), PullsPercent: ptr(69.0), State: "in sync"},
			{Broker: "broker-b", BrokerID: 1, Role: "SLAVE", Addr: "10.0.0.7:10911", State: "unreachable 2 min", AgeMillis: ptr(int64(120000))},
		},
		HA:    []Link{{Master: "broker-a/0", Slave: "broker-a/1", Addr: "10.0.0.5:10911", GapBytes: ptr(int64(8192)), GapMillis: ptr(int64(12)), BytesPerSecond: ptr(int64(8 << 20)), InSync: ptr(true), State: "SYNCING"}},
		Pulls: []Pull{{Broker: "broker-a/0", Group: "订单消费组", Topic: "orders", Pulls: 100, ToMaster: 31, ToSlave: 69, SlowPercent: 69, Reason: "BEHIND_LIMIT"}},
		runs:  map[string]map[string]string{"broker-a/0": {"putTps": "4120 1 1", "evil": "a\x1b[2Jb"}},
	}
	for i := range n {
		f.Groups = append(f.Groups, Group{Group: fmt.Sprintf("group-%04d", i), Lag: int64(n - i), LagPerSecond: ptr(-1.0), CatchUp: ptr(int64(5000))})
	}
	return f
}

func press(m *Model, keys ...string) {
	for _, k := range keys {
		msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}
		for t, name := range map[tea.KeyType]string{tea.KeyEnter: "enter", tea.KeyEsc: "esc", tea.KeyDown: "down", tea.KeyPgDown: "pgdown", tea.KeyEnd: "end", tea.KeyHome: "home", tea.KeyTab: "tab", tea.KeyBackspace: "backspace"} {
			if name == k {
				msg = tea.KeyMsg{Type: t}
			}
		}
		m.Update(msg)
	}
}

func view(t *testing.T, m *Model) string {
	t.Helper()
	v := m.View()
	lines := strings.Split(v, "\n")
	if len(lines) > m.height {
		t.Errorf("%d lines on a screen of %d:\n%s", len(lines), m.height, v)
	}
	for _, l := range lines {
		if lipgloss.Width(l) > m.width {
			t.Errorf("a line of %d columns on a screen of %d: %q", lipgloss.Width(l), m.width, l)
		}
	}
	return v
}

func must(t *testing.T, v string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(v, w) {
			t.Errorf("%q is missing in\n%s", w, v)
		}
	}
}

func newModel(f *Frame, o Options) *Model {
	o.UTF8, o.Every = true, time.Second
	o.Collect = func(context.Context) *Frame { return f }
	m := NewModel(context.Background(), o)
	m.Update(m.Init()())
	return m
}

func TestView(t *testing.T) {
	m := newModel(sample(3), Options{})
	v := view(t, m)
	must(t, v, "prod · DefaultCluster", "15:04:05   every 1s   ● live", "in 7,991/s  8.2 MiB/s   out 11,873/s   put p99 1.8 ms", "1 broker down",
		"[1 brokers]  2 groups", "▸broker-a/0", "unreachable 2 min", "? keys")
	m.Update(tea.WindowSizeMsg{Width: 200, Height: 40})
	must(t, view(t, m), "69 % of pulls", "in sync", "8.0 KiB", "commit log 2147607104789")
	for panel, want := range map[string]string{"2": "group-0000", "3": "no topic is consumed yet", "4": "12 ms", "5": "订单消费组", "6": "no client", "7": "nothing has changed"} {
		press(m, panel)
		must(t, view(t, m), want)
	}
}

// TestSizes: no size breaks the screen, and the most important columns stay.
func TestSizes(t *testing.T) {
	m := newModel(sample(1000), Options{Colour: true})
	for _, panel := range []string{"1", "2", "4", "5"} {
		press(m, panel)
		for _, size := range [][2]int{{80, 24}, {40, 10}, {200, 60}, {20, 6}, {79, 23}, {1, 1}} {
			m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			view(t, m)
			press(m, "enter")
			view(t, m)
			press(m, "esc")
		}
	}
	press(m, "1")
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	must(t, view(t, m), "BROKER", "STATE", "GAP", "unreachable 2 min")
}

// TestNarrow: what one needs most is there at every width: which panel it is, how
// to find the other keys and to leave, and that a broker is down.
func TestNarrow(t *testing.T) {
	for _, width := range []int{40, 60, 80, 120, 200} {
		m := newModel(sample(3), Options{Command: func([]string) tea.ExecCommand { return nil }})
		m.Update(tea.WindowSizeMsg{Width: width, Height: 24})
		for i, name := range Panels {
			press(m, fmt.Sprint(i+1))
			must(t, view(t, m), fmt.Sprintf("[%d %s]", i+1, name), "? keys  q quit", "1 broker down", "/ filter", "in 7,991/s  8.2 MiB/s")
		}
		if v := view(t, m); strings.Contains(v, "worst gap") && !strings.Contains(v, "worst gap 8.0 KiB") || strings.Contains(v, "lag") && !strings.Contains(v, "lag 10,300,000") {
			t.Errorf("at %d columns a figure is cut:\n%s", width, v)
		}
	}
}

func TestThousandGroups(t *testing.T) {
	f := sample(1000)
	m := newModel(f, Options{Panel: "groups"})
	press(m, "down", "pgdown", "end")
	must(t, view(t, m), "▸group-0999")
	press(m, "home")
	press(m, "/", "0", "5", "0", "enter")
	must(t, view(t, m), "group-0050", "group-0500", "filter: 050")
	if v := view(t, m); strings.Contains(v, "group-0999") {
		t.Errorf("the filter lets through:\n%s", v)
	}
	press(m, "esc", "s", "home")
	must(t, view(t, m), "GROUP^")
	press(m, "r", "home")
	must(t, view(t, m), "▸group-0999", "GROUPv")
	// The cursor stays on its group while the rows move.
	press(m, "s", "s", "s", "s", "s", "s", "s", "home", "down", "down")
	name := m.cursor
	f.Groups[0], f.Groups[2] = f.Groups[2], f.Groups[0]
	m.Update(frameMsg{f})
	if view(t, m); m.cursor != name {
		t.Errorf("the cursor went from %s to %s", name, m.cursor)
	}
}

// TestKeys: what changes something asks first and shows its command line.
func TestKeys(t *testing.T) {
	var ran []string
	o := Options{Command: func(words []string) tea.ExecCommand { ran = words; return nil }}
	m := newModel(sample(3), o)
	press(m, "d")
	must(t, view(t, m), "mqctl broker drain broker-a   run it? y/N")
	press(m, "n")
	must(t, view(t, m), "nothing was changed")
	press(m, "5", "w")
	must(t, view(t, m), "mqctl group set 订单消费组 --slow-broker 1   run it? y/N")
	press(m, "y")
	if strings.Join(ran, " ") != "group set 订单消费组 --slow-broker 1" {
		t.Errorf("ran %q", ran)
	}
	press(m, "4", "d")
	must(t, view(t, m), "d is for a broker")

	m = newModel(sample(3), Options{ReadOnly: true, Command: o.Command})
	press(m, "d")
	must(t, view(t, m), "read-only")
	if v := view(t, m); strings.Contains(v, "d drain") {
		t.Errorf("a read-only view offers\n%s", v)
	}
	press(m, "y")
	must(t, view(t, m), "mqctl broker status broker-a/0")
	press(m, "enter")
	must(t, view(t, m), "putTps", "a?[2Jb")
	press(m, "enter", "?")
	must(t, view(t, m), "Ctrl-C          quit")
	press(m, "esc", "p")
	must(t, view(t, m), "paused")
	press(m, "q")
	if m.View() != "" {
		t.Error("the view stays after q")
	}
}

// TestKeysAtOnce: on a slow link several keys come in one piece; what is pasted is no keys.
func TestKeysAtOnce(t *testing.T) {
	m := newModel(sample(3), Options{})
	press(m, "37")
	must(t, view(t, m), "[7 events]")
	press(m, "1/slave")
	must(t, view(t, m), "[1 brokers]", "filter: slave")
	press(m, "esc")
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("7q"), Paste: true})
	must(t, view(t, m), "[1 brokers]")
	press(m, "enter")
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("3"), Alt: true}) // Esc and 3 in one piece
	must(t, view(t, m), "[3 topics]", "TOPIC")
	_, cmd := m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("2q")})
	if m.View() != "" || cmd == nil {
		t.Error("the view stays after 2 and q")
	}
}

func TestExport(t *testing.T) {
	m := newModel(sample(3), Options{Dir: t.TempDir()})
	press(m, "x")
	must(t, m.said, "3 rows written")
	for _, ext := range []string{"json", "csv"} {
		files, _ := filepath.Glob(filepath.Join(m.o.Dir, "mqctl-brokers-*."+ext))
		if len(files) != 1 {
			t.Fatalf("no %s file: %v", ext, files)
		}
		b, err := os.ReadFile(files[0])
		if err != nil || !strings.Contains(string(b), "unreachable 2 min") {
			t.Errorf("%s: %v", b, err)
		}
	}
}

// TestEvents: what changes between two frames is told, newest first.
func TestEvents(t *testing.T) {
	c := &Collector{}
	a, b := sample(2), sample(3)
	a.Complete, b.Complete = true, true
	b.Brokers[1].Role = "ASYNC_MASTER"
	b.Brokers[0].MaxOffset, b.Brokers[0].State = nil, "unreachable 3 s"
	b.HA[0].InSync = ptr(false)
	if e := c.changes(a, nil); len(e) != 0 {
		t.Errorf("events before there was a frame: %v", e)
	}
	c.before, c.first = a, true
	b.Events = c.changes(b, nil)
	m := newModel(b, Options{Panel: "events"})
	must(t, view(t, m), "role", "ASYNC_MASTER", "unreachable", "not in sync", "group-0002")
	if len(b.Events) != 4 {
		t.Errorf("%d events: %+v", len(b.Events), b.Events)
	}
}

// TestPaused: a paused view asks nobody, and only one refresh runs at a time.
func TestPaused(t *testing.T) {
	m := newModel(sample(1), Options{})
	asked := 0
	m.o.Collect = func(context.Context) *Frame { asked++; return sample(1) }
	_, cmd := m.Update(tickMsg{})
	if again := m.refresh(); again != nil {
		t.Error("two refreshes at once")
	}
	m.Update(cmd())
	press(m, "p")
	m.Update(tickMsg{})
	if asked != 1 || m.asking {
		t.Errorf("asked %d times", asked)
	}
}

func TestRing(t *testing.T) {
	var r ring
	for i := range samples + 5 {
		r.add(float64(i))
	}
	if got := r.last(3); got[0] != samples+2 || got[2] != samples+4 || len(r.last(10*samples)) != samples {
		t.Errorf("last %v", got)
	}
	m := &Model{}
	if got := m.spark([]float64{0, 1, 2, 7}); got != "_.-@" {
		t.Errorf("spark %q", got)
	}
}
