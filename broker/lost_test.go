package broker

import (
	"testing"
	"time"

	"mqctl/replication"
	"mqctl/store/record"
)

// TestLostSlaves: a slave whose connection has gone is told of for a while, one
// that came back is not.
func TestLostSlaves(t *testing.T) {
	var l lostSlaves
	at := time.Unix(1000, 0)
	conn := func(id int64, acked record.PhysOffset) replication.SlaveConn {
		return replication.SlaveConn{Peer: replication.Peer{ID: id, Addr: "10.0.0.1:1"}, Known: true, Acked: acked}
	}
	ids := func() (out []int64) {
		for _, s := range l.list() {
			out = append(out, s.id)
		}
		return out
	}
	steps := []struct {
		after time.Duration
		conns []replication.SlaveConn
		want  []int64
	}{
		{0, nil, nil},
		{time.Second, []replication.SlaveConn{conn(1, 10), conn(2, 20), {Known: false, Peer: replication.Peer{ID: -1}}}, nil},
		{time.Second, []replication.SlaveConn{conn(1, 11)}, []int64{2}},
		{time.Second, nil, []int64{1, 2}},
		{time.Second, []replication.SlaveConn{conn(2, 30)}, []int64{1}},
		{lostKeep + time.Second, []replication.SlaveConn{conn(2, 30)}, nil},
	}
	for i, s := range steps {
		at = at.Add(s.after)
		l.note(at, s.conns)
		got := ids()
		if len(got) != len(s.want) {
			t.Fatalf("step %d: %v, want %v", i, got, s.want)
		}
		for j := range got {
			if got[j] != s.want[j] {
				t.Fatalf("step %d: %v, want %v", i, got, s.want)
			}
		}
	}
	l.note(at, nil)
	if got := l.list(); len(got) != 1 || got[0].acked != 30 || !got[0].since.Equal(at) {
		t.Errorf("%+v", got)
	}
	if l.forget(); len(l.list()) != 0 {
		t.Error("not forgotten")
	}
}
