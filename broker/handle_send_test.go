package broker

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
)

// batchBody encodes elements as clients do.
func batchBody(elements ...[2]string) []byte {
	var b []byte
	for _, e := range elements {
		body, props := e[0], e[1]
		at := len(b)
		b = append(b, make([]byte, 20)...)
		binary.BigEndian.PutUint32(b[at:], uint32(22+len(body)+len(props)))
		binary.BigEndian.PutUint32(b[at+16:], uint32(len(body)))
		b = append(b, body...)
		b = binary.BigEndian.AppendUint16(b, uint16(len(props)))
		b = append(b, props...)
	}
	return b
}

func TestSend(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		resp := r.mustSend("Orders", 2, "hello", "KEYS", "k1", "TAGS", "TagA", "UNIQ_KEY", "ABC", "WAIT", "true")
		want := map[string]string{"queueId": "2", "queueOffset": "0", "transactionId": "ABC", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
			"msgId": "7F00000100002A9F0000000000000000"}
		for k, v := range want {
			if resp.Ext[k] != v {
				t.Errorf("%s = %q, want %q", k, resp.Ext[k], v)
			}
		}
		if len(resp.Ext) != len(want) {
			t.Errorf("answer has %v", resp.Ext)
		}
		ms := r.all("Orders", 2)
		if len(ms) != 1 || ms[0].body != "hello" || ms[0].queue != 2 || ms[0].flag != 0 {
			t.Fatalf("stored %+v", ms)
		}
		wantText := props("KEYS", "k1", "TAGS", "TagA", "UNIQ_KEY", "ABC", "WAIT", "true", "MSG_REGION", "DefaultRegion", "TRACE_ON", "true", "CLUSTER", "DefaultCluster")
		if ms[0].text != wantText {
			t.Errorf("stored properties %q, want %q", ms[0].text, wantText)
		}
		// Created from TBW102: the client's 4 queues, no inherit bit.
		if c := r.b.topics.Get("Orders"); c == nil || c.WriteQueueNums != 4 || c.ReadQueueNums != 4 || c.Perm != 6 {
			t.Errorf("created topic %+v", c)
		}
	})
}

func TestSendGeneratesUniqueKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		one := r.mustSend("T", 0, "a", "POP_CK", "1 2 3", "__CRC32#", "77", "MSG_REGION", "other", "k", "v")
		two := r.mustSend("T", 0, "b")
		ms := r.all("T", 0)
		if len(ms) != 2 || ms[0].props["UNIQ_KEY"] != one.Ext["transactionId"] || len(one.Ext["transactionId"]) != 32 {
			t.Fatalf("answer %v, stored %+v", one.Ext, ms)
		}
		if one.Ext["transactionId"] == two.Ext["transactionId"] {
			t.Error("two messages got one unique key")
		}
		for _, gone := range []string{"POP_CK", "__CRC32#"} {
			if _, ok := ms[0].props[gone]; ok {
				t.Errorf("%s was stored", gone)
			}
		}
		if ms[0].props["MSG_REGION"] != "DefaultRegion" || ms[0].props["k"] != "v" {
			t.Errorf("stored %v", ms[0].props)
		}
	})
}

