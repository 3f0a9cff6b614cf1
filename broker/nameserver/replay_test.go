package nameserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"mqctl/store/fastjson"
)

// TestReplay sends what a real broker or client sent to Apache's nameserver 5.3.3
// and compares our answers with the recorded ones: codes, remarks of failures and
// ext fields always; bodies byte for byte where their order is fixed.
func TestReplay(t *testing.T) {
	tests := []struct {
		file    string
		options Options
		before  []string // recordings played first, their answers not compared
		setup   func(*testing.T, *wire)
		ignore  func(r recorded) bool
	}{
		{file: "route", before: []string{"broker-register", "broker-register-topic"}},
		{file: "kv-config", setup: putKV("ORDER_TOPIC_CONFIG", "GoldenRetry", "golden-a:1")},
		{file: "broker-register"},
		{file: "broker-register-topic", before: []string{"broker-register"}},
		{file: "register-compressed", setup: putKV("ORDER_TOPIC_CONFIG", "GoldenRetry", "golden-a:1")},
		{file: "register-query-version", setup: both(putKV("ORDER_TOPIC_CONFIG", "GoldenRetry", "golden-a:1"),
			registerAt(`{"counter":33,"stateVersion":0,"timestamp":1795969877571}`))},
		{file: "broker-unregister", before: []string{"register-query-version"}},
		{file: "slave-register", setup: both(putKV("ORDER_TOPIC_CONFIG", "GoldenRetry", "golden-a:1"), refusedZ),
			before: []string{"register-query-version", "broker-unregister"}},
		{file: "acting-heartbeat-compatible"},
		{file: "acting-pair", options: Options{SupportActingMaster: true, NotifyMinBrokerIDChanged: true},
			setup: putKV("ORDER_TOPIC_CONFIG", "GoldenRetry", "golden-a:1")},
		{file: "admin-deleteTopic", before: []string{"broker-register"}},
		{file: "admin-updateTopic-cluster", before: []string{"broker-register"}},
		{file: "admin-topicRoute", before: []string{"broker-register", "broker-register-topic"}},
		// The recorded counts and lists are those of a nameserver with other topics.
		{file: "admin-wipeWritePerm", before: []string{"broker-register", "broker-register-topic"}, ignore: code(205)},
		{file: "go-send", before: []string{"broker-register"}},
		{file: "errors", before: []string{"broker-register"}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			l := start(t, tt.options)
			conns := &player{t: t, l: l, open: make(map[string]*wire)}
			for _, f := range tt.before {
				conns.play(f, nil)
			}
			if tt.setup != nil {
				tt.setup(t, open(t, l))
			}
			if n := conns.play(tt.file, func(r recorded, got, want frame) {
				if tt.ignore == nil || !tt.ignore(r) {
					compare(t, r, got, want)
				}
			}); n == 0 {
				t.Error("nothing was compared")
			}
		})
	}
}

// player sends recordings over connections of its own, one for each recorded one.
type player struct {
	t    *testing.T
	l    *memListener
	open map[string]*wire
}

func (p *player) play(file string, check func(r recorded, got, want frame)) (answers int) {
	p.t.Helper()
	return p.playAll(file, recording(p.t, file), check)
}

func (p *player) playAll(file string, all []recorded, check func(r recorded, got, want frame)) (answers int) {
	p.t.Helper()
	for i, r := range all {
		if r.From != "client" {
			continue
		}
		// A broker keeps its connection from one recording to the next; the
		// brokers are told apart by the address they send.
		key := fmt.Sprint(file, r.Conn)
		if ext, ok := r.frame.header["extFields"].(map[string]any); ok && ext["brokerAddr"] != nil {
			key = fmt.Sprint(ext["brokerAddr"])
		}
		c := p.open[key]
		if c == nil {
			c = open(p.t, p.l)
			p.open[key] = c
		}
		c.send(r.frame)
		if int(r.frame.header["flag"].(float64))&2 != 0 {
			continue
		}
		got := c.receive()
		j := slices.IndexFunc(all[i:], func(a recorded) bool {
			return a.From == "server" && a.Conn == r.Conn && a.frame.header["opaque"] == r.frame.header["opaque"]
		})
		if j >= 0 && check != nil {
			answers++
			check(r, got, all[i+j].frame)
		}
	}
	return answers
}

