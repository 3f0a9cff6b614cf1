package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"mqctl/broker/remoting"
)

// explainItem is what is known of one word: a setting, an error of this program,
// another word of its answers, a request or a response of the protocol, or an exit code.
type explainItem struct {
	Name     string  `json:"name"`
	Kind     string  `json:"kind" enum:"KEY|ERROR|WORD|REQUEST|RESPONSE|EXIT"`
	Code     *int    `json:"code"`
	ExitCode *int    `json:"exitCode"` // that an error ends with
	Text     string  `json:"text"`
	Default  *string `json:"default"`
	Applies  *string `json:"applies"`
	Section  *string `json:"section"`
	Apache   *string `json:"apacheName"`
}

func explainCommand() *command {
	return &command{
		path: "explain", summary: "meaning of a setting, an error, a word of an answer, a request or an exit code", args: "KEY|ERROR|WORD|CODE...", min: 1, max: -1, argFrom: "explain", attrs: local,
		about: "settings (mqctl config keys lists them), error codes, the upper-case words of answers (findings, states, reasons), codes of requests and answers, and exit codes are explained",
		run:   runExplain, schema: "mqctl.explain/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl explain brokerPermission", "mqctl explain 907", "mqctl explain BROKER_UNREACHABLE", "mqctl explain TORN_TAIL"},
		view: view{
			item: explainItem{}, name: func(item any) string { return item.(explainItem).Name }, people: printExplain,
			columns: []column{
				{head: "KIND", field: "kind"}, {head: "NAME", field: "name"}, {head: "CODE", field: "code"}, {head: "EXIT", field: "exitCode"}, {head: "DEFAULT", field: "default"},
				{head: "APPLIES", field: "applies"}, {head: "TEXT", field: "text"}, {head: "SECTION", field: "section", wide: true},
			},
		},
	}
}

// explainView shows settings as sentences on a terminal, and what they mean in a row too.
func explainView(v view) view {
	v.columns = slices.Clone(v.columns)
	for i := range v.columns {
		if v.columns[i].field == "text" {
			v.columns[i].wide = false
		}
	}
	v.people = func(p *printer, r *result) {
		for i, item := range r.items {
			it := item.(configKeyItem)
			if i > 0 {
				p.printf("\n")
			}
			def := "depends on the machine"
			if it.Default != nil {
				def = *it.Default
				if def == "" {
					def = "empty"
				}
			}
			p.printf("%s   %s\n", p.style.cyan(it.Key), it.Text)
			p.printf("  %-12s %s\n  %-12s %s\n  %-12s %s\n  %-12s [%s] of a %s\n", "type", it.Type, "default", def, "applies", strings.ToLower(it.Applies), "section", it.Section, it.Program)
			if len(it.Values) > 0 {
				p.printf("  %-12s %s\n", "one of", strings.Join(it.Values, ", "))
			}
			if len(it.Beans) > 0 {
				p.printf("  %-12s %s\n", "RocketMQ", strings.Join(it.Beans, ", "))
			}
			if it.Env != "" {
				p.printf("  %-12s %s\n", "environment", it.Env)
			}
			p.printf("  %-12s %s\n", "here", classText(it.Class))
		}
	}
	return v
}

// classText says what becomes of a setting of a class.
func classText(class string) string {
	return map[string]string{
		"SAME": "does what it does in RocketMQ", "OURS": "only mqctl has it", "NO_EFFECT": "taken and kept, changes nothing",
		"ABSENT": "of a feature that is not built; possible at its default only", "OLD": "an old spelling", "FOREIGN": "of another program",
	}[class]
}

func printExplain(p *printer, r *result) {
	for _, item := range r.items {
		it := item.(explainItem)
		p.printf("%s   %s\n", p.style.cyan(it.Name), it.Text)
		parts := []string{strings.ToLower(it.Kind)}
		if it.Code != nil {
			parts = append(parts, "code "+strconv.Itoa(*it.Code))
		}
		if it.ExitCode != nil {
			parts = append(parts, "exit "+strconv.Itoa(*it.ExitCode)+" ("+exitNames[*it.ExitCode]+")")
		}
		if it.Default != nil {
			parts = append(parts, "default "+quoted(*it.Default))
		}
		if it.Applies != nil {
			parts = append(parts, "applies "+strings.ToLower(*it.Applies))
		}
		if it.Section != nil {
			parts = append(parts, "section ["+*it.Section+"]")
		}
		p.printf("  %s\n", strings.Join(parts, ", "))
	}
}

