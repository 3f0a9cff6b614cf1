package remoting

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// outHeader is a header to be sent.
type outHeader struct {
	code, flag, version int
	language            string
	opaque              int32
	remark              string // "" = none
	kind                byte   // JSON or Binary
}

// AppendFrame appends one whole frame with header h, the ext fields that ext
// writes (nil: none; empty: an empty object in JSON) and body. It is for tools
// and tests; connections use Call.Reply, Conn.Notify and Conn.Call. A code
// beyond 16 bits is sent with a JSON header, whatever h.Serialize says. It fails
// if the frame passes MaxFrame, and returns dst as it was.
func AppendFrame(dst []byte, h *Header, ext ExtEncoder, body []byte) ([]byte, error) {
	var w ExtWriter
	return appendFrame(dst, &outHeader{
		code: h.Code, flag: h.Flag, version: h.Version, language: h.Language,
		opaque: h.Opaque, remark: string(h.Remark), kind: h.Serialize,
	}, ext, body, &w)
}

// appendFrame is AppendFrame with the ExtWriter of the caller, so that a
// connection can keep one and allocate none.
func appendFrame(dst []byte, h *outHeader, ext ExtEncoder, body []byte, w *ExtWriter) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	kind := byte(JSON)
	if h.kind == Binary && h.code == int(int16(h.code)) {
		kind = Binary
		dst = appendBinaryHeader(dst, h, ext, w)
	} else {
		dst = appendJSONHeader(dst, h, ext, w)
	}
	headerLen := len(dst) - start - prefixBytes
	if headerLen > maxHeader || prefixBytes+headerLen+len(body) > MaxFrame {
		return dst[:start], &FrameError{Why: fmt.Sprintf(
			"header of %d and body of %d bytes pass the limit of %d for one frame", headerLen, len(body), MaxFrame)}
	}
	dst = append(dst, body...)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-lengthBytes))
	binary.BigEndian.PutUint32(dst[start+lengthBytes:], uint32(kind)<<24|uint32(headerLen))
	return dst, nil
}

// appendJSONHeader appends h with its members in the order of Java's frames.
func appendJSONHeader(dst []byte, h *outHeader, ext ExtEncoder, w *ExtWriter) []byte {
	if h.code == CodeSuccess {
		dst = append(dst, `{"code":0`...)
	} else {
		dst = append(dst, `{"code":`...)
		dst = strconv.AppendInt(dst, int64(h.code), 10)
	}
	if ext != nil {
		dst = append(dst, `,"extFields":{`...)
		w.buf, w.binary, w.n = dst, false, 0
		ext.EncodeExt(w)
		dst = append(w.buf, '}')
		w.buf = nil
	}
	if h.flag == flagResponse && h.language == goLanguage {
		dst = append(dst, `,"flag":1,"language":"GO","opaque":`...)
	} else {
		dst = append(dst, `,"flag":`...)
		dst = strconv.AppendInt(dst, int64(h.flag), 10)
		dst = append(dst, `,"language":"`...)
		dst = appendJSONString(dst, h.language)
		dst = append(dst, `","opaque":`...)
	}
	dst = strconv.AppendInt(dst, int64(h.opaque), 10)
	if h.remark != "" {
		dst = append(dst, `,"remark":"`...)
		dst = appendJSONString(dst, h.remark)
		dst = append(dst, '"')
	}
	if h.version == Version {
		return append(dst, `,"version":479}`...)
	}
	dst = append(dst, `,"version":`...)
	dst = strconv.AppendInt(dst, int64(h.version), 10)
	return append(dst, '}')
}

// appendBinaryHeader appends h in the binary form, drawn at scanBinary.
func appendBinaryHeader(dst []byte, h *outHeader, ext ExtEncoder, w *ExtWriter) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.code))
	dst = append(dst, languageByte(h.language))
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.opaque))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.flag))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(h.remark)))
	dst = append(dst, h.remark...)
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	if ext != nil {
		w.buf, w.binary, w.n = dst, true, 0
		ext.EncodeExt(w)
		dst, w.buf = w.buf, nil
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}
