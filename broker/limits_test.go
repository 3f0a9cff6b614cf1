package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/subgroup"
)

// TestCommitQueueIDs: progress of a queue that no topic can have is refused, and
// nothing is remembered of it.
func TestCommitQueueIDs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.mustSend("T", 0, "x")
		r.wants(r.call(11, pullExt("g", "T", 0, 0), nil), 0, "")
		for _, tt := range []struct {
			queue string
			code  int
		}{{"0", 0}, {"65535", 0}, {"65536", 29}, {"-1", 29}, {"2147483647", 29}, {"-2147483648", 29}, {"2147483648", 29}, {"x", 29}, {"", 29}} {
			ext := map[string]string{"consumerGroup": "g", "topic": "T", "queueId": tt.queue, "commitOffset": "7"}
			if resp := r.call(15, ext, nil); resp.Code != tt.code || (resp.Remark == "") != (tt.code == 0) {
				t.Errorf("queue %q: %d %q, want %d", tt.queue, resp.Code, resp.Remark, tt.code)
			}
		}
		if got := r.b.offsets.Queues("g", "T"); len(got) != 2 {
			t.Errorf("progress of %v", got)
		}
	})
}

// TestHeartbeatLimits: a client cannot make more groups than it could be in, nor fill
// the memory with what it says of itself.
func TestHeartbeatLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		type entry struct {
			GroupName string `json:"groupName"`
		}
		for _, field := range []string{"consumerDataSet", "producerDataSet"} {
			var list []entry
			for i := range subgroup.MaxGroupsPerPeer + 1 {
				list = append(list, entry{fmt.Sprint("many", i)})
			}
			text, err := json.Marshal(map[string]any{"clientID": "c", field: list})
			if err != nil {
				t.Fatal(err)
			}
			r.wants(r.call(34, nil, text), remoting.CodeInvalidParameter, "the heartbeat names 4097 groups")
		}
		long := strings.Repeat("c", maxClientID+1)
		r.wants(r.call(34, nil, []byte(`{"clientID":"`+long+`","producerDataSet":[{"groupName":"p"}]}`)), remoting.CodeInvalidParameter, "the clientID has 1025 bytes")
		long = strings.Repeat(" ", maxHeartbeat)
		r.wants(r.call(34, nil, []byte(`{"clientID":"c","producerDataSet":[{"groupName":"p"}]}`+long)), remoting.CodeInvalidParameter, "the heartbeat has ")
		if r.b.groups.Get("many0") != nil || len(r.b.members.AllProducers()) != 0 {
			t.Error("a refused heartbeat left something")
		}
	})
}

// TestCommitAfterMove: right after a start or a change of role, clients may commit
// before their first heartbeat, so a lower commit of a stranger is no intent to go
// back; later it is.
func TestCommitAfterMove(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.mustSend("T", 0, "x")
		if _, err := r.b.groups.Put(subgroup.Defaults("g")); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the queue must be as long as the commits say
			for range 60 {
				r.mustSend("T", 0, "x")
			}
		}
		commit := func(offset, want int64) {
			t.Helper()
			c := r.newClient(remoting.JSON)
			defer c.Close()
			ext := map[string]string{"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": strconv.FormatInt(offset, 10)}
			r.wants(r.callOn(c, r.b.Addr(), 15, ext, nil), 0, "")
			if got, _ := r.b.offsets.Query([]byte("g"), []byte("T"), 0); got != want {
				t.Errorf("after a commit of %d: %d, want %d", offset, got, want)
			}
		}
		commit(100, 100)
		commit(50, 100)
		<-time.After(41 * time.Second)
		commit(50, 50)
		if err := r.b.setStanding(context.Background(), func(s *standing) { s.Role = SyncMaster }); err != nil {
			t.Fatal(err)
		}
		commit(20, 50)
		<-time.After(41 * time.Second)
		commit(20, 20)
	})
}
