package broker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// syncFrame is one frame of the recorded exchange of two Apache brokers.
type syncFrame struct {
	Port, From string
	Base64     []byte
	header     struct {
		Code      int
		ExtFields map[string]string
	}
	body []byte
}

// recordedSync reads the recording: request and answer in turn.
func recordedSync(t testing.TB) (frames []syncFrame) {
	t.Helper()
	data, err := os.ReadFile("../testdata/ha/metadata-sync.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var raw struct{ Port, From, Base64 string }
		if err := json.Unmarshal(lines.Bytes(), &raw); err != nil {
			t.Fatal(err)
		}
		f := syncFrame{Port: raw.Port, From: raw.From}
		frame, err := base64.StdEncoding.DecodeString(raw.Base64)
		if err != nil {
			t.Fatal(err)
		}
		n := binary.BigEndian.Uint32(frame[4:]) & 0xFFFFFF
		if err := json.Unmarshal(frame[8:][:n], &f.header); err != nil {
			t.Fatal(err)
		}
		f.body = frame[8+n:]
		frames = append(frames, f)
	}
	if len(frames) != 14 {
		t.Fatalf("%d frames, want 14", len(frames))
	}
	return frames
}

// What an Apache slave asks is answered on the ports it uses, in the form that its
// own master gives: members of the body, ext fields, and the size of the checkpoint.
func TestRecordedSlaveRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		frames := recordedSync(t)
		for i := 0; i < len(frames); i += 2 {
			q, a := frames[i], frames[i+1]
			addr := map[string]string{"vip": "127.0.0.1:10909", "normal": mainAddr}[q.Port]
			resp := r.callOn(r.client, addr, q.header.Code, q.header.ExtFields, q.body)
			if resp.Code != 0 || resp.Remark != "" || len(resp.Ext) != len(a.header.ExtFields) {
				t.Errorf("code %d: answer %d %q %v, recorded %d %v", q.header.Code, resp.Code, resp.Remark, resp.Ext, a.header.Code, a.header.ExtFields)
			}
			if q.header.Code == remoting.ReqGetTimerCheckPoint {
				if len(resp.Body) != len(a.body) {
					t.Errorf("the checkpoint has %d bytes, recorded %d", len(resp.Body), len(a.body))
				}
				if read := int64(binary.BigEndian.Uint64(resp.Body)); read != r.b.opts.Now().Truncate(time.Second).UnixMilli() {
					t.Errorf("the checkpoint has read up to %d", read)
				}
				continue
			}
			var have, want map[string]json.RawMessage
			r.json(resp, &have)
			if err := json.Unmarshal(a.body, &want); err != nil {
				t.Fatal(err)
			}
			for member := range want {
				if _, there := have[member]; !there && member != "groupTopicMap" {
					t.Errorf("code %d: the body has no %s", q.header.Code, member)
				}
			}
		}
	})
}

// javaBroker is an Apache broker as far as its tables go.
type javaBroker struct {
	mu      sync.Mutex
	boot    int64
	end     int64 // of its log
	tables  map[int][]byte
	offsets map[string]map[int32]int64
	swallow bool // a server-side reset waits: commits are answered and ignored
	asked   map[int]int
	commits []string
	parts   []string // what 21 answers instead, in a row; the last one is repeated
	slow    time.Duration
}

// newJavaBroker serves at addr until the test ends.
func newJavaBroker(t testing.TB, n *network, addr string) *javaBroker {
	t.Helper()
	j := &javaBroker{boot: 1, end: 1 << 40, tables: map[int][]byte{}, offsets: map[string]map[int32]int64{}, asked: map[int]int{}}
	frames := recordedSync(t)
	for i := 0; i < len(frames); i += 2 {
		j.tables[frames[i].header.Code] = frames[i+1].body
	}
	l, err := n.listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	srv := remoting.NewServer(remoting.ServerOptions{Handler: j, Log: testLog()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		<-done
		srv.Close()
	})
	return j
}

func (j *javaBroker) BurstEnd(*remoting.Conn) {}
func (j *javaBroker) Closed(*remoting.Conn)   {}

