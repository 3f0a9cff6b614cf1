package replication

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store/record"
)

// edgeCase is a line of ha-edge-cases.jsonl: what Apache's brokers did with odd peers.
type edgeCase struct {
	Side string `json:"side"`
	Odd  string `json:"odd slave does"`
	OddM string `json:"odd master does"`
}

// TestEdgeCases goes through the recorded table: each of its rows has one here.
func TestEdgeCases(t *testing.T) {
	f, err := os.Open("../testdata/ha/ha-edge-cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, seen := 0, map[string]int{}
	for sc := bufio.NewScanner(f); sc.Scan(); rows++ {
		var c edgeCase
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		name := c.Odd + c.OddM
		seen[name]++
		t.Run(strings.NewReplacer(" ", "_", "/", "").Replace(name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				switch m, s := edgeMaster[c.Odd], edgeSlave[c.OddM]; {
				case c.Odd != "" && m != nil:
					oddSlave(t, m)
				case c.OddM != "" && s != nil:
					oddMaster(t, s)
				default:
					t.Fatal("no row for this case")
				}
			})
		})
	}
	if rows < 20 {
		t.Fatal("only", rows, "rows")
	}
}

const edgeEnd = 344364

// firstFrames is what Apache's master sent for a start in the first two columns.
func checkFrames(t *testing.T, p *peer, log *memLog, from int64) {
	t.Helper()
	at := from
	for i, f := range p.frames() {
		if f.size == 0 {
			continue
		}
		want := min(32768, edgeEnd-at, goldenSeg-at%goldenSeg)
		if f.pos != at || int64(f.size) != want || !bytes.Equal(f.body, log.b[at:at+want]) {
			t.Fatalf("frame %d at %d has %d bytes, expected %d at %d", i, f.pos, f.size, want, at)
		}
		at += want
	}
	if at != edgeEnd {
		t.Fatal("sent only up to", at)
	}
}

// edgeMaster has what an odd slave does, and what ours must answer.
var edgeMaster = map[string]func(t *testing.T, n *node, p *peer){
	"report 0": func(t *testing.T, n *node, p *peer) {
		p.report(0)
		synctest.Wait()
		checkFrames(t, p, n.log, 262144)
		p.report(edgeEnd)
		<-time.After(5100 * time.Millisecond)
		if f := p.frames(); f[len(f)-1].pos != edgeEnd || f[len(f)-1].size != 0 {
			t.Fatal("no heartbeat after 5 s:", f[len(f)-1].pos)
		}
	},
	"report 131072": func(t *testing.T, n *node, p *peer) {
		p.report(131072)
		synctest.Wait()
		checkFrames(t, p, n.log, 131072)
	},
	"report 5000 (inside a record)": func(t *testing.T, n *node, p *peer) {
		p.report(5000)
		synctest.Wait()
		checkFrames(t, p, n.log, 5000)
	},
	"reports 131072 then 262144 in one segment": func(t *testing.T, n *node, p *peer) {
		var b [2 * reportSize]byte
		putReport(b[:], 131072)
		putReport(b[8:], 262144)
		p.Write(b[:])
		synctest.Wait()
		checkFrames(t, p, n.log, 262144)
	},
	"report -1": func(t *testing.T, n *node, p *peer) {
		p.report(-1)
		<-time.After(10 * time.Second)
		if len(p.frames()) > 0 || p.isClosed() {
			t.Fatal("it should wait")
		}
		p.report(262144)
		synctest.Wait()
		checkFrames(t, p, n.log, 262144)
	},
	// Apache's sends heartbeats with -5.
	"report -5": closedAtOnce(-5, "BadPeers"),
	"4+4 bytes": func(t *testing.T, n *node, p *peer) {
		var b [reportSize]byte
		putReport(b[:], 131072)
		p.Write(b[:4])
		<-time.After(time.Second)
		p.Write(b[4:])
		synctest.Wait()
		checkFrames(t, p, n.log, 131072)
	},
	"11 bytes then 5": func(t *testing.T, n *node, p *peer) {
		var b [2 * reportSize]byte
		putReport(b[:], 131072)
		putReport(b[8:], 262144)
		p.Write(b[:11])
		synctest.Wait()
		p.Write(b[11:])
		synctest.Wait()
		checkFrames(t, p, n.log, 131072)
		if p.isClosed() || n.m.Status().Slaves[0].Acked != 262144 {
			t.Fatal(n.logged())
		}
	},
	// Apache's sends heartbeats until its log has grown so far.
	"report 1000000 (beyond the end), then silence": closedAtOnce(1000000, "BadPeers"),
	// Apache's ignores it: an acknowledgement never goes back.
	"streaming, then report 0": func(t *testing.T, n *node, p *peer) {
		p.report(262144)
		synctest.Wait()
		p.report(0)
		synctest.Wait()
		if !p.isClosed() || n.m.Status().BadPeers != 1 {
			t.Fatal(n.logged())
		}
	},
	"silent": func(t *testing.T, n *node, p *peer) {
		<-time.After(19 * time.Second)
		if p.isClosed() {
			t.Fatal("closed too early")
		}
		<-time.After(3 * time.Second)
		if !p.isClosed() || n.m.Status().BadPeers != 1 {
			t.Fatal("not closed")
		}
	},
}

