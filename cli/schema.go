package cli

import (
	"encoding/json"
	"reflect"
	"sort"
	"strings"
)

// Schemas of the JSON output are made from the item types, so that they cannot
// say anything else than what is printed. Tags on the fields add what Go's
// types do not know: `enum:"A|B"` and `min:"0"`.

// messageSchema is the shape of warnings and errors.
const messageSchema = "mqctl.message/v1"

// schemaNames lists all schemas.
func schemaNames() []string {
	seen := map[string]bool{messageSchema: true}
	for _, c := range commands().commands {
		for _, form := range c.forms() {
			if form.schema != "" {
				seen[form.schema] = true
			}
		}
	}
	out := make([]string, 0, len(seen))
	for name := range seen {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// schemaOf writes the JSON Schema (2020-12) of that name; nil if there is none.
func schemaOf(name string) []byte {
	if name == messageSchema {
		return writeSchema(name, objectSchema(reflect.TypeFor[Message]()))
	}
	for _, cmd := range commands().commands {
		for _, c := range cmd.forms() {
			if c.schema != name {
				continue
			}
			if c.is(server) {
				return writeSchema(name, objectSchema(reflect.TypeOf(c.view.item)))
			}
			return writeSchema(name, envelopeSchema(c))
		}
	}
	return nil
}

func writeSchema(name string, body picked) []byte {
	all := append(picked{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"$id", name}}, body...)
	b, err := marshalIndent(all)
	if err != nil {
		return nil
	}
	return b
}

// envelopeSchema is the frame of every command's JSON around its item.
func envelopeSchema(c *command) picked {
	required := []string{"schema", "generatedAt", "context", "cluster", "complete", "items", "warnings", "errors"}
	nullable := picked{{"type", []string{"string", "null"}}}
	props := picked{
		{"schema", picked{{"const", c.schema}}},
		{"generatedAt", picked{{"type", "string"}, {"format", "date-time"}}},
		{"context", nullable},
		{"cluster", nullable},
		{"complete", picked{{"type", "boolean"}}},
	}
	if c.is(mutates) {
		props = append(props, field{"dryRun", picked{{"type", "boolean"}}}, field{"applied", picked{{"type", "boolean"}}}, field{"undoId", nullable})
	}
	item := picked{{"type", "object"}}
	if c.view.item != nil {
		item = objectSchema(reflect.TypeOf(c.view.item))
	}
	messages := picked{{"type", "array"}, {"items", picked{{"$ref", messageSchema}}}}
	props = append(props,
		field{"items", picked{{"type", "array"}, {"items", item}}},
		field{"totals", picked{{"type", "object"}}},
		field{"warnings", messages}, field{"errors", messages})
	return picked{{"type", "object"}, {"required", required}, {"properties", props}}
}

// objectSchema describes a struct.
func objectSchema(t reflect.Type) picked {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var props picked
	required := []string{}
	addFields(t, &props, &required)
	return picked{{"type", "object"}, {"required", required}, {"properties", props}}
}

func addFields(t reflect.Type, props *picked, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			addFields(f.Type, props, required)
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "" || name == "-" {
			continue
		}
		if !strings.Contains(opts, "omitempty") {
			*required = append(*required, name)
		}
		*props = append(*props, field{name, typeSchema(f.Type, f.Tag)})
	}
}

// typeSchema describes one value.
func typeSchema(t reflect.Type, tag reflect.StructTag) picked {
	if t == reflect.TypeFor[json.RawMessage]() {
		return picked{} // any value
	}
	null := false
	for t.Kind() == reflect.Pointer {
		t, null = t.Elem(), true
	}
	if e := tag.Get("enum"); e != "" {
		values := []any{}
		for _, v := range strings.Split(e, "|") {
			values = append(values, v)
		}
		if null {
			values = append(values, nil)
		}
		return picked{{"enum", values}}
	}
	var out picked
	kindName := func(n string) any {
		if null {
			return []string{n, "null"}
		}
		return n
	}
	switch t.Kind() {
	case reflect.Bool:
		out = picked{{"type", kindName("boolean")}}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		out = picked{{"type", kindName("integer")}}
		if tag.Get("min") == "0" {
			out = append(out, field{"minimum", 0})
		}
	case reflect.Float32, reflect.Float64:
		out = picked{{"type", kindName("number")}}
	case reflect.String:
		out = picked{{"type", kindName("string")}}
	case reflect.Slice:
		out = picked{{"type", kindName("array")}, {"items", typeSchema(t.Elem(), "")}}
	case reflect.Map:
		out = picked{{"type", kindName("object")}, {"additionalProperties", typeSchema(t.Elem(), "")}}
	case reflect.Struct:
		out = objectSchema(t)
		if null {
			out[0].value = []string{"object", "null"}
		}
	default:
		out = picked{}
	}
	return out
}

// printOwnSchema is --schema.
func printOwnSchema(c *call) int {
	name := c.cmd.schema
	if v := c.cmd.variant; v != nil && v.when(c) {
		name = v.schema
	}
	if c.cmd.schema == "" {
		return printUsage(c.io, usage("NO_SCHEMA", "%s prints no JSON", c.cmd.name(c.old)), c.lineWith)
	}
	if _, err := c.io.Out.Write(schemaOf(name)); err != nil && !quiet(err) {
		return ExitFailed
	}
	return ExitOK
}
