package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/olekukonko/tablewriter/tw"
)

// sampleItem has one field of every kind that tables format.
type sampleItem struct {
	Name   string   `json:"name"`
	Bytes  int64    `json:"bytes"`
	Gap    *int64   `json:"gap"`
	Rate   float64  `json:"rate"`
	At     *string  `json:"at"`
	Perm   int      `json:"perm"`
	Tags   []string `json:"tags"`
	Nested struct {
		N int `json:"n"`
	} `json:"nested"`
}

func sampleView() view {
	return view{
		item: sampleItem{}, name: func(item any) string { return item.(sampleItem).Name },
		columns: []column{
			{head: "NAME", field: "name"}, {head: "SIZE", field: "bytes", as: asBytes}, {head: "GAP TIME", field: "gap", as: asMillis},
			{head: "IN/s", field: "rate", as: asRate}, {head: "SEEN", field: "at", as: asTime, fold: 1}, {head: "PERM", field: "perm", as: asPerm},
			{head: "TAGS", field: "tags", as: asList, wide: true}, {head: "N", field: "nested.n", as: asNumber, wide: true},
		},
		old: func(p *printer, r *result) { p.printf("%-8s|\n", r.items[0].(sampleItem).Name) },
	}
}

func sampleResult() *result {
	at := "2026-11-29T12:00:00.000Z"
	one := sampleItem{Name: "orders", Bytes: 8192, Gap: ptr(int64(1500)), Rate: 4120, At: &at, Perm: 6, Tags: []string{"a", "b c"}}
	one.Nested.N = 1234567
	two := sampleItem{Name: "主题-2", Bytes: 12, Rate: 0.5, Perm: 4, Tags: []string{}}
	r := &result{cluster: "C", items: []any{one, two}, done: 2}
	r.failed(&Message{Code: "BROKER_UNREACHABLE", Target: "b/1", Addr: "h:1", Text: "broker h:1: connection refused", ExitCode: 4})
	return r
}

// sampleEnvelope is the JSON of sampleResult with two of its fields.
const sampleEnvelope = `{
  "schema": "mqctl.sample/v1",
  "generatedAt": "2026-11-29T12:34:56.000Z",
  "context": null,
  "cluster": "C",
  "complete": false,
  "items": [
    {
      "name": "orders",
      "gap": 1500
    },
    {
      "name": "主题-2",
      "gap": null
    }
  ],
  "warnings": [],
  "errors": [
    {
      "code": "BROKER_UNREACHABLE",
      "target": "b/1",
      "addr": "h:1",
      "message": "broker h:1: connection refused",
      "exitCode": 4
    }
  ]
}
`

func TestFormats(t *testing.T) {
	cases := []struct {
		name, format, fields, sort string
		limit                      int
		terminal, noHeaders        bool
		want                       string
	}{
		{name: "pipe", format: "table", want: "" +
			"NAME    SIZE  GAP_TIME     IN/s  SEEN                      PERM\n" +
			"orders  8192      1500  4120.00  2026-11-29T12:00:00.000Z  rw\n" +
			"主题-2    12         -     0.50  -                         r\n"},
		{name: "terminal", format: "table", terminal: true, want: "" +
			"NAME       SIZE  GAP TIME   IN/s  SEEN    PERM\n" +
			"orders  8.0 KiB       1 s  4,120  34 min  rw\n" +
			"主题-2     12 B         -    0.5  -       r\n"},
		{name: "wide", format: "wide", want: "" +
			"NAME    SIZE  GAP_TIME     IN/s  SEEN                      PERM  TAGS         N\n" +
			"orders  8192      1500  4120.00  2026-11-29T12:00:00.000Z  rw    a,b_c  1234567\n" +
			"主题-2    12         -     0.50  -                         r     -            0\n"},
		{name: "no headers", format: "table", noHeaders: true, fields: "name,perm", want: "orders  rw\n主题-2  r\n"},
		{name: "sorted", format: "table", fields: "bytes,name", sort: "bytes", noHeaders: true, want: "  12  主题-2\n8192  orders\n"},
		{name: "unknown last", format: "name", sort: "gap", want: "orders\n主题-2\n"},
		{name: "limited", format: "name", limit: 1, want: "orders\n"},
		{name: "json", format: "json", fields: "name,gap", want: sampleEnvelope},
		{name: "jsonl", format: "jsonl", fields: "gap,name", want: "" +
			`{"schema":"mqctl.sample/v1","gap":1500,"name":"orders"}` + "\n" + `{"schema":"mqctl.sample/v1","gap":null,"name":"主题-2"}` + "\n"},
		{name: "csv", format: "csv", want: "name,bytes,gap,rate,at,perm,tags,nested.n\norders,8192,1500,4120,2026-11-29T12:00:00.000Z,6,a;b c,1234567\n主题-2,12,,0.5,,4,,0\n"},
		{name: "csv fields", format: "csv", fields: "perm,name", noHeaders: true, want: "6,orders\n4,主题-2\n"},
		{name: "template", format: "template", want: "orders 8192;主题-2 12;"},
		{name: "mqadmin", format: "mqadmin", want: "orders  |\n"},
	}
	for _, c := range cases {
		var out, errs bytes.Buffer
		p := testPrinter(&out, &errs)
		p.format, p.sort, p.limit, p.headers, p.style.terminal = c.format, c.sort, c.limit, !c.noHeaders, c.terminal
		p.tmpl = template.Must(template.New("").Parse(`{{range .items}}{{.name}} {{.bytes}};{{end}}`))
		if c.fields != "" {
			p.fields = strings.Split(c.fields, ",")
		}
		if err := p.print(sampleResult()); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if out.String() != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.name, out.String(), c.want)
		}
		if c.name == "csv" && errs.Len() > 0 {
			t.Errorf("csv leaves something out: %q", errs.String())
		}
	}
}

