package replication

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// unit is one line of a recorded stream between two Apache brokers.
type unit struct {
	AtMs   int64  `json:"at_ms"`
	Conn   int    `json:"conn"`
	Event  string `json:"event"`
	From   string `json:"from"`
	Base64 []byte `json:"base64"`
}

func (u *unit) frame() (pos int64, body []byte, ok bool) {
	if u.From != "master" {
		return 0, nil, false
	}
	pos, size := parseHeader(u.Base64)
	return pos, u.Base64[headerSize : headerSize+size], true
}

const goldenSeg = 131072

func goldenStream(t *testing.T, name string) (units []unit) {
	f, err := os.Open("../testdata/ha/streams/" + name + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	cut := int64(0)
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var u unit
		if err := json.Unmarshal(sc.Bytes(), &u); err != nil {
			t.Fatal(err)
		}
		// The recordings have cuts in time.
		if n := len(units); n > 0 && u.AtMs-units[n-1].AtMs-cut > 10000 {
			cut = u.AtMs - units[n-1].AtMs - 1000
		}
		u.AtMs -= cut
		units = append(units, u)
	}
	return units
}

// goldenLog is the log that the recordings before name left at the slave.
func goldenLog(t *testing.T, log Log, before ...string) {
	var rest []byte
	for _, name := range before {
		for _, u := range goldenStream(t, name) {
			pos, body, ok := u.frame()
			if !ok || len(body) == 0 {
				continue
			}
			if p := log.Positions(); p.Max == 0 && pos > 0 {
				if err := log.StartAt(record.PhysOffset(pos)); err != nil {
					t.Fatal(err)
				}
			}
			rest = append(rest, body...)
			n, err := log.AppendRaw(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = append([]byte(nil), rest[n:]...)
		}
	}
	if len(rest) > 0 {
		t.Fatal("half a record at the end of ", before)
	}
}

// peer is the other end of a connection in memory; it keeps what it reads.
type peer struct {
	net.Conn
	mu     sync.Mutex
	got    []byte
	closed time.Time
}

func newPeer(nc net.Conn) *peer {
	p := &peer{Conn: nc}
	go func() {
		var b [64 << 10]byte
		for {
			n, err := nc.Read(b[:])
			p.mu.Lock()
			p.got = append(p.got, b[:n]...)
			if err != nil {
				p.closed = time.Now()
				p.mu.Unlock()
				return
			}
			p.mu.Unlock()
		}
	}()
	return p
}

func (p *peer) reports() (out []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := p.got; len(b) >= reportSize; b = b[reportSize:] {
		out = append(out, parseReport(b))
	}
	return out
}

type gotFrame struct {
	pos  int64
	size int
	body []byte
}

func (p *peer) frames() (out []gotFrame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := p.got; len(b) >= headerSize; {
		pos, size := parseHeader(b)
		if len(b) < headerSize+size {
			break
		}
		out = append(out, gotFrame{pos, size, b[headerSize : headerSize+size]})
		b = b[headerSize+size:]
	}
	return out
}

func (p *peer) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed.IsZero()
}

func (p *peer) report(end int64) {
	var b [reportSize]byte
	putReport(b[:], end)
	p.Write(b[:])
}

func (p *peer) frame(pos int64, body []byte) {
	b := make([]byte, headerSize, headerSize+len(body))
	putHeader(b, pos, len(body))
	p.Write(append(b, body...))
}

// memStore is a real store in memory.
func memStore(t *testing.T, seg int64) *store.Store {
	st, _, err := store.Open(store.Options{FS: vfs.NewMem(), Dir: "/s", CommitLogBytes: seg, Replica: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	st.SetReplica(true)
	return st
}

func foreign(lo, end int64, rec func(p record.PhysOffset) []byte) func(*SlaveOptions) {
	return func(o *SlaveOptions) {
		o.Attach = func(context.Context, string, AttachRequest) (AttachReply, bool, error) {
			return AttachReply{}, false, nil
		}
		o.Foreign = func(_ context.Context, _ string, p record.PhysOffset) (int64, int64, []byte, error) {
			if p < 0 {
				return lo, end, nil, nil
			}
			return lo, end, rec(p), nil
		}
	}
}

// TestGoldenSlave replays what Apache's master sent to our slave, at the recorded
// times, and looks at its log and at its reports.
func TestGoldenSlave(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  []string
		copyAll bool
		start   int64 // of the log afterwards
		state   State
	}{
		{"slave-first-start", nil, true, 0, Syncing},
		{"slave-restart-resume", []string{"slave-first-start"}, true, 0, Syncing},
		{"slave-killed-resume", []string{"slave-first-start", "slave-restart-resume"}, true, 0, Syncing},
		{"slave-empty-several-files", nil, false, 262144, Syncing},
		// Apache's slave appends bytes of another history here. Ours stops.
		{"slave-ahead-of-master", []string{"slave-empty-several-files"}, true, 262144, Diverged},
	} {
		for _, kind := range []string{"memory", "store"} {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log Log = newMemLog(goldenSeg)
					if kind == "store" {
						st := memStore(t, goldenSeg)
						defer st.Close()
						log = st
					}
					goldenLog(t, log, c.before...)
					replayToSlave(t, log, goldenStream(t, c.name), c.copyAll, c.start, c.state)
				})
			})
		}
	}
}

