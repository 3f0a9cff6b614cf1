package top

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Panels are the names of the panels in their order; the key of one is its
// number from 1.
var Panels = []string{"brokers", "groups", "topics", "ha", "pull", "clients", "events"}

// head is a column. On a narrow terminal the one with the highest fold goes
// first; 0 stays.
type head struct {
	name  string
	right bool
	fold  int
}

// row is one line of a panel.
type row struct {
	cells []string
	order []any  // what a column is sorted by: float64 or string
	name  string // what the cursor follows when rows move
	item  any    // for export
	mark  string // "bad", "warn", "good" or ""
}

// panel makes the columns and rows of one.
type panel struct {
	heads   []head
	rows    func(f *Frame, history []Event) []row
	command func(r row) string // the command that shows the same
}

var panels = map[string]panel{
	"brokers": {[]head{{"BROKER", false, 0}, {"ROLE", false, 2}, {"IN/s", true, 0}, {"OUT/s", true, 0}, {"P99 ms", true, 5}, {"SENDQ", true, 6}, {"DISK", true, 4}, {"GAP", true, 0}, {"READS BY", false, 3}, {"STATE", false, 0}},
		brokerRows, func(r row) string { return "mqctl broker status " + r.name }},
	"groups": {[]head{{"GROUP", false, 0}, {"LAG", true, 0}, {"CHANGE/s", true, 2}, {"OUT/s", true, 3}, {"CATCHES UP", false, 1}, {"TOPICS", true, 5}, {"QUEUES", true, 4}},
		groupRows, func(r row) string { return "mqctl group lag " + r.name }},
	"topics": {[]head{{"TOPIC", false, 0}, {"IN/s", true, 0}, {"QUEUES", true, 2}, {"GROUPS", true, 1}, {"LARGEST LAG", true, 0}},
		topicRows, func(r row) string { return "mqctl topic status " + r.name }},
	"ha": {[]head{{"SLAVE", false, 0}, {"MASTER", false, 2}, {"ADDR", false, 3}, {"GAP", true, 0}, {"GAP TIME", true, 1}, {"RATE", true, 4}, {"STATE", false, 0}},
		linkRows, func(r row) string { name, _, _ := strings.Cut(r.name, "/"); return "mqctl stats ha --broker " + name }},
	"pull": {[]head{{"GROUP", false, 0}, {"TOPIC", false, 2}, {"BROKER", false, 3}, {"PULLS/min", true, 1}, {"TO MASTER", true, 5}, {"TO SLAVE", true, 0}, {"SLOW", true, 4}, {"BEHIND", true, 6}, {"FOLLOWED", false, 7}, {"REASON", false, 0}},
		pullRows, func(r row) string {
			p := r.item.(Pull)
			return "mqctl stats pull --group " + p.Group + " --topic " + p.Topic + " --explain"
		}},
	"clients": {[]head{{"CLIENT", false, 0}, {"ADDR", false, 2}, {"LANGUAGE", false, 3}, {"VERSION", false, 4}, {"ROLE", false, 1}, {"GROUP", false, 0}, {"BROKERS", true, 5}},
		clientRows, func(r row) string { return "mqctl client list --group " + r.item.(Client).Group }},
	"events": {[]head{{"AT", false, 0}, {"BROKER", false, 2}, {"KIND", false, 0}, {"TARGET", false, 0}, {"BEFORE", false, 1}, {"AFTER", false, 0}},
		eventRows, func(row) string { return "mqctl events" }},
}

const none = "—"

// unknown is a value that is not known.
const unknown = "?"

func number(v *float64) string {
	if v == nil {
		return unknown
	}
	if *v < 10 && *v != float64(int64(*v)) {
		return strconv.FormatFloat(*v, 'f', 1, 64)
	}
	return humanize.Comma(int64(*v + 0.5))
}

func bytesText(v *int64) string {
	switch {
	case v == nil:
		return unknown
	case *v < 0:
		return "-" + humanize.IBytes(uint64(-*v))
	}
	return humanize.IBytes(uint64(*v))
}

func sortNumber(v *float64) any {
	if v == nil {
		return -1.0
	}
	return *v
}

func sortWhole(v *int64) any {
	if v == nil {
		return -1.0
	}
	return float64(*v)
}

func roleWord(role string) string {
	if role == "SLAVE" {
		return "slave"
	}
	return "master"
}

