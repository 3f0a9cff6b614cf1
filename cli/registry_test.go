package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestRegistry walks over the table: what a command must have, it has.
func TestRegistry(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands().commands {
		name := c.name(c.path == "")
		for _, id := range []string{c.path, strings.ToLower(c.old)} {
			if id == "" {
				continue
			}
			if seen[id] {
				t.Errorf("%s is there twice", id)
			}
			seen[id] = true
		}
		if c.summary == "" {
			t.Errorf("%s has no summary", name)
		}
		if c.run == nil || len(c.examples) == 0 {
			t.Errorf("%s lacks a handler or an example", name)
		}
		if c.view.item != nil && c.schema == "" {
			t.Errorf("%s prints items and has no schema", name)
		}
		if c.schema != "" && c.view.item == nil {
			t.Errorf("%s has a schema and no item", name)
		}
		if c.schema != "" && !c.is(server) && c.view.name == nil {
			t.Errorf("%s has no --output name", name)
		}
		if c.path == "" && c.twin == "" {
			t.Errorf("%s has neither a modern form nor a twin", name)
		}
		if len(exitsOf(c)) == 0 {
			t.Errorf("%s lists no exit codes", name)
		}
		for _, code := range c.exits {
			if exitNames[code] == "" {
				t.Errorf("%s: exit code %d has no name", name, code)
			}
		}
		for _, col := range c.view.columns {
			if !hasField(c.view.item, col.field) {
				t.Errorf("%s: column %s shows the field %q, which no item has", name, col.head, col.field)
			}
		}
		for i := range c.flags {
			if f := &c.flags[i]; !f.absent && f.help == "" {
				t.Errorf("%s: flag %s has no help", name, f.key)
			}
		}
	}
}

// hasField follows a path through zero values: the type says what there is.
func hasField(item any, path string) bool {
	first, rest, nested := strings.Cut(path, ".")
	for _, n := range jsonNames(item) {
		if n != first {
			continue
		}
		if !nested {
			return true
		}
		for _, f := range fieldsOf(item) {
			if f.name == first {
				return hasField(f.value, rest)
			}
		}
	}
	return false
}

// TestReservedLetters: over the whole modern tree a letter has one meaning.
func TestReservedLetters(t *testing.T) {
	meaning := map[string]string{"f": "file"}
	for k, v := range reservedLetters {
		meaning[k] = v
	}
	for _, c := range commands().commands {
		if c.path == "" {
			continue
		}
		for letter, o := range vocabularyOf(c, false).short {
			if c.path == "broker logs" && letter == "f" {
				continue // "follow, for logs"
			}
			if want, ok := meaning[letter]; ok && o.flag.key != want {
				t.Errorf("%s gives -%s the meaning %s, it is %s", c.path, letter, o.flag.key, want)
			}
			meaning[letter] = o.flag.key
		}
	}
}

// TestExamplesAreUnderstood: the examples of help pages pass the front door.
func TestExamplesAreUnderstood(t *testing.T) {
	for _, c := range commands().commands {
		for _, e := range c.examples {
			line, _, _ := strings.Cut(e, " | ")
			if _, after, ok := strings.Cut(e, "| mqctl"); ok {
				line = "mqctl" + after
			}
			at := strings.Index(line, "mqctl ")
			if at < 0 {
				t.Errorf("%s: the example %q runs no mqctl", c.name(c.path == ""), e)
				continue
			}
			words, err := splitWords(line[at:])
			if err != nil { // what stands before a | inside quotes
				words = strings.Fields(line[at:])
			}
			for i, w := range words {
				if w == ">" {
					words = words[:i]
					break
				}
				words[i] = strings.TrimSuffix(w, ")")
			}
			l, err := commands().normalise("mqctl", words[1:])
			if err != nil || l.cmd != c {
				t.Errorf("example %q: %v", e, err)
			}
		}
	}
}

