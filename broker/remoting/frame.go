package remoting

import (
	"encoding/binary"
	"fmt"
)

// Serialize types of a header: the top byte of the frame's second word.
const (
	JSON   = 0
	Binary = 1
)

// MaxFrame is the largest frame in bytes, length word included
// (NettyDecoder's frameMaxLength).
const MaxFrame = 16 << 20

// Version and LanguageGo are what this implementation says of itself: V5_3_3's
// ordinal in MQVersion and the number of GO in LanguageCode.
const (
	Version    = 479
	LanguageGo = 9
)

const (
	lengthBytes   = 4         // the length word
	prefixBytes   = 8         // length word and header word
	maxHeader     = 1<<24 - 1 // what the header word can say
	flagResponse  = 1         // bit 0 of flag
	flagOneWay    = 2         // bit 1 of flag
	maxBinaryCode = 1<<15 - 1 // the binary header has 16 signed bits for a code
)

// FrameError says why bytes are no frame; the connection they came on can't go on.
type FrameError struct {
	Why string
	TLS bool // the bytes are those of a peer that speaks TLS
}

func (e *FrameError) Error() string { return "not a remoting frame: " + e.Why }

// frameLength is the whole length of the frame that begins with b, or 0 while b
// has less than the length word. It is checked before anybody takes memory for it.
func frameLength(b []byte) (int, error) {
	if len(b) < lengthBytes {
		return 0, nil
	}
	n := int64(int32(binary.BigEndian.Uint32(b)))
	if n < prefixBytes-lengthBytes || n+lengthBytes > MaxFrame {
		return 0, &FrameError{Why: lengthComplaint(b, n), TLS: speaksTLS(b)}
	}
	return int(n) + lengthBytes, nil
}

// speaksTLS reports whether a record of TLS begins with b: a handshake, or the alert
// of a server that got something else.
func speaksTLS(b []byte) bool { return (b[0] == 0x16 || b[0] == 0x15) && b[1] == 3 }

// lengthComplaint names what the peer speaks if its first bytes tell.
func lengthComplaint(b []byte, n int64) string {
	switch {
	case speaksTLS(b):
		return "the peer speaks TLS, and here nobody does"
	case string(b[:4]) == "PROX" || string(b[:4]) == "\r\n\r\n":
		return "the peer sends a PROXY protocol preamble, which this port does not serve"
	case string(b[:4]) == "GET " || string(b[:4]) == "POST" || string(b[:4]) == "HEAD" || string(b[:4]) == "PRI ":
		return "the peer speaks HTTP"
	}
	return fmt.Sprintf("length %d is outside %d to %d", n, prefixBytes-lengthBytes, MaxFrame-lengthBytes)
}

// DecodeFrame takes apart one whole frame. The header's slices and the body alias
// b, whose header bytes are rewritten in the course of it. An empty body is nil.
func DecodeFrame(b []byte) (h Header, body []byte, err error) {
	n, err := frameLength(b)
	if err != nil {
		return h, nil, err
	}
	if n == 0 || n != len(b) {
		return h, nil, &FrameError{Why: fmt.Sprintf("%d bytes are not one whole frame", len(b))}
	}
	word := binary.BigEndian.Uint32(b[lengthBytes:])
	headerLen := int(word & maxHeader)
	if headerLen > n-prefixBytes {
		return h, nil, &FrameError{Why: fmt.Sprintf("header of %d bytes in a frame of %d", headerLen, n)}
	}
	header := b[prefixBytes : prefixBytes+headerLen : prefixBytes+headerLen]
	h.Serialize = byte(word >> 24)
	switch h.Serialize {
	case JSON:
		err = h.scanJSON(header)
	case Binary:
		err = h.scanBinary(header)
	default:
		err = &FrameError{Why: fmt.Sprintf("serialize type %d", h.Serialize)}
	}
	if err != nil {
		return h, nil, err
	}
	if prefixBytes+headerLen < n {
		body = b[prefixBytes+headerLen : n : n]
	}
	return h, body, nil
}
