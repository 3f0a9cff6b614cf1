//go:build scenarios

package compat

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"github.com/apache/rocketmq-client-go/v2"
)

// node is one broker process of a pair.
type node struct {
	t        *testing.T
	dir      string
	args     []string
	id       int
	addr, ha string
	proc     *child
}

func (n *node) start() {
	n.t.Helper()
	c, err := launch(n.dir+".log", n.args...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.proc = c
}

func (n *node) kill(sig syscall.Signal) { n.proc.kill(sig) }

// fast is the address of the second port, two below the first.
func (n *node) fast() string {
	host, text, err := net.SplitHostPort(n.addr)
	port, perr := strconv.Atoi(text)
	if err != nil || perr != nil {
		n.t.Fatal(n.addr, err, perr)
	}
	return net.JoinHostPort(host, strconv.Itoa(port-2))
}

// pair is a nameserver, a master and a slave, each a process of its own.
type pair struct {
	*broker // the client's side: addr is the master's
	t       *testing.T
	dir     string
	ns      *child
	master  *node
	slave   *node
}

const pairName = "pair"

// newPair starts a pair; more are settings (key=value) of both brokers.
func newPair(t *testing.T, more ...string) *pair {
	t.Helper()
	p := newNameserver(t)
	p.master, p.slave = p.node(0, more...), p.node(1, more...)
	p.broker.addr = p.master.addr
	p.run()
	return p
}

// newNameserver starts the nameserver of a pair.
func newNameserver(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t, dir: t.TempDir()}
	port, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	p.broker = &broker{binary: target.binary, namesrv: fmt.Sprintf("127.0.0.1:%d", port)}
	if p.ns, err = launch(filepath.Join(p.dir, "ns.log"), "nameserver", "start", "--listen", p.namesrv,
		"--kv-file", filepath.Join(p.dir, "kv.json")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.ns.kill(syscall.SIGKILL) })
	return p
}

// run starts both brokers.
func (p *pair) run() {
	p.t.Helper()
	t := p.t
	p.master.start()
	p.slave.start()
	t.Cleanup(func() {
		for _, n := range []*node{p.master, p.slave} {
			n.proc.cmd.Process.Signal(syscall.SIGCONT)
			n.kill(syscall.SIGKILL)
			if t.Failed() {
				text, _ := os.ReadFile(n.dir + ".log")
				t.Logf("log of broker %d:\n%s", n.id, tail(text, 6000))
			}
		}
	})
}

// node describes a broker of the pair, by default a master for id 0.
func (p *pair) node(id int, more ...string) *node {
	p.t.Helper()
	port, err := freePorts(4)
	if err != nil {
		p.t.Fatal(err)
	}
	n := &node{t: p.t, id: id, dir: filepath.Join(p.dir, "store-"+strconv.Itoa(id)),
		addr: fmt.Sprintf("127.0.0.1:%d", port+2), ha: fmt.Sprintf("127.0.0.1:%d", port+3)}
	role := "slave"
	if id == 0 {
		role = "master"
	}
	n.args = []string{"broker", "start", "--name", pairName, "--id", strconv.Itoa(id), "--role", role, "--listen", n.addr,
		"--store", n.dir, "-n", p.namesrv, "--no-nameserver", "--http", "off",
		"--set", "slaveReadEnable=true", "--set", "mappedFileSizeCommitLog=67108864", "--set", "flushConsumerOffsetInterval=1000"}
	for _, kv := range more {
		if kv == "SYNC_MASTER" {
			if id == 0 {
				n.args[7] = "sync-master"
			}
			continue
		}
		n.args = append(n.args, "--set", kv)
	}
	return n
}

// json runs a command and returns the items it printed.
func (p *pair) json(exit int, args ...string) []map[string]any {
	p.t.Helper()
	out := p.mqctl(p.t, exit, append(args, "--output", "json")...)
	var e struct{ Items []map[string]any }
	if exit == 0 || len(out) > 0 {
		if err := json.Unmarshal(out, &e); err != nil {
			p.t.Fatalf("mqctl %v: %v\n%s", args, err, out)
		}
	}
	return e.Items
}

// end is how long the log of a broker is.
func (p *pair) end(n *node) int64 {
	res, err := ask(n.addr, 28, nil)
	if err != nil || res.Code != 0 {
		return -1
	}
	v, err := strconv.ParseInt(res.table()["commitLogMaxOffset"], 10, 64)
	if err != nil {
		return -1
	}
	return v
}

// synced waits until the slave has all of the master's log.
func (p *pair) synced(d time.Duration) {
	p.t.Helper()
	until(p.t, d, "slave with all of the master's log", func() bool {
		m := p.end(p.master)
		return m >= 0 && m == p.end(p.slave)
	})
}

