package cli

import (
	"encoding/csv"
	"reflect"
	"slices"
	"strings"
)

// printCSV writes the fields of the items that fit into cells; others are named
// on stderr.
func (p *printer) printCSV(r *result) error {
	names := p.fields
	var left []string
	if len(names) == 0 {
		names, left = csvFields(r.items, p.view.item)
	}
	w := csv.NewWriter(p.out)
	if p.headers && len(names) > 0 {
		if p.broken = w.Write(names); p.broken != nil {
			return nil
		}
	}
	for _, item := range r.items {
		row := make([]string, len(names))
		for i, n := range names {
			row[i] = csvCell(lookup(item, n))
		}
		if p.broken = w.Write(row); p.broken != nil {
			return nil
		}
	}
	w.Flush()
	if len(left) > 0 && (p.headers || !p.watching) {
		p.tell("note    csv has no room for nested fields: %s", strings.Join(left, ", "))
	}
	p.broken = w.Error()
	return nil
}

// csvFields are the columns: plain fields, lists of plain values, and those of
// a struct inside with its name in front, as --fields spells them.
func csvFields(items []any, zero any) (names, left []string) {
	sample := zero
	if len(items) > 0 {
		sample = items[0]
	}
	if sample == nil {
		return nil, nil
	}
	names, left = csvNames(reflect.TypeOf(sample), "")
	left = slices.DeleteFunc(left, func(name string) bool { // of what is there at times only, and is not now, nothing is left out
		f, ok := jsonField(elem(reflect.TypeOf(sample)), name)
		return ok && strings.Contains(f.Tag.Get("json"), ",omitempty") && !slices.ContainsFunc(items, func(item any) bool { return lookup(item, name) != nil })
	})
	return names, left
}

func csvNames(t reflect.Type, prefix string) (names, left []string) {
	t = elem(t)
	if t.Kind() != reflect.Struct {
		return nil, nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch inner := elem(f.Type); {
		case f.Anonymous:
			n, l := csvNames(inner, prefix)
			names, left = append(names, n...), append(left, l...)
		case !f.IsExported() || name == "" || name == "-":
		case inner.Kind() == reflect.Struct && prefix == "":
			n, l := csvNames(inner, name+".")
			names, left = append(names, n...), append(left, l...)
		case oneCell(inner):
			names = append(names, prefix+name)
		default:
			left = append(left, prefix+name)
		}
	}
	return names, left
}

func elem(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// oneCell reports whether values of a type fit into a cell.
func oneCell(t reflect.Type) bool {
	plain := func(k reflect.Kind) bool {
		return k != reflect.Slice && k != reflect.Map && k != reflect.Struct && k != reflect.Array && k != reflect.Interface && k != reflect.Pointer
	}
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		return plain(t.Elem().Kind())
	}
	return plain(t.Kind())
}

// csvCell is the text of one cell: lists and maps have semicolons inside.
func csvCell(v any) string {
	if m, ok := v.(map[string]string); ok {
		return strings.Join(pairs(m), ";")
	}
	rv := reflect.ValueOf(v)
	switch {
	case v == nil || flat(v):
		return plain(v)
	case rv.Kind() == reflect.Slice && oneCell(rv.Type()):
		parts := make([]string, rv.Len())
		for i := range parts {
			parts[i] = plain(rv.Index(i).Interface())
		}
		return strings.Join(parts, ";")
	}
	return valueText(v)
}
