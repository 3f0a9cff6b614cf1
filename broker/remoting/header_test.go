package remoting

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// TestJSONHeader reads headers of every kind a peer may send.
func TestJSONHeader(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		name, header string
		want         Header
		ext          map[string]string
	}{
		{"Java", `{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":3,"serializeTypeCurrentRPC":"JSON","version":479}`,
			Header{Code: 105, Language: "JAVA", Opaque: 3, Version: 479}, map[string]string{"topic": "T"}},
		{"Go", `{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"","extFields":{}}`,
			Header{Code: 105, Language: "GO", Version: 317, Opaque: 1}, nil},
		{"defaults", `{}`, Header{Language: "JAVA"}, nil},
		{"nulls", `{"code":1,"remark":null,"extFields":null,"language":null,"flag":null}`, Header{Code: 1, Language: "JAVA"}, nil},
		{"negative opaque", `{"code":10,"opaque":-2147483648}`, Header{Code: 10, Language: "JAVA", Opaque: -1 << 31}, nil},
		{"unknown language", `{"code":10,"language":"COBOL"}`, Header{Code: 10, Language: "COBOL"}, nil},
		{"language by number", `{"code":10,"language":9}`, Header{Code: 10, Language: "GO"}, nil},
		{"numbers in quotes", `{"code":"10","opaque":"-7","flag":"2","version":"401"}`, Header{Code: 10, Language: "JAVA", Opaque: -7, Flag: 2, Version: 401}, nil},
		{"blanks", " { \"code\" : 10 ,\n\"extFields\" : { \"a\" : \"b\" , \"c\":\t\"d\" } }\r\n", Header{Code: 10, Language: "JAVA"}, map[string]string{"a": "b", "c": "d"}},
		{"unknown members", `{"x":{"y":[1,"}",{"z":"\"]"}]},"code":10,"w":[],"v":1.5e3,"u":true}`, Header{Code: 10, Language: "JAVA"}, nil},
		{"code twice", `{"code":10,"code":11}`, Header{Code: 11, Language: "JAVA"}, nil},
		{"extFields twice", `{"code":1,"extFields":{"a":"1"},"extFields":{"b":"2"}}`, Header{Code: 1, Language: "JAVA"}, map[string]string{"b": "2"}},
		{"key twice", `{"code":1,"extFields":{"a":"1","b":"x","a":"2"}}`, Header{Code: 1, Language: "JAVA"}, map[string]string{"a": "2", "b": "x"}},
		{"no strings", `{"code":1,"extFields":{"s":"x","n":-1.5e3,"t":true,"z":null,"o":{"k":["v"]},"f":false,"e":""}}`, Header{Code: 1, Language: "JAVA"},
			map[string]string{"s": "x", "n": "-1.5e3", "t": "true", "o": `{"k":["v"]}`, "f": "false", "e": ""}},
		{"number first", `{"code":1,"extFields":{"n":5,"s":"\u0001"}}`, Header{Code: 1, Language: "JAVA"}, map[string]string{"n": "5", "s": "\x01"}},
		{"escapes", `{"code":1,"extFields":{"i":"KEYS\u0001k\u0002TAGS\u0001ä\u00e4\u20ac\ud83d\ude00\u0002","q":"\"\\\/\b\f\n\r\t","after":"` + long + `","k\u0065y":"v"},"remark":"a\nb"}`,
			Header{Code: 1, Language: "JAVA", Remark: []byte("a\nb")},
			map[string]string{"i": "KEYS\x01k\x02TAGS\x01ää€😀\x02", "q": "\"\\/\b\f\n\r\t", "after": long, "key": "v"}},
		{"lone surrogates", `{"code":1,"extFields":{"a":"\ud83dx","b":"\ud83d\u0041","c":"\ude00"}}`, Header{Code: 1, Language: "JAVA"},
			map[string]string{"a": "\ufffdx", "b": "\ufffdA", "c": "\ufffd"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _, err := DecodeFrame(jsonFrame(c.header, nil))
			if err != nil {
				t.Fatal(err)
			}
			if got := h.Ext.Map(); !maps.Equal(got, c.ext) {
				t.Errorf("ext fields %q, want %q", got, c.ext)
			}
			h.Ext = Fields{}
			if fmt.Sprintf("%+v", h) != fmt.Sprintf("%+v", c.want) {
				t.Errorf("header %+v, want %+v", h, c.want)
			}
		})
	}
}

