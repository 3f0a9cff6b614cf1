package nameserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"mqctl/store/fastjson"
)

// memListener accepts connections that live in memory.
type memListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newMemListener() *memListener {
	return &memListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *memListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9876} }

func (l *memListener) dial(context.Context, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, errors.New("refused")
	}
}

// start runs a server until the test ends and returns its listener.
func start(t *testing.T, o Options) *memListener {
	t.Helper()
	l := newMemListener()
	o.Listener = l
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l
}

// wire is one connection of a test.
type wire struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func open(t *testing.T, l *memListener) *wire {
	t.Helper()
	c, err := l.dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &wire{t: t, Conn: c, r: bufio.NewReader(c)}
}

// frame is one recorded or received frame.
type frame struct {
	raw    []byte
	header map[string]any
	body   []byte
}

func cut(t *testing.T, raw []byte) frame {
	t.Helper()
	n := int(binary.BigEndian.Uint32(raw[4:]) & 0xFFFFFF)
	f := frame{raw: raw, body: raw[8+n:]}
	if err := json.Unmarshal(raw[8:8+n], &f.header); err != nil {
		t.Fatalf("header %q: %v", raw[8:8+n], err)
	}
	return f
}

func (w *wire) send(f frame) {
	w.t.Helper()
	if _, err := w.Write(f.raw); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) receive() frame {
	w.t.Helper()
	var length [4]byte
	if _, err := io.ReadFull(w.r, length[:]); err != nil {
		w.t.Fatal(err)
	}
	raw := append(length[:], make([]byte, binary.BigEndian.Uint32(length[:]))...)
	if _, err := io.ReadFull(w.r, raw[4:]); err != nil {
		w.t.Fatal(err)
	}
	return cut(w.t, raw)
}

// ask sends a request of the test's own and returns the answer.
func (w *wire) ask(code, version int, ext map[string]string, body []byte) frame {
	w.t.Helper()
	w.send(makeFrame(w.t, code, version, 0, ext, body))
	return w.receive()
}

func makeFrame(t *testing.T, code, version, flag int, ext map[string]string, body []byte) frame {
	t.Helper()
	h, err := json.Marshal(map[string]any{"code": code, "version": version, "opaque": 7, "flag": flag, "language": "JAVA", "extFields": ext})
	if err != nil {
		t.Fatal(err)
	}
	raw := binary.BigEndian.AppendUint32(nil, uint32(4+len(h)+len(body)))
	raw = binary.BigEndian.AppendUint32(raw, uint32(len(h)))
	raw = append(append(raw, h...), body...)
	return frame{raw: raw, body: body}
}

// recorded is one line of testdata/wire/*.jsonl.
type recorded struct {
	From, Via string
	Conn      int
	Frame     string
	frame     frame
}

// recording reads the frames of a recording that went to or came from a nameserver.
func recording(t *testing.T, name string) []recorded {
	t.Helper()
	var out []recorded
	for _, r := range recordingAll(t, name) {
		if r.Via != "broker-ns" && r.Via != "client-ns" {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(r.Frame)
		if err != nil {
			t.Fatal(err)
		}
		r.frame = cut(t, raw)
		out = append(out, r)
	}
	return out
}

func recordingAll(t *testing.T, name string) []recorded {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "wire", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []recorded
	for line := range bytes.Lines(b) {
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func clean(t *testing.T, b []byte) any {
	t.Helper()
	if len(b) == 0 {
		return nil
	}
	var v any
	if err := fastjson.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return v
}
