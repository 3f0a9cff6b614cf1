//go:build java

package compat

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The exchange of one folder between ours and the original: each writes on what the
// other left, stopped cleanly or killed, and after every change of hands what is there
// is compared: bounds of all queues, every record byte for byte, what the index finds,
// progress, and the files of the log.

// exchangeFiles make several files of everything out of few messages; nothing is
// deleted for want of disk.
var exchangeFiles = []string{"mappedFileSizeCommitLog=1048576", "mappedFileSizeConsumeQueue=6000", "maxIndexNum=1200", "maxHashSlotNum=300",
	"diskMaxUsedSpaceRatio=95", "cleanResourceInterval=3600000"}

const (
	exchangeDelays = "SCHEDULE_TOPIC_XXXX"
	exchangeGroup  = "exchange-group"
	longestDelay   = 18 // level: nothing of it is delivered during the test
)

// exchange is a folder that goes from hand to hand.
type exchange struct {
	t             *testing.T
	name, namesrv string
	dir           string
	sig           syscall.Signal
	hand          int
	ends          map[string]map[int]int64 // topic, queue: messages that were acknowledged
	bodies        map[string][32]byte      // unique id: sum of the body
	keys          map[string][]string      // topic: some keys of its messages
	serial        int
	seen          *exchanged

	ours   bool
	killed bool // the last hand was
	addr   string
	stop   func()
}

// exchanged is what a broker shows of the folder.
type exchanged struct {
	end      int64 // of the log
	sum      [32]byte
	begins   map[string]int64    // "topic queue": first message
	records  map[string][][]byte // "topic queue"
	found    map[string][]int64  // "topic key": positions in the log
	tagged   []int64             // offsets that a filter by tag lets pass
	progress map[int]int64       // queue: of the group
}

func TestExchangeWithApache(t *testing.T) {
	needJava(t)
	port, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	namesrv := fmt.Sprintf("127.0.0.1:%d", port)
	ns, err := launch(filepath.Join(t.TempDir(), "ns.log"), "nameserver", "start", "--listen", namesrv, "--kv-file", filepath.Join(t.TempDir(), "kv.json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.kill(syscall.SIGKILL) })
	for what, sig := range map[string]syscall.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		for first, who := range []string{"ours", "theirs"} {
			t.Run(fmt.Sprintf("%s-%s", who, what), func(t *testing.T) {
				t.Parallel()
				x := &exchange{t: t, name: fmt.Sprintf("exchange-%d-%d", first, sig), namesrv: namesrv, dir: filepath.Join(t.TempDir(), "store"),
					sig: sig, ends: map[string]map[int]int64{}, bodies: map[string][32]byte{}, keys: map[string][]string{}}
				for x.hand = range 3 {
					x.open((first+x.hand)%2 == 0)
					x.write()
					x.close()
				}
				x.hand, x.sig = 3, syscall.SIGTERM
				x.open(first == 1)
				x.close()
			})
		}
	}
}

// open starts a broker on the folder and compares what it shows with what the last one did.
func (x *exchange) open(ours bool) {
	x.t.Helper()
	x.ours = ours
	begin := time.Now()
	if ours {
		x.openOurs()
	} else {
		addr, p := apacheBrokerWith(x.t, x.name, x.namesrv, x.dir, 384, append(slices.Clone(exchangeFiles), "messageIndexSafe=true")...)
		x.addr, x.stop = addr, func() { p.stop(x.sig) }
	}
	x.t.Logf("hand %d, ours %v: up after %v", x.hand, ours, time.Since(begin).Round(time.Millisecond))
	if x.seen != nil {
		x.compare(x.look())
	}
}

func (x *exchange) openOurs() {
	x.t.Helper()
	port, err := freePorts(4)
	if err != nil {
		x.t.Fatal(err)
	}
	x.addr = fmt.Sprintf("127.0.0.1:%d", port+2)
	args := []string{"broker", "start", "--name", x.name, "--listen", x.addr, "--store", x.dir, "-n", x.namesrv, "--no-nameserver", "--http", "off"}
	for _, kv := range exchangeFiles {
		args = append(args, "--set", kv)
	}
	c, err := launch(x.dir+".log", args...)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		c.kill(syscall.SIGKILL)
		if x.t.Failed() {
			text, _ := os.ReadFile(x.dir + ".log")
			x.t.Logf("our log:\n%s", tail(text, 4000))
		}
	})
	x.stop = func() { c.kill(x.sig) }
}

