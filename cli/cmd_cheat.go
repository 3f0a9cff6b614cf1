package cli

import (
	"context"
	"strings"
)

// cheatItem is one snippet.
type cheatItem struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Text  string `json:"text"`
	Exits string `json:"exits"` // what its lines end with
}

// cheat is a snippet for scripts under "set -euo pipefail".
type cheat struct{ name, title, exits, text string }

var cheats = []cheat{
	{"start-pair", "start a pair and wait until it is usable", "0 each", `mqctl broker start -c master.toml --with-nameserver --detach
mqctl broker start -c slave.toml -n 127.0.0.1:9876 --detach
mqctl wait broker broker-a/1 --ready --for 30s
mqctl wait ha --broker broker-a --max-gap 0 --for 1m
`},
	{"drain", "stop writes to a master and wait until its slave has everything", "0 each; 5 when producers or the gap do not come to rest: then undrain", `mqctl broker drain broker-a --wait=1m
mqctl wait ha --broker broker-a --max-gap 0 --stable 3s --for 2m
# mqctl broker undrain broker-a
`},
	{"slow-group", "move a slow group to reads from a slave, and prove it", "0 each; 6 when one broker refused", `mqctl broker config set slaveReadEnable=true --cluster DefaultCluster --all
mqctl updateSubGroup -c DefaultCluster -g order_consumer -w 1 -i 0
sleep 70
mqctl stats pull --group order_consumer --window 1m --output json |
  jq -e '[.items[] | select(.slowPulls > 0)] | length > 0 and all(.[]; .followed)'
`},
	{"bring-back", "bring a group back to the master when it has caught up", "0 each; 5 when it is still behind", `mqctl wait lag --group order_consumer --max 1000 --for 10m
mqctl group set order_consumer --slow-broker 0
`},
	{"nobody-behind", "nobody is behind, for cron", "0; 7 when a group is above the limit; 6 when a broker did not answer", `mqctl check lag --max 100000 --output jsonl > lag.jsonl
`},
	{"failover", "a planned change of master", "0; 5 when the gap was not closed and everything was restored; 8 where brokers cannot change roles", `mqctl ha promote broker-a --id 1 --planned --wait=1m --reason "kernel update"
mqctl wait role broker-a/1 --is MASTER --for 30s
mqctl cluster health
`},
	{"failover-forced", "make a slave the master after a crash, with at most so much lost", "0; 7 when more might be lost, and nothing was done", `mqctl ha promote broker-a --id 1 --force --max-loss 1MiB
`},
	{"rolling-upgrade", "upgrade slaves, then masters", "0; 5 at the first broker that does not come back, with the rest untouched", `# Clients learn of brokers every 30 s: where no send may fail, put "sleep 35" before each
# promotion, and "sleep 65" before a former master is stopped.
for b in broker-a broker-b; do
  ssh "$b-slave" 'mqctl broker stop --grace 30s && systemctl start mqctl-slave'
  mqctl wait broker "$b/1" --ready --for 2m
  mqctl wait ha --broker "$b" --max-gap 0 --stable 3s --for 10m
done
for b in broker-a broker-b; do
  mqctl ha promote "$b" --id 1 --planned --wait=1m
  ssh "$b-master" 'mqctl broker stop --grace 30s && systemctl start mqctl-master'
  mqctl wait ha --broker "$b" --max-gap 0 --stable 3s --for 10m
  mqctl ha promote "$b" --id 0 --planned --wait=1m
done
`},
	{"mqadmin-runbook", "an old runbook with only the name of the program changed", "0", `mqctl clusterList -n 10.0.0.4:9876 | awk '$3 == 0 {print $4}' | sort -u |
  while read -r addr; do mqctl getBrokerConfig -n 10.0.0.4:9876 -b "$addr"; done
`},
	{"plan", "refuse a deployment that would change settings unnoticed", "0 when there is nothing to change; 10 to stop and look", `rc=0; mqctl plan -f cluster.toml || rc=$?
case $rc in 0) echo "in line";; 10) echo "review the plan"; exit 10;; *) exit "$rc";; esac
`},
	{"skip-backlog", "skip a poisoned backlog and keep a way back", "0 each; 9 when somebody answers no", `mqctl offset export --group report --topic orders > report-offsets.json
mqctl offset reset report --topic orders --to latest --wait
# mqctl offset import --file report-offsets.json
`},
	{"convert", "convert a fleet's configuration and prove that nothing changed", "0; 11 for an unknown property; 7 when the running broker differs", `for f in /etc/rocketmq/*.conf; do
  mqctl config lint "$f"
  mqctl config convert "$f" -o "${f%.conf}.toml"
done
mqctl broker config diff broker-a/0 --file /etc/rocketmq/broker-a.toml
`},
	{"debug", "collect what a report needs, look at it first, and see what a broker is busy with", "0; 6 when a broker did not answer; 8 where a broker gives no profiles away", `mqctl debug bundle --out bundle.tar.gz --since 2h --redact strict
mqctl debug analyse bundle.tar.gz > findings.txt || test $? -eq 7
mqctl debug profile broker-a/0 --seconds 5 --out cpu.pprof
`},
}

func cheatCommands() []*command {
	return []*command{{
		path: "cheat", summary: "snippets for scripts, by task", args: "[TASK]", max: 1, argFrom: "cheat", attrs: local, run: runCheat, schema: "mqctl.cheat/v1",
		exits: []int{ExitNotFound}, examples: []string{"mqctl cheat", "mqctl cheat failover"},
		view: view{item: cheatItem{}, name: func(item any) string { return item.(cheatItem).Name },
			columns: []column{{head: "TASK", field: "name"}, {head: "WHAT", field: "title", as: asTry}}},
	}}
}

// works reports whether every command of a snippet is there.
func (s *cheat) works() bool {
	for line := range strings.Lines(s.text) {
		for _, part := range strings.Split(line, "mqctl ")[1:] {
			word := firstWord(strings.TrimSpace(part))
			if c := commands().byOld[strings.ToLower(word)]; c != nil {
				continue
			}
			if !commands().builtPath(part) {
				return false
			}
		}
	}
	return true
}

func runCheat(_ context.Context, c *call) (*result, error) {
	r := &result{}
	var names []string
	for i := range cheats {
		s := &cheats[i]
		if !s.works() {
			continue
		}
		names = append(names, s.name)
		if c.arg(0) == "" || c.arg(0) == s.name {
			r.add(cheatItem{Name: s.name, Title: s.title, Text: s.text, Exits: s.exits})
		}
	}
	if len(r.items) == 0 {
		m := fail(ExitNotFound, "NO_SNIPPET", "there is no snippet for %q", c.arg(0)).because("there are: %s", strings.Join(names, ", "))
		for _, n := range nearest(c.arg(0), names) {
			m.offer("mqctl cheat " + n)
		}
		return nil, m
	}
	if c.arg(0) != "" && c.p.format == "table" && len(c.p.fields) == 0 {
		it := r.items[0].(cheatItem)
		r.text = append([]string{"# " + it.Title, "# exit: " + it.Exits}, strings.Split(strings.TrimSuffix(it.Text, "\n"), "\n")...)
	}
	return r, nil
}
