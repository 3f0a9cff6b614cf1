package broker

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"mqctl/store/vfs"
)

// mustLoad fills in a machine and loads.
func mustLoad(t testing.TB, in ConfigInput) *Config {
	t.Helper()
	c, err := LoadConfig(machine(in))
	if err != nil {
		t.Fatalf("LoadConfig: %v", err)
	}
	return c
}

func machine(in ConfigInput) ConfigInput {
	in.HostName, in.HomeDir, in.LocalIP = "host-1", "/home/op", "10.0.0.4"
	if in.CPUs == 0 {
		in.CPUs = 8
	}
	return in
}

func TestParseProperties(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string // key, value, ...
		err        string
	}{
		{name: "separators", text: "a=1\nb:2\nc 3\nd = 4\ne\t:\t5\nf\n", want: []string{"a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", ""}},
		{name: "comments", text: "# one\n  ! two\n\n \t\na=1#x\n", want: []string{"a", "1#x"}},
		{name: "continued", text: "a=1 \\\n   2\\\n\t3\nb=4", want: []string{"a", "1 23", "b", "4"}},
		{name: "comment is not continued into", text: "a=1\\\n# 2\nb=3", want: []string{"a", "1# 2", "b", "3"}},
		{name: "even backslashes end a line", text: "a=1\\\\\nb=2", want: []string{"a", `1\`, "b", "2"}},
		{name: "continued to the end", text: "a=1\\", want: []string{"a", "1"}},
		{name: "line ends", text: "a=1\r\nb=2\rc=3", want: []string{"a", "1", "b", "2", "c", "3"}},
		{name: "escapes", text: `a=\t\n\r\f\x\"\:\=`, want: []string{"a", "\t\n\r\fx\":="}},
		{name: "escaped separator in a key", text: `a\=b\ c=1`, want: []string{"a=b c", "1"}},
		{name: "unicode", text: `a=\u00e9\u4E2D\uD83D\uDE00`, want: []string{"a", "é中😀"}},
		{name: "separator in a value", text: "a=b=c:d", want: []string{"a", "b=c:d"}},
		{name: "two separators", text: "a : = b", want: []string{"a", "= b"}},
		{name: "trailing blanks stay", text: "a=b  \t\n", want: []string{"a", "b  \t"}},
		{name: "empty", text: "", want: nil},
		{name: "bad unicode", text: "b=2\na=\\u12g4", err: "line 2: \\u needs four hexadecimal digits"},
		{name: "short unicode", text: `a=\u12`, err: `\u needs four`},
	} {
		t.Run(c.name, func(t *testing.T) {
			entries, err := parseProperties(c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, e.key, e.value)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestConfigText(t *testing.T) {
	for in, want := range map[string]string{"\uFEFFa=\u00e9": "a=\u00e9", "a=\xe9": "a=\u00e9", "": ""} {
		if got := configText([]byte(in)); got != want {
			t.Errorf("configText(%q) = %q, want %q", in, got, want)
		}
	}
}

// apacheConf is the shape of the file that RocketMQ ships.
const apacheConf = "brokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = 0\ndeleteWhen = 04\nfileReservedTime = 48\nbrokerRole = ASYNC_MASTER\nflushDiskType = ASYNC_FLUSH\n"

func TestLoadConfig(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		want             map[string]string
		warn             string // part of a warning
	}{
		{name: "the file RocketMQ ships", file: "broker.conf", text: apacheConf,
			want: map[string]string{"brokerName": "broker-a", "storePathRootDir": "/home/op/store", "bindAddress": "0.0.0.0", "brokerIP1": "10.0.0.4", "haListenPort": "10912", "fileReservedTime": "48"}},
		{name: "a file of RocketMQ under another name", file: "x.toml", text: apacheConf, want: map[string]string{"storePathRootDir": "/home/op/store"}},
		{name: "toml", file: "b", text: "brokerName = \"b-1\"\n[store]\nmappedFileSizeCommitLog = \"64MiB\"\nmaxMessageSize = 1_000_000\n[flush]\nflushIntervalCommitLog = \"1.5s\"\nflushDiskType = \"sync_flush\"\n[http]\nlisten = \"off\"\n[nameserver.embedded]\nenable = true\n",
			want: map[string]string{"brokerName": "b-1", "mappedFileSizeCommitLog": "67108864", "maxMessageSize": "1000000", "flushIntervalCommitLog": "1500", "flushDiskType": "SYNC_FLUSH", "http.listen": "off", "nameserver.embedded.enable": "true", "storePathRootDir": "/home/op/.local/share/mqctl/b-1-0"}},
		{name: "toml: a key in another section", file: "b.toml", text: "[ha]\nbrokerName = \"x\"\nnamesrvAddr = [\"a:1\", \"b:2\"]", want: map[string]string{"brokerName": "x", "namesrvAddr": "a:1;b:2", "nameserver.embedded.enable": "false"}},
		{name: "numbers only, by name", file: "b.toml", text: "listenPort = 3000\n", want: map[string]string{"listenPort": "3000", "storePathRootDir": "/home/op/.local/share/mqctl/host-1-0", "haListenPort": "3001"}},
		{name: "numbers only, by name 2", file: "b.conf", text: "listenPort = 3000\n", want: map[string]string{"storePathRootDir": "/home/op/store"}},
		{name: "units in properties 2", file: "b.conf", text: "mappedFileSizeCommitLog=512MB\nflushConsumerOffsetInterval=2m\nserverChannelMaxIdleTimeSeconds=1h\nmappedFileSizeConsumeQueue: 5 MiB",
			want: map[string]string{"mappedFileSizeCommitLog": "512000000", "flushConsumerOffsetInterval": "120000", "serverChannelMaxIdleTimeSeconds": "3600", "mappedFileSizeConsumeQueue": "5242880"}},
		{name: "trailing blanks", file: "b.conf", text: "brokerName=b  \n", want: map[string]string{"brokerName": "b"}, warn: "ends in blanks"},
		{name: "twice", file: "b.conf", text: "brokerName=b\nbrokerName=c\n", want: map[string]string{"brokerName": "c"}, warn: "set twice"},
		{name: "old spelling", file: "b.conf", text: "mapedFileSizeCommitLog=1048576\nmaxMessageSize=65536", want: map[string]string{"mappedFileSizeCommitLog": "1048576"}, warn: "old spelling"},
		{name: "home", file: "b.conf", text: "storePathRootDir=~/mq", want: map[string]string{"storePathRootDir": "/home/op/mq"}},
		{name: "latin 1", file: "b.conf", text: "regionId=\xe9", want: map[string]string{"regionId": "é"}},
		{name: "default on features are accepted", file: "b.conf", text: "timerWheelEnable=true\nenableCompaction=true\nclusterTopicEnable=true\nenableControllerMode=false", want: map[string]string{"timerWheelEnable": "true"}},
		{name: "IPv6 loopback", file: "b.conf", text: "bindAddress=::1", want: map[string]string{"brokerIP1": "::1", "nameserver.embedded.listen": "[::1]:9876"}},
		{name: "all of IPv6", file: "b.conf", text: "bindAddress=::", want: map[string]string{"brokerIP1": "10.0.0.4"}},
		{name: "one address", file: "b.conf", text: "bindAddress=10.0.0.9", want: map[string]string{"brokerIP1": "10.0.0.9"}},
		{name: "localhost", file: "b.conf", text: "bindAddress=localhost", want: map[string]string{"brokerIP1": "127.0.0.1"}},
		{name: "loopback", file: "b.conf", text: "bindAddress=127.0.0.1", want: map[string]string{"brokerIP1": "127.0.0.1", "nameserver.embedded.listen": "127.0.0.1:9876"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := mustLoad(t, ConfigInput{File: c.file, Data: []byte(c.text)})
			for key, want := range c.want {
				if got := cfg.Value(key); got != want {
					t.Errorf("%s = %q, want %q", key, got, want)
				}
			}
			if c.warn != "" && !strings.Contains(strings.Join(cfg.Warnings(), "\n"), c.warn) {
				t.Errorf("warnings %q do not hold %q", cfg.Warnings(), c.warn)
			}
			if _, err := cfg.Options(); err != nil {
				t.Errorf("Options: %v", err)
			}
		})
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		err              []string // parts of it
	}{
		{name: "unknown key in the last line", file: "b.conf", text: "mappedFileSizeCommitLog=512MB\nflushConsumerOffsetInterval=2m\nserverChannelMaxIdleTimeSeconds=1h\nx.y=1", err: []string{"b.conf:4: x.y: there is no such key"}},
		{name: "typo", file: "b.conf", text: "# x\nbrokerIp1=10.0.0.1", err: []string{"b.conf:2: brokerIp1: there is no such key; did you mean brokerIP1?"}},
		{name: "typo in toml", file: "b.toml", text: "[broker]\nbrokerNam = \"x\"", err: []string{"b.toml:2: brokerNam: there is no such key; did you mean brokerName?"}},
		{name: "typo in a section", file: "b.toml", text: "[storr]\nbrokerName = \"x\"", err: []string{"b.toml:1: storr: there is no section [storr]; did you mean store?"}},
		{name: "toml syntax", file: "b.toml", text: "[broker]\nbrokerName = \"x\n", err: []string{"b.toml:2: "}},
		{name: "toml type", file: "b.toml", text: "[broker]\nbrokerName = 1979-05-27", err: []string{"b.toml:2: brokerName: "}},
		{name: "two problems", file: "b.conf", text: "brokerPermission=9\nlistenPort=x", err: []string{"b.conf:1: brokerPermission: 9 is out of range: it must be between 0 and 7", "b.conf:2: listenPort: \"x\" is no whole number"}},
		{name: "bool", file: "b.conf", text: "slaveReadEnable=yes", err: []string{"\"yes\" is neither true nor false"}},
		{name: "enum", file: "b.conf", text: "flushDiskType=SOMETIMES", err: []string{"none of ASYNC_FLUSH, SYNC_FLUSH"}},
		{name: "size", file: "b.conf", text: "maxMessageSize=-4k", err: []string{"maxMessageSize: \"-4k\" is no size"}},
		{name: "huge", file: "b.conf", text: "brokerId=99999999999999999999", err: []string{"too large a number"}},
		{name: "huge size", file: "b.conf", text: "maxMessageSize=9999999EiB", err: []string{"is no size"}},
		{name: "time", file: "b.conf", text: "syncFlushTimeout=soon", err: []string{"\"soon\" is no time"}},
		{name: "fine time", file: "b.conf", text: "serverChannelMaxIdleTimeSeconds=500ms", err: []string{"finer than seconds"}},
		{name: "slave", file: "b.conf", text: "brokerRole=SLAVE", err: []string{"brokerId: 0 is the id of a master, but brokerRole is SLAVE"}},
		{name: "id", file: "b.conf", text: "brokerId=1", err: []string{"b.conf:1: brokerId: 1 is the id of a slave, but brokerRole is ASYNC_MASTER"}},
		{name: "no way to a master", file: "b.conf", text: "brokerRole=SLAVE\nbrokerId=1", err: []string{"haMasterAddress: nobody tells this slave where its master is; name the nameservers"}},
		{name: "negative id", file: "b.conf", text: "brokerRole=SLAVE\nbrokerId=-1", err: []string{"b.conf:2: brokerId: -1 is negative"}},
		{name: "master address", file: "b.conf", text: "haMasterAddress=master", err: []string{"haMasterAddress: \"master\" is not of the form host:port"}},
		{name: "heartbeats", file: "b.conf", text: "haHousekeepingInterval=1000", err: []string{"b.conf:1: haHousekeepingInterval: 1000 ms is not longer"}},
		{name: "tls", file: "b.conf", text: "haTlsEnable=true\nhaTlsKey=k\nhaTlsCa=c", err: []string{"haTlsCert: haTlsEnable is on"}},
		{name: "raft", file: "b.conf", text: "enableDLegerCommitLog=true", err: []string{"enableDLegerCommitLog: true is not possible"}},
		{name: "pool", file: "b.conf", text: "transientStorePoolEnable=true", err: []string{"is not possible"}},
		{name: "sql", file: "b.conf", text: "enablePropertyFilter=true", err: []string{"SQL92"}},
		{name: "acl", file: "b.conf", text: "aclEnable=true", err: []string{"Access control"}},
		{name: "name", file: "b.conf", text: "brokerName=a/b", err: []string{"\"a/b\" holds '/'"}},
		{name: "dots", file: "b.conf", text: "brokerName=..", err: []string{"\"..\" is no name"}},
		{name: "cluster", file: "b.conf", text: "brokerClusterName=" + strings.Repeat("x", 128), err: []string{"128 characters"}},
		{name: "nameserver", file: "b.conf", text: "namesrvAddr=10.0.0.1", err: []string{"not of the form host:port"}},
		{name: "several folders", file: "b.conf", text: "storePathCommitLog=/a,/b", err: []string{"several folders"}},
		{name: "levels", file: "b.conf", text: "messageDelayLevel=1s 2x", err: []string{"messageDelayLevel"}},
		{name: "same port", file: "b.conf", text: "haListenPort=10911", err: []string{"b.conf:1: haListenPort: the port is the broker's own"}},
		{name: "advertise", file: "b.conf", text: "brokerIP1=my-host", err: []string{"no IP address"}},
		{name: "control character", file: "b.conf", text: "regionId=a\\nb", err: []string{"control character"}},
		{name: "zero bytes", file: "b.conf", text: "a\x00b", err: []string{"b.conf: the file holds zero bytes"}},
		{name: "too large", file: "b.conf", text: strings.Repeat("#", maxConfigBytes+1), err: []string{"larger than"}},
		{name: "empty cluster", file: "b.conf", text: "brokerClusterName=", err: []string{"brokerClusterName: the name is empty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := LoadConfig(machine(ConfigInput{File: c.file, Data: []byte(c.text)}))
			var typed *ConfigError
			if !errors.As(err, &typed) {
				t.Fatalf("error %v is no *ConfigError", err)
			}
			for _, part := range c.err {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not hold %q", err, part)
				}
			}
		})
	}
}

func TestPrecedenceAndOrigin(t *testing.T) {
	in := ConfigInput{
		File: "b.conf", Data: []byte("brokerName=file\nregionId=file\nslaveReadEnable=true\nlistenPort=1000\nnamesrvAddr=f:1"),
		Env:   []string{"MQCTL_BROKER_REGION_ID=env", "MQCTL_BROKER_LISTEN_PORT=2000", "MQCTL_BROKER_BROKER_PERMISSION=4", "NAMESRV_ADDR=e:1", "MQCTL_BROKER_TRACE_ON=", "PATH=x"},
		Set:   []string{"listenPort=3000", "brokerPermission=2"},
		Flags: map[string]string{"brokerPermission": "6"},
	}
	c := mustLoad(t, in)
	for key, want := range map[string][2]string{
		"brokerName":        {"file", "file b.conf:1"},
		"regionId":          {"env", "env MQCTL_BROKER_REGION_ID"},
		"slaveReadEnable":   {"true", "file b.conf:3"},
		"listenPort":        {"3000", "set --set"},
		"brokerPermission":  {"6", "flag"},
		"namesrvAddr":       {"f:1", "file b.conf:5"},
		"brokerClusterName": {"DefaultCluster", "default"},
		"traceOn":           {"true", "default"},
	} {
		if got := [2]string{c.Value(key), c.Origin(key).String()}; got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	changed := 0
	for _, s := range c.Effective() {
		if s.Changed() {
			changed++
		}
	}
	if changed != 5 {
		t.Errorf("%d keys changed, want 5", changed)
	}
}

func TestNothingConfigured(t *testing.T) {
	c := mustLoad(t, ConfigInput{})
	o, err := c.Options()
	if err != nil {
		t.Fatal(err)
	}
	if o.ListenAddr != "127.0.0.1:10911" || o.Advertise != "127.0.0.1" || o.HAAddr != "127.0.0.1:10912" || o.Name != "host-1" || o.Namesrvs != nil {
		t.Errorf("options %+v", o)
	}
	if addr, on := c.EmbeddedNameserver(); !on || addr != "127.0.0.1:9876" {
		t.Errorf("embedded nameserver %s %v", addr, on)
	}
	if addr, asked := c.HTTPListen(); addr != "127.0.0.1:10980" || asked {
		t.Errorf("http %s %v", addr, asked)
	}
	if o.OffsetsEvery != 5*time.Second || o.Store.CommitLogBytes != 1<<30 || o.Store.Dir != "/home/op/.local/share/mqctl/host-1-0" {
		t.Errorf("options %+v", o)
	}
	c = mustLoad(t, ConfigInput{Env: []string{"NAMESRV_ADDR=10.0.0.9:9876,10.0.0.8:9876"}})
	if o, _ := c.Options(); o.ListenAddr != "0.0.0.0:10911" || !slices.Equal(o.Namesrvs, []string{"10.0.0.9:9876", "10.0.0.8:9876"}) {
		t.Errorf("with NAMESRV_ADDR: %+v", o)
	}
	if _, on := c.EmbeddedNameserver(); on {
		t.Error("a nameserver is named, so none is embedded")
	}
}

func TestBadFlagsAndEnvironment(t *testing.T) {
	for _, c := range []struct {
		in   ConfigInput
		want string
	}{
		{ConfigInput{Set: []string{"listenPort"}}, "--set listenPort: there is no value"},
		{ConfigInput{Set: []string{"listnPort=1"}}, "set --set: listnPort: there is no such key; did you mean listenPort?"},
		{ConfigInput{Env: []string{"MQCTL_BROKER_LISTN_PORT=1"}}, "MQCTL_BROKER_LISTN_PORT: there is no such key; did you mean MQCTL_BROKER_LISTEN_PORT?"},
		{ConfigInput{Env: []string{"MQCTL_BROKER_LISTEN_PORT=x"}}, "env MQCTL_BROKER_LISTEN_PORT: listenPort: \"x\" is no whole number"},
		{ConfigInput{Flags: map[string]string{"nope": "1"}}, "nope: there is no such key"},
	} {
		if _, err := LoadConfig(machine(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.in, err, c.want)
		}
	}
	in := machine(ConfigInput{})
	in.HostName, in.HomeDir = "ho st", ""
	if _, err := LoadConfig(in); err == nil || !strings.Contains(err.Error(), "brokerName") || !strings.Contains(err.Error(), "storePathRootDir") {
		t.Errorf("no host name and no home: %v", err)
	}
}

func TestEdit(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func([]byte, map[string]string) ([]byte, error)
		in     string
		values map[string]string
		want   string
		err    string
	}{
		{"replace", editProperties, "# a\nbrokerName = x\n\nslaveReadEnable=false\n", map[string]string{"slaveReadEnable": "true"}, "# a\nbrokerName = x\n\nslaveReadEnable=true\n", ""},
		{"add", editProperties, "brokerName=x", map[string]string{"slaveReadEnable": "true", "regionId": "r"}, "brokerName=x\nregionId=r\nslaveReadEnable=true\n", ""},
		{"empty", editProperties, "", map[string]string{"regionId": " é\\😀"}, "regionId=\\ \\u00E9\\\\\\uD83D\\uDE00\n", ""},
		{"last wins", editProperties, "regionId=a\nregionId=b\n", map[string]string{"regionId": "c"}, "regionId=a\nregionId=c\n", ""},
		{"continued", editProperties, "regionId=a\\\n  b\nbrokerName=x\n", map[string]string{"regionId": "c"}, "regionId=c\nbrokerName=x\n", ""},
		{"crlf", editProperties, "regionId=a\r\nbrokerName=x\r\n", map[string]string{"regionId": "c"}, "regionId=c\r\nbrokerName=x\r\n", ""},
		{"latin 1 stays", editProperties, "# \xe9\nregionId=\xe9\n", map[string]string{"brokerPermission": "4"}, "# \xe9\nregionId=\xe9\nbrokerPermission=4\n", ""},
		{"old spelling", editProperties, "mapedFileSizeCommitLog=4096\n", map[string]string{"mappedFileSizeCommitLog": "8192"}, "mapedFileSizeCommitLog=8192\n", ""},

		{"toml replace", editTOML, "[read]\n  slaveReadEnable = false   # why\n", map[string]string{"slaveReadEnable": "true"}, "[read]\n  slaveReadEnable = true   # why\n", ""},
		{"toml text", editTOML, "regionId = \"a # b\" # c\n", map[string]string{"regionId": "x\"y"}, "regionId = \"x\\\"y\" # c\n", ""},
		{"toml in section", editTOML, "[broker]\nbrokerName = \"x\"\n[read]\n", map[string]string{"slaveReadEnable": "true"}, "[broker]\nbrokerName = \"x\"\n[read]\nslaveReadEnable = true\n", ""},
		{"toml on top", editTOML, "# head\n\n# of broker\n[broker]\nbrokerName = \"x\"\n", map[string]string{"slaveReadEnable": "true"}, "# head\n\nslaveReadEnable = true\n# of broker\n[broker]\nbrokerName = \"x\"\n", ""},
		{"toml prefixed", editTOML, "brokerName = \"x\"\n", map[string]string{"http.listen": "off"}, "brokerName = \"x\"\n\n[http]\nlisten = \"off\"\n", ""},
		{"toml prefixed there", editTOML, "[http]\nlisten = \"127.0.0.1:1\"\n", map[string]string{"http.listen": "off"}, "[http]\nlisten = \"off\"\n", ""},
		{"toml multi-line text", editTOML, "regionId = \"\"\"\na\nb\"\"\"\n", map[string]string{"regionId": "c"}, "", "break the file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := c.edit([]byte(c.in), c.values)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || string(out) != c.want {
				t.Errorf("got %q (%v)\nwant %q", out, err, c.want)
			}
		})
	}
}