// close notes what the broker shows and ends it.
func (x *exchange) close() {
	x.t.Helper()
	x.seen = x.look()
	x.stop()
	x.killed = x.sig == syscall.SIGKILL
	// Nothing was written after the last look, and the folder needs nobody's care.
	if sum := x.logSum(x.seen.end); sum != x.seen.sum {
		x.t.Errorf("hand %d: the log changed at the stop", x.hand)
	}
	out, err := exec.Command(target.binary, "store", "verify", x.dir).CombinedOutput()
	if err != nil {
		x.t.Errorf("hand %d, ours %v: store verify: %v\n%s", x.hand, x.ours, err, out)
	}
}

func (x *exchange) wire() *wire {
	x.t.Helper()
	w, err := dialWire(x.addr)
	x.must(err)
	return w
}

func (x *exchange) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatalf("hand %d, ours %v: %v", x.hand, x.ours, err)
	}
}

// letters makes n messages for a queue, with keys, tags and bodies of many sizes.
func (x *exchange) letters(topic string, queue, n int, delay int) (out []letter) {
	for range n {
		x.serial++
		id := fmt.Sprintf("7F000001%08X%016X", x.hand, x.serial)
		key := fmt.Sprintf("key-%d-%d", x.hand, x.serial)
		body := bytes.Repeat([]byte(strconv.Itoa(x.serial)+"."), 1+x.serial*37%900)
		props := map[string]string{"UNIQ_KEY": id, "KEYS": key + " all-" + strconv.Itoa(x.serial%50), "TAGS": "T" + strconv.Itoa(x.serial%3), "WAIT": "true"}
		if delay > 0 {
			props["DELAY"] = strconv.Itoa(delay)
		}
		if x.serial%17 == 0 {
			x.keys[topic] = append(x.keys[topic], key, id)
		}
		x.bodies[id] = sha256.Sum256(body)
		out = append(out, letter{topic: topic, queue: queue, props: props, body: body})
	}
	return out
}

// send sends each by itself, or all as one batch.
func (x *exchange) send(w *wire, batch bool, letters []letter) {
	x.t.Helper()
	n := 1
	if batch {
		n = len(letters)
	}
	for l := range slices.Chunk(letters, n) {
		x.sendAll(w, l)
	}
	x.expect(letters[0].topic, letters[0].queue, len(letters))
}

// sendAll sends again what the original refuses because its machine is busy.
func (x *exchange) sendAll(w *wire, letters []letter) {
	x.t.Helper()
	_, err := w.sendAll(letters)
	for i := 0; err != nil && i < 100 && strings.Contains(err.Error(), "broker busy"); i++ {
		_, err = w.sendAll(letters)
	}
	x.must(err)
}

func (x *exchange) expect(topic string, queue, n int) {
	if x.ends[topic] == nil {
		x.ends[topic] = map[int]int64{}
	}
	x.ends[topic][queue] += int64(n)
}

