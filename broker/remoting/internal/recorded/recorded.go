// Package recorded reads the frames that were recorded between Apache RocketMQ 5.3.3,
// its clients and the Go client, for tests.
package recorded

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Frame is one recorded frame.
type Frame struct {
	Name   string // file and line
	Bytes  []byte // the whole frame, length word included
	Header map[string]any
	Body   string // if it begins like JSON
	Code   int    // of the request: the frame's own, or that of the request it answers
	Reply  bool
}

// line is the form of a recording.
type line struct {
	From   string          `json:"from"`
	Conn   int             `json:"conn"`
	Frame  []byte          `json:"frame"`
	Header json.RawMessage `json:"header"`
	Body   string          `json:"body"`
}

// request identifies a request: who sent it, on which connection, its opaque.
type request struct {
	from   string
	conn   int
	opaque string
}

// Frames returns all frames of the recordings in dir. Numbers in Header are json.Number.
func Frames(t testing.TB, dir string) []Frame {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in %s: %v", dir, err)
	}
	var all []Frame
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, file(t, strings.TrimSuffix(filepath.Base(name), ".jsonl"), text)...)
	}
	return all
}

func file(t testing.TB, name string, text []byte) []Frame {
	t.Helper()
	var all []Frame
	asked := map[request]int{}
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, 64<<20)
	for n := 1; s.Scan(); n++ {
		var l line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatalf("%s line %d: %v", name, n, err)
		}
		f := Frame{Name: name + ":" + strconv.Itoa(n), Bytes: l.Frame, Body: l.Body}
		d := json.NewDecoder(bytes.NewReader(l.Header))
		d.UseNumber()
		if err := d.Decode(&f.Header); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		opaque := f.Header["opaque"].(json.Number).String()
		flag, _ := f.Header["flag"].(json.Number).Int64()
		if f.Reply = flag&1 != 0; f.Reply {
			other := "client"
			if l.From == "client" {
				other = "server"
			}
			f.Code = asked[request{other, l.Conn, opaque}]
		} else {
			code, _ := f.Header["code"].(json.Number).Int64()
			f.Code = int(code)
			asked[request{l.From, l.Conn, opaque}] = f.Code
		}
		all = append(all, f)
	}
	if err := s.Err(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return all
}