func testPrinter(out, errs *bytes.Buffer) *printer {
	now := time.Date(2026, 11, 29, 12, 34, 56, 0, time.UTC)
	env := func(string) string { return "" }
	p := &printer{out: out, err: errs, view: sampleView(), schema: "mqctl.sample/v1", now: now, headers: true,
		style: newStyle(out, "never", env), errStyle: newStyle(errs, "never", env)}
	p.style.now, p.style.units, p.style.time = now, "auto", "relative"
	return p
}

// TestNarrowTerminal: the least important columns go first, names are never cut.
func TestNarrowTerminal(t *testing.T) {
	var out, errs bytes.Buffer
	p := testPrinter(&out, &errs)
	p.format, p.style.terminal, p.style.width = "table", true, 40
	p.printTable(sampleResult())
	if strings.Contains(out.String(), "SEEN") || !strings.Contains(out.String(), "PERM") || !strings.Contains(out.String(), "orders") {
		t.Errorf("at 40 columns:\n%s", out.String())
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasSuffix(strings.TrimRight(line, "\n"), " ") {
			t.Errorf("blanks at the end of %q", line)
		}
	}
}

// TestWordsPerRow: in a pipe every row has as many words as the header, whatever
// the cells hold.
func TestWordsPerRow(t *testing.T) {
	var out, errs bytes.Buffer
	p := testPrinter(&out, &errs)
	p.format = "wide"
	r := sampleResult()
	it := r.items[0].(sampleItem)
	it.Name = "a name with blanks\nand lines"
	r.items[0] = it
	p.printTable(r)
	want := 0
	for line := range strings.Lines(out.String()) {
		n := len(strings.Fields(line))
		if want == 0 {
			want = n
		}
		if n != want {
			t.Errorf("%d words, the header has %d: %q", n, want, line)
		}
	}
}

func TestUnitsAndTimes(t *testing.T) {
	var out, errs bytes.Buffer
	p := testPrinter(&out, &errs)
	at := "2026-11-29T12:00:00.000Z"
	cases := []struct {
		terminal    bool
		units, time string
		v           any
		as          format
		want        string
	}{
		{true, "auto", "", int64(1 << 30), asBytes, "1.0 GiB"},
		{true, "bytes", "", int64(1 << 30), asBytes, "1073741824"},
		{false, "auto", "", int64(1 << 30), asBytes, "1073741824"},
		{true, "auto", "", int64(9007199254740993), asNumber, "9,007,199,254,740,993"},
		{false, "auto", "", int64(9007199254740993), asNumber, "9007199254740993"},
		{true, "auto", "relative", at, asTime, "34 min"},
		{true, "auto", "utc", at, asTime, at},
		{false, "auto", "relative", at, asTime, at},
		{true, "auto", "", float64(61.4), asPercent, "61 %"},
		{true, "auto", "", 0, asPerm, "none"},
		{true, "auto", "", nil, asNumber, "-"},
		{true, "auto", "", int64(183600000), asMillis, "2d 3h"},
		{true, "auto", "", "bad\x1b[31mtext", asText, "bad?[31mtext"},
	}
	for _, c := range cases {
		p.style.terminal, p.style.units, p.style.time = c.terminal, c.units, c.time
		if got := p.style.cell(c.v, c.as); got != c.want {
			t.Errorf("%v as %d: %q, want %q", c.v, c.as, got, c.want)
		}
	}
}

