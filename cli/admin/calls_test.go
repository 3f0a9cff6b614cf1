package admin

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// TestCalls asks a server that answers as Apache 5.3.3 did, raw keys included.
func TestCalls(t *testing.T) {
	mq := func(topic string, id int32) Queue { return Queue{Topic: topic, Broker: "golden-a", ID: id} }
	const golden = "GoldenTopic"
	tests := []struct {
		name  string
		files []string
		call  func(ctx context.Context, c *Client) (any, error)
		want  func(t *testing.T, v any)
	}{
		{"route", []string{"slave-route"},
			func(ctx context.Context, c *Client) (any, error) { return c.RouteAt(ctx, "s:1", golden) },
			func(t *testing.T, v any) {
				r := v.(*Route)
				equal(t, r.Brokers[0].Addrs, map[int64]string{0: "127.0.0.2:31911", 1: "127.0.0.3:31921"})
				equal(t, r.Queues, []RouteQueues{{Broker: "golden-a", Perm: 6, ReadQueues: 4, WriteQueues: 4}})
				equal(t, len(r.Targets(false)), 2)
			}},
		{"cluster", []string{"slave-route"},
			func(ctx context.Context, c *Client) (any, error) { return c.ClusterAt(ctx, "s:1") },
			func(t *testing.T, v any) {
				cl := v.(*Cluster)
				equal(t, cl.Brokers["golden-a"].IDs(), []int64{0, 1})
				equal(t, cl.Clusters, map[string][]string{"GoldenCluster": {"golden-a"}})
			}},
		{"topics", []string{"admin-topicList"},
			func(ctx context.Context, c *Client) (any, error) { return c.TopicsAt(ctx, "s:1") },
			func(t *testing.T, v any) { equal(t, slices.Contains(v.([]string), golden), true) }},
		{"topics of a cluster", []string{"admin-codes"},
			func(ctx context.Context, c *Client) (any, error) { return c.TopicsOfCluster(ctx, "GoldenCluster") },
			func(t *testing.T, v any) { equal(t, len(v.([]string)), 45) }},
		{"system names", []string{"admin-codes"},
			func(ctx context.Context, c *Client) (any, error) { return c.SystemNames(ctx) },
			func(t *testing.T, v any) { equal(t, v, []string{"GoldenCluster", "golden-a", "golden-z"}) }},
		{"key", []string{"kv-config"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.KV(ctx, OrderConfigNamespace, "GoldenOrder")
			},
			func(t *testing.T, v any) { equal(t, v, "golden-a:4") }},
		{"keys", []string{"kv-config"},
			func(ctx context.Context, c *Client) (any, error) { return c.KVs(ctx, OrderConfigNamespace) },
			func(t *testing.T, v any) {
				equal(t, v, map[string]string{"GoldenOrder": "golden-a:4", "GoldenRetry": "golden-a:1"})
			}},
		{"write permission", []string{"admin-addWritePerm"},
			func(ctx context.Context, c *Client) (any, error) { return c.AddWritePermAt(ctx, "s:1", "golden-a") },
			func(t *testing.T, v any) { equal(t, v, 37) }},
		{"runtime info", []string{"admin-brokerStatus"},
			func(ctx context.Context, c *Client) (any, error) { return c.RuntimeInfo(ctx, "s:1") },
			func(t *testing.T, v any) { equal(t, v.(map[string]string)["brokerVersionDesc"], "V5_3_3") }},
		{"broker config", []string{"admin-getBrokerConfig"},
			func(ctx context.Context, c *Client) (any, error) { return c.BrokerConfig(ctx, "s:1") },
			func(t *testing.T, v any) {
				cfg := v.(*BrokerConfig)
				equal(t, cfg.Values["brokerClusterName"], "GoldenCluster")
				equal(t, cfg.Keys[0], "accessMessageInMemoryHotRatio")
				equal(t, cfg.Version.Counter, int64(2))
				equal(t, len(cfg.Keys), len(cfg.Values))
			}},
		{"identity", []string{"admin-getBrokerConfig"},
			func(ctx context.Context, c *Client) (any, error) { return c.Identify(ctx, "s:1") },
			func(t *testing.T, v any) {
				equal(t, v, Target{Cluster: "GoldenCluster", Broker: "golden-a", Addr: "s:1"})
			}},
		{"replication at the master", []string{"slave-haStatus"},
			func(ctx context.Context, c *Client) (any, error) { return c.HAStatus(ctx, "s:1") },
			func(t *testing.T, v any) {
				s := v.(*HAStatus)
				equal(t, *s, HAStatus{Master: true, MaxOffset: 61009, InSyncSlaves: 1,
					Peers: []HAPeer{{Addr: "127.0.0.1:50300", AckOffset: 61009, InSync: true, TransferredPerSec: 12, TransferFromOffset: 61009}}})
			}},
		{"statistics", []string{"admin-tables"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.BrokerStats(ctx, "s:1", StatTopicPutNums, golden)
			},
			func(t *testing.T, v any) {
				equal(t, v.(*BrokerStats).Hour, StatsWindow{Sum: 27, TPS: 0.045, AvgPT: 1.08})
			}},
		{"topic configs", []string{"admin-tables"},
			func(ctx context.Context, c *Client) (any, error) {
				all, version, err := c.TopicConfigs(ctx, "s:1")
				if version.Counter == 0 {
					t.Error("no version")
				}
				return all, err
			},
			func(t *testing.T, v any) {
				c := v.(map[string]topic.Config)[golden]
				equal(t, []int32{c.ReadQueueNums, c.WriteQueueNums, int32(c.Perm)}, []int32{4, 4, 6})
			}},
		{"topic config", []string{"admin-tables"},
			func(ctx context.Context, c *Client) (any, error) { return c.TopicConfig(ctx, "s:1", golden) },
			func(t *testing.T, v any) { equal(t, v.(*topic.Config).TopicName, golden) }},
		{"topic statistics", []string{"admin-topicStatus"},
			func(ctx context.Context, c *Client) (any, error) { return c.TopicStats(ctx, "s:1", golden) },
			func(t *testing.T, v any) {
				s := v.(*TopicStats)
				equal(t, s.PutTPS, 0.05)
				equal(t, s.Queues[mq(golden, 2)], QueueRange{Min: 0, Max: 9, LastUpdateMillis: 1795969681496})
				equal(t, len(s.Queues), 4)
			}},
		{"consumers of a topic", []string{"admin-tables"},
			func(ctx context.Context, c *Client) (any, error) { return c.TopicConsumers(ctx, "s:1", golden) },
			func(t *testing.T, v any) { equal(t, len(v.([]string)), 9) }},
		{"groups", []string{"admin-getConsumerConfig"},
			func(ctx context.Context, c *Client) (any, error) {
				all, _, err := c.Groups(ctx, "s:1")
				return all, err
			},
			func(t *testing.T, v any) {
				g := v.(map[string]subgroup.Config)["CG_tag"]
				equal(t, []any{g.GroupName, g.RetryMaxTimes, g.WhichBrokerWhenConsumeSlowly}, []any{"CG_tag", int32(16), int64(1)})
			}},
		{"consumer connections", []string{"admin-consumerConnection"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.ConsumerConnections(ctx, "s:1", "CG_admin")
			},
			func(t *testing.T, v any) {
				cc := v.(*ConsumerConnections)
				equal(t, cc.Connections, []Connection{{"127.0.0.1@admin-consumer", "127.0.0.1:34630", "JAVA", 479}})
				equal(t, cc.Subscriptions[golden].Tags, []string{"TagA"})
				equal(t, cc.ConsumeType+cc.MessageModel, "CONSUME_PASSIVELYCLUSTERING")
			}},
		{"producer connections", []string{"admin-producerConnection"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.ProducerConnections(ctx, "s:1", "PG_adminfeeder")
			},
			func(t *testing.T, v any) { equal(t, v.([]Connection)[0].ClientID, "127.0.0.1@adminfeeder") }},
		{"all producers", []string{"admin-producer"},
			func(ctx context.Context, c *Client) (any, error) { return c.AllProducers(ctx, "s:1") },
			func(t *testing.T, v any) {
				p := v.(map[string][]Producer)
				equal(t, p["PG_adminfeeder"], []Producer{{"127.0.0.1@adminfeeder", "127.0.0.1:34628", "JAVA", 479, 1795969746227}})
				equal(t, len(p["CLIENT_INNER_PRODUCER"]), 2)
			}},
		{"progress", []string{"admin-statsAll"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.ConsumeStats(ctx, "s:1", "CG_orderly", golden)
			},
			func(t *testing.T, v any) {
				p := v.(*ConsumeStats).Queues[mq(golden, 3)]
				equal(t, p, QueueProgress{BrokerOffset: 8, ConsumerOffset: 6, PullOffset: 6, LastMillis: 1795969486406})
				equal(t, []int64{p.Lag(), p.Inflight()}, []int64{2, 0})
			}},
		{"progress of all groups", []string{"admin-brokerConsumeStats"},
			func(ctx context.Context, c *Client) (any, error) { return c.BrokerConsumeStats(ctx, "s:1", false) },
			func(t *testing.T, v any) {
				s := v.(*BrokerConsumeStats)
				i := slices.IndexFunc(s.Groups, func(m map[string][]ConsumeStats) bool { return len(m["CG_popraw"]) > 0 })
				equal(t, s.Groups[i]["CG_popraw"][1].Queues[mq("GoldenPop", 1)].BrokerOffset, int64(4))
				equal(t, s.TotalLag > 0, true)
			}},
		{"a client's state", []string{"admin-consumerStatus"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.RunningInfo(ctx, "s:1", "CG_admin", "127.0.0.1@admin-consumer", false)
			},
			func(t *testing.T, v any) {
				r := v.(*RunningInfo)
				equal(t, r.Queues[mq(golden, 2)].CommitOffset, int64(9))
				equal(t, r.Properties["PROP_CLIENT_VERSION"], "V5_3_3")
				equal(t, r.Status[golden].ConsumeRT, 6.0)
				equal(t, len(r.Subscriptions), 2)
			}},
		{"max offset", []string{"offsets"},
			func(ctx context.Context, c *Client) (any, error) { return c.MaxOffset(ctx, "s:1", golden, 0) },
			func(t *testing.T, v any) { equal(t, v, int64(7)) }},
		{"min offset", []string{"offsets"},
			func(ctx context.Context, c *Client) (any, error) { return c.MinOffset(ctx, "s:1", golden, 0) },
			func(t *testing.T, v any) { equal(t, v, int64(0)) }},
		{"offset at a time", []string{"offsets"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.OffsetAt(ctx, "s:1", golden, 0, 1795970037153)
			},
			func(t *testing.T, v any) { equal(t, v, int64(7)) }},
		{"first store time of an empty queue", []string{"offsets"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.EarliestStoreTime(ctx, "s:1", "GoldenEmpty", 0)
			},
			func(t *testing.T, v any) { equal(t, v, int64(-1)) }},
		{"committed offset", []string{"offsets"},
			func(ctx context.Context, c *Client) (any, error) {
				n, ok, err := c.ConsumerOffset(ctx, "s:1", "CG_offsets", golden, 0)
				return []any{n, ok}, err
			},
			func(t *testing.T, v any) { equal(t, v, []any{int64(0), false}) }},
		{"pull", []string{"pull-codes"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.Pull(ctx, "s:1", Pull{Group: "CG_pullraw", Topic: golden})
			},
			func(t *testing.T, v any) {
				p := v.(*Pulled)
				equal(t, []any{p.Status, p.Next, p.Min, p.Max, len(p.Messages)}, []any{PullFound, int64(4), int64(0), int64(7), 4})
				m := p.Messages[0]
				equal(t, []any{m.Topic, m.QueueID, m.QueueOffset, m.PhysOffset, string(m.Body)}, []any{golden, int32(0), int64(0), int64(0x1E4), "no tag"})
				equal(t, strings.HasPrefix(m.ID(), "C0000201"), true)
				equal(t, m.OffsetID, "7F00000200007CA700000000000001E4")
			}},
		{"pull with no match", []string{"pull-codes"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.Pull(ctx, "s:1", Pull{Topic: golden, Group: "CG_pullraw", Expression: "NoSuchTag"})
			},
			func(t *testing.T, v any) {
				equal(t, v.(*Pulled).Status, PullNoMatch)
				equal(t, v.(*Pulled).Next, int64(7))
			}},
		{"pull at the end", []string{"pull-codes"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.Pull(ctx, "s:1", Pull{Topic: golden, Group: "CG_pullraw", Offset: 7})
			},
			func(t *testing.T, v any) { equal(t, v.(*Pulled).Status, PullNothing) }},
		{"pull beyond the end", []string{"pull-codes"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.Pull(ctx, "s:1", Pull{Topic: golden, Group: "CG_pullraw", Offset: 107})
			},
			func(t *testing.T, v any) {
				equal(t, v.(*Pulled).Status, PullWrongPlace)
				equal(t, v.(*Pulled).Remark, "OFFSET_OVERFLOW_BADLY")
			}},
		{"messages by key", []string{"admin-queryMsgByKey"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.QueryMessages(ctx, "s:1", Query{Topic: golden, Key: "admin0"})
			},
			func(t *testing.T, v any) {
				m := v.([]Message)
				equal(t, len(m) > 0 && m[0].Properties["KEYS"] == "admin0", true)
			}},
		{"no message of that key", []string{"admin-queryMsgByKey-none"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.QueryMessages(ctx, "s:1", Query{Topic: golden, Key: "nothing"})
			},
			func(t *testing.T, v any) { equal(t, len(v.([]Message)), 0) }},
		{"message by offset id", []string{"admin-queryMsgById"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.MessageByOffsetID(ctx, "", "7F00000200007CA70000000000008688")
			},
			func(t *testing.T, v any) { equal(t, string(v.(*Message).Body), "for the admin tool") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newFakeNet(t)
			n.serve("s:1", recorded(t, tt.files...))
			n.serve("127.0.0.2:31911", recorded(t, tt.files...))
			v, err := tt.call(t.Context(), n.client(Options{Nameservers: []string{"s:1"}}))
			if err != nil {
				t.Fatal(err)
			}
			tt.want(t, v)
		})
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestNotThere: what does not exist is told apart from what was refused.
func TestNotThere(t *testing.T) {
	n := newFakeNet(t)
	n.serve("s:1", recorded(t, "admin-tables", "kv-config", "admin-codes", "offsets", "pull-codes", "admin-queryMsgByOffset"))
	c := n.client(Options{Nameservers: []string{"s:1"}})
	ctx := t.Context()
	for name, tt := range map[string]struct {
		kind string
		err  func() error
	}{
		"topic config": {"topic", func() error { _, err := c.TopicConfig(ctx, "s:1", "NoSuchTopic"); return err }},
		"key":          {"key", func() error { _, err := c.KV(ctx, OrderConfigNamespace, "Nothing"); return err }},
		"namespace":    {"namespace", func() error { _, err := c.KVs(ctx, "NOTHING"); return err }},
		"statistic": {"statistic", func() error {
			_, err := c.BrokerStats(ctx, "s:1", StatTopicPutNums, "NoSuchTopic")
			return err
		}},
		"group":        {"group", func() error { _, err := c.Group(ctx, "s:1", "typo"); return err }},
		"group commit": {"group", func() error { return c.CommitOffset(ctx, "s:1", "CG_offsets", "GoldenTopic", 0, 2) }},
		"topic commit": {"topic", func() error { return c.CommitOffset(ctx, "s:1", "CG_tag", "NoSuchTopic", 0, 2) }},
		"topic of a pull": {"topic", func() error {
			_, err := c.Pull(ctx, "s:1", Pull{Group: "CG_pullraw", Topic: "NoSuchTopic"})
			return err
		}},
	} {
		var missing *NotFound
		if err := tt.err(); !errors.As(err, &missing) || missing.Kind != tt.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	var offline *NotOnline
	if _, err := c.ConsumerConnections(ctx, "s:1", "CG_orderly"); !errors.As(err, &offline) || offline.Group != "CG_orderly" {
		t.Errorf("offline group: %v", err)
	}
	var refused *Refused
	if _, err := c.Pull(ctx, "s:1", Pull{Group: "CG_pullraw", Topic: "GoldenTopic", QueueID: 9}); !errors.As(err, &refused) || refused.Code != 29 {
		t.Errorf("queue out of range: %v", err)
	}
	if _, err := c.MessageByOffsetID(ctx, "s:1", "xyz"); !errors.As(err, new(*BadAddress)) {
		t.Errorf("bad id: %v", err)
	}
	for _, r := range n.requests("s:1") {
		if r.code == remoting.ReqGetSubscriptionGroupConfig {
			t.Error("352 creates the group it is asked for")
		}
	}
}

// TestSent looks at what goes out for requests that change something: the same as mqadmin sent.
func TestSent(t *testing.T) {
	n := newFakeNet(t)
	n.serve("s:1", func(r *remoting.Request) {
		r.Reply(0, "restart needed", remoting.Map{"msgId": "7F00000200007CA700000000000002CC", "queueId": "1", "queueOffset": "5", "transactionId": "U"}, nil)
	})
	c := n.client(Options{Nameservers: []string{"s:1"}})
	ctx := t.Context()
	last := func() seen { all := n.requests("s:1"); return all[len(all)-1] }

	must(t, c.PutTopic(ctx, "s:1", topic.Config{TopicName: "GoldenTopic", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6}, ""))
	equal(t, last().ext, firstSent(t, "admin-updateTopic", 17).ext)

	must(t, c.DeleteGroup(ctx, "s:1", "CG_admin", true))
	equal(t, last().ext, map[string]string{"groupName": "CG_admin", "cleanOffset": "true"})

	must(t, c.DeleteTopicAt(ctx, "s:1", "GoldenFifo", "GoldenCluster"))
	equal(t, last().ext, firstSent(t, "admin-deleteTopic", 216).ext)
	must(t, c.DeleteTopic(ctx, "s:1", "GoldenFifo"))
	equal(t, last().ext, firstSent(t, "admin-deleteTopic", 215).ext)

	must(t, c.PutKVAt(ctx, "s:1", OrderConfigNamespace, "GoldenOrder", "golden-a:4"))
	equal(t, last().ext, firstSent(t, "kv-config", 100).ext)
	must(t, c.DeleteKVAt(ctx, "s:1", OrderConfigNamespace, "GoldenOrder"))
	equal(t, last().ext, firstSent(t, "kv-config", 102).ext)

	g := subgroup.Defaults("CG_x")
	g.WhichBrokerWhenConsumeSlowly = 7
	must(t, c.PutGroup(ctx, "s:1", g))
	var sent map[string]any
	must(t, json.Unmarshal([]byte(last().body), &sent))
	equal(t, []any{last().code, sent["groupName"], sent["whichBrokerWhenConsumeSlowly"]}, []any{200, "CG_x", 7.0})

	remark, err := c.UpdateBrokerConfig(ctx, "s:1", map[string]string{"b": `C:\x`, "a": " 1"})
	must(t, err)
	equal(t, []any{last().body, remark}, []any{"a=\\ 1\nb=C:\\\\x\n", "restart needed"})
	if _, err := c.UpdateBrokerConfig(ctx, "s:1", map[string]string{"a": "x\nb=y"}); !errors.As(err, new(*BadValue)) {
		t.Errorf("a value of two lines: %v", err)
	}

	r, err := c.Send(ctx, "s:1", Send{Topic: "T", QueueID: -1, Body: []byte("hello"), Properties: map[string]string{"TAGS": "x", "KEYS": "k"}})
	must(t, err)
	equal(t, *r, Sent{Status: "SEND_OK", OffsetID: "7F00000200007CA700000000000002CC", TransactionID: "U", QueueID: 1, QueueOffset: 5})
	m := last()
	equal(t, []any{m.code, m.body, m.ext["a"], m.ext["b"], m.ext["e"], m.ext["i"]}, []any{310, "hello", "mqctl", "T", "-1", "KEYS\x01k\x02TAGS\x01x\x02"})
	want := slices.Sorted(maps.Keys(firstSent(t, "send-sync", 310).ext))
	equal(t, slices.Sorted(maps.Keys(m.ext)), want)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// firstSent is the first recorded request of a code.
func firstSent(t *testing.T, file string, code int) exchange {
	t.Helper()
	for _, x := range load(t, file) {
		if x.code == code {
			return x
		}
	}
	t.Fatalf("no request %d in %s", code, file)
	return exchange{}
}

func FuzzMessages(f *testing.F) {
	for _, x := range load(f, "pull-codes") {
		f.Add(x.body)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := decodeMessages(b, 1<<20)
		if err == nil && len(b) > 0 && len(all) == 0 {
			t.Error("bytes without a message and without an error")
		}
	})
}

// A compressed body comes uncompressed; a bomb of bodies is an error.
func TestCompressedBodies(t *testing.T) {
	rec := func(body []byte, sysFlag int32) []byte {
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		w.Write(body)
		w.Close()
		b, err := record.AppendDraft(nil, &record.Draft{Topic: []byte("T"), SysFlag: record.FlagCompressed | sysFlag, Body: z.Bytes(),
			BornHost: netip.MustParseAddrPort("1.2.3.4:5"), StoreHost: netip.MustParseAddrPort("1.2.3.4:5")})
		must(t, err)
		return b
	}
	for _, flag := range []int32{0, 3 << 8} {
		all, err := decodeMessages(rec([]byte("hello"), flag), 5)
		must(t, err)
		equal(t, []string{string(all[0].Body), all[0].Compression}, []string{"hello", "zlib"})
	}
	all, err := decodeMessages(rec([]byte("hello"), 1<<8), 5)
	must(t, err)
	equal(t, all[0].Compression, "lz4")
	bomb := rec(make([]byte, 1000), 0)
	if _, err := decodeMessages(bytes.Repeat(bomb, 5), 4500); err == nil || !strings.Contains(err.Error(), "record 5: compressed body: more than 500 bytes") {
		t.Errorf("error %v", err)
	}
}
