package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/store/fastjson"
	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// goldenOptions make the broker of the recordings.
func goldenOptions(o *Options) {
	o.Name, o.Cluster, o.TimerTopic = "golden-a", "GoldenCluster", true
	o.Reloadable.ValidateSystemTopic = true
}

// withSettings gives a broker a configuration that is saved below its store.
func withSettings(t testing.TB, fs vfs.FS, set ...string) func(*Options) {
	return func(o *Options) {
		c := mustLoad(t, ConfigInput{FS: fs, Set: append(set, "storePathRootDir=/store", "brokerName=broker-a")})
		made, err := c.Options()
		if err != nil {
			t.Fatal(err)
		}
		o.Settings, o.Reloadable = made.Settings, made.Reloadable
	}
}

func (r *rig) createTopic(name string, queues int32, change ...string) *remoting.Response {
	r.t.Helper()
	ext := map[string]string{"topic": name, "defaultTopic": "TBW102", "readQueueNums": fmt.Sprint(queues), "writeQueueNums": fmt.Sprint(queues),
		"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": "", "force": "false"}
	for i := 0; i+1 < len(change); i += 2 {
		ext[change[i]] = change[i+1]
	}
	return r.call(17, ext, nil)
}

func (r *rig) json(resp *remoting.Response, v any) {
	r.t.Helper()
	if resp.Code != 0 {
		r.t.Fatalf("answer %d %q", resp.Code, resp.Remark)
	}
	if err := fastjson.Unmarshal(resp.Body, v); err != nil {
		r.t.Fatalf("%v in %s", err, resp.Body)
	}
}

func TestTopicRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, goldenOptions)
		for _, c := range []struct {
			name   string
			change []string
			code   int
			remark string
		}{
			{"T", nil, 0, "not set any response code"},
			{"T", nil, 0, "not set any response code"}, // the same again
			{"T", []string{"readQueueNums", "8", "order", "true"}, 0, ""},
			{"Fifo", []string{"attributes", "+message.type=FIFO"}, 0, ""},
			{"Fifo", []string{"attributes", "+message.type=NONSENSE"}, 1, ""},
			{"Mixed", []string{"attributes", "+message.type=MIXED"}, 29, "MIXED message type is not supported."},
			{"TBW102", nil, 29, "The topic[TBW102] is conflict with system topic."},
			{"golden-a", nil, 29, "The topic[golden-a] is conflict with system topic."},
			{"a/../b", nil, 29, "The specified topic contains illegal characters"},
			{"", nil, 29, "The specified topic is blank."},
			{strings.Repeat("x", 128), nil, 29, "The specified topic is longer than topic max length."},
			{"T2", []string{"perm", "99"}, 29, "perm is 99"},
			{"T2", []string{"writeQueueNums", "-1"}, 29, "writeQueueNums is -1"},
			{"T2", []string{"readQueueNums", "9999999999"}, 1, ""},
			{"T2", []string{"topicFilterType", "X"}, 29, ""},
		} {
			r.wants(r.createTopic(c.name, 4, c.change...), c.code, c.remark)
		}
		var got topic.Config
		r.json(r.call(351, map[string]string{"topic": "T", "lo": "true"}, nil), &got)
		if got.ReadQueueNums != 8 || got.WriteQueueNums != 4 || !got.Order {
			t.Errorf("T is %v", got)
		}
		r.wants(r.call(351, map[string]string{"topic": "None"}, nil), 17, "No topic in this broker. topic: None")
		var all struct {
			Topics map[string]topic.Config `json:"topicConfigTable"`
		}
		r.json(r.call(21, nil, nil), &all)
		if all.Topics["Fifo"].Attributes["message.type"] != "FIFO" || all.Topics["T2"].TopicName != "" || all.Topics["rmq_sys_wheel_timer"].TopicName == "" {
			t.Errorf("topics %v", slices.Sorted(maps.Keys(all.Topics)))
		}
		// On disk before it was acknowledged.
		if text := readMem(t, r.fs.CrashClone(nil, vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost}), "/store/config/topics.json"); !strings.Contains(text, "Fifo") {
			t.Errorf("topics.json after a crash: %q", text)
		}
	})
}

