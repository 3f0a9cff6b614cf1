package broker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/subgroup"
)

func TestHeartbeat(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		resp := r.heartbeat(r.client, "c1", "g", "CLUSTERING", testSub{"T", "TagA", "", 5})
		r.wants(resp, 0, "")
		if resp.Version != 479 || resp.Ext["IS_SUPPORT_HEART_BEAT_V2"] != "false" || resp.Ext["IS_SUB_CHANGE"] != "true" {
			t.Errorf("answer version %d, %v", resp.Version, resp.Ext)
		}
		if c := r.b.topics.Get("%RETRY%g"); c == nil || c.WriteQueueNums != 1 || c.Perm != 6 {
			t.Errorf("retry topic %+v", c)
		}
		if g := r.b.groups.Get("g"); g == nil || g.RetryMaxTimes != 16 {
			t.Errorf("group %+v", g)
		}
		view := r.b.members.Group("g")
		if view == nil || len(view.Clients) != 1 || view.Clients[0].ClientID != "c1" || view.Subscriptions["T"].SubVersion != 5 {
			t.Fatalf("members %+v", view)
		}
		// The new member hears of itself (40), as RocketMQ's does.
		synctest.Wait()
		if n := <-r.notes; n.code != 40 || n.ext["consumerGroup"] != "g" {
			t.Errorf("notice %+v", n)
		}
		r.wants(r.call(38, map[string]string{"consumerGroup": "g"}, nil), 0, "")
		r.wants(r.call(38, map[string]string{"consumerGroup": "nobody"}, nil), 1, "no consumer for this group, nobody")

		c2 := r.newClient(remoting.JSON)
		r.wants(r.heartbeat(c2, "c2", "g", "CLUSTERING", testSub{"T", "TagA", "", 5}), 0, "")
		list := r.call(38, map[string]string{"consumerGroup": "g"}, nil)
		if text := string(list.Body); !strings.Contains(text, `"c1"`) || !strings.Contains(text, `"c2"`) {
			t.Errorf("list %s", text)
		}
		c2.Close() // its member and locks go with the connection
		synctest.Wait()
		if list := r.call(38, map[string]string{"consumerGroup": "g"}, nil); string(list.Body) != `{"consumerIdList":["c1"]}` {
			t.Errorf("list %s", list.Body)
		}
		r.wants(r.call(35, map[string]string{"clientID": "c1", "consumerGroup": "g"}, nil), 0, "")
		r.wants(r.call(38, map[string]string{"consumerGroup": "g"}, nil), 1, "no consumer")
	})
}

func TestHeartbeatBad(t *testing.T) {
	cases := []struct {
		name, body string
		want       int
	}{
		{"nothing", "", 1},
		{"not JSON", "hello", 1},
		{"no client id", `{"consumerDataSet":[]}`, 29},
		{"group that cannot be", `{"clientID":"c","consumerDataSet":[{"groupName":"Bad Group!","subscriptionDataSet":[]}]}`, 0},
		{"producer only", `{"clientID":"c","producerDataSet":[{"groupName":"PG"}]}`, 0},
		{"codes as strings, as Go sends", `{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"T","subString":"TagA","tagsSet":["TagA"],"codeSet":["2598919"],"subVersion":1795969505925000000}]}]}`, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := start(t, nil)
				r.wants(r.call(34, nil, []byte(c.body)), c.want, "")
				if r.b.groups.Get("Bad Group!") != nil {
					t.Error("a group of an illegal name was made")
				}
			})
		})
	}
}

func TestHeartbeatOfOrderedTopic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		testTopics(t, r)
		r.heartbeat(r.client, "c1", "g", "CLUSTERING", testSub{"Plain", "*", "", 1})
		if r.b.topics.Get("%RETRY%g").Order {
			t.Error("ordered without an ordered topic")
		}
		r.heartbeat(r.client, "c1", "g", "CLUSTERING", testSub{"Ordered", "*", "", 2})
		if !r.b.topics.Get("%RETRY%g").Order {
			t.Error("the retry topic of an ordered subscription is not ordered")
		}
	})
}

// TestClientExpires: a member that is silent for 120 s goes, the others hear it.
func TestClientExpires(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, func(o *Options) { o.IdleTimeout = time.Hour })
		r.heartbeat(r.client, "c1", "g", "CLUSTERING", testSub{"T", "*", "", 1})
		<-time.After(119 * time.Second)
		if r.b.members.Group("g") == nil {
			t.Fatal("gone too early")
		}
		<-time.After(12 * time.Second)
		if r.b.members.Group("g") != nil {
			t.Error("still there after 131 s")
		}
	})
}

