package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"mqctl/store/fastjson"
	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// departures are recorded requests that this broker answers otherwise on
// purpose: by request code and a part of the request, with our code.
var departures = []struct {
	code int
	part string
	want int
	why  string
}{
	{200, "Bad Group!", 29, "names of groups are checked"},
	{352, "CG_brand_new", 26, "asking for a group does not make it"},
	{25, "noSuchKey", 29, "unknown keys are refused"},
	{37, "", 3, "transactions are not built yet"},
	{43, "", 0, "groupTopicMap says nothing that offsetTable does not"},
	{21, "topicSeq", 0, "parts are answered as later versions do"}, {201, "groupSeq", 0, "parts are answered as later versions do"},
	{1007, "", 3, "not served yet"},
}

// byName are members of bodies whose keys are names of topics and the like, not
// properties: one entry is compared instead of all.
var byName = []string{"topicConfigTable", "subscriptionGroupTable", "offsetTable", "subscriptionTable", "data", "groupTopicMap", "consumeStatsList", "attributes", "timingCount", "messageRequestModeMap"}

// TestRecordedAdminRequests sends what mqadmin and others sent to RocketMQ 5.3.3
// and compares the answers: code, remark, names of ext fields, and the names
// and types of everything in the body.
func TestRecordedAdminRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fs := vfs.NewMem()
		r := start(t, fs, withSettings(t, fs), goldenOptions)
		prepareGolden(r)
		seen := map[int]int{}
		for _, name := range []string{
			"admin-updateTopic", "admin-updateTopic-attributes", "admin-updateTopic-illegal", "admin-topicStatus", "admin-topicList-c",
			"admin-updateBrokerConfig", "admin-updateBrokerConfig-denied",
			"admin-updateSubGroup", "admin-updateSubGroup-slow", "admin-updateSubGroup-cluster", "admin-getConsumerConfig",
			"admin-consumerProgress", "admin-consumerProgress-group", "admin-consumerConnection", "admin-producer", "admin-producerConnection",
			"admin-haStatus", "admin-queryMsgByKey-none", "admin-queryCq", "admin-statsAll", "admin-tables", "admin-codes",
			"admin-brokerConsumeStats", "slave-tables", "admin-deleteSubGroup", "admin-deleteSubGroup-clean", "admin-deleteTopic",
		} {
			frames := recording(t, name)
			for i, q := range frames {
				if q.From != "client" || q.Via != "client-broker" {
					continue
				}
				for _, a := range frames[i+1:] {
					if a.From == "server" && a.Conn == q.Conn && a.Header.Opaque == q.Header.Opaque {
						seen[q.Header.Code]++
						compareAnswer(t, r, name, q, a)
						break
					}
				}
			}
		}
		for _, code := range []int{17, 21, 25, 33, 200, 201, 202, 203, 204, 207, 208, 215, 300, 303, 305, 307, 315, 317, 321, 328, 343, 345, 351, 352, 353, 907, 12, 43, 45} {
			if seen[code] == 0 {
				t.Errorf("no recorded request of code %d was replayed", code)
			}
		}
	})
}

// prepareGolden makes what the recorded requests talk about.
func prepareGolden(r *rig) {
	r.t.Helper()
	for name, queues := range map[string]int32{"GoldenTopic": 4, "GoldenRetry": 1, "GoldenPop": 4, "GoldenRequest": 1, "GoldenGo": 4, "%RETRY%CG_pop_GoldenPop": 1} {
		r.createTopic(name, queues)
	}
	groups := []string{"CG_admin", "CG_tag", "CG_orderly", "CG_pullraw", "CG_retry", "CG_admin2", "CG_responder"}
	for _, g := range groups {
		if _, err := r.b.groups.Put(subgroup.Defaults(g)); err != nil {
			r.t.Fatal(err)
		}
	}
	for i := range 20 {
		r.mustSend("GoldenTopic", i%4, fmt.Sprint(i), "TAGS", "TagA")
	}
	r.mustSend("GoldenRequest", 0, "x")
	synctest.Wait()
	for _, g := range groups {
		topic := "GoldenTopic"
		if g == "CG_responder" {
			topic = "GoldenRequest"
		}
		r.call(15, map[string]string{"consumerGroup": g, "topic": topic, "queueId": "0", "commitOffset": "1"}, nil)
		r.pull(g, topic, 0, 1)
	}
	r.heartbeat(r.client, "c", "CG_admin", "CLUSTERING", testSub{"GoldenTopic", "TagA", "", 1})
	r.call(34, nil, []byte(`{"clientID":"p","producerDataSet":[{"groupName":"PG_adminfeeder"}],"consumerDataSet":[]}`))
}

