package broker

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"mqctl/store"
	"mqctl/store/record"
)

func TestScanProps(t *testing.T) {
	cases := []struct {
		name, in, out string
		withoutKey    bool
		want          sentProps
	}{
		{name: "nothing"},
		{name: "kept as it is", in: props("KEYS", "a b", "TAGS", "t", "x", "1"), out: props("KEYS", "a b", "TAGS", "t", "x", "1"), want: sentProps{hasKeys: true}},
		{name: "last separator missing", in: "a\x01b", out: props("a", "b")},
		{name: "value with the inner separator", in: "a\x01b\x01c\x02", out: "a\x01b\x01c\x02"},
		{name: "no value, no name, no separator", in: "a\x01\x02\x01b\x02abc\x02\x02", out: ""},
		{name: "set by the broker", in: props("MSG_REGION", "x", "a", "b", "TRACE_ON", "false", "CLUSTER", "c"), out: props("a", "b")},
		{name: "not stored", in: props("POP_CK", "x", "a", "b", "__CRC32#", "1"), out: props("a", "b")},
		{name: "key", in: props("UNIQ_KEY", "K"), out: props("UNIQ_KEY", "K"), want: sentProps{uniqKey: []byte("K")}},
		{name: "key of a batch", in: props("UNIQ_KEY", "K", "a", "b"), withoutKey: true, out: props("a", "b"), want: sentProps{uniqKey: []byte("K")}},
		{name: "blank keys", in: props("KEYS", " "), out: props("KEYS", " ")},
		{name: "no wait", in: props("WAIT", "false"), out: props("WAIT", "false"), want: sentProps{noWait: true}},
		{name: "wait", in: props("WAIT", "TRUE"), out: props("WAIT", "TRUE")},
		{name: "delay", in: props("DELAY", "12"), out: props("DELAY", "12"), want: sentProps{delay: 12}},
		{name: "negative delay", in: props("DELAY", "-1"), out: props("DELAY", "-1")},
		{name: "bad delay", in: props("DELAY", "1s"), out: props("DELAY", "1s"), want: sentProps{badDelay: true}},
		{name: "huge delay", in: props("DELAY", "9999999999"), out: props("DELAY", "9999999999"), want: sentProps{badDelay: true}},
		{name: "transaction", in: props("TRAN_MSG", "True"), out: props("TRAN_MSG", "True"), want: sentProps{tran: true}},
		{name: "no transaction", in: props("TRAN_MSG", "false"), out: props("TRAN_MSG", "false")},
		{name: "timer", in: props("TIMER_DELAY_MS", "1", "TIMER_OUT_MS", "2"), out: props("TIMER_DELAY_MS", "1", "TIMER_OUT_MS", "2"), want: sentProps{timer: true, fired: true}},
		{name: "delayed before", in: props("REAL_TOPIC", "T"), out: props("REAL_TOPIC", "T"), want: sentProps{real: true}},
	}
	for _, c := range cases {
		var p sentProps
		got := string(scanProps(nil, []byte(c.in), c.withoutKey, &p))
		if got != c.out {
			t.Errorf("%s: %q, want %q", c.name, got, c.out)
		}
		if !bytes.Equal(p.uniqKey, c.want.uniqKey) {
			t.Errorf("%s: key %q", c.name, p.uniqKey)
		}
		p.uniqKey, c.want.uniqKey = nil, nil
		if p.delay != c.want.delay || p.badDelay != c.want.badDelay || p.noWait != c.want.noWait || p.hasKeys != c.want.hasKeys ||
			p.tran != c.want.tran || p.timer != c.want.timer || p.fired != c.want.fired || p.inner != c.want.inner || p.real != c.want.real {
			t.Errorf("%s: saw %+v, want %+v", c.name, p, c.want)
		}
	}
}

// knownOf is what the store reads of property text.
func knownOf(text []byte) store.Properties {
	var k store.Properties
	record.EachProperty(text, func(name, value []byte) bool {
		switch string(name) {
		case record.PropertyTags:
			k.Tags = value
		case record.PropertyKeys:
			k.Keys = value
		case record.PropertyDelay:
			k.Delay = value
		case record.PropertyUniqueKey:
			if k.UniqueKey == nil {
				k.UniqueKey = value
			}
		}
		return true
	})
	return k
}

// TestElementKnown: what the store is told of an element of a batch is what it
// would find in the element's text.
func TestElementKnown(t *testing.T) {
	outers := []string{"", props("UNIQ_KEY", "O"), props("TAGS", "o", "KEYS", "x y"), props("UNIQ_KEY", "O", "UNIQ_KEY", "P", "DELAY", "0")}
	owns := []string{"", props("UNIQ_KEY", "A", "UNIQ_KEY", "B"), props("TAGS", "a", "TAGS", "b"), props("KEYS", "k", "DELAY", "-1"), "TAGS\x01open"}
	for _, outer := range outers {
		for _, own := range owns {
			var b burst
			var of, p sentProps
			b.outer = scanProps(nil, []byte(outer), true, &of)
			text := b.element(scanProps(nil, []byte(own), false, &p), &p, &of)
			if want := knownOf(text); !reflect.DeepEqual(p.known, want) {
				t.Errorf("%q in %q: known %+v, want %+v of %q", own, outer, p.known, want, text)
			}
		}
	}
}

// FuzzScanProps: whatever comes, what is stored is well-formed, holds nothing
// that the broker sets or drops, and does not grow by a second pass.
func FuzzScanProps(f *testing.F) {
	f.Add(props("KEYS", "a b", "UNIQ_KEY", "K", "DELAY", "3", "WAIT", "false"))
	f.Add("a\x01b\x01c\x02\x02\x01x\x02POP_CK\x011\x02MSG_REGION\x01r")
	f.Fuzz(func(t *testing.T, in string) {
		var p sentProps
		out := scanProps(nil, []byte(in), false, &p)
		if len(out) > len(in)+1 {
			t.Fatalf("%d bytes became %d", len(in), len(out))
		}
		record.EachProperty(out, func(name, value []byte) bool {
			switch string(name) {
			case propRegion, propTraceOn, propCluster, propPopCK, propCRC, "":
				t.Fatalf("%q was stored", name)
			}
			if len(value) == 0 {
				t.Fatalf("%q was stored without a value", name)
			}
			return true
		})
		if p.uniqKey != nil && !strings.Contains(in, string(p.uniqKey)) {
			t.Fatalf("key %q is not of the text", p.uniqKey)
		}
		if want := knownOf(out); !reflect.DeepEqual(p.known, want) {
			t.Fatalf("of %q known is %+v, want %+v", out, p.known, want)
		}
		var again sentProps
		if second := scanProps(nil, out, false, &again); !bytes.Equal(second, out) {
			t.Fatalf("a second pass changed %q to %q", out, second)
		}
	})
}
