package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// shortestWatch keeps a watch from asking brokers without a pause.
const shortestWatch = 100 * time.Millisecond

// watch runs once without --watch. With it, it asks and prints again and again
// until the user interrupts, which is the normal end: a terminal is redrawn in
// place, a pipe gets rows with their time. below adds lines for a terminal.
func (c *call) watch(ctx context.Context, once func(context.Context) (*result, error), below func(*result) string) (*result, error) {
	if !c.given("watch") && !c.given("interval") {
		return once(ctx)
	}
	every := max(shortestWatch, c.duration("watch"))
	if c.given("interval") {
		every = time.Duration(c.whole("interval")) * time.Second
	}
	if c.cmd.looksOnce() {
		all := once
		once = func(ctx context.Context) (*result, error) { return all(admin.OneLook(ctx)) }
	}
	w := &watching{c: c, below: below}
	if err := w.prepare(); err != nil {
		return nil, err
	}
	r, err := once(ctx)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		c.sayStandIns(r)
		if err := w.show(r, err); err != nil {
			return nil, err
		}
		if c.p.broken != nil {
			return &result{streamed: true}, nil
		}
		select {
		case <-ctx.Done():
			return &result{streamed: true}, nil
		case <-tick.C:
		}
		if r, err = once(ctx); ctx.Err() != nil {
			return &result{streamed: true}, nil
		}
	}
}

// look makes the run of a command that looks at a cluster once one look.
func (c *call) look(ctx context.Context) context.Context {
	if !c.cmd.looksOnce() {
		return ctx
	}
	return admin.OneLook(ctx)
}

// watching is the state between two looks.
type watching struct {
	c      *call
	below  func(*result) string
	screen []string // lines of the last frame
	said   string   // the last error, told once
}

// prepare refuses formats that have no end or no time.
func (w *watching) prepare() error {
	p := w.c.p
	switch p.format {
	case "table", "wide", "jsonl", "csv", "mqadmin":
	default:
		return usage("CONTRADICTION", "--watch has no end, so --output %s cannot be closed", strings.TrimSuffix(p.format, "=")).try("--output jsonl")
	}
	p.watching = true
	return nil
}

// show prints one look, or what went wrong with it.
func (w *watching) show(r *result, failed error) error {
	p := w.c.p
	p.now = time.Now()
	p.style.now = p.now
	if p.style.terminal && (p.format == "table" || p.format == "wide") {
		return w.redraw(r, failed)
	}
	if failed != nil {
		w.tell(asMessage(w.c.explain(failed)))
		return nil
	}
	if err := p.print(r); err != nil {
		return err
	}
	p.headers = false
	if len(r.errors) > 0 {
		w.tell(&r.errors[0])
	} else {
		w.said = ""
	}
	return nil
}

// tell writes an error once, not at every look.
func (w *watching) tell(m *Message) {
	if m.Text != w.said {
		w.said = m.Text
		m.complete(w.c.lineWith)
		w.c.p.message(m, "error")
	}
}

// redraw replaces the frame on a terminal and marks the words that changed.
func (w *watching) redraw(r *result, failed error) error {
	p := w.c.p
	var frame bytes.Buffer
	out, broken := p.out, p.broken
	p.out = &frame
	var err error
	if failed == nil {
		err = p.print(r)
		if w.below != nil {
			frame.WriteString(w.below(r))
		}
		r.complete(w.c.lineWith)
		for i := range r.errors {
			fmt.Fprintf(&frame, "%s\n", strings.Join(r.errors[i].lines("error"), "\n"))
		}
	} else {
		m := asMessage(w.c.explain(failed))
		m.complete(w.c.lineWith)
		fmt.Fprintf(&frame, "%s\n", strings.Join(m.lines("error"), "\n"))
	}
	p.out, p.broken = out, broken
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(frame.String(), "\n"), "\n")
	var b strings.Builder
	if w.screen == nil {
		b.WriteString("\x1b[2J")
	}
	b.WriteString("\x1b[H")
	for i, l := range lines {
		if i < len(w.screen) {
			l = markChanges(w.screen[i], l, p.style.bold)
		}
		b.WriteString(l + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	w.screen = lines
	p.emit([]byte(b.String())) // its lines came through write
	return nil
}

// markChanges paints the words of a line that differ from the line before, if
// both have the same number of words.
func markChanges(before, now string, paint func(string) string) string {
	old, words := strings.Fields(before), strings.Fields(now)
	if len(old) != len(words) || strings.ContainsRune(now, '\x1b') {
		return now
	}
	var b strings.Builder
	rest := now
	for i, word := range words {
		at := strings.Index(rest, word)
		b.WriteString(rest[:at])
		if old[i] != word {
			b.WriteString(paint(word))
		} else {
			b.WriteString(word)
		}
		rest = rest[at+len(word):]
	}
	return b.String() + rest
}

// ramps draw small values as low and large ones as high signs.
var (
	rampUTF8  = []rune("▁▂▃▄▅▆▇█")
	rampASCII = []rune("_.-=+*#@")
)

// sparkline draws values as one sign each, scaled to the largest.
func sparkline(values []int64, utf8 bool) string {
	ramp := rampASCII
	if utf8 {
		ramp = rampUTF8
	}
	top := int64(1)
	for _, v := range values {
		top = max(top, v)
	}
	var b strings.Builder
	for _, v := range values {
		b.WriteRune(ramp[int(float64(max(0, v))/float64(top)*float64(len(ramp)-1))])
	}
	return b.String()
}
