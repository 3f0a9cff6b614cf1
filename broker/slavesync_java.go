package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
	"mqctl/subgroup"
)

// A master of Apache's knows no generations: it says numbers. What a lower one
// means, and what of ours is sent there as ordinary commits, is
// subgroup.PlainMaster's (R2).
//
// Cadence: a table is asked for again after twenty times what it took, but not
// sooner than after a second (progress: two), so that this costs the master at most
// a twentieth of one thread.

const (
	javaEvery    = 900 * time.Millisecond
	javaProgress = 2 * time.Second
	javaModes    = fullEvery
	javaFactor   = 20
	// mostCommits bounds the commits sent to the master in one round.
	mostCommits = 2000
)

// job is one table that is asked for again and again.
type job struct {
	every time.Duration
	due   time.Time
}

// javaMaster is the exchange with an Apache master.
type javaMaster struct {
	topics, groups, progress, delays, modes job

	state *subgroup.PlainMaster
}

// followJava makes one round with an Apache master: what is due of its tables.
func (s *slaveSync) followJava(ctx context.Context, m *masterState) error {
	j := &m.java
	j.topics.every, j.groups.every, j.delays.every = javaEvery, javaEvery, javaProgress
	j.progress.every, j.modes.every = javaProgress, javaModes
	var errs []error
	for _, w := range []struct {
		j *job
		f func() error
	}{
		{&j.topics, func() error { return s.takeTopics(ctx, m, true) }},
		{&j.progress, func() error { return s.takeJavaProgress(ctx, m) }},
		{&j.delays, func() error { return s.takeJava(ctx, m, remoting.ReqGetAllDelayOffset, s.takeDelays) }},
		{&j.groups, func() error { return s.takeGroups(ctx, m) }},
		{&j.modes, func() error { return s.takeJava(ctx, m, remoting.ReqGetAllMessageRequestMode, s.o.Modes.Replace) }},
	} {
		if err := w.j.run(s.o.Steady, w.f); err != nil {
			errs = append(errs, err)
			if !errors.As(err, new(*remoting.Error)) {
				m.known = false // not reachable: another program may come back there
				break
			}
		}
	}
	return errors.Join(errs...)
}

// run does the work if it is due. After a failure it is due in the next round.
func (j *job) run(now func() time.Time, f func() error) error {
	start := now()
	if start.Before(j.due) {
		return nil
	}
	err := f()
	if err == nil {
		j.due = start.Add(max(j.every, javaFactor*now().Sub(start)))
	}
	return err
}

func (s *slaveSync) takeJava(ctx context.Context, m *masterState, code int, take func(b []byte) error) error {
	resp, err := s.call(ctx, m.addr, code, nil, nil)
	if err != nil {
		return err
	}
	return take(resp.Body)
}

// takeJavaProgress reads the master's progress and brings it and ours together.
// What was sent is looked at again at once.
func (s *slaveSync) takeJavaProgress(ctx context.Context, m *masterState) error {
	if m.java.state == nil {
		m.java.state = subgroup.NewPlainMaster(s.o.Offsets)
	}
	for range 2 {
		push, err := s.mergeJava(ctx, m)
		if err != nil || len(push) == 0 {
			return err
		}
		if err := s.commitThere(ctx, m, push); err != nil {
			return err
		}
	}
	return nil
}

func (s *slaveSync) mergeJava(ctx context.Context, m *masterState) (push []subgroup.ProgressRecord, err error) {
	info, err := s.runtimeInfo(ctx, m.addr)
	if err != nil {
		return nil, err
	}
	if isOurs(info) {
		m.known = false // mqctl has taken its place
		return nil, nil
	}
	boot, err := strconv.ParseInt(info["bootTimestamp"], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s does not say when it was started: %w", m.addr, err)
	}
	resp, err := s.call(ctx, m.addr, remoting.ReqGetAllConsumerOffset, nil, nil)
	if err != nil {
		return nil, err
	}
	theirs, err := subgroup.DecodeOffsets(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("the progress of %s: %w", m.addr, err)
	}
	push, changed := m.java.state.Take(theirs, boot)
	if changed > 0 {
		s.changing.Add(1)
	}
	return push, nil
}

// commitThere sends progress to an Apache master as consumers do. What it refuses,
// because it has no such group or topic, is no error of the exchange.
func (s *slaveSync) commitThere(ctx context.Context, m *masterState, records []subgroup.ProgressRecord) error {
	for i := range records[:min(len(records), mostCommits)] {
		r := &records[i]
		h := header.UpdateConsumerOffset{ConsumerGroup: []byte(r.Group), Topic: []byte(r.Topic), QueueID: r.Queue, CommitOffset: r.Offset}
		_, err := s.call(ctx, m.addr, remoting.ReqUpdateConsumerOffset, &h, nil)
		if err != nil && !errors.As(err, new(*remoting.Error)) {
			return err
		}
		m.java.state.Sent(r)
	}
	return nil
}
