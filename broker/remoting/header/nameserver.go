package header

// Headers of requests that clients and tools send to a nameserver.

import "mqctl/broker/remoting"

// GetRouteInfo is the header of GET_ROUTEINFO_BY_TOPIC (105).
type GetRouteInfo struct {
	Topic                     string
	AcceptStandardJSONOnly    bool
	HasAcceptStandardJSONOnly bool
}

func (h *GetRouteInfo) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.maybeFlag("acceptStandardJsonOnly", &h.AcceptStandardJSONOnly, &h.HasAcceptStandardJSONOnly)
}

// Decode reads a request.
func (h *GetRouteInfo) Decode(f remoting.Fields) error { return decode("GetRouteInfo", f, h) }

// EncodeExt writes a request.
func (h *GetRouteInfo) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// PutKVConfig is the header of 100.
type PutKVConfig struct {
	Namespace string
	Key       string
	Value     string
}

func (h *PutKVConfig) walk(c *codec) {
	c.text("namespace", &h.Namespace, required)
	c.text("key", &h.Key, required)
	c.text("value", &h.Value, required)
}

// Decode reads a request.
func (h *PutKVConfig) Decode(f remoting.Fields) error { return decode("PutKVConfig", f, h) }

// EncodeExt writes a request.
func (h *PutKVConfig) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetKVConfig is the header of 101.
type GetKVConfig struct {
	Namespace string
	Key       string
}

func (h *GetKVConfig) walk(c *codec) {
	c.text("namespace", &h.Namespace, required)
	c.text("key", &h.Key, required)
}

// Decode reads a request.
func (h *GetKVConfig) Decode(f remoting.Fields) error { return decode("GetKVConfig", f, h) }

// EncodeExt writes a request.
func (h *GetKVConfig) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetKVConfigReply answers 101.
type GetKVConfigReply struct {
	Value string
}

func (h *GetKVConfigReply) walk(c *codec) {
	c.text("value", &h.Value, required)
}

// DecodeMap reads an answer.
func (h *GetKVConfigReply) DecodeMap(m map[string]string) error {
	return decodeMap("GetKVConfigReply", m, h)
}

// EncodeExt writes an answer.
func (h *GetKVConfigReply) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// DeleteKVConfig is the header of 102.
type DeleteKVConfig struct {
	Namespace string
	Key       string
}

func (h *DeleteKVConfig) walk(c *codec) {
	c.text("namespace", &h.Namespace, required)
	c.text("key", &h.Key, required)
}

// Decode reads a request.
func (h *DeleteKVConfig) Decode(f remoting.Fields) error { return decode("DeleteKVConfig", f, h) }

// EncodeExt writes a request.
func (h *DeleteKVConfig) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetKVListByNamespace is the header of 219.
type GetKVListByNamespace struct {
	Namespace string
}

func (h *GetKVListByNamespace) walk(c *codec) {
	c.text("namespace", &h.Namespace, required)
}

// Decode reads a request.
func (h *GetKVListByNamespace) Decode(f remoting.Fields) error {
	return decode("GetKVListByNamespace", f, h)
}

// EncodeExt writes a request.
func (h *GetKVListByNamespace) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// WipeWritePermOfBroker is the header of 205.
type WipeWritePermOfBroker struct {
	BrokerName string
}

func (h *WipeWritePermOfBroker) walk(c *codec) {
	c.text("brokerName", &h.BrokerName, required)
}

// Decode reads a request.
func (h *WipeWritePermOfBroker) Decode(f remoting.Fields) error {
	return decode("WipeWritePermOfBroker", f, h)
}

// EncodeExt writes a request.
func (h *WipeWritePermOfBroker) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// WipeWritePermOfBrokerReply answers 205: how many topics were changed.
type WipeWritePermOfBrokerReply struct {
	WipeTopicCount int32
}

func (h *WipeWritePermOfBrokerReply) walk(c *codec) {
	c.word("wipeTopicCount", &h.WipeTopicCount, required)
}

// DecodeMap reads an answer.
func (h *WipeWritePermOfBrokerReply) DecodeMap(m map[string]string) error {
	return decodeMap("WipeWritePermOfBrokerReply", m, h)
}

// EncodeExt writes an answer.
func (h *WipeWritePermOfBrokerReply) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// AddWritePermOfBroker is the header of 327.
type AddWritePermOfBroker struct {
	BrokerName string
}

func (h *AddWritePermOfBroker) walk(c *codec) {
	c.text("brokerName", &h.BrokerName, required)
}

// Decode reads a request.
func (h *AddWritePermOfBroker) Decode(f remoting.Fields) error {
	return decode("AddWritePermOfBroker", f, h)
}

// EncodeExt writes a request.
func (h *AddWritePermOfBroker) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// AddWritePermOfBrokerReply answers 327: how many topics were changed.
type AddWritePermOfBrokerReply struct {
	AddTopicCount int32
}

func (h *AddWritePermOfBrokerReply) walk(c *codec) {
	c.word("addTopicCount", &h.AddTopicCount, required)
}

// DecodeMap reads an answer.
func (h *AddWritePermOfBrokerReply) DecodeMap(m map[string]string) error {
	return decodeMap("AddWritePermOfBrokerReply", m, h)
}

// EncodeExt writes an answer.
func (h *AddWritePermOfBrokerReply) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// GetTopicsByCluster is the header of 224.
type GetTopicsByCluster struct {
	Cluster string
}

func (h *GetTopicsByCluster) walk(c *codec) {
	c.text("cluster", &h.Cluster, required)
}

// Decode reads a request.
func (h *GetTopicsByCluster) Decode(f remoting.Fields) error {
	return decode("GetTopicsByCluster", f, h)
}

// EncodeExt writes a request.
func (h *GetTopicsByCluster) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// DeleteTopicFromNamesrv is the header of 216.
type DeleteTopicFromNamesrv struct {
	Topic       string
	ClusterName string
}

func (h *DeleteTopicFromNamesrv) walk(c *codec) {
	c.text("topic", &h.Topic, required)
	c.text("clusterName", &h.ClusterName, optional)
}

// Decode reads a request.
func (h *DeleteTopicFromNamesrv) Decode(f remoting.Fields) error {
	return decode("DeleteTopicFromNamesrv", f, h)
}

// EncodeExt writes a request.
func (h *DeleteTopicFromNamesrv) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }
