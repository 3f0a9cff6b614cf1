package broker

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// entry is one setting of a file: where its key begins, and its value as text.
type entry struct {
	key, value string
	line       int // of the key, from 1
	lastLine   int // of the end of the value
	trailing   bool
}

// maxConfigBytes bounds a configuration file and the body of request 25.
const maxConfigBytes = 1 << 20

// configText is the text of a file of UTF-8 or, where that does not fit, of
// ISO 8859-1, which is what java.util.Properties takes a stream for. A byte
// order mark is dropped.
func configText(data []byte) string {
	s := strings.TrimPrefix(string(data), "\uFEFF")
	if utf8.ValidString(s) {
		return s
	}
	r := make([]rune, len(s))
	for i := range len(s) {
		r[i] = rune(s[i])
	}
	return string(r)
}

// parseProperties reads the format of java.util.Properties.load: comments of #
// and !, keys that end at =, : or white space, values continued by a backslash
// at the end of a line, and the escapes \t \n \r \f \uXXXX.
func parseProperties(text string) ([]entry, error) {
	var out []entry
	lines := naturalLines(text)
	for i := 0; i < len(lines); i++ {
		start := i
		logical := trimLeftBlank(lines[i])
		if logical == "" || logical[0] == '#' || logical[0] == '!' {
			continue
		}
		for endsInBackslash(logical) {
			logical = logical[:len(logical)-1]
			if i++; i == len(lines) {
				break
			}
			logical += trimLeftBlank(lines[i])
		}
		key, value := splitProperty(logical)
		e := entry{line: start + 1, lastLine: min(i+1, len(lines))}
		var err error
		if e.key, err = unescapeProperty(key); err == nil {
			e.value, err = unescapeProperty(value)
		}
		if err != nil {
			return nil, &ConfigError{Line: start + 1, Why: err.Error(), Try: `write a backslash as \\`}
		}
		e.trailing = e.value != strings.TrimRight(e.value, " \t")
		out = append(out, e)
	}
	return out, nil
}

// naturalLines cuts at \n, \r and \r\n; a last empty line is dropped.
func naturalLines(text string) []string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func trimLeftBlank(s string) string { return strings.TrimLeft(s, " \t\f") }

// endsInBackslash: an even number of them are escaped backslashes.
func endsInBackslash(s string) bool {
	n := len(s) - len(strings.TrimRight(s, `\`))
	return n%2 == 1
}

// splitProperty cuts a logical line at its first separator that is not escaped.
func splitProperty(s string) (key, value string) {
	i := 0
	for i < len(s) && !strings.ContainsRune("=: \t\f", rune(s[i])) {
		if s[i] == '\\' {
			i++
		}
		i++
	}
	i = min(i, len(s))
	value = trimLeftBlank(s[i:])
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = trimLeftBlank(value[1:])
	}
	return s[:i], value
}

func unescapeProperty(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			break // a lone backslash at the end of the file
		}
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			r, n, err := unicodeEscape(s[i-1:])
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			i += n - 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

// unicodeEscape reads \uXXXX, or two of them that make a surrogate pair, and
// says how long that was.
func unicodeEscape(s string) (rune, int, error) {
	hi, ok := hex4(s)
	if !ok {
		return 0, 0, fmt.Errorf(`\u needs four hexadecimal digits`)
	}
	if hi >= 0xD800 && hi < 0xDC00 {
		if lo, ok := hex4(s[6:]); ok && lo >= 0xDC00 && lo < 0xE000 {
			return 0x10000 + (hi-0xD800)<<10 + (lo - 0xDC00), 12, nil
		}
	}
	return hi, 6, nil
}

func hex4(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s[2:6]) {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

// escapeProperty writes a value so that parseProperties reads it back.
func escapeProperty(v string) string {
	var b strings.Builder
	for i, r := range v {
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == ' ' && i == 0:
			b.WriteString(`\ `)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04X`, r)
		case r > 0x7E && r <= 0xFFFF:
			fmt.Fprintf(&b, `\u%04X`, r)
		case r > 0xFFFF:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04X\u%04X`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
