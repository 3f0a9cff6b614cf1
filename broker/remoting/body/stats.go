package body

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// BrokerStatsItem is one counter over one time. AvgPT is the sum per call.
type BrokerStatsItem struct {
	AvgPT Double `json:"avgpt"`
	Sum   int64  `json:"sum"`
	TPS   Double `json:"tps"`
}

// BrokerStatsData is the answer to 315.
type BrokerStatsData struct {
	StatsDay    BrokerStatsItem `json:"statsDay"`
	StatsHour   BrokerStatsItem `json:"statsHour"`
	StatsMinute BrokerStatsItem `json:"statsMinute"`
}

// Encode writes the body.
func (d BrokerStatsData) Encode() []byte { return encode(d) }

// DecodeBrokerStatsData reads the body.
func DecodeBrokerStatsData(b []byte) (*BrokerStatsData, error) {
	return decode[BrokerStatsData]("broker stats", b)
}

// HAClientRuntime is a slave's side of the replication; zeros on a master.
type HAClientRuntime struct {
	LastReadTimestamp       int64  `json:"lastReadTimestamp"`  // ms
	LastWriteTimestamp      int64  `json:"lastWriteTimestamp"` // ms
	MasterAddr              string `json:"masterAddr,omitempty"`
	MasterFlushOffset       int64  `json:"masterFlushOffset"`
	MaxOffset               int64  `json:"maxOffset"`
	TransferredByteInSecond int64  `json:"transferredByteInSecond"`
}

// HAConnection is one slave as its master sees it.
type HAConnection struct {
	Addr                    string `json:"addr"`
	Diff                    int64  `json:"diff"`
	InSync                  bool   `json:"inSync"`
	SlaveAckOffset          int64  `json:"slaveAckOffset"`
	TransferFromWhere       int64  `json:"transferFromWhere"`
	TransferredByteInSecond int64  `json:"transferredByteInSecond"`
}

// HAStatus is the answer to 907.
type HAStatus struct {
	HAClientRuntimeInfo      HAClientRuntime `json:"haClientRuntimeInfo"`
	HAConnectionInfo         []HAConnection  `json:"haConnectionInfo"`
	InSyncSlaveNums          int32           `json:"inSyncSlaveNums"`
	Master                   bool            `json:"master"`
	MasterCommitLogMaxOffset int64           `json:"masterCommitLogMaxOffset"`
}

// Encode writes the body.
func (s HAStatus) Encode() []byte {
	s.HAConnectionInfo = nonNil(s.HAConnectionInfo)
	return encode(s)
}

// DecodeHAStatus reads the body.
func DecodeHAStatus(b []byte) (*HAStatus, error) { return decode[HAStatus]("HA status", b) }

// QueueTimeSpan is one queue of the answer to 303, times in ms.
type QueueTimeSpan struct {
	ConsumeTimestamp int64
	DelayTime        int64
	MaxTimestamp     int64
	MessageQueue     MessageQueue
	MinTimestamp     int64
}

// queueTimeSpan is QueueTimeSpan with the texts that Java adds for readers.
type queueTimeSpan struct {
	ConsumeTimestamp    int64        `json:"consumeTimeStamp"`
	ConsumeTimestampStr string       `json:"consumeTimeStampStr"`
	DelayTime           int64        `json:"delayTime"`
	MaxTimestamp        int64        `json:"maxTimeStamp"`
	MaxTimestampStr     string       `json:"maxTimeStampStr"`
	MessageQueue        MessageQueue `json:"messageQueue"`
	MinTimestamp        int64        `json:"minTimeStamp"`
	MinTimestampStr     string       `json:"minTimeStampStr"`
}

// humanTime writes a time as Java's UtilAll.formatDate does, in local time.
func humanTime(ms int64) string {
	t := time.UnixMilli(ms)
	return fmt.Sprintf("%s:%03d", t.Format("2006-01-02#15:04:05"), t.Nanosecond()/1e6)
}

