package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/subgroup"
)

// backExt is the header of a send-back.
func backExt(group string, m message, level int, kv ...string) map[string]string {
	ext := map[string]string{"offset": strconv.FormatInt(m.phys, 10), "group": group, "delayLevel": strconv.Itoa(level), "originMsgId": m.props["UNIQ_KEY"],
		"originTopic": m.topic, "unitMode": "false"}
	for i := 0; i+1 < len(kv); i += 2 {
		ext[kv[i]] = kv[i+1]
	}
	return ext
}

// TestSendBack follows one message through its retries into the dead letter topic.
func TestSendBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.heartbeat(r.client, "c1", "g", "CLUSTERING", testSub{"T", "*", "", 1})
		r.mustSend("T", 0, "work", "UNIQ_KEY", "ABC", "KEYS", "k", "TAGS", "TagA", "WAIT", "true", "mine", "x")
		m := r.all("T", 0)[0]
		origin := fmt.Sprintf("7F00000100002A9F%016X", m.phys)
		for attempt := 1; attempt <= 2; attempt++ {
			r.wants(r.call(36, backExt("g", m, 1, "maxReconsumeTimes", "2"), nil), 0, "")
			if got := r.all("%RETRY%g", 0); len(got) != attempt-1 {
				t.Fatalf("attempt %d: %d messages before the delay is over", attempt, len(got))
			}
			begin := time.Now()
			for len(r.all("%RETRY%g", 0)) < attempt {
				<-time.After(10 * time.Millisecond)
				if time.Since(begin) > 5*time.Second {
					t.Fatal("the retry does not come")
				}
			}
			if took := time.Since(begin); took < 900*time.Millisecond || took > 1200*time.Millisecond {
				t.Errorf("level 1 took %v", took)
			}
			m = r.all("%RETRY%g", 0)[attempt-1]
			want := map[string]string{"ORIGIN_MESSAGE_ID": origin, "RETRY_TOPIC": "T", "UNIQ_KEY": "ABC", "KEYS": "k", "TAGS": "TagA", "WAIT": "false",
				"mine": "x", "MSG_REGION": "DefaultRegion", "CLUSTER": "DefaultCluster", "TRACE_ON": "true", "REAL_TOPIC": "%RETRY%g", "REAL_QID": "0"}
			for k, v := range want {
				if m.props[k] != v {
					t.Errorf("attempt %d: %s = %q, want %q", attempt, k, m.props[k], v)
				}
			}
			if m.reconsumed != int32(attempt) || m.body != "work" {
				t.Errorf("attempt %d: %+v", attempt, m)
			}
		}
		r.wants(r.call(36, backExt("g", m, 1, "maxReconsumeTimes", "2"), nil), 0, "")
		dead := r.all("%DLQ%g", 0)
		if len(dead) != 1 || dead[0].body != "work" || dead[0].reconsumed != 3 || dead[0].props["DELAY"] != "0" || dead[0].props["ORIGIN_MESSAGE_ID"] != origin {
			t.Fatalf("dead letters %+v", dead)
		}
		if c := r.b.topics.Get("%DLQ%g"); c == nil || c.WriteQueueNums != 1 || c.Perm != 6 {
			t.Errorf("dead letter topic %+v", c)
		}
	})
}

