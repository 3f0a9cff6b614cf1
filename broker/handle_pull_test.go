package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/store/vfs"
	"mqctl/subgroup"
)

const faq = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

// TestPullChecks is every answer of a pull that does not wait, with code, remark
// and header. Plain/0 holds four messages: TagA, TagB, TagA, TagB.
func TestPullChecks(t *testing.T) {
	consumer := func(subs ...testSub) func(*rig) {
		return func(r *rig) { r.heartbeat(r.client, "c1", "g", "CLUSTERING", subs...) }
	}
	group := func(f func(*subgroup.Config)) func(*rig) {
		return func(r *rig) {
			c := subgroup.Defaults("g")
			f(&c)
			if _, err := r.b.groups.Put(c); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	cases := []struct {
		name   string
		code   int // 0 = 11
		ext    map[string]string
		opts   func(*Options)
		before func(*rig)
		want   int
		remark string
		forbid string
		next   string
		count  int
	}{
		{name: "found", ext: pullExt("g", "Plain", 0, 0), want: 0, remark: "FOUND", next: "4", count: 4},
		{name: "found, one asked", ext: pullExt("g", "Plain", 0, 1, "maxMsgNums", "1"), want: 0, remark: "FOUND", next: "2", count: 1},
		{name: "found, none asked", ext: pullExt("g", "Plain", 0, 1, "maxMsgNums", "0"), want: 0, remark: "FOUND", next: "2", count: 1},
		{name: "by tag", ext: pullExt("g", "Plain", 0, 0, "subscription", "TagB || TagC"), want: 0, remark: "FOUND", next: "4", count: 2},
		{name: "all filtered", ext: pullExt("g", "Plain", 0, 0, "subscription", "NoSuchTag"), want: 20, remark: "NO_MATCHED_MESSAGE", next: "4"},
		{name: "at the end", ext: pullExt("g", "Plain", 0, 4), want: 19, remark: "OFFSET_OVERFLOW_ONE", next: "4"},
		{name: "beyond the end", ext: pullExt("g", "Plain", 0, 104), want: 21, remark: "OFFSET_OVERFLOW_BADLY", next: "4"},
		{name: "before the beginning", ext: pullExt("g", "Plain", 0, -5), want: 21, remark: "OFFSET_TOO_SMALL", next: "0"},
		{name: "empty queue at 0", ext: pullExt("g", "Plain", 3, 0), want: 19, remark: "NO_MESSAGE_IN_QUEUE", next: "0"},
		{name: "empty queue at 7", ext: pullExt("g", "Plain", 3, 7), want: 21, remark: "NO_MESSAGE_IN_QUEUE", next: "0"},
		{name: "lite pull", code: 361, ext: pullExt("g", "Plain", 0, 1, "sysFlag", "20"), want: 0, remark: "FOUND", next: "4", count: 3},
		{name: "class filter passes all", ext: pullExt("g", "Plain", 0, 0, "sysFlag", "12", "subscription", "x.Y"), want: 0, remark: "FOUND", next: "4", count: 4},

		{name: "broker not readable", ext: pullExt("g", "Plain", 0, 0), opts: func(o *Options) { o.Reloadable.Permission = 2 }, want: 16,
			remark: "the broker[127.0.0.1] pulling message is forbidden", forbid: "1"},
		{name: "lite pull off", code: 361, ext: pullExt("g", "Plain", 0, 0), opts: func(o *Options) { o.Reloadable.LitePull = false }, want: 16, forbid: "1"},
		{name: "group cannot be", ext: pullExt("Bad Group!", "Plain", 0, 0), want: 26, remark: "subscription group [Bad Group!] does not exist, \n" + faq},
		{name: "group not auto-created", ext: pullExt("new", "Plain", 0, 0), opts: func(o *Options) { o.Reloadable.AutoCreateGroup = false }, want: 26},
		{name: "group disabled", ext: pullExt("g", "Plain", 0, 0), before: group(func(c *subgroup.Config) { c.ConsumeEnable = false }), want: 16,
			remark: "subscription group no permission, g", forbid: "2"},
		{name: "no such topic", ext: pullExt("g", "NoSuchTopic", 0, 0), want: 17, remark: "topic[NoSuchTopic] not exist, apply first please! \n" + faq},
		{name: "topic not readable", ext: pullExt("g", "WriteOnly", 0, 0), want: 16, remark: "the topic[WriteOnly] pulling message is forbidden", forbid: "3"},
		{name: "queue beyond", ext: pullExt("g", "Plain", 9, 0), want: 29, remark: "queueId[9] is illegal, topic:[Plain] topicConfig.readQueueNums:[4] consumer:[/"},
		{name: "queue negative", ext: pullExt("g", "Plain", -1, 0), want: 29},
		{name: "separators only", ext: pullExt("g", "Plain", 0, 0, "subscription", "|| ||"), want: 23},
		{name: "SQL92 without text", ext: pullExt("g", "Plain", 0, 0, "subscription", "", "expressionType", "SQL92"), want: 23},
		{name: "SQL92", ext: pullExt("g", "Plain", 0, 0, "subscription", "a > 1", "expressionType", "SQL92"), want: 1,
			remark: "The broker does not support consumer to filter message by SQL92"},
		{name: "empty type is a tag", ext: pullExt("g", "Plain", 0, 0, "expressionType", ""), want: 0, remark: "FOUND", next: "4", count: 4},
		{name: "missing fields", ext: map[string]string{"topic": "Plain"}, want: 1},
		{name: "not a number", ext: pullExt("g", "Plain", 0, 0, "queueOffset", "x"), want: 1},

		{name: "nobody online", ext: pullExt("g", "Plain", 0, 0, "sysFlag", "0"), want: 24, remark: "the consumer's group info not exist\n" + faq},
		{name: "registered", ext: pullExt("g", "Plain", 0, 0, "sysFlag", "0", "subVersion", "7"), before: consumer(testSub{"Plain", "TagA", "", 7}),
			want: 0, remark: "FOUND", next: "4", count: 2},
		{name: "the heartbeat's expression counts", ext: pullExt("g", "Plain", 0, 0, "sysFlag", "0", "subscription", "TagB"),
			before: consumer(testSub{"Plain", "TagA", "", 7}), want: 0, remark: "FOUND", next: "4", count: 2},
		{name: "not subscribed", ext: pullExt("g", "Plain", 0, 0, "sysFlag", "0"), before: consumer(testSub{"Other", "*", "", 7}), want: 24,
			remark: "the consumer's subscription not exist\n" + faq},
		{name: "older subscription", ext: pullExt("g", "Plain", 0, 0, "sysFlag", "0", "subVersion", "8"), before: consumer(testSub{"Plain", "*", "", 7}),
			want: 25, remark: "the consumer's subscription not latest"},
		{name: "registered SQL92", ext: pullExt("g", "Plain", 0, 0, "sysFlag", "0", "expressionType", "TAG"), before: consumer(testSub{"Plain", "a > 1", "SQL92", 7}),
			want: 1, remark: "The broker does not support consumer to filter message by SQL92"},
		{name: "broadcast disabled", ext: pullExt("g", "Plain", 0, 0, "sysFlag", "0"), before: func(r *rig) {
			group(func(c *subgroup.Config) { c.ConsumeBroadcastEnable = false })(r)
			r.heartbeat(r.client, "c1", "g", "BROADCASTING", testSub{"Plain", "*", "", 7})
		}, want: 16, forbid: "4", remark: "the consumer group[g] can not consume by broadcast way"},
		{name: "forbidden for the topic", ext: pullExt("g", "Plain", 0, 0, "sysFlag", "0"), before: func(r *rig) {
			consumer(testSub{"Plain", "*", "", 7})(r)
			if err := r.b.groups.SetForbidden("g", "Plain", false); err != nil {
				r.t.Fatal(err)
			}
		}, want: 16, forbid: "5", remark: "the consumer group[g] is forbidden for topic[Plain]"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var changes []func(*Options)
				if c.opts != nil {
					changes = append(changes, c.opts)
				}
				r := start(t, nil, changes...)
				testTopics(t, r)
				for i := range 4 {
					r.mustSend("Plain", 0, fmt.Sprint(i), "TAGS", []string{"TagA", "TagB"}[i%2])
				}
				if c.before != nil {
					c.before(r)
				}
				if c.code == 0 {
					c.code = 11
				}
				resp := r.call(c.code, c.ext, nil)
				r.wants(resp, c.want, c.remark)
				if resp.Ext["forbiddenType"] != c.forbid {
					t.Errorf("forbiddenType %q, want %q", resp.Ext["forbiddenType"], c.forbid)
				}
				if c.next == "" {
					return
				}
				for k, v := range map[string]string{"nextBeginOffset": c.next, "minOffset": "0", "suggestWhichBrokerId": "0", "topicSysFlag": "0", "groupSysFlag": "0"} {
					if resp.Ext[k] != v {
						t.Errorf("%s = %q, want %q", k, resp.Ext[k], v)
					}
				}
				if got := len(messages(t, resp.Body)); got != c.count {
					t.Errorf("%d messages, want %d", got, c.count)
				}
			})
		})
	}
}

