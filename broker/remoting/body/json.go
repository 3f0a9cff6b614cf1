package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"mqctl/store/fastjson"
)

// ErrEmpty says that a request or an answer came without the body it needs.
var ErrEmpty = errors.New("the body is empty")

// decode reads a body of type T.
func decode[T any](what string, b []byte) (*T, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%s: %w", what, ErrEmpty)
	}
	v := new(T)
	if err := fastjson.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return v, nil
}

// encode writes a value whose types have no way to fail.
func encode(v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // a type of this package that encoding/json cannot write
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})
}

// nonNil turns nil into an empty list, which is [] and not null.
func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// nonNilMap turns nil into an empty map, which is {} and not null.
func nonNilMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}

// Double is a number that is written as Java's Double.toString does: always with a
// fraction, with an exponent below 1e-3 and from 1e7 on.
type Double float64

// MarshalJSON writes d; what JSON cannot say is 0.0.
func (d Double) MarshalJSON() ([]byte, error) { return appendDouble(nil, float64(d)), nil }

func appendDouble(b []byte, v float64) []byte {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0) || v == 0:
		return append(b, "0.0"...)
	case a >= 1e-3 && a < 1e7:
		at := len(b)
		b = strconv.AppendFloat(b, v, 'f', -1, 64)
		if bytes.IndexByte(b[at:], '.') < 0 {
			b = append(b, ".0"...)
		}
		return b
	}
	var tmp [32]byte
	t := strconv.AppendFloat(tmp[:0], v, 'e', -1, 64) // d.ddde+xx
	mantissa, exponent, _ := bytes.Cut(t, []byte{'e'})
	b = append(b, mantissa...)
	if bytes.IndexByte(mantissa, '.') < 0 {
		b = append(b, ".0"...)
	}
	n, err := strconv.Atoi(string(exponent))
	if err != nil {
		panic(err) // AppendFloat always writes one
	}
	b = append(b, 'E')
	return strconv.AppendInt(b, int64(n), 10)
}

// appendText appends s as a JSON string.
func appendText(b []byte, s string) []byte { return append(b, encode(s)...) }

// appendASCII appends JSON text with everything beyond ASCII escaped, as fastjson
// does with BrowserCompatible. Such characters stand only in strings.
func appendASCII(dst, b []byte) []byte {
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			dst = append(dst, b[i])
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		i += n
		if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
			dst = fmt.Appendf(dst, `\u%04X\u%04X`, hi, lo)
		} else {
			dst = fmt.Appendf(dst, `\u%04X`, r)
		}
	}
	return dst
}

// DataVersion says which state of a table somebody has. Two are equal only if all
// three numbers are.
type DataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	Timestamp    int64 `json:"timestamp"` // ms
}

// Encode writes the body of 322.
func (v DataVersion) Encode() []byte { return encode(v) }

// DecodeDataVersion reads the body of 322.
func DecodeDataVersion(b []byte) (*DataVersion, error) { return decode[DataVersion]("data version", b) }

// KVTable is a table of texts (28, 103's answer, 219).
type KVTable struct {
	Table map[string]string `json:"table"`
}

// Encode writes the body.
func (t KVTable) Encode() []byte {
	t.Table = nonNilMap(t.Table)
	return encode(t)
}

// DecodeKVTable reads the body.
func DecodeKVTable(b []byte) (*KVTable, error) { return decode[KVTable]("table", b) }
