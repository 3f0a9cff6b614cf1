package replication

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"

	"mqctl/store"
	"mqctl/store/record"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// plan is what the checks before a connection found out.
type plan struct {
	ours   bool
	token  int64
	report int64 // the first one
	// first is where the stream must begin: report, but for a report of 0.
	first int64
	// pretend: our log is empty, and says that it has the first byte, since an Apache
	// master understands 0 as "begin with your last file". The byte is always 0, the
	// highest of a record's size: records are shorter than 16 MiB.
	pretend bool
	// anchor: the master decides where the stream begins.
	anchor    bool
	masterEnd int64
	note      string // what was done to the log on the way
}

// plan asks the master, compares, and prepares the log.
func (s *Slave) plan(ctx context.Context, addr string) (plan, error) {
	if addr == "" || s.o.Attach == nil {
		return s.planBlind()
	}
	ctx, cancel := context.WithTimeout(ctx, 4*askTime)
	defer cancel()
	req := s.self()
	last, ok, err := lastSpan(s.o.Log)
	if err != nil {
		return plan{}, alarm(Failed, "the own log cannot be read: %w", err)
	}
	if ok {
		req.Sums = []Range{last}
	}
	a, ours, err := s.o.Attach(ctx, addr, req)
	if err != nil {
		return plan{ours: true}, fmt.Errorf("the master at %s does not answer: %w", addr, err)
	}
	if !ours {
		return s.planForeign(ctx, addr, ok)
	}
	s.setMasterEnd(a.End)
	p := plan{ours: true, token: a.Token, masterEnd: a.End}
	switch {
	case a.State == TooOld && ok:
		return p, s.startAgain(a.Start, a.Why)
	case a.State != Syncing && a.State != Copying && a.State != TooOld:
		return p, alarm(a.State, "%s", a.Why)
	case !ok:
		return s.planEmpty(p, a.Min, a.Start)
	}
	sum, err := s.o.Log.RawSum(record.PhysOffset(last.From), record.PhysOffset(last.To))
	if err != nil {
		return p, alarm(Failed, "the own log cannot be read: %w", err)
	}
	end := int64(s.o.Log.Positions().Max)
	if end > a.End || len(a.Sums) != 1 || !a.Sums[0].Known || a.Sums[0].Sum != sum {
		if err := s.differs(ctx, addr, a); err != nil {
			return p, err
		}
	}
	p.report, p.first = end, end
	return p, s.settle(ctx)
}

// self is who we are, with the bounds of our log.
func (s *Slave) self() AttachRequest {
	req, pos, st := s.o.Self(), s.o.Log.Positions(), s.o.Settings()
	req.Min, req.End, req.SegmentBytes = int64(pos.Min), int64(pos.Max), st.segment()
	req.AckFsync, req.Secure, req.TLS = st.AckFsync, s.o.Auth.Keyed(), s.o.Auth.TLS()
	return req
}

// settle makes the log durable before it is reported, with haAckLevel=fsync, so
// that reports never go back.
func (s *Slave) settle(ctx context.Context) error {
	if !s.o.Settings().AckFsync {
		return nil
	}
	if _, err := s.o.Log.Sync(ctx); err != nil {
		return alarm(Failed, "the log cannot be synced: %w", err)
	}
	return nil
}

// planEmpty chooses where an empty log begins: where it would go on if the master
// still has that, else at start.
func (s *Slave) planEmpty(p plan, masterMin, start int64) (plan, error) {
	at := int64(s.o.Log.Positions().Max)
	if at > 0 && at >= masterMin && at <= p.masterEnd {
		p.report, p.first = at, at
		return p, nil
	}
	if start != at {
		if err := s.o.Log.StartAt(record.PhysOffset(start)); err != nil {
			return p, alarm(Failed, "the log cannot begin at %d: %w", start, err)
		}
	}
	p.report, p.first = start, start
	return p, nil
}

