package fastjson

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Marshal is compact JSON without HTML escaping; RawMaps get bare keys.
func Marshal(v any) ([]byte, error) {
	b, err := plain(v)
	if err != nil {
		return nil, err
	}
	return bare(b), nil
}

// MarshalIndent writes v as Java's ConfigManager does: tabs, "key":value
// without a blank, arrays of plain values on one line, the entries of a map
// with bare integer keys on one line, no newline at the end. HTML characters
// are not escaped. Fields come in the order of the struct, which should be by
// name to look like Java's.
func MarshalIndent(v any) ([]byte, error) {
	b, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	return indent(b), nil
}

func plain(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// RawMap is a map whose keys Marshal writes bare, as fastjson does: {0:"a"}
// for integers, {{"queueId":0}:1} for structs. Java's typed decoder wants
// object keys in that form and no other. Keys are written in the order of
// their numbers, else of their text. Plain encoding/json writes the same keys
// quoted, and Unmarshal reads either form.
type RawMap[K comparable, V any] map[K]V

// keyMark begins a key that is to be bare: encoding/json never writes a digit,
// a minus or a brace as an escape, so no other string looks like that, and a
// reader of JSON sees the same key.
const keyMark = `"\u00`

// MarshalJSON implements json.Marshaler.
func (m RawMap[K, V]) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("null"), nil
	}
	type entry struct {
		text []byte
		key  K
	}
	entries := make([]entry, 0, len(m))
	for k := range m {
		text, err := plain(k)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{text, k})
	}
	slices.SortFunc(entries, func(a, b entry) int { return compareKeys(a.text, b.text) })
	out := []byte{'{'}
	for i, e := range entries {
		if i > 0 {
			out = append(out, ',')
		}
		value, err := plain(m[e.key])
		if err != nil {
			return nil, err
		}
		out = appendMarked(out, e.text)
		out = append(append(out, ':'), value...)
	}
	return append(out, '}'), nil
}

// compareKeys orders integers by value and everything else by text.
func compareKeys(a, b []byte) int {
	na, nb := isInteger(a), isInteger(b)
	if !na || !nb {
		return bytes.Compare(a, b)
	}
	if a[0] == '-' || b[0] == '-' {
		if a[0] == '-' && b[0] == '-' {
			return compareKeys(b[1:], a[1:])
		}
		return bytes.Compare(a, b) // '-' sorts before digits
	}
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}

func isInteger(b []byte) bool {
	return len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9')
}

// appendMarked writes a key that bare will recognise; a key whose JSON text is
// a string is an ordinary key.
func appendMarked(out, text []byte) []byte {
	if text[0] == '"' {
		return append(out, text...)
	}
	out = append(out, keyMark...)
	out = append(out, lowerHex[text[0]>>4], lowerHex[text[0]&15])
	for _, ch := range text[1:] {
		if ch == '"' || ch == '\\' {
			out = append(out, '\\')
		}
		out = append(out, ch)
	}
	return append(out, '"')
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *RawMap[K, V]) UnmarshalJSON(b []byte) error {
	var raw map[string]V
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if raw == nil {
		return nil
	}
	out := make(RawMap[K, V], len(raw))
	for text, v := range raw {
		var k K
		if err := json.Unmarshal([]byte(text), &k); err != nil {
			// A key that is a string is its own text.
			quoted, qerr := plain(text)
			if qerr != nil || json.Unmarshal(quoted, &k) != nil {
				return err
			}
		}
		out[k] = v
	}
	*m = out
	return nil
}

// bare takes the marks and quotes off the keys of RawMaps.
func bare(b []byte) []byte {
	at := bytes.Index(b, []byte(keyMark))
	if at < 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		first, ok := marked(b[at:])
		if !ok {
			at += len(keyMark)
		} else {
			out = append(out, b[:at]...)
			out = append(out, first)
			b = b[at+len(keyMark)+2:]
			for at = 0; b[at] != '"'; at++ {
				if b[at] == '\\' {
					at++
				}
				out = append(out, b[at])
			}
			b, at = b[at+1:], 0
		}
		next := bytes.Index(b[at:], []byte(keyMark))
		if next < 0 {
			return append(out, b...)
		}
		at += next
	}
	return out
}

// marked returns the first byte of the key when b starts with a marked one.
func marked(b []byte) (byte, bool) {
	hex := b[len(keyMark):]
	if len(hex) < 2 {
		return 0, false
	}
	switch s := string(hex[:2]); {
	case s == "7b":
		return '{', true
	case s == "2d":
		return '-', true
	case s[0] == '3' && s[1] >= '0' && s[1] <= '9':
		return s[1], true
	}
	return 0, false
}

// indenter lays out compact text.
type indenter struct {
	out    []byte
	nested []frame
}

type frame struct {
	kind byte // {, [ or i for a map with integer keys
	flat bool // entries stay on one line
}

// indent lays out compact text (legal or with bare keys) in the manner of
// fastjson's PrettyFormat.
func indent(b []byte) []byte {
	x := indenter{out: make([]byte, 0, len(b)*2)}
	for i := 0; i < len(b); {
		switch ch := b[i]; ch {
		case '{', '[':
			x.open(b[i:])
		case '}', ']':
			x.close(b[i-1], ch)
		case ',':
			x.out = append(x.out, ch)
			if n := len(x.nested); n > 0 && !x.nested[n-1].flat {
				x.newline()
			}
		case '"':
			end := stringEnd(b, i)
			x.out = append(x.out, b[i:end]...)
			i = end
			continue
		default:
			x.out = append(x.out, ch)
		}
		i++
	}
	return x.out
}

func stringEnd(b []byte, i int) int {
	for i++; i < len(b) && b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(b))
}

func (x *indenter) newline() {
	x.out = append(x.out, '\n')
	for range x.nested {
		x.out = append(x.out, '\t')
	}
}

func (x *indenter) open(b []byte) {
	var next byte
	if len(b) > 1 {
		next = b[1]
	}
	f := frame{kind: b[0]}
	switch {
	case b[0] == '{' && (next == '-' || next >= '0' && next <= '9'):
		f = frame{kind: 'i', flat: true}
	case b[0] == '[' && next != '{' && next != '[':
		f.flat = true
	}
	x.out = append(x.out, b[0])
	x.nested = append(x.nested, f)
	if !f.flat && next != '}' && next != ']' {
		x.newline()
	}
}

func (x *indenter) close(before, ch byte) {
	n := len(x.nested) - 1
	if n < 0 {
		return
	}
	f := x.nested[n]
	x.nested = x.nested[:n]
	empty := before == '{' || before == '['
	if !empty && (f.kind == 'i' || !f.flat) {
		x.newline()
	}
	x.out = append(x.out, ch)
}
