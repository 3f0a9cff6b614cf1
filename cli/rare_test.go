package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/cli/admin"
)

// lineRunner runs command lines against a fake cluster with an audit file.
func lineRunner(t *testing.T, f *fakeCluster) func(want int, line string) (out, errs string) {
	env := map[string]string{"MQCTL_AUDIT": filepath.Join(t.TempDir(), "audit.jsonl")}
	return func(want int, line string) (string, string) {
		t.Helper()
		code, out, errs := runEnv(env, append([]string{"mqctl", "-n", f.ns.addr}, strings.Fields(line)...)...)
		if code != want {
			t.Errorf("%s: exit %d, want %d\n%s%s", line, code, want, out, errs)
		}
		return out, errs
	}
}

// TestControllerCommands shows mqadmin's layouts and ours of a controller's answers.
func TestControllerCommands(t *testing.T) {
	f := newFakeCluster(t)
	c, _ := f.add("127.0.0.1", "a", 0, 0, nil)
	settings := map[string]string{"controllerDLegerGroup": "group1", "scanNotActiveBrokerInterval": "5000"}
	ext := map[int]map[string]string{}
	keep := func(r *remoting.Request) { ext[r.Code] = r.Ext.Map() }
	for code, answer := range map[int]func(r *remoting.Request){
		remoting.ReqControllerGetMetadataInfo: func(r *remoting.Request) {
			r.Reply(remoting.CodeSuccess, "", remoting.Map{"group": "group1", "controllerLeaderId": "n0", "controllerLeaderAddress": c.addr, "isLeader": "true", "peers": "n0-127.0.0.1:1;n1-127.0.0.1:2"}, nil)
		},
		remoting.ReqGetControllerConfig: func(r *remoting.Request) {
			text := ""
			for _, k := range sortedKeys(settings) {
				text += k + "=" + settings[k] + "\n"
			}
			r.Reply(remoting.CodeSuccess, "", nil, []byte(text))
		},
		remoting.ReqUpdateControllerConfig: func(r *remoting.Request) {
			for l := range lines(string(r.Body)) {
				settings[l[0]] = l[1]
			}
			r.Reply(remoting.CodeSuccess, "", nil, nil)
		},
		remoting.ReqControllerElectMaster: func(r *remoting.Request) {
			keep(r)
			r.Reply(remoting.CodeSuccess, "", remoting.Map{"masterBrokerId": "2", "masterAddress": "127.0.0.1:3", "masterEpoch": "7", "syncStateSetEpoch": "9"},
				[]byte(`{"brokerAddrs":{1:"127.0.0.1:4",2:"127.0.0.1:3"},"brokerName":"a","cluster":"C"}`))
		},
		remoting.ReqCleanBrokerData: func(r *remoting.Request) {
			keep(r)
			r.Reply(remoting.CodeSuccess, "", nil, nil)
		},
		remoting.ReqControllerGetSyncStateData: func(r *remoting.Request) {
			r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"replicasInfoTable":{"a":{"inSyncReplicas":[{"alive":true,"brokerAddress":"127.0.0.1:3","brokerId":2,"brokerName":"a"}],"masterAddress":"127.0.0.1:3","masterBrokerId":2,"masterEpoch":7,"notInSyncReplicas":[],"syncStateSetEpoch":9}}}`))
		},
		remoting.ReqGetBrokerEpochCache: func(r *remoting.Request) {
			r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"brokerId":0,"brokerName":"a","clusterName":"C","epochList":[{"endOffset":100,"epoch":1,"startOffset":0},{"endOffset":0,"epoch":2,"startOffset":100}],"maxOffset":250}`))
		},
	} {
		c.more[code] = answer
	}
	run := lineRunner(t, f)
	at := " --controller " + c.addr
	out, _ := run(0, "getControllerMetaData -a "+c.addr)
	if want := "\n#ControllerGroup\tgroup1\n#ControllerLeaderId\tn0\n#ControllerLeaderAddress\t" + c.addr + "\n#Peer:\tn0-127.0.0.1:1\n#Peer:\tn1-127.0.0.1:2\n"; out != want {
		t.Errorf("getControllerMetaData prints %q", out)
	}
	out, _ = run(0, "controller status -o csv --no-headers --fields id,addr,leader"+at)
	if out != "n0,127.0.0.1:1,true\nn1,127.0.0.1:2,false\n" {
		t.Errorf("controller status prints %q", out)
	}
	run(10, "controller config set scanNotActiveBrokerInterval 6000 --dry-run --detailed-exit-code"+at)
	out, _ = run(0, "updateControllerConfig -a "+c.addr+" -k scanNotActiveBrokerInterval -v 6000")
	has(t, out, "update controller config success!["+c.addr+"]\nscanNotActiveBrokerInterval : 6000")
	run(0, "undo --yes")
	if settings["scanNotActiveBrokerInterval"] != "5000" {
		t.Errorf("undo left %v", settings)
	}
	run(2, "controller config set noSuchKey 1"+at)
	out, _ = run(0, "getControllerConfig -a "+c.addr)
	has(t, out, "============"+c.addr+"============\ncontrollerDLegerGroup                             =  group1\n")
	out, _ = run(0, "electMaster -a "+c.addr+" -b 2 -bn a -c C")
	if want := "\n#ClusterName\tC\n#BrokerName\ta\n#BrokerMasterAddr\t127.0.0.1:3\n#MasterEpoch\t7\n#SyncStateSetEpoch\t9\n\t#Broker\t1\t127.0.0.1:4\n\t#Broker\t2\t127.0.0.1:3\n"; out != want {
		t.Errorf("electMaster prints %q", out)
	}
	if e := ext[remoting.ReqControllerElectMaster]; e["brokerId"] != "2" || e["designateElect"] != "true" {
		t.Errorf("the election asked for %v", e)
	}
	out, _ = run(0, "cleanBrokerMetadata -a "+c.addr+" -bn a -c C -b 2;3")
	has(t, out, "clear broker a metadata from controller success!")
	if e := ext[remoting.ReqCleanBrokerData]; e["brokerControllerIdsToClean"] != "2;3" || e["isCleanLivingBroker"] != "false" {
		t.Errorf("the cleaning asked for %v", e)
	}
	out, _ = run(0, "getSyncStateSet -a "+c.addr+" -b a")
	has(t, out, "\n#brokerName\ta\n#MasterBrokerId\t2\n#MasterAddr\t127.0.0.1:3\n#MasterEpoch\t7\n#SyncStateSetEpoch\t9\n#SyncStateSetNums\t1\n", "InSyncReplica:\tReplicaIdentity{brokerName='a', brokerId=2, brokerAddress='127.0.0.1:3', alive=true}")
	out, _ = run(0, "ha epoch -o csv --no-headers --fields epoch,startOffset,endOffset")
	if out != "1,0,100\n2,100,250\n" {
		t.Errorf("ha epoch prints %q", out)
	}
	out, _ = run(0, "getBrokerEpoch -b a")
	has(t, out, "#Epoch: EpochEntry{epoch=2, startOffset=100, endOffset=250}")
}

