package compat

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// loadPair is a master under load. join starts a slave of it with an empty store.
type loadPair struct {
	loadTarget
	join func(b *testing.B) *loadSlave
}

type loadSlave struct {
	addr string
	pid  int
	stop func()
}

// loadPairs are a master of ours and, with the java tag, one of the original. Synchronous
// ones answer when a slave has the message.
func loadPairs(b *testing.B, sync bool) []loadPair {
	b.Helper()
	role := "master"
	if sync {
		role = "sync-master"
	}
	own, err := newBroker(target.binary, filepath.Join(b.TempDir(), "store"), "--role", role)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { own.kill(syscall.SIGKILL) })
	ours := loadPair{loadTarget{"mqctl", own.addr, own.cmd.Process.Pid}, func(b *testing.B) *loadSlave { return joinOurs(b, own) }}
	return append([]loadPair{ours}, rivalPairs(b, sync)...)
}

func joinOurs(b *testing.B, master *broker) *loadSlave {
	port, err := freePorts(4)
	if err != nil {
		b.Fatal(err)
	}
	dir, addr := filepath.Join(b.TempDir(), "slave"), fmt.Sprintf("127.0.0.1:%d", port+2)
	c, err := launch(dir+".log", "broker", "start", "--name", "compat", "--id", "1", "--role", "slave", "--listen", addr,
		"--store", dir, "-n", master.namesrv, "--no-nameserver", "--http", "off")
	if err != nil {
		b.Fatal(err)
	}
	return &loadSlave{addr, c.cmd.Process.Pid, func() { c.kill(syscall.SIGKILL) }}
}

// logEnds asks a broker where its log ends.
type logEnds struct {
	conn net.Conn
	r    *bufio.Reader
	buf  []byte
}

func (e *logEnds) ask(addr string) (int64, error) {
	if e.conn == nil {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return 0, err
		}
		e.conn, e.r = conn, bufio.NewReader(conn)
	}
	if _, err := e.conn.Write(jsonFrame(28, nil, nil)); err != nil {
		return 0, err
	}
	_, body, err := readFrame(e.r, &e.buf)
	if err != nil {
		return 0, err
	}
	_, text, _ := bytes.Cut(body, []byte(`"commitLogMaxOffset":"`))
	text, _, ok := bytes.Cut(text, []byte(`"`))
	if !ok {
		return 0, fmt.Errorf("no end of the log in %q", body)
	}
	return strconv.ParseInt(string(text), 10, 64)
}

func (e *logEnds) must(b *testing.B, addr string) int64 {
	b.Helper()
	end, err := e.ask(addr)
	if err != nil {
		b.Fatal(err)
	}
	return end
}

// joined waits until the slave has all that the master has.
func (p *loadPair) joined(b *testing.B, s *loadSlave) {
	b.Helper()
	var m, n logEnds
	until(b, 5*time.Minute, p.name+": slave with the master's log", func() bool {
		end, err := m.ask(p.addr)
		if err != nil || end <= 0 {
			return false // it is still starting
		}
		got, err := n.ask(s.addr)
		return err == nil && got == end
	})
}

// measurePair is measure with the time of both brokers.
func measurePair(b *testing.B, p *loadPair, s *loadSlave, messages int, f func()) {
	before := cpu(p.pid) + cpu(s.pid)
	b.ResetTimer()
	f()
	b.StopTimer()
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64((cpu(p.pid)+cpu(s.pid)-before).Nanoseconds())/1000/float64(messages), "both-us/msg")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLoadPairSync sends to synchronous masters with one slave.
func BenchmarkLoadPairSync(b *testing.B) {
	pairs := loadPairs(b, true)
	for _, c := range []struct {
		name          string
		conns, window int
	}{{"64x1", 64, 1}, {"4x64", 4, 64}, {"1x1", 1, 1}} {
		for i := range pairs {
			p := &pairs[i]
			topic := "Pair" + c.name
			produce(b, p.addr, topic, 1, 1, 1, 1) // makes the topic; the original waits 3 s for a slave
			s := p.join(b)
			p.joined(b, s)
			produce(b, p.addr, topic, 20000, 4, 64, 1) // and warms the original up
			b.Run(c.name+"/"+p.name, func(b *testing.B) {
				var refused int64
				if c.name == "1x1" {
					var took []time.Duration
					n := (b.N + 9) / 10 // it has to be short, and needs no more
					measurePair(b, p, s, n, func() { took, refused = oneSender(b, p.addr, topic, n) })
					b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e6, "p50-ms")
					b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e6, "p99-ms")
				} else {
					measurePair(b, p, s, b.N, func() { refused = produce(b, p.addr, topic, b.N, c.conns, c.window, 1) })
				}
				b.ReportMetric(float64(refused), "refused")
			})
			s.stop()
		}
	}
}

