//go:build soak

package compat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var (
	soakTime = flag.Duration("soak.duration", 30*time.Minute, "how long TestSoak sends")
	soakRate = flag.Int("soak.rate", 400, "messages a second of TestSoak")
)

// soakSettings make small files, of which the oldest one of the log goes every half minute.
var soakSettings = []string{"mappedFileSizeCommitLog=16777216", "mappedFileSizeConsumeQueue=6000", "maxIndexNum=20000", "maxHashSlotNum=5000",
	"fileReservedTime=0", "deleteWhen=0;1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20;21;22;23", "deleteFileBatchMax=1",
	"cleanResourceInterval=30000", "diskMaxUsedSpaceRatio=95"}

const (
	soakSenders = 4
	soakAgain   = "soak-again" // deleted and made again and again
)

var soakTopics = map[string]int{"soak-one": 1, "soak-four": 4, "soak-eight": 8, soakAgain: 2}

// place is where a message is in a queue. era counts how often its topic was made.
type place struct {
	topic      string
	era, queue int
	offset     int64
}

// acked is what the broker promised, and what was read.
type acked struct {
	mu   sync.Mutex
	at   map[place]string // id
	pos  map[string]int64 // id: position in the log
	read map[place]string // id, as pulls gave it
}

// soak is one run.
type soak struct {
	t      *testing.T
	dir    string
	addr   string
	args   []string
	proc   *child
	done   chan struct{}
	wrong  atomic.Int64
	ack    acked
	bodies sync.Map // id: sum

	again sync.RWMutex // held while soakAgain is deleted and made
	eras  map[string]int

	sent, pulled, refused, moved, made, serial atomic.Int64
}

// TestSoak sends, pulls, deletes topics and lets files expire while the broker is killed
// three times. At the end the folder is without fault, and every acknowledged message
// that retention did not take is where the broker said.
func TestSoak(t *testing.T) {
	port, err := freePorts(4)
	if err != nil {
		t.Fatal(err)
	}
	s := &soak{t: t, dir: filepath.Join(t.TempDir(), "store"), addr: fmt.Sprintf("127.0.0.1:%d", port+2), done: make(chan struct{}), eras: map[string]int{}}
	s.ack = acked{at: map[place]string{}, pos: map[string]int64{}, read: map[place]string{}}
	s.args = []string{"broker", "start", "--name", "soak", "--listen", s.addr, "--store", s.dir, "-n", target.namesrv, "--no-nameserver", "--http", "off"}
	for _, kv := range soakSettings {
		s.args = append(s.args, "--set", kv)
	}
	s.start()
	t.Cleanup(func() {
		s.proc.kill(syscall.SIGKILL)
		if t.Failed() {
			text, _ := os.ReadFile(s.dir + ".log")
			t.Logf("its log:\n%s", tail(text, 6000))
		}
	})
	for topic, queues := range soakTopics {
		s.try(func(w *wire) error { return w.makeTopic(topic, queues) })
	}
	var work sync.WaitGroup
	for n := range soakSenders {
		work.Go(func() { s.send(n) })
	}
	for topic, queues := range soakTopics {
		work.Go(func() { s.pull(topic, queues) })
	}
	work.Go(s.makeAgain)
	for range 3 {
		<-time.After(*soakTime / 4)
		s.proc.kill(syscall.SIGKILL)
		t.Logf("killed after %d messages, %d of them pulled", s.sent.Load(), s.pulled.Load())
		s.verify() // what it finds is for the next start to mend
		down := time.Now()
		s.start()
		t.Logf("up again after %v", time.Since(down).Round(time.Millisecond))
	}
	<-time.After(*soakTime / 4)
	close(s.done)
	work.Wait()
	s.proc.kill(syscall.SIGTERM)
	s.verify("--strict")
	s.start()
	s.check()
	s.proc.kill(syscall.SIGTERM)
	s.verify("--strict")
}

func (s *soak) start() {
	s.t.Helper()
	c, err := launch(s.dir+".log", s.args...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.proc = c
}

// verify runs while no broker is there.
func (s *soak) verify(flags ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, target.binary, append([]string{"store", "verify", s.dir}, flags...)...).CombinedOutput()
	if err != nil {
		s.t.Errorf("store verify %v: %v\n%s", flags, err, out)
	}
}

