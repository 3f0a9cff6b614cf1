package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/store/vfs"
)

func writeMem(t testing.TB, fsys vfs.FS, path, text string) {
	t.Helper()
	if err := replaceFile(fsys, path, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func readMem(t testing.TB, fsys vfs.FS, path string) string {
	t.Helper()
	data, err := readSmallFile(fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func settingsFor(t testing.TB, fsys vfs.FS, in ConfigInput) *Settings {
	t.Helper()
	in.FS = fsys
	in.Now = func() time.Time { return time.UnixMilli(1700000000000) }
	o, err := mustLoad(t, in).Options()
	if err != nil {
		t.Fatal(err)
	}
	return o.Settings
}

func TestApply(t *testing.T) {
	const file = "# mine\nbrokerName=b\nslaveReadEnable=false\n"
	for _, c := range []struct {
		name, text string
		code       int    // of the refusal
		remark     string // part of it
		changed    []string
		file       string // afterwards, if it changed
	}{
		{name: "live", text: "slaveReadEnable=true\n", changed: []string{"slaveReadEnable"}, file: "# mine\nbrokerName=b\nslaveReadEnable=true\n"},
		{name: "several", text: "slaveReadEnable=true\nmaxMessageSize=1MiB\nfileReservedTime=48\nredeleteHangedFileInterval=1000\nlistenPort=4000", remark: "restart needed: listenPort; no effect in this broker: redeleteHangedFileInterval",
			changed: []string{"fileReservedTime", "listenPort", "maxMessageSize", "redeleteHangedFileInterval", "slaveReadEnable"}, file: "# mine\nbrokerName=b\nslaveReadEnable=true\nfileReservedTime=48\nlistenPort=4000\nmaxMessageSize=1048576\nredeleteHangedFileInterval=1000\n"},
		{name: "same value", text: "slaveReadEnable=FALSE"},
		{name: "nothing", text: ""},
		{name: "hidden by the environment", text: "regionId=x", remark: "lost at the next start, as it is also set elsewhere: regionId (env MQCTL_BROKER_REGION_ID)", changed: []string{"regionId"}, file: file + "regionId=x\n"},
		{name: "black list", text: "slaveReadEnable=true\nbrokerConfigPath=/x", code: 16, remark: "Can not update config in black list."},
		{name: "black list by configuration", text: "brokerName=x", code: 16, remark: "black list"},
		{name: "rocketmqHome", text: "rocketmqHome=x", code: 16, remark: "black list"},
		{name: "unknown", text: "slaveReadEnable=true\nslaveReadEnabel=true", code: 29, remark: "slaveReadEnabel: there is no such key; did you mean slaveReadEnable?"},
		{name: "bad value", text: "brokerPermission=-1", code: 29, remark: "brokerPermission: -1 is out of range"},
		{name: "absent feature", text: "enableControllerMode=true", code: 29, remark: "not built"},
		{name: "slave", text: "brokerRole=SLAVE", code: 29, remark: "0 is the id of a master"},
		{name: "together", text: "haListenPort=10911", code: 29, remark: "the broker's own"},
		{name: "no properties", text: "a=\\uXYZW", code: 29, remark: "hexadecimal"},
		{name: "large", text: strings.Repeat("#", maxConfigBytes+1), code: 29, remark: "longer than"},
		{name: "emptied", text: "brokerIP1=", code: 29, remark: "empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			writeMem(t, mem, "/etc/b.conf", file)
			s := settingsFor(t, mem, ConfigInput{File: "/etc/b.conf", Data: []byte(file), Env: []string{"MQCTL_BROKER_REGION_ID=env"}, Set: []string{"configBlackList=brokerName"}})
			before, version := s.Text()
			var told []string
			s.OnChange(func(r Reloadable, changed []string) {
				told = changed
				if r != *s.Live() {
					t.Error("the listener was given other values than Live")
				}
			})
			remark, err := s.Apply([]byte(c.text))
			after, next := s.Text()
			if c.code != 0 {
				var e *remoting.Error
				if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Remark, c.remark) {
					t.Errorf("error %v, want %d %q", err, c.code, c.remark)
				}
				if string(before) != string(after) || version != next || readMem(t, mem, "/etc/b.conf") != file || told != nil {
					t.Error("a refused change left something behind")
				}
				return
			}
			if err != nil || c.remark == "" && remark != "" || !strings.Contains(remark, c.remark) {
				t.Errorf("remark %q, error %v, want %q", remark, err, c.remark)
			}
			if !slices.Equal(told, c.changed) {
				t.Errorf("listeners heard of %q, want %q", told, c.changed)
			}
			want := c.file
			if want == "" {
				want = file
			}
			if got := readMem(t, mem, "/etc/b.conf"); got != want {
				t.Errorf("file %q, want %q", got, want)
			}
			if bumped := next.Counter == version.Counter+1 && next.Timestamp == 1700000000000; bumped != (c.changed != nil) {
				t.Errorf("version %+v after %+v", next, version)
			}
		})
	}
}

func TestTextIsWhatRocketMQShows(t *testing.T) {
	s := settingsFor(t, vfs.NewMem(), ConfigInput{})
	text, _ := s.Text()
	entries, err := parseProperties(string(text))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for i, e := range entries {
		have[e.key] = true
		if i > 0 && entries[i-1].key >= e.key {
			t.Errorf("%s comes after %s", e.key, entries[i-1].key)
		}
	}
	for _, e := range recordedConfig(t) {
		if !have[e.key] && e.key != "namesrvAddr" && e.key != "rocketmqHome" { // null unless set
			t.Errorf("%s is missing", e.key)
		}
	}
	if have["haMasterAddress"] || have["initAuthenticationUser"] {
		t.Error("keys that are null in RocketMQ are shown")
	}
}

func TestSavedWithoutFile(t *testing.T) {
	mem := vfs.NewMem()
	in := ConfigInput{Set: []string{"storePathRootDir=/data"}}
	s := settingsFor(t, mem, in)
	if remark, err := s.Apply([]byte("slaveReadEnable=true\nlistenPort=4000")); err != nil || remark != "restart needed: listenPort" {
		t.Fatalf("remark %q, error %v", remark, err)
	}
	if !s.Live().SlaveRead {
		t.Error("the change is not live")
	}
	c := mustLoad(t, ConfigInput{Set: in.Set, FS: mem})
	if c.Value("slaveReadEnable") != "true" || c.Value("listenPort") != "4000" || c.Value("haListenPort") != "4001" {
		t.Errorf("after a restart: %s %s %s", c.Value("slaveReadEnable"), c.Value("listenPort"), c.Value("haListenPort"))
	}
	if o := c.Origin("slaveReadEnable"); o.Kind != "saved" || !strings.HasPrefix(o.Where, "/data/config/mqctl-broker.properties:") {
		t.Errorf("origin %v", o)
	}
	c = mustLoad(t, ConfigInput{Set: append(in.Set, "slaveReadEnable=false"), FS: mem})
	if c.Value("slaveReadEnable") != "false" || c.Value("listenPort") != "4000" {
		t.Error("--set does not win over saved values")
	}
	writeMem(t, mem, "/data/config/mqctl-broker.properties", "nope=1\n")
	if _, err := LoadConfig(machine(ConfigInput{Set: in.Set, FS: mem})); err == nil || !strings.Contains(err.Error(), "/data/config/mqctl-broker.properties:1: nope: there is no such key") {
		t.Errorf("a broken saved file: %v", err)
	}
}

// TestApplyCrash cuts the power at every operation of a change: the file is
// the old or the new one, and the new one once the change is acknowledged.
func TestApplyCrash(t *testing.T) {
	const old, want = "# c\nslaveReadEnable=false\n", "# c\nslaveReadEnable=true\n"
	for seed := range uint64(40) {
		mem := vfs.NewMem()
		writeMem(t, mem, "/etc/b.conf", old)
		in := vfs.NewInjector(mem)
		in.OnOp = func(op vfs.Op, path string) {
			if op.Changes() {
				crash := mem.CrashClone(rand.New(rand.NewPCG(seed, 1)), vfs.CrashOptions{})
				if got := readMem(t, crash, "/etc/b.conf"); got != old && got != want {
					t.Fatalf("seed %d: cut before %s %s leaves %q", seed, op, path, got)
				}
			}
		}
		s := settingsFor(t, in, ConfigInput{File: "/etc/b.conf", Data: []byte(old)})
		if _, err := s.Apply([]byte("slaveReadEnable=true")); err != nil {
			t.Fatal(err)
		}
		crash := mem.CrashClone(rand.New(rand.NewPCG(seed, 2)), vfs.CrashOptions{Data: vfs.FateLost, Names: vfs.FateLost})
		if got := readMem(t, crash, "/etc/b.conf"); got != want {
			t.Fatalf("seed %d: acknowledged, but a crash leaves %q", seed, got)
		}
	}
}

// TestApplyWhenTheDiskFails fails each operation in turn: nothing becomes live,
// and a later try succeeds.
func TestApplyWhenTheDiskFails(t *testing.T) {
	for skip := range 5 {
		t.Run(fmt.Sprint(skip), func(t *testing.T) {
			mem := vfs.NewMem()
			writeMem(t, mem, "/etc/b.conf", "slaveReadEnable=false\n")
			in := vfs.NewInjector(mem)
			s := settingsFor(t, in, ConfigInput{File: "/etc/b.conf", Data: []byte("slaveReadEnable=false\n")})
			in.Fail(vfs.Fault{Skip: skip, Left: 1, Err: syscall.ENOSPC})
			_, err := s.Apply([]byte("slaveReadEnable=true"))
			var e *remoting.Error
			if !errors.As(err, &e) || e.Code != 1 || s.Live().SlaveRead {
				t.Fatalf("error %v, live %v", err, s.Live().SlaveRead)
			}
			in.Heal()
			if _, err := s.Apply([]byte("slaveReadEnable=true")); err != nil || !s.Live().SlaveRead {
				t.Errorf("second try: %v", err)
			}
			if got := readMem(t, mem, "/etc/b.conf"); got != "slaveReadEnable=true\n" {
				t.Errorf("file %q", got)
			}
		})
	}
}

func TestApplyToMissingFile(t *testing.T) {
	s := settingsFor(t, vfs.NewMem(), ConfigInput{File: "/etc/gone.conf", Data: []byte("brokerName=b")})
	if _, err := s.Apply([]byte("slaveReadEnable=true")); err == nil || !strings.Contains(err.Error(), "not there any more") {
		t.Errorf("error %v", err)
	}
}

// FuzzApply: a change is made whole or not at all, and what was made is read
// back from the file.
func FuzzApply(f *testing.F) {
	for _, s := range []string{"slaveReadEnable=true", "regionId=a b\\u00e9", "maxMessageSize=2MiB\nbrokerPermission=4", "x=1", "brokerName=..", "messageDelayLevel=1s", "listenPort:99999"} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, toml bool) {
		name, file := "/b.conf", "# x\nbrokerName=b\n"
		if toml {
			name, file = "/b.toml", "# x\n[broker]\nbrokerName = \"b\" # y\n"
		}
		mem := vfs.NewMem()
		writeMem(t, mem, name, file)
		s := settingsFor(t, mem, ConfigInput{File: name, Data: []byte(file)})
		before, _ := s.Text()
		if _, err := s.Apply(text); err != nil {
			if after, _ := s.Text(); string(after) != string(before) || readMem(t, mem, name) != file {
				t.Fatalf("refused (%v), but something changed", err)
			}
			return
		}
		c, err := LoadConfig(machine(ConfigInput{File: name, Data: []byte(readMem(t, mem, name))}))
		if err != nil {
			t.Fatalf("the saved file does not load: %v", err)
		}
		for _, x := range s.Effective() {
			if got := c.Value(x.Key.Name); got != x.Value {
				t.Fatalf("%s is %q, after a restart it would be %q", x.Key.Name, x.Value, got)
			}
		}
	})
}

// A slave that becomes a synchronous master waits for slaves as one that was started so.
func TestSetRole(t *testing.T) {
	c := mustLoad(t, ConfigInput{File: "b.conf", Data: []byte("brokerRole=SLAVE\nbrokerId=1\nnamesrvAddr=10.0.0.1:9876")})
	s := newSettings(c, vfs.NewMem())
	root := s.Value("storePathRootDir")
	if n := s.Live().HA.InSyncReplicas; n != 1 {
		t.Fatalf("a slave has inSyncReplicas %d", n)
	}
	if live := s.setRole(SyncMaster, 0); live.HA.InSyncReplicas != 2 || s.Live().HA.InSyncReplicas != 2 {
		t.Errorf("after the change inSyncReplicas is %d", live.HA.InSyncReplicas)
	}
	if s.Value("brokerRole") != "SYNC_MASTER" || s.Value("brokerId") != "0" || s.Value("storePathRootDir") != root {
		t.Errorf("role %s, id %s, store %s", s.Value("brokerRole"), s.Value("brokerId"), s.Value("storePathRootDir"))
	}
	if c.Value("brokerRole") != "SLAVE" {
		t.Error("the configuration itself was changed")
	}
}