// write sends to several topics and queues: keys, tags, batches, delays, and a topic
// that is deleted and made again.
func (x *exchange) write() {
	x.t.Helper()
	w := x.wire()
	defer w.c.Close()
	if x.hand == 0 {
		for topic, queues := range map[string]int{"exchange-a": 4, "exchange-b": 2, "exchange-d": 1} {
			x.must(w.makeTopic(topic, queues))
		}
		x.must(done(w.call(200, nil, []byte(`{"groupName":"`+exchangeGroup+`","retryQueueNums":1,"retryMaxTimes":3}`))))
	}
	// Its first messages are older than the topic that has its name now.
	x.must(w.makeTopic("exchange-c", 2))
	old := x.letters("exchange-c", 0, 30, 0)
	x.send(w, false, old)
	x.must(w.deleteTopic("exchange-c"))
	delete(x.ends, "exchange-c")
	delete(x.keys, "exchange-c")
	x.must(w.makeTopic("exchange-c", 2))
	for q := range 2 {
		x.send(w, false, x.letters("exchange-c", q, 60, 0))
	}
	for i := range 25 {
		for q := range 4 {
			x.send(w, false, x.letters("exchange-a", q, 3, 0))
		}
		x.send(w, true, x.letters("exchange-b", i%2, 10, 0))
	}
	x.delayed(w, longestDelay, 5)
	if x.sig == syscall.SIGTERM {
		x.delayed(w, 1, 5) // after a kill they may come twice
		x.expect("exchange-d", 0, 5)
	}
	for q := range int64(4) {
		x.must(done(w.call(15, map[string]string{"consumerGroup": exchangeGroup, "topic": "exchange-a", "queueId": strconv.FormatInt(q, 10),
			"commitOffset": strconv.FormatInt(10*int64(x.hand)+q, 10)}, nil)))
	}
	if x.ours && x.sig == syscall.SIGKILL {
		// What comes behind the checkpoint has to be found by reading the log.
		old, _ := os.ReadFile(filepath.Join(x.dir, "checkpoint"))
		until(x.t, 60*time.Second, "a checkpoint", func() bool {
			b, _ := os.ReadFile(filepath.Join(x.dir, "checkpoint"))
			return !bytes.Equal(b, old)
		})
		x.send(w, false, x.letters("exchange-a", 1, 40, 0))
	}
}

func (x *exchange) delayed(w *wire, level, n int) {
	x.t.Helper()
	for _, l := range x.letters("exchange-d", 0, n, level) {
		x.sendAll(w, []letter{l})
	}
	x.expect(exchangeDelays, level-1, n)
}

// look reads all that the broker shows, once it has dispatched what was acknowledged.
func (x *exchange) look() *exchanged {
	x.t.Helper()
	w := x.wire()
	defer w.c.Close()
	s := &exchanged{begins: map[string]int64{}, records: map[string][][]byte{}, found: map[string][]int64{}, progress: map[int]int64{}}
	for topic, queues := range x.ends {
		for queue, end := range queues {
			until(x.t, 60*time.Second, fmt.Sprintf("hand %d, ours %v: end %d of queue %d of %s", x.hand, x.ours, end, queue, topic), func() bool {
				got, err := w.bound(30, topic, queue)
				x.must(err)
				return got == end
			})
			name := fmt.Sprint(topic, " ", queue)
			begin, err := w.bound(31, topic, queue)
			x.must(err)
			s.begins[name] = begin
			s.records[name] = x.pullAll(w, topic, queue, begin, end)
		}
	}
	for topic, keys := range x.keys {
		for i, key := range keys {
			recs, err := w.query(topic, key, i%2 == 1)
			x.must(err)
			name := topic + " " + key
			for _, r := range recs {
				s.found[name] = append(s.found[name], position(r))
			}
			slices.Sort(s.found[name])
			// a delayed message waits under another topic
			if topic != "exchange-d" && len(recs) != 1 {
				x.t.Errorf("hand %d, ours %v: %d messages with key %s in %s", x.hand, x.ours, len(recs), key, topic)
			}
		}
	}
	s.tagged = x.pullTagged(w, "exchange-a", 2, x.ends["exchange-a"][2])
	for q := range x.ends["exchange-a"] {
		a, err := w.call(14, map[string]string{"consumerGroup": exchangeGroup, "topic": "exchange-a", "queueId": strconv.Itoa(q)}, nil)
		x.must(err)
		s.progress[q] = a.number("offset")
	}
	a, err := w.call(28, nil, nil)
	x.must(done(a, err))
	s.end, err = strconv.ParseInt(a.table()["commitLogMaxOffset"], 10, 64)
	x.must(err)
	s.sum = x.logSum(s.end)
	return s
}

func position(record []byte) int64 { return int64(be32(record[28:]))<<32 | int64(be32(record[32:])) }

