package topic_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mqctl/broker/topic"
	"mqctl/store/vfs"
)

func TestAttributes(t *testing.T) {
	for _, c := range []struct {
		before, change string
		code           int // 0: accepted
		after          string
	}{
		{"new", "+message.type=FIFO", 0, "message.type=FIFO"},
		{"new", "", 0, ""},
		{"new", "+message.type=FIFO,+cleanup.policy=DELETE,+queue.type=SimpleCQ", 0, "cleanup.policy=DELETE queue.type=SimpleCQ message.type=FIFO"},
		{"new", "-message.type", 1, ""},
		{"new", "+message.type=MIXED", 29, ""},
		{"new", "+message.type=fifo", 1, ""},
		{"new", "+queue.type=BatchCQ", 0, "queue.type=BatchCQ"},
		{"new", "+queue.type=batch", 1, ""},
		{"+queue.type=BatchCQ", "+queue.type=SimpleCQ", 1, ""},
		{"new", "+cleanup.policy=COMPACTION", 1, ""},
		{"new", "+reserve.time=3", 1, ""},
		{"new", "+no.such=1", 1, ""},
		{"new", "message.type=FIFO", 1, ""},
		{"new", "+message.type", 1, ""},
		{"new", "+message.type=", 1, ""},
		{"new", "+", 1, ""},
		{"new", ",", 1, ""},
		{"new", "+message.type=FIFO,+message.type=DELAY", 1, ""},
		{"+message.type=FIFO", "", 0, "message.type=FIFO"},
		{"+message.type=FIFO", "+message.type=DELAY", 0, "message.type=DELAY"},
		{"+message.type=FIFO", "-message.type", 0, ""},
		{"+message.type=FIFO", "-message.type=FIFO", 1, ""},
		{"+message.type=FIFO", "+message.type=NORMAL,-message.type", 1, ""},
		{"", "-message.type", 1, ""},
		{"", "+cleanup.policy=DELETE", 1, ""},
		{"+cleanup.policy=DELETE", "+cleanup.policy=DELETE", 0, "cleanup.policy=DELETE"},
		{"+cleanup.policy=DELETE", "-cleanup.policy", 1, ""},
	} {
		table := load(t, options(vfs.NewMem()))
		cfg := topic.Defaults("orders")
		if c.before != "new" {
			if _, err := table.PutWithAttributes(cfg, c.before); err != nil {
				t.Fatal(err)
			}
		}
		_, err := table.PutWithAttributes(cfg, c.change)
		if c.code != 0 {
			var rule *topic.RuleError
			if !errors.As(err, &rule) || rule.Code != c.code {
				t.Errorf("%q then %q: %v, want code %d", c.before, c.change, err, c.code)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q then %q: %v", c.before, c.change, err)
			continue
		}
		want := map[string]string{}
		for part := range strings.FieldsSeq(c.after) {
			k, v, _ := strings.Cut(part, "=")
			want[k] = v
		}
		if got := table.Get("orders").Attributes; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q then %q: attributes %v, want %v", c.before, c.change, got, want)
		}
	}
}

func TestPutAttributeMaps(t *testing.T) {
	table := load(t, options(vfs.NewMem()))
	c := topic.Defaults("orders")
	c.Attributes = map[string]string{"+message.type": "FIFO"} // as code 18 has it
	if _, err := table.Put(c); err != nil || table.Get("orders").Attributes["message.type"] != "FIFO" {
		t.Fatal(err, table.Get("orders"))
	}
	c.Attributes, c.Perm = nil, 4 // nil keeps them
	if _, err := table.Put(c); err != nil || table.Get("orders").Attributes["message.type"] != "FIFO" || table.Get("orders").Perm != 4 {
		t.Fatal(err, table.Get("orders"))
	}
	c.Attributes = map[string]string{"message.type": "DELAY"} // a whole set
	if _, err := table.Put(c); err != nil || table.Get("orders").Attributes["message.type"] != "DELAY" {
		t.Fatal(err, table.Get("orders"))
	}
	c.Attributes = map[string]string{}
	if _, err := table.Put(c); err != nil || len(table.Get("orders").Attributes) != 0 {
		t.Fatal(err, table.Get("orders"))
	}
	o := options(vfs.NewMem())
	o.AllowMixed = func() bool { return true }
	if _, err := load(t, o).PutWithAttributes(c, "+message.type=MIXED"); err != nil {
		t.Error(err)
	}
}

func FuzzParseAttributes(f *testing.F) {
	for _, s := range []string{"", "+a=b", "+a=b,-c", "a", "+a=", "-a=b", "+a=b,+a=c", ",,", "+message.type=FIFO"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		changes, err := topic.ParseAttributes(s)
		if err != nil {
			return
		}
		for k, v := range changes {
			if len(k) < 2 || (k[0] != '+' && k[0] != '-') || (k[0] == '+') == (v == "") {
				t.Fatalf("%q gave %q=%q", s, k, v)
			}
		}
	})
}
