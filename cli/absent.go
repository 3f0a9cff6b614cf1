package cli

import "strings"

// absentOldTable are the mqadmin commands that are not built yet, one a line:
// name | options | modern twin | summary. An option is letter/longName with *
// when mqadmin demands it and ! when it takes no value. The front door reads
// their command lines in full, so that a typing error is told from an absence.
const absentOldTable = `
brokerConsumeStats | b/brokerAddr* t/timeoutMillis l/level o/order | stats lag --broker B --min N | backlog of everything on one broker
exportMetrics | c/clusterName* f/filePath | debug bundle | metrics of a cluster to a file
`

// absentTreeTable are the commands of the modern tree that are not built yet.
const absentTreeTable = `
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
