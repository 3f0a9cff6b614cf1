package header

// Headers of requests that brokers send to a nameserver, and what it tells them.

import "mqctl/broker/remoting"

// RegisterBroker is the header of 103. BodyCRC32 0 means unchecked; an absent EnableActingMaster means an old broker.
type RegisterBroker struct {
	BrokerName                string
	BrokerAddr                string
	ClusterName               string
	HAServerAddr              string
	BrokerID                  int64
	HeartbeatTimeoutMillis    int64
	HasHeartbeatTimeoutMillis bool
	EnableActingMaster        bool
	HasEnableActingMaster     bool
	Compressed                bool
	BodyCRC32                 int32
	ZoneName                  string
}

func (h *RegisterBroker) walk(c *codec) {
	c.text("brokerName", &h.BrokerName, required)
	c.text("brokerAddr", &h.BrokerAddr, required)
	c.text("clusterName", &h.ClusterName, required)
	c.text("haServerAddr", &h.HAServerAddr, required)
	c.long("brokerId", &h.BrokerID, required)
	c.maybeLong("heartbeatTimeoutMillis", &h.HeartbeatTimeoutMillis, &h.HasHeartbeatTimeoutMillis)
	c.maybeFlag("enableActingMaster", &h.EnableActingMaster, &h.HasEnableActingMaster)
	c.flag("compressed", &h.Compressed, written)
	c.word("bodyCrc32", &h.BodyCRC32, written)
	c.text("__ZONE_NAME", &h.ZoneName, optional)
}

// Decode reads a request.
func (h *RegisterBroker) Decode(f remoting.Fields) error { return decode("RegisterBroker", f, h) }

// EncodeExt writes a request.
func (h *RegisterBroker) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// RegisterBrokerReply answers 103; slaves are told their master.
type RegisterBrokerReply struct {
	HAServerAddr string
	MasterAddr   string
}

func (h *RegisterBrokerReply) walk(c *codec) {
	c.text("haServerAddr", &h.HAServerAddr, optional)
	c.text("masterAddr", &h.MasterAddr, optional)
}

// DecodeMap reads an answer.
func (h *RegisterBrokerReply) DecodeMap(m map[string]string) error {
	return decodeMap("RegisterBrokerReply", m, h)
}

// EncodeExt writes an answer.
func (h *RegisterBrokerReply) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// UnregisterBroker is the header of 104.
type UnregisterBroker struct {
	BrokerName  string
	BrokerAddr  string
	ClusterName string
	BrokerID    int64
}

func (h *UnregisterBroker) walk(c *codec) {
	c.text("brokerName", &h.BrokerName, required)
	c.text("brokerAddr", &h.BrokerAddr, required)
	c.text("clusterName", &h.ClusterName, required)
	c.long("brokerId", &h.BrokerID, required)
}

// Decode reads a request.
func (h *UnregisterBroker) Decode(f remoting.Fields) error { return decode("UnregisterBroker", f, h) }

// EncodeExt writes a request.
func (h *UnregisterBroker) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// QueryDataVersion is the header of 322.
type QueryDataVersion struct {
	BrokerName  string
	BrokerAddr  string
	ClusterName string
	BrokerID    int64
}

func (h *QueryDataVersion) walk(c *codec) {
	c.text("brokerName", &h.BrokerName, required)
	c.text("brokerAddr", &h.BrokerAddr, required)
	c.text("clusterName", &h.ClusterName, required)
	c.long("brokerId", &h.BrokerID, required)
}

// Decode reads a request.
func (h *QueryDataVersion) Decode(f remoting.Fields) error { return decode("QueryDataVersion", f, h) }

// EncodeExt writes a request.
func (h *QueryDataVersion) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// QueryDataVersionReply answers 322.
type QueryDataVersionReply struct {
	Changed bool
}

func (h *QueryDataVersionReply) walk(c *codec) {
	c.flag("changed", &h.Changed, required)
}

