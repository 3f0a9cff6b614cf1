package store_test

import (
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
	"testing"

	"mqctl/store/record"
	"mqctl/store/vfs"
)

// FORMAT.md shows what the code writes.
func TestFormatPage(t *testing.T) {
	page, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	mem := vfs.NewMem()
	o := small(mem)
	c := &clock{millis: 1735689600123}
	o.Now = c.now
	s, _ := open(t, o)
	d := &record.Draft{
		Topic: []byte("orders"), QueueID: 3, BornMillis: 1735689600000, Body: []byte("hello"),
		BornHost: netip.MustParseAddrPort("10.0.0.7:50311"), StoreHost: netip.MustParseAddrPort("10.0.0.2:10911"),
	}
	for _, p := range [][2]string{{"KEYS", "ORD-20417"}, {"TAGS", "TagA"}, {"UNIQ_KEY", "7F0000010A"}} {
		d.Properties = record.AppendProperty(d.Properties, p[0], p[1])
	}
	for range 2 {
		if _, err := s.Append(t.Context(), s.Queue("orders", 3), d, true); err != nil {
			t.Fatal(err)
		}
		c.millis += 2000
	}
	closeStore(t, s)
	index, err := mem.ReadDir("/store/index")
	if err != nil || len(index) != 1 {
		t.Fatal(index, err)
	}
	for name, bytes := range map[string]int{
		"commitlog/00000000000000000000":             0xA0,
		"consumequeue/orders/3/00000000000000000000": 40,
		"index/" + index[0].Name:                     0x18C,
		"checkpoint":                                 16,
	} {
		b, err := vfs.ReadFile(mem, "/store/"+name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(hex.Dump(b[:bytes])) {
			line = strings.TrimSpace(line)
			if len(line) < 20 || strings.HasPrefix(line[10:], strings.TrimSpace(strings.Repeat("00 00 00 00 00 00 00 00  ", 2))) {
				continue // zeros are left out
			}
			if !strings.Contains(string(page), line) {
				t.Errorf("%s: the page does not show %s", name, line)
			}
		}
	}
	progress, err := vfs.ReadFile(mem, "/store/mqctl/progress", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(progress)) {
		name, _, _ := strings.Cut(line, " ")
		if !strings.Contains(string(page), "\n"+name+" ") {
			t.Errorf("the page does not tell of %s", line)
		}
	}
}