func TestCheckClientConfig(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		ask := func(kind string) *remoting.Response {
			return r.call(46, nil, fmt.Appendf(nil, `{"clientId":"c","group":"g","subscriptionData":{"topic":"T","subString":"a > 1","expressionType":%q}}`, kind))
		}
		r.wants(ask("TAG"), 0, "")
		r.wants(ask(""), 0, "")
		r.wants(ask("SQL92"), 1, "The broker does not support consumer to filter message by SQL92")
		r.wants(r.call(46, nil, []byte("x")), 1, "")
	})
}

// TestLocks: leases of ordered consumers, released with the connection.
func TestLocks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		c2 := r.newClient(remoting.JSON)
		r.heartbeat(r.client, "c1", "g", "CLUSTERING", testSub{"T", "*", "", 1})
		r.heartbeat(c2, "c2", "g", "CLUSTERING", testSub{"T", "*", "", 1})
		const one = `{"brokerName":"other-name","queueId":1,"topic":"T"}`
		lock := func(c *remoting.Client, id string) string {
			resp := r.callOn(c, mainAddr, 41, nil, fmt.Appendf(nil, `{"clientId":%q,"consumerGroup":"g","mqSet":[%s],"onlyThisBroker":false}`, id, one))
			r.wants(resp, 0, "")
			return string(resp.Body)
		}
		const granted, refused = `{"lockOKMQSet":[` + one + `]}`, `{"lockOKMQSet":[]}`
		if got := lock(c2, "c2"); got != granted {
			t.Errorf("lock: %s", got)
		}
		if got := lock(r.client, "c1"); got != refused {
			t.Errorf("lock held by another: %s", got)
		}
		unlock := func(c *remoting.Client, id string) {
			r.wants(r.callOn(c, mainAddr, 42, nil, fmt.Appendf(nil, `{"clientId":%q,"consumerGroup":"g","mqSet":[%s]}`, id, one)), 0, "")
		}
		unlock(r.client, "c1") // not its own: nothing happens
		if got := lock(r.client, "c1"); got != refused {
			t.Errorf("after a foreign unlock: %s", got)
		}
		c2.Close()
		synctest.Wait()
		if got := lock(r.client, "c1"); got != granted {
			t.Errorf("after the holder went: %s", got)
		}
		<-time.After(61 * time.Second)
		if got := lock(r.client, "c3"); got != granted {
			t.Errorf("after the lease ran out: %s", got)
		}
		r.wants(r.call(41, nil, []byte("x")), 1, "")
		r.wants(r.call(42, nil, []byte("x")), 1, "")
	})
}

