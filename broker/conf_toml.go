package broker

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// sections are the tables a TOML file may have. They only group keys; a key may
// stand in any of them or above all. Keys of the dotted names below
// nameserver.embedded, http and log are written without that prefix there.
var sections = []string{
	"broker", "network", "nameserver", "nameserver.embedded", "store", "flush", "retention", "ha", "read",
	"topics", "transaction", "timer", "limits", "auth", "http", "log", "stats", "pop", "apache",
}

// looksLikeTOML tells the two formats apart by content: sections and quoted
// values are TOML's, bare words as values, "!" comments and continued lines are
// java.util.Properties'. A file that is both (numbers and booleans only) counts
// as what its name says.
func looksLikeTOML(name, text string) bool {
	tomlSigns, otherSigns := 0, 0
	for _, line := range naturalLines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			tomlSigns++
		case line[0] == '!' || endsInBackslash(line):
			otherSigns++
		default:
			switch key, value, ok := strings.Cut(line, "="); {
			case !ok || strings.Contains(key, ":"):
				otherSigns++
			case strings.ContainsAny(strings.TrimSpace(value)+" ", `"'`) && strings.IndexAny(strings.TrimSpace(value), `"'[`) == 0:
				tomlSigns++
			case bareWord(value):
				otherSigns++
			}
		}
	}
	if tomlSigns == otherSigns {
		return strings.HasSuffix(name, ".toml")
	}
	return tomlSigns > otherSigns
}

// bareWord: no TOML value looks like this one.
func bareWord(v string) bool {
	v, _, _ = strings.Cut(v, "#")
	v = strings.TrimSpace(v)
	if v == "true" || v == "false" {
		return false
	}
	_, err := strconv.ParseFloat(strings.ReplaceAll(v, "_", ""), 64)
	return err != nil
}

// parseTOML flattens a TOML file into entries in the order of its lines.
func parseTOML(text string) ([]entry, error) {
	var tree map[string]any
	if _, err := toml.Decode(text, &tree); err != nil {
		var p toml.ParseError
		if errors.As(err, &p) {
			if SecretName(p.LastKey) {
				p.Message = "the value cannot be read" // the text says a part of it
			}
			return nil, &ConfigError{Line: p.Position.Line, Why: p.Message, Try: "put text values in double quotes"}
		}
		return nil, &ConfigError{Why: err.Error()}
	}
	at := tomlLines(text)
	var out []entry
	if err := flattenTOML(tree, "", at, &out); err != nil {
		return nil, err
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].line < out[j].line })
	return out, nil
}

func flattenTOML(tree map[string]any, section string, at map[string]int, out *[]entry) error {
	for name, v := range tree {
		path := joinPath(section, name)
		line := at[path]
		if sub, ok := v.(map[string]any); ok {
			if !isSection(path) && LookupKey(path) == nil && !prefixOfKey(path) {
				return &ConfigError{Line: line, Key: path, Why: fmt.Sprintf("there is no section [%s]", path), Try: didYouMean(nearest(path, sections))}
			}
			if err := flattenTOML(sub, path, at, out); err != nil {
				return err
			}
			continue
		}
		text, err := tomlText(v)
		if err != nil {
			return &ConfigError{Line: line, Key: name, Why: err.Error(), Try: "write a text, a number, true or false"}
		}
		*out = append(*out, entry{key: tomlKey(section, name), value: text, line: line, lastLine: line})
	}
	return nil
}

func joinPath(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}

func isSection(path string) bool {
	for _, s := range sections {
		if s == path {
			return true
		}
	}
	return false
}

func prefixOfKey(path string) bool {
	for _, k := range KnownKeys() {
		if strings.HasPrefix(k.Name, path+".") {
			return true
		}
	}
	return false
}

// tomlKey is the key that name means inside a section.
func tomlKey(section, name string) string {
	if path := joinPath(section, name); keys().byName[path] != nil {
		return path
	}
	return name
}

// tomlText is the text of a scalar, or of a list joined as RocketMQ's lists are.
func tomlText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case []any:
		parts := make([]string, 0, len(v))
		for _, x := range v {
			s, ok := x.(string)
			if !ok {
				return "", errors.New("a list may hold texts only")
			}
			parts = append(parts, s)
		}
		return strings.Join(parts, ";"), nil
	}
	return "", fmt.Errorf("a value of this kind (%T) has no use here", v)
}

// tomlLines finds the line of each "section.key" and of each section. It only
// has to be right for files that toml.Decode took; a key it misses (inside a
// multi-line text, or an inline table) is reported without a line.
func tomlLines(text string) map[string]int {
	at := map[string]int{}
	section := ""
	for i, line := range naturalLines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && !strings.HasPrefix(line, "[[") {
			if end := strings.IndexByte(line, ']'); end > 0 {
				section = cleanPath(line[1:end])
				at[section] = i + 1
			}
			continue
		}
		if key, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			path := joinPath(section, cleanPath(key))
			if at[path] == 0 {
				at[path] = i + 1
			}
		}
	}
	return at
}

// cleanPath takes blanks and quotes off each part of a dotted name.
func cleanPath(p string) string {
	parts := strings.Split(p, ".")
	for i := range parts {
		parts[i] = strings.Trim(strings.TrimSpace(parts[i]), `"'`)
	}
	return strings.Join(parts, ".")
}