// MarshalJSON writes s and its texts.
func (s QueueTimeSpan) MarshalJSON() ([]byte, error) {
	return encode(queueTimeSpan{
		ConsumeTimestamp: s.ConsumeTimestamp, ConsumeTimestampStr: humanTime(s.ConsumeTimestamp),
		DelayTime: s.DelayTime, MessageQueue: s.MessageQueue,
		MaxTimestamp: s.MaxTimestamp, MaxTimestampStr: humanTime(s.MaxTimestamp),
		MinTimestamp: s.MinTimestamp, MinTimestampStr: humanTime(s.MinTimestamp),
	}), nil
}

// UnmarshalJSON reads the numbers only.
func (s *QueueTimeSpan) UnmarshalJSON(b []byte) error {
	var w queueTimeSpan
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*s = QueueTimeSpan{
		ConsumeTimestamp: w.ConsumeTimestamp, DelayTime: w.DelayTime,
		MaxTimestamp: w.MaxTimestamp, MessageQueue: w.MessageQueue, MinTimestamp: w.MinTimestamp,
	}
	return nil
}

// ConsumeTimeSpan is the answer to 303.
type ConsumeTimeSpan struct {
	ConsumeTimeSpanSet []QueueTimeSpan `json:"consumeTimeSpanSet"`
}

// Encode writes the body.
func (s ConsumeTimeSpan) Encode() []byte {
	s.ConsumeTimeSpanSet = nonNil(s.ConsumeTimeSpanSet)
	return encode(s)
}

// DecodeConsumeTimeSpan reads the body.
func DecodeConsumeTimeSpan(b []byte) (*ConsumeTimeSpan, error) {
	return decode[ConsumeTimeSpan]("consume time span", b)
}

// ConsumeQueueEntry is one entry of the answer to 321. Eval says whether the group's
// filter takes it.
type ConsumeQueueEntry struct {
	BitMap         string `json:"bitMap,omitempty"`
	Eval           bool   `json:"eval"`
	ExtendDataJSON string `json:"extendDataJson,omitempty"`
	Msg            string `json:"msg,omitempty"`
	PhysicOffset   int64  `json:"physicOffset"`
	PhysicSize     int32  `json:"physicSize"`
	TagsCode       int64  `json:"tagsCode"`
}

// QueryConsumeQueue is the answer to 321.
type QueryConsumeQueue struct {
	FilterData       string              `json:"filterData,omitempty"`
	MaxQueueIndex    int64               `json:"maxQueueIndex"`
	MinQueueIndex    int64               `json:"minQueueIndex"`
	QueueData        []ConsumeQueueEntry `json:"queueData"`
	SubscriptionData *SubscriptionData   `json:"subscriptionData,omitempty"`
}

// Encode writes the body.
func (q QueryConsumeQueue) Encode() []byte {
	q.QueueData = nonNil(q.QueueData)
	return encode(q)
}

// DecodeQueryConsumeQueue reads the body.
func DecodeQueryConsumeQueue(b []byte) (*QueryConsumeQueue, error) {
	return decode[QueryConsumeQueue]("consume queue", b)
}

// ConsumeMessageDirectlyResult is a client's answer to 309. ConsumeResult is a name
// like CR_SUCCESS.
type ConsumeMessageDirectlyResult struct {
	AutoCommit     bool          `json:"autoCommit"`
	ConsumeResult  ConsumeResult `json:"consumeResult"`
	Order          bool          `json:"order"`
	Remark         string        `json:"remark,omitempty"`
	SpentTimeMills int64         `json:"spentTimeMills"`
}

// ConsumeResult is the name of a CMResult; Go clients send its number.
type ConsumeResult string

// consumeResults are CMResult's names by number.
var consumeResults = [...]ConsumeResult{
	"CR_SUCCESS", "CR_LATER", "CR_ROLLBACK", "CR_COMMIT", "CR_THROW_EXCEPTION", "CR_RETURN_NULL",
}

