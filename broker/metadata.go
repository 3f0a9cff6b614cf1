package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"mqctl/broker/delay"
	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/subgroup"
)

// metadataAdmin serves what a slave keeps of its master: 21, 43, 45, 60, 61, 201
// and 402. Slaves of Apache's 5.3.3 ask without any field and get all in one, with no
// total; later ones ask for parts.
type metadataAdmin struct {
	topics *topic.Table
	groups *subgroup.Groups
	delays *delay.Scheduler
	modes  *requestModes
	store  *store.Store
	start  time.Time
	now    func() time.Time
	// allProgress is the answer to 43; what a foreign slave has is merged first (R3).
	allProgress func(ctx context.Context, r *remoting.Request) []byte
}

// mostPerPage bounds a page of topics or groups, whatever is asked for.
const mostPerPage = 20_000

// pageExt are the fields of a request for a part of a table.
type pageExt struct {
	given     bool
	seq, most int
	have      *table.DataVersion // the version that the parts before were of
}

// page reads them: seq and most under the names that the table's request has.
func page(r *remoting.Request, seqKey, mostKey string) (p pageExt, err error) {
	number := func(key string) (int, bool, error) {
		v, found, err := r.Ext.Int(key)
		if err != nil || v < 0 || v > 1<<31-1 {
			return 0, false, &remoting.Error{Code: remoting.CodeInvalidParameter, Remark: fmt.Sprintf("%s is not a number that fits", key)}
		}
		return int(v), found, nil
	}
	seq, hasSeq, err := number(seqKey)
	if err != nil {
		return p, err
	}
	most, hasMost, err := number(mostKey)
	if err != nil {
		return p, err
	}
	p.given, p.seq, p.most = hasSeq || hasMost, seq, mostPerPage
	if hasMost {
		p.most = min(most, mostPerPage)
	}
	if text, found := r.Ext.Get("dataVersion"); found && text != "" {
		p.have = new(table.DataVersion)
		if err := fastjson.Unmarshal([]byte(text), p.have); err != nil {
			return p, &remoting.Error{Code: remoting.CodeInvalidParameter, Remark: "dataVersion: " + err.Error()}
		}
	}
	return p, nil
}

// changes answers a slave of ours that says which version it has with what changed
// since, if that is remembered.
func changes(r *remoting.Request, of func(since table.DataVersion) ([]byte, bool)) bool {
	since, asked := r.Ext.Get("since")
	if !asked {
		return false
	}
	version, err := parseVersion(since)
	if err != nil {
		r.Reply(remoting.CodeInvalidParameter, err.Error(), nil, nil)
		return true
	}
	text, known := of(version)
	if known {
		r.Reply(remoting.CodeSuccess, "", remoting.Map{"changes": "true"}, text)
	}
	return known
}

// allTopics serves 21.
func (a *metadataAdmin) allTopics(_ context.Context, r *remoting.Request) {
	p, err := page(r, "topicSeq", "maxTopicNum")
	if err == nil && changes(r, a.topics.ChangesJSON) {
		return
	}
	switch {
	case err != nil:
		refuse(r, err)
	case !p.given:
		r.Reply(remoting.CodeSuccess, "", remoting.None{}, a.topics.JSON())
	default:
		text, total := a.topics.PageJSON(p.seq, p.most, p.have)
		r.Reply(remoting.CodeSuccess, "", &numberReply{"totalTopicNum", int64(total)}, text)
	}
}

// allGroups serves 201.
func (a *metadataAdmin) allGroups(_ context.Context, r *remoting.Request) {
	p, err := page(r, "groupSeq", "maxGroupNum")
	if err == nil && changes(r, a.groups.ChangesJSON) {
		return
	}
	switch {
	case err != nil:
		refuse(r, err)
	case !p.given:
		r.Reply(remoting.CodeSuccess, "", remoting.None{}, a.groups.JSON())
	default:
		text, total := a.groups.PageJSON(p.seq, p.most, p.have)
		r.Reply(remoting.CodeSuccess, "", &numberReply{"totalGroupNum", int64(total)}, text)
	}
}

// allOffsets serves 43. A foreign slave's own progress is merged first.
func (a *metadataAdmin) allOffsets(ctx context.Context, r *remoting.Request) {
	r.Reply(remoting.CodeSuccess, "", nil, a.allProgress(ctx, r))
}

// allDelays serves 45.
func (a *metadataAdmin) allDelays(_ context.Context, r *remoting.Request) {
	r.Reply(remoting.CodeSuccess, "", nil, a.delays.JSON())
}

// allModes serves 402.
func (a *metadataAdmin) allModes(_ context.Context, r *remoting.Request) {
	r.Reply(remoting.CodeSuccess, "", nil, a.modes.JSON())
}

// timerCheckpointBytes is the size of an answer to 60: seven numbers
// (TimerCheckpoint.encode).
const timerCheckpointBytes = 56

// timerTopic holds RocketMQ's timer messages until they are due.
const timerTopic = "rmq_sys_wheel_timer"

// timerCheckpoint serves 60. This broker takes no timer messages: without any,
// everything up to this second has been read; messages that an older broker left
// unread in the queue have not, and then nothing has been.
func (a *metadataAdmin) timerCheckpoint(_ context.Context, r *remoting.Request) {
	read := a.now().Truncate(time.Second).UnixMilli()
	if q := a.store.Lookup([]byte(timerTopic), 0); q != nil && q.Max() > q.Min() {
		read = 0
	}
	b := make([]byte, 0, timerCheckpointBytes)
	for _, v := range []int64{
		read, 0, // lastReadTimeMs, lastTimerLogFlushPos
		0, 0, // lastTimerQueueOffset, masterTimerQueueOffset
		0, a.start.UnixMilli(), 0, // version: stateVersion, timestamp, counter
	} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	r.Reply(remoting.CodeSuccess, "", nil, b)
}

// timerMetrics serves 61: nothing waits.
func (a *metadataAdmin) timerMetrics(_ context.Context, r *remoting.Request) {
	b := append([]byte(nil), `{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":`...)
	b = strconv.AppendInt(b, a.start.UnixMilli(), 10)
	r.Reply(remoting.CodeSuccess, "", nil, append(b, `},"timingCount":{}}`...))
}
