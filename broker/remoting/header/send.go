package header

import "mqctl/broker/remoting"

// SendMessage is the header of SEND_MESSAGE (10, full names) and of SEND_MESSAGE_V2
// and SEND_BATCH_MESSAGE (310 and 320, letters). Whether the body is a batch is said
// by Batch, not by the code.
type SendMessage struct {
	ProducerGroup, Topic, DefaultTopic, Properties, BrokerName    []byte
	DefaultTopicQueueNums, QueueID, SysFlag, Flag, ReconsumeTimes int32
	BornTimestamp                                                 int64 // ms
	UnitMode, Batch                                               bool
	MaxReconsumeTimes                                             int32
	HasMaxReconsumeTimes                                          bool
}

// sendNames are the required fields by letter, from a to h.
var sendNames = [...]string{
	"producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums",
	"queueId", "sysFlag", "bornTimestamp", "flag",
}

// allSent is the set of the required fields.
const allSent = 1<<len(sendNames) - 1

// sendLetter is the letter that stands for a full name, 0 for names that have none.
func sendLetter(k []byte) byte {
	switch string(k) {
	case "producerGroup":
		return 'a'
	case "topic":
		return 'b'
	case "defaultTopic":
		return 'c'
	case "defaultTopicQueueNums":
		return 'd'
	case "queueId":
		return 'e'
	case "sysFlag":
		return 'f'
	case "bornTimestamp":
		return 'g'
	case "flag":
		return 'h'
	case "properties":
		return 'i'
	case "reconsumeTimes":
		return 'j'
	case "unitMode":
		return 'k'
	case "maxReconsumeTimes":
		return 'l'
	case "batch":
		return 'm'
	case "bname":
		return 'n'
	}
	return 0
}

// DecodeV1 reads full names (code 10).
func (h *SendMessage) DecodeV1(f remoting.Fields) error {
	*h = SendMessage{}
	var seen uint
	for {
		k, v, ok := f.Next()
		if !ok {
			return h.complete(seen, false)
		}
		if letter := sendLetter(k); letter != 0 {
			if err := h.set(letter, v, &seen); err != nil {
				err.Field = string(k)
				return err
			}
		}
	}
}

// DecodeV2 reads letters (codes 310 and 320).
func (h *SendMessage) DecodeV2(f remoting.Fields) error {
	*h = SendMessage{}
	var seen uint
	for {
		k, v, ok := f.Next()
		if !ok {
			return h.complete(seen, true)
		}
		switch {
		case len(k) == 1:
			if err := h.set(k[0], v, &seen); err != nil {
				return err
			}
		case string(k) == "bname":
			h.BrokerName = v
		}
	}
}

// complete checks that every required field was there.
func (h *SendMessage) complete(seen uint, letters bool) error {
	if seen&allSent == allSent {
		return nil
	}
	for i, name := range sendNames {
		if seen&(1<<i) == 0 {
			if letters {
				name = string(rune('a'+i)) + " (" + name + ")"
			}
			return fieldError("SendMessage", name, nil, whyMissing)
		}
	}
	return nil
}

// set stores the field of one letter and notes it in seen.
func (h *SendMessage) set(letter byte, v []byte, seen *uint) *FieldError {
	var why string
	switch letter {
	case 'a':
		h.ProducerGroup = v
	case 'b':
		h.Topic = v
	case 'c':
		h.DefaultTopic = v
	case 'd':
		h.DefaultTopicQueueNums, why = parseWord(v)
	case 'e':
		h.QueueID, why = parseWord(v)
	case 'f':
		h.SysFlag, why = parseWord(v)
	case 'g':
		h.BornTimestamp, why = parseLong(v)
	case 'h':
		h.Flag, why = parseWord(v)
	case 'i':
		h.Properties = v
	case 'j':
		if len(v) > 0 {
			h.ReconsumeTimes, why = parseWord(v)
		}
	case 'k':
		h.UnitMode = isTrue(v)
	case 'l':
		if len(v) > 0 {
			h.MaxReconsumeTimes, why = parseWord(v)
			h.HasMaxReconsumeTimes = true
		}
	case 'm':
		h.Batch = isTrue(v)
	case 'n':
		h.BrokerName = v
	}
	if why != "" {
		return fieldError("SendMessage", string(rune(letter)), v, why)
	}
	if i := letter - 'a'; int(i) < len(sendNames) {
		*seen |= 1 << i
	}
	return nil
}

