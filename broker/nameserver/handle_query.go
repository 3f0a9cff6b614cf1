package nameserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/broker/topic"
	"mqctl/subgroup"
)

// standardJSONVersion is the first version (V4_9_4) whose clients get standard JSON.
const standardJSONVersion = 401

// route serves 105.
func (s *Server) route(r *remoting.Request) {
	var h header.GetRouteInfo
	if err := h.Decode(r.Ext); err != nil {
		h.Topic = "null" // what Java's remark says
	}
	v := s.routes.view()
	e, ok := v.topics[h.Topic]
	if !ok {
		e, ok = s.comingRetryTopic(v, h.Topic)
	}
	groups := s.routeGroups(v, h.Topic, e)
	if !ok || len(groups) == 0 {
		r.Reply(remoting.CodeTopicNotExist, noRoute(h.Topic), nil, nil)
		return
	}
	conf := ""
	if s.switches.orderMessages.Load() {
		conf = s.kv.orderConf(h.Topic)
	}
	w := writer{standard: r.Version >= standardJSONVersion || h.AcceptStandardJSONOnly}
	w.route(groups, e, conf)
	r.Reply(remoting.CodeSuccess, "", nil, w.b)
}

// comingRetryTopic is the route of a retry topic that the broker of this process
// will make at its group's first heartbeat. Clients ask for the route before
// that heartbeat and then not again for 30 s, which is how long the first retry
// of a new group would wait.
func (s *Server) comingRetryTopic(v *view, name string) (entry, bool) {
	g := v.groups[s.o.RetryRouteOf]
	group, retry := strings.CutPrefix(name, subgroup.RetryPrefix)
	if g == nil || !retry || !g.hasMaster() || subgroup.CheckName(group) != nil {
		return entry{}, false
	}
	return entry{queues: []queues{{broker: g.name, read: 1, write: 1, perm: topic.PermRead | topic.PermWrite}}}, true
}

func noRoute(name string) string {
	return "No topic route info in name server for the topic: " + name +
		"\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
}

// routeGroups are the broker names that hold a topic, as clients shall see them.
func (s *Server) routeGroups(v *view, topicName string, e entry) []*group {
	out := make([]*group, 0, len(e.queues))
	acting := s.switches.actingMaster.Load() && !strings.HasPrefix(topicName, memberTopicPrefix)
	for i := range e.queues {
		g := v.groups[e.queues[i].broker]
		if g == nil {
			continue
		}
		if acting && g.acting && !g.hasMaster() && len(g.replicas) > 0 && e.queues[i].perm&topic.PermWrite == 0 {
			g = g.actingMaster()
		}
		out = append(out, g)
	}
	return out
}

// actingMaster shows the lowest slave as the master, so that its group can be
// read, locked and its offsets kept while the master is away.
func (g *group) actingMaster() *group {
	shown := *g
	shown.replicas = slices.Clone(g.replicas)
	shown.replicas[0].id = masterID
	return &shown
}

// cluster serves 106.
func (s *Server) cluster(r *remoting.Request) {
	var w writer
	w.cluster(s.routes.view())
	r.Reply(remoting.CodeSuccess, "", nil, w.b)
}

// Bits of a topic's sysFlag (TopicSysFlag).
const (
	flagUnit    = 1
	flagUnitSub = 2
)

// lists serves the requests for topic names: 206, 224, 304, 311, 312, 313.
func (s *Server) lists(r *remoting.Request) {
	allowed := &s.switches.topicLists
	if r.Code == remoting.ReqGetAllTopicListFromNameserver {
		allowed = &s.switches.allTopics
	}
	if !allowed.Load() {
		r.Reply(remoting.CodeSystemError, "disable", nil, nil) // RocketMQ's word
		return
	}
	v := s.routes.view()
	var l body.TopicList
	switch r.Code {
	case remoting.ReqGetAllTopicListFromNameserver:
		l.TopicList = slices.Sorted(maps.Keys(v.topics))
	case remoting.ReqGetTopicsByCluster:
		var h header.GetTopicsByCluster
		if !read(r, &h, nil) {
			return
		}
		l.TopicList = v.topicsWhere(func(e entry) bool { return v.inCluster(e, h.Cluster) })
	case remoting.ReqGetSystemTopicListFromNS:
		l = v.systemNames()
	case remoting.ReqGetUnitTopicList:
		l.TopicList = v.topicsWhere(func(e entry) bool { return e.queues[0].topicSysFlag&flagUnit != 0 })
	case remoting.ReqGetHasUnitSubTopicList:
		l.TopicList = v.topicsWhere(func(e entry) bool { return e.queues[0].topicSysFlag&flagUnitSub != 0 })
	case remoting.ReqGetHasUnitSubUnunitTopicList:
		l.TopicList = v.topicsWhere(func(e entry) bool {
			return e.queues[0].topicSysFlag&(flagUnit|flagUnitSub) == flagUnitSub
		})
	}
	r.Reply(remoting.CodeSuccess, "", nil, l.Encode())
}

