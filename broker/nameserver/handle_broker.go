package nameserver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
)

// empty is a header without fields: the answers of requests with a header class
// of their own have one even when they fail.
var empty = remoting.Map{}

// read decodes a request's header. If it is wrong the request is answered, with
// code 1 as Java's server does, and read is false.
func read(r *remoting.Request, h interface{ Decode(remoting.Fields) error }, failed remoting.ExtEncoder) bool {
	err := h.Decode(r.Ext)
	if err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), failed, nil)
	}
	return err == nil
}

// badName says what is wrong with a name that becomes part of a route.
func badName(field, v string) error {
	if validText(v, maxNameBytes) {
		return nil
	}
	return fmt.Errorf("field %s: %.80q is no name: it is empty, too long, or has blanks or JSON's own characters", field, v)
}

// badAddr says what is wrong with a broker's address.
func badAddr(field, v string) error {
	i := max(strings.LastIndexByte(v, ':'), 0)
	host := strings.NewReplacer(":", "", "[", "", "]", "").Replace(v[:i])
	port, err := strconv.Atoi(strings.TrimPrefix(v[i:], ":"))
	if err != nil || port <= 0 || port > 65535 || !validText(host, maxNameBytes) {
		return fmt.Errorf("field %s: %.80q is no address host:port", field, v)
	}
	return nil
}

// firstError is the first of several checks that failed.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// register serves 103.
func (s *Server) register(c *remoting.Conn, r *remoting.Request) {
	var h header.RegisterBroker
	if !read(r, &h, empty) {
		return
	}
	err := firstError(badName("clusterName", h.ClusterName), badName("brokerName", h.BrokerName), badAddr("brokerAddr", h.BrokerAddr))
	if err == nil && h.BrokerID < 0 {
		err = fmt.Errorf("field brokerId: %d is below 0", h.BrokerID)
	}
	if err == nil && h.BodyCRC32 != 0 && h.BodyCRC32 != body.CRC32(r.Body) {
		err = errCRC
	}
	var t tables
	if err == nil {
		t, err = parseRegister(r.Body, r.Version)
	}
	if err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), empty, nil)
		return
	}
	g := Registration{Cluster: h.ClusterName, Name: h.BrokerName, Addr: h.BrokerAddr, HAAddr: h.HAServerAddr, ID: h.BrokerID,
		Timeout: millis(h.HeartbeatTimeoutMillis), Acting: h.EnableActingMaster, HasActing: h.HasEnableActingMaster,
		Version: t.version, Topics: t.topics, TopicCount: t.count(), Mappings: t.mappings, Conn: c}
	c.Session = brokerConn{}
	w, err := s.routes.Register(g, s.o.Now())
	if err != nil {
		s.log.Warn("broker refused", "broker", g.Name, "broker_id", g.ID, "addr", g.Addr, "err", err)
		r.Reply(remoting.CodeSystemError, err.Error(), &header.RegisterBrokerReply{MasterAddr: w.MasterAddr, HAServerAddr: w.HAAddr}, nil)
		return
	}
	s.registered(&g, &t, w)
	if w.displacedConn != nil {
		// The old master registers again at once, and learns that it is none any more.
		s.log.Warn("a newer master took the place of another", "broker", g.Name, "addr", g.Addr, "displaced", w.displaced, "state_version", g.Version.StateVersion)
		w.displacedConn.Close()
	}
	reply := header.RegisterBrokerReply{MasterAddr: w.MasterAddr, HAServerAddr: w.HAAddr}
	r.Reply(remoting.CodeSuccess, "", &reply, s.orderTable())
}

// errCRC is the remark for a body that was damaged on its way.
var errCRC = errors.New("crc32 not match")

// orderTable tells brokers which topics are ordered; no body if none ever was.
func (s *Server) orderTable() []byte {
	ns, ok := s.kv.namespace(orderNamespace)
	if !ok {
		return nil
	}
	return body.KVTable{Table: ns}.Encode()
}