func (j *javaBroker) ServeRequest(_ *remoting.Conn, r *remoting.Request) {
	j.mu.Lock()
	slow := j.slow
	j.mu.Unlock()
	if slow > 0 {
		<-time.After(slow)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked[r.Code]++
	switch r.Code {
	case remoting.ReqGetBrokerRuntimeInfo:
		table := map[string]string{"bootTimestamp": fmt.Sprint(j.boot), "commitLogMaxOffset": fmt.Sprint(j.end), "brokerVersion": "479"}
		r.Reply(0, "", nil, body.KVTable{Table: table}.Encode())
	case remoting.ReqGetAllConsumerOffset:
		r.Reply(0, "", nil, body.ConsumerOffsetTable{OffsetTable: j.offsets}.Encode())
	case remoting.ReqUpdateConsumerOffset:
		m := r.Ext.Map()
		j.commits = append(j.commits, m["topic"]+"@"+m["consumerGroup"]+"/"+m["queueId"]+"="+m["commitOffset"])
		if !j.swallow {
			var queue int32
			var offset int64
			_, _ = fmt.Sscan(m["queueId"], &queue)
			_, _ = fmt.Sscan(m["commitOffset"], &offset)
			j.set(m["topic"]+"@"+m["consumerGroup"], queue, offset)
		}
		r.Reply(0, "", nil, nil)
	default:
		if r.Code == remoting.ReqGetAllTopicConfig && len(j.parts) > 0 {
			r.Reply(0, "", remoting.Map{"totalTopicNum": "7"}, []byte(j.parts[0]))
			j.parts = j.parts[min(1, len(j.parts)-1):]
			return
		}
		if b, have := j.tables[r.Code]; have {
			r.Reply(0, "", nil, b)
			return
		}
		r.Reply(remoting.CodeRequestCodeNotSupported, "", nil, nil)
	}
}

// set changes a number. The caller holds mu or is alone.
func (j *javaBroker) set(row string, queue int32, offset int64) {
	if j.offsets[row] == nil {
		j.offsets[row] = map[int32]int64{}
	}
	j.offsets[row][queue] = offset
}

func (j *javaBroker) do(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
}

func (j *javaBroker) number(row string, queue int32) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.offsets[row][queue]
}

const javaAddr = "127.0.0.1:10931"

// underJava is a slave of ours that follows an Apache master.
func underJava(t *testing.T) (*rig, *javaBroker) {
	n := newNetwork()
	j := newJavaBroker(t, n, javaAddr)
	j.set("HaTopic@G_off1", 0, 100)
	r := startIn(t, n, vfs.NewMem(), func(o *Options) {
		o.ID, o.Role, o.Reloadable.HA, o.Reloadable.SlaveRead = 1, Slave, testHA(), true
	})
	r.b.sync.o.Trust = nil // there is no replication in this test
	r.b.learned(javaAddr, "")
	return r, j
}

// commitHere is a commit that reaches the slave.
func (r *rig) commitHere(row string, queue int32, offset int64) {
	r.t.Helper()
	topic, group, _ := strings.Cut(row, "@")
	r.wants(r.call(remoting.ReqUpdateConsumerOffset, map[string]string{"consumerGroup": group, "topic": topic,
		"queueId": fmt.Sprint(queue), "commitOffset": fmt.Sprint(offset)}, nil), 0, "")
}

func (r *rig) wantOffset(row string, queue int32, want int64) {
	r.t.Helper()
	topic, group, _ := strings.Cut(row, "@")
	got, have := r.b.offsets.Query([]byte(group), []byte(topic), queue)
	if !have {
		got = -1
	}
	if got != want {
		r.t.Errorf("%s/%d is at %d, want %d", row, queue, got, want)
	}
}

// A slave of ours has the tables of an Apache master, follows deletions, and asks at
// its cadence.
func TestFollowJavaTables(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, j := underJava(t)
		pass(3 * time.Second)
		if c := r.b.topics.Get("Wonly"); c == nil || c.Perm != 2 || c.WriteQueueNums != 1 {
			t.Errorf("topic Wonly is %+v", c)
		}
		if g := r.b.groups.Get("G_off1"); g == nil || g.ConsumeEnable || g.BrokerID != 1 {
			t.Errorf("group G_off1 is %+v", g)
		}
		if _, v := r.b.topics.All(); v.Counter != 5 || v.Timestamp != 1795969377704 {
			t.Errorf("the topics have version %+v, the master's is 5", v)
		}
		r.wantOffset("HaTopic@G_off1", 0, 100)
		before := r.b.sync.changing.Load()
		asked := map[int]int{}
		j.do(func() {
			for code, n := range j.asked {
				asked[code] = n
			}
		})
		pass(60 * time.Second)
		if got := r.b.sync.changing.Load(); got != before {
			t.Errorf("%d rounds changed something while nothing did", got-before)
		}
		j.do(func() {
			for code, want := range map[int][2]int{21: {50, 70}, 201: {50, 70}, 43: {20, 31}, 45: {20, 31}, 402: {1, 1}} {
				if n := j.asked[code] - asked[code]; n < want[0] || n > want[1] {
					t.Errorf("in a minute code %d was asked %d times, want %v", code, n, want)
				}
			}
			var doc map[string]any
			if err := json.Unmarshal(j.tables[21], &doc); err != nil {
				t.Fatal(err)
			}
			delete(doc["topicConfigTable"].(map[string]any), "Wonly")
			doc["dataVersion"] = map[string]any{"counter": 6, "stateVersion": 0, "timestamp": 1795969377705}
			j.tables[21], _ = json.Marshal(doc)
		})
		r.commitHere("HaTopic@G_off1", 1, 5)
		pass(time.Second)
		if r.b.topics.Get("Wonly") != nil || r.b.topics.Get("HaTopic") == nil {
			t.Error("the deletion of one topic was not followed")
		}
		for _, bad := range []string{`{}`, `{"dataVersion":{"counter":9}}`, `{"topicConfigTable":{},"dataVersion":{"counter":9}}`, `junk`} {
			j.do(func() { j.tables[21] = []byte(bad) })
			pass(2 * time.Second)
			if r.b.topics.Get("HaTopic") == nil {
				t.Fatalf("an answer %s emptied the slave", bad)
			}
			if _, err := r.b.sync.MetadataAge(); err == "" {
				t.Errorf("an answer %s is no error", bad)
			}
		}
		// It says that there are seven topics, tells one, and then no more.
		j.do(func() {
			one, none := `{"topicConfigTable":{"Wonly":{"topicName":"Wonly","perm":6}},"dataVersion":{"counter":9}}`, `{"topicConfigTable":{},"dataVersion":{"counter":9}}`
			j.parts = []string{one, none, one, none, one, none}
		})
		pass(3 * time.Second)
		if r.b.topics.Get("HaTopic") == nil {
			t.Error("a part was taken for the whole table")
		}
		if _, err := r.b.sync.MetadataAge(); err == "" {
			t.Error("a table that ends early is no error")
		}
	})
}

// R2: what a slave of ours accepted reaches an Apache master; what fell there is a
// reset, unless it was restarted since.
func TestFollowJavaProgress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, j := underJava(t)
		const row = "HaTopic@G_off1"
		pass(5 * time.Second)
		r.commitHere(row, 0, 150)
		pass(5 * time.Second)
		if got := j.number(row, 0); got != 150 {
			t.Errorf("the master has %d, the slave sent 150", got)
		}
		// An operator goes back at the master.
		j.do(func() { j.set(row, 0, 20) })
		pass(5 * time.Second)
		r.wantOffset(row, 0, 20)
		// A kill costs the master what it had not saved.
		j.do(func() { j.set(row, 0, 80) })
		pass(5 * time.Second)
		r.wantOffset(row, 0, 80)
		j.do(func() { j.boot++; j.set(row, 0, 60) })
		pass(5 * time.Second)
		r.wantOffset(row, 0, 80)
		if got := j.number(row, 0); got != 80 {
			t.Errorf("the restarted master has %d, the slave had 80", got)
		}
		// A reset that waits there swallows commits; after three it stands.
		j.do(func() { j.swallow = true })
		r.commitHere(row, 0, 200)
		pass(30 * time.Second)
		r.wantOffset(row, 0, 80)
		j.do(func() {
			n := 0
			for _, c := range j.commits {
				if strings.HasSuffix(c, "=200") {
					n++
				}
			}
			if n != 3 {
				t.Errorf("the commit was sent %d times, want 3", n)
			}
		})
	})
}

// R3: an Apache slave's progress is in before this master opens and before each of
// its requests is answered; a reset here wins until the slave has shown it.
func TestJavaSlave(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := newNetwork()
		j := newJavaBroker(t, n, javaAddr)
		const row = "T@G"
		j.set(row, 0, 500)
		m := startIn(t, n, vfs.NewMem(), func(o *Options) { o.Reloadable.HA = testHA() })
		m.createTopic("T", 4)
		m.putGroup(subgroup.Defaults("G"))
		m.commit("G", 0, 100)
		m.b.sync.members.set(member{ID: 1, Addr: javaAddr})
		m.b.sync.members.save(m.b.log)
		disk := m.killed()
		j.do(func() { j.slow = 3 * time.Second }) // its machine is busy
		m = startIn(t, n, disk, func(o *Options) { o.Reloadable.HA = testHA() })
		m.wantProgress("G", 0, 500)
		j.do(func() { j.slow = 0 })
		ask := func() int64 {
			var doc struct {
				OffsetTable map[string]map[string]int64 `json:"offsetTable"`
			}
			m.json(m.call(remoting.ReqGetAllConsumerOffset, nil, nil), &doc)
			return doc.OffsetTable[row]["0"]
		}
		copyTo := func() {
			got := ask()
			j.do(func() { j.set(row, 0, got) })
			pass(time.Minute)
		}
		j.do(func() { j.set(row, 0, 520) })
		pass(time.Second)
		if got := ask(); got != 520 {
			t.Errorf("the slave is told %d, it had 520", got)
		}
		pass(time.Minute)
		m.b.offsets.Reset("G", "T", 0, 50, false)
		if got := ask(); got != 50 {
			t.Errorf("after a reset the slave is told %d, want 50", got)
		}
		pass(time.Minute)
		copyTo()
		m.wantProgress("G", 0, 50)
		j.do(func() { j.set(row, 0, 70) }) // a consumer that reads there
		pass(time.Second)
		if got := ask(); got != 70 {
			t.Errorf("the slave is told %d, it was committed to 70", got)
		}
	})
}
