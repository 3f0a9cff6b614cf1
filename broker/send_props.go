package broker

import (
	"bytes"

	"mqctl/store"
	"mqctl/store/record"
)

// Names of message properties that the broker looks at (Java class MessageConst).
const (
	propUniqKey     = "UNIQ_KEY"
	propKeys        = "KEYS"
	propWait        = "WAIT"
	propDelay       = "DELAY"
	propTran        = "TRAN_MSG"
	propRegion      = "MSG_REGION"
	propTraceOn     = "TRACE_ON"
	propCluster     = "CLUSTER"
	propPopCK       = "POP_CK"
	propCRC         = "__CRC32#"
	propInnerNum    = "INNER_NUM"
	propRealTopic   = "REAL_TOPIC"
	propRealQueue   = "REAL_QID"
	propTimerSec    = "TIMER_DELAY_SEC"
	propTimerMs     = "TIMER_DELAY_MS"
	propTimerAt     = "TIMER_DELIVER_MS"
	propTimerDelete = "TIMER_DEL_UNIQKEY"
	propTimerOut    = "TIMER_OUT_MS"
	propRetryTopic  = "RETRY_TOPIC"
	propOriginID    = "ORIGIN_MESSAGE_ID"
)

// sentProps is what one pass over a message's property text finds. The slices
// alias the text.
type sentProps struct {
	uniqKey  []byte
	delay    int32 // DELAY; 0 = none
	badDelay bool  // DELAY is no number
	noWait   bool  // WAIT is there and not "true"
	hasKeys  bool  // KEYS is there and not blank
	tran     bool  // TRAN_MSG=true
	timer    bool  // asks for a timer (TIMER_DELAY_SEC and the like)
	fired    bool  // TIMER_OUT_MS: a timer delivered it already
	inner    bool  // INNER_NUM
	real     bool  // REAL_TOPIC or REAL_QID left over from an earlier delay

	known store.Properties // what the store would find in the text
}

// scanProps appends src to dst without what a broker does not store: POP_CK,
// the property checksum, the three that the broker sets itself (MSG_REGION,
// TRACE_ON, CLUSTER) and entries with an empty name or value, which RocketMQ's
// reader drops too. withoutKey also leaves out UNIQ_KEY (outer properties of a
// batch). What it saw is in p.
func scanProps(dst, src []byte, withoutKey bool, p *sentProps) []byte {
	from := 0 // what lies between it and the entry being looked at is kept
	for at := 0; at < len(src); {
		sep := at // names are short
		for sep < len(src) && src[sep] != record.PropertySep && src[sep] != record.PropertyEnd {
			sep++
		}
		end, kept := sep, false
		if sep < len(src) && src[sep] == record.PropertySep {
			if n := bytes.IndexByte(src[sep+1:], record.PropertyEnd); n >= 0 {
				end = sep + 1 + n
			} else {
				end = len(src)
			}
			kept = sep > at && end > sep+1 && p.see(src[at:sep], src[sep+1:end], withoutKey)
		}
		next := min(end+1, len(src))
		if !kept {
			dst = append(dst, src[from:at]...)
			from = next
		}
		at = next
	}
	if from == len(src) {
		return dst
	}
	dst = append(dst, src[from:]...)
	if src[len(src)-1] != record.PropertyEnd {
		dst = append(dst, record.PropertyEnd)
	}
	return dst
}

// see notes one entry and says whether it is stored.
func (p *sentProps) see(name, value []byte, withoutKey bool) bool {
	switch string(name) {
	case propRegion, propTraceOn, propCluster, propPopCK, propCRC:
		return false
	case propUniqKey:
		p.uniqKey = value
		if withoutKey {
			return false
		}
		if p.known.UniqueKey == nil {
			p.known.UniqueKey = value
		}
	case record.PropertyTags:
		p.known.Tags = value
	case propKeys:
		p.known.Keys = value
		p.hasKeys = !blank(value)
	case propWait:
		p.noWait = !isTrue(value)
	case propDelay:
		p.known.Delay = value
		p.delay, p.badDelay = parseDelay(value)
	case propTran:
		p.tran = isTrue(value)
	case propTimerSec, propTimerMs, propTimerAt, propTimerDelete:
		p.timer = true
	case propTimerOut:
		p.fired = true
	case propInnerNum:
		p.inner = true
	case propRealTopic, propRealQueue:
		p.real = true
	}
	return true
}

// isTrue is Java's Boolean.parseBoolean.
func isTrue(v []byte) bool {
	return len(v) == 4 && v[0]|0x20 == 't' && v[1]|0x20 == 'r' && v[2]|0x20 == 'u' && v[3]|0x20 == 'e'
}

func blank(v []byte) bool {
	for _, c := range v {
		if c > ' ' {
			return false
		}
	}
	return true
}

// parseDelay reads a level; a negative one means none.
func parseDelay(v []byte) (level int32, bad bool) {
	neg := false
	if len(v) > 1 && (v[0] == '-' || v[0] == '+') {
		neg = v[0] == '-'
		v = v[1:]
	}
	if len(v) == 0 || len(v) > 9 {
		return 0, true
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, true
		}
		level = level*10 + int32(c-'0')
	}
	if neg {
		level = 0
	}
	return level, false
}