func runExplain(_ context.Context, c *call) (*result, error) {
	r := &result{}
	for _, word := range c.args {
		found := meaningsOf(word)
		if len(found) == 0 {
			m := fail(ExitNotFound, "NOT_KNOWN", "nothing is known of %q", word).because("settings, error codes, words of answers, request codes and exit codes are explained")
			for _, n := range nearest(word, explainWords()) {
				m.offer("mqctl explain " + n)
			}
			r.failed(m)
			continue
		}
		r.done++
		for _, it := range found {
			r.add(it)
		}
	}
	return r, nil
}

// meaningsOf is everything that a word means. Numbers are requests, responses and
// exit codes; words are settings, errors, and names of requests and responses.
func meaningsOf(word string) (out []explainItem) {
	if n, err := strconv.Atoi(word); err == nil {
		for _, code := range remoting.RequestCodes() {
			if code == n {
				out = append(out, requestItem(code))
			}
		}
		for _, code := range remoting.ResponseCodes() {
			if code == n {
				out = append(out, responseItem(code))
			}
		}
		if name := exitNames[n]; name != "" {
			out = append(out, explainItem{Name: strconv.Itoa(n), Kind: "EXIT", Code: ptr(n), Text: "Exit code: " + name + "."})
		}
		return out
	}
	for _, k := range keysNamed(word) {
		out = append(out, explainItem{Name: k.Key, Kind: "KEY", Text: k.Text, Default: k.Default, Applies: ptr(k.Applies), Section: ptr(k.Section), Apache: k.Apache})
	}
	upper := strings.ToUpper(word)
	if e := errorCodeOf(upper); e != nil {
		out = append(out, explainItem{Name: e.code, Kind: "ERROR", ExitCode: e.exitCode(), Text: e.text()})
	}
	if text := tableText(wordTexts, upper); text != "" {
		out = append(out, explainItem{Name: upper, Kind: "WORD", Text: text})
	}
	for _, code := range remoting.RequestCodes() {
		if remoting.RequestName(code) == upper {
			out = append(out, requestItem(code))
		}
	}
	for _, code := range remoting.ResponseCodes() {
		if remoting.CodeName(code) == upper {
			out = append(out, responseItem(code))
		}
	}
	return out
}

func requestItem(code int) explainItem {
	name := remoting.RequestName(code)
	return explainItem{Name: name, Kind: "REQUEST", Code: ptr(code), Text: tableText(requestTexts, name)}
}

func responseItem(code int) explainItem {
	name := remoting.CodeName(code)
	return explainItem{Name: name, Kind: "RESPONSE", Code: ptr(code), Text: tableText(responseTexts, name)}
}

// explainWords is what explain knows by name.
func explainWords() []string {
	var out []string
	for _, k := range brokerKeys() {
		out = append(out, k.name)
	}
	for i := range errorCodes {
		out = append(out, errorCodes[i].code)
	}
	for line := range strings.Lines(wordTexts) {
		if word, _, ok := strings.Cut(line, " | "); ok {
			out = append(out, word)
		}
	}
	for _, code := range remoting.RequestCodes() {
		out = append(out, remoting.RequestName(code))
	}
	for _, code := range remoting.ResponseCodes() {
		out = append(out, remoting.CodeName(code))
	}
	return out
}

// errorCode is one stable code of this program's messages. The table is made
// from the source by TestSchemasOfErrorCodes.
type errorCode struct {
	code    string
	exit    int // -1: a warning, or several
	pattern string
}

func errorCodeOf(code string) *errorCode {
	for i := range errorCodes {
		if errorCodes[i].code == code {
			return &errorCodes[i]
		}
	}
	return nil
}

func (e *errorCode) exitCode() *int {
	if e.exit < 0 {
		return nil
	}
	return ptr(e.exit)
}

// text is what the message says, with dots for its values.
func (e *errorCode) text() string {
	if t, _, _ := strings.Cut(tableText(errorTexts, e.code), " | "); t != "" {
		return t
	}
	return "Says: " + e.pattern
}
