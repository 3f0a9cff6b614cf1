package broker

import (
	"bytes"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/store/vfs"
	"mqctl/store/vfs/vfstest"
)

// recordedStop is when the recorded folder "clean" was stopped.
const recordedStop = 1795969537860

// recordedFolder is the folder that a RocketMQ 5.3.3 left at a clean stop.
func recordedFolder(t *testing.T) *vfs.Mem {
	t.Helper()
	return vfstest.Folder(t, filepath.Join("..", "testdata", "store", "clean.tar.gz"))
}

func putMem(t *testing.T, mem *vfs.Mem, name, text string) {
	t.Helper()
	err := mem.MkdirAll(path.Dir(name))
	if err == nil {
		err = vfs.WriteFile(mem, name, []byte(text))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hoursLater is a clock at which everything delayed of the recorded folder is due.
func hoursLater(o *Options) {
	begin := time.Now()
	o.Now = func() time.Time { return time.UnixMilli(recordedStop).Add(3 * time.Hour).Add(time.Since(begin)) }
	o.Store.CommitLogBytes, o.Store.QueueFileBytes = 64<<10, 400
}

// TestUnknownSurvives: members that we do not know and files of what we lack are as they
// were after a run that changed a topic, a group and progress.
func TestUnknownSurvives(t *testing.T) {
	mem := recordedFolder(t)
	const config = "/store/config/"
	const future = "\n\t\"futureTable\":{\"a\":[1,2,{\"b\":null}],\"c\":\"\\u00fc\"},"
	for _, name := range []string{"topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json", "messageRequestMode.json"} {
		text := "{" + future + strings.TrimPrefix(readMem(t, mem, config+name), "{")
		for _, of := range []string{"\t\t\"notes\":{", "\t\t\"SELF_TEST_C_GROUP\":{"} {
			text = strings.Replace(text, of, of+"\n\t\t\t\"futureSwitch\":[true],", 1)
		}
		putMem(t, mem, config+name, text)
	}
	for _, name := range []string{"timerwheel", "timerlog/00000000000000000000", "config/timercheck", "config/timermetrics", "config/lmqConsumerOffset.json", "config/broadcastOffset.json"} {
		putMem(t, mem, "/store/"+name, "of "+name)
	}
	untouched := map[string]string{}
	for _, name := range []string{"timerwheel", "timerlog/00000000000000000000", "config/timercheck", "config/timermetrics", "config/lmqConsumerOffset.json",
		"config/broadcastOffset.json", "config/consumerFilter.json", "config/topicQueueMapping.json",
		"config/consumerOrderInfo.json", "config/transactionMetrics", "compaction/position-checkpoint"} {
		untouched[name] = readMem(t, mem, "/store/"+name)
	}
	r := start(t, mem, hoursLater)
	r.wants(r.call(17, map[string]string{"topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "7", "writeQueueNums": "7", "perm": "6",
		"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}, nil), 0, "")
	r.wants(r.call(200, nil, []byte(`{"groupName":"fresh","retryMaxTimes":3}`)), 0, "")
	r.wants(r.call(401, nil, []byte(`{"topic":"orders","consumerGroup":"fresh","mode":"POP","popShareQueueNum":2}`)), 0, "")
	r.wants(r.call(15, map[string]string{"consumerGroup": "fresh", "topic": "orders", "queueId": "0", "commitOffset": "1"}, nil), 0, "")
	delivered := func() bool { return strings.Contains(string(r.call(45, nil, nil).Body), "18:3") }
	for end := time.Now().Add(time.Minute); !delivered(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not delivered: %s", r.call(45, nil, nil).Body)
		}
	}
	r.stop()
	for name, text := range untouched {
		if got := readMem(t, mem, "/store/"+name); got != text {
			t.Errorf("%s is %q, was %q", name, got, text)
		}
	}
	for name, want := range map[string]string{"topics.json": `"readQueueNums":7`, "subscriptionGroup.json": `"fresh":`, "consumerOffset.json": "orders@fresh", "delayOffset.json": "18:3", "messageRequestMode.json": `"popShareQueueNum":2`} {
		text := readMem(t, mem, config+name)
		var doc map[string]any
		if err := fastjson.Unmarshal([]byte(text), &doc); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v, or without %s:\n%s", name, err, want, text)
		}
		if !strings.Contains(text, strings.Trim(future, "\n\t,")) {
			t.Errorf("%s has lost a member that we do not know:\n%s", name, text)
		}
		if n := strings.Count(text, `"futureSwitch":[true]`); n != 1 && (name == "topics.json" || name == "subscriptionGroup.json") {
			t.Errorf("%s has lost a member of a value:\n%s", name, text)
		}
	}
	// What is made again under an old name is another one.
	r = start(t, mem, hoursLater)
	r.wants(r.call(215, map[string]string{"topic": "notes"}, nil), 0, "")
	r.wants(r.call(17, map[string]string{"topic": "notes", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
		"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}, nil), 0, "")
	r.stop()
	if text := readMem(t, mem, config+"topics.json"); strings.Contains(text, "futureSwitch") || !strings.Contains(text, "futureTable") {
		t.Errorf("after notes was deleted and made again:\n%s", text)
	}
}

// TestDamagedTables: the older generation is used, the log names both, and versions go
// on far behind the lost ones.
func TestDamagedTables(t *testing.T) {
	mem := recordedFolder(t)
	names := []string{"topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"}
	was := map[string]int64{}
	for _, name := range names {
		text := readMem(t, mem, "/store/config/"+name)
		was[name] = counter(t, []byte(text))
		putMem(t, mem, "/store/config/"+name, text[:len(text)/2])
	}
	// These have no version.
	for name, old := range map[string]string{"config/messageRequestMode.json": string(noModes), "mqctl/members.json": `{"members":[]}`, "mqctl/delivered.json": `{"slaves":{}}`} {
		putMem(t, mem, "/store/"+name, old[:len(old)/2])
		putMem(t, mem, "/store/"+name+".bak", old)
		names = append(names, "../"+name)
	}
	var log bytes.Buffer
	r := start(t, mem, hoursLater, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	for name, code := range map[string]int{"topics.json": 21, "subscriptionGroup.json": 201, "consumerOffset.json": 43, "delayOffset.json": 45} {
		if got := counter(t, r.call(code, nil, nil).Body); got < was[name]+1000 || got > was[name]+1010 {
			t.Errorf("%s goes on at %d, was at %d", name, got, was[name])
		}
	}
	r.stop()
	for _, name := range names {
		told := false
		for line := range strings.Lines(log.String()) {
			told = told || strings.Contains(line, "level=WARN") && strings.Contains(line, path.Join("/store/config", name)+" cannot be used") &&
				strings.Contains(line, path.Join("/store/config", name)+".bak is used")
		}
		if !told {
			t.Errorf("no warning about %s:\n%s", name, log.String())
		}
	}
}

func counter(t *testing.T, text []byte) int64 {
	t.Helper()
	var doc struct{ DataVersion table.DataVersion }
	if err := fastjson.Unmarshal(text, &doc); err != nil {
		t.Fatal(fmt.Errorf("%w in %s", err, strconv.Quote(string(text))))
	}
	return doc.DataVersion.Counter
}
