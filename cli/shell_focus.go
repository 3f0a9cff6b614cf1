package cli

import (
	"fmt"
	"strings"
)

// withFocus adds what "use" of the shell has chosen to a command line that names
// no broker or group of its own. Commands that destroy something never take it:
// what goes is named.
func withFocus(io Stdio, args []string) []string {
	if io.focus.Broker == "" && io.focus.Group == "" {
		return args
	}
	l, v, plain := focusLine(args[1:])
	if l == nil || l.is(destructive) || l.is(local) || l.is(server) {
		return args
	}
	var added []string
	for _, f := range []struct{ key, value string }{{"broker", io.focus.Broker}, {"group", io.focus.Group}} {
		if f.value == "" {
			continue
		}
		switch {
		case l.argFrom == f.key && !v.old && plain == 0:
			added = append(added, f.value)
		case l.argFrom != f.key && takes(v, f.key) && !names(v, args[1:], f.key, "cluster"):
			added = append(added, v.hint(flagOfKey(v, f.key))+"="+f.value)
		}
	}
	if len(added) == 0 {
		return args
	}
	if l.is(mutates) {
		fmt.Fprintf(io.Err, "note    use: %s\n", strings.Join(added, " "))
	}
	out := append([]string{}, args...)
	for i, a := range out {
		if a == "--" {
			return append(append(append([]string{}, out[:i]...), added...), out[i:]...)
		}
	}
	return append(out, added...)
}

// focusLine finds the command of a line, how its flags are written, and the
// number of its arguments.
func focusLine(words []string) (cmd *command, v *vocabulary, plain int) {
	r := commands()
	v = vocabularyOf(&command{attrs: mutates}, false)
	path, skip := "", false
	for _, w := range words {
		switch {
		case skip:
			skip = false
		case strings.HasPrefix(w, "-") && len(w) > 1 && !isNumber(w):
			o, _, has, err := v.find(w)
			skip = err == nil && o.value && !has
		case cmd != nil:
			plain++
		case path == "" && r.byOld[strings.ToLower(w)] != nil && r.nouns[w] == nil:
			cmd = r.byOld[strings.ToLower(w)]
			v = vocabularyOf(cmd, true)
		default:
			if path == "" {
				if full, ok := nounAlias[w]; ok {
					w = full
				}
			}
			path = strings.TrimSpace(path + " " + w)
			if cmd = r.byPath[path]; cmd != nil {
				v = vocabularyOf(cmd, false)
			}
		}
	}
	return cmd, v, plain
}

func flagOfKey(v *vocabulary, key string) *flagSpec {
	for _, f := range v.flags {
		if f.key == key && !f.absent {
			return f
		}
	}
	return nil
}

// takes reports whether a flag of that name can be written on the line.
func takes(v *vocabulary, key string) bool {
	f := flagOfKey(v, key)
	return f != nil && (f.arg == 0 || v.old)
}

// names reports whether the line gives one of the flags itself.
func names(v *vocabulary, words []string, keys ...string) bool {
	for _, w := range words {
		if w == "--" {
			return false
		}
		if !strings.HasPrefix(w, "-") || len(w) < 2 {
			continue
		}
		o, _, _, err := v.find(w)
		for _, k := range keys {
			if err == nil && o.flag.key == k {
				return true
			}
		}
	}
	return false
}