// sameLogs compares the commit logs up to the common end, byte for byte.
func (p *pair) sameLogs() {
	p.t.Helper()
	common := min(p.end(p.master), p.end(p.slave))
	if common <= 0 {
		p.t.Errorf("logs end at %d and %d", p.end(p.master), p.end(p.slave))
		return
	}
	if err := compareLogs(p.master.dir, p.slave.dir, common); err != nil {
		p.t.Error(err)
	}
}

// sameQueues compares the bounds of all queues of a topic on both brokers, and what the
// queues' files hold between them.
func (p *pair) sameQueues(topic string, queues int) {
	p.t.Helper()
	for q := range queues {
		for _, code := range []int{30, 31} {
			a, b := p.number(p.master, code, "", topic, q), p.number(p.slave, code, "", topic, q)
			if a != b {
				p.t.Errorf("code %d, queue %d: %d on the master, %d on the slave", code, q, a, b)
			}
		}
		begin, end := p.number(p.master, 31, "", topic, q), p.number(p.master, 30, "", topic, q)
		differ := func() error { return compareQueues(p.master.dir, p.slave.dir, topic, q, max(begin, 0), end) }
		for left := 100; differ() != nil && left > 0; left-- { // they are written later than read
			<-time.After(200 * time.Millisecond)
		}
		if err := differ(); err != nil {
			p.t.Error(err)
		}
	}
}

// allCommitted says whether a group's progress at n is the end of every queue. That may
// be more than was sent: a client sends again what it got no answer for in time.
func (p *pair) allCommitted(n *node, group, topic string, queues int) bool {
	for q, at := range p.progress(n, group, topic, queues) {
		if at < 0 || at != p.number(n, 30, "", topic, q) {
			return false
		}
	}
	return true
}

// number asks a broker for an offset: 14 progress, 30 end, 31 begin; -1: none.
func (p *pair) number(n *node, code int, group, topic string, queue int) int64 {
	res, err := ask(n.addr, code, map[string]string{"consumerGroup": group, "topic": topic, "queueId": strconv.Itoa(queue),
		"setZeroIfNotFound": "false"})
	if err != nil || res.Code != 0 {
		return -1
	}
	v, err := strconv.ParseInt(res.ExtFields["offset"], 10, 64)
	if err != nil {
		return -1
	}
	return v
}

// progress is a group's progress on each queue of a topic, as a broker answers it.
func (p *pair) progress(n *node, group, topic string, queues int) []int64 {
	out := make([]int64, queues)
	for q := range out {
		out[q] = p.number(n, 14, group, topic, q)
	}
	return out
}

func sum(v []int64) (n int64) {
	for _, x := range v {
		n += max(x, 0)
	}
	return n
}

// pairTopic makes a topic on the master and waits until the slave serves it.
func (p *pair) pairTopic(topic string, queues int) {
	p.t.Helper()
	p.createTopic(p.t, topic, queues)
	until(p.t, 70*time.Second, "topic on the slave", func() bool {
		res, err := ask(p.slave.addr, 351, map[string]string{"topic": topic})
		return err == nil && res.Code == 0
	})
	until(p.t, 10*time.Second, "topic in the routes", func() bool { return routed(p.t, p.broker, topic) })
}

// load sends messages at a rate from one goroutine until stop; it notes what
// became of each.
type load struct {
	mu       sync.Mutex
	ids      []string // SEND_OK
	statuses map[primitive.SendStatus]int
	errs     []error
	longest  time.Duration // of the sends
	bytes    atomic.Int64
	stop     chan struct{}
	done     chan struct{}
}

func (p *pair) load(topic string, every time.Duration, size int, retries int) *load {
	tick := time.NewTicker(every)
	return p.paced(topic, size, retries, tick.Stop, func(stop chan struct{}) bool {
		select {
		case <-stop:
			return false
		case <-tick.C:
			return true
		}
	})
}

// kept is load that makes up for what it is behind: after n times every it has sent n
// messages, unless it can do no more. A ticker drops what comes while a send is under way.
func (p *pair) kept(topic string, every time.Duration, size int) *load {
	due := time.Now()
	return p.paced(topic, size, 0, func() {}, func(stop chan struct{}) bool {
		due = due.Add(every)
		select {
		case <-stop:
			return false
		case <-time.After(time.Until(due)):
			return true
		}
	})
}

// paced sends whenever next says so, until that is false.
func (p *pair) paced(topic string, size, retries int, end func(), next func(stop chan struct{}) bool) *load {
	// The client's compression would be all that a sender of large messages does.
	prod, err := rocketmq.NewProducer(append(producerOptions(p.namesrv, retries), producer.WithCompressMsgBodyOverHowmuch(4<<20))...)
	if err == nil {
		err = prod.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	l := &load{statuses: map[primitive.SendStatus]int{}, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		defer prod.Shutdown()
		defer end()
		body := make([]byte, size)
		mrand.NewChaCha8([32]byte{}).Read(body)
		for next(l.stop) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			begin := awake.Load()
			res, err := prod.SendSync(ctx, primitive.NewMessage(topic, body))
			cancel()
			l.mu.Lock()
			l.longest = max(l.longest, sinceAwake(begin))
			switch {
			case err != nil:
				l.errs = append(l.errs, err)
			default:
				l.statuses[res.Status]++
				if res.Status == primitive.SendOK {
					l.ids = append(l.ids, res.MsgID)
					l.bytes.Add(int64(size))
				}
			}
			l.mu.Unlock()
		}
	}()
	return l
}

