package compat

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Requests of the remoting protocol as the tests write them themselves, where a
// client would hide what is compared: whole records, bounds of queues.

// answer is a remoting response.
type answer struct {
	Code      int
	Remark    string
	ExtFields map[string]string
	Body      []byte `json:"-"`
}

func (a *answer) table() map[string]string {
	var t struct{ Table map[string]string }
	json.Unmarshal(a.Body, &t)
	return t.Table
}

// number is a field of the answer, -1 if it is missing.
func (a *answer) number(field string) int64 {
	v, err := strconv.ParseInt(a.ExtFields[field], 10, 64)
	if err != nil {
		return -1
	}
	return v
}

// wire is a connection on which one request is under way at a time.
type wire struct {
	c    net.Conn
	in   *bufio.Reader
	buf  []byte
	wait time.Duration
}

func dialWire(addr string) (*wire, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	return &wire{c: c, in: bufio.NewReader(c), wait: 30 * time.Second}, nil
}

// call sends one request and returns its answer, whose body stays valid. Requests of
// the other side are passed over.
func (w *wire) call(code int, ext map[string]string, body []byte) (*answer, error) {
	w.c.SetDeadline(time.Now().Add(w.wait))
	if _, err := w.c.Write(jsonFrame(code, ext, body)); err != nil {
		return nil, err
	}
	for {
		header, body, err := readFrame(w.in, &w.buf)
		if err != nil {
			return nil, err
		}
		var head struct {
			answer
			Flag   int
			Opaque int
		}
		if err := json.Unmarshal(header, &head); err != nil {
			return nil, err
		}
		if head.Flag&1 == 1 && head.Opaque == loadOpaque {
			head.Body = bytes.Clone(body)
			return &head.answer, nil
		}
	}
}

// ask sends one request on a connection of its own.
func ask(addr string, code int, ext map[string]string) (*answer, error) {
	w, err := dialWire(addr)
	if err != nil {
		return nil, err
	}
	defer w.c.Close()
	w.wait = 3 * time.Second
	return w.call(code, ext, nil)
}

