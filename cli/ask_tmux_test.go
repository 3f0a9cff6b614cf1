package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

var lastLine atomic.Int64

// ends runs a line in the terminal, answers what it asks, and checks its status and
// what it showed.
func (p *pane) ends(line string, answers []string, status int, shows ...string) {
	p.t.Helper()
	n := lastLine.Add(1) // tells this line's output from what the screen showed before
	p.line(fmt.Sprintf("clear; echo run %d; %s; echo status %d=$?.", n, line, n))
	p.until("the line to run", regexp.MustCompile(fmt.Sprintf(`(?m)^run %d$`, n)).MatchString)
	for i := 0; i+1 < len(answers); i += 2 {
		p.shows(strings.TrimSpace(answers[i])) // tmux leaves blanks at the end of a line out
		switch answer := answers[i+1]; answer {
		case "C-c", "C-d":
			p.keys(answer)
		default:
			p.line(answer)
		}
	}
	screen := p.until("the status", regexp.MustCompile(fmt.Sprintf(`status %d=\d+\.`, n)).MatchString)
	if !strings.Contains(screen, fmt.Sprintf("status %d=%d.", n, status)) {
		p.t.Errorf("%s: want status %d\n%s", line, status, screen)
	}
	for _, s := range shows {
		if !strings.Contains(screen, s) {
			p.t.Errorf("%s: %q is not shown\n%s", line, s, screen)
		}
	}
}

// TestAskForMissing: on a terminal a value that is missing is asked for, with the
// names that there are; nobody is asked who cannot answer.
func TestAskForMissing(t *testing.T) {
	ready := startHere(t)
	p := newPane(t, 110, 40, "NAMESRV_ADDR="+ready.Namesrv[0])
	p.ends("mqctl group create order_consumer -o name && mqctl group create report -o name && mqctl topic create orders -o name", nil, 0)

	p.ends("mqctl group get", []string{"GROUP (a name or a number): ", "2"}, 0, "group get needs GROUP", "1  order_consumer", "2  report", "report")
	p.ends("mqctl updateSubGroup -w 0", []string{"GROUP (a name or a number): ", "report"}, 0, "updateSubGroup needs -g/--groupName", "whichBrokerWhenConsumeSlowly")
	p.ends("mqctl offset reset report --to earliest", []string{"TOPIC (a name or a number): ", "1", "continue? [y/N]", "y"}, 0, "1  orders")
	p.ends("mqctl deleteTopic -n "+ready.Namesrv[0], []string{"TOPIC (a name or a number): ", "nowhere", "(a name or a number): ", ""}, 2, "FLAG_MISSING")
	p.ends("mqctl ha promote", []string{"a number):", "1", "N:", ""}, 2, "1  broker-a", "VALUE_MISSING")
	p.ends("mqctl setConsumeMode -c DefaultCluster -t orders -g report", []string{"PULL", "2"}, 0)

	// One of several: which, and then its value.
	p.ends("mqctl wait broker broker-a --for 20s", []string{"which of them (a number): ", "1"}, 0, "1  --ready", "2  --gone", "ready")
	p.ends("mqctl brokerStatus | head -2", []string{"which of them (a number): ", "1", "NAME (a name or a number): ", "1"}, 0, "1  -c NAME", "2  -b ADDR", "1  DefaultCluster")
	p.ends("mqctl message send orders -o name", []string{"which of them (a number): ", "x", "which of them (a number): ", "1", "TEXT", "hello"}, 0)
	p.ends("mqctl message get", []string{"which of them (a number): ", "1", "ID", "nonsense"}, 2, "nonsense")
	p.ends("mqctl message get", []string{"which of them (a number): ", ""}, 2, "FLAG_MISSING")
	p.ends("mqctl message get", []string{"which of them (a number): ", "C-c"}, 130, "INTERRUPTED")
	p.ends("CI=true mqctl wait broker broker-a", nil, 2, "CONTRADICTION")

	// An empty answer is no answer; Ctrl-C ends, and the next line goes to the system shell.
	p.ends("mqctl group get", []string{"a number): ", ""}, 2, "group get needs GROUP", "ARGUMENT_MISSING")
	p.ends("mqctl group get", []string{"a number): ", "C-d"}, 2, "ARGUMENT_MISSING")
	p.ends("mqctl group get", []string{"a number): ", "C-c"}, 130, "INTERRUPTED")
	p.ends("echo still $((40+2))", nil, 0, "still 42")
	p.cooked()

	// Nobody is asked.
	for _, line := range []string{
		"mqctl group get -o json", "mqctl group get --output=jsonl", "MQCTL_OUTPUT=json mqctl group get", "mqctl group get < /dev/null", "CI=true mqctl group get",
		"mqctl group set --yes", "MQCTL_YES=1 mqctl group get", "mqctl group get 2> errors",
	} {
		p.ends(line, nil, 2)
	}
	// Where nobody says which names there are, the value can be typed.
	p.ends("mqctl group get -n 127.0.0.1:1 --timeout 200ms", []string{"GROUP: ", "report"}, 4)

	// Several clusters.
	port, err := freePorts()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopAll(filepath.Join(p.dir, "state", "mqctl", "run")) })
	p.ends(fmt.Sprintf("mqctl broker start --name broker-c --cluster Archive --listen 127.0.0.1:%d -n %s --http off --store c --detach", port, ready.Namesrv[0]), nil, 0)
	p.ends("mqctl group list -o csv --no-headers --fields group", []string{"NAME (a name or a number): ", "2"}, 0, "1  Archive", "2  DefaultCluster", "report")
}

// TestConfirmations: in a protected context the name is typed, under mqadmin's
// names too; passwords are typed without being seen.
func TestConfirmations(t *testing.T) {
	ready := startHere(t)
	p := newPane(t, 110, 40)
	p.ends("mqctl context add prod --protected --namesrv "+ready.Namesrv[0]+" && mqctl context use prod -o name && export NAMESRV_ADDR= && mqctl topic create orders -o name", nil, 0)
	p.ends("mqctl topic delete orders", []string{"type orders to continue: ", "y"}, 9, "ABORTED", "nothing was changed")
	p.ends("mqctl topic delete orders", []string{"type orders to continue: ", ""}, 9)
	p.ends("mqctl deleteTopic -c DefaultCluster -t orders", []string{"type orders to continue: ", "C-c"}, 130)
	p.ends("mqctl topic get orders -o name", nil, 0, "orders")
	p.cooked()
	p.ends("mqctl deleteTopic -c DefaultCluster -t orders", []string{"type orders to continue: ", "orders"}, 0)
	p.ends("mqctl topic get orders -o name", nil, 3)

	p.ends("mqctl user create ops", []string{"password: ", "S3CR3T", "again: ", "other"}, 2, "the two passwords differ")
	if s := p.screen(); strings.Contains(s, "S3CR3T") {
		t.Errorf("the password is shown:\n%s", s)
	}
	p.ends("mqctl user create ops", []string{"password: ", "C-c"}, 130)
	p.cooked()
	p.ends("mqctl user create ops < /dev/null", nil, 2, "stdin is not a terminal")
	p.ends("mqctl user create ops", []string{"password: ", "S3CR3T", "again: ", "S3CR3T"}, 8, "NOT_OFFERED") // this broker keeps no accounts, as the request says
	if s := p.screen(); strings.Contains(s, "S3CR3T") {
		t.Errorf("the password is shown:\n%s", s)
	}
	p.cooked()
}