func closedAtOnce(report int64, counter string) func(t *testing.T, n *node, p *peer) {
	return func(t *testing.T, n *node, p *peer) {
		p.report(report)
		synctest.Wait()
		if st := n.m.Status(); !p.isClosed() || st.BadPeers != 1 || len(p.frames()) > 0 {
			t.Fatalf("%+v %s", st, n.logged())
		}
		if n := strings.Count(n.logged(), "\n"); n != 1 {
			t.Fatal(n, "log lines instead of one", counter)
		}
	}
}

func oddSlave(t *testing.T, do func(t *testing.T, n *node, p *peer)) {
	log := newMemLog(goldenSeg)
	log.b = make([]byte, edgeEnd)
	for i := range log.b {
		log.b[i] = byte(i * 7)
	}
	n := newNode(t, log)
	n.set.Store(&Settings{SegmentBytes: goldenSeg})
	pn := newPipeNet()
	n.serve(pn, "m")
	defer func() { n.stop() }()
	nc, err := pn.dial(context.Background(), "m")
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(nc)
	do(t, n, p)
	p.Close()
}

// oddRun is our slave with a master that a test plays.
type oddRun struct {
	n *node
	l *pipeListener
}

func (o *oddRun) accept(t *testing.T) *peer {
	nc, err := o.l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(nc)
	synctest.Wait()
	if r := p.reports(); len(r) != 1 || r[0] != o.n.log.end() {
		t.Fatal("first reports:", r)
	}
	return p
}

func firstReport(t *testing.T, o *oddRun) { o.accept(t) }

