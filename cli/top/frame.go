package top

import "time"

// Frame is one look at a cluster. What cannot be known is nil.
type Frame struct {
	At           string   `json:"at"`
	Context      *string  `json:"context"`
	Cluster      *string  `json:"cluster"`
	Complete     bool     `json:"complete"` // every broker has answered this time
	InPerSecond  *float64 `json:"inPerSecond"`
	InBytes      *float64 `json:"inBytesPerSecond"`
	OutPerSecond *float64 `json:"outPerSecond"`
	PutP99       *float64 `json:"putP99Millis"` // of the slowest broker
	Lag          *int64   `json:"lag"`
	WorstGap     *int64   `json:"worstGapBytes"`
	Down         int64    `json:"brokersDown" min:"0"`
	Brokers      []Broker `json:"brokers"`
	HA           []Link   `json:"ha"`
	Groups       []Group  `json:"groups"`
	Topics       []Topic  `json:"topics"`
	Pulls        []Pull   `json:"pulls"`
	Clients      []Client `json:"clients"`
	Events       []Event  `json:"events"` // since the frame before; in the first one what brokers remember
	Problem      *string  `json:"problem"`

	at   time.Time
	runs map[string]map[string]string // runtime tables, for the detail
}

// Broker is one replica.
type Broker struct {
	Broker       string   `json:"broker"`
	BrokerID     int64    `json:"brokerId" min:"0"`
	Addr         string   `json:"addr"`
	Role         string   `json:"role" enum:"ASYNC_MASTER|SYNC_MASTER|SLAVE"`
	InPerSecond  *float64 `json:"inPerSecond"`
	OutPerSecond *float64 `json:"outPerSecond"`
	P99          *float64 `json:"putP99Millis"`
	SendQueue    *int64   `json:"sendQueueSize"`
	DiskPercent  *float64 `json:"diskUsedPercent"`
	GapBytes     *int64   `json:"gapBytes"`
	PullsPercent *float64 `json:"pullsPercent"` // of the pulls of its broker name
	MaxOffset    *int64   `json:"maxOffset"`
	State        string   `json:"state"`
	AgeMillis    *int64   `json:"ageMillis"` // of the last answer; nil: there was none
}

// Name is what --broker takes.
func (b *Broker) Name() string { return nameID(b.Broker, b.BrokerID) }

// Link is one slave of a master.
type Link struct {
	Master         string `json:"master"`
	Slave          string `json:"slave"`
	Addr           string `json:"addr"`
	GapBytes       *int64 `json:"gapBytes"`
	GapMillis      *int64 `json:"gapMillis"`
	BytesPerSecond *int64 `json:"bytesPerSecond"`
	InSync         *bool  `json:"inSync"`
	State          string `json:"state"`
}

// Group is the backlog of a group over all brokers.
type Group struct {
	Group        string   `json:"group"`
	Lag          int64    `json:"lag"`
	LagPerSecond *float64 `json:"lagPerSecond"` // below 0: it catches up
	CatchUp      *int64   `json:"catchUpMillis"`
	OutPerSecond *float64 `json:"outPerSecond"`
	Topics       int64    `json:"topics" min:"0"`
	Queues       int64    `json:"queues" min:"0"`

	queues []queue
}

// queue is a group's place in one queue.
type queue struct {
	topic, broker string
	id            int32
	end, at       int64
}

// Topic is a topic that somebody consumes.
type Topic struct {
	Topic       string   `json:"topic"`
	InPerSecond *float64 `json:"inPerSecond"`
	Queues      int64    `json:"queues" min:"0"`
	Groups      int64    `json:"groups" min:"0"`
	MaxLag      int64    `json:"maxLag"`

	groups []string
}

// Pull is where one broker sends a group to read.
type Pull struct {
	Broker      string  `json:"broker"`
	Group       string  `json:"group"`
	Topic       string  `json:"topic"`
	Pulls       int64   `json:"pulls" min:"0"`
	ToMaster    int64   `json:"toMaster" min:"0"`
	ToSlave     int64   `json:"toSlave" min:"0"`
	SlowPercent float64 `json:"slowPercent"`
	Followed    *bool   `json:"followed"`
	BehindBytes int64   `json:"behindBytes"`
	Reason      string  `json:"reason"`

	slow, byName int64
}

// Client is one client in one group.
type Client struct {
	ClientID string `json:"clientId"`
	Addr     string `json:"addr"`
	Language string `json:"language"`
	Version  string `json:"version"`
	Group    string `json:"group"`
	Role     string `json:"role" enum:"CONSUMER|PRODUCER"`
	Brokers  int64  `json:"brokers" min:"0"` // that it is connected to

	topics []string
}

// Event is a change that a broker remembers, or that was seen between two frames.
type Event struct {
	At     string  `json:"at"`
	Kind   string  `json:"kind" enum:"ROLE|BROKER|IN_SYNC|GROUP|TOPIC|SLAVE|MASTER|CONFIG"`
	Broker *string `json:"broker"` // that remembers it; nil: seen between two frames
	Target string  `json:"target"`
	Before *string `json:"before"`
	After  *string `json:"after"`
}

// ring keeps the last samples of a series.
type ring struct {
	v    [samples]float64
	next int
	n    int
}

// samples is how many values a series keeps: five minutes of seconds.
const samples = 300

func (r *ring) add(v float64) {
	r.v[r.next] = v
	r.next = (r.next + 1) % samples
	r.n = min(r.n+1, samples)
}

// last gives the newest n values, the oldest first.
func (r *ring) last(n int) []float64 {
	n = min(n, r.n)
	out := make([]float64, n)
	for i := range n {
		out[i] = r.v[(r.next-n+i+samples)%samples]
	}
	return out
}
