package shell

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// text shows commands in one line, for the tables.
func text(cs []Command) string {
	env := func(name string) string { return "<" + name + ">" }
	var out []string
	for _, c := range cs {
		s := []string{"", "&& ", "|| "}[c.Join]
		for i, w := range c.Words {
			if i > 0 {
				s += " "
			}
			s += fmt.Sprintf("%q", w.Text(env))
		}
		if c.System != "" {
			s += "!" + c.System
		}
		if c.Pipe != "" {
			s += " | " + c.Pipe
		}
		if c.File != nil {
			s += fmt.Sprintf(" > %q", c.File.Text(env))
			if c.Append {
				s += " append"
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, " ; ")
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"  # only a comment", ""},
		{"a b  c", `"a" "b" "c"`},
		{"a # rest", `"a"`},
		{"a#b", `"a#b"`},
		{`a 'b c' "d e" f\ g`, `"a" "b c" "d e" "f g"`},
		{`a '' ""`, `"a" "" ""`},
		{`a 'x'"y"z`, `"a" "xyz"`},
		{`a "x\"y\\z\n"`, `"a" "x\"y\\z\\n"`},
		{`a '$HOME' "$HOME" $HOME \$HOME`, `"a" "$HOME" "<HOME>" "<HOME>" "$HOME"`},
		{`a $? ${?} ${X}y $ $1`, `"a" "<?>" "<?>" "<X>y" "$" "$1"`},
		{"a;b ; c", `"a" ; "b" ; "c"`},
		{"a\nb\n\nc\n", `"a" ; "b" ; "c"`},
		{"a && b || c", `"a" ; && "b" ; || "c"`},
		{"a &&\n b", `"a" ; && "b"`},
		{"a \\\n b", `"a" "b"`},
		{"a b\\\nc", `"a" "bc"`},
		{"a 'b\nc'", `"a" "b\nc"`},
		{`a | jq '.x | ."a;b"' | head; b`, `"a" | jq '.x | ."a;b"' | head ; "b"`},
		{`a | jq . || b`, `"a" | jq . ; || "b"`},
		{`a | (x; y) && b`, `"a" | (x; y) ; && "b"`},
		{`a > f`, `"a" > "f"`},
		{`a >> 'f g' -x`, `"a" "-x" > "f g" append`},
		{`a>f`, `"a" > "f"`},
		{`!ls -l | wc; b`, `!ls -l | wc ; "b"`},
		{`a && !true`, `"a" ; && !true`},
		{`send t --body {"a": [1, 2], "b;c": "}"} x`, `"send" "t" "--body" "{\"a\": [1, 2], \"b;c\": \"}\"}" "x"`},
		{"send --body={\"a\":\n 1}", `"send" "--body={\"a\":\n 1}"`},
		{`x a{b [1]`, `"x" "a{b" "[1]"`},
		{`group set 订单组 -w 1`, `"group" "set" "订单组" "-w" "1"`},
		{"a\r\nb\r\n", `"a" ; "b"`},
	} {
		got, err := Parse(tt.in)
		if err != nil || text(got) != tt.want {
			t.Errorf("Parse(%q) = %s, %v, want %s", tt.in, text(got), err, tt.want)
		}
	}
}

func TestParseIncomplete(t *testing.T) {
	for _, in := range []string{`a 'b`, `a "b`, `a \`, `a b\`, `a &&`, "a ||\n", `a |`, `a | jq '.x`, `send {"a": 1`, `send {"a": "}`, `!x "`, `a | (x`} {
		if _, err := Parse(in); !errors.Is(err, ErrIncomplete) {
			t.Errorf("Parse(%q): %v, want incomplete", in, err)
		}
	}
}

func TestParseWrong(t *testing.T) {
	for in, want := range map[string]string{
		"a\n;;": "", "; a": "line 1: there is no command before ;", "&& a": "no command before", "a & b": "in the background",
		"a >": "needs a file", "a > x > y": "two files", "a < x": "source", "a\n| b": "line 2", "!": "needs a command", "a ${x-1}": "no variable",
		"a ${x": "not closed", "a && ; b": "no command before ;",
	} {
		_, err := Parse(in)
		var syntax *SyntaxError
		if want == "" {
			if err != nil {
				t.Errorf("Parse(%q): %v", in, err)
			}
			continue
		}
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want %q", in, err, want)
		}
	}
}

func TestParseLines(t *testing.T) {
	cs, err := Parse("a\n'b\n' c\n# x\nd \\\n e; f")
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range cs {
		got += fmt.Sprint(c.Line, " ")
	}
	if got != "1 2 5 6 " {
		t.Errorf("lines %s", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`a "b$c" 'd' | jq . && !x > y`, "a\\\n b; c || d {\"x\": [1]}", "é ${A} $?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cs, err := Parse(s)
		if err != nil {
			return
		}
		for _, c := range cs {
			if c.System == "" && len(c.Words) == 0 {
				t.Fatalf("%q: a command without words", s)
			}
			for _, w := range c.Words {
				word := w.Text(func(string) string { return "" })
				again, err := Parse("x " + Quote(word))
				if err != nil || len(again) != 1 || len(again[0].Words) != 2 || again[0].Words[1].Text(nil) != word {
					t.Fatalf("Quote(%q) = %s is read as %v, %v", word, Quote(word), again, err)
				}
			}
		}
	})
}