func TestDeleteTopic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, goldenOptions)
		r.createTopic("T", 1)
		r.mustSend("T", 0, "a")
		r.call(15, map[string]string{"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}, nil)
		r.b.groups.FindOrCreate("g")
		r.call(15, map[string]string{"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}, nil)
		r.heartbeat(r.client, "c", "g", "CLUSTERING", testSub{"T", "*", "", 1})
		held := make(chan *remoting.Response, 1)
		go func() {
			held <- r.call(11, pullExt("g", "T", 0, 1, "sysFlag", "6", "suspendTimeoutMillis", "30000"), nil)
		}()
		synctest.Wait()
		begin := time.Now()
		r.wants(r.call(215, map[string]string{"topic": "T"}, nil), 0, "")
		if resp := <-held; resp.Code == 0 || time.Since(begin) > time.Second {
			t.Errorf("the held pull was answered with %d after %s", resp.Code, time.Since(begin))
		}
		r.wants(r.call(351, map[string]string{"topic": "T"}, nil), 17, "")
		r.wants(r.call(202, map[string]string{"topic": "T"}, nil), 17, "topic[T] not exist")
		if _, found := r.b.offsets.Query([]byte("g"), []byte("T"), 0); found {
			t.Error("progress is still there")
		}
		r.wants(r.call(215, map[string]string{"topic": "T"}, nil), 0, "")
		r.wants(r.call(215, map[string]string{"topic": "TBW102"}, nil), 29, "The topic[TBW102] is conflict with system topic.")
		r.wants(r.call(215, map[string]string{"topic": " "}, nil), 29, "The specified topic is blank.")
		r.wants(r.call(215, map[string]string{"topic": "../x"}, nil), 29, "")
		// The topic can be made again and starts at 0.
		r.createTopic("T", 1)
		if resp := r.mustSend("T", 0, "b"); resp.Ext["queueOffset"] != "0" {
			t.Errorf("the first message of the new topic is at %s", resp.Ext["queueOffset"])
		}
	})
}

func TestGroupRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, goldenOptions)
		put := func(text string) *remoting.Response { return r.call(200, nil, []byte(text)) }
		r.wants(put(`{"groupName":"g","whichBrokerWhenConsumeSlowly":3,"retryQueueNums":2}`), 0, "")
		r.wants(put(`{"groupName":"Bad Group!"}`), 29, "")
		r.wants(put(`{"groupName":""}`), 29, "")
		r.wants(put(`{"groupName":"g2","retryQueueNums":-1}`), 29, "")
		r.wants(put(`{"groupName":"g2","brokerId":-1}`), 29, "")
		r.wants(put(`{`), 29, "the body is no subscription group")
		r.wants(put(``), 29, "the body is no subscription group")
		var g subgroup.Config
		r.json(r.call(352, map[string]string{"group": "g"}, nil), &g)
		if g.WhichBrokerWhenConsumeSlowly != 3 || g.RetryQueueNums != 2 || g.RetryMaxTimes != 16 || !g.ConsumeEnable {
			t.Errorf("g is %+v", g)
		}
		r.wants(r.call(352, map[string]string{"group": "new"}, nil), 26, "No group in this broker")
		if r.b.groups.Get("new") != nil || r.b.groups.Get("g2") != nil {
			t.Error("asking for a group made it")
		}
		// Another put replaces everything: what is not said takes the default.
		r.wants(put(`{"groupName":"g","consumeEnable":false}`), 0, "")
		if c := r.b.groups.Get("g"); c.WhichBrokerWhenConsumeSlowly != 1 || c.ConsumeEnable {
			t.Errorf("g is %+v", c)
		}
		var all struct {
			Groups map[string]subgroup.Config `json:"subscriptionGroupTable"`
		}
		r.json(r.call(201, nil, nil), &all)
		if all.Groups["g"].GroupName != "g" {
			t.Errorf("groups %v", slices.Sorted(maps.Keys(all.Groups)))
		}
		if text := readMem(t, r.fs.CrashClone(nil, vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost}), "/store/config/subscriptionGroup.json"); !strings.Contains(text, `"g"`) {
			t.Errorf("after a crash: %q", text)
		}
		r.call(15, map[string]string{"consumerGroup": "g", "topic": "SELF_TEST_TOPIC", "queueId": "0", "commitOffset": "5"}, nil)
		r.wants(r.call(207, map[string]string{"groupName": "g"}, nil), 0, "")
		if r.b.groups.Get("g") != nil || len(r.b.offsets.Queues("g", "SELF_TEST_TOPIC")) != 1 {
			t.Error("207 without cleanOffset must keep the progress")
		}
		r.wants(r.call(207, map[string]string{"groupName": "g", "cleanOffset": "true"}, nil), 0, "")
		if len(r.b.offsets.Queues("g", "SELF_TEST_TOPIC")) != 0 {
			t.Error("207 with cleanOffset keeps the progress")
		}
	})
}

