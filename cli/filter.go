package cli

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A filter is the expression of --filter:
//
//	expr  = and { "||" and }
//	and   = not { "&&" not }
//	not   = "!" not | "(" expr ")" | field [ op value ]
//	op    = "==" | "=" | "!=" | ">" | ">=" | "<" | "<=" | "~" | "!~"
//	value = word | 'text' | "text"
//
// A field is a JSON name of the item (commitLog.minOffset inside). ~ is a
// regular expression found anywhere. Numbers may have a unit of size or time
// (64MiB, 5s: in the unit of the field, ms for ...Millis). A list fits if one
// of its elements does. What is not known fits no comparison but == null.
// Times may be compared with a time, as RFC 3339 or back from now (-2h), words of an
// enumeration in any case; what a field cannot be compared with is refused.
type filter func(item any) bool

// maxFilter bounds an expression.
const maxFilter = 4096

// maxNesting bounds its parentheses.
const maxNesting = 64

// parseFilter reads an expression over items like sample.
func parseFilter(text string, sample any) (filter, error) {
	return parseFilterOf("--filter", text, sample)
}

// parseFilterOf is parseFilter for the flag that errors name.
func parseFilterOf(flag, text string, sample any) (filter, error) {
	f, err := readFilter(text, sample)
	var m *Message
	if flag == "--filter" || !errors.As(err, &m) {
		return f, err
	}
	m.Text = strings.Replace(m.Text, "--filter", flag, 1)
	for i := range m.Try {
		m.Try[i] = strings.Replace(m.Try[i], "--filter", flag, 1)
	}
	return f, m
}

func readFilter(text string, sample any) (filter, error) {
	if len(text) > maxFilter {
		return nil, usage("BAD_FILTER", "the filter is longer than %d bytes", maxFilter)
	}
	words, err := filterWords(text)
	if err != nil {
		return nil, err
	}
	p := &filterParser{words: words, sample: sample}
	f, err := p.or(0)
	if err != nil {
		return nil, err
	}
	if w := p.peek(); w != "" {
		return nil, usage("BAD_FILTER", "--filter: %q is not expected here", unmark(w)).because("fields are compared with == != > >= < <= ~ !~ and joined with && and ||").try("--filter 'gapBytes>1MiB && role==SLAVE'")
	}
	return f, nil
}

// literal marks a word that stood in quotes, so that it is never an operator.
const literal = "\x00"

func unmark(w string) string { return strings.TrimPrefix(w, literal) }

var filterOps = []string{"&&", "||", "==", "!=", ">=", "<=", "!~", "=", ">", "<", "~", "(", ")", "!"}

// filterWords cuts the expression.
func filterWords(text string) ([]string, error) {
	var out []string
next:
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		if q := text[0]; q == '\'' || q == '"' {
			end := strings.IndexByte(text[1:], q)
			if end < 0 {
				return nil, usage("BAD_FILTER", "--filter: a quote is not closed: %s", text)
			}
			out = append(out, literal+text[1:1+end])
			text = text[end+2:]
			continue
		}
		for _, op := range filterOps {
			if strings.HasPrefix(text, op) {
				out = append(out, op)
				text = text[len(op):]
				continue next
			}
		}
		end := strings.IndexAny(text, " \t\n&|=!<>~()'\"")
		if end < 0 {
			end = len(text)
		}
		if end == 0 {
			return nil, usage("BAD_FILTER", "--filter: %q is not expected here", text[:1]).try("--filter 'gapBytes>1MiB && role==SLAVE'")
		}
		out = append(out, text[:end])
		text = text[end:]
	}
	return out, nil
}

type filterParser struct {
	words  []string
	sample any
}

func (p *filterParser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *filterParser) take() string {
	w := p.peek()
	if w != "" {
		p.words = p.words[1:]
	}
	return w
}

func (p *filterParser) or(depth int) (filter, error) {
	left, err := p.and(depth)
	for err == nil && p.peek() == "||" {
		p.take()
		var right filter
		a := left
		right, err = p.and(depth)
		left = func(item any) bool { return a(item) || right(item) }
	}
	return left, err
}

func (p *filterParser) and(depth int) (filter, error) {
	left, err := p.not(depth)
	for err == nil && p.peek() == "&&" {
		p.take()
		var right filter
		a := left
		right, err = p.not(depth)
		left = func(item any) bool { return a(item) && right(item) }
	}
	return left, err
}

