package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write is a command that changes something, and how it is tried.
type write struct {
	before []string // lines that make what it needs
	line   string
	again  int    // exit of the second dry run with --detailed-exit-code
	loses  bool   // undo says that something is lost for good
	noUndo string // what takes it back in the place of undo: a line, with a reason
	single string // why there is no --on-error
}

// drained says why broker drain has no --on-error.
const drained = "it is about one broker; all nameservers are told at once"

// writes has a line for every command that carries out a plan.
var writes = map[string]write{
	"group set":              {line: "group set g --slow-broker 0 --retry-max 3"},
	"group create":           {line: "group create fresh --retry-max 4", again: ExitFailed},
	"group delete":           {line: "group delete h", again: ExitNotFound},
	"group pause":            {line: "group pause g"},
	"group resume":           {before: []string{"group pause g"}, line: "group resume g"},
	"group mode":             {line: "group mode g --topic t --mode POP --share-queues 2"},
	"group apply":            {line: "group apply -f ../testdata/plan/groups.json"},
	"topic set":              {line: "topic set t --perm r --attributes +message.type=NORMAL"},
	"topic create":           {line: "topic create fresh --read-queues 2", again: ExitFailed},
	"topic delete":           {line: "topic delete u", again: ExitNotFound, loses: true},
	"topic apply":            {line: "topic apply -f ../testdata/plan/topics.json"},
	"topic order set":        {line: "topic order set t --conf broker-a:4"},
	"topic order delete":     {before: []string{"topic order set t --conf broker-a:2"}, line: "topic order delete t"},
	"offset reset":           {line: "offset reset h --topic t --to earliest"},
	"offset skip":            {before: []string{"offset reset h --topic t --to earliest"}, line: "offset skip h"},
	"offset clone":           {before: []string{"offset reset g --topic t --to earliest", "offset reset h --topic t --to latest"}, line: "offset clone --from h --to g --topic t"},
	"offset import":          {line: "offset import --file {offsets}"},
	"kv set":                 {line: "kv set limit 20 --namespace N"},
	"kv delete":              {line: "kv delete kept --namespace N", again: ExitNotFound},
	"broker config set":      {line: "broker config set slaveReadEnable=true accessMessageInMemoryMaxRatio=30 --no-persist"},
	"nameserver config set":  {line: "nameserver config set supportActingMaster false"},
	"apply":                  {line: "apply -f ../testdata/plan/cluster.toml"},
	"cluster import":         {line: "cluster import -f ../testdata/plan/cluster.toml"},
	"broker drain":           {line: "broker drain broker-a", single: drained},
	"broker undrain":         {before: []string{"broker drain broker-a"}, line: "broker undrain broker-a", single: drained},
	"updateSubGroup":         {line: "updateSubGroup -c DefaultCluster -g g -w 0 -r 5"},
	"updateSubGroupList":     {line: "updateSubGroupList -c DefaultCluster -f ../testdata/plan/groups.json"},
	"deleteSubGroup":         {line: "deleteSubGroup -c DefaultCluster -g h -r true", again: ExitNotFound},
	"setConsumeMode":         {line: "setConsumeMode -c DefaultCluster -t t -g g -m POP -q 2"},
	"updateTopic":            {line: "updateTopic -c DefaultCluster -t t -p 4"},
	"updateTopicPerm":        {line: "updateTopicPerm -c DefaultCluster -t t -p 4"},
	"updateTopicList":        {line: "updateTopicList -c DefaultCluster -f ../testdata/plan/topics.json"},
	"deleteTopic":            {line: "deleteTopic -c DefaultCluster -t u", again: ExitNotFound, loses: true},
	"updateOrderConf":        {line: "updateOrderConf -t t -m put -v broker-a:4"},
	"resetOffsetByTime":      {line: "resetOffsetByTime -g h -t t -s 1000"},
	"resetOffsetByTimeOld":   {line: "resetOffsetByTimeOld -g h -t t -s 1000"},
	"skipAccumulatedMessage": {before: []string{"offset reset h --topic t --to earliest"}, line: "skipAccumulatedMessage -g h -t t"},
	"cloneGroupOffset":       {before: []string{"offset reset g --topic t --to earliest", "offset reset h --topic t --to latest"}, line: "cloneGroupOffset -s h -d g -t t"},
	"updateKvConfig":         {line: "updateKvConfig -s N -k limit -v 20"},
	"deleteKvConfig":         {line: "deleteKvConfig -s N -k kept"},
	"updateBrokerConfig":     {line: "updateBrokerConfig -c DefaultCluster -k slaveReadEnable -v true"},
	"updateNamesrvConfig":    {line: "updateNamesrvConfig -k supportActingMaster -v false"},
	"wipeWritePerm":          {line: "wipeWritePerm -b broker-a", single: drained, noUndo: "addWritePerm -b broker-a"},
	"addWritePerm":           {before: []string{"wipeWritePerm -b broker-a"}, line: "addWritePerm -b broker-a", single: drained, noUndo: "wipeWritePerm -b broker-a"},
}

