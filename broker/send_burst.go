package broker

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
	"mqctl/replication"
	"mqctl/store"
	"mqctl/store/record"
)

// burst collects the sends of one burst of one connection: encoded into batch,
// with the calls to answer beside it. It is borrowed from sendHandler.bursts
// and given back when everything is answered: at once, or when the flusher has
// called Flushed and the replicator Replicated. One goroutine at a time works with
// it.
type burst struct {
	h     *sendHandler
	conn  *remoting.Conn
	born  netip.AddrPort
	batch store.Batch
	calls []sendCall
	group int32 // last batch number given

	// Of the send being checked.
	head  header.SendMessage
	msg   outgoing
	draft record.Draft

	// Buffers, reused for each message.
	text  []byte // property text of the message
	outer []byte // property text of a batch, without UNIQ_KEY
	name  []byte // dead letter topic
	num   []byte
	keys  []byte // unique keys of all calls

	// Of the waits: how many are open, and how the ended ones ended.
	open    atomic.Int32
	flushed store.Status
	acked   replication.Ack

	ids []byte // msgId of a reply

	reply   header.SendMessageReply
	refused header.SendErrorReply
}

// outgoing is where a send goes after the rewrites.
type outgoing struct {
	topic     []byte
	queue     int32
	requested int32 // told to the client, also when a delay moved the message
	sysFlag   int32
	dead      bool // to the dead letter topic
}

// sendCall is one send waiting for its answer.
type sendCall struct {
	call         remoting.Call
	first, n     int32 // its items in the batch
	requested    int32
	keyAt, keyTo int32 // its unique key in keys; empty = none
	inner        bool  // a batch that is one record
	wait         bool  // wants to be answered after the flush and the slaves
	answered     bool
}

func (h *sendHandler) newBurst(c *remoting.Conn, born netip.AddrPort) *burst {
	b, ok := h.bursts.Get().(*burst)
	if !ok {
		b = &burst{h: h}
	}
	b.conn, b.born, b.batch.Sender = c, born, c.ID()
	return b
}

// release gives the burst back. Buffers that an unusual burst made large are
// left to the collector.
func (b *burst) release() {
	if b.batch.Bytes() > 4*burstBytes || cap(b.calls) > 4*burstItems {
		return
	}
	b.batch.Reset()
	clear(b.calls)
	b.calls, b.keys, b.group, b.conn = b.calls[:0], b.keys[:0], 0, nil
	b.head, b.msg, b.draft, b.reply = header.SendMessage{}, outgoing{}, record.Draft{}, header.SendMessageReply{}
	b.h.bursts.Put(b)
}

// decode reads the header of the request into b.head.
func (b *burst) decode(r *remoting.Request) error {
	b.head = header.SendMessage{}
	if r.Code == remoting.ReqSendMessage {
		return b.head.DecodeV1(r.Ext)
	}
	return b.head.DecodeV2(r.Ext)
}

// full says that the batch should be appended before the burst ends.
func (b *burst) full() bool {
	return b.batch.Bytes() >= burstBytes || b.batch.Len() >= burstItems
}

// fill sets what all messages of a request share.
func (b *burst) fill(h *sendHandler, r *remoting.Request) {
	d, head, m := &b.draft, &b.head, &b.msg
	d.Topic, d.QueueID, d.SysFlag = m.topic, m.queue, m.sysFlag
	d.Flag, d.BornMillis, d.ReconsumeTimes = head.Flag, head.BornTimestamp, head.ReconsumeTimes
	d.BornHost, d.StoreHost = b.born, h.here.host
	d.PreparedOffset = 0
	d.Body = r.Body
}

// element completes the property text of one element of a batch, of which p is
// known: after its own come the batch's, and the batch's unique key only if it
// has none (RocketMQ 5.3.3 appends the batch's to all, which hides their own from
// maps).
func (b *burst) element(text []byte, p, outer *sentProps) []byte {
	text = append(text, b.outer...)
	if outer.known.Tags != nil {
		p.known.Tags = outer.known.Tags
	}
	if outer.known.Keys != nil {
		p.known.Keys = outer.known.Keys
	}
	if outer.known.Delay != nil {
		p.known.Delay = outer.known.Delay
	}
	if p.uniqKey == nil && outer.uniqKey != nil {
		text = record.AppendProperty(text, propUniqKey, outer.uniqKey)
		p.known.UniqueKey = outer.uniqKey
	}
	return text
}

