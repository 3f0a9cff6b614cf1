package nameserver

import (
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/remoting"
	"mqctl/store/fastjson"
	"mqctl/store/table"
)

func itoa(n int) string { return strconv.Itoa(n) }

// fields reads a request's header and remembers the first thing wrong with it.
type fields struct {
	ext remoting.Fields
	bad string // remark, "" if all is well
}

func (f *fields) wrong(remark string) {
	if f.bad == "" {
		f.bad = remark
	}
}

// need is a field that must be there and not empty.
func (f *fields) need(key string) string {
	v, _ := f.ext.Get(key)
	if v == "" {
		f.wrong("the header field " + key + " is missing")
	}
	return v
}

// name is a needed field that becomes part of a route.
func (f *fields) name(key string) string {
	v := f.need(key)
	if v != "" && !validText(v, maxNameBytes) {
		f.wrong("the header field " + key + " is no name: " + strconv.QuoteToASCII(v))
	}
	return v
}

// addr is a needed host:port.
func (f *fields) addr(key string) string {
	v := f.need(key)
	i := strings.LastIndexByte(v, ':')
	if v == "" {
		return ""
	}
	port, err := strconv.Atoi(v[i+1:])
	if i <= 0 || err != nil || port <= 0 || port > 65535 ||
		!validText(strings.NewReplacer(":", "", "[", "", "]", "").Replace(v[:i]), maxNameBytes) {
		f.wrong("the header field " + key + " is no address: " + strconv.QuoteToASCII(v))
	}
	return v
}

// int is an optional number.
func (f *fields) int(key string) int64 {
	n, _, err := f.ext.Int(key)
	if err != nil {
		v, _ := f.ext.Get(key)
		f.wrong("the header field " + key + " is no number: " + strconv.QuoteToASCII(v))
	}
	return n
}

// bool is an optional truth value; has is false if it is not there.
func (f *fields) bool(key string) (v, has bool) {
	s, ok := f.ext.Get(key)
	return strings.EqualFold(s, "true"), ok && s != ""
}

// refuse answers a request whose header is wrong and reports whether it was.
func (f *fields) refuse(r *remoting.Request, h remoting.ExtEncoder) bool {
	if f.bad == "" {
		return false
	}
	r.Reply(remoting.CodeSystemError, f.bad, h, nil)
	return true
}

// register serves 103.
func (s *Server) register(c *remoting.Conn, r *remoting.Request) {
	f := fields{ext: r.Ext}
	g := Registration{Cluster: f.name("clusterName"), Name: f.name("brokerName"), Addr: f.addr("brokerAddr"),
		ID: f.int("brokerId"), Conn: c}
	g.HAAddr, _ = r.Ext.Get("haServerAddr")
	g.Timeout = millis(f.int("heartbeatTimeoutMillis"))
	g.Acting, g.HasActing = f.bool("enableActingMaster")
	compressed, _ := f.bool("compressed")
	crc := f.int("bodyCrc32")
	if g.ID < 0 {
		f.wrong("the header field brokerId is below 0: " + strconv.FormatInt(g.ID, 10))
	}
	if f.refuse(r, remoting.Map{}) {
		return
	}
	if crc != 0 && crc != int64(crc32.ChecksumIEEE(r.Body)&0x7FFFFFFF) {
		r.Reply(remoting.CodeSystemError, "crc32 not match", remoting.Map{}, nil)
		return
	}
	t, err := parseRegister(r.Body, r.Version, compressed)
	if err != nil {
		r.Reply(remoting.CodeSystemError, "the registration's body cannot be read: "+err.Error(), remoting.Map{}, nil)
		return
	}
	g.Version, g.Topics, g.Mappings, g.TopicCount = t.version, t.topics, t.mappings, t.count()
	c.Session = brokerConn{}
	w, err := s.routes.Register(g, s.o.Now())
	if err != nil {
		s.log.Warn("broker refused", "broker", g.Name, "id", g.ID, "addr", g.Addr, "err", err)
		r.Reply(remoting.CodeSystemError, err.Error(), remoting.Map{}, nil)
		return
	}
	s.registered(g, t, w)
	s.reply103(r, w)
}

// registered logs what is new and tells the name's brokers.
func (s *Server) registered(g Registration, t tables, w Welcome) {
	if w.New {
		s.log.Info("broker registered", "cluster", g.Cluster, "broker", g.Name, "id", g.ID, "addr", g.Addr, "topics", len(g.Topics))
	}
	if len(t.dropped) > 0 {
		s.log.Warn("topics left out of a registration: their names or queue numbers cannot be served",
			"broker", g.Name, "count", len(t.dropped), "first", t.dropped[0])
	}
	if w.change != nil {
		s.notify([]change{*w.change})
	}
}

