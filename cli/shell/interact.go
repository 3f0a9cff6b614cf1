package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
)

// Interact reads lines from the user until Ctrl-D or exit and returns the status
// of the last command. When ctx ends, by a signal, the terminal is restored.
func (s *Session) Interact(ctx context.Context, editor LineEditor) int {
	s.interactive, s.editor = true, editor
	s.watcher = watch(ctx, s)
	defer s.watcher.stop()
	defer s.interrupts(func(cause error) { s.stray.Store(&cause) })()
	defer context.AfterFunc(ctx, func() { _ = editor.Close() })() // wakes ReadLine
	editor.SetCompleter(s.complete)
	editor.SetTyping(func() { s.stray.Store(nil); s.pressed.Store(false); s.again.Store(false) })
	if s.o.History != nil {
		editor.SetHistory(s.o.History.Lines())
	}
	for {
		text, commands, err := s.read(ctx)
		var wrong *SyntaxError
		switch {
		case ctx.Err() != nil:
			s.say("") // whoever comes next begins at a new line
			return s.status
		case errors.Is(err, io.EOF):
			return s.status
		case errors.Is(err, ErrInterrupt):
			s.sayCut()
			continue
		case errors.As(err, &wrong):
			s.remember(text)
			s.status = s.syntax(err, "", 1)
		case err != nil:
			return s.fail(codeFailed, "NO_INPUT", "%v", err)
		case len(commands) > 0:
			s.remember(text)
			if errors.Is(s.list(ctx, commands), errExit) {
				return s.status
			}
		}
		s.dropRest()
	}
}

// read reads lines until they make commands.
func (s *Session) read(ctx context.Context) (string, []Command, error) {
	prompt := s.prompt()
	text := ""
	for {
		line, err := s.editor.ReadLine(prompt)
		if err != nil {
			return "", nil, err
		}
		dropped, interrupted := s.editor.Interrupted()
		if interrupted {
			cause := s.o.Host.Interrupt()
			s.stray.Store(&cause)
			s.pressed.Store(true)
			s.dropped.Add(int64(dropped))
		}
		text += line
		commands, err := Parse(text)
		switch {
		case !errors.Is(err, ErrIncomplete) || ctx.Err() != nil:
			return text, commands, err
		case interrupted:
			return "", nil, ErrInterrupt
		}
		text += "\n"
		prompt = "…> "
		if !s.o.UTF8 {
			prompt = "...> "
		}
	}
}

func (s *Session) remember(text string) {
	if s.o.History == nil {
		return
	}
	if err := s.o.History.Add(text); err != nil {
		s.say("warning the history cannot be written: %v  [NO_HISTORY]", err)
	}
	s.editor.SetHistory(s.o.History.Lines())
}

// dropRest is set -e for a paste: what follows a failed line is not run. It also
// tells what Ctrl-C has dropped.
func (s *Session) dropRest() {
	s.sayCut()
	if s.stopOnError && s.status != codeOK {
		s.sayDropped(s.editor.Discard(true), "set -e")
	}
}

func (s *Session) sayCut() { s.sayDropped(int(s.dropped.Swap(0)), "Ctrl-C") }

// sayDropped tells how many lines were not run, and for what.
func (s *Session) sayDropped(lines int, why string) {
	if lines > 0 {
		s.say("note    %s not run: %s", pasted(lines), why)
	}
}

func pasted(lines int) string {
	if lines == 1 {
		return "1 line that was typed or pasted behind this one is"
	}
	return fmt.Sprintf("%d lines that were typed or pasted behind this one are", lines)
}

// prompt prints the status line, if it has changed, and gives the prompt.
func (s *Session) prompt() string {
	if l := s.watcher.line(); l != "" {
		s.say("%s", l)
	}
	st := s.watcher.known()
	name := st.Context
	var b strings.Builder
	b.WriteString("mqctl")
	var inner []string
	if name != "" {
		inner = append(inner, name)
	}
	if s.focus.Broker != "" {
		part := s.focus.Broker
		if st.Broker == s.focus.Broker && st.Role != "" {
			part += " " + roleWord(st.Role)
		}
		inner = append(inner, part)
	}
	if s.focus.Group != "" {
		inner = append(inner, s.focus.Group)
	}
	if len(inner) > 0 {
		b.WriteString("(" + strings.Join(inner, ":") + ")")
	}
	if s.status != codeOK {
		fmt.Fprintf(&b, " [%d]", s.status)
	}
	b.WriteString("> ")
	if st.Protected {
		return s.paint("31", b.String())
	}
	return b.String()
}

