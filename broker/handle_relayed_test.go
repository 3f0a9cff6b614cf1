package broker

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

// A member is given a stored message (309), is asked how far it is (223), and its
// connection is ended (30005).
func TestRelayedQuestions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.createTopic("T", 1)
		sent := r.call(10, map[string]string{"producerGroup": "p", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
			"sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": ""}, []byte("hello"))
		id := sent.Ext["msgId"]
		type question struct {
			code int
			ext  map[string]string
			body string
		}
		says := func(resp *remoting.Response, code int, part string) {
			t.Helper()
			if resp.Code != code || !strings.Contains(resp.Remark, part) {
				t.Errorf("answer %d %q, want %d with %q", resp.Code, resp.Remark, code, part)
			}
		}
		asked := make(chan question, 10)
		consumer := remoting.NewClient(remoting.ClientOptions{Dial: r.net.dial, OnRequest: func(_ string, q *remoting.Request) {
			if q.Code == remoting.ReqNotifyConsumerIDsChanged {
				return
			}
			asked <- question{q.Code, q.Ext.Map(), string(q.Body)}
			switch q.Code {
			case 309:
				q.ReplyNow(0, "", nil, []byte(`{"consumeResult":"CR_SUCCESS"}`))
			case 221:
				q.ReplyNow(0, "", nil, body.ConsumerStatus{MessageQueueTable: map[body.MessageQueue]int64{{BrokerName: "broker-a", Topic: "T"}: 7}}.Encode())
			}
		}})
		defer consumer.Close()
		r.heartbeat(consumer, "c", "g", "CLUSTERING")

		resp := r.call(309, map[string]string{"consumerGroup": "g", "clientId": "c", "msgId": id, "topic": "T"}, nil)
		if resp.Code != 0 || string(resp.Body) != `{"consumeResult":"CR_SUCCESS"}` {
			t.Errorf("309: %d %s %s", resp.Code, resp.Remark, resp.Body)
		}
		q := <-asked
		want := map[string]string{"consumerGroup": "g", "clientId": "c", "msgId": id, "topic": "T", "brokerName": r.b.here.name, "topicSysFlag": "0", "groupSysFlag": "0"}
		if !maps.Equal(q.ext, want) || !strings.Contains(q.body, "hello") {
			t.Errorf("the client was given %v %q", q.ext, q.body)
		}
		says(r.call(309, map[string]string{"consumerGroup": "g", "clientId": "c", "msgId": "7F000001"}, nil), 1, "is not the id of a stored message")
		says(r.call(309, map[string]string{"consumerGroup": "g", "clientId": "c", "msgId": id[:len(id)-2] + "FF"}, nil), 1, "can not find message by the offset")
		says(r.call(309, map[string]string{"consumerGroup": "g", "clientId": "other", "msgId": id}, nil), 1, "not online")

		resp = r.call(223, map[string]string{"topic": "T", "group": "g", "clientAddr": ""}, nil)
		if got, err := body.DecodeConsumerStatus(resp.Body); err != nil || got.ConsumerTable["c"][body.MessageQueue{BrokerName: "broker-a", Topic: "T"}] != 7 {
			t.Errorf("223: %d %s %s", resp.Code, resp.Remark, resp.Body)
		}
		if q := <-asked; q.code != 221 || !maps.Equal(q.ext, map[string]string{"topic": "T", "group": "g"}) {
			t.Errorf("the client was asked %+v", q)
		}
		if resp = r.call(223, map[string]string{"topic": "T", "group": "g", "clientAddr": "nobody"}, nil); string(resp.Body) != `{"consumerTable":{},"messageQueueTable":{}}` {
			t.Errorf("223 of nobody: %s", resp.Body)
		}
		says(r.call(223, map[string]string{"topic": "T", "group": "off"}, nil), 1, "not online")

		says(r.call(remoting.ReqMqctlKick, nil, nil), remoting.CodeInvalidParameter, "clientId")
		for id, closed := range map[string]string{"nobody": "0", "c": "1"} {
			if resp := r.call(remoting.ReqMqctlKick, map[string]string{"clientId": id}, nil); resp.Code != 0 || resp.Ext["closed"] != closed {
				t.Errorf("kick %s: %d %v", id, resp.Code, resp.Ext)
			}
		}
		synctest.Wait()
		if r.b.members.Group("g") != nil {
			t.Error("the client is still a member")
		}
	})
}