// startAgain sets the log aside, which is older than all that the master has.
func (s *Slave) startAgain(start int64, why string) error {
	s.setState(TooOld, why+"; it is set aside, and the copy begins again at "+fmt.Sprint(start))
	aside, err := s.o.Log.SetAside()
	if err != nil {
		return alarm(TooOld, "%s; the old log cannot be set aside: %w", why, err)
	}
	s.putAside(aside, "the log, which was older than the master's")
	if start > 0 {
		if err := s.o.Log.StartAt(record.PhysOffset(start)); err != nil {
			return alarm(Failed, "the log cannot begin at %d: %w", start, err)
		}
	}
	s.o.Cut()
	return errAgain
}

func (s *Slave) putAside(a store.Aside, what string) {
	s.o.Slog.Warn("a part of the log was set aside", "what", what, "path", a.Path, "from", int64(a.From), "bytes", a.Bytes)
	s.mu.Lock()
	s.st.Aside = a.Path
	s.mu.Unlock()
}

// differs finds out how, after our newest record was not the master's, and cuts the
// tail if this log is known to have one from an older epoch.
func (s *Slave) differs(ctx context.Context, addr string, a AttachReply) error {
	pos := s.o.Log.Positions()
	lo, end := max(int64(pos.Min), a.Min), int64(pos.Max)
	ask := func(ctx context.Context, r []Range) ([]Range, error) {
		req := s.self()
		req.Peek, req.Sums = true, r
		got, ours, err := s.o.Attach(ctx, addr, req)
		if err == nil && !ours {
			err = fmt.Errorf("%s is another broker suddenly", addr)
		}
		return got.Sums, err
	}
	c, err := common(ctx, s.o.Log, ask, lo, min(end, a.End))
	same := c.end
	switch {
	case err != nil:
		return fmt.Errorf("compare with the master's log: %w", err)
	case same >= end:
		return errAgain // it has grown past us meanwhile
	case c.verified && c.lost && end <= a.End:
		return s.passHole(same, end, min(c.lostTo, a.End))
	case !c.verified:
		return alarm(Diverged, "this log, %d to %d, has not one record in common with the master's, %d to %d: "+
			"it follows the wrong master, or has the wrong store. Give it an empty store to copy the master's", pos.Min, end, a.Min, a.End)
	}
	epoch := s.o.Self().Epoch
	if s.o.Settings().RejoinTruncate && (s.o.Rejoin() || a.Epoch > epoch) {
		aside, err := s.o.Log.TruncateTo(record.PhysOffset(same))
		if err != nil {
			return alarm(Failed, "the tail from %d on, which the new master does not have, cannot be set aside: %w", same, err)
		}
		s.putAside(aside, "the tail that the new master does not have")
		s.o.Cut()
		return errAgain
	}
	return tailAlarm(c, end, a.End)
}

// passHole follows a master although our newest records, from same on, cannot be
// compared: one of the two lost them, and up to there the logs are the same. If the
// master's hole goes on behind our end, the log continues as it would be if it were
// copied: with records that say that their messages are lost. What we have stays.
func (s *Slave) passHole(same, end, to int64) error {
	s.o.Slog.Warn("the end of this log cannot be compared: one of the replicas lost the messages there", "from", same, "to", max(end, to))
	if end >= to {
		return nil
	}
	if err := s.o.Log.AppendLost(record.PhysOffset(to)); err != nil {
		return alarm(Failed, "the master has lost what lies between %d and %d, and the log here cannot go on behind that: %w", same, to, err)
	}
	return errAgain
}

func tailAlarm(c sameness, end, masterEnd int64) error {
	same := c.end
	if same >= masterEnd {
		return alarm(Ahead, "this log ends at %d, %d bytes beyond the master's end at %d: the master has lost its newest messages. "+
			"They are only here: promote this broker, or set its store aside to follow the master", end, end-masterEnd, masterEnd)
	}
	from := "from there on"
	if c.lostTo > same {
		from = fmt.Sprintf("behind that: where is not known, since one of the two has lost its messages up to %d", c.lostTo)
	}
	return alarm(Diverged, "this log and the master's are the same up to %d, and differ %s (%d bytes here): "+
		"one of the two holds messages that the other never had. Promote the right one, or set the store of this one aside", same, from, end-same)
}

