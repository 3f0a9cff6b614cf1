package broker

import (
	"bytes"

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
}

// scanProps appends src to dst without what a broker does not store: POP_CK,
// the property checksum, the three that the broker sets itself (MSG_REGION,
// TRACE_ON, CLUSTER) and entries with an empty name or value, which RocketMQ's
// reader drops too. withoutKey also leaves out UNIQ_KEY (outer properties of a
// batch). What it saw is in p.
func scanProps(dst, src []byte, withoutKey bool, p *sentProps) []byte {
	for len(src) > 0 {
		end := bytes.IndexByte(src, record.PropertyEnd)
		entry, rest := src, []byte(nil)
		if end >= 0 {
			entry, rest = src[:end], src[end+1:]
		}
		src = rest
		sep := bytes.IndexByte(entry, record.PropertySep)
		if sep <= 0 || sep+1 >= len(entry) {
			continue
		}
		if !p.see(entry[:sep], entry[sep+1:], withoutKey) {
			continue
		}
		dst = append(dst, entry...)
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
		return !withoutKey
	case propKeys:
		p.hasKeys = !blank(value)
	case propWait:
		p.noWait = !isTrue(value)
	case propDelay:
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
