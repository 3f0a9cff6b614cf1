package fastjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// MaxDepth is the deepest nesting of objects and arrays that is read. RocketMQ's
// own documents have less than ten levels.
const MaxDepth = 64

// ErrDepth says that a text is nested deeper than MaxDepth.
var ErrDepth = errors.New("JSON is nested deeper than 64 levels")

// SyntaxError says where a text stops making sense.
type SyntaxError struct {
	Offset int64 // bytes into the text
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("JSON at byte %d: %s", e.Offset, e.Reason) }

// Clean returns the text as legal JSON: bare integer keys are quoted, object
// keys become their JSON text as a quoted string, escapes that only fastjson
// knows and raw control characters in strings become \u escapes. Text that is
// legal already is returned unchanged (same slice). The result is valid JSON
// or the error says why not (ErrDepth, *SyntaxError).
func Clean(b []byte) ([]byte, error) {
	out, err := clean(b, true)
	if err != nil {
		return nil, err
	}
	if !json.Valid(out) {
		return nil, syntaxOf(out)
	}
	return out, nil
}

// syntaxOf asks encoding/json what is wrong with an invalid text.
func syntaxOf(b []byte) error {
	var v json.RawMessage
	err := json.Unmarshal(b, &v)
	var syn *json.SyntaxError
	if errors.As(err, &syn) {
		return &SyntaxError{Offset: syn.Offset, Reason: syn.Error()}
	}
	return &SyntaxError{Reason: "malformed"}
}

// Unmarshal is Clean followed by encoding/json, ignoring unknown fields. A map
// with object keys needs a RawMap, or a key type that implements
// encoding.TextUnmarshaler for the JSON text of the key.
func Unmarshal(b []byte, v any) error {
	out, err := clean(b, true)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, v)
}

// cleaner walks a text once. What needs no change is copied in runs.
type cleaner struct {
	in     []byte
	at     int    // next byte to look at
	out    []byte // changed text of in[:copied]
	copied int
	nested []byte // open brackets
	key    bool   // the next value is a key
}

func clean(b []byte, objectKeys bool) ([]byte, error) {
	c := cleaner{in: b}
	for c.at < len(b) {
		if err := c.step(objectKeys); err != nil {
			return nil, err
		}
	}
	if c.copied == 0 {
		return b, nil
	}
	return append(c.out, b[c.copied:]...), nil
}

func (c *cleaner) fail(reason string) error { return &SyntaxError{Offset: int64(c.at), Reason: reason} }

func (c *cleaner) step(objectKeys bool) error {
	switch ch := c.in[c.at]; {
	case ch == '"':
		c.key = false
		return c.text()
	case ch == '{' && c.key:
		if !objectKeys {
			return c.fail("object as a key of a key")
		}
		return c.objectKey()
	case ch == '[' && c.key:
		return c.fail("array as a key")
	case ch == '{' || ch == '[':
		if len(c.nested) == MaxDepth {
			return ErrDepth
		}
		c.nested = append(c.nested, ch)
		c.key = ch == '{'
	case ch == '}' || ch == ']':
		if n := len(c.nested); n == 0 || c.nested[n-1] != ch-2 {
			return c.fail("bracket without its partner")
		}
		c.nested = c.nested[:len(c.nested)-1]
		c.key = false
	case ch == ',':
		c.key = len(c.nested) > 0 && c.nested[len(c.nested)-1] == '{'
	case c.key && (ch == '-' || ch >= '0' && ch <= '9'):
		c.integerKey()
		return nil
	}
	c.at++
	return nil
}

// replace puts s in place of the n bytes at c.at and moves behind them.
func (c *cleaner) replace(n int, s ...byte) {
	if c.out == nil {
		c.out = make([]byte, 0, len(c.in)+len(c.in)/4+16)
	}
	c.out = append(append(c.out, c.in[c.copied:c.at]...), s...)
	c.at += n
	c.copied = c.at
}

func (c *cleaner) integerKey() {
	c.key = false
	end := c.at + 1
	for end < len(c.in) && c.in[end] >= '0' && c.in[end] <= '9' {
		end++
	}
	c.replace(0, '"')
	c.at = end
	c.replace(0, '"')
}

// objectKey quotes the JSON text of the object at c.at.
func (c *cleaner) objectKey() error {
	end, err := objectEnd(c.in, c.at)
	if err != nil {
		return err
	}
	key, err := clean(c.in[c.at:end], false)
	if err != nil {
		return err
	}
	if !json.Valid(key) {
		return c.fail("object key is malformed")
	}
	c.key = false
	c.replace(end-c.at, '"')
	for _, ch := range key {
		switch {
		case ch == '"' || ch == '\\':
			c.out = append(c.out, '\\', ch)
		case ch < 0x20: // white space between the tokens of the key
		default:
			c.out = append(c.out, ch)
		}
	}
	c.out = append(c.out, '"')
	return nil
}

// objectEnd returns the position behind the object that starts at i.
func objectEnd(b []byte, i int) (int, error) {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > MaxDepth {
				return 0, ErrDepth
			}
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		}
	}
	return 0, &SyntaxError{Offset: int64(len(b)), Reason: "object key has no end"}
}

// text moves behind the string at c.at, replacing what only fastjson accepts.
func (c *cleaner) text() error {
	for c.at++; c.at < len(c.in); {
		// Most strings have nothing special: look for what may be.
		switch ch := c.in[c.at]; {
		case ch == '"':
			c.at++
			return nil
		case ch == '\\':
			c.escape()
		case ch < 0x20:
			c.replace(1, unicodeEscape(ch)...)
		default:
			c.at++
		}
	}
	return c.fail("string has no end")
}

const lowerHex = "0123456789abcdef"

func unicodeEscape(ch byte) []byte {
	return []byte{'\\', 'u', '0', '0', lowerHex[ch>>4], lowerHex[ch&15]}
}

// escape moves behind the backslash at c.at and what belongs to it. What is
// neither JSON's nor fastjson's is left for encoding/json to refuse.
func (c *cleaner) escape() {
	if c.at+1 >= len(c.in) {
		c.at++
		return
	}
	switch ch := c.in[c.at+1]; {
	case ch == '\'':
		c.replace(2, ch)
	case ch == 'v':
		c.replace(2, unicodeEscape('\v')...)
	case ch >= '0' && ch <= '7':
		c.replace(2, unicodeEscape(ch-'0')...)
	case ch == 'x' && c.at+4 <= len(c.in) && isHex(c.in[c.at+2:c.at+4]):
		hex := bytes.ToLower(c.in[c.at+2 : c.at+4])
		c.replace(4, '\\', 'u', '0', '0', hex[0], hex[1])
	default:
		c.at += 2
	}
}

func isHex(b []byte) bool {
	for _, ch := range b {
		hex := ch >= '0' && ch <= '9' || ch >= 'a' && ch <= 'f' || ch >= 'A' && ch <= 'F'
		if !hex {
			return false
		}
	}
	return true
}
