package compat

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The load benchmarks send and pull raw frames that were built beforehand, so
// that the broker and not the client is measured. Broker and load share the
// machine: compare figures of one run only.

const loadQueues = 8

// loadTarget is a broker under load.
type loadTarget struct {
	name, addr string
	pid        int
}

// loadTargets are ours and, with the java tag, the original.
func loadTargets(b *testing.B, extra ...string) []loadTarget {
	b.Helper()
	own, err := newBroker(target.binary, filepath.Join(b.TempDir(), "store"), extra...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { own.kill(9) })
	return append([]loadTarget{{"mqctl", own.addr, own.cmd.Process.Pid}}, rivals(b, extra)...)
}

// cpu is the processor time that a process has used.
func cpu(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond // clock ticks of 100 Hz
}

func jsonFrame(code int, ext map[string]string, body []byte) []byte {
	header, err := json.Marshal(map[string]any{"code": code, "language": "GO", "version": 401, "opaque": loadOpaque, "flag": 0, "extFields": ext})
	if err != nil {
		panic(err) // strings and numbers only
	}
	f := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	f = binary.BigEndian.AppendUint32(f, uint32(len(header)))
	return append(append(f, header...), body...)
}

// loadOpaque is ten digits long, so that it can be replaced in place.
const loadOpaque = 1000000000

const loadKey = "7F000001000018B4AAC2000000000000"

func sendFrame(topic string, queue, size, batch int) []byte {
	props := "UNIQ_KEY\x01" + loadKey + "\x02WAIT\x01true\x02TAGS\x01TagA\x02"
	ext := map[string]string{"a": "load", "b": topic, "c": "TBW102", "d": strconv.Itoa(loadQueues), "e": strconv.Itoa(queue), "f": "0",
		"g": strconv.FormatInt(time.Now().UnixMilli(), 10), "h": "0", "i": props, "j": "0", "k": "false", "m": strconv.FormatBool(batch > 1)}
	body := bytes.Repeat([]byte("x"), size)
	if batch == 1 {
		return jsonFrame(310, ext, body)
	}
	var all []byte
	for range batch {
		all = binary.BigEndian.AppendUint32(all, uint32(22+size+len(props)))
		all = append(all, make([]byte, 12)...)
		all = binary.BigEndian.AppendUint32(all, uint32(size))
		all = append(all, body...)
		all = binary.BigEndian.AppendUint16(all, uint16(len(props)))
		all = append(all, props...)
	}
	return jsonFrame(320, ext, all)
}

// readFrame returns the header and the body of the next answer, valid until the next call.
func readFrame(r *bufio.Reader, buf *[]byte) (header, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, nil, err
	}
	n := int(binary.BigEndian.Uint32(head[:])) - 4
	if n < 0 || n > 16<<20 {
		return nil, nil, fmt.Errorf("frame of %d bytes", n)
	}
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	b := (*buf)[:n]
	h := int(binary.BigEndian.Uint32(head[4:]) & 0xffffff)
	_, err = io.ReadFull(r, b)
	return b[:h], b[h:], err
}

