package stats

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"mqctl/broker/topic"
	"mqctl/subgroup/live"
)

// maxKeys bounds the topics and groups that are counted apart. What comes
// after counts in the broker's totals only.
const maxKeys = 200_000

// Names of items (code 315).
const (
	TopicPutNums        = "TOPIC_PUT_NUMS"
	TopicPutSize        = "TOPIC_PUT_SIZE"
	GroupGetNums        = "GROUP_GET_NUMS"
	GroupGetSize        = "GROUP_GET_SIZE"
	SendBackPutNums     = "SNDBCK_PUT_NUMS"
	DLQPutNums          = "DLQ_PUT_NUMS"
	BrokerPutNums       = "BROKER_PUT_NUMS"
	BrokerGetNums       = "BROKER_GET_NUMS"
	BrokerPutUserTopics = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
	BrokerGetUserTopics = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"
)

// topicStats are the items of one topic.
type topicStats struct {
	system    bool
	nums      item
	size      item
	idleSince atomic.Int64
	groups    live.Map[groupStats]
}

// groupStats are the items of one group on one topic.
type groupStats struct {
	nums, size, sentBack, dead item
	idleSince                  atomic.Int64
}

// Stats counts; every method is safe for concurrent use.
type Stats struct {
	cluster string
	now     func() int64
	topics  live.Map[topicStats]
	keys    atomic.Int64 // topics and groups in topics
	bound   int64        // of keys

	put, got         item // messages of all topics
	putUser, gotUser item // those of topics that are not the system's
	found, missed    atomic.Int64

	mu         sync.Mutex // guards what follows and the windows of all items
	samples    int64      // taken so far
	lastSample int64      // when the last one was taken, or the start
	rates      []rate     // newest last
	roll       [2]rolled  // put, got
}

// rate is what the figures per second of the broker are made of.
type rate struct{ millis, put, found, missed, transferred int64 }

// rateSamples are ten minutes of rates.
const rateSamples = 61

// rolled is a total at the last two midnights.
type rolled struct{ today, yesterday int64 }

// New makes empty statistics with a clock of milliseconds.
func New(cluster string, nowMillis func() int64) *Stats {
	now := nowMillis()
	return &Stats{cluster: cluster, now: nowMillis, bound: maxKeys, lastSample: now, rates: []rate{{millis: now}}}
}

// topic finds or makes the items of a topic; nil if there are too many.
func (s *Stats) topic(name []byte) *topicStats {
	if t := s.topics.GetBytes(name); t != nil {
		return t
	}
	if s.keys.Load() >= s.bound {
		return nil
	}
	fresh := &topicStats{system: topic.IsSystemOf(s.cluster, string(name))}
	fresh.idleSince.Store(s.now())
	t := s.topics.SetIfAbsent(string(name), fresh)
	if t == fresh {
		s.keys.Add(1)
	}
	return t
}

// group finds or makes the items of a group on a topic; nil if there are too
// many.
func (s *Stats) group(t *topicStats, name []byte) *groupStats {
	if g := t.groups.GetBytes(name); g != nil {
		return g
	}
	if s.keys.Load() >= s.bound {
		return nil
	}
	fresh := &groupStats{}
	fresh.idleSince.Store(s.now())
	g := t.groups.SetIfAbsent(string(name), fresh)
	if g == fresh {
		s.keys.Add(1)
	}
	return g
}

// Put counts n messages of bytes in all that were stored in a topic.
func (s *Stats) Put(topic []byte, n, bytes int64) {
	s.put.add(n)
	t := s.topic(topic)
	if t == nil {
		return
	}
	if !t.system {
		s.putUser.add(n)
	}
	t.nums.add(n)
	t.size.add(bytes)
}

// Got counts one pull of a group that found n messages of bytes in all.
func (s *Stats) Got(topic, group []byte, n, bytes int64) {
	s.found.Add(1)
	s.got.add(n)
	t := s.topic(topic)
	if t == nil {
		return
	}
	if !t.system {
		s.gotUser.add(n)
	}
	if g := s.group(t, group); g != nil {
		g.nums.add(n)
		g.size.add(bytes)
	}
}

// GetMiss counts one pull that found nothing.
func (s *Stats) GetMiss() { s.missed.Add(1) }

// SentBack counts a message of a topic that a group could not consume.
func (s *Stats) SentBack(topic, group string) { s.groupItem(topic, group, (*groupStats).sentBackItem) }

// DLQ counts a message of a topic that went to a group's dead-letter topic.
func (s *Stats) DLQ(topic, group string) { s.groupItem(topic, group, (*groupStats).deadItem) }

func (g *groupStats) sentBackItem() *item { return &g.sentBack }
func (g *groupStats) deadItem() *item     { return &g.dead }

func (s *Stats) groupItem(topic, group string, of func(*groupStats) *item) {
	t := s.topic([]byte(topic))
	if t == nil {
		return
	}
	if g := s.group(t, []byte(group)); g != nil {
		of(g).add(1)
	}
}

// Sample takes the snapshots of the windows. It is called every 10 s by the
// broker's task loop, and drops what has been idle for longer than a day.
func (s *Stats) Sample() {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	n, last := s.samples, s.lastSample
	s.samples++
	s.lastSample = now
	for _, i := range []*item{&s.put, &s.got, &s.putUser, &s.gotUser} {
		i.sample(n, last, now)
	}
	s.rates = append(s.rates, rate{now, s.put.value.Load(), s.found.Load(), s.missed.Load(), s.got.value.Load()})
	if len(s.rates) > rateSamples {
		s.rates = append(s.rates[:0], s.rates[1:]...)
	}
	s.topics.Each(func(name string, t *topicStats) bool {
		s.sampleTopic(name, t, n, last, now)
		return true
	})
}