// TestBadFrames wants an error that says what is wrong, for everything that is no frame.
func TestBadFrames(t *testing.T) {
	word := func(b ...byte) []byte { return b }
	binary := func(change func(b []byte) []byte) []byte {
		b, err := AppendFrame(nil, &Header{Code: 10, Serialize: Binary, Remark: []byte("re")}, Map{"key": "value"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		b = change(b)
		b[3], b[7] = byte(len(b)-4), byte(len(b)-8)
		return b
	}
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for _, c := range []struct {
		name, why string
		frame     []byte
	}{
		{"empty", "not one whole frame", nil},
		{"length 0", "outside", word(0, 0, 0, 0)},
		{"length 3", "outside", word(0, 0, 0, 3, 1, 2, 3)},
		{"negative length", "outside", word(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)},
		{"beyond the limit", "outside", word(0, 0xff, 0xff, 0xfd, 0, 0, 0, 0)},
		{"TLS", "TLS", word(0x16, 3, 1, 2, 0, 1)},
		{"HTTP", "HTTP", []byte("GET / HTTP/1.1\r\n\r\n")},
		{"PROXY", "PROXY", []byte("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n")},
		{"PROXY v2", "PROXY", []byte("\r\n\r\n\x00\r\nQUIT\n")},
		{"cut", "not one whole frame", word(0, 0, 0, 8, 0, 0, 0, 0)},
		{"header too long", "header of 5 bytes", word(0, 0, 0, 8, 0, 0, 0, 5, 1, 2, 3, 4)},
		{"type", "serialize type 7", word(0, 0, 0, 4, 7, 0, 0, 0)},
		{"no header", "no object", word(0, 0, 0, 4, 0, 0, 0, 0)},
		{"array", "no object", jsonFrame(`[]`, nil)},
		{"cut object", "no comma", jsonFrame(`{"code":1`, nil)},
		{"no colon", "no colon", jsonFrame(`{"code" 1}`, nil)},
		{"trailing comma", "no string", jsonFrame(`{"code":1,}`, nil)},
		{"text behind", "text after", jsonFrame(`{"code":1}x`, nil)},
		{"code of 33 bits", "no number of 32 bits", jsonFrame(`{"code":2147483648}`, nil)},
		{"opaque of 65 bits", "no number of 32 bits", jsonFrame(`{"opaque":18446744073709551616}`, nil)},
		{"fraction", "no number of 32 bits", jsonFrame(`{"code":1.5}`, nil)},
		{"word", "is no value", jsonFrame(`{"code":nil}`, nil)},
		{"ext is a list", "extFields is no object", jsonFrame(`{"extFields":[]}`, nil)},
		{"ext is cut", "no comma", jsonFrame(`{"extFields":{"a":"b"`, nil)},
		{"ext without colon", "no colon", jsonFrame(`{"extFields":{"a","b"}}`, nil)},
		{"ext trailing comma", "no string", jsonFrame(`{"extFields":{"a":"b",}}`, nil)},
		{"ext key too long", "too long", jsonFrame(`{"extFields":{"`+strings.Repeat("k", 1<<16)+`":"b"}}`, nil)},
		{"ext key too long after a number", "too long", jsonFrame(`{"extFields":{"a":1,"`+strings.Repeat("k", 1<<16)+`":"b"}}`, nil)},
		{"bad escape", "bad escape", jsonFrame(`{"remark":"\x"}`, nil)},
		{"cut escape", "bad escape", jsonFrame(`{"remark":"\u00`, nil)},
		{"open string", "string without an end", jsonFrame(`{"remark":"abc`, nil)},
		{"open string after escape", "string without an end", jsonFrame(`{"remark":"\nabc`, nil)},
		{"deep", "nested too deeply", jsonFrame(`{"x":`+deep+`}`, nil)},
		{"brackets", "brackets", jsonFrame(`{"x":[}]}`, nil)},
		{"open value", "value without an end", jsonFrame(`{"x":[1`, nil)},
		{"binary cut", "binary header of", binary(func(b []byte) []byte { return b[:8+20] })},
		{"binary remark", "remark passes", binary(func(b []byte) []byte { b[8+16] = 200; return b })},
		{"binary negative remark", "remark passes", binary(func(b []byte) []byte { b[8+13] = 0xff; return b })},
		{"binary ext", "do not end where", binary(func(b []byte) []byte { b[8+22]++; return b })},
		{"binary ext longer than said", "do not end where", binary(func(b []byte) []byte { return append(b, 0) })},
		{"binary key", "key of an ext field passes", binary(func(b []byte) []byte { b[8+24] = 200; return b })},
		{"binary negative key", "key of an ext field passes", binary(func(b []byte) []byte { b[8+23] = 0x80; return b })},
		{"binary value", "value of an ext field passes", binary(func(b []byte) []byte { b[8+23+2+3+3]++; return b })},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := DecodeFrame(bytes.Clone(c.frame))
			var bad *FrameError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("error %v, want one with %q", err, c.why)
			}
		})
	}
}