func (l *load) end() (ids []string, errs []error) {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	<-l.done
	return l.ids, l.errs
}

func (l *load) count() (ok, failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids), len(l.errs)
}

// consumerProcess is a consumer in a process of its own, so that it can be killed.
type consumerProcess struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	got []gotMessage
	ids map[string]int
}

type gotMessage struct {
	id     string
	queue  int
	offset int64
	at     time.Time
}

// javaConsumer is the original's push consumer; set with the java tag.
var javaConsumer func(dir, namesrv, group, topic string, slow time.Duration) *exec.Cmd

const consumerEnv = "MQCTL_COMPAT_CONSUMER"

// startConsumer runs a consumer; each message takes it slow.
func (p *pair) startConsumer(group, topic, mode string, slow time.Duration) *consumerProcess {
	p.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), consumerEnv+"="+strings.Join([]string{p.namesrv, group, topic, mode, slow.String()}, " "))
	if mode == "java" {
		cmd = javaConsumer(p.t.TempDir(), p.namesrv, group, topic, slow)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	c := &consumerProcess{cmd: cmd, ids: map[string]int{}}
	go func() {
		for sc := bufio.NewScanner(out); sc.Scan(); {
			f := strings.Fields(sc.Text())
			if len(f) != 4 || f[0] != "got" {
				continue
			}
			q, _ := strconv.Atoi(f[2])
			o, _ := strconv.ParseInt(f[3], 10, 64)
			c.mu.Lock()
			c.got = append(c.got, gotMessage{f[1], q, o, time.Now()})
			c.ids[f[1]]++
			c.mu.Unlock()
		}
		cmd.Wait()
	}()
	p.t.Cleanup(func() { cmd.Process.Kill() })
	return c
}

func (c *consumerProcess) kill() { c.cmd.Process.Kill() }

func (c *consumerProcess) count() (messages, ids int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got), len(c.ids)
}

// has reports how many of ids came, and how many messages came more than once.
func (c *consumerProcess) has(ids []string) (found, twice int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.ids[id] > 0 {
			found++
		}
	}
	for _, n := range c.ids {
		twice += n - 1
	}
	return found, twice
}

func init() {
	spec := os.Getenv(consumerEnv)
	if spec == "" {
		return
	}
	rlog.SetLogLevel("fatal")
	if err := consume(strings.Fields(spec)); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

// consume is the consumer process: it prints "got id queue offset" until it is killed.
func consume(f []string) error {
	namesrv, group, topic, mode := f[0], f[1], f[2], f[3]
	slow, err := time.ParseDuration(f[4])
	if err != nil {
		return err
	}
	var mu sync.Mutex
	listen := func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		again := false
		for _, m := range msgs {
			if slow > 0 {
				<-time.After(slow)
			}
			if mode == "retry" && m.ReconsumeTimes == 0 && m.QueueOffset%10 == 0 {
				again = true
				continue
			}
			mu.Lock()
			fmt.Printf("got %s %d %d\n", m.MsgId, m.Queue.QueueId, m.QueueOffset)
			mu.Unlock()
		}
		if again {
			return consumer.ConsumeRetryLater, nil
		}
		return consumer.ConsumeSuccess, nil
	}
	opts := []consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		consumer.WithInstance(instance()), consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithConsumeGoroutineNums(4),
	}
	switch mode {
	case "orderly":
		opts = append(opts, consumer.WithConsumerOrder(true))
	case "broadcast":
		opts = append(opts, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	c, err := rocketmq.NewPushConsumer(opts...)
	if err != nil {
		return err
	}
	if err := c.Subscribe(topic, everything, listen); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	select {}
}

// relay is a TCP relay that can be cut: open connections stall, new ones too.
type relay struct {
	l   net.Listener
	to  string
	cut atomic.Bool
}

func newRelay(t *testing.T, at, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{l: l, to: to}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	t.Cleanup(func() { l.Close() })
	return r
}

func (r *relay) serve(c net.Conn) {
	defer c.Close()
	for r.cut.Load() {
		<-time.After(10 * time.Millisecond)
	}
	out, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer out.Close()
	go r.copy(out, c)
	r.copy(c, out)
}

func (r *relay) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		for r.cut.Load() {
			<-time.After(10 * time.Millisecond)
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// textMessage makes small messages for send.
func textMessage(topic string) func(i int) *primitive.Message {
	return func(i int) *primitive.Message { return primitive.NewMessage(topic, []byte("m"+strconv.Itoa(i))) }
}
