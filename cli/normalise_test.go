package cli

import (
	"errors"
	"strings"
	"testing"
)

// normaliseCases are command lines and the one canonical line that urfave/cli
// gets. A want that begins with "!" is the code of the usage error.
var normaliseCases = []struct{ in, want string }{
	// Every way commons-cli takes a value.
	{"clusterList -n a:1", "clusterList --namesrv=a:1 --"},
	{"clusterList -na:1", "clusterList --namesrv=a:1 --"},
	{"clusterList -n=a:1", "clusterList --namesrv=a:1 --"},
	{"clusterList --namesrvAddr a:1", "clusterList --namesrv=a:1 --"},
	{"clusterList --namesrvAddr=a:1", "clusterList --namesrv=a:1 --"},
	{"clusterList -namesrvAddr a:1", "clusterList --namesrv=a:1 --"},
	{"clusterList --namesrv a:1", "clusterList --namesrv=a:1 --"},
	{"clusterList --name a:1", "clusterList --namesrv=a:1 --"},
	{"clusterList -namesrvA a:1", "clusterList --namesrv=a:1 --"},
	{"deleteKvConfig -s s -k k --name a:1", "!AMBIGUOUS_FLAG"},
	{"checkRocksdbCqWriteProgress -c C --nameserverAddr a:1", "checkRocksdbCqWriteProgress --cluster=C --namesrv=a:1 --"},
	{"clusterList -n a:1;b:2", "clusterList --namesrv=a:1;b:2 --"},
	{"clusterList -n a:1 -n b:2", "clusterList --namesrv=a:1 --namesrv=b:2 --"},
	// Unambiguous beginnings of long names, one dash or two.
	{"updateSubGroup --broker x:1 -g g", "updateSubGroup --broker=x:1 -- g"},
	{"updateSubGroup --brokerA x:1 -g g", "updateSubGroup --broker=x:1 -- g"},
	{"updateSubGroup -brokerAd x:1 -g g", "updateSubGroup --broker=x:1 -- g"},
	{"updateSubGroup --clus C -g g", "updateSubGroup --cluster=C -- g"},
	{"updateSubGroup --which 1 -g g", "updateSubGroup --which-broker-when-consume-slowly=1 -- g"},
	{"updateSubGroup --retry 1 -g g", "!AMBIGUOUS_FLAG"},
	{"updateSubGroup --consume true -g g", "!AMBIGUOUS_FLAG"},
	{"group set g --which 1", "group set --which-broker-when-consume-slowly=1 -- g"},
	// Names without regard to case.
	{"updatesubgroup -g g", "updateSubGroup -- g"},
	{"UPDATESUBGROUP -g g", "updateSubGroup -- g"},
	{"ClusterList", "clusterList --"},
	{"decodemessageid -i x", "DecodeMessageId -- x"},
	// Options in any order; numbers below zero are values.
	{"updateSubGroup -w 1 -i 0 -g g -c C", "updateSubGroup --cluster=C --broker-id=0 --which-broker-when-consume-slowly=1 -- g"},
	{"updateSubGroup -g g -r -1", "updateSubGroup --retry-max=-1 -- g"},
	{"updateSubGroup -g g -r -2", "!BAD_VALUE"},
	// Booleans that take a value, read strictly.
	{"updateSubGroup -m true -g z", "updateSubGroup --from-min=true -- z"},
	{"updateSubGroup -s yes -g z", "updateSubGroup --consume=true -- z"},
	{"updateSubGroup -s off -g z", "updateSubGroup --consume=false -- z"},
	{"updateSubGroup -s=0 -g z", "updateSubGroup --consume=false -- z"},
	{"updateSubGroup -sfalse -g z", "updateSubGroup --consume=false -- z"},
	{"updateSubGroup -s maybe -g z", "!BAD_VALUE"},
	{"updateSubGroup -s -g z", "!VALUE_MISSING"},
	{"updateSubGroup -g", "!VALUE_MISSING"},
	// Real flags take none.
	{"clusterList -m", "clusterList --more=true --"},
	{"clusterList -m true", "!STRAY_ARGUMENT"},
	{"clusterList -m -c C", "clusterList --cluster=C --more=true --"},
	{"topicRoute -l -t t", "topicRoute --list=true -- t"},
	// Letters of two.
	{"updateStaticTopic -t t -qn 8 -c C", "updateStaticTopic --clusters=C --queues=8 -- t"},
	{"updateStaticTopic -t t -qn8 -c C -mf f", "updateStaticTopic --clusters=C --map-file=f --queues=8 -- t"},
	{"electMaster -a x -b 1 -bn n -c C", "electMaster --controller=x --id=1 --broker-name=n --cluster=C --"},
	// The same letter means another thing in another command.
	{"sendMessage -t t -p body -c tag -b a -i 1", "sendMessage --body=body --tag=tag --broker=a --queue=1 -- t"},
	{"queryMsgById -t t -i ID -c C", "queryMsgById --topic=t --id=ID --cluster=C --"},
	{"updateBrokerConfig -c C -k k -v v", "updateBrokerConfig --cluster=C --key=k --value=v --"},
	{"updateBrokerConfig -c C -a true -k k -v --x", "updateBrokerConfig --cluster=C --all=true --key=k --value=--x --"},
	// Common flags: by long name only in camel case, anywhere.
	{"updateSubGroup -g g --output json", "updateSubGroup --output=json -- g"},
	{"--output json updateSubGroup -g g", "updateSubGroup --output=json -- g"},
	{"-n a:1 updateSubGroup -g g", "updateSubGroup --namesrv=a:1 -- g"},
	{"updateSubGroup -g g --dry-run", "updateSubGroup --dry-run=true -- g"},
	{"updateSubGroup -g g --dry", "!UNKNOWN_FLAG"},
	{"clusterList --dry-run", "!UNKNOWN_FLAG"},
	{"--dry-run clusterList", "!UNKNOWN_FLAG"},
	{"listUser -b x:1 --filter f", "listUser --broker=x:1 --match=f --"},
	// An exact own name beats an exact common name, and that a beginning.
	{"brokerConsumeStats -b x:1 --timeout 5s", "brokerConsumeStats --broker=x:1 --timeout=5s --"},
	{"brokerConsumeStats -b x:1 --timeoutM 5", "brokerConsumeStats --broker=x:1 --timeout-millis=5 --"},
	{"resetOffsetByTime -g g -t t --time relative -s 1", "resetOffsetByTime --topic=t --to=1 --time=relative -- g"},
	// Required options, contradictions, strays, foreign and unknown flags.
	{"updateSubGroup -w 1", "!FLAG_MISSING"},
	{"deleteTopic -t t", "!FLAG_MISSING"},
	{"updateSubGroup -g g -b x:1 -c C", "!CONTRADICTION"},
	{"updateSubGroup g", "!STRAY_ARGUMENT"},
	{"topicList -w 1", "!UNKNOWN_FLAG"},
	{"updateSubGroup -g g --nonsense", "!UNKNOWN_FLAG"},
	{"updateSubGroup -g a -g b", "!FLAG_TWICE"},
	{"updateSubGroup -g a -g a", "updateSubGroup -- a"},
	{"updateSubGroup -g a -w 1 --whichBrokerWhenConsumeSlowly 0", "!FLAG_TWICE"},
	{"frobnicate", "!UNKNOWN_COMMAND"},

	// The tree: flags anywhere around the arguments.
	{"group set foo --group b", "!UNKNOWN_FLAG"},
	{"group set foo --slow-broker 1", "group set --which-broker-when-consume-slowly=1 -- foo"},
	{"group set --slow-broker 1 foo", "group set --which-broker-when-consume-slowly=1 -- foo"},
	{"group --output json set foo --slow-broker=1", "group set --which-broker-when-consume-slowly=1 --output=json -- foo"},
	{"-n a:1 group set foo -y", "group set --namesrv=a:1 --yes=true -- foo"},
	{"-na:1 -ojson group get foo", "group get --namesrv=a:1 --output=json -- foo"},
	{"group set foo --consume", "group set --consume=true -- foo"},
	{"group set foo --no-consume", "group set --consume=false -- foo"},
	{"group set foo --consume=false", "group set --consume=false -- foo"},
	{"group set foo --no-consume=true", "!BAD_VALUE"},
	{"group set foo --consume --no-consume", "!FLAG_TWICE"},
	{"group set foo bar", "!STRAY_ARGUMENT"},
	{"group set", "!ARGUMENT_MISSING"},
	{"client inspect --group g", "client inspect -- g"},
	{"client inspect --group=g --stack", "client inspect --stack=true -- g"},
	{"client inspect g --group h", "!STRAY_ARGUMENT"},
	{"client inspect --group", "!UNKNOWN_FLAG"},
	{"client inspect --group --stack", "!UNKNOWN_FLAG"},
	{"client kick --client 10.0.1.21@7", "client kick -- 10.0.1.21@7"},
	{"cluster list x", "!STRAY_ARGUMENT"},
	{"message send t --body -", "message send --body=- -- t"},
	{"message send t --body --tag x", "!VALUE_MISSING"},
	{"message send t --body=--tag", "message send --body=--tag -- t"},
	{"message send t --property a=1 --property b=2", "message send --property=a=1 --property=b=2 -- t"},
	{"message send -- -t --body", "!STRAY_ARGUMENT"},
	{"message send --body x -- -t", "message send --body=x -- -t"},
	{"broker config set a=1 b=2 --all", "broker config set --all=true -- a=1 b=2"},
	{"broker config get", "broker config get --"},
	// Aliases.
	{"ns status", "nameserver status --"},
	{"group ls", "group list --"},
	{"topic rm t", "topic delete -- t"},
	// Values that are optional take "=".
	{"topic set t --order --wait", "topic set --order=true --wait=60s -- t"},
	{"topic set t --order --wait=1m", "topic set --order=true --wait=1m0s -- t"},
	{"topic set t --order --wait 1m", "!BAD_VALUE"},
	{"topic set t --wait=soon", "!BAD_VALUE"},
	{"broker start --print-config", "broker start --print-config=all --"},
	{"broker start --print-config=changed", "broker start --print-config=changed --"},
	{"broker start --print-config changed", "!BAD_VALUE"},
	{"broker start --print-config=some", "!BAD_VALUE"},
	{"broker start --with-nameserver 127.0.0.1:1", "!BAD_VALUE"},
	{"broker start --with-nameserver=127.0.0.1:1 -c f", "broker start --config=f --with-nameserver=127.0.0.1:1 --"},
	{"broker start --set a=1 --set b=2,3", "broker start --set=a=1 --set=b=2,3 --"},
	{"broker start --output json", "broker start --output=json --"},
	{"broker start --timeout 5s", "!UNKNOWN_FLAG"},
	// Checked values.
	{"cluster list --timeout 2", "cluster list --timeout=2ms --"},
	{"cluster list --timeout 2s", "cluster list --timeout=2s --"},
	{"cluster list --timeout soon", "!BAD_VALUE"},
	{"cluster list --timeout=-1s", "!BAD_VALUE"},
	{"cluster list --color blue", "!BAD_VALUE"},
	{"cluster list --color ALWAYS", "cluster list --color=always --"},
	{"cluster list --limit 0", "!BAD_VALUE"},
	{"cluster list --limit x", "!BAD_VALUE"},
	{"group set g --slow-broker x", "!BAD_VALUE"},
	{"group set g --slow-broker -1", "!BAD_VALUE"},
	{"group set g --slow-broker 99999999999999999999", "!BAD_VALUE"},
	{"cluster list --watch", "cluster list --watch=2s --"},
	{"cluster list --context prod", "cluster list --context=prod --"},
	{"group set g --reason x --slow-broker 1", "group set --which-broker-when-consume-slowly=1 --reason=x -- g"},
	{"clusterList -i 5", "clusterList --interval=5 --"},
	{"cluster list --nope", "!UNKNOWN_FLAG"},
	{"group frob", "!UNKNOWN_COMMAND"},
	{"broker config frob", "!UNKNOWN_COMMAND"},
	{"--nope cluster list", "!UNKNOWN_FLAG"},
	{"-w 1 updateSubGroup -g g", "!UNKNOWN_FLAG"},
	{"ha promote broker-a --id 1 --planned", "ha promote --id=1 --planned=true -- broker-a"},
}

