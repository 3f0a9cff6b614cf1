package cli

import (
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"mqctl/broker/remoting"
)

// sourceCode is a code and whether only warnings have it.
type sourceCode struct {
	errorCode
	onlyWarns bool
}

// codesInSource collects the codes of all messages that the package makes, with
// their exit codes and what they say.
func codesInSource(t *testing.T) map[string]sourceCode {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	exits := map[string]int{}
	var trees []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "codes_table.go" {
			continue
		}
		tree, err := goparser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, tree)
		ast.Inspect(tree, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Names) != 1 || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Exit") {
				return true
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				if n, err := strconv.Atoi(lit.Value); err == nil {
					exits[v.Names[0].Name] = n
				}
			}
			return true
		})
	}
	out := map[string]sourceCode{}
	note := func(code string, exit int, pattern string, warns bool) {
		had, ok := out[code]
		if !ok {
			out[code] = sourceCode{errorCode{code, exit, pattern}, warns}
			return
		}
		had.onlyWarns = had.onlyWarns && warns
		if had.exit != exit {
			had.exit = -1
		}
		if had.pattern == "" || pattern != "" && pattern < had.pattern {
			had.pattern = pattern
		}
		out[code] = had
	}
	for _, tree := range trees {
		ast.Inspect(tree, func(n ast.Node) bool {
			if a, ok := n.(*ast.AssignStmt); ok { // m.Code, m.ExitCode = "X", Y
				for i, left := range a.Lhs {
					if s, ok := left.(*ast.SelectorExpr); ok && s.Sel.Name == "Code" && i < len(a.Rhs) && literalOf(a.Rhs[i]) != "" {
						note(literalOf(a.Rhs[i]), -1, "", false)
					}
					if id, ok := left.(*ast.Ident); ok && id.Name == "code" && i < len(a.Rhs) && upperWord.MatchString(literalOf(a.Rhs[i])) {
						note(literalOf(a.Rhs[i]), -1, "", false)
					}
				}
			}
			if l, ok := n.(*ast.CompositeLit); ok { // Message{Code: "X"}
				for _, e := range l.Elts {
					kv, ok := e.(*ast.KeyValueExpr)
					if !ok {
						continue
					}
					if id, ok := kv.Key.(*ast.Ident); ok && id.Name == "Code" && upperWord.MatchString(literalOf(kv.Value)) {
						note(literalOf(kv.Value), -1, "", true)
					}
				}
			}
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, ok := c.Fun.(*ast.Ident)
			if !ok {
				return true
			}
			switch {
			case name.Name == "usage" && len(c.Args) >= 2:
				if code, text := literalOf(c.Args[0]), literalOf(c.Args[1]); code != "" {
					note(code, ExitUsage, text, false)
				}
			case name.Name == "fail" && len(c.Args) >= 3:
				exit := -1
				if id, ok := c.Args[0].(*ast.Ident); ok {
					if n, ok := exits[id.Name]; ok {
						exit = n
					}
				}
				if code, text := literalOf(c.Args[1]), literalOf(c.Args[2]); code != "" {
					note(code, exit, text, false)
				}
			case name.Name == "warning" && len(c.Args) >= 3:
				if code, text := literalOf(c.Args[0]), literalOf(c.Args[2]); code != "" {
					note(code, -1, text, true)
				}
			}
			return true
		})
	}
	return out
}

var upperWord = regexp.MustCompile("^[A-Z]+(_[A-Z]+)*$")

// enumTag finds the words of a field that is a state, a reason or the like; those
// that name a sort of thing say themselves what they mean.
var enumTag = regexp.MustCompile("json:\"(action|applies|checked|class|gapSource|method|reason|result|role|severity|source|state|status|via)(?:,omitempty)?\" enum:\"([^\"]*)\"")

// TestExplainKnowsEveryWord: what a newcomer reads in capitals in an answer he can ask for.
func TestExplainKnowsEveryWord(t *testing.T) {
	words := map[string]string{}
	constants := regexp.MustCompile("(?m)^\t\\w+\\s+(?:FindingKind|State) = \"([A-Z_]+)\"|^\tstate\\w+ += \"([A-Z_]+)\"")
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "../store/finding.go", "../replication/replication.go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range constants.FindAllStringSubmatch(string(b), -1) {
			words[m[1]+m[2]] = name
		}
		for _, m := range enumTag.FindAllStringSubmatch(string(b), -1) {
			for w := range strings.SplitSeq(m[2], "|") {
				words[w] = name
			}
		}
	}
	if _, found := codesInSource(t)["LOSS_UNKNOWN"]; !found { // of codes TestSchemasOfErrorCodes takes care
		t.Error("a code that is chosen before the message is made was not found")
	}
	words["LOSS_UNKNOWN"] = "a message"
	if len(words) < 80 || words["TORN_TAIL"] == "" || words["WRONG_MASTER"] == "" || words["BEHIND_LIMIT"] == "" {
		t.Errorf("only %d words were found", len(words))
	}
	for w, where := range words {
		if len(meaningsOf(w)) == 0 {
			t.Errorf("%s: explain does not know %s", where, w)
		}
	}
}

