package remoting

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"testing"

	"mqctl/broker/remoting/internal/recorded"
)

const recordings = "../../testdata/wire"

// TestRecordedFrames decodes every recorded frame, compares it with what the recorder
// read, and encodes it again: byte for byte where Java wrote it, since its order of
// ext fields is kept; field for field where the Go client did.
func TestRecordedFrames(t *testing.T) {
	frames := recorded.Frames(t, recordings)
	exact := 0
	for _, f := range frames {
		h, body, err := DecodeFrame(bytes.Clone(f.Bytes))
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		compareHeader(t, f, &h)
		if f.Body != "" && string(body) != f.Body {
			t.Errorf("%s: body %q, recorded %q", f.Name, clip(body), clip([]byte(f.Body)))
		}
		var ext ExtEncoder
		if f.Header["extFields"] != nil {
			ext = h.Ext
		}
		again, err := AppendFrame(nil, &h, ext, body)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if h.Language != "JAVA" {
			compareDecoded(t, f.Name, again, f.Bytes)
			continue
		}
		exact++
		if want := plain(f.Bytes); !bytes.Equal(again, want) {
			t.Errorf("%s: encoded again\n%q\nrecorded\n%q", f.Name, again, want)
		}
	}
	if exact < 1500 {
		t.Errorf("only %d of %d frames compared byte for byte", exact, len(frames))
	}
}

// compareHeader compares h with the header that the recorder decoded.
func compareHeader(t *testing.T, f recorded.Frame, h *Header) {
	t.Helper()
	number := func(key string, got int) {
		if want, _ := f.Header[key].(json.Number); want.String() != strconv.Itoa(got) {
			t.Errorf("%s: %s is %d, recorded %v", f.Name, key, got, want)
		}
	}
	number("code", h.Code)
	number("flag", h.Flag)
	number("version", h.Version)
	number("opaque", int(h.Opaque))
	switch l := f.Header["language"].(type) {
	case string:
		if l != h.Language {
			t.Errorf("%s: language %s, recorded %s", f.Name, h.Language, l)
		}
	case json.Number:
		if h.Serialize != Binary || l.String() != strconv.Itoa(int(languageByte(h.Language))) {
			t.Errorf("%s: language %s, recorded number %s", f.Name, h.Language, l)
		}
	}
	if remark, _ := f.Header["remark"].(string); remark != string(h.Remark) {
		t.Errorf("%s: remark %q, recorded %q", f.Name, h.Remark, remark)
	}
	want := map[string]string{}
	ext, _ := f.Header["extFields"].(map[string]any)
	for k, v := range ext {
		want[k], _ = v.(string)
	}
	if got := h.Ext.Map(); !maps.Equal(got, want) {
		t.Errorf("%s: ext fields %q, recorded %q", f.Name, got, want)
	}
}

// plain takes what nobody reads out of a JSON frame: serializeTypeCurrentRPC and an
// empty remark.
func plain(frame []byte) []byte {
	if frame[4] != JSON {
		return frame
	}
	n := int(frame[5])<<16 | int(frame[6])<<8 | int(frame[7])
	header := bytes.Replace(frame[8:8+n], []byte(`,"serializeTypeCurrentRPC":"JSON"`), nil, 1)
	header = bytes.Replace(header, []byte(`,"remark":""`), nil, 1)
	return jsonFrame(string(header), frame[8+n:])
}

// jsonFrame makes a frame of a header's text and a body.
func jsonFrame(header string, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	return append(append(b, header...), body...)
}

// compareDecoded compares two frames by their meaning.
func compareDecoded(t *testing.T, name string, a, b []byte) {
	t.Helper()
	ha, bodyA, errA := DecodeFrame(bytes.Clone(a))
	hb, bodyB, errB := DecodeFrame(bytes.Clone(b))
	if errA != nil || errB != nil {
		t.Fatalf("%s: %v, %v", name, errA, errB)
	}
	if !sameHeader(&ha, &hb) || !bytes.Equal(bodyA, bodyB) {
		t.Errorf("%s: %+v differs from %+v", name, ha, hb)
	}
}

func sameHeader(a, b *Header) bool {
	return a.Code == b.Code && a.Language == b.Language && a.Version == b.Version &&
		a.Opaque == b.Opaque && a.Flag == b.Flag && bytes.Equal(a.Remark, b.Remark) &&
		maps.Equal(a.Ext.Map(), b.Ext.Map())
}

// TestCodesOfRecordings wants a name for every code that was recorded (3442 is what
// Java makes of 200050 in a binary header).
func TestCodesOfRecordings(t *testing.T) {
	var unnamed []int
	for _, f := range recorded.Frames(t, recordings) {
		number, _ := f.Header["code"].(json.Number).Int64()
		code, name := int(number), RequestName(int(number))
		if f.Reply {
			name = CodeName(code)
		}
		if name == strconv.Itoa(code) && !slices.Contains(unnamed, code) {
			unnamed = append(unnamed, code)
		}
	}
	slices.Sort(unnamed)
	if !slices.Equal(unnamed, []int{3442, 9999}) {
		t.Errorf("codes without a name: %v", unnamed)
	}
}

// TestAnswersFitGoClients holds answers to what the Go client has 16 signed bits for:
// it drops a frame with a larger code or version without a word.
func TestAnswersFitGoClients(t *testing.T) {
	if Version > 1<<15-1 {
		t.Errorf("version %d", Version)
	}
	for code, name := range codeNames {
		if code > 1<<15-1 {
			t.Errorf("answer code %d %s", code, name)
		}
	}
	if RequestName(ReqSendBatchMessage) != "SEND_BATCH_MESSAGE" || RequestName(12345) != "12345" || CodeName(-1) != "-1" {
		t.Error("names")
	}
}