func brokerRows(f *Frame, _ []Event) []row {
	var out []row
	for _, b := range f.Brokers {
		known := b.MaxOffset != nil
		gap, reads, p99 := bytesText(b.GapBytes), unknown, number(b.P99)
		if known && b.Role != "SLAVE" {
			gap = none
		}
		if known && b.Role == "SLAVE" {
			p99 = none
		}
		if known {
			reads = "none"
			if b.PullsPercent != nil {
				reads = fmt.Sprintf("%.0f %% of pulls", *b.PullsPercent)
			}
		}
		disk := unknown
		if b.DiskPercent != nil {
			disk = fmt.Sprintf("%.0f %%", *b.DiskPercent)
		}
		queue := unknown
		if b.SendQueue != nil {
			queue = strconv.FormatInt(*b.SendQueue, 10)
		}
		mark := ""
		switch {
		case !known && b.State != "asked":
			mark = "bad"
		case b.State == "in sync":
			mark = "good"
		case b.State != "ok" && b.State != "syncing":
			mark = "warn"
		}
		out = append(out, row{
			cells: []string{b.Name(), roleWord(b.Role), number(b.InPerSecond), number(b.OutPerSecond), p99, queue, disk, gap, reads, b.State},
			order: []any{b.Name(), b.Role, sortNumber(b.InPerSecond), sortNumber(b.OutPerSecond), sortNumber(b.P99), sortWhole(b.SendQueue), sortNumber(b.DiskPercent), sortWhole(b.GapBytes), sortNumber(b.PullsPercent), b.State},
			name:  b.Name(), item: b, mark: mark,
		})
	}
	return out
}

func groupRows(f *Frame, _ []Event) []row {
	var out []row
	for _, g := range f.Groups {
		change, catch, mark := unknown, none, ""
		if g.LagPerSecond != nil {
			change = humanize.Comma(int64(*g.LagPerSecond))
			if *g.LagPerSecond > 0 {
				change = "+" + change
			}
			switch {
			case g.Lag == 0:
			case g.CatchUp != nil:
				catch = "in " + millis(*g.CatchUp)
			case *g.LagPerSecond > 0:
				catch, mark = "never, it grows", "warn"
			}
		}
		out = append(out, row{
			cells: []string{g.Group, humanize.Comma(g.Lag), change, number(g.OutPerSecond), catch, strconv.FormatInt(g.Topics, 10), strconv.FormatInt(g.Queues, 10)},
			order: []any{g.Group, float64(g.Lag), sortNumber(g.LagPerSecond), sortNumber(g.OutPerSecond), sortWhole(g.CatchUp), float64(g.Topics), float64(g.Queues)},
			name:  g.Group, item: g, mark: mark,
		})
	}
	return out
}

// millis is a time span in its largest unit.
func millis(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	case ms < 3_600_000:
		return fmt.Sprintf("%d min", ms/60_000)
	case ms < 48*3_600_000:
		return fmt.Sprintf("%d h", ms/3_600_000)
	}
	return fmt.Sprintf("%d d", ms/(24*3_600_000))
}

func topicRows(f *Frame, _ []Event) []row {
	var out []row
	for _, t := range f.Topics {
		out = append(out, row{
			cells: []string{t.Topic, number(t.InPerSecond), strconv.FormatInt(t.Queues, 10), strconv.FormatInt(t.Groups, 10), humanize.Comma(t.MaxLag)},
			order: []any{t.Topic, sortNumber(t.InPerSecond), float64(t.Queues), float64(t.Groups), float64(t.MaxLag)},
			name:  t.Topic, item: t,
		})
	}
	return out
}

func linkRows(f *Frame, _ []Event) []row {
	var out []row
	for _, l := range f.HA {
		late, rate, mark := unknown, unknown, "warn"
		if l.GapMillis != nil {
			late = millis(*l.GapMillis)
		}
		if l.BytesPerSecond != nil {
			rate = bytesText(l.BytesPerSecond) + "/s"
		}
		if l.InSync != nil && *l.InSync {
			mark = "good"
		}
		state := strings.ToLower(strings.ReplaceAll(l.State, "_", " "))
		if mark == "good" && state == "syncing" {
			state = "in sync"
		}
		out = append(out, row{
			cells: []string{l.Slave, l.Master, l.Addr, bytesText(l.GapBytes), late, rate, state},
			order: []any{l.Slave, l.Master, l.Addr, sortWhole(l.GapBytes), sortWhole(l.GapMillis), sortWhole(l.BytesPerSecond), l.State},
			name:  l.Slave, item: l, mark: mark,
		})
	}
	return out
}

func pullRows(f *Frame, _ []Event) []row {
	var out []row
	for _, p := range f.Pulls {
		followed := unknown
		if p.Followed != nil {
			followed = map[bool]string{true: "yes", false: "no"}[*p.Followed]
		}
		out = append(out, row{
			cells: []string{p.Group, p.Topic, p.Broker, humanize.Comma(p.Pulls), humanize.Comma(p.ToMaster), humanize.Comma(p.ToSlave), fmt.Sprintf("%.0f %%", p.SlowPercent), bytesText(&p.BehindBytes), followed, strings.ToLower(strings.ReplaceAll(p.Reason, "_", " "))},
			order: []any{p.Group, p.Topic, p.Broker, float64(p.Pulls), float64(p.ToMaster), float64(p.ToSlave), p.SlowPercent, float64(p.BehindBytes), followed, p.Reason},
			name:  p.Group + " " + p.Topic + " " + p.Broker, item: p,
		})
	}
	return out
}

