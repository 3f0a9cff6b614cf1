package cli

import (
	"strings"
)

// setting is one line of a section; an empty value means that it goes.
type setting struct{ key, value string }

// quoted is a text as TOML writes it.
func quoted(v string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range v {
		switch r {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\n':
			b.WriteString(`\n`)
		case '\t':
			b.WriteString(`\t`)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func quotedOrNone(v string) string {
	if v == "" {
		return ""
	}
	return quoted(v)
}

func trueOrNone(v bool) string {
	if v {
		return "true"
	}
	return ""
}

// header is the name of the section that a line opens, "" if it opens none.
func header(line string) string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "[") || strings.HasPrefix(line, "[[") {
		return ""
	}
	end := strings.IndexByte(line, ']')
	if end < 0 {
		return ""
	}
	parts := strings.Split(line[1:end], ".")
	for i := range parts {
		parts[i] = strings.Trim(strings.TrimSpace(parts[i]), `"'`)
	}
	return strings.Join(parts, ".")
}

// keyOf is the key that a line sets, "" if it sets none.
func keyOf(line string) string {
	key, _, ok := strings.Cut(line, "=")
	if !ok || strings.HasPrefix(strings.TrimSpace(line), "#") {
		return ""
	}
	return strings.Trim(strings.TrimSpace(key), `"'`)
}

func textLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// sectionRange is the range of lines below a section's header, up to the next header.
func sectionRange(lines []string, section string) (begin, end int, found bool) {
	for i, line := range lines {
		if header(line) != section || section == "" && i > 0 {
			continue
		}
		if section != "" {
			i++
		}
		end = i
		for end < len(lines) && header(lines[end]) == "" {
			end++
		}
		return i, end, true
	}
	return 0, 0, false
}

// putSection sets lines of a section, which is made at the end if it is not
// there. Comments and settings that are not in the list stay.
func putSection(text, section string, want []setting) string {
	lines := textLines(text)
	begin, end, found := sectionRange(lines, section)
	if !found {
		if len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) != "" {
			lines = append(lines, "")
		}
		lines = append(lines, "["+section+"]")
		begin, end = len(lines), len(lines)
	}
	body := append([]string{}, lines[begin:end]...)
	for _, s := range want {
		body = putLine(body, s)
	}
	out := append(append(append([]string{}, lines[:begin]...), body...), lines[end:]...)
	return strings.Join(out, "\n") + "\n"
}

// putLine sets one line of a section's body, behind its last line with text.
func putLine(body []string, s setting) []string {
	at := 0
	for i, line := range body {
		if keyOf(line) == s.key {
			if s.value == "" {
				return append(append([]string{}, body[:i]...), body[i+1:]...)
			}
			body[i] = s.key + " = " + s.value
			return body
		}
		if strings.TrimSpace(line) != "" {
			at = i + 1
		}
	}
	if s.value == "" {
		return body
	}
	return append(append(append([]string{}, body[:at]...), s.key+" = "+s.value), body[at:]...)
}

// putCurrent sets or removes the line that names the current context.
func putCurrent(text, name string) string {
	lines := textLines(text)
	end := 0
	for end < len(lines) && header(lines[end]) == "" {
		end++
	}
	value := quotedOrNone(name)
	for i := range end {
		if keyOf(lines[i]) == "current" {
			if value == "" {
				lines = append(lines[:i], lines[i+1:]...)
			} else {
				lines[i] = "current = " + value
			}
			return strings.Join(lines, "\n") + "\n"
		}
	}
	if value == "" {
		return text
	}
	out := []string{"current = " + value}
	if len(lines) > 0 && strings.TrimSpace(lines[0]) != "" {
		out = append(out, "")
	}
	return strings.Join(append(out, lines...), "\n") + "\n"
}

// dropSections removes a section and those below it.
func dropSections(text, section string) string {
	var out []string
	skip := false
	for _, line := range textLines(text) {
		if h := header(line); h != "" {
			skip = h == section || strings.HasPrefix(h, section+".")
		}
		if !skip {
			out = append(out, line)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, "\n") + "\n"
}
