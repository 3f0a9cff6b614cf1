package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

var host = netip.MustParseAddrPort("127.0.0.1:10911")

// small are options with files so small that tests cross them often.
func small(fsys vfs.FS) store.Options {
	return store.Options{
		FS: fsys, Dir: "/store", CommitLogBytes: 4096, QueueFileBytes: 400,
		IndexSlots: 64, IndexEntries: 256, MemoryBytes: 1 << 30,
		Log: slog.New(slog.DiscardHandler),
	}
}

func open(t testing.TB, o store.Options) (*store.Store, store.Recovery) {
	t.Helper()
	s, rec, err := store.Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s, rec
}

func closeStore(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func draft(topic string, id int32, body string, props ...string) *record.Draft {
	d := &record.Draft{
		Topic: []byte(topic), QueueID: id, BornMillis: 1735689600000, BornHost: host, StoreHost: host, Body: []byte(body),
	}
	for i := 0; i < len(props); i += 2 {
		d.Properties = record.AppendProperty(d.Properties, props[i], props[i+1])
	}
	return d
}

func put(t testing.TB, s *store.Store, topic string, id int32, body string, props ...string) store.Item {
	t.Helper()
	it, err := s.Append(context.Background(), s.Queue(topic, id), draft(topic, id, body, props...), true)
	if err != nil {
		t.Fatalf("append to %s-%d: %v", topic, id, err)
	}
	return it
}

// views cuts concatenated records.
func views(t testing.TB, b []byte) []record.View {
	t.Helper()
	var out []record.View
	for len(b) > 0 {
		v, err := record.Parse(b)
		if err != nil {
			t.Fatalf("record: %v", err)
		}
		out = append(out, v)
		b = b[v.Size():]
	}
	return out
}

// readAll reads a queue from its first message to its end.
func readAll(t testing.TB, s *store.Store, q *store.Queue) []record.View {
	t.Helper()
	var out []record.View
	for off := q.Min(); off < q.Max(); {
		b, res := s.Read(nil, q, off, 32, nil)
		if res.Status != store.Found && res.Status != store.MessageWasRemoving {
			t.Fatalf("read %s-%d at %d: %v", q.Topic(), q.ID(), off, res.Status)
		}
		got := views(t, b)
		if len(got) != res.Count && !q.Batch() || len(b) != res.Bytes {
			t.Fatalf("read says %d messages of %d bytes, there are %d of %d", res.Count, res.Bytes, len(got), len(b))
		}
		if res.Next <= off {
			t.Fatalf("read at %d does not go on: next is %d", off, res.Next)
		}
		out = append(out, got...)
		off = res.Next
	}
	return out
}

func TestAppendReadReopen(t *testing.T) {
	fsys := vfs.NewMem()
	s, rec := open(t, small(fsys))
	if !rec.Clean || rec.Max != 0 {
		t.Fatalf("new store: %+v", rec)
	}
	const n = 200
	for i := range n {
		it := put(t, s, "orders", int32(i%3), fmt.Sprintf("body %d", i), "TAGS", "TagA", "KEYS", fmt.Sprintf("k%d", i))
		if want := record.QueueOffset(i / 3); it.QueueOffset != want {
			t.Fatalf("message %d has queue offset %d, want %d", i, it.QueueOffset, want)
		}
	}
	check := func() {
		t.Helper()
		total := 0
		for _, q := range s.Queues("orders") {
			for i, v := range readAll(t, s, q) {
				if got, want := string(v.Body()), fmt.Sprintf("body %d", i*3+int(q.ID())); got != want {
					t.Fatalf("queue %d message %d is %q, want %q", q.ID(), i, got, want)
				}
				if v.QueueOffset() != record.QueueOffset(i) {
					t.Fatalf("queue %d message %d says it is %d", q.ID(), i, v.QueueOffset())
				}
				if err := v.CheckCRC(); err != nil {
					t.Fatal(err)
				}
				total++
			}
		}
		if total != n {
			t.Fatalf("%d messages, want %d", total, n)
		}
		b, res := s.Query(nil, "orders", "k77", 10, 0, time.Now().UnixMilli()+1000, false)
		if res.Count != 1 || string(views(t, b)[0].Body()) != "body 77" {
			t.Fatalf("query k77: %+v", res)
		}
	}
	check()
	closeStore(t, s)
	s, rec = open(t, small(fsys))
	if !rec.Clean || len(rec.Notes) > 0 {
		t.Fatalf("clean reopen: %+v", rec)
	}
	check()
	put(t, s, "orders", 0, "after")
	closeStore(t, s)
}

func asDamaged(err error, d **store.DamagedError) bool { return errors.As(err, d) }

func contextWithCancel() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}