// pullAll reads a whole queue and checks each record against what was sent.
func (x *exchange) pullAll(w *wire, topic string, queue int, begin, end int64) (out [][]byte) {
	x.t.Helper()
	for at := begin; at < end; {
		a, err := w.pull(topic, queue, at, "*")
		x.must(done(a, err))
		recs, err := cutRecords(a.Body)
		x.must(err)
		for _, r := range recs {
			n := be32(r[84:])
			_, rest, _ := bytes.Cut(r[88+n:], []byte("UNIQ_KEY\x01"))
			id, _, ok := bytes.Cut(rest, []byte("\x02"))
			if sum, known := x.bodies[string(id)]; !ok || !known || sum != sha256.Sum256(r[88:88+n]) {
				x.t.Fatalf("hand %d, ours %v: %s queue %d: the record at %d is not what was sent", x.hand, x.ours, topic, queue, at)
			}
			at++
		}
		if next := a.number("nextBeginOffset"); len(recs) == 0 || next != at {
			x.t.Fatalf("hand %d, ours %v: %s queue %d: %d records, the next is %d, not %d", x.hand, x.ours, topic, queue, len(recs), next, at)
		}
		out = append(out, recs...)
	}
	return out
}

func (x *exchange) pullTagged(w *wire, topic string, queue int, end int64) (out []int64) {
	x.t.Helper()
	for at := int64(0); at < end; {
		a, err := w.pull(topic, queue, at, "T1")
		x.must(err)
		if a.Code == 0 {
			recs, err := cutRecords(a.Body)
			x.must(err)
			for _, r := range recs {
				out = append(out, position(r))
			}
		}
		next := a.number("nextBeginOffset")
		if next <= at {
			x.t.Fatalf("hand %d, ours %v: pull by tag at %d: code %d (%s), next %d", x.hand, x.ours, at, a.Code, a.Remark, next)
		}
		at = next
	}
	return out
}

// logSum is the sum of the log up to end; what is behind it must be empty.
func (x *exchange) logSum(end int64) [32]byte {
	x.t.Helper()
	names, err := filepath.Glob(filepath.Join(x.dir, "commitlog", "*"))
	x.must(err)
	h := sha256.New()
	for _, name := range names { // in order
		base, err := strconv.ParseInt(filepath.Base(name), 10, 64)
		if err != nil {
			continue
		}
		b, err := os.ReadFile(name)
		x.must(err)
		n := max(0, min(end-base, int64(len(b))))
		h.Write(b[:n])
		if i := bytes.IndexFunc(b[n:], func(r rune) bool { return r != 0 }); i >= 0 {
			x.t.Errorf("hand %d, ours %v: there is something behind the end of the log, at %d", x.hand, x.ours, base+n+int64(i))
		}
	}
	return [32]byte(h.Sum(nil))
}

// compare tells where now differs from what the last hand showed.
func (x *exchange) compare(now *exchanged) {
	x.t.Helper()
	who := fmt.Sprintf("hand %d, ours %v:", x.hand, x.ours)
	was := x.seen
	if was.end != now.end || was.sum != now.sum {
		x.t.Errorf("%s the log: end %d, was %d; or its bytes differ", who, now.end, was.end)
	}
	if !maps.Equal(was.begins, now.begins) {
		x.t.Errorf("%s queues begin at %v, began at %v", who, now.begins, was.begins)
	}
	messages := 0
	for name, recs := range was.records {
		messages += len(recs)
		if !slices.EqualFunc(recs, now.records[name], bytes.Equal) {
			x.t.Errorf("%s queue %s: %d records, were %d; or their bytes differ", who, name, len(now.records[name]), len(recs))
		}
	}
	for name, at := range was.found {
		if !slices.Equal(at, now.found[name]) {
			x.t.Errorf("%s %s is found at %v, was at %v", who, name, now.found[name], at)
		}
	}
	if !slices.Equal(was.tagged, now.tagged) || len(now.tagged) == 0 {
		x.t.Errorf("%s by tag: %v, were %v", who, now.tagged, was.tagged)
	}
	if !x.killed && !maps.Equal(was.progress, now.progress) {
		x.t.Errorf("%s progress %v, was %v", who, now.progress, was.progress)
	}
	files, _ := filepath.Glob(filepath.Join(x.dir, "index", "*"))
	x.t.Logf("%s %d messages, %d keys, log of %d bytes, %d files of the index", who, messages, len(was.found), now.end, len(files))
	if messages == 0 || len(was.found) == 0 {
		x.t.Errorf("%s nothing was compared", who)
	}
}