// FuzzProperties: any text parses or is refused; what is written is read back.
func FuzzProperties(f *testing.F) {
	for _, s := range []string{"a=1\nb : 2\\\n 3\n", "\\u00e9=\\uD83D\\uDE00", "a\\", "\\", "=\n:\n", "a=1\r\n!x\r", "regionId=a\\\n\nlistenPort=1"} {
		f.Add([]byte(s), "v")
	}
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		text := configText(data)
		entries, err := parseProperties(text)
		if err != nil {
			return
		}
		lines := len(naturalLines(text))
		for _, e := range entries {
			if e.line < 1 || e.lastLine < e.line || e.lastLine > lines {
				t.Fatalf("%q: lines %d to %d of %d", e.key, e.line, e.lastLine, lines)
			}
		}
		v, err := LookupKey("regionId").parseValue(value)
		if err != nil {
			return
		}
		out, err := editProperties(data, map[string]string{"regionId": v})
		if err != nil {
			t.Fatalf("cannot edit %q: %v", data, err)
		}
		again, err := parseProperties(configText(out))
		if err != nil || len(again) == 0 {
			t.Fatalf("edited to %q: %v", out, err)
		}
		found := false
		for _, e := range again {
			found = found || e.key == "regionId" && e.value == v
		}
		if !found {
			t.Fatalf("%q is not in %q", v, out)
		}
	})
}

