package cli

import (
	"strings"
	"testing"
	"time"
)

func TestParseOffsetTarget(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	local := func(s string) int64 {
		at, err := time.ParseInLocation("2006-01-02T15:04:05.000", s, time.Local)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixMilli()
	}
	cases := []struct {
		to, queues string
		want       offsetTarget
		fails      bool
	}{
		{to: "earliest", want: offsetTarget{earliest: true}},
		{to: "LATEST", want: offsetTarget{latest: true}},
		{to: "now", want: offsetTarget{latest: true}},
		{to: "-1", want: offsetTarget{latest: true}},
		{to: "-2h", want: offsetTarget{millis: now.Add(-2 * time.Hour).UnixMilli()}},
		{to: "-7d", want: offsetTarget{millis: now.Add(-7 * 24 * time.Hour).UnixMilli()}},
		{to: "1700000000000", want: offsetTarget{millis: 1700000000000}},
		{to: "2026-11-29T10:00:00Z", want: offsetTarget{millis: now.Add(-2 * time.Hour).UnixMilli()}},
		{to: "2026-11-29T10:00", want: offsetTarget{millis: local("2026-11-29T10:00:00.000")}},
		{to: "2026-11-29#10:00:00:123", want: offsetTarget{millis: local("2026-11-29T10:00:00.123")}},
		{to: "2026-11-29#10:00:00", want: offsetTarget{millis: local("2026-11-29T10:00:00.000")}},
		{queues: "broker-a:3=7 b:0=0", want: offsetTarget{queues: map[string]int64{"broker-a:3": 7, "b:0": 0}}},
		{queues: "127.0.0.1:10911:3=7", want: offsetTarget{queues: map[string]int64{"127.0.0.1:10911:3": 7}}},
		{to: "yesterday", fails: true},
		{to: "2026-13-29#10:00:00:000", fails: true},
		{to: "", fails: true},
		{to: "latest", queues: "a:0=1", fails: true},
		{queues: "a=1", fails: true},
		{queues: "a:x=1", fails: true},
		{queues: "a:0=-1", fails: true},
		{queues: "a:00=1", fails: true},
		{queues: "a:0=1 a:0=2", fails: true},
		{queues: ":0=1", fails: true},
	}
	for _, x := range cases {
		cmd := commands().byPath["offset reset"]
		c := &call{cmd: cmd, vocab: vocabularyOf(cmd, false), begun: now, io: Stdio{Env: func(string) string { return "" }}, values: map[string][]string{}}
		if x.to != "" {
			c.values["to"] = []string{x.to}
		}
		if x.queues != "" {
			c.values["to-offset"] = strings.Fields(x.queues)
		}
		got, err := parseOffsetTarget(c)
		if (err != nil) != x.fails {
			t.Errorf("%q %q: %v", x.to, x.queues, err)
			continue
		}
		if err != nil {
			if asMessage(err).ExitCode != ExitUsage {
				t.Errorf("%q %q: exit %d", x.to, x.queues, asMessage(err).ExitCode)
			}
			continue
		}
		if got.earliest != x.want.earliest || got.latest != x.want.latest || got.millis != x.want.millis || !sameJSON(got.queues, x.want.queues) {
			t.Errorf("%q %q: %+v, want %+v", x.to, x.queues, got, x.want)
		}
	}
}

// TestResetOnline: while a client is online its broker is told, and every queue
// is read back; --offline stores the offsets.
func TestResetOnline(t *testing.T) {
	ready := startHere(t)
	run := func(want int, line string, parts ...string) {
		t.Helper()
		code, out, errs := runLine(append([]string{"mqctl", "-n", ready.Namesrv[0]}, strings.Fields(line)...)...)
		if code != want {
			t.Fatalf("%q: exit %d, want %d\n%s%s", line, code, want, out, errs)
		}
		for _, p := range parts {
			if !strings.Contains(out+errs, p) {
				t.Errorf("%s: %q is not in\n%s%s", line, p, out, errs)
			}
		}
		if strings.HasSuffix(line, "json") {
			if err := valid([]byte(out)); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	run(0, "topic create orders --write-queues 2 --read-queues 2")
	run(0, "group create readers")
	run(0, "message send orders --body x --count 10")
	join(t, ready.Addr, "readers", "CLUSTERING", "10.0.1.21@7")
	run(0, "offset reset readers --topic orders --to-offset broker-a:0=1 --offline --yes", "STORED", "MEMBERS_ONLINE")
	run(0, "offset reset readers --topic orders --to latest --yes -o json", `"method": "ONLINE"`, `"verified": true`, `"applied": true`)
	run(0, "offset list readers -o csv --no-headers --fields queueId,consumerOffset", "0,5\n", "1,5\n")
	run(0, "offset reset readers --topic orders --to earliest --yes -o json", `"method": "ONLINE"`, `"delta": -5`, `"readAgain": 10`)
	run(0, "offset reset readers --topic orders --to-offset broker-a:0=4 --yes -o json", `"after": 4`, `"method": "ONLINE"`)
	run(0, "offset list readers -o csv --no-headers --fields queueId,consumerOffset", "0,4\n", "1,0\n")
	run(0, "resetOffsetByTime -g readers -t orders -s 0 -f false", "force[false], timestamp(string)[0], timestamp(long)[0]\n#brokerName ")
	run(0, "resetOffsetByTime -g readers -t orders -s 0", "start reset consumer offset by specified, group[readers], topic[orders], force[true], timestamp(string)[0], timestamp(long)[0]\n#brokerName ", "broker-a                                  0                                         0 ")
}