// TestColdReads sets a limit, shows it, and takes it back.
func TestColdReads(t *testing.T) {
	f := newFakeCluster(t)
	b, _ := f.add("127.0.0.1", "a", 0, 0, nil)
	limits := map[string]string{}
	b.more[remoting.ReqGetColdDataFlowCtrInfo] = func(r *remoting.Request) {
		reply(r, map[string]any{"configTable": limits, "runtimeTable": map[string]any{"other": map[string]any{"coldAcc": 5, "createTimeMills": 1700000000000}}})
	}
	b.more[remoting.ReqUpdateColdDataFlowCtrConfig] = func(r *remoting.Request) {
		for l := range lines(string(r.Body)) {
			limits[l[0]] = l[1]
		}
		r.Reply(remoting.CodeSuccess, "", nil, nil)
	}
	b.more[remoting.ReqRemoveColdDataFlowCtrConfig] = func(r *remoting.Request) {
		delete(limits, string(r.Body))
		r.Reply(remoting.CodeSuccess, "", nil, nil)
	}
	run := lineRunner(t, f)
	out, _ := run(0, "updateColdDataFlowCtrGroupConfig -b "+b.addr+" -g report -v 1000")
	has(t, out, "updateColdDataFlowCtrGroupConfig success, "+b.addr)
	out, _ = run(0, "broker cold get -o csv --no-headers --fields group,threshold")
	if out != "other,\nreport,1000\n" {
		t.Errorf("broker cold get prints %q", out)
	}
	out, _ = run(0, "getColdDataFlowCtrInfo -b "+b.addr)
	has(t, out, "============"+b.addr+"============", `"report": "1000"`, `"createTimeFormat": "`+time.UnixMilli(1700000000000).Format(time.DateTime)+`"`)
	run(0, "broker cold set report --threshold 2000")
	run(0, "undo --yes")
	if limits["report"] != "1000" {
		t.Errorf("undo left %v", limits)
	}
	out, _ = run(0, "removeColdDataFlowCtrGroupConfig -c C -g report")
	has(t, out, "remove broker cold read threshold success, "+b.addr)
	run(3, "broker cold delete report")
}

