package record

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
)

// worked is the record that the format page computes field by field, made with
// a JVM.
const worked = `
00000093 daa320a7 3610a686 00000003 00000000 0000000000000011 0000000000001000 00000000
000001941f297c00 0a000007 0000c487 000001941f297c7b 0a000002 00002a9f 00000000 0000000000000000
00000005 68656c6c6f 06 6f7264657273 002d
4b455953014f52442d3230343137 02 54414753015461674102 554e49515f4b4559013746303030303031304102`

// workedCRC is the tail of the same record in property-CRC mode.
const workedCRC = `5f5f4352433332 2301 38393530393830373130 02`

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func workedDraft() *Draft {
	var props []byte
	props = AppendProperty(props, "KEYS", "ORD-20417")
	props = AppendProperty(props, []byte("TAGS"), "TagA")
	props = AppendProperty(props, "UNIQ_KEY", []byte("7F0000010A"))
	return &Draft{
		Topic: []byte("orders"), QueueID: 3, BornMillis: 1735689600000,
		BornHost:  netip.MustParseAddrPort("10.0.0.7:50311"),
		StoreHost: netip.MustParseAddrPort("10.0.0.2:10911"),
		Body:      []byte("hello"), Properties: props,
	}
}

func TestWorkedRecord(t *testing.T) {
	want := unhex(t, worked)
	got, err := AppendDraft(nil, workedDraft())
	if err != nil {
		t.Fatal(err)
	}
	if v, err := Parse(got); err != nil || v.QueueOffset() != 0 || v.PhysOffset() != 0 || v.StoreMillis() != 0 {
		t.Errorf("late fields are not zero before Patch: %v", err)
	}
	Patch(got, 17, 4096, 1735689600123)
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%x\nwant\n%x", got, want)
	}
	v, err := Parse(append(slices.Clone(want), "more"...))
	if err != nil {
		t.Fatal(err)
	}
	if v.Size() != 147 || string(v.Property("TAGS")) != "TagA" || v.Property("TAG") != nil || v.Property("") != nil {
		t.Errorf("size %d, TAGS %q", v.Size(), v.Property("TAGS"))
	}
	if cap(v.Raw()) != 147 || cap(v.Body()) < len(v.Body()) {
		t.Error("the view reaches behind the record")
	}
}

func TestPropertyCRC(t *testing.T) {
	d := workedDraft()
	d.Properties = append(d.Properties, unhex(t, workedCRC)...)
	rec, err := AppendDraft(nil, d)
	if err != nil {
		t.Fatal(err)
	}
	Patch(rec, 17, 4096, 1735689600123)
	v, err := Parse(rec)
	if err != nil || v.Size() != 0xA7 || len(v.Properties()) != 65 {
		t.Fatalf("size %d, properties %d, %v", v.Size(), len(v.Properties()), err)
	}
	if crc, ok := v.PropertyCRC(); !ok || crc != 170890598 {
		t.Errorf("checksum %d %v", crc, ok)
	}
	if err := v.CheckPropertyCRC(); err != nil {
		t.Error(err)
	}
	for at := range rec[:len(rec)-20] {
		rec[at] ^= 0x40
		if v, err := Parse(rec); err == nil && v.CheckPropertyCRC() == nil {
			t.Errorf("a flipped bit at %d passes", at)
		}
		rec[at] ^= 0x40
	}
	plain, _ := Parse(unhex(t, worked))
	if err := plain.CheckPropertyCRC(); !errors.Is(err, ErrNoPropertyCRC) {
		t.Errorf("record without it: %v", err)
	}
	rec[len(rec)-5] = 'x'
	if v, _ := Parse(rec); !errors.Is(v.CheckPropertyCRC(), ErrNoPropertyCRC) {
		t.Error("digits that are none pass")
	}
}

