package subgroup_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mqctl/store/fastjson"
	"mqctl/store/vfs"
	"mqctl/subgroup"
)

func loadOffsets(t testing.TB, fsys vfs.FS) *subgroup.Offsets {
	t.Helper()
	o, err := subgroup.LoadOffsets(fsys, dir, func() int64 { return 1_700_000_000_000 }, func() int64 { return 1_700_000_000_000 })
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func commit(o *subgroup.Offsets, group, topic string, queue int32, offset int64) {
	o.CommitChecked(&subgroup.Commit{Group: []byte(group), Topic: []byte(topic), Queue: queue, Offset: offset, QueueMax: -1})
}

func query(o *subgroup.Offsets, group, topic string, queue int32) string {
	offset, ok := o.Query([]byte(group), []byte(topic), queue)
	if !ok {
		return "none"
	}
	return fmt.Sprint(offset)
}

func TestOffsetsGolden(t *testing.T) {
	mem := vfs.NewMem()
	text := golden(t, "consumerOffset.json")
	writeConfig(t, mem, "consumerOffset.json", text)
	o := loadOffsets(t, mem)
	if got, want := o.Queues("sqlers", "orders"), map[int32]int64{0: 84, 1: 84, 2: 84, 3: 84}; !reflect.DeepEqual(got, want) {
		t.Errorf("orders@sqlers: %v", got)
	}
	if got := query(o, "billing", "orders", 3); got != "99" {
		t.Errorf("orders@billing, queue 3: %s", got)
	}
	if got := o.AllGroups(); !slices.Equal(got, []string{"audit", "billing", "sqlers"}) {
		t.Errorf("groups %v", got)
	}
	if got := o.Topics("audit"); !slices.Equal(got, []string{"%RETRY%audit", "notes"}) {
		t.Errorf("topics of audit %v", got)
	}
	if got := o.Groups("orders"); !slices.Equal(got, []string{"billing", "sqlers"}) {
		t.Errorf("groups of orders %v", got)
	}
	if o.Len() != 5 {
		t.Errorf("%d rows", o.Len())
	}
	if err := o.Persist(); err != nil {
		t.Fatal(err)
	}
	if b, _ := vfs.ReadFile(mem, dir+"/consumerOffset.json", 1<<20); string(b) != text {
		t.Error("saved although nothing changed")
	}
	commit(o, "audit", "notes", 0, 8)
	if err := o.Persist(); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(mem, dir+"/consumerOffset.json", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	// As the original writes it, rows sorted and without the derived map.
	want := "{\n\t\"dataVersion\":{\n\t\t\"counter\":0,\n\t\t\"stateVersion\":0,\n\t\t\"timestamp\":1795969485621\n\t},\n\t\"offsetTable\":{\n" +
		"\t\t\"%RETRY%audit@audit\":{0:1,1:1\n\t\t},\n" +
		"\t\t\"ledger@billing\":{1:0\n\t\t},\n" +
		"\t\t\"notes@audit\":{0:8\n\t\t},\n" +
		"\t\t\"orders@billing\":{0:17,3:99\n\t\t},\n" +
		"\t\t\"orders@sqlers\":{0:84,1:84,2:84,3:84\n\t\t}\n\t}\n}"
	if string(b) != want {
		t.Errorf("file\n%s\nwant\n%s", b, want)
	}
	if got, want := string(o.JSON(false)), `{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1795969485621},"offsetTable":{"%RETRY%audit@audit":{0:1,1:1},"ledger@billing":{1:0},"notes@audit":{0:8},"orders@billing":{0:17,3:99},"orders@sqlers":{0:84,1:84,2:84,3:84}}}`; got != want {
		t.Errorf("JSON\n%s\nwant\n%s", got, want)
	}
}

func TestOffsetsForms(t *testing.T) {
	mem := vfs.NewMem()
	writeConfig(t, mem, "consumerOffset.json", `{"offsetTable":{"t@g":{0:1,"1":2,2:"3",-1:5,99999999999:1},"t@g@broadcast":{0:4},"noat":{0:1},"@g":{0:1},"t@":{0:1},"n@g":null},"future":[]}`)
	o := loadOffsets(t, mem)
	for queue, want := range map[int32]string{0: "1", 1: "2", 2: "3", -1: "5", 7: "none"} {
		if got := query(o, "g", "t", queue); got != want {
			t.Errorf("queue %d: %s, want %s", queue, got, want)
		}
	}
	if got := query(o, "g@broadcast", "t", 0); got != "4" {
		t.Errorf("broadcast row: %s", got)
	}
	if o.Len() != 2 {
		t.Errorf("%d rows", o.Len())
	}
	writeConfig(t, mem, "consumerOffset.json", `{"offsetTable":{"t@g":{0:"x"}}}`)
	if _, err := subgroup.LoadOffsets(mem, dir, func() int64 { return 1 }, func() int64 { return 1 }); err == nil {
		t.Error("an offset that is no number was accepted")
	}
}

func TestCommit(t *testing.T) {
	mem := vfs.NewMem()
	o := loadOffsets(t, mem)
	steps := []struct {
		queue  int32
		offset int64
	}{{0, 5}, {0, 9}, {1, -1}, {1, 3}, {1 << 30, 7}, {-2, 1}}
	for _, s := range steps {
		commit(o, "g", "t", s.queue, s.offset)
		if got := query(o, "g", "t", s.queue); got != fmt.Sprint(s.offset) {
			t.Errorf("committed %d to queue %d, found %s", s.offset, s.queue, got)
		}
	}
	if got := query(o, "g", "other", 0); got != "none" {
		t.Errorf("another topic: %s", got)
	}
	if err := o.Persist(); err != nil {
		t.Fatal(err)
	}
	again := loadOffsets(t, mem)
	if got, want := again.Queues("g", "t"), o.Queues("g", "t"); !reflect.DeepEqual(got, want) || len(got) != 4 {
		t.Errorf("on disk %v, in memory %v", got, want)
	}
	if again.Queues("x", "t") != nil {
		t.Error("a row came from nowhere")
	}
}

func TestCommitBoundsQueueIDs(t *testing.T) {
	o := loadOffsets(t, vfs.NewMem())
	for q := range int32(70_000) {
		commit(o, "g", "t", q, 1)
	}
	if n := len(o.Queues("g", "t")); n != 65536 {
		t.Errorf("%d queue ids are kept", n)
	}
}

func TestOffsetsVersion(t *testing.T) {
	mem := vfs.NewMem()
	o := loadOffsets(t, mem)
	counter := func() int64 {
		var doc struct {
			DataVersion struct{ Counter int64 }
		}
		if err := fastjson.Unmarshal(o.JSON(false), &doc); err != nil {
			t.Fatal(err)
		}
		return doc.DataVersion.Counter
	}
	for i := range 1100 {
		commit(o, "g", "t", 0, int64(i))
		if i == 498 && counter() != 0 {
			t.Errorf("version %d after 499 commits", counter())
		}
		if i == 499 && counter() != 1 {
			t.Errorf("version %d after 500 commits", counter())
		}
	}
	if counter() != 2 {
		t.Errorf("version %d after 1100 commits", counter())
	}
}

func TestPullOffsets(t *testing.T) {
	mem := vfs.NewMem()
	o := loadOffsets(t, mem)
	if _, ok := o.PullOffset("g", "t", 0); ok {
		t.Error("a pull offset came from nowhere")
	}
	o.NotePull([]byte("g"), []byte("t"), 0, 8)
	if got, ok := o.PullOffset("g", "t", 0); !ok || got != 8 {
		t.Errorf("%d %v", got, ok)
	}
	if _, ok := o.PullOffset("g", "t", 1); ok {
		t.Error("another queue has it too")
	}
	// It is no committed offset.
	if o.Len() != 0 || len(o.Topics("g")) != 0 || len(o.Groups("t")) != 0 || len(o.AllGroups()) != 0 || o.Queues("g", "t") != nil {
		t.Error("a pull position counts as progress")
	}
	if err := o.Persist(); err != nil {
		t.Fatal(err)
	}
	if _, err := mem.Stat(dir + "/consumerOffset.json"); err == nil {
		t.Error("a pull position was saved")
	}
}

func TestOffsetsRemoval(t *testing.T) {
	mem := vfs.NewMem()
	o := loadOffsets(t, mem)
	for _, topic := range []string{"t1", "t2", "%RETRY%g1"} {
		for _, group := range []string{"g1", "g2"} {
			commit(o, group, topic, 0, 1)
		}
	}
	o.DeleteTopic("t1")
	o.DeleteGroup("g2")
	if err := o.Persist(); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*subgroup.Offsets{o, loadOffsets(t, mem)} {
		if got := o.Topics("g1"); !slices.Equal(got, []string{"%RETRY%g1", "t2"}) || len(o.Topics("g2")) != 0 {
			t.Errorf("left: %v, %v", got, o.Topics("g2"))
		}
	}
}

func TestPersistAfterFailure(t *testing.T) {
	in := vfs.NewInjector(vfs.NewMem())
	o := loadOffsets(t, in)
	commit(o, "g", "t", 0, 1)
	in.Fail(vfs.Fault{Op: vfs.OpSync, Err: syscall.EIO})
	if err := o.Persist(); err == nil || !strings.Contains(err.Error(), "consumer offsets") {
		t.Errorf("a failed save: %v", err)
	}
	in.Heal()
	if err := o.Persist(); err != nil {
		t.Fatal(err)
	}
	if got := query(loadOffsets(t, in), "g", "t", 0); got != "1" {
		t.Errorf("after the retry: %s", got)
	}
}

func TestOffsetsConcurrent(t *testing.T) {
	mem := vfs.NewMem()
	o := loadOffsets(t, mem)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			group := []byte(fmt.Sprint("g", w))
			for i := range 500 {
				o.CommitChecked(&subgroup.Commit{Group: group, Topic: []byte("t"), Queue: int32(i % 5), Offset: int64(i), QueueMax: -1})
				if got, ok := o.Query(group, []byte("t"), int32(i%5)); !ok || got != int64(i) {
					t.Errorf("%s: %d %v after committing %d", group, got, ok, i)
				}
				o.NotePull(group, []byte("t"), int32(i%5), int64(i))
				if i%100 == 0 {
					if err := o.Persist(); err != nil {
						t.Error(err)
					}
					o.DeleteTopic(fmt.Sprint("none", i))
				}
			}
		})
	}
	wg.Wait()
	if err := o.Persist(); err != nil {
		t.Fatal(err)
	}
	again := loadOffsets(t, mem)
	for w := range 8 {
		group := fmt.Sprint("g", w)
		if got := again.Queues(group, "t"); !reflect.DeepEqual(got, map[int32]int64{0: 495, 1: 496, 2: 497, 3: 498, 4: 499}) {
			t.Errorf("%s: %v", group, got)
		}
	}
}

