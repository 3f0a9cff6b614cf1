package body

// RoleStatus answers every step of the private code 30002 (MQCTL_ROLE): the
// broker's part in replication after the step. Positions are of the commit log, times in ms.
type RoleStatus struct {
	Broker   string `json:"broker"`
	BrokerID int64  `json:"brokerId"`
	// ConfiguredID is brokerId of the broker's own configuration, which role.json overrides: what the operators call it.
	ConfiguredID int64  `json:"configuredId"`
	Former       int64  `json:"formerId,omitempty"` // of a master: the id it had as a slave
	Role         string `json:"role"`
	Epoch        int64  `json:"epoch"`
	Fenced       bool   `json:"fenced"`
	FenceEpoch   int64  `json:"fenceEpoch,omitempty"`      // of the change that fenced it
	FenceLeft    int64  `json:"fenceLeftMillis,omitempty"` // until the fence lifts itself
	Addr         string `json:"addr"`
	HAAddr       string `json:"haAddr"`
	Switchable   bool   `json:"roleSwitchEnable"`
	Min          int64  `json:"minOffset"`
	Max          int64  `json:"maxOffset"`
	Dispatched   int64  `json:"dispatchedOffset"`
	// Of a slave: its master, and the newest end of the master's log it has heard of.
	MasterAddr  string `json:"masterAddr,omitempty"`
	MasterAlive bool   `json:"masterAlive"`
	Connected   bool   `json:"connected"`
	MasterEnd   int64  `json:"masterMaxOffset"`
	MasterEndAt int64  `json:"masterMaxOffsetAt"` // 0: never heard
	State       string `json:"state,omitempty"`
	Why         string `json:"why,omitempty"`
	// Aside is where a tail that the new master does not have was kept.
	Aside string `json:"aside,omitempty"`
	// Clamped are the consume positions that a forced promotion lowered to the end of their queue.
	Clamped      []ClampedProgress `json:"clamped,omitempty"`
	ClampedTotal int               `json:"clampedTotal,omitempty"`
}

// ClampedProgress is one consume position that was behind the end of the shortened log.
type ClampedProgress struct {
	Group string `json:"group"`
	Topic string `json:"topic"`
	Queue int32  `json:"queueId"`
	To    int64  `json:"to"`
}

// Encode writes the answer.
func (s RoleStatus) Encode() []byte { return encode(s) }

// DecodeRoleStatus reads the answer to 30002.
func DecodeRoleStatus(b []byte) (*RoleStatus, error) { return decode[RoleStatus]("role", b) }
