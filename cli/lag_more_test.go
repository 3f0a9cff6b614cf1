package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

// lagWorld is a pair of brokers of ours: the group g has a backlog in two topics and
// reads one of them from the slave. in and out are messages a second.
func lagWorld(t *testing.T, in, out float64) *fakeCluster {
	f := newFakeCluster(t)
	pulls := func(id int64, rows ...body.InspectPullRow) func(r *remoting.Request) {
		return func(r *remoting.Request) {
			reply(r, body.InspectPull{Broker: "b", BrokerID: id, Rows: rows})
		}
	}
	f.add("127.0.0.1", "b", 0, 100, func(b *fakeBroker) {
		b.more[remoting.ReqMqctlInspect] = pulls(0, body.InspectPullRow{Group: "g", Topic: "orders", LastPullAt: 10}, body.InspectPullRow{Group: "g", Topic: "audit", LastPullAt: 5})
		b.more[remoting.ReqGetConsumeStats] = func(r *remoting.Request) {
			r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"consumeTps":`+plain(out)+`,"offsetTable":{`+
				`{"brokerName":"b","queueId":0,"topic":"orders"}:{"brokerOffset":100,"consumerOffset":40,"pullOffset":50,"lastTimestamp":1000},`+
				`{"brokerName":"b","queueId":1,"topic":"orders"}:{"brokerOffset":30,"consumerOffset":30,"pullOffset":30,"lastTimestamp":2000},`+
				`{"brokerName":"b","queueId":0,"topic":"audit"}:{"brokerOffset":60,"consumerOffset":20,"pullOffset":20,"lastTimestamp":500}}}`))
		}
		b.more[remoting.ReqGetConsumerConnectionList] = func(r *remoting.Request) {
			reply(r, map[string]any{"connectionSet": []map[string]any{{"clientId": "c1"}, {"clientId": "c2"}}, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"})
		}
		b.more[remoting.ReqViewBrokerStatsData] = func(r *remoting.Request) {
			reply(r, map[string]any{"statsMinute": map[string]any{"tps": in / 2}}) // of each of two topics
		}
		b.more[remoting.ReqGetConsumerRunningInfo] = func(r *remoting.Request) {
			topic := map[string]string{"c1": "orders", "c2": "audit"}[r.Ext.Map()["clientId"]]
			r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"mqTable":{{"brokerName":"b","queueId":0,"topic":"`+topic+`"}:{}}}`))
		}
	})
	f.add("127.0.0.1", "b", 1, 100, func(b *fakeBroker) {
		b.more[remoting.ReqMqctlInspect] = pulls(1, body.InspectPullRow{Group: "g", Topic: "audit", LastPullAt: 9}, body.InspectPullRow{Group: "other", Topic: "orders", LastPullAt: 99})
	})
	return f
}

// TestLagBy: a backlog by queue, with the replica that is read, by topic and by member.
func TestLagBy(t *testing.T) {
	f := lagWorld(t, 10, 30)
	for _, c := range []struct{ flags, want string }{
		{"--fields topic,queueId,lag,inflight,readsFromBrokerId", "topic,queueId,lag,inflight,readsFromBrokerId\naudit,0,40,0,1\norders,0,60,10,0\norders,1,0,0,0\n"},
		{"--by queue --fields topic,lag", "topic,lag\naudit,40\norders,60\norders,0\n"},
		{"--by topic --fields topic,clientId,queues,lag,inflight", "topic,clientId,queues,lag,inflight\naudit,,1,40,0\norders,,2,60,10\n"},
		{"--by client --fields topic,clientId,queues,lag --sort lag", "topic,clientId,queues,lag\n,,1,0\n,c2,1,40\n,c1,1,60\n"},
		{"--by topic --filter lag>50 --fields topic", "topic\norders\n"},
	} {
		code, out, errs := runLine(append([]string{"mqctl", "-n", f.ns.addr, "group", "lag", "g", "-o", "csv"}, strings.Fields(c.flags)...)...)
		if code != ExitOK || out != c.want || errs != "" {
			t.Errorf("%s: exit %d, %q, %q", c.flags, code, out, errs)
		}
	}
	for _, line := range []string{"group lag g --by topic -o json", "group lag g --by client -o json", "group lag g -o json"} {
		if code, out, errs := runLine(append([]string{"mqctl", "-n", f.ns.addr}, strings.Fields(line)...)...); code != ExitOK || valid([]byte(out)) != nil {
			t.Errorf("%s: exit %d, %v %s", line, code, valid([]byte(out)), errs)
		}
	}
	if code, out, _ := runLine("mqctl", "group", "lag", "g", "--by", "topic", "--schema"); code != ExitOK || out != string(schemaOf(lagSumSchema)) {
		t.Errorf("--schema of the other form: exit %d", code)
	}
	if code, _, errs := runLine("mqctl", "-n", f.ns.addr, "group", "lag", "g", "--by", "topic", "--sort", "queueId"); code != ExitUsage || !strings.Contains(errs, "UNKNOWN_FIELD") {
		t.Errorf("a field of the other form: exit %d, %s", code, errs)
	}
}

// TestLagPace: people are told since when messages wait, and when a backlog is gone.
func TestLagPace(t *testing.T) {
	for _, c := range []struct {
		in, out float64
		foot    string
		millis  *int64
	}{
		{10, 30, "\nabout 5 s to catch up at the present rates (in 10/s, out 30/s)\n", ptr(int64(5000))},
		{30, 30, "\nnot catching up at the present rates (in 30/s, out 30/s)\n", nil},
		{0, 0, "", nil},
	} {
		f := lagWorld(t, c.in, c.out)
		var out, errs bytes.Buffer
		cmd := commands().byPath["group lag"]
		call := &call{cmd: cmd, io: Stdio{Out: &out, Err: &errs, Env: func(string) string { return "" }}, args: []string{"g"}, values: map[string][]string{"namesrv": {f.ns.addr}}, vocab: vocabularyOf(cmd, false)}
		p, err := newPrinter(call)
		if err != nil {
			t.Fatal(err)
		}
		call.p = p
		r, err := runLag(context.Background(), call)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.totals.(lagTotals).CatchUpMillis; (got == nil) != (c.millis == nil) || got != nil && *got != *c.millis {
			t.Errorf("in %v, out %v: %v ms", c.in, c.out, deref(got))
		}
		p.style.terminal, p.style.units = true, "auto"
		footLag(p, r)
		if out.String() != c.foot {
			t.Errorf("in %v, out %v: %q", c.in, c.out, out.String())
		}
		out.Reset()
		headLag(p, r)
		if text := out.String(); !strings.HasPrefix(text, "g · CLUSTERING · PUSH · 2 members · ") || !strings.Contains(text, " · lag 100 · oldest unread ") {
			t.Errorf("head %q", text)
		}
		call.client.Close()
	}
}
