package compat

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// send sends n messages synchronously and returns the ids of those acknowledged.
func send(t *testing.T, p rocketmq.Producer, n int, make func(i int) *primitive.Message) (ids []string) {
	t.Helper()
	for i := range n {
		r, err := p.SendSync(context.Background(), make(i))
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if r.Status != primitive.SendOK || len(r.OffsetMsgID) != 32 {
			t.Fatalf("message %d: %v", i, r)
		}
		ids = append(ids, r.MsgID)
	}
	return ids
}

func TestSendSync(t *testing.T) {
	topic := name(t, "t")
	p := target.producer(t)
	// the topic does not exist: the first send creates it
	ids := send(t, p, 200, func(i int) *primitive.Message {
		m := primitive.NewMessage(topic, bytes.Repeat([]byte{byte(i)}, i*97))
		if i == 0 {
			m.Body = []byte("x")
		}
		return m.WithTag("TagA").WithKeys([]string{"k" + strconv.Itoa(i)})
	})
	r := newReceived()
	target.consumer(t, name(t, "g"), topic, everything, r.collect)
	if twice := r.all(t, 60*time.Second, ids); twice != 0 {
		t.Errorf("%d messages came twice", twice)
	}
	for _, m := range r.msgs {
		i, _ := strconv.Atoi(strings.TrimPrefix(m.GetKeys(), "k"))
		want := bytes.Repeat([]byte{byte(i)}, i*97)
		if i == 0 {
			want = []byte("x")
		}
		if !bytes.Equal(m.Body, want) || m.GetTags() != "TagA" || m.Topic != topic {
			t.Fatalf("message %d differs: topic %s, tags %s, %d bytes", i, m.Topic, m.GetTags(), len(m.Body))
		}
	}
}

func TestSendAsync(t *testing.T) {
	topic := name(t, "t")
	target.createTopic(t, topic, 8)
	p := target.producer(t)
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Add(1)
		err := p.SendAsync(context.Background(), func(_ context.Context, res *primitive.SendResult, err error) {
			defer wg.Done()
			if err != nil {
				t.Errorf("message %d: %v", i, err)
				return
			}
			mu.Lock()
			ids = append(ids, res.MsgID)
			mu.Unlock()
		}, primitive.NewMessage(topic, []byte("async "+strconv.Itoa(i))))
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	r := newReceived()
	target.consumer(t, name(t, "g"), topic, everything, r.collect)
	r.all(t, 60*time.Second, ids)
}

func TestSendOneWay(t *testing.T) {
	topic := name(t, "t")
	target.createTopic(t, topic, 4)
	p := target.producer(t)
	for i := range 100 {
		if err := p.SendOneWay(context.Background(), primitive.NewMessage(topic, []byte(strconv.Itoa(i)))); err != nil {
			t.Fatal(err)
		}
	}
	r := newReceived()
	target.consumer(t, name(t, "g"), topic, everything, r.collect)
	r.wait(t, 60*time.Second, "100 one-way messages", func() bool { return len(r.seen) == 100 })
}

func TestSendBatch(t *testing.T) {
	topic := name(t, "t")
	target.createTopic(t, topic, 4)
	p := target.producer(t)
	bodies := map[string]bool{}
	for b := range 10 {
		var msgs []*primitive.Message
		for i := range 32 {
			body := fmt.Sprintf("batch %d item %d", b, i)
			bodies[body] = true
			msgs = append(msgs, primitive.NewMessage(topic, []byte(body)).WithTag("B"))
		}
		res, err := p.SendSync(context.Background(), msgs...)
		if err != nil || res.Status != primitive.SendOK {
			t.Fatal(res, err)
		}
	}
	r := newReceived()
	target.consumer(t, name(t, "g"), topic, everything, r.collect)
	got := func() bool {
		seen := map[string]bool{}
		for _, m := range r.msgs {
			if !bodies[string(m.Body)] {
				t.Errorf("unknown body %q", m.Body)
			}
			seen[string(m.Body)] = true
		}
		return len(seen) == len(bodies)
	}
	r.wait(t, 60*time.Second, "320 batched messages", got)
}

func TestDelay(t *testing.T) {
	topic := name(t, "t")
	target.createTopic(t, topic, 2)
	p := target.producer(t)
	r := newReceived()
	target.consumer(t, name(t, "g"), topic, everything, r.collect)
	born := map[string]time.Time{}
	want := map[string]time.Duration{}
	for level, d := range map[int]time.Duration{1: time.Second, 2: 5 * time.Second} {
		m := primitive.NewMessage(topic, []byte("later"))
		m.WithDelayTimeLevel(level)
		sent := time.Now()
		res, err := p.SendSync(context.Background(), m)
		if err != nil {
			t.Fatal(err)
		}
		born[res.MsgID], want[res.MsgID] = sent, d
	}
	r.wait(t, 60*time.Second, "2 delayed messages", func() bool { return len(r.msgs) == 2 })
	for _, m := range r.msgs {
		took := time.UnixMilli(m.StoreTimestamp).Sub(born[m.MsgId])
		if d := want[m.MsgId]; took < d-5*time.Millisecond || took > d+2*time.Second {
			t.Errorf("a message of %v was delivered after %v", d, took)
		}
	}
}