// TestGroupChangeIsLiveAtOnce: a held pull of a group that is switched off is
// answered, and the next one is refused.
func TestGroupChangeIsLiveAtOnce(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"disabled": func(r *rig) { r.wants(r.call(200, nil, []byte(`{"groupName":"g","consumeEnable":false}`)), 0, "") },
		"forbidden": func(r *rig) {
			r.wants(r.call(353, map[string]string{"group": "g", "topic": "T", "readable": "false"}, nil), 0, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := start(t, nil)
				r.createTopic("T", 1)
				r.wants(r.call(200, nil, []byte(`{"groupName":"g"}`)), 0, "")
				r.heartbeat(r.client, "c", "g", "CLUSTERING", testSub{"T", "*", "", 1})
				held := make(chan *remoting.Response, 1)
				go func() {
					held <- r.call(11, pullExt("g", "T", 0, 0, "sysFlag", "2", "suspendTimeoutMillis", "30000"), nil)
				}()
				synctest.Wait()
				begin := time.Now()
				change(r)
				if resp := <-held; resp.Code != 16 || time.Since(begin) > time.Second {
					t.Errorf("the held pull was answered with %d %q after %s", resp.Code, resp.Remark, time.Since(begin))
				}
				resp, _ := r.pull("g", "T", 0, 0, "sysFlag", "0")
				r.wants(resp, 16, "")
			})
		})
	}
}

func TestForbidden(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		ask := func(readable string) string {
			ext := map[string]string{"group": "g", "topic": "T"}
			if readable != "" {
				ext["readable"] = readable
			}
			return string(r.call(353, ext, nil).Body)
		}
		for _, c := range []struct{ set, want string }{{"", "true"}, {"false", "false"}, {"", "false"}, {"true", "true"}, {"", "true"}} {
			if got, want := ask(c.set), `{"group":"g","readable":`+c.want+`,"topic":"T"}`; got != want {
				t.Errorf("353 %q: %s, want %s", c.set, got, want)
			}
		}
		r.wants(r.call(353, map[string]string{"group": "g", "topic": "../T", "readable": "false"}, nil), 29, "")
		r.wants(r.call(353, map[string]string{"group": "b a d", "topic": "T"}, nil), 29, "")
	})
}

func TestConfigRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fs := vfs.NewMem()
		r := start(t, fs, withSettings(t, fs))
		resp := r.call(26, nil, nil)
		if !strings.Contains(string(resp.Body), "\nslaveReadEnable=false\n") || !strings.Contains(resp.Ext["version"], `"counter":0`) {
			t.Errorf("26: %v %.200s", resp.Ext, resp.Body)
		}
		r.wants(r.call(25, nil, []byte("slaveReadEnable=true\nbrokerPermission=4\nmaxMessageSize=100")), 0, "")
		if l := r.b.live.Load(); !l.SlaveRead || l.Permission != 4 {
			t.Error("the change is not live")
		}
		r.wants(r.call(25, nil, []byte("brokerPermission=6\nlistenPort=12345")), 0, "restart needed: listenPort")
		if resp := r.send("SELF_TEST_X", 0, strings.Repeat("x", 101)); resp.Code != 13 {
			t.Errorf("a message over the new limit: %d %s", resp.Code, resp.Remark)
		}
		r.wants(r.call(25, nil, []byte("brokerConfigPath=/x")), 16, "Can not update config in black list.")
		r.wants(r.call(25, nil, []byte("slaveReadEnabel=false")), 29, "slaveReadEnabel: there is no such key; did you mean slaveReadEnable?")
		r.wants(r.call(25, nil, nil), 0, "")
		resp = r.call(26, nil, nil)
		if !strings.Contains(string(resp.Body), "\nslaveReadEnable=true\n") || !strings.Contains(resp.Ext["version"], `"counter":2`) {
			t.Errorf("26: %v", resp.Ext)
		}
	})
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.wants(r.call(26, nil, nil), 1, "this broker was started without a configuration")
		r.wants(r.call(25, nil, []byte("slaveReadEnable=true")), 1, "this broker was started without a configuration")
	})
}

