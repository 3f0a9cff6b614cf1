package remoting

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"
)

// ExtEncoder is a typed request or response header: it writes its ext fields.
// It is called under the connection's lock and must not call the connection.
type ExtEncoder interface{ EncodeExt(w *ExtWriter) }

// ExtWriter appends ext fields in the connection's serialisation.
type ExtWriter struct {
	buf    []byte
	binary bool
	n      int // fields written
}

// Map is an ExtEncoder for slow paths; its fields come in no order.
type Map map[string]string

// EncodeExt writes all of m.
func (m Map) EncodeExt(w *ExtWriter) {
	for k, v := range m {
		w.String(k, v)
	}
}

// None is an ExtEncoder without fields: the header class is there and empty,
// which JSON shows as "extFields":{}.
type None struct{}

// EncodeExt writes nothing.
func (None) EncodeExt(*ExtWriter) {}

// String appends one field. Keys are the wire's names and need no escapes.
func (w *ExtWriter) String(key, value string) {
	if w.binary {
		w.binaryKey(key)
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(value)))
		w.buf = append(w.buf, value...)
		return
	}
	w.jsonKey(key)
	w.buf = appendJSONText(w.buf, value)
	w.buf = append(w.buf, '"')
}

// Bytes is String for a value in bytes.
func (w *ExtWriter) Bytes(key string, value []byte) {
	if w.binary {
		w.binaryKey(key)
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(value)))
		w.buf = append(w.buf, value...)
		return
	}
	w.jsonKey(key)
	w.buf = appendJSONText(w.buf, value)
	w.buf = append(w.buf, '"')
}

// Int appends v in decimal.
func (w *ExtWriter) Int(key string, v int64) {
	if w.binary {
		w.binaryKey(key)
		at := len(w.buf)
		w.buf = append(w.buf, 0, 0, 0, 0)
		w.buf = strconv.AppendInt(w.buf, v, 10)
		binary.BigEndian.PutUint32(w.buf[at:], uint32(len(w.buf)-at-4))
		return
	}
	w.jsonKey(key)
	w.buf = strconv.AppendInt(w.buf, v, 10)
	w.buf = append(w.buf, '"')
}

// Bool appends true or false.
func (w *ExtWriter) Bool(key string, v bool) {
	if v {
		w.String(key, "true")
	} else {
		w.String(key, "false")
	}
}

// raw appends a field with a key of somebody else's, which may need escapes.
func (w *ExtWriter) raw(key, value []byte) {
	if w.binary {
		if len(key) > math.MaxInt16 {
			return // cannot be said in this form
		}
		w.n++
		w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(len(key)))
		w.buf = append(w.buf, key...)
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(value)))
		w.buf = append(w.buf, value...)
		return
	}
	w.comma()
	w.buf = append(w.buf, '"')
	w.buf = appendJSONText(w.buf, key)
	w.buf = append(w.buf, `":"`...)
	w.buf = appendJSONText(w.buf, value)
	w.buf = append(w.buf, '"')
}

func (w *ExtWriter) comma() {
	if w.n++; w.n > 1 {
		w.buf = append(w.buf, ',')
	}
}

// jsonKey leaves the buffer behind the value's opening quote.
func (w *ExtWriter) jsonKey(key string) {
	w.comma()
	w.buf = append(w.buf, '"')
	w.buf = appendJSONText(w.buf, key)
	w.buf = append(w.buf, `":"`...)
}

func (w *ExtWriter) binaryKey(key string) {
	w.n++
	w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(len(key)))
	w.buf = append(w.buf, key...)
}

// plainJSON marks the bytes that stand for themselves in a JSON string.
var plainJSON = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendJSONText appends s as the inside of a JSON string. Bytes that are not UTF-8
// become U+FFFD, since a peer might drop a frame with bad text.
func appendJSONText[T string | []byte](dst []byte, s T) []byte {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plainJSON[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			var n int
			if n = runeLen(s, i); n > 0 {
				i += n
				continue
			}
			dst = append(dst, s[from:i]...)
			dst = append(dst, `\ufffd`...)
		} else {
			dst = append(dst, s[from:i]...)
			dst = appendEscape(dst, c)
		}
		i++
		from = i
	}
	return append(dst, s[from:]...)
}

// runeLen is the length of the rune at s[i], 0 if there is none.
func runeLen[T string | []byte](s T, i int) int {
	var b [utf8.UTFMax]byte
	n := copy(b[:], s[i:])
	if r, size := utf8.DecodeRune(b[:n]); r != utf8.RuneError || size > 1 {
		return size
	}
	return 0
}

func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