// closedLines has one command line for each command that talks to a cluster.
var closedLines = map[string]string{
	"broker status":     "broker status",
	"broker list":       "broker list",
	"broker config get": "broker config get slaveReadEnable",
	"broker config set": "broker config set slaveReadEnable=true",
	"nameserver status": "nameserver status",
	"cluster list":      "cluster list",
	"group list":        "group list",
	"group get":         "group get g",
	"group set":         "group set g --slow-broker 1",
	"group create":      "group create g",
	"group delete":      "group delete g --yes",
	"group lag":         "group lag g",
	"topic list":        "topic list",
	"topic get":         "topic get t",
	"topic set":         "topic set t --perm r",
	"topic create":      "topic create t",
	"topic delete":      "topic delete t --yes",
	"topic route":       "topic route t",
	"topic status":      "topic status t",
	"offset list":       "offset list g",
	"top":               "top --once",
	"client list":       "client list",
	"message send":      "message send t --body x",
	"message get":       "message get 7F0000010000000100000000000000AA",
	"message find":      "message find --topic t --key k",
	"message tail":      "message tail t",
	"stats offsets":     "stats offsets",
	"stats lag":         "stats lag",
	"stats traffic":     "stats traffic",
	"stats pull":        "stats pull",
	"stats ha":          "stats ha",
	"ha status":         "ha status --max-gap 0",
	"check ha":          "check ha",
	"bench send":        "bench send --topic t --yes",
	"bench rtt":         "bench rtt --topic t --yes",
	"bench consume":     "bench consume --topic t",
	"sendMsgStatus":     "sendMsgStatus -b b",
	"checkMsgSendRT":    "checkMsgSendRT -t t",
	"clusterRT":         "clusterRT -c C",
	"cluster health":    "cluster health",
	"stats latency":     "stats latency",
	"broker logs":       "broker logs",
	"events":            "events",

	"cluster route-check": "cluster route-check",
	"check broker":        "check broker",
	"check lag":           "check lag",
	"check disk":          "check disk",
	"check drift":         "check drift",
	"check all":           "check all",
	"startMonitoring":     "startMonitoring",
	"wait lag":            "wait lag --group g --for 2s",
	"wait topic":          "wait topic t --routed --for 2s",
	"wait group":          "wait group g --gone --for 2s",
	"wait ha":             "wait ha --for 2s",
	"wait role":           "wait role b/1 --is SLAVE --for 2s",
	"wait broker":         "wait broker b/1 --ready --for 2s",
	"broker drain":        "broker drain b",
	"ha promote":          "ha promote b --id 1",
	"ha demote":           "ha demote b",
	"broker undrain":      "broker undrain b",

	"ha reset-flush-offset":  "ha reset-flush-offset --broker b/1 --offset 0 --yes",
	"haStatus":               "haStatus -c C",
	"wipeWritePerm":          "wipeWritePerm -b b",
	"addWritePerm":           "addWritePerm -b b",
	"resetMasterFlushOffset": "resetMasterFlushOffset -b 127.0.0.1:1 -o 0",

	"updateTopicPerm":    "updateTopicPerm -c C -t t -p 6",
	"consumerConnection": "consumerConnection -g g",
	"client inspect":     "client inspect g",
	"broker clean cq":    "broker clean cq --yes",
	"cleanExpiredCQ":     "cleanExpiredCQ -c C",
	"cleanUnusedTopic":   "cleanUnusedTopic -c C",

	"broker clean commitlog": "broker clean commitlog --yes",
	"broker clean topics":    "broker clean topics --yes",
	"deleteExpiredCommitLog": "deleteExpiredCommitLog -c C",

	"consumerStatus":    "consumerStatus -g g",
	"consumer":          "consumer -g g",
	"getConsumerStatus": "getConsumerStatus -g g -t t",
	"producer":          "producer -b b",
	"client kick":       "client kick c --yes",
	"message resend":    "message resend 7F0000010000000100000000000000AA --yes",
	"message trace":     "message trace 7F0000010000000100000000000000AA",
	"queryMsgTraceById": "queryMsgTraceById -i 7F0000010000000100000000000000AA",

	"queryMsgByUniqueKey": "queryMsgByUniqueKey -t t -i 7F0000010000000100000000000000AA",
	"queryMsgByOffset":    "queryMsgByOffset -t t -b b -i 0 -o 1",
	"printMsg":            "printMsg -t t",
	"printMsgByQueue":     "printMsgByQueue -t t -a b -i 0",
	"consumeMessage":      "consumeMessage -t t",
	"producerConnection":  "producerConnection -g g -t t",
	"updateSubGroup":      "updateSubGroup -c C -g g -w 1",
	"deleteSubGroup":      "deleteSubGroup -c C -g g",
	"updateTopic":         "updateTopic -c C -t t",
	"deleteTopic":         "deleteTopic -c C -t t",
	"topicList":           "topicList",
	"topicRoute":          "topicRoute -t t",
	"topicStatus":         "topicStatus -t t",
	"clusterList":         "clusterList",
	"brokerStatus":        "brokerStatus -c C",
	"consumerProgress":    "consumerProgress",
	"getBrokerConfig":     "getBrokerConfig -c C",
	"updateBrokerConfig":  "updateBrokerConfig -c C -k slaveReadEnable -v true",
	"getConsumerConfig":   "getConsumerConfig -g g",
	"sendMessage":         "sendMessage -t t -p x",
	"queryMsgById":        "queryMsgById -t t -i 7F0000010000000100000000000000AA",
	"queryMsgByKey":       "queryMsgByKey -t t -k k",
	"statsAll":            "statsAll",
}

// TestClosedPort: with nobody there, every command ends with 4 within its time,
// writes nothing to stdout but a valid envelope, and says what is wrong.
func TestClosedPort(t *testing.T) {
	for _, c := range commands().commands {
		if c.is(local) || c.path == "undo" { // undo reads the audit file first
			continue
		}
		for _, old := range []bool{false, true} {
			name := c.name(old)
			if name == "" || old && c.old == "" || !old && c.path == "" {
				continue
			}
			if line := lineFor(c, old); line == nil {
				t.Errorf("no example of %s can be tried", name)
			} else {
				closedPort(t, line)
			}
		}
	}
}