// otherWrites change something that no plan of before and after can tell, or that the
// broker of this test does not offer.
var otherWrites = map[string]string{
	"message resend":                   "sends again what was sent: message_more.txtar",
	"bench send":                       "sends; what it changes is measured: bench.txtar",
	"bench rtt":                        "sends; what it changes is measured: bench.txtar",
	"sendMsgStatus":                    "sends; what it changes is measured: bench.txtar",
	"checkMsgSendRT":                   "sends; what it changes is measured: bench.txtar",
	"clusterRT":                        "sends; what it changes is measured: bench.txtar",
	"broker clean commitlog":           "what was deleted is gone: broker_clean.txtar",
	"broker clean cq":                  "what was deleted is gone: broker_clean.txtar",
	"broker clean topics":              "what was deleted is gone: broker_clean.txtar",
	"deleteExpiredCommitLog":           "what was deleted is gone: broker_clean.txtar",
	"cleanExpiredCQ":                   "what was deleted is gone: broker_clean.txtar",
	"cleanUnusedTopic":                 "what was deleted is gone: broker_clean.txtar",
	"ha reset-flush-offset":            "needs a pair: pair.txtar, ha.txtar, ha_promote.txtar; the way back is the other role",
	"resetMasterFlushOffset":           "needs a pair: pair.txtar, ha.txtar, ha_promote.txtar; the way back is the other role",
	"ha promote":                       "needs a pair: pair.txtar, ha.txtar, ha_promote.txtar; the way back is the other role",
	"ha demote":                        "needs a pair: pair.txtar, ha.txtar, ha_promote.txtar; the way back is the other role",
	"client kick":                      "a connection that is closed comes back by itself: client_more.txtar",
	"store repair":                     "local files, what it replaces is set aside: store.txtar",
	"store import":                     "local files, what it replaces is set aside: store.txtar",
	"broker stop":                      "a process of this machine: start.txtar; the way back is a start",
	"nameserver stop":                  "a process of this machine: nameserver.txtar; the way back is a start",
	"undo":                             "the way back itself: undo.txtar",
	"user create":                      "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"createUser":                       "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"user set":                         "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"updateUser":                       "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"user delete":                      "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"deleteUser":                       "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"user copy":                        "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"copyUser":                         "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"acl create":                       "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"createAcl":                        "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"acl set":                          "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"updateAcl":                        "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"acl delete":                       "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"deleteAcl":                        "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"acl copy":                         "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"copyAcl":                          "the broker of this test has no accounts: TestAccessRules, access.txtar and make compat-names",
	"controller config set":            "needs a controller, which is no part of ours: rare_test.go and make compat-names",
	"updateControllerConfig":           "needs a controller, which is no part of ours: rare_test.go and make compat-names",
	"controller clean":                 "needs a controller, which is no part of ours: rare_test.go and make compat-names",
	"cleanBrokerMetadata":              "needs a controller, which is no part of ours: rare_test.go and make compat-names",
	"electMaster":                      "needs a controller, which is no part of ours: rare_test.go and make compat-names",
	"broker cold set":                  "not offered by the broker of this test: rare_test.go and make compat-names",
	"updateColdDataFlowCtrGroupConfig": "not offered by the broker of this test: rare_test.go and make compat-names",
	"broker cold delete":               "not offered by the broker of this test: rare_test.go and make compat-names",
	"removeColdDataFlowCtrGroupConfig": "not offered by the broker of this test: rare_test.go and make compat-names",
	"setCommitLogReadAheadMode":        "not offered by the broker of this test: rare_test.go and make compat-names",
	"addBroker":                        "not offered by the broker of this test: rare_test.go and make compat-names",
	"removeBroker":                     "not offered by the broker of this test: rare_test.go and make compat-names",
	"exportPopRecord":                  "not offered by the broker of this test: rare_test.go and make compat-names",
	"config import":                    "not offered by the broker of this test: rare_test.go and make compat-names",
	"rocksDBConfigToJson":              "not offered by the broker of this test: rare_test.go and make compat-names",
	"topic static set":                 "not offered by the broker of this test: rare_test.go and make compat-names",
	"updateStaticTopic":                "not offered by the broker of this test: rare_test.go and make compat-names",
	"topic static remap":               "not offered by the broker of this test: rare_test.go and make compat-names",
	"remappingStaticTopic":             "not offered by the broker of this test: rare_test.go and make compat-names",
}