func TestOrdered(t *testing.T) {
	topic := name(t, "t")
	target.createTopic(t, topic, 4)
	p := target.producer(t, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	const keys, each = 7, 60
	var ids []string
	for i := range each {
		for k := range keys {
			m := primitive.NewMessage(topic, []byte(strconv.Itoa(i))).WithShardingKey("key" + strconv.Itoa(k))
			res, err := p.SendSync(context.Background(), m)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, res.MsgID)
		}
	}
	r := newReceived()
	next := map[string]int{}
	var mu sync.Mutex
	target.consumer(t, name(t, "g"), topic, everything, func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range msgs {
			key := m.GetShardingKey()
			if i, _ := strconv.Atoi(string(m.Body)); i != next[key] {
				t.Errorf("%s: got %d, want %d", key, i, next[key])
			}
			next[key]++
		}
		r.add(msgs...)
		return consumer.ConsumeSuccess, nil
	}, consumer.WithConsumerOrder(true))
	r.all(t, 90*time.Second, ids)
}

func TestTags(t *testing.T) {
	topic := name(t, "t")
	target.createTopic(t, topic, 3)
	p := target.producer(t)
	// the client hashes UTF-8 bytes where the log has Java's hash: a broker that
	// believes its hashes never delivers the fourth tag
	fourth := "größe"
	if target.foreign {
		fourth = "yellow"
	}
	tags := []string{"red", "green", "blue", fourth}
	var wanted []string
	for i, id := range send(t, p, 200, func(i int) *primitive.Message {
		return primitive.NewMessage(topic, []byte("x")).WithTag(tags[i%4])
	}) {
		if i%4 == 0 || i%4 == 3 {
			wanted = append(wanted, id)
		}
	}
	r := newReceived()
	target.consumer(t, name(t, "g"), topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "red || " + fourth}, r.collect)
	r.all(t, 60*time.Second, wanted)
	for _, m := range r.msgs {
		if tag := m.GetTags(); tag != "red" && tag != fourth {
			t.Errorf("tag %s does not match", tag)
		}
	}
}

func TestBroadcast(t *testing.T) {
	topic, group := name(t, "t"), name(t, "g")
	target.createTopic(t, topic, 4)
	p := target.producer(t)
	a, b := newReceived(), newReceived()
	for _, r := range []*received{a, b} {
		target.consumer(t, group, topic, everything, r.collect, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	ids := send(t, p, 100, func(i int) *primitive.Message { return primitive.NewMessage(topic, []byte("all")) })
	a.all(t, 60*time.Second, ids)
	b.all(t, 60*time.Second, ids)
}

// TestClustering shares the queues of a topic between two members; each message goes to one of them.
func TestClustering(t *testing.T) {
	topic, group := name(t, "t"), name(t, "g")
	target.createTopic(t, topic, 8)
	p := target.producer(t)
	both, a, b := newReceived(), newReceived(), newReceived()
	for _, r := range []*received{a, b} {
		target.consumer(t, group, topic, everything, func(ctx context.Context, m ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			r.add(m...)
			return both.collect(ctx, m...)
		})
	}
	// keep sending until both have had something: the second member gets its
	// queues only after the notice of its arrival
	var ids []string
	deadline := time.Now().Add(60 * time.Second)
	share := func(r *received) int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.msgs) }
	for len(ids) < 400 || share(a) == 0 || share(b) == 0 {
		if time.Now().After(deadline) {
			t.Fatalf("one member gets nothing: %d and %d of %d", share(a), share(b), len(ids))
		}
		ids = append(ids, send(t, p, 20, func(i int) *primitive.Message { return primitive.NewMessage(topic, []byte("one")) })...)
	}
	both.all(t, 60*time.Second, ids)
}

func TestRetryToDeadLetter(t *testing.T) {
	topic, group := name(t, "t"), name(t, "g")
	target.createTopic(t, topic, 2)
	p := target.producer(t)
	r := newReceived()
	target.consumer(t, group, topic, everything, func(ctx context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		c, _ := primitive.GetConcurrentlyCtx(ctx)
		c.DelayLevelWhenNextConsume = 1
		t.Logf("%s: try %d", time.Now().Format(time.TimeOnly), msgs[0].ReconsumeTimes)
		r.add(msgs...)
		return consumer.ConsumeRetryLater, nil
	}, consumer.WithMaxReconsumeTimes(2))
	ids := send(t, p, 1, func(i int) *primitive.Message {
		return primitive.NewMessage(topic, []byte("poison")).WithTag("P").WithKeys([]string{"bad"})
	})
	r.wait(t, 120*time.Second, "first try and 2 retries", func() bool { return r.seen[ids[0]] == 3 })
	for i, m := range r.msgs {
		if m.ReconsumeTimes != int32(i) || m.Topic != topic {
			t.Errorf("try %d: reconsumeTimes %d, topic %s", i, m.ReconsumeTimes, m.Topic)
		}
	}
	dead := newReceived()
	deadTopic := "%DLQ%" + group
	waitRoute(t, target, deadTopic)
	target.consumer(t, name(t, "dlq"), deadTopic, everything, dead.collect)
	dead.all(t, 60*time.Second, ids)
	m := dead.msgs[0]
	if string(m.Body) != "poison" || m.GetTags() != "P" || m.GetProperty("RETRY_TOPIC") != topic {
		t.Errorf("dead letter: %v", m)
	}
}

// waitRoute sends nothing; it asks the nameserver until the topic is routed.
func waitRoute(t *testing.T, b *broker, topic string) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	end := time.After(30 * time.Second)
	for {
		if routed(t, b, topic) {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: no route", topic)
		}
	}
}
