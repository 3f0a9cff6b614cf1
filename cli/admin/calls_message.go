package admin

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sort"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/store/record"
)

// maxInflated bounds the uncompressed bodies of one answer in bytes: a frame of
// 16 MiB could unfold to a thousand times its size.
const maxInflated = 256 << 20

// Message is one stored message.
type Message struct {
	Topic          string
	QueueID        int32
	QueueOffset    int64
	PhysOffset     int64
	StoredBytes    int // size of the record in the log
	SysFlag        int32
	Flag           int32
	BornMillis     int64
	StoreMillis    int64
	BornHost       netip.AddrPort
	StoreHost      netip.AddrPort
	ReconsumeTimes int32
	BodyCRC        uint32
	Body           []byte // uncompressed where Compression is "" or "zlib"
	Compression    string // "", "zlib", "lz4", "zstd": how the body is stored
	Properties     map[string]string
	OffsetID       string // the id that says where the message lies
}

// ID is the id that clients print: UNIQ_KEY, or the offset id of a message without.
func (m *Message) ID() string {
	if id := m.Properties["UNIQ_KEY"]; id != "" {
		return id
	}
	return m.OffsetID
}

// decodeMessages reads records that lie one after another; their compressed
// bodies may unfold to room bytes together.
func decodeMessages(b []byte, room int) ([]Message, error) {
	var out []Message
	for len(b) > 0 {
		v, err := record.Parse(b)
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(out)+1, err)
		}
		m, err := messageOf(v, &room)
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(out)+1, err)
		}
		out = append(out, m)
		b = b[v.Size():]
	}
	return out, nil
}

// messageOf copies a record; room is how many bytes its body may still unfold to.
func messageOf(v record.View, room *int) (Message, error) {
	m := Message{
		Topic: string(v.Topic()), QueueID: v.QueueID(),
		QueueOffset: int64(v.QueueOffset()), PhysOffset: int64(v.PhysOffset()), StoredBytes: v.Size(),
		SysFlag: v.SysFlag(), Flag: v.Flag(), BornMillis: v.BornMillis(), StoreMillis: v.StoreMillis(),
		BornHost: v.BornHost(), StoreHost: v.StoreHost(), ReconsumeTimes: v.ReconsumeTimes(),
		BodyCRC: v.BodyCRC(), Body: bytes.Clone(v.Body()), Properties: make(map[string]string),
		OffsetID: string(record.AppendOffsetID(nil, v.StoreHost(), v.PhysOffset())),
	}
	record.EachProperty(v.Properties(), func(name, value []byte) bool {
		m.Properties[string(name)] = string(value)
		return true
	})
	if m.SysFlag&record.FlagCompressed == 0 {
		return m, nil
	}
	// Bits 8 to 10 of sysFlag name the compression; 0 is zlib for old clients.
	switch m.SysFlag >> 8 & 7 {
	case 1:
		m.Compression = "lz4"
	case 2:
		m.Compression = "zstd"
	default:
		m.Compression = "zlib"
		body, err := inflate(m.Body, *room)
		if err != nil {
			return m, err
		}
		m.Body = body
		*room -= len(body)
	}
	return m, nil
}

func inflate(b []byte, most int) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("compressed body: %w", err)
	}
	defer r.Close()
	out, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("compressed body: %w", err)
	}
	if len(out) > most {
		return nil, fmt.Errorf("compressed body: more than %d bytes are left for one answer", most)
	}
	return out, nil
}

// Send is a message to be sent (310).
type Send struct {
	Group      string // producer group [mqctl]
	Topic      string
	Broker     string // broker name, told to the broker
	QueueID    int32  // -1: the broker chooses
	Flag       int32
	SysFlag    int32 // how Body is compressed, if it is
	Properties map[string]string
	Body       []byte
	// DefaultQueues is how many queues an auto-created topic gets [4].
	DefaultQueues int
}

// Sent is what became of it. Statuses are SEND_OK, FLUSH_DISK_TIMEOUT,
// FLUSH_SLAVE_TIMEOUT and SLAVE_NOT_AVAILABLE: the message is stored in all of them.
type Sent struct {
	Status        string
	OffsetID      string
	TransactionID string // UNIQ_KEY
	QueueID       int32
	QueueOffset   int64
}

// sendStatus names the answers that mean "stored".
var sendStatus = map[int]string{
	remoting.CodeSuccess:           "SEND_OK",
	remoting.CodeFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	remoting.CodeSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
	remoting.CodeFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
}