// orderFixed are the answers without a map in Java's hash order.
var orderFixed = map[int]bool{105: true, 106: true, 322: true, 901: true}

func compare(t *testing.T, r recorded, got, want frame) {
	t.Helper()
	request := int(r.frame.header["code"].(float64))
	for _, key := range []string{"code", "flag", "opaque", "version", "extFields"} {
		if !reflect.DeepEqual(got.header[key], want.header[key]) {
			t.Errorf("%v %v: %s is %v, Apache said %v (remark %v)", request, r.frame.header["extFields"], key, got.header[key], want.header[key], got.header["remark"])
		}
	}
	if want.header["code"].(float64) != 0 && got.header["remark"] != want.header["remark"] {
		t.Errorf("%v: remark %q, Apache said %q", request, got.header["remark"], want.header["remark"])
	}
	equal := reflect.DeepEqual(sorted(clean(t, got.body)), sorted(clean(t, want.body)))
	if orderFixed[request] && !bytes.Contains(want.body, []byte("golden-z")) {
		equal = bytes.Equal(got.body, want.body)
	}
	if !equal {
		t.Errorf("%v: body\n%s\nApache said\n%s", request, got.body, want.body)
	}
}

// sorted orders lists, which Java fills from hash sets.
func sorted(v any) any {
	switch v := v.(type) {
	case []any:
		slices.SortFunc(v, func(a, b any) int {
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			return bytes.Compare(x, y)
		})
	case map[string]any:
		for k := range v {
			v[k] = sorted(v[k])
		}
	}
	return v
}

func code(n int) func(recorded) bool {
	return func(r recorded) bool { return r.frame.header["code"].(float64) == float64(n) }
}

func both(a, b func(*testing.T, *wire)) func(*testing.T, *wire) {
	return func(t *testing.T, w *wire) { a(t, w); b(t, w) }
}

func putKV(namespace, key, value string) func(*testing.T, *wire) {
	return func(t *testing.T, w *wire) {
		if got := w.ask(100, 479, map[string]string{"namespace": namespace, "key": key, "value": value}, nil); got.header["code"].(float64) != 0 {
			t.Fatal(got.header)
		}
	}
}

// registerAt registers golden-a as it was before the recording, with another version.
func registerAt(version string) func(*testing.T, *wire) {
	return func(t *testing.T, w *wire) {
		body := `{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":` + version + `,"topicConfigTable":{"A":{},"B":{}}}}`
		got := w.ask(103, 479, map[string]string{"brokerId": "0", "clusterName": "GoldenCluster", "brokerAddr": "127.0.0.2:31911",
			"haServerAddr": "127.0.0.2:31912", "brokerName": "golden-a"}, []byte(body))
		if got.header["code"].(float64) != 0 {
			t.Fatal(got.header)
		}
	}
}

// refusedZ leaves golden-z behind as a name without an address.
func refusedZ(t *testing.T, w *wire) {
	body, err := fastjson.Marshal(map[string]any{"topicConfigSerializeWrapper": map[string]any{"topicConfigTable": map[string]any{"GoldenZ1": map[string]any{}}}})
	if err != nil {
		t.Fatal(err)
	}
	got := w.ask(103, 479, map[string]string{"brokerId": "0", "clusterName": "GoldenCluster", "brokerAddr": "127.0.0.4:31931",
		"haServerAddr": "127.0.0.4:31932", "brokerName": "golden-z"}, body)
	if got.header["code"].(float64) != 1 {
		t.Fatal(got.header)
	}
}