// TestAutoCreateTurnedOnLive: the template appears with the setting.
func TestAutoCreateTurnedOnLive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fs := vfs.NewMem()
		r := start(t, fs, withSettings(t, fs, "autoCreateTopicEnable=false"))
		r.wants(r.send("New", 0, "x"), 17, "")
		r.wants(r.call(25, nil, []byte("autoCreateTopicEnable=true")), 0, "")
		r.wants(r.send("New", 0, "x"), 0, "")
	})
}

func TestClientRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, goldenOptions)
		r.createTopic("T", 2)
		r.wants(r.call(203, map[string]string{"consumerGroup": "g"}, nil), 206, "the consumer group[g] not online")
		r.wants(r.call(204, map[string]string{"producerGroup": "p"}, nil), 1, "the producer group[p] not exist")
		r.wants(r.call(307, map[string]string{"consumerGroup": "g", "clientId": "c"}, nil), 1, "The Consumer <g> <c> not online")
		r.heartbeat(r.client, "c", "g", "CLUSTERING", testSub{"T", "A||B", "", 7})
		var conn struct {
			ConnectionSet     []struct{ ClientID, ClientAddr, Language string }
			MessageModel      string
			SubscriptionTable map[string]struct {
				SubString string
				TagsSet   []string
				CodeSet   []int32
			}
		}
		r.json(r.call(203, map[string]string{"consumerGroup": "g"}, nil), &conn)
		if len(conn.ConnectionSet) != 1 || conn.ConnectionSet[0].ClientID != "c" || conn.MessageModel != "CLUSTERING" ||
			!slices.Equal(conn.SubscriptionTable["T"].CodeSet, []int32{65, 66}) || len(conn.SubscriptionTable) != 2 {
			t.Errorf("203: %+v", conn)
		}
		if got := string(r.call(204, map[string]string{"producerGroup": "CLIENT_INNER_PRODUCER"}, nil).Body); !strings.Contains(got, `"clientId":"c"`) {
			t.Errorf("204: %s", got)
		}
		if got := string(r.call(328, nil, nil).Body); !strings.HasPrefix(got, `{"data":{"CLIENT_INNER_PRODUCER":[{"clientId":"c"`) || !strings.Contains(got, `"remoteIP":"/`) {
			t.Errorf("328: %s", got)
		}
		if got := string(r.call(345, map[string]string{"group": "g", "topic": "T"}, nil).Body); !strings.Contains(got, `"subscriptionData":{`) {
			t.Errorf("345: %s", got)
		}
		if got := string(r.call(345, map[string]string{"group": "off", "topic": "T"}, nil).Body); got != `{"group":"off","topic":"T"}` {
			t.Errorf("345 offline: %s", got)
		}
		if got := string(r.call(300, map[string]string{"topic": "T"}, nil).Body); got != `{"groupList":["g"]}` {
			t.Errorf("300: %s", got)
		}
		if got := string(r.call(300, map[string]string{"topic": "None"}, nil).Body); got != `{"groupList":[]}` {
			t.Errorf("300 of an unknown topic: %s", got)
		}
	})
}

// TestRunningInfo relays 307 to the client of the heartbeat.
func TestRunningInfo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		asked := make(chan map[string]string, 1)
		quiet := false
		consumer := remoting.NewClient(remoting.ClientOptions{Dial: r.net.dial, OnRequest: func(_ string, q *remoting.Request) {
			if q.Code != 307 {
				return
			}
			asked <- q.Ext.Map()
			if !quiet {
				q.ReplyNow(0, "all well", remoting.Map{"k": "v"}, []byte(`{"mqTable":{{"queueId":0}:1}}`))
			}
		}})
		defer consumer.Close()
		r.heartbeat(consumer, "c", "g", "CLUSTERING")
		ext := map[string]string{"consumerGroup": "g", "clientId": "c", "jstackEnable": "false"}
		resp := r.call(307, ext, nil)
		if resp.Code != 0 || resp.Remark != "all well" || resp.Ext["k"] != "v" || string(resp.Body) != `{"mqTable":{{"queueId":0}:1}}` {
			t.Errorf("answer %+v %s", resp, resp.Body)
		}
		if got := <-asked; !maps.Equal(got, ext) {
			t.Errorf("the client was asked with %v", got)
		}
		quiet = true
		begin := time.Now()
		r.wants(r.call(307, ext, nil), 207, "consumer <g> <c> Timeout")
		if took := time.Since(begin); took != relayWait {
			t.Errorf("gave up after %s", took)
		}
		r.wants(r.call(307, map[string]string{"consumerGroup": "g"}, nil), 1, "")
	})
}

