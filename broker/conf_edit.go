package broker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// editProperties sets keys in the text of a properties file: the last line that
// sets a key is replaced, a missing key is added at the end, everything else
// stays as it is.
func editProperties(data []byte, values map[string]string) ([]byte, error) {
	old, err := parseProperties(configText(data))
	if err != nil {
		return nil, err
	}
	lines := naturalLines(string(data))
	if len(data) == 0 {
		lines = nil
	}
	todo := maps.Clone(values)
	for _, e := range slices.Backward(old) {
		v, ok := todo[canonical(e.key)]
		if !ok {
			continue
		}
		lines = slices.Replace(lines, e.line-1, e.lastLine, e.key+"="+escapeProperty(v))
		delete(todo, canonical(e.key))
	}
	if n := len(lines); n > 0 && endsInBackslash(lines[n-1]) {
		lines = append(lines, "") // ends the value that would go on
	}
	for _, key := range slices.Sorted(maps.Keys(todo)) {
		lines = append(lines, key+"="+escapeProperty(todo[key]))
	}
	out := joinLines(data, lines)
	return out, verifyEdit(old, out, parseProperties, values)
}

// canonical is the name of the key that an old spelling means.
func canonical(key string) string {
	if k := LookupKey(key); k != nil {
		return k.Name
	}
	return key
}

// settingKey is the key of a setting of a broker or, where those have none of
// that name, of a nameserver.
func settingKey(name string) *Key {
	if k := LookupKey(name); k != nil {
		return k
	}
	return nameserverKeys()[name]
}

func joinLines(data []byte, lines []string) []byte {
	eol := "\n"
	if strings.Contains(string(data), "\r\n") {
		eol = "\r\n"
	}
	return []byte(strings.Join(lines, eol) + eol)
}

// editTOML sets keys in the text of a TOML file: on the line that sets the key
// (its comment stays), else below the header of the key's section if there is
// one, else above all sections.
func editTOML(data []byte, values map[string]string) ([]byte, error) {
	text := configText(data)
	old, err := parseTOML(text)
	if err != nil {
		return nil, err
	}
	lines := naturalLines(text)
	if text == "" {
		lines = nil
	}
	todo := maps.Clone(values)
	for path, line := range tomlLines(text) {
		section, name, dotted := cutLast(path, ".")
		if !dotted {
			section, name = "", path
		}
		key := canonical(tomlKey(section, name))
		v, ok := values[key]
		if !ok || strings.HasPrefix(strings.TrimSpace(lines[line-1]), "[") {
			continue
		}
		left, right, _ := strings.Cut(lines[line-1], "=")
		lines[line-1] = left + "= " + tomlValue(settingKey(key), v) + tomlComment(right)
		delete(todo, key)
	}
	for _, key := range slices.Sorted(maps.Keys(todo)) {
		lines = insertTOML(lines, settingKey(key), todo[key])
	}
	out := joinLines(data, lines)
	return out, verifyEdit(old, out, parseTOML, values)
}

// tomlComment is the comment behind a value, with the blanks before it.
func tomlComment(rest string) string {
	quote := byte(0)
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			return rest[len(strings.TrimRight(rest[:i], " \t")):]
		}
	}
	return ""
}

// tomlValue writes a value in TOML's type for its kind.
func tomlValue(k *Key, v string) string {
	switch k.Kind {
	case Text, Enum:
		return tomlString(v)
	default:
		return v
	}
}

func tomlString(v string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range v {
		if r == '"' || r == '\\' {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	b.WriteByte('"')
	return b.String()
}

func insertTOML(lines []string, k *Key, v string) []string {
	name, prefixed := strings.CutPrefix(k.Name, k.Section+".")
	text := name + " = " + tomlValue(k, v)
	first := len(lines)
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "[") {
			continue
		}
		first = min(first, i)
		if end := strings.IndexByte(line, ']'); end > 0 && cleanPath(line[1:end]) == k.Section {
			return slices.Insert(lines, i+1, text)
		}
	}
	if prefixed {
		return append(lines, "", "["+k.Section+"]", text)
	}
	for first > 0 && strings.HasPrefix(strings.TrimSpace(lines[first-1]), "#") {
		first-- // the comment above a section header belongs to it
	}
	return slices.Insert(lines, first, text)
}

// verifyEdit reads an edited file again: the values asked for must be there,
// and all others must be what they were.
func verifyEdit(old []entry, out []byte, parse func(string) ([]entry, error), values map[string]string) error {
	now, err := parse(configText(out))
	if err != nil {
		return fmt.Errorf("the change would break the file: %w", err)
	}
	want, have := map[string]string{}, map[string]string{}
	for _, e := range old {
		want[canonical(e.key)] = e.value
	}
	for k, v := range values {
		want[k] = v
	}
	for _, e := range now {
		have[canonical(e.key)] = e.value
	}
	if len(out) > maxConfigBytes {
		return errors.New("the file would become larger than " + strconv.Itoa(maxConfigBytes) + " bytes")
	}
	if !maps.Equal(want, have) {
		return errors.New("the file is written in a way that cannot be edited safely")
	}
	return nil
}
