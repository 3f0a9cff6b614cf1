package record

import (
	"bytes"
	"errors"
)

// Names of properties that the store itself reads (MessageConst).
const (
	PropertyUniqueKey = "UNIQ_KEY"
	PropertyKeys      = "KEYS"       // blank-separated
	PropertyInnerNum  = "INNER_NUM"  // messages of an inner batch
	PropertyInnerBase = "INNER_BASE" // queue offset of the first of them
	PropertyTags      = "TAGS"
	PropertyDelay     = "DELAY" // delay level, 1 to 18
)

// NextProperty cuts the first well-formed entry off props. Entries with an
// empty name or an empty value are skipped, as MessageDecoder does; the last
// entry need not be terminated; a value may hold 0x01. ok is false at the end.
func NextProperty(props []byte) (name, value, rest []byte, ok bool) {
	for len(props) > 0 {
		sep := 0 // names are short
		for sep < len(props) && props[sep] != PropertySep && props[sep] != PropertyEnd {
			sep++
		}
		if sep == len(props) {
			break
		}
		if props[sep] == PropertyEnd {
			props = props[sep+1:]
			continue
		}
		value, rest = props[sep+1:], nil
		if i := bytes.IndexByte(value, PropertyEnd); i >= 0 {
			value, rest = value[:i:i], value[i+1:]
		}
		if sep > 0 && len(value) > 0 {
			return props[:sep:sep], value[:len(value):len(value)], rest, true
		}
		props = rest
	}
	return nil, nil, nil, false
}

// FindProperty returns the value of the first entry called name (nil if none).
// Java's map keeps the last one; they differ only for messages of a batch,
// where 5.3.3 appends the batch's UNIQ_KEY behind the message's own.
func FindProperty(props []byte, name string) []byte {
	for {
		n, v, rest, ok := NextProperty(props)
		if !ok {
			return nil
		}
		if string(n) == name {
			return v
		}
		props = rest
	}
}

// EachProperty calls f for each well-formed entry in order until f is false.
func EachProperty(props []byte, f func(name, value []byte) bool) {
	for {
		n, v, rest, ok := NextProperty(props)
		if !ok || !f(n, v) {
			return
		}
		props = rest
	}
}

// AppendProperty appends name and value to encoded text, first closing an
// unterminated last entry. dst must hold property text and nothing else.
func AppendProperty[N, V ~string | ~[]byte](dst []byte, name N, value V) []byte {
	if len(dst) > 0 && dst[len(dst)-1] != PropertyEnd {
		dst = append(dst, PropertyEnd)
	}
	dst = append(dst, name...)
	dst = append(dst, PropertySep)
	dst = append(dst, value...)
	return append(dst, PropertyEnd)
}

// AppendWithout appends the well-formed entries of props to dst, each
// terminated, without those named in drop.
func AppendWithout(dst, props []byte, drop ...string) []byte {
	for {
		name, value, rest, ok := NextProperty(props)
		if !ok {
			return dst
		}
		props = rest
		if !named(name, drop) {
			dst = append(dst, name...)
			dst = append(dst, PropertySep)
			dst = append(dst, value...)
			dst = append(dst, PropertyEnd)
		}
	}
}

func named(name []byte, list []string) bool {
	for _, d := range list {
		if string(name) == d {
			return true
		}
	}
	return false
}

// The tail of the properties in Apache's enabledAppendPropCRC mode: this text,
// ten digits with the least significant first, and PropertyEnd.
const (
	crcPropertyStart = "__CRC32#\x01"
	crcPropertyBytes = len(crcPropertyStart) + 11
)

// Errors of CheckPropertyCRC.
var (
	ErrNoPropertyCRC = errors.New("record has no property checksum")
	ErrPropertyCRC   = errors.New("record does not match its property checksum")
)

// PropertyCRC returns the checksum of the whole record that Apache appends to
// the properties with enabledAppendPropCRC; ok is false if there is none.
func (v View) PropertyCRC() (crc uint32, ok bool) {
	p := v.Properties()
	if len(p) < crcPropertyBytes {
		return 0, false
	}
	tail := p[len(p)-crcPropertyBytes:]
	if string(tail[:len(crcPropertyStart)]) != crcPropertyStart || tail[len(tail)-1] != PropertyEnd {
		return 0, false
	}
	digits := tail[len(crcPropertyStart) : len(tail)-1]
	var n uint64
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(digits[i]-'0')
	}
	return uint32(n), n <= 0x7FFFFFFF
}

// CheckPropertyCRC compares everything before that tail with it. Errors:
// ErrNoPropertyCRC, ErrPropertyCRC.
func (v View) CheckPropertyCRC() error {
	want, ok := v.PropertyCRC()
	if !ok {
		return ErrNoPropertyCRC
	}
	if CRC31(v.raw[:len(v.raw)-crcPropertyBytes]) != want {
		return ErrPropertyCRC
	}
	return nil
}
