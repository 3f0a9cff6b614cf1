package cli

import (
	"context"
	"path/filepath"
	"strings"
	"time"
)

// completer collects candidates for the last of words.
type completer struct {
	r    *registry
	io   Stdio
	out  strings.Builder
	typ  string // what was typed of the last word
	seen map[string]bool

	patience time.Duration // for the cluster; 0: completionTime
}

// complete answers "mqctl __complete -- WORDS": one candidate a line. It never
// fails: in the middle of typing, silence is the right error.
func complete(ctx context.Context, words []string, io Stdio) int {
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	c := &completer{r: commands(), io: io, seen: map[string]bool{}}
	if len(words) == 0 {
		words = []string{""}
	}
	c.typ = words[len(words)-1]
	c.candidates(ctx, words[:len(words)-1])
	if _, err := io.Out.Write([]byte(c.out.String())); err != nil {
		return ExitOK
	}
	return ExitOK
}

func (c *completer) offer(word, text string) {
	if strings.HasPrefix(word, c.typ) && !c.seen[word] {
		c.seen[word] = true
		c.out.WriteString(describe(word, text))
	}
}

// unfinished is a command line that is being typed, as far as its finished words
// say what it is.
type unfinished struct {
	path    string   // of nouns and verbs
	cmd     *command // nil: not named yet
	old     bool
	v       *vocabulary
	pending *flagSpec // whose value is being typed
	values  map[string][]string
	args    []string
}

// unfinishedLine walks over the finished words as the front door does.
func (r *registry) unfinishedLine(words []string) *unfinished {
	l := &unfinished{v: vocabularyOf(&command{attrs: mutates}, false), values: map[string][]string{}}
	for _, w := range words {
		if l.pending != nil {
			l.values[l.pending.key] = append(l.values[l.pending.key], w)
			l.pending = nil
			continue
		}
		if strings.HasPrefix(w, "-") && len(w) > 1 {
			switch o, value, has, err := l.v.find(w); {
			case err != nil || !o.value:
			case has:
				l.values[o.flag.key] = append(l.values[o.flag.key], value)
			default:
				l.pending = o.flag
			}
			continue
		}
		if l.cmd != nil {
			l.args = append(l.args, w)
			continue
		}
		if l.path == "" && r.byOld[strings.ToLower(w)] != nil && r.nouns[w] == nil {
			l.cmd, l.old = r.byOld[strings.ToLower(w)], true
		} else {
			l.path = nextWord(l.path, w)
			l.cmd = r.byPath[l.path]
		}
		if l.cmd != nil {
			l.v = vocabularyOf(l.cmd, l.old)
		}
	}
	return l
}

// value is what the line says of a flag, or of the argument that stands for it.
func (l *unfinished) value(key string) string {
	if v := l.values[key]; len(v) > 0 {
		return v[0]
	}
	if l.cmd == nil || l.old {
		return ""
	}
	for i := range l.cmd.flags {
		if f := &l.cmd.flags[i]; f.key == key && f.arg > 0 && f.arg <= len(l.args) {
			return l.args[f.arg-1]
		}
	}
	if l.cmd.argFrom == key && len(l.args) > 0 {
		return l.args[0]
	}
	return ""
}

// candidates offers what may follow the finished words.
func (c *completer) candidates(ctx context.Context, words []string) {
	l := c.r.unfinishedLine(words)
	switch {
	case l.pending != nil:
		c.values(ctx, l.pending, l)
	case strings.HasPrefix(c.typ, "-"):
		c.flags(ctx, l)
	case l.cmd == nil:
		c.verbs(l.path)
	case l.cmd.argFrom != "" && !l.old && (l.cmd.max < 0 || len(l.args) < l.cmd.max):
		c.values(ctx, &flagSpec{complete: l.cmd.argFrom}, l)
	}
}

func nextWord(path, word string) string {
	if path == "" {
		if full, ok := nounAlias[word]; ok {
			return full
		}
		return word
	}
	return path + " " + word
}

