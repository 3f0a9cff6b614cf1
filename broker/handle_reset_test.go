package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"mqctl/broker/remoting"
	"mqctl/subgroup"
)

// sixMessages makes topic T with three messages in each of two queues, and group g.
func (r *rig) sixMessages() {
	r.t.Helper()
	r.createTopic("T", 2)
	if _, err := r.b.groups.Put(subgroup.Defaults("g")); err != nil {
		r.t.Fatal(err)
	}
	for i := range 6 {
		r.mustSend("T", i%2, fmt.Sprint(i))
	}
	synctest.Wait()
}

// TestReset moves a group by 222 and follows it through commits and pulls.
func TestReset(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.sixMessages()
		shared := 0
		r.b.shareProgress = func(context.Context) { shared++ }
		at := func(queue, offset, timestamp, force string) map[string]string {
			return map[string]string{"topic": "T", "group": "g", "queueId": queue, "offset": offset, "timestamp": timestamp, "isForce": force}
		}
		commit := func(queue int, offset string) string {
			resp := r.call(15, map[string]string{"consumerGroup": "g", "topic": "T", "queueId": fmt.Sprint(queue), "commitOffset": offset}, nil)
			if resp.Code != 0 {
				t.Fatalf("commit: %d %s", resp.Code, resp.Remark)
			}
			return resp.Remark
		}
		commit(0, "3")
		commit(1, "3")

		r.wants(r.call(222, at("-1", "-1", "0", "true"), nil), 0, "")
		resp := r.call(222, at("-1", "-1", "-1", "true"), nil)
		if got, want := string(resp.Body), `{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:3,{"brokerName":"broker-a","queueId":1,"topic":"T"}:3}}`; got != want {
			t.Errorf("to the end: %s", got)
		}
		resp = r.call(222, at("1", "1", "-1", "true"), nil)
		if got, want := string(resp.Body), `{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:1}}`; got != want {
			t.Errorf("one queue: %s", got)
		}
		if shared != 3 {
			t.Errorf("shared %d times before the answers", shared)
		}
		if got := commit(1, "3"); got != "Offset has been previously reset" {
			t.Errorf("a commit from before the reset: %q", got)
		}
		if off, _ := r.b.offsets.Query([]byte("g"), []byte("T"), 1); off != 1 {
			t.Errorf("progress %d, want the target 1", off)
		}
		for _, c := range []struct {
			why  string
			ext  map[string]string
			want int
		}{
			{"beyond the end", at("0", "5", "-1", "true"), 1},
			{"no such queue", at("2", "0", "-1", "true"), 1},
			{"no such topic", map[string]string{"topic": "N", "group": "g", "timestamp": "0", "isForce": "true"}, 17},
			{"no such group", map[string]string{"topic": "T", "group": "n", "timestamp": "0", "isForce": "true"}, 26},
			{"no topic at all", map[string]string{"group": "n", "timestamp": "0"}, 1},
		} {
			if resp := r.call(222, c.ext, nil); resp.Code != c.want {
				t.Errorf("%s: %d %q, want %d", c.why, resp.Code, resp.Remark, c.want)
			}
		}
		r.b.stand.p.Store(&standing{Role: Slave, ID: 1, Master: "10.0.0.1:10911", MasterAlive: true})
		r.wants(r.call(222, at("0", "0", "-1", "true"), nil), 1, "Can not reset offset on a slave while its master lives; ask 10.0.0.1:10911")
		r.b.stand.p.Store(&standing{Role: Slave, ID: 1, Master: "10.0.0.1:10911"})
		r.wants(r.call(222, at("0", "0", "-1", "true"), nil), 0, "")
	})
}

// TestResetByMembers: with useServerSideResetOffset=false nothing is stored; the members
// are told where to go on, and commit that.
func TestResetByMembers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, func(o *Options) { o.Reloadable.ClientReset = true })
		r.sixMessages()
		told := make(chan string, 10)
		member := remoting.NewClient(remoting.ClientOptions{Dial: r.net.dial, Serialize: remoting.JSON, OnRequest: func(_ string, q *remoting.Request) {
			if q.Code == remoting.ReqResetConsumerClientOffset {
				m := q.Ext.Map()
				told <- fmt.Sprintf("%s %s %s %s %s %s", m["topic"], m["group"], m["timestamp"], m["isForce"], m["queueId"], q.Body)
			}
		}})
		defer member.Close()
		commit := func(queue int, offset string) {
			t.Helper()
			r.wants(r.callOn(member, r.b.Addr(), 15, map[string]string{"consumerGroup": "g", "topic": "T", "queueId": fmt.Sprint(queue), "commitOffset": offset}, nil), 0, "")
		}
		at := func(queue, offset, timestamp, force string) map[string]string {
			return map[string]string{"topic": "T", "group": "g", "queueId": queue, "offset": offset, "timestamp": timestamp, "isForce": force}
		}
		body := func(q0, q1 int) string {
			return fmt.Sprintf(`{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:%d,{"brokerName":"broker-a","queueId":1,"topic":"T"}:%d}}`, q0, q1)
		}
		hears := func(ext map[string]string, want string) {
			t.Helper()
			resp := r.call(222, ext, nil)
			r.wants(resp, 0, notSet)
			synctest.Wait()
			if want = "T g " + ext["timestamp"] + " false -1 " + want; string(resp.Body) == "" || len(told) != 1 {
				t.Fatalf("%d told; %s", len(told), resp.Body)
			} else if got := <-told; got != want || !strings.HasSuffix(want, string(resp.Body)) {
				t.Errorf("told  %s\nwant  %s\nreply %s", got, want, resp.Body)
			}
		}
		r.wants(r.call(222, at("-1", "-1", "0", "true"), nil), 1, "The consumer group <g> not exist")
		commit(0, "3")
		commit(1, "2")
		r.wants(r.call(222, at("-1", "-1", "0", "true"), nil), remoting.CodeConsumerNotOnline,
			"Consumer not online, so can not reset offset, Group: g Topic: T Timestamp: 0")
		r.heartbeat(member, "c1", "g", "CLUSTERING", testSub{topic: "T", expression: "*", version: 1})
		hears(at("-1", "-1", "0", "true"), body(0, 0))
		hears(at("-1", "-1", "-1", "false"), body(3, 2)) // nobody goes forward without force
		hears(at("-1", "-1", "-1", "true"), body(3, 3))
		hears(at("1", "1", "0", "true"), `{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:1}}`)
		if off, _ := r.b.offsets.Query([]byte("g"), []byte("T"), 0); off != 3 {
			t.Errorf("progress %d before the member committed", off)
		}
		commit(0, "1") // as the member does that was told
		if off, _ := r.b.offsets.Query([]byte("g"), []byte("T"), 0); off != 1 {
			t.Errorf("progress %d after it", off)
		}
		r.wants(r.call(222, at("0", "9", "-1", "true"), nil), 1, "Target offset 9 of queue 0 is not within 0 and 4")
		if n := len(told); n != 0 {
			t.Errorf("a refused reset was told %d times", n)
		}
		change := r.b.live.Load().Reloadable
		change.ClientReset = false
		r.b.live.Store(newLive(change, "DefaultCluster"))
		r.wants(r.call(222, at("-1", "-1", "0", "true"), nil), 0, "")
		if off, _ := r.b.offsets.Query([]byte("g"), []byte("T"), 0); off != 0 || len(told) != 0 {
			t.Errorf("at the broker: progress %d, %d told", off, len(told))
		}
	})
}