// sampleTopic samples a topic and its groups. The caller holds mu.
func (s *Stats) sampleTopic(name string, t *topicStats, n, last, now int64) {
	t.groups.Each(func(group string, g *groupStats) bool {
		busy := false
		for _, i := range []*item{&g.nums, &g.size, &g.sentBack, &g.dead} {
			busy = i.sample(n, last, now) || busy
		}
		if busy {
			g.idleSince.Store(now)
		} else if now-g.idleSince.Load() > idleMillis {
			t.groups.Set(group, nil)
			s.keys.Add(-1)
		}
		return true
	})
	busy := t.nums.sample(n, last, now)
	t.size.sample(n, last, now)
	if busy {
		t.idleSince.Store(now)
	} else if t.groups.Len() == 0 && now-t.idleSince.Load() > idleMillis {
		s.topics.Set(name, nil)
		s.keys.Add(-1)
	}
}

// View answers code 315: the windows of an item; ok is false if nothing was
// counted under that name and key.
func (s *Stats) View(name, key string) (minute, hour, day Snapshot, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(name, key)
	if i == nil {
		return Snapshot{}, Snapshot{}, Snapshot{}, false
	}
	return i.minute.snapshot(), i.hour.upTo(i.minute, hourSamples).snapshot(), i.day.upTo(i.minute, daySamples).snapshot(), true
}

// find is the item of a name and a key, nil if nothing was counted there.
func (s *Stats) find(name, key string) *item {
	var i *item
	switch name {
	case BrokerPutNums, BrokerGetNums, BrokerPutUserTopics, BrokerGetUserTopics:
		if key != s.cluster {
			return nil
		}
		return map[string]*item{
			BrokerPutNums: &s.put, BrokerGetNums: &s.got,
			BrokerPutUserTopics: &s.putUser, BrokerGetUserTopics: &s.gotUser,
		}[name]
	case TopicPutNums, TopicPutSize:
		t := s.topics.Get(key)
		if t == nil {
			return nil
		}
		if i = &t.nums; name == TopicPutSize {
			i = &t.size
		}
	case GroupGetNums, GroupGetSize, SendBackPutNums, DLQPutNums:
		topic, group, _ := strings.Cut(key, "@")
		g := s.findGroup(topic, group)
		if g == nil {
			return nil
		}
		i = map[string]*item{
			GroupGetNums: &g.nums, GroupGetSize: &g.size, SendBackPutNums: &g.sentBack, DLQPutNums: &g.dead,
		}[name]
	default:
		return nil
	}
	if i.times.Load() == 0 {
		return nil
	}
	return i
}

func (s *Stats) findGroup(topic, group string) *groupStats {
	t := s.topics.Get(topic)
	if t == nil {
		return nil
	}
	return t.groups.Get(group)
}

// TopicPutTPS is the messages stored in a topic for each second of the last
// minute.
func (s *Stats) TopicPutTPS(topic string) float64 {
	minute, _, _, _ := s.View(TopicPutNums, topic)
	return minute.TPS
}

// GroupTPS is the messages a group got from a topic for each second of the last
// minute.
func (s *Stats) GroupTPS(topic, group string) float64 {
	minute, _, _, _ := s.View(GroupGetNums, topic+"@"+group)
	return minute.TPS
}

// TPS gives the strings of the broker's runtime figures (code 28): three
// numbers a second, over 10 s, a minute and ten minutes, or as much of these as
// there is. put and transferred count messages; found, miss and total count
// pulls.
func (s *Stats) TPS() (put, found, miss, total, transferred string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := func(of func(rate) int64) string {
		return s.perSecond(1, of) + " " + s.perSecond(6, of) + " " + s.perSecond(60, of)
	}
	return text(func(r rate) int64 { return r.put }),
		text(func(r rate) int64 { return r.found }),
		text(func(r rate) int64 { return r.missed }),
		text(func(r rate) int64 { return r.found + r.missed }),
		text(func(r rate) int64 { return r.transferred })
}

// perSecond is a rate over the last samples, as Java prints a double. The
// caller holds mu.
func (s *Stats) perSecond(samples int, of func(rate) int64) string {
	last := len(s.rates) - 1
	if last < 1 {
		return "0.0"
	}
	from, to := s.rates[max(0, last-samples)], s.rates[last]
	if to.millis <= from.millis {
		return "0.0"
	}
	text := strconv.FormatFloat(float64(of(to)-of(from))*1000/float64(to.millis-from.millis), 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// Totals are the messages put and got since the start, now and at the last two
// midnights (msgPutTotalTodayNow, msgPutTotalTodayMorning,
// msgPutTotalYesterdayMorning and the same of get).
func (s *Stats) Totals() (putNow, putToday, putYesterday, getNow, getToday, getYesterday int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put.value.Load(), s.roll[0].today, s.roll[0].yesterday,
		s.got.value.Load(), s.roll[1].today, s.roll[1].yesterday
}

// Roll is called at local midnight: today's morning becomes yesterday's.
func (s *Stats) Roll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roll[0] = rolled{today: s.put.value.Load(), yesterday: s.roll[0].today}
	s.roll[1] = rolled{today: s.got.value.Load(), yesterday: s.roll[1].today}
}
