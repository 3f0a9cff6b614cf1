package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"mqctl/cli/admin"
)

// commonFlags are the flags shared by commands. Camel-case commands take them
// by their long names only, apart from -n and -h.
var commonFlags = []flagSpec{
	{key: "namesrv", also: []string{"namesrvAddr"}, alsoOld: "nameserverAddr", letter: "n", long: "namesrvAddr", short: "n", kind: kindList, meta: "LIST",
		env: []string{"MQCTL_NAMESRV", "NAMESRV_ADDR"}, def: "127.0.0.1:9876", help: "nameservers; comma, semicolon or blank between"},
	{key: "context", meta: "NAME", env: []string{"MQCTL_CONTEXT"}, complete: "context", help: "a context of the client file instead of its current one"},
	{key: "cluster", meta: "NAME", env: []string{"MQCTL_CLUSTER"}, complete: "cluster", help: "the cluster; needed when several are registered"},
	{key: "broker", meta: "NAME[/ID]|HOST:PORT", complete: "broker", help: "one broker name, one replica, or one address"},
	{key: "output", letter: "o", meta: "FORMAT", env: []string{"MQCTL_OUTPUT"}, local: true,
		help: "table, wide, json, jsonl, csv, name, template=TEXT, mqadmin"},
	{key: "json-int", kind: kindEnum, enum: []string{"number", "string"}, def: "number", local: true, help: "whole numbers of JSON as numbers, or as strings for programs that round above 2^53"},
	{key: "schema-version", meta: "N", local: true, help: "the version of the JSON that is expected; exit 2 when it is not written"},
	{key: "fields", meta: "A,B,C", local: true, help: "only these fields, in this order"},
	{key: "sort", meta: "FIELD", local: true, help: "order by a field"},
	{key: "reverse", kind: kindBool, local: true, help: "the other way round"},
	{key: "filter", meta: "EXPR", local: true, help: "only items that fit: 'gapBytes>1MiB && role==SLAVE'; operators == != > >= < <= ~ !~ && || ! ( )"},
	{key: "limit", kind: kindInt, min: 1, max: math.MaxInt32, meta: "N", local: true, help: "at most N items"},
	{key: "no-headers", kind: kindBool, local: true, help: "table and csv without the header line"},
	{key: "watch", kind: kindOptional, of: kindDuration, bare: "2s", meta: "DUR", reading: true, help: "repeat until interrupted"},
	{key: "allow-partial", kind: kindBool, reading: true, help: "exit 0 when some brokers did not answer"},
	{key: "parallel", kind: kindInt, min: 1, max: 256, meta: "N", help: "brokers at the same time; 8 unless given, 1 for changes"},
	{key: "timeout", kind: kindDuration, meta: "DUR", env: []string{"MQCTL_TIMEOUT"}, def: "5s", help: "one request"},
	{key: "deadline", kind: kindDuration, meta: "DUR", env: []string{"MQCTL_DEADLINE"}, help: "the whole command; exit 5 when it is over"},
	{key: "color", kind: kindEnum, enum: []string{"auto", "always", "never"}, env: []string{"MQCTL_COLOR"}, def: "auto", local: true, help: "colours"},
	{key: "units", kind: kindEnum, enum: []string{"auto", "bytes"}, env: []string{"MQCTL_UNITS"}, def: "auto", local: true, help: "sizes in tables"},
	{key: "time", kind: kindEnum, enum: []string{"local", "utc", "relative"}, env: []string{"MQCTL_TIME"}, def: "relative", local: true, help: "times in tables"},
	{key: "retries", kind: kindInt, min: 0, max: 10, meta: "N", help: "ask again so often when an answer to a read was lost or late; unless given once, and only when it was lost"},
	{key: "access-key", meta: "KEY", help: "name of the key that signs requests; the secret comes from a file or the environment"},
	{key: "access-key-file", meta: "FILE", complete: "file", help: "file with the access key (MQCTL_ACCESS_KEY, MQCTL_ACCESS_KEY_FILE)"},
	{key: "secret-key-file", meta: "FILE", complete: "file", help: "file with the secret key (MQCTL_SECRET_KEY, MQCTL_SECRET_KEY_FILE)"},
	{key: "log-level", kind: kindEnum, enum: []string{"error", "warn", "info", "debug"}, env: []string{"MQCTL_LOG_LEVEL"}, def: "warn", local: true,
		help: "on stderr; error leaves warnings out, debug prints each request"},
	{key: "trace", kind: kindBool, help: "print each request on stderr"},
	{key: "examples", kind: kindBool, local: true, help: "print examples and end"},
	{key: "schema", kind: kindBool, local: true, help: "print the JSON Schema of the output and end"},
	{key: "help", letter: "h", short: "h", long: "help", kind: kindBool, local: true, help: "this text"},

	{key: "dry-run", kind: kindBool, mutating: true, env: []string{"MQCTL_DRY_RUN"}, help: "read, plan, print the difference, write nothing"},
	{key: "yes", letter: "y", kind: kindBool, mutating: true, env: []string{"MQCTL_YES"}, help: "answer every confirmation"},
	{key: "wait", kind: kindOptional, of: kindDuration, bare: "60s", mutating: true, meta: "DUR", help: "return when the effect is visible"},
	{key: "detailed-exit-code", kind: kindBool, mutating: true, help: "with --dry-run: exit 10 when something would change"},
	{key: "on-error", kind: kindEnum, enum: []string{onErrorStop, onErrorContinue, onErrorRollback}, def: onErrorStop, mutating: true, planned: true,
		help: "what a failure at one target means for the others"},
	{key: "reason", mutating: true, meta: "TEXT", env: []string{"MQCTL_REASON"}, help: "why; kept in the audit file"},
}

