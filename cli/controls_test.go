package cli

import (
	"bytes"
	"testing"
)

func TestControls(t *testing.T) {
	for _, x := range []struct{ in, text, json string }{
		{"plain\tand\nlines", "", ""},
		{"wide \u4e2d ü", "", ""},
		{"\x1b[1;31mred\x1b[0m", "", "\\u001b[1;31mred\\u001b[0m"},
		{"\x1b[2Jcleared", "?[2Jcleared", "\\u001b[2Jcleared"},
		{"\x1b]0;title\a", "?]0;title?", "\\u001b]0;title\\u0007"},
		{"\x1b[", "?[", "\\u001b["},
		{"\x1b[12", "?[12", "\\u001b[12"},
		{"end\x1b", "end?", "end\\u001b"},
		{"over\rwritten", "over?written", "over\\u000dwritten"},
		{"c1 \u009b2J", "c1 ?2J", "c1 \\u009b2J"},
		{"eight bits \x9b2J", "eight bits ?2J", "eight bits ?2J"},
		{"no text \xff", "", ""},
		{"del \x7f", "del ?", "del \\u007f"},
		{"\x00\x00", "??", "\\u0000\\u0000"},
	} {
		if x.text == "" {
			x.text = x.in
			if x.json == "" {
				x.json = x.in
			}
		}
		if got := string(replaceControls([]byte(x.in), true)); got != x.text {
			t.Errorf("%q as text: %q", x.in, got)
		}
		if at, _ := control(replaceControls([]byte(x.in), false), false); at >= 0 {
			t.Errorf("%q keeps a control character without colours", x.in)
		}
		if got := string(escapeControls([]byte(x.in))); got != x.json {
			t.Errorf("%q in JSON: %q", x.in, got)
		}
	}
}

// Whatever a command prints, a terminal gets no control characters of others, and data in
// a pipe is not changed.
func TestPrinterKeepsControlsOut(t *testing.T) {
	const bad = "key\x1b[2J\u009b"
	for _, format := range []string{"table", "wide", "mqadmin", "csv", "name", "template", "json", "jsonl"} {
		for _, terminal := range []bool{false, true} {
			var out bytes.Buffer
			p := &printer{out: &out, format: format, style: style{terminal: terminal}}
			p.printf("%s\n", bad)
			at, _ := control(out.Bytes(), false)
			data := format != "table" && format != "wide" && format != "mqadmin"
			if !terminal && data {
				if out.String() != bad+"\n" {
					t.Errorf("%s in a pipe: %q", format, out.String())
				}
			} else if at >= 0 {
				t.Errorf("%s, terminal %t: %q", format, terminal, out.String())
			}
		}
	}
	var said bytes.Buffer
	p := &printer{err: &said}
	if p.tell("note    %s", bad); said.String() != "note    key?[2J?\n" {
		t.Errorf("on stderr: %q", said.String())
	}
}
