package subgroup_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mqctl/store/record"
	"mqctl/subgroup"
)

// peer is a connection that remembers what it was told.
type peer struct {
	id uint64

	mu     sync.Mutex
	told   []string
	closed bool
}

func (p *peer) ID() uint64 { return p.id }

func (p *peer) Notify(code int, ext map[string]string, body []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("closed")
	}
	p.told = append(p.told, fmt.Sprint(code, " ", ext["consumerGroup"]))
	return nil
}

func (p *peer) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// notices returns what the peer was told since the last call.
func (p *peer) notices() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.Join(p.told, ",")
	p.told = nil
	return text
}

type fixture struct {
	*subgroup.Members
	clock clock
	mute  map[string]bool
}

func newFixture() *fixture {
	f := &fixture{mute: map[string]bool{}}
	f.clock.ms.Store(1_000_000)
	f.Members = subgroup.NewMembers(f.clock.now, func(g string) bool { return !f.mute[g] })
	return f
}

func client(p *peer, id string) subgroup.Client {
	return subgroup.Client{Peer: p, ClientID: id, Addr: "127.0.0.1:1", Language: "JAVA", Version: 479}
}

func consumer(group string, subs ...subgroup.Subscription) subgroup.Consumer {
	return subgroup.Consumer{
		Group: group, ConsumeType: "CONSUME_PASSIVELY", MessageModel: subgroup.Clustering,
		ConsumeFromWhere: "CONSUME_FROM_LAST_OFFSET", Subscriptions: subs,
	}
}

func sub(topic, expression string, version int64) subgroup.Subscription {
	return subgroup.Subscription{Topic: topic, SubString: expression, SubVersion: version}
}