func TestSendBackChecks(t *testing.T) {
	cases := []struct {
		name   string
		opts   func(*Options)
		group  func(*subgroup.Config)
		ext    func(m message) map[string]string
		want   int
		remark string
		dead   bool
		stored bool // in the schedule topic
		silent bool // not answered: the client of the test speaks Go
		level  string
	}{
		{name: "level chosen", ext: func(m message) map[string]string { return backExt("g", m, 0) }, stored: true, level: "3"},
		{name: "level given", ext: func(m message) map[string]string { return backExt("g", m, 5) }, stored: true, level: "5"},
		{name: "level beyond the last", ext: func(m message) map[string]string { return backExt("g", m, 99) }, stored: true, level: "18"},
		{name: "to the dead letters at once", ext: func(m message) map[string]string { return backExt("g", m, -1) }, dead: true},
		{name: "no retries allowed", group: func(c *subgroup.Config) { c.RetryMaxTimes = 0 }, ext: func(m message) map[string]string { return backExt("g", m, 0) }, dead: true},
		{name: "the client's limit counts", group: func(c *subgroup.Config) { c.RetryMaxTimes = 0 },
			ext: func(m message) map[string]string { return backExt("g", m, 0, "maxReconsumeTimes", "3") }, stored: true, level: "3"},
		{name: "no retry queues: dropped", group: func(c *subgroup.Config) { c.RetryQueueNums = 0 }, ext: func(m message) map[string]string { return backExt("g", m, 0) }},
		{name: "group cannot be", ext: func(m message) map[string]string { return backExt("Bad Group!", m, 0) }, want: 26},
		{name: "broker not writable", opts: func(o *Options) { o.Reloadable.Permission = 4 }, ext: func(m message) map[string]string { return backExt("g", m, 0) }, silent: true},
		{name: "no message there", ext: func(m message) map[string]string { m.phys += 3; return backExt("g", m, 0) }, want: 1, remark: "look message by offset failed, "},
		{name: "beyond the end", ext: func(m message) map[string]string { m.phys = 1 << 40; return backExt("g", m, 0) }, want: 1},
		{name: "negative", ext: func(m message) map[string]string { m.phys = -1; return backExt("g", m, 0) }, want: 1},
		{name: "missing fields", ext: func(message) map[string]string { return map[string]string{"group": "g"} }, want: 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var changes []func(*Options)
				if c.opts != nil {
					changes = append(changes, c.opts)
				}
				r := start(t, nil, changes...)
				g := subgroup.Defaults("g")
				if c.group != nil {
					c.group(&g)
				}
				if _, err := r.b.groups.Put(g); err != nil {
					t.Fatal(err)
				}
				r.mustSend("T", 0, "work")
				m := r.all("T", 0)[0]
				if c.silent {
					r.silent(36, c.ext(m))
				} else {
					r.wants(r.call(36, c.ext(m), nil), c.want, c.remark)
				}
				if got := r.b.store.Lookup([]byte("%DLQ%g"), 0) != nil; got != c.dead {
					t.Errorf("dead letter: %t, want %t", got, c.dead)
				}
				stored := ""
				for _, q := range r.b.store.Queues(topic.Schedule) {
					if q.Max() > 0 {
						stored = strconv.Itoa(int(q.ID()) + 1)
					}
				}
				if stored != c.level || (stored != "") != c.stored {
					t.Errorf("delayed by level %q, want %q", stored, c.level)
				}
			})
		})
	}
}

// silent checks that a request gets no answer, as one from the Go client.
func (r *rig) silent(code int, ext map[string]string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	resp, err := r.client.Call(ctx, r.b.Addr(), code, remoting.Map(ext), nil)
	var late *remoting.TimeoutError
	if !errors.As(err, &late) {
		r.t.Errorf("code %d: answered %+v (%v), want none", code, resp, err)
	}
}

