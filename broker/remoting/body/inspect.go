package body

// Bodies of the private code 30001 (MQCTL_INSPECT), by the request's "what".
// Numbers of bytes and positions are of the commit log; times are in ms.

// InspectOffsets answers what=offsets.
type InspectOffsets struct {
	Broker       string `json:"broker"`
	BrokerID     int64  `json:"brokerId"`
	Role         string `json:"role"`
	Min          int64  `json:"minOffset"`
	Max          int64  `json:"maxOffset"`
	Flushed      int64  `json:"flushedOffset"`
	Confirmed    int64  `json:"confirmedOffset"`
	Dispatched   int64  `json:"dispatchedOffset"`
	PullMillis   int64  `json:"pullWindowMillis"`
	PullToMaster int64  `json:"pullToMaster"`
	PullToSlave  int64  `json:"pullToSlave"`
}

// InspectConfig answers what=config.
type InspectConfig struct {
	File    string            `json:"file"`    // where changes are saved
	Origins map[string]string `json:"origins"` // key -> where its value came from; not of defaults
}

// InspectHA answers what=ha.
type InspectHA struct {
	Broker     string            `json:"broker"`
	BrokerID   int64             `json:"brokerId"`
	Role       string            `json:"role"`
	Epoch      int64             `json:"epoch"`
	Fenced     bool              `json:"fenced"`
	MasterAddr string            `json:"masterAddr,omitempty"`
	Max        int64             `json:"maxOffset"`
	InSync     int               `json:"inSyncSlaves"`
	Slaves     []InspectHASlave  `json:"slaves,omitempty"`
	Following  *InspectFollowing `json:"following,omitempty"` // of a slave
	BadPeers   int64             `json:"badConnections"`
	// Asides are files and folders with parts of the log that it had and its master did not, the newest first, until they are removed.
	Asides []string `json:"asides,omitempty"`
}

// InspectHASlave is one slave of a master.
type InspectHASlave struct {
	BrokerID    int64  `json:"brokerId"` // -1: not known
	Addr        string `json:"addr"`     // remoting address, or the HA connection's
	Acked       int64  `json:"ackedOffset"`
	Sent        int64  `json:"sentFromOffset"`
	GapBytes    int64  `json:"gapBytes"`
	GapMillis   int64  `json:"gapMillis"`
	InSync      bool   `json:"inSync"`
	BytesPerSec int64  `json:"bytesPerSecond"`
	State       string `json:"state"`
	Why         string `json:"why,omitempty"`
	CopyFrom    int64  `json:"copyFromOffset,omitempty"`
	CopyTo      int64  `json:"copyToOffset,omitempty"`
	LostAt      int64  `json:"lostAt,omitempty"` // ms; not 0: it was connected until then, and the offsets are its last ones
}

// InspectFollowing is a slave's own view.
type InspectFollowing struct {
	State       string `json:"state"`
	Why         string `json:"why,omitempty"`
	HAAddr      string `json:"haAddr,omitempty"`
	Connected   bool   `json:"connected"`
	MasterEnd   int64  `json:"masterMaxOffset"`
	MasterEndAt int64  `json:"masterMaxOffsetAt"` // ms
	LastRead    int64  `json:"lastReadAt"`
	LastWrite   int64  `json:"lastWriteAt"`
	BytesPerSec int64  `json:"bytesPerSecond"`
	CopyFrom    int64  `json:"copyFromOffset,omitempty"`
	CopyTo      int64  `json:"copyToOffset,omitempty"`
	Aside       string `json:"aside,omitempty"`
	MetaAgeMs   int64  `json:"metadataAgeMillis"`       // since the last metadata exchange; -1: none yet
	MetaError   string `json:"metadataError,omitempty"` // why the newest exchange failed
}

