package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/store/vfs"
)

// member is another broker of this name that was met or that a nameserver knows.
type member struct {
	ID   int64  `json:"id"`
	Addr string `json:"addr"`
	Ours bool   `json:"ours"` // it exchanged by MQCTL_PROGRESS
	Seen int64  `json:"-"`    // ms of its last request; 0: none in this run
	has  uint64 // the version of our progress that it had then
}

// mostMembers bounds what is remembered: a broker has a handful of replicas.
const mostMembers = 64

// memberList is <root>/mqctl/members.json: the brokers of this name, by id, so that
// a master that comes back can ask them before anybody can ask it.
type memberList struct {
	file *table.File

	saving sync.Mutex        // held while the file is written
	mu     sync.Mutex        // guards byID, for moments
	byID   map[int64]*member // at most mostMembers
}

type memberDocument struct {
	Members []member `json:"members"`
}

func loadMembers(fs vfs.FS, dir string) (*memberList, error) {
	l := &memberList{file: table.NewFile(fs, dir, "members.json"), byID: map[int64]*member{}}
	var doc memberDocument
	_, err := l.file.Load(func(b []byte) error {
		doc = memberDocument{}
		return fastjson.Unmarshal(b, &doc)
	})
	if err != nil {
		return nil, err
	}
	for _, m := range doc.Members {
		if len(l.byID) < mostMembers && m.ID >= 0 && m.Addr != "" {
			l.byID[m.ID] = &member{ID: m.ID, Addr: m.Addr, Ours: m.Ours}
		}
	}
	return l, nil
}

// all are the members by id.
func (l *memberList) all() []member {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]member, 0, len(l.byID))
	for _, m := range l.byID {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b member) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// seen notes a member that has just asked.
func (l *memberList) seen(m member, now time.Time, log *slog.Logger) {
	m.Seen = now.UnixMilli()
	if l.set(m) {
		l.save(log)
	}
}

// set notes a member and says whether that is news for the file. One that a
// nameserver told keeps whether it is ours as long as its address stays.
func (l *memberList) set(m member) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.byID[m.ID]
	if old == nil && len(l.byID) >= mostMembers {
		return false
	}
	if old != nil && old.Addr == m.Addr {
		m.Ours = m.Ours || old.Ours
		m.Seen, m.has = max(m.Seen, old.Seen), max(m.has, old.has)
	}
	l.byID[m.ID] = &m
	return old == nil || old.Addr != m.Addr || old.Ours != m.Ours
}

// save writes the list; a failure costs only a slower return, so it is told and no more.
func (l *memberList) save(log *slog.Logger) {
	l.saving.Lock()
	defer l.saving.Unlock()
	text, err := json.MarshalIndent(memberDocument{Members: l.all()}, "", "\t")
	if err == nil {
		err = l.file.Save(text)
	}
	if err != nil {
		log.Warn("the known replicas could not be saved; after a restart this broker asks only those that the nameservers know", "err", err)
	}
}

// discoverWait bounds one question to a nameserver.
const discoverWait = time.Second

// discover takes in the brokers of this name that the nameservers told the
// registration. A replica of Apache's is known by nothing else.
func (s *slaveSync) discover() {
	if s.o.Known != nil {
		s.keep(s.o.Known())
	}
}

// ask asks the nameservers themselves; the first that answers counts.
func (s *slaveSync) ask(ctx context.Context) {
	h := &header.GetBrokerMemberGroup{ClusterName: s.o.Cluster, BrokerName: s.o.Name}
	for _, ns := range s.o.Namesrvs {
		resp, err := s.callFor(ctx, discoverWait, ns, remoting.ReqGetBrokerMemberGroup, h, nil)
		if err != nil {
			continue
		}
		reply, err := body.DecodeBrokerMemberGroupReply(resp.Body)
		if err != nil || reply.BrokerMemberGroup == nil {
			continue
		}
		s.keep(reply.BrokerMemberGroup.BrokerAddrs)
		return
	}
}

func (s *slaveSync) keep(addrs map[int64]string) {
	own, news := s.o.Stand.Load().ID, false
	for id, addr := range addrs {
		if id != own && addr != s.o.Addr() && addr != "" {
			news = s.members.set(member{ID: id, Addr: addr}) || news
		}
	}
	if news {
		s.members.save(s.o.Log)
	}
}