func closedPort(t *testing.T, words []string) {
	t.Helper()
	line := strings.Join(words, " ")
	for _, format := range []string{"", "json"} {
		args := append([]string{"mqctl", "-n", "127.0.0.1:1"}, words...)
		if format != "" {
			args = append(args, "--output", format)
		}
		begin := time.Now()
		code, out, errs := runLine(args...)
		if code != ExitUnreachable {
			t.Errorf("%s: exit %d, want %d\n%s%s", line, code, ExitUnreachable, out, errs)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("%s took %s", line, took)
		}
		if !strings.HasPrefix(errs, "error   ") || !strings.Contains(errs, "connection refused") {
			t.Errorf("%s: stderr is %q", line, errs)
		}
		switch {
		case format == "json":
			var e struct {
				Complete bool
				Errors   []Message
			}
			if err := json.Unmarshal([]byte(out), &e); err != nil || e.Complete || len(e.Errors) == 0 {
				t.Errorf("%s: the envelope does not tell the error: %v\n%s", line, err, out)
			}
		case out != "" && !strings.HasPrefix(line, "nameserver status"):
			t.Errorf("%s wrote to stdout: %q", line, out)
		}
		if strings.ContainsRune(out+errs, '\x1b') {
			t.Errorf("%s: escape sequences in a pipe", line)
		}
	}
}

// runLine runs one command line with pipes around it and an empty environment.
func runLine(args ...string) (code int, stdout, stderr string) {
	return runEnv(map[string]string{}, args...)
}

func runEnv(env map[string]string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(context.Background(), args, Stdio{In: strings.NewReader(""), Out: &out, Err: &errs, Env: func(k string) string {
		if v, ok := env[k]; ok || k != "MQCTL_AUDIT" {
			return v
		}
		return auditOff // tests leave nothing behind
	}})
	return code, out.String(), errs.String()
}

func TestHelp(t *testing.T) {
	for _, c := range commands().commands {
		for _, old := range []bool{false, true} {
			name := c.name(old)
			if name == "" || old && c.old == "" || !old && c.path == "" {
				continue
			}
			for _, args := range [][]string{append(strings.Fields(name), "--help"), append([]string{"help"}, strings.Fields(name)...)} {
				code, out, errs := runLine(append([]string{"mqctl"}, args...)...)
				if code != ExitOK || errs != "" || !strings.HasPrefix(out, name+": ") {
					t.Errorf("%q: exit %d, %q, %q", args, code, out, errs)
				}
			}
		}
	}
	for _, args := range []string{"help", "--help", "-h", "help mqadmin", "help group", "group --help", "ns -h"} {
		if code, out, errs := runLine(append([]string{"mqctl"}, strings.Fields(args)...)...); code != ExitOK || out == "" || errs != "" {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
	}
	for _, args := range []string{"", "group", "broker config"} {
		if code, out, errs := runLine(append([]string{"mqctl"}, strings.Fields(args)...)...); code != ExitUsage || out != "" || errs == "" {
			t.Errorf("%q: exit %d, %q, %q", args, code, out, errs)
		}
	}
}

// TestExitPrecedence: the first failure that applies, or 6 when something worked.
func TestExitPrecedence(t *testing.T) {
	m := func(codes ...int) (out []Message) {
		for _, c := range codes {
			out = append(out, Message{ExitCode: c})
		}
		return out
	}
	cases := []struct {
		failures []Message
		done     bool
		want     int
	}{
		{nil, false, 0}, {nil, true, 0}, {m(4), true, 6}, {m(4), false, 4}, {m(1, 3, 8, 5, 4), false, 4},
		{m(1, 3, 8, 5), false, 5}, {m(1, 3, 8), false, 8}, {m(1, 3), false, 3}, {m(1, 2, 11), false, 2}, {m(11, 4), false, 11},
	}
	for _, c := range cases {
		if got := exitOf(c.failures, c.done); got != c.want {
			t.Errorf("%v, done %t: %d, want %d", c.failures, c.done, got, c.want)
		}
	}
}

func TestCompatExit0(t *testing.T) {
	code, _, errs := runEnv(map[string]string{"MQCTL_COMPAT": "exit0"}, "mqctl", "-n", "127.0.0.1:1", "clusterList")
	if code != ExitOK || !strings.Contains(errs, "EXIT_HIDDEN") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestBadEnvironment(t *testing.T) {
	code, out, errs := runEnv(map[string]string{"MQCTL_TIMEOUT": "soon"}, "mqctl", "cluster", "list")
	if code != ExitUsage || out != "" || !strings.Contains(errs, `MQCTL_TIMEOUT: "soon" is not a duration`) {
		t.Errorf("exit %d, %q", code, errs)
	}
	code, _, errs = runEnv(map[string]string{"NAMESRV_ADDR": "127.0.0.1:1;127.0.0.1:2"}, "mqctl", "clusterList")
	if code != ExitUnreachable || !strings.Contains(errs, "127.0.0.1:1 connection refused, 127.0.0.1:2 connection refused") || strings.Contains(errs, "default address") {
		t.Errorf("exit %d, %q", code, errs)
	}
}