func TestColourPrecedence(t *testing.T) {
	cases := []struct {
		choice   string
		env      map[string]string
		terminal bool
		want     bool
	}{
		{"auto", nil, true, true},
		{"auto", nil, false, false},
		{"auto", map[string]string{"NO_COLOR": "1"}, true, false},
		{"auto", map[string]string{"NO_COLOR": ""}, true, true},
		{"auto", map[string]string{"TERM": "dumb"}, true, false},
		{"auto", map[string]string{"FORCE_COLOR": "1"}, false, true},
		{"auto", map[string]string{"CLICOLOR_FORCE": "1"}, false, true},
		{"auto", map[string]string{"FORCE_COLOR": "1", "NO_COLOR": "1"}, false, true},
		{"never", map[string]string{"FORCE_COLOR": "1"}, true, false},
		{"always", map[string]string{"NO_COLOR": "1"}, false, true},
	}
	for _, c := range cases {
		s := style{terminal: c.terminal}
		if got := s.colours(c.choice, func(k string) string { return c.env[k] }); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
	for _, c := range []struct {
		env  map[string]string
		file string
		want bool
	}{ // the client file comes behind the environment
		{nil, "always", true}, {nil, "never", false},
		{map[string]string{"NO_COLOR": "1"}, "always", false}, {map[string]string{"TERM": "dumb"}, "always", false},
		{map[string]string{"FORCE_COLOR": "1"}, "never", true}, {map[string]string{"CLICOLOR_FORCE": "1"}, "never", true},
		{map[string]string{"MQCTL_COLOR": "always", "NO_COLOR": "1"}, "never", true}, {map[string]string{"MQCTL_COLOR": "never", "FORCE_COLOR": "1"}, "always", false},
	} {
		env := map[string]string{"MQCTL_CONFIG": inputs(t)("config.toml", "[defaults]\ncolor = \""+c.file+"\"\n")}
		maps.Copy(env, c.env)
		_, _, errs := runEnv(env, "mqctl", "-n", "127.0.0.1:1", "cluster", "list")
		if got := strings.HasPrefix(errs, "\x1b["); got != c.want {
			t.Errorf("%v over color = %q: %t, %q", c.env, c.file, got, errs)
		}
	}
	code, _, errs := runLine("mqctl", "-n", "127.0.0.1:1", "cluster", "list", "--color", "always")
	if code != ExitUnreachable || !strings.HasPrefix(errs, "\x1b[31;1merror") {
		t.Errorf("--color always: exit %d, %q", code, errs)
	}
}

func TestOutputFlag(t *testing.T) {
	cases := []struct {
		args string
		env  map[string]string
		code int
		has  string
	}{
		{"version -o tabel", nil, ExitUsage, "table"},
		{"version -o template={{", nil, ExitUsage, "BAD_TEMPLATE"},
		{"version -o template={{.nope.x.y}}", nil, ExitUsage, "BAD_TEMPLATE"},
		{"version -o template={{index}}", nil, ExitUsage, "BAD_TEMPLATE"},
		{"version -o mqadmin", nil, ExitUsage, "no mqadmin layout"},
		{"version --fields versio", nil, ExitUsage, "--fields version"},
		{"version --sort x", nil, ExitUsage, "UNKNOWN_FIELD"},
		{"version -o raw", nil, ExitUsage, "BAD_VALUE"},
		{"version", map[string]string{"MQCTL_OUTPUT": "json"}, ExitOK, ""},
		{"version", map[string]string{"MQCTL_OUTPUT": "nope"}, ExitUsage, "BAD_VALUE"},
		{"completion tcsh", nil, ExitUsage, "bash, zsh, fish and powershell"},
		{"completion", nil, ExitUsage, "ARGUMENT_MISSING"},
		{"schema show nope", nil, ExitNotFound, "SCHEMA_NOT_FOUND"},
	}
	for _, c := range cases {
		code, out, errs := runEnv(c.env, append([]string{"mqctl"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errs, c.has) || code != ExitOK && out != "" {
			t.Errorf("%s %v: exit %d, %q, %q", c.args, c.env, code, out, errs)
		}
	}
	if code, out, _ := runLine("mqctl", "version", "--output", "json"); code != ExitOK || !json.Valid([]byte(out)) {
		t.Errorf("version as JSON: %d, %q", code, out)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"order_consumer", "audit", "report", "orders"}
	if got := nearest("order_consumr", words); len(got) == 0 || got[0] != "order_consumer" {
		t.Errorf("%q", got)
	}
	if got := nearest("zzzzzz", words); len(got) != 0 {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"flushDiskTyp", "flushDiskType", 1}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestLongTables: tables of many rows, which are aligned here, look as tablewriter
// makes them.
func TestLongTables(t *testing.T) {
	cells := []string{"", "a", "12", "主题-2", "é", "한국어", "two words", strings.Repeat("long-", 9), "→", "emoji 🚀", "x\u0301"}
	bold := func(text string) string { return "<" + text + ">" }
	for n := range 40 {
		columns := 1 + n%5
		heads, aligns := make([]string, columns), make([]tw.Align, columns)
		rows := make([][]string, 1+n%7)
		for i := range heads {
			heads[i], aligns[i] = "HEAD "+cells[(n+i)%len(cells)], []tw.Align{tw.AlignLeft, tw.AlignRight}[(n+i)%2]
		}
		for r := range rows {
			for i := range columns {
				rows[r] = append(rows[r], cells[(n*7+r*3+i*5)%len(cells)])
			}
		}
		if n%4 == 0 {
			heads = nil
		}
		want, got := grid(heads, rows, aligns, bold), longGrid(heads, rows, aligns, bold)
		if string(got) != string(want) {
			t.Errorf("%d: got\n%s\nwant\n%s", n, got, want)
		}
	}
	var many [][]string
	for i := range manyRows + 1 {
		many = append(many, []string{fmt.Sprint(i), "x"})
	}
	if text := string(grid([]string{"N", "X"}, many, nil, bold)); strings.Count(text, "\n") != manyRows+2 || !strings.HasPrefix(text, "<N   X>\n0   x\n") {
		t.Errorf("many rows:\n%s", text)
	}
}

// TestNamesOnce: what can be given back as an argument is written once.
func TestNamesOnce(t *testing.T) {
	var out, errs bytes.Buffer
	p := testPrinter(&out, &errs)
	p.format = "name"
	r := sampleResult()
	r.items = append(r.items, r.items...)
	if err := p.print(r); err != nil || out.String() != "orders\n主题-2\n" {
		t.Errorf("%v %q", err, out.String())
	}
}

// TestUnitsByName: a field that no column shows is shown as its name says.
func TestUnitsByName(t *testing.T) {
	var out, errs bytes.Buffer
	p := testPrinter(&out, &errs)
	p.style.terminal = true
	p.view.columns = nil
	p.view.item = unitsItem{}
	for _, c := range []struct{ field, want string }{{"freeBytes", "8.0 KiB"}, {"gapMillis", "2 min"}, {"p99Millis", "0.25"}, {"putPerSecond", "1.5"}, {"usedPercent", "61 %"}, {"storedAt", "34 min"}, {"count", "7"}} {
		item := unitsItem{8192, 120_000, 0.25, 1.5, 61, "2026-11-29T12:00:00.000Z", 7}
		if got := p.style.cell(lookup(item, c.field), p.columnOf(c.field).as); got != c.want {
			t.Errorf("%s: %q, want %q", c.field, got, c.want)
		}
	}
	for ms, want := range map[time.Duration]string{-time.Microsecond: "0 ms", -2 * time.Second: "-2 s"} {
		if got := shortDuration(ms); got != want {
			t.Errorf("%v: %q", ms, got)
		}
	}
}

// TestNumbersToTheRight: whatever is said of a column, numbers stand to the right.
func TestNumbersToTheRight(t *testing.T) {
	var out, errs bytes.Buffer
	p := testPrinter(&out, &errs)
	small, large := unitsItem{Count: 7}, unitsItem{Count: 12345, P99: 0.5}
	p.rows([]column{{head: "COUNT", field: "count"}, {head: "P99", field: "p99Millis"}, {head: "AT", field: "storedAt"}}, []any{small, large})
	if want := "COUNT  P99  AT\n    7    0  -\n12345  0.5  -\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

type unitsItem struct {
	Free  int64   `json:"freeBytes"`
	Gap   int64   `json:"gapMillis"`
	P99   float64 `json:"p99Millis"`
	Rate  float64 `json:"putPerSecond"`
	Used  float64 `json:"usedPercent"`
	At    string  `json:"storedAt"`
	Count int     `json:"count"`
}