// fail notes something that must not be; a soak goes on to see more.
func (s *soak) fail(format string, args ...any) {
	if s.wrong.Add(1) <= 50 {
		s.t.Errorf(format, args...)
	}
}

func (s *soak) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// pause waits, but not beyond the end.
func (s *soak) pause(d time.Duration) {
	select {
	case <-s.done:
	case <-time.After(d):
	}
}

// try repeats f on new connections until it succeeds or the run is over.
func (s *soak) try(f func(w *wire) error) {
	for !s.over() {
		w, err := dialWire(s.addr)
		if err == nil {
			err = f(w)
			w.c.Close()
		}
		if err == nil {
			return
		}
		s.pause(200 * time.Millisecond)
	}
}

// send sends single messages and batches at its part of the rate.
func (s *soak) send(n int) {
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	names := make([]string, 0, len(soakTopics))
	for topic := range soakTopics {
		names = append(names, topic)
	}
	slices.Sort(names)
	tick := time.NewTicker(time.Second * soakSenders / time.Duration(*soakRate))
	defer tick.Stop()
	for !s.over() {
		s.try(func(w *wire) error {
			for !s.over() {
				<-tick.C
				topic, count := names[rng.IntN(len(names))], 1
				if rng.IntN(20) == 0 {
					count = 1 + rng.IntN(10)
				}
				if err := s.sendOne(w, topic, rng.IntN(soakTopics[topic]), count, 1<<rng.IntN(13)+rng.IntN(100)); err != nil {
					s.refused.Add(1)
					return err
				}
			}
			return nil
		})
	}
}

func (s *soak) sendOne(w *wire, topic string, queue, count, size int) error {
	if topic == soakAgain {
		s.again.RLock()
		defer s.again.RUnlock()
	}
	letters := make([]letter, count)
	ids := make([]string, count)
	for i := range letters {
		n := s.serial.Add(1)
		ids[i] = fmt.Sprintf("7F00000100%022X", n)
		body := bytes.Repeat([]byte{byte(n)}, size)
		s.bodies.Store(ids[i], sha256.Sum256(body))
		letters[i] = letter{topic: topic, queue: queue, body: body, props: map[string]string{"UNIQ_KEY": ids[i],
			"KEYS": "k" + strconv.FormatInt(n, 10), "TAGS": "T" + strconv.FormatInt(n%3, 10), "WAIT": "true"}}
	}
	sent, err := w.sendAll(letters)
	if err != nil {
		return err
	}
	s.sent.Add(int64(count))
	s.ack.mu.Lock()
	defer s.ack.mu.Unlock()
	for i, id := range ids {
		at := place{topic, s.eras[topic], queue, sent.offset + int64(i)}
		if old, ok := s.ack.at[at]; ok {
			s.fail("%+v was given to %s and to %s", at, old, id)
		}
		s.ack.at[at] = id
		if i < len(sent.positions) {
			s.ack.pos[id] = sent.positions[i]
		}
	}
	return nil
}

// makeAgain deletes a topic and makes it anew.
func (s *soak) makeAgain() {
	for !s.over() {
		s.pause(15 * time.Second)
		s.again.Lock()
		s.try(func(w *wire) error {
			if err := w.deleteTopic(soakAgain); err != nil {
				return err
			}
			return w.makeTopic(soakAgain, soakTopics[soakAgain])
		})
		s.ack.mu.Lock()
		s.eras[soakAgain]++
		s.ack.mu.Unlock()
		s.again.Unlock()
		s.made.Add(1)
	}
}

func (s *soak) era(topic string) int {
	s.ack.mu.Lock()
	defer s.ack.mu.Unlock()
	return s.eras[topic]
}

// pull follows all queues of a topic.
func (s *soak) pull(topic string, queues int) {
	next, era := make([]int64, queues), 0
	for !s.over() {
		s.try(func(w *wire) error {
			for !s.over() {
				if topic == soakAgain {
					s.again.RLock()
				}
				if e := s.era(topic); e != era {
					era = e
					clear(next)
				}
				got := 0
				var err error
				for q := 0; q < queues && err == nil; q++ {
					var n int
					n, err = s.pullOnce(w, topic, era, q, &next[q])
					got += n
				}
				if topic == soakAgain {
					s.again.RUnlock()
				}
				if err != nil {
					return err
				}
				if got == 0 {
					s.pause(100 * time.Millisecond)
				}
			}
			return nil
		})
	}
}