// verbs offers the next word of a path: nouns, verbs, and mqadmin's names when
// what was typed is the beginning of no noun.
func (c *completer) verbs(path string) {
	for _, w := range c.r.nouns[path] {
		full := strings.TrimSpace(path + " " + w)
		text := ""
		if cmd := c.r.byPath[full]; cmd != nil {
			text = cmd.summary
		} else if !c.r.built(full) {
			continue
		}
		c.offer(w, text)
	}
	if path != "" || c.out.Len() > 0 && c.typ == "" || c.out.Len() > 0 {
		return
	}
	for _, name := range c.r.oldNames {
		if cmd := c.r.byOld[strings.ToLower(name)]; strings.HasPrefix(strings.ToLower(name), strings.ToLower(c.typ)) {
			c.out.WriteString(describe(name, cmd.summary))
		}
	}
}

// built reports whether anything below a noun works.
func (r *registry) built(noun string) bool {
	for _, c := range r.commands {
		if strings.HasPrefix(c.path, noun+" ") {
			return true
		}
	}
	return false
}

// flags offers flags, and the values of one that is written with "=".
func (c *completer) flags(ctx context.Context, l *unfinished) {
	v := l.v
	if name, typed, has := strings.Cut(c.typ, "="); has {
		if o, _, _, err := v.find(c.typ); err == nil {
			c.behind(name+"=", typed, func(inner *completer) { inner.values(ctx, o.flag, l) })
		}
		return
	}
	for _, name := range v.names {
		if f := v.long[name]; !f.flag.absent {
			c.offer("--"+name, f.flag.help)
		}
	}
	if v.old && len(c.typ) <= 2 {
		for letter, o := range v.short {
			c.offer("-"+letter, o.flag.help)
		}
	}
}

// behind offers what offer does for the rest of a word that begins with prefix.
func (c *completer) behind(prefix, typed string, offer func(inner *completer)) {
	inner := &completer{r: c.r, io: c.io, typ: typed, seen: map[string]bool{}, patience: c.patience}
	offer(inner)
	for line := range strings.Lines(inner.out.String()) {
		c.out.WriteString(prefix + line)
	}
}

// values offers what a flag or an argument may be.
func (c *completer) values(ctx context.Context, f *flagSpec, l *unfinished) {
	for _, e := range f.enum {
		c.offer(e, "")
	}
	switch {
	case f.key == "output":
		for _, name := range formats {
			c.offer(strings.TrimSuffix(name, "TEXT"), "")
		}
	case f.kind == kindBool:
		c.offer("true", "")
		c.offer("false", "")
	case f.complete == "key":
		c.keys()
	case f.complete == "shell":
		for _, s := range []string{"bash", "zsh", "fish", "powershell"} {
			c.offer(s, "")
		}
	case f.complete == "cheat":
		for i := range cheats {
			c.offer(cheats[i].name, cheats[i].title)
		}
	case f.complete == "schema":
		for _, n := range schemaNames() {
			c.offer(n, "")
		}
	case f.complete == "explain":
		for _, w := range explainWords() {
			c.offer(w, "")
		}
	case f.complete == "context":
		if file, err := loadClientFile(c.io.Env); err == nil {
			for _, n := range file.names() {
				c.offer(n, strings.Join(file.Contexts[n].Namesrv, ","))
			}
		}
	case f.complete == "local":
		c.localNames()
	case f.complete != "" && f.complete != "file":
		c.live(ctx, f.complete, l)
	}
}

// keys offers the settings of brokers, and behind "=" the values of one that has
// few.
func (c *completer) keys() {
	name, typed, has := strings.Cut(c.typ, "=")
	if !has {
		for _, k := range brokerKeys() {
			c.offer(k.name, k.text)
		}
		return
	}
	c.behind(name+"=", typed, func(inner *completer) {
		for _, value := range keyValues(name) {
			inner.offer(value, "")
		}
	})
}

// localNames are the brokers of this machine, by their notes.
func (c *completer) localNames() {
	notes, err := filepath.Glob(filepath.Join(stateDir(c.io.Env), "run", "broker-*.json"))
	if err != nil {
		return
	}
	for _, path := range notes {
		var l localBroker
		if readNote(path, &l) == nil {
			c.offer(l.name(), l.StoreDir)
		}
	}
}
