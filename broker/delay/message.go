package delay

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"mqctl/broker/topic"
	"mqctl/store"
	"mqctl/store/record"
)

// Properties that say where a delayed message belongs (MessageConst).
const (
	propertyRealTopic = "REAL_TOPIC"
	propertyRealQueue = "REAL_QID"
)

// noMessage is the size of a unit that stands for no message: RocketMQ fills
// the front of a queue that starts late with them.
const noMessage = 0x7FFFFFFF

// errGone is a message that retention has removed from the log.
var errGone = errors.New("the message is not in the log any more")

// refusal is a message that cannot be delivered, now or later.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

// read makes the message that a unit stands for into the one to be delivered.
// The draft is valid until the next call. Errors: errGone, *refusal, or what
// may be better next time.
func (s *Scheduler) read(u store.Unit) (*record.Draft, error) {
	if u.Phys < s.log.first() || u.Size == noMessage {
		return nil, errGone
	}
	var err error
	if cap(s.buf) > batchBytes { // do not keep the buffer of a huge message
		s.buf = nil
	}
	if s.buf, err = s.log.message(s.buf[:0], u.Phys); err != nil {
		var none *store.NoRecordError
		if errors.As(err, &none) && none.Err == nil {
			return nil, &refusal{err.Error()}
		}
		return nil, fmt.Errorf("read the message: %w", err)
	}
	v, err := record.Parse(s.buf)
	if err != nil {
		return nil, fmt.Errorf("read the message: %w", err)
	}
	if err := v.CheckCRC(); err != nil {
		return nil, fmt.Errorf("read the message: %w", err)
	}
	name, queue, err := destination(v)
	if err != nil {
		return nil, err
	}
	// The text of the properties stays as it is: RocketMQ takes DELAY out of the
	// message only after the text was made, so consumers see DELAY, REAL_TOPIC
	// and REAL_QID. Nothing delays the copy again, as its topic is an ordinary one.
	s.draft = record.Draft{
		Topic:          name,
		QueueID:        queue,
		Flag:           v.Flag(),
		SysFlag:        v.SysFlag(),
		BornMillis:     v.BornMillis(),
		BornHost:       v.BornHost(),
		StoreHost:      v.StoreHost(),
		ReconsumeTimes: v.ReconsumeTimes(),
		Body:           v.Body(),
		Properties:     v.Properties(),
	}
	return &s.draft, nil
}

// destination reads and checks where a message goes: both become part of a
// path.
func destination(v record.View) (name []byte, queue int32, err error) {
	name = v.Property(propertyRealTopic)
	if err := topic.CheckName(name); err != nil {
		return nil, 0, &refusal{"REAL_TOPIC is no topic name: " + err.Error()}
	}
	switch string(name) {
	case topic.TransHalf, topic.Schedule:
		// Such a half message would be checked for ever; RocketMQ discards it too.
		return nil, 0, &refusal{"REAL_TOPIC is " + string(name)}
	}
	text := v.Property(propertyRealQueue)
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || n < 0 || n >= topic.MaxQueues {
		return nil, 0, &refusal{"REAL_QID is " + strconv.Quote(string(text))}
	}
	return name, int32(n), nil
}

// logEvery keeps a level full of bad messages from filling the log.
const logEvery = 10 * time.Second

// skips writes log lines about messages that were passed over, not one for each.
type skips struct {
	last, lastFailure time.Time
	quiet             int
}

func (k *skips) note(log *slog.Logger, now time.Time, level int, u store.Unit, err error) {
	if now.Sub(k.last) < logEvery {
		k.quiet++
		return
	}
	log.Warn("a delayed message was passed over", "component", "delay", "level", level,
		"phys_offset", int64(u.Phys), "error", err, "others_since_last_line", k.quiet)
	k.last, k.quiet = now, 0
}

func (k *skips) failed(log *slog.Logger, now time.Time, level int, fate store.Status) {
	if now.Sub(k.lastFailure) < logEvery {
		return
	}
	log.Warn("delayed messages cannot be stored, trying again", "component", "delay", "level", level, "status", fate.String())
	k.lastFailure = now
}