// TestStaticTopics spreads logical queues over brokers, adds some, and refuses
// what would break the mapping.
func TestStaticTopics(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // for the mappings
	f := newFakeCluster(t)
	at, _ := withStaticTopics(t, f)
	run := lineRunner(t, f)
	run(10, "topic static set orders --queues 3 --brokers a,b --dry-run --detailed-exit-code")
	if len(at) != 0 {
		t.Fatal("a dry run wrote")
	}
	out, _ := run(0, "updateStaticTopic -t orders -qn 3 -b a,b")
	has(t, out, "The old mapping data is written to file ", ".before", "The new mapping data is written to file ", ".after")
	if len(at["a"].Mapping.Hosted) != 2 || len(at["b"].Mapping.Hosted) != 1 || len(at["c"].Mapping.Hosted) != 0 || at["c"].Mapping.TotalQueues != 3 {
		t.Errorf("spread: %+v %+v %+v", at["a"].Mapping, at["b"].Mapping, at["c"].Mapping)
	}
	first := at["a"].Mapping.Epoch
	if q := at["a"].Mapping.Hosted[2]; len(q) != 1 || q[0].QueueID != 1 || q[0].EndOffset != -1 || q[0].Broker != "a" {
		t.Errorf("queue 2 is %+v", q)
	}
	_, after, _ := strings.Cut(out, "The new mapping data is written to file ")
	file := strings.TrimSpace(after)
	run(0, "topic static set orders --queues 3 --brokers a,b") // there is nothing to change
	if at["a"].Mapping.Epoch != first {
		t.Error("a mapping without a change got a new epoch")
	}
	run(1, "topic static set orders --queues 2 --brokers a,b")
	run(0, "topic static set orders --queues 6 --brokers c")
	if len(at["c"].Mapping.Hosted) != 3 || at["a"].Mapping.TotalQueues != 6 || at["a"].Mapping.Epoch < first+1000 {
		t.Errorf("enlarged: %+v %+v", at["a"].Mapping, at["c"].Mapping)
	}
	run(0, "topic static set orders --queues 3 --brokers a --map-file "+file)
	if len(at["c"].Mapping.Hosted) != 0 || at["a"].Mapping.Epoch != first {
		t.Errorf("from the file: %+v", at["c"].Mapping)
	}
	run(11, "topic static set other --queues 3 --brokers a --map-file "+file)
	at["b"] = &admin.StaticTopic{TopicName: "orders", Perm: 6, WriteQueueNums: 4}
	run(1, "topic static set orders --queues 9 --brokers a")
}

