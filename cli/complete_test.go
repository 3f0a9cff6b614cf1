package cli

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/cli/shell"
)

// TestCompleteClients: ids of clients come from the group of the line, and where
// the line has none from all clients of brokers that can tell.
func TestCompleteClients(t *testing.T) {
	f := newFakeCluster(t)
	f.add("127.0.0.1", "a", 0, 0, func(b *fakeBroker) {
		b.more[remoting.ReqGetConsumerConnectionList] = func(r *remoting.Request) {
			group, _ := r.Ext.Get("consumerGroup")
			reply(r, map[string]any{"connectionSet": []map[string]any{{"clientId": "10.0.0.1@" + group, "clientAddr": "10.0.0.1:5", "language": "JAVA"}}})
		}
		b.more[remoting.ReqMqctlInspect] = func(r *remoting.Request) {
			reply(r, body.InspectClients{Clients: []body.InspectClient{{ClientID: "10.0.0.2@7", Group: "g", Role: "CONSUMER"}}})
		}
	})
	for line, want := range map[string]string{
		"client inspect g1 --client=":            "--client=10.0.0.1@g1\tJAVA 10.0.0.1:5\n",
		"consumerStatus -g g2 -i 10":             "10.0.0.1@g2\tJAVA 10.0.0.1:5\n",
		"client inspect g1 --client 11":          "",
		"client kick ":                           "10.0.0.2@7\tconsumer of g\n",
		"client kick 10.0.0.2@7 ":                "",
		"message resend ID --group g3 --client ": "10.0.0.1@g3\tJAVA 10.0.0.1:5\n",
	} {
		var out bytes.Buffer
		env := func(name string) string { return map[string]string{"NAMESRV_ADDR": f.ns.addr}[name] }
		complete(context.Background(), strings.Split(line, " "), Stdio{Out: &out, Err: &out, Env: env})
		if out.String() != want {
			t.Errorf("%s offers %q, want %q", line, out.String(), want)
		}
	}
}

// TestCompletionOfSlowCluster: in a shell a question that takes long is waited for
// once, by none when a key is pressed, and its answer is there for a later Tab;
// the end of the shell ends it.
func TestCompletionOfSlowCluster(t *testing.T) {
	f := newFakeCluster(t)
	asked, answer := make(chan struct{}, 16), make(chan struct{})
	var once sync.Once
	f.ns.more[remoting.ReqGetAllTopicListFromNameserver] = func(r *remoting.Request) {
		asked <- struct{}{}
		<-answer
		reply(r, map[string]any{"topicList": []string{"orders"}})
	}
	t.Cleanup(func() { once.Do(func() { close(answer) }) })
	streams := shell.Streams{Env: func(name string) string { return map[string]string{"NAMESRV_ADDR": f.ns.addr}[name] }}
	s := newSession(context.Background(), Stdio{})
	words := []string{"topic", "get", "o"}

	pressed, press := context.WithCancel(context.Background())
	press()
	if got := s.Complete(pressed, words, streams); got != nil {
		t.Errorf("before the answer: %v", got)
	}
	<-asked
	begun := time.Now()
	for range 20 { // the first of these waits, the others find the question too old
		if got := s.Complete(context.Background(), words, streams); got != nil {
			t.Errorf("before the answer: %v", got)
		}
	}
	if took := time.Since(begun); took > 10*completionTime {
		t.Errorf("20 Tabs took %v", took)
	}
	once.Do(func() { close(answer) })
	for got := s.Complete(context.Background(), words, streams); len(got) != 1 || got[0].Word != "orders"; got = s.Complete(context.Background(), words, streams) {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("the answer is never offered: %v", got)
		}
	}
	if n := len(asked); n != 0 && time.Since(begun) < completionAsks {
		t.Errorf("the cluster was asked %d times more", n)
	}
	s.close()
	if got := s.Complete(context.Background(), words, streams); len(got) != 1 {
		t.Errorf("after the end: %v", got)
	}
}
