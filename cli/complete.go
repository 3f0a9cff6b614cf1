package cli

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// completionTime bounds how long completion asks the cluster.
const completionTime = 300 * time.Millisecond

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

// candidates walks over the finished words as the front door does.
func (c *completer) candidates(ctx context.Context, words []string) {
	path, cmd, old := "", (*command)(nil), false
	v := vocabularyOf(&command{attrs: mutates}, false)
	var pending *flagSpec
	for _, w := range words {
		if pending != nil {
			pending = nil
			continue
		}
		if strings.HasPrefix(w, "-") && len(w) > 1 {
			if o, _, has, err := v.find(w); err == nil && o.value && !has {
				pending = o.flag
			}
			continue
		}
		if cmd != nil {
			continue
		}
		if path == "" && c.r.byOld[strings.ToLower(w)] != nil && c.r.nouns[w] == nil {
			cmd, old = c.r.byOld[strings.ToLower(w)], true
		} else {
			path = c.next(path, w)
			cmd = c.r.byPath[path]
		}
		if cmd != nil {
			v = vocabularyOf(cmd, old)
		}
	}
	switch {
	case pending != nil:
		c.values(ctx, pending, words, v)
	case strings.HasPrefix(c.typ, "-"):
		c.flags(ctx, v, words)
	case cmd == nil:
		c.verbs(path)
	case cmd.argFrom != "" && !old:
		c.values(ctx, &flagSpec{complete: cmd.argFrom}, words, v)
	}
}

func (c *completer) next(path, word string) string {
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
func (c *completer) flags(ctx context.Context, v *vocabulary, words []string) {
	if name, _, has := strings.Cut(c.typ, "="); has {
		o, _, _, err := v.find(c.typ)
		if err != nil {
			return
		}
		typed := c.typ
		_, c.typ, _ = strings.Cut(typed, "=")
		inner := &completer{r: c.r, io: c.io, typ: c.typ, seen: map[string]bool{}}
		inner.values(ctx, o.flag, words, v)
		for line := range strings.Lines(inner.out.String()) {
			c.out.WriteString(name + "=" + line)
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

// values offers what a flag or an argument may be.
func (c *completer) values(ctx context.Context, f *flagSpec, words []string, v *vocabulary) {
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
		for _, k := range brokerKeys() {
			c.offer(k.name, k.text)
		}
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
		c.live(ctx, f.complete, words, v)
	}
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

// live offers names of the cluster: what a shell still knows, else what the
// cluster says within a short time, else what the shell knew before.
func (c *completer) live(ctx context.Context, what string, words []string, v *vocabulary) {
	s := c.io.session
	if s == nil {
		c.ask(ctx, what, words, v)
		return
	}
	key := what + " " + strings.Join(c.namesrv(words, v), ",")
	if strings.HasPrefix(c.typ, "%") {
		key += " %"
	}
	known, fresh := s.known(key, what)
	if !fresh {
		all := &completer{r: c.r, io: c.io, seen: map[string]bool{}, patience: c.patience}
		if strings.HasPrefix(c.typ, "%") {
			all.typ = "%"
		}
		all.ask(ctx, what, words, v)
		if all.out.Len() > 0 {
			known = s.learn(key, all.out.String())
		}
	}
	for _, w := range known {
		c.offer(w[0], w[1])
	}
}

// ask asks the cluster, for a short time.
func (c *completer) ask(ctx context.Context, what string, words []string, v *vocabulary) {
	patience := c.patience
	if patience == 0 {
		patience = completionTime
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	addrs, err := addresses(c.namesrv(words, v))
	if err != nil {
		return
	}
	client := admin.New(admin.Options{Nameservers: addrs, Timeout: patience, Retries: -1})
	defer client.Close()
	if what == "topic" {
		names, err := client.Topics(ctx)
		if err != nil {
			return
		}
		own := map[string]bool{} // brokers make topics of these names
		if view, err := client.Cluster(ctx); err == nil {
			for _, t := range mustReplicas(view) {
				own[t.Broker], own[t.Cluster] = true, true
			}
		}
		for _, n := range names {
			if strings.HasPrefix(c.typ, "%") || !hiddenTopic(n, own) {
				c.offer(n, "")
			}
		}
		return
	}
	view, err := client.Cluster(ctx)
	if err != nil {
		return
	}
	switch what {
	case "cluster":
		for _, n := range view.Names() {
			c.offer(n, "")
		}
	case "broker":
		for _, t := range mustReplicas(view) {
			c.offer(t.Broker, "")
			c.offer(t.String(), t.Addr)
		}
	case "group":
		c.groups(ctx, client, view)
	}
}

func mustReplicas(view *admin.Cluster) []admin.Target {
	t, err := everyReplica(view, admin.Selector{})
	if err != nil {
		return nil
	}
	return t
}

// groups are those of the first master that answers.
func (c *completer) groups(ctx context.Context, client *admin.Client, view *admin.Cluster) {
	for _, t := range mustReplicas(view) {
		if t.ID != 0 {
			continue
		}
		all, _, err := client.Groups(ctx, t.Addr)
		if err != nil {
			continue
		}
		for _, n := range sortedKeys(all) {
			if !systemGroup(n) {
				c.offer(n, "")
			}
		}
		return
	}
}

// namesrv is what -n says on the unfinished line, else the environment.
func (c *completer) namesrv(words []string, v *vocabulary) []string {
	for i, w := range words {
		if !strings.HasPrefix(w, "-") {
			continue
		}
		o, value, has, err := v.find(w)
		if err != nil || o.flag.key != "namesrv" {
			continue
		}
		if !has && i+1 < len(words) {
			value = words[i+1]
		}
		return []string{value}
	}
	for _, name := range []string{"MQCTL_NAMESRV", "NAMESRV_ADDR"} {
		if s := c.io.Env(name); s != "" {
			return []string{s}
		}
	}
	if own := c.contextNamesrv(words, v); len(own) > 0 {
		return own
	}
	return []string{"127.0.0.1:9876"}
}

// contextNamesrv is what the context of the line, else the current one, says.
func (c *completer) contextNamesrv(words []string, v *vocabulary) []string {
	file, err := loadClientFile(c.io.Env)
	if err != nil {
		return nil
	}
	name := firstOf(c.io.Env("MQCTL_CONTEXT"), file.Current)
	for i, w := range words {
		if o, value, has, err := v.find(w); strings.HasPrefix(w, "--") && err == nil && o.flag.key == "context" {
			if !has && i+1 < len(words) {
				value = words[i+1]
			}
			name = value
		}
	}
	if x := file.Contexts[name]; x != nil {
		return x.Namesrv
	}
	return nil
}
