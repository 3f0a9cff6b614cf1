package broker

import (
	"strings"
	"testing"

	"mqctl/store/record"
)

// A client batch to a topic with queue.type=BatchCQ is one record, as RocketMQ stores
// it: its body stays, offsets count the messages in it, and the answer has one id.
func TestSendInnerBatch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.wants(r.createTopic("Bundles", 2, "attributes", "+queue.type=BatchCQ"), 0, "")
		body := batchBody([2]string{"one", props("UNIQ_KEY", "K1")}, [2]string{"two", ""}, [2]string{"three", ""})
		next := 0
		for i, c := range []struct {
			outer string
			body  []byte
			n     int
		}{
			{props("UNIQ_KEY", "OUTER0", "WAIT", "true"), body, 3},
			{"", nil, 1}, // a single message
			{props("UNIQ_KEY", "OUTER2"), body, 3},
		} {
			if c.body == nil {
				r.mustSend("Bundles", 1, "single")
				next++
				continue
			}
			resp := r.call(320, v2(sendExt("Bundles", 1, c.outer, "batch", "true")), c.body)
			r.wants(resp, 0, "")
			key := strings.TrimPrefix(resp.Ext["batchUniqId"], "OUTER")
			if key != string(rune('0'+i)) || strings.Contains(resp.Ext["msgId"], ",") || resp.Ext["queueOffset"] != string(rune('0'+next)) {
				t.Errorf("answer %d: %v", i, resp.Ext)
			}
			next += c.n
		}
		_, ms := r.pull("reader", "Bundles", 1, 0)
		if len(ms) != 3 {
			t.Fatalf("%d records", len(ms))
		}
		for i, want := range []int64{0, 3, 4} {
			m := ms[i]
			inner := m.sysFlag&(record.FlagInnerBatch|record.FlagUnwrap) != 0
			if m.offset != want || inner != (i != 1) {
				t.Errorf("record %d: %+v", i, m)
			}
			if inner && (m.body != string(body) || m.props["INNER_NUM"] != "3" || strings.TrimLeft(m.props["INNER_BASE"], "0") != strings.TrimLeft(string(rune('0'+want)), "0")) {
				t.Errorf("record %d: %+v", i, m)
			}
		}
		// From the middle of a batch the whole of it comes, and reading goes on behind.
		resp, ms := r.pull("reader", "Bundles", 1, 5)
		if len(ms) != 1 || ms[0].offset != 4 || resp.Ext["nextBeginOffset"] != "7" || resp.Ext["maxOffset"] != "7" {
			t.Errorf("%v %+v", resp.Ext, ms)
		}
		// A topic of the other kind gets one record for each, and nobody makes inner
		// batches himself.
		r.wants(r.call(320, v2(sendExt("Plain", 1, props("UNIQ_KEY", "P"), "batch", "true")), body), 0, "")
		if ms := r.all("Plain", 1); len(ms) != 3 {
			t.Errorf("%d records", len(ms))
		}
		if resp := r.send("Bundles", 1, "x", "INNER_NUM", "2"); resp.Code != 13 {
			t.Errorf("a message with INNER_NUM: %d %s", resp.Code, resp.Remark)
		}
		if resp := r.call(320, v2(sendExt("Bundles", 1, props("UNIQ_KEY", "B"), "batch", "true")), body[:len(body)-1]); resp.Code != 13 {
			t.Errorf("a damaged batch: %d %s", resp.Code, resp.Remark)
		}
	})
}