// paint colours a text, where colours are on.
func (s *Session) paint(code, text string) string {
	if !s.o.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// roleWord is a role as the prompt says it.
func roleWord(role string) string {
	switch role {
	case "SLAVE":
		return "slave"
	case "":
		return "?"
	}
	return "master"
}

// The times of the status line: how long a prompt waits for a first answer, how
// long the questions of one look may take, how old an answer may be, and how often
// the role is looked at while nobody types.
const (
	statusTime  = 300 * time.Millisecond
	statusAsks  = 2 * time.Second
	statusAge   = 5 * time.Second
	statusPause = 2 * time.Second
)

// watcher asks for the state of the cluster in the background.
type watcher struct {
	s     *Session
	end   context.CancelFunc
	ask   chan struct{}
	ended chan struct{}

	mu      sync.Mutex
	streams Streams
	first   chan struct{} // closed at the end of the first look with streams; nil: it has ended
	last    Status
	failed  error     // of the last look
	at      time.Time // of the last answer
	shown   string
	shownAt time.Time
	role    string // broker and role that changes are measured against
}

func watch(ctx context.Context, s *Session) *watcher {
	ctx, end := context.WithCancel(ctx)
	w := &watcher{s: s, end: end, ask: make(chan struct{}, 1), ended: make(chan struct{}), streams: s.streams(), first: make(chan struct{})}
	first := w.first
	go w.run(ctx)
	w.await(first)
	return w
}

// await waits for the first look of new settings, so that the prompt has its
// status; not longer than a user may notice.
func (w *watcher) await(first chan struct{}) {
	late := time.NewTimer(statusTime)
	defer late.Stop()
	select {
	case <-first:
	case <-late.C:
	}
}

func (w *watcher) run(ctx context.Context) {
	defer close(w.ended)
	tick := time.NewTicker(statusPause)
	defer tick.Stop()
	for {
		w.once(ctx)
		select {
		case <-ctx.Done():
			return
		case <-w.ask:
		case <-tick.C:
		}
	}
}

// once asks, keeps the answer and tells a change of role.
func (w *watcher) once(ctx context.Context) {
	w.mu.Lock()
	streams, first := w.streams, w.first
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, statusAsks)
	defer cancel()
	st, err := w.s.o.Host.Status(ctx, streams)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first != first {
		return // an answer to what is not asked any more
	}
	if first != nil {
		close(first)
		w.first = nil
	}
	if w.failed = err; err != nil {
		return
	}
	w.last, w.at = st, w.s.o.Now()
	role := ""
	if st.Role != "" {
		role = st.Broker + " is now " + st.Role
	}
	if before, _, _ := strings.Cut(w.role, " is now "); role != "" && role != w.role && before == st.Broker {
		w.s.editor.Notify(w.at.Format("15:04:05") + " " + role)
	}
	if role != "" {
		w.role = role
	}
}

// settings takes other settings and asks at once.
func (w *watcher) settings(streams Streams) {
	first := make(chan struct{})
	w.mu.Lock()
	w.streams, w.first, w.last, w.failed, w.at, w.role = streams, first, Status{}, nil, time.Time{}, ""
	w.mu.Unlock()
	w.refresh()
	w.await(first)
}

// refresh asks soon.
func (w *watcher) refresh() {
	select {
	case w.ask <- struct{}{}:
	default: // it is going to
	}
}

// known is the last answer, emptied when it is too old to be true.
func (w *watcher) known() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fresh()
}

func (w *watcher) fresh() Status {
	st := w.last
	if w.s.o.Now().Sub(w.at) > statusAge {
		st.Role, st.GapBytes = "", nil
	}
	return st
}

// line is the status line, "" if it has not changed or was shown a moment ago.
func (w *watcher) line() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.s.o.Now()
	if now.Sub(w.shownAt) < time.Second {
		return ""
	}
	l := w.text(w.fresh())
	if l == w.shown {
		return ""
	}
	w.shown, w.shownAt = l, now
	if w.last.Protected {
		return w.s.paint("31", l)
	}
	return w.s.paint("2", l)
}

// text is "prod · DefaultCluster · broker-a/0 master · gap 8.0 KiB".
func (w *watcher) text(st Status) string {
	sep := " · "
	if !w.s.o.UTF8 {
		sep = " - "
	}
	var parts []string
	for _, p := range []string{st.Context, st.Cluster} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if st.Broker != "" {
		parts = append(parts, st.Broker+" "+roleWord(st.Role))
	}
	switch {
	case st.GapBytes != nil:
		parts = append(parts, "gap "+humanize.IBytes(uint64(max(0, *st.GapBytes))))
	case len(parts) > 0:
		parts = append(parts, "gap ?")
	case w.failed == nil:
		parts = append(parts, "?") // it is being asked
	case errors.Is(w.failed, context.DeadlineExceeded):
		parts = append(parts, "no nameserver answers in time")
	default:
		parts = append(parts, "no nameserver answers")
	}
	return strings.Join(parts, sep)
}

func (w *watcher) stop() {
	w.end()
	<-w.ended
}
