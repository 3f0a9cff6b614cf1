package shell

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/chzyer/readline"
)

// terminalEditor is chzyer/readline behind a keyReader; what it edits is drawn by
// our own screen. Candidates are shown by
// us: one Tab completes as far as it is certain, a second one lists what is
// possible with its descriptions.
type terminalEditor struct {
	rl   *readline.Instance
	keys *keyReader
	view *screen
	once sync.Once

	mu       sync.Mutex
	typing   func()
	complete Completer
	history  []string
	listed   string // line for which Tab found nothing more to add

	// of the goroutine that handles keys
	step   int    // a move through the history that the next change makes
	typed  string // the beginning that Up looks for
	at     int    // place in history; len(history): the typed line
	shown  string // what the last move showed
	sought []rune // typed after Ctrl-R
	line   string
	pos    atomic.Int64
}

// While a line is being edited the terminal is asked to tell what was pasted.
const (
	askBrackets = "\x1b[?2004h"
	noBrackets  = "\x1b[?2004l"
)

// IsTerminal says whether somebody may sit at the descriptor fd.
func IsTerminal(fd int) bool { return readline.IsTerminal(fd) }

// NewTerminal makes the editor of a terminal.
func NewTerminal(in, out *os.File) (LineEditor, error) {
	keys, err := newKeyReader(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	e := &terminalEditor{keys: keys, view: &screen{out: out, width: readline.GetScreenWidth}}
	e.rl, err = readline.NewEx(&readline.Config{
		Stdin: keys, Stdout: io.Discard, Stderr: io.Discard, FuncIsTerminal: func() bool { return true }, HistoryLimit: longestHistory, DisableAutoSaveHistory: true, HistorySearchFold: true,
		AutoComplete: e, FuncFilterInputRune: e.filter, EOFPrompt: "exit",
	})
	if err != nil {
		return nil, errors.Join(err, keys.Close())
	}
	e.rl.Config.SetListener(e.changed)
	e.rl.Config.FuncOnWidthChanged(func() { e.view.resized(int(e.pos.Load())) })
	return e, nil
}

func (e *terminalEditor) ReadLine(prompt string) (string, error) {
	e.keys.enable(true)
	defer e.keys.enable(false)
	e.view.write(askBrackets)
	defer e.view.write(noBrackets)
	e.view.begin(prompt)
	e.pos.Store(0)
	line, err := e.rl.Readline()
	switch {
	case errors.Is(err, readline.ErrInterrupt):
		e.view.end("^C")
		return "", ErrInterrupt
	case errors.Is(err, io.EOF):
		e.view.end("exit")
	default:
		e.view.draw([]rune(line), len([]rune(line)))
		e.view.end("")
	}
	return line, err
}

func (e *terminalEditor) SetCompleter(c Completer) {
	e.mu.Lock()
	e.complete = c
	e.mu.Unlock()
}

func (e *terminalEditor) SetTyping(f func()) {
	e.mu.Lock()
	e.typing = f
	e.mu.Unlock()
}

func (e *terminalEditor) SetHistory(lines []string) {
	e.mu.Lock()
	e.history = lines
	e.mu.Unlock()
	e.rl.ResetHistory()
	for _, l := range lines {
		_ = e.rl.SaveHistory(l) // there is no file behind it that could fail
	}
}

func (e *terminalEditor) Notify(line string) {
	e.view.above(line+"\n", int(e.pos.Load()))
}

func (e *terminalEditor) Discard(coming bool) int {
	if coming {
		return e.keys.discard()
	}
	return e.keys.forget()
}

func (e *terminalEditor) Interrupted() (int, bool) { return e.keys.interrupted() }

func (e *terminalEditor) Close() error {
	var err error
	e.once.Do(func() { err = errors.Join(e.keys.Close(), e.rl.Close()) })
	return err
}

// filter turns Up and Down into a key without an effect, after which changed
// puts the line that was looked for; Ctrl-Z does nothing here.
func (e *terminalEditor) filter(r rune) (rune, bool) {
	e.step = 0
	if e.rl != nil && e.rl.Operation.IsSearchMode() {
		e.searching(r)
		if r == readline.CharInterrupt {
			return readline.CharBell, true // ends the search, not the line
		}
	} else {
		e.sought = nil
	}
	switch r {
	case readline.CharPrev:
		e.step = -1
		return readline.CharBell, true
	case readline.CharNext:
		e.step = +1
		return readline.CharBell, true
	case readline.CharCtrlL:
		e.view.clear(int(e.pos.Load()))
		return readline.CharBell, true
	case readline.CharCtrlZ:
		return readline.CharBell, true
	}
	return r, true
}

// searching keeps what is typed after Ctrl-R.
func (e *terminalEditor) searching(r rune) {
	switch {
	case r == readline.CharBackspace || r == readline.CharCtrlH:
		if n := len(e.sought); n > 0 {
			e.sought = e.sought[:n-1]
		}
	case r >= ' ':
		e.sought = append(e.sought, r)
	}
}

// changed is called after each key, and with key 0 when a line begins and the
// terminal has come to give keys.
func (e *terminalEditor) changed(line []rune, pos int, key rune) ([]rune, int, bool) {
	line, pos, ok := e.moved(line, pos, key)
	ended := key == readline.CharEnter || key == readline.CharCtrlJ || key == readline.CharInterrupt
	if !ended {
		e.mu.Lock()
		typing := e.typing
		e.mu.Unlock()
		if typing != nil {
			typing()
		}
	}
	if !ended && key != 0 && (key != readline.CharDelete || len(line) > 0) {
		e.pos.Store(int64(pos))
		if e.rl.Operation.IsSearchMode() {
			note := []rune("   (search: " + string(e.sought) + ")")
			e.view.draw(append(append([]rune(nil), line...), note...), pos)
		} else {
			e.view.draw(line, pos)
		}
	}
	return line, pos, ok
}

// moved puts the line of the history that Up or Down asked for.
func (e *terminalEditor) moved(line []rune, pos int, key rune) ([]rune, int, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if key == 0 {
		e.at, e.line, e.shown, e.step, e.listed, e.sought = len(e.history), "", "", 0, "", nil
		return line, pos, false
	}
	e.line = string(line)
	if e.step == 0 {
		return line, pos, false
	}
	if e.line != e.shown || e.at >= len(e.history) {
		e.at, e.typed = len(e.history), e.line
	}
	found := e.search()
	e.step = 0
	if found == nil {
		return line, pos, false
	}
	e.shown = *found
	out := []rune(e.shown)
	return out, len(out), true
}

// search moves through the lines with the typed beginning; nil: there is no more.
func (e *terminalEditor) search() *string {
	for i := e.at + e.step; i >= 0 && i <= len(e.history); i += e.step {
		if i == len(e.history) {
			e.at = i
			return &e.typed
		}
		if l := e.history[i]; strings.HasPrefix(l, e.typed) && l != e.shown {
			e.at = i
			return &e.history[i]
		}
	}
	return nil
}

// Do is the Tab key.
func (e *terminalEditor) Do(runes []rune, pos int) ([][]rune, int) {
	e.mu.Lock()
	complete := e.complete
	e.mu.Unlock()
	if complete == nil {
		return nil, 0
	}
	line := string(runes[:pos])
	ctx, done := e.keys.untilKey(context.Background())
	begin, all := complete(ctx, line, len(line))
	done()
	typed := line[begin:]
	add, sure := extension(typed, all)
	switch {
	case sure:
		e.listed = ""
		return [][]rune{[]rune(add)}, len([]rune(typed))
	case add != "":
		e.listed = ""
		return [][]rune{[]rune(add)}, len([]rune(typed))
	case len(all) > 1 && e.listed == line:
		for _, l := range Listing(all, readline.GetScreenWidth()) {
			e.Notify(l)
		}
	default:
		e.listed = line
	}
	return nil, 0
}

// extension is what can be added to the typed beginning: all of the only
// candidate and a blank (sure), or what all candidates share.
func extension(typed string, all []Candidate) (add string, sure bool) {
	if len(all) == 0 {
		return "", false
	}
	common := all[0].Word
	for _, c := range all[1:] {
		n := 0
		for n < len(common) && n < len(c.Word) && common[n] == c.Word[n] {
			n++
		}
		common = common[:n]
	}
	for !utf8.ValidString(common) && common != "" {
		common = common[:len(common)-1]
	}
	if len(all) == 1 {
		common = Quote(all[0].Word)
		if !strings.HasSuffix(common, "/") && !strings.HasSuffix(common, "=") {
			common += " "
		}
	}
	if !strings.HasPrefix(common, typed) {
		return "", false
	}
	return common[len(typed):], len(all) == 1
}

// mostListed bounds the lines of a list of candidates.
const mostListed = 100

// Listing is the list of candidates with their descriptions, no line wider than
// the terminal.
func Listing(all []Candidate, width int) []string {
	widest := 0
	for _, c := range all {
		widest = max(widest, cells(c.Word))
	}
	widest = min(widest, 40)
	var out []string
	for i, c := range all {
		if i == mostListed {
			return append(out, "… and more: type more of the word")
		}
		l := "  " + c.Word
		if c.Text != "" {
			l += strings.Repeat(" ", max(0, widest-cells(c.Word))) + "  " + c.Text
		}
		out = append(out, cut(l, width-1))
	}
	return out
}