// parseLong reads a number; why is empty if it is one.
func parseLong(v []byte) (x int64, why string) {
	switch len(v) {
	case 0:
		return 0, whyMissing
	case 1:
		if d := v[0] - '0'; d <= 9 { // most are: flags, queue ids, attempts
			return int64(d), ""
		}
	}
	x, ok := remoting.ParseInt(v)
	if !ok {
		return 0, whyNumber
	}
	return x, ""
}

// parseWord is parseLong for 32 bits.
func parseWord(v []byte) (int32, string) {
	x, why := parseLong(v)
	if why == "" && x != int64(int32(x)) {
		why = whyRange
	}
	return int32(x), why
}

// EncodeExt writes letters, for codes 310 and 320.
func (h *SendMessage) EncodeExt(w *remoting.ExtWriter) {
	w.Bytes("a", h.ProducerGroup)
	w.Bytes("b", h.Topic)
	w.Bytes("c", h.DefaultTopic)
	w.Int("d", int64(h.DefaultTopicQueueNums))
	w.Int("e", int64(h.QueueID))
	w.Int("f", int64(h.SysFlag))
	w.Int("g", h.BornTimestamp)
	w.Int("h", int64(h.Flag))
	if len(h.Properties) > 0 {
		w.Bytes("i", h.Properties)
	}
	w.Int("j", int64(h.ReconsumeTimes))
	w.Bool("k", h.UnitMode)
	if h.HasMaxReconsumeTimes {
		w.Int("l", int64(h.MaxReconsumeTimes))
	}
	w.Bool("m", h.Batch)
	if len(h.BrokerName) > 0 {
		w.Bytes("n", h.BrokerName)
	}
}

// SendMessageReply is the header of the answers to 10, 310 and 320 that say a
// message is stored (codes 0, 10, 11, 12). Its slices are borrowed during Reply.
type SendMessageReply struct {
	MsgID, TransactionID, BatchUniqID, Region []byte // TransactionID, BatchUniqID nil = absent
	QueueID                                   int32
	QueueOffset                               int64
	TraceOn                                   bool
}

// EncodeExt writes the answer's fields. MsgID, queue and offset are always there:
// Java's producer fails on an answer without them.
func (h *SendMessageReply) EncodeExt(w *remoting.ExtWriter) {
	w.Bytes("msgId", h.MsgID)
	w.Int("queueId", int64(h.QueueID))
	w.Int("queueOffset", h.QueueOffset)
	if h.TransactionID != nil {
		w.Bytes("transactionId", h.TransactionID)
	}
	if h.BatchUniqID != nil {
		w.Bytes("batchUniqId", h.BatchUniqID)
	}
	w.Bytes("MSG_REGION", h.Region)
	w.Bool("TRACE_ON", h.TraceOn)
}

// DecodeMap reads an answer.
func (h *SendMessageReply) DecodeMap(m map[string]string) error {
	*h = SendMessageReply{Region: []byte(m["MSG_REGION"]), TraceOn: m["TRACE_ON"] != "false"}
	c := codec{header: "SendMessageReply", m: m}
	var id string
	c.text("msgId", &id, required)
	c.word("queueId", &h.QueueID, required)
	c.long("queueOffset", &h.QueueOffset, required)
	h.MsgID = []byte(id)
	if v, ok := m["transactionId"]; ok {
		h.TransactionID = []byte(v)
	}
	if v, ok := m["batchUniqId"]; ok {
		h.BatchUniqID = []byte(v)
	}
	return c.err
}

// SendErrorReply is the header of an answer that refuses a message: these two
// fields and no others.
type SendErrorReply struct {
	Region  []byte
	TraceOn bool
}

// EncodeExt writes the two fields.
func (h *SendErrorReply) EncodeExt(w *remoting.ExtWriter) {
	w.Bytes("MSG_REGION", h.Region)
	w.Bool("TRACE_ON", h.TraceOn)
}
