package cli

import (
	"context"
	"fmt"

	"mqctl/store/inspect"
)

// storeOffsetsItem is the log or one queue.
type storeOffsetsItem struct {
	Kind      string   `json:"kind" enum:"LOG|SIMPLE|BATCH"`
	Topic     *string  `json:"topic"`
	QueueID   *int32   `json:"queueId"`
	MinOffset int64    `json:"minOffset"` // of the log bytes, of a queue messages
	MaxOffset int64    `json:"maxOffset"`
	Messages  *int64   `json:"messages"`
	MinPhys   *int64   `json:"minPhysOffset"` // position of the first message in the log
	MaxPhys   *int64   `json:"maxPhysOffset"` // behind the last
	FileCount int      `json:"fileCount"`
	FileBytes int64    `json:"fileBytes"`
	Files     []string `json:"files"`
}

func storeOffsetsCommand() *command {
	return &command{
		path: "store offsets", summary: "first and last position of the log and of each queue", args: "DIR", min: 1, max: 1, argFrom: "file", attrs: local,
		run: runStoreOffsets, schema: "mqctl.store.offsets/v1", exits: []int{ExitNotFound, ExitStoreInUse},
		examples: []string{"mqctl store offsets /data/mq/broker-a", "mqctl store offsets /data/mq/broker-a --topic orders -o json"},
		flags: storeFlags(
			flagSpec{key: "topic", meta: "TOPIC", help: "only the queues of this topic"},
			forceRead(),
		),
		view: view{
			item: storeOffsetsItem{}, name: func(item any) string { return item.(*storeOffsetsItem).label() },
			columns: []column{
				{head: "KIND", field: "kind"}, {head: "TOPIC", field: "topic"}, {head: "Q", field: "queueId", as: asNumber}, {head: "MIN", field: "minOffset", as: asNumber},
				{head: "MAX", field: "maxOffset", as: asNumber}, {head: "MESSAGES", field: "messages", as: asNumber}, {head: "FIRST AT", field: "minPhysOffset", as: asNumber, wide: true},
				{head: "LAST END", field: "maxPhysOffset", as: asNumber, wide: true}, {head: "FILES", field: "fileCount", as: asNumber}, {head: "SIZE", field: "fileBytes", as: asBytes},
			},
		},
	}
}

func (it *storeOffsetsItem) label() string {
	if it.Topic == nil {
		return "log"
	}
	return fmt.Sprintf("%s:%d", *it.Topic, *it.QueueID)
}

func (it *storeOffsetsItem) take(files []inspect.File) {
	it.Files = []string{}
	for _, f := range files {
		it.FileCount++
		it.FileBytes += f.Bytes
		it.Files = append(it.Files, f.Path)
	}
}

func runStoreOffsets(ctx context.Context, c *call) (*result, error) {
	s, err := c.openStore(nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r := &result{}
	topic := c.str("topic")
	if topic == "" {
		end, err := s.LogEnd(ctx)
		if err != nil {
			return nil, notStore(s.dir, err)
		}
		log := &storeOffsetsItem{Kind: "LOG", MinOffset: s.LogMin(), MaxOffset: end, MinPhys: ptr(s.LogMin()), MaxPhys: ptr(end)}
		log.take(s.LogFiles())
		r.add(log)
	}
	for _, q := range s.Queues() {
		if topic != "" && q.Topic != topic {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b, err := q.Bounds()
		if err != nil {
			return nil, notStore(s.dir, err)
		}
		it := &storeOffsetsItem{Kind: string(q.Type), Topic: &q.Topic, QueueID: &q.ID, MinOffset: b.First, MaxOffset: b.End, Messages: ptr(b.Entries)}
		if b.MinPhys >= 0 {
			it.MinPhys, it.MaxPhys = ptr(b.MinPhys), ptr(b.MaxPhys)
		}
		it.take(q.Files())
		r.add(it)
	}
	if topic != "" && len(r.items) == 0 {
		return nil, s.noTopic(topic)
	}
	return r, nil
}

// topics are the names that the folder's queues and its topics.json have.
func (s *openedStore) topics() map[string]bool {
	known, err := s.KnownTopics()
	if err != nil || known == nil {
		known = map[string]bool{}
	}
	for _, q := range s.Queues() {
		known[q.Topic] = true
	}
	return known
}

// knowsTopic reports whether the folder has a topic.
func (s *openedStore) knowsTopic(name string) bool { return s.topics()[name] }

// noTopic names topics of the folder that look alike.
func (s *openedStore) noTopic(name string) *Message {
	m := fail(ExitNotFound, "TOPIC_NOT_FOUND", "%s has no queue of topic %q", s.dir, name)
	names := sortedKeys(s.topics())
	m.offer(nearest(name, names)...)
	if len(m.Try) == 0 {
		m.offer("mqctl store offsets " + shellWord(s.dir))
	}
	return m
}
