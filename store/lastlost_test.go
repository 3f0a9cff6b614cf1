package store_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"mqctl/store/record"
	"mqctl/store/vfs"
)

// TestNumberOfLostMessage: the last message of a queue is damaged in the middle of the log.
// Its number is not given to another, however often the store is killed and started.
func TestNumberOfLostMessage(t *testing.T) {
	for _, c := range []struct {
		topic    string
		snapshot bool // what queues are stands in the file that a kill -9 leaves
		lost     int  // messages at the queue's end
	}{{"plain", false, 1}, {"plain", false, 3}, {"plain", true, 2}, {"bundles", false, 1}, {"bundles", false, 3}, {"bundles", true, 2}} {
		topic := c.topic
		t.Run(fmt.Sprintf("%s %d %v", topic, c.lost, c.snapshot), func(t *testing.T) {
			mem := vfs.NewMem()
			o := batchOptions(mem)
			s, _ := open(t, o)
			var at []record.PhysOffset
			for i := range 6 {
				at = append(at, put(t, s, topic, 0, fmt.Sprint("message ", i)).Phys)
			}
			for range 5 {
				put(t, s, "other", 0, strings.Repeat("y", 200))
			}
			closeStore(t, s)
			for _, p := range at[6-c.lost:] {
				mem = damage(t, mem, "/store/commitlog/00000000000000000000", int64(p), bytes.Repeat([]byte("damaged "), 12))
			}
			for n := range 4 {
				mem = mem.ProcessKillClone()
				if !c.snapshot {
					_ = mem.Remove("/store/mqctl/queues")
				}
				if err := vfs.WriteFile(mem, "/store/abort", []byte("1")); err != nil {
					t.Fatal(err)
				}
				o.FS = mem
				s, rec := open(t, o)
				q := s.Queue(topic, 0)
				t.Logf("start %d: %d to %d, next %d; holes %v, %v", n, q.Min(), q.Max(), q.Next(), s.Holes(), rec.Notes)
				if q.Next() != 6 || q.Max() != 6 {
					t.Errorf("start %d: the queue ends at %d and goes on at %d", n, q.Max(), q.Next())
				}
				if n%2 == 1 {
					closeStore(t, s)
				}
			}
			s, _ = open(t, o)
			if got := put(t, s, topic, 0, "the next").QueueOffset; got != 6 {
				t.Errorf("the next message has the number %d", got)
			}
			closeStore(t, s)
		})
	}
}
