package cli

import (
	"context"
	"slices"
	"sort"
	"strings"
	"sync"
)

// kind says what values a flag takes.
type kind uint8

const (
	kindString   kind = iota
	kindInt           // a whole number within min and max
	kindBool          // modern: no value; mqadmin: usually a value, read strictly
	kindDuration      // Go syntax, or a bare number of milliseconds
	kindList          // may be repeated
	kindEnum          // one of enum
	kindOptional      // a value only with "=", else bare
)

// flagSpec is one flag of a command in both vocabularies.
type flagSpec struct {
	key      string   // the modern long name, and the name handlers use
	also     []string // other modern spellings
	alsoOld  string   // another spelling in camel-case commands
	letter   string   // modern letter; reserved over the whole tree
	long     string   // mqadmin's long name
	short    string   // mqadmin's letter, sometimes two
	kind     kind
	enum     []string
	min, max int64  // of kindInt when max > min
	def      string // shown in help; the handler applies it
	bare     string // value of a kindOptional without one
	of       kind   // what the value of a kindOptional is
	meta     string // what the value is, in help
	env      []string
	complete string // topic group broker cluster client queue offset key file and the like: where candidates come from
	help     string
	arg      int  // mqadmin's option is the n-th argument (from 1) of the modern form
	required bool // mqadmin demands it
	oneOf    bool // mqadmin takes one of the command's options that have this mark
	bareOld  bool // mqadmin's option takes no value although kind is bool
	oldOnly  bool // no modern spelling
	newOnly  bool // no spelling in camel-case commands
	absent   bool // of the contract, but not built yet
	mutating bool // only on commands that change something
	reading  bool // only on commands that change nothing and end by themselves
	planned  bool // only on commands that carry out a plan
	local    bool // also on commands that talk to no cluster
	negative bool // --no-KEY exists in the modern form
}

// attr are properties of a command that the front door and the tests need.
type attr uint8

const (
	mutates     attr = 1 << iota // changes something in the cluster
	destructive                  // asks before it does
	local                        // talks to no cluster
	server                       // runs until it is stopped
	streams                      // prints as it goes: cannot be repeated by --watch
	watches                      // repeats by itself with --watch
	planned                      // carries out a plan of edits over targets
	measures                     // what it changes is over when it ends: nothing to --wait for
)

// command is one operation. Both vocabularies are made from it.
type command struct {
	path     string // "group set"; empty when only mqadmin has a name for it
	old      string // "updateSubGroup"
	summary  string
	args     string // "GROUP", "[KEY...]": for help
	min, max int    // number of arguments; max < 0 is any number
	argFrom  string // where completion takes arguments from
	named    string // the modern flag that may be written for the only argument
	about    string // what its arguments may be, where one is missing
	examples []string
	flags    []flagSpec
	schema   string // name of the item's schema; empty if it prints no items
	exits    []int  // besides the general ones
	attrs    attr
	view     view
	run      func(ctx context.Context, c *call) (*result, error)
	twin     string // of mqadmin names without a modern spelling: the command to use instead
	outFile  bool   // -o may name the file to write
	variant  *variant
}

// variant is another form of a command's result that some flags ask for.
type variant struct {
	schema string
	view   view
	when   func(c *call) bool
}

// forms are the command, and a copy of it for its other form.
func (c *command) forms() []*command {
	out := []*command{c}
	if c.variant != nil {
		other := *c
		other.schema, other.view = c.variant.schema, c.variant.view
		out = append(out, &other)
	}
	return out
}

// brokerless are the commands, or the beginnings of their names, that ask
// nameservers or controllers only.
var brokerless = []string{"nameserver ", "kv ", "controller ", "topic order ", "topic route", "wait topic", "cluster route-check", "ha syncset"}

// choosesBroker reports whether --broker means something to a command: it would be
// taken and forgotten by one that asks no broker, or whose argument is the broker.
func (c *command) choosesBroker() bool {
	if c.argFrom == "broker" && c.min > 0 {
		return false
	}
	for _, b := range brokerless {
		if strings.HasPrefix(c.path, b) {
			return false
		}
	}
	return true
}

// clusterless are those that ask nameservers, of which one knows many clusters.
var clusterless = []string{"nameserver ", "kv ", "topic order ", "topic route", "wait topic", "cluster route-check"}

// choosesCluster is choosesBroker of --cluster.
func (c *command) choosesCluster() bool {
	return !slices.ContainsFunc(clusterless, func(b string) bool { return strings.HasPrefix(c.path, b) })
}

func (c *command) is(a attr) bool { return c.attrs&a != 0 }