// TestBinaryHeader sends what the binary form can say, and what it cannot as JSON.
func TestBinaryHeader(t *testing.T) {
	h := Header{Code: -3, Language: "GO", Version: 479, Opaque: -9, Flag: 3, Remark: []byte("päng"), Serialize: Binary}
	b, err := AppendFrame(nil, &h, Map{"empty": ""}, []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	got, body, err := DecodeFrame(b)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got.Ext.Map(), map[string]string{"empty": ""}) || string(body) != "body" {
		t.Errorf("ext fields %q, body %q", got.Ext.Map(), body)
	}
	got.Ext = Fields{}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", h) {
		t.Errorf("%+v, want %+v", got, h)
	}
	h.Code = ReqPopMessage
	if b, err = AppendFrame(nil, &h, nil, nil); err != nil {
		t.Fatal(err)
	}
	if got, _, err = DecodeFrame(b); err != nil || got.Serialize != JSON || got.Code != ReqPopMessage {
		t.Errorf("code 200050 came as %d in type %d (%v)", got.Code, got.Serialize, err)
	}
	for i, name := range languages {
		if languageByte(name) != byte(i) || languageName(byte(i)) != name {
			t.Errorf("language %s is not number %d both ways", name, i)
		}
	}
	if languageName(200) != "LANGUAGE_200" || languageByte("COBOL") != 7 {
		t.Error("unknown languages")
	}
}

