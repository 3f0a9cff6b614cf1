package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/store/fastjson"
	"mqctl/store/record"
	"mqctl/store/table"
	"mqctl/subgroup"
)

// partsAsked is how many topics or groups a slave asks for at once.
const partsAsked = 5000

// mostParts bounds how often it asks for one table, restarts included.
const mostParts = 10_000

// partsExt is the header of a request for a part of a table.
func partsExt(seqKey, mostKey string, seq int, version *table.DataVersion) remoting.Map {
	m := remoting.Map{seqKey: strconv.Itoa(seq), mostKey: strconv.Itoa(partsAsked)}
	if version != nil {
		if text, err := fastjson.Marshal(*version); err == nil {
			m["dataVersion"] = string(text)
		}
	}
	return m
}

// tablePart is one answer of parts.
type tablePart struct {
	count   int // of entries in it
	version table.DataVersion
	add     func() // takes the entries in
}

// parts reads a whole table. A master that changes the table meanwhile is asked
// anew; one that tells no total has told everything at once (RocketMQ up to
// 5.3.3).
func (s *slaveSync) parts(ctx context.Context, addr string, code int, seqKey, mostKey, totalKey string,
	decode func(b []byte) (tablePart, error), begin func()) (table.DataVersion, error) {
	begin()
	var version *table.DataVersion
	for seq, asked := 0, 0; asked < mostParts; asked++ {
		resp, err := s.call(ctx, addr, code, partsExt(seqKey, mostKey, seq, version), nil)
		if err != nil {
			return table.DataVersion{}, err
		}
		p, err := decode(resp.Body)
		if err != nil {
			return table.DataVersion{}, fmt.Errorf("%s of %s: %w", remoting.RequestName(code), addr, err)
		}
		if version != nil && p.version != *version {
			begin()
			version, seq = nil, 0
			continue
		}
		version = &p.version
		p.add()
		seq += p.count
		total, err := strconv.Atoi(resp.Ext[totalKey])
		switch {
		case err != nil || seq >= total:
			return *version, nil
		case p.count == 0: // taken for the whole it would delete what the missing parts have
			return table.DataVersion{}, fmt.Errorf("%s of %s: it tells %d of %d entries and then none", remoting.RequestName(code), addr, seq, total)
		}
	}
	return table.DataVersion{}, errors.New("the master's table changes faster than it can be read")
}

// topicTable reads the whole topic table of a broker.
func (s *slaveSync) topicTable(ctx context.Context, addr string) (map[string]topic.Config, table.DataVersion, error) {
	var all map[string]topic.Config
	version, err := s.parts(ctx, addr, remoting.ReqGetAllTopicConfig, "topicSeq", "maxTopicNum", "totalTopicNum",
		func(b []byte) (tablePart, error) {
			p, err := topic.DecodePage(b)
			if err != nil {
				return tablePart{}, err
			}
			return tablePart{len(p.Topics), p.Version, func() { maps.Copy(all, p.Topics) }}, nil
		}, func() { all = map[string]topic.Config{} })
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no topics at all, not even its own: nothing is taken from it", addr)
	}
	return all, version, err
}

// takeTopics makes the topics those of the master. The queues of topics that are
// gone go too, so that a topic made anew begins at offset 0 here as there;
// withProgress forgets their progress, for a master that sends no marks of that.
func (s *slaveSync) takeTopics(ctx context.Context, m *masterState, withProgress bool) error {
	if m.ours && !m.whole {
		if done, err := s.takeChanges(ctx, m); done || err != nil {
			return err
		}
	}
	all, version, err := s.topicTable(ctx, m.addr)
	if err != nil {
		return err
	}
	if _, have := s.o.Topics.All(); have == version && !m.whole {
		return nil
	}
	if err := s.newDeletions(ctx, m); err != nil {
		return err
	}
	missing := s.missing(all)
	if len(missing) > 0 && !m.deletions {
		return s.addTopics(all, missing)
	}
	if len(missing) > 0 {
		if all, version, err = s.dropQueues(ctx, m); err != nil {
			return err
		}
	}
	diff, err := s.o.Topics.Replace(all, version)
	if err != nil {
		return err
	}
	if diff.Some() {
		s.changing.Add(1)
		s.o.Log.Info("the master's topics were taken over", "changed", len(diff.Changed), "deleted", len(diff.Deleted))
	}
	if len(diff.Deleted) > 0 {
		if withProgress {
			s.forget(diff.Deleted)
		}
		if s.o.Dropped != nil {
			s.o.Dropped(diff.Deleted)
		}
	}
	return nil
}

