package cli

import (
	"os"
	"strings"
	"testing"

	"mqctl/broker/remoting"
)

// withClients makes a fake broker one with a consumer group of two members.
func withClients(b *fakeBroker) {
	b.more[remoting.ReqGetConsumerConnectionList] = func(r *remoting.Request) {
		r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"connectionSet":[{"clientAddr":"10.0.0.9:5000","clientId":"10.0.0.9@1","language":"JAVA","version":477},`+
			`{"clientAddr":"10.0.0.8:5000","clientId":"10.0.0.8@1","language":"GO","version":477}],"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{}}`))
	}
	b.more[remoting.ReqGetConsumerRunningInfo] = func(r *remoting.Request) {
		queue := "0"
		if id, _ := r.Ext.Get("clientId"); id == "10.0.0.8@1" {
			queue = "1"
		}
		stack := ""
		if on, _ := r.Ext.Get("jstackEnable"); on == "true" {
			stack = `,"jstack":"main RUNNABLE"`
		}
		r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"properties":{"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY","PROP_CONSUMEORDERLY":"false","PROP_CONSUMER_START_TIMESTAMP":"1764000000000","accessKey":"topsecret"},`+
			`"subscriptionSet":[{"topic":"orders","subString":"*"}],"mqTable":{{"brokerName":"a","queueId":`+queue+`,"topic":"orders"}:{"commitOffset":7,"cachedMsgCount":3,"cachedMsgSizeInMiB":1,"droped":false}},`+
			`"statusTable":{"orders":{"pullRT":1.5,"pullTPS":2,"consumeRT":3,"consumeOKTPS":4,"consumeFailedTPS":0,"consumeFailedMsgs":5}}`+stack+`}`))
	}
	b.more[remoting.ReqInvokeBrokerToGetConsumerStatus] = func(r *remoting.Request) {
		r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"consumerTable":{"10.0.0.9@1":{{"brokerName":"a","queueId":0,"topic":"orders"}:7}}}`))
	}
	b.more[remoting.ReqMqctlKick] = func(r *remoting.Request) {
		r.Reply(remoting.CodeSuccess, "", remoting.Map{"closed": "2"}, nil)
	}
	b.more[remoting.ReqGetAllProducerInfo] = func(r *remoting.Request) {
		r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"data":{"senders":[{"clientId":"p@1","remoteIP":"/10.0.0.7:1","language":"JAVA","version":477,"lastUpdateTimestamp":5}],"none":[]}}`))
	}
}

func TestClientInspect(t *testing.T) {
	f := newFakeCluster(t)
	b, _ := f.add("127.0.0.1", "a", 0, 100, withClients)
	f.ns.set(func() {
		f.ns.more[remoting.ReqGetRouteInfoByTopic] = func(r *remoting.Request) {
			reply(r, map[string]any{"brokerDatas": []any{map[string]any{"brokerName": "a", "cluster": "C", "brokerAddrs": map[string]string{"0": b.addr}}},
				"queueDatas": []any{map[string]any{"brokerName": "a", "perm": 6, "readQueueNums": 2, "writeQueueNums": 2}}})
		}
	})
	cases := []struct {
		line string
		code int
		has  []string
		not  string
	}{
		{"client inspect g --output json", 0, []string{`"queuesTwice": 0`, `"sameSubscription": true`, `"cachedMessages": 3`, `"failedLastHour": 5`, hiddenValue}, "topsecret"},
		{"client inspect g --client 10.0.0.8@1 --stack --output json", 0, []string{`"stack": "main RUNNABLE"`}, "10.0.0.9@1"},
		{"client inspect g --client nobody", 3, nil, "10.0.0.9"},
		{"client kick 10.0.0.9@1 --yes --output json", 0, []string{`"closed": 2`, `"applied": true`}, ""},
		{"consumerStatus -g g", 0, []string{"#Index     #ClientId", "1          10.0.0.8@1", "V5_3_2", "/10.0.0.9@1\n", "Same subscription in the same group of consumer\n\nRebalance OK"}, ""},
		{"consumerStatus -g g -i 10.0.0.8@1 -s", 0, []string{"#Consumer Properties#\n", "#Consumer MQ Detail#", "main RUNNABLE", "           1.50           2.00           3.00           4.00               0.00                         5\n"}, "topsecret"},
		{"consumer -g g", 0, []string{"001  10.0.0.8@1 "}, "#Index"},
		{"getConsumerStatus -g g -t orders", 0, []string{"get consumer status from client. group=g, topic=orders, originClientId=\n", "10.0.0.9@1                                          a                0                7"}, ""},
		{"producer -b " + b.addr, 0, []string{"producer group (none) instances are empty\n", "producer group (senders) instance : clientId=p@1,remoteIP=/10.0.0.7:1, language=JAVA"}, ""},
	}
	for _, c := range cases {
		if c.line == "consumerStatus -g g" {
			t.Chdir(t.TempDir()) // where it writes
		}
		code, out, errs := runLine(append([]string{"mqctl", "-n", f.ns.addr}, strings.Fields(c.line)...)...)
		if code != c.code {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.line, code, c.code, out, errs)
		}
		for _, want := range c.has {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", c.line, want, out)
			}
		}
		if c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%s: %q is in\n%s", c.line, c.not, out)
		}
		if strings.Contains(c.line, "--output json") && code == 0 {
			if err := valid([]byte(out)); err != nil {
				t.Errorf("%s: %v", c.line, err)
			}
		}
	}
	// consumerStatus has written a file for each client below a folder of its own.
	dirs, err := os.ReadDir(".")
	if err != nil || len(dirs) == 0 || !dirs[0].IsDir() {
		t.Fatalf("the files of consumerStatus: %v, %v", dirs, err)
	}
	text, err := os.ReadFile(dirs[0].Name() + "/10.0.0.9@1")
	if err != nil || !strings.HasPrefix(string(text), "#Consumer Properties#") || strings.Contains(string(text), "topsecret") {
		t.Errorf("file of a client: %v\n%s", err, text)
	}
}