func (s *soak) pullOnce(w *wire, topic string, era, queue int, next *int64) (int, error) {
	a, err := w.pull(topic, queue, *next, "*")
	if err != nil {
		return 0, err
	}
	switch a.Code {
	case 0:
	case 19: // nothing new
		return 0, nil
	case 20, 21: // retention was faster
		if to := a.number("nextBeginOffset"); to > *next {
			s.moved.Add(1)
			*next = to
			return 0, nil
		}
		return 0, nil
	default:
		return 0, fmt.Errorf("code %d: %s", a.Code, a.Remark)
	}
	recs, err := cutRecords(a.Body)
	if err != nil {
		s.fail("%s queue %d at %d: %v", topic, queue, *next, err)
	}
	s.ack.mu.Lock()
	defer s.ack.mu.Unlock()
	for _, r := range recs {
		id, sum := identity(r)
		offset := int64(be32(r[20:]))<<32 | int64(be32(r[24:]))
		at := place{topic, era, queue, offset}
		if want, ok := s.bodies.Load(id); !ok || want.([32]byte) != sum {
			s.fail("%+v: %q is not as it was sent", at, id)
		}
		if old, ok := s.ack.read[at]; ok && old != id {
			s.fail("%+v was %s and is %s", at, old, id)
		}
		if offset < *next {
			s.fail("%+v comes after %d was asked for", at, *next)
		}
		s.ack.read[at] = id
	}
	s.pulled.Add(int64(len(recs)))
	*next = a.number("nextBeginOffset")
	return len(recs), nil
}

// identity is the client's id of a record and the sum of its body.
func identity(r []byte) (string, [32]byte) {
	n := be32(r[84:])
	_, rest, _ := bytes.Cut(r[88+n:], []byte("UNIQ_KEY\x01"))
	id, _, _ := bytes.Cut(rest, []byte("\x02"))
	return string(id), sha256.Sum256(r[88 : 88+n])
}

// check reads all queues from their begin and looks for what was acknowledged.
func (s *soak) check() {
	s.t.Helper()
	w, err := dialWire(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.c.Close()
	a, err := w.call(28, nil, nil)
	if err := done(a, err); err != nil {
		s.t.Fatal(err)
	}
	begin, err := strconv.ParseInt(a.table()["commitLogMinOffset"], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	s.ack.read = map[place]string{}
	begins := map[place]int64{}
	for topic, queues := range soakTopics {
		for q := range queues {
			next, err := w.bound(31, topic, q)
			if err != nil {
				s.t.Fatal(err)
			}
			begins[place{topic: topic, queue: q}] = next
			end, err := w.bound(30, topic, q)
			if err != nil {
				s.t.Fatal(err)
			}
			for next < end {
				before := next
				if _, err := s.pullOnce(w, topic, s.eras[topic], q, &next); err != nil || next <= before {
					s.t.Fatalf("%s queue %d at %d: %v", topic, q, next, err)
				}
			}
		}
	}
	kept, gone, before, asked := 0, 0, 0, 0
	for at, id := range s.ack.at {
		pos, known := s.ack.pos[id]
		switch {
		case known && pos < begin || !known && at.offset < begins[place{topic: at.topic, queue: at.queue}]:
			gone++ // by retention
		case at.era != s.eras[at.topic]:
			before++ // with its topic
		default:
			kept++
			if got := s.ack.read[at]; got != id {
				s.fail("%+v at %d of the log: acknowledged to %s, found %q", at, pos, id, got)
			}
			if kept%50 == 0 {
				recs, err := w.query(at.topic, id, true)
				if asked++; err != nil || len(recs) != 1 {
					s.fail("%+v, %s: by its id %d are found, %v", at, id, len(recs), err)
				}
			}
		}
	}
	s.t.Logf("%d acknowledged: %d found (%d by id too), %d expired (the log begins at %d), %d went with their topic; %d topics made anew, %d pulled, %d sends failed, %d pulls came too late",
		len(s.ack.at), kept, asked, gone, begin, before, s.made.Load(), s.pulled.Load(), s.refused.Load(), s.moved.Load())
	if kept == 0 || gone == 0 || begin == 0 {
		s.t.Error("nothing was kept, or nothing expired: it shows too little")
	}
}
