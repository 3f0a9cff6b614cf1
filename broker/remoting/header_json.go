package remoting

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting bounds the depth of values that a JSON header may hold.
const maxNesting = 64

// scanner walks JSON text. It changes the text: strings with escapes are
// unescaped where they lie (they only get shorter).
type scanner struct {
	b []byte
	i int
}

func (s *scanner) fail(why string) error {
	return &FrameError{Why: fmt.Sprintf("JSON header, byte %d: %s", s.i, why)}
}

// peek skips whitespace and returns the next byte without taking it, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' {
		return s.b[s.i]
	}
	return s.skipSpace()
}

func (s *scanner) skipSpace() byte {
	for s.i < len(s.b) {
		if c := s.b[s.i]; c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
		s.i++
	}
	return 0
}

// take skips whitespace and takes c if it is next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

// scanJSON reads the JSON header in b, which it rewrites: the object extFields
// becomes the packed layout of Fields. Everything encoding/json takes is taken, and
// numbers as strings besides, as fastjson does; unknown keys are ignored.
func (h *Header) scanJSON(b []byte) error {
	s := scanner{b: b}
	h.Language = languages[0]
	if !s.take('{') {
		return s.fail("no object")
	}
	if s.take('}') {
		return s.end()
	}
	for {
		key, err := s.str()
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.fail("no colon after a key")
		}
		if err := h.scanMember(&s, key); err != nil {
			return err
		}
		if s.take(',') {
			s.peek()
			continue
		}
		if s.take('}') {
			return s.end()
		}
		return s.fail("no comma between members")
	}
}

// end checks that nothing follows the object.
func (s *scanner) end() error {
	if s.peek(); s.i != len(s.b) {
		return s.fail("text after the object")
	}
	return nil
}

// scanMember reads the value of one member of the header.
func (h *Header) scanMember(s *scanner, key []byte) (err error) {
	switch string(key) {
	case "code":
		h.Code, err = s.integer()
	case "flag":
		h.Flag, err = s.integer()
	case "version":
		h.Version, err = s.integer()
	case "opaque":
		var v int
		v, err = s.integer()
		h.Opaque = int32(v)
	case "language":
		err = h.scanLanguage(s)
	case "remark":
		h.Remark, err = s.text()
	case "extFields":
		h.Ext, err = s.scanExt()
	default:
		_, err = s.skip()
	}
	return err
}

func (h *Header) scanLanguage(s *scanner) error {
	if c := s.peek(); c == '"' {
		name, err := s.str()
		if err == nil {
			h.Language = languageOf(name)
		}
		return err
	} else if c == 'n' {
		_, err := s.skip()
		return err
	}
	n, err := s.integer()
	if err == nil && n >= 0 && n <= 255 {
		h.Language = languageName(byte(n))
	}
	return err
}

// text is a string or null (nil). Other scalars give their text.
func (s *scanner) text() ([]byte, error) {
	switch s.peek() {
	case '"':
		return s.str()
	case 'n':
		_, err := s.skip()
		return nil, err
	}
	return s.skip()
}

// integer is a number of 32 bits, perhaps in quotes; null counts as 0.
func (s *scanner) integer() (int, error) {
	at := s.i
	b, err := s.text()
	if err != nil || b == nil {
		return 0, err
	}
	v, ok := ParseInt(b)
	if !ok || v != int64(int32(v)) {
		s.i = at
		return 0, s.fail(fmt.Sprintf("%q is no number of 32 bits", clip(b)))
	}
	return int(v), nil
}

// str takes a string and unescapes it in place.
func (s *scanner) str() ([]byte, error) {
	if !s.take('"') {
		return nil, s.fail("no string")
	}
	start := s.i
	end := start
	for end < len(s.b) && end < start+12 && s.b[end] != '"' && s.b[end] != '\\' {
		end++ // most are short
	}
	if end == start+12 {
		end = special(s.b, end)
	}
	if end == len(s.b) {
		return nil, s.fail("string without an end")
	}
	if s.b[end] == '\\' {
		return s.unescape(start, end)
	}
	s.i = end + 1
	return s.b[start:end:end], nil
}

