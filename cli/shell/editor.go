package shell

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
)

// ErrInterrupt is what ReadLine returns when the user pressed Ctrl-C.
var ErrInterrupt = errors.New("interrupted")

// Candidate is one word that completion offers.
type Candidate struct {
	Word string
	Text string // what it is, "" for none
}

// Completer gives the candidates for the word that ends at pos (in bytes), and
// where that word begins. It does not wait any more when ctx ends: the next key
// was pressed.
type Completer func(ctx context.Context, line string, pos int) (begin int, all []Candidate)

// LineEditor reads lines from the user.
type LineEditor interface {
	// ReadLine reads one line; the error is io.EOF, ErrInterrupt, or that of the input.
	ReadLine(prompt string) (line string, err error)
	SetCompleter(Completer)
	// SetTyping sets what is called while a line is being typed: a Ctrl-C of before
	// is over then, and one that comes after the last call belongs to the line.
	SetTyping(func())
	// SetHistory replaces the lines that Up and Ctrl-R look through, the oldest first.
	SetHistory(lines []string)
	// Notify prints a line above the prompt without disturbing it.
	Notify(line string)
	// Discard drops what was typed or pasted ahead and returns the number of its
	// lines; coming says whether what still comes without a pause is part of it.
	Discard(coming bool) int
	// Interrupted tells of a Ctrl-C that came with the line that was read last, too
	// early to be a signal. It drops it and the lines before it, which it counts.
	Interrupted() (dropped int, ok bool)
	// Close restores the terminal; nothing is left that reads the input. It may be
	// called while ReadLine waits, which then ends with io.EOF.
	Close() error
}

// plainEditor reads lines without editing: for inputs that are no terminal, and
// for terminals that cannot move the cursor (TERM=dumb).
type plainEditor struct {
	in     *bufio.Reader
	out    io.Writer // of the prompt; nil prints none
	typing func()
}

// NewPlain makes an editor that only reads lines, of at most 1 MiB. It prints
// prompts to out unless that is nil.
func NewPlain(in io.Reader, out io.Writer) LineEditor {
	return &plainEditor{in: bufio.NewReader(in), out: out}
}

// longestLine bounds one line of input in bytes.
const longestLine = 1 << 20

var errLongLine = errors.New("the line is longer than 1 MiB")

func (e *plainEditor) ReadLine(prompt string) (string, error) {
	if e.out != nil && prompt != "" {
		if _, err := io.WriteString(e.out, prompt); err != nil {
			return "", err
		}
	}
	var line []byte
	for {
		part, err := e.in.ReadSlice('\n')
		if len(line)+len(part) > longestLine {
			return "", errLongLine
		}
		line = append(line, part...)
		if e.typing != nil {
			e.typing()
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)) {
			return "", err
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), nil
	}
}

func (e *plainEditor) SetCompleter(Completer) {}
func (e *plainEditor) SetTyping(f func())     { e.typing = f }
func (e *plainEditor) SetHistory([]string)    {}
func (e *plainEditor) Close() error           { return nil }
func (e *plainEditor) Discard(bool) int       { return 0 }
func (e *plainEditor) Interrupted() (int, bool) {
	return 0, false // the terminal makes a signal of each
}
func (e *plainEditor) Notify(line string) {
	if e.out != nil {
		_, _ = io.WriteString(e.out, line+"\n") // a prompt is lost with it, nothing else
	}
}
