package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/cli/admin"
)

// startHere runs "broker start" inside the test and returns its ready line.
func startHere(t testing.TB) readyItem {
	t.Helper()
	dir := t.TempDir()
	port, err := freePorts()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := freePorts()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	done := make(chan int, 1)
	go func() { // ends with stop
		var errs strings.Builder
		code := Run(ctx, []string{"mqctl", "broker", "start", "--name", "broker-a", "--listen", fmt.Sprintf("127.0.0.1:%d", port),
			fmt.Sprintf("--with-nameserver=127.0.0.1:%d", ns), "--http", "off", "--store", dir, "--output", "json", "--set", "log.level=error"},
			Stdio{In: strings.NewReader(""), Out: w, Err: &errs, Env: func(k string) string {
				return map[string]string{"HOME": dir, "XDG_STATE_HOME": dir}[k]
			}})
		if code != ExitOK {
			t.Errorf("broker start: exit %d\n%s", code, errs.String())
		}
		_ = w.Close()
		done <- code
	}()
	t.Cleanup(func() { stop(); <-done })
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		t.Fatalf("no ready line: %v", err)
	}
	if err := valid(line); err != nil {
		t.Fatal(err)
	}
	var it readyItem
	if err := json.Unmarshal(line, &it); err != nil {
		t.Fatal(err)
	}
	return it
}

// join connects a client that consumes (or produces) and stays until the end.
func join(t *testing.T, addr, group, model, id string) {
	t.Helper()
	c := remoting.NewClient(remoting.ClientOptions{})
	t.Cleanup(c.Close)
	body := fmt.Sprintf(`{"clientID":%q,"producerDataSet":[{"groupName":"orders_producer"}],"consumerDataSet":[{"groupName":%q,"consumeType":"CONSUME_PASSIVELY",
		"messageModel":%q,"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","unitMode":false,
		"subscriptionDataSet":[{"topic":"orders","subString":"*","subVersion":1,"tagsSet":[],"codeSet":[],"expressionType":"TAG","classFilterMode":false}]}]}`, id, group, model)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	resp, err := c.Call(ctx, addr, remoting.ReqHeartBeat, nil, []byte(body))
	if err != nil || resp.Code != 0 {
		t.Fatalf("heartbeat: %v %+v", err, resp)
	}
}

// TestOnline: backlog, members and offsets of groups that consume.
func TestOnline(t *testing.T) {
	ready := startHere(t)
	ns := ready.Namesrv[0]
	must := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := runLine(append([]string{"mqctl", "-n", ns}, args...)...)
		if code != want {
			t.Fatalf("%q: exit %d, want %d\n%s%s", args, code, want, out, errs)
		}
		return out
	}
	must(0, "topic", "create", "orders", "--write-queues", "2", "--read-queues", "2")
	must(0, "group", "create", "readers")
	must(0, "group", "set", "casters", "--broadcast")
	must(0, "message", "send", "orders", "--body", "x", "--count", "10")
	join(t, ready.Addr, "readers", "CLUSTERING", "10.0.1.21@7")
	join(t, ready.Addr, "casters", "BROADCASTING", "10.0.1.22@7")
	a := admin.New(admin.Options{Nameservers: []string{ns}})
	t.Cleanup(a.Close)
	if err := a.CommitOffset(context.Background(), ready.Addr, "readers", "orders", 0, 2); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		args string
		code int
		want []string
	}{
		{"group lag readers -o json", 0, []string{`"consumerOffset": 2`, `"lag": 8`, `"members": 1`, `"source": "MASTER"`}},
		{"group lag readers --topic orders --fail-above 7 -o json", 7, []string{`"lag": 8`}},
		{"group lag readers --fail-above 8 -o json", 0, nil},
		{"group lag readers --clients --timeout 300ms -o json", 0, []string{`"code": "CLIENT_SILENT"`}},
		{"group lag casters -o json", 0, []string{`"reason": "BROADCASTING"`, `"lag": null`, `"items": []`}},
		{"consumerProgress -g readers", 0, []string{"\norders ", "Consume Diff Total: 8\n"}},
		{"consumerProgress", 0, []string{"readers" + strings.Repeat(" ", 59) + "1       V5_3_3", "PUSH   CLUSTERING", " 8\n"}},
		{"stats lag --min 8 -o json", 0, []string{`"group": "readers"`, `"model": "CLUSTERING"`}},
		{"stats lag --fail-above 5 -o name", 7, []string{"readers\n"}},
		{"group list --behind -o name", 0, []string{"readers\n"}},
		{"group list --offline -o name", 0, []string{""}},
		{"group list --topic orders -o csv --fields group,members,topics,lag --no-headers", 0, []string{"casters,1,1,\nreaders,1,1,8\n"}},
		{"offset list readers -o csv --no-headers --fields topic,queueId,consumerOffset", 0, []string{"orders,0,2\n"}},
		{"client list --group readers -o json", 0, []string{`"clientId": "10.0.1.21@7"`, `"role": "CONSUMER"`, `"orders"`}},
		{"client list --topic orders -o name", 0, []string{"10.0.1.22@7\n10.0.1.21@7\n"}},
		{"client list --producers -o json", 0, []string{`"group": "orders_producer"`, `"role": "PRODUCER"`}},
		{"consumerConnection -g readers", 0, []string{"10.0.1.21@7", "\nBelow is subscription:\n", "\norders               *\n", "MessageModel: CLUSTERING\n"}},
		{"producerConnection -g orders_producer -t orders", 0, []string{"0001  10.0.1.21@7"}},
		{"topic list -o json", 0, []string{`"casters"`, `"readers"`}},
		{"topic list --unused -o name", 0, []string{""}},
		{"top -o json", 0, []string{`"clientId": "10.0.1.21@7"`, `"role": "PRODUCER"`, `"kind": "GROUP"`, `"target": "readers"`}},
		{"top --panel clients --once", 0, []string{"10.0.1.22@7", "casters"}},
		{"top --panel events --once", 0, []string{"topic", "orders"}},
		{"stats traffic --topic orders -o json", 0, []string{`"group": "readers"`, `"lag": 8`}},
		{"statsAll -t orders", 0, []string{"readers"}},
		{"group delete readers --dry-run -o json", 0, []string{`"deleted": false`, `"code": "MEMBERS_ONLINE"`}},
		{"group delete readers", 9, nil},
		{"topic delete orders", 9, nil},
	}
	for _, c := range cases {
		out := must(c.code, strings.Fields(c.args)...)
		for _, w := range c.want {
			if !strings.Contains(out, w) || w == "" && out != "" {
				t.Errorf("%s: %q is not in\n%s", c.args, w, out)
			}
		}
		if strings.HasSuffix(c.args, "json") {
			if err := valid([]byte(out)); err != nil {
				t.Errorf("%s: %v\n%s", c.args, err, out)
			}
		}
	}
	_, _, errs := runLine("mqctl", "-n", ns, "group", "delete", "readers")
	if !strings.Contains(errs, "on 1 broker, 1 member online, 1 topic, lag 8") {
		t.Errorf("the impact of a deletion is not told: %s", errs)
	}
}

