package broker

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestListRequests: 18 and 225 change many at once or, with one bad member, none.
func TestListRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, goldenOptions)
		cases := []struct {
			code int
			body string
			want int
			part string
		}{
			{18, `{"topicConfigList":[{"topicName":"a1","readQueueNums":2,"writeQueueNums":3,"perm":6},{"topicName":"a2","attributes":{"+message.type":"FIFO"}}]}`, 0, ""},
			{18, `{"topicConfigList":[{"topicName":"b1"},{"topicName":"b/2"}]}`, 1, `"b/2"`},
			{18, `{"topicConfigList":[{"topicName":"b1"},{"topicName":"b2","attributes":{"message.type":"FIFO"}}]}`, 1, `"b2"`},
			{18, `{"topicConfigList":[{"topicName":"b1"},{"topicName":"a2","attributes":{"+queue.type":"SimpleCQ"}}]}`, 1, `"a2"`}, // a rule that only the table knows
			{18, `{"topicConfigList":[{"topicName":"a3","readQueueNums":2},{"topicName":"a3","readQueueNums":7}]}`, 0, ""},
			{18, `not json`, 29, "no list"},
			{225, `{"groupConfigList":[{"groupName":"g1","retryMaxTimes":3},{"groupName":"g2"}]}`, 0, ""},
			{225, `{"groupConfigList":[{"groupName":"g3"},{"groupName":"g/4"}]}`, 29, `"g/4"`},
			{225, `{"groupConfigList":[{"groupName":"g1","retryMaxTimes":3},{"groupName":"g2","retryMaxTimes":8},{"groupName":"g2","retryMaxTimes":9}]}`, 0, ""},
			{225, `[]`, 29, "no list"},
			{401, `{"topic":"a1","consumerGroup":"g1","mode":"POP","popShareQueueNum":2}`, 0, ""},
			{401, `{"topic":"a1","consumerGroup":"g1","mode":"PUSH","popShareQueueNum":0}`, 29, "PUSH"},
			{401, `{"topic":"nope","consumerGroup":"g1","mode":"POP"}`, 17, "nope"},
			{401, `{"topic":"a1","consumerGroup":"nope","mode":"POP"}`, 26, "nope"},
			{401, `{"topic":"%RETRY%g1","consumerGroup":"g1","mode":"POP"}`, 16, "retry"},
		}
		for _, c := range cases {
			resp := r.call(c.code, nil, []byte(c.body))
			if (resp.Code == 0) != (c.want == 0) || c.want > 1 && resp.Code != c.want || !strings.Contains(resp.Remark, c.part) {
				t.Errorf("%d %s: answer %d %q", c.code, c.body, resp.Code, resp.Remark)
			}
		}
		for name, want := range map[string]int{"a1": 0, "a2": 0, "b1": 17, "b2": 17} {
			if resp := r.call(351, map[string]string{"topic": name}, nil); resp.Code != want {
				t.Errorf("topic %s: %d %s", name, resp.Code, resp.Remark)
			}
		}
		if text := string(r.call(351, map[string]string{"topic": "a3"}, nil).Body); !strings.Contains(text, `"readQueueNums":7`) {
			t.Errorf("the later of two settings counts: %s", text)
		}
		if text := string(r.call(201, nil, nil).Body); !strings.Contains(text, `"retryMaxTimes":9`) || strings.Contains(text, `"retryMaxTimes":8`) {
			t.Errorf("the later of two settings counts: %s", text)
		}
		for name, want := range map[string]int{"g1": 0, "g2": 0, "g3": 26} {
			if resp := r.call(352, map[string]string{"group": name}, nil); resp.Code != want {
				t.Errorf("group %s: %d %s", name, resp.Code, resp.Remark)
			}
		}
		modes := string(r.call(402, nil, nil).Body)
		if !strings.Contains(modes, `"a1":{"g1":{"topic":"a1","consumerGroup":"g1","mode":"POP","popShareQueueNum":2}}`) {
			t.Errorf("modes: %s", modes)
		}
	})
}

// TestListsAreOneChange: a list is one change of its table, so that the table is
// written once; one that changes nothing is none.
func TestListsAreOneChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, goldenOptions)
		counter := func(code int) (n int64) {
			var b struct {
				Version struct {
					Counter int64 `json:"counter"`
				} `json:"dataVersion"`
			}
			if err := json.Unmarshal(r.call(code, nil, nil).Body, &b); err != nil {
				t.Fatal(err)
			}
			return b.Version.Counter
		}
		cases := []struct {
			code, table int
			body        string
			steps       int64
		}{
			{18, 21, `{"topicConfigList":[{"topicName":"a1"},{"topicName":"a2"},{"topicName":"a3"}]}`, 1},
			{18, 21, `{"topicConfigList":[{"topicName":"a1"},{"topicName":"a2"},{"topicName":"a3"}]}`, 0},
			{225, 201, `{"groupConfigList":[{"groupName":"g1"},{"groupName":"g2"},{"groupName":"g3"}]}`, 1},
			{225, 201, `{"groupConfigList":[{"groupName":"g1"},{"groupName":"g2","retryMaxTimes":1}]}`, 1},
			{225, 201, `{"groupConfigList":[{"groupName":"g2","retryMaxTimes":1}]}`, 0},
		}
		for _, c := range cases {
			before := counter(c.table)
			if resp := r.call(c.code, nil, []byte(c.body)); resp.Code != 0 {
				t.Fatalf("%s: %d %s", c.body, resp.Code, resp.Remark)
			}
			if n := counter(c.table) - before; n != c.steps {
				t.Errorf("%s: %d steps of the table's version, want %d", c.body, n, c.steps)
			}
		}
	})
}
