package remoting

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"mqctl/broker/remoting/internal/recorded"
)

// FuzzFrame decodes anything; what decodes must encode to a frame that decodes to the
// same.
func FuzzFrame(f *testing.F) {
	for i, r := range recorded.Frames(f, recordings) {
		if i%29 == 0 {
			f.Add(r.Bytes)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, body, err := DecodeFrame(bytes.Clone(b))
		if err != nil {
			return
		}
		again, err := AppendFrame(nil, &h, h.Ext, body)
		if err != nil {
			return // escapes may make it longer than a frame can be
		}
		h2, body2, err := DecodeFrame(again)
		if err != nil {
			t.Fatalf("%q: %v", again, err)
		}
		compareFuzzed(t, &h, &h2)
		if !bytes.Equal(body, body2) {
			t.Errorf("body %q, then %q", body, body2)
		}
	})
}

// compareFuzzed compares headers whose text may not be UTF-8, which JSON mends.
func compareFuzzed(t *testing.T, a, b *Header) {
	t.Helper()
	if a.Code != b.Code || a.Opaque != b.Opaque || a.Flag != b.Flag || clean(a.Remark) != clean(b.Remark) ||
		!maps.Equal(cleanMap(a.Ext), cleanMap(b.Ext)) {
		t.Errorf("%+v, then %+v", a, b)
	}
}

func cleanMap(f Fields) map[string]string {
	m := map[string]string{}
	for k, v := range f.All() {
		m[clean(k)] = clean(v)
	}
	return m
}

// FuzzJSONHeader compares the scanner with encoding/json: whatever that reads as a
// header, the scanner reads alike.
func FuzzJSONHeader(f *testing.F) {
	for i, r := range recorded.Frames(f, recordings) {
		if n := int(r.Bytes[5])<<16 | int(r.Bytes[6])<<8 | int(r.Bytes[7]); i%29 == 0 && r.Bytes[4] == JSON {
			f.Add(string(r.Bytes[8 : 8+n]))
		}
	}
	f.Add(`{"code":1,"extFields":{"a":1,"b":null,"c":[{}],"d":"\u0001\ud83d\ude00"},"remark":null,"x":{"y":[]}}`)
	f.Add(` { "code" : "10" , "extFields" : { "a" : "b" , "a" : "c" } } `)
	f.Fuzz(func(t *testing.T, text string) {
		h, _, err := DecodeFrame(jsonFrame(text, nil))
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &members) != nil || members == nil {
			return
		}
		if err != nil {
			for _, why := range []string{"nested too deeply", "32 bits", "extFields is no object", "key of an ext field too long"} {
				if strings.Contains(err.Error(), why) {
					return
				}
			}
			if l := members["language"]; len(l) > 0 && (l[0] == '[' || l[0] == '{') {
				return
			}
			t.Fatalf("%q: %v", text, err)
		}
		var number int32
		if raw := members["code"]; raw != nil && json.Unmarshal(raw, &number) == nil && int(number) != h.Code {
			t.Errorf("%q: code %d, want %d", text, h.Code, number)
		}
		var remark string
		if raw := members["remark"]; raw != nil && json.Unmarshal(raw, &remark) == nil && remark != clean(h.Remark) {
			t.Errorf("%q: remark %q, want %q", text, h.Remark, remark)
		}
		var ext map[string]any
		d := json.NewDecoder(bytes.NewReader(members["extFields"]))
		d.UseNumber()
		if len(members["extFields"]) > 0 && d.Decode(&ext) == nil {
			compareExt(t, text, h.Ext, ext)
		}
	})
}

// clean is text as encoding/json has it: what is not UTF-8 is replaced.
func clean(b []byte) string { return string([]rune(string(b))) }

// compareExt compares the ext fields that encoding/json read as strings or numbers. Of
// doubles it is the last that counts for both, unless that is null.
func compareExt(t *testing.T, text string, f Fields, want map[string]any) {
	t.Helper()
	got := cleanMap(f)
	for k, v := range want {
		switch v := v.(type) {
		case string:
			if got[k] != v {
				t.Errorf("%q: ext field %q is %q, want %q", text, k, got[k], v)
			}
		case json.Number:
			if got[k] != v.String() {
				t.Errorf("%q: ext field %q is %q, want %s", text, k, got[k], v)
			}
		}
	}
}

// FuzzBinaryHeader decodes any binary header and encodes it again: the same bytes.
func FuzzBinaryHeader(f *testing.F) {
	for _, r := range recorded.Frames(f, recordings) {
		if n := int(r.Bytes[5])<<16 | int(r.Bytes[6])<<8 | int(r.Bytes[7]); r.Bytes[4] == Binary {
			f.Add(r.Bytes[8 : 8+n])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		frame := jsonFrame(string(b), nil)
		frame[4] = Binary
		h, _, err := DecodeFrame(bytes.Clone(frame))
		if err != nil {
			return
		}
		again, err := AppendFrame(nil, &h, h.Ext, nil)
		if err != nil {
			t.Fatal(err)
		}
		if int(b[2]) >= len(languages) {
			again[8+2] = b[2] // languages without a name become OTHER
		}
		if !bytes.Equal(again, frame) {
			t.Errorf("%x, then %x", frame, again)
		}
	})
}