// asJava asks as a Java client on a connection of its own.
func (r *rig) asJava(code int, ext map[string]string) remoting.Header {
	r.t.Helper()
	frame, err := remoting.AppendFrame(nil, &remoting.Header{Code: code, Language: "JAVA", Version: 479, Opaque: 1}, remoting.Map(ext), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := r.net.dial(context.Background(), r.b.Addr())
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(frame); err != nil {
		r.t.Fatal(err)
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(c, size); err != nil {
		r.t.Fatal(err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(size))
	if _, err := io.ReadFull(c, answer); err != nil {
		r.t.Fatal(err)
	}
	h, _, err := remoting.DecodeFrame(append(size, answer...))
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// TestClientMadeRetry: what consumers send to a retry topic themselves.
func TestClientMadeRetry(t *testing.T) {
	cases := []struct {
		name    string
		locked  bool
		kv      []string
		dead    bool
		delayed bool
	}{
		{name: "stays", kv: []string{"reconsumeTimes", "2"}},
		{name: "delayed", kv: []string{"reconsumeTimes", "2", "properties", props("DELAY", "5")}, delayed: true},
		{name: "at the limit stays", kv: []string{"reconsumeTimes", "16"}},
		{name: "over the limit", kv: []string{"reconsumeTimes", "17"}, dead: true},
		{name: "over the client's limit", kv: []string{"reconsumeTimes", "2", "maxReconsumeTimes", "1", "properties", props("DELAY", "4")}, dead: true},
		{name: "an ordered consumer gave up", locked: true, kv: []string{"reconsumeTimes", "1", "properties", props("DELAY", "4")}, dead: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := start(t, nil)
				r.heartbeat(r.client, "c1", "g", "CLUSTERING", testSub{"T", "*", "", 1})
				if c.locked {
					r.wants(r.call(41, nil, []byte(`{"clientId":"c1","consumerGroup":"g","mqSet":[{"brokerName":"broker-a","queueId":0,"topic":"T"}]}`)), 0, "")
				}
				resp := r.call(310, v2(sendExt("%RETRY%g", 0, "", c.kv...)), []byte("work"))
				r.wants(resp, 0, "")
				if resp.Ext["queueId"] != "0" || resp.Ext["queueOffset"] != "0" {
					t.Errorf("answer %v", resp.Ext)
				}
				at := "%RETRY%g"
				if c.dead {
					at = "%DLQ%g"
				}
				if c.delayed {
					if q := r.b.store.Lookup([]byte(topic.Schedule), 4); q == nil || q.Max() != 1 {
						t.Error("not in the schedule topic")
					}
					return
				}
				ms := r.all(at, 0)
				if len(ms) != 1 {
					t.Fatalf("%d messages in %s", len(ms), at)
				}
				if c.dead && ms[0].props["DELAY"] != "0" {
					t.Errorf("dead letter %v", ms[0].props)
				}
			})
		})
	}
}

// TestDelay: a delayed message comes on time and into its queue, also after a
// restart in between.
func TestDelay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		testTopics(t, r)
		resp := r.mustSend("Plain", 3, "later", "DELAY", "2", "TAGS", "TagA")
		if resp.Ext["queueId"] != "3" || resp.Ext["queueOffset"] != "0" {
			t.Errorf("answer %v", resp.Ext)
		}
		r.mustSend("Plain", 1, "much later", "DELAY", "3")
		<-time.After(4900 * time.Millisecond)
		if got := r.all("Plain", 3); len(got) != 0 {
			t.Fatalf("too early: %+v", got)
		}
		<-time.After(300 * time.Millisecond)
		got := r.all("Plain", 3)
		if len(got) != 1 || got[0].body != "later" || got[0].props["REAL_TOPIC"] != "Plain" || got[0].props["REAL_QID"] != "3" || got[0].props["TAGS"] != "TagA" {
			t.Fatalf("after 5.2 s: %+v", got)
		}
		if got[0].props["DELAY"] != "2" { // RocketMQ leaves it in the delivered text
			t.Errorf("DELAY = %q", got[0].props["DELAY"])
		}
		r.stop()
		r = start(t, r.fs)
		<-time.After(4600 * time.Millisecond)
		if got := r.all("Plain", 1); len(got) != 0 {
			t.Fatalf("too early after the restart: %+v", got)
		}
		<-time.After(600 * time.Millisecond)
		if got := r.all("Plain", 1); len(got) != 1 || got[0].body != "much later" {
			t.Errorf("after the restart: %+v", got)
		}
		if got := r.all("Plain", 3); len(got) != 1 {
			t.Errorf("delivered again: %+v", got)
		}
	})
}