// FuzzLoadConfig: no file makes the loader panic; what it takes gives Options.
func FuzzLoadConfig(f *testing.F) {
	for _, s := range []string{"brokerName=a", "[store]\nmaxMessageSize = \"1MiB\"\n", "a.b.c = 1", "[http]\nlisten=\"off\"", "[[x]]\ny=1", "brokerName={a=1}", "regionId='''\nx'''"} {
		f.Add("b.toml", []byte(s))
		f.Add("b.conf", []byte(s))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if name == "" {
			name = "x"
		}
		c, err := LoadConfig(machine(ConfigInput{File: name, Data: data}))
		if err != nil {
			var typed *ConfigError
			if !errors.As(err, &typed) || err.Error() == "" {
				t.Fatalf("error %#v", err)
			}
			return
		}
		if _, err := c.Options(); err != nil {
			t.Fatal(err)
		}
	})
}

// Roles from a file: what a broker started from it would be, and what sends wait for.
func TestRoleConfig(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		role       Role
		id         int64
		copies     int
		warning    string
	}{
		{"nothing", "", AsyncMaster, 0, 1, ""},
		{"sync master", "brokerRole=SYNC_MASTER", SyncMaster, 0, 2, "sends wait for 2 copies"},
		{"sync master, unset", "brokerRole=SYNC_MASTER\ninSyncReplicas=0", SyncMaster, 0, 2, "sends wait for 2 copies"},
		{"sync master as RocketMQ's", "brokerRole=SYNC_MASTER\ninSyncReplicas=1", SyncMaster, 0, 1, ""},
		{"three copies", "brokerRole=SYNC_MASTER\ninSyncReplicas=3", SyncMaster, 0, 3, ""},
		{"slave", "brokerRole=SLAVE\nbrokerId=2\nnamesrvAddr=10.0.0.1:9876", Slave, 2, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := LoadConfig(ConfigInput{File: "b.conf", Data: []byte(tt.text), HostName: "h", HomeDir: "/home/x", FS: vfs.NewMem()})
			if err != nil {
				t.Fatal(err)
			}
			o, err := c.Options()
			if err != nil {
				t.Fatal(err)
			}
			if o.Role != tt.role || o.ID != tt.id || o.Reloadable.HA.InSyncReplicas != tt.copies {
				t.Errorf("role %s id %d, %d copies", o.Role, o.ID, o.Reloadable.HA.InSyncReplicas)
			}
			if all := strings.Join(c.Warnings(), "\n"); strings.Contains(all, "sends wait for") != (tt.warning != "") || !strings.Contains(all, tt.warning) {
				t.Errorf("warnings %q", all)
			}
		})
	}
}