// takeChanges asks a master of ours only for what changed since the table here. done
// is false if it does not remember that one, or if topics are gone, which
// takes the whole table.
func (s *slaveSync) takeChanges(ctx context.Context, m *masterState) (done bool, err error) {
	_, have := s.o.Topics.All()
	resp, err := s.call(ctx, m.addr, remoting.ReqGetAllTopicConfig, remoting.Map{"since": versionText(have), "topicSeq": "0", "maxTopicNum": "0"}, nil)
	if err != nil || resp.Ext["changes"] != "true" {
		return false, err
	}
	p, err := topic.DecodePage(resp.Body)
	if err != nil || len(p.Deleted) > 0 {
		return false, err
	}
	if err := s.newDeletions(ctx, m); err != nil {
		return true, err
	}
	diff, err := s.o.Topics.Change(p.Topics, nil, p.Version)
	if err == nil && diff.Some() {
		s.changing.Add(1)
		s.o.Log.Info("the master's topics were taken over", "changed", len(diff.Changed), "deleted", 0)
	}
	return true, err
}

// addTopics takes over what is new or changed, and keeps what the master lacks: not
// before replication has found that this is the master of the log here do its
// deletions count. The version stays another one than the master's until then.
func (s *slaveSync) addTopics(all map[string]topic.Config, missing []string) error {
	have, version := s.o.Topics.All()
	for _, name := range missing {
		all[name] = *have[name]
	}
	same := true
	for name, c := range all {
		same = same && have[name] != nil && have[name].Equal(c)
	}
	if same {
		return nil
	}
	// The master's next version may be of this very millisecond, and may not look the same.
	own := version.Next(s.o.Now().UnixMilli())
	own.Timestamp = -own.Timestamp
	diff, err := s.o.Topics.Replace(all, own)
	if err == nil && diff.Some() {
		s.changing.Add(1)
		s.o.Log.Info("the master's topics were added; deletions wait until replication is connected to it", "changed", len(diff.Changed), "kept", len(missing))
	}
	return err
}

// missing are the topics here that a master's table lacks.
func (s *slaveSync) missing(all map[string]topic.Config) (names []string) {
	have, _ := s.o.Topics.All()
	for name := range have {
		if _, stays := all[name]; !stays {
			names = append(names, name)
		}
	}
	return names
}

// dropQueues removes the queues of the topics that the master has no more, and
// returns the table that says so. They go before the table is changed: a crash in
// between leaves topics that are gone at the next exchange, and never queues that a
// topic made anew would go on in.
//
// The master may make a topic again at any moment, and its messages may be here
// before its settings. So the end of the master's log is asked for before the table: if
// a topic is not in that, what begins behind that end is of a new one and stays.
func (s *slaveSync) dropQueues(ctx context.Context, m *masterState) (map[string]topic.Config, table.DataVersion, error) {
	fail := func(err error) (map[string]topic.Config, table.DataVersion, error) {
		return nil, table.DataVersion{}, err
	}
	info, err := s.runtimeInfo(ctx, m.addr)
	if err != nil {
		return fail(err)
	}
	end, err := strconv.ParseInt(info["commitLogMaxOffset"], 10, 64)
	if err != nil {
		return fail(fmt.Errorf("%s does not say where its log ends: %w", m.addr, err))
	}
	all, version, err := s.topicTable(ctx, m.addr)
	if err == nil {
		err = s.newDeletions(ctx, m)
	}
	if err != nil {
		return fail(err)
	}
	var errs []error
	for _, name := range s.missing(all) {
		if !s.begunBehind(name, record.PhysOffset(end)) {
			errs = append(errs, s.o.Store.DeleteTopic(name))
		}
	}
	return all, version, errors.Join(errs...)
}