// registered logs what is new and tells the name's brokers.
func (s *Server) registered(g *Registration, t *tables, w Welcome) {
	if w.New {
		s.log.Info("broker registered", "cluster", g.Cluster, "broker", g.Name, "broker_id", g.ID, "addr", g.Addr, "topics", len(g.Topics))
	}
	if len(t.dropped) > 0 {
		s.log.Warn("topics left out of a registration: their names or queue numbers cannot be served",
			"broker", g.Name, "count", len(t.dropped), "first", t.dropped[0])
	}
	if w.change != nil {
		s.notify([]change{*w.change})
	}
}

// millis is a duration; far too large ones end at a day.
func millis(n int64) time.Duration {
	return time.Duration(min(n, maxHeartbeat.Milliseconds())) * time.Millisecond
}

// unregister serves 104.
func (s *Server) unregister(r *remoting.Request) {
	var h header.UnregisterBroker
	if !read(r, &h, nil) {
		return
	}
	changes := s.routes.Unregister(h.ClusterName, h.BrokerName, h.BrokerAddr)
	s.log.Info("broker unregistered", "cluster", h.ClusterName, "broker", h.BrokerName, "broker_id", h.BrokerID, "addr", h.BrokerAddr)
	s.notify(changes)
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}

// dataVersion serves 322, which is a heartbeat too.
func (s *Server) dataVersion(r *remoting.Request) {
	var h header.QueryDataVersion
	if !read(r, &h, empty) {
		return
	}
	theirs, err := body.DecodeDataVersion(r.Body)
	if err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), empty, nil)
		return
	}
	s.routes.Heartbeat(h.ClusterName, h.BrokerAddr, s.o.Now())
	ours, known := s.routes.Version(h.ClusterName, h.BrokerAddr)
	if !known {
		r.Reply(remoting.CodeSuccess, "", &header.QueryDataVersionReply{Changed: true}, nil)
		return
	}
	r.Reply(remoting.CodeSuccess, "", &header.QueryDataVersionReply{Changed: ours != *theirs}, ours.Encode())
}

// heartbeat serves 904.
func (s *Server) heartbeat(r *remoting.Request) {
	var h header.BrokerHeartbeat
	if !read(r, &h, nil) {
		return
	}
	s.routes.Heartbeat(h.ClusterName, h.BrokerAddr, s.o.Now())
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}

// members serves 901.
func (s *Server) members(r *remoting.Request) {
	var h header.GetBrokerMemberGroup
	if !read(r, &h, nil) {
		return
	}
	g := s.routes.view().groups[h.BrokerName]
	if g != nil && g.cluster != h.ClusterName {
		g = nil
	}
	var w writer
	w.members(h.ClusterName, h.BrokerName, g)
	r.Reply(remoting.CodeSuccess, "", nil, w.b)
}

// registerTopic serves 217: a route with queueDatas only.
func (s *Server) registerTopic(r *remoting.Request) {
	var h header.RegisterTopic
	if !read(r, &h, nil) {
		return
	}
	list, err := topicQueues(h.Topic, r.Body)
	if err == nil {
		err = s.routes.PutTopic(h.Topic, list)
	}
	if err != nil {
		r.Reply(remoting.CodeSystemError, err.Error(), nil, nil)
		return
	}
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}

func topicQueues(name string, b []byte) ([]queues, error) {
	if err := badName("topic", name); err != nil {
		return nil, err
	}
	route, err := body.DecodeTopicRouteData(b)
	if err != nil {
		return nil, err
	}
	list := make([]queues, 0, len(route.QueueDatas))
	for _, q := range route.QueueDatas {
		if !validQueues(q.ReadQueueNums) || !validQueues(q.WriteQueueNums) {
			return nil, fmt.Errorf("queue numbers of broker %.80q are not within 0 and %d", q.BrokerName, maxQueues)
		}
		list = append(list, queues{broker: q.BrokerName, perm: q.Perm, read: q.ReadQueueNums, write: q.WriteQueueNums, topicSysFlag: q.TopicSysFlag})
	}
	return list, nil
}
