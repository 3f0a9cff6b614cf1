package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hint is a line and what its error says and does not say.
type hint struct {
	line string
	code int
	has  []string
	not  []string
}

func checkHints(t *testing.T, hints []hint) {
	t.Helper()
	for _, h := range hints {
		code, out, errs := runEnv(map[string]string{"MQCTL_NAMESRV": "127.0.0.1:1"}, append([]string{"mqctl"}, strings.Fields(h.line)...)...)
		if code != h.code {
			t.Errorf("%s: exit %d, want %d\n%s%s", h.line, code, h.code, out, errs)
		}
		for _, w := range h.has {
			if !strings.Contains(errs, w) {
				t.Errorf("%s does not say %q:\n%s", h.line, w, errs)
			}
		}
		for _, w := range h.not {
			if strings.Contains(errs, w) {
				t.Errorf("%s says %q:\n%s", h.line, w, errs)
			}
		}
	}
}

// A message never sends somebody with a secret to a place where it is refused or seen.
func TestHintsAboutSecrets(t *testing.T) {
	checkHints(t, []hint{
		{"broker start --set http.token=x", ExitUsage, []string{"SECRET_VISIBLE", "try     --set http.tokenFile=PATH", "nothing was started"}, []string{"MQCTL_BROKER_HTTP_TOKEN", "--config"}},
		{"broker config set http.token", ExitUsage, []string{"try     mqctl broker config set http.tokenFile=PATH"}, []string{"=VALUE\n"}},
		{"broker config set initAuthenticationUser", ExitUsage, []string{"initAuthenticationUser=env:NAME", "initAuthenticationUser=file:PATH"}, []string{"=VALUE\n"}},
		{"broker config set brokerPermission", ExitUsage, []string{"try     mqctl broker config set brokerPermission=VALUE"}, nil},
	})
}

// A broker's word about a secret that it never takes names what to set instead.
func TestHintOfShutSecret(t *testing.T) {
	f := newFakeCluster(t)
	ours(f)
	code, out, errs := runEnv(map[string]string{"MQCTL_NAMESRV": f.ns.addr}, "mqctl", "broker", "config", "set", "http.token=planted", "--broker", "a/0")
	text := out + errs
	if code != ExitUsage || !strings.Contains(text, "try     mqctl broker config set http.tokenFile=PATH") || strings.Contains(text, "this file") || strings.Contains(text, "planted") {
		t.Errorf("exit %d: %s", code, text)
	}
}

// A nameserver is stopped by every name of where it listens.
func TestListensAt(t *testing.T) {
	for _, c := range []struct {
		addr string
		yes  string
		no   string
	}{
		{"[::]:23976", "[::]:23976 0.0.0.0:23976 :23976 127.0.0.1:23976 [::1]:23976 localhost:23976", "0.0.0.0:23977 10.1.2.3:23976 23976 [::] x"},
		{"0.0.0.0:9876", "[::]:9876 0.0.0.0:9876 :9876 127.0.0.1:9876 localhost:9876", "127.0.0.1:9877"},
		{"127.0.0.1:9876", "127.0.0.1:9876 localhost:9876", "0.0.0.0:9876 :9876 127.0.0.2:9876"},
	} {
		for _, name := range strings.Fields(c.yes) {
			if !listensAt(c.addr, name) {
				t.Errorf("%s is not %s", name, c.addr)
			}
		}
		for _, name := range strings.Fields(c.no) {
			if listensAt(c.addr, name) {
				t.Errorf("%s is %s", name, c.addr)
			}
		}
	}
}

// An export of a topic that a folder does not know leaves no file and names the nearest.
func TestExportOfUnknownTopic(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"commitlog/.keep": "", "config/topics.json": `{"topicConfigTable":{"orders":{"topicName":"orders"}}}`} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".keep") {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	to := t.TempDir()
	file := filepath.Join(to, "no.mq")
	checkHints(t, []hint{
		{"store export " + dir + " --topic order --file " + file, ExitNotFound, []string{"TOPIC_NOT_FOUND", "try     orders"}, nil},
		{"store export " + dir + " --topic zzzzzzzz --file -", ExitNotFound, []string{"TOPIC_NOT_FOUND", "try     mqctl store offsets"}, nil},
		{"store offsets " + dir + " --topic order", ExitNotFound, []string{"TOPIC_NOT_FOUND", "try     orders"}, nil},
	})
	if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	checkHints(t, []hint{{"store export " + dir + " --topic orders --file " + file, ExitOK, nil, nil}})
}

