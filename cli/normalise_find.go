package cli

import (
	"sort"
	"strings"
)

// find resolves one word that starts with "-": the forms of commons-cli and of
// Go. An exact own name beats an exact common name, and both beat the beginning
// of an own name.
func (v *vocabulary) find(word string) (o option, value string, has bool, err error) {
	if name, ok := strings.CutPrefix(word, "--"); ok {
		name, value, has = strings.Cut(name, "=")
		o, err = v.findLong(name, word)
		return o, value, has, err
	}
	body := word[1:]
	name, value, has := strings.Cut(body, "=")
	if o, ok := v.short[name]; ok {
		return o, value, has, nil
	}
	if len(name) > 1 {
		if o, err := v.findLong(name, word); err == nil {
			return o, value, has, nil
		}
	}
	return v.attached(word, body)
}

// attached reads a value glued to its letter (-n127.0.0.1:9876). The longest
// letter sequence that is a flag wins, so -mf never splits into -m and -f.
func (v *vocabulary) attached(word, body string) (option, string, bool, error) {
	for n := min(len(body)-1, 2); n >= 1; n-- {
		if o, ok := v.short[body[:n]]; ok && o.value {
			return o, body[n:], true, nil
		}
	}
	return option{}, "", false, &unknownFlag{word: word}
}

// unknownFlag is a word that no flag of the command matches, or several do.
type unknownFlag struct {
	word      string
	ambiguous []string
}

func (u *unknownFlag) Error() string { return "unknown flag " + u.word }

func (v *vocabulary) findLong(name, word string) (option, error) {
	if o, ok := v.long[name]; ok {
		return o, nil
	}
	if name == "" {
		return option{}, &unknownFlag{word: word}
	}
	for _, common := range []bool{false, true} {
		if common && v.old {
			break // common flags of camel-case commands: whole names only
		}
		hits := map[*flagSpec]option{}
		var names []string
		for _, long := range v.names {
			// Flags that are not built stand for nothing but their whole names.
			o := v.long[long]
			ours := o.common && (!v.old || long != o.flag.long) // -n and -h are mqadmin's own too
			if ours == common && !o.flag.absent && strings.HasPrefix(long, name) {
				if _, had := hits[o.flag]; !had {
					names = append(names, "--"+long)
				}
				hits[o.flag] = o
			}
		}
		if len(hits) == 1 {
			for _, o := range hits {
				return o, nil
			}
		}
		if len(hits) > 1 {
			sort.Strings(names)
			return option{}, &unknownFlag{word: word, ambiguous: names}
		}
	}
	return option{}, &unknownFlag{word: word}
}

// builtNames are the long names of the flags that work, for suggestions.
func (v *vocabulary) builtNames() []string {
	var out []string
	for _, n := range v.names {
		if !v.long[n].flag.absent {
			out = append(out, n)
		}
	}
	return out
}

// looksLikeFlag tells a forgotten value from a value that starts with "-".
func (v *vocabulary) looksLikeFlag(word string) bool {
	if len(word) < 2 || word[0] != '-' || isNumber(word) {
		return false
	}
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	if _, ok := v.long[name]; ok {
		return true
	}
	_, ok := v.short[name]
	return ok && !strings.HasPrefix(word, "--")
}

// explain says why a flag was not understood: it may belong to another command.
func (p *parser) explain(err error, word string) error {
	u, ok := err.(*unknownFlag) //nolint:errorlint // made by find, never wrapped
	if !ok {
		return err
	}
	spelled, _, _ := strings.Cut(word, "=")
	cmd := p.l.cmd.name(p.l.old)
	if u.ambiguous != nil {
		return usage("AMBIGUOUS_FLAG", "%s may mean %s", spelled, strings.Join(u.ambiguous, " or "))
	}
	m := usage("UNKNOWN_FLAG", "%s has no flag %s", cmd, spelled)
	name := strings.TrimLeft(spelled, "-")
	for i := range p.l.cmd.flags {
		if f := &p.l.cmd.flags[i]; f.arg > 0 && !p.l.old && (f.key == name || f.long == name) {
			return m.because("it is an argument of %s", cmd).try("mqctl " + cmd + " " + p.l.cmd.args)
		}
	}
	if f := twinFlag(p.l.cmd, name); f != nil && !p.l.old {
		return m.because("%s belongs to %s", spelled, p.l.cmd.old).try(p.v.hint(f))
	}
	if name == "broker" || name == "cluster" {
		return p.chosenNothing(m, name)
	}
	if near := nearest(name, p.v.builtNames()); len(near) > 0 {
		for _, n := range near[:min(len(near), 3)] {
			m.offer("--" + n)
		}
		return m
	}
	if other := p.r.owner(name, p.l.cmd, p.l.old); other != "" {
		m.reason("%s belongs to %s", spelled, other)
	}
	return m.try("mqctl " + cmd + " --help")
}

// twinFlag is the modern flag that a command's mqadmin name spells so.
func twinFlag(cmd *command, name string) *flagSpec {
	if cmd.old == "" {
		return nil
	}
	for i := range cmd.flags {
		f := &cmd.flags[i]
		if (f.short == name || f.long == name) && !f.oldOnly && !f.absent && f.arg == 0 {
			return f
		}
	}
	return nil
}

// owner finds another command that has a flag of that name.
func (r *registry) owner(name string, not *command, old bool) string {
	for _, c := range r.commands {
		if c == not || c.name(old) == "" {
			continue
		}
		for _, f := range c.flags {
			if f.absent {
				continue
			}
			if old && (f.long == name || f.short == name) || !old && f.key == name && !f.oldOnly && f.arg == 0 {
				return c.name(old)
			}
		}
	}
	return ""
}

