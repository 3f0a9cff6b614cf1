package broker

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mqctl/store/vfs"
)

func TestRuntimeInfo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fs := vfs.NewMem()
		r := start(t, fs, withSettings(t, fs), func(o *Options) { o.Version = "1.2.3" })
		r.createTopic("T", 1)
		r.mustSend("T", 0, "x")
		pass(90 * time.Second)
		var kv struct{ Table map[string]string }
		r.json(r.call(28, nil, nil), &kv)
		for key, want := range map[string]string{
			"brokerVersion": "479", "brokerVersionDesc": "V5_3_3", "mqctlVersion": "1.2.3", "mqctlCapabilities": "MQCTL_INSPECT,MQCTL_ROLE,MQCTL_PROGRESS,MQCTL_KICK,MQCTL_LOG,MQCTL_CLEAN,MQCTL_RELAY", "brokerActive": "true",
			"runtime": "[ 0 days, 0 hours, 1 minutes, 30 seconds ]", "putMessageTimesTotal": "1", "putMessageFailedTimes": "0", "dispatchBehindBytes": "0",
			"remainHowManyDataToFlush": "0 B", "msgPutTotalTodayNow": "1", "sendThreadPoolQueueCapacity": "10000", "commitLogMinOffset": "0",
			"mqctlFlushedOffset": kv.Table["commitLogMaxOffset"], "mqctlDispatchedOffset": kv.Table["commitLogMaxOffset"],
		} {
			if kv.Table[key] != want {
				t.Errorf("%s = %q, want %q", key, kv.Table[key], want)
			}
		}
		for _, f := range recording(t, "admin-brokerStatus") {
			if f.From != "server" {
				continue
			}
			var recorded struct{ Table map[string]string }
			if err := json.Unmarshal(f.Body, &recorded); err != nil {
				t.Fatal(err)
			}
			for key := range recorded.Table {
				if _, there := kv.Table[key]; !there && !notMeasured[key] && !strings.HasPrefix(key, "scheduleMessageOffset_") {
					t.Errorf("key %s of RocketMQ is missing", key)
				}
			}
		}
	})
}

// notMeasured are keys of RocketMQ's runtime info that this broker does not
// count, or that carry the recorded broker's folder.
var notMeasured = map[string]bool{"putMessageDistributeTime": true, "getMessageEntireTimeMax": true, "commitLogDiskRatio_store/commitlog": true}

func TestHumanBytesAndUptime(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 252 << 30: "252.0 GiB", 1 << 62: "4.0 EiB"} {
		if got := humanBytes(n); got != want {
			t.Errorf("humanBytes(%d) = %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "[ 0 days, 0 hours, 0 minutes, 0 seconds ]", 49*time.Hour + 61*time.Second: "[ 2 days, 1 hours, 1 minutes, 1 seconds ]",
	} {
		if got := uptime(d); got != want {
			t.Errorf("uptime(%s) = %q, want %q", d, got, want)
		}
	}
}
