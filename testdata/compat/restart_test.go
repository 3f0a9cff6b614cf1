package compat

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

var messages = flag.Int("messages", 20000, "messages of TestKill; 1000000 is the run that a release quotes")

func routed(t testing.TB, b *broker, topic string) bool {
	t.Helper()
	a, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{b.namesrv})))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	list, err := a.FetchAllTopicList(context.Background())
	if err != nil {
		return false
	}
	for _, name := range list.TopicList {
		if name == topic {
			return true
		}
	}
	return false
}

// TestKill sends messages of mixed sizes from several goroutines while the
// broker is killed with SIGKILL in the middle and started again; a consumer
// that runs all the time gets every message that was acknowledged.
func TestKill(t *testing.T) {
	b := own(t)
	topic := name(t, "t")
	b.createTopic(t, topic, 8)
	p := b.producer(t)
	r := newReceived()
	b.consumer(t, name(t, "g"), topic, everything, r.collect)

	const senders = 16
	var sent, refused atomic.Int64
	ids := make([][]string, senders)
	half := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	start := time.Now()
	for s := range senders {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(s), 1))
			for i := 0; int(sent.Load()) < *messages; i++ {
				size := 1 << rng.IntN(13) // 1 byte to 4 KiB, and sometimes 64 KiB
				if rng.IntN(200) == 0 {
					size = 64 << 10
				}
				m := primitive.NewMessage(topic, bytes.Repeat([]byte{byte(i)}, size)).WithKeys([]string{strconv.Itoa(i)})
				res, err := p.SendSync(context.Background(), m)
				if err != nil {
					refused.Add(1)
					continue
				}
				ids[s] = append(ids[s], res.MsgID)
				if int(sent.Add(1)) == *messages/2 {
					once.Do(func() { close(half) })
				}
			}
		})
	}
	<-half
	b.kill(syscall.SIGKILL)
	down := time.Now()
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	t.Logf("killed after %d messages, ready again after %v", sent.Load(), time.Since(down).Round(time.Millisecond))
	wg.Wait()
	t.Logf("%d acknowledged, %d refused while it was down, in %v", sent.Load(), refused.Load(), time.Since(start).Round(time.Millisecond))
	var all []string
	for _, s := range ids {
		all = append(all, s...)
	}
	twice := r.all(t, 10*time.Minute, all)
	t.Logf("all %d consumed after %v, %d came more than once", len(all), time.Since(start).Round(time.Millisecond), twice)
}

// TestDelayOverRestart keeps the delay of a message over a kill.
func TestDelayOverRestart(t *testing.T) {
	b := own(t)
	topic := name(t, "t")
	b.createTopic(t, topic, 1)
	p := b.producer(t)
	m := primitive.NewMessage(topic, []byte("later"))
	m.WithDelayTimeLevel(2)
	sent := time.Now()
	res, err := p.SendSync(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	b.kill(syscall.SIGKILL)
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	r := newReceived()
	b.consumer(t, name(t, "g"), topic, everything, r.collect)
	r.all(t, 60*time.Second, []string{res.MsgID})
	if took := time.UnixMilli(r.msgs[0].StoreTimestamp).Sub(sent); took < 5*time.Second || took > 10*time.Second {
		t.Errorf("delivered after %v, want 5 s", took)
	}
}

// TestProgressOverRestart stops the broker cleanly: what a group has consumed
// does not come again.
func TestProgressOverRestart(t *testing.T) {
	b := own(t)
	topic, group := name(t, "t"), name(t, "g")
	b.createTopic(t, topic, 4)
	p := b.producer(t)
	first := newReceived()
	c := b.consumer(t, group, topic, everything, first.collect)
	ids := send(t, p, 300, func(i int) *primitive.Message { return primitive.NewMessage(topic, []byte("once")) })
	first.all(t, 60*time.Second, ids)
	if err := c.Shutdown(); err != nil { // persists its offsets
		t.Fatal(err)
	}
	b.kill(syscall.SIGTERM)
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	again := newReceived()
	b.consumer(t, group, topic, everything, again.collect)
	more := send(t, b.producer(t), 50, func(i int) *primitive.Message { return primitive.NewMessage(topic, []byte("twice")) })
	again.all(t, 60*time.Second, more)
	if n := len(again.msgs); n != len(more) {
		t.Errorf("%d messages after the restart, want the %d new ones", n, len(more))
	}
}