// misplaced is a common flag that this command does not take.
func (p *parser) misplaced(key, spelled string) error {
	cmd := p.l.cmd.name(p.l.old)
	for i := range commonFlags {
		f := &commonFlags[i]
		if f.key == key && f.mutating {
			return usage("UNKNOWN_FLAG", "%s has no flag %s", cmd, spelled).
				because("it belongs to commands that change something")
		}
	}
	m := usage("UNKNOWN_FLAG", "%s has no flag %s", cmd, spelled)
	if key == "broker" || key == "cluster" {
		return p.chosenNothing(m, key)
	}
	return m.try("mqctl " + cmd + " --help")
}

// chosenNothing says why a command does not take --broker or --cluster.
func (p *parser) chosenNothing(m *Message, key string) *Message {
	c := p.l.cmd
	cmd := c.name(p.l.old)
	switch {
	case c.is(local):
		m.reason("it asks no broker")
	case key == "cluster":
		m.reason("it asks nameservers, not one cluster; nothing was sent")
	case c.argFrom == "broker":
		return m.because("the broker is its argument; nothing was sent").try("mqctl " + cmd + " " + c.args)
	default:
		m.reason("it asks nameservers or controllers, not one broker; nothing was sent")
	}
	return m.try("mqctl " + cmd + " --help")
}

// arguments checks what stands outside of flags and, for a camel-case command,
// moves the options that are arguments of the modern form to their places.
func (p *parser) arguments() error {
	c, l := p.l.cmd, p.l
	name := c.name(l.old)
	if l.old {
		if len(l.args) > 0 {
			return p.stray(l.args[0])
		}
		for i := range c.flags {
			f := &c.flags[i]
			if f.arg == 0 || len(l.values[f.key]) == 0 {
				continue
			}
			for len(l.args) < f.arg {
				l.args = append(l.args, "")
			}
			l.args[f.arg-1] = l.values[f.key][0]
			delete(l.values, f.key)
		}
		return nil
	}
	switch {
	case len(l.args) < c.min:
		m := usage("ARGUMENT_MISSING", "%s needs %s", name, c.args)
		if c.about != "" {
			m.reason("%s", c.about)
			m.offer(c.examples...)
		} else {
			m.offer("mqctl " + name + " " + c.args)
		}
		return m.lacksArgument(c, len(l.args), l.values)
	case c.max == 0 && len(l.args) > 0:
		return p.flagFor(usage("STRAY_ARGUMENT", "%q is not expected here; %s takes no arguments", l.args[0], name), l.args[0])
	case c.max > 0 && len(l.args) > c.max:
		return p.flagFor(usage("STRAY_ARGUMENT", "%q is not expected here; %s takes %s", l.args[c.max], name, c.args), l.args[c.max])
	}
	for _, a := range l.args {
		if a == "" {
			return usage("BAD_VALUE", "an argument of %s is empty", name)
		}
	}
	return nil
}

// flagFor offers what a word too many is probably meant for: the one thing of a
// list, the body of a message, or the topic or group that the command takes as a flag.
func (p *parser) flagFor(m *Message, word string) *Message {
	l := p.l
	m.reason("nothing was sent")
	if l.old {
		return m
	}
	noun, listed := strings.CutSuffix(l.cmd.path, " list")
	line := "mqctl " + l.cmd.path
	for _, a := range l.args[:l.cmd.max] {
		line += " " + shellWord(a)
	}
	for _, key := range []string{"body", "topic", "group"} {
		if f := flagOfKey(p.v, key); f != nil && f.arg == 0 && len(l.values[key]) == 0 && !listed {
			m.offer(line + " --" + key + " " + shellWord(word))
			break
		}
	}
	if one := p.r.byPath[noun+" get"]; listed && one != nil && one.argFrom == noun {
		m.offer("mqctl " + one.path + " " + shellWord(word))
	}
	m.offer("mqctl " + l.cmd.path + " --help")
	return m
}

// stray explains an argument after a camel-case command. Often it is the value
// of a flag that takes none.
func (p *parser) stray(word string) error {
	m := usage("STRAY_ARGUMENT", "%q is not expected here", word)
	if _, isBool := parseBool(word); isBool {
		for _, f := range p.v.flags {
			if f.bareOld && len(p.l.values[f.key]) > 0 {
				m.Text += "; " + p.v.hint(f) + " takes no value in " + p.l.cmd.old
				return m
			}
		}
	}
	return m.because("%s takes no arguments", p.l.cmd.old)
}

// required checks the options that mqadmin demands.
func (p *parser) required() error {
	if !p.l.old {
		return nil
	}
	c := p.l.cmd
	for i := range c.flags {
		f := &c.flags[i]
		if !f.required || len(p.l.values[f.key]) > 0 {
			continue
		}
		if f.arg > 0 && len(p.l.args) >= f.arg && p.l.args[f.arg-1] != "" {
			continue
		}
		return usage("FLAG_MISSING", "%s needs %s", c.old, p.v.spelled(f)).try("mqctl "+c.old+" --help").lacks(c, true, f, p.l.values)
	}
	return p.oneTarget()
}

// oneTarget refuses two targets where mqadmin takes one, and wherever something
// would change at another place than one of the two says.
func (p *parser) oneTarget() error {
	c := p.l.cmd
	var given []*flagSpec
	for i := range c.flags {
		f := &c.flags[i]
		target := f.key == "cluster" || f.key == "broker"
		if len(p.l.values[f.key]) > 0 && f.short != "" && (f.oneOf || target && c.is(mutates)) {
			given = append(given, f)
		}
	}
	if len(given) < 2 {
		return nil
	}
	return usage("CONTRADICTION", "%s takes one of %s and %s, not both", c.old, p.v.spelled(given[1]), p.v.spelled(given[0]))
}
