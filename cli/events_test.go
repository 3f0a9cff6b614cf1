package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"mqctl/broker/remoting"
)

// TestEventsInTrouble: a broker dies, another one loses its place at the
// nameserver only, and the nameserver talks nonsense for a while. Who follows
// hears of each once, and of nobody who has not gone that it has.
func TestEventsInTrouble(t *testing.T) {
	f := newFakeCluster(t)
	tables := func(b *fakeBroker) {
		b.more[remoting.ReqGetAllTopicConfig] = func(r *remoting.Request) { reply(r, map[string]any{"topicConfigTable": map[string]any{}}) }
		b.more[remoting.ReqGetAllSubscriptionGroupConfig] = func(r *remoting.Request) {
			reply(r, map[string]any{"subscriptionGroupTable": map[string]any{}})
		}
	}
	a, _ := f.add("127.0.0.1", "a", 0, 0, tables)
	b, stopB := f.add("127.0.0.1", "b", 0, 0, tables)
	right := f.ns.more[remoting.ReqGetBrokerClusterInfo]
	answer := func(how func(r *remoting.Request)) func() {
		return func() { f.ns.set(func() { f.ns.more[remoting.ReqGetBrokerClusterInfo] = how }) }
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	f.afterLooks(8,
		stopB,                       // killed, and still registered
		func() { f.hide(b.addr) },   // the nameserver notices
		func() { f.hide(a.addr) },   // the nameserver forgot one that lives
		func() { f.unhide(a.addr) }, // and has it again
		answer(func(r *remoting.Request) { r.Reply(remoting.CodeSuccess, "", nil, []byte("junk")) }),
		answer(right),
		func() { a.set(func() { a.config["brokerPermission"] = "4" }) },
		func() { cancel(&Interrupted{Code: ExitInterrupted}) },
	)
	var stdout, stderr bytes.Buffer
	code := Run(ctx, []string{"mqctl", "-n", f.ns.addr, "events", "--follow", "--every", "50ms", "--retries", "0", "-o", "jsonl"},
		Stdio{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Env: func(string) string { return "" }})
	out, errs := stdout.String(), stderr.String()
	if code != ExitOK {
		t.Errorf("exit %d, want %d", code, ExitOK)
	}
	for line := range strings.Lines(out) {
		if err := validLine([]byte(line)); err != nil {
			t.Error(err)
		}
	}
	has(t, out, `"target":"b/0"`, `"after":"gone"`, `"target":"brokerPermission","before":"6","after":"4"`)
	if strings.Contains(out, `"target":"a/0"`) {
		t.Errorf("a/0 has never gone:\n%s", out)
	}
	for text, n := range map[string]int{"BROKER_UNREACHABLE": 1, "BAD_PROTOCOL": 1, "the nameserver answers again": 1, "b/0 answers again": 0} {
		if strings.Count(errs, text) != n {
			t.Errorf("%q is there %d times, want %d:\n%s", text, strings.Count(errs, text), n, errs)
		}
	}
	// Once, without --follow: what answers, and exit 6 for what does not.
	f.unhide(b.addr)
	code, out, errs = runLine("mqctl", "-n", f.ns.addr, "events", "-o", "json")
	if code != ExitPartial {
		t.Errorf("exit %d, want %d\n%s", code, ExitPartial, errs)
	}
	has(t, out, `"complete": false`, "BROKER_UNREACHABLE")
}
