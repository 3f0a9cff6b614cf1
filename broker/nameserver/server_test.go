package nameserver

import (
	"bufio"
	"compress/zlib"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

var brokerExt = map[string]string{"clusterName": "C", "brokerName": "a", "brokerAddr": "10.0.0.1:10911", "brokerId": "0",
	"haServerAddr": "10.0.0.1:10912", "enableActingMaster": "false"}

const brokerBody = `{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":2},"topicConfigTable":{"T":{"perm":6},"U":{"perm":6,"topicSysFlag":1},"V":{"perm":6,"topicSysFlag":2},"W":{"perm":6,"topicSysFlag":3}}}}`

func with(m map[string]string, kv ...string) map[string]string {
	m = maps.Clone(m)
	for i := 0; i < len(kv); i += 2 {
		if kv[i+1] == "-" {
			delete(m, kv[i])
		} else {
			m[kv[i]] = kv[i+1]
		}
	}
	return m
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name   string
		code   int
		ext    map[string]string
		body   string
		want   int
		remark string // a part of it
		reply  string // the whole body
	}{
		{name: "unknown code", code: 9999, want: 3, remark: " request type 9999 not supported"},
		{name: "update a path", code: 318, body: "kvConfigPath=/tmp/x", want: 16, remark: "Can not update config in black list."},
		{name: "update what needs a restart", code: 318, body: "supportActingMaster=true\nlistenPort=1", want: 29, remark: "listenPort cannot be changed while"},
		{name: "update what is unknown", code: 318, body: "supportActingMastr=true", want: 29, remark: "supportActingMaster"},
		{name: "update to no boolean", code: 318, body: "supportActingMaster=perhaps", want: 29, remark: "neither true nor false"},
		{name: "update without a value", code: 318, body: "supportActingMaster", want: 29, remark: "is no line key=value"},
		{name: "update", code: 318, body: "# a remark\nsupportActingMaster = false\n", want: 0},
		{name: "a broker's request", code: 310, want: 3, remark: " request type 310 not supported"},
		{name: "route without topic", code: 105, want: 17, remark: "No topic route info in name server for the topic: null\nSee "},
		{name: "unknown topic", code: 105, ext: map[string]string{"topic": "X"}, want: 17, remark: "for the topic: X\n"},
		{name: "register without a name", code: 103, ext: with(brokerExt, "brokerName", "-"), body: brokerBody, want: 1, remark: "brokerName"},
		{name: "register with an empty name", code: 103, ext: with(brokerExt, "brokerName", ""), body: brokerBody, want: 1, remark: "brokerName"},
		{name: "register with a name that breaks routes", code: 103, ext: with(brokerExt, "brokerName", `a","x":"`), body: brokerBody, want: 1, remark: "brokerName"},
		{name: "register with a cluster that breaks routes", code: 103, ext: with(brokerExt, "clusterName", "a:b"), body: brokerBody, want: 1, remark: "clusterName"},
		{name: "register without a port", code: 103, ext: with(brokerExt, "brokerAddr", "10.0.0.1"), body: brokerBody, want: 1, remark: "brokerAddr"},
		{name: "register with a bad port", code: 103, ext: with(brokerExt, "brokerAddr", "10.0.0.1:70000"), body: brokerBody, want: 1, remark: "brokerAddr"},
		{name: "register with two addresses", code: 103, ext: with(brokerExt, "brokerAddr", "10.0.0.1:1,10.0.0.2:2"), body: brokerBody, want: 1, remark: "brokerAddr"},
		{name: "register with id -1", code: 103, ext: with(brokerExt, "brokerId", "-1"), body: brokerBody, want: 1, remark: "brokerId"},
		{name: "register with an id that is no number", code: 103, ext: with(brokerExt, "brokerId", "x"), body: brokerBody, want: 1, remark: "brokerId"},
		{name: "register with a wrong checksum", code: 103, ext: with(brokerExt, "bodyCrc32", "1"), body: brokerBody, want: 1, remark: "crc32 not match"},
		{name: "register with no JSON", code: 103, ext: brokerExt, body: "{", want: 1, remark: "registration"},
		{name: "register with a torn zlib stream", code: 103, ext: brokerExt, body: "\x78\x9c\x01", want: 1, remark: "registration"},
		{name: "register", code: 103, ext: brokerExt, body: brokerBody, want: 0},
		{name: "register from IPv6", code: 103, ext: with(brokerExt, "brokerName", "six", "brokerAddr", "[fd00::1]:10911"), body: brokerBody, want: 0},
		{name: "its farewell", code: 104, ext: with(brokerExt, "brokerName", "six", "brokerAddr", "[fd00::1]:10911"), want: 0},
		{name: "all topics", code: 206, want: 0, reply: `{"topicList":["T","U","V","W"]}`},
		{name: "topics of a cluster", code: 224, ext: map[string]string{"cluster": "C"}, want: 0, reply: `{"topicList":["T","U","V","W"]}`},
		{name: "topics of no cluster", code: 224, ext: map[string]string{"cluster": "D"}, want: 0, reply: `{"topicList":[]}`},
		{name: "topics of a missing cluster", code: 224, want: 1, remark: "cluster"},
		{name: "system names", code: 304, want: 0, reply: `{"brokerAddr":"10.0.0.1:10911","topicList":["C","a"]}`},
		{name: "unit topics", code: 311, want: 0, reply: `{"topicList":["U","W"]}`},
		{name: "topics with unit subscription", code: 312, want: 0, reply: `{"topicList":["V","W"]}`},
		{name: "ordinary topics with unit subscription", code: 313, want: 0, reply: `{"topicList":["V"]}`},
		{name: "version without a body", code: 322, ext: brokerExt, want: 1, remark: "empty"},
		{name: "heartbeat of an unknown broker", code: 904, ext: with(brokerExt, "brokerAddr", "h:1"), want: 0},
		{name: "members of nothing", code: 901, ext: map[string]string{"clusterName": "C", "brokerName": "x"}, want: 0, reply: `{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"x","cluster":"C"}}`},
		{name: "topic without a body", code: 217, ext: map[string]string{"topic": "N"}, want: 1, remark: "empty"},
		{name: "topic with bad queues", code: 217, ext: map[string]string{"topic": "N"}, body: `{"queueDatas":[{"brokerName":"a","readQueueNums":-1}]}`, want: 1, remark: "not within"},
		{name: "topic with a bad name", code: 217, ext: map[string]string{"topic": "N N"}, body: `{"queueDatas":[]}`, want: 1, remark: "topic"},
		{name: "topic", code: 217, ext: map[string]string{"topic": "N"}, body: `{"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":1,"writeQueueNums":2}]}`, want: 0},
		{name: "its route", code: 105, ext: map[string]string{"topic": "N"}, want: 0,
			reply: `{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"a","cluster":"C","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":1,"topicSysFlag":0,"writeQueueNums":2}]}`},
		{name: "retry topic of a group before its first heartbeat", code: 105, ext: map[string]string{"topic": "%RETRY%new"}, want: 0,
			reply: `{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"a","cluster":"C","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":1,"topicSysFlag":0,"writeQueueNums":1}]}`},
		{name: "it is routed, not made", code: 206, want: 0, reply: `{"topicList":["N","T","U","V","W"]}`},
		{name: "retry topic of no possible group", code: 105, ext: map[string]string{"topic": "%RETRY%a b"}, want: 17, remark: "a b"},
		{name: "wipe", code: 205, ext: map[string]string{"brokerName": "a"}, want: 0},
		{name: "delete the topic", code: 216, ext: map[string]string{"topic": "N"}, want: 0},
		{name: "and it is gone", code: 105, ext: map[string]string{"topic": "N"}, want: 17, remark: "N"},
		{name: "put without a value", code: 100, ext: map[string]string{"namespace": "N", "key": "k"}, want: 1, remark: "value"},
		{name: "put without a key", code: 100, ext: map[string]string{"namespace": "N", "key": "", "value": "v"}, want: 1, remark: "key"},
		{name: "put a long key", code: 100, ext: map[string]string{"namespace": "N", "key": strings.Repeat("k", 256), "value": "v"}, want: 1, remark: "255"},
		{name: "delete what never was", code: 102, ext: map[string]string{"namespace": "N", "key": "k"}, want: 0},
		{name: "list what never was", code: 219, ext: map[string]string{"namespace": "N"}, want: 22, remark: "No config item, Namespace: N"},
		{name: "put", code: 100, ext: map[string]string{"namespace": "N", "key": "k", "value": "ä\"\n"}, want: 0},
		{name: "list", code: 219, ext: map[string]string{"namespace": "N"}, want: 0, reply: `{"table":{"k":"ä\"\n"}}`},
	}
	c := open(t, start(t, Options{RetryRouteOf: "a"}))
	for _, tt := range tests {
		got := c.ask(tt.code, 479, tt.ext, []byte(tt.body))
		remark, _ := got.header["remark"].(string)
		if got.header["code"].(float64) != float64(tt.want) || !strings.Contains(remark, tt.remark) {
			t.Errorf("%s: %v", tt.name, got.header)
		}
		if tt.reply != "" && string(got.body) != tt.reply {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got.body, tt.reply)
		}
		if tt.want != 0 && len(got.body) > 0 {
			t.Errorf("%s: a body with a failure: %s", tt.name, got.body)
		}
	}
}