// hold notes the call of the n items just added.
func (b *burst) hold(r *remoting.Request, n int32, key []byte, noWait bool) {
	c := sendCall{call: r.Call, first: int32(b.batch.Len()) - n, n: n, requested: b.msg.requested, wait: !noWait}
	if len(key) > 0 {
		if at := len(b.keys) - len(key); at >= 0 && &b.keys[at] == &key[0] {
			c.keyAt = int32(at) // generated in place
		} else {
			c.keyAt = int32(len(b.keys))
			b.keys = append(b.keys, key...)
		}
		c.keyTo = int32(len(b.keys))
	}
	b.calls = append(b.calls, c)
}

// refuse answers a send that was not taken. MSG_REGION and TRACE_ON are on
// every answer of a send.
func (b *burst) refuse(r *remoting.Request, v verdict) {
	b.refused = sendRefusal(b.h.live.Load())
	r.Reply(v.code, v.remark, &b.refused, nil)
}

// admitCopies says whether a send that waits for slaves may be appended: a
// synchronous master with too few replicas in sync takes none.
func (h *sendHandler) admitCopies(noWait bool) verdict {
	if noWait || h.gate.stand.Load().Role != SyncMaster || h.slaves.Admit() != replication.NotEnoughSync {
		return verdict{}
	}
	return verdict{code: remoting.CodeSystemError, remark: "in-sync replicas not enough"}
}

// waitsForSlaves says whether sends wait for more copies than the master's.
func (h *sendHandler) waitsForSlaves() bool {
	ha := &h.live.Load().HA
	return h.gate.stand.Load().Role == SyncMaster && (ha.InSyncReplicas > 1 || ha.AllAckInSync)
}

// sendRefusal is what comes with every refusal of a send.
func sendRefusal(l *live) header.SendErrorReply {
	return header.SendErrorReply{Region: l.region, TraceOn: l.TraceOn}
}

// finish appends the batch and answers, now or from the flusher or replicator.
// It ends the burst's stay in the gate.
func (h *sendHandler) finish(b *burst) {
	if len(b.calls) == 0 {
		h.gate.leave()
		b.release()
		return
	}
	h.store.AppendAll(&b.batch)
	h.gate.leave()
	h.count(b)
	waiting := false
	flush, slaves := h.store.SyncFlush(), h.waitsForSlaves()
	for i := range b.calls {
		c := &b.calls[i]
		st := b.batch.Items[c.first].Status
		if (flush || slaves) && c.wait && st == store.PutOK && !c.call.OneWay() {
			waiting = true
			continue
		}
		b.answer(c, st, replication.Replicated)
	}
	if !waiting {
		b.release()
		return
	}
	h.waiting.Add(int64(b.batch.Bytes()))
	b.wait(flush, slaves)
}

// wait begins the waits. Either may end before its call comes back.
func (b *burst) wait(flush, slaves bool) {
	h, end := b.h, b.batch.End()
	b.flushed, b.acked = store.PutOK, replication.Replicated
	if flush && slaves {
		b.open.Store(2)
	} else {
		b.open.Store(1)
	}
	if slaves {
		h.slaves.Wait(end, b)
	}
	if flush {
		h.store.WaitFlushed(end, b)
	}
}

// Flushed is called once, by the flusher.
func (b *burst) Flushed(st store.Status) {
	b.flushed = st
	b.waited()
}

// Replicated is called once, by the replicator.
func (b *burst) Replicated(a replication.Ack) {
	b.acked = a
	b.waited()
}

// waited answers what waited when the last wait has ended.
func (b *burst) waited() {
	if b.open.Add(-1) > 0 {
		return
	}
	b.h.waiting.Add(-int64(b.batch.Bytes()))
	conn := b.conn
	conn.Guard("answers after a wait", func() {
		for i := range b.calls {
			if c := &b.calls[i]; !c.answered {
				b.answer(c, b.flushed, b.acked)
			}
		}
		b.release()
	})
	conn.Flush()
}

