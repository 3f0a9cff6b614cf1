package broker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// FileSetting is one setting of a configuration file as lint sees it.
type FileSetting struct {
	Key     string // as written, with the section of ours
	Value   string
	Line    int // from 1; 0 if unknown
	Class   Class
	Problem string // what keeps the file from being used; "" if nothing
	Note    string // what the user may want to know
	Try     string
}

// Lint reads a configuration file of a broker, in either format, and says of
// each setting what becomes of it. program is the kind of file: broker,
// nameserver, controller or container; "" finds it out by the settings.
func Lint(name string, data []byte, program string) (kind string, isTOML bool, out []FileSetting, err error) {
	entries, isTOML, err := readEntries(name, data)
	if err != nil {
		return "", isTOML, nil, err
	}
	if program == "" {
		program = programOf(entries)
	}
	seen := map[string]int{}
	for _, e := range entries {
		s := lintEntry(e, program)
		if first, twice := seen[canonical(e.key)]; twice {
			s.Note = joinNotes(s.Note, fmt.Sprintf("set before in line %d; the last one counts", first))
		}
		seen[canonical(e.key)] = e.line
		out = append(out, s)
	}
	return program, isTOML, out, nil
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// readEntries parses a file by its format.
func readEntries(name string, data []byte) ([]entry, bool, error) {
	if len(data) > maxConfigBytes {
		return nil, false, &ConfigError{File: name, Why: fmt.Sprintf("the file is larger than %d bytes", maxConfigBytes), Try: "is it a configuration?"}
	}
	text := configText(data)
	if strings.ContainsRune(text, 0) {
		return nil, false, &ConfigError{File: name, Why: "the file holds zero bytes", Try: "is it a text file?"}
	}
	isTOML := looksLikeTOML(name, text)
	parse := parseProperties
	if isTOML {
		parse = parseTOML
	}
	entries, err := parse(text)
	var bad *ConfigError
	if errors.As(err, &bad) {
		bad.File = name
	}
	return entries, isTOML, err
}

// programOf finds out whose file it is: the program that has settings here that
// no broker has.
func programOf(entries []entry) string {
	votes := map[string]int{}
	for _, e := range entries {
		found := CatalogOf(e.key)
		if len(found) == 0 || slices.ContainsFunc(found, func(c CatalogEntry) bool { return c.Program == "broker" }) {
			if strings.HasPrefix(e.key, "broker") && len(found) > 0 {
				votes["broker"]++
			}
			continue
		}
		for _, c := range found {
			votes[c.Program]++
		}
	}
	best := "broker"
	for _, p := range []string{"container", "controller", "nameserver"} {
		if votes[p] > votes[best] {
			best = p
		}
	}
	return best
}

// lintEntry judges one setting of a file of one program.
func lintEntry(e entry, program string) FileSetting {
	s := FileSetting{Key: e.key, Value: e.value, Line: e.line, Class: ClassUnknown}
	found := CatalogOf(e.key)
	at := slices.IndexFunc(found, func(c CatalogEntry) bool { return c.Program == program })
	if at < 0 && program != "broker" {
		// Network settings are shared by all programs.
		at = slices.IndexFunc(found, func(c CatalogEntry) bool { return c.Program == "broker" && c.Key.Section == "network" })
	}
	switch {
	case at >= 0:
		s.judge(found[at], e)
	case len(found) > 0:
		s.Class = ClassForeign
		s.Problem = fmt.Sprintf("it is a setting of a %s, and this is the file of a %s", found[0].Program, program)
	default:
		s.Problem = "there is no such setting"
		if near := NearestSetting(e.key); near != "" {
			s.Try = near
		}
	}
	if e.trailing {
		s.Note = joinNotes(s.Note, "the value ends in blanks, which are not part of it")
	}
	return s
}

// judge fills in what the catalog says of a setting and whether its value fits.
func (s *FileSetting) judge(c CatalogEntry, e entry) {
	s.Class = c.Class
	k := c.Key
	if c.Class == ClassOld {
		s.Note, s.Try = "an old spelling of "+c.NewName, c.NewName
		k = LookupKey(c.NewName)
	}
	v, err := k.parseValue(e.value)
	switch {
	case err != nil:
		s.Problem = err.Error()
	case k.Use == Fixed && v != k.Default:
		_, err = k.Check(e.value)
		s.Problem = err.Error()
	case c.Class == ClassForeign && c.Program != "nameserver":
		s.Problem = k.Text
	case k.Use == Ignored && v != k.Default && !k.Computed:
		s.Note = joinNotes(s.Note, "no effect here: "+k.Text)
	}
}

// ToTOML writes a properties file as TOML: comments stay with their settings,
// settings go to their sections, those without effect here to [apache]. Nothing
// is lost: the result is read again and compared.
func ToTOML(name string, data []byte) ([]byte, error) {
	old, isTOML, err := readEntries(name, data)
	if err != nil {
		return nil, err
	}
	if isTOML {
		return data, nil
	}
	head, blocks, tail := commented(naturalLines(configText(data)), old)
	last := map[string]int{}
	for i, e := range old {
		last[canonical(e.key)] = i
	}
	bySection := map[string][]string{}
	for i, e := range old {
		section, line := tomlLine(e)
		if last[canonical(e.key)] != i {
			line = "# set again below: " + line
		}
		bySection[section] = append(append(bySection[section], blocks[i]...), line)
	}
	var out []string
	out = append(out, head...)
	for _, section := range sections {
		if body := bySection[section]; len(body) > 0 {
			if len(out) > 0 {
				out = append(out, "")
			}
			out = append(append(out, "["+section+"]"), body...)
		}
	}
	if len(tail) > 0 {
		out = append(append(out, ""), tail...)
	}
	text := []byte(strings.Join(out, "\n") + "\n")
	return text, sameSettings(old, text, parseTOML)
}

// tomlLine is one setting as TOML with the section it belongs to.
func tomlLine(e entry) (section, line string) {
	k := LookupKey(e.key)
	section, name := "apache", e.key
	if k != nil {
		name = k.Name
		if k.Use == Used || k.Own {
			section = k.Section
			name = strings.TrimPrefix(name, section+".")
		}
	}
	return section, tomlName(name) + " = " + tomlLiteral(k, strings.TrimRight(e.value, " \t"))
}

// tomlName quotes a name that is no bare key.
func tomlName(name string) string {
	for _, r := range name {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return tomlQuote(name)
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

// tomlLiteral writes a value bare where TOML reads the same text back.
func tomlLiteral(k *Key, v string) string {
	if k != nil && (k.Kind == Text || k.Kind == Enum) {
		return tomlQuote(v)
	}
	if v == "true" || v == "false" {
		return v
	}
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && strconv.FormatInt(n, 10) == v {
		return v
	}
	return tomlQuote(v)
}

func tomlQuote(v string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range v {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// commented gives each setting the comment lines above it. The first block of
// comments that an empty line follows belongs to the file, and so does what
// stands below the last setting.
func commented(lines []string, entries []entry) (head []string, blocks [][]string, tail []string) {
	take := func(from, to int) (out []string) {
		for _, l := range lines[from:to] {
			l = strings.TrimSpace(l)
			if l == "" {
				continue
			}
			if l[0] == '!' {
				l = "#" + l[1:]
			}
			if l[0] == '#' {
				out = append(out, l)
			}
		}
		return out
	}
	at := 0
	blocks = make([][]string, len(entries))
	for i, e := range entries {
		begin := max(at, 0)
		end := max(begin, e.line-1)
		if i == 0 {
			split := begin
			for j := begin; j < end; j++ {
				if strings.TrimSpace(lines[j]) == "" && j > begin {
					split = j
				}
			}
			head, begin = take(begin, split), split
		}
		blocks[i] = take(begin, end)
		at = max(at, e.lastLine)
	}
	return head, blocks, take(min(at, len(lines)), len(lines))
}

// ToProperties writes a TOML file as a properties file that RocketMQ reads:
// sizes and times become plain numbers, sections go.
func ToProperties(name string, data []byte) ([]byte, error) {
	old, isTOML, err := readEntries(name, data)
	if err != nil {
		return nil, err
	}
	if !isTOML {
		return data, nil
	}
	lines := naturalLines(configText(data))
	head, blocks, tail := commented(lines, old)
	out := append([]string{}, head...)
	if len(head) > 0 {
		out = append(out, "")
	}
	for i, e := range old {
		out = append(out, blocks[i]...)
		if e.line > 0 && e.line <= len(lines) {
			if _, right, ok := strings.Cut(lines[e.line-1], "="); ok {
				if c := strings.TrimSpace(tomlComment(right)); c != "" {
					out = append(out, c)
				}
			}
		}
		key := canonical(e.key)
		out = append(out, escapeKey(key)+"="+escapeProperty(plainValue(key, e.value)))
	}
	out = append(out, tail...)
	text := []byte(strings.Join(out, "\n") + "\n")
	return text, sameSettings(old, text, parseProperties)
}

// plainValue is a value without units, which RocketMQ does not know.
func plainValue(key, value string) string {
	k := LookupKey(key)
	if k == nil {
		return value
	}
	switch k.Kind {
	case Bytes, Millis, Seconds:
		if v, err := k.parseValue(value); err == nil {
			return v
		}
	default:
	}
	return value
}

// escapeKey writes a key so that parseProperties reads it back.
func escapeKey(key string) string {
	var b strings.Builder
	for i, r := range key {
		if strings.ContainsRune("=: ", r) || i == 0 && (r == '#' || r == '!') {
			b.WriteByte('\\')
			b.WriteRune(r)
			continue
		}
		b.WriteString(escapeProperty(string(r)))
	}
	return b.String()
}

// sameSettings reads a converted file and compares its settings with the old ones.
func sameSettings(old []entry, text []byte, parse func(string) ([]entry, error)) error {
	now, err := parse(configText(text))
	if err != nil {
		return fmt.Errorf("the converted file cannot be read: %w", err)
	}
	if a, b := settingsOf(old), settingsOf(now); !maps.Equal(a, b) {
		for k, v := range a {
			if b[k] != v {
				return &ConfigError{Key: k, Why: fmt.Sprintf("the value %q has no equal form in the other format", HideSecret(k, v))}
			}
		}
		return errors.New("the converted file has other settings")
	}
	return nil
}

// settingsOf is what entries mean: the last value of each key, without units.
func settingsOf(entries []entry) map[string]string {
	out := map[string]string{}
	for _, e := range entries {
		key := canonical(e.key)
		out[key] = plainValue(key, strings.TrimRight(e.value, " \t"))
	}
	return out
}
