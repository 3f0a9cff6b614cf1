package broker

import (
	"fmt"
	"hash/crc32"
	"maps"
	"strconv"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/store/fastjson"
	"mqctl/store/table"
)

// registration is the body of 103 (RegisterBrokerBody).
type registration struct {
	FilterServers []string `json:"filterServerList"`
	Topics        struct {
		Version        table.DataVersion        `json:"dataVersion"`
		MappingVersion table.DataVersion        `json:"mappingDataVersion"`
		Table          map[string]*topic.Config `json:"topicConfigTable"`
		Details        struct{}                 `json:"topicQueueMappingDetailMap"`
		Mappings       struct{}                 `json:"topicQueueMappingInfoMap"`
	} `json:"topicConfigSerializeWrapper"`
}

// request makes header and body of 103.
func (r *registrar) request(w work) (remoting.Map, []byte, error) {
	all, version := r.o.Topics()
	r.mu.Lock()
	version.Counter += r.permChanges
	version.Timestamp = max(version.Timestamp, r.permAt)
	r.mu.Unlock()
	b := registration{FilterServers: []string{}}
	b.Topics.Version = version
	b.Topics.MappingVersion.Timestamp = r.o.BootMillis
	b.Topics.Table = permitted(w.choose(all), r.o.Permission())
	text, err := fastjson.Marshal(&b)
	if err != nil {
		return nil, nil, fmt.Errorf("registration: %w", err)
	}
	h := r.identity()
	maps.Copy(h, remoting.Map{
		"haServerAddr": r.o.HAAddr, "enableActingMaster": "false", "compressed": "false",
		"bodyCrc32": strconv.FormatUint(uint64(crc32.ChecksumIEEE(text)&0x7FFFFFFF), 10),
	})
	return h, text, nil
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

// permitted takes what brokerPermission forbids out of the topics' permissions.
// With both bits set nothing is touched, or the template topic would lose its
// inherit bit.
func permitted(topics map[string]*topic.Config, permission int) map[string]*topic.Config {
	const both = topic.PermRead | topic.PermWrite
	if permission&both == both {
		return topics
	}
	out := make(map[string]*topic.Config, len(topics))
	for name, t := range topics {
		c := *t
		c.Perm &= permission
		out[name] = &c
	}
	return out
}
