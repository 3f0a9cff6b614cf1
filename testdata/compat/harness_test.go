// Package compat uses the official Go client as a user would, against a broker
// that this test starts as a process of its own. Set MQCTL_COMPAT_NAMESRV and
// MQCTL_COMPAT_BROKER (addresses) to run the same tests against another broker,
// for example the original; tests that restart the broker are then skipped.
package compat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// target is the broker all tests share unless they start their own.
var target *broker

// broker is one mqctl process with its embedded nameserver, or a foreign one.
type broker struct {
	binary, dir   string
	namesrv, addr string
	extra         []string
	mu            sync.Mutex
	cmd           *exec.Cmd
	exited        chan struct{}
	foreign       bool
}

func TestMain(m *testing.M) {
	rlog.SetLogLevel("fatal")
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	if ns := os.Getenv("MQCTL_COMPAT_NAMESRV"); ns != "" {
		target = &broker{namesrv: ns, addr: os.Getenv("MQCTL_COMPAT_BROKER"), foreign: true}
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "mqctl-compat-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "mqctl")
	build := exec.Command("go", "build", "-o", binary, "./cli/mqctl")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w\n%s", err, out)
	}
	target, err = newBroker(binary, filepath.Join(dir, "store"))
	if err != nil {
		return 1, err
	}
	defer target.kill(syscall.SIGTERM)
	return m.Run(), nil
}

// newBroker starts a broker on free ports.
func newBroker(binary, dir string, extra ...string) (*broker, error) {
	ns, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	main, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	b := &broker{binary: binary, dir: dir, extra: extra,
		namesrv: fmt.Sprintf("127.0.0.1:%d", ns), addr: fmt.Sprintf("127.0.0.1:%d", main+2)}
	return b, b.start()
}

// nextPort goes through the ports that tests take; none is given twice.
var nextPort atomic.Int64

func init() { nextPort.Store(rand.Int64N(20000)) }

// freePorts finds n adjacent free ports and returns the lowest. They lie below
// those that systems give to outgoing connections, of which one of anybody's
// could otherwise take the port before the broker does.
func freePorts(n int) (int, error) {
next:
	for range 1000 {
		low := 10240 + int(nextPort.Add(int64(n))%21600)
		for p := low; p < low+n; p++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			if err != nil {
				continue next
			}
			l.Close()
		}
		return low, nil
	}
	return 0, fmt.Errorf("no %d adjacent free ports", n)
}

// start returns when the broker has said that it is ready.
func (b *broker) start() error {
	args := append([]string{"broker", "start", "--name", "compat", "--listen", b.addr, "--store", b.dir,
		"--with-nameserver=" + b.namesrv, "--http", "off", "--output", "json"}, b.extra...)
	cmd := exec.Command(b.binary, args...)
	log, err := os.OpenFile(b.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	go func() { io.Copy(io.Discard, lines); cmd.Wait(); close(exited) }()
	var ready struct{ Schema string }
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil || ready.Schema != "mqctl.broker.ready/v1" {
		cmd.Process.Kill()
		<-exited
		text, _ := os.ReadFile(b.dir + ".log")
		return fmt.Errorf("broker start: no ready line (%q, %v); its log:\n%s", line, err, text)
	}
	b.mu.Lock()
	b.cmd, b.exited = cmd, exited
	b.mu.Unlock()
	return nil
}

// kill ends the process and waits for it.
func (b *broker) kill(sig syscall.Signal) {
	b.mu.Lock()
	cmd, exited := b.cmd, b.exited
	b.mu.Unlock()
	if cmd == nil {
		return
	}
	cmd.Process.Signal(sig)
	<-exited
}

// own starts a broker for one test.
func own(t *testing.T, extra ...string) *broker {
	t.Helper()
	if target.foreign {
		t.Skip("restarts its broker: only with a broker of our own")
	}
	b, err := newBroker(target.binary, filepath.Join(t.TempDir(), "store"), extra...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.kill(syscall.SIGKILL) })
	return b
}

