package cli

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// line is a command line that the front door has understood.
type line struct {
	cmd     *command
	noun    string // a noun without a verb: its help is shown
	old     bool   // written with mqadmin's name
	mqadmin bool   // started through a link of that name
	version bool
	notes   []*Message          // warnings of the front door
	values  map[string][]string // by flag key, in canonical form
	args    []string
	topic   []string // words after "help"
	help    bool
}

// argument is one flag as it was met, before its command was known.
type argument struct {
	key, value, spelled string
}

// canonical is the command line that urfave/cli gets: the path, every flag as
// --key=value, then "--" and the arguments. Nothing is left to guess.
func (l *line) canonical() []string {
	out := []string{"mqctl"}
	if l.old {
		out = append(out, l.cmd.old)
	} else {
		out = append(out, strings.Fields(l.cmd.path)...)
	}
	for _, f := range vocabularyOf(l.cmd, l.old).flags {
		for _, v := range l.values[f.key] {
			out = append(out, "--"+f.key+"="+v)
		}
	}
	out = append(out, "--")
	return append(out, l.args...)
}

// name is how the command is written, "" when none is known.
func (l *line) name() string {
	if l == nil || l.cmd == nil {
		return ""
	}
	return l.cmd.name(l.old)
}

// normalise reads a whole command line of either vocabulary. Errors are usage
// errors: nothing has been sent.
func (r *registry) normalise(argv0 string, args []string) (*line, error) {
	l := &line{values: map[string][]string{}}
	name := filepath.Base(argv0)
	l.mqadmin = name == "mqadmin"
	if s := serverScripts[name]; s != nil {
		var err error
		if args, err = s.translate(r, l, args); err != nil {
			return l, err
		}
	}
	p := &parser{r: r, l: l, rest: args, front: vocabularyOf(&command{attrs: mutates}, false)}
	if err := p.command(); err != nil {
		return l, err
	}
	if l.cmd == nil || l.version || l.topic != nil {
		return l, nil
	}
	if err := p.leaf(); err != nil {
		return l, err
	}
	return l, nil
}

// parser walks over one command line.
type parser struct {
	r     *registry
	l     *line
	rest  []string
	front *vocabulary // common flags, before the command is known
	early []argument
	v     *vocabulary // of the command
	seen  map[string]string
}

// command finds the command and collects common flags that stand before it.
func (p *parser) command() error {
	path := ""
	for len(p.rest) > 0 {
		word := p.rest[0]
		if len(word) > 1 && word[0] == '-' {
			if word == "--version" && path == "" {
				p.l.version = true
				return nil
			}
			if err := p.earlyFlag(word); err != nil {
				return err
			}
			continue
		}
		p.rest = p.rest[1:]
		if path == "" && word == "help" {
			p.l.topic = append([]string{}, p.rest...)
			return nil
		}
		next, err := p.step(path, word)
		if err != nil || p.l.cmd != nil {
			return err
		}
		path = next
	}
	p.l.noun = path
	for _, a := range p.early {
		if a.key == "help" {
			p.l.help = true
		}
	}
	return nil
}

// step takes one word of the command's path.
func (p *parser) step(path, word string) (string, error) {
	if path == "" {
		if full, ok := nounAlias[word]; ok {
			word = full
		}
		if c, ok := p.r.byOld[strings.ToLower(word)]; ok && p.r.nouns[word] == nil {
			p.l.cmd, p.l.old = c, true
			return word, nil
		}
	}
	full := strings.TrimSpace(path + " " + word)
	if alias, ok := verbAlias[word]; ok && path != "" && !p.known(full) {
		full = path + " " + alias
	}
	if c := p.r.byPath[full]; c != nil {
		p.l.cmd = c
		return full, nil
	}
	if _, ok := p.r.nouns[full]; ok {
		return full, nil
	}
	return "", p.unknown(path, word)
}

func (p *parser) known(path string) bool {
	_, noun := p.r.nouns[path]
	return noun || p.r.byPath[path] != nil
}

// sameVerb are words that other programs use for our verbs.
var sameVerb = map[string][]string{
	"add": {"create", "set"}, "new": {"create", "add"}, "make": {"create"}, "update": {"set"}, "modify": {"set"}, "edit": {"set"}, "change": {"set"}, "alter": {"set"},
	"remove": {"delete", "rm"}, "rm": {"delete"}, "del": {"delete", "rm"}, "delete": {"rm"}, "drop": {"delete", "rm"},
	"show": {"get", "status", "list", "show"}, "describe": {"get", "status", "show"}, "view": {"get", "status", "show"}, "info": {"status", "get"}, "inspect": {"get", "status"},
	"ls": {"list"}, "all": {"list"}, "topics": {"traffic"}, "stats": {"status"}, "run": {"start"}, "kill": {"stop"},
}

func (p *parser) unknown(path, word string) error {
	if path == "" {
		m := usage("UNKNOWN_COMMAND", "unknown command %q", word)
		for _, path := range p.r.endingIn(word) {
			m.offer("mqctl " + path)
		}
		for _, w := range nearest(word, p.r.words()) {
			m.offer("mqctl " + w)
		}
		if len(m.Try) == 0 {
			m.offer("mqctl help", "mqctl help mqadmin")
		}
		return m
	}
	m := usage("UNKNOWN_COMMAND", "%q is no command of %s", word, path).
		because("there are: %s", strings.Join(p.r.builtVerbs(path), ", "))
	if len(p.r.builtVerbs(path)) == 0 {
		m.reason("nothing of %s is built yet", path)
	}
	verbs := p.r.builtVerbs(path)
	for _, w := range append(nearest(word, verbs), sameVerb[strings.ToLower(word)]...) {
		if line := "mqctl " + path + " " + w; slices.Contains(verbs, w) && !slices.Contains(m.Try, line) {
			m.offer(line)
		}
	}
	if len(m.Try) == 0 {
		m.offer("mqctl help " + path)
	}
	return m
}

