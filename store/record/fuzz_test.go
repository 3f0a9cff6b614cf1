package record

import (
	"bytes"
	"net/netip"
	"testing"
	"unicode/utf8"
)

func FuzzParse(f *testing.F) {
	f.Add(unhex(f, worked))
	g := readGolden(f, "formats")
	for _, m := range g.messages {
		if m.Size < 1000 {
			f.Add(g.log[m.PhysicalOffset : int(m.PhysicalOffset)+m.Size])
		}
	}
	f.Add(AppendBlank(nil, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Parse(b)
		if err != nil {
			return
		}
		if v.Size() < MinSize || !bytes.Equal(v.Raw(), b[:v.Size()]) {
			t.Fatalf("view of %d bytes", v.Size())
		}
		m := v.Message()
		_ = m.ID()
		_, _ = m.PlainBody(1 << 16)
		_ = v.CheckPropertyCRC()
		d := Draft{
			Topic: v.Topic(), QueueID: v.QueueID(), Flag: v.Flag(), SysFlag: v.SysFlag(), BornMillis: v.BornMillis(),
			BornHost: v.BornHost(), StoreHost: v.StoreHost(), ReconsumeTimes: v.ReconsumeTimes(),
			PreparedOffset: v.PreparedOffset(), Body: v.Body(), Properties: v.Properties(),
		}
		again, err := AppendDraft(nil, &d)
		if err != nil {
			t.Fatal(err)
		}
		Patch(again, v.QueueOffset(), v.PhysOffset(), v.StoreMillis())
		w, err := Parse(again)
		if err != nil {
			t.Fatal(err)
		}
		// Version 2 with a short topic, a mapped address, a port above 65535
		// and a wrong checksum are readable but never written.
		if w.QueueOffset() != v.QueueOffset() || w.StoreMillis() != v.StoreMillis() || w.StoreHost().Port() != v.StoreHost().Port() ||
			!bytes.Equal(w.Body(), v.Body()) || !bytes.Equal(w.Topic(), v.Topic()) || !bytes.Equal(w.Properties(), v.Properties()) {
			t.Fatalf("encoded again: %x", again)
		}
	})
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte("a\x01b\x02"), "a", "v")
	f.Add([]byte("a\x01b\x02\x01\x02c"), "c", "\x01")
	f.Fuzz(func(t *testing.T, props []byte, name, value string) {
		first := map[string]string{}
		n := 0
		EachProperty(props, func(k, v []byte) bool {
			if len(k) == 0 || len(v) == 0 || bytes.IndexByte(k, PropertySep) >= 0 || bytes.IndexByte(v, PropertyEnd) >= 0 {
				t.Fatalf("entry %q=%q", k, v)
			}
			if _, dup := first[string(k)]; !dup {
				first[string(k)] = string(v)
			}
			n++
			return true
		})
		for k, v := range first {
			if got := FindProperty(props, k); string(got) != v {
				t.Fatalf("%q is %q, want %q", k, got, v)
			}
		}
		clean := AppendWithout(nil, props)
		if again := AppendWithout(nil, clean); !bytes.Equal(again, clean) {
			t.Fatalf("%q is not stable: %q", clean, again)
		}
		for k := range first {
			if FindProperty(AppendWithout(nil, props, k), k) != nil {
				t.Fatalf("%q was not dropped", k)
			}
		}
		legal := name != "" && value != "" && !bytes.ContainsAny([]byte(name), "\x01\x02") && !bytes.ContainsAny([]byte(value), "\x02")
		if _, have := first[name]; legal && !have {
			added := AppendProperty(bytes.Clone(props), name, value)
			if got := FindProperty(added, name); string(got) != value {
				t.Fatalf("%q added to %q reads %q", name, props, got)
			}
			m := 0
			EachProperty(added, func(_, _ []byte) bool { m++; return true })
			if m != n+1 {
				t.Fatalf("%d entries became %d", n, m)
			}
		}
	})
}

func FuzzBatch(f *testing.F) {
	b, _ := AppendBatchItem(nil, BatchItem{Flag: 1, Body: []byte("body"), Properties: []byte("a\x01b")})
	f.Add(append(b, b...))
	f.Fuzz(func(t *testing.T, b []byte) {
		rest := b
		var again []byte
		for len(rest) > 0 {
			before := len(rest)
			it, next, err := NextBatchItem(rest)
			if err != nil {
				return
			}
			if len(next) >= before {
				t.Fatal("no progress")
			}
			rest = next
			if again, err = AppendBatchItem(again, it); err != nil {
				t.Fatal(err)
			}
		}
		if len(again) != len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(again))
		}
	})
}

func FuzzIDs(f *testing.F) {
	f.Add("0A00000200002A9F0000000000001000")
	f.Add("20010DB800000000000000000000000200008477000000000000ABCD")
	f.Fuzz(func(t *testing.T, id string) {
		host, p, err := ParseOffsetID(id)
		if err != nil {
			return
		}
		back := AppendOffsetID(nil, host, p)
		if !bytes.EqualFold(back, []byte(id)) && !host.Addr().Is4In6() {
			t.Fatalf("%s comes back as %s", id, back)
		}
	})
}

func FuzzJavaHash(f *testing.F) {
	f.Add("TagA", "x")
	f.Add("\U0001F600\xE2\x82", "é")
	f.Fuzz(func(t *testing.T, a, b string) {
		h := JavaHash(a)
		if h != JavaHash([]byte(a)) {
			t.Fatal("string and bytes differ")
		}
		if utf8.ValidString(a) {
			if want := javaHash(a); h != want {
				t.Fatalf("%d, want %d", h, want)
			}
			if utf8.ValidString(b) && ExtendHash(h, b) != javaHash(a+b) {
				t.Fatal("extended hash differs")
			}
		}
	})
}

func bigDraft() *Draft {
	d := workedDraft()
	d.Body = bytes.Repeat([]byte("x"), 1024)
	return d
}

func BenchmarkAppendDraft1K(b *testing.B) {
	d := bigDraft()
	buf := make([]byte, 0, 4096)
	b.SetBytes(int64(d.Size()))
	b.ReportAllocs()
	for b.Loop() {
		rec, err := AppendDraft(buf, d)
		if err != nil {
			b.Fatal(err)
		}
		Patch(rec, 1, 2, 3)
	}
}

func BenchmarkParse(b *testing.B) {
	rec, err := AppendDraft(nil, bigDraft())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		v, err := Parse(rec)
		if err != nil || v.QueueOffset() != 0 {
			b.Fatal(err)
		}
	}
}

func BenchmarkFindProperty(b *testing.B) {
	d := workedDraft()
	for b.Loop() {
		if FindProperty(d.Properties, "UNIQ_KEY") == nil {
			b.Fatal("not found")
		}
	}
}

func BenchmarkJavaHash32(b *testing.B) {
	s := []byte("7F000001000000600000000000000001")
	for b.Loop() {
		if JavaHash(s) == 0 {
			b.Fatal("zero")
		}
	}
}

func BenchmarkUniqueID(b *testing.B) {
	u := NewUniqueIDs(netip.MustParseAddr("127.0.0.1"), 1)
	buf := make([]byte, 0, 64)
	for b.Loop() {
		_ = u.Append(buf, 1735689600000)
	}
}
