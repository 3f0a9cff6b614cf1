package body

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

// TestGotchas holds bodies to what real clients break on.
func TestGotchas(t *testing.T) {
	queue := MessageQueue{BrokerName: "broker-a", QueueID: 3, Topic: "%RETRY%G"}
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"a route without brokers and queues has empty lists", TopicRouteData{}.Encode(),
			`{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}`},
		{"a broker without addresses has an empty map; integer keys are quoted; nothing beyond ASCII",
			TopicRouteData{
				BrokerDatas: []BrokerData{{BrokerName: "é😀", Cluster: "c"}, {BrokerName: "b", Cluster: "c", BrokerAddrs: map[int64]string{0: "1.2.3.4:10911", 1: "h:1"}}},
				QueueDatas:  []QueueData{{BrokerName: "b", Perm: 7, ReadQueueNums: 4, WriteQueueNums: 4}},
			}.Encode(),
			`{"brokerDatas":[{"brokerAddrs":{},"brokerName":"\u00E9\uD83D\uDE00","cluster":"c","enableActingMaster":false},` +
				`{"brokerAddrs":{"0":"1.2.3.4:10911","1":"h:1"},"brokerName":"b","cluster":"c","enableActingMaster":false}],"filterServerTable":{},` +
				`"queueDatas":[{"brokerName":"b","perm":7,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}`},
		{"a reset's queues are raw keys", ResetOffset{OffsetTable: map[MessageQueue]int64{queue: 7}}.Encode(),
			`{"offsetTable":{{"brokerName":"broker-a","queueId":3,"topic":"%RETRY%G"}:7}}`},
		{"a reset for C++ is a list", ResetOffset{OffsetTable: map[MessageQueue]int64{queue: 7}}.EncodeCPP(),
			`{"offsetTable":[{"brokerName":"broker-a","offset":7,"queueId":3,"topic":"%RETRY%G"}]}`},
		{"consume stats have raw keys and doubles of Java", ConsumeStats{ConsumeTPS: 12, OffsetTable: map[MessageQueue]OffsetWrapper{queue: {BrokerOffset: 9}}}.Encode(),
			`{"consumeTps":12.0,"offsetTable":{{"brokerName":"broker-a","queueId":3,"topic":"%RETRY%G"}:{"brokerOffset":9,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}`},
		{"topic stats have raw keys", TopicStatsTable{OffsetTable: map[MessageQueue]TopicOffset{queue: {MaxOffset: 9}}}.Encode(),
			`{"offsetTable":{{"brokerName":"broker-a","queueId":3,"topic":"%RETRY%G"}:{"lastUpdateTimestamp":0,"maxOffset":9,"minOffset":0}},"topicPutTps":0.0}`},
		{"stats of nothing are an empty table", ConsumeStats{}.Encode(), `{"consumeTps":0.0,"offsetTable":{}}`},
		{"locked queues come back as they were asked for", LockBatchReply{LockOKMQSet: []MessageQueue{queue}}.Encode(),
			`{"lockOKMQSet":[{"brokerName":"broker-a","queueId":3,"topic":"%RETRY%G"}]}`},
		{"nothing locked", LockBatchReply{}.Encode(), `{"lockOKMQSet":[]}`},
		{"a consumer list is a list", ConsumerList{}.Encode(), `{"consumerIdList":[]}`},
		{"offsets have raw integer keys", ConsumerOffsetTable{OffsetTable: map[string]map[int32]int64{"T@G": {1: 5, 0: 4}}}.Encode(),
			`{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"offsetTable":{"T@G":{0:4,1:5}}}`},
		{"no group", BrokerMemberGroupReply{}.Encode(), `{}`},
		{"no HTML escapes", TopicList{TopicList: []string{"<&>"}}.Encode(), `{"topicList":["<&>"]}`},
		{"a topic's attributes are a map", TopicConfig{TopicName: "T"}.Encode(),
			`{"attributes":{},"order":false,"perm":0,"readQueueNums":0,"topicFilterType":"","topicName":"T","topicSysFlag":0,"writeQueueNums":0}`},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, c.got, c.want)
		}
	}
}