// Vectors made with a JVM.
func TestVectors(t *testing.T) {
	for s, want := range map[string]int32{
		"": 0, "TagA": 2598919, "tag-shipped-eu": 2056141693, "polygenelubricants": math.MinInt32,
		"\U0001F600": 1772899, "Aa": 2112, "BB": 2112, "é": 233, "键-1": 0x952e*31*31 + '-'*31 + '1',
	} {
		if got := JavaHash(s); got != want {
			t.Errorf("JavaHash(%q) = %d, want %d", s, got, want)
		}
		if got := JavaHash([]byte(s)); got != want {
			t.Errorf("JavaHash of the bytes of %q = %d, want %d", s, got, want)
		}
	}
	if got := TagsCode([]byte("tag-shipped-eu")); got != 0x7A8E3B7D {
		t.Errorf("TagsCode %#x", got)
	}
	if got := TagsCode([]byte("polygenelubricants")); got != -1<<31 {
		t.Errorf("TagsCode %d, want it sign-extended", got)
	}
	if TagsCode(nil) != 0 || TagsCode([]byte{}) != 0 {
		t.Error("a message without tags has a code")
	}
	if got := CRC31([]byte("hello")); got != 0x3610A686 {
		t.Errorf("CRC31 %#x", got)
	}
	if got := AppendBlank(nil, 100); hex.EncodeToString(got) != "00000064cbd43194" {
		t.Errorf("blank record %x", got)
	}
}

// javaHash is the definition, over what encoding/utf16 makes of valid text.
func javaHash(s string) (h int32) {
	for _, u := range utf16.Encode([]rune(s)) {
		h = 31*h + int32(u)
	}
	return h
}

func TestJavaHashMalformed(t *testing.T) {
	// How java.lang.String decodes each: one U+FFFD where a character could
	// have begun, none for the continuation bytes that belong to it.
	for s, decoded := range map[string]string{
		"\x80": "\uFFFD", "\xC0\x80": "\uFFFD\uFFFD", "\xC3": "\uFFFD", "\xC3A": "\uFFFDA",
		"\xE2\x82": "\uFFFD", "\xE2\x82A": "\uFFFDA", "\xE2A": "\uFFFDA", "\xE0\x80\x80": "\uFFFD\uFFFD\uFFFD",
		"\xED\xA0\x80": "\uFFFD", "\xF0\x9F\x98": "\uFFFD", "\xF0\x9F\x98A": "\uFFFDA", "\xF0\x80\x80\x80": "\uFFFD\uFFFD\uFFFD\uFFFD",
		"\xF4\x90\x80\x80": "\uFFFD\uFFFD\uFFFD\uFFFD", "\xF5\x80": "\uFFFD\uFFFD", "\xFF\xFE": "\uFFFD\uFFFD",
		"abcde\xE2\x82xyz": "abcde\uFFFDxyz",
	} {
		if got, want := JavaHash(s), javaHash(decoded); got != want {
			t.Errorf("JavaHash(%q) = %d, want %d as of %q", s, got, want, decoded)
		}
	}
}

func TestVersionsAndHosts(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("10.1.2.3:65535"), netip.MustParseAddrPort("[2001:db8::1]:1")
	mapped := netip.MustParseAddrPort("[::ffff:10.1.2.3]:65535")
	for _, topicLen := range []int{0, 1, 126, 127, 128, 255, MaxTopicBytes} {
		for _, hosts := range [][2]netip.AddrPort{{v4, v4}, {v4, v6}, {v6, v4}, {v6, v6}, {mapped, v4}, {v4, netip.AddrPort{}}} {
			d := Draft{
				Topic: bytes.Repeat([]byte("t"), topicLen), QueueID: -1, Flag: math.MinInt32, SysFlag: FlagBornV6 | FlagStoreV6 | FlagCommit,
				BornMillis: -5, BornHost: hosts[0], StoreHost: hosts[1], ReconsumeTimes: 16, PreparedOffset: 1 << 40,
				Body: []byte{}, Properties: nil,
			}
			b, err := AppendDraft(nil, &d)
			if err != nil {
				t.Fatal(err)
			}
			Patch(b, 1<<50, 1<<60, 1<<45)
			v, err := Parse(b)
			if err != nil {
				t.Fatalf("topic of %d bytes, hosts %v: %v", topicLen, hosts, err)
			}
			if want := 1 + topicLen/(MaxTopicBytesV1+1); v.Version() != min(want, 2) {
				t.Errorf("topic of %d bytes has version %d", topicLen, v.Version())
			}
			born, store := hosts[0], hosts[1]
			if born == mapped {
				born = v4
			}
			if !store.IsValid() {
				store = netip.MustParseAddrPort("0.0.0.0:0")
			}
			if v.BornHost() != born || v.StoreHost() != store {
				t.Errorf("hosts %v %v, want %v %v", v.BornHost(), v.StoreHost(), born, store)
			}
			if v.QueueOffset() != 1<<50 || v.PhysOffset() != 1<<60 || v.StoreMillis() != 1<<45 || v.BornMillis() != -5 ||
				v.PreparedOffset() != 1<<40 || v.ReconsumeTimes() != 16 || v.Flag() != math.MinInt32 || v.QueueID() != -1 ||
				v.SysFlag()&FlagCommit == 0 || v.BodyCRC() != 0 || v.CheckCRC() != nil || len(v.Topic()) != topicLen {
				t.Errorf("topic of %d bytes, hosts %v: fields differ", topicLen, hosts)
			}
			if v.Size() != d.Size() || len(v.Raw()) != len(b) {
				t.Errorf("size %d of %d", v.Size(), len(b))
			}
		}
	}
}