// Errors in --fail-if speak of --fail-if and of fields that there are.
func TestHintsOfFailIf(t *testing.T) {
	checkHints(t, []hint{
		{"top --once --fail-if foo>1", ExitUsage, []string{`--fail-if: there is no field "foo"`, "a broker has broker, ", "a group has ", "a topic has ", "a slave has ", "a pull has "}, []string{"--filter"}},
		{"top --once --fail-if lag>1&&fooo>2", ExitUsage, []string{`--fail-if: there is no field "fooo"`, "there are: group, "}, []string{"--filter"}},
		{"top --once --fail-if gapBytes>", ExitUsage, []string{"--fail-if: gapBytes> needs a value"}, []string{"--filter"}},
		{"top --once --fail-if gapBytes>1)", ExitUsage, []string{"--fail-if: ", "try     --fail-if '"}, []string{"--filter"}},
	})
}

// An input file that is not there is one error with one status everywhere.
func TestInputFileMissing(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	store := t.TempDir()
	if err := os.Mkdir(filepath.Join(store, "commitlog"), 0o750); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"debug analyse ", "shell ", "broker logs --file ", "plan -f ", "offset import --file ", "store import " + store + " --file ", "dumpCompactionLog -f ", "message send t --file ", "user create u --password-file "} {
		checkHints(t, []hint{{line + none, ExitBadConfig, []string{"there is no file " + none, "FILE_NOT_FOUND", "\ntry     ls -l " + filepath.Dir(none)}, nil}})
	}
}

// What is wrong in a JSON file is said with its line, not in the words of a parser alone.
func TestHintsOfJSON(t *testing.T) {
	file := inputs(t)
	checkHints(t, []hint{
		{"offset import --file " + file("a", "{\n\"items\": [}"), ExitBadConfig, []string{"line 2, column 11: no JSON", "try     mqctl offset export"}, []string{"Go value"}},
		{"offset import --file " + file("b", "{\n\n\"items\": [{\"offset\":\"x\"}]}"), ExitBadConfig, []string{"line 3: items.offset is a string, which cannot be there"}, []string{"Go "}},
		{"offset import --file " + file("c", "{}"), ExitBadConfig, []string{"no items with offsets"}, nil},
		{"plan -f " + file("d", "{\n\"topicConfigTable\":{\n]}"), ExitBadConfig, []string{"line 3, column "}, nil},
	})
}

