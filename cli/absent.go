package cli

import "strings"

// absentOldTable are the mqadmin commands that are not built yet, one a line:
// name | options | modern twin | summary. An option is letter/longName with *
// when mqadmin demands it and ! when it takes no value. The front door reads
// their command lines in full, so that a typing error is told from an absence.
const absentOldTable = `
brokerConsumeStats | b/brokerAddr* t/timeoutMillis l/level o/order | stats lag --broker B --min N | backlog of everything on one broker
startMonitoring |  | check lag --watch | watch backlog and dead letters without end
sendMsgStatus | b/brokerName* s/messageSize c/count | bench send | send test messages to one broker
checkMsgSendRT | t/topic* a/amount s/size | bench rtt | send latency per queue
clusterRT | a/amount s/size c/cluster p/print_log m/machine_room i/interval | bench rtt --watch | send latency of clusters, without end
exportMetrics | c/clusterName* f/filePath | debug bundle | metrics of a cluster to a file
`

// absentTreeTable are the commands of the modern tree that are not built yet.
const absentTreeTable = `
broker logs | log of a broker
cluster health | one verdict and its reasons
cluster route-check | do all nameservers tell the same
stats latency | put and pull percentiles
events | stream of changes
check broker | brokers for monitoring
check lag | backlog for monitoring
check disk | disks for monitoring
check drift | differences between masters
check all | all checks
wait lag | wait for a backlog
wait topic | wait for a topic
wait group | wait for a group
bench send | measure sending
bench consume | measure consuming
bench rtt | measure round trips
debug bundle | collect diagnostics
debug analyse | findings in a bundle
debug profile | profile of a broker
`

// absentOld makes commands of absentOldTable.
func absentOld() []*command {
	var out []*command
	for line := range strings.Lines(absentOldTable) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 4 {
			continue
		}
		out = append(out, &command{
			old: cells[0], twin: cells[2], summary: cells[3], absent: true, flags: oldOptions(cells[1]),
		})
	}
	return out
}

// oldOptions reads the options column of absentOldTable.
func oldOptions(text string) []flagSpec {
	var out []flagSpec
	for _, f := range strings.Fields(text) {
		o := flagSpec{oldOnly: true}
		if strings.HasSuffix(f, "!") {
			o.kind, o.bareOld = kindBool, true
		}
		o.required = strings.HasSuffix(f, "*")
		o.short, o.long, _ = strings.Cut(strings.TrimRight(f, "*!"), "/")
		o.long = strings.ReplaceAll(o.long, "_", " ")
		o.key = o.long
		out = append(out, o)
	}
	return out
}

// absentTree makes commands of absentTreeTable.
func absentTree() []*command {
	var out []*command
	for line := range strings.Lines(absentTreeTable) {
		path, summary, ok := strings.Cut(strings.TrimSpace(line), " | ")
		if ok {
			out = append(out, &command{path: path, summary: summary, absent: true, max: -1})
		}
	}
	return out
}