func TestAppendDraftRefuses(t *testing.T) {
	for _, c := range []struct {
		d    Draft
		want error
	}{
		{Draft{Topic: make([]byte, MaxTopicBytes+1)}, ErrTopicLength},
		{Draft{Properties: make([]byte, MaxPropertyBytes+1)}, ErrPropertiesLength},
	} {
		if b, err := AppendDraft([]byte("x"), &c.d); !errors.Is(err, c.want) || string(b) != "x" {
			t.Errorf("error %v, want %v; %d bytes", err, c.want, len(b))
		}
	}
	d := Draft{Properties: bytes.Repeat([]byte("p"), MaxPropertyBytes)}
	b, err := AppendDraft(nil, &d)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := Parse(b); err != nil || len(v.Properties()) != MaxPropertyBytes {
		t.Errorf("longest properties: %v", err)
	}
}

// Each length that contradicts the others is refused, and no length makes
// Parse look outside of the record.
func TestParseRefuses(t *testing.T) {
	good := unhex(t, worked)
	set32 := func(at int, n int32) []byte {
		b := slices.Clone(good)
		binary.BigEndian.PutUint32(b[at:], uint32(n))
		return b
	}
	topicAt := 84 + 4 + 5 - 4
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"empty", nil, ErrTruncated},
		{"seven bytes", good[:7], ErrTruncated},
		{"header only", good[:90], ErrTruncated},
		{"one byte short", good[:len(good)-1], ErrTruncated},
		{"magic", set32(4, 0), ErrMagic},
		{"blank", set32(4, MagicBlank), ErrBlank},
		{"size zero", set32(0, 0), ErrLengths},
		{"size negative", set32(0, -1), ErrLengths},
		{"size below the minimum", set32(0, 90), ErrLengths},
		{"size one less", set32(0, 146), ErrLengths},
		{"size one more", append(set32(0, 148), 0), ErrLengths},
		{"v6 flags without room", set32(36, FlagBornV6|FlagStoreV6), ErrLengths},
		{"body negative", set32(84, -1), ErrLengths},
		{"body huge", set32(84, math.MaxInt32), ErrLengths},
		{"body over the topic", set32(84, 60), ErrLengths},
		{"version 2 of the same bytes", set32(4, MagicV2), ErrLengths},
		{"topic negative", replace(good, topicAt+4, 0x80), ErrLengths},
		{"topic too long", replace(good, topicAt+4, 0x7F), ErrLengths},
		{"properties negative", replace(good, topicAt+4+7, 0x80), ErrLengths},
		{"properties short", replace(good, topicAt+4+8, 0x2c), ErrLengths},
	} {
		if v, err := Parse(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v (%d bytes), want %v", c.name, err, v.Size(), c.want)
		}
	}
}

func replace(b []byte, at int, c byte) []byte {
	b = slices.Clone(b)
	b[at] = c
	return b
}

func TestCheckCRC(t *testing.T) {
	b := unhex(t, worked)
	b[88] ^= 1
	v, err := Parse(b)
	if err != nil || !errors.Is(v.CheckCRC(), ErrBodyCRC) {
		t.Errorf("a changed body passes: %v", err)
	}
}

