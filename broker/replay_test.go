package broker

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/subgroup"
)

// recorded is one line of a recording in testdata/wire (see its README).
type recorded struct {
	From  string `json:"from"`
	Via   string `json:"via"`
	Conn  int    `json:"conn"`
	Frame string `json:"frame"`
	raw   []byte
}

// answerKey finds an answer: a connection and an opaque.
type answerKey struct {
	conn   int
	opaque int32
}

// answer is what is compared of an answer.
type answer struct {
	code         int
	remark, body string
	ext          map[string]string
}

// TestReplay plays the frames that real clients sent to RocketMQ 5.3.3 to our
// broker and compares the answers: code, remark of errors, the names of the ext
// fields, and the values of those that depend on the protocol and not on the
// moment.
func TestReplay(t *testing.T) {
	tagged := func(tag, name string, counts ...int) func(*rig) {
		return func(r *rig) {
			if r.b.topics.Get(name) == nil {
				ensure(r, name, int32(len(counts)))
			}
			for q, n := range counts {
				for range n {
					r.mustSend(name, q, "golden", "TAGS", tag)
				}
			}
		}
	}
	fill := func(name string, counts ...int) func(*rig) { return tagged("TagA", name, counts...) }
	group := func(names ...string) func(*rig) {
		return func(r *rig) {
			for _, name := range names {
				if _, err := r.b.groups.Put(subgroup.Defaults(name)); err != nil {
					r.t.Fatal(err)
				}
			}
		}
	}
	golden := fill("GoldenTopic", 7, 3, 7, 6)
	cases := []struct {
		file   string
		before []func(*rig)
		exact  []string // ext fields compared by value
		skip   []int32  // opaques whose answer is meant to differ, or depends on the clock
	}{
		{file: "send-sync", before: []func(*rig){fill("GoldenTopic", 0, 0, 0, 0)}, exact: []string{"queueId", "transactionId"}},
		{file: "send-v1", before: []func(*rig){fill("GoldenTopic", 0, 0, 0, 0)}, exact: []string{"MSG_REGION", "TRACE_ON"}},
		{file: "send-batch", before: []func(*rig){fill("GoldenTopic", 0, 0, 1, 0)}, exact: []string{"queueId", "queueOffset", "transactionId"}},
		{file: "send-oneway", before: []func(*rig){fill("GoldenTopic", 0, 0, 1, 0)}},
		{file: "send-ordered", before: []func(*rig){fill("GoldenTopic", 0, 0, 0, 0)}, exact: []string{"queueId", "transactionId"}},
		{file: "send-auto-create", exact: []string{"queueId", "queueOffset", "transactionId"}},
		{file: "send-compressed", before: []func(*rig){fill("GoldenTopic", 0, 0, 0, 0)}, exact: []string{"queueId", "transactionId"}},
		{file: "send-delay-level", before: []func(*rig){fill("GoldenTopic", 0, 0, 0, 0)}, exact: []string{"queueId", "queueOffset", "transactionId"}},
		{file: "send-too-large", before: []func(*rig){fill("GoldenTopic", 0, 0, 0, 0)}, exact: []string{"MSG_REGION", "TRACE_ON"}},
		{file: "send-illegal-topic", exact: []string{"queueId", "queueOffset", "MSG_REGION", "TRACE_ON"}},
		{file: "go-send", exact: []string{"queueId", "queueOffset", "transactionId"}},
		// 56: an SQL92 text that does not compile; RocketMQ passes every message.
		{file: "pull-codes", before: []func(*rig){golden, fill("GoldenEmpty", 0)}, skip: []int32{56},
			exact: []string{"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset", "topicSysFlag", "groupSysFlag", "offset"}},
		// 86, 88, 90: depend on when the messages were stored.
		{file: "offsets", before: []func(*rig){golden, fill("GoldenEmpty", 0), group("CG_tag")}, skip: []int32{86, 88, 90}, exact: []string{"offset", "timestamp"}},
		{file: "go-consume-orderly", before: []func(*rig){fill("GoldenGo", 0, 2, 3, 1)},
			exact: []string{"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset", "topicSysFlag", "groupSysFlag", "offset"}},
		{file: "go-consume-retry", before: []func(*rig){fill("GoldenGo", 0, 2, 3, 1)}, skip: []int32{115}, // a physical offset of then
			exact: []string{"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset", "topicSysFlag", "groupSysFlag", "offset"}},
		// 39 to 42: pulls after a heartbeat that the recording leaves out.
		{file: "binary-header", skip: []int32{39, 40, 41, 42}, before: []func(*rig){fill("GoldenTopic", 6, 3, 7, 7)},
			exact: []string{"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset", "offset", "transactionId"}},
		{file: "consume-broadcast", before: []func(*rig){tagged("TagB", "GoldenTopic", 5, 0, 0, 6), tagged("TagA", "GoldenTopic", 0, 3, 7, 0)}, exact: []string{"suggestWhichBrokerId"}},
		{file: "consume-lite-pull", before: []func(*rig){fill("GoldenTopic", 6, 3, 8, 7)}, exact: []string{"suggestWhichBrokerId"}},
		// Header and body errors: RocketMQ's texts are Java exceptions.
		{file: "errors", before: []func(*rig){golden}, skip: []int32{100, 102, 104, 106, 110, 112}},
	}
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := start(t, nil, func(o *Options) { o.Reloadable.MaxMessage = 16384 })
				for _, f := range c.before {
					f(r)
				}
				want, got := replay(t, r, loadRecording(t, c.file))
				if len(want) == 0 {
					t.Fatal("nothing was recorded")
				}
				for _, key := range slices.SortedFunc(maps.Keys(want), func(a, b answerKey) int { return int(a.opaque - b.opaque) }) {
					if !slices.Contains(c.skip, key.opaque) {
						compare(t, key, want[key], got[key], c.exact)
					}
				}
			})
		})
	}
}

