package header

import (
	"maps"
	"strings"
	"testing"

	"mqctl/broker/remoting"
)

// TestGotchas holds headers to what real clients break on.
func TestGotchas(t *testing.T) {
	zeroSend := sent(t, &SendMessageReply{})
	t.Run("an answer to a send has its fields even when they are zero", func(t *testing.T) {
		// Java: NullPointerException without extFields, queueId or queueOffset. Go takes
		// a missing TRACE_ON for false, Java for true.
		want := map[string]string{"msgId": "", "queueId": "0", "queueOffset": "0", "MSG_REGION": "", "TRACE_ON": "false"}
		if !maps.Equal(zeroSend, want) {
			t.Errorf("%q", zeroSend)
		}
		full := sent(t, reply())
		if full["transactionId"] == "" || full["TRACE_ON"] != "true" || len(full["msgId"]) != 32 {
			t.Errorf("%q", full)
		}
	})
	t.Run("a refused send has region and trace flag only", func(t *testing.T) {
		got := sent(t, &SendErrorReply{Region: []byte("DefaultRegion"), TraceOn: true})
		if !maps.Equal(got, map[string]string{"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}) {
			t.Errorf("%q", got)
		}
	})
	t.Run("an answer to a pull has its four offsets", func(t *testing.T) {
		got := sent(t, &PullMessageReply{})
		want := map[string]string{
			"suggestWhichBrokerId": "0", "nextBeginOffset": "0", "minOffset": "0", "maxOffset": "0", "topicSysFlag": "0", "groupSysFlag": "0",
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if got := sent(t, &PullForbiddenReply{ForbiddenType: 4}); got["forbiddenType"] != "4" || len(got) != 1 {
			t.Errorf("%q", got)
		}
	})
	t.Run("an offset is always there", func(t *testing.T) {
		if got := sent(t, &OffsetReply{}); got["offset"] != "0" {
			t.Errorf("%q", got)
		}
		if got := sent(t, &GetEarliestMsgStoretimeReply{Timestamp: -1}); got["timestamp"] != "-1" {
			t.Errorf("%q", got)
		}
	})
	t.Run("a Go client's batch has an empty default topic", func(t *testing.T) {
		var h SendMessage
		f := fields(t, remoting.JSON, map[string]string{"a": "P", "b": "T", "c": "", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "m": "true"})
		if err := h.DecodeV2(f); err != nil || !h.Batch || h.Topic == nil {
			t.Errorf("%+v, %v", h, err)
		}
	})
	t.Run("an empty expression type is a tag subscription", func(t *testing.T) {
		var h PullMessage
		m := maps.Clone(whole["PullMessage"].fields)
		if err := h.Decode(fields(t, remoting.JSON, m)); err != nil || !h.HasExpressionType || len(h.ExpressionType) != 0 {
			t.Errorf("%+v, %v", h, err)
		}
		delete(m, "expressionType")
		if err := h.Decode(fields(t, remoting.JSON, m)); err != nil || h.HasExpressionType {
			t.Errorf("%+v, %v", h, err)
		}
	})
	t.Run("a Go client commits -1 for a queue it has not touched", func(t *testing.T) {
		var h UpdateConsumerOffset
		if err := h.Decode(fields(t, remoting.JSON, whole["UpdateConsumerOffset"].fields)); err != nil || h.CommitOffset != -1 {
			t.Errorf("%+v, %v", h, err)
		}
	})
	t.Run("no value is anything but a string", func(t *testing.T) {
		// The Go client drops a frame with a number or a boolean in extFields.
		for code, make := range answers {
			b, err := remoting.AppendFrame(nil, &remoting.Header{}, make(), nil)
			if err != nil {
				t.Fatal(err)
			}
			text := string(b[8:])
			ext := text[strings.Index(text, `"extFields":{`)+len(`"extFields":{`):]
			ext = ext[:strings.Index(ext, "}")]
			for field := range strings.SplitSeq(ext, ",") {
				if field != "" && strings.Count(field, `"`) != 4 {
					t.Errorf("answer to %d: %s", code, field)
				}
			}
		}
	})
}

func reply() *SendMessageReply {
	return &SendMessageReply{
		MsgID: []byte("7F00000100002A9F0000000000000000"), TransactionID: []byte("C000020120D10C387F44123456780000"),
		Region: []byte("DefaultRegion"), TraceOn: true,
	}
}