// repeats reports whether --watch can repeat it: it changes nothing, and ends by
// itself without having waited for something.
func (c *command) repeats() bool {
	return c.attrs&(mutates|server|streams) == 0 && !strings.HasPrefix(c.path, "wait ") && c.path != "message send"
}

// looksOnce reports whether a run asks each broker about one moment; others, such as
// top and measurements, ask again and again.
func (c *command) looksOnce() bool {
	return c.repeats() && !c.is(local) && c.path != "top" && c.path != "bench consume" || c.path == "debug bundle"
}

// name is how the command is called in messages.
func (c *command) name(old bool) string {
	if old || c.path == "" {
		return c.old
	}
	return c.path
}

// registry is all commands with the indexes the front door needs.
type registry struct {
	commands []*command
	byPath   map[string]*command // "group set"
	byOld    map[string]*command // lower case
	nouns    map[string][]string // "group" -> verbs in order; "" -> nouns in order
	oldNames []string
}

// nounAlias are the short forms of nouns, never more than one each.
var nounAlias = map[string]string{"ns": "nameserver", "ctx": "context"}

// verbAlias are the short forms of verbs.
var verbAlias = map[string]string{"ls": "list", "rm": "delete"}

// table is the one table of commands, built at first use.
var table struct {
	once sync.Once
	all  *registry
}

// commands is the table of commands.
func commands() *registry {
	table.once.Do(func() { table.all = newRegistry() })
	return table.all
}

func newRegistry() *registry {
	r := &registry{
		byPath: map[string]*command{}, byOld: map[string]*command{}, nouns: map[string][]string{},
	}
	for _, group := range [][]*command{
		brokerCommands(), nameserverCommands(), clusterCommands(), groupCommands(), topicCommands(),
		offsetCommands(), offsetMoveCommands(), clientCommands(), messageCommands(), statsCommands(), haCommands(), checkCommands(), waitCommands(), roleCommands(),
		devCommands(), knowledgeCommands(), contextCommands(), configCommands(),
		clientInspectCommands(), messageOldCommands(), messagePrintCommands(),
		checkMoreCommands(), waitMoreCommands(), clusterHealthCommands(), debugCommands(),
		benchCommands(), benchOldCommands(),
		{latencyCommand(), brokerLogsCommand(), eventsCommand()},
		shellCommands(), topCommands(), genCommands(), cheatCommands(),
		storeCommands(),
		planCommands(),
		userCommands(), aclCommands(), controllerCommands(), rareCommands(), staticCommands(),
		{consumeStatsCommand(), exportMetricsCommand()},
	} {
		for _, c := range group {
			r.add(c)
		}
	}
	return r
}

func (r *registry) add(c *command) {
	r.commands = append(r.commands, c)
	if c.path != "" {
		r.byPath[c.path] = c
		noun, verb, has := strings.Cut(c.path, " ")
		if _, known := r.nouns[noun]; !known {
			r.nouns[""] = append(r.nouns[""], noun)
			r.nouns[noun] = nil
		}
		for has {
			r.nouns[noun] = appendNew(r.nouns[noun], firstWord(verb))
			var next string
			next, verb, has = strings.Cut(verb, " ")
			noun += " " + next
		}
	}
	if c.old != "" {
		r.byOld[strings.ToLower(c.old)] = c
		r.oldNames = append(r.oldNames, c.old)
	}
}

func firstWord(s string) string {
	w, _, _ := strings.Cut(s, " ")
	return w
}

func appendNew(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}

// words lists everything a command line may start with and that works, for
// suggestions.
func (r *registry) words() []string {
	out := append(builtNouns(r), r.oldNames...)
	sort.Strings(out)
	return out
}

// builtVerbs are the words after a path that lead to a command that works.
func (r *registry) builtVerbs(path string) []string {
	var out []string
	for _, verb := range r.nouns[path] {
		full := path + " " + verb
		for _, c := range r.commands {
			if c.path == full || strings.HasPrefix(c.path, full+" ") {
				out = append(out, verb)
				break
			}
		}
	}
	return out
}

// endingIn lists the commands whose last word somebody typed as if it were the first:
// "health" for "cluster health". Words that many commands end in tell nothing.
func (r *registry) endingIn(verb string) []string {
	const telling = 4
	var out []string
	for _, c := range r.commands {
		if strings.HasSuffix(c.path, " "+verb) {
			out = append(out, c.path)
		}
	}
	if len(out) > telling {
		return nil
	}
	return out
}

// builtPath reports whether a line like "message get --uniq" begins with the
// path of a command that works.
func (r *registry) builtPath(line string) bool {
	path := ""
	for _, w := range strings.Fields(line) {
		path = strings.TrimSpace(path + " " + w)
		if r.byPath[path] != nil {
			return true
		}
	}
	return false
}