func TestFields(t *testing.T) {
	frame := func(kind byte) []byte {
		b, err := AppendFrame(nil, &Header{Serialize: kind}, pairs{{"n", "42"}, {"a", "1"}, {"a", "2"}, {"e", ""}, {"x", "9x"}, {"big", "9223372036854775808"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, kind := range []byte{JSON, Binary} {
		h, _, err := DecodeFrame(frame(kind))
		if err != nil {
			t.Fatal(err)
		}
		f := h.Ext
		if v, ok := f.Get("a"); v != "2" || !ok {
			t.Errorf("a is %q %v", v, ok)
		}
		if v, ok := f.Get("none"); v != "" || ok {
			t.Errorf("none is %q %v", v, ok)
		}
		if v := f.Bytes("e"); v == nil || len(v) != 0 {
			t.Errorf("e is %v", v)
		}
		if v, ok, err := f.Int("n"); v != 42 || !ok || err != nil {
			t.Error("n", v, ok, err)
		}
		for _, k := range []string{"e", "none"} {
			if v, ok, err := f.Int(k); v != 0 || ok || err != nil {
				t.Error(k, v, ok, err)
			}
		}
		for _, k := range []string{"x", "big"} {
			if _, _, err := f.Int(k); err == nil || !strings.Contains(err.Error(), k) {
				t.Error(k, err)
			}
		}
		var keys []string
		for k := range f.All() {
			if keys = append(keys, string(k)); len(keys) == 4 {
				break
			}
		}
		if strings.Join(keys, "") != "naae" {
			t.Errorf("keys %q", keys)
		}
		allocs := testing.AllocsPerRun(100, func() {
			for k, v := range f.All() {
				if len(k)+len(v) > 100 {
					t.Error("never")
				}
			}
			if f.Bytes("x") == nil {
				t.Error("x is gone")
			}
		})
		if allocs != 0 {
			t.Errorf("%v allocations", allocs)
		}
	}
}

// pairs is an ExtEncoder that keeps order and doubles.
type pairs [][2]string

func (p pairs) EncodeExt(w *ExtWriter) {
	for _, kv := range p {
		w.String(kv[0], kv[1])
	}
}

func TestParseInt(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"-0", 0, true}, {"+7", 7, true}, {"007", 7, true},
		{"9223372036854775807", 1<<63 - 1, true}, {"-9223372036854775808", -1 << 63, true},
		{"9223372036854775808", 0, false}, {"-9223372036854775809", 0, false}, {"99999999999999999999", 0, false},
		{"00000000000000000000000001", 1, true}, {"-00000000000000000000000001", -1, true},
		{"", 0, false}, {"-", 0, false}, {"+", 0, false}, {"1 ", 0, false}, {" 1", 0, false}, {"1.0", 0, false}, {"0x1", 0, false}, {"١", 0, false},
	} {
		if got, ok := ParseInt([]byte(c.text)); got != c.want || ok != c.ok {
			t.Errorf("%q is %d %v, want %d %v", c.text, got, ok, c.want, c.ok)
		}
	}
}

// TestJSONText writes values of every kind and lets encoding/json read them.
func TestJSONText(t *testing.T) {
	all := make([]byte, 0, 128)
	for c := range byte(128) {
		all = append(all, c)
	}
	for _, s := range []string{"", "plain", string(all), "ä€😀\u2028", "cut \xe2\x82", "\xff\xfe", "\ufffd"} {
		text := append(appendJSONString([]byte{'"'}, s), '"')
		var got string
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if want := string([]rune(s)); got != want {
			t.Errorf("%q was read as %q", want, got)
		}
	}
}

// TestRequestExtFields holds us to what clients need of extFields: none without a
// header, an empty object with an empty header, and every value a string.
func TestRequestExtFields(t *testing.T) {
	for _, c := range []struct {
		ext  ExtEncoder
		want string
	}{
		{nil, `{"code":0,"flag":1,"language":"GO","opaque":5,"version":479}`},
		{None{}, `{"code":0,"extFields":{},"flag":1,"language":"GO","opaque":5,"version":479}`},
		{numbers{}, `{"code":0,"extFields":{"n":"-7","b":"true","c":"false"},"flag":1,"language":"GO","opaque":5,"version":479}`},
	} {
		b, err := AppendFrame(nil, &Header{Flag: 1, Language: "GO", Opaque: 5, Version: Version}, c.ext, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(b[8:]); got != c.want {
			t.Errorf("header %s, want %s", got, c.want)
		}
	}
}

type numbers struct{}

func (numbers) EncodeExt(w *ExtWriter) {
	w.Int("n", -7)
	w.Bool("b", true)
	w.Bool("c", false)
}

func TestFrameTooLarge(t *testing.T) {
	dst := []byte("kept")
	b, err := AppendFrame(dst, &Header{}, nil, make([]byte, MaxFrame))
	var bad *FrameError
	if !errors.As(err, &bad) || string(b) != "kept" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err = AppendFrame(nil, &Header{}, Map{"k": strings.Repeat("v", 1<<24)}, nil); !errors.As(err, &bad) {
		t.Error(err)
	}
	h := &Header{Language: "GO", Version: Version}
	room := MaxFrame - 8 - len(`{"code":0,"flag":0,"language":"GO","opaque":0,"version":479}`)
	if b, err = AppendFrame(nil, h, nil, make([]byte, room)); err != nil || len(b) != MaxFrame {
		t.Errorf("a frame of %d bytes: %v", len(b), err)
	}
	if _, body, err := DecodeFrame(b); err != nil || len(body) != room {
		t.Error(len(body), err)
	}
}
