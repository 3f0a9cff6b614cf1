package inspect_test

import (
	"encoding/binary"
	"math"
	"testing"

	"mqctl/store/inspect"
	"mqctl/store/vfs"
)

// damaged are the files that the fuzzer may write into.
var damaged = []string{
	"commitlog/00000000000000000000", "commitlog/00000000000000065536", "consumequeue/orders/0/00000000000000000000",
	"checkpoint", "config/topics.json", "config/consumerOffset.json", "index/",
}

// FuzzVerify: whatever the files of a store hold, it can be verified and dumped, and
// nothing of it is changed.
func FuzzVerify(f *testing.F) {
	base := unpack(f, "killed")
	index, err := base.ReadDir("/store/index")
	if err != nil || len(index) == 0 {
		f.Fatal(err)
	}
	f.Add(byte(0), uint16(88), []byte{0xff})
	f.Add(byte(2), uint16(0), []byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff})
	f.Add(byte(6), uint16(36), binary.BigEndian.AppendUint32(nil, math.MaxInt32))
	f.Add(byte(6), uint16(32), binary.BigEndian.AppendUint64(nil, 1<<63))
	f.Fuzz(func(t *testing.T, which byte, at uint16, what []byte) {
		fsys := base.ProcessKillClone()
		name := "/store/" + damaged[int(which)%len(damaged)]
		if name == "/store/index/" {
			name += index[0].Name
		}
		h, err := fsys.OpenReadWrite(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(what) > 4096 {
			return
		}
		if _, err := h.WriteAt(what, int64(at)); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		readAll(t, fsys)
	})
}

func readAll(t *testing.T, fsys vfs.FS) {
	before := sum(t, fsys, "/store")
	s, err := inspect.Open(inspect.Options{FS: fsys, Dir: "/store"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Verify(t.Context(), func(inspect.Found) {}); err != nil {
		t.Fatal(err)
	}
	if err := s.Records(t.Context(), 1, math.MaxInt64, func(inspect.Stretch) (bool, error) { return true, nil }); err != nil {
		t.Fatal(err)
	}
	for _, q := range s.Queues() {
		if _, err := q.Bounds(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Configs(); err != nil {
		t.Fatal(err)
	}
	if sum(t, fsys, "/store") != before {
		t.Error("the folder was changed")
	}
}