// InspectPull answers what=pull. The request may narrow it by group, topic and
// windowMillis.
type InspectPull struct {
	Broker       string            `json:"broker"`
	BrokerID     int64             `json:"brokerId"`
	Role         string            `json:"role"`
	MasterAlive  bool              `json:"masterAlive"` // of a slave: it hears its master
	WindowMillis int64             `json:"windowMillis"`
	Covered      int64             `json:"coveredMillis"` // of the window, since the broker started
	SlaveRead    bool              `json:"slaveReadEnable"`
	LimitBytes   int64             `json:"limitBytes"`
	MemoryBytes  int64             `json:"memoryBytes"`
	MemoryRatio  int               `json:"memoryRatio"` // effective, percent
	Configured   int               `json:"configuredMemoryRatio"`
	Max          int64             `json:"maxOffset"`
	Rows         []InspectPullRow  `json:"rows"`
	Replicas     []InspectPullPeer `json:"replicas"`
}

// InspectPullRow is one group on one topic.
type InspectPullRow struct {
	Group       string           `json:"group"`
	Topic       string           `json:"topic"`
	Pulls       int64            `json:"pulls"` // in the window
	Suggested   map[int64]int64  `json:"suggested"`
	Slow        int64            `json:"slowPulls"`
	BehindBytes int64            `json:"behindBytes"` // of the newest pull
	LastPhys    int64            `json:"lastPhysOffset"`
	Reason      string           `json:"reason"` // WITHIN_MEMORY, BEHIND_LIMIT, SLAVE_READ_DISABLED, ...
	Followed    *bool            `json:"followed"`
	Reasons     map[string]int64 `json:"reasons"`
	GroupBroker int64            `json:"groupBrokerId"`
	GroupSlow   int64            `json:"whichBrokerWhenConsumeSlowly"`
	LastPullAt  int64            `json:"lastPullAt"`
}

// InspectPullPeer is what the broker knows of one that it may suggest.
type InspectPullPeer struct {
	BrokerID int64  `json:"brokerId"`
	Addr     string `json:"addr"`
	Alive    bool   `json:"alive"`
	Readable bool   `json:"readable"`
	Acked    int64  `json:"ackedOffset"`
	Why      string `json:"why,omitempty"`
}

// InspectEvents answers 30001 with what=events: what changed lately at a broker.
type InspectEvents struct {
	Next   int64   `json:"next"` // the newest sequence number: ask on from there
	Events []Event `json:"events"`
}

// Event is one change. Sequence numbers begin at 1 with each start of the broker.
type Event struct {
	Seq    int64  `json:"seq"`
	At     int64  `json:"at"`     // ms
	Broker string `json:"broker"` // NAME/ID at that time
	Kind   string `json:"kind"`   // ROLE SLAVE MASTER TOPIC GROUP CONFIG
	Target string `json:"target"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// InspectClients answers 30001 with what=clients: who is connected, of all groups.
type InspectClients struct {
	Clients []InspectClient `json:"clients"`
	More    int             `json:"more"` // that are not listed
}

// InspectClient is one client in one group; one that is in several is there as often.
type InspectClient struct {
	ClientID string   `json:"clientId"`
	Addr     string   `json:"addr"` // ip:port
	Language string   `json:"language"`
	Version  int      `json:"version"` // RocketMQ's number
	Group    string   `json:"group"`
	Role     string   `json:"role"` // CONSUMER or PRODUCER
	Topics   []string `json:"topics,omitempty"`
}

// InspectLatency answers 30001 with what=latency: how long operations took since the
// broker started.
type InspectLatency struct {
	Operations []Latency `json:"operations"`
}

// Latency is the distribution of one operation's time. Percentiles are upper bounds,
// at most a quarter above the true value.
type Latency struct {
	Op         string  `json:"op"` // put: the write of a burst of messages to the log; pull: the read for one pull
	Count      int64   `json:"count"`
	P50Millis  float64 `json:"p50Millis"`
	P90Millis  float64 `json:"p90Millis"`
	P99Millis  float64 `json:"p99Millis"`
	P999Millis float64 `json:"p999Millis"`
	MaxMillis  float64 `json:"maxMillis"`
}