// undo without an id never passes over a newer change that it cannot take back.
func TestUndoPassesOverNothing(t *testing.T) {
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit.jsonl")
	old := `{"at":"2026-11-29T10:00:00.000Z","command":["group","set","g"],"items":[{"target":"a/0","addr":"127.0.0.1:1","key":"group/g","before":null,"after":{}}],"undoId":"aaa111","undoes":null,"result":"APPLIED","namesrv":["127.0.0.1:1"]}`
	newer := `{"at":"2026-11-29T11:00:00.000Z","command":["broker","clean","topics"],"items":[],"undoId":null,"undoes":null,"result":"APPLIED","namesrv":["127.0.0.1:1"]}`
	failed := strings.ReplaceAll(newer, "APPLIED", "FAILED")
	for _, c := range []struct {
		lines []string
		line  string
		has   string
	}{
		{[]string{old, newer}, "undo", "the newest change cannot be taken back: broker clean topics, at 2026-11-29T11:00:00.000Z; nothing was changed  [NO_WAY_BACK]\ntry     mqctl undo aaa111   or   mqctl audit list"},
		{[]string{old, newer}, "undo aaa111", "BROKER_UNREACHABLE"},
		{[]string{old, failed}, "undo", "BROKER_UNREACHABLE"},
	} {
		if err := os.WriteFile(audit, []byte(strings.Join(c.lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, out, errs := runEnv(map[string]string{"MQCTL_NAMESRV": "127.0.0.1:1", "MQCTL_AUDIT": audit}, append([]string{"mqctl"}, strings.Fields(c.line)...)...)
		if !strings.Contains(errs, c.has) {
			t.Errorf("%s: no %q in\n%s%s", c.line, c.has, out, errs)
		}
	}
}

func TestHintsOfExplain(t *testing.T) {
	checkHints(t, []hint{{"explain", ExitUsage, []string{"why     settings (mqctl config keys", "mqctl explain 907", "mqctl explain brokerPermission"}, nil}})
}

// A line of a text about mqctl works in the shell as it stands.
func TestShellTakesPastedLines(t *testing.T) {
	for _, line := range []string{"mqctl explain 907", "mqctl help", "explain 907"} {
		if code, out, errs := runLine("mqctl", "shell", "-e", line); code != ExitOK || out+errs == "" {
			t.Errorf("%s: exit %d, %s%s", line, code, out, errs)
		}
	}
}

// What is to be copied keeps its blanks in a pipe.
func TestTryInAPipe(t *testing.T) {
	s := &style{}
	if got := s.cell([]string{"mqctl broker logs a/0", "mqctl stats ha"}, asTry); got != "mqctl broker logs a/0   or   mqctl stats ha" {
		t.Errorf("%q", got)
	}
	if code, out, errs := runLine("mqctl", "cheat"); code != ExitOK || strings.Contains(out, "_") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// One cause is told once, with the names of all that it hit; JSON tells of each.
func TestOneErrorForOneCause(t *testing.T) {
	f := newFakeCluster(t)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		f.add("127.0.0.1", name, 0, 100, func(*fakeBroker) {})
	}
	code, _, errs := runLine("mqctl", "-n", f.ns.addr, "broker", "logs")
	if code != ExitDenied || strings.Count(errs, "error   ") != 1 || !strings.Contains(errs, "(MQCTL_LOG); the same: ") || !strings.Contains(errs, " and 2 more  [NOT_OFFERED]") || strings.Count(errs, "why     ") != 1 {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if _, out, _ := runLine("mqctl", "-n", f.ns.addr, "broker", "logs", "-o", "json"); strings.Count(out, `"NOT_OFFERED"`) != 8 {
		t.Errorf("JSON tells of fewer:\n%s", out)
	}
	got := alike([]Message{
		{Code: "X", Target: "b-1", Text: "b-1 is not there"}, {Code: "X", Target: "b-2", Text: "b-2 is not there"}, {Code: "X", Target: "b-3", Text: "b-3 is not there", Try: []string{"look at b-3"}},
		{Code: "Y", Target: "b-2", Text: "b-2 is not there"}, {Code: "Z", Text: "z"}, {Code: "Z", Text: "z"}, {Code: "X", Target: "b-1", Text: "b-1 is not there"},
	})
	if len(got) != 5 || got[0].Text != "b-1 is not there; the same: b-2" || got[1].Text != "b-3 is not there" {
		t.Errorf("%+v", got)
	}
}

// TestLineElsewhere: the line to try with another nameserver does what the line did.
func TestLineElsewhere(t *testing.T) {
	checkHints(t, []hint{
		{"wait broker broker-a/1 --ready -n 127.0.0.1:1", ExitUnreachable, []string{"try     mqctl -n HOST:9876 wait broker broker-a/1 --ready\n"}, nil},
		{"group set g --retry-max 3", ExitUnreachable, []string{"try     mqctl -n HOST:9876 group set g --retry-max 3\n"}, nil},
		{"updateSubGroup -c C -g g -w 1 -n 127.0.0.1:1", ExitUnreachable, []string{"try     mqctl -n HOST:9876 updateSubGroup -g g -c C -w 1\n"}, nil},
		{"updateUser -n 127.0.0.1:1 -c C -u ops -p planted", ExitUnreachable, []string{"try     mqctl -n HOST:9876 updateUser -u ops -c C\n"}, []string{"planted"}},
	})
}

// TestLineToTry: what an error says to try is the line that met it, as a whole
// where it runs again, and nothing that the command does not take.
func TestLineToTry(t *testing.T) {
	for _, c := range []struct {
		old    bool
		path   string
		args   []string
		values map[string][]string
		code   string
		want   string
	}{
		{false, "topic delete", []string{"orders"}, nil, "INTERRUPTED", "mqctl topic delete orders --dry-run"},
		{false, "topic delete", []string{"orders"}, map[string][]string{"cluster": {"C"}}, "ABORTED", "mqctl topic delete orders --cluster C --dry-run"},
		{true, "topic delete", []string{"orders"}, map[string][]string{"cluster": {"C"}}, "INTERRUPTED", "mqctl deleteTopic -t orders -c C --dry-run"},
		{false, "topic delete", []string{"orders"}, map[string][]string{"dry-run": {"true"}}, "INTERRUPTED", ""},
		{false, "group list", nil, nil, "INTERRUPTED", ""},
		{false, "group get", []string{"g"}, nil, "DEADLINE", "--deadline 1m"},
		{false, "group get", []string{"g"}, nil, "FAILED", "mqctl group get g --trace"},
		{false, "group get", []string{"g"}, nil, "BAD_NAME", "mqctl group get --help"},
	} {
		cmd := commands().byPath[c.path]
		k := &call{cmd: cmd, old: c.old, vocab: vocabularyOf(cmd, c.old), args: c.args, values: c.values}
		if k.values == nil {
			k.values = map[string][]string{}
		}
		m := fail(ExitFailed, c.code, "something")
		m.complete(k.lineWith)
		if cmd.is(mutates) == (c.code == "DEADLINE") && strings.Contains(m.Why, "change may") {
			t.Errorf("%s: %s", c.path, m.Why)
		}
		if got := strings.Join(m.Try, " | "); got != c.want {
			t.Errorf("%s %v, %s: try %q, want %q", c.path, c.values, c.code, got, c.want)
		}
	}
}
