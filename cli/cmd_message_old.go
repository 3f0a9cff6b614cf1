package cli

import (
	"context"
	"encoding/base64"
	"math"
	"sort"
	"strings"
	"unicode/utf8"

	"mqctl/cli/admin"
)

// mqadmin's other names for looking at single messages.

func messageOldCommands() []*command {
	unique, offset := messageView(), messageView()
	unique.old, offset.old = oldMessageUnique, oldMessageGet
	return []*command{
		{
			old: "queryMsgByUniqueKey", twin: "message get --uniq", summary: "one message by its unique id", run: runMessageUnique,
			schema: "mqctl.message.get/v1", exits: []int{ExitNotFound, ExitPartial}, view: unique,
			examples: []string{"mqctl queryMsgByUniqueKey -n 127.0.0.1:9876 -t orders -i C0000201000018B4AAC20000"},
			flags: []flagSpec{
				{key: "uniq", long: "msgId", short: "i", required: true, meta: "ID", help: "the unique id; several with commas between"},
				{key: "topic", long: "topic", short: "t", required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
				{key: "group", long: "consumerGroup", short: "g", meta: "GROUP", complete: "group", help: "have a member of this group consume it now; needs -d"},
				{key: "client", long: "clientId", short: "d", meta: "ID", complete: "client", help: "the member"},
				{key: "all", long: "showAll", short: "a", kind: kindBool, bareOld: true, help: "all messages with this id, at most 32"},
				{key: "cluster", long: "cluster", short: "c", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "this cluster only"},
			},
		},
		{
			old: "queryMsgByOffset", twin: "message get --at B:Q:O", summary: "one message by broker, queue and offset", run: runMessageByOffset,
			schema: "mqctl.message.get/v1", exits: []int{ExitNotFound, ExitPartial}, view: offset,
			examples: []string{"mqctl queryMsgByOffset -n 127.0.0.1:9876 -t orders -b broker-a -i 0 -o 42"},
			flags: []flagSpec{
				{key: "topic", long: "topic", short: "t", required: true, meta: "TOPIC", complete: "topic", help: "the topic"},
				{key: "broker-name", long: "brokerName", short: "b", required: true, meta: "NAME", complete: "broker", help: "the broker"},
				{key: "queue", long: "queueId", short: "i", required: true, kind: kindInt, max: math.MaxInt32, meta: "N", complete: "queue", help: "the queue"},
				{key: "offset", long: "offset", short: "o", required: true, kind: kindInt, max: math.MaxInt64, meta: "N", complete: "offset", help: "the message's number in the queue"},
				bodyFormatFlag(),
			},
		},
	}
}

// bodyFormatFlag is mqadmin's charset of bodies.
func bodyFormatFlag() flagSpec {
	return flagSpec{key: "charset", long: "bodyFormat", short: "f", oldOnly: true, meta: "CHARSET", help: "charset of the body: UTF-8, US-ASCII or ISO-8859-1"}
}

// charset reads a body as text; ok is false when it is none.
type charset func(b []byte) (text string, ok bool)

// charsetFlag is the charset that a flag names.
func (c *call) charsetFlag(key string) (charset, error) {
	switch strings.ToUpper(c.str(key)) {
	case "", "UTF-8", "UTF8", "US-ASCII", "ASCII":
		return func(b []byte) (string, bool) { return string(b), utf8.Valid(b) }, nil
	case "ISO-8859-1", "ISO8859_1", "LATIN1":
		return func(b []byte) (string, bool) {
			out := make([]rune, len(b))
			for i, x := range b {
				out[i] = rune(x)
			}
			return string(out), true
		}, nil
	}
	return nil, usage("NOT_SUPPORTED", "%s: the charset %q is not supported", c.hint(key), c.str(key)).
		because("UTF-8, US-ASCII and ISO-8859-1 are; nothing was sent").try("mqctl message get ... -o raw | iconv -f " + c.str(key))
}

// read gives a message's body in the charset.
func (it *messageItem) read(cs charset) {
	if it.packed {
		return
	}
	it.Body, it.BodyBase64 = nil, nil
	if text, ok := cs(it.raw); ok {
		it.Body = &text
	} else {
		it.BodyBase64 = ptr(base64.StdEncoding.EncodeToString(it.raw))
	}
}

func runMessageUnique(ctx context.Context, c *call) (*result, error) {
	topic, err := topicFlag(c)
	if err != nil {
		return nil, err
	}
	if c.given("group") != c.given("client") {
		return nil, usage("FLAG_MISSING", "%s and %s belong together", c.hint("group"), c.hint("client"))
	}
	var all result
	for _, id := range strings.Split(c.str("uniq"), ",") {
		id = strings.TrimSpace(id)
		if c.given("group") {
			r, err := c.resendUnique(ctx, topic, id)
			if err != nil {
				return nil, err
			}
			all.join(r)
			continue
		}
		r, err := c.query(ctx, admin.Query{Topic: topic, Key: id, Unique: true, Max: 32})
		if err != nil {
			return nil, err
		}
		sort.SliceStable(r.items, func(i, j int) bool { return r.items[i].(*messageItem).stored > r.items[j].(*messageItem).stored })
		if !c.on("all") && len(r.items) > 1 {
			r.items = r.items[:1]
		}
		all.join(r)
	}
	return &all, c.addTracks(ctx, &all)
}

// join adds what another question brought.
func (r *result) join(other *result) {
	r.cluster = other.cluster
	r.items = append(r.items, other.items...)
	r.errors = append(r.errors, other.errors...)
	r.warnings = append(r.warnings, other.warnings...)
	r.done += other.done
	if other.exit != 0 {
		r.exit = other.exit
	}
}

// addTracks finds out for every message who has consumed it.
func (c *call) addTracks(ctx context.Context, r *result) error {
	for _, item := range r.items {
		if it, ok := item.(*messageItem); ok {
			it.Tracks = ptr(c.tracks(ctx, it))
		}
	}
	return ctx.Err()
}

func runMessageByOffset(ctx context.Context, c *call) (*result, error) {
	topic, err := topicFlag(c)
	if err != nil {
		return nil, err
	}
	cs, err := c.charsetFlag("charset")
	if err != nil {
		return nil, err
	}
	r, err := c.messageAtPlace(ctx, topic, c.str("broker-name"), int32(c.whole("queue")), c.whole("offset"))
	if err != nil {
		return nil, err
	}
	for _, item := range r.items {
		item.(*messageItem).read(cs)
	}
	return r, c.addTracks(ctx, r)
}

// oldMessageUnique is mqadmin's layout of queryMsgByUniqueKey.
func oldMessageUnique(p *printer, r *result) {
	for _, item := range r.items {
		switch it := item.(type) {
		case *messageItem:
			it.oldLines(p, false)
		case *resendItem:
			p.printf("%s\n", it.oldText())
		}
	}
}
