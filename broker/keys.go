package broker

import (
	"sort"
	"strings"
	"sync"
)

// Kind is how the text of a broker key is read and in which unit it is kept.
type Kind uint8

// The kinds of values. All but Bytes, Millis and Seconds take Java's spelling
// of the type; those three take units as well ("1GiB", "500ms", "2m") and are
// kept, and told to clients, as the plain number that RocketMQ would show.
const (
	Text    Kind = iota // java.lang.String
	Bool                // boolean: true or false
	Int                 // int
	Long                // long
	Float               // double
	Bytes               // int or long, bytes
	Millis              // int or long, milliseconds
	Seconds             // int, seconds
	Enum                // one of Key.Values
)

// String names the kind as help texts do.
func (k Kind) String() string {
	return [...]string{"text", "boolean", "integer", "long", "number", "bytes", "milliseconds", "seconds", "choice"}[k]
}

// Applies says when a changed value acts.
type Applies string

// When a change acts: at the next request, when clients connect anew, or after
// the broker was started again.
const (
	Live      Applies = "LIVE"
	Reconnect Applies = "RECONNECT"
	Restart   Applies = "RESTART"
)

// Use says what this broker makes of a key of RocketMQ's.
type Use uint8

const (
	// Used keys do what they do in RocketMQ.
	Used Use = iota
	// Ignored keys are read, checked, kept and shown, and change nothing here.
	Ignored
	// Fixed keys belong to a feature that is not built: they are accepted at
	// their default and refused at any other value.
	Fixed
)

// Key is one broker setting. Names, types and defaults are those of the beans
// BrokerConfig, MessageStoreConfig, NettyServerConfig, NettyClientConfig and
// AuthConfig of RocketMQ 5.3.3; keys with Own are this project's.
type Key struct {
	Name    string
	Kind    Kind
	Default string // in the kept form; computed ones: see Config
	Applies Applies
	Use     Use
	Section string // of the TOML file
	// Min and Max bound numbers (both 0: the range of the Java type).
	Min, Max int64
	Values   []string // of an Enum
	Own      bool     // not a key of RocketMQ
	Computed bool     // the default depends on the machine or on other keys
	// Optional keys are null by default in RocketMQ, which leaves them out of
	// getBrokerConfig then.
	Optional bool
	Secret   bool   // nobody is shown the value: see SecretName
	Text     string // one sentence
}

// registry is the table of all keys, built once from the lists in keys_used.go
// and keys_other.go.
type registry struct {
	byName map[string]*Key
	sorted []*Key
	alias  map[string]string // old spelling -> name
}

var keys = sync.OnceValue(func() *registry {
	r := &registry{byName: map[string]*Key{}, alias: map[string]string{
		"mapedFileSizeCommitLog":    "mappedFileSizeCommitLog",
		"mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
		"inBrokerContainer":         "isInBrokerContainer",
		"scanAvailableNameSrv":      "isScanAvailableNameSrv",
	}}
	for i := range usedKeys {
		r.add(&usedKeys[i])
	}
	for _, g := range otherKeys {
		g.each(r.add)
	}
	sort.Slice(r.sorted, func(i, j int) bool { return r.sorted[i].Name < r.sorted[j].Name })
	return r
})

func (r *registry) add(k *Key) {
	if k.Applies == "" {
		k.Applies = Restart
	}
	k.Secret = SecretName(k.Name)
	r.byName[k.Name] = k
	r.sorted = append(r.sorted, k)
}

// keyGroup holds keys that this broker does not act on, each as "name kind
// default", separated by commas; an absent default is the empty text. A kind
// with a "?" is Optional.
type keyGroup struct {
	use     Use
	section string
	own     bool
	text    string
	keys    string
}

var kindNames = map[string]Kind{
	"text": Text, "bool": Bool, "int": Int, "long": Long, "float": Float,
	"bytes": Bytes, "ms": Millis, "s": Seconds,
}

func (g keyGroup) each(add func(*Key)) {
	for item := range strings.SplitSeq(g.keys, ",") {
		f := strings.Fields(item)
		if len(f) < 2 {
			continue
		}
		kind, optional := strings.CutSuffix(f[1], "?")
		k := &Key{
			Name: f[0], Kind: kindNames[kind], Optional: optional, Default: strings.Join(f[2:], " "),
			Use: g.use, Section: g.section, Own: g.own, Text: g.text,
		}
		k.Computed = k.Default == "computed"
		if k.Computed {
			k.Default = ""
		}
		add(k)
	}
}

// KnownKeys lists all keys by name.
func KnownKeys() []*Key { return keys().sorted }

// LookupKey returns the key called name (an old spelling counts), or nil.
func LookupKey(name string) *Key {
	if k := keys().byName[name]; k != nil {
		return k
	}
	return keys().byName[keys().alias[name]]
}

// NearestKey is the known key whose name is most like name, "" if none is close.
func NearestKey(name string) string {
	names := make([]string, 0, len(keys().sorted))
	for _, k := range keys().sorted {
		names = append(names, k.Name)
	}
	return nearest(name, names)
}

// nearest finds the word that takes the fewest edits to become name, capitals
// apart; more than a third of its letters wrong is no likeness.
func nearest(name string, words []string) string {
	if len(name) > 128 {
		return ""
	}
	best, bestAt := "", 1+max(2, len(name)/3)
	lower := strings.ToLower(name)
	for _, w := range words {
		if abs(len(w)-len(name)) >= bestAt {
			continue
		}
		if d := EditDistance(lower, strings.ToLower(w)); d < bestAt {
			best, bestAt = w, d
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// EditDistance counts insertions, deletions, replacements and swaps of
// neighbours (optimal string alignment) between two short texts.
func EditDistance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
