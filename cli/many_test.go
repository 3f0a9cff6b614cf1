package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// manyThings are the files of n groups, of n topics, and of the offsets of n
// groups in the eight queues of one topic.
func manyThings(t testing.TB, n int) (groups, topics, offsets, whole string) {
	t.Helper()
	var g, to, o, w []string
	w = append(w, "")
	for i := range n {
		g = append(g, fmt.Sprintf(`{"groupName":"g%05d","retryMaxTimes":%d}`, i, 5+i%7))
		to = append(to, fmt.Sprintf(`{"topicName":"t%05d","readQueueNums":2,"writeQueueNums":2}`, i))
		w = append(w, fmt.Sprintf("[offsets.g%05d.orders]", i))
		for q := range 8 {
			o = append(o, fmt.Sprintf(`{"group":"g%05d","topic":"orders","broker":"broker-a","queueId":%d,"offset":%d}`, i, q, 1))
			w = append(w, fmt.Sprintf("\"broker-a:%d\" = 0", q))
		}
	}
	file := inputs(t)
	return file("groups.json", "["+strings.Join(g, ",")+"]"), file("topics.json", "["+strings.Join(to, ",")+"]"),
		file("offsets.json", `{"items":[`+strings.Join(o, ",")+"]}"), file("cluster.toml", strings.Join(w, "\n"))
}

// inputs writes input files of a test, and gives their paths.
func inputs(t testing.TB) (file func(name, text string) string) {
	dir := t.TempDir()
	return func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// manySteps change and read n things at a time.
func manySteps(groups, topics, offsets, whole, dir string) [][]string {
	return [][]string{
		{"group", "apply", "-f", groups, "--yes"},
		{"undo", "--yes"},
		{"group", "apply", "-f", groups, "--yes"},
		{"topic", "apply", "-f", topics, "--yes"},
		{"offset", "import", "-f", offsets, "--yes"},
		{"cluster", "export", "--what", "topics,groups,offsets", "--out", filepath.Join(dir, "c.toml")},
		{"plan", "-f", filepath.Join(dir, "c.toml")},
		{"cluster", "import", "-f", whole, "--yes"},
		{"undo", "--yes"},
		{"group", "list"},
		{"stats", "lag"},
	}
}

// TestManyThings: a command over n things asks for a whole table a few times,
// not once for each thing.
func TestManyThings(t *testing.T) {
	ready := startHere(t)
	env := map[string]string{"MQCTL_AUDIT": filepath.Join(t.TempDir(), "audit")}
	const n = 64
	groups, topics, offsets, whole := manyThings(t, n)
	if code, _, errs := runLine("mqctl", "-n", ready.Namesrv[0], "topic", "create", "orders", "--yes"); code != ExitOK {
		t.Fatal(errs)
	}
	if code, _, errs := runLine("mqctl", "-n", ready.Namesrv[0], "message", "send", "orders", "--body", "x", "--count", "64"); code != ExitOK {
		t.Fatal(errs)
	}
	traced := regexp.MustCompile(`(?m)^trace   (\d+) `)
	for _, line := range manySteps(groups, topics, offsets, whole, t.TempDir()) {
		code, _, errs := runEnv(env, append([]string{"mqctl", "-n", ready.Namesrv[0], "--trace"}, line...)...)
		if code != ExitOK {
			t.Fatalf("%v: exit %d\n%s", line, code, errs)
		}
		asked := map[string]int{}
		for _, m := range traced.FindAllStringSubmatch(errs, -1) {
			asked[m[1]]++
		}
		for code, what := range map[string]string{"201": "all groups", "21": "all topics", "26": "all settings", "106": "the cluster", "43": "all offsets", "28": "the runtime keys"} {
			if asked[code] > 12 {
				t.Errorf("%v asks %d times for %s", line, asked[code], what)
			}
		}
		if n := asked["17"] + asked["200"]; n > 4 && line[1] == "apply" {
			t.Errorf("%v writes %d things one by one", line, n)
		}
		if n := asked["208"] + asked["203"]; n > 12 && (line[1] == "list" || line[1] == "lag") {
			t.Errorf("%v asks %d times about single groups", line, n)
		}
	}
}

// BenchmarkManyThings is what commands over a thousand things take, their broker included.
func BenchmarkManyThings(b *testing.B) {
	for _, n := range []int{1000, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ready := startHere(b)
			env := map[string]string{"MQCTL_AUDIT": filepath.Join(b.TempDir(), "audit")}
			groups, topics, offsets, whole := manyThings(b, n)
			for range b.N {
				for _, line := range append([][]string{{"topic", "set", "orders", "--read-queues", "8"}, {"message", "send", "orders", "--body", "x", "--count", "64"}}, manySteps(groups, topics, offsets, whole, b.TempDir())...) {
					begin := time.Now()
					code, _, errs := runEnv(env, append([]string{"mqctl", "-n", ready.Namesrv[0]}, line...)...)
					if code != ExitOK {
						b.Fatalf("%v: exit %d\n%s", line, code, errs)
					}
					b.ReportMetric(float64(time.Since(begin).Milliseconds()), strings.ReplaceAll(strings.Join(line[:2], "_"), "-f", "")+"_ms")
				}
			}
		})
	}
}