// TestGoHeartbeat reads string codes, empty expression types and missing members.
func TestGoHeartbeat(t *testing.T) {
	h, err := DecodeHeartbeatData([]byte(`{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[` +
		`{"classFilterMode":false,"topic":"T","subString":"a||ü","tagsSet":["a","ü"],"codeSet":["97","-3000000000",5],"subVersion":1795969509145000000,"expressionType":""}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s := h.ConsumerDataSet[0].SubscriptionDataSet[0]
	if s.ExpressionType != "" || s.SubVersion != 1795969509145000000 || !reflect.DeepEqual(s.TagsSet, []string{"a", "ü"}) || s.CodeSet[0] != 97 || s.CodeSet[2] != 5 {
		t.Errorf("%+v", s)
	}
	for _, bad := range []string{"", "[]", "{", `{"clientID":5}`, `{"consumerDataSet":[{"subscriptionDataSet":[{"codeSet":["x"]}]}]}`, `{"consumerDataSet":` + strings.Repeat("[", 5000)} {
		if _, err := DecodeHeartbeatData([]byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "heartbeat: ") || bad == "" && !errors.Is(err, ErrEmpty) {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

// TestResetForms reads legal, raw and C++ forms.
func TestResetForms(t *testing.T) {
	q := MessageQueue{BrokerName: "b", QueueID: 1, Topic: "t"}
	want := &ResetOffset{OffsetTable: map[MessageQueue]int64{q: 9}}
	for _, text := range []string{
		string(want.Encode()), string(want.EncodeCPP()),
		`{"offsetTable":{"{\"brokerName\":\"b\",\"queueId\":1,\"topic\":\"t\"}":9}}`,
		`{"offsetTable": { {"topic":"t", "brokerName":"b", "queueId":1} : 9 } }`,
	} {
		if got, err := DecodeResetOffset([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{`{}`, `{"offsetTable":null}`} {
		if got, err := DecodeResetOffset([]byte(text)); err != nil || len(got.OffsetTable) != 0 {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"offsetTable":{"x":9}}`, `{"offsetTable":[9]}`, `{"offsetTable":7}`} {
		if _, err := DecodeResetOffset([]byte(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// TestGoClientForms reads what Go clients answer to 307 and 309.
func TestGoClientForms(t *testing.T) {
	r, err := DecodeConsumeMessageDirectlyResult([]byte(`{"order":false,"autoCommit":true,"consumeResult":1,"remark":"","spentTimeMills":3}`))
	if err != nil || r.ConsumeResult != "CR_LATER" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := DecodeConsumeMessageDirectlyResult([]byte(`{"consumeResult":6}`)); err == nil {
		t.Error("result 6 was read")
	}
	info, err := DecodeConsumerRunningInfo([]byte(`{"mqTable":{{"topic":"t","brokerName":"b","queueId":1}:{"dropped":true,"commitOffset":4}}}`))
	if q := (MessageQueue{BrokerName: "b", QueueID: 1, Topic: "t"}); err != nil || !info.MQTable[q].Dropped || info.MQTable[q].CommitOffset != 4 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestDouble(t *testing.T) {
	zero := 0.0
	for want, v := range map[string]Double{
		"0.0": 0, "1.0": 1, "-2.5": -2.5, "0.03333333333333333": 0.03333333333333333, "0.001": 0.001, "9.9E-4": 0.00099,
		"9999999.0": 9999999, "1.0E7": 1e7, "1.2345678E10": 1.2345678e10, "-1.0E-5": -1e-5,
	} {
		if b, err := json.Marshal(v); err != nil || string(b) != want {
			t.Errorf("%v is %s, want %s (%v)", float64(v), b, want, err)
		}
	}
	if b := appendDouble(nil, 1/zero); string(b) != "0.0" {
		t.Errorf("infinity is %s", b)
	}
}

// TestCRC32 leaves out the top bit, or Java refuses the registration.
func TestCRC32(t *testing.T) {
	if got := CRC32([]byte("123456789")); got != 0x4BF43926 {
		t.Errorf("%#x", got)
	}
	if got := CRC32(nil); got != 0 {
		t.Errorf("%#x", got)
	}
}

// TestCompressedLimits refuses what unfolds to too much, lies about lengths, or ends early.
func TestCompressedLimits(t *testing.T) {
	version := encode(DataVersion{})
	good := appendEntry(nil, version)
	good = append(good, 0, 0, 0, 1)
	good = appendEntry(good, []byte(`T 4 8 6 SINGLE_TAG {"a":"b c"}`))
	good = appendEntry(good, []byte(`[]`))
	r, err := DecodeRegisterBroker(pack(good), 413)
	if err != nil {
		t.Fatal(err)
	}
	want := TopicConfig{TopicName: "T", ReadQueueNums: 4, WriteQueueNums: 8, Perm: 6, TopicFilterType: "SINGLE_TAG", Attributes: map[string]string{"a": "b c"}}
	if got := r.TopicConfigSerializeWrapper.TopicConfigTable["T"]; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for name, b := range map[string][]byte{
		"no zlib":         {0x78, 0x9c, 1, 2, 3},
		"empty":           pack(nil),
		"cut":             pack(good[:len(good)-3]),
		"long entry":      pack([]byte{0x7f, 0xff, 0xff, 0xff}),
		"negative entry":  pack([]byte{0xff, 0xff, 0xff, 0xff}),
		"bad version":     pack(appendEntry(nil, []byte("x"))),
		"negative topics": pack(append(appendEntry(nil, version), 0xff, 0, 0, 0)),
		"topic line":      pack(appendEntry(append(appendEntry(nil, version), 0, 0, 0, 1), []byte("T 4 8"))),
		"topic number":    pack(appendEntry(append(appendEntry(nil, version), 0, 0, 0, 1), []byte("T 4 x 6 S"))),
		"attributes":      pack(appendEntry(append(appendEntry(nil, version), 0, 0, 0, 1), []byte("T 4 8 6 S {"))),
		"mappings cut":    pack(append(good[:len(good):len(good)], 0, 0, 0, 1)),
	} {
		if _, err := DecodeRegisterBroker(b, 413); err == nil || !strings.HasPrefix(err.Error(), "compressed registration: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := decodeCompressed(pack(good), 413, int64(len(good)-1)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("a stream beyond the limit was read:", err)
	}
	if _, err := decodeCompressed(pack(good), 413, int64(len(good))); err != nil {
		t.Error(err)
	}
	// More than the limit are refused by their count, before memory is taken for them.
	over := binary.BigEndian.AppendUint32(nil, MaxRegisterTopics+1)
	for what, b := range map[string][]byte{
		"topics":        append(appendEntry(nil, version), over...),
		"mapping infos": append(good[:len(good):len(good)], over...),
	} {
		if _, err := DecodeRegisterBroker(pack(b), 413); err == nil || !strings.Contains(err.Error(), "100001 "+what+" in one registration") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if r, err = DecodeRegisterBroker(pack(append(good[:len(good):len(good)], 0, 0, 0, 1)), 412); err != nil || r.TopicConfigSerializeWrapper.TopicQueueMappingInfoMap != nil {
		t.Error("an old broker's body has no mappings:", err)
	}
}
