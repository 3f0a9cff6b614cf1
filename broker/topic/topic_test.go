package topic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mqctl/broker/topic"
	"mqctl/store/vfs"
)

const dir = "/root/config"

func options(fsys vfs.FS) topic.Options {
	now := int64(1_700_000_000_000)
	var mu sync.Mutex
	return topic.Options{
		FS: fsys, Dir: dir, Cluster: "golden", Broker: "broker-a",
		AutoCreate: func() bool { return true },
		NowMillis: func() int64 {
			mu.Lock()
			defer mu.Unlock()
			now++
			return now
		},
	}
}

func load(t testing.TB, o topic.Options) *topic.Table {
	t.Helper()
	table, err := topic.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func golden(t testing.TB, fsys vfs.FS, names ...string) {
	t.Helper()
	if err := vfs.MkdirAllSync(fsys, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join("../../testdata/config", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFile(fsys, dir+"/"+name, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
}

func TestCheckName(t *testing.T) {
	blank := "The specified topic is blank."
	illegal := "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
	long := "The specified topic is longer than topic max length."
	for _, c := range []struct{ name, want string }{
		{"orders", ""}, {"%RETRY%g", ""}, {"a|b-c_D9", ""}, {"%LMQ%x", ""},
		{"", blank}, {"  \t", blank},
		{"Bad Topic!", illegal}, {"..", illegal}, {"a/b", illegal}, {"é", illegal}, {"a.b", illegal}, {"a\x00", illegal},
		{strings.Repeat("T", 127), ""}, {strings.Repeat("T", 128), long}, {strings.Repeat("T", 140), long},
		{"%RETRY%" + strings.Repeat("g", 248), ""}, {"%RETRY%" + strings.Repeat("g", 249), long},
		{"%DLQ%" + strings.Repeat("g", 250), ""}, {"%DLQ%" + strings.Repeat("g", 251), long},
	} {
		err := topic.CheckName(c.name)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("CheckName(%q) = %q, want %q", c.name, got, c.want)
		}
		if (topic.CheckName([]byte(c.name)) == nil) != (err == nil) {
			t.Errorf("CheckName of the bytes of %q differs", c.name)
		}
	}
}

func TestNotSendable(t *testing.T) {
	for name, want := range map[string]bool{
		"SCHEDULE_TOPIC_XXXX": true, "RMQ_SYS_TRANS_HALF_TOPIC": true, "RMQ_SYS_TRANS_OP_HALF_TOPIC": true,
		"TRANS_CHECK_MAX_TIME_TOPIC": true, "SELF_TEST_TOPIC": true, "OFFSET_MOVED_EVENT": true,
		"TBW102": false, "BenchmarkTest": false, "RMQ_SYS_TRACE_TOPIC": false, "rmq_sys_x": false, "orders": false,
	} {
		if got := topic.NotSendable([]byte(name)); got != want {
			t.Errorf("NotSendable(%s) = %v", name, got)
		}
	}
}

func TestSystemTopicsOfAnEmptyStore(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.TraceTopic, o.TimerTopic = true, true
	table := load(t, o)
	want := map[string]string{
		"SELF_TEST_TOPIC": "6 1", "TBW102": "7 8", "BenchmarkTest": "6 1024", "golden": "7 16", "broker-a": "7 1",
		"OFFSET_MOVED_EVENT": "6 1", "SCHEDULE_TOPIC_XXXX": "6 18", "golden_REPLY_TOPIC": "6 1",
		"rmq_sys_REVIVE_LOG_golden": "6 8", "rmq_sys_SYNC_BROKER_MEMBER_broker-a": "1 1",
		"RMQ_SYS_TRANS_HALF_TOPIC": "6 1", "RMQ_SYS_TRANS_OP_HALF_TOPIC": "6 1", "rmq_sys_wheel_timer": "6 1",
		"RMQ_SYS_TRACE_TOPIC": "6 1",
	}
	all, version := table.All()
	if len(all) != len(want) || version.Counter != 1 {
		t.Errorf("%d topics, want %d; version %+v", len(all), len(want), version)
	}
	for name, text := range want {
		c := table.Get(name)
		if c == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if got := fmt.Sprintf("%d %d", c.Perm, c.ReadQueueNums); got != text || c.ReadQueueNums != c.WriteQueueNums {
			t.Errorf("%s: perm and queues %s, want %s", name, got, text)
		}
		if !table.IsSystem(name) || !slices.Contains(table.SystemNames(), name) {
			t.Errorf("%s does not count as a system topic", name)
		}
		var rule *topic.RuleError
		if err := table.CheckUser(name); !errors.As(err, &rule) || rule.Code != 29 ||
			rule.Text != "The topic["+name+"] is conflict with system topic." {
			t.Errorf("CheckUser(%s) = %v", name, err)
		}
	}
	if err := table.CheckUser("orders"); err != nil {
		t.Error(err)
	}
	if entries, err := mem.ReadDir("/"); err != nil || len(entries) != 0 {
		t.Errorf("Load wrote to disk: %v %v", entries, err)
	}
	o.AutoCreate = func() bool { return false }
	if load(t, o).Get(topic.AutoCreate) != nil {
		t.Error("the template exists although topics are not created automatically")
	}
}

func TestLoadGolden(t *testing.T) {
	mem := vfs.NewMem()
	golden(t, mem, "topics.json")
	table := load(t, options(mem))
	ledger := table.Get("ledger")
	if ledger == nil || ledger.ReadQueueNums != 3 || ledger.Attributes["message.type"] != "FIFO" ||
		ledger.Attributes["cleanup.policy"] != "DELETE" || ledger.MessageType() != "FIFO" {
		t.Fatalf("ledger: %+v", ledger)
	}
	if c := table.Get("archive"); c == nil || c.Perm != 4 || c.MessageType() != "NORMAL" {
		t.Errorf("archive: %+v", c)
	}
	if table.Get("TBW102") == nil {
		t.Error("the template was not added")
	}
	_, version := table.All()
	if version.Counter != 12 || version.Timestamp <= 1_700_000_000_000 {
		t.Errorf("version %+v: the template that was added must step 11 to 12", version)
	}
	// The file with all its topics comes back after a change.
	if _, err := table.Put(topic.Defaults("new")); err != nil {
		t.Fatal(err)
	}
	again := load(t, options(mem))
	before, _ := table.All()
	after, v2 := again.All()
	if len(before) != len(after) || v2.Counter != 13 {
		t.Errorf("%d topics became %d; version %+v", len(before), len(after), v2)
	}
	for name, c := range before {
		if got := after[name]; got == nil || !got.Equal(*c) {
			t.Errorf("%s was %v, is %v", name, c, got)
		}
	}
}

// The file has the form in which the original writes it: same members, same
// order within an object, tabs, no blank behind a colon.
func TestFileForm(t *testing.T) {
	mem := vfs.NewMem()
	golden(t, mem, "topics.json")
	o := options(mem)
	o.AutoCreate = func() bool { return false }
	table := load(t, o)
	if _, err := table.Put(topic.Defaults("zz")); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Delete("zz"); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(mem, dir+"/topics.json", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../testdata/config/topics.json")
	if err != nil {
		t.Fatal(err)
	}
	// The members of a map lie in hash order in the original's file.
	orig := strings.Replace(string(want), "\"message.type\":\"FIFO\",\n\t\t\t\t\"cleanup.policy\":\"DELETE\"",
		"\"cleanup.policy\":\"DELETE\",\n\t\t\t\t\"message.type\":\"FIFO\"", 1)
	if got, want := blocks(t, string(b)), blocks(t, orig); !slices.Equal(got, want) {
		t.Errorf("the file differs from the original's:\n%s\n--- want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// blocks cuts a topics.json into its topics, sorted, without the version.
func blocks(t *testing.T, text string) []string {
	t.Helper()
	_, text, ok := strings.Cut(text, "\t\"topicConfigTable\":{\n")
	if !ok {
		t.Fatalf("no topic table in %s", text)
	}
	text, ok = strings.CutSuffix(text, "\n\t}\n}")
	if !ok {
		t.Fatalf("unexpected end of %s", text)
	}
	list := strings.Split(text, "\n\t\t}")
	for i := range list {
		list[i] = strings.TrimPrefix(list[i], ",")
		list[i] = strings.TrimPrefix(list[i], "\n")
	}
	slices.Sort(list)
	return list
}

func TestLoadBadNamesAndNumbers(t *testing.T) {
	mem := vfs.NewMem()
	if err := vfs.MkdirAllSync(mem, dir); err != nil {
		t.Fatal(err)
	}
	text := `{"dataVersion":{"counter":3},"topicConfigTable":{
		"../../etc":{"perm":6},"ok":{"topicName":"other","readQueueNums":-4,"writeQueueNums":2000000000,"attributes":null,"future":[1]},"defaults":{}}}`
	if err := vfs.WriteFile(mem, dir+"/topics.json", []byte(text)); err != nil {
		t.Fatal(err)
	}
	table := load(t, options(mem))
	if got := table.Refused(); !slices.Equal(got, []string{"../../etc"}) {
		t.Errorf("refused %v", got)
	}
	if table.Get("../../etc") != nil {
		t.Error("a name that leaves the folder was accepted")
	}
	c := table.Get("ok")
	if c.TopicName != "ok" || c.ReadQueueNums != 0 || c.WriteQueueNums != topic.MaxQueues || c.Attributes == nil || c.Perm != 6 {
		t.Errorf("ok: %+v", c)
	}
	if c := table.Get("defaults"); c.ReadQueueNums != 16 || c.TopicFilterType != topic.SingleTag {
		t.Errorf("defaults: %+v", c)
	}
}

func TestPut(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	var told []string
	o.Changed = func(names []string) { told = append(told, names...) }
	table := load(t, o)
	_, v0 := table.All()
	c := topic.Defaults("orders")
	for i, want := range []bool{true, false} {
		if changed, err := table.Put(c); err != nil || changed != want {
			t.Fatalf("put %d: %v %v", i, changed, err)
		}
	}
	c.WriteQueueNums = 2
	if changed, err := table.Put(c); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if gone, err := table.Delete("orders"); err != nil || !gone {
		t.Fatal(gone, err)
	}
	if gone, err := table.Delete("orders"); err != nil || gone {
		t.Fatal(gone, err)
	}
	if _, v := table.All(); v.Counter != v0.Counter+3 || v.Timestamp <= v0.Timestamp {
		t.Errorf("three changes: version %+v, was %+v", v, v0)
	}
	if want := []string{"orders", "orders", "orders"}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
}

func TestPutRefused(t *testing.T) {
	table := load(t, options(vfs.NewMem()))
	for _, c := range []struct {
		name string
		code int
		edit func(c *topic.Config)
	}{
		{"negative queues", 29, func(c *topic.Config) { c.ReadQueueNums = -1 }},
		{"many queues", 29, func(c *topic.Config) { c.WriteQueueNums = topic.MaxQueues + 1 }},
		{"perm", 29, func(c *topic.Config) { c.Perm = 8 }},
		{"negative perm", 29, func(c *topic.Config) { c.Perm = -1 }},
		{"filter type", 29, func(c *topic.Config) { c.TopicFilterType = "NONE" }},
		{"name", 29, func(c *topic.Config) { c.TopicName = "a/b" }},
		{"attribute", 1, func(c *topic.Config) { c.Attributes = map[string]string{"color": "red"} }},
	} {
		cfg := topic.Defaults("orders")
		c.edit(&cfg)
		_, err := table.Put(cfg)
		var rule *topic.RuleError
		if !errors.As(err, &rule) || rule.Code != c.code {
			t.Errorf("%s: %v, want code %d", c.name, err, c.code)
		}
		if table.Get(cfg.TopicName) != nil {
			t.Errorf("%s: the topic was made", c.name)
		}
	}
}

func TestAutoCreateFrom(t *testing.T) {
	auto := true
	o := options(vfs.NewMem())
	o.AutoCreate = func() bool { return auto }
	table := load(t, o)
	plain := topic.Defaults("plain")
	template := topic.Defaults("template")
	template.Perm, template.WriteQueueNums, template.ReadQueueNums, template.TopicFilterType = 7, 3, 3, topic.MultiTag
	for _, c := range []topic.Config{plain, template} {
		if _, err := table.Put(c); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, template string
		auto           bool
		queues         int32
		want           string // perm, read, write, filter; empty: refused
	}{
		{"a", "TBW102", true, 4, "6 4 4 SINGLE_TAG"},
		{"b", "TBW102", true, 100, "6 8 8 SINGLE_TAG"},
		{"c", "TBW102", true, -3, "6 0 0 SINGLE_TAG"},
		{"d", "TBW102", false, 4, ""},
		{"e", "missing", true, 4, ""},
		{"f", "", true, 4, ""},
		{"g", "plain", true, 4, ""},
		{"h", "template", true, 9, "6 3 3 MULTI_TAG"},
		{"i", "template", false, 2, "6 2 2 MULTI_TAG"},
		{"plain", "missing", true, 1, "6 16 16 SINGLE_TAG"},
		{"%RETRY%g", "missing", false, 4, "6 1 1 SINGLE_TAG"},
	} {
		auto = c.auto
		got, err := table.AutoCreateFrom(c.name, c.template, c.queues, 5)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		text := ""
		if got != nil {
			text = fmt.Sprintf("%d %d %d %s", got.Perm, got.ReadQueueNums, got.WriteQueueNums, got.TopicFilterType)
			if c.name != "plain" && got.TopicSysFlag != 5 {
				t.Errorf("%s: sysFlag %d", c.name, got.TopicSysFlag)
			}
			if table.Get(c.name) != got {
				t.Errorf("%s: the table holds another config than was returned", c.name)
			}
		}
		if text != c.want {
			t.Errorf("%s from %q: %q, want %q", c.name, c.template, text, c.want)
		}
	}
	if _, err := table.AutoCreateFrom("../x", "TBW102", 4, 0); err == nil {
		t.Error("an illegal name was created")
	}
}

func TestEnsureSystemAfterAutoCreateIsTurnedOn(t *testing.T) {
	auto := false
	o := options(vfs.NewMem())
	o.AutoCreate = func() bool { return auto }
	table := load(t, o)
	auto = true
	if err := table.EnsureSystem(); err != nil {
		t.Fatal(err)
	}
	if c := table.Get(topic.AutoCreate); c == nil || c.Perm != 7 {
		t.Errorf("template %+v", c)
	}
}

func TestReadsDoNotAllocate(t *testing.T) {
	table := load(t, options(vfs.NewMem()))
	name := []byte("BenchmarkTest")
	if n := testing.AllocsPerRun(100, func() {
		if table.GetBytes(name) == nil || topic.NotSendable(name) || topic.CheckName(name) != nil {
			t.Fatal("lookup failed")
		}
	}); n != 0 {
		t.Errorf("%v allocations a lookup", n)
	}
}

func TestJSON(t *testing.T) {
	table := load(t, options(vfs.NewMem()))
	if _, err := table.PutWithAttributes(topic.Defaults("orders"), "+message.type=FIFO"); err != nil {
		t.Fatal(err)
	}
	body := table.JSON()
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dataVersion", "mappingDataVersion", "topicConfigTable", "topicQueueMappingDetailMap", "topicQueueMappingInfoMap"} {
		if doc[name] == nil {
			t.Errorf("%s is missing in %s", name, body)
		}
	}
	if want := `"orders":{"attributes":{"message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":16,"topicFilterType":"SINGLE_TAG","topicName":"orders","topicSysFlag":0,"writeQueueNums":16}`; !strings.Contains(string(body), want) {
		t.Errorf("%s\nlacks %s", body, want)
	}
	if &table.JSON()[0] != &body[0] {
		t.Error("the same version was encoded twice")
	}
}

func TestString(t *testing.T) {
	c := topic.Defaults("GoldenTopic")
	c.ReadQueueNums, c.WriteQueueNums = 4, 4
	want := "TopicConfig [topicName=GoldenTopic, readQueueNums=4, writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={}]"
	if got := c.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	c.Attributes = map[string]string{"message.type": "FIFO", "cleanup.policy": "DELETE"}
	if got := c.String(); !strings.HasSuffix(got, "attributes={cleanup.policy=DELETE, message.type=FIFO}]") {
		t.Errorf("got %s", got)
	}
}

func FuzzLoad(f *testing.F) {
	b, err := os.ReadFile("../../testdata/config/topics.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"topicConfigTable":{"a":null,"b":{"perm":1e99}}}`))
	f.Add([]byte(`{"topicConfigTable":{{"x":1}:{},3:{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := vfs.NewMem()
		if err := vfs.MkdirAllSync(mem, dir); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFile(mem, dir+"/topics.json", b); err != nil {
			t.Fatal(err)
		}
		table, err := topic.Load(options(mem))
		if err != nil {
			return
		}
		// What was accepted can be written and read again.
		if _, err := table.Put(topic.Defaults("fuzz-new")); err != nil {
			t.Fatal(err)
		}
		again, err := topic.Load(options(mem))
		if err != nil {
			t.Fatalf("%v after saving %q", err, b)
		}
		all, _ := table.All()
		for name, c := range all {
			if topic.CheckName(name) != nil && !table.IsSystem(name) {
				t.Fatalf("name %q was accepted", name)
			}
			if got := again.Get(name); got == nil || !got.Equal(*c) {
				t.Fatalf("%q: %v became %v", name, c, got)
			}
		}
	})
}

func BenchmarkGetBytes(b *testing.B) {
	table := load(b, options(vfs.NewMem()))
	name := []byte("BenchmarkTest")
	for b.Loop() {
		if table.GetBytes(name) == nil {
			b.Fatal("missing")
		}
	}
}