// DecodeMap reads an answer.
func (h *QueryDataVersionReply) DecodeMap(m map[string]string) error {
	return decodeMap("QueryDataVersionReply", m, h)
}

// EncodeExt writes an answer.
func (h *QueryDataVersionReply) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// BrokerHeartbeat is the header of 904.
type BrokerHeartbeat struct {
	ClusterName               string
	BrokerAddr                string
	BrokerName                string
	BrokerID                  int64
	HasBrokerID               bool
	Epoch                     int32
	HasEpoch                  bool
	MaxOffset                 int64
	HasMaxOffset              bool
	ConfirmOffset             int64
	HasConfirmOffset          bool
	HeartbeatTimeoutMillis    int64
	HasHeartbeatTimeoutMillis bool
	ElectionPriority          int32
	HasElectionPriority       bool
}

func (h *BrokerHeartbeat) walk(c *codec) {
	c.text("clusterName", &h.ClusterName, required)
	c.text("brokerAddr", &h.BrokerAddr, required)
	c.text("brokerName", &h.BrokerName, required)
	c.maybeLong("brokerId", &h.BrokerID, &h.HasBrokerID)
	c.maybeWord("epoch", &h.Epoch, &h.HasEpoch)
	c.maybeLong("maxOffset", &h.MaxOffset, &h.HasMaxOffset)
	c.maybeLong("confirmOffset", &h.ConfirmOffset, &h.HasConfirmOffset)
	c.maybeLong("heartbeatTimeoutMills", &h.HeartbeatTimeoutMillis, &h.HasHeartbeatTimeoutMillis)
	c.maybeWord("electionPriority", &h.ElectionPriority, &h.HasElectionPriority)
}

// Decode reads a request.
func (h *BrokerHeartbeat) Decode(f remoting.Fields) error { return decode("BrokerHeartbeat", f, h) }

// EncodeExt writes a request.
func (h *BrokerHeartbeat) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// RegisterTopic is the header of 217.
type RegisterTopic struct {
	Topic string
}

func (h *RegisterTopic) walk(c *codec) {
	c.text("topic", &h.Topic, required)
}

// Decode reads a request.
func (h *RegisterTopic) Decode(f remoting.Fields) error { return decode("RegisterTopic", f, h) }

// EncodeExt writes a request.
func (h *RegisterTopic) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetBrokerMemberGroup is the header of 901.
type GetBrokerMemberGroup struct {
	ClusterName string
	BrokerName  string
}

func (h *GetBrokerMemberGroup) walk(c *codec) {
	c.text("clusterName", &h.ClusterName, required)
	c.text("brokerName", &h.BrokerName, required)
}

// Decode reads a request.
func (h *GetBrokerMemberGroup) Decode(f remoting.Fields) error {
	return decode("GetBrokerMemberGroup", f, h)
}

// EncodeExt writes a request.
func (h *GetBrokerMemberGroup) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// NotifyMinBrokerIDChange is the header of 905, from nameserver to broker.
type NotifyMinBrokerIDChange struct {
	MinBrokerID       int64
	HasMinBrokerID    bool
	BrokerName        string
	MinBrokerAddr     string
	OfflineBrokerAddr string
	HABrokerAddr      string
}

func (h *NotifyMinBrokerIDChange) walk(c *codec) {
	c.maybeLong("minBrokerId", &h.MinBrokerID, &h.HasMinBrokerID)
	c.text("brokerName", &h.BrokerName, optional)
	c.text("minBrokerAddr", &h.MinBrokerAddr, optional)
	c.text("offlineBrokerAddr", &h.OfflineBrokerAddr, optional)
	c.text("haBrokerAddr", &h.HABrokerAddr, optional)
}

// Decode reads a request.
func (h *NotifyMinBrokerIDChange) Decode(f remoting.Fields) error {
	return decode("NotifyMinBrokerIDChange", f, h)
}

// EncodeExt writes a request.
func (h *NotifyMinBrokerIDChange) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }
