package live

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"mqctl/store/fastjson"
)

// Rest is what a document has that this broker does not know: members that a newer or
// an extended RocketMQ has written. They are written back as they were read. The zero
// Rest has none.
type Rest struct {
	members []byte            // of the document, each led in by a comma
	values  map[string][]byte // of single values, by their names
}

// Unknown picks what is unknown out of a document: all members but dataVersion, field
// and known, and in each value of field the members that V has no field for.
func Unknown[V any](text []byte, field string, known ...string) (rest Rest, err error) {
	if rest.members, err = fastjson.Unknown(text, "\n\t", append(known, "dataVersion", field)...); err != nil {
		return rest, err
	}
	var doc map[string]json.RawMessage
	if err = fastjson.Unmarshal(text, &doc); err != nil || len(doc[field]) == 0 {
		return rest, err
	}
	var values map[string]json.RawMessage
	if err = json.Unmarshal(doc[field], &values); err != nil {
		return rest, err
	}
	rest.values = map[string][]byte{}
	own := memberNames(reflect.TypeFor[V]())
	for name, value := range values {
		// A value that is no object has no members.
		if more, err := fastjson.Unknown(value, "\n\t\t\t", own...); err == nil && len(more) > 0 {
			rest.values[name] = more
		}
	}
	return rest, nil
}

// memberNames are the names that the fields of a struct have in JSON.
func memberNames(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" {
			name = t.Field(i).Name
		}
		names = append(names, name)
	}
	return names
}

// endOfValue ends the lines of a value in the document.
var endOfValue = []byte("\n\t\t}")

// appendValue appends the lines of a value and what is unknown of it.
func (r *Rest) appendValue(dst []byte, name string, lines []byte) []byte {
	more := r.values[name]
	if len(more) == 0 || !bytes.HasSuffix(lines, endOfValue) {
		return append(dst, lines...)
	}
	dst = append(dst, lines[:len(lines)-len(endOfValue)]...)
	return append(append(dst, more...), endOfValue...)
}
