package broker

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// recordedFrame is one frame of a recording of RocketMQ 5.3.3.
type recordedFrame struct {
	From, Via string
	Conn      int
	Frame     []byte
	Header    struct {
		Code, Flag int
		Opaque     int32
		Remark     string
		ExtFields  map[string]string
	}
	Body []byte
}

// recording reads testdata/wire/NAME.jsonl.
func recording(t testing.TB, name string) []recordedFrame {
	t.Helper()
	data, err := os.ReadFile("../testdata/wire/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out []recordedFrame
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var raw struct {
			From, Via string
			Conn      int
			Frame     string
			Header    json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &raw); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f := recordedFrame{From: raw.From, Via: raw.Via, Conn: raw.Conn}
		if err := json.Unmarshal(raw.Header, &f.Header); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f.Frame, err = base64.StdEncoding.DecodeString(raw.Frame); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.Body = f.Frame[8+binary.BigEndian.Uint32(f.Frame[4:])&0xFFFFFF:]
		out = append(out, f)
	}
	return out
}

// recordedConfig is the answer to GET_BROKER_CONFIG of RocketMQ 5.3.3.
func recordedConfig(t testing.TB) []entry {
	for _, f := range recording(t, "admin-getBrokerConfig") {
		if f.From == "server" && bytes.Contains(f.Body, []byte("\nbrokerRole=")) {
			entries, err := parseProperties(configText(f.Body))
			if err != nil {
				t.Fatal(err)
			}
			return entries
		}
	}
	t.Fatal("no configuration in the recording")
	return nil
}

// notDefault are the keys that the recorded broker was given, or that depend on
// its machine.
var notDefault = map[string]string{
	"bindAddress": "127.0.0.1", "brokerClusterName": "GoldenCluster", "brokerIP1": "127.0.0.2", "brokerIP2": "127.0.0.2",
	"brokerName": "golden-a", "enablePropertyFilter": "true", "haListenPort": "31912", "listenPort": "31911",
	"mappedFileSizeCommitLog": "1048576", "maxMessageSize": "16384", "namesrvAddr": "127.0.0.2:32876", "rocketmqHome": "home",
	"storePathRootDir": "store", "transactionCheckInterval": "3000", "transactionTimeOut": "4000", "waitTimeMillsInSendQueue": "5000",
	"enableSlaveActingMaster":     "false", // ours is true: without it nobody can lock or commit while the master is away
	"bitMapLengthConsumeQueueExt": "112",   // RocketMQ computes it when property filters are on
}

func TestEveryRecordedKeyIsKnownWithItsDefault(t *testing.T) {
	entries := recordedConfig(t)
	if len(entries) != 410 {
		t.Fatalf("the recording has %d keys, want 410", len(entries))
	}
	c := mustLoad(t, ConfigInput{CPUs: 2})
	for _, e := range entries {
		k := LookupKey(e.key)
		if k == nil {
			t.Errorf("%s is unknown", e.key)
			continue
		}
		if want, ok := notDefault[e.key]; ok {
			if e.value != want {
				t.Errorf("%s: recorded %q, the table of exceptions says %q", e.key, e.value, want)
			}
		} else if got := c.Value(e.key); got != e.value {
			t.Errorf("%s: default %q, RocketMQ has %q", e.key, got, e.value)
		}
		if v, err := k.parseValue(e.value); err != nil || v != e.value {
			t.Errorf("%s: RocketMQ's own value %q is kept as %q (%v)", e.key, e.value, v, err)
		}
	}
}

func TestRegistryIsSound(t *testing.T) {
	seen := map[string]string{}
	for _, k := range KnownKeys() {
		if k.Text == "" || k.Section == "" {
			t.Errorf("%s has no text or section", k.Name)
		}
		if k.Section != "" && !isSection(k.Section) {
			t.Errorf("%s is in section %q, which is not in the list", k.Name, k.Section)
		}
		if k.Default != "" {
			if v, err := k.Check(k.Default); err != nil || v != k.Default {
				t.Errorf("%s: the default %q is kept as %q (%v)", k.Name, k.Default, v, err)
			}
		} else if k.Kind != Text && !k.Computed {
			t.Errorf("%s has no default", k.Name)
		}
		env := EnvName(k.Name)
		if other := seen[env]; other != "" {
			t.Errorf("%s and %s share the variable %s", k.Name, other, env)
		}
		seen[env] = k.Name
		if got := keyOfEnv(strings.TrimPrefix(env, envPrefix)); got != k.Name {
			t.Errorf("%s means %q, want %s", env, got, k.Name)
		}
	}
	if len(seen) < 410 {
		t.Errorf("only %d keys", len(seen))
	}
}

func TestNearestKey(t *testing.T) {
	for name, want := range map[string]string{
		"brokerIp1":            "brokerIP1",
		"flushDiskTyp":         "flushDiskType",
		"slaveReadEnabled":     "slaveReadEnable",
		"lsitenPort":           "listenPort",
		"BROKERNAME":           "brokerName",
		"autoCreateTopicEnabl": "autoCreateTopicEnable",
		"somethingQuiteElse":   "",
		"":                     "",
		"q":                    "",
	} {
		if got := NearestKey(name); got != want {
			t.Errorf("NearestKey(%q) = %q, want %q", name, got, want)
		}
	}
	if got := NearestKey(strings.Repeat("a", 1<<20)); got != "" {
		t.Errorf("a very long name is like %q", got)
	}
}

func TestEnvName(t *testing.T) {
	for key, want := range map[string]string{
		"flushDiskType":              "MQCTL_BROKER_FLUSH_DISK_TYPE",
		"brokerName":                 "MQCTL_BROKER_BROKER_NAME",
		"brokerIP1":                  "MQCTL_BROKER_BROKER_IP1",
		"http.listen":                "MQCTL_BROKER_HTTP_LISTEN",
		"nameserver.embedded.enable": "MQCTL_BROKER_NAMESERVER_EMBEDDED_ENABLE",
	} {
		if got := EnvName(key); got != want {
			t.Errorf("EnvName(%s) = %s, want %s", key, got, want)
		}
	}
}
