//go:build java

package compat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// facts are what a cluster of the original is like, read by requests of our own:
// "topic Table" and what it is. The first word is the kind.
type facts map[string]string

// state reads all that commands may change.
func (s side) state(t *testing.T) facts {
	t.Helper()
	f := facts{}
	s.tables(t, f)
	s.texts(t, f)
	s.routes(t, f)
	s.access(t, f)
	s.files(t, f)
	for what := range f {
		if strings.Contains(what, "TOOLS_CONSUMER") {
			delete(f, what) // mqadmin's own client makes it to look with
		}
	}
	return f
}

func (s side) must(t *testing.T, addr string, code int, ext map[string]string) *answer {
	t.Helper()
	w, err := dialWire(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer w.c.Close()
	a, err := w.call(code, ext, nil)
	if err != nil {
		t.Fatalf("request %d to %s: %v", code, addr, err)
	}
	return a
}

// tables are the ones that brokers keep as JSON.
func (s side) tables(t *testing.T, f facts) {
	t.Helper()
	for _, r := range []struct {
		code        int
		field, kind string
	}{
		{21, "topicConfigTable", "topic"}, {21, "topicQueueMappingDetailMap", "mapping"},
		{201, "subscriptionGroupTable", "group"}, {43, "offsetTable", "offset"}, {402, "messageRequestModeMap", "mode"},
	} {
		a := s.must(t, s.addr, r.code, nil)
		var body map[string]json.RawMessage
		if a.Code != 0 || decode(a.Body, &body) != nil {
			t.Fatalf("request %d: code %d %s %s", r.code, a.Code, a.Remark, a.Body)
		}
		var table map[string]any
		if err := decode(body[r.field], &table); err != nil && len(body[r.field]) > 0 {
			t.Fatalf("request %d: %s: %v\n%s", r.code, r.field, err, a.Body)
		}
		for name, v := range table {
			text, err := json.Marshal(v) // keys in order
			if err != nil {
				t.Fatal(err)
			}
			f[r.kind+" "+name] = string(text)
			if r.kind == "topic" && !strings.HasPrefix(name, "rmq_sys_") {
				f["messages "+name] = s.messages(t, name)
			}
		}
	}
}

// decode reads JSON in which whole numbers stay whole.
func decode(text []byte, v any) error {
	if len(text) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(wholeKeys.ReplaceAll(text, []byte(`$1"$2":`))))
	d.UseNumber()
	return d.Decode(v)
}

// wholeKeys are the original's keys without quotes: {0:5}.
var wholeKeys = regexp.MustCompile(`([{,]\s*)(\d+)\s*:`)

// messages is how many a topic has ever had: which of its queues took them is chance.
func (s side) messages(t *testing.T, topic string) string {
	t.Helper()
	a := s.must(t, s.addr, 202, map[string]string{"topic": topic})
	sum := int64(0)
	for _, m := range maxOffset.FindAllSubmatch(a.Body, -1) {
		n, err := strconv.ParseInt(string(m[1]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return strconv.FormatInt(sum, 10)
}

var maxOffset = regexp.MustCompile(`"maxOffset":(\d+)`)

// texts are the settings of the servers, and the nameserver's keys.
func (s side) texts(t *testing.T, f facts) {
	t.Helper()
	for _, r := range []struct {
		addr, kind string
		code       int
	}{{s.addr, "setting", 26}, {s.namesrv, "nameserver", 319}, {s.controller, "controller", 1010}, {s.addr, "cold", 2003}} {
		a := s.must(t, r.addr, r.code, nil)
		if a.Code != 0 {
			t.Fatalf("request %d: code %d %s", r.code, a.Code, a.Remark)
		}
		if r.kind == "cold" {
			f["cold"] = string(a.Body)
			continue
		}
		for line := range strings.Lines(string(a.Body)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				f[r.kind+" "+key] = value
			}
		}
	}
	for _, space := range []string{"TABLE", "ORDER_TOPIC_CONFIG"} {
		if a := s.must(t, s.namesrv, 219, map[string]string{"namespace": space}); a.Code == 0 {
			for key, value := range a.table() {
				f["kv "+space+" "+key] = value
			}
		}
	}
}

// routes are what the nameserver tells about topics.
func (s side) routes(t *testing.T, f facts) {
	t.Helper()
	a := s.must(t, s.namesrv, 206, nil)
	var list struct{ TopicList []string }
	if err := json.Unmarshal(a.Body, &list); err != nil {
		t.Fatal(err)
	}
	for _, topic := range list.TopicList {
		if a := s.must(t, s.namesrv, 105, map[string]string{"topic": topic}); a.Code == 0 {
			f["route "+topic] = string(a.Body)
		}
	}
}

// access are users and their rules.
func (s side) access(t *testing.T, f facts) {
	t.Helper()
	for code, kind := range map[int]string{3005: "user", 3010: "rule"} {
		a := s.must(t, s.addr, code, map[string]string{})
		var list []map[string]any
		if len(a.Body) > 0 && json.Unmarshal(a.Body, &list) != nil {
			t.Fatalf("request %d: %s", code, a.Body)
		}
		for _, it := range list {
			name, _ := it["username"].(string)
			if name == "" {
				name, _ = it["subject"].(string)
			}
			text, err := json.Marshal(it)
			if err != nil {
				t.Fatal(err)
			}
			f[kind+" "+name] = string(text)
		}
	}
}

// files are what exports wrote.
func (s side) files(t *testing.T, f facts) {
	t.Helper()
	for _, pattern := range []string{"*.json", "*/*.json"} {
		names, err := filepath.Glob(filepath.Join(s.dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var v any
			if err := decode(b, &v); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, b)
			}
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "metrics.json") {
				text = numbers.ReplaceAll(text, []byte("#")) // of the moment: what there is, not how much
			}
			f["file "+strings.TrimPrefix(name, s.dir+"/")] = string(text)
		}
	}
}

