package shell

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Join says when a command runs, by the status of the one before.
type Join uint8

// The ways to join commands.
const (
	Always Join = iota // ; or a new line
	And                // && the status was 0
	Or                 // || it was not
)

// Command is one command of a line.
type Command struct {
	Join   Join
	Words  []Word
	System string // of !CMD: the text for the system's shell
	Pipe   string // of "| TEXT": the text for the system's shell
	File   *Word  // of > and >>
	Append bool   // >>
	Line   int    // where it begins, from 1
}

// Word is one word: pieces of text and of variables.
type Word []piece

type piece struct {
	text     string
	variable bool // text is the name of a variable
}

// Text is the word with its variables replaced.
func (w Word) Text(env func(name string) string) string {
	var b strings.Builder
	for _, p := range w {
		if p.variable {
			b.WriteString(env(p.text))
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// ErrIncomplete means that the text goes on in the next line: an open quote, a
// \ at the end, an open bracket of a JSON value, a line that ends in && or |.
var ErrIncomplete = errors.New("the command is not finished")

// SyntaxError is a text that is no command line.
type SyntaxError struct {
	Line int
	Text string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// Parse reads commands. The error is ErrIncomplete or a *SyntaxError. A word
// that is, or whose value after "=" is, a JSON object or array keeps its quotes
// and blanks.
func Parse(text string) ([]Command, error) {
	p := &parser{s: text, line: 1}
	return p.commands()
}

type parser struct {
	s    string
	at   int
	line int
}

func (p *parser) peek() byte {
	if p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

func (p *parser) has(prefix string) bool { return strings.HasPrefix(p.s[p.at:], prefix) }

func (p *parser) wrong(format string, args ...any) error {
	return &SyntaxError{Line: p.line, Text: fmt.Sprintf(format, args...)}
}

// blanks skips blanks and comments; a joined line counts as a blank.
func (p *parser) blanks() error {
	for p.at < len(p.s) {
		switch {
		case p.peek() == ' ' || p.peek() == '\t' || p.peek() == '\r':
			p.at++
		case p.has("\\\n"):
			p.at += 2
			p.line++
		case p.s[p.at:] == "\\":
			return ErrIncomplete
		case p.peek() == '#':
			for p.at < len(p.s) && p.peek() != '\n' {
				p.at++
			}
		default:
			return nil
		}
	}
	return nil
}

func (p *parser) commands() ([]Command, error) {
	var out []Command
	join, needed := Always, ""
	for {
		if err := p.blanks(); err != nil {
			return nil, err
		}
		if p.at >= len(p.s) {
			if needed != "" {
				return nil, ErrIncomplete
			}
			return out, nil
		}
		if p.peek() == '\n' || p.peek() == ';' {
			if p.peek() == ';' && (needed != "" || len(out) == 0) {
				return nil, p.wrong("there is no command before ;")
			}
			if p.peek() == '\n' {
				p.line++
			}
			p.at++
			if needed == "" {
				join = Always
			}
			continue
		}
		c, err := p.command()
		if err != nil {
			return nil, err
		}
		c.Join = join
		out = append(out, c)
		join, needed = Always, ""
		switch {
		case p.has("&&"):
			join, needed = And, "&&"
		case p.has("||"):
			join, needed = Or, "||"
		case p.peek() == '&':
			return nil, p.wrong("& is not possible: there are no jobs in the background")
		}
		p.at += len(needed)
	}
}

// command reads up to ; && || or the end of the line.
func (p *parser) command() (Command, error) {
	c := Command{Line: p.line}
	if p.peek() == '!' {
		p.at++
		text, err := p.system()
		c.System = text
		if err == nil && text == "" {
			err = p.wrong("! needs a command of the system")
		}
		return c, err
	}
	for {
		if err := p.blanks(); err != nil {
			return c, err
		}
		switch b := p.peek(); {
		case p.at >= len(p.s) || b == '\n' || b == ';' || b == '&' || p.has("||"):
			if len(c.Words) == 0 {
				return c, p.wrong("there is no command before %q", p.rest())
			}
			return c, nil
		case b == '|':
			if len(c.Words) == 0 {
				return c, p.wrong("there is no command before |")
			}
			p.at++
			text, err := p.system()
			if err == nil && text == "" {
				err = ErrIncomplete
			}
			c.Pipe = text
			return c, err
		case b == '<':
			return c, p.wrong("< is not possible; a FILE of a script is run by source")
		case b == '>':
			if err := p.redirect(&c); err != nil {
				return c, err
			}
		default:
			w, err := p.word()
			if err != nil {
				return c, err
			}
			c.Words = append(c.Words, w)
		}
	}
}

func (p *parser) rest() string {
	if len(p.s)-p.at > 8 {
		return p.s[p.at : p.at+8]
	}
	return p.s[p.at:]
}

func (p *parser) redirect(c *Command) error {
	if c.File != nil {
		return p.wrong("there are two files after >")
	}
	if c.Append = p.has(">>"); c.Append {
		p.at++
	}
	p.at++
	if err := p.blanks(); err != nil {
		return err
	}
	if p.at >= len(p.s) || strings.IndexByte("\n;&|<>", p.peek()) >= 0 {
		return p.wrong("> needs a file")
	}
	w, err := p.word()
	c.File = &w
	return err
}

// system takes text for the system's shell as it is, up to ; && || or the end of
// the line outside quotes and brackets.
func (p *parser) system() (string, error) {
	begin, depth := p.at, 0
	for p.at < len(p.s) {
		switch b := p.peek(); {
		case b == '\\':
			if p.at++; p.at >= len(p.s) {
				return "", ErrIncomplete
			}
			if p.peek() == '\n' {
				p.line++
			}
		case b == '\'' || b == '"' || b == '`':
			if err := p.skipQuoted(b); err != nil {
				return "", err
			}
		case b == '(' || b == '{':
			depth++
		case b == ')' || b == '}':
			depth--
		case depth <= 0 && (b == '\n' || b == ';' || p.has("&&") || p.has("||")):
			return strings.TrimSpace(p.s[begin:p.at]), nil
		case b == '\n':
			p.line++
		}
		p.at++
	}
	if depth > 0 {
		return "", ErrIncomplete
	}
	return strings.TrimSpace(p.s[begin:]), nil
}

// skipQuoted moves to the closing quote.
func (p *parser) skipQuoted(q byte) error {
	for p.at++; p.at < len(p.s); p.at++ {
		switch {
		case p.peek() == q:
			return nil
		case p.peek() == '\n':
			p.line++
		case p.peek() == '\\' && q != '\'':
			p.at++
		}
	}
	return ErrIncomplete
}

// word reads one word.
func (p *parser) word() (Word, error) {
	var w Word
	var b strings.Builder
	begin := p.at
	flush := func() {
		if b.Len() > 0 || len(w) == 0 {
			w = append(w, piece{text: b.String()})
			b.Reset()
		}
	}
	for p.at < len(p.s) {
		c := p.peek()
		switch {
		case strings.IndexByte(" \t\r\n;|&<>", c) >= 0:
			flush()
			return w, nil
		case (c == '{' || c == '[') && (p.at == begin || p.s[p.at-1] == '='):
			text, err := p.brackets()
			if err != nil {
				return nil, err
			}
			b.WriteString(text)
		case c == '\\':
			if p.at++; p.at >= len(p.s) {
				return nil, ErrIncomplete
			}
			if p.peek() != '\n' {
				p.rune(&b)
				continue
			}
			p.line++
			p.at++
		case c == '\'':
			text, err := p.single()
			if err != nil {
				return nil, err
			}
			b.WriteString(text)
		case c == '"':
			if err := p.double(&w, &b); err != nil {
				return nil, err
			}
		case c == '$':
			if err := p.variable(&w, &b); err != nil {
				return nil, err
			}
		default:
			p.rune(&b)
		}
	}
	flush()
	return w, nil
}

// rune copies one character.
func (p *parser) rune(b *strings.Builder) {
	_, n := utf8.DecodeRuneInString(p.s[p.at:])
	b.WriteString(p.s[p.at : p.at+n])
	p.at += n
}

// brackets copies a JSON value, with its quotes and blanks.
func (p *parser) brackets() (string, error) {
	begin, depth := p.at, 0
	for p.at < len(p.s) {
		switch p.peek() {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			if err := p.skipQuoted('"'); err != nil {
				return "", err
			}
		case '\n':
			p.line++
		}
		p.at++
		if depth == 0 {
			return p.s[begin:p.at], nil
		}
	}
	return "", ErrIncomplete
}

func (p *parser) single() (string, error) {
	begin := p.at + 1
	if err := p.skipQuoted('\''); err != nil {
		return "", err
	}
	text := p.s[begin:p.at]
	p.at++
	return text, nil
}

// double reads "…" with variables; \ protects only ", \, $ and a new line.
func (p *parser) double(w *Word, b *strings.Builder) error {
	p.at++
	for p.at < len(p.s) {
		switch c := p.peek(); c {
		case '"':
			p.at++
			return nil
		case '$':
			if err := p.variable(w, b); err != nil {
				return err
			}
		case '\\':
			p.at++
			switch {
			case p.at >= len(p.s):
				return ErrIncomplete
			case p.peek() == '\n':
				p.at++
				p.line++
			case strings.IndexByte("\"\\$`", p.peek()) >= 0:
				p.rune(b)
			default:
				b.WriteByte('\\')
			}
		default:
			if c == '\n' {
				p.line++
			}
			p.rune(b)
		}
	}
	return ErrIncomplete
}

// variable reads $?, $NAME or ${NAME}; any other $ is itself.
func (p *parser) variable(w *Word, b *strings.Builder) error {
	p.at++
	name := ""
	switch {
	case p.peek() == '?':
		name = "?"
		p.at++
	case p.peek() == '{':
		end := strings.IndexByte(p.s[p.at:], '}')
		if end < 0 {
			return p.wrong("${ is not closed")
		}
		name = p.s[p.at+1 : p.at+end]
		if name != "?" && !isName(name) {
			return p.wrong("${%s} is no variable: there are only $? and the names of the environment", name)
		}
		p.at += end + 1
	default:
		for p.at < len(p.s) && nameByte(p.peek(), name == "") {
			name += string(p.peek())
			p.at++
		}
	}
	if name == "" {
		b.WriteByte('$')
		return nil
	}
	if b.Len() > 0 {
		*w = append(*w, piece{text: b.String()})
		b.Reset()
	}
	*w = append(*w, piece{text: name, variable: true})
	return nil
}

func nameByte(c byte, first bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || !first && c >= '0' && c <= '9'
}

func isName(s string) bool {
	for i := range len(s) {
		if !nameByte(s[i], i == 0) {
			return false
		}
	}
	return s != ""
}

// Quote writes a word so that Parse reads it back.
func Quote(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\r\n;|&<>'\"\\$#!{[") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
