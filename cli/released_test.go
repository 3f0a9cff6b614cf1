package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
)

var freeze = flag.String("freeze", "", "version under which testdata/schemas/released.txt is rewritten: only for a release")

// releasedFile has the members of all schemas as the last release had them: first
// its version, then a line for each member: schema, path, types, values.
var releasedFile = filepath.Join("..", "testdata", "schemas", "released.txt")

// member is one place in the documents of a schema.
type member struct {
	types  []string // string, integer, null, ... or $ref
	values []string // of an enumeration or constant
	must   bool     // always there
}

func (m member) String() string {
	need := "optional"
	if m.must {
		need = "required"
	}
	return strings.Join(m.types, "|") + " " + need + " " + strings.Join(m.values, "|")
}

// membersOf flattens a schema.
func membersOf(s map[string]any, at string, must bool, out map[string]member) {
	m := member{must: must}
	switch t := s["type"].(type) {
	case string:
		m.types = []string{t}
	case []any:
		for _, one := range t {
			m.types = append(m.types, fmt.Sprint(one))
		}
	}
	if ref, ok := s["$ref"].(string); ok {
		m.types = []string{ref}
	}
	if v, ok := s["const"]; ok {
		m.values = []string{fmt.Sprint(v)}
	}
	if list, ok := s["enum"].([]any); ok {
		for _, v := range list {
			m.values = append(m.values, fmt.Sprint(v))
		}
	}
	sort.Strings(m.types)
	sort.Strings(m.values)
	out[at] = m
	required := map[string]bool{}
	if list, ok := s["required"].([]any); ok {
		for _, name := range list {
			required[fmt.Sprint(name)] = true
		}
	}
	if props, ok := s["properties"].(map[string]any); ok {
		for name, p := range props {
			if p, ok := p.(map[string]any); ok {
				membersOf(p, at+"."+name, required[name], out)
			}
		}
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if p, ok := s[inner].(map[string]any); ok {
			membersOf(p, at+"["+inner[:1]+"]", false, out)
		}
	}
}

// broken says what the schemas of now take from programs that were written for
// those of before; what is added takes nothing.
func broken(before, now map[string]map[string]member) []string {
	var out []string
	for _, name := range sortedKeys(before) {
		if now[name] == nil {
			out = append(out, name+" is gone")
			continue
		}
		for _, at := range sortedKeys(before[name]) {
			was, is := before[name][at], now[name][at]
			_, there := now[name][at]
			switch {
			case !there:
				out = append(out, fmt.Sprintf("%s: %s is gone", name, at))
			case !slices.Equal(was.types, is.types):
				out = append(out, fmt.Sprintf("%s: %s was %v and is %v", name, at, was.types, is.types))
			case was.must && !is.must:
				out = append(out, fmt.Sprintf("%s: %s was always there", name, at))
			case len(was.values) == 0 && len(is.values) > 0:
				out = append(out, fmt.Sprintf("%s: %s took any value", name, at))
			}
			for _, v := range was.values {
				if there && len(is.values) > 0 && !slices.Contains(is.values, v) {
					out = append(out, fmt.Sprintf("%s: %s is no more %s", name, at, v))
				}
			}
		}
	}
	return out
}

func membersNow(t *testing.T) map[string]map[string]member {
	t.Helper()
	all := map[string]map[string]member{}
	for _, name := range schemaNames() {
		var s map[string]any
		if err := json.Unmarshal(schemaOf(name), &s); err != nil {
			t.Fatal(err)
		}
		all[name] = map[string]member{}
		membersOf(s, "$", true, all[name])
	}
	return all
}

// TestSchemasOfTheLastRelease: within a version of a schema members are only added.
func TestSchemasOfTheLastRelease(t *testing.T) {
	now := membersNow(t)
	if *freeze != "" {
		text := "version " + *freeze + "\n"
		for _, name := range sortedKeys(now) {
			for _, at := range sortedKeys(now[name]) {
				text += strings.TrimSpace(name+" "+at+" "+now[name][at].String()) + "\n"
			}
		}
		if err := os.WriteFile(releasedFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(releasedFile)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]map[string]member{}
	version := ""
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if i == 0 {
			version = strings.TrimPrefix(line, "version ")
			continue
		}
		w := strings.SplitN(line, " ", 5)
		if len(w) < 4 {
			t.Fatalf("line %d: %q", i+1, line)
		}
		m := member{must: w[3] == "required"}
		if w[2] != "" {
			m.types = strings.Split(w[2], "|")
		}
		if len(w) == 5 {
			m.values = strings.Split(w[4], "|")
		}
		if before[w[0]] == nil {
			before[w[0]] = map[string]member{}
		}
		before[w[0]][w[1]] = m
	}
	if len(before) < 100 {
		t.Fatalf("only %d schemas were frozen", len(before))
	}
	for _, s := range broken(before, now) {
		t.Errorf("since %s: %s; a new meaning needs a new version of the schema", version, s)
	}
}

// TestBrokenSchemas: what the check above finds, and what it lets pass.
func TestBrokenSchemas(t *testing.T) {
	of := func(text string) map[string]map[string]member {
		var s map[string]any
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		out := map[string]member{}
		membersOf(s, "$", true, out)
		return map[string]map[string]member{"x/v1": out}
	}
	before := of(`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":{"enum":["X","Y"]},"c":{"type":"array","items":{"type":"object","properties":{"d":{"type":["string","null"]}}}}}}`)
	cases := map[string]string{
		`{"type":"object","required":["a","e"],"properties":{"a":{"type":"integer"},"b":{"enum":["X","Y","Z"]},"c":{"type":"array","items":{"type":"object","properties":{"d":{"type":["string","null"]}}}},"e":{"type":"string"}}}`: "",
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"enum":["X","Y"]},"c":{"type":"array","items":{"type":"object","properties":{"d":{"type":["string","null"]}}}}}}`:                                "$.a was",
		`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":{"enum":["X"]},"c":{"type":"array","items":{"type":"object","properties":{"d":{"type":["string","null"]}}}}}}`:                                   "$.b is no more Y",
		`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":{"enum":["X","Y"]},"c":{"type":"array","items":{"type":"object","properties":{"f":{"type":["string","null"]}}}}}}`:                               "$.c[i].d is gone",
		`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":{"enum":["X","Y"]},"c":{"type":"array","items":{"type":"object","properties":{"d":{"type":"string"}}}}}}`:                                        "$.c[i].d was",
		`{"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["X","Y"]},"c":{"type":"array","items":{"type":"object","properties":{"d":{"type":["string","null"]}}}}}}`:                                                "$.a was always there",
	}
	for text, want := range cases {
		got := strings.Join(broken(before, of(text)), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s\n got %q, want %q", text, got, want)
		}
	}
}