// TestPullOfSickDisk: what cannot be read is an error, and nothing is passed over.
func TestPullOfSickDisk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fs := vfs.NewInjector(vfs.NewMem())
		// Read after a restart, nothing of the log is in memory.
		r := start(t, nil, func(o *Options) {
			o.FS, o.Store.FS = fs, fs
			o.Store.CommitLogBytes = 64 << 10
			o.Reloadable.MaxMessage = 16 << 10
		})
		for range 200 {
			r.mustSend("T", 0, strings.Repeat("x", 10_000))
		}
		r.stop()
		r = start(t, nil, func(o *Options) {
			o.FS, o.Store.FS = fs, fs
			o.Store.CommitLogBytes = 64 << 10
			o.Reloadable.MaxMessage = 16 << 10
		})
		fs.Fail(vfs.Fault{Op: vfs.OpRead, Path: "commitlog", Err: syscall.EIO})
		resp, _ := r.pull("g", "T", 0, 3)
		r.wants(resp, 1, "read the commit log at ")
		fs.Heal()
		resp, ms := r.pull("g", "T", 0, 3)
		r.wants(resp, 0, "FOUND")
		if len(ms) == 0 || ms[0].offset != 3 {
			t.Errorf("after the disk came back: %+v", ms)
		}
	})
}

