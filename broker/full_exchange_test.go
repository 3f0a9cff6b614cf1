package broker

import (
	"testing"
	"time"

	"mqctl/broker/topic"
	"mqctl/subgroup"
)

// TestFullExchange: the full exchange every 60 s mends what the changes of each second
// cannot see, since both sides agree on the versions: a topic that is missing at the
// slave or differs there, a group, and progress, in both directions.
func TestFullExchange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster()
		p.m.createTopic("T", 4)
		p.m.createTopic("Gone", 4)
		p.m.putGroup(subgroup.Defaults("G"))
		p.m.putGroup(subgroup.Defaults("P"))
		p.startSlave()
		p.caughtUp()
		<-time.After(3 * time.Second)
		p.sameTables()

		topics, version := p.s.b.topics.All()
		altered := map[string]topic.Config{}
		for name, c := range topics {
			altered[name] = *c
		}
		delete(altered, "Gone")
		one := altered["T"]
		one.ReadQueueNums = 1
		altered["T"] = one
		if _, err := p.s.b.topics.Replace(altered, version); err != nil {
			t.Fatal(err)
		}
		groups, version := p.s.b.groups.All()
		other := map[string]subgroup.Config{}
		for name, c := range groups {
			other[name] = *c
		}
		g := other["G"]
		g.RetryMaxTimes++
		other["G"] = g
		if _, err := p.s.b.groups.Replace(other, nil, version); err != nil {
			t.Fatal(err)
		}
		sync := p.s.b.sync
		sync.exchange.Lock()
		sync.master.since += 1 << 20 // it believes that it knows what comes now
		sync.master.pushed += 1 << 20
		full := sync.master.fullAt
		p.m.commit("G", 1, 7)
		p.s.commit("P", 2, 9)
		sync.exchange.Unlock()

		mended := func() bool {
			c, g := p.s.b.topics.Get("T"), p.s.b.groups.Get("G")
			return c.ReadQueueNums == 4 && p.s.b.topics.Get("Gone") != nil && g.RetryMaxTimes == p.m.b.groups.Get("G").RetryMaxTimes &&
				p.s.progress("G", 1) == 7 && p.m.progress("P", 2) == 9
		}
		begin := time.Now()
		for !mended() {
			if now := p.s.b.steady(); now.Sub(full) > fullEvery+2*time.Second {
				t.Fatalf("not mended %s after the last full exchange", now.Sub(full))
			}
			<-time.After(100 * time.Millisecond)
		}
		if took := time.Since(begin); took < 40*time.Second {
			t.Errorf("it took %s only: this shows nothing of the full exchange", took)
		}
		p.sameTables()
	})
}