func (s *Server) reply103(r *remoting.Request, w Welcome) {
	h := remoting.Map{}
	if w.MasterAddr != "" {
		h["masterAddr"] = w.MasterAddr
		h["haServerAddr"] = w.HAAddr
	}
	var body []byte
	if ns, ok := s.kv.namespace(orderNamespace); ok {
		var out writer
		out.kvTable(ns)
		body = out.b
	}
	r.Reply(remoting.CodeSuccess, "", h, body)
}

// millis is a duration; far too large ones end at a day.
func millis(n int64) time.Duration {
	return time.Duration(min(n, maxHeartbeat.Milliseconds())) * time.Millisecond
}

// unregister serves 104.
func (s *Server) unregister(r *remoting.Request) {
	f := fields{ext: r.Ext}
	cluster, name, addr := f.need("clusterName"), f.need("brokerName"), f.need("brokerAddr")
	if f.refuse(r, nil) {
		return
	}
	changes := s.routes.Unregister(cluster, name, addr)
	s.log.Info("broker unregistered", "cluster", cluster, "broker", name, "addr", addr)
	s.notify(changes)
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}

// dataVersion serves 322, which is a heartbeat too.
func (s *Server) dataVersion(r *remoting.Request) {
	f := fields{ext: r.Ext}
	cluster, addr := f.need("clusterName"), f.need("brokerAddr")
	var theirs table.DataVersion
	if f.bad == "" {
		if err := fastjson.Unmarshal(r.Body, &theirs); err != nil {
			f.wrong("the body is no data version: " + err.Error())
		}
	}
	if f.refuse(r, remoting.Map{}) {
		return
	}
	s.routes.Heartbeat(cluster, addr, s.o.Now())
	ours, known := s.routes.Version(cluster, addr)
	if !known {
		r.Reply(remoting.CodeSuccess, "", remoting.Map{"changed": "true"}, nil)
		return
	}
	body, err := fastjson.Marshal(ours)
	if err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), remoting.Map{}, nil)
		return
	}
	r.Reply(remoting.CodeSuccess, "", remoting.Map{"changed": strconv.FormatBool(ours != theirs)}, body)
}

// heartbeat serves 904.
func (s *Server) heartbeat(r *remoting.Request) {
	f := fields{ext: r.Ext}
	cluster, addr := f.need("clusterName"), f.need("brokerAddr")
	if f.refuse(r, nil) {
		return
	}
	s.routes.Heartbeat(cluster, addr, s.o.Now())
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}

// members serves 901.
func (s *Server) members(r *remoting.Request) {
	f := fields{ext: r.Ext}
	cluster, name := f.need("clusterName"), f.need("brokerName")
	if f.refuse(r, nil) {
		return
	}
	g := s.routes.view().groups[name]
	if g != nil && g.cluster != cluster {
		g = nil
	}
	var w writer
	w.members(cluster, name, g)
	r.Reply(remoting.CodeSuccess, "", nil, w.b)
}

// registerTopic serves 217: a route with queueDatas only.
func (s *Server) registerTopic(r *remoting.Request) {
	f := fields{ext: r.Ext}
	name := f.need("topic")
	if f.bad == "" && !validText(name, maxTopicBytes) {
		f.wrong("the header field topic is no name: " + strconv.QuoteToASCII(name))
	}
	var b struct {
		Queues []struct {
			Broker  string `json:"brokerName"`
			Perm    int    `json:"perm"`
			Read    int32  `json:"readQueueNums"`
			Write   int32  `json:"writeQueueNums"`
			SysFlag int32  `json:"topicSysFlag"`
		} `json:"queueDatas"`
	}
	if f.bad == "" {
		if err := fastjson.Unmarshal(r.Body, &b); err != nil {
			f.wrong("the body is no route: " + err.Error())
		}
	}
	var list []queues
	for _, q := range b.Queues {
		if q.Read < 0 || q.Write < 0 || q.Read > maxQueues || q.Write > maxQueues {
			f.wrong("queue numbers of broker " + strconv.QuoteToASCII(q.Broker) + " are out of range")
		}
		list = append(list, queues{broker: q.Broker, perm: q.Perm, read: q.Read, write: q.Write, topicSysFlag: q.SysFlag})
	}
	if f.refuse(r, nil) {
		return
	}
	if err := s.routes.PutTopic(name, list); err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}
