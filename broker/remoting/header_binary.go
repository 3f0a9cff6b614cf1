package remoting

import (
	"encoding/binary"
	"fmt"
)

// binaryFixed is the size of a binary header without remark and ext fields.
const binaryFixed = 21

// scanBinary reads a ROCKETMQ header (Java class RocketMQSerializable):
//
//	+0   i16 code | i8 language | i16 version | i32 opaque | i32 flag
//	+13  i32 remarkLen | remark | i32 extLen | ext block
//
// The ext block is checked field by field, then read where it lies.
func (h *Header) scanBinary(b []byte) error {
	if len(b) < binaryFixed {
		return &FrameError{Why: fmt.Sprintf("binary header of %d bytes", len(b))}
	}
	h.Code = int(int16(binary.BigEndian.Uint16(b)))
	h.Language = languageName(b[2])
	h.Version = int(int16(binary.BigEndian.Uint16(b[3:])))
	h.Opaque = int32(binary.BigEndian.Uint32(b[5:]))
	h.Flag = int(int32(binary.BigEndian.Uint32(b[9:])))
	remark, rest, ok := cutLong(b[13:])
	if !ok {
		return &FrameError{Why: "binary header: remark passes the header's end"}
	}
	if len(remark) > 0 {
		h.Remark = remark
	}
	ext, rest, ok := cutLong(rest)
	if !ok || len(rest) != 0 {
		return &FrameError{Why: "binary header: ext fields do not end where the header ends"}
	}
	for e := ext; len(e) > 0; {
		if len(e) < 2 {
			return &FrameError{Why: "binary header: stray byte after the ext fields"}
		}
		n := int(int16(binary.BigEndian.Uint16(e)))
		if n < 0 || 2+n > len(e) {
			return &FrameError{Why: "binary header: key of an ext field passes its block"}
		}
		if _, e, ok = cutLong(e[2+n:]); !ok {
			return &FrameError{Why: "binary header: value of an ext field passes its block"}
		}
	}
	h.Ext = Fields{raw: ext, wide: true}
	return nil
}

// cutLong takes an i32 length and as many bytes off b.
func cutLong(b []byte) (field, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, b, false
	}
	n := int64(int32(binary.BigEndian.Uint32(b)))
	if n < 0 || n > int64(len(b)-4) {
		return nil, b, false
	}
	return b[4 : 4+n : 4+n], b[4+n:], true
}
