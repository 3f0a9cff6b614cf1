package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"mqctl/broker/topic"
	"mqctl/cli/admin"
)

// A logical queue that moves keeps its messages where they are: its list of
// places gets one more, at the new broker, which takes the messages from then
// on. The new place begins at a logical offset beyond all that the old one gave.

const (
	remappingType = "REMAPPING"
	// offsetBlock is how far apart the offsets of two places are: what the old
	// broker still takes before it hears of the move stays below the new ones
	// (TopicQueueMappingUtils.DEFAULT_BLOCK_SEQ_SIZE).
	offsetBlock = 10000
)

// planRemap spreads the queues of a static topic evenly over the brokers
// wanted; as few as possible move, and no broker both takes and gives.
func planRemap(name string, wanted []string, now map[string]*admin.StaticTopic, clock int64) (*mappingFile, error) {
	if len(now) == 0 {
		return nil, fail(ExitNotFound, "TOPIC_NOT_FOUND", "static topic %q does not exist; nothing was changed", name).try("mqctl topic static set " + name + " --queues N")
	}
	out := &mappingFile{Topic: name, Type: remappingType, Epoch: clock, Configs: map[string]*admin.StaticTopic{}, MapIn: []string{}, MapOut: []string{}}
	total, leader, err := out.take(name, now)
	if err != nil {
		return nil, err
	}
	quota := quotas(total, wanted, leader)
	var moving []int32
	for id := range total {
		if quota[leader[id]] > 0 {
			quota[leader[id]]--
		} else {
			moving = append(moving, id)
		}
	}
	for _, broker := range wanted {
		for ; quota[broker] > 0; quota[broker]-- {
			out.move(moving[0], leader[moving[0]], broker, total)
			moving = moving[1:]
		}
	}
	for _, t := range out.Configs {
		t.Mapping.Epoch, t.Mapping.Dirty = out.Epoch, false
	}
	return out, nil
}

// take copies the mappings as they are, and finds which broker has each queue.
func (m *mappingFile) take(name string, now map[string]*admin.StaticTopic) (total int32, leader map[int32]string, err error) {
	broken := func(format string, args ...any) error {
		return fail(ExitFailed, "MAPPING_BROKEN", format, args...).because("nothing was changed").try("mqctl topic static set "+name+" --queues N", "--map-file with the .after file of the change that did not finish")
	}
	leader = map[int32]string{}
	epoch := int64(-1)
	for _, broker := range sortedKeys(now) {
		t, mapping := *now[broker], *now[broker].Mapping
		if epoch >= 0 && (epoch != mapping.Epoch || total != mapping.TotalQueues) {
			return 0, nil, broken("the brokers disagree about static topic %q: epoch %d and %d queues, at %s epoch %d and %d queues", name, epoch, total, broker, mapping.Epoch, mapping.TotalQueues)
		}
		epoch, total = mapping.Epoch, mapping.TotalQueues
		m.Epoch = max(m.Epoch, epoch+epochStep)
		mapping.Hosted = maps.Clone(mapping.Hosted)
		if mapping.Hosted == nil {
			mapping.Hosted = map[int32][]admin.StaticQueue{}
		}
		t.Mapping, m.Configs[broker] = &mapping, &t
		for id, places := range mapping.Hosted {
			last := lastPlace(places)
			switch {
			case last == nil || last.Broker != broker:
			case leader[id] != "":
				return 0, nil, broken("logical queue %d lies at %s and %s", id, leader[id], broker)
			case last.LogicOffset < 0:
				return 0, nil, broken("logical queue %d was moved to %s, but its offset was never decided", id, broker)
			default:
				leader[id] = broker
			}
		}
	}
	if len(leader) != int(total) {
		return 0, nil, broken("of the %d logical queues of %q only %d lie at a broker asked", total, name, len(leader))
	}
	return total, leader, nil
}

func lastPlace(places []admin.StaticQueue) *admin.StaticQueue {
	if len(places) == 0 {
		return nil
	}
	return &places[len(places)-1]
}

// quotas are how many queues each broker shall have. What cannot be shared
// evenly goes to those that have most.
func quotas(total int32, wanted []string, leader map[int32]string) map[string]int32 {
	have := map[string]int{}
	for _, broker := range leader {
		have[broker]++
	}
	order := slices.Clone(wanted)
	slices.SortStableFunc(order, func(a, b string) int { return have[b] - have[a] })
	out := map[string]int32{}
	for i, broker := range order {
		out[broker] = total / int32(len(order))
		if int32(i) < total%int32(len(order)) {
			out[broker]++
		}
	}
	return out
}

