package broker

import (
	"mqctl/broker/remoting/body"
	"mqctl/broker/remoting/header"
	"mqctl/broker/topic"
	"mqctl/store/table"
)

// request makes header and body of 103.
func (r *registrar) request(w work) (*header.RegisterBroker, []byte) {
	all, version := r.o.Topics()
	var b body.RegisterBroker
	wrapper := &b.TopicConfigSerializeWrapper
	wrapper.DataVersion = r.version(version)
	wrapper.MappingDataVersion.Timestamp = r.o.BootMillis
	wrapper.TopicConfigTable = permitted(w.choose(all), r.o.Permission())
	text := b.Encode()
	return &header.RegisterBroker{
		BrokerName: r.o.Name, BrokerAddr: r.o.Addr, ClusterName: r.o.Cluster, BrokerID: r.o.Standing().ID, HAServerAddr: r.o.HAAddr,
		HeartbeatTimeoutMillis: heartbeatTimeout.Milliseconds(), HasHeartbeatTimeoutMillis: true,
		EnableActingMaster: r.o.Acting(), HasEnableActingMaster: true, BodyCRC32: body.CRC32(text),
	}, text
}

// version is that of the table, moved on by each change of brokerPermission: a
// nameserver looks at topics only when the version differs from the last. The epoch
// of the role comes first, so that what a former master says counts as old.
func (r *registrar) version(v table.DataVersion) body.DataVersion {
	r.mu.Lock()
	defer r.mu.Unlock()
	return body.DataVersion{Counter: v.Counter + r.permChanges, StateVersion: max(v.StateVersion, r.o.Standing().Epoch), Timestamp: max(v.Timestamp, r.permAt)}
}

// choose gives the topics to be sent. A deleted one makes the whole table due:
// absence from a part says nothing.
func (w work) choose(all map[string]*topic.Config) map[string]*topic.Config {
	if w.names == nil {
		return all
	}
	part := make(map[string]*topic.Config, len(w.names))
	for name := range w.names {
		t := all[name]
		if t == nil {
			return all
		}
		part[name] = t
	}
	return part
}

// permitted is the topics in their wire form, without what brokerPermission
// forbids. With both of its bits set nothing is taken away, or the template topic
// would lose its inherit bit.
func permitted(topics map[string]*topic.Config, permission int) map[string]body.TopicConfig {
	const both = topic.PermRead | topic.PermWrite
	mask := permission
	if permission&both == both {
		mask = -1
	}
	out := make(map[string]body.TopicConfig, len(topics))
	for name, t := range topics {
		c := body.TopicConfig(*t)
		c.Perm &= mask
		out[name] = c
	}
	return out
}
