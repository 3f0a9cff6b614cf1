package broker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"mqctl/subgroup"
)

// TestReset moves a group by 222 and follows it through commits and pulls.
func TestReset(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.createTopic("T", 2)
		if _, err := r.b.groups.Put(subgroup.Defaults("g")); err != nil {
			t.Fatal(err)
		}
		for i := range 6 {
			r.mustSend("T", i%2, fmt.Sprint(i))
		}
		synctest.Wait()
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