func TestOffsets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		testTopics(t, r)
		g := subgroup.Defaults("g")
		if _, err := r.b.groups.Put(g); err != nil {
			t.Fatal(err)
		}
		began := time.Now().UnixMilli()
		for i := range 7 {
			r.mustSend("Plain", 0, fmt.Sprint(i))
			<-time.After(10 * time.Millisecond)
		}
		at := func(topic string, queue int, kv ...string) map[string]string {
			m := map[string]string{"topic": topic, "queueId": fmt.Sprint(queue)}
			for i := 0; i+1 < len(kv); i += 2 {
				m[kv[i]] = kv[i+1]
			}
			return m
		}
		cases := []struct {
			name   string
			code   int
			ext    map[string]string
			want   int
			remark string
			field  string
			value  string
		}{
			{"young queue without progress", 14, at("Plain", 0, "consumerGroup", "new"), 0, "", "offset", "0"},
			{"no fabricated zero", 14, at("Plain", 0, "consumerGroup", "new", "setZeroIfNotFound", "false"), 22, "Not found, do not set to zero, maybe this group boot first", "", ""},
			{"zero allowed", 14, at("Plain", 0, "consumerGroup", "new", "setZeroIfNotFound", "true"), 0, "", "offset", "0"},
			{"empty queue", 14, at("Plain", 1, "consumerGroup", "new"), 22, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first", "", ""},
			{"unknown topic", 14, at("Nope", 1, "consumerGroup", "new"), 22, "Not found, V3_0_6_SNAPSHOT", "", ""},
			{"commit of an unknown group", 15, at("Plain", 0, "consumerGroup", "new", "commitOffset", "2"), 26, "Group new not exist!", "", ""},
			{"commit to an unknown topic", 15, at("Nope", 0, "consumerGroup", "g", "commitOffset", "2"), 17, "Topic Nope not exist!", "", ""},
			{"commit without an offset", 15, at("Plain", 0, "consumerGroup", "g"), 29, "", "", ""},
			{"commit", 15, at("Plain", 0, "consumerGroup", "g", "commitOffset", "2"), 0, "", "", ""},
			{"committed", 14, at("Plain", 0, "consumerGroup", "g"), 0, "", "offset", "2"},
			{"-1 lowers nothing", 15, at("Plain", 0, "consumerGroup", "g", "commitOffset", "-1"), 0, "", "", ""},
			{"still 2", 14, at("Plain", 0, "consumerGroup", "g"), 0, "", "offset", "2"},
			{"a late commit", 15, at("Plain", 0, "consumerGroup", "g", "commitOffset", "1"), 0, "", "", ""},
			{"is ignored", 14, at("Plain", 0, "consumerGroup", "g"), 0, "", "offset", "2"},
			{"a seek back", 15, at("Plain", 0, "consumerGroup", "g", "commitOffset", "1", "reset", "true"), 0, "", "", ""},
			{"is not", 14, at("Plain", 0, "consumerGroup", "g"), 0, "", "offset", "1"},
			{"commit -1 of an untouched queue", 15, at("Plain", 3, "consumerGroup", "g", "commitOffset", "-1"), 0, "", "", ""},
			{"committed -1", 14, at("Plain", 3, "consumerGroup", "g"), 0, "", "offset", "-1"},
			{"max", 30, at("Plain", 0), 0, "", "offset", "7"},
			{"max of an unknown topic", 30, at("Nope", 0), 0, "", "offset", "0"},
			{"max without a queue", 30, map[string]string{"topic": "Plain"}, 29, "", "", ""},
			{"max with a bad queue", 30, map[string]string{"topic": "Plain", "queueId": "abc"}, 29, "", "", ""},
			{"min", 31, at("Plain", 0), 0, "", "offset", "0"},
			{"min of an unknown topic", 31, at("Nope", 0), 0, "", "offset", "0"},
			{"by time, before all", 29, at("Plain", 0, "timestamp", "0"), 0, "", "offset", "0"},
			{"by time, after all", 29, at("Plain", 0, "timestamp", fmt.Sprint(began+1000)), 0, "", "offset", "7"},
			{"by time, upper, after all", 29, at("Plain", 0, "timestamp", fmt.Sprint(began+1000), "boundaryType", "upper"), 0, "", "offset", "6"},
			{"by time, exact", 29, at("Plain", 0, "timestamp", fmt.Sprint(began+30)), 0, "", "offset", "3"},
			{"by time, gap", 29, at("Plain", 0, "timestamp", fmt.Sprint(began+31)), 0, "", "offset", "4"},
			{"by time, gap, upper", 29, at("Plain", 0, "timestamp", fmt.Sprint(began+31), "boundaryType", "UPPER"), 0, "", "offset", "3"},
			{"by time, unknown topic", 29, at("Nope", 0, "timestamp", "5"), 0, "", "offset", "0"},
			{"earliest", 32, at("Plain", 0), 0, "", "timestamp", fmt.Sprint(began)},
			{"earliest of an empty queue", 32, at("Plain", 2), 0, "", "timestamp", "-1"},
			{"earliest of an unknown topic", 32, at("Nope", 2), 0, "", "timestamp", "-1"},
		}
		for _, c := range cases {
			resp := r.call(c.code, c.ext, nil)
			if resp.Code != c.want || !strings.HasPrefix(resp.Remark, c.remark) || resp.Ext[c.field] != c.value {
				t.Errorf("%s: %d %q %v, want %d %q %s=%s", c.name, resp.Code, resp.Remark, resp.Ext, c.want, c.remark, c.field, c.value)
			}
		}
		// What lies further back than the memory ratio is no longer "young".
		live := r.b.live.Load().Reloadable
		live.MemoryRatio = 0
		r.b.reload(live)
		r.wants(r.call(14, at("Plain", 0, "consumerGroup", "new"), nil), 22, "Not found")
		r.wants(r.call(29, at("Plain", 0, "timestamp", "0"), nil), 0, "") // in the pool
	})
}

func TestRefusedCodes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		for _, code := range []int{9999, 37, 324, 325, 200050, 200051, 400, 370, -5} {
			r.wants(r.call(code, nil, nil), 3, fmt.Sprintf(" request type %d not supported", code))
		}
	})
}