func TestProperties(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", nil},
		{"one", "a\x01b\x02", []string{"a=b"}},
		{"unterminated", "a\x01b\x02c\x01d", []string{"a=b", "c=d"}},
		{"empty name or value", "\x01b\x02a\x01\x02\x01\x02\x02x\x02c\x01d\x02", []string{"c=d"}},
		{"value with a separator", "a\x01b\x01c\x02", []string{"a=b\x01c"}},
		{"duplicates in order", "a\x011\x02b\x012\x02a\x013\x02", []string{"a=1", "b=2", "a=3"}},
		{"only ends", "\x02\x02\x02", nil},
		{"not text", "\xff\x01\xfe\x02", []string{"\xff=\xfe"}},
	} {
		var got []string
		EachProperty([]byte(c.text), func(n, v []byte) bool {
			got = append(got, string(n)+"="+string(v))
			return true
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	text := []byte("a\x011\x02b\x012\x02a\x013")
	if got := FindProperty(text, "a"); string(got) != "1" {
		t.Errorf("first a is %q", got)
	}
	if got := AppendProperty(text[:len(text):len(text)], "c", "4"); string(got) != "a\x011\x02b\x012\x02a\x013\x02c\x014\x02" {
		t.Errorf("appended: %q", got)
	}
	if got := AppendWithout([]byte("<"), text, "a", "x"); string(got) != "<b\x012\x02" {
		t.Errorf("without a: %q", got)
	}
	if got := AppendWithout(nil, text); string(got) != string(text)+"\x02" {
		t.Errorf("without nothing: %q", got)
	}
	n := 0
	EachProperty(text, func(_, _ []byte) bool { n++; return false })
	if n != 1 {
		t.Errorf("%d calls after false", n)
	}
}

func TestBatch(t *testing.T) {
	items := []BatchItem{
		{Flag: 7, Body: []byte("one"), Properties: []byte("a\x01b\x02")},
		{Flag: -1, Body: []byte{}, Properties: []byte{}},
		{Body: []byte("three"), Properties: []byte("k\x01v")},
	}
	var b []byte
	for _, it := range items {
		var err error
		if b, err = AppendBatchItem(b, it); err != nil {
			t.Fatal(err)
		}
	}
	rest := b
	for i, want := range items {
		var it BatchItem
		var err error
		if it, rest, err = NextBatchItem(rest); err != nil {
			t.Fatal(err)
		}
		if it.Flag != want.Flag || !bytes.Equal(it.Body, want.Body) || !bytes.Equal(it.Properties, want.Properties) {
			t.Errorf("item %d: %+v", i, it)
		}
	}
	if len(rest) != 0 {
		t.Errorf("%d bytes left", len(rest))
	}
	one := b[:22+3+4]
	for at, n := range map[int]uint32{0: 21, 16: 0xFFFFFFFF, 21: 0} {
		bad := slices.Clone(one)
		binary.BigEndian.PutUint32(bad[at:], n)
		if _, _, err := NextBatchItem(bad); !errors.Is(err, ErrBatch) {
			t.Errorf("int32 at %d = %d: %v", at, n, err)
		}
	}
	for n := range len(one) {
		if _, _, err := NextBatchItem(one[:n]); !errors.Is(err, ErrBatch) {
			t.Errorf("%d of %d bytes: %v", n, len(one), err)
		}
	}
	if _, err := AppendBatchItem(nil, BatchItem{Properties: make([]byte, MaxPropertyBytes+1)}); !errors.Is(err, ErrPropertiesLength) {
		t.Errorf("long properties: %v", err)
	}
}

func TestOffsetID(t *testing.T) {
	for id, host := range map[string]string{
		"0A00000200002A9F0000000000001000":                         "10.0.0.2:10911",
		"20010DB800000000000000000000000200008477000000000000ABCD": "[2001:db8::2]:33911",
	} {
		got, phys, err := ParseOffsetID(id)
		if err != nil || got.String() != host {
			t.Errorf("%s: %v %v", id, got, err)
		}
		if back := string(AppendOffsetID(nil, got, phys)); back != id {
			t.Errorf("%s comes back as %s", id, back)
		}
		if low, p, err := ParseOffsetID(strings.ToLower(id)); err != nil || low != got || p != phys {
			t.Errorf("lower case: %v", err)
		}
	}
	for _, id := range []string{"", "0A", strings.Repeat("G", 32), strings.Repeat("0", 33), strings.Repeat("0", 55),
		"7F000001000F4240000000000000AAAA", "0A00000200002A9FFFFFFFFFFFFFFFFF"} {
		if a, p, err := ParseOffsetID(id); err == nil {
			t.Errorf("%q is taken for %v %d", id, a, p)
		}
	}
}

func TestUniqueIDs(t *testing.T) {
	month := time.Date(2026, 11, 1, 0, 0, 0, 0, time.Local)
	u := NewUniqueIDs(netip.MustParseAddr("127.0.0.1"), 70000)
	id := string(u.Append([]byte("<"), month.UnixMilli()+0x01020304))[1:]
	if len(id) != 32 || id[:12] != "7F0000011170" || id[20:28] != "01020304" {
		t.Errorf("id %s", id)
	}
	next := string(u.Append(nil, month.UnixMilli()+0x01020304))
	if next[:28] != id[:28] || next == id {
		t.Errorf("%s follows %s", next, id)
	}
	// A month does not fit into an int32, but into its bits; then a new one.
	end := month.AddDate(0, 1, 0).UnixMilli()
	if s := string(u.Append(nil, end-1)); s[20:28] != fmt.Sprintf("%08X", uint32(end-1-month.UnixMilli())) {
		t.Errorf("last id of the month %s", s)
	}
	if s := string(u.Append(nil, month.AddDate(0, 1, 0).UnixMilli()+5)); s[20:28] != "00000005" {
		t.Errorf("first id of the next month %s", s)
	}
	if s := string(u.Append(nil, month.UnixMilli()+6)); s[20:28] != "00000006" {
		t.Errorf("after the clock went back a month: %s", s)
	}
	v6 := NewUniqueIDs(netip.MustParseAddr("2001:db8::1"), 1)
	if s := string(v6.Append(nil, 0)); len(s) != 56 || !strings.HasPrefix(s, "20010DB80000000000000000000000010001") {
		t.Errorf("IPv6 id %s", s)
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5000 {
				s := string(u.Append(nil, month.UnixMilli()))
				mu.Lock()
				if seen[s] {
					t.Errorf("%s was made twice", s)
				}
				seen[s] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestDecompress(t *testing.T) {
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	plain := bytes.Repeat([]byte("0"), 1<<20)
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := Decompress(z.Bytes(), FlagCompressed|FlagZlib, 1<<20); err != nil || !bytes.Equal(b, plain) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	for name, c := range map[string]struct {
		body []byte
		flag int32
	}{
		"over the limit": {z.Bytes(), FlagCompressed},
		"torn":           {z.Bytes()[:z.Len()-8], FlagCompressed},
		"not zlib":       {[]byte("hello"), FlagCompressed | FlagZlib},
		"empty":          {nil, FlagCompressed},
		"unknown type":   {z.Bytes(), FlagCompressed | 0x400},
	} {
		_, err := Decompress(c.body, c.flag, 1<<20-1)
		var ce *CompressionError
		if !errors.As(err, &ce) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := Decompress([]byte("x"), FlagZlib, 0); err != nil || string(b) != "x" {
		t.Errorf("a body that is not compressed: %q %v", b, err)
	}
}

func TestNoAllocations(t *testing.T) {
	d := workedDraft()
	buf := make([]byte, 0, 4096)
	rec, err := AppendDraft(nil, d)
	if err != nil {
		t.Fatal(err)
	}
	ids := NewUniqueIDs(netip.MustParseAddr("127.0.0.1"), 1)
	batch, err := AppendBatchItem(nil, BatchItem{Body: d.Body, Properties: d.Properties})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(){
		"AppendDraft": func() { b, _ := AppendDraft(buf, d); Patch(b, 1, 2, 3) },
		"Parse": func() {
			v, _ := Parse(rec)
			_ = v.CheckCRC()
			_, _ = v.StoreHost(), v.Property("UNIQ_KEY")
			_ = TagsCode(v.Property("TAGS"))
		},
		"Parse of garbage": func() { _, _ = Parse(rec[1:]) },
		"properties": func() {
			n := 0
			EachProperty(d.Properties, func(name, value []byte) bool { n += len(name); return true })
			b := AppendWithout(buf, d.Properties, "KEYS")
			_ = AppendProperty(b, "CLUSTER", "DefaultCluster")
		},
		"ids":   func() { _ = ids.Append(buf, 1735689600000); _ = AppendOffsetID(buf, d.StoreHost, 4096) },
		"batch": func() { _, _, _ = NextBatchItem(batch) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