func topics(v *subgroup.GroupView) string {
	if v == nil {
		return "offline"
	}
	var list []string
	for topic, s := range v.Subscriptions {
		list = append(list, topic+":"+s.SubString)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func ids(v *subgroup.GroupView) string {
	if v == nil {
		return "offline"
	}
	var list []string
	for _, c := range v.Clients {
		list = append(list, c.ClientID)
	}
	return strings.Join(list, " ")
}

func TestRegisterConsumer(t *testing.T) {
	f := newFixture()
	a, b := &peer{id: 1}, &peer{id: 2}
	if f.Group("g") != nil || f.GroupBytes([]byte("g")) != nil {
		t.Error("a group without members is online")
	}
	if !f.RegisterConsumer(client(a, "a"), consumer("g", sub("t", "*", 1))) {
		t.Error("the first member is no change")
	}
	if got := a.notices(); got != "40 g" {
		t.Errorf("the new member was told %q", got)
	}
	if f.RegisterConsumer(client(a, "a"), consumer("g", sub("t", "*", 1))) || a.notices() != "" {
		t.Error("the same heartbeat again is a change")
	}
	if !f.RegisterConsumer(client(b, "b"), consumer("g", sub("t", "*", 1))) || a.notices() != "40 g" || b.notices() != "40 g" {
		t.Error("a second member: everybody must be told")
	}
	v := f.GroupBytes([]byte("g"))
	if ids(v) != "a b" || topics(v) != "t:*" || v.ConsumeType != "CONSUME_PASSIVELY" || v.MessageModel != "CLUSTERING" || v.Conflict {
		t.Errorf("view %+v", v)
	}
	// An expression alone is no change, though it counts at once.
	if f.RegisterConsumer(client(a, "a"), consumer("g", sub("t", "x || y", 2))) {
		t.Error("another expression is a change")
	}
	if got := topics(f.Group("g")); got != "t:x || y" {
		t.Errorf("subscriptions %s", got)
	}
	if topics(v) != "t:*" {
		t.Error("a view changed after it was made")
	}
	if !f.Group("g").Conflict {
		t.Error("b still has another expression: no conflict shown")
	}
	if !f.RegisterConsumer(client(a, "a"), consumer("g", sub("t", "x || y", 2), sub("u", "*", 2))) {
		t.Error("another topic is no change")
	}
	if !f.RegisterConsumer(client(b, "b"), consumer("g", sub("t", "*", 1))) || topics(f.Group("g")) != "t:x || y" {
		t.Errorf("the latest heartbeat lacks a topic: %s", topics(f.Group("g")))
	}
	// Another client id on the same connection replaces the first.
	f.RegisterConsumer(client(b, "b2"), consumer("g", sub("t", "*", 1)))
	if got := ids(f.Group("g")); got != "a b2" {
		t.Errorf("members %s", got)
	}
	// Two connections may share a client id.
	f.RegisterConsumer(client(&peer{id: 3}, "b2"), consumer("g", sub("t", "*", 1)))
	if got := ids(f.Group("g")); got != "a b2 b2" {
		t.Errorf("members %s", got)
	}
}

func TestGroupSettingsFollowTheLastHeartbeat(t *testing.T) {
	f := newFixture()
	a := &peer{id: 1}
	c := consumer("g", sub("t", "*", 1))
	f.RegisterConsumer(client(a, "a"), c)
	c.MessageModel, c.ConsumeType, c.ConsumeFromWhere = subgroup.Broadcasting, "CONSUME_ACTIVELY", "CONSUME_FROM_FIRST_OFFSET"
	f.RegisterConsumer(client(a, "a"), c)
	if v := f.Group("g"); v.MessageModel != subgroup.Broadcasting || v.ConsumeType != "CONSUME_ACTIVELY" || v.ConsumeFromWhere != "CONSUME_FROM_FIRST_OFFSET" {
		t.Errorf("%+v", v)
	}
}

func TestNoNotices(t *testing.T) {
	f := newFixture()
	a, b := &peer{id: 1}, &peer{id: 2}
	f.mute["quiet"] = true
	loud := consumer("loud", sub("t", "*", 1))
	loud.MessageModel = subgroup.Broadcasting
	for _, c := range []subgroup.Consumer{consumer("quiet", sub("t", "*", 1)), loud} {
		if !f.RegisterConsumer(client(a, "a"), c) || !f.RegisterConsumer(client(b, "b"), c) {
			t.Errorf("%s: no change", c.Group)
		}
	}
	f.ConnClosed(b)
	if got := a.notices() + b.notices(); got != "" {
		t.Errorf("told %q", got)
	}
}

func TestSubscriptionVersions(t *testing.T) {
	const ms, ns = int64(1_700_000_000_000), int64(1_700_000_000_000_000_000)
	for _, c := range []struct {
		have, offer int64
		replaced    bool
	}{
		{ms, ms + 1, true}, {ms, ms, false}, {ms, ms - 1, false},
		{ns, ns + 1, true}, {ns, ns, false}, {ns, ns - 1, false},
		{ms, ns + 2e6, true},  // Go after Java
		{ns, ms + 5, true},    // Java after Go
		{ns, ms - 5, false},   // Java before Go
		{ms, ns - 5e6, false}, // Go before Java
		{0, 1, true},
	} {
		f := newFixture()
		f.RegisterConsumer(client(&peer{id: 1}, "a"), consumer("g", sub("t", "old", c.have)))
		f.RegisterConsumer(client(&peer{id: 2}, "b"), consumer("g", sub("t", "new", c.offer)))
		if got := topics(f.Group("g")) == "t:new"; got != c.replaced {
			t.Errorf("%d offered to %d: replaced %v", c.offer, c.have, got)
		}
	}
}

func TestHeartbeatWithoutSubscriptions(t *testing.T) {
	f := newFixture()
	a := &peer{id: 1}
	f.RegisterConsumer(client(a, "a"), consumer("g", sub("t", "*", 1)))
	light := consumer("g")
	light.KeepSubscriptions = true
	if f.RegisterConsumer(client(a, "a"), light) || topics(f.Group("g")) != "t:*" {
		t.Errorf("subscriptions %s", topics(f.Group("g")))
	}
	f.RegisterConsumer(client(&peer{id: 2}, "b"), light)
	if v := f.Group("g"); v.Conflict || topics(v) != "t:*" {
		t.Errorf("%+v", v)
	}
	if !f.RegisterConsumer(client(a, "a"), consumer("g")) || topics(f.Group("g")) != "" {
		t.Error("an empty list of subscriptions must remove them")
	}
}

func TestManyTopics(t *testing.T) {
	f := newFixture()
	var subs []subgroup.Subscription
	for i := range 100 {
		subs = append(subs, sub(fmt.Sprint("t", i), "*", 1))
	}
	f.RegisterConsumer(client(&peer{id: 1}, "a"), consumer("g", subs...))
	if !f.RegisterConsumer(client(&peer{id: 1}, "a"), consumer("g", subs[:60]...)) || len(f.Group("g").Subscriptions) != 60 {
		t.Errorf("%d topics", len(f.Group("g").Subscriptions))
	}
}

func TestGoClientSubscription(t *testing.T) {
	f := newFixture()
	s := sub("t", "größe || TagA", 1) // no type, codes of UTF-8 bytes
	s.Tags, s.Codes = []string{"größe", "TagA"}, []int32{1, 2}
	f.RegisterConsumer(client(&peer{id: 1}, "a"), consumer("g", s))
	got := f.Group("g").Subscriptions["t"]
	if got.ExpressionType != "TAG" || !got.MatchTag(int64(record.JavaHash("größe"))) || !got.MatchTag(2598919) || got.MatchTag(1) || got.MatchTag(0) {
		t.Errorf("%+v", got)
	}
	s = sub("u", "a || b", 1) // no tags either
	f.RegisterConsumer(client(&peer{id: 1}, "a"), consumer("g", s))
	if got := f.Group("g").Subscriptions["u"]; !got.MatchTag(int64('a')) || got.MatchTag(int64('c')) {
		t.Errorf("%+v", got)
	}
}

func TestConnClosed(t *testing.T) {
	f := newFixture()
	a, b := &peer{id: 1}, &peer{id: 2}
	for _, g := range []string{"g1", "g2"} {
		f.RegisterConsumer(client(a, "a"), consumer(g, sub("t", "*", 1)))
	}
	f.RegisterConsumer(client(b, "b"), consumer("g1", sub("t", "*", 1)))
	f.RegisterProducer(client(a, "a"), "p1")
	f.RegisterProducer(client(b, "b"), "p1")
	a.notices()
	b.notices()
	want := []subgroup.Membership{{Group: "g1", ClientID: "a"}, {Group: "g2", ClientID: "a"}}
	if got := f.ConnClosed(a); !slices.Equal(got, want) {
		t.Errorf("left %v", got)
	}
	if ids(f.Group("g1")) != "b" || f.Group("g2") != nil || b.notices() != "40 g1" || a.notices() != "" {
		t.Error("the other member was not told, or the wrong one")
	}
	if got := f.Producers("p1"); len(got) != 1 || got[0].ClientID != "b" {
		t.Errorf("producers %v", got)
	}
	if got := f.ConnClosed(a); got != nil {
		t.Errorf("left again %v", got)
	}
	f.ConnClosed(b)
	if f.OnlineGroups() != nil || f.Producers("p1") != nil || len(f.AllProducers()) != 0 {
		t.Error("closed connections are still there")
	}
}

// goingPeer is a connection that says when it has ended.
type goingPeer struct {
	peer
	gone chan struct{}
}

func (p *goingPeer) Gone() <-chan struct{} { return p.gone }

func TestHeartbeatAfterTheEnd(t *testing.T) {
	f := newFixture()
	p := &goingPeer{peer: peer{id: 1}, gone: make(chan struct{})}
	c := client(nil, "a")
	c.Peer = p
	if !f.RegisterConsumer(c, consumer("g", sub("t", "*", 1))) {
		t.Error("a live connection was refused")
	}
	close(p.gone)
	f.ConnClosed(p)
	f.RegisterProducer(c, "p")
	if f.RegisterConsumer(c, consumer("g", sub("t", "*", 1))) || f.Group("g") != nil || f.Producers("p") != nil {
		t.Error("a connection that has ended joined its groups again")
	}
}

func TestUnregister(t *testing.T) {
	f := newFixture()
	a, b := &peer{id: 1}, &peer{id: 2}
	f.RegisterConsumer(client(a, "a"), consumer("g", sub("t", "*", 1)))
	f.RegisterConsumer(client(b, "b"), consumer("g", sub("t", "*", 1)))
	f.RegisterProducer(client(a, "a"), "p")
	b.notices()
	f.Unregister(a, "a", "", "g")
	if ids(f.Group("g")) != "b" || b.notices() != "40 g" || len(f.Producers("p")) != 1 {
		t.Error("after leaving the consumer group")
	}
	f.Unregister(a, "a", "p", "")
	f.Unregister(a, "a", "nobody", "nothing")
	if f.Producers("p") != nil || b.notices() != "" {
		t.Error("after leaving the producer group")
	}
	if got := f.ConnClosed(a); got != nil {
		t.Errorf("left %v", got)
	}
}

func TestExpire(t *testing.T) {
	f := newFixture()
	a, b, c := &peer{id: 1}, &peer{id: 2}, &peer{id: 3}
	for _, p := range []*peer{a, b, c} {
		f.RegisterConsumer(client(p, fmt.Sprint("c", p.id)), consumer("g", sub("t", "*", 1)))
	}
	f.RegisterProducer(client(a, "c1"), "p")
	for _, p := range []*peer{a, b, c} {
		p.notices()
	}
	f.clock.ms.Add(60_000)
	f.RegisterConsumer(client(c, "c3"), consumer("g", sub("t", "*", 1)))
	f.clock.ms.Add(60_000)
	if got := f.Expire(120 * time.Second); got != nil {
		t.Errorf("after exactly 120 s %v expired", got)
	}
	f.clock.ms.Add(1)
	got := f.Expire(120 * time.Second)
	slices.SortFunc(got, func(x, y subgroup.Membership) int { return strings.Compare(x.ClientID, y.ClientID) })
	if !slices.Equal(got, []subgroup.Membership{{"g", "c1"}, {"g", "c2"}}) {
		t.Errorf("expired %v", got)
	}
	if !a.closed || !b.closed || c.closed || c.notices() != "40 g" || ids(f.Group("g")) != "c3" || f.Producers("p") != nil {
		t.Errorf("a closed %v, b closed %v, c closed %v, members %s", a.closed, b.closed, c.closed, ids(f.Group("g")))
	}
}

func TestProducers(t *testing.T) {
	f := newFixture()
	a := &peer{id: 1}
	f.RegisterProducer(client(a, "a"), "p")
	f.clock.ms.Add(5)
	f.RegisterProducer(client(a, "a2"), "p")
	f.RegisterProducer(client(a, "a"), "")
	f.RegisterProducer(client(a, "a"), strings.Repeat("p", 2000))
	got := f.AllProducers()
	if len(got) != 1 || len(got["p"]) != 1 || got["p"][0].ClientID != "a2" || got["p"][0].LastMillis != f.clock.now() {
		t.Errorf("%v", got)
	}
}

func TestGroupsOfAPeerAreBounded(t *testing.T) {
	f := newFixture()
	a := &peer{id: 1}
	for i := range 5000 {
		f.RegisterProducer(client(a, "a"), fmt.Sprint("p", i))
	}
	if n := len(f.AllProducers()); n != 4096 {
		t.Errorf("one connection is in %d groups", n)
	}
	if f.RegisterConsumer(client(a, "a"), consumer("g")) || f.Group("g") != nil {
		t.Error("past the bound a consumer group was joined")
	}
	f.ConnClosed(a)
	if n := len(f.AllProducers()); n != 0 {
		t.Errorf("%d groups are left", n)
	}
}

func TestGroupLists(t *testing.T) {
	f := newFixture()
	f.RegisterConsumer(client(&peer{id: 1}, "a"), consumer("g1", sub("t", "*", 1), sub("%RETRY%g1", "*", 1)))
	f.RegisterConsumer(client(&peer{id: 1}, "a"), consumer("g2", sub("u", "*", 1)))
	if got := f.OnlineGroups(); !slices.Equal(got, []string{"g1", "g2"}) {
		t.Errorf("online %v", got)
	}
	if got := f.GroupsOf("t"); !slices.Equal(got, []string{"g1"}) {
		t.Errorf("of t %v", got)
	}
	if got := f.GroupsOf("none"); got != nil {
		t.Errorf("of none %v", got)
	}
}

func TestMembersConcurrent(t *testing.T) {
	f := newFixture()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			p := &peer{id: uint64(w)}
			for i := range 100 {
				f.RegisterConsumer(client(p, fmt.Sprint("c", w)), consumer(fmt.Sprint("g", i%5), sub("t", "*", int64(i))))
				f.RegisterProducer(client(p, fmt.Sprint("c", w)), fmt.Sprint("p", i%3))
				if v := f.Group(fmt.Sprint("g", i%5)); v == nil || !slices.ContainsFunc(v.Clients, func(c subgroup.Client) bool { return c.Peer == subgroup.Peer(p) }) {
					t.Error("a member does not find itself")
				}
				f.AllProducers()
				f.Expire(time.Hour)
				if i%20 == 19 {
					f.ConnClosed(p)
				}
			}
		})
	}
	wg.Wait()
	if got := f.OnlineGroups(); got != nil {
		t.Errorf("left %v", got)
	}
}