// UnmarshalJSON reads a name or a number.
func (r *ConsumeResult) UnmarshalJSON(b []byte) error {
	if n, err := strconv.Atoi(string(bytes.TrimSpace(b))); err == nil {
		if n < 0 || n >= len(consumeResults) {
			return fmt.Errorf("consume result %d is not known", n)
		}
		*r = consumeResults[n]
		return nil
	}
	return json.Unmarshal(b, (*string)(r))
}

// Encode writes the body.
func (r ConsumeMessageDirectlyResult) Encode() []byte { return encode(r) }

// DecodeConsumeMessageDirectlyResult reads the body.
func DecodeConsumeMessageDirectlyResult(b []byte) (*ConsumeMessageDirectlyResult, error) {
	return decode[ConsumeMessageDirectlyResult]("consume result", b)
}

// ProcessQueue is a consumer's state of one queue, times in ms.
type ProcessQueue struct {
	CachedMsgCount          int64 `json:"cachedMsgCount"`
	CachedMsgMaxOffset      int64 `json:"cachedMsgMaxOffset"`
	CachedMsgMinOffset      int64 `json:"cachedMsgMinOffset"`
	CachedMsgSizeInMiB      int64 `json:"cachedMsgSizeInMiB"`
	CommitOffset            int64 `json:"commitOffset"`
	Dropped                 bool  `json:"droped"` // so spelt; Go clients write dropped
	LastConsumeTimestamp    int64 `json:"lastConsumeTimestamp"`
	LastLockTimestamp       int64 `json:"lastLockTimestamp"`
	LastPullTimestamp       int64 `json:"lastPullTimestamp"`
	Locked                  bool  `json:"locked"`
	TransactionMsgCount     int64 `json:"transactionMsgCount"`
	TransactionMsgMaxOffset int64 `json:"transactionMsgMaxOffset"`
	TransactionMsgMinOffset int64 `json:"transactionMsgMinOffset"`
	TryUnlockTimes          int64 `json:"tryUnlockTimes"`
}

// ConsumeStatus is a consumer's rates for one topic.
type ConsumeStatus struct {
	ConsumeFailedMsgs int64  `json:"consumeFailedMsgs"`
	ConsumeFailedTPS  Double `json:"consumeFailedTPS"`
	ConsumeOKTPS      Double `json:"consumeOKTPS"`
	ConsumeRT         Double `json:"consumeRT"`
	PullRT            Double `json:"pullRT"`
	PullTPS           Double `json:"pullTPS"`
}

// ConsumerRunningInfo is a client's answer to 307. Brokers pass the bytes on as they
// are (a Go client's stack dump makes them unreadable); it is decoded by tools.
type ConsumerRunningInfo struct {
	Jstack           string
	MQTable          map[MessageQueue]ProcessQueue
	Properties       map[string]string
	StatusTable      map[string]ConsumeStatus
	SubscriptionSet  []SubscriptionData
	UserConsumerInfo map[string]string
}

// DecodeConsumerRunningInfo reads the body.
func DecodeConsumerRunningInfo(b []byte) (*ConsumerRunningInfo, error) {
	w, err := decode[struct {
		Jstack  string `json:"jstack"`
		MQTable queueMap[struct {
			ProcessQueue
			GoDropped bool `json:"dropped"`
		}] `json:"mqTable"`
		Properties       map[string]string        `json:"properties"`
		StatusTable      map[string]ConsumeStatus `json:"statusTable"`
		SubscriptionSet  []SubscriptionData       `json:"subscriptionSet"`
		UserConsumerInfo map[string]string        `json:"userConsumerInfo"`
	}]("running info", b)
	if err != nil {
		return nil, err
	}
	info := &ConsumerRunningInfo{
		Jstack: w.Jstack, Properties: w.Properties, StatusTable: w.StatusTable,
		SubscriptionSet: w.SubscriptionSet, UserConsumerInfo: w.UserConsumerInfo,
		MQTable: make(map[MessageQueue]ProcessQueue, len(w.MQTable)),
	}
	for q, p := range w.MQTable {
		p.Dropped = p.Dropped || p.GoDropped
		info.MQTable[q] = p.ProcessQueue
	}
	return info, nil
}