// Send sends one message to one broker (310).
func (c *Client) Send(ctx context.Context, addr string, m Send) (*Sent, error) {
	if m.Group == "" {
		m.Group = "mqctl"
	}
	if m.DefaultQueues == 0 {
		m.DefaultQueues = 4
	}
	r := request{code: remoting.ReqSendMessageV2, body: m.Body, write: true, ext: remoting.Map{
		"a": m.Group, "b": m.Topic, "c": topic.AutoCreate, "d": strconv.Itoa(m.DefaultQueues),
		"e": strconv.Itoa(int(m.QueueID)), "f": strconv.Itoa(int(m.SysFlag)), "g": strconv.FormatInt(time.Now().UnixMilli(), 10),
		"h": strconv.Itoa(int(m.Flag)), "i": string(encodeProperties(m.Properties)),
		"j": "0", "k": "false", "m": "false", "n": m.Broker,
	}}
	resp, err := c.ask(ctx, addr, r)
	if err != nil {
		return nil, err
	}
	status, stored := sendStatus[resp.Code]
	if !stored {
		refused := &Refused{Addr: addr, Request: r.code, Code: resp.Code, Remark: resp.Remark}
		return nil, orNotFound(refused, remoting.CodeTopicNotExist, "topic", m.Topic)
	}
	queue, err := extNumber(addr, r.code, resp, "queueId")
	if err != nil {
		return nil, err
	}
	offset, err := extNumber(addr, r.code, resp, "queueOffset")
	if err != nil {
		return nil, err
	}
	return &Sent{Status: status, OffsetID: resp.Ext["msgId"], TransactionID: resp.Ext["transactionId"],
		QueueID: int32(queue), QueueOffset: offset}, nil
}

// encodeProperties writes properties in a fixed order.
func encodeProperties(p map[string]string) []byte {
	names := make([]string, 0, len(p))
	for n := range p {
		names = append(names, n)
	}
	sort.Strings(names)
	var b []byte
	for _, n := range names {
		b = record.AppendProperty(b, n, p[n])
	}
	return b
}

// ToolsGroup is the consumer group of tools: brokers let it pull without a
// subscription of its own, and create no group for it.
const ToolsGroup = "TOOLS_CONSUMER"

// Pull asks for messages of one queue (11).
type Pull struct {
	Group      string // [TOOLS_CONSUMER]
	Topic      string
	Broker     string // broker name, told to the broker
	QueueID    int32
	Offset     int64
	Max        int           // messages, [32]
	Expression string        // tags, ["*"]
	Suspend    time.Duration // how long the broker may hold the pull when there is nothing; 0: not at all
}

// PullStatus is what a pull brought.
type PullStatus string

// The statuses of a pull.
const (
	PullFound      PullStatus = "FOUND"          // 0
	PullNothing    PullStatus = "NO_NEW_MSG"     // 19
	PullNoMatch    PullStatus = "NO_MATCHED_MSG" // 20: go on at Next
	PullWrongPlace PullStatus = "OFFSET_ILLEGAL" // 21: go on at Next
)

// Pulled is the answer of a pull.
type Pulled struct {
	Status          PullStatus
	Next            int64 // where to go on
	Min, Max        int64 // the queue's range
	SuggestBrokerID int64
	Remark          string // the store's status
	Messages        []Message
}

var pullStatus = map[int]PullStatus{
	remoting.CodeSuccess:              PullFound,
	remoting.CodePullNotFound:         PullNothing,
	remoting.CodePullRetryImmediately: PullNoMatch,
	remoting.CodePullOffsetMoved:      PullWrongPlace,
}

// Bits of a pull's sysFlag.
const (
	pullSuspend      = 2
	pullSubscription = 4
)

// Pull pulls from one queue of one broker (11).
func (c *Client) Pull(ctx context.Context, addr string, p Pull) (*Pulled, error) {
	r := pullRequest(p)
	resp, err := c.ask(ctx, addr, r)
	if err != nil {
		return nil, err
	}
	status, ok := pullStatus[resp.Code]
	if !ok {
		refused := &Refused{Addr: addr, Request: r.code, Code: resp.Code, Remark: resp.Remark}
		return nil, orNotFound(refused, remoting.CodeTopicNotExist, "topic", p.Topic)
	}
	out := &Pulled{Status: status, Remark: resp.Remark}
	for _, f := range []struct {
		name string
		to   *int64
	}{{"nextBeginOffset", &out.Next}, {"minOffset", &out.Min}, {"maxOffset", &out.Max}, {"suggestWhichBrokerId", &out.SuggestBrokerID}} {
		if *f.to, err = extNumber(addr, r.code, resp, f.name); err != nil {
			return nil, err
		}
	}
	if status == PullFound {
		if out.Messages, err = decodeMessages(resp.Body, maxInflated); err != nil {
			return nil, &BadAnswer{Addr: addr, Request: r.code, Err: err}
		}
	}
	return out, nil
}