// A broker whose connection ends is gone at once; one that came back before on
// another connection stays.
func TestConnectionLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemListener()
		s, err := New(Options{Listener: l})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		client, first := open(t, l), open(t, l)
		route := func() int {
			synctest.Wait()
			return int(client.ask(105, 479, map[string]string{"topic": "T"}, nil).header["code"].(float64))
		}
		first.ask(103, 479, brokerExt, []byte(brokerBody))
		if got := route(); got != 0 {
			t.Fatalf("route: %d", got)
		}
		second := open(t, l)
		second.ask(103, 479, brokerExt, []byte(brokerBody))
		first.Close()
		if got := route(); got != 0 {
			t.Errorf("after the end of the older connection: %d", got)
		}
		second.Close()
		if got := route(); got != 17 {
			t.Errorf("after the end of the last one: %d", got)
		}
		// Silence: the broker's own time, found by the scan; its connection is closed.
		third := open(t, l)
		third.ask(103, 479, with(brokerExt, "heartbeatTimeoutMillis", "10000"), []byte(brokerBody))
		pass(9 * time.Second)
		third.send(makeFrame(t, 904, 479, 2, brokerExt, nil))
		pass(9 * time.Second)
		if got := route(); got != 0 {
			t.Errorf("a broker with heartbeats is gone: %d", got)
		}
		pass(7 * time.Second)
		if got := route(); got != 17 {
			t.Errorf("a silent broker is still there: %d", got)
		}
		if _, err := third.r.ReadByte(); err == nil {
			t.Error("the silent broker's connection is open")
		}
		client.Close()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// The conversation of a pair with acting masters: the slave is told at its own