// reservedLetters mean the same on every modern command.
var reservedLetters = map[string]string{"n": "namesrv", "o": "output", "y": "yes", "h": "help"}

// option is one way to write a flag on a command line.
type option struct {
	flag     *flagSpec
	value    bool // takes a value
	optional bool // takes one with "=" only
	negate   bool // --no-KEY
	common   bool
}

// vocabulary is how flags are written for one command.
type vocabulary struct {
	cmd   *command
	old   bool
	long  map[string]option
	short map[string]option
	names []string // long names in order, own first
	flags []*flagSpec
}

// vocabularyOf collects the flags of c. An own name beats a common one.
func vocabularyOf(c *command, old bool) *vocabulary {
	v := &vocabulary{cmd: c, old: old, long: map[string]option{}, short: map[string]option{}}
	own := map[string]bool{}
	for i := range c.flags {
		f := &c.flags[i]
		if f.oldOnly && !old || f.newOnly && old {
			continue
		}
		own[f.key] = true
		v.add(f, false)
	}
	for i := range commonFlags {
		f := &commonFlags[i]
		if own[f.key] {
			// The command gives the flag its own spelling; the common long name stays.
			if old {
				v.alias(f.key)
			}
			continue
		}
		if c.is(local) && !f.local && (!old || f.key != "namesrv") { // mqadmin takes -n everywhere
			continue
		}
		if f.key == "broker" && !c.choosesBroker() || f.key == "cluster" && !c.choosesCluster() {
			continue
		}
		if c.is(server) && (f.key == "json-int" || f.key == "schema-version") {
			continue // they print one line of their own
		}
		if f.mutating && !c.is(mutates) || f.key == "wait" && f.mutating && c.is(measures) || f.planned && !c.is(planned) || f.reading && !c.repeats() {
			continue
		}
		v.add(f, true)
	}
	return v
}

// alias lets the common long name stand for the command's own flag of that key.
func (v *vocabulary) alias(key string) {
	for _, f := range v.flags {
		if f.key == key {
			if _, taken := v.long[key]; !taken {
				v.long[key] = v.optionOf(f, true)
			}
		}
	}
}

func (v *vocabulary) optionOf(f *flagSpec, common bool) option {
	o := option{flag: f, common: common, optional: f.kind == kindOptional}
	switch {
	case f.kind == kindBool:
		o.value = v.old && !common && (f.long != "" || f.short != "") && !f.bareOld
	case f.kind != kindOptional:
		o.value = true
	}
	return o
}

