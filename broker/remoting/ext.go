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
		w.raw([]byte(k), []byte(v))
	}
}

// None is an ExtEncoder without fields: the header class is there and empty,
// which JSON shows as "extFields":{}.
type None struct{}

// EncodeExt writes nothing.
func (None) EncodeExt(*ExtWriter) {}

// String appends one field. The key is one of the wire's names, which need no escapes.
func (w *ExtWriter) String(key, value string) {
	if w.binary {
		w.binaryKey(key)
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(value)))
		w.buf = append(w.buf, value...)
		return
	}
	w.jsonKey(key)
	w.buf = appendJSONString(w.buf, value)
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
	w.jsonKey("")
	w.buf = w.buf[:len(w.buf)-len(`":"`)]
	w.buf = appendJSONText(w.buf, key)
	w.buf = append(w.buf, `":"`...)
	w.buf = appendJSONText(w.buf, value)
	w.buf = append(w.buf, '"')
}

// jsonKey leaves the buffer behind the value's opening quote.
func (w *ExtWriter) jsonKey(key string) {
	if w.n++; w.n > 1 {
		w.buf = append(w.buf, `,"`...)
	} else {
		w.buf = append(w.buf, '"')
	}
	w.buf = append(w.buf, key...)
	w.buf = append(w.buf, `":"`...)
}

func (w *ExtWriter) binaryKey(key string) {
	w.n++
	w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(len(key)))
	w.buf = append(w.buf, key...)
}

// appendJSONString appends s as the inside of a JSON string.
func appendJSONString(dst []byte, s string) []byte {
	at := len(dst)
	dst = append(dst, s...)
	if n := plainPrefix(dst[at:]); n < len(s) {
		return appendEscaped(dst[:at+n], []byte(s[n:]))
	}
	return dst
}

// appendJSONText is appendJSONString for bytes.
func appendJSONText(dst, s []byte) []byte {
	n := plainPrefix(s)
	dst = append(dst, s[:n]...)
	if n < len(s) {
		return appendEscaped(dst, s[n:])
	}
	return dst
}

// plainPrefix counts the bytes before the first one that does not stand for itself in
// a JSON string or is not ASCII. It looks at eight bytes at a time, as special does:
// x-blanks borrows where a byte is below 0x20.
func plainPrefix(b []byte) int {
	const (
		ones   = 0x0101010101010101
		highs  = 0x8080808080808080
		blanks = ' ' * ones
	)
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		q, s := x^('"'*ones), x^('\\'*ones)
		if (x|(x-blanks)&^x|(q-ones)&^q|(s-ones)&^s)&highs != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// appendEscaped appends s with escapes. Bytes that are not UTF-8 become U+FFFD, since
// a peer might drop a frame with bad text.
func appendEscaped(dst, s []byte) []byte {
	for len(s) > 0 {
		n := plainPrefix(s)
		dst = append(dst, s[:n]...)
		if s = s[n:]; len(s) == 0 {
			break
		}
		if s[0] < utf8.RuneSelf {
			dst = appendEscape(dst, s[0])
			s = s[1:]
			continue
		}
		r, size := utf8.DecodeRune(s)
		dst = utf8.AppendRune(dst, r)
		s = s[size:]
	}
	return dst
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
