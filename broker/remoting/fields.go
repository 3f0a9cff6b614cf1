package remoting

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// Fields are the ext fields of a header, read where they lie: values alias the
// connection's buffer and are valid until the handler returns. A key that came
// twice is met twice by All and Next; everywhere its last value counts. Fields
// whose JSON value was null are absent; numbers and booleans are their text.
//
// Two layouts are read in place:
//
//	packed (from JSON, see scanExt):  u16 keyLen | key | u24 valueLen | value
//	wide (the binary header's own):   i16 keyLen | key | i32 valueLen | value
//
// The zero Fields is empty. What a Fields holds was checked when it was decoded.
type Fields struct {
	raw  []byte
	wide bool
}

// packedKeyLen and packedValueLen are the sizes of the packed layout's lengths.
// They fit exactly over the punctuation of a JSON object ({" or ," before a key,
// ":" with its quotes before a value), so that packing in place moves nothing.
const (
	packedKeyLen   = 2
	packedValueLen = 3
)

// Empty says whether there is no field.
func (f Fields) Empty() bool { return len(f.raw) == 0 }

// Next takes the first field off f. It is what hot decoders loop over.
func (f *Fields) Next() (key, value []byte, ok bool) {
	if len(f.raw) < packedKeyLen {
		return nil, nil, false
	}
	b := f.raw
	k := packedKeyLen + int(binary.BigEndian.Uint16(b))
	key = b[packedKeyLen:k:k]
	var start, n int
	if f.wide {
		start, n = k+4, int(binary.BigEndian.Uint32(b[k:]))
	} else {
		start, n = k+packedValueLen, int(b[k])<<16|int(b[k+1])<<8|int(b[k+2])
	}
	value = b[start : start+n : start+n]
	f.raw = b[start+n:]
	return key, value, true
}

// All yields each key and value.
func (f Fields) All() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for g := f; ; {
			k, v, ok := g.Next()
			if !ok || !yield(k, v) {
				return
			}
		}
	}
}

// Bytes returns one value in place, nil if absent. A present empty value is not nil.
func (f Fields) Bytes(key string) []byte {
	var found []byte
	for {
		k, v, ok := f.Next()
		if !ok {
			return found
		}
		if string(k) == key {
			found = v
		}
	}
}

// Get returns a copy of one value.
func (f Fields) Get(key string) (string, bool) {
	v := f.Bytes(key)
	return string(v), v != nil
}

// Int parses one value; ok is false if it is absent or empty, err tells of a
// value that is no decimal number of 64 bits.
func (f Fields) Int(key string) (v int64, ok bool, err error) {
	b := f.Bytes(key)
	if len(b) == 0 {
		return 0, false, nil
	}
	v, ok = ParseInt(b)
	if !ok {
		return 0, false, fmt.Errorf("ext field %s: %q is no number", key, clip(b))
	}
	return v, true, nil
}

// Map copies everything.
func (f Fields) Map() map[string]string {
	m := make(map[string]string)
	for {
		k, v, ok := f.Next()
		if !ok {
			return m
		}
		m[string(k)] = string(v)
	}
}

// EncodeExt writes all fields in their order, for requests that are passed on.
func (f Fields) EncodeExt(w *ExtWriter) {
	for {
		k, v, ok := f.Next()
		if !ok {
			return
		}
		w.raw(k, v)
	}
}

// ParseInt reads a decimal number as Java's Long.parseLong does (ASCII digits with an
// optional sign); false if it is none or passes 64 bits.
func ParseInt(b []byte) (int64, bool) {
	neg := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg = b[0] == '-'
		b = b[1:]
	}
	for len(b) > 19 && b[0] == '0' {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 { // 19 digits never pass 64 unsigned bits
		return 0, false
	}
	var v uint64
	for _, c := range b {
		if c -= '0'; c > 9 {
			return 0, false
		}
		v = v*10 + uint64(c)
	}
	switch {
	case neg && v <= 1<<63:
		return -int64(v), true
	case !neg && v < 1<<63:
		return int64(v), true
	}
	return 0, false
}

// clip shortens a value for an error text.
func clip(b []byte) []byte {
	const most = 40
	if len(b) > most {
		return b[:most]
	}
	return b
}