func compareAnswer(t *testing.T, r *rig, name string, q, a recordedFrame) {
	t.Helper()
	body := q.Body
	resp := r.call(q.Header.Code, q.Header.ExtFields, body)
	what := fmt.Sprintf("%s: %d %v %.80s", name, q.Header.Code, q.Header.ExtFields, body)
	for _, d := range departures {
		if d.code == q.Header.Code && strings.Contains(what, d.part) {
			if resp.Code != d.want {
				t.Errorf("%s: code %d, want %d as %s", what, resp.Code, d.want, d.why)
			}
			return
		}
	}
	// Another group is online here than there.
	if resp.Code != a.Header.Code || resp.Remark != a.Header.Remark {
		t.Errorf("%s: answer %d %q, RocketMQ's is %d %q", what, resp.Code, resp.Remark, a.Header.Code, a.Header.Remark)
		return
	}
	if have, want := slices.Sorted(maps.Keys(resp.Ext)), slices.Sorted(maps.Keys(a.Header.ExtFields)); !slices.Equal(have, want) {
		t.Errorf("%s: ext fields %v, RocketMQ's are %v", what, have, want)
	}
	if len(a.Body) == 0 || a.Body[0] != '{' {
		if (len(a.Body) == 0) != (len(resp.Body) == 0) {
			t.Errorf("%s: body of %d bytes, RocketMQ's has %d", what, len(resp.Body), len(a.Body))
		}
		return
	}
	if diff := compareShape("", decodeAny(t, a.Body), decodeAny(t, resp.Body)); diff != "" {
		t.Errorf("%s: body %s\nRocketMQ %.400s\nours     %.400s", what, diff, a.Body, resp.Body)
	}
}

func decodeAny(t *testing.T, b []byte) any {
	t.Helper()
	clean, err := fastjson.Clean(b)
	if err != nil {
		t.Fatalf("%v in %.200s", err, b)
	}
	var v any
	if err := json.Unmarshal(clean, &v); err != nil {
		t.Fatalf("%v in %.200s", err, b)
	}
	return v
}

// compareShape says where ours lacks a property of theirs, has another, or has
// a value of another type; "" if nowhere.
func compareShape(path string, theirs, ours any) string {
	last := path[strings.LastIndexByte(path, '.')+1:]
	switch theirs := theirs.(type) {
	case map[string]any:
		mine, ok := ours.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is no object", path)
		}
		if slices.Contains(byName, last) {
			return compareOne(path, slices.Collect(maps.Values(theirs)), slices.Collect(maps.Values(mine)))
		}
		if have, want := slices.Sorted(maps.Keys(mine)), slices.Sorted(maps.Keys(theirs)); !slices.Equal(have, want) {
			return fmt.Sprintf("%s has properties %v, not %v", path, have, want)
		}
		for k := range theirs {
			if diff := compareShape(path+"."+k, theirs[k], mine[k]); diff != "" {
				return diff
			}
		}
	case []any:
		mine, ok := ours.([]any)
		if !ok {
			return fmt.Sprintf("%s is no list", path)
		}
		if last == "consumeStatsList" {
			return "" // a list of maps by group, compared in TestFigures
		}
		return compareOne(path, theirs, mine)
	default:
		if a, b := fmt.Sprintf("%T", theirs), fmt.Sprintf("%T", ours); a != b {
			return fmt.Sprintf("%s is %s, not %s", path, b, a)
		}
	}
	return ""
}

// compareOne compares an entry of theirs with one of ours, where there are any.
func compareOne(path string, theirs, ours []any) string {
	if len(theirs) == 0 || len(ours) == 0 {
		return ""
	}
	return compareShape(path+"[]", theirs[0], ours[0])
}
