package cli

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// control is the first control character of b that is no line end, no tab and, where
// colours are in use, not the begin of one, and its length; -1 if there is none. Bytes that are no UTF-8 count
// where they are control characters of an 8-bit terminal.
func control(b []byte, colours bool) (at, size int) {
	for i := 0; i < len(b); {
		c := b[i]
		switch {
		case c == 0x1b:
			n := colour(b[i:])
			if n == 0 || !colours {
				return i, 1
			}
			i += n
			continue
		case c < ' ' && c != '\n' && c != '\t', c == 0x7f:
			return i, 1
		case c < utf8.RuneSelf:
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if r >= 0x80 && r < 0xa0 || r == utf8.RuneError && n == 1 && c < 0xa0 {
			return i, n
		}
		i += n
	}
	return -1, 0
}

// colour is the length of the sequence that b begins with if it only sets colours.
func colour(b []byte) int {
	if len(b) < 2 || b[1] != '[' {
		return 0
	}
	for i, c := range b[2:] {
		switch {
		case c == 'm':
			return i + 3
		case c != ';' && (c < '0' || c > '9'):
			return 0
		}
	}
	return 0
}

// replaceControls puts question marks in the places of control characters. b is not changed.
func replaceControls(b []byte, colours bool) []byte {
	return withoutControls(b, colours, func([]byte) string { return "?" })
}

// escapeControls does it for JSON, where only those from U+007F on can be: as \u007f.
func escapeControls(b []byte) []byte {
	return withoutControls(b, false, func(c []byte) string {
		r, n := utf8.DecodeRune(c)
		if r == utf8.RuneError && n <= 1 {
			return "?"
		}
		return fmt.Sprintf("\\u%04x", r)
	})
}

func withoutControls(b []byte, colours bool, instead func(c []byte) string) []byte {
	at, size := control(b, colours)
	if at < 0 {
		return b
	}
	var out bytes.Buffer
	for ; at >= 0; at, size = control(b, colours) {
		out.Write(b[:at])
		out.WriteString(instead(b[at : at+size]))
		b = b[at+size:]
	}
	out.Write(b)
	return out.Bytes()
}
