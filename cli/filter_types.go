package cli

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// operandFor is what a field is compared with; the error is a value that it cannot have.
func operandFor(field, value string, quoted bool, sample any) (operand, error) {
	o := newOperand(value, quoted)
	t, words, ok := fieldType(sample, field)
	if !ok || value == "null" && !quoted {
		return o, nil
	}
	wrong := func(format string, args ...any) *Message {
		return usage("BAD_FILTER", "--filter: %s "+format, append([]any{field}, args...)...)
	}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch k := t.Kind(); {
	case k >= reflect.Int && k <= reflect.Float64 && o.number == nil && o.millis == nil:
		return o, wrong("is a number, and %q is none", value)
	case k == reflect.Bool && value != "true" && value != "false":
		return o, wrong("is true or false, not %q", value)
	case k == reflect.String && strings.HasSuffix(field, "At"):
		ms, err := parseTime(value, time.Now(), "--filter")
		if err != nil {
			return o, wrong("is a time, and %q is none", value).try("--filter '"+field+">-2h'", "--filter '"+field+"<2026-01-31T10:00'")
		}
		o.moment = ptr(time.UnixMilli(ms))
	case k == reflect.String && len(words) > 0:
		at := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, value) })
		if at < 0 {
			return o, wrong("is one of %s, not %q", strings.Join(words, ", "), value)
		}
		o.text = words[at]
	}
	return o, nil
}

// compareText orders a text before, with or behind the operand: times by the moment,
// and numbers that are written as texts, such as settings, by size.
func (o operand) compareText(v, op string) int {
	if o.moment != nil {
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return at.Compare(*o.moment)
		}
	}
	if n, err := strconv.ParseFloat(v, 64); err == nil && o.number != nil && !o.quoted && op != "==" && op != "=" {
		return cmp.Compare(n, *o.number)
	}
	return strings.Compare(v, o.text)
}

// fieldType is the type of a field by its path, and its words if it is an
// enumeration; false where that is not known.
func fieldType(sample any, path string) (reflect.Type, []string, bool) {
	t := reflect.TypeOf(sample)
	var words []string
	for name := range strings.SplitSeq(path, ".") {
		if t == nil {
			return nil, nil, false
		}
		switch t = elem(t); t.Kind() {
		case reflect.Map:
			return t.Elem(), nil, true // a key may have points in it
		case reflect.Struct:
		default:
			return nil, nil, false
		}
		f, ok := jsonField(t, name)
		if !ok {
			return nil, nil, false
		}
		t, words = f.Type, nil
		if tag := f.Tag.Get("enum"); tag != "" {
			words = strings.Split(tag, "|")
		}
	}
	return t, words, true
}

// jsonField finds a field of a struct by its JSON name.
func jsonField(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if inner := elem(f.Type); f.Anonymous && inner.Kind() == reflect.Struct {
			if found, ok := jsonField(inner, name); ok {
				return found, true
			}
			continue
		}
		if n, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && n == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// knownField refuses the name of a field that items like sample do not have.
func knownField(name string, sample any, flag string) error {
	known := jsonNames(sample)
	first, _, inside := strings.Cut(name, ".")
	if slices.Contains(known, first) {
		t, _, _ := fieldType(sample, first)
		if _, _, ok := fieldType(sample, name); ok || !inside {
			return nil
		}
		known = nil
		for _, k := range typeNames(t) {
			known = append(known, first+"."+k)
		}
		if len(known) == 0 {
			return usage("UNKNOWN_FIELD", "%s: there is no field %q", flag, name).because("%s has none inside", first).try(flag + " " + first)
		}
	}
	m := usage("UNKNOWN_FIELD", "%s: there is no field %q", flag, name).because("there are: %s", strings.Join(known, ", "))
	for _, n := range nearest(name, known) {
		m.offer(flag + " " + n)
	}
	return m
}