// planForeign makes the checks that an Apache master allows.
func (s *Slave) planForeign(ctx context.Context, addr string, has bool) (plan, error) {
	if s.o.Auth.Keyed() || s.o.Auth.TLS() {
		return plan{}, alarm(Mismatch, "the master at %s is none of ours, and knows neither haAuthKeyFile nor haTlsEnable: "+
			"take them out while it is the master", addr)
	}
	at := record.PhysOffset(-1)
	if has {
		at, _ = s.o.Log.LastRecord()
	}
	lo, end, rec, err := s.o.Foreign(ctx, addr, at)
	if err != nil {
		return plan{}, fmt.Errorf("the master at %s does not answer: %w", addr, err)
	}
	s.setMasterEnd(end)
	p := plan{masterEnd: end}
	if !has {
		return s.planForeignEmpty(p, lo, end)
	}
	ownEnd := int64(s.o.Log.Positions().Max)
	if ownEnd < lo {
		return p, s.startAgain(s.foreignStart(lo, end), fmt.Sprintf("this log ends at %d, the master's begins at %d", ownEnd, lo))
	}
	own, err := s.o.Log.Message(nil, at)
	if err != nil {
		return p, alarm(Failed, "the own log cannot be read: %w", err)
	}
	if ownEnd > end || rec != nil && !bytes.Equal(own, rec) || rec == nil && int64(at) >= lo {
		if err := s.differsForeign(ctx, addr, lo, end); err != nil {
			return p, err
		}
	}
	p.report, p.first = ownEnd, ownEnd
	return p, s.settle(ctx)
}

// foreignStart is where a copy from an Apache master begins, if that can be said.
func (s *Slave) foreignStart(lo, end int64) int64 {
	return s.o.Settings().copyStart(store.Positions{Min: record.PhysOffset(lo), Max: record.PhysOffset(end)})
}

func (s *Slave) planForeignEmpty(p plan, lo, end int64) (plan, error) {
	st := s.o.Settings()
	own := int64(s.o.Log.Positions().Max)
	switch {
	case own > 0 || lo > 0 && st.CopyAll:
		return s.planEmpty(p, lo, s.foreignStart(lo, end))
	case st.CopyAll && end >= st.segment():
		p.report, p.first, p.pretend = 1, 1, true
	case end >= st.segment():
		p.anchor = true
	}
	return p, nil
}

// differsForeign finds the end of what is the same by asking for single records.
func (s *Slave) differsForeign(ctx context.Context, addr string, lo, end int64) error {
	ask := func(ctx context.Context, ranges []Range) ([]Range, error) {
		out := make([]Range, len(ranges))
		for i, r := range ranges {
			out[i] = r
			_, _, rec, err := s.o.Foreign(ctx, addr, record.PhysOffset(r.From))
			if err != nil {
				return nil, err
			}
			if n := int(r.To - r.From); len(rec) >= n {
				out[i].Known, out[i].Sum = true, crc32.Checksum(rec[:n], castagnoli)
			}
			if !out[i].Known {
				break // what comes later is not the same either
			}
		}
		return out, nil
	}
	pos := s.o.Log.Positions()
	c, err := common(ctx, s.o.Log, ask, max(int64(pos.Min), lo), min(int64(pos.Max), end))
	same := c.end
	switch {
	case err != nil:
		return fmt.Errorf("compare with the master's log: %w", err)
	case same >= int64(pos.Max):
		return errAgain
	case c.verified && c.lost && int64(pos.Max) <= end:
		return s.passHole(same, int64(pos.Max), int64(pos.Max))
	case !c.verified:
		return alarm(Diverged, "this log, %d to %d, has not one record in common with the master's, %d to %d: "+
			"it follows the wrong master, or has the wrong store. Give it an empty store to copy the master's", pos.Min, pos.Max, lo, end)
	}
	return tailAlarm(c, int64(pos.Max), end)
}

// planBlind follows a master of which only the HA address is known: nothing can be
// compared before the stream begins.
func (s *Slave) planBlind() (plan, error) {
	end := int64(s.o.Log.Positions().Max)
	p := plan{report: end, first: end, note: "only its HA address is known, so the logs could not be compared first"}
	p.anchor = end == 0
	return p, nil
}
