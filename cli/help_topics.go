package cli

import (
	"fmt"
	"io"
	"sort"
	"strings"
)

// helpTopics are the pages of "mqctl help WORD" that are about no command.
var helpTopics = map[string]func() string{
	"mqadmin": oldHelp, "exit-codes": exitCodesHelp, "output": outputHelp, "formats": outputHelp, "client-file": clientFileHelp,
	"names": namesHelp,
}

// exitCodesHelp lists every code that mqctl can end with.
func exitCodesHelp() string {
	codes := make([]int, 0, len(exitNames))
	for code := range exitNames {
		codes = append(codes, code)
	}
	sort.Ints(codes)
	var b strings.Builder
	b.WriteString("exit codes   the same for all commands; mqctl COMMAND --help lists those of one command\n\n")
	for _, code := range codes {
		fmt.Fprintf(&b, "  %-3d %s\n", code, exitNames[code])
	}
	b.WriteString("\nWith several targets: 6 when some were done and others not; when none was, the code of the\n")
	b.WriteString("first failure in this order: " + orderText() + ".\n")
	b.WriteString("MQCTL_COMPAT=exit0 hides the code behind 0, for scripts made for mqadmin.\n")
	return b.String()
}

func orderText() string {
	parts := make([]string, len(exitOrder))
	for i, code := range exitOrder {
		parts[i] = fmt.Sprint(code)
	}
	return strings.Join(parts, ", ")
}

// namesHelp says what a name of a broker means.
func namesHelp() string {
	return `names        how brokers are named, in arguments and with --broker

  broker-a          the master and its slaves; of changes of topics and groups, the master
  broker-a/0        its master
  broker-a/1        the slave that has id 1
  10.0.0.4:10911    whoever answers there

An id is the one that the broker has now: what broker list and cluster list show. A change of roles (ha promote)
gives the old master the slave's id and the new master 0, and a start afterwards keeps that (config/role.json),
whatever brokerId the configuration has. broker stop and broker list --local read the same from the broker's note.

The id that a broker was configured with counts only where nobody can be meant by the one it has now:
  ha promote broker-a --id 0           the former master: the broker with id 0 is the master already
  broker stop broker-a/2               if no broker here has id 2 now
ha promote asks first, or needs --yes, when the id is configured for another broker than the one that has it now.

For 2 minutes after a change of roles, whichever way it went, an id still means who had it before where
nobody else can be meant:
  wait role broker-a/1 --is MASTER     the one that ha promote broker-a --id 1 made the master
  wait role broker-a/0 --is SLAVE      the former master
`
}

// outputHelp explains --output.
func outputHelp() string {
	return `output   -o FORMAT, --output FORMAT or MQCTL_OUTPUT; the result goes to stdout, everything else to stderr

  table          rows for people; in a pipe one row of words an item, without colours and units
  wide           all columns
  json           one object: the envelope below
  jsonl          one object an item, with its schema; errors as objects on stderr
  csv            the flat fields of the items; lists joined with ;
  name           what can be given back as an argument, one a line
  raw            the bytes of message bodies (message tail, get and find)
  template=TEXT  Go's text/template over the envelope; a field that is not there is an error
  mqadmin        the layout of mqadmin; the default of camel-case names in a pipe

  --fields A,B   only these fields (table, json, jsonl, csv)      --sort FIELD      --reverse      --limit N
  --filter EXPR  only items that fit: == != > >= < <= ~ (regular expression) !~ && || ! ( )
  --watch[=2s]   again and again: redrawn on a terminal, rows with a time in a pipe (table, jsonl, csv)
  --no-headers   without the line of names (table, csv)           --schema          the JSON Schema

The envelope has schema, generatedAt, context, cluster, complete, items, warnings and errors; commands that
change something add dryRun and applied, some add totals.

  mqctl group list -o 'template={{range .items}}{{.group}} {{.lag}}{{"\n"}}{{end}}'
  mqctl cluster list -o 'template={{range .items}}{{.broker}}/{{.brokerId}} {{.state}}{{"\n"}}{{end}}'
  mqctl topic list -o json | jq -r '.items[].topic'
  mqctl schema list
`
}

// helpUnknown answers "mqctl help NONSENSE".
func helpUnknown(stdio Stdio, r *registry, path string) int {
	m := usage("UNKNOWN_COMMAND", "there is no help on %q", path)
	words := r.words()
	for topic := range helpTopics {
		words = append(words, topic)
	}
	sort.Strings(words)
	for _, w := range nearest(path, words) {
		m.offer("mqctl help " + w)
	}
	return printUsage(stdio, m, lineByName(""))
}

// writeText writes a page that is no result; a reader that has gone misses it.
func writeText(stdio Stdio, text string) int {
	if _, err := io.WriteString(stdio.Out, text); err != nil && !quiet(err) {
		return printUsage(stdio, outputFailed(err), lineByName(""))
	}
	return ExitOK
}

// outputFailed says that stdout did not take all of the output.
func outputFailed(err error) *Message {
	return fail(ExitFailed, "OUTPUT_FAILED", "cannot write the result: %v", err)
}
