package shell

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
)

// screen draws the line that is being edited. The line editor's own drawing
// counts columns as if every sign could begin in the last one; terminals put a
// wide sign that does not fit into the next row, and its cursor goes astray.
// Only what changed is written, which matters on a slow link.
type screen struct {
	out   io.Writer
	width func() int

	mu     sync.Mutex
	on     bool // a line is being edited
	prompt string
	line   []rune
	row    int // of the cursor, from the row of the prompt
}

var colours = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\x1b\[[0-9;]*m`)
})

// shownRune is what stands for a sign of the line.
func shownRune(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return '?'
	}
	return r
}

// spot is a place on the terminal, counted from where the prompt begins.
type spot struct{ row, col int }

// after is the place behind a sign that is written at p. A sign that does not
// fit goes into the next row; a full row ends at the beginning of the next one.
func (p spot) after(r rune, width int) spot {
	n := cells(string(shownRune(r)))
	if p.col+n > width {
		p = spot{p.row + 1, 0}
	}
	p.col += n
	if p.col >= width {
		p = spot{p.row + 1, 0}
	}
	return p
}

// at is the place behind the first n signs of the line.
func (s *screen) at(line []rune, n, width int) spot {
	p := spot{}
	for _, r := range colours().ReplaceAllString(s.prompt, "") {
		p = p.after(r, width)
	}
	for _, r := range line[:n] {
		p = p.after(r, width)
	}
	return p
}

// columns is the width, never too small to draw.
func (s *screen) columns() int {
	if w := s.width(); w >= 4 {
		return w
	}
	return 80
}

// begin shows the prompt.
func (s *screen) begin(prompt string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.prompt, s.line, s.row = true, prompt, nil, 0
	s.write("\r" + prompt + "\x1b[J")
	w := s.columns()
	if p := s.at(nil, 0, w); p.col == 0 && p.row > 0 {
		s.write("\r\n")
	}
	s.row = s.at(nil, 0, w).row
}

func (s *screen) write(text string) { _, _ = io.WriteString(s.out, text) } // a terminal that has gone ends the input too

// draw shows a line with the cursor behind its first pos signs.
func (s *screen) draw(line []rune, pos int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.on {
		return
	}
	w := s.columns()
	same := 0
	for same < len(line) && same < len(s.line) && line[same] == s.line[same] {
		same++
	}
	var b strings.Builder
	if same < len(line) || same < len(s.line) {
		s.move(&b, s.at(s.line, same, w))
		s.put(&b, line[same:], s.at(line, same, w), w)
		if same < len(s.line) {
			b.WriteString("\x1b[J")
		}
	}
	s.line = append(s.line[:0:0], line...)
	s.move(&b, s.at(line, min(pos, len(line)), w))
	s.write(b.String())
}

// put writes signs that begin at a place.
func (s *screen) put(b *strings.Builder, line []rune, from spot, width int) {
	for _, r := range line {
		next := from.after(r, width)
		if next.row > from.row && next.col > 0 { // it does not fit: leave the rest of the row blank
			b.WriteString("\x1b[K\r\n")
		}
		b.WriteRune(shownRune(r))
		if next.col == 0 { // the row is full, the terminal still waits in it
			b.WriteString("\r\n")
		}
		from = next
	}
	s.row = from.row
}

// move brings the cursor to a place.
func (s *screen) move(b *strings.Builder, to spot) {
	switch {
	case to.row < s.row:
		fmt.Fprintf(b, "\x1b[%dA", s.row-to.row)
	case to.row > s.row:
		fmt.Fprintf(b, "\x1b[%dB", to.row-s.row)
	}
	b.WriteString("\r")
	if to.col > 0 {
		fmt.Fprintf(b, "\x1b[%dC", to.col)
	}
	s.row = to.row
}

// above writes text above the line.
func (s *screen) above(text string, pos int) {
	s.mu.Lock()
	if !s.on {
		s.write(text)
		s.mu.Unlock()
		return
	}
	var b strings.Builder
	s.move(&b, spot{})
	b.WriteString("\x1b[J" + strings.ReplaceAll(text, "\n", "\r\n"))
	s.write(b.String())
	line, prompt := s.line, s.prompt
	s.mu.Unlock()
	s.begin(prompt)
	s.draw(line, pos)
}

// end leaves the line and begins a new row; note is written behind it.
func (s *screen) end(note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.on {
		return
	}
	w := s.columns()
	var b strings.Builder
	last := s.at(s.line, len(s.line), w)
	s.move(&b, last)
	b.WriteString(note)
	if last.col > 0 || note != "" {
		b.WriteString("\r\n")
	}
	s.write(b.String())
	s.on = false
}

// clear empties the terminal around the line.
func (s *screen) clear(pos int) {
	s.mu.Lock()
	line, prompt := s.line, s.prompt
	s.write("\x1b[H\x1b[2J")
	s.row = 0
	s.mu.Unlock()
	s.begin(prompt)
	s.draw(line, pos)
}

// resized draws everything again for another width.
func (s *screen) resized(pos int) {
	s.mu.Lock()
	line, prompt, on := s.line, s.prompt, s.on
	if on {
		var b strings.Builder
		s.move(&b, spot{})
		s.write(b.String())
	}
	s.mu.Unlock()
	if on {
		s.begin(prompt)
		s.draw(line, pos)
	}
}