func TestPullCommits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.mustSend("T", 1, "x")
		resp, _ := r.pull("g", "T", 1, 0, "sysFlag", "5", "commitOffset", "1")
		r.wants(resp, 0, "FOUND")
		r.wants(r.call(14, map[string]string{"consumerGroup": "g", "topic": "T", "queueId": "1"}, nil), 0, "")
		if off, ok := r.b.offsets.Query([]byte("g"), []byte("T"), 1); !ok || off != 1 {
			t.Errorf("offset %d %v", off, ok)
		}
		if pos, ok := r.b.offsets.PullOffset("g", "T", 1); !ok || pos != 1 {
			t.Errorf("pull position %d %v", pos, ok)
		}
		// A pull held and run again does not commit a second time.
		done := make(chan *remoting.Response, 1)
		go func() {
			resp, _ := r.pull("g", "T", 1, 1, "sysFlag", "7", "commitOffset", "7", "suspendTimeoutMillis", "15000")
			done <- resp
		}()
		synctest.Wait()
		if off, _ := r.b.offsets.Query([]byte("g"), []byte("T"), 1); off != 7 {
			t.Errorf("offset %d after the first run", off)
		}
		r.b.offsets.Reset("g", "T", 1, 3, false)
		r.mustSend("T", 1, "y")
		<-done
		if off, _ := r.b.offsets.Query([]byte("g"), []byte("T"), 1); off != 3 {
			t.Errorf("the second run committed: %d", off)
		}
	})
}