// edgeSlave has what an odd master does, and what our slave must do.
var edgeSlave = map[string]func(t *testing.T, o *oddRun){
	// Apache's pauses 5 s before it dials; ours dials at once, and reports at once.
	"accepted after": firstReport,
	"first report":   firstReport,
	"after right heartbeat, 12 s silence from the master": func(t *testing.T, o *oddRun) {
		p := o.accept(t)
		p.frame(o.n.log.end(), nil)
		<-time.After(12 * time.Second)
		if r := p.reports(); len(r) != 3 || r[2] != o.n.log.end() || p.isClosed() {
			t.Fatal(r)
		}
	},
	"after heartbeat at E+1": func(t *testing.T, o *oddRun) {
		p := o.accept(t)
		p.frame(o.n.log.end()+1, nil)
		synctest.Wait()
		if st := o.n.s.Status(); !p.isClosed() || st.State != Diverged {
			t.Fatalf("%+v", st)
		}
	},
	// After 10 s: what was wrong seldom heals by itself, and the state says it.
	"reconnected after s": func(t *testing.T, o *oddRun) {
		p := o.accept(t)
		p.frame(o.n.log.end()+1, nil)
		began := time.Now()
		o.accept(t)
		if d := time.Since(began); d != alarmPause {
			t.Fatal(d)
		}
	},
	// Apache's ignores that it could not append.
	"body runs past the file end": func(t *testing.T, o *oddRun) {
		p := o.accept(t)
		p.frame(o.n.log.end(), make([]byte, goldenSeg))
		synctest.Wait()
		if st := o.n.s.Status(); !p.isClosed() || st.State != Diverged {
			t.Fatalf("%+v", st)
		}
	},
	"then heartbeat at E": func(t *testing.T, o *oddRun) {
		p := o.accept(t)
		p.frame(o.n.log.end(), nil)
		synctest.Wait()
		if p.isClosed() {
			t.Fatal("closed")
		}
	},
	// Apache's waits 20 s for a buffer that is too small.
	"body of 5 MiB": func(t *testing.T, o *oddRun) {
		p := o.accept(t)
		p.frame(o.n.log.end(), make([]byte, 5<<20))
		synctest.Wait()
		if st := o.n.s.Status(); !p.isClosed() || st.State != Diverged || !strings.Contains(st.Sentence, "5242880") {
			t.Fatalf("%+v", st)
		}
	},
	"master silent: slave closes": func(t *testing.T, o *oddRun) {
		p := o.accept(t)
		<-time.After(19900 * time.Millisecond)
		if r := p.reports(); p.isClosed() || len(r) != 4 {
			t.Fatal(r)
		}
		<-time.After(time.Second)
		if !p.isClosed() {
			t.Fatal("still open")
		}
	},
	"packet in three pieces": func(t *testing.T, o *oddRun) {
		next := o.n.log.clone()
		p := o.accept(t)
		from := next.end()
		next.put(strings.Repeat("z", 900))
		b := make([]byte, headerSize, 2000)
		putHeader(b, from, int(next.end()-from))
		b = append(b, next.b[from:]...)
		for _, piece := range [][]byte{b[:7], b[7:500], b[500:]} {
			if len(p.reports()) != 1 {
				t.Fatal("reported early")
			}
			p.Write(piece)
			synctest.Wait()
		}
		if r := p.reports(); len(r) != 2 || r[1] != next.end() {
			t.Fatal(r)
		}
		sameLogs(t, next, o.n.log)
	},
}

// TestHalfLargeFrame: what came of a frame that never ends is not lost, although the
// slave gathers large frames before it appends.
func TestHalfLargeFrame(t *testing.T) {
	for what, end := range map[string]func(p *peer){
		"the master dies":  func(p *peer) { p.Close() },
		"the master hangs": func(*peer) { <-time.After(6 * time.Second) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				oddMaster(t, func(t *testing.T, o *oddRun) {
					next := o.n.log.clone()
					from := next.end()
					for range 5 {
						next.put(strings.Repeat("z", 900))
					}
					p := o.accept(t)
					b := make([]byte, headerSize)
					putHeader(b, from, maxOurBody)
					p.Write(append(b, next.b[from:]...))
					synctest.Wait()
					if int64(o.n.log.Positions().Max) != from {
						t.Fatal("it does not gather")
					}
					end(p)
					synctest.Wait()
					sameLogs(t, next, o.n.log)
				})
			})
		})
	}
}

func oddMaster(t *testing.T, do func(t *testing.T, o *oddRun)) {
	log := newMemLog(goldenSeg)
	for log.end() < 2*goldenSeg+50000 {
		log.put(strings.Repeat("y", 4000))
	}
	pn := newPipeNet()
	o := &oddRun{n: newNode(t, log), l: pn.listen("m")}
	o.n.set.Store(&Settings{SegmentBytes: goldenSeg, CopyAll: true})
	o.n.follow(pn, nil, "m", foreign(0, log.end(), func(p record.PhysOffset) []byte {
		b, _ := log.Message(nil, p)
		return b
	}))
	defer func() { o.n.stop() }()
	do(t, o)
}
