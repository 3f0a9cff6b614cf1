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
		if err != nil || seq >= total || p.count == 0 {
			return *version, nil
		}
	}
	return table.DataVersion{}, errors.New("the master's table changes faster than it can be read")
}

// takeTopics makes the topics those of the master. The queues of topics that are
// gone go too, so that a topic made anew begins at offset 0 here as there;
// withProgress forgets their progress, for a master that sends no marks of that.
func (s *slaveSync) takeTopics(ctx context.Context, addr string, withProgress bool) error {
	var all map[string]topic.Config
	version, err := s.parts(ctx, addr, remoting.ReqGetAllTopicConfig, "topicSeq", "maxTopicNum", "totalTopicNum",
		func(b []byte) (tablePart, error) {
			p, err := topic.DecodePage(b)
			if err != nil {
				return tablePart{}, err
			}
			return tablePart{len(p.Topics), p.Version, func() { maps.Copy(all, p.Topics) }}, nil
		}, func() { all = map[string]topic.Config{} })
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%s has no topics at all, not even its own: nothing is taken from it", addr)
	}
	if _, have := s.o.Topics.All(); have == version {
		return nil
	}
	// Queues go first: a crash in between leaves topics that are gone at the next
	// exchange, and never queues that a topic made anew would go on in.
	if err := s.dropQueues(all); err != nil {
		return err
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

// dropQueues removes the queues of topics that the master has no more.
func (s *slaveSync) dropQueues(all map[string]topic.Config) error {
	have, _ := s.o.Topics.All()
	var errs []error
	for name := range have {
		if _, stays := all[name]; !stays {
			errs = append(errs, s.o.Store.DeleteTopic(name))
		}
	}
	return errors.Join(errs...)
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
func (s *slaveSync) takeGroups(ctx context.Context, addr string) error {
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
	if _, have := s.o.Groups.All(); have == version {
		return nil
	}
	diff, err := s.o.Groups.Replace(all, bits, version)
	if err == nil && diff.Some() {
		s.changing.Add(1)
		s.o.Log.Info("the master's groups were taken over", "changed", len(diff.Changed), "deleted", len(diff.Deleted))
	}
	return err
}