// begunBehind says whether a queue of the topic begins behind a position.
func (s *slaveSync) begunBehind(name string, end record.PhysOffset) bool {
	for _, q := range s.o.Store.Queues(name) {
		if units := s.o.Store.Units(nil, q, q.Min(), 1); len(units) > 0 && units[0].Phys >= end {
			return true
		}
	}
	return false
}

// forget removes all progress on topics that an Apache master deleted.
func (s *slaveSync) forget(topics []string) {
	gone := map[string]bool{}
	for _, name := range topics {
		gone[name] = true
	}
	records, _ := s.o.Offsets.Since(nil, 0)
	var marks []subgroup.ProgressRecord
	for _, r := range records {
		if gone[r.Topic] && !r.Deleted {
			marks = append(marks, deletion(r, s.o.Now().UnixMilli()))
		}
	}
	s.o.Offsets.Merge(marks)
}

// deletion is the mark that removes a record (P8).
func deletion(r subgroup.ProgressRecord, nowMillis int64) subgroup.ProgressRecord {
	r.Progress = subgroup.Progress{Gen: r.Gen + 1, Term: r.Term, Source: subgroup.FromReset, Deleted: true, Updated: nowMillis}
	return r
}

// takeGroups makes the groups, and what is forbidden to them, those of the master.
func (s *slaveSync) takeGroups(ctx context.Context, m *masterState) error {
	if m.ours && !m.whole {
		if done, err := s.takeGroupChanges(ctx, m.addr); done || err != nil {
			return err
		}
	}
	addr := m.addr
	var all map[string]subgroup.Config
	var bits map[string]map[string]int32
	version, err := s.parts(ctx, addr, remoting.ReqGetAllSubscriptionGroupConfig, "groupSeq", "maxGroupNum", "totalGroupNum",
		func(b []byte) (tablePart, error) {
			p, err := subgroup.DecodeGroupPage(b)
			if err != nil {
				return tablePart{}, err
			}
			return tablePart{len(p.Groups), p.Version, func() {
				maps.Copy(all, p.Groups)
				if p.Forbidden != nil {
					bits = p.Forbidden
				}
			}}, nil
		}, func() { all, bits = map[string]subgroup.Config{}, nil })
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%s has no groups at all, not even its own: nothing is taken from it", addr)
	}
	if _, have := s.o.Groups.All(); have == version && !m.whole {
		return nil
	}
	diff, err := s.o.Groups.Replace(all, bits, version)
	if err == nil && diff.Some() {
		s.changing.Add(1)
		s.o.Log.Info("the master's groups were taken over", "changed", len(diff.Changed), "deleted", len(diff.Deleted))
	}
	return err
}

// takeGroupChanges asks a master of ours only for what changed since the table here;
// done is false if it does not remember that one.
func (s *slaveSync) takeGroupChanges(ctx context.Context, addr string) (done bool, err error) {
	_, have := s.o.Groups.All()
	resp, err := s.call(ctx, addr, remoting.ReqGetAllSubscriptionGroupConfig, remoting.Map{"since": versionText(have), "groupSeq": "0", "maxGroupNum": "0"}, nil)
	if err != nil || resp.Ext["changes"] != "true" {
		return false, err
	}
	p, err := subgroup.DecodeGroupPage(resp.Body)
	if err != nil {
		return false, err
	}
	diff, err := s.o.Groups.Change(p)
	if err == nil && diff.Some() {
		s.changing.Add(1)
		s.o.Log.Info("the master's groups were taken over", "changed", len(diff.Changed), "deleted", len(diff.Deleted))
	}
	return true, err
}
