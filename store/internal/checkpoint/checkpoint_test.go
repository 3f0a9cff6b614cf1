package checkpoint

import (
	"encoding/hex"
	"strings"
	"testing"

	"mqctl/store/vfs"
)

// What Apache 5.3.3 wrote on a clean stop.
const recorded = "000001a228205744" + "000001a228205744" + "000001a2281ff587" + "0000000000000000" + "0000000000000000"

func TestRecorded(t *testing.T) {
	b, err := hex.DecodeString(recorded)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, make([]byte, Bytes-len(b))...)
	c, err := Decode(b)
	if want := (Checkpoint{1795969537860, 1795969537860, 1795969512839, 0, 0}); err != nil || c != want {
		t.Errorf("%+v, %v", c, err)
	}
	if string(c.Encode()) != string(b) {
		t.Error("encoding differs")
	}
	if got := c.SafeMillis(); got != c.PhysMillis-3000 {
		t.Errorf("safe up to %d", got)
	}
	if (Checkpoint{PhysMillis: 9000}).SafeMillis() != 0 {
		t.Error("queues without a time are safe")
	}
}

func TestFile(t *testing.T) {
	m := vfs.NewMem()
	if c, ok, err := Read(m, "/c"); ok || err != nil || c != (Checkpoint{}) {
		t.Errorf("missing: %v, %v, %v", c, ok, err)
	}
	for _, text := range []string{"", "short"} {
		if err := vfs.WriteFile(m, "/c", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if c, ok, err := Read(m, "/c"); ok || err != nil || c != (Checkpoint{}) {
			t.Errorf("%q: %v, %v, %v", text, c, ok, err)
		}
	}
	f, err := OpenFile(m, "/c")
	if err != nil {
		t.Fatal(err)
	}
	want := Checkpoint{1, 2, 3, 4, -5}
	if err := f.Write(want); err != nil {
		t.Fatal(err)
	}
	if c, ok, err := Read(m, "/c"); !ok || err != nil || c != want {
		t.Errorf("%v, %v, %v", c, ok, err)
	}
	if e, err := m.Stat("/c"); err != nil || e.Size != Bytes {
		t.Errorf("%+v, %v", e, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(strings.Repeat("x", 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Decode(b)
		if err != nil || len(b) == 0 {
			return
		}
		if string(c.Encode()[:40]) != string(b[:40]) {
			t.Errorf("%x became %+v", b[:40], c)
		}
	})
}