// topicsWhere are the names of the topics that pass, sorted; every topic of a view has a queue.
func (v *view) topicsWhere(pass func(entry) bool) []string {
	var out []string
	for name, e := range v.topics {
		if pass(e) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (v *view) inCluster(e entry, cluster string) bool {
	for i := range e.queues {
		if g := v.groups[e.queues[i].broker]; g != nil && g.cluster == cluster {
			return true
		}
	}
	return false
}

// systemNames are the topics named after clusters and brokers, and one broker to
// ask for its own system topics.
func (v *view) systemNames() (l body.TopicList) {
	set := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(v.groups)) {
		g := v.groups[name]
		set[name], set[g.cluster] = true, true
		if l.BrokerAddr == "" && len(g.replicas) > 0 {
			l.BrokerAddr = g.replicas[0].addr
		}
	}
	l.TopicList = slices.Sorted(maps.Keys(set))
	return l
}

// deleteTopic serves 216.
func (s *Server) deleteTopic(r *remoting.Request) {
	var h header.DeleteTopicFromNamesrv
	if !read(r, &h, nil) {
		return
	}
	s.routes.DeleteTopic(h.Topic, h.ClusterName)
	s.log.Info("topic deleted from the routes", "topic", h.Topic, "cluster", h.ClusterName, "peer", r.Conn.RemoteAddr())
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}

// wipeWritePerm serves 205.
func (s *Server) wipeWritePerm(r *remoting.Request) {
	var h header.WipeWritePermOfBroker
	if read(r, &h, empty) {
		n := s.setWritable(r, h.BrokerName, false)
		r.Reply(remoting.CodeSuccess, "", &header.WipeWritePermOfBrokerReply{WipeTopicCount: n}, nil)
	}
}

// addWritePerm serves 327.
func (s *Server) addWritePerm(r *remoting.Request) {
	var h header.AddWritePermOfBroker
	if read(r, &h, empty) {
		n := s.setWritable(r, h.BrokerName, true)
		r.Reply(remoting.CodeSuccess, "", &header.AddWritePermOfBrokerReply{AddTopicCount: n}, nil)
	}
}

func (s *Server) setWritable(r *remoting.Request, broker string, writable bool) int32 {
	n := s.routes.SetWritable(broker, writable)
	s.log.Info("write permission of a broker changed in the routes", "broker", broker, "writable", writable, "topics", n, "peer", r.Conn.RemoteAddr())
	return int32(n)
}

// putKV serves 100; the answer comes from the table's writer.
func (s *Server) putKV(r *remoting.Request) {
	var h header.PutKVConfig
	if read(r, &h, nil) {
		s.changeKV(kvChange{call: r.Call, namespace: h.Namespace, key: h.Key, value: h.Value})
	}
}

// deleteKV serves 102.
func (s *Server) deleteKV(r *remoting.Request) {
	var h header.DeleteKVConfig
	if read(r, &h, nil) {
		s.changeKV(kvChange{call: r.Call, namespace: h.Namespace, key: h.Key, remove: true})
	}
}

func (s *Server) changeKV(c kvChange) {
	if err := c.check(); err != nil {
		c.call.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	if !s.kv.change(c) {
		c.call.Reply(remoting.CodeSystemBusy, "too many changes of the key table wait, try again", nil, nil)
	}
}

// check refuses what would fill the table.
func (c *kvChange) check() error {
	switch {
	case c.namespace == "" || c.key == "":
		return fmt.Errorf("namespace %.80q or key %.80q is empty", c.namespace, c.key)
	case len(c.namespace) > maxKeyBytes || len(c.key) > maxKeyBytes:
		return fmt.Errorf("namespace %.80q or key %.80q is longer than %d bytes", c.namespace, c.key, maxKeyBytes)
	case len(c.value) > maxValueBytes:
		return fmt.Errorf("the value of key %.80q is longer than %d bytes", c.key, maxValueBytes)
	}
	return nil
}

// value serves 101.
func (s *Server) value(r *remoting.Request) {
	var h header.GetKVConfig
	if !read(r, &h, empty) {
		return
	}
	v, ok := s.kv.value(h.Namespace, h.Key)
	if !ok {
		r.Reply(remoting.CodeQueryNotFound, "No config item, Namespace: "+h.Namespace+" Key: "+h.Key, empty, nil)
		return
	}
	r.Reply(remoting.CodeSuccess, "", &header.GetKVConfigReply{Value: v}, nil)
}

// namespace serves 219.
func (s *Server) namespace(r *remoting.Request) {
	var h header.GetKVListByNamespace
	if !read(r, &h, nil) {
		return
	}
	t, ok := s.kv.namespace(h.Namespace)
	if !ok {
		r.Reply(remoting.CodeQueryNotFound, "No config item, Namespace: "+h.Namespace, nil, nil)
		return
	}
	r.Reply(remoting.CodeSuccess, "", nil, body.KVTable{Table: t}.Encode())
}