func ensure(r *rig, name string, queues int32) {
	if _, err := r.b.topics.Ensure(topic.Config{TopicName: name, ReadQueueNums: queues, WriteQueueNums: queues, Perm: 6, TopicFilterType: "SINGLE_TAG"}); err != nil {
		r.t.Fatal(err)
	}
}

// loadRecording reads the frames between clients and the broker.
func loadRecording(t *testing.T, name string) []recorded {
	t.Helper()
	f, err := os.Open("../testdata/wire/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rs []recorded
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var x recorded
		if err := json.Unmarshal(sc.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		if x.raw, err = base64.StdEncoding.DecodeString(x.Frame); err != nil {
			t.Fatal(err)
		}
		if x.Via == "client-broker" {
			rs = append(rs, x)
		}
	}
	return rs
}

// replay sends what clients sent, one frame after the other, and collects the
// answers; held pulls get the time they ask for.
func replay(t *testing.T, r *rig, rs []recorded) (want, got map[answerKey]answer) {
	want, got = map[answerKey]answer{}, map[answerKey]answer{}
	conns := map[int]net.Conn{}
	type arrival struct {
		conn  int
		frame []byte
	}
	arrivals := make(chan arrival, 10_000)
	for _, x := range rs {
		if x.From != "client" {
			if key, a, response := decodeAnswer(t, x.Conn, x.raw); response {
				want[key] = a
			}
			continue
		}
		nc := conns[x.Conn]
		if nc == nil {
			var err error
			if nc, err = r.net.dial(t.Context(), mainAddr); err != nil {
				t.Fatal(err)
			}
			conns[x.Conn] = nc
			frames := make(chan []byte)
			go readFrames(nc, frames)
			go func() {
				for f := range frames {
					arrivals <- arrival{x.Conn, f}
				}
			}()
			defer func() { nc.Close(); synctest.Wait(); close(frames) }()
		}
		if _, err := nc.Write(x.raw); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
	<-time.After(40 * time.Second)
	synctest.Wait()
	for len(arrivals) > 0 {
		a := <-arrivals
		if key, x, response := decodeAnswer(t, a.conn, a.frame); response {
			if _, twice := got[key]; twice {
				t.Errorf("two answers to opaque %d", key.opaque)
			}
			got[key] = x
		}
	}
	return want, got
}

func decodeAnswer(t *testing.T, conn int, frame []byte) (answerKey, answer, bool) {
	t.Helper()
	h, body, err := remoting.DecodeFrame(frame)
	if err != nil {
		t.Fatal(err)
	}
	return answerKey{conn, h.Opaque}, answer{h.Code, string(h.Remark), string(body), h.Ext.Map()}, h.IsResponse()
}

// compare checks one answer against RocketMQ's.
func compare(t *testing.T, key answerKey, want, got answer, exact []string) {
	t.Helper()
	name := fmt.Sprintf("opaque %d", key.opaque)
	if got.ext == nil && got.code == 0 && got.remark == "" && want.code != 0 {
		t.Errorf("%s: no answer, want %d %q", name, want.code, want.remark)
		return
	}
	if want.code != got.code {
		t.Errorf("%s: code %d %q, want %d %q", name, got.code, got.remark, want.code, want.remark)
		return
	}
	// The address in a remark is the client's.
	cut := func(s string) string {
		s, _, _ = strings.Cut(s, "onsumer:[")
		s, _, _ = strings.Cut(s, "Producer: ")
		return s
	}
	if want.code != 0 && cut(want.remark) != cut(got.remark) {
		t.Errorf("%s: remark %q, want %q", name, got.remark, want.remark)
	}
	wantKeys, gotKeys := slices.Sorted(maps.Keys(want.ext)), slices.Sorted(maps.Keys(got.ext))
	if !slices.Equal(wantKeys, gotKeys) {
		t.Errorf("%s: code %d with fields %v, want %v", name, got.code, gotKeys, wantKeys)
	}
	for _, f := range exact {
		if want.ext[f] != got.ext[f] {
			t.Errorf("%s: %s = %q, want %q", name, f, got.ext[f], want.ext[f])
		}
	}
	if strings.HasPrefix(want.body, "{") && want.body != got.body {
		t.Errorf("%s: body %s, want %s", name, got.body, want.body)
	}
}