// address (905) and shown to clients as id 0.
func TestActingMaster(t *testing.T) {
	told := make(chan net.Conn, 1)
	l := start(t, Options{SupportActingMaster: true, NotifyMinBrokerIDChanged: true,
		Dial: func(_ context.Context, addr string) (net.Conn, error) {
			if addr != "127.0.0.3:31921" {
				return nil, fmt.Errorf("dialled %s", addr)
			}
			ours, theirs := net.Pipe()
			told <- theirs
			return ours, nil
		}})
	refusedZ(t, open(t, l))
	p := &player{t: t, l: l, open: make(map[string]*wire)}
	all := recording(t, "acting-pair")
	last := -1
	for i, r := range all {
		if r.From == "client" && code(104)(r) {
			last = i // the slave's own farewell comes after the recorded routes
		}
	}
	p.playAll("acting-pair", all[:last], nil)
	notice := (&wire{t: t, Conn: <-told}).buffered().receive()
	if want := recordedNotice(t); !equalNotice(notice, want) {
		t.Errorf("905: %v, Apache sent %v", notice.header, want.header)
	}
	if n := p.play("acting-route", func(r recorded, got, want frame) { compare(t, r, got, want) }); n != 4 {
		t.Errorf("%d answers compared", n)
	}
}

func (w *wire) buffered() *wire {
	w.r = bufio.NewReader(w.Conn)
	return w
}