func TestLongPoll(t *testing.T) {
	type result struct {
		resp *remoting.Response
		took time.Duration
	}
	held := func(r *rig, c *remoting.Client, group, topic string, offset int64, change ...string) chan result {
		out := make(chan result, 1)
		begin := time.Now()
		ext := pullExt(group, topic, 0, offset, append([]string{"sysFlag", "6", "suspendTimeoutMillis", "15000"}, change...)...)
		go func() {
			resp := r.callOn(c, mainAddr, 11, ext, nil)
			out <- result{resp, time.Since(begin)}
		}()
		synctest.Wait()
		return out
	}
	t.Run("ended by a message", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := start(t, nil)
			r.mustSend("T", 0, "a")
			c := r.newClient(remoting.JSON)
			defer c.Close()
			out := held(r, c, "g", "T", 1)
			<-time.After(3 * time.Second)
			r.mustSend("T", 0, "b")
			got := <-out
			r.wants(got.resp, 0, "FOUND")
			if got.took != 3*time.Second || got.resp.Ext["nextBeginOffset"] != "2" {
				t.Errorf("answered after %v: %v", got.took, got.resp.Ext)
			}
		})
	})
	t.Run("on an empty queue", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := start(t, nil)
			testTopics(t, r)
			out := held(r, r.client, "g", "Plain", 0)
			r.mustSend("Plain", 0, "first") // on the connection that holds the pull
			r.wants((<-out).resp, 0, "FOUND")
		})
	})
	t.Run("only a matching tag wakes", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := start(t, nil)
			r.mustSend("T", 0, "a")
			out := held(r, r.client, "g", "T", 1, "subscription", "TagX")
			r.mustSend("T", 0, "b", "TAGS", "TagY")
			synctest.Wait()
			select {
			case got := <-out:
				t.Fatalf("woken by a foreign tag: %d", got.resp.Code)
			default:
			}
			r.mustSend("T", 0, "c", "TAGS", "TagX")
			got := <-out
			r.wants(got.resp, 0, "FOUND")
			if ms := messages(t, got.resp.Body); len(ms) != 1 || ms[0].body != "c" {
				t.Errorf("got %+v", ms)
			}
		})
	})
	t.Run("expires exactly", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := start(t, nil)
			r.mustSend("T", 0, "a")
			got := <-held(r, r.client, "g", "T", 1, "suspendTimeoutMillis", "2000")
			r.wants(got.resp, 19, "OFFSET_OVERFLOW_ONE")
			if got.took != 2*time.Second || got.resp.Ext["nextBeginOffset"] != "1" {
				t.Errorf("after %v: %v", got.took, got.resp.Ext)
			}
		})
	})
	t.Run("short polling", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := start(t, nil, func(o *Options) { o.Reloadable.LongPolling = false })
			r.mustSend("T", 0, "a")
			if got := <-held(r, r.client, "g", "T", 1); got.resp.Code != 19 || got.took != time.Second {
				t.Errorf("%d after %v", got.resp.Code, got.took)
			}
		})
	})
	t.Run("group disabled meanwhile", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := start(t, nil)
			r.mustSend("T", 0, "a")
			out := held(r, r.client, "g", "T", 1)
			c := *r.b.groups.Get("g")
			c.ConsumeEnable = false
			if _, err := r.b.groups.Put(c); err != nil {
				t.Fatal(err)
			}
			got := <-out
			r.wants(got.resp, 16, "subscription group no permission")
			if got.took != 0 {
				t.Errorf("seen after %v", got.took)
			}
		})
	})
	t.Run("dropped with its connection", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := start(t, nil)
			r.mustSend("T", 0, "a")
			r.pull("g", "T", 0, 0)
			nc, err := r.net.dial(t.Context(), mainAddr)
			if err != nil {
				t.Fatal(err)
			}
			frame := jsonFrame(t, 11, 1, pullExt("g", "T", 0, 1, "sysFlag", "6", "suspendTimeoutMillis", "15000"), nil)
			if _, err := nc.Write(frame); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := r.b.holds.Len(); n != 1 {
				t.Fatalf("%d held", n)
			}
			nc.Close()
			synctest.Wait()
			if n := r.b.holds.Len(); n != 0 {
				t.Errorf("%d held after the client went", n)
			}
		})
	})
	t.Run("answered at shutdown", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := start(t, nil)
			r.mustSend("T", 0, "a")
			c := r.newClient(remoting.JSON)
			defer c.Close()
			out := held(r, c, "g", "T", 1)
			r.stop()
			got := <-out
			r.wants(got.resp, 19, "")
			if got.took > time.Second {
				t.Errorf("answered after %v", got.took)
			}
		})
	})
}