func replayToSlave(t *testing.T, log Log, units []unit, copyAll bool, start int64, want State) {
	began := log.Positions().Max
	n := &node{t: t, lines: &bytes.Buffer{}}
	n.set.Store(&Settings{SegmentBytes: goldenSeg, CopyAll: copyAll})
	pn := newPipeNet()
	l := pn.listen("m")
	last := int64(0)
	for _, u := range units {
		if pos, body, ok := u.frame(); ok {
			last = max(last, pos+int64(len(body)))
		}
	}
	o := SlaveOptions{Log: log, Settings: n.set.Load, Dial: pn.dial, Slog: n.slog()}
	end := int64(began)
	if end == 0 {
		pos, body, _ := units[2].frame()
		end = pos + int64(len(body))
	}
	foreign(0, end, func(p record.PhysOffset) []byte {
		b, _ := log.Message(nil, p)
		return b
	})(&o)
	n.s = NewSlave(o)
	n.s.SetMaster("master", "m")
	n.run(n.s.Run)
	defer func() { n.stop() }()
	nc, _ := l.Accept()
	p := newPeer(nc)
	from := time.Now()
	var bytesSent []byte
	for _, u := range units {
		<-time.After(time.Until(from.Add(time.Duration(u.AtMs) * time.Millisecond)))
		if _, body, ok := u.frame(); ok {
			if len(body) > 0 {
				bytesSent = append(bytesSent, body...)
			}
			p.Write(u.Base64)
			synctest.Wait()
			if n.s.Status().State == Diverged {
				break // it comes again in a while
			}
		}
	}
	if st := n.s.Status(); st.State != want {
		t.Fatalf("%+v", st)
	}
	reports := p.reports()
	if !slices.IsSorted(reports) {
		t.Fatal("reports go back:", reports)
	}
	pos := log.Positions()
	if want == Diverged {
		if pos.Max != began {
			t.Fatal("it appended bytes of another history: ", pos.Max)
		}
		return
	}
	if int64(pos.Max) != last || int64(pos.Min) != start || reports[len(reports)-1] != last {
		t.Fatal(pos, last, reports)
	}
	if first := max(int64(began), start); first+int64(len(bytesSent)) != last {
		t.Fatal("the recording has holes")
	} else if got := readLog(t, log, first, last); !bytes.Equal(got, bytesSent) {
		t.Fatal("the log differs from what was sent")
	}
}

func readLog(t *testing.T, log Log, from, to int64) []byte {
	out := make([]byte, to-from)
	for at := from; at < to; {
		n, err := log.ReadRaw(out[at-from:], record.PhysOffset(at))
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		at += int64(n)
	}
	return out
}

// TestGoldenMaster replays the reports of Apache's slave to our master, whose log
// grows as the recorded one did.
func TestGoldenMaster(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  []string
		copyAll bool
	}{
		{"slave-first-start", nil, true},
		{"slave-restart-resume", []string{"slave-first-start"}, true},
		{"slave-killed-resume", []string{"slave-first-start", "slave-restart-resume"}, true},
		{"slave-empty-several-files", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newMemLog(goldenSeg)
				goldenLog(t, log, c.before...)
				replayToMaster(t, log, goldenStream(t, c.name), c.copyAll)
			})
		})
	}
}

func replayToMaster(t *testing.T, log *memLog, units []unit, copyAll bool) {
	n := newNode(t, log)
	n.set.Store(&Settings{SegmentBytes: goldenSeg, CopyAll: copyAll})
	if pos, _, _ := units[2].frame(); !copyAll {
		log.b = make([]byte, pos) // what the slave never gets
	}
	grow := func(u *unit) {
		if pos, body, ok := u.frame(); ok && pos+int64(len(body)) > log.end() {
			log.mu.Lock()
			log.b = append(log.b[:pos-log.min], body...)
			log.mu.Unlock()
		}
	}
	for i := range units {
		if units[i].From == "master" {
			grow(&units[i]) // the first is there when the slave comes
			break
		}
	}
	pn := newPipeNet()
	n.serve(pn, "m")
	defer func() { n.stop() }()
	nc, _ := pn.dial(context.Background(), "m")
	p := newPeer(nc)
	from := time.Now()
	var want []byte
	first := int64(-1)
	for i := range units {
		u := &units[i]
		<-time.After(time.Until(from.Add(time.Duration(u.AtMs) * time.Millisecond)))
		switch u.From {
		case "slave":
			p.Write(u.Base64)
		case "master":
			pos, body, _ := u.frame()
			if first < 0 {
				first = pos
			}
			want = append(want, body...)
			grow(u)
			n.m.Appended(log.Positions().Max)
			synctest.Wait()
		}
	}
	<-time.After(time.Second)
	var got []byte
	beats := 0
	for _, f := range p.frames() {
		if f.size == 0 {
			beats++
		}
		if f.pos != first+int64(len(got)) || f.size > 32<<10 || f.size > 0 && f.pos/goldenSeg != (f.pos+int64(f.size)-1)/goldenSeg {
			t.Fatalf("frame at %d with %d bytes, expected at %d", f.pos, f.size, first+int64(len(got)))
		}
		got = append(got, f.body...)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes sent, recorded are %d: %s", len(got), len(want), n.logged())
	}
	if p.isClosed() {
		t.Fatal("closed:", n.logged())
	}
}
