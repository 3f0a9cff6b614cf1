package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTextIntegers(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": 9007199254740993, "b": -1, "c": 1.5, "d": "12 \" 3", "e": [1, 2], "f": null, "g": 1e3}`: `{"a": "9007199254740993", "b": "-1", "c": 1.5, "d": "12 \" 3", "e": ["1", "2"], "f": null, "g": 1e3}`,
		`"\\"`: `"\\"`, `7`: `"7"`, `"open 1`: `"open 1`,
	} {
		if got := string(textIntegers([]byte(in))); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
	for line, want := range map[string]string{
		"explain 907 -o json --json-int string --schema-version 1":   `"`,
		"config keys -o jsonl --json-int=string --schema-version=v1": `{"schema":`,
	} {
		code, out, errs := runLine(append([]string{"mqctl"}, strings.Fields(line)...)...)
		if code != ExitOK || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d\n%s%s", line, code, out, errs)
		}
	}
	for _, line := range []string{"cluster list --schema-version 2", "cluster list --json-int maybe"} {
		code, out, errs := runLine(append([]string{"mqctl"}, strings.Fields(line)...)...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, "BAD_VALUE") {
			t.Errorf("%s: exit %d, %q, %q", line, code, out, errs)
		}
	}
}

// TestPager: tables go through MQCTL_PAGER on a terminal, and nowhere else.
func TestPager(t *testing.T) {
	p := newPane(t, 100, 40)
	p.ends("MQCTL_PAGER='tr a-z A-Z' mqctl version", nil, 0, "MQCTL")
	p.ends("MQCTL_PAGER='tr a-z A-Z > paged' mqctl cheat && echo after", nil, 0, "after")
	if s := p.file("paged"); !strings.Contains(s, "FAILOVER") {
		t.Errorf("the pager got %q", s)
	}
	p.ends("MQCTL_PAGER=/no/such/pager mqctl cheat", nil, 0, "failover", "NOT_STARTED")
	p.ends("MQCTL_PAGER='touch no' mqctl cheat -o csv | head -2; MQCTL_PAGER='touch no' mqctl cheat -o json | head -1", nil, 0)
	if _, err := os.Stat(filepath.Join(p.dir, "no")); err == nil {
		t.Error("a pipe went through the pager")
	}
}