// createTopic makes the topic on the broker through the client's own admin call.
func (b *broker) createTopic(t *testing.T, topic string, queues int) {
	t.Helper()
	a, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{b.namesrv})))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	err = a.CreateTopic(context.Background(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(b.addr),
		admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues))
	if err != nil {
		t.Fatal(err)
	}
}

var instances struct {
	sync.Mutex
	n int
}

func instance() string {
	instances.Lock()
	defer instances.Unlock()
	instances.n++
	return fmt.Sprintf("i%d-%d", instances.n, time.Now().UnixNano())
}

// name makes a topic or group name that no earlier run has used.
func name(t *testing.T, what string) string {
	return fmt.Sprintf("%s-%s-%d", what, t.Name(), time.Now().UnixNano())
}

func producerOptions(namesrv string, retries int) []producer.Option {
	return []producer.Option{
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		producer.WithInstanceName(instance()), producer.WithGroupName("compat-producer"), producer.WithRetry(retries),
	}
}

func (b *broker) producer(t *testing.T, opts ...producer.Option) rocketmq.Producer {
	t.Helper()
	p, err := rocketmq.NewProducer(append(producerOptions(b.namesrv, 2), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Shutdown() })
	return p
}

// received counts messages by their unique id and wakes waiters.
type received struct {
	mu   sync.Mutex
	msgs []*primitive.MessageExt
	seen map[string]int
	more chan struct{}
}

func newReceived() *received {
	return &received{seen: map[string]int{}, more: make(chan struct{}, 1)}
}

func (r *received) add(msgs ...*primitive.MessageExt) {
	r.mu.Lock()
	for _, m := range msgs {
		r.seen[m.MsgId]++
		r.msgs = append(r.msgs, m)
	}
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// wait returns when done says so (asked under the lock), or fails after d.
func (r *received) wait(t *testing.T, d time.Duration, what string, done func() bool) {
	t.Helper()
	end := time.After(d)
	for {
		r.mu.Lock()
		ok := done()
		n, ids := len(r.msgs), len(r.seen)
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.more:
		case <-end:
			t.Fatalf("%s: not within %v; %d messages, %d ids so far", what, d, n, ids)
		}
	}
}

// all waits until every id was consumed, and returns how many came twice.
func (r *received) all(t *testing.T, d time.Duration, ids []string) (twice int) {
	t.Helper()
	r.wait(t, d, fmt.Sprintf("%d acknowledged messages", len(ids)), func() bool {
		if len(r.seen) < len(ids) {
			return false
		}
		for _, id := range ids {
			if r.seen[id] == 0 {
				return false
			}
		}
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.seen {
		twice += n - 1
	}
	return twice
}

func (b *broker) consumer(t *testing.T, group, topic string, sel consumer.MessageSelector,
	f func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error), opts ...consumer.Option) rocketmq.PushConsumer {
	t.Helper()
	c, err := rocketmq.NewPushConsumer(append([]consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{b.namesrv})),
		consumer.WithInstance(instance()), consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Subscribe(topic, sel, f); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Shutdown() })
	return c
}

// collect is a listener that accepts everything.
func (r *received) collect(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	r.add(msgs...)
	return consumer.ConsumeSuccess, nil
}

var everything = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}

// awake is how long the machine has let this process run: limits are counted by it,
// since what takes long while nobody gets a processor is no fault of a broker.
var awake atomic.Int64

func init() {
	go func() {
		last := time.Now()
		for now := range time.Tick(10 * time.Millisecond) {
			awake.Add(int64(min(now.Sub(last), 100*time.Millisecond)))
			last = now
		}
	}()
}

// sinceAwake is the time since a reading of awake.
func sinceAwake(begun int64) time.Duration { return time.Duration(awake.Load() - begun) }

// until asks again and again, since what a foreign process does cannot be waited for.
func until(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for begun := awake.Load(); !ok(); <-tick.C {
		if sinceAwake(begun) > d {
			t.Fatalf("%s: not within %v", what, d)
		}
	}
}

// mqctl runs our own command and returns its stdout.
func (b *broker) mqctl(t *testing.T, exit int, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(target.binary, append(args, "--namesrv", b.namesrv)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != exit {
		t.Fatalf("mqctl %v: exit %d, want %d\n%s%s", args, code, exit, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes()
}