// TestFastPort: the fast port answers pulls as the main port does.
func TestFastPort(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.mustSend("T", 0, "a")
		fast := "127.0.0.1:10909"
		r.wants(r.callOn(r.client, fast, 11, pullExt("g", "T", 0, 0), nil), 0, "FOUND")
		r.wants(r.callOn(r.client, fast, 310, v2(sendExt("T", 0, "")), []byte("b")), 0, "")
		r.wants(r.callOn(r.client, fast, 9999, nil, nil), 3, " request type 9999 not supported")
	})
}

// jsonFrame encodes a request by hand.
func jsonFrame(t testing.TB, code, opaque int, ext map[string]string, body []byte) []byte {
	t.Helper()
	h, err := json.Marshal(map[string]any{"code": code, "opaque": opaque, "flag": 0, "language": "JAVA", "version": 479, "extFields": ext})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8, 8+len(h)+len(body))
	n := 4 + len(h) + len(body)
	b[0], b[1], b[2], b[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	b[5], b[6], b[7] = byte(len(h)>>16), byte(len(h)>>8), byte(len(h))
	return append(append(b, h...), body...)
}

// TestPullOverAHole: messages whose bytes are damaged, or whose file is gone, are passed over,
// and if nothing is behind them answered by 20 and the offset behind them, over the wire.
func TestPullOverAHole(t *testing.T) {
	damage := func(m *vfs.Mem, at int64) error {
		f, err := m.OpenReadWrite("/store/commitlog/00000000000000000000")
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte("damage"), at)
		return errors.Join(err, f.Close())
	}
	for _, c := range []struct {
		name   string
		change func(m *vfs.Mem, at int64) error // at: in the body of message 2
		lost   []int
		rescan bool // the start finds a hole; else only the pull finds damage
	}{
		{"a hole", damage, []int{2}, true},
		{"a record that was damaged since the start before", damage, []int{2}, false},
		{"a missing file", func(m *vfs.Mem, _ int64) error { return m.Remove("/store/commitlog/00000000000000016384") }, []int{6, 7, 8, 9, 10, 11}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				mem := vfs.NewMem()
				opts := func(o *Options) {
					o.FS, o.Store.FS = mem, mem
					o.Store.CommitLogBytes = 16 << 10
					o.Reloadable.MaxMessage = 8 << 10
				}
				r := start(t, nil, opts)
				for i := range 16 { // six in a file; queue 1 has those that get lost
					queue := 0
					if slices.Contains(c.lost, i) {
						queue = 1
					}
					r.mustSend("T", queue, strings.Repeat(string(rune('a'+i)), 2500))
				}
				at := int64(2*2600 + 1000)
				r.stop()
				if err := c.change(mem, at); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"/store/mqctl/progress", "/store/mqctl/queues"} {
					if !c.rescan {
						break
					}
					if err := mem.Remove(name); err != nil {
						t.Fatal(err)
					}
				}
				r = start(t, nil, opts)
				for from := range c.lost {
					resp, _ := r.pull("g", "T", 1, int64(from), "maxMsgNums", "32")
					r.wants(resp, 20, "MESSAGE_WAS_REMOVING")
					if next, want := resp.Ext["nextBeginOffset"], fmt.Sprint(len(c.lost)); next != want {
						t.Errorf("from %d: next is %s, want %s", from, next, want)
					}
				}
				resp, _ := r.pull("g", "T", 1, int64(len(c.lost)))
				r.wants(resp, 19, "OFFSET_OVERFLOW_ONE")
				if got := r.all("T", 0); len(got) != 16-len(c.lost) {
					t.Errorf("%d messages around, want %d", len(got), 16-len(c.lost))
				}
				r.mustSend("T", 1, "goes on")
				resp, ms := r.pull("g", "T", 1, 0)
				if r.wants(resp, 0, "FOUND"); len(ms) != 1 || ms[0].offset != int64(len(c.lost)) {
					t.Errorf("behind the hole: %+v", ms)
				}
			})
		})
	}
}