// count adds the stored messages to the statistics, once per run of messages
// to one queue.
func (h *sendHandler) count(b *burst) {
	items := b.batch.Items
	for i := 0; i < len(items); {
		q, n, bytes := items[i].Queue, int64(0), int64(0)
		for ; i < len(items) && items[i].Queue == q; i++ {
			if items[i].Status == store.PutOK {
				n += int64(items[i].Count())
				bytes += int64(items[i].Size)
			}
		}
		if n > 0 {
			b.name = append(b.name[:0], q.Topic()...)
			h.stats.Put(b.name, n, bytes)
		}
	}
}

// answer replies to one send with what the store and the slaves did.
func (b *burst) answer(c *sendCall, st store.Status, ack replication.Ack) {
	c.answered = true
	if c.call.OneWay() {
		return
	}
	l := b.h.live.Load()
	code, remark := b.h.putCode(l, st)
	if counted(code) && ack != replication.Replicated {
		code, remark = ackCode(ack)
	}
	if !counted(code) {
		b.refused = sendRefusal(l)
		c.call.Reply(code, remark, &b.refused, nil)
		return
	}
	b.ids = b.ids[:0]
	items := b.batch.Items[c.first : c.first+c.n]
	for i := range items {
		if i > 0 {
			b.ids = append(b.ids, ',')
		}
		b.ids = record.AppendOffsetID(b.ids, b.h.here.host, items[i].Phys)
	}
	b.reply = header.SendMessageReply{MsgID: b.ids, QueueID: c.requested, QueueOffset: int64(items[0].QueueOffset),
		Region: l.region, TraceOn: l.TraceOn}
	if c.keyTo > c.keyAt {
		b.reply.TransactionID = b.keys[c.keyAt:c.keyTo]
		if c.inner {
			b.reply.BatchUniqID = b.reply.TransactionID
		}
	}
	c.call.Reply(code, remark, &b.reply, nil)
}

// counted says whether clients count the answer as stored.
func counted(code int) bool {
	switch code {
	case remoting.CodeSuccess, remoting.CodeFlushDiskTimeout, remoting.CodeFlushSlaveTimeout, remoting.CodeSlaveNotAvailable:
		return true
	}
	return false
}

// ackCode maps a wait for slaves that failed to the answer. A failed copy hides a
// failed flush, as in RocketMQ (CommitLog.handleDiskFlushAndHA).
func ackCode(a replication.Ack) (int, string) {
	switch a {
	case replication.AckTimeout:
		return remoting.CodeFlushSlaveTimeout, ""
	case replication.NoSlave:
		return remoting.CodeSlaveNotAvailable, ""
	case replication.NotEnoughSync:
		return remoting.CodeSystemError, "in-sync replicas not enough; the message is stored here"
	default:
		return remoting.CodeServiceNotAvailable, "the broker stopped being master while the message waited for its slaves; it may be stored"
	}
}

// putCode maps what the store did to the answer (RocketMQ's
// SendMessageProcessor.handlePutMessageResult).
func (h *sendHandler) putCode(l *live, st store.Status) (int, string) {
	switch st {
	case store.PutOK:
		return remoting.CodeSuccess, ""
	case store.FlushDiskTimeout:
		return remoting.CodeFlushDiskTimeout, ""
	case store.ServiceNotAvailable:
		return remoting.CodeServiceNotAvailable, h.unavailable()
	case store.CreateFailed:
		return remoting.CodeSystemError, "no next commit log file could be made; the broker's log says why"
	case store.MessageIllegal, store.PropertiesExceeded:
		v := h.illegal(l)
		return v.code, v.remark
	default:
		return remoting.CodeSystemError, "the message could not be stored: " + st.String()
	}
}

// unavailable says why nothing is stored, with the disk ratios operators look for.
func (h *sendHandler) unavailable() string {
	why := "the store is closing"
	if err := h.store.Writable(); err != nil {
		why = err.Error()
	}
	log, queues := h.store.DiskRatio()
	return fmt.Sprintf("service not available now: %s; CL: %5.2f CQ: %5.2f INDEX: %5.2f", why, log, queues, queues)
}

func appendInt(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }

// describeMap prints a map as Java does, with its keys sorted.
func describeMap(m map[string]string) string {
	keys := make([]string, 0, len(m))
	for k, v := range m {
		keys = append(keys, k+"="+v)
	}
	slices.Sort(keys)
	return "{" + strings.Join(keys, ", ") + "}"
}