// makeTopic creates a topic by the admin request.
func (w *wire) makeTopic(topic string, queues int) error {
	n := strconv.Itoa(queues)
	return done(w.call(17, map[string]string{"topic": topic, "defaultTopic": "TBW102", "readQueueNums": n, "writeQueueNums": n,
		"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}, nil))
}

func (w *wire) deleteTopic(topic string) error {
	return done(w.call(215, map[string]string{"topic": topic}, nil))
}

func done(a *answer, err error) error {
	if err == nil && a.Code != 0 {
		err = fmt.Errorf("code %d: %s", a.Code, a.Remark)
	}
	return err
}

// letter is a message to send.
type letter struct {
	topic string
	queue int
	props map[string]string
	body  []byte
}

func (l *letter) properties() string {
	var b strings.Builder
	for k, v := range l.props {
		b.WriteString(k + "\x01" + v + "\x02")
	}
	return b.String()
}

// stored says where messages are.
type stored struct {
	offset    int64   // of the first in its queue
	positions []int64 // in the log
}

// sendAll sends messages of one topic and queue, several as one batch.
func (w *wire) sendAll(letters []letter) (stored, error) {
	first := &letters[0]
	ext := map[string]string{"a": "compat", "b": first.topic, "c": "TBW102", "d": "4", "e": strconv.Itoa(first.queue), "f": "0",
		"g": strconv.FormatInt(time.Now().UnixMilli(), 10), "h": "0", "i": first.properties(), "j": "0", "k": "false", "m": "false"}
	code, body := 310, first.body
	if len(letters) > 1 {
		code, body = 320, nil
		ext["i"], ext["m"] = "", "true"
		for i := range letters {
			props := letters[i].properties()
			body = binary.BigEndian.AppendUint32(body, uint32(22+len(letters[i].body)+len(props)))
			body = append(body, make([]byte, 12)...)
			body = binary.BigEndian.AppendUint32(body, uint32(len(letters[i].body)))
			body = append(body, letters[i].body...)
			body = binary.BigEndian.AppendUint16(body, uint16(len(props)))
			body = append(body, props...)
		}
	}
	a, err := w.call(code, ext, body)
	if err := done(a, err); err != nil {
		return stored{}, err
	}
	out := stored{offset: a.number("queueOffset")}
	for id := range strings.SplitSeq(a.ExtFields["msgId"], ",") {
		if len(id) != 32 {
			return stored{}, fmt.Errorf("%q is no place of a message", id)
		}
		pos, err := strconv.ParseInt(id[16:], 16, 64)
		if err != nil {
			return stored{}, err
		}
		out.positions = append(out.positions, pos)
	}
	return out, nil
}

// bound is the begin (31) or end (30) of a queue.
func (w *wire) bound(code int, topic string, queue int) (int64, error) {
	a, err := w.call(code, map[string]string{"topic": topic, "queueId": strconv.Itoa(queue)}, nil)
	if err := done(a, err); err != nil {
		return 0, err
	}
	return a.number("offset"), nil
}

// pull asks once for messages of a queue and does not wait for any.
func (w *wire) pull(topic string, queue int, offset int64, tags string) (*answer, error) {
	return w.call(11, map[string]string{"consumerGroup": "compat-pull", "topic": topic, "queueId": strconv.Itoa(queue),
		"queueOffset": strconv.FormatInt(offset, 10), "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
		"subscription": tags, "subVersion": "0", "expressionType": "TAG"}, nil)
}

// query asks for the messages with a key; unique says that it is the client's own id.
func (w *wire) query(topic, key string, unique bool) ([][]byte, error) {
	ext := map[string]string{"topic": topic, "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": strconv.FormatInt(1<<62, 10)}
	if unique {
		ext["_UNIQUE_KEY_QUERY"] = "true"
	}
	a, err := w.call(12, ext, nil)
	if err != nil {
		return nil, err
	}
	if a.Code == 22 { // none
		return nil, nil
	}
	if err := done(a, nil); err != nil {
		return nil, err
	}
	return cutRecords(a.Body)
}

// cutRecords cuts a body into its records.
func cutRecords(b []byte) (out [][]byte, err error) {
	for len(b) > 0 {
		if len(b) < 4 || be32(b) < 4 || be32(b) > len(b) {
			return nil, fmt.Errorf("a body that does not consist of records: %d bytes are left", len(b))
		}
		out = append(out, b[:be32(b)])
		b = b[be32(b):]
	}
	return out, nil
}

func be32(b []byte) int { return int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3]) }

// compareQueues compares the entries from begin to end of one queue in two stores.
func compareQueues(a, b, topic string, queue int, begin, end int64) error {
	read := func(dir string) ([]byte, error) {
		files, err := filepath.Glob(filepath.Join(dir, "consumequeue", topic, strconv.Itoa(queue), "*"))
		if err != nil {
			return nil, err
		}
		out := make([]byte, (end-begin)*20)
		for _, f := range files {
			base, err := strconv.ParseInt(filepath.Base(f), 10, 64)
			if err != nil || base >= end*20 {
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			if skip := begin*20 - base; skip > int64(len(text)) {
				continue
			} else if skip > 0 {
				text, base = text[skip:], begin*20
			}
			copy(out[base-begin*20:], text)
		}
		return out, nil
	}
	x, err := read(a)
	if err != nil {
		return err
	}
	y, err := read(b)
	if err != nil {
		return err
	}
	for i := 0; i < len(x); i += 20 {
		if be32(x[i+8:]) == 0 || !bytes.Equal(x[i:i+20], y[i:i+20]) {
			return fmt.Errorf("queue %d of %s, entry %d: % x and % x", queue, topic, begin+int64(i/20), x[i:i+20], y[i:i+20])
		}
	}
	return nil
}

// compareLogs compares two logs up to end.
func compareLogs(a, b string, end int64) error {
	files, err := filepath.Glob(filepath.Join(a, "commitlog", "*"))
	if err != nil {
		return err
	}
	compared := int64(0)
	for _, f := range files {
		base, err := strconv.ParseInt(filepath.Base(f), 10, 64)
		if err != nil || base >= end {
			continue
		}
		x, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		y, err := os.ReadFile(filepath.Join(b, "commitlog", filepath.Base(f)))
		if errors.Is(err, os.ErrNotExist) {
			continue // older than the slave's first
		}
		if err != nil {
			return err
		}
		n := min(end-base, int64(len(x)), int64(len(y)))
		if !bytes.Equal(x[:n], y[:n]) {
			at := int64(0)
			for x[at] == y[at] {
				at++
			}
			return fmt.Errorf("the logs differ at %d", base+at)
		}
		compared += n
	}
	if compared == 0 {
		return fmt.Errorf("no common part of the logs up to %d", end)
	}
	return nil
}