// TestSendChecks is every refusal of a send with its code and remark.
func TestSendChecks(t *testing.T) {
	long := strings.Repeat("T", 128)
	cases := []struct {
		name   string
		code   int // request code; 0 = 10
		ext    map[string]string
		body   []byte
		change func(*Options)
		want   int
		remark string
	}{
		{name: "missing fields", ext: map[string]string{"topic": "Plain"}, want: 1},
		{name: "not a number", ext: sendExt("Plain", 0, "", "queueId", "abc"), want: 1},
		{name: "illegal characters", ext: sendExt("Bad Topic!", 0, ""), want: 29, remark: "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"},
		{name: "blank", ext: sendExt("", 0, ""), want: 29, remark: "The specified topic is blank."},
		{name: "too long", ext: sendExt(long, 0, ""), want: 29, remark: "The specified topic is longer than topic max length."},
		{name: "dead letter name over 127 bytes", ext: sendExt("%DLQ%"+long, 0, ""), want: 13},
		{name: "schedule topic", ext: sendExt("SCHEDULE_TOPIC_XXXX", 0, ""), want: 16, remark: "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."},
		{name: "half topic", ext: sendExt("RMQ_SYS_TRANS_HALF_TOPIC", 0, ""), want: 16, remark: "Sending message to topic[RMQ_SYS_TRANS_HALF_TOPIC] is forbidden."},
		{name: "no template", ext: sendExt("Nope", 0, "", "defaultTopic", "NoTemplate"), want: 17,
			remark: "topic[Nope] not exist, apply first please!\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."},
		{name: "template that may not be inherited", ext: sendExt("Nope", 0, "", "defaultTopic", "Plain"), want: 17},
		{name: "auto-create off", ext: sendExt("Nope", 0, ""), change: func(o *Options) { o.Reloadable.AutoCreateTopic = false }, want: 17},
		{name: "queue beyond", ext: sendExt("Plain", 9, ""), want: 29,
			remark: "request queueId[9] is illegal, TopicConfig [topicName=Plain, readQueueNums=4, writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={}] Producer: "},
		{name: "read-only topic", ext: sendExt("ReadOnly", 0, ""), want: 16, remark: "the topic[ReadOnly] sending message is forbidden"},
		{name: "no write queue", ext: sendExt("NoWrite", -1, ""), want: 16},
		{name: "queue only readable", ext: sendExt("NoWrite", 3, ""), want: 0},
		{name: "read-only broker, ordered topic", ext: sendExt("Ordered", 0, ""), change: func(o *Options) { o.Reloadable.Permission = 4 }, want: 16,
			remark: "the broker[127.0.0.1] sending message is forbidden"},
		{name: "read-only broker, plain topic", ext: sendExt("Plain", 0, ""), change: func(o *Options) { o.Reloadable.Permission = 4 }, want: 0},
		{name: "not accepting yet", ext: sendExt("Plain", 0, ""), change: func(o *Options) { o.Reloadable.StartAccept = 1 << 50 }, want: 1, remark: "broker unable to service, until"},
		{name: "transaction", ext: sendExt("Plain", 0, props("TRAN_MSG", "true"), "sysFlag", "4"), want: 16, remark: "transactional messages are not supported yet"},
		{name: "transaction by flag only", ext: sendExt("Plain", 0, "", "sysFlag", "4"), want: 16},
		{name: "rejectTransactionMessage", ext: sendExt("Plain", 0, props("TRAN_MSG", "true")), change: func(o *Options) { o.Reloadable.RejectTransaction = true }, want: 16},
		{name: "retry of a once transactional message", ext: sendExt("Plain", 0, props("TRAN_MSG", "true", "DELAY", "3"), "reconsumeTimes", "1"), want: 0},
		{name: "timer in seconds", ext: sendExt("Plain", 0, props("TIMER_DELAY_SEC", "3")), want: 1, remark: "timer messages are not supported yet"},
		{name: "timer in milliseconds", ext: sendExt("Plain", 0, props("TIMER_DELAY_MS", "3")), want: 1},
		{name: "timer at", ext: sendExt("Plain", 0, props("TIMER_DELIVER_MS", "3")), want: 1},
		{name: "timer deletion", ext: sendExt("Plain", 0, props("TIMER_DEL_UNIQKEY", "x")), want: 1},
		{name: "delay wins over timer", ext: sendExt("Plain", 0, props("TIMER_DELAY_SEC", "3", "DELAY", "1")), want: 0},
		{name: "timer that fired", ext: sendExt("Plain", 0, props("TIMER_DELAY_SEC", "3", "TIMER_OUT_MS", "1")), want: 0},
		{name: "delay is no number", ext: sendExt("Plain", 0, props("DELAY", "soon")), want: 13},
		{name: "inner batch property", ext: sendExt("Plain", 0, props("INNER_NUM", "3")), want: 13},
		{name: "inner batch flag", ext: sendExt("Plain", 0, "", "sysFlag", "128"), want: 13},
		{name: "compaction topic without key", ext: sendExt("Compact", 0, ""), want: 13},
		{name: "compaction topic with key", ext: sendExt("Compact", 0, props("KEYS", "a")), want: 0},
		{name: "body too large", ext: sendExt("Plain", 0, ""), body: make([]byte, 20_000), change: func(o *Options) { o.Reloadable.MaxMessage = 16384 }, want: 13,
			remark: "the message is illegal, maybe msg body or properties length not matched. msg body length limit 16384B, msg properties length limit 32KB."},
		{name: "properties too large", ext: sendExt("Plain", 0, props("k", strings.Repeat("v", 32768))), want: 13},
		{name: "empty body", ext: sendExt("Plain", 0, ""), body: []byte{}, want: 0},
		{name: "retry topic of a group that cannot be", ext: sendExt("%RETRY%NoGroup", 0, ""), change: func(o *Options) { o.Reloadable.AutoCreateGroup = false }, want: 26,
			remark: "subscription group not exist, NoGroup"},
		{name: "retry topic of a new group", ext: sendExt("%RETRY%NewGroup", 0, "", "defaultTopic", "NoTemplate"), want: 0},
		{name: "batch to a retry topic", code: 320, ext: v2(sendExt("%RETRY%g", 0, "", "batch", "true")), body: batchBody([2]string{"a", ""}), want: 13},
		{name: "batch, transactional", code: 320, ext: v2(sendExt("Plain", 0, "", "batch", "true", "sysFlag", "4")), body: batchBody([2]string{"a", ""}), want: 13},
		{name: "batch, delayed", code: 320, ext: v2(sendExt("Plain", 0, props("DELAY", "3"), "batch", "true")), body: batchBody([2]string{"a", ""}), want: 13},
		{name: "batch with a delayed element", code: 320, ext: v2(sendExt("Plain", 0, "", "batch", "true")), body: batchBody([2]string{"a", props("DELAY", "3")}), want: 13},
		{name: "batch, damaged", code: 320, ext: v2(sendExt("Plain", 0, "", "batch", "true")), body: batchBody([2]string{"abc", ""})[:24], want: 13},
		{name: "batch, empty", code: 320, ext: v2(sendExt("Plain", 0, "", "batch", "true")), body: nil, want: 13},
		{name: "batch of long names", code: 10, ext: sendExt("Plain", 0, "", "batch", "true"), body: batchBody([2]string{"a", ""}), want: 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var changes []func(*Options)
				if c.change != nil {
					changes = append(changes, c.change)
				}
				r := start(t, nil, changes...)
				testTopics(t, r)
				if c.code == 0 {
					c.code = 10
				}
				body := c.body
				if body == nil && c.code == 10 {
					body = []byte("body")
				}
				resp := r.call(c.code, c.ext, body)
				r.wants(resp, c.want, c.remark)
				if resp.Ext["MSG_REGION"] != "DefaultRegion" || resp.Ext["TRACE_ON"] != "true" {
					t.Errorf("answer without MSG_REGION and TRACE_ON: %v", resp.Ext)
				}
				if _, ok := resp.Ext["msgId"]; ok != (c.want == 0) {
					t.Errorf("answer %d has %v", resp.Code, resp.Ext)
				}
			})
		})
	}
}