// earlyFlag takes a common flag that stands before the command's last word.
func (p *parser) earlyFlag(word string) error {
	o, value, has, err := p.front.find(word)
	if err != nil {
		// Not a common flag: it may belong to the command that follows.
		return usage("UNKNOWN_FLAG", "flag %s stands before the command", word).
			because("only common flags may; those of the command follow it")
	}
	return p.take(p.front, o, value, has, word, func(key, v, spelled string) error {
		p.early = append(p.early, argument{key, v, spelled})
		return nil
	})
}

// leaf reads flags and arguments of the command.
func (p *parser) leaf() error {
	p.v = vocabularyOf(p.l.cmd, p.l.old)
	p.seen = map[string]string{}
	for _, a := range p.early {
		if err := p.set(a.key, a.value, a.spelled); err != nil {
			return err
		}
	}
	for len(p.rest) > 0 {
		word := p.rest[0]
		if word == "--" {
			p.l.args = append(p.l.args, p.rest[1:]...)
			p.rest = nil
			break
		}
		if word == "-" || !strings.HasPrefix(word, "-") || isNumber(word) {
			p.l.args = append(p.l.args, word)
			p.rest = p.rest[1:]
			continue
		}
		if p.namedArgument(word) {
			continue
		}
		o, value, has, err := p.v.find(word)
		if err != nil {
			return p.explain(err, word)
		}
		if err := p.take(p.v, o, value, has, word, p.set); err != nil {
			return err
		}
	}
	if p.l.help || p.asks("examples") || p.asks("schema") {
		return nil
	}
	if err := p.arguments(); err != nil {
		return err
	}
	return p.required()
}

// namedArgument takes --group G where G may also be written alone.
func (p *parser) namedArgument(word string) bool {
	name, value, has := strings.Cut(strings.TrimPrefix(word, "--"), "=")
	if p.l.old || p.l.cmd.named == "" || name != p.l.cmd.named || !strings.HasPrefix(word, "--") {
		return false
	}
	n := 1
	if !has {
		if len(p.rest) < 2 || p.v.looksLikeFlag(p.rest[1]) {
			return false // the usual error names the argument
		}
		value, n = p.rest[1], 2
	}
	p.l.args = append(p.l.args, value)
	p.rest = p.rest[n:]
	return true
}

func (p *parser) asks(key string) bool { return len(p.l.values[key]) > 0 }

// isNumber tells -1 from a flag.
func isNumber(s string) bool {
	if len(s) < 2 || s[1] < '0' || s[1] > '9' {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// take consumes the word, and its value if it has one.
func (p *parser) take(v *vocabulary, o option, value string, has bool, word string,
	set func(key, value, spelled string) error) error {
	f := o.flag
	spelled := v.spelled(f)
	if o.common || has && strings.HasPrefix(word, "--") {
		spelled, _, _ = strings.Cut(word, "=")
	}
	p.rest = p.rest[1:]
	switch {
	case f.absent:
		return usage("NOT_SUPPORTED", "--%s is not supported yet", f.key).because("nothing was sent")
	case o.negate:
		if has {
			return usage("BAD_VALUE", "--no-%s takes no value", f.key).try("--" + f.key + "=" + value)
		}
		return set(f.key, "false", spelled)
	case o.value && !has:
		if len(p.rest) == 0 || p.rest[0] == "--" || v.looksLikeFlag(p.rest[0]) {
			return usage("VALUE_MISSING", "%s needs a value", spelled)
		}
		value, p.rest = p.rest[0], p.rest[1:]
	case o.optional && !has:
		if len(p.rest) > 0 && f.couldBeValue(p.rest[0]) {
			return usage("BAD_VALUE", "--%s takes its value with =", f.key).try("--" + f.key + "=" + p.rest[0])
		}
		value = f.bare
	case !o.value && !o.optional && !has:
		value = "true"
	case has && f.kind == kindBool && v.old && f.bareOld:
		return usage("BAD_VALUE", "%s takes no value in %s", v.spelled(f), v.cmd.old)
	}
	value, err := f.check(value, spelled, v.hint(f))
	if err != nil {
		return err
	}
	return set(f.key, value, spelled)
}

// couldBeValue tells the value of an optional one, written without "=", from an
// argument: urfave would take it for an argument and stop.
func (f *flagSpec) couldBeValue(word string) bool {
	if strings.HasPrefix(word, "-") {
		return false
	}
	if f.of == kindString {
		return strings.Contains(word, ":")
	}
	_, err := f.check(word, "", "")
	return err == nil
}

// set stores a checked value. The same flag twice is only allowed for lists:
// otherwise one of the two values would be lost without a word.
func (p *parser) set(key, value, spelled string) error {
	f := p.flag(key)
	if f == nil {
		return p.misplaced(key, spelled)
	}
	if key == "help" {
		p.l.help = value == "true"
		return nil
	}
	if had := p.l.values[key]; len(had) > 0 && f.kind != kindList {
		if had[0] != value {
			return usage("FLAG_TWICE", "%s was given twice, with %q and %q", spelled, had[0], value)
		}
		return nil
	}
	p.l.values[key] = append(p.l.values[key], value)
	p.seen[key] = spelled
	return nil
}

func (p *parser) flag(key string) *flagSpec {
	for _, f := range p.v.flags {
		if f.key == key {
			return f
		}
	}
	return nil
}