// recordedNotice is the 905 of the recording.
func recordedNotice(t *testing.T) frame {
	t.Helper()
	for _, r := range recordingAll(t, "acting-pair") {
		raw, err := base64.StdEncoding.DecodeString(r.Frame)
		if err != nil {
			t.Fatal(err)
		}
		if f := cut(t, raw); f.header["code"].(float64) == 905 {
			return f
		}
	}
	t.Fatal("no 905 in the recording")
	return frame{}
}

func equalNotice(got, want frame) bool {
	a, _ := got.header["extFields"].(map[string]any)
	b, _ := want.header["extFields"].(map[string]any)
	return got.header["code"] == want.header["code"] && got.header["flag"] == want.header["flag"] && maps.Equal(a, b)
}

// Who is told: all that stay when one left; when one came, the others, or it if alone.
func TestReceivers(t *testing.T) {
	three := &group{replicas: []replica{{id: 0, addr: "m"}, {id: 1, addr: "s"}, {id: 2, addr: "u"}}}
	for _, tt := range []struct {
		c    change
		want string
	}{
		{change{group: three, offline: "x"}, "m s u"},
		{change{group: three, haAddr: "m9"}, "s u"},
		{change{group: &group{replicas: []replica{{id: 1, addr: "s"}}}, haAddr: "s9"}, "s"},
	} {
		if got := strings.Join(tt.c.receivers(), " "); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.c, got, tt.want)
		}
	}
}

// FuzzRegister: whatever comes as a registration, the routes stay readable JSON
// and the Go client's rules hold.
func FuzzRegister(f *testing.F) {
	f.Add([]byte(brokerBody), 479)
	f.Add([]byte(`{"topicConfigTable":{"T":{}}}`), 36)
	f.Add([]byte(`{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"a:b"},"U":null}}}`), 317)
	f.Add(body.RegisterBroker{TopicConfigSerializeWrapper: body.TopicConfigTable{TopicConfigTable: map[string]body.TopicConfig{
		"T": {TopicName: "T", TopicFilterType: "SINGLE_TAG"}, "U": {TopicName: "U", TopicFilterType: "MULTI_TAG"}}}}.EncodeCompressed(), 479)
	var z strings.Builder
	w := zlib.NewWriter(&z)
	w.Write([]byte{0, 0, 0, 2, '{', '}', 0x7F, 0xFF, 0xFF, 0xFF})
	w.Close()
	f.Add([]byte(z.String()), 479)
	f.Fuzz(func(t *testing.T, b []byte, version int) {
		tab, err := parseRegister(b, version)
		if err != nil {
			return
		}
		r := newRoutes(never)
		g := Registration{Cluster: "C", Name: "a", Addr: "h:1", Version: tab.version, Topics: tab.topics, TopicCount: tab.count(),
			Mappings: tab.mappings, Conn: &conn{}}
		if _, err := r.Register(g, t0); err != nil {
			return
		}
		v := r.view()
		for name, e := range v.topics {
			w := writer{standard: true}
			w.route([]*group{v.groups["a"]}, e, "")
			route, err := body.DecodeTopicRouteData(w.b)
			if err != nil || len(route.QueueDatas) != 1 || route.BrokerDatas[0].BrokerAddrs[0] != "h:1" {
				t.Fatalf("%q: %v\n%s", name, err, w.b)
			}
		}
	})
}

var _ remoting.Handler = (*Server)(nil)

// pass lets virtual time go on.
func pass(d time.Duration) { <-time.After(d) }
