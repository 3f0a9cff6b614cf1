package subgroup_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"mqctl/store/vfs"
	"mqctl/subgroup"
)

const dir = "/root/config"

// clock is a fake clock of milliseconds.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() int64 { return c.ms.Load() }

func groupsOptions(fsys vfs.FS) subgroup.GroupsOptions {
	var c clock
	c.ms.Store(1_700_000_000_000)
	return subgroup.GroupsOptions{
		FS: fsys, Dir: dir,
		AutoCreate: func() bool { return true },
		NowMillis:  func() int64 { return c.ms.Add(1) },
	}
}

func loadGroups(t testing.TB, o subgroup.GroupsOptions) *subgroup.Groups {
	t.Helper()
	g, err := subgroup.LoadGroups(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func writeConfig(t testing.TB, fsys vfs.FS, name, text string) {
	t.Helper()
	if err := vfs.MkdirAllSync(fsys, dir); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(fsys, filepath.Join(dir, name), []byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
}

func golden(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../testdata/config", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"orders": true, "%RETRY%x": true, "a|b": true, strings.Repeat("g", 120): true,
		"": false, "Bad Group!": false, "a/b": false, "..": false, strings.Repeat("g", 121): false, "é": false,
	} {
		err := subgroup.CheckName(name)
		var rule *subgroup.RuleError
		if ok != (err == nil) || (!ok && !errors.As(err, &rule)) {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}

func TestDecodeConfig(t *testing.T) {
	for _, c := range []struct {
		name, text string
		edit       func(c *subgroup.Config)
	}{
		{"defaults", `{"groupName":"g"}`, func(c *subgroup.Config) {}},
		{"unknown fields", `{"groupName":"g","future":{"a":[1,2]},"consumeMessageOrderly":true}`, func(c *subgroup.Config) { c.ConsumeMessageOrderly = true }},
		{"nulls keep defaults", `{"groupName":"g","brokerId":null,"attributes":null,"groupRetryPolicy":null,"consumeEnable":null}`, func(c *subgroup.Config) {}},
		{"in quotes", `{"groupName":"g","brokerId":"3","retryMaxTimes":"7","consumeEnable":"false"}`, func(c *subgroup.Config) {
			c.BrokerID, c.RetryMaxTimes, c.ConsumeEnable = 3, 7, false
		}},
		{"policy", `{"groupName":"g","groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5,"max":9,"multiplier":2}}}`, func(c *subgroup.Config) {
			c.GroupRetryPolicy = subgroup.RetryPolicy{Type: subgroup.ExponentialRetry, ExponentialRetryPolicy: &subgroup.ExponentialRetryPolicy{Initial: 5, Max: 9, Multiplier: 2}}
		}},
		{"policy by number", `{"groupName":"g","groupRetryPolicy":{"type":1,"customizedRetryPolicy":{"next":[1,2]}}}`, func(c *subgroup.Config) {
			c.GroupRetryPolicy = subgroup.RetryPolicy{Type: subgroup.CustomizedRetry, CustomizedRetryPolicy: &subgroup.CustomizedRetryPolicy{Next: []int64{1, 2}}}
		}},
		{"as mqadmin sends it", `{"attributes":{},"brokerId":0,"consumeBroadcastEnable":false,"consumeEnable":true,"consumeFromMinEnable":false,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}`, func(c *subgroup.Config) {
			c.ConsumeBroadcastEnable, c.ConsumeFromMinEnable = false, false
		}},
		{"subscriptions", `{"groupName":"g","subscriptionDataSet":[{"topic":"t","expressionType":"TAG","expression":"*","version":4}]}`, func(c *subgroup.Config) {
			c.SubscriptionDataSet = []subgroup.SimpleSubscription{{Topic: "t", ExpressionType: "TAG", Expression: "*", Version: 4}}
		}},
	} {
		want := subgroup.Defaults("g")
		c.edit(&want)
		got, err := subgroup.DecodeConfig([]byte(c.text))
		if err != nil || !got.Equal(want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, want)
		}
	}
	for _, text := range []string{
		``, `null`, `[]`, `{`, `3`, `{"brokerId":"x"}`, `{"brokerId":1e3}`, `{"retryMaxTimes":3000000000}`,
		`{"consumeEnable":"yes"}`, `{"groupName":3}`, `{"groupRetryPolicy":{"type":"OTHER"}}`, `{"groupRetryPolicy":7}`, `{"attributes":{"a":{}}}`,
	} {
		if c, err := subgroup.DecodeConfig([]byte(text)); err == nil {
			t.Errorf("%s was accepted as %+v", text, c)
		}
	}
}

func TestValidate(t *testing.T) {
	ok := subgroup.Defaults("g")
	ok.RetryQueueNums, ok.RetryMaxTimes = 0, -1
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
	for name, edit := range map[string]func(c *subgroup.Config){
		"brokerId":                     func(c *subgroup.Config) { c.BrokerID = -1 },
		"whichBrokerWhenConsumeSlowly": func(c *subgroup.Config) { c.WhichBrokerWhenConsumeSlowly = -1 },
		"retryQueueNums":               func(c *subgroup.Config) { c.RetryQueueNums = -1 },
		"1024":                         func(c *subgroup.Config) { c.RetryQueueNums = 1025 },
		"retryMaxTimes":                func(c *subgroup.Config) { c.RetryMaxTimes = -2 },
		"consumeTimeoutMinute":         func(c *subgroup.Config) { c.ConsumeTimeoutMinute = -1 },
		"attributes":                   func(c *subgroup.Config) { c.Attributes = map[string]string{"+a": "b"} },
		"groupRetryPolicy":             func(c *subgroup.Config) { c.GroupRetryPolicy.Type = "x" },
		"wait": func(c *subgroup.Config) {
			c.GroupRetryPolicy.CustomizedRetryPolicy = &subgroup.CustomizedRetryPolicy{Next: []int64{-1}}
		},
		"multiplier": func(c *subgroup.Config) {
			c.GroupRetryPolicy.ExponentialRetryPolicy = &subgroup.ExponentialRetryPolicy{Max: 1}
		},
	} {
		c := subgroup.Defaults("g")
		edit(&c)
		var rule *subgroup.RuleError
		if err := c.Validate(); !errors.As(err, &rule) || !strings.Contains(rule.Text, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoadGroupsGolden(t *testing.T) {
	mem := vfs.NewMem()
	writeConfig(t, mem, "subscriptionGroup.json", golden(t, "subscriptionGroup.json"))
	g := loadGroups(t, groupsOptions(mem))
	audit := g.Get("audit")
	if audit == nil || audit.BrokerID != 2 || audit.WhichBrokerWhenConsumeSlowly != 3 || audit.RetryMaxTimes != 1 ||
		audit.RetryQueueNums != 2 || audit.NotifyConsumerIDsChangedEnable || audit.ConsumeBroadcastEnable {
		t.Errorf("audit: %+v", audit)
	}
	if c := g.Get("stopped"); c == nil || c.ConsumeEnable || !c.ConsumeMessageOrderly || c.ConsumeTimeoutMinute != 3 {
		t.Errorf("stopped: %+v", c)
	}
	if _, v := g.All(); v.Counter != 4 || v.Timestamp != 1795969504216 {
		t.Errorf("nothing was added, but the version is %+v", v)
	}
	if err := g.SetForbidden("audit", "orders", false); err != nil {
		t.Fatal(err)
	}
	again := loadGroups(t, groupsOptions(mem))
	before, _ := g.All()
	after, v := again.All()
	if v.Counter != 5 || len(before) != len(after) {
		t.Errorf("version %+v, %d groups became %d", v, len(before), len(after))
	}
	for name, c := range before {
		if got := after[name]; got == nil || !got.Equal(*c) {
			t.Errorf("%s was %+v, is %+v", name, c, got)
		}
	}
	// Besides the version and the forbidden table the file is the original's, in
	// the order of names.
	b, err := vfs.ReadFile(mem, dir+"/subscriptionGroup.json", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	got, want := groupBlocks(t, string(b)), groupBlocks(t, golden(t, "subscriptionGroup.json"))
	if !slices.Equal(got, want) {
		t.Errorf("the file differs from the original's:\n%s\n--- want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !strings.Contains(string(b), "\t\"forbiddenTable\":{\n\t\t\"audit\":{\n\t\t\t\"orders\":4\n\t\t}\n\t},\n\t\"subscriptionGroupTable\":{\n") {
		t.Errorf("forbidden table in %s", b)
	}
}

func groupBlocks(t *testing.T, text string) []string {
	t.Helper()
	_, text, ok := strings.Cut(text, "\t\"subscriptionGroupTable\":{\n")
	if !ok {
		t.Fatalf("no group table in %s", text)
	}
	text, ok = strings.CutSuffix(text, "\n\t}\n}")
	if !ok {
		t.Fatalf("unexpected end of %s", text)
	}
	list := strings.Split(text, "\n\t\t}")
	for i := range list {
		list[i] = strings.TrimPrefix(strings.TrimPrefix(list[i], ","), "\n")
	}
	slices.Sort(list)
	return list
}

func TestSystemGroups(t *testing.T) {
	mem := vfs.NewMem()
	g := loadGroups(t, groupsOptions(mem))
	for _, name := range []string{
		"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY",
		"CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS",
	} {
		if c := g.Get(name); c == nil || !c.Equal(subgroup.Defaults(name)) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if g.Len() != 8 {
		t.Errorf("%d groups", g.Len())
	}
	if entries, err := mem.ReadDir("/"); err != nil || len(entries) != 0 {
		t.Errorf("loading wrote to disk: %v %v", entries, err)
	}
}

func TestFindOrCreate(t *testing.T) {
	auto := false
	o := groupsOptions(vfs.NewMem())
	o.AutoCreate = func() bool { return auto }
	var told []string
	o.Changed = func(names []string) { told = append(told, names...) }
	g := loadGroups(t, o)
	for _, c := range []struct {
		name string
		auto bool
		want bool
	}{
		{"a", false, false}, {"a", true, true}, {"a", false, true}, {"CID_RMQ_SYS_X", false, true},
		{"Bad Group!", true, false}, {"CID_RMQ_SYS_ /", false, false}, {strings.Repeat("x", 121), true, false}, {"", true, false},
	} {
		auto = c.auto
		exists := g.Get(c.name) != nil
		if can := g.CanCreate(c.name); !exists && can != c.want {
			t.Errorf("CanCreate(%q) = %v", c.name, can)
		}
		got, err := g.FindOrCreate(c.name)
		if err != nil || (got != nil) != c.want {
			t.Errorf("FindOrCreate(%q), auto-create %v: %v %v", c.name, c.auto, got, err)
		}
		if g.Get(c.name) != got || g.GetBytes([]byte(c.name)) != got {
			t.Errorf("%q: the table holds another config than was returned", c.name)
		}
	}
	if !slices.Equal(told, []string{"a", "CID_RMQ_SYS_X"}) {
		t.Errorf("told of %v", told)
	}
}

func TestForbidden(t *testing.T) {
	mem := vfs.NewMem()
	g := loadGroups(t, groupsOptions(mem))
	is := func(g *subgroup.Groups, group, topic string) bool { return g.Forbidden([]byte(group), []byte(topic)) }
	for _, topic := range []string{"t1", "t2"} {
		if err := g.SetForbidden("g", topic, false); err != nil {
			t.Fatal(err)
		}
	}
	_, v := g.All()
	if err := g.SetForbidden("g", "t2", false); err != nil { // again
		t.Fatal(err)
	}
	if _, again := g.All(); again != v {
		t.Error("no change stepped the version")
	}
	if err := g.SetForbidden("g", "t1", true); err != nil {
		t.Fatal(err)
	}
	for _, g := range []*subgroup.Groups{g, loadGroups(t, groupsOptions(mem))} {
		if is(g, "g", "t1") || !is(g, "g", "t2") || is(g, "g", "t3") || is(g, "x", "t2") {
			t.Error("allowing one topic changed another")
		}
		if !strings.Contains(string(g.JSON()), `"forbiddenTable":{"g":{"t2":4}}`) {
			t.Errorf("JSON %s", g.JSON())
		}
	}
	if _, err := g.Put(subgroup.Defaults("g")); err != nil {
		t.Fatal(err)
	}
	if gone, err := g.Delete("g"); err != nil || !gone {
		t.Fatal(gone, err)
	}
	if is(g, "g", "t2") || is(loadGroups(t, groupsOptions(mem)), "g", "t2") {
		t.Error("a deleted group is still forbidden something")
	}
	if gone, err := g.Delete("g"); err != nil || gone {
		t.Error(gone, err)
	}
	if err := g.SetForbidden("a/b", "t", false); err == nil {
		t.Error("an illegal group name was accepted")
	}
}

func TestLoadForeignForbiddenBits(t *testing.T) {
	mem := vfs.NewMem()
	writeConfig(t, mem, "subscriptionGroup.json", `{"forbiddenTable":{"g":{"a":1,"b":5},"h":{}},"future":1}`)
	g := loadGroups(t, groupsOptions(mem))
	if g.Forbidden([]byte("g"), []byte("a")) || !g.Forbidden([]byte("g"), []byte("b")) {
		t.Error("the read bit is not the third")
	}
	if err := g.SetForbidden("g", "b", true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(g.JSON()), `"forbiddenTable":{"g":{"a":1,"b":1}}`) {
		t.Errorf("other bits were lost: %s", g.JSON())
	}
}

func TestLoadGroupsBadEntries(t *testing.T) {
	mem := vfs.NewMem()
	writeConfig(t, mem, "subscriptionGroup.json", `{"subscriptionGroupTable":{"../x":{},"ok":{"groupName":"other","retryQueueNums":-3}}}`)
	g := loadGroups(t, groupsOptions(mem))
	if !slices.Equal(g.Refused(), []string{"../x"}) || g.Get("../x") != nil {
		t.Errorf("refused %v", g.Refused())
	}
	if c := g.Get("ok"); c == nil || c.GroupName != "ok" || c.RetryQueueNums != 0 {
		t.Errorf("ok: %+v", c)
	}
}

func TestGroupsCrash(t *testing.T) {
	mem := vfs.NewMem()
	in := vfs.NewInjector(mem)
	g := loadGroups(t, groupsOptions(in))
	acked := map[string]int64{} // group -> brokerId
	barred := map[string]bool{} // group -> may not read t
	doing := ""
	points := 0
	check := func(clone *vfs.Mem, op vfs.Op, path string) {
		after := loadGroups(t, groupsOptions(clone))
		for name, id := range acked {
			if name == doing {
				continue
			}
			if c := after.Get(name); c == nil || c.BrokerID != id {
				t.Fatalf("crash before %s %s: %s is %+v, acknowledged with %d", op, path, name, c, id)
			}
			if after.Forbidden([]byte(name), []byte("t")) != barred[name] {
				t.Fatalf("crash before %s %s: what is forbidden to %s changed", op, path, name)
			}
		}
	}
	in.OnOp = func(op vfs.Op, path string) {
		if op.Changes() {
			points++
			for seed := range uint64(3) {
				check(mem.CrashClone(rand.New(rand.NewPCG(uint64(points), seed)), vfs.CrashOptions{}), op, path)
			}
			check(mem.ProcessKillClone(), op, path)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 25 {
		doing = fmt.Sprintf("g%d", rng.IntN(5))
		switch rng.IntN(4) {
		case 0:
			if _, err := g.Delete(doing); err != nil {
				t.Fatal(err)
			}
			delete(acked, doing)
			delete(barred, doing)
		case 1:
			if _, has := acked[doing]; has {
				if err := g.SetForbidden(doing, "t", barred[doing]); err != nil {
					t.Fatal(err)
				}
				barred[doing] = !barred[doing]
			}
		default:
			c := subgroup.Defaults(doing)
			c.BrokerID = int64(i)
			if _, err := g.Put(c); err != nil {
				t.Fatal(err)
			}
			acked[doing] = int64(i)
		}
	}
	if points < 50 {
		t.Errorf("only %d points were cut", points)
	}
}

func TestGroupsFailedSave(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	g := loadGroups(t, groupsOptions(in))
	if err := g.SetForbidden("g", "t", false); err != nil {
		t.Fatal(err)
	}
	in.Fail(vfs.Fault{Op: vfs.OpSync, Err: syscall.ENOSPC})
	if _, err := g.Put(subgroup.Defaults("new")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("put: %v", err)
	}
	if c, err := g.FindOrCreate("other"); err == nil || c != nil {
		t.Errorf("create: %v %v", c, err)
	}
	if err := g.SetForbidden("g", "t", true); err == nil {
		t.Error("allow succeeded")
	}
	if err := g.SetForbidden("h", "t", false); err == nil {
		t.Error("forbid succeeded")
	}
	in.Heal()
	if _, err := g.Put(subgroup.Defaults("later")); err != nil {
		t.Fatal(err)
	}
	for _, g := range []*subgroup.Groups{g, loadGroups(t, groupsOptions(in))} {
		if g.Get("new") != nil || g.Get("other") != nil || g.Get("later") == nil ||
			!g.Forbidden([]byte("g"), []byte("t")) || g.Forbidden([]byte("h"), []byte("t")) {
			t.Error("a failed change left a trace")
		}
	}
}

func TestGroupsConcurrent(t *testing.T) {
	mem := vfs.NewMem()
	g := loadGroups(t, groupsOptions(mem))
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range 15 {
				name := fmt.Sprintf("g-%d", (w*15+i)%60)
				switch i % 4 {
				case 0:
					if c, err := g.FindOrCreate(name); err != nil || c == nil {
						t.Error(c, err)
					}
				case 1:
					c := subgroup.Defaults(name)
					c.BrokerID = int64(w)
					if _, err := g.Put(c); err != nil {
						t.Error(err)
					}
				case 2:
					if _, err := g.Delete(name); err != nil {
						t.Error(err)
					}
				case 3:
					if err := g.SetForbidden(name, fmt.Sprint("t", w), i%2 == 0); err != nil {
						t.Error(err)
					}
				}
				g.JSON()
				g.Forbidden([]byte(name), []byte("t1"))
			}
		})
	}
	wg.Wait()
	// Memory and disk agree, apart from the clock.
	again := loadGroups(t, groupsOptions(mem))
	if got, want := again.JSON(), g.JSON(); string(got) != string(want) {
		t.Errorf("on disk %s\nin memory %s", got, want)
	}
}

func TestGroupsJSON(t *testing.T) {
	g := loadGroups(t, groupsOptions(vfs.NewMem()))
	var doc struct {
		DataVersion            map[string]int64           `json:"dataVersion"`
		ForbiddenTable         map[string]any             `json:"forbiddenTable"`
		SubscriptionGroupTable map[string]json.RawMessage `json:"subscriptionGroupTable"`
	}
	if err := json.Unmarshal(g.JSON(), &doc); err != nil || doc.ForbiddenTable == nil || doc.DataVersion["counter"] != 1 {
		t.Fatalf("%v in %s", err, g.JSON())
	}
	want := `{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"TOOLS_CONSUMER","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}`
	if got := string(doc.SubscriptionGroupTable["TOOLS_CONSUMER"]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestGroupLookupsDoNotAllocate(t *testing.T) {
	g := loadGroups(t, groupsOptions(vfs.NewMem()))
	if err := g.SetForbidden("TOOLS_CONSUMER", "t", false); err != nil {
		t.Fatal(err)
	}
	group, topic := []byte("TOOLS_CONSUMER"), []byte("t")
	if n := testing.AllocsPerRun(100, func() {
		if g.GetBytes(group) == nil || !g.Forbidden(group, topic) {
			t.Fatal("lookup failed")
		}
	}); n != 0 {
		t.Errorf("%v allocations a lookup", n)
	}
}

func FuzzDecodeConfig(f *testing.F) {
	f.Add([]byte(`{"groupName":"g","brokerId":"3","groupRetryPolicy":{"type":0}}`))
	f.Add([]byte(`{"groupName":"g","subscriptionDataSet":[null,{}],"attributes":{"a":"b"}}`))
	f.Add([]byte(`{3:{},"groupName":"\ud800"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := subgroup.DecodeConfig(b)
		if err != nil {
			return
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := subgroup.DecodeConfig(text)
		if err != nil || !again.Equal(c) {
			t.Fatalf("%s became %s, %v", b, text, err)
		}
	})
}

func FuzzLoadGroups(f *testing.F) {
	b, err := os.ReadFile("../testdata/config/subscriptionGroup.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"forbiddenTable":{"g":null,"h":{"t":4}},"subscriptionGroupTable":{"a":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := vfs.NewMem()
		writeConfig(t, mem, "subscriptionGroup.json", string(b))
		g, err := subgroup.LoadGroups(groupsOptions(mem))
		if err != nil {
			return
		}
		if _, err := g.Put(subgroup.Defaults("fuzz-new")); err != nil {
			t.Fatal(err)
		}
		again, err := subgroup.LoadGroups(groupsOptions(mem))
		if err != nil || string(again.JSON()) != string(g.JSON()) {
			t.Fatalf("%v: %s became %s", err, g.JSON(), again.JSON())
		}
	})
}