// withStaticTopics are three brokers that keep static topics, and what was
// written: the broker, and the first logical offsets of the moved queues.
func withStaticTopics(t *testing.T, f *fakeCluster) (at map[string]*admin.StaticTopic, writes *[]string) {
	at, writes = map[string]*admin.StaticTopic{}, &[]string{}
	for _, name := range []string{"a", "b", "c"} {
		b, _ := f.add("127.0.0.1", name, 0, 0, nil)
		b.more[remoting.ReqGetTopicConfig] = func(r *remoting.Request) {
			if at[name] == nil {
				r.Reply(remoting.CodeTopicNotExist, "none", nil, nil)
				return
			}
			reply(r, at[name])
		}
		b.more[remoting.ReqGetTopicStatsInfo] = func(r *remoting.Request) {
			var parts []string
			for q := range at[name].WriteQueueNums {
				parts = append(parts, fmt.Sprintf(`{"brokerName":%q,"queueId":%d,"topic":"orders"}:{"lastUpdateTimestamp":1,"maxOffset":%d,"minOffset":0}`, name, q, 4000+2000*q))
			}
			r.Reply(remoting.CodeSuccess, "", nil, []byte(`{"offsetTable":{`+strings.Join(parts, ",")+`}}`))
		}
		b.more[remoting.ReqUpdateAndCreateStaticTopic] = func(r *remoting.Request) {
			var m admin.StaticMapping
			if err := json.Unmarshal(r.Body, &m); err != nil {
				t.Error(err)
			}
			ext := r.Ext.Map()
			next := &admin.StaticTopic{TopicName: ext["topic"], Perm: 6, Mapping: &m}
			for _, places := range m.Hosted {
				for _, p := range places {
					if p.Broker == name {
						next.WriteQueueNums, next.ReadQueueNums = next.WriteQueueNums+1, next.ReadQueueNums+1
					}
				}
			}
			at[name] = next
			note := name
			for _, id := range slices.Sorted(maps.Keys(m.Hosted)) {
				if last := lastPlace(m.Hosted[id]); last.Gen > 0 {
					note += fmt.Sprintf(" %d>%s:%d@%d", id, last.Broker, last.QueueID, last.LogicOffset)
				}
			}
			*writes = append(*writes, note)
			r.Reply(remoting.CodeSuccess, "", nil, nil)
		}
	}
	return at, writes
}

// TestStaticRemap moves logical queues in the order in which no message can get
// an offset twice, and goes on after a broker that failed in the middle.
func TestStaticRemap(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	f := newFakeCluster(t)
	at, writes := withStaticTopics(t, f)
	run := lineRunner(t, f)
	run(3, "topic static remap orders --brokers a")
	run(0, "topic static set orders --queues 4 --brokers a,b")
	*writes = nil
	run(0, "topic static remap orders --brokers a,b") // they lie there already
	if len(*writes) != 0 {
		t.Error(*writes)
	}
	run(10, "topic static remap orders --brokers a,c --dry-run --detailed-exit-code")
	if len(*writes) != 0 {
		t.Fatal("a dry run wrote")
	}
	out, _ := run(0, "remappingStaticTopic -t orders -b a,c")
	has(t, out, "The old mapping data is written to file ", ".before", "The new mapping data is written to file ", ".after")
	want := []string{"c 1>c:0@-1 3>c:1@-1", "b 1>c:0@-1 3>c:1@-1", "c 1>c:0@10000 3>c:1@20000", "a"}
	if !slices.Equal(*writes, want) {
		t.Errorf("written: %q, want %q", *writes, want)
	}
	if q := at["c"].Mapping.Hosted[1]; len(q) != 2 || q[0].Broker != "b" || q[1].Broker != "c" || q[1].EndOffset != -1 {
		t.Errorf("queue 1 is %+v", q)
	}
	epoch := at["a"].Mapping.Epoch
	if at["b"].Mapping.Epoch != epoch || at["c"].Mapping.Epoch != epoch {
		t.Error("the epochs differ")
	}
	// One broker fails in the middle: what to do is said, and works.
	for _, b := range f.brokers {
		if b.name == "c" {
			refused := b.more[remoting.ReqGetTopicStatsInfo]
			b.set(func() {
				b.more[remoting.ReqGetTopicStatsInfo] = func(r *remoting.Request) { r.Reply(remoting.CodeSystemError, "not now", nil, nil) }
			})
			*writes = nil
			_, errs := run(1, "topic static remap orders --brokers a,b")
			has(t, errs, "not now", "it failed while the offsets were being decided, at c", "take no messages until it is finished", "--map-file ")
			_, errs2 := run(1, "topic static remap orders --brokers a,b")
			has(t, errs2, "MAPPING_BROKEN")
			b.set(func() { b.more[remoting.ReqGetTopicStatsInfo] = refused })
			_, again, _ := strings.Cut(errs, "mqctl topic static remap ")
			again, _, _ = strings.Cut(again, "\n")
			again, _, _ = strings.Cut(again, "   or   ")
			run(0, "topic static remap "+strings.TrimSpace(again))
		}
	}
	if len(at["b"].Mapping.Hosted) == 0 || lastPlace(at["b"].Mapping.Hosted[1]).LogicOffset < 10000+4000 {
		t.Errorf("finished: %+v", at["b"].Mapping)
	}
	run(3, "topic static remap orders --brokers nobody")
	run(2, "topic static remap orders")
}