// snapshot is everything that the commands above change, in text.
func snapshot(t *testing.T, env map[string]string) string {
	t.Helper()
	var b strings.Builder
	for _, line := range []string{
		"cluster export --what topics,groups,offsets", "kv list --namespace N -o csv", "kv list --namespace ORDER_TOPIC_CONFIG -o csv", "nameserver config get -o csv",
		"broker config get slaveReadEnable accessMessageInMemoryMaxRatio brokerPermission -o csv --fields broker,key,value", "topic route t -o csv", "topic route u -o csv", "group mode g --topic t --mode POP --dry-run -o csv",
	} {
		code, out, errs := runEnv(env, append([]string{"mqctl"}, strings.Fields(line)...)...)
		if code != ExitOK && code != ExitNotFound {
			t.Fatalf("%s: exit %d\n%s", line, code, errs)
		}
		for l := range strings.Lines(out) { // an order list comes to the topics with the next registration
			if !strings.HasPrefix(l, "order = ") && !strings.HasPrefix(l, "namespace,") {
				b.WriteString(l)
			}
		}
	}
	return b.String()
}

// TestEveryWriteIsAPlan tries each command that changes something: a dry run changes
// nothing and says whether something would; the real one is confirmed, read back and
// noted with its reason; the same again has nothing to do; undo brings back all.
func TestEveryWriteIsAPlan(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker")
	}
	it := startHere(t)
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit.jsonl")
	quiet := map[string]string{"MQCTL_NAMESRV": it.Namesrv[0], "MQCTL_AUDIT": "off", "MQCTL_YES": "1"}
	env := map[string]string{"MQCTL_NAMESRV": it.Namesrv[0], "MQCTL_AUDIT": audit}
	must := func(line string) string {
		t.Helper()
		code, out, errs := runEnv(quiet, append([]string{"mqctl"}, strings.Fields(line)...)...)
		if code != ExitOK {
			t.Fatalf("%s: exit %d\n%s%s", line, code, out, errs)
		}
		return out
	}
	for _, line := range []string{
		"topic create t --read-queues 2 --write-queues 2", "topic create u --read-queues 1 --write-queues 1", "message send t --body x --count 20", "group create g", "group create h",
		"offset reset h --topic t --to latest", "kv set kept 1 --namespace N",
	} {
		must(line)
	}
	offsets := filepath.Join(dir, "offsets.json")
	text := strings.NewReplacer(`"offset": 10`, `"offset": 7`, `"offset":10`, `"offset":7`).Replace(must("offset export --group h"))
	if err := os.WriteFile(offsets, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range commands().commands {
		for _, name := range []string{c.path, c.old} {
			w, is := writes[name]
			switch _, other := otherWrites[name]; {
			case name == "" || !c.is(mutates):
				continue
			case is == other:
				t.Errorf("%s changes something: it is in one of writes and otherWrites, with what shows it or why not", name)
			}
			seen[name] = true
			if is {
				t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
					for _, line := range w.before {
						must(line)
					}
					w.line = strings.ReplaceAll(w.line, "{offsets}", offsets)
					tryWrite(t, w, env, audit)
				})
			}
		}
	}
	for _, name := range slices.Concat(sortedKeys(writes), sortedKeys(otherWrites)) {
		if !seen[name] {
			t.Errorf("%s is no command that changes something", name)
		}
	}
}

