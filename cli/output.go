package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"syscall"
	"text/template"
	"time"
)

// column is one column of a command's table.
type column struct {
	head  string // "GAP TIME"; blanks become _ in a pipe
	field string // JSON path in the item
	as    format
	wide  bool // only with --output wide
	fold  int  // on a narrow terminal the highest goes first; 0 stays
	cut   int  // on a terminal, longer text ends in dots; never names
}

// view is how the items of a command are shown as text.
type view struct {
	item    any // a zero item: its fields are what --fields and --sort know
	columns []column
	name    func(item any) string                  // what can be given back as an argument
	old     func(p *printer, r *result)            // mqadmin's layout
	people  func(p *printer, r *result)            // instead of the table, on a terminal
	piped   func(p *printer, r *result)            // instead of the table, in a pipe
	head    func(p *printer, r *result)            // above the table, on a terminal
	foot    func(p *printer, r *result)            // below it
	body    func(item any) []byte                  // --output raw of messages
	outputs map[string]func(p *printer, r *result) // formats of this command alone
}

// printer writes the one result of a command. Nothing is written before the
// command has ended, except by commands that stream.
type printer struct {
	out, err     io.Writer
	style        style // of stdout
	errStyle     style
	format       string // table wide json jsonl csv name template mqadmin
	tmpl         *template.Template
	fields       []string
	sort         string
	reverse      bool
	filter       filter // nil: every item
	limit        int
	silent       bool // no warnings
	textIntegers bool // of JSON
	headers      bool
	schema       string
	context      string // name of the context in use, "" for none
	view         view
	now          time.Time
	pager        string // shows tables on a terminal
	watching     bool   // with --watch: rows in a pipe have a time
	broken       error  // first failed write to stdout
}

// formats are the values of --output.
var formats = []string{"table", "wide", "json", "jsonl", "csv", "name", "template=TEXT", "mqadmin"}

// printf writes to stdout.
func (p *printer) printf(format string, args ...any) { p.write([]byte(fmt.Sprintf(format, args...))) }

// write writes text to stdout. Names, keys and bodies in it come from elsewhere: of control
// characters a terminal sees only line ends, tabs and colours. Tables have no others in
// pipes either; data in a pipe stays as it is.
func (p *printer) write(b []byte) {
	switch p.format {
	case "json", "jsonl":
		if p.style.terminal {
			b = escapeControls(b)
		}
	case "csv", "name", "template":
		if p.style.terminal {
			b = replaceControls(b, p.style.paints())
		}
	default:
		b = replaceControls(b, p.style.paints() && p.format != "mqadmin") // mqadmin has no colours
	}
	p.emit(b)
}

// emit writes bytes to stdout as they are.
func (p *printer) emit(b []byte) {
	if p.broken != nil || len(b) == 0 {
		return
	}
	_, p.broken = p.out.Write(b)
}

// tell writes a line to stderr.
func (p *printer) tell(format string, args ...any) {
	_, _ = p.err.Write(replaceControls([]byte(fmt.Sprintf(format, args...)+"\n"), p.errStyle.paints())) // nobody could be told of a failure
}

// quiet reports whether writing failed only because the reader has gone.
func quiet(err error) bool { return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) }

// print writes r in the chosen format.
func (p *printer) print(r *result) error {
	p.arrange(r)
	switch {
	case r.raw != nil:
		p.emit(r.raw)
	case p.format == "json":
		return p.printJSON(r)
	case p.format == "jsonl":
		return p.printLines(r)
	case p.format == "csv":
		return p.printCSV(r)
	case p.format == "name":
		said := map[string]bool{} // what is given back as an argument is wanted once
		for _, item := range r.items {
			if name := p.view.name(item); !said[name] {
				said[name] = true
				p.printf("%s\n", name)
			}
		}
	case p.view.outputs[p.format] != nil:
		p.view.outputs[p.format](p, r)
	case p.format == "raw":
		for _, item := range r.items {
			p.emit(p.view.body(item))
		}
	case p.format == "template":
		return p.printTemplate(r)
	case p.format == "mqadmin" && r.change != nil && r.change.DryRun:
		p.printTable(r) // mqadmin knows no dry run: its sentences say that something was done
	case p.format == "mqadmin":
		p.view.old(p, r)
	default:
		return p.printPaged(r)
	}
	return nil
}