// testTopics makes the topics of the check tables.
func testTopics(t *testing.T, r *rig) {
	t.Helper()
	for _, c := range []topic.Config{
		{TopicName: "Plain", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6},
		{TopicName: "ReadOnly", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 4},
		{TopicName: "WriteOnly", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 2},
		{TopicName: "NoWrite", ReadQueueNums: 4, WriteQueueNums: 0, Perm: 6},
		{TopicName: "Ordered", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6, Order: true},
		{TopicName: "Compact", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6, Attributes: map[string]string{"cleanup.policy": "COMPACTION"}},
	} {
		if c.TopicFilterType == "" {
			c.TopicFilterType = "SINGLE_TAG"
		}
		if _, err := r.b.topics.Ensure(c); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSendBatch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.mustSend("B", 1, "first")
		body := batchBody([2]string{"one", props("UNIQ_KEY", "K1", "TAGS", "a")}, [2]string{"two", props("TAGS", "b")}, [2]string{"three", "TAGS\x01c"})
		resp := r.call(320, v2(sendExt("B", 1, props("UNIQ_KEY", "OUTER", "WAIT", "true"), "batch", "true")), body)
		r.wants(resp, 0, "")
		ids := strings.Split(resp.Ext["msgId"], ",")
		if len(ids) != 3 || resp.Ext["queueOffset"] != "1" || resp.Ext["queueId"] != "1" || resp.Ext["transactionId"] != "OUTER" {
			t.Errorf("answer %v", resp.Ext)
		}
		if _, ok := resp.Ext["batchUniqId"]; ok {
			t.Error("batchUniqId is for inner batches only")
		}
		ms := r.all("B", 1)
		if len(ms) != 4 {
			t.Fatalf("stored %d messages", len(ms))
		}
		for i, want := range []string{"K1", "OUTER", "OUTER"} {
			m := ms[i+1]
			if m.props["UNIQ_KEY"] != want || m.props["CLUSTER"] != "DefaultCluster" || m.props["MSG_REGION"] != "DefaultRegion" ||
				m.props["TRACE_ON"] != "true" || m.props["WAIT"] != "true" || m.offset != int64(i+1) {
				t.Errorf("element %d: %+v", i, m)
			}
			if id := fmt.Sprintf("7F00000100002A9F%016X", m.phys); ids[i] != id {
				t.Errorf("id %d = %s, want %s", i, ids[i], id)
			}
		}
		// A Go batch has no outer properties: no key is made up, no transactionId.
		resp = r.call(320, v2(sendExt("B", 2, "", "batch", "true")), batchBody([2]string{"x", ""}))
		if _, ok := resp.Ext["transactionId"]; ok || resp.Code != 0 {
			t.Errorf("answer %d %v", resp.Code, resp.Ext)
		}
		if ms := r.all("B", 2); len(ms) != 1 || ms[0].props["UNIQ_KEY"] != "" {
			t.Errorf("stored %+v", ms)
		}
	})
}

func TestSendPicksQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		seen := map[string]bool{}
		for range 64 {
			seen[r.mustSend("T", -1, "x").Ext["queueId"]] = true
		}
		if len(seen) < 2 || len(seen) > 4 {
			t.Errorf("queues chosen: %v", seen)
		}
		for q := range seen {
			if q < "0" || q > "3" {
				t.Errorf("queue %s", q)
			}
		}
	})
}

func TestSendOneWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.mustSend("T", 0, "x")
		if err := r.client.OneWay(t.Context(), mainAddr, 310, remoting.Map(v2(sendExt("T", 0, ""))), []byte("quiet")); err != nil {
			t.Fatal(err)
		}
		r.mustSend("T", 0, "y")
		if ms := r.all("T", 0); len(ms) != 3 || ms[1].body != "quiet" {
			t.Errorf("stored %+v", ms)
		}
	})
}
