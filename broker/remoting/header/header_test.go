package header

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"mqctl/broker/remoting"
)

// fields are the ext fields of a frame with these.
func fields(t testing.TB, kind byte, m map[string]string) remoting.Fields {
	t.Helper()
	b, err := remoting.AppendFrame(nil, &remoting.Header{Serialize: kind}, remoting.Map(m), nil)
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := remoting.DecodeFrame(b)
	if err != nil {
		t.Fatal(err)
	}
	return h.Ext
}

// sent are the ext fields that e writes.
func sent(t testing.TB, e remoting.ExtEncoder) map[string]string {
	t.Helper()
	b, err := remoting.AppendFrame(nil, &remoting.Header{}, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := remoting.DecodeFrame(b)
	if err != nil {
		t.Fatal(err)
	}
	return h.Ext.Map()
}

// whole is a request of each hot header with every field.
var whole = map[string]struct {
	fields map[string]string
	make   func() request
}{
	"SendMessage V1": {map[string]string{
		"producerGroup": "P", "topic": "T", "defaultTopic": "", "defaultTopicQueueNums": "4", "queueId": "-1", "sysFlag": "3",
		"bornTimestamp": "1795969473759", "flag": "7", "properties": "a\x01b\x02", "reconsumeTimes": "2", "unitMode": "TRUE",
		"maxReconsumeTimes": "0", "batch": "true", "bname": "B", "unknown": "x",
	}, func() request { return new(sendV1) }},
	"SendMessage V2": {map[string]string{
		"a": "P", "b": "T", "c": "", "d": "4", "e": "-1", "f": "3", "g": "1795969473759", "h": "7", "i": "a\x01b\x02", "j": "2",
		"k": "TRUE", "l": "0", "m": "true", "n": "B", "z": "x", "Topic": "other",
	}, func() request { return new(sendV2) }},
	"PullMessage": {map[string]string{
		"consumerGroup": "G", "topic": "T", "queueId": "3", "queueOffset": "-5", "maxMsgNums": "32", "sysFlag": "6", "commitOffset": "-1",
		"suspendTimeoutMillis": "15000", "subVersion": "0", "subscription": "", "expressionType": "", "requestSource": "-1", "maxMsgBytes": "x",
	}, func() request { return new(PullMessage) }},
	"QueryConsumerOffset": {map[string]string{
		"consumerGroup": "G", "topic": "T", "queueId": "3", "setZeroIfNotFound": "false",
	}, func() request { return new(QueryConsumerOffset) }},
	"UpdateConsumerOffset": {map[string]string{
		"consumerGroup": "G", "topic": "T", "queueId": "3", "commitOffset": "-1",
	}, func() request { return new(UpdateConsumerOffset) }},
}

// TestHotHeaders reads every field in both forms without allocation.
func TestHotHeaders(t *testing.T) {
	wantSend := SendMessage{
		ProducerGroup: []byte("P"), Topic: []byte("T"), DefaultTopic: []byte{}, Properties: []byte("a\x01b\x02"), BrokerName: []byte("B"),
		DefaultTopicQueueNums: 4, QueueID: -1, SysFlag: 3, Flag: 7, ReconsumeTimes: 2, BornTimestamp: 1795969473759,
		UnitMode: true, Batch: true, HasMaxReconsumeTimes: true,
	}
	want := map[string]request{
		"SendMessage V1": &sendV1{wantSend}, "SendMessage V2": &sendV2{wantSend},
		"PullMessage": &PullMessage{
			ConsumerGroup: []byte("G"), Topic: []byte("T"), QueueID: 3, QueueOffset: -5, MaxMsgNums: 32, SysFlag: 6, CommitOffset: -1,
			SuspendTimeoutMillis: 15000, Subscription: []byte{}, ExpressionType: []byte{}, HasSubscription: true, HasExpressionType: true, RequestSource: -1,
		},
		"QueryConsumerOffset":  &QueryConsumerOffset{ConsumerGroup: []byte("G"), Topic: []byte("T"), QueueID: 3, HasSetZeroIfNotFound: true},
		"UpdateConsumerOffset": &UpdateConsumerOffset{ConsumerGroup: []byte("G"), Topic: []byte("T"), QueueID: 3, CommitOffset: -1},
	}
	for name, c := range whole {
		for _, kind := range []byte{remoting.JSON, remoting.Binary} {
			f := fields(t, kind, c.fields)
			h := c.make()
			if err := h.Decode(f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := fmt.Sprintf("%+v", h); got != fmt.Sprintf("%+v", want[name]) {
				t.Errorf("%s: %s, want %+v", name, got, want[name])
			}
			if n := testing.AllocsPerRun(100, func() {
				if err := h.Decode(f); err != nil {
					t.Error(err)
				}
			}); n != 0 {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	}
}

// TestMissingAndBadFields takes away and spoils one field after another.
func TestMissingAndBadFields(t *testing.T) {
	optional := "properties reconsumeTimes unitMode maxReconsumeTimes batch bname i j k l m n subscription expressionType requestSource setZeroIfNotFound"
	text := "producerGroup topic defaultTopic properties unitMode batch bname a b c i k m n consumerGroup subscription expressionType setZeroIfNotFound"
	is := func(list, key string) bool { return strings.Contains(" "+list+" ", " "+key+" ") }
	for name, c := range whole {
		for key := range c.fields {
			if is("unknown z Topic maxMsgBytes", key) {
				continue
			}
			m := maps.Clone(c.fields)
			delete(m, key)
			err := c.make().Decode(fields(t, remoting.JSON, m))
			var bad *FieldError
			if is(optional, key) != (err == nil) || err != nil && (!errors.As(err, &bad) || !strings.HasPrefix(bad.Field, key) || bad.Why != whyMissing) {
				t.Errorf("%s without %s: %v", name, key, err)
			}
			if is(text, key) {
				continue
			}
			for value, why := range map[string]string{"4x": whyNumber, "9223372036854775808": whyNumber, "": whyMissing} {
				m[key] = value
				err := c.make().Decode(fields(t, remoting.JSON, m))
				if value == "" && is(optional, key) {
					if err != nil {
						t.Errorf("%s with empty %s: %v", name, key, err)
					}
					continue
				}
				if !errors.As(err, &bad) || bad.Field != key || bad.Why != why || bad.Value != value {
					t.Errorf("%s with %s=%q: %v", name, key, value, err)
				}
			}
		}
	}
}

// TestColdFields does the same for the codec of all other headers.
func TestColdFields(t *testing.T) {
	good := map[string]string{"topic": "T", "queueId": "2147483647", "timestamp": "-1", "boundaryType": "upper"}
	for _, c := range []struct {
		key, value string
		why        string
	}{
		{"topic", "-", whyMissing}, {"queueId", "-", whyMissing}, {"timestamp", "", whyMissing},
		{"queueId", "2147483648", whyRange}, {"queueId", "-2147483649", whyRange}, {"queueId", "abc", whyNumber},
		{"timestamp", "1e3", whyNumber}, {"timestamp", strings.Repeat("9", 200), whyNumber},
		{"boundaryType", "-", ""}, {"topic", "", ""},
	} {
		m := maps.Clone(good)
		if m[c.key] = c.value; c.value == "-" {
			delete(m, c.key)
		}
		var h SearchOffset
		err := h.Decode(fields(t, remoting.JSON, m))
		var bad *FieldError
		if c.why == "" {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if !errors.As(err, &bad) || bad.Header != "SearchOffset" || bad.Field != c.key || bad.Why != c.why || len(bad.Value) > 64 || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	var r ResetOffset
	if err := r.Decode(fields(t, remoting.Binary, map[string]string{"topic": "T", "group": "G", "timestamp": "5", "queueId": "-1", "offset": "", "isForce": "True"})); err != nil {
		t.Fatal(err)
	}
	if !r.HasQueueID || r.QueueID != -1 || r.HasOffset || !r.Force || r.Timestamp != 5 {
		t.Errorf("%+v", r)
	}
	var m GetMaxOffset
	if err := m.Decode(fields(t, remoting.JSON, map[string]string{"topic": "T", "queueId": "1"})); err != nil || m.HasCommitted {
		t.Error(m, err)
	}
	var reply OffsetReply
	if err := reply.DecodeMap(nil); err == nil {
		t.Error("an answer without an offset was read")
	}
	if err := new(PullMessageReply).DecodeMap(map[string]string{"minOffset": "1"}); err == nil {
		t.Error("a pull's answer without offsets was read")
	}
}

// FuzzHeaders decodes any fields with every header; what decodes must survive a trip.
func FuzzHeaders(f *testing.F) {
	for _, c := range whole {
		b, err := remoting.AppendFrame(nil, &remoting.Header{}, remoting.Map(c.fields), nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, _, err := remoting.DecodeFrame(bytes.Clone(frame))
		if err != nil {
			return
		}
		for code, make := range requests {
			if code == 10 {
				continue // is written in the other form
			}
			r := make()
			if r.Decode(h.Ext) != nil {
				continue
			}
			b, err := remoting.AppendFrame(nil, &remoting.Header{Serialize: remoting.Binary}, r, nil)
			if err != nil {
				continue
			}
			again, _, err := remoting.DecodeFrame(b)
			if err != nil {
				t.Fatal(err)
			}
			r2 := make()
			if err := r2.Decode(again.Ext); err != nil {
				t.Errorf("%d: %v", code, err)
			}
			if a, b := fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", r2); strings.ReplaceAll(a, "nil", "[]") != strings.ReplaceAll(b, "nil", "[]") {
				t.Errorf("%d: %s, then %s", code, a, b)
			}
		}
		for _, make := range answers {
			_ = make().DecodeMap(h.Ext.Map())
		}
	})
}