// literalOf is a text literal with dots for its values.
func literalOf(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	for _, verb := range []string{"%q", "%s", "%d", "%v", "%t", "%+v", "%.1f", "%x"} {
		s = strings.ReplaceAll(s, verb, "...")
	}
	return strings.ReplaceAll(s, "%%", "%")
}

// TestSchemasOfErrorCodes: explain knows every code that a message may have. The
// table is made from the source: -update rewrites it.
func TestSchemasOfErrorCodes(t *testing.T) {
	found := codesInSource(t)
	if len(found) < 40 {
		t.Fatalf("only %d codes were found", len(found))
	}
	if *update {
		names := make([]string, 0, len(found))
		for n := range found {
			names = append(names, n)
		}
		sort.Strings(names)
		var b strings.Builder
		b.WriteString("// Code generated by go test ./cli -run TestSchemas -update; DO NOT EDIT.\n\npackage cli\n\n// errorCodes are the codes of this program's messages, with the exit code (-1:\n// a warning, or several) and what one of them says.\nvar errorCodes = []errorCode{\n")
		for _, n := range names {
			fmt.Fprintf(&b, "\t{%q, %d, %q},\n", n, found[n].exit, found[n].pattern)
		}
		b.WriteString("}\n")
		if err := os.WriteFile("codes_table.go", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	var missing []string
	for code := range found {
		if errorCodeOf(code) == nil {
			missing = append(missing, code)
		}
	}
	sort.Strings(missing)
	const tell = "explain does not know %s; go test ./cli -run TestSchemas -update adds them"
	switch {
	case len(missing) > 20: // a few that branches bring at the same time may wait for the next update
		t.Errorf(tell, strings.Join(missing, ", "))
	case len(missing) > 0:
		t.Logf(tell, strings.Join(missing, ", "))
	}
	for line := range strings.Lines(errorTexts) {
		code, _, ok := strings.Cut(line, " | ")
		if ok && errorCodeOf(code) == nil {
			t.Errorf("%s is explained and no message has it", code)
		}
	}
}

// TestEveryErrorAdvises: an error of every code that the source makes says what
// happened, why, and what to try, and what it says to try can be typed.
func TestEveryErrorAdvises(t *testing.T) {
	found := codesInSource(t)
	for code, e := range found {
		if e.onlyWarns {
			continue
		}
		m := fail(ExitFailed, code, "something")
		m.complete(lineByName("group set"))
		if m.Why == "" || len(m.Try) == 0 {
			t.Errorf("%s: advice.go has no row that says why, and what to try: %q", code, m.lines("error"))
		}
		for _, l := range m.Try {
			checkTypeable(t, code, l)
		}
	}
	for place, l := range offersInSource(t) {
		checkTypeable(t, place, l)
	}
}

// checkTypeable fails where a line to paste names a command or flag that there is not.
func checkTypeable(t *testing.T, what, text string) {
	t.Helper()
	if !strings.HasPrefix(text, "mqctl ") {
		return
	}
	l, err := commands().normalise("mqctl", exampleWords(strings.ReplaceAll(text, " ...", "")))
	if l.cmd == nil && l.topic == nil && l.noun == "" && err == nil {
		t.Errorf("%s: %s is no command", what, text)
	}
	if err == nil {
		return
	}
	switch m := asMessage(err); m.Code {
	case "UNKNOWN_COMMAND", "UNKNOWN_FLAG", "STRAY_ARGUMENT", "AMBIGUOUS_FLAG", "CONTRADICTION":
		t.Errorf("%s: %s: %v", what, text, err)
	}
}

// offersInSource are the lines that messages offer, by place. Values that are put
// in stand as X; lines whose command is put in are left out.
func offersInSource(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		tree, err := goparser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := c.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "try" && s.Sel.Name != "offer" {
				return true
			}
			for _, a := range c.Args {
				if text := joinedText(a); strings.HasPrefix(text, "mqctl ") && !strings.HasPrefix(text, "mqctl X") && text != "mqctl -n HOST:9876 X" {
					out[set.Position(a.Pos()).String()] = text
				}
			}
			return true
		})
	}
	if len(out) < 100 {
		t.Fatalf("only %d lines were found", len(out))
	}
	return out
}

// joinedText is a text with X for what is not literal in it.
func joinedText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return s
	case *ast.BinaryExpr:
		return joinedText(e.X) + joinedText(e.Y)
	case *ast.CallExpr:
		if s, ok := e.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sprintf" {
			return strings.NewReplacer("%s", "X", "%d", "1", "%v", "X", "%q", "X").Replace(joinedText(e.Args[0]))
		}
	}
	return "X"
}

// TestExplainEverything: every setting, error, request and response has a text.
func TestExplainEverything(t *testing.T) {
	for _, code := range remoting.RequestCodes() {
		if it := requestItem(code); it.Text == "" {
			t.Errorf("request %d %s has no text", code, it.Name)
		}
	}
	for _, code := range remoting.ResponseCodes() {
		if it := responseItem(code); it.Text == "" {
			t.Errorf("response %d %s has no text", code, it.Name)
		}
	}
	for _, word := range explainWords() {
		found := meaningsOf(word)
		if len(found) == 0 {
			t.Errorf("nothing is known of %s", word)
		}
		for _, it := range found {
			if it.Text == "" {
				t.Errorf("%s %s has no text", it.Kind, it.Name)
			}
		}
	}
}
