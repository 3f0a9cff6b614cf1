package cli

import (
	"bytes"
	"encoding/json"
	"iter"
	"reflect"
	"strings"
	"time"
)

// result is what a command has found out or done. Every output format is made
// from it.
type result struct {
	cluster    string // "" when it is about no single cluster
	items      []any  // structs of one type, with the JSON names of the schema
	totals     any    // struct, or nil
	change     *change
	warnings   []Message
	errors     []Message
	done       int    // targets that answered or were changed; needed when errors is not empty
	exit       int    // of a command without errors, when it is not 0
	final      *int   // the exit status whatever else happened
	extra      any    // for the command's own text forms
	raw        []byte // printed as it is, instead of anything else
	text       []string
	streamed   bool   // the items were printed as they came
	undoes     string // the id of the change that is taken back
	noted      bool   // the audit file has it
	rolledBack bool   // a failure made the plan take itself back
	empty      string // why there are no items, for people
}

// change is what a command that changes something says about itself.
type change struct {
	DryRun  bool    `json:"dryRun"`
	Applied bool    `json:"applied"`
	UndoID  *string // takes the change back; nil: nothing can
}

func (r *result) add(items ...any) { r.items = append(r.items, items...) }

func (r *result) warn(m Message) { r.warnings = append(r.warnings, m) }

// failed notes that one target did not answer or was not changed.
func (r *result) failed(m *Message) { r.errors = append(r.errors, *m) }

// code is the exit status of the command.
func (r *result) code() int {
	if r.final != nil {
		return *r.final
	}
	if len(r.errors) > 0 {
		return exitOf(r.errors, r.done > 0)
	}
	return r.exit
}

// envelope is the JSON form, with its keys in the order of the contract.
type envelope struct {
	Schema      string    `json:"schema"`
	GeneratedAt string    `json:"generatedAt"`
	Context     *string   `json:"context"`
	Cluster     *string   `json:"cluster"`
	Complete    bool      `json:"complete"`
	DryRun      *bool     `json:"dryRun,omitempty"`
	Applied     *bool     `json:"applied,omitempty"`
	UndoID      *string   `json:"undoId,omitempty"`
	Items       []any     `json:"items"`
	Totals      any       `json:"totals,omitempty"`
	Warnings    []Message `json:"warnings"`
	Errors      []Message `json:"errors"`
}

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// stamp writes a time for JSON.
func stamp(t time.Time) string { return t.UTC().Format(timeLayout) }

// stampMillis writes a time given in ms since 1970; what is not positive is unknown.
func stampMillis(ms int64) *string {
	if ms <= 0 {
		return nil
	}
	s := stamp(time.UnixMilli(ms))
	return &s
}

// ptr is for fields that may be null.
func ptr[T any](v T) *T { return &v }

func (r *result) envelope(schema, context string, now time.Time) envelope {
	e := envelope{
		Schema: schema, GeneratedAt: stamp(now), Complete: len(r.errors) == 0,
		Items: r.items, Totals: r.totals, Warnings: r.warnings, Errors: r.errors,
	}
	if context != "" {
		e.Context = &context
	}
	if r.cluster != "" {
		e.Cluster = &r.cluster
	}
	if r.change != nil {
		e.DryRun, e.Applied, e.UndoID = &r.change.DryRun, &r.change.Applied, r.change.UndoID
	}
	if e.Items == nil {
		e.Items = []any{}
	}
	if e.Warnings == nil {
		e.Warnings = []Message{}
	}
	if e.Errors == nil {
		e.Errors = []Message{}
	}
	return e
}

// marshal writes compact JSON without HTML escapes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// marshalIndent writes JSON for people and programs alike.
func marshalIndent(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// field is one JSON property of an item.
type field struct {
	name  string
	value any
}

// fieldsOf lists the JSON properties of a struct in order.
func fieldsOf(item any) []field {
	var out []field
	for name, v := range properties(reflect.ValueOf(item)) {
		out = append(out, field{name, v.Interface()})
	}
	return out
}

// properties are the JSON properties of a struct in order, as encoding/json
// would write them.
func properties(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) { eachProperty(v, yield) }
}

// eachProperty reports whether yield wants more.
func eachProperty(v reflect.Value, yield func(string, reflect.Value) bool) bool {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return true
	}
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			if !eachProperty(v.Field(i), yield) {
				return false
			}
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "" || name == "-" || strings.Contains(opts, "omitempty") && v.Field(i).IsZero() {
			continue
		}
		if !yield(name, v.Field(i)) {
			return false
		}
	}
	return true
}

// lookup finds a property by its path ("commitLog.minOffset"); nil if absent or null.
func lookup(item any, path string) any {
	if m, ok := item.(map[string]string); ok { // a key may have points in it
		if v, ok := m[path]; ok {
			return v
		}
		return nil
	}
	name, rest, nested := strings.Cut(path, ".")
	for n, v := range properties(reflect.ValueOf(item)) {
		switch {
		case n != name:
		case nested:
			return lookup(v.Interface(), rest)
		default:
			return deref(v.Interface())
		}
	}
	return nil
}

// deref turns a nil pointer into nil and any other pointer into its value.
func deref(v any) any {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer {
		return v
	}
	if rv.IsNil() {
		return nil
	}
	return rv.Elem().Interface()
}

// flat reports whether a value fits into one cell of CSV.
func flat(v any) bool {
	switch reflect.ValueOf(v).Kind() {
	case reflect.Slice, reflect.Map, reflect.Struct, reflect.Array:
		return false
	default:
		return true
	}
}

// picked is an item reduced to some of its fields, in the order asked for.
type picked []field

// MarshalJSON keeps the order.
func (p picked) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		k, err := marshal(f.name)
		if err != nil {
			return nil, err
		}
		v, err := marshal(f.value)
		if err != nil {
			return nil, err
		}
		b.Write(k)
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// jsonNames lists the names of a struct type's JSON properties.
func jsonNames(item any) []string {
	if item == nil {
		return nil
	}
	return typeNames(reflect.TypeOf(item))
}

func typeNames(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			out = append(out, typeNames(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			out = append(out, name)
		}
	}
	return out
}