var numbers = regexp.MustCompile(`\b\d+(\.\d+)?\b`)

// change is what differs between two states, in words that fit both clusters.
func (s side) change(before, after facts) facts {
	out := facts{}
	for what, now := range after {
		if was, had := before[what]; !had || was != now {
			out[what] = s.neutral(now)
			if n, err := strconv.Atoi(now); err == nil && strings.HasPrefix(what, "messages ") {
				m, _ := strconv.Atoi(was) // none before
				out[what] = fmt.Sprintf("%+d", n-m)
			}
		}
	}
	for what := range before {
		if _, has := after[what]; !has {
			out[what] = "gone"
		}
	}
	return out
}

// moments are times and what is made of them: they are no two times the same.
var moments = regexp.MustCompile(`\b(1[6-9]\d{11}|20\d\d-\d\d-\d\d[ #T]?\d\d:\d\d:\d\d[:.,]?\d*)\b`)

// neutral takes out of a text what belongs to one cluster only.
func (s side) neutral(text string) string {
	return moments.ReplaceAllString(s.names.Replace(text), "TIME")
}

// kinds are the first words of facts, in order.
func (f facts) kinds() []string {
	seen := map[string]bool{}
	for what := range f {
		kind, _, _ := strings.Cut(what, " ")
		seen[kind] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// tellsFrom says which facts differ.
func (f facts) tellsFrom(g facts) []string {
	var out []string
	for what := range f {
		if g[what] != f[what] {
			out = append(out, fmt.Sprintf("%s: mqctl made it %q, mqadmin %q", what, f[what], g[what]))
		}
	}
	for what := range g {
		if _, has := f[what]; !has {
			out = append(out, fmt.Sprintf("%s: mqctl left it, mqadmin made it %q", what, g[what]))
		}
	}
	slices.Sort(out)
	return out
}

const (
	settle = 15 * time.Second // for an effect that is asked for to come on both sides
	linger = 5 * time.Second  // for one that is not
)

// effects waits until both clusters have changed alike, and says how they did.
func effects(t *testing.T, mqctls, mqadmins side, before [2]facts, want []string) (changed facts, differs []string) {
	t.Helper()
	wait := settle
	if len(want) == 0 {
		wait = linger
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		a, b := mqctls.change(before[0], mqctls.state(t)), mqadmins.change(before[1], mqadmins.state(t))
		differs = a.tellsFrom(b)
		if len(differs) == 0 && hasAll(a.kinds(), want) || time.Since(begun) > wait {
			return a, differs
		}
	}
}

func hasAll(have, want []string) bool {
	for _, w := range want {
		if !slices.Contains(have, w) {
			return false
		}
	}
	return true
}

// changes are the kinds of facts that a name must change, or nothing was compared.
var changes = map[string][]string{
	"updateTopic": {"topic", "route"}, "updateTopicList": {"topic", "route"}, "deleteTopic": {"topic", "route"}, "updateTopicPerm": {"topic", "route"},
	"updateOrderConf": {"kv", "topic"}, "updateStaticTopic": {"mapping", "topic"},
	"updateSubGroup": {"group"}, "updateSubGroupList": {"group"}, "deleteSubGroup": {"group"}, "setConsumeMode": {"mode"},
	"resetOffsetByTime": {"offset"}, "resetOffsetByTimeOld": {"offset"}, "skipAccumulatedMessage": {"offset"}, "cloneGroupOffset": {"offset"},
	"updateBrokerConfig": {"setting"}, "wipeWritePerm": {"route"}, "addWritePerm": {"route"},
	"updateColdDataFlowCtrGroupConfig": {"cold"}, "removeColdDataFlowCtrGroupConfig": {"cold"},
	"sendMessage": {"messages"}, "sendMsgStatus": {"messages"}, "checkMsgSendRT": {"messages"},
	"exportMetrics": {"file"}, "exportMetadata": {"file"}, "exportConfigs": {"file"},
	"updateKvConfig": {"kv"}, "deleteKvConfig": {"kv"}, "updateNamesrvConfig": {"nameserver"}, "updateControllerConfig": {"controller"},
	"createUser": {"user"}, "updateUser": {"user"}, "deleteUser": {"user"}, "createAcl": {"rule"}, "updateAcl": {"rule"}, "deleteAcl": {"rule"},
}

// apart are differences between the two tools on the original that are known: the
// facts that differ, or none where only the ends do, and why.
var apart = map[string]struct {
	facts []string
	why   string
}{
	"remappingStaticTopic":    {[]string{"mapping Static", "route Static"}, "nothing had to move: mqctl writes nothing, mqadmin the same places with a new epoch"},
	"cloneGroupOffset":        {[]string{"offset %RETRY%held@table"}, "mqadmin also stores an offset in the source's retry topic, which the other group never reads"},
	"sendMsgStatus":           {[]string{"messages apache"}, "mqadmin sends one message more, before it counts"},
	"getSyncStateSet":         {nil, "the controller knows no such broker: mqctl says so, mqadmin prints nothing"},
	"resetMasterFlushOffset":  {nil, "on a master it does nothing: mqctl says so, mqadmin that it was done"},
	"exportMetadataInRocksDB": {nil, "mqctl reads no RocksDB folders; mqadmin finds none there and says so"},
}

// sayings are known differences between what the two print, and why.
var sayings = map[string]string{
	"DecodeMessageId":        "mqctl prints two lines, mqadmin one",
	"getColdDataFlowCtrInfo": "the same JSON with other blanks",
	"printMsg":               "the properties of a message in another order, without the two that the original's client adds",
	"consumeMessage":         "the properties of a message in another order, without the two that the original's client adds",
	"rocksDBConfigToJson":    "mqadmin says first what it is going to do",
	"updateTopicPerm":        "mqctl prints the topic's configuration too",
	"getUser":                "mqctl hides the password", "listUser": "mqctl hides the password",
	"exportPopRecord":      "mqctl takes -d true for a dry run and shows a plan, mqadmin goes on with dryRun=false",
	"remappingStaticTopic": "mqctl writes no files when nothing moves",
	"queryMsgById":         "mqctl prints the body, mqadmin the path of a file with it",
	"queryMsgByUniqueKey":  "mqctl prints the body, mqadmin the path of a file with it",
	"queryMsgByOffset":     "mqctl prints the body, mqadmin the path of a file with it",
}

// comparedEffects says what the two tools changed; a difference that is not known fails.
func comparedEffects(t *testing.T, line, name string, changed facts, differs []string) string {
	t.Helper()
	kinds := changed.kinds()
	if !hasAll(kinds, changes[name]) {
		t.Errorf("%s: mqctl changed %v, it must change %v", line, kinds, changes[name])
	}
	known := apart[name]
	if len(known.facts) > 0 && len(differs) == 0 {
		t.Errorf("%s: the difference that is listed is none any more", line)
	}
	for _, d := range differs {
		what, _, _ := strings.Cut(d, ": ")
		if !slices.Contains(known.facts, what) {
			t.Errorf("%s: %s", line, d)
		}
	}
	switch {
	case len(differs) > 0 && known.facts != nil:
		return "effects differ: " + known.why
	case len(differs) > 0:
		return "effects differ"
	case len(kinds) > 0:
		return "equal effect: " + strings.Join(kinds, ", ")
	}
	return ""
}

// comparedEnds says how what the two printed compares.
func comparedEnds(t *testing.T, r *nameRow, name string, ours, theirs []string) string {
	t.Helper()
	good, theirsGood := r.oursThere == "success", r.onApache == "success"
	switch {
	case good != theirsGood:
		if apart[name].why == "" {
			t.Errorf("%s: mqctl ends with %s, mqadmin with %s", r.line, r.oursThere, r.onApache)
			return "ends differ"
		}
		return "ends differ: " + apart[name].why
	case !good:
		return "neither succeeds"
	case slices.Equal(ours, theirs):
		return "same answer"
	case sayings[name] != "":
		return "answers differ: " + sayings[name]
	case slices.Equal(withoutNumbers(ours), withoutNumbers(theirs)):
		return "same answer but for numbers"
	}
	t.Logf("%s: answers differ\n%s\n--\n%s", r.line, strings.Join(ours, "\n"), strings.Join(theirs, "\n"))
	return "answers differ in form"
}

var (
	changing = regexp.MustCompile(`\b[0-9A-F]{32}\b|127\.0\.0\.1:\d+|@h[cp]\d+|\d+\.\d+|\d+ms`)
	folders  = regexp.MustCompile(`(?:/[\w.+-]+)+/`)
	digits   = regexp.MustCompile(`\d+`)
)

// plain are the lines of an answer in order, without what differs from moment to
// moment and from cluster to cluster; JSON is written in one way.
func (s side) plain(text string) []string {
	var v any
	if body := strings.TrimSpace(text); strings.HasPrefix(body, "{") && decode([]byte(body), &v) == nil {
		if b, err := json.Marshal(v); err == nil {
			text = string(b)
		}
	}
	text = changing.ReplaceAllString(folders.ReplaceAllString(s.neutral(text), ""), "#")
	var out []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 0 && !strings.Contains(line, " |-") { // the original's library of logs says how it starts
			out = append(out, strings.Join(words, " "))
		}
	}
	slices.Sort(out)
	return out
}

func withoutNumbers(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = digits.ReplaceAllString(l, "#")
	}
	slices.Sort(out)
	return slices.Compact(out)
}