// TestNormalise feeds command lines of both vocabularies through the front door.
func TestNormalise(t *testing.T) {
	for _, c := range normaliseCases {
		got := normalised("mqctl", strings.Fields(c.in))
		if got != c.want {
			t.Errorf("mqctl %s\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

// normalised is the canonical line without the program's name, or "!CODE".
func normalised(argv0 string, args []string) string {
	l, err := commands().normalise(argv0, args)
	if err != nil {
		var m *Message
		if !errors.As(err, &m) || m.ExitCode != ExitUsage {
			return "not a usage error: " + err.Error()
		}
		return "!" + m.Code
	}
	if l.cmd == nil {
		return "no command"
	}
	return strings.Join(l.canonical()[1:], " ")
}

func TestPersonalities(t *testing.T) {
	cases := []struct {
		argv0   string
		args    string
		want    string
		mqadmin bool
	}{
		{"/usr/bin/mqadmin", "clusterList -n a:1", "clusterList --namesrv=a:1 --", true},
		{"mqbroker", "-c f -n a:1", "broker start --config=f --namesrv=a:1 --", false},
		{"mqbroker", "-c f -p", "broker start --config=f --print-config=all --", false},
		{"mqbroker", "-m", "broker start --print-config=important --", false},
		{"mqbroker", "--configFile f --namesrvAddr a:1", "broker start --config=f --namesrv=a:1 --", false},
		{"mqbroker", "-configFile f -namesrvAddr=a:1", "broker start --config=f --namesrv=a:1 --", false},
		{"mqbroker", "-cf -na:1", "broker start --config=f --namesrv=a:1 --", false},
		{"mqbroker", "-c=f -n=a:1;b:2", "broker start --config=f --namesrv=a:1;b:2 --", false},
		{"mqbroker", "--printC", "broker start --print-config=all --", false},
		{"mqbroker", "--printImportantConfig", "broker start --print-config=important --", false},
		{"mqbroker", "-p -m", "broker start --print-config=all --", false},
		{"mqbroker", "-p -c f -m", "broker start --config=f --print-config=all --", false},
		{"mqbroker", "--config f --name b --id 1 --print-config=changed", "broker start --config=f --name=b --id=1 --print-config=changed --", false},
		{"mqbroker", "-c f --enable-proxy", "!NOT_SUPPORTED", false},
		{"mqbroker", "-c", "!VALUE_MISSING", false},
		{"mqbroker", "-c f stray", "!STRAY_ARGUMENT", false},
		{"mqbroker", "-x", "!UNKNOWN_FLAG", false},
		{"mqbroker", "-m -p", "broker start --print-config=all --", false},
		{"mqbroker", "-c f -- x", "!STRAY_ARGUMENT", false},
		{"mqnamesrv", "--configFile f", "nameserver start --config=f --", false},
		{"mqnamesrv", "-n a:1 -c f", "nameserver start --config=f --", false},
		{"mqnamesrv", "--listen :1", "nameserver start --listen=:1 --", false},
		{"mqnamesrv", "", "nameserver start --", false},
		{"mqnamesrv", "-c f", "nameserver start --config=f --", false},
	}
	for _, c := range cases {
		if got := normalised(c.argv0, strings.Fields(c.args)); got != c.want {
			t.Errorf("%s %s\n got %s\nwant %s", c.argv0, c.args, got, c.want)
		}
		l, err := commands().normalise(c.argv0, strings.Fields(c.args))
		if err == nil && l.mqadmin != c.mqadmin {
			t.Errorf("%s: mqadmin personality is %t", c.argv0, l.mqadmin)
		}
	}
}

// TestLinks: what links called after the original's programs say.
func TestLinks(t *testing.T) {
	cases := []struct {
		args, out, errs string
		code            int
	}{
		{"/usr/bin/mqadmin help", "mqadmin-compatible names, in any case", "", ExitOK},
		{"/usr/bin/mqadmin --help", "mqadmin-compatible names, in any case", "", ExitOK},
		{"/usr/bin/mqadmin", "", "mqadmin-compatible names, in any case", ExitUsage},
		{"/usr/bin/mqadmin help updateTopic", "updateTopic: ", "", ExitOK},
		{"/usr/bin/mqbroker --version", "mqctl ", "", ExitOK},
		{"/usr/bin/mqbroker -h", "broker start: ", "", ExitOK},
		{"/usr/bin/mqnamesrv -help", "nameserver start: ", "", ExitOK},
		{"/usr/bin/mqnamesrv -n 10.0.0.4:9876 -p", "bindAddress ", "-n/--namesrvAddr 10.0.0.4:9876 has no effect: a nameserver registers nowhere", ExitOK},
	}
	for _, c := range cases {
		code, out, errs := runLine(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || (errs == "") != (c.errs == "") {
			t.Errorf("%s: exit %d, %q, %q", c.args, code, out, errs)
		}
	}
}

// TestOldNames: the front door knows all 93 names of mqadmin, in any case, and
// every option of each in its forms.
func TestOldNames(t *testing.T) {
	r := commands()
	if len(r.oldNames) != 93 {
		t.Errorf("%d mqadmin names, 93 are known", len(r.oldNames))
	}
	for _, name := range r.oldNames {
		c := r.byOld[strings.ToLower(name)]
		for i := range c.flags {
			f := &c.flags[i]
			if f.newOnly || f.absent || f.short == "" && f.long == "" {
				continue
			}
			want := ""
			for _, form := range oldForms(c, f) {
				args := append([]string{strings.ToUpper(name)}, form...)
				args = append(args, others(c, f)...)
				got := normalised("mqctl", args)
				if want == "" {
					want = got
				}
				if got != want || strings.HasPrefix(got, "!") {
					t.Errorf("%q\n got %s\nwant %s", args, got, want)
				}
			}
		}
	}
}

// oldForms writes one option in all of the forms that mqadmin takes.
func oldForms(c *command, f *flagSpec) [][]string {
	v := sample(f)
	var out [][]string
	if f.bareOld {
		if f.short != "" {
			out = append(out, []string{"-" + f.short})
		}
		return append(out, []string{"--" + f.long}, []string{"-" + f.long})
	}
	if f.short != "" {
		out = append(out, []string{"-" + f.short, v}, []string{"-" + f.short + v}, []string{"-" + f.short + "=" + v})
	}
	if f.long != "" {
		out = append(out, []string{"--" + f.long, v}, []string{"--" + f.long + "=" + v}, []string{"-" + f.long, v}, []string{"-" + f.long + "=" + v})
	}
	return out
}

func sample(f *flagSpec) string {
	switch f.kind {
	case kindInt:
		return "7"
	case kindBool:
		return "true"
	case kindEnum:
		return f.enum[0]
	case kindDuration:
		return "5s"
	default:
		return "9"
	}
}

// others are the required options of c besides f.
func others(c *command, f *flagSpec) []string {
	var out []string
	for i := range c.flags {
		if o := &c.flags[i]; o.required && o != f {
			out = append(out, "--"+o.long, sample(o))
		}
	}
	return out
}

func TestMessagesOfTheFrontDoor(t *testing.T) {
	cases := []struct{ in, text, why, try string }{
		{"updateSubGroup -g orders -c C -s yess", `-s/--consumeEnable: "yess" is not a boolean`, "true, false, yes, no, on, off, 1 or 0; mqadmin would have read this as false and stopped consumption", "-s true"},
		{"clusterList -m true", `"true" is not expected here; -m takes no value in clusterList`, "", ""},
		{"topicList -w 1", "topicList has no flag -w", "-w belongs to ", "mqctl topicList --help"},
		{"group set g -w 1", "group set has no flag -w", "-w belongs to updateSubGroup", "--slow-broker"},
		{"topic create t -r=4", "topic create has no flag -r", "", "mqctl topic create --help"},
		{"topic set t -r 4", "topic set has no flag -r", "-r belongs to updateTopic", "--read-queues"},
		{"group set foo --group b", "group set has no flag --group", "it is an argument of group set", "mqctl group set GROUP"},
		{"topic set t --order --wait 1m", "--wait takes its value with =", "", "--wait=1m"},
		{"updatSubGroup -g g", `unknown command "updatSubGroup"`, "", "mqctl updateSubGroup"},
		{"promote broker-a", `unknown command "promote"`, "", "mqctl ha promote"},
		{"offsets", `unknown command "offsets"`, "", "mqctl stats offsets|mqctl store offsets|mqctl offset"},
		{"create orders", `unknown command "create"`, "", "mqctl group create|mqctl topic create"},
		{"group lst", `"lst" is no command of group`, "there are: list, ", "mqctl group list"},
		{"topic add t", `"add" is no command of topic`, "there are: list, ", "mqctl topic create|mqctl topic set"},
		{"context remove c", `"remove" is no command of context`, "there are: add, ", "mqctl context rm"},
		{"group describe g", `"describe" is no command of group`, "there are: list, ", "mqctl group get"},
		{"stats topics", `"topics" is no command of stats`, "there are: offsets, ", "mqctl stats traffic"},
		{"topic nonsense", `"nonsense" is no command of topic`, "there are: list, ", "mqctl help topic"},
		{"message send orders hello", `"hello" is not expected here; message send takes TOPIC`, "nothing was sent", "mqctl message send orders --body hello|mqctl message send --help"},
		{"message find orders --key k", `"orders" is not expected here; message find takes no arguments`, "nothing was sent", "mqctl message find --topic orders|"},
		{"bench send orders", `"orders" is not expected here; bench send takes no arguments`, "nothing was sent", "mqctl bench send --topic orders|"},
		{"bench send x --topic orders", `"x" is not expected here; bench send takes no arguments`, "nothing was sent", "mqctl bench send --help"},
		{"topic list orders", `"orders" is not expected here; topic list takes no arguments`, "nothing was sent", "mqctl topic get orders|mqctl topic list --help"},
		{"topic route orders --broker b", "topic route has no flag --broker", "it asks nameservers or controllers, not one broker", "mqctl topic route --help"},
		{"--broker b nameserver status", "nameserver status has no flag --broker", "it asks nameservers or controllers, not one broker", "mqctl nameserver status --help"},
		{"ha promote broker-a --id 1 --broker b", "ha promote has no flag --broker", "the broker is its argument", "mqctl ha promote BROKER|HOST:PORT"},
		{"topic route orders --cluster c", "topic route has no flag --cluster", "it asks nameservers, not one cluster", "mqctl topic route --help"},
		{"--cluster c nameserver status", "nameserver status has no flag --cluster", "it asks nameservers, not one cluster", "mqctl nameserver status --help"},
		{"config keys --cluster c", "config keys has no flag --cluster", "it asks no broker", "mqctl config keys --help"},
		{"config keys --broker b", "config keys has no flag --broker", "it asks no broker", "mqctl config keys --help"},
		{"cluster list --outptu json", "cluster list has no flag --outptu", "", "--output"},
	}
	for _, c := range cases {
		_, err := commands().normalise("mqctl", strings.Fields(c.in))
		var m *Message
		if !errors.As(err, &m) {
			t.Errorf("%s: no message: %v", c.in, err)
			continue
		}
		if m.Text != c.text || !strings.HasPrefix(m.Why, c.why) || c.why == "" && m.Why != "" || !strings.HasPrefix(strings.Join(m.Try, "|"), c.try) {
			t.Errorf("%s\n got %q, %q, %q\nwant %q, %q, %q", c.in, m.Text, m.Why, m.Try, c.text, c.why, c.try)
		}
	}
}

// FuzzNormalise: no command line makes the front door fail in another way than
// by a usage error, and what it accepts it accepts again in canonical form.
func FuzzNormalise(f *testing.F) {
	for _, s := range []string{"updateSubGroup -g a -w 1", "group set a --slow-broker 1", "-n a:1 cluster list -o json", "clusterList -m true", "--", "-", "help x", "message send -- -t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		l, err := commands().normalise("mqctl", args)
		if err != nil {
			var m *Message
			if !errors.As(err, &m) || m.ExitCode != ExitUsage {
				t.Fatalf("%q: %v is no usage error", args, err)
			}
			return
		}
		if l.cmd == nil || l.topic != nil || l.version {
			return
		}
		if got := l.canonical(); len(got) < 2 {
			t.Fatalf("%q: canonical form %q", args, got)
		}
	})
}