// special is the place of the first quote or backslash in b from i on, len(b) if
// there is none. It looks at eight bytes at a time: x^pattern has a zero byte where
// they match, and (y-ones)&^y&highs marks the zero bytes of y (the lowest mark is
// always right, those above may be a borrow's).
func special(b []byte, i int) int {
	const (
		ones      = 0x0101010101010101
		highs     = 0x8080808080808080
		quote     = '"' * ones
		backslash = '\\' * ones
	)
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		q, s := x^quote, x^backslash
		if m := ((q-ones)&^q | (s-ones)&^s) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if b[i] == '"' || b[i] == '\\' {
			return i
		}
	}
	return i
}

// unescape takes the string that begins at start and has its first backslash at r.
func (s *scanner) unescape(start, r int) ([]byte, error) {
	b := s.b
	w := r
	for r < len(b) {
		if b[r] == '"' {
			s.i = r + 1
			return b[start:w:w], nil
		}
		// The separators of message properties, 1 and 2, come often: \u0001.
		if len(b) > r+5 && b[r+1] == 'u' && b[r+2] == '0' && b[r+3] == '0' && b[r+4] == '0' && b[r+5]-'0' <= 9 {
			b[w] = b[r+5] - '0'
			w++
			r += 6
		} else {
			var n int
			if w, n = unescapeOne(b, w, r); n == 0 {
				s.i = r
				return nil, s.fail("bad escape")
			}
			r += n
		}
		next := special(b, r)
		w += copy(b[w:], b[r:next])
		r = next
	}
	s.i = r
	return nil, s.fail("string without an end")
}

// unescapeOne writes the escape sequence at b[r] to b[w] (w <= r) and returns the
// new w and the length of the sequence, 0 if it is none.
func unescapeOne(b []byte, w, r int) (int, int) {
	if r+1 >= len(b) {
		return w, 0
	}
	c := b[r+1]
	switch c {
	case '"', '\\', '/', '\'':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return unescapeUnicode(b, w, r)
	default:
		return w, 0
	}
	b[w] = c
	return w + 1, 2
}

// unescapeUnicode is unescapeOne for \uXXXX, a pair of surrogates included.
// A surrogate alone becomes U+FFFD, as in encoding/json.
func unescapeUnicode(b []byte, w, r int) (int, int) {
	c, ok := hex4(b[r+2:])
	if !ok {
		return w, 0
	}
	n := 6
	if utf16.IsSurrogate(c) {
		pair := rune(utf8.RuneError)
		if len(b) > r+8 && b[r+6] == '\\' && b[r+7] == 'u' {
			if low, ok := hex4(b[r+8:]); ok {
				pair = utf16.DecodeRune(c, low)
			}
		}
		if c = pair; c != utf8.RuneError {
			n = 12
		}
	}
	return w + utf8.EncodeRune(b[w:], c), n
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var v rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | rune(c)
	}
	return v, true
}

// skip takes any value and returns its text (of a string: its content). Nesting
// is bounded; brackets must match, but what lies between is not looked at closely.
func (s *scanner) skip() ([]byte, error) {
	c := s.peek()
	if c == '"' {
		return s.str()
	}
	start := s.i
	if c != '{' && c != '[' {
		return s.word()
	}
	var closers [maxNesting]byte
	depth := 0
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case '{', '[':
			if depth == maxNesting {
				return nil, s.fail("nested too deeply")
			}
			closers[depth] = c + 2 // '{'+2 is '}' and '['+2 is ']'
			depth++
		case '}', ']':
			if depth--; closers[depth] != c {
				return nil, s.fail("brackets do not match")
			}
			if depth == 0 {
				s.i++
				return s.b[start:s.i:s.i], nil
			}
		case '"':
			if err := s.skipString(); err != nil {
				return nil, err
			}
			continue
		}
		s.i++
	}
	return nil, s.fail("value without an end")
}

// skipString passes a string without changing it.
func (s *scanner) skipString() error {
	for i := s.i + 1; i < len(s.b); i++ {
		switch s.b[i] {
		case '\\':
			i++
		case '"':
			s.i = i + 1
			return nil
		}
	}
	return s.fail("string without an end")
}

// word takes a number, true, false or null.
func (s *scanner) word() ([]byte, error) {
	start := s.i
	for s.i < len(s.b) {
		c := s.b[s.i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E' {
			s.i++
			continue
		}
		break
	}
	w := s.b[start:s.i:s.i]
	if len(w) == 0 {
		return nil, s.fail("no value")
	}
	if c := w[0]; c != '-' && (c < '0' || c > '9') {
		switch string(w) {
		case "true", "false", "null":
		default:
			return nil, s.fail(fmt.Sprintf("%q is no value", clip(w)))
		}
	}
	return w, nil
}