func tryWrite(t *testing.T, w write, env map[string]string, audit string) {
	t.Helper()
	run := func(want int, more ...string) (changeSeen, string) {
		t.Helper()
		args := slices.Concat([]string{"mqctl"}, strings.Fields(w.line), more, []string{"--output", "json"})
		code, out, errs := runEnv(env, args...)
		if code != want {
			t.Errorf("%q: exit %d, want %d\n%s%s", args[1:], code, want, out, errs)
		}
		var e changeSeen
		if out != "" {
			if err := json.Unmarshal([]byte(out), &e); err != nil {
				t.Errorf("%q: %v\n%s", args[1:], err, out)
			}
		}
		return e, errs
	}
	before, noted := snapshot(t, env), lastNote(t, audit)
	if e, _ := run(ExitChanges, "--dry-run", "--detailed-exit-code"); !e.DryRun || e.Applied || e.UndoID != "" {
		t.Errorf("a dry run tells %+v", e)
	}
	if now := snapshot(t, env); now != before {
		t.Errorf("the dry run changed:\n%s\nto\n%s", before, now)
	}
	if !bytes.Equal(lastNote(t, audit), noted) {
		t.Error("the dry run was noted")
	}
	flags := []string{"--yes", "--wait=20s", "--parallel", "2", "--reason", "to show it"}
	if w.single == "" {
		flags = append(flags, "--on-error", "rollback")
	}
	e, _ := run(ExitOK, flags...)
	if e.DryRun || !e.Applied || (e.UndoID == "") != (w.noUndo != "") {
		t.Fatalf("the change tells %+v", e)
	}
	for i, it := range e.Items {
		if it.Applied != nil && *it.Applied && (it.Verified == nil || !*it.Verified) {
			t.Errorf("item %d was not read back", i)
		}
	}
	after := snapshot(t, env)
	if after == before {
		t.Error("nothing changed")
	}
	var note struct {
		Command []string
		Reason  string
		UndoID  string
		Result  string
		Items   []any
	}
	if err := json.Unmarshal(lastNote(t, audit), &note); err != nil || note.Reason != "to show it" || note.UndoID != e.UndoID || note.Result != "APPLIED" || len(note.Items) == 0 || !strings.Contains(strings.Join(note.Command, " "), strings.Fields(w.line)[0]) {
		t.Errorf("noted is %+v (%v), want undo %s", note, err, e.UndoID)
	}
	if _, errs := run(w.again, "--dry-run", "--detailed-exit-code"); w.again == ExitOK && strings.Contains(errs, "error") {
		t.Errorf("again: %s", errs)
	}
	back := []string{"undo", e.UndoID, "--yes"}
	if w.noUndo != "" {
		back = strings.Fields(w.noUndo)
	}
	code, out, errs := runEnv(env, append([]string{"mqctl"}, back...)...)
	if code != ExitOK || w.loses != strings.Contains(errs, "TOPIC_EMPTY") {
		t.Errorf("undo: exit %d\n%s%s", code, out, errs)
	}
	if now := snapshot(t, env); now != before {
		t.Errorf("undo leaves:\n%s\nand it was\n%s", now, before)
	}
}

// changeSeen is the part of an envelope that tells of a change.
type changeSeen struct {
	DryRun, Applied bool
	UndoID          string
	Items           []struct{ Applied, Verified *bool }
}

// lastNote is the last line of the audit file.
func lastNote(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return lines[len(lines)-1]
}
