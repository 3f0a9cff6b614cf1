package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite testdata/schemas")

// schemaFile is the committed copy of a schema, relative to this folder.
func schemaFile(name string) string {
	return filepath.Join("..", "testdata", "schemas", strings.ReplaceAll(name, "/", ".")+".json")
}

// TestSchemas compares the schemas of the binary with the committed ones: they
// are a contract, and a change must be seen in a diff.
func TestSchemas(t *testing.T) {
	committed := map[string]bool{}
	files, err := filepath.Glob(filepath.Join("..", "testdata", "schemas", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		committed[f] = true
	}
	for _, name := range schemaNames() {
		got := schemaOf(name)
		if *update {
			if err := os.WriteFile(schemaFile(name), got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(schemaFile(name))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s differs from its committed copy (%v); go test ./cli -run TestSchemas -update rewrites it", name, err)
		}
		if !json.Valid(got) {
			t.Errorf("%s is no JSON", name)
		}
		delete(committed, schemaFile(name))
		code, out, _ := runLine("mqctl", "schema", "show", name)
		if code != ExitOK || out != string(got) {
			t.Errorf("schema show %s: exit %d", name, code)
		}
	}
	for f := range committed {
		t.Errorf("%s belongs to no command", f)
	}
}

// valid checks a document against the committed schema that it names.
func valid(doc []byte) error {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(doc, &head); err != nil {
		return err
	}
	schema, err := loadSchema(head.Schema)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		return err
	}
	return check(schema, v, "$")
}

// validLine is valid, and for one line of --output jsonl it checks the element
// against the part of the schema that describes elements.
func validLine(doc []byte) error {
	var m map[string]any
	if err := json.Unmarshal(doc, &m); err != nil {
		return err
	}
	name, _ := m["schema"].(string)
	schema, err := loadSchema(name)
	if err != nil {
		return err
	}
	props, _ := schema["properties"].(map[string]any)
	items, hasItems := props["items"].(map[string]any)
	if _, whole := m["items"]; whole || !hasItems {
		return valid(doc)
	}
	delete(m, "schema")
	return check(items["items"].(map[string]any), m, "$")
}

func loadSchema(name string) (map[string]any, error) {
	b, err := os.ReadFile(schemaFile(name))
	if err != nil {
		return nil, err
	}
	var s map[string]any
	return s, json.Unmarshal(b, &s)
}

// check validates v by the part of JSON Schema 2020-12 that the schemas use. A
// keyword it does not know is an error, so that none is skipped silently.
func check(s map[string]any, v any, at string) error {
	if ref, ok := s["$ref"].(string); ok {
		other, err := loadSchema(ref)
		if err != nil {
			return err
		}
		return check(other, v, at)
	}
	for word, arg := range s {
		var err error
		switch word {
		case "$schema", "$id", "description":
		case "type":
			err = checkType(arg, v)
		case "const":
			if !reflect.DeepEqual(arg, v) {
				err = fmt.Errorf("is %v, must be %v", v, arg)
			}
		case "enum":
			err = checkEnum(arg.([]any), v)
		case "minimum":
			if n, ok := v.(float64); ok && n < arg.(float64) {
				err = fmt.Errorf("is %v, must be at least %v", n, arg)
			}
		case "format":
			if _, terr := time.Parse(time.RFC3339Nano, fmt.Sprint(v)); arg == "date-time" && terr != nil {
				err = terr
			}
		case "required":
			err = checkRequired(arg.([]any), v)
		case "properties":
			err = checkProperties(arg.(map[string]any), v, at)
		case "additionalProperties":
			err = checkAdditional(arg.(map[string]any), v, at)
		case "items":
			err = checkItems(arg.(map[string]any), v, at)
		default:
			err = fmt.Errorf("the keyword %q is not known to this test", word)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

func checkType(arg, v any) error {
	types, ok := arg.([]any)
	if !ok {
		types = []any{arg}
	}
	for _, t := range types {
		if typeFits(t.(string), v) {
			return nil
		}
	}
	return fmt.Errorf("is %T, must be %v", v, arg)
}

func typeFits(t string, v any) bool {
	switch x := v.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case string:
		return t == "string"
	case float64:
		return t == "number" || t == "integer" && x == math.Trunc(x)
	case []any:
		return t == "array"
	case map[string]any:
		return t == "object"
	}
	return false
}

func checkEnum(values []any, v any) error {
	for _, e := range values {
		if reflect.DeepEqual(e, v) {
			return nil
		}
	}
	return fmt.Errorf("is %v, must be one of %v", v, values)
}

func checkRequired(names []any, v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	for _, n := range names {
		if _, there := m[n.(string)]; !there {
			return fmt.Errorf("%v is missing", n)
		}
	}
	return nil
}

func checkProperties(props map[string]any, v any, at string) error {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	for name, x := range m {
		p, known := props[name].(map[string]any)
		if !known {
			return fmt.Errorf("%s is not in the schema", name)
		}
		if err := check(p, x, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func checkAdditional(s map[string]any, v any, at string) error {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	for name, x := range m {
		if err := check(s, x, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func checkItems(s map[string]any, v any, at string) error {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	for i, x := range list {
		if err := check(s, x, fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	return nil
}

// TestValidator: a validator that accepts everything would prove nothing.
func TestValidator(t *testing.T) {
	good := `{"schema":"mqctl.version/v1","generatedAt":"2026-11-29T12:00:00.000Z","context":null,"cluster":null,"complete":true,` +
		`"items":[{"version":"1","commit":null,"builtAt":null,"go":"g","os":"o","arch":"a"}],"warnings":[],"errors":[]}`
	if err := valid([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"complete":true`, `"complete":"yes"`}, {`"go":"g",`, ``}, {`"context":null,`, ``}, {`"os":"o"`, `"os":1`}, {`"os":"o"`, `"os":"o","new":1`},
		{`29T12`, `29 12`}, {`"warnings":[]`, `"warnings":[{"code":1,"message":"x"}]`}, {`mqctl.version/v1`, `mqctl.nope/v1`}, {`"commit":null`, `"commit":7`},
	} {
		if valid([]byte(strings.Replace(good, change[0], change[1], 1))) == nil {
			t.Errorf("%s instead of %s is accepted", change[1], change[0])
		}
	}
}