// TestOldReports: mqadmin's reports of one broker's backlog and of a cluster's metrics.
func TestOldReports(t *testing.T) {
	ready := startHere(t)
	ns := ready.Namesrv[0]
	must := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := runLine(append([]string{"mqctl", "-n", ns}, args...)...)
		if code != want {
			t.Fatalf("%q: exit %d, want %d\n%s%s", args, code, want, out, errs)
		}
		return out
	}
	must(0, "topic", "create", "orders", "--write-queues", "1", "--read-queues", "1")
	must(0, "group", "create", "readers")
	must(0, "message", "send", "orders", "--body", "x", "--count", "10")
	join(t, ready.Addr, "readers", "CLUSTERING", "10.0.1.21@7")
	a := admin.New(admin.Options{Nameservers: []string{ns}})
	t.Cleanup(a.Close)
	if err := a.CommitOffset(context.Background(), ready.Addr, "readers", "orders", 0, 2); err != nil {
		t.Fatal(err)
	}
	out := must(0, "brokerConsumeStats", "-b", ready.Addr, "--output", "mqadmin")
	head, rest, _ := strings.Cut(out, "\n")
	if !strings.HasPrefix(head, "#Topic ") || len(strings.Fields(rest)) < 8 || !strings.HasPrefix(rest, "orders"+strings.Repeat(" ", 60)+"readers ") || !strings.HasSuffix(out, "\n\nDiff Total: 8\n") {
		t.Errorf("not mqadmin's layout:\n%s", out)
	}
	if out = must(0, "brokerConsumeStats", "-b", ready.Addr, "-l", "9", "-o", "false", "-t", "3000", "--output", "json"); !strings.Contains(out, `"items": []`) || valid([]byte(out)) != nil {
		t.Errorf("a threshold of 9 shows\n%s", out)
	}
	if out = must(0, "brokerConsumeStats", "-b", "broker-a/0", "--output", "json"); !strings.Contains(out, `"lag": 8`) || valid([]byte(out)) != nil {
		t.Errorf("%v\n%s", valid([]byte(out)), out)
	}
	must(4, "brokerConsumeStats", "-b", "127.0.0.1:1")
	dir := t.TempDir()
	if out = must(0, "exportMetrics", "-c", "DefaultCluster", "-f", dir, "--output", "mqadmin"); out != "export "+dir+"/metrics.json success" {
		t.Errorf("%q", out)
	}
	b, err := os.ReadFile(dir + "/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{`"evaluateReport"`, `"broker-a"`, `"topicSize": 1`, `"groupSize": 1`, `"GO%V5_3_3"`, `"totalNormalInTps"`, `"scheduleOneDayInNum"`} {
		if !strings.Contains(string(b), w) {
			t.Errorf("%s is not in\n%s", w, b)
		}
	}
	must(3, "exportMetrics", "-c", "Nowhere", "-f", dir)
}
