package header

// Headers of a broker as a whole.

import "mqctl/broker/remoting"

// FieldPersist is a field of ours in requests 25: "false" keeps a change from
// being saved. Other brokers do not know it.
const FieldPersist = "mqctlPersist"

// GetBrokerConfigReply answers 26. Version is the JSON of a DataVersion.
type GetBrokerConfigReply struct {
	Version string
}

func (h *GetBrokerConfigReply) walk(c *codec) {
	c.text("version", &h.Version, required)
}

// DecodeMap reads an answer.
func (h *GetBrokerConfigReply) DecodeMap(m map[string]string) error {
	return decodeMap("GetBrokerConfigReply", m, h)
}

// EncodeExt writes an answer.
func (h *GetBrokerConfigReply) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// ViewBrokerStatsData is the header of 315.
type ViewBrokerStatsData struct {
	StatsName string
	StatsKey  string
}

func (h *ViewBrokerStatsData) walk(c *codec) {
	c.text("statsName", &h.StatsName, required)
	c.text("statsKey", &h.StatsKey, required)
}

// Decode reads a request.
func (h *ViewBrokerStatsData) Decode(f remoting.Fields) error {
	return decode("ViewBrokerStatsData", f, h)
}

// EncodeExt writes a request.
func (h *ViewBrokerStatsData) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }

// ResetMasterFlushOffset is the header of 908.
type ResetMasterFlushOffset struct {
	MasterFlushOffset    int64 // bytes of the master's commit log that are on its disk
	HasMasterFlushOffset bool
}

func (h *ResetMasterFlushOffset) walk(c *codec) {
	c.maybeLong("masterFlushOffset", &h.MasterFlushOffset, &h.HasMasterFlushOffset)
}

// Decode reads a request.
func (h *ResetMasterFlushOffset) Decode(f remoting.Fields) error {
	return decode("ResetMasterFlushOffset", f, h)
}

// EncodeExt writes a request.
func (h *ResetMasterFlushOffset) EncodeExt(w *remoting.ExtWriter) { encode(w, h) }
