package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// network is an in-memory network: addresses are names.
type network struct {
	mu        sync.Mutex
	listeners map[string]*pipeListener
}

func newNetwork() *network { return &network{listeners: map[string]*pipeListener{}} }

func (n *network) listen(_, addr string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		return nil, errors.New("address already in use")
	}
	l := &pipeListener{n: n, addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[addr] = l
	return l, nil
}

func (n *network) dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("%s: %w", addr, syscall.ECONNREFUSED)
	}
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, fmt.Errorf("%s: %w", addr, syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeListener struct {
	n      *network
	addr   string
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.n.mu.Lock()
		delete(l.n.listeners, l.addr)
		l.n.mu.Unlock()
	})
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr(l.addr) }

type pipeAddr string

func (a pipeAddr) Network() string { return "pipe" }
func (a pipeAddr) String() string  { return string(a) }

// rig is a broker in memory with a client beside it.
type rig struct {
	t      testing.TB
	b      *Broker
	fs     *vfs.Mem
	net    *network
	client *remoting.Client
	notes  chan note
	cancel context.CancelFunc
	done   chan error
}

// note is a request from the broker.
type note struct {
	code int
	ext  map[string]string
}

const mainAddr = "127.0.0.1:10911"

// testOptions are small sizes and RocketMQ's defaults for the rest.
func testOptions() Options {
	return Options{
		Name: "broker-a", Cluster: "DefaultCluster", ListenAddr: mainAddr, Advertise: "127.0.0.1", HAAddr: "127.0.0.1:10912",
		Store: store.Options{Dir: "/store", CommitLogBytes: 1 << 20, QueueFileBytes: 20 * 1000, IndexSlots: 64, IndexEntries: 256, MemoryBytes: 8 << 30},
		Reloadable: Reloadable{Permission: 6, AutoCreateTopic: true, AutoCreateGroup: true, MemoryRatio: 40, MaxMessage: 4 << 20,
			LongPolling: true, ShortPolling: time.Second, NotifyIDsChanged: true, LitePull: true, TraceOn: true, Region: "DefaultRegion",
			ReturnZeroIfInMemory: true},
		Log: testLog(),
	}
}

// testLog prints warnings when BROKER_LOG is set.
func testLog() *slog.Logger {
	if os.Getenv("BROKER_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// start runs a broker over fs until the test or stop ends it.
func start(t testing.TB, fs *vfs.Mem, change ...func(*Options)) *rig {
	t.Helper()
	if fs == nil {
		fs = vfs.NewMem()
	}
	return startIn(t, newNetwork(), fs, change...)
}

// startIn is start in a network that others are in already.
func startIn(t testing.TB, n *network, fs *vfs.Mem, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, fs: fs, net: n, done: make(chan error, 1), notes: make(chan note, 1000)}
	o := testOptions()
	o.FS, o.Listen, o.Dial = fs, r.net.listen, r.net.dial
	for _, f := range change {
		f(&o)
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.b, r.cancel = b, cancel
	go func() { r.done <- b.Run(ctx) }()
	select {
	case <-b.Ready():
	case err := <-r.done:
		t.Fatalf("the broker ended: %v", err)
	}
	r.client = r.newClient(remoting.JSON)
	t.Cleanup(r.stop)
	return r
}

func (r *rig) newClient(kind byte) *remoting.Client {
	return remoting.NewClient(remoting.ClientOptions{Dial: r.net.dial, Serialize: kind, OnRequest: func(_ string, q *remoting.Request) {
		r.notes <- note{q.Code, q.Ext.Map()}
	}})
}

// stop ends the broker cleanly; a second call does nothing.
func (r *rig) stop() {
	if r.cancel == nil {
		return
	}
	r.client.Close()
	r.cancel()
	r.cancel = nil
	if err := <-r.done; err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

// call asks the broker and returns the answer, whatever its code.
func (r *rig) call(code int, ext map[string]string, body []byte) *remoting.Response {
	r.t.Helper()
	return r.callOn(r.client, r.b.Addr(), code, ext, body)
}

func (r *rig) callOn(c *remoting.Client, addr string, code int, ext map[string]string, body []byte) *remoting.Response {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	resp, err := c.Call(ctx, addr, code, remoting.Map(ext), body)
	var remote *remoting.Error
	if err != nil && !errors.As(err, &remote) {
		r.t.Fatalf("code %d: %v", code, err)
	}
	return resp
}

// settle waits until what is stored is visible: whoever stored it may have left
// that to another goroutine that was just at it. The end of the log can lie
// behind the last message (a file's filler), so it gives up after a while.
func (r *rig) settle() {
	for range 10_000 {
		p := r.b.store.Positions()
		if p.Dispatched >= p.Flushed && (r.b.store.SyncFlush() || p.Dispatched >= p.Max) {
			return
		}
		runtime.Gosched()
	}
}

// wants checks an answer's code and the beginning of its remark.
func (r *rig) wants(resp *remoting.Response, code int, remark string) {
	r.t.Helper()
	if resp.Code != code || !strings.HasPrefix(resp.Remark, remark) {
		r.t.Errorf("answer %d %q, want %d %q", resp.Code, resp.Remark, code, remark)
	}
}

// props encodes name, value pairs.
func props(kv ...string) string {
	var b []byte
	for i := 0; i+1 < len(kv); i += 2 {
		b = record.AppendProperty(b, kv[i], kv[i+1])
	}
	return string(b)
}

// sendExt is the header of a send in long names (code 10).
func sendExt(topic string, queue int, properties string, change ...string) map[string]string {
	m := map[string]string{"producerGroup": "PG", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
		"queueId": strconv.Itoa(queue), "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": properties,
		"reconsumeTimes": "0", "unitMode": "false", "batch": "false"}
	for i := 0; i+1 < len(change); i += 2 {
		m[change[i]] = change[i+1]
	}
	return m
}

// v2 turns long names into the letters of 310 and 320.
func v2(m map[string]string) map[string]string {
	letters := map[string]string{"producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e",
		"sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j", "unitMode": "k",
		"maxReconsumeTimes": "l", "batch": "m"}
	out := map[string]string{}
	for k, v := range m {
		out[letters[k]] = v
	}
	return out
}

// send stores one message and returns the answer.
func (r *rig) send(topic string, queue int, body string, kv ...string) *remoting.Response {
	r.t.Helper()
	return r.call(310, v2(sendExt(topic, queue, props(kv...))), []byte(body))
}

func (r *rig) mustSend(topic string, queue int, body string, kv ...string) *remoting.Response {
	r.t.Helper()
	resp := r.send(topic, queue, body, kv...)
	if resp.Code != 0 {
		r.t.Fatalf("send to %s: %d %s", topic, resp.Code, resp.Remark)
	}
	return resp
}

// pullExt is the header of a pull that carries its subscription.
func pullExt(group, topic string, queue int, offset int64, change ...string) map[string]string {
	m := map[string]string{"consumerGroup": group, "topic": topic, "queueId": strconv.Itoa(queue), "queueOffset": strconv.FormatInt(offset, 10),
		"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "1", "expressionType": "TAG"}
	for i := 0; i+1 < len(change); i += 2 {
		m[change[i]] = change[i+1]
	}
	return m
}

// message is a stored message as a test looks at it.
type message struct {
	topic, body string
	queue       int32
	offset      int64
	phys        int64
	reconsumed  int32
	sysFlag     int32
	flag        int32
	props       map[string]string
	text        string
}

// messages cuts the body of a pull.
func messages(t testing.TB, body []byte) []message {
	t.Helper()
	var ms []message
	for len(body) > 0 {
		v, err := record.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		m := message{topic: string(v.Topic()), body: string(v.Body()), queue: v.QueueID(), offset: int64(v.QueueOffset()), phys: int64(v.PhysOffset()),
			reconsumed: v.ReconsumeTimes(), sysFlag: v.SysFlag(), flag: v.Flag(), props: map[string]string{}, text: string(v.Properties())}
		record.EachProperty(v.Properties(), func(name, value []byte) bool {
			if _, ok := m.props[string(name)]; ok {
				t.Errorf("property %s twice in %q", name, v.Properties())
			}
			m.props[string(name)] = string(value)
			return true
		})
		ms = append(ms, m)
		body = body[v.Size():]
	}
	return ms
}

// pull returns what a pull of one queue from offset finds.
func (r *rig) pull(group, topic string, queue int, offset int64, change ...string) (*remoting.Response, []message) {
	r.t.Helper()
	r.settle()
	resp := r.call(11, pullExt(group, topic, queue, offset, change...), nil)
	if resp.Code != 0 {
		return resp, nil
	}
	return resp, messages(r.t, resp.Body)
}

// all reads a whole queue.
func (r *rig) all(topic string, queue int) []message {
	r.t.Helper()
	var ms []message
	for offset := int64(0); ; {
		resp, found := r.pull("reader", topic, queue, offset)
		if resp.Code != 0 {
			if resp.Code != 19 {
				r.t.Fatalf("pull of %s/%d at %d: %d %s", topic, queue, offset, resp.Code, resp.Remark)
			}
			return ms
		}
		ms = append(ms, found...)
		offset, _ = strconv.ParseInt(resp.Ext["nextBeginOffset"], 10, 64)
	}
}

// subscription is one entry of a heartbeat.
type testSub struct {
	topic, expression, kind string
	version                 int64
}

// heartbeat registers the rig's client as a consumer of group.
func (r *rig) heartbeat(c *remoting.Client, clientID, group, model string, subs ...testSub) *remoting.Response {
	r.t.Helper()
	type sub = map[string]any
	var data []sub
	for _, s := range append(subs, testSub{topic: "%RETRY%" + group, expression: "*", version: 1}) {
		d := sub{"topic": s.topic, "subString": s.expression, "subVersion": s.version, "classFilterMode": false, "tagsSet": []string{}, "codeSet": []string{}}
		if s.expression != "*" {
			d["tagsSet"] = strings.Split(s.expression, "||")
		}
		d["expressionType"] = "TAG"
		if s.kind != "" {
			d["expressionType"] = s.kind
		}
		data = append(data, d)
	}
	body, err := json.Marshal(map[string]any{"clientID": clientID, "producerDataSet": []any{map[string]any{"groupName": "CLIENT_INNER_PRODUCER"}},
		"consumerDataSet": []any{map[string]any{"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": model,
			"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": data, "unitMode": false}}})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.callOn(c, r.b.Addr(), 34, nil, body)
}

// inBubble runs a test with a broker in virtual time.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