func (v *vocabulary) add(f *flagSpec, common bool) {
	o := v.optionOf(f, common)
	v.flags = append(v.flags, f)
	long := func(name string, o option) {
		if name == "" {
			return
		}
		if _, taken := v.long[name]; taken {
			return
		}
		v.long[name] = o
		v.names = append(v.names, name)
	}
	if v.old && !common && (f.long != "" || f.short != "") {
		long(f.long, o)
		if f.short != "" {
			v.short[f.short] = o
		}
		return
	}
	if f.arg > 0 && !v.old {
		return // an argument in the modern form
	}
	long(f.key, o)
	for _, name := range f.also {
		long(name, o)
	}
	if f.negative {
		n := o
		n.negate = true
		long("no-"+f.key, n)
	}
	letter := f.letter
	if v.old {
		letter = f.short // of common flags: -n and -h
		long(f.long, o)
		long(f.alsoOld, o)
	}
	if letter != "" {
		if _, taken := v.short[letter]; !taken {
			v.short[letter] = o
		}
	}
}

// spelled is the flag as messages name it: "-w/--whichBrokerWhenConsumeSlowly".
func (v *vocabulary) spelled(f *flagSpec) string {
	if v.old && (f.long != "" || f.short != "") {
		switch {
		case f.short == "":
			return "--" + f.long
		case f.long == "":
			return "-" + f.short
		}
		return "-" + f.short + "/--" + f.long
	}
	if f.letter != "" && !v.old {
		return "-" + f.letter + "/--" + f.key
	}
	return "--" + f.key
}

// short form of spelled, for lines to paste.
func (v *vocabulary) hint(f *flagSpec) string {
	if v.old && f.short != "" {
		return "-" + f.short
	}
	if v.old && f.long != "" {
		return "--" + f.long
	}
	name := f.key
	for _, other := range f.also {
		if len(other) < len(name) {
			name = other
		}
	}
	return "--" + name
}

// check parses a value by the flag's kind and returns it in one canonical form.
func (f *flagSpec) check(value, spelled, hint string) (string, error) {
	k := f.kind
	if k == kindOptional {
		if value == f.bare {
			return value, nil
		}
		k = f.of
	}
	switch k {
	case kindBool:
		b, ok := parseBool(value)
		if !ok {
			why := "true, false, yes, no, on, off, 1 or 0"
			if f.key == "consume" {
				why += "; mqadmin would have read this as false and stopped consumption"
			}
			return "", usage("BAD_VALUE", "%s: %q is not a boolean", spelled, value).because("%s", why).try(hint + " true")
		}
		return strconv.FormatBool(b), nil
	case kindInt:
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return "", usage("BAD_VALUE", "%s: %q is not a whole number", spelled, value)
		}
		if f.max > f.min && (n < f.min || n > f.max) {
			return "", usage("BAD_VALUE", "%s: %d is out of range", spelled, n).because("%d to %d is possible", f.min, f.max)
		}
		return strconv.FormatInt(n, 10), nil
	case kindDuration:
		d, err := parseDuration(value)
		if err != nil {
			return "", usage("BAD_VALUE", "%s: %q is not a duration", spelled, value).
				because("a number with a unit is expected: 500ms, 5s, 2m, 1h").try(hint + "=5s")
		}
		return d.String(), nil
	case kindEnum:
		for _, e := range f.enum {
			if strings.EqualFold(e, value) {
				return e, nil
			}
		}
		return "", usage("BAD_VALUE", "%s: %q is not possible", spelled, value).because("one of %s", strings.Join(f.enum, ", "))
	default:
	}
	return value, nil
}

// parseBool reads booleans strictly: what is neither is an error, not false.
func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "yes", "on", "1":
		return true, true
	case "false", "no", "off", "0":
		return false, true
	}
	return false, false
}

// parseDuration reads Go's syntax and days; a bare number is milliseconds.
func parseDuration(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64/int64(time.Millisecond) {
			return 0, fmt.Errorf("%q is out of range", s)
		}
		return time.Duration(n) * time.Millisecond, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, err
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return d, nil
}

// parseSize reads a number of bytes: 4096, 64MiB, 1GB.
func parseSize(s string) (int64, error) {
	n, err := humanize.ParseBytes(strings.TrimSpace(s))
	switch {
	case err != nil:
		return 0, errors.New("a number of bytes is expected, with or without a unit")
	case n > math.MaxInt64:
		return 0, fmt.Errorf("%q is out of range", s)
	}
	return int64(n), nil
}

// addresses reads the lists of all -n together.
func addresses(lists []string) ([]string, error) {
	addrs, err := admin.SplitAddresses(strings.Join(lists, ","))
	if err != nil {
		return nil, badAddress(err, "nameserver")
	}
	return addrs, nil
}