func TestCommitDoesNotAllocate(t *testing.T) {
	o := loadOffsets(t, vfs.NewMem())
	group, topic := []byte("billing"), []byte("orders")
	c := &subgroup.Commit{Group: group, Topic: topic, Queue: 3}
	o.Raise(c)
	o.NotePull(group, topic, 3, 0)
	offset := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		offset++
		c.Offset = offset
		if !o.Raise(c) {
			t.Fatal("not stored")
		}
		o.NotePull(group, topic, 3, offset)
		if got, ok := o.Query(group, topic, 3); !ok || got != offset {
			t.Fatal(got, ok)
		}
	}); n != 0 {
		t.Errorf("%v allocations a commit", n)
	}
}

func FuzzLoadOffsets(f *testing.F) {
	b, err := os.ReadFile("../testdata/config/consumerOffset.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"offsetTable":{"a\"@g":{0:"3"},"b@c@d":{"-5":-1}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := vfs.NewMem()
		writeConfig(t, mem, "consumerOffset.json", string(b))
		o, err := subgroup.LoadOffsets(mem, dir, func() int64 { return 1 }, func() int64 { return 1 })
		if err != nil {
			return
		}
		commit(o, "fuzz-group", "fuzz-topic", 0, 1)
		if err := o.Persist(); err != nil {
			t.Fatal(err)
		}
		again, err := subgroup.LoadOffsets(mem, dir, func() int64 { return 1 }, func() int64 { return 1 })
		if err != nil {
			t.Fatalf("%v after saving what %q held", err, b)
		}
		if got, want := string(again.JSON(true)), string(o.JSON(true)); got[strings.Index(got, "offsetTable"):] != want[strings.Index(want, "offsetTable"):] {
			t.Fatalf("%s became %s", want, got)
		}
	})
}

func BenchmarkCommit(b *testing.B) {
	o := loadOffsets(b, vfs.NewMem())
	group, topic := []byte("billing"), []byte("orders")
	for i := 0; b.Loop(); i++ {
		o.Raise(&subgroup.Commit{Group: group, Topic: topic, Queue: int32(i & 7), Offset: int64(i)})
	}
}