func pullRequest(p Pull) request {
	if p.Group == "" {
		p.Group = ToolsGroup
	}
	if p.Max <= 0 {
		p.Max = 32
	}
	if p.Expression == "" {
		p.Expression = "*"
	}
	flags := pullSubscription
	if p.Suspend > 0 {
		flags |= pullSuspend
	}
	ext := queueExt(p.Topic, p.QueueID)
	for k, v := range map[string]string{
		"consumerGroup": p.Group, "queueOffset": strconv.FormatInt(p.Offset, 10),
		"maxMsgNums": strconv.Itoa(p.Max), "sysFlag": strconv.Itoa(flags), "commitOffset": "0",
		"suspendTimeoutMillis": strconv.FormatInt(p.Suspend.Milliseconds(), 10),
		"subscription":         p.Expression, "subVersion": "0", "expressionType": "TAG",
	} {
		ext[k] = v
	}
	if p.Broker != "" {
		ext["bname"] = p.Broker
	}
	return request{code: remoting.ReqPullMessage, ext: ext, extra: p.Suspend}
}

// Query finds messages by key (12).
type Query struct {
	Topic, Key string
	// Unique looks for a UNIQ_KEY instead of a word of KEYS.
	Unique               bool
	Max                  int   // messages, [64]
	FromMillis, ToMillis int64 // store time; ToMillis 0 means no end
}

// QueryMessages finds messages of one broker by key; none is an empty list. The
// broker's index holds hashes, so what does not really carry the key is dropped here.
func (c *Client) QueryMessages(ctx context.Context, addr string, q Query) ([]Message, error) {
	if q.Max <= 0 {
		q.Max = 64
	}
	if q.ToMillis <= 0 {
		q.ToMillis = 1<<63 - 1
	}
	r := request{code: remoting.ReqQueryMessage, ext: remoting.Map{
		"topic": q.Topic, "key": q.Key, "maxNum": strconv.Itoa(q.Max),
		"beginTimestamp": strconv.FormatInt(q.FromMillis, 10), "endTimestamp": strconv.FormatInt(q.ToMillis, 10),
		"_UNIQUE_KEY_QUERY": strconv.FormatBool(q.Unique),
	}}
	resp, err := c.call(ctx, addr, r)
	var refused *Refused
	if errors.As(err, &refused) && refused.Code == remoting.CodeQueryNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := decodeMessages(resp.Body, maxInflated)
	if err != nil {
		return nil, &BadAnswer{Addr: addr, Request: r.code, Err: err}
	}
	out := all[:0]
	for _, m := range all {
		if q.matches(&m) {
			out = append(out, m)
		}
	}
	return out, nil
}

func (q *Query) matches(m *Message) bool {
	if m.Topic != q.Topic {
		return false
	}
	if q.Unique {
		return m.Properties["UNIQ_KEY"] == q.Key
	}
	for _, k := range strings.Fields(m.Properties["KEYS"]) {
		if k == q.Key {
			return true
		}
	}
	return false
}

// MessageAt reads the message at a byte position of a broker's log (33).
func (c *Client) MessageAt(ctx context.Context, addr string, offset int64) (*Message, error) {
	r := request{code: remoting.ReqViewMessageByID, ext: remoting.Map{"offset": strconv.FormatInt(offset, 10)}}
	resp, err := c.call(ctx, addr, r)
	if err != nil {
		return nil, orNotFoundText(err, "not find", "message", strconv.FormatInt(offset, 10))
	}
	all, err := decodeMessages(resp.Body, maxInflated)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%d records instead of one", len(all))
	}
	if err != nil {
		return nil, &BadAnswer{Addr: addr, Request: r.code, Err: err}
	}
	return &all[0], nil
}

// MessageByOffsetID reads the message that an offset id (32 or 56 hex digits)
// names, from the broker whose address is inside the id; addr "" means that
// address, else the one to ask instead.
func (c *Client) MessageByOffsetID(ctx context.Context, addr, id string) (*Message, error) {
	host, offset, err := record.ParseOffsetID(id)
	if err != nil {
		return nil, &BadAddress{Text: id, Why: "an offset id of 32 or 56 hex digits is expected: " + err.Error()}
	}
	if addr == "" {
		addr = host.String()
	}
	m, err := c.MessageAt(ctx, addr, int64(offset))
	var missing *NotFound
	if errors.As(err, &missing) {
		missing.Name = id
	}
	return m, err
}
