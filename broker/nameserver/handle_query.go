package nameserver

import (
	"maps"
	"slices"
	"strings"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
)

// standardJSONVersion is the first version (V4_9_4) whose clients get standard JSON.
const standardJSONVersion = 401

// route serves 105.
func (s *Server) route(r *remoting.Request) {
	name, ok := r.Ext.Get("topic")
	if !ok {
		name = "null"
	}
	v := s.routes.view()
	e, ok := v.topics[name]
	groups := s.routeGroups(v, name, e)
	if !ok || len(groups) == 0 {
		r.Reply(remoting.CodeTopicNotExist, noRoute(name), nil, nil)
		return
	}
	conf := ""
	if s.o.OrderMessageEnable {
		conf = s.kv.orderConf(name)
	}
	standard, _ := r.Ext.Get("acceptStandardJsonOnly")
	w := writer{standard: r.Version >= standardJSONVersion || strings.EqualFold(standard, "true")}
	w.route(groups, e, conf)
	r.Reply(remoting.CodeSuccess, "", nil, w.b)
}

func noRoute(name string) string {
	return "No topic route info in name server for the topic: " + name +
		"\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
}

// routeGroups are the broker names that hold a topic, as clients shall see them.
func (s *Server) routeGroups(v *view, topicName string, e entry) []*group {
	out := make([]*group, 0, len(e.queues))
	acting := s.o.SupportActingMaster && !strings.HasPrefix(topicName, memberTopicPrefix)
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
	v := s.routes.view()
	var w writer
	switch r.Code {
	case remoting.ReqGetAllTopicListFromNameserver:
		w.topicList("", slices.Sorted(maps.Keys(v.topics)))
	case remoting.ReqGetTopicsByCluster:
		f := fields{ext: r.Ext}
		cluster := f.need("cluster")
		if f.refuse(r, nil) {
			return
		}
		w.topicList("", v.topicsWhere(func(e entry) bool { return v.inCluster(e, cluster) }))
	case remoting.ReqGetSystemTopicListFromNS:
		w.topicList(v.systemNames())
	case remoting.ReqGetUnitTopicList:
		w.topicList("", v.topicsWhere(func(e entry) bool { return e.queues[0].topicSysFlag&flagUnit != 0 }))
	case remoting.ReqGetHasUnitSubTopicList:
		w.topicList("", v.topicsWhere(func(e entry) bool { return e.queues[0].topicSysFlag&flagUnitSub != 0 }))
	case remoting.ReqGetHasUnitSubUnunitTopicList:
		w.topicList("", v.topicsWhere(func(e entry) bool {
			return e.queues[0].topicSysFlag&(flagUnit|flagUnitSub) == flagUnitSub
		}))
	}
	r.Reply(remoting.CodeSuccess, "", nil, w.b)
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
func (v *view) systemNames() (addr string, names []string) {
	set := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(v.groups)) {
		g := v.groups[name]
		set[name] = true
		set[g.cluster] = true
		if addr == "" && len(g.replicas) > 0 {
			addr = g.replicas[0].addr
		}
	}
	return addr, slices.Sorted(maps.Keys(set))
}

// deleteTopic serves 216.
func (s *Server) deleteTopic(r *remoting.Request) {
	f := fields{ext: r.Ext}
	name := f.need("topic")
	if f.refuse(r, nil) {
		return
	}
	cluster, _ := r.Ext.Get("clusterName")
	s.routes.DeleteTopic(name, cluster)
	s.log.Info("topic deleted", "topic", name, "cluster", cluster, "peer", r.Conn.RemoteAddr())
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}

// writePerm serves 205 and 327.
func (s *Server) writePerm(r *remoting.Request, writable bool, count string) {
	f := fields{ext: r.Ext}
	name := f.need("brokerName")
	if f.refuse(r, remoting.Map{}) {
		return
	}
	n := s.routes.SetWritable(name, writable)
	s.log.Info("write permission of a broker changed in the routes", "broker", name, "writable", writable, "topics", n, "peer", r.Conn.RemoteAddr())
	r.Reply(remoting.CodeSuccess, "", remoting.Map{count: itoa(n)}, nil)
}

// changeKV serves 100 and 102; the answer comes from the table's writer.
func (s *Server) changeKV(r *remoting.Request) {
	f := fields{ext: r.Ext}
	c := kvChange{call: r.Call, namespace: f.need("namespace"), key: f.need("key"), remove: r.Code == remoting.ReqDeleteKVConfig}
	if !c.remove {
		if _, there := r.Ext.Get("value"); !there {
			f.wrong("the header field value is missing")
		}
		c.value, _ = r.Ext.Get("value")
	}
	if len(c.namespace) > maxKeyBytes || len(c.key) > maxKeyBytes || len(c.value) > maxValueBytes {
		f.wrong("the namespace or key is longer than " + itoa(maxKeyBytes) + " bytes, or the value than " + itoa(maxValueBytes))
	}
	if f.refuse(r, nil) {
		return
	}
	if !s.kv.change(c) {
		r.Reply(remoting.CodeSystemBusy, "too many changes of the key table wait, try again", nil, nil)
	}
}

// value serves 101.
func (s *Server) value(r *remoting.Request) {
	f := fields{ext: r.Ext}
	ns, key := f.need("namespace"), f.need("key")
	if f.refuse(r, remoting.Map{}) {
		return
	}
	v, ok := s.kv.value(ns, key)
	if !ok {
		r.Reply(remoting.CodeQueryNotFound, "No config item, Namespace: "+ns+" Key: "+key, remoting.Map{}, nil)
		return
	}
	r.Reply(remoting.CodeSuccess, "", remoting.Map{"value": v}, nil)
}

// namespace serves 219.
func (s *Server) namespace(r *remoting.Request) {
	f := fields{ext: r.Ext}
	ns := f.need("namespace")
	if f.refuse(r, nil) {
		return
	}
	t, ok := s.kv.namespace(ns)
	if !ok {
		r.Reply(remoting.CodeQueryNotFound, "No config item, Namespace: "+ns, nil, nil)
		return
	}
	var w writer
	w.kvTable(t)
	r.Reply(remoting.CodeSuccess, "", nil, w.b)
}