// move adds a place at another broker to a queue.
func (m *mappingFile) move(id int32, from, to string, total int32) {
	in := m.Configs[to]
	if in == nil {
		in = &admin.StaticTopic{TopicName: m.Topic, Perm: topic.PermRead | topic.PermWrite, TopicFilterType: topic.SingleTag,
			Mapping: &admin.StaticMapping{Topic: m.Topic, Scope: scopeGlobal, Broker: to, TotalQueues: total, Hosted: map[int32][]admin.StaticQueue{}}}
		m.Configs[to] = in
	}
	in.WriteQueueNums++
	in.ReadQueueNums++
	places := slices.Clone(m.Configs[from].Mapping.Hosted[id])
	places = append(places, admin.StaticQueue{Gen: lastPlace(places).Gen + 1, QueueID: in.WriteQueueNums - 1, Broker: to,
		LogicOffset: unknownPosition, EndOffset: unknownPosition, TimeOfStart: unknownPosition, TimeOfEnd: unknownPosition})
	in.Mapping.Hosted[id], m.Configs[from].Mapping.Hosted[id] = places, slices.Clone(places)
	m.MapIn, m.MapOut = appendNew(m.MapIn, to), appendNew(m.MapOut, from)
}

func runStaticRemap(ctx context.Context, c *call) (*result, error) {
	p, err := c.planStatic(ctx, func(p *staticPlan, wanted []string) (*mappingFile, error) {
		if len(p.now) == 0 {
			if err := c.noStaticTopics(ctx, p.masters); err != nil {
				return nil, err
			}
		}
		if p.given {
			return p.next, nil
		}
		return planRemap(p.name, wanted, p.now, c.begun.UnixMilli())
	})
	if err != nil {
		return nil, err
	}
	r := &result{change: &change{DryRun: c.dryRun()}}
	m := &remap{c: c, masters: p.masters, next: p.next, items: map[string]*staticItem{}}
	e := m.edit(p.now)
	if !c.dryRun() && !e.same {
		if m.files, err = p.keep(remappingType); err != nil {
			return nil, err
		}
		r.extra = m.files
	}
	c.carryOut(ctx, r, []*edit{e})
	return r, nil
}

// noStaticTopics is the answer of brokers of this program: they have none.
func (c *call) noStaticTopics(ctx context.Context, masters map[string]admin.Target) error {
	for _, broker := range sortedKeys(masters) {
		t := masters[broker]
		if rt, err := c.client.RuntimeInfo(ctx, t.Addr); err == nil && rt["mqctlVersion"] != "" {
			return fail(ExitDenied, "NOT_OFFERED", "%s has no static topics: brokers of mqctl do not know them; nothing was changed", t)
		}
	}
	return nil
}

// remap carries a move out: one edit over several brokers, whose order matters.
type remap struct {
	c       *call
	masters map[string]admin.Target
	next    *mappingFile
	items   map[string]*staticItem
	files   [2]string
}

func (m *remap) edit(now map[string]*admin.StaticTopic) *edit {
	brokers := sortedKeys(m.next.Configs)
	same := len(m.next.MapIn) == 0
	e := &edit{target: m.masters[brokers[0]], same: same, write: m.write, things: func() []auditThing {
		var out []auditThing
		for _, broker := range brokers {
			if !m.items[broker].Applied {
				continue
			}
			var before any
			if now[broker] != nil {
				before = now[broker].Mapping
			}
			t := m.masters[broker]
			out = append(out, auditThing{Target: t.String(), Addr: t.Addr, Key: "static topic " + m.next.Topic, Before: rawJSON(before), After: rawJSON(m.next.Configs[broker].Mapping)})
		}
		return out
	}}
	for _, broker := range brokers {
		m.items[broker] = staticItemOf(m.masters[broker], m.next.Configs[broker], now[broker] == nil, same, m.c.dryRun())
		e.items = append(e.items, m.items[broker])
	}
	return e
}

