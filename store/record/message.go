package record

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// Message is a record taken apart for display; it shares no memory with it.
type Message struct {
	Topic          string
	QueueID        int32
	QueueOffset    QueueOffset
	PhysOffset     PhysOffset
	StoreSize      int // bytes of the record
	Flag           int32
	SysFlag        int32
	BornMillis     int64
	BornHost       netip.AddrPort
	StoreMillis    int64
	StoreHost      netip.AddrPort
	ReconsumeTimes int32
	PreparedOffset PhysOffset
	BodyCRC        uint32
	Body           []byte // as stored, perhaps compressed

	// Properties by name; of duplicates the first. PropertyNames has the names
	// in the order of their first appearance.
	Properties    map[string]string
	PropertyNames []string
}

// Message copies all fields.
func (v View) Message() *Message {
	m := &Message{
		Topic:          string(v.Topic()),
		QueueID:        v.QueueID(),
		QueueOffset:    v.QueueOffset(),
		PhysOffset:     v.PhysOffset(),
		StoreSize:      v.Size(),
		Flag:           v.Flag(),
		SysFlag:        v.SysFlag(),
		BornMillis:     v.BornMillis(),
		BornHost:       v.BornHost(),
		StoreMillis:    v.StoreMillis(),
		StoreHost:      v.StoreHost(),
		ReconsumeTimes: v.ReconsumeTimes(),
		PreparedOffset: v.PreparedOffset(),
		BodyCRC:        v.BodyCRC(),
		Body:           bytes.Clone(v.Body()),
		Properties:     map[string]string{},
	}
	EachProperty(v.Properties(), func(name, value []byte) bool {
		if _, dup := m.Properties[string(name)]; !dup {
			n := string(name)
			m.Properties[n] = string(value)
			m.PropertyNames = append(m.PropertyNames, n)
		}
		return true
	})
	return m
}

// OffsetID is the offset message id.
func (m *Message) OffsetID() string {
	return string(AppendOffsetID(nil, m.StoreHost, m.PhysOffset))
}

// ID is what users know as the message id: UNIQ_KEY, else the offset id.
func (m *Message) ID() string {
	if id := m.Properties[PropertyUniqueKey]; id != "" {
		return id
	}
	return m.OffsetID()
}

// Tags is the TAGS property.
func (m *Message) Tags() string { return m.Properties[PropertyTags] }

// Keys are the parts of the KEYS property between single blanks.
func (m *Message) Keys() []string {
	return strings.FieldsFunc(m.Properties[PropertyKeys], func(r rune) bool { return r == ' ' })
}

// CompressionError says why a body cannot be shown in plain.
type CompressionError struct {
	Method string // zlib, LZ4, Zstd, unknown
	Err    error  // nil: the method is not supported here
}

func (e *CompressionError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("body is compressed with %s, which mqctl does not decode", e.Method)
	}
	return fmt.Sprintf("decompress body (%s): %v", e.Method, e.Err)
}

// Unwrap returns the cause.
func (e *CompressionError) Unwrap() error { return e.Err }

// PlainBody returns the body decompressed, of at most limit bytes. A body that
// cannot be decompressed gives a *CompressionError.
func (m *Message) PlainBody(limit int64) ([]byte, error) {
	return Decompress(m.Body, m.SysFlag, limit)
}

// Decompress returns the plain text of a body stored with sysFlag. zlib is
// decoded up to limit bytes; LZ4 and Zstd are not. A body without the
// compression bit is returned as it is.
func Decompress(body []byte, sysFlag int32, limit int64) ([]byte, error) {
	if sysFlag&FlagCompressed == 0 {
		return body, nil
	}
	switch sysFlag & FlagCompressionType {
	case 0, FlagZlib:
	case FlagLZ4:
		return nil, &CompressionError{Method: "LZ4"}
	case FlagZstd:
		return nil, &CompressionError{Method: "Zstd"}
	default:
		return nil, &CompressionError{Method: "an unknown method"}
	}
	r, err := zlib.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, &CompressionError{Method: "zlib", Err: err}
	}
	defer r.Close() // closes nothing below, and Read has reported what is wrong
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(out)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	if err != nil {
		return nil, &CompressionError{Method: "zlib", Err: err}
	}
	return out, nil
}