// What a member knows already costs nothing again.
func TestHeartbeatDoesNotAllocate(t *testing.T) {
	f := newFixture()
	c := client(&peer{id: 1}, "a")
	cons := consumer("g", sub("t", "x || y", 1), sub("%RETRY%g", "*", 1))
	f.RegisterConsumer(c, cons)
	name := []byte("g")
	if n := testing.AllocsPerRun(100, func() {
		f.RegisterConsumer(c, cons)
		f.RegisterProducer(c, "p")
		if f.GroupBytes(name) == nil {
			t.Fatal("offline")
		}
	}); n > 0 {
		t.Errorf("%v allocations a heartbeat", n)
	}
}

func TestParseTags(t *testing.T) {
	for _, c := range []struct{ text, tags string }{
		{"", "*"}, {"*", "*"}, {"a", "a"}, {"a||b", "a b"}, {" a || b ||", "a b"}, {"||a||a", "a"}, {"TagA || TagC", "TagA TagC"},
	} {
		s, err := subgroup.ParseTags("t", c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if c.tags == "*" {
			if s.SubString != "*" || s.Tags != nil || !s.MatchTag(0) || !s.MatchTag(99) {
				t.Errorf("%q: %+v", c.text, s)
			}
			continue
		}
		if got := strings.Join(s.Tags, " "); got != c.tags || s.SubString != c.text || s.Topic != "t" {
			t.Errorf("%q: %+v", c.text, s)
		}
		for _, tag := range s.Tags {
			if !s.MatchTag(record.TagsCode([]byte(tag))) {
				t.Errorf("%q does not match %s", c.text, tag)
			}
		}
		if s.MatchTag(0) || s.MatchTag(record.TagsCode([]byte("zzz"))) {
			t.Errorf("%q matches what it should not", c.text)
		}
	}
	for _, text := range []string{"||", " || ", "||||", " "} {
		if s, err := subgroup.ParseTags("t", text); !errors.Is(err, subgroup.ErrNoTags) {
			t.Errorf("%q: %+v %v", text, s, err)
		}
	}
}

func TestMatchTagManyCodes(t *testing.T) {
	var tags []string
	for i := range 100 {
		tags = append(tags, fmt.Sprint("tag", i))
	}
	s, err := subgroup.ParseTags("t", strings.Join(tags, "||"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range tags {
		if !s.MatchTag(record.TagsCode([]byte(tag))) {
			t.Errorf("%s does not match", tag)
		}
	}
	if s.MatchTag(0) || s.MatchTag(record.TagsCode([]byte("tag100"))) {
		t.Error("matches what it should not")
	}
}

func FuzzParseTags(f *testing.F) {
	for _, s := range []string{"", "*", "a||b", "||", "a|b", "größe || \U0001F600", "a || || b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := subgroup.ParseTags("t", text)
		if err != nil {
			return
		}
		if s.SubString == "*" {
			return
		}
		if len(s.Tags) == 0 || len(s.Codes) == 0 || len(s.Codes) > len(s.Tags) || !slices.IsSorted(s.Codes) {
			t.Fatalf("%q: %+v", text, s)
		}
		for _, tag := range s.Tags {
			if tag == "" || strings.TrimSpace(tag) != tag || strings.Contains(tag, "||") || !s.MatchTag(record.TagsCode([]byte(tag))) {
				t.Fatalf("%q: tag %q", text, tag)
			}
		}
	})
}