// printPaged prints the table, through MQCTL_PAGER on a terminal.
func (p *printer) printPaged(r *result) error {
	if p.pager == "" || !p.style.terminal || p.watching {
		p.printTable(r)
		return nil
	}
	var text bytes.Buffer
	out := p.out
	p.out = &text
	p.printTable(r)
	p.out = out
	return p.page(p.pager, text.Bytes())
}

// arrange applies --filter, --sort, --reverse and --limit.
func (p *printer) arrange(r *result) {
	if p.filter != nil {
		r.items = slices.DeleteFunc(slices.Clone(r.items), func(item any) bool { return !p.filter(item) })
	}
	if p.sort != "" {
		sort.SliceStable(r.items, func(i, j int) bool {
			return compare(lookup(r.items[i], p.sort), lookup(r.items[j], p.sort)) < 0
		})
	}
	if p.reverse {
		r.items = slices.Clone(r.items)
		slices.Reverse(r.items)
	}
	if p.limit > 0 && len(r.items) > p.limit {
		r.items = r.items[:p.limit]
	}
}

// pick reduces items to --fields.
func (p *printer) pick(items []any) []any {
	if len(p.fields) == 0 {
		return items
	}
	out := make([]any, len(items))
	for i, item := range items {
		some := make(picked, len(p.fields))
		for j, name := range p.fields {
			some[j] = field{name, lookup(item, name)}
		}
		out[i] = some
	}
	return out
}

func (p *printer) printJSON(r *result) error {
	e := r.envelope(p.schema, p.context, p.now)
	e.Items = p.pick(e.Items)
	b, err := marshalIndent(e)
	if err != nil {
		return err
	}
	if p.textIntegers {
		b = textIntegers(b)
	}
	p.write(b)
	return nil
}

// printLines writes each item with its schema in front, one a line.
func (p *printer) printLines(r *result) error {
	for _, item := range p.pick(r.items) {
		b, err := p.line(item)
		if err != nil {
			return err
		}
		p.write(b)
	}
	return nil
}

func (p *printer) line(item any) ([]byte, error) {
	b, err := marshal(item)
	if err != nil {
		return nil, err
	}
	if p.textIntegers {
		b = textIntegers(b)
	}
	schema, err := marshal(p.schema)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(`{"schema":`)
	out.Write(schema)
	if len(b) > 2 {
		out.WriteByte(',')
	}
	out.Write(b[1:])
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// printTemplate runs the template over the object that JSON would show.
func (p *printer) printTemplate(r *result) error {
	e := r.envelope(p.schema, p.context, p.now)
	b, err := marshal(e)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := p.tmpl.Execute(&out, object); err != nil {
		m := usage("BAD_TEMPLATE", "the template failed: %v", err)
		if r.change != nil && r.change.Applied {
			m.reason("the change itself was made; only its result cannot be shown")
		}
		return m.try("mqctl schema show "+p.schema, "mqctl help output")
	}
	p.write(out.Bytes())
	return nil
}

// messages writes warnings and errors to stderr: labelled lines, or one JSON
// object a line with jsonl.
func (p *printer) messages(r *result) {
	if p.format == "jsonl" {
		for _, m := range r.errors {
			if b, err := marshal(m); err == nil {
				p.tell("%s", escapeControls(b))
			}
		}
	} else {
		rest := r.errors
		if len(rest) > 0 && rest[0].Code == "PARTIAL" {
			sum := rest[0]
			rest = slices.DeleteFunc(slices.Clone(rest), func(m Message) bool { return m.Code != sum.Code && m.said(&sum) })
		}
		for _, m := range alike(rest) {
			p.message(&m, "error")
		}
	}
	if !p.silent {
		for _, m := range alike(r.warnings) {
			p.message(&m, "warning")
		}
	}
}

// message writes one error or warning with its labels.
func (p *printer) message(m *Message, label string) {
	lines := m.lines(label)
	for i, line := range lines {
		text := line
		if i == 0 {
			paint := p.errStyle.red
			if label == "warning" {
				paint = p.errStyle.yellow
			}
			text = paint(line[:len(label)]) + line[len(label):]
		}
		p.tell("%s", text)
	}
}