func clientRows(f *Frame, _ []Event) []row {
	var out []row
	for _, c := range f.Clients {
		cells := []string{c.ClientID, c.Addr, c.Language, c.Version, strings.ToLower(c.Role), c.Group}
		order := append(texts(cells), float64(c.Brokers))
		out = append(out, row{cells: append(cells, strconv.FormatInt(c.Brokers, 10)), order: order, name: c.ClientID + " " + c.Group + " " + c.Role, item: c})
	}
	return out
}

func eventRows(_ *Frame, history []Event) []row {
	var out []row
	for i := len(history) - 1; i >= 0; i-- {
		e := history[i]
		cells := []string{clock(e.At), word(e.Broker), strings.ToLower(strings.ReplaceAll(e.Kind, "_", " ")), e.Target, word(e.Before), word(e.After)}
		mark := ""
		if e.Kind == "ROLE" || word(e.After) == "unreachable" || word(e.After) == "gone" || strings.Contains(word(e.After), "not in sync") {
			mark = "warn"
		}
		out = append(out, row{cells: cells, order: texts(cells), name: fmt.Sprint(i), item: e, mark: mark})
	}
	return out
}

// clock is the time of day of a stamp.
func clock(at string) string {
	_, t, ok := strings.Cut(at, "T")
	if !ok || len(t) < 8 {
		return at
	}
	return t[:8]
}

func word(s *string) string {
	if s == nil {
		return none
	}
	return *s
}

func texts(cells []string) []any {
	out := make([]any, len(cells))
	for i, c := range cells {
		out[i] = c
	}
	return out
}

// detail are the lines that Enter shows of a row.
func (m *Model) detail(r row) []string {
	out := []string{r.name, ""}
	switch it := r.item.(type) {
	case Broker:
		s := m.series[it.Name()]
		if s != nil {
			w := max(10, m.width-12)
			out = append(out, "in         "+m.spark(s.in.last(w)), "out        "+m.spark(s.out.last(w)), "gap        "+m.spark(s.gap.last(w)), "")
		}
		run := m.frame.runs[it.Name()]
		for _, k := range sortedKeys(run) {
			out = append(out, fmt.Sprintf("%-40s %s", k, run[k]))
		}
	case Group:
		out = append(out, fmt.Sprintf("%-30s %-20s %5s %16s %16s %12s", "TOPIC", "BROKER", "QUEUE", "NEXT", "CONSUMED", "LAG"))
		for _, q := range it.queues {
			out = append(out, fmt.Sprintf("%-30s %-20s %5d %16d %16d %12d", q.topic, q.broker, q.id, q.end, q.at, max(0, q.end-q.at)))
		}
		for _, p := range m.frame.Pulls {
			if p.Group == it.Group {
				out = append(out, fmt.Sprintf("reads %s at %s: %d pulls a minute, %d told to the master, %d to a slave", p.Topic, p.Broker, p.Pulls, p.ToMaster, p.ToSlave))
			}
		}
	case Topic:
		out = append(out, "groups: "+strings.Join(it.groups, ", "))
	case Link:
		if s := m.series[it.Slave]; s != nil {
			out = append(out, "gap        "+m.spark(s.gap.last(max(10, m.width-12))), "")
			out = append(out, histogram(s.gap.last(samples), m.o.UTF8)...)
		}
	case Pull:
		out = append(out, "reason                    "+it.Reason, fmt.Sprintf("behind                    %d bytes", it.BehindBytes),
			fmt.Sprintf("slow pulls                %.1f %%", it.SlowPercent), fmt.Sprintf("brokerId of the group     %d", it.byName),
			fmt.Sprintf("whichBrokerWhenSlow       %d", it.slow))
	case Client:
		out = append(out, "topics: "+strings.Join(it.topics, ", "))
	case Event:
		out = append(out, it.At, it.Kind, it.Target, "broker  "+word(it.Broker), "before  "+word(it.Before), "after   "+word(it.After))
	}
	return append(out, "", panels[m.panelName()].command(r))
}

// histogram counts gaps by powers of 16.
func histogram(gaps []float64, utf8 bool) []string {
	limits := []float64{0, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20}
	counts := make([]float64, len(limits)+1)
	for _, g := range gaps {
		i := 0
		for i < len(limits) && g > limits[i] {
			i++
		}
		counts[i]++
	}
	var out []string
	sign := "#"
	if utf8 {
		sign = "█"
	}
	for i, n := range counts {
		name := "above 256 MiB"
		if i < len(limits) {
			name = "up to " + humanize.IBytes(uint64(limits[i]))
		}
		width := 0
		if len(gaps) > 0 {
			width = int(40 * n / float64(len(gaps)))
		}
		out = append(out, fmt.Sprintf("%-14s %4.0f %s", name, n, strings.Repeat(sign, width)))
	}
	return out
}
