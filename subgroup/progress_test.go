package subgroup_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// clocked is a table with a clock that the test moves.
func clocked(t testing.TB, now *int64) *subgroup.Offsets {
	t.Helper()
	o, err := subgroup.LoadOffsets(vfs.NewMem(), dir, func() int64 { return *now }, func() int64 { return *now })
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	minute = 60_000
	day    = 24 * 60 * minute
)

// TestCommitRules goes through rules P1 to P5: steps of one key, each with what
// became of it and what is stored then.
func TestCommitRules(t *testing.T) {
	type step struct {
		at     int64 // ms
		offset int64
		client uint64
		as     string // member, lone, stranger; reset: says reset=true
		max    int64  // of the queue; 0: unknown
		want   subgroup.Outcome
		stored string // offset/gen/source
	}
	reset := func(o *subgroup.Offsets, now *int64, to int64, pending bool) {
		o.Reset("g", "t", 0, to, pending)
	}
	for _, c := range []struct {
		name  string
		slave bool
		reset []int64 // before the steps: commits to the first, resets to the second
		steps []step
	}{
		{name: "upward", steps: []step{
			{0, 5, 1, "member", 0, subgroup.Stored, "5/0/commit"},
			{1, 5, 1, "member", 0, subgroup.Stored, "5/0/commit"},
			{2, 9, 2, "stranger", 0, subgroup.Stored, "9/0/commit"},
		}},
		{name: "P2: a value beyond the queue's end", steps: []step{
			{0, 50, 1, "member", 0, subgroup.Stored, "50/0/commit"},
			{1, 7, 2, "member", 50, subgroup.Ignored, "50/0/commit"},
			{2, 7, 2, "member", 49, subgroup.Moved, "7/1/correction"},
			{3, 8, 2, "member", 49, subgroup.Stored, "8/1/commit"},
		}},
		{name: "P2: not on a slave", slave: true, steps: []step{
			{0, 50, 1, "member", 0, subgroup.Stored, "50/0/commit"},
			{1, 7, 2, "member", 10, subgroup.Ignored, "50/0/commit"},
		}},
		{name: "P3: meant so", steps: []step{
			{0, 50, 1, "member", 0, subgroup.Stored, "50/0/commit"},
			{1, 7, 2, "reset", 0, subgroup.Moved, "7/1/reset"},
			{2, -1, 2, "reset", 0, subgroup.Ignored, "7/1/reset"},
		}},
		{name: "P3: nobody is there", steps: []step{
			{0, 50, 1, "member", 0, subgroup.Stored, "50/0/commit"},
			{1, 7, 2, "stranger", 0, subgroup.Ignored, "50/0/commit"},
			{40_000, 7, 2, "lone", 0, subgroup.Ignored, "50/0/commit"},
			{40_001, 7, 2, "lone", 0, subgroup.Moved, "7/1/reset"},
		}},
		{name: "P4: its own", steps: []step{
			{0, 50, 1, "member", 0, subgroup.Stored, "50/0/commit"},
			{1, 20, 1, "member", 0, subgroup.Moved, "20/1/reset"},
			{2, 10, 1, "member", 0, subgroup.Moved, "10/2/reset"},
			{3, 30, 2, "member", 0, subgroup.Stored, "30/2/commit"},
			{4, 11, 1, "member", 0, subgroup.Ignored, "30/2/commit"},
		}},
		{name: "P4: repeated", steps: []step{
			{0, 50, 1, "member", 0, subgroup.Stored, "50/0/commit"},
			{1, 20, 2, "member", 0, subgroup.Ignored, "50/0/commit"},
			{5000, 21, 2, "member", 0, subgroup.Ignored, "50/0/commit"},
			{5001, 22, 2, "member", 0, subgroup.Moved, "22/1/reset"},
		}},
		{name: "P4: a higher one between", steps: []step{
			{0, 50, 1, "member", 0, subgroup.Stored, "50/0/commit"},
			{1, 20, 2, "member", 0, subgroup.Ignored, "50/0/commit"},
			{4000, 50, 1, "member", 0, subgroup.Stored, "50/0/commit"},
			{9000, 20, 2, "member", 0, subgroup.Ignored, "50/0/commit"},
			{13_999, 20, 2, "member", 0, subgroup.Ignored, "50/0/commit"},
			{14_000, 20, 2, "member", 0, subgroup.Moved, "20/1/reset"},
		}},
		{name: "P4: repeated by another", steps: []step{
			{0, 50, 1, "member", 0, subgroup.Stored, "50/0/commit"},
			{1, 20, 2, "member", 0, subgroup.Ignored, "50/0/commit"},
			{9000, 20, 3, "member", 0, subgroup.Ignored, "50/0/commit"},
		}},
		{name: "negative", steps: []step{
			{0, -1, 1, "member", 0, subgroup.Stored, "-1/0/commit"},
			{1, 0, 2, "member", 0, subgroup.Stored, "0/0/commit"},
			{2, -1, 2, "member", 0, subgroup.Ignored, "0/0/commit"},
			{90_000, -1, 3, "lone", 0, subgroup.Ignored, "0/0/commit"},
		}},
		{name: "P5: backward", reset: []int64{5000, 100}, steps: []step{
			{1, 5010, 1, "member", 0, subgroup.Held, "5000->100"},
			{2, 99, 1, "member", 0, subgroup.Held, "5000->100"},
			{3, 1101, 1, "member", 0, subgroup.Held, "5000->100"},
			{4, 90, 1, "reset", 0, subgroup.Held, "5000->100"},
			{5, 100, 1, "member", 0, subgroup.Stored, "100/1/commit"},
			{6, 120, 1, "member", 0, subgroup.Stored, "120/1/commit"},
		}},
		{name: "P5: backward, first seen a little later", reset: []int64{5000, 100}, steps: []step{
			{1, 1100, 1, "member", 0, subgroup.Stored, "1100/1/commit"},
		}},
		{name: "P5: backward by little", reset: []int64{500, 100}, steps: []step{
			{1, 510, 1, "member", 0, subgroup.Held, "500->100"},
			{2, 499, 1, "member", 0, subgroup.Stored, "499/1/commit"},
		}},
		{name: "P5: forward", reset: []int64{500, 5000}, steps: []step{
			{1, 510, 1, "member", 0, subgroup.Held, "500->5000"},
			{2, 5032, 1, "member", 0, subgroup.Stored, "5032/1/commit"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := int64(0)
			o := clocked(t, &now)
			if c.reset != nil {
				commit(o, "g", "t", 0, c.reset[0])
				reset(o, &now, c.reset[1], true)
			}
			counts := map[subgroup.Outcome]int64{}
			for _, s := range c.steps {
				now = s.at
				got := o.CommitChecked(&subgroup.Commit{
					Group: []byte("g"), Topic: []byte("t"), Offset: s.offset, Client: s.client, Reset: s.as == "reset",
					Member: s.as == "member", AnyMember: s.as != "lone", Master: !c.slave, QueueMax: s.max - boolean(s.max == 0),
					ServingFor: s.at, NowMillis: s.at,
				})
				counts[got]++
				p, _ := o.Progress("g", "t", 0)
				text := fmt.Sprintf("%d/%d/%s", p.Offset, p.Gen, p.Source)
				if p.Pending {
					text = fmt.Sprintf("%d->%d", c.reset[0], p.Offset)
				}
				if got != s.want || text != s.stored {
					t.Errorf("%d by %s: %d and %s, want %d and %s", s.offset, s.as, got, text, s.want, s.stored)
				}
			}
			n := o.Counts()
			if n.Moved != counts[subgroup.Moved] || n.Ignored != counts[subgroup.Ignored] || n.Held != counts[subgroup.Held] {
				t.Errorf("counted %+v, want %v", n, counts)
			}
		})
	}
}

func boolean(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func TestBeats(t *testing.T) {
	// From the weakest to the strongest.
	p := func(gen uint32, src subgroup.Source, offset int64) subgroup.Progress {
		return subgroup.Progress{Gen: gen, Source: src, Offset: offset}
	}
	pending, old, marker := p(1, subgroup.FromReset, 5), p(1, subgroup.FromCommit, 7), p(1, subgroup.FromCommit, 99)
	pending.Pending, marker.Deleted = true, true
	termed, later := old, old
	termed.Term, termed.Updated, later.Updated = 1, -1, 1
	order := []subgroup.Progress{
		p(0, subgroup.FromCommit, 1000), marker,
		p(1, subgroup.FromReset, 9), pending, p(1, subgroup.FromReset, 5),
		p(1, subgroup.FromCorrection, 9), p(1, subgroup.FromCorrection, 5),
		p(1, subgroup.FromImport, 9), p(1, subgroup.FromImport, 5),
		p(1, subgroup.FromCommit, 5), old, later, termed,
		p(2, subgroup.FromReset, 0),
	}
	for i, a := range order {
		for j, b := range order {
			if got := a.Beats(b); got != (i > j) {
				t.Errorf("%+v beats %+v: %v", a, b, got)
			}
		}
	}
}

// TestMergeUnknown merges numbers that an Apache broker wrote.
func TestMergeUnknown(t *testing.T) {
	unknown := func(offset int64) subgroup.Progress {
		return subgroup.Progress{Offset: offset, Unknown: true, Source: subgroup.FromCommit}
	}
	known := func(gen uint32, src subgroup.Source, offset int64) subgroup.Progress {
		return subgroup.Progress{Offset: offset, Gen: gen, Source: src}
	}
	waiting, marker := known(3, subgroup.FromReset, 2), known(3, subgroup.FromReset, 0)
	waiting.Pending, marker.Deleted = true, true
	for _, c := range []struct {
		name           string
		here, in, want subgroup.Progress
		move           bool // here was reset to 4 after it was read
	}{
		{"both", unknown(5), unknown(9), unknown(9), false},
		{"takes the generation", unknown(9), known(3, subgroup.FromCommit, 5), known(3, subgroup.FromCommit, 9), false},
		{"and gives way", unknown(5), known(3, subgroup.FromCommit, 9), known(3, subgroup.FromCommit, 9), false},
		{"there", known(3, subgroup.FromCommit, 5), unknown(9), known(3, subgroup.FromCommit, 9), false},
		{"there, less", known(3, subgroup.FromCommit, 5), unknown(4), known(3, subgroup.FromCommit, 5), false},
		{"not over a reset that waits", unknown(9), waiting, waiting, false},
		{"nor there", waiting, unknown(9), waiting, false},
		{"nor over a deletion", unknown(9), marker, marker, false},
		{"a reset since", unknown(9), known(0, subgroup.FromCommit, 50), known(1, subgroup.FromReset, 4), true},
	} {
		now := int64(0)
		o := clocked(t, &now)
		rec := func(p subgroup.Progress) []subgroup.ProgressRecord {
			return []subgroup.ProgressRecord{{Topic: "t", Group: "g", Progress: p}}
		}
		o.Merge(rec(c.here))
		if c.move {
			o.Reset("g", "t", 0, 4, false)
		}
		for range 2 {
			o.Merge(rec(c.in))
			if got, _ := o.Progress("g", "t", 0); got != c.want {
				t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
			}
		}
	}
}

func TestTakeReset(t *testing.T) {
	now := int64(0)
	o := clocked(t, &now)
	take := func() string {
		target, ok := o.TakeReset([]byte("g"), []byte("t"), 0)
		return fmt.Sprint(target, ok)
	}
	if got := take(); got != "0 false" {
		t.Error(got)
	}
	o.Reset("g", "t", 0, 7, true)
	o.Reset("g", "other", 0, 7, true)
	if n := o.Counts().Waiting; n != 2 {
		t.Errorf("%d wait", n)
	}
	if got := query(o, "g", "t", 0); got != "7" {
		t.Errorf("14 answers %s", got)
	}
	if got := take() + ", " + take(); got != "7 true, 0 false" {
		t.Error(got)
	}
	// A group without members for ten minutes: it waits no longer.
	members := true
	sweep := func() int64 { o.Sweep(func(string) bool { return members }); return o.Counts().Waiting }
	now += 20 * minute
	if n := sweep(); n != 1 {
		t.Errorf("%d wait for a group with members", n)
	}
	members = false
	if now += minute; sweep() != 1 {
		t.Error("gave up at once")
	}
	if now += 10 * minute; sweep() != 1 {
		t.Error("gave up after ten minutes")
	}
	if now++; sweep() != 0 {
		t.Error("still waits")
	}
	if got := query(o, "g", "other", 0); got != "7" {
		t.Errorf("the target became %s", got)
	}
	group, topic := []byte("g"), []byte("t")
	if n := testing.AllocsPerRun(50, func() {
		o.TakeReset(group, topic, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestDeletionMarkers(t *testing.T) {
	now := int64(100 * day)
	mem := vfs.NewMem()
	load := func() *subgroup.Offsets {
		o, err := subgroup.LoadOffsets(mem, dir, func() int64 { return now }, func() int64 { return now })
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := load()
	commit(o, "g", "t", 0, 5)
	back, _ := o.Since(nil, 0)
	o.DeleteTopic("t")
	if o.Merge(back) != 0 || query(o, "g", "t", 0) != "none" || o.Len() != 0 {
		t.Error("a replica brought deleted progress back")
	}
	if err := o.Persist(); err != nil {
		t.Fatal(err)
	}
	o = load()
	if o.Merge(back) != 0 || o.Len() != 0 {
		t.Error("the marker was not saved")
	}
	now += 7 * day
	o.Sweep(func(string) bool { return false })
	if _, ok := o.Progress("g", "t", 0); !ok {
		t.Error("the marker went too early")
	}
	marker, _ := o.Since(nil, 0)
	now++
	o.Sweep(func(string) bool { return false })
	if _, ok := o.Progress("g", "t", 0); ok {
		t.Error("the marker stays")
	}
	if o.Merge(marker) != 0 {
		t.Error("an outlived marker was taken")
	}
	if err := o.Persist(); err != nil {
		t.Fatal(err)
	}
	if b, _ := vfs.ReadFile(mem, dir+"/consumerOffset.json", 1<<20); strings.Contains(string(b), "progressMeta") {
		t.Errorf("left on disk: %s", b)
	}
	// A commit after a deletion begins anew and wins over what was before it.
	commit(o, "g", "u", 0, 50)
	before, _ := o.Since(nil, 0)
	o.DeleteGroup("g")
	commit(o, "g", "u", 0, 3)
	if o.Merge(before) != 0 || query(o, "g", "u", 0) != "3" {
		t.Errorf("after the deletion: %s", query(o, "g", "u", 0))
	}
}

func TestClamp(t *testing.T) {
	now := int64(0)
	o := clocked(t, &now)
	for q, off := range []int64{5, 10, 11, 99} {
		commit(o, "g", "t", int32(q), off)
	}
	o.SetTerm(4)
	got := o.Clamp(func(_ string, queue int32) (int64, bool) { return 10, queue != 3 })
	want := []subgroup.ProgressRecord{{Topic: "t", Group: "g", Queue: 2, Progress: subgroup.Progress{Offset: 10, Gen: 1, Source: subgroup.FromCorrection, Term: 4}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := o.Queues("g", "t"); !reflect.DeepEqual(got, map[int32]int64{0: 5, 1: 10, 2: 10, 3: 99}) {
		t.Errorf("%v", got)
	}
}

// TestSince asks for changes again and again and keeps a copy from them alone.
func TestSince(t *testing.T) {
	now := int64(0)
	o, replica := clocked(t, &now), clocked(t, &now)
	var version uint64
	for round := range 300 {
		changed := map[int32]bool{}
		for i := range 40 {
			q := int32((round*7919 + i*i*31) % 1000)
			commit(o, fmt.Sprint("g", q%7), "t", q, int64(round+1))
			changed[q] = true
		}
		records, to := o.Since(nil, version)
		if len(records) != len(changed) {
			t.Fatalf("round %d: %d records of %d changed keys", round, len(records), len(changed))
		}
		if to <= version {
			t.Fatalf("version %d after %d", to, version)
		}
		replica.Merge(records)
		version = to
		if again, v := o.Since(nil, version); len(again) != 0 || v != version || o.Version() != version {
			t.Fatalf("nothing changed, and %d records came; version %d became %d", len(again), version, v)
		}
	}
	a, _ := o.Since(nil, 0)
	_, mine, _ := strings.Cut(string(o.JSON(true)), "offsetTable")
	_, theirs, _ := strings.Cut(string(replica.JSON(true)), "offsetTable")
	if mine != theirs || len(a) != 1000 {
		t.Errorf("the copy differs, or of 1000 keys there are %d", len(a))
	}
	odd := func(r *subgroup.ProgressRecord) bool { return r.Queue%2 == 1 }
	if b, to := o.SinceBut(nil, 0, odd); len(b) != 500 || to != version || slices.ContainsFunc(b, func(r subgroup.ProgressRecord) bool { return odd(&r) }) {
		t.Errorf("without odd queues: %d records up to %d", len(b), to)
	}
	if b, _ := o.Since(nil, 1<<40|77); len(b) != len(a) {
		t.Errorf("a version of another process: %d records of %d", len(b), len(a))
	}
	if b, _ := o.Since(nil, version+1000); len(b) != len(a) {
		t.Errorf("a version of the future: %d records of %d", len(b), len(a))
	}
}

// TestProgressFile keeps generations and members of others through the file.
func TestProgressFile(t *testing.T) {
	mem := vfs.NewMem()
	writeConfig(t, mem, "consumerOffset.json", `{"future":{"a":[1,"x"]},"dataVersion":{"counter":3,"stateVersion":1,"timestamp":9},"groupTopicMap":{},
		"offsetTable":{"t@g":{0:5,1:6,2:7,3:8},"u@g":{0:1}},
		"progressMeta":{"t@g":{"0":[2,7,0],1:[2,0,3],2:[1,0,0,2,55],9:[4,0,0,1,60]},"gone@g":{0:[1,0,0,1,61]},"odd@g":{0:[1,0,3]}}}`)
	load := func() *subgroup.Offsets {
		o, err := subgroup.LoadOffsets(mem, dir, func() int64 { return 100 }, func() int64 { return 100 })
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := load()
	for range 2 {
		for q, want := range map[int32]subgroup.Progress{
			0: {Offset: 5, Gen: 2, Term: 7, Source: subgroup.FromReset},
			1: {Offset: 6, Gen: 2, Source: subgroup.FromCommit},
			2: {Offset: 7, Gen: 1, Pending: true, Source: subgroup.FromReset, Updated: 55},
			3: {Offset: 8, Unknown: true, Source: subgroup.FromCommit},
			9: {Gen: 4, Deleted: true, Source: subgroup.FromReset, Updated: 60},
		} {
			if got, _ := o.Progress("g", "t", q); got != want {
				t.Errorf("queue %d: %+v, want %+v", q, got, want)
			}
		}
		if _, ok := o.Progress("g", "odd", 0); ok || o.Counts().Waiting != 1 {
			t.Error("a generation without a number is progress")
		}
		commit(o, "x", "t", 0, 1)
		if err := o.Persist(); err != nil {
			t.Fatal(err)
		}
		o = load()
	}
	b, _ := vfs.ReadFile(mem, dir+"/consumerOffset.json", 1<<20)
	want := "{\n\t\"dataVersion\":{\n\t\t\"counter\":3,\n\t\t\"stateVersion\":1,\n\t\t\"timestamp\":9\n\t},\n\t\"offsetTable\":{\n" +
		"\t\t\"t@g\":{0:5,1:6,2:7,3:8\n\t\t},\n\t\t\"t@x\":{0:1\n\t\t},\n\t\t\"u@g\":{0:1\n\t\t}\n\t},\n" +
		"\t\"progressMeta\":{\n\t\t\"gone@g\":{0:[1,0,0,1,61]\n\t\t},\n\t\t\"t@g\":{0:[2,7,0],1:[2,0,3],2:[1,0,0,2,55],9:[4,0,0,1,60]\n\t\t},\n\t\t\"t@x\":{0:[0,0,3]\n\t\t}\n\t},\n" +
		"\t\"future\":{\"a\":[1,\"x\"]}\n}"
	if string(b) != want {
		t.Errorf("file\n%s\nwant\n%s", b, want)
	}
	for _, bad := range []string{`[1,2]`, `[-1,0,0]`, `[0,0,9]`, `[0,0,3,64,1]`, `"x"`, `[4294967296,0,0]`, `{}`} {
		writeConfig(t, mem, "consumerOffset.json", `{"offsetTable":{"t@g":{0:5}},"progressMeta":{"t@g":{0:`+bad+`}}}`)
		writeConfig(t, mem, "consumerOffset.json.bak", `{"offsetTable":{"t@g":{0:4}}}`)
		if got := query(load(), "g", "t", 0); got != "4" {
			t.Errorf("with %s as a generation: %s, want what the .bak has", bad, got)
		}
	}
}

func TestLeases(t *testing.T) {
	now := int64(1_000_000)
	clock := func() int64 { return now }
	a, b := subgroup.NewLocks(clock), subgroup.NewLocks(clock)
	q := func(id int32) subgroup.QueueKey { return subgroup.QueueKey{Topic: "t", BrokerName: "n", QueueID: id} }
	a.Lock("g", "one", []subgroup.QueueKey{q(0), q(1)})
	now += 20_000
	b.Lock("g", "two", []subgroup.QueueKey{q(1)})
	leases := a.Leases()
	if len(leases) != 2 || leases[0].LeftMillis != 40_000 || leases[1].LeftMillis != 40_000 {
		t.Fatalf("%+v", leases)
	}
	b.TakeOver(append(leases, subgroup.Lease{Group: "g", ClientID: "three", Queue: q(2), LeftMillis: 0}))
	if got := len(b.Leases()); got != 2 {
		t.Errorf("%d leases", got)
	}
	if got := b.Lock("g", "two", []subgroup.QueueKey{q(0), q(1), q(2)}); !reflect.DeepEqual(got, []subgroup.QueueKey{q(1), q(2)}) {
		t.Errorf("granted %v", got)
	}
	now += 40_001
	if got := b.Lock("g", "two", []subgroup.QueueKey{q(0)}); len(got) != 1 {
		t.Error("a lease that was taken over outlived its end")
	}
	// The holder's own lease is only made longer.
	b.TakeOver([]subgroup.Lease{{Group: "g", ClientID: "two", Queue: q(0), LeftMillis: 5}})
	now += 59_000
	if got := b.Lock("g", "one", []subgroup.QueueKey{q(0)}); len(got) != 0 {
		t.Error("a lease was cut short")
	}
}

// TestSetClock: whoever sets the machine's clock changes neither how long a member has
// to insist on a lower commit, nor how long a reset waits for a group without members.
func TestSetClock(t *testing.T) {
	for _, set := range []int64{5 * 60 * minute, -5 * 60 * minute, 0} {
		t.Run(fmt.Sprintf("by %d minutes", set/minute), func(t *testing.T) {
			date, steady := int64(1_700_000_000_000), int64(0)
			o, err := subgroup.LoadOffsets(vfs.NewMem(), "/s", func() int64 { return date }, func() int64 { return steady })
			if err != nil {
				t.Fatal(err)
			}
			pass := func(d int64) { date, steady = date+d, steady+d }
			lower := func() subgroup.Outcome {
				return o.CommitChecked(&subgroup.Commit{Group: []byte("g"), Topic: []byte("t"), Offset: 50, Client: 2, Member: true, AnyMember: true,
					QueueMax: -1, NowMillis: date})
			}
			commit(o, "g", "t", 0, 100)
			first := lower()
			date += set
			pass(4_900)
			second := lower()
			pass(200)
			if third := lower(); first != subgroup.Ignored || second != subgroup.Ignored || third != subgroup.Moved {
				t.Errorf("a member's lower commit: %d, %d after 4.9 s, %d after 5.1 s", first, second, third)
			}
			o.Reset("g", "t", 0, 10, true)
			sweep := func() int64 { o.Sweep(func(string) bool { return false }); return o.Counts().Waiting }
			sweep()
			date += set
			pass(9 * minute)
			early := sweep()
			pass(2 * minute)
			if late := sweep(); early != 1 || late != 0 {
				t.Errorf("resets that wait: %d after 9 minutes without members, %d after 11", early, late)
			}
		})
	}
}
