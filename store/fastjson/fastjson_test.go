package fastjson

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"legal", `{"a":[1,2,{"b":null}],"c":"\u0001"}`, ""},
		{"legal with blanks", " {\n\t\"a\" : 1 }\r\n", ""},
		{"scalar", `17`, ""},
		{"integer keys", `{0:12,1:30}`, `{"0":12,"1":30}`},
		{"negative and blanks", `{ -1 : {2 :3}}`, `{ "-1" : {"2" :3}}`},
		{"nested integer keys", `{"t@g":{0:4,1:3},"n":[{7:[8]}]}`, `{"t@g":{"0":4,"1":3},"n":[{"7":[8]}]}`},
		{"object key", `{{"a":1}:2}`, `{"{\"a\":1}":2}`},
		{"object keys", `{"o":{{"brokerName":"b","queueId":0,"topic":"t"}:{"x":1},{"brokerName":"b","queueId":1,"topic":"t"}:{"x":2}}}`,
			`{"o":{"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\"}":{"x":1},"{\"brokerName\":\"b\",\"queueId\":1,\"topic\":\"t\"}":{"x":2}}}`},
		{"object key with a bare integer key", `{{1:"x"}:2}`, `{"{\"1\":\"x\"}":2}`},
		{"object key with escapes", `{{"a":"\"}\\"}:2}`, `{"{\"a\":\"\\\"}\\\\\"}":2}`},
		{"object key with line breaks", "{{\n\t\"a\":1}:2}", `{"{\"a\":1}":2}`},
		{"digits in strings stay", `{"0:1":"{2:3}"}`, ""},
		{"fastjson escapes", `{"a":"\'\v\0\7\x1F"}`, `{"a":"'\u000b\u0000\u0007\u001f"}`},
		{"raw control characters", "{\"a\":\"x\ny\"}", `{"a":"x\u000ay"}`},
		{"quote escapes", `{"a\"":{1:"\\"}}`, `{"a\"":{"1":"\\"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Clean([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			if want == "" {
				want = c.in
			}
			if string(got) != want {
				t.Errorf("Clean(%s)\n got %s\nwant %s", c.in, got, want)
			}
		})
	}
}

func TestCleanRefuses(t *testing.T) {
	for _, in := range []string{
		``, ` `, `{`, `{0`, `{0:`, `{0:1`, `}`, `[}`, `{]`, `{"a":1}}`, `{"a"`, `{"a`, `{"a\`,
		`{{"a":{{"b":1}:2}}:3}`, `{{"a":1:2}`, `{[1]:2}`, `{{"a"}:1}`, `{a:1}`, `{'a':1}`, `{"a":01}`,
		`{"a":"\q"}`, `{"a":"\x1"}`, `nul`, `{"a":1,}`, `{,}`, `{1 2:3}`,
		`{{` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}:1}`,
	} {
		if got, err := Clean([]byte(in)); err == nil {
			t.Errorf("Clean(%s) = %s, want an error", in, got)
		} else if syn := (*SyntaxError)(nil); !errors.As(err, &syn) && !errors.Is(err, ErrDepth) {
			t.Errorf("Clean(%s): error %T %v is neither of the two kinds", in, err, err)
		}
		var v any
		if err := Unmarshal([]byte(in), &v); err == nil {
			t.Errorf("Unmarshal(%s) = %v, want an error", in, v)
		}
	}
}

func TestDepthIsBounded(t *testing.T) {
	ok := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	if _, err := Clean([]byte(ok)); err != nil {
		t.Errorf("depth %d: %v", MaxDepth, err)
	}
	if _, err := Clean([]byte("[" + ok + "]")); !errors.Is(err, ErrDepth) {
		t.Errorf("depth %d: error %v, want ErrDepth", MaxDepth+1, err)
	}
	if _, err := Clean(bytes.Repeat([]byte(`{"a":`), 1<<20)); !errors.Is(err, ErrDepth) {
		t.Errorf("a million levels: error %v, want ErrDepth", err)
	}
}

// A hostile text must not cost more than its length: half a MiB of keys takes
// milliseconds, and many times the bound if each key is scanned to the end.
func TestCleanIsLinear(t *testing.T) {
	for name, unit := range map[string]string{
		"integer keys": `1:2,`, "object keys": `{"a":"\"\"\""}:1,`, "unclosed object keys": `{"a":{"b`,
	} {
		b := []byte("{" + strings.Repeat(unit, 1<<19/len(unit)))
		start := time.Now()
		_, _ = Clean(b) // refused or not, it has to end
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s: half a MiB took %v", name, d)
		}
	}
}

type queueKey struct {
	BrokerName string `json:"brokerName"`
	QueueID    int    `json:"queueId"`
}

func TestMarshalRawMap(t *testing.T) {
	type doc struct {
		Name    string                      `json:"name"`
		Offsets map[string]RawMap[int, int] `json:"offsets"`
		Queues  RawMap[queueKey, float64]   `json:"queues"`
		Texts   RawMap[string, bool]        `json:"texts"`
		None    RawMap[int, int]            `json:"none"`
	}
	v := doc{
		Name:    `<a&b> \u0030 "\u0030`,
		Offsets: map[string]RawMap[int, int]{"t@g": {10: 1, 9: 2, -1: 3, -12: 4, 0: 5}, "empty": {}},
		Queues:  RawMap[queueKey, float64]{{`b"\`, 1}: 0.5, {"a", 0}: 2},
		Texts:   RawMap[string, bool]{"12": true},
	}
	got, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"<a&b> \\u0030 \"\\u0030","offsets":{"empty":{},"t@g":{-12:4,-1:3,0:5,9:2,10:1}},` +
		`"queues":{{"brokerName":"a","queueId":0}:2,{"brokerName":"b\"\\","queueId":1}:0.5},"texts":{"12":true},"none":null}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var back doc
	if err := Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(v, back) {
		t.Errorf("read back %+v", back)
	}
	legal, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	back = doc{}
	if err := json.Unmarshal(legal, &back); err != nil || !reflect.DeepEqual(v, back) {
		t.Errorf("encoding/json alone: %v, %+v from %s", err, back, legal)
	}
}

func TestUnmarshalIgnoresUnknownAndCoerces(t *testing.T) {
	var v struct {
		Table map[int64]string `json:"table"`
	}
	if err := Unmarshal([]byte(`{"other":{{"x":1}:2},"table":{0:"a",17:"b"}}`), &v); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(v.Table, map[int64]string{0: "a", 17: "b"}) {
		t.Errorf("got %v", v.Table)
	}
}

func TestMarshalErrors(t *testing.T) {
	if _, err := MarshalIndent(func() {}); err == nil {
		t.Error("a function was encoded")
	}
	if _, err := Marshal(RawMap[int, any]{1: make(chan int)}); err == nil {
		t.Error("a channel was encoded")
	}
}

// configFiles returns the JSON files of config/ as Apache 5.3.3 wrote them.
func configFiles(t testing.TB) map[string][]byte {
	t.Helper()
	f, err := os.Open("../../testdata/store/clean.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(h.Name, "store/config/") && strings.HasSuffix(h.Name, ".json") {
			if files[h.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(files) < 8 {
		t.Fatalf("only %d config files found", len(files))
	}
	return files
}

// Apache's own files: legal after Clean, and laid out the same byte for byte
// from their compact form.
func TestGoldenConfigFiles(t *testing.T) {
	for name, b := range configFiles(t) {
		if _, err := Clean(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := indent(compact(b)); !bytes.Equal(got, b) {
			t.Errorf("%s is laid out as\n%s\nwant\n%s", name, got, b)
		}
	}
}

// compact takes white space between tokens away.
func compact(b []byte) []byte {
	var out []byte
	for i := 0; i < len(b); {
		switch b[i] {
		case '"':
			end := stringEnd(b, i)
			out = append(out, b[i:end]...)
			i = end
		case ' ', '\t', '\n', '\r':
			i++
		default:
			out = append(out, b[i])
			i++
		}
	}
	return out
}

func TestMarshalIndentLooksLikeJava(t *testing.T) {
	type version struct {
		Counter int `json:"counter"`
	}
	v := struct {
		DataVersion version                       `json:"dataVersion"`
		OffsetTable map[string]RawMap[int32, int] `json:"offsetTable"`
		Empty       map[string]int                `json:"empty"`
		List        []int                         `json:"list"`
		Objects     []version                     `json:"objects"`
	}{version{0}, map[string]RawMap[int32, int]{"orders@billing": {0: 17, 3: 99}}, map[string]int{}, []int{1, 2}, []version{{1}, {2}}}
	got, err := MarshalIndent(v)
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n\t\"dataVersion\":{\n\t\t\"counter\":0\n\t},\n\t\"offsetTable\":{\n\t\t\"orders@billing\":{0:17,3:99\n\t\t}\n\t},\n" +
		"\t\"empty\":{},\n\t\"list\":[1,2],\n\t\"objects\":[\n\t\t{\n\t\t\t\"counter\":1\n\t\t},\n\t\t{\n\t\t\t\"counter\":2\n\t\t}\n\t]\n}"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{`{0:1}`, `{{"a":1}:2}`, `{"a":"\'\x41\0"}`, `[[{1:{2:3}}]]`, "{\"\n\":1}", `{"a":1e5}`, `{{"a":"\\"}:[]}`} {
		f.Add([]byte(s))
	}
	for _, b := range configFiles(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		out, err := Clean(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if json.Valid(b) && !errors.Is(err, ErrDepth) {
				t.Fatalf("legal JSON refused: %v", err)
			}
			return
		}
		if !json.Valid(out) {
			t.Fatalf("not legal: %q", out)
		}
		if json.Valid(b) && !bytes.Equal(out, b) {
			t.Fatalf("legal JSON changed: %q", out)
		}
		again, err := Clean(out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("not stable: %q %v", again, err)
		}
		var v any
		if err := Unmarshal(b, &v); err != nil && json.Valid(out) {
			// Only what encoding/json itself refuses in legal text, e.g. 1e999.
			if json.Unmarshal(out, &v) == nil {
				t.Fatal(err)
			}
		}
		indent(compact(b))
	})
}

func FuzzRawMap(f *testing.F) {
	f.Add("a", 1, "v")
	f.Add(`{"\`, -5, "\"\\u0030")
	f.Fuzz(func(t *testing.T, name string, n int, text string) {
		type doc struct {
			M RawMap[queueKey, string]
			I RawMap[int, RawMap[int, string]]
		}
		v := doc{RawMap[queueKey, string]{{name, n}: text}, RawMap[int, RawMap[int, string]]{n: {n: name}}}
		b, err := Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var back, legal doc
		if err := Unmarshal(b, &back); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		quoted, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(quoted, &legal); err != nil || !reflect.DeepEqual(legal, back) {
			t.Fatalf("%s read as %+v, %s as %+v", b, back, quoted, legal)
		}
	})
}

func BenchmarkCleanLegal(b *testing.B) { benchmarkClean(b, "store/config/topics.json") }
func BenchmarkCleanBare(b *testing.B)  { benchmarkClean(b, "store/config/consumerOffset.json") }

func benchmarkClean(b *testing.B, name string) {
	text := configFiles(b)[name]
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Clean(text); err != nil {
			b.Fatal(err)
		}
	}
}