func TestOldClientCannotBeAsked(t *testing.T) {
	m := subgroup.NewMembers(func() int64 { return 0 }, func(string) bool { return false })
	m.RegisterConsumer(subgroup.Client{Peer: &peer{conn: &remoting.Conn{}}, ClientID: "c", Version: oldestRelay - 1}, subgroup.Consumer{Group: "g"})
	_, err := (&relayAdmin{members: m}).client("g", "c")
	if err == nil || !strings.Contains(err.Error(), "Version <61> too low") {
		t.Errorf("error %v", err)
	}
}

func TestFigures(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, goldenOptions)
		r.createTopic("T", 2)
		began := time.Now().UnixMilli()
		for i := range 3 {
			r.mustSend("T", 0, fmt.Sprint(i))
			pass(time.Second)
		}
		r.b.groups.FindOrCreate("g")
		r.call(15, map[string]string{"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}, nil)
		for _, c := range []struct {
			code int
			ext  map[string]string
			want string
		}{
			{202, map[string]string{"topic": "T"}, `{"offsetTable":{{"brokerName":"golden-a","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":` + fmt.Sprint(began+2000) +
				`,"maxOffset":3,"minOffset":0},{"brokerName":"golden-a","queueId":1,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}},"topicPutTps":0.0}`},
			{208, map[string]string{"consumerGroup": "g"}, `{"consumeTps":0.0,"offsetTable":{{"brokerName":"golden-a","queueId":0,"topic":"T"}:{"brokerOffset":3,"consumerOffset":1,"lastTimestamp":` +
				fmt.Sprint(began) + `,"pullOffset":1},{"brokerName":"golden-a","queueId":1,"topic":"T"}:{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}`},
			{208, map[string]string{"consumerGroup": "never", "topic": "T"}, `{"consumeTps":0.0,"offsetTable":{{"brokerName":"golden-a","queueId":0,"topic":"T"}:{"brokerOffset":3,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0},` +
				`{"brokerName":"golden-a","queueId":1,"topic":"T"}:{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}`},
			{208, map[string]string{"consumerGroup": "never"}, `{"consumeTps":0.0,"offsetTable":{}}`},
			{208, map[string]string{"consumerGroup": "never", "topicList": "None;"}, `{"consumeTps":0.0,"offsetTable":{}}`},
			{343, map[string]string{"group": "g"}, `{"brokerAddr":"127.0.0.1:10911","topicList":["T"]}`},
			{43, nil, `"offsetTable":{"T@g":{0:1}},"progressMeta":{"T@g":{0:[0,0,3]}}}`},
			{45, nil, `"offsetTable":{`},
			{305, nil, `"rmq_sys_SYNC_BROKER_MEMBER_golden-a"`},
			{321, map[string]string{"topic": "T", "queueId": "0", "index": "1", "count": "1"}, `{"maxQueueIndex":3,"minQueueIndex":0,"queueData":[{"eval":false,"physicOffset":`},
			{321, map[string]string{"topic": "T", "queueId": "0", "index": "9", "count": "1"}, `{"maxQueueIndex":3,"minQueueIndex":0,"queueData":[]}`},
			{321, map[string]string{"topic": "T", "queueId": "0", "index": "0", "count": "-1"}, `"queueData":[]}`},
			{317, map[string]string{"isOrder": "false"}, `{"g":[{"consumeTps":0.0,"offsetTable":{{"brokerName":"golden-a","queueId":0,"topic":"T"}:{"brokerOffset":3,"consumerOffset":1,"lastTimestamp":` +
				fmt.Sprint(began) + `,"pullOffset":0}`},
			{317, map[string]string{"isOrder": "true"}, `{"g":[]}`},
			{303, map[string]string{"topic": "T", "group": "g"}, `"delayTime":` + fmt.Sprint(time.Now().UnixMilli()-began-1000) + `,"maxTimeStamp":` + fmt.Sprint(began+2000)},
			{907, nil, `{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,"maxOffset":0,"transferredByteInSecond":0},"haConnectionInfo":[],"inSyncSlaveNums":0,"master":true,"masterCommitLogMaxOffset":`},
			{30001, map[string]string{"what": "offsets"}, `{"broker":"golden-a","brokerId":0,"role":"ASYNC_MASTER","minOffset":0,"maxOffset":`},
		} {
			resp := r.call(c.code, c.ext, nil)
			if resp.Code != 0 || !strings.Contains(string(resp.Body), c.want) {
				t.Errorf("%d %v: %d %q\n got %s\nwant %s", c.code, c.ext, resp.Code, resp.Remark, resp.Body, c.want)
			}
		}
		r.wants(r.call(303, map[string]string{"topic": "None", "group": "g"}, nil), 17, "topic[None] not exist")
		r.wants(r.call(321, map[string]string{"topic": "None", "queueId": "0", "index": "0", "count": "1"}, nil), 1, "0@None is not exist!")
		r.wants(r.call(315, map[string]string{"statsName": "TOPIC_PUT_NUMS", "statsKey": "None"}, nil), 1, "The stats <TOPIC_PUT_NUMS> <None> not exist")
		if got := string(r.call(315, map[string]string{"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}, nil).Body); !strings.HasPrefix(got, `{"statsDay":{"avgpt":`) {
			t.Errorf("315: %s", got)
		}
		r.wants(r.call(30001, map[string]string{"what": "everything"}, nil), 29, `there is nothing to inspect called "everything"`)
		r.wants(r.call(2004, nil, nil), 3, "")
		// An online group without the topic in its subscription: left out.
		if got := string(r.call(30001, map[string]string{"what": "clients"}, nil).Body); got != `{"clients":[],"more":0}` {
			t.Errorf("clients, and nobody is there: %s", got)
		}
		r.heartbeat(r.client, "c", "g", "CLUSTERING", testSub{"Other", "*", "", 1})
		if got := string(r.call(30001, map[string]string{"what": "clients"}, nil).Body); !strings.Contains(got, `"clientId":"c","addr":"`) || !strings.Contains(got, `"group":"g","role":"CONSUMER","topics":["`) || !strings.Contains(got, `"Other"`) {
			t.Errorf("clients: %s", got)
		}
		if got := string(r.call(208, map[string]string{"consumerGroup": "g"}, nil).Body); got != `{"consumeTps":0.0,"offsetTable":{}}` {
			t.Errorf("208 of an online group without the topic: %s", got)
		}
	})
}

// TestFailingDisk: a change that cannot be saved is refused and changes nothing.
func TestFailingDisk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		mem := vfs.NewMem()
		inj := vfs.NewInjector(mem)
		r := start(t, mem, func(o *Options) { o.FS = inj; o.Store.FS = mem }, withSettings(t, inj))
		r.createTopic("T", 1)
		inj.Fail(vfs.Fault{Op: vfs.OpSync, Path: "config", Err: syscall.EIO})
		for name, resp := range map[string]*remoting.Response{
			"create topic": r.createTopic("T2", 1),
			"change topic": r.createTopic("T", 4),
			"delete topic": r.call(215, map[string]string{"topic": "T"}, nil),
			"put group":    r.call(200, nil, []byte(`{"groupName":"g"}`)),
			"configure":    r.call(25, nil, []byte("slaveReadEnable=true")),
		} {
			if resp.Code != 1 || !strings.Contains(resp.Remark, syscall.EIO.Error()) {
				t.Errorf("%s on a failing disk: %d %q", name, resp.Code, resp.Remark)
			}
		}
		if r.b.topics.Get("T2") != nil || r.b.topics.Get("T") == nil || r.b.topics.Get("T").WriteQueueNums != 1 || r.b.groups.Get("g") != nil || r.b.live.Load().SlaveRead {
			t.Error("a refused change is live")
		}
		inj.Heal()
		r.wants(r.createTopic("T2", 1), 0, "")
	})
}