// produce sends at least n messages over conns connections with window requests
// in flight on each, and returns how many requests were refused.
func produce(b *testing.B, addr, topic string, n, conns, window, batch int) (refused int64) {
	var left, bad atomic.Int64
	left.Store(int64((n + batch - 1) / batch))
	var serial atomic.Uint32
	var wg sync.WaitGroup
	for c := range conns {
		wg.Go(func() {
			if err := produceOn(addr, topic, c, window, batch, &left, &bad, &serial); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	return bad.Load()
}

func produceOn(addr, topic string, c, window, batch int, left, bad *atomic.Int64, serial *atomic.Uint32) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	var frames [loadQueues][]byte
	for q := range frames {
		frames[q] = sendFrame(topic, q, 1024, batch)
	}
	slots := make(chan struct{}, window)
	for range window {
		slots <- struct{}{}
	}
	failed := make(chan error, 1)
	go func() {
		r, buf := bufio.NewReaderSize(conn, 1<<18), []byte(nil)
		for {
			h, _, err := readFrame(r, &buf)
			if err != nil {
				failed <- err
				return
			}
			if !bytes.Contains(h, []byte(`"code":0`)) {
				bad.Add(1)
			}
			slots <- struct{}{}
		}
	}()
	w := bufio.NewWriterSize(conn, 1<<17)
	take := func() error {
		select {
		case <-slots:
			return nil
		default:
		}
		if err := w.Flush(); err != nil {
			return err
		}
		select {
		case <-slots:
			return nil
		case err := <-failed:
			return err
		}
	}
	for q := c; left.Add(-1) >= 0; q++ {
		if err := take(); err != nil {
			return err
		}
		f := frames[q%loadQueues]
		for at := f; ; {
			i := bytes.Index(at, []byte(loadKey[:24]))
			if i < 0 {
				break
			}
			copy(at[i+24:], fmt.Sprintf("%08X", serial.Add(1)))
			at = at[i+32:]
		}
		if _, err := w.Write(f); err != nil {
			return err
		}
	}
	for range window {
		if err := take(); err != nil {
			return err
		}
	}
	return nil
}

// measure runs f and reports messages per second and the broker's time for each.
func measure(b *testing.B, pid, messages int, f func()) {
	before := cpu(pid)
	b.ResetTimer()
	f()
	b.StopTimer()
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msg/s")
	if used := cpu(pid) - before; used > 0 {
		b.ReportMetric(float64(used.Nanoseconds())/1000/float64(messages), "broker-us/msg")
	}
	b.ReportMetric(0, "ns/op")
}

func BenchmarkLoadSend(b *testing.B) {
	for _, flush := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
		targets := loadTargets(b, "--set", "flushDiskType="+flush)
		for _, c := range []struct {
			name                 string
			conns, window, batch int
		}{{"4x64", 4, 64, 1}, {"64x1", 64, 1, 1}, {"batch32", 4, 64, 32}} {
			for _, t := range targets {
				topic := "Load" + c.name
				produce(b, t.addr, topic, loadQueues*64, 1, 1, 1) // makes the topic
				b.Run(flush+"/"+c.name+"/"+t.name, func(b *testing.B) {
					var refused int64
					measure(b, t.pid, b.N, func() { refused = produce(b, t.addr, topic, b.N, c.conns, c.window, c.batch) })
					b.ReportMetric(float64(refused), "refused")
				})
			}
		}
	}
}

// pull asks for 32 messages at a time, one queue after another on each of four
// connections, from the start again when all is read, until n messages came.
func pull(b *testing.B, addr, topic string, n int) {
	var got atomic.Int64
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			r, buf := bufio.NewReaderSize(conn, 1<<18), []byte(nil)
			for q := c; got.Load() < int64(n); q = (q + 4) % loadQueues {
				for offset := "0"; got.Load() < int64(n); {
					conn.Write(jsonFrame(11, map[string]string{"consumerGroup": "load", "topic": topic, "queueId": strconv.Itoa(q),
						"queueOffset": offset, "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
						"subscription": "*", "subVersion": "0", "expressionType": "TAG"}, nil))
					h, body, err := readFrame(r, &buf)
					if err != nil {
						b.Error(err)
						return
					}
					if !bytes.Contains(h, []byte(`"code":0`)) {
						break // the end of the queue
					}
					for len(body) > 4 {
						body = body[binary.BigEndian.Uint32(body):]
						got.Add(1)
					}
					_, next, _ := bytes.Cut(h, []byte(`"nextBeginOffset":"`))
					next, _, _ = bytes.Cut(next, []byte(`"`))
					offset = string(next)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkLoadPull(b *testing.B) {
	for _, t := range loadTargets(b) {
		produce(b, t.addr, "LoadPull", 200000, 4, 64, 1)
		b.Run(t.name, func(b *testing.B) {
			measure(b, t.pid, b.N, func() { pull(b, t.addr, "LoadPull", b.N) })
		})
	}
}
