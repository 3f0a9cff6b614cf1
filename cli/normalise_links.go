package cli

import (
	"slices"
	"strings"
)

// scriptOption is an option of the scripts that start the original's servers.
type scriptOption struct {
	letter, long string
	value        bool
	flag         string // how broker start or nameserver start spells it; "" if it means nothing there
}

// serverScript is a program of the original that starts a server: what a link of
// its name stands for.
type serverScript struct {
	path    []string
	options []scriptOption
}

const printAll = "--print-config=all"

var serverScripts = map[string]*serverScript{
	"mqbroker": {[]string{"broker", "start"}, []scriptOption{
		{"c", "configFile", true, "--config"}, {"n", "namesrvAddr", true, "--namesrv"},
		{"p", "printConfigItem", false, printAll}, {"m", "printImportantConfig", false, "--print-config=important"},
		{"h", "help", false, "--help"}, {"", "enable-proxy", false, ""}}},
	"mqnamesrv": {[]string{"nameserver", "start"}, []scriptOption{
		{"c", "configFile", true, "--config"}, {"n", "namesrvAddr", true, ""},
		{"p", "printConfigItem", false, printAll}, {"m", "printImportantConfig", false, "--print-config=important"},
		{"h", "help", false, "--help"}}},
}

// translate writes the arguments of the script as those of our command, and leaves
// our own flags as they are.
func (s *serverScript) translate(r *registry, l *line, args []string) ([]string, error) {
	if len(args) == 1 && args[0] == "--version" {
		return args, nil
	}
	v := vocabularyOf(r.byPath[strings.Join(s.path, " ")], false)
	out := append([]string(nil), s.path...)
	print := ""
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if word == "--" {
			out, args = append(append(out, word), args...), nil
			continue
		}
		o, value, has := s.option(v, word)
		if o == nil {
			out = append(out, word)
			continue
		}
		if o.value && !has {
			if len(args) == 0 {
				return out, usage("VALUE_MISSING", "-%s/--%s needs a value", o.letter, o.long)
			}
			value, args = args[0], args[1:]
		}
		switch {
		case o.long == "enable-proxy":
			return out, usage("NOT_SUPPORTED", "--enable-proxy is not supported: there is no proxy").because("nothing was started").try("the same line without --enable-proxy")
		case o.flag == "":
			m := usage("NO_EFFECT", "-%s/--%s %s has no effect: a nameserver registers nowhere", o.letter, o.long, value)
			l.notes = append(l.notes, m.try("--listen ADDR, to say where it listens"))
		case o.value:
			out = append(out, o.flag+"="+value)
		case o.letter == "p" || o.letter == "m": // the scripts look at -p first
			if print != printAll {
				print = o.flag
			}
		default:
			out = append(out, o.flag)
		}
	}
	if print != "" {
		out = slices.Insert(out, len(s.path), print)
	}
	return out, nil
}

// option is the script's option that word is: its letter, with or without its value
// attached, or its name or a beginning of it, after one dash or two. A whole name
// of our own is ours.
func (s *serverScript) option(v *vocabulary, word string) (o *scriptOption, value string, has bool) {
	body, dash := strings.CutPrefix(word, "-")
	if !dash || body == "" {
		return nil, "", false
	}
	name, value, has := strings.Cut(strings.TrimPrefix(body, "-"), "=")
	if _, own := v.long[name]; own && strings.HasPrefix(body, "-") {
		return nil, "", false
	}
	for i := range s.options {
		if body == s.options[i].letter || body == s.options[i].letter+"="+value {
			return &s.options[i], value, has
		}
	}
	var hits []*scriptOption
	for i := range s.options {
		if len(name) > 1 && strings.HasPrefix(s.options[i].long, name) {
			hits = append(hits, &s.options[i])
		}
	}
	if len(hits) == 1 {
		return hits[0], value, has
	}
	for i := range s.options {
		if rest, ok := strings.CutPrefix(body, s.options[i].letter); ok && s.options[i].value && s.options[i].letter != "" {
			return &s.options[i], rest, true
		}
	}
	return nil, "", false
}
