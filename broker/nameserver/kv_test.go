package nameserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mqctl/store/vfs"
)

func TestValidOrderConf(t *testing.T) {
	for s, want := range map[string]bool{
		"a:4": true, "a:4;b:12": true, "broker-a:0": true,
		"": false, "a": false, "a:": false, ":4": false, "a:4;": false, ";a:4": false, "a:x": false, "a:4:5": false,
		"a:4;;b:4": false, "a:-1": false, "a:123456": false, "a: 4": false,
	} {
		if got := validOrderConf(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}

// FuzzOrderConf: what is let through, both clients can take apart.
func FuzzOrderConf(f *testing.F) {
	for _, s := range []string{"a:4", "a:4;b:2", "a:4;", "::", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !validOrderConf(s) {
			return
		}
		for _, part := range strings.Split(s, ";") {
			item := strings.Split(part, ":")
			if len(item) != 2 || item[0] == "" || strings.Trim(item[1], "0123456789") != "" || item[1] == "" {
				t.Fatalf("%q has the part %q", s, part)
			}
		}
	})
}

// The key table is on disk before it is acknowledged, in Apache's file, and comes back.
func TestKVOnDisk(t *testing.T) {
	fs := vfs.NewMem()
	l := start(t, Options{FS: fs, KVPath: "ns/kvConfig.json", OrderMessageEnable: true})
	c := open(t, l)
	ask := func(code int, ext map[string]string) frame { return c.ask(code, 479, ext, nil) }
	ext := func(key, value string) map[string]string {
		return map[string]string{"namespace": orderNamespace, "key": key, "value": value}
	}
	for _, f := range []frame{ask(100, ext("T", "a:4")), ask(100, ext("U", "a:4;b:4")), ask(100, ext("Bad", "a")), ask(102, ext("U", ""))} {
		if f.header["code"].(float64) != 0 {
			t.Fatal(f.header)
		}
	}
	const want = `{"configTable":{"ORDER_TOPIC_CONFIG":{"Bad":"a","T":"a:4"}}}`
	crashed := fs.CrashClone(nil, vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost})
	if got := readAll(t, crashed, "ns/kvConfig.json"); got != want {
		t.Fatalf("after a crash the file is %s", got)
	}
	again := open(t, start(t, Options{FS: crashed, KVPath: "ns/kvConfig.json", OrderMessageEnable: true}))
	if v := again.ask(101, 479, ext("T", ""), nil); v.header["extFields"].(map[string]any)["value"] != "a:4" {
		t.Errorf("after the restart: %v", v.header)
	}
	// Only a well-formed list reaches clients.
	registerBody := `{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{},"Bad":{}}}}`
	again.ask(103, 479, map[string]string{"clusterName": "C", "brokerName": "a", "brokerAddr": "h:1", "brokerId": "0", "haServerAddr": "h:2"}, []byte(registerBody))
	for topic, conf := range map[string]bool{"T": true, "Bad": false} {
		f := again.ask(105, 479, map[string]string{"topic": topic}, nil)
		if got := strings.Contains(string(f.body), `"orderTopicConf":"a:4"`); got != conf || f.header["code"].(float64) != 0 {
			t.Errorf("%s: %s", topic, f.body)
		}
	}
}

func readAll(t *testing.T, fs vfs.FS, name string) string {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, n))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A table that cannot be saved is not changed, and the sender hears of it.
func TestKVDiskFull(t *testing.T) {
	fs := vfs.NewInjector(vfs.NewMem())
	fs.Fail(vfs.Fault{Op: vfs.OpWrite, Err: syscall.ENOSPC})
	l := start(t, Options{FS: fs, KVPath: "ns/kvConfig.json"})
	c := open(t, l)
	ext := map[string]string{"namespace": "N", "key": "K", "value": "V"}
	if f := c.ask(100, 479, ext, nil); f.header["code"].(float64) != 1 || !strings.Contains(f.header["remark"].(string), "no space") {
		t.Errorf("put: %v", f.header)
	}
	if f := c.ask(101, 479, ext, nil); f.header["code"].(float64) != 22 {
		t.Errorf("the refused change is visible: %v", f.header)
	}
	fs.Heal()
	if f := c.ask(100, 479, ext, nil); f.header["code"].(float64) != 0 {
		t.Errorf("put after there is room again: %v", f.header)
	}
}

// TestKVFallback: a damaged key table gives way to the older one, with a warning that
// names both, and members that we do not know stay.
func TestKVFallback(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("ns"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"ns/kvConfig.json":     `{"configTable":{"N":{"k":"ne`,
		"ns/kvConfig.json.bak": `{"future":{"a":[1,{}]},"configTable":{"N":{"k":"old"}}}`,
	} {
		if err := vfs.WriteFile(fs, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	k, err := loadKV(fs, "ns/kvConfig.json", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.close(); err != nil {
		t.Fatal(err)
	}
	told := false
	for line := range strings.Lines(log.String()) {
		told = told || strings.Contains(line, "level=WARN") && strings.Contains(line, "ns/kvConfig.json cannot be used") && strings.Contains(line, "ns/kvConfig.json.bak is used")
	}
	if !told {
		t.Errorf("no warning: %s", log.String())
	}
	c := open(t, start(t, Options{FS: fs, KVPath: "ns/kvConfig.json"}))
	if f := c.ask(100, 479, map[string]string{"namespace": "N", "key": "l", "value": "v"}, nil); f.header["code"].(float64) != 0 {
		t.Fatal(f.header)
	}
	const want = `{"configTable":{"N":{"k":"old","l":"v"}},"future":{"a":[1,{}]}}`
	if got := readAll(t, fs, "ns/kvConfig.json"); got != want {
		t.Errorf("the file is %s", got)
	}
}

// TestKeyTableOfOne: a second nameserver on a key table is refused while the first
// one runs, and one whose table nobody can write does not start.
func TestKeyTableOfOne(t *testing.T) {
	fs := vfs.NewMem()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	first, err := New(Options{Listener: listen(), FS: fs, KVPath: "ns/kvConfig.json"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Listener: listen(), FS: fs, KVPath: "ns/kvConfig.json"}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a second nameserver on the same table: %v", err)
	}
	if _, err := New(Options{Listener: listen(), FS: fs, KVPath: "ns/other.json"}); err != nil {
		t.Errorf("another table in the same folder: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := first.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Listener: listen(), FS: fs, KVPath: "ns/kvConfig.json"}); err != nil {
		t.Errorf("after the first one has ended: %v", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(file, "kvConfig.json"), dir} {
		if _, err := New(Options{Listener: listen(), FS: vfs.OS{}, KVPath: path}); err == nil {
			t.Errorf("%s can be no key table", path)
		}
	}
}