// write is the order of RocketMQ's MQAdminUtils.remappingStaticTopic: the new
// brokers learn of their queues but not yet of the offsets, the old ones stop
// taking messages, then it is known how far those came, and the new ones are
// told where to begin; the others hear of it last.
func (m *remap) write(ctx context.Context) (sent bool, err error) {
	var rest []string
	for _, broker := range sortedKeys(m.next.Configs) {
		if !slices.Contains(m.next.MapIn, broker) && !slices.Contains(m.next.MapOut, broker) {
			rest = append(rest, broker)
		}
	}
	for _, step := range []struct {
		what    string
		brokers []string
		do      func(ctx context.Context, broker string) error
	}{
		{"the new places were being announced", m.next.MapIn, m.put},
		{"the old places were being closed", m.next.MapOut, m.put},
		{"the offsets were being decided", m.next.MapOut, m.decide},
		{"the offsets were being written", m.next.MapIn, m.put},
		{"the other brokers were being told", rest, m.put},
		{"the mappings were being read back", sortedKeys(m.next.Configs), m.verify},
	} {
		for _, broker := range step.brokers {
			err := step.do(ctx, broker)
			if err != nil {
				f := asMessage(m.c.explain(err))
				why := "it failed while " + step.what + ", at " + broker
				if f.Why != "" {
					why = f.Why + "; " + why
				}
				if sent {
					why += "; queues whose offset is not decided take no messages until it is finished"
					f.offer("mqctl topic static remap " + m.next.Topic + " --map-file " + m.files[1] + " --brokers " + strings.Join(sortedKeys(m.next.Configs), ","))
				}
				f.reason("%s", why)
				return sent, f
			}
			sent = true
		}
	}
	return sent, nil
}

func (m *remap) put(ctx context.Context, broker string) error {
	err := m.c.client.PutStaticTopic(ctx, m.masters[broker].Addr, m.next.Configs[broker], m.c.on("force-replace"))
	if err == nil {
		m.items[broker].Applied = true
	}
	return err
}

// decide gives the new places of the queues of a broker their first logical
// offset: beyond what the old place has.
func (m *remap) decide(ctx context.Context, broker string) error {
	stats, err := m.c.client.TopicStats(ctx, m.masters[broker].Addr, m.next.Topic)
	if err != nil {
		return err
	}
	hosted := m.next.Configs[broker].Mapping.Hosted
	for _, id := range slices.Sorted(maps.Keys(hosted)) {
		places := hosted[id]
		if len(places) < 2 || lastPlace(places).LogicOffset >= 0 {
			continue
		}
		last, old := lastPlace(places), places[len(places)-2]
		end, ok := stats.Queues[admin.Queue{Topic: m.next.Topic, Broker: old.Broker, ID: old.QueueID}]
		if !ok || end.Max < old.StartOffset {
			return fail(ExitFailed, "MAPPING_BROKEN", "%s does not tell how far its queue %d of %q came, which is the place of logical queue %d", broker, old.QueueID, m.next.Topic, id)
		}
		last.LogicOffset = nextBlock(max(old.LogicOffset, 0) + end.Max - old.StartOffset)
		if in := m.next.Configs[last.Broker]; in != nil {
			in.Mapping.Hosted[id] = slices.Clone(places)
		}
	}
	return nil
}

// nextBlock is the beginning of the next block of offsets that is at least half
// a block away (TopicQueueMappingUtils.blockSeqRoundUp).
func nextBlock(offset int64) int64 {
	n := offset/offsetBlock + 1
	if offset%offsetBlock >= offsetBlock/2 {
		n++
	}
	return n * offsetBlock
}

func (m *remap) verify(ctx context.Context, broker string) error {
	it, want := m.items[broker], m.next.Configs[broker]
	got, err := m.c.client.StaticTopic(ctx, m.masters[broker].Addr, m.next.Topic)
	if err != nil {
		return fail(ExitFailed, "NOT_VERIFIED", "%s took the change, but could not be read back: %v", it.Broker, err)
	}
	if got.Mapping == nil || got.Mapping.Epoch != want.Mapping.Epoch {
		return notVerified(m.masters[broker], "the mapping of another epoch is in force")
	}
	for id, places := range want.Mapping.Hosted {
		have, last := lastPlace(got.Mapping.Hosted[id]), lastPlace(places)
		if last != nil && (have == nil || have.Broker != last.Broker || slices.Contains(m.next.MapIn, broker) && have.LogicOffset != last.LogicOffset) {
			return notVerified(m.masters[broker], "a logical queue lies elsewhere, or begins at another offset")
		}
	}
	it.Verified = true
	return nil
}