func (p *filterParser) not(depth int) (filter, error) {
	if depth > maxNesting {
		return nil, usage("BAD_FILTER", "--filter: too many parentheses")
	}
	switch w := p.take(); {
	case w == "!":
		f, err := p.not(depth + 1)
		return func(item any) bool { return !f(item) }, err
	case w == "(":
		f, err := p.or(depth + 1)
		if err == nil && p.take() != ")" {
			err = usage("BAD_FILTER", "--filter: a parenthesis is not closed")
		}
		return f, err
	case w == "" || contains(filterOps, w) || strings.HasPrefix(w, literal):
		return nil, usage("BAD_FILTER", "--filter: the name of a field is expected, not %q", unmark(w)).try("--filter 'gapBytes>1MiB && role==SLAVE'")
	default:
		return p.comparison(w)
	}
}

func contains(list []string, w string) bool {
	for _, x := range list {
		if x == w {
			return true
		}
	}
	return false
}

func (p *filterParser) comparison(field string) (filter, error) {
	if err := knownField(field, p.sample, "--filter"); err != nil {
		return nil, err
	}
	op := p.peek()
	switch op {
	case "==", "=", "!=", ">", ">=", "<", "<=", "~", "!~":
		p.take()
	default:
		return func(item any) bool { return truth(lookup(item, field)) }, nil
	}
	raw := p.take()
	value := unmark(raw)
	if raw == "" || !strings.HasPrefix(raw, literal) && contains(filterOps, raw) {
		return nil, usage("BAD_FILTER", "--filter: %s%s needs a value", field, op)
	}
	if op == "~" || op == "!~" {
		re, err := regexp.Compile(value)
		if err != nil {
			return nil, usage("BAD_FILTER", "--filter: %q is no regular expression: %v", value, err)
		}
		return func(item any) bool {
			return matches(lookup(item, field), re) == (op == "~")
		}, nil
	}
	want, err := operandFor(field, value, raw != value, p.sample)
	if err != nil {
		return nil, err
	}
	if !strings.Contains("==!=", op) && want.number == nil && want.text == "null" {
		return nil, usage("BAD_FILTER", "--filter: null has no size")
	}
	return func(item any) bool { return want.fits(lookup(item, field), op, field) }, nil
}

// truth of a field that stands alone: known, and neither false, 0 nor empty.
func truth(v any) bool {
	rv := reflect.ValueOf(v)
	switch {
	case v == nil:
		return false
	case rv.Kind() == reflect.Slice || rv.Kind() == reflect.Map:
		return rv.Len() > 0
	}
	return !rv.IsZero()
}

func matches(v any, re *regexp.Regexp) bool {
	for _, x := range elements(v) {
		if re.MatchString(plain(x)) {
			return true
		}
	}
	return false
}

// elements are those of a list, else the value alone; none if it is unknown.
func elements(v any) []any {
	rv := reflect.ValueOf(v)
	if v == nil {
		return nil
	}
	if rv.Kind() != reflect.Slice {
		return []any{v}
	}
	out := make([]any, rv.Len())
	for i := range out {
		out[i] = deref(rv.Index(i).Interface())
	}
	return out
}

// operand is the right side of a comparison.
type operand struct {
	text   string
	quoted bool
	number *float64
	millis *float64   // of a length of time
	moment *time.Time // of a field that is one
}

func newOperand(value string, quoted bool) operand {
	o := operand{text: value, quoted: quoted}
	if n, err := strconv.ParseFloat(value, 64); err == nil {
		o.number = &n
		return o
	}
	if d, err := parseDuration(value); err == nil && value != "" {
		o.millis = ptr(float64(d.Microseconds()) / 1000)
	}
	if n, err := parseSize(value); err == nil {
		o.number = ptr(float64(n))
	}
	return o
}

func (o operand) fits(v any, op, field string) bool {
	if o.text == "null" && !o.quoted {
		return (v == nil) == (op == "==" || op == "=")
	}
	if op == "!=" {
		return v != nil && !o.any(v, "==", field)
	}
	return o.any(v, op, field)
}

func (o operand) any(v any, op, field string) bool {
	for _, x := range elements(v) {
		if o.one(x, op, field) {
			return true
		}
	}
	return false
}

func (o operand) one(v any, op, field string) bool {
	if v == nil {
		return false
	}
	c := 0
	rv := reflect.ValueOf(v)
	want := o.number
	if o.millis != nil && (strings.HasSuffix(field, "Millis") || want == nil) {
		want = o.millis
	}
	switch isNumber := rv.CanInt() || rv.CanUint() || rv.CanFloat(); {
	case isNumber && want != nil:
		c = compare(number(v), *want)
	case isNumber || rv.Kind() == reflect.Bool && op != "==" && op != "=":
		return false
	default:
		c = o.compareText(plain(v), op)
	}
	switch op {
	case "==", "=":
		return c == 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	}
	panic(fmt.Sprintf("operator %q", op))
}