// oneSender sends n messages one after the other, and returns how long each took, sorted.
func oneSender(b *testing.B, addr, topic string, n int) (took []time.Duration, refused int64) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	r, buf, f := bufio.NewReaderSize(conn, 1<<16), []byte(nil), sendFrame(topic, 0, 1024, 1)
	key := bytes.Index(f, []byte(loadKey[:24])) + 24
	for i := range n {
		copy(f[key:], fmt.Sprintf("%08X", i))
		begin := time.Now()
		_, err := conn.Write(f)
		if err == nil {
			var h []byte
			if h, _, err = readFrame(r, &buf); !bytes.Contains(h, []byte(`"code":0`)) {
				refused++
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took, refused
}

// BenchmarkLoadPairAsync sends as fast as an asynchronous master takes it, and measures
// how far its slave falls behind: gap-ms is the most that was seen.
func BenchmarkLoadPairAsync(b *testing.B) {
	for _, p := range loadPairs(b, false) {
		produce(b, p.addr, "PairAsync", loadQueues*64, 1, 1, 1)
		s := p.join(b)
		p.joined(b, s)
		b.Run("4x64/"+p.name, func(b *testing.B) {
			var done atomic.Bool
			gap := make(chan time.Duration, 1)
			go func() { gap <- worstGap(b, p.addr, s.addr, &done) }()
			measurePair(b, &p, s, b.N, func() { produce(b, p.addr, "PairAsync", b.N, 4, 64, 1) })
			done.Store(true)
			worst := <-gap
			b.ReportMetric(float64(worst.Milliseconds()), "gap-ms")
			if p.name == "mqctl" && worst > time.Second {
				b.Errorf("the slave was %v behind", worst)
			}
		})
		s.stop()
	}
}

// worstGap is the longest time until the slave had what the master had, by samples of
// the ends of both logs.
func worstGap(b *testing.B, master, slave string, done *atomic.Bool) (worst time.Duration) {
	type sample struct {
		end int64
		at  time.Time
	}
	var open []sample // what the slave lacks
	var m, s logEnds
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; !done.Load() || len(open) > 0; <-tick.C {
		end, err := m.ask(master)
		if err == nil && !done.Load() {
			open = append(open, sample{end, time.Now()})
		}
		if err == nil {
			end, err = s.ask(slave)
		}
		if err != nil {
			b.Error(err)
			return worst
		}
		for len(open) > 0 && open[0].end <= end {
			worst = max(worst, time.Since(open[0].at))
			open = open[1:]
		}
	}
	return worst
}

// BenchmarkLoadPairCatchUp lets an empty slave copy a log; one op is one message of 1
// KiB in it. The time counts from the first byte that the slave has. What the disk
// takes from one writer that does nothing else is measured in the same run.
func BenchmarkLoadPairCatchUp(b *testing.B) {
	b.Run("disk", func(b *testing.B) { plainWrites(b, int64(b.N)*1300) })
	for _, p := range loadPairs(b, false) {
		sent := 0
		b.Run(p.name, func(b *testing.B) {
			var m, n logEnds
			if more := max(b.N-sent, loadQueues); more > 0 {
				produce(b, p.addr, "PairCatchUp", more, 4, 64, 1)
				sent += more
			}
			end := m.must(b, p.addr)
			s := p.join(b)
			defer s.stop()
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			masterCPU, at, got := cpu(p.pid), int64(0), int64(0)
			for ; got < end; <-tick.C {
				var err error
				if got, err = n.ask(s.addr); err != nil {
					continue // it is still starting
				}
				if at == 0 {
					at = got
					b.ResetTimer()
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(end-at)/1e6/b.Elapsed().Seconds(), "MB/s")
			b.ReportMetric((cpu(p.pid)-masterCPU+cpu(s.pid)).Seconds()/(float64(end)/(1<<30)), "both-cpu-s/GiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// plainWrites writes so many bytes into new files of 1 GiB, as a log is written: in
// pieces of 256 KiB, without a sync.
func plainWrites(b *testing.B, bytes int64) {
	dir, piece, file := b.TempDir(), make([]byte, 256<<10), int64(1<<30)
	var f *os.File
	b.ResetTimer()
	for at := int64(0); at < bytes; at += int64(len(piece)) {
		if at%file == 0 {
			if f != nil {
				f.Close()
			}
			var err error
			if f, err = os.Create(filepath.Join(dir, strconv.FormatInt(at, 10))); err != nil {
				b.Fatal(err)
			}
			if err := f.Truncate(file); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := f.Write(piece); err != nil {
			b.Fatal(err)
		}
	}
	f.Close()
	b.StopTimer()
	b.ReportMetric(float64(bytes)/1e6/b.Elapsed().Seconds(), "MB/s")
	b.ReportMetric(0, "ns/op")
}
