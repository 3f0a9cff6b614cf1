package cli

import (
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mqadminOptions is what the original's commands (5.3.3) declare, one command a
// line: -letter/name of each option, * where it is demanded, = where it takes a
// value; then in brackets the letters of which one only may be given, with !
// where one must be. Names of options may have a blank in them.
//
//go:embed testdata/mqadmin-options.txt
var mqadminOptions string

var (
	oneOption = regexp.MustCompile(`-(\w*)/(\w+(?: \w+)?)(\*?)(=?)`)
	oneGroup  = regexp.MustCompile(`\[!([^\]]*),\]`)
)

// lenientHere are options that mqadmin demands and we ask for, or the other way round.
var lenientHere = map[string]string{
	"createUser -p/password":                        "asked for at the terminal, so that it stands in no list of processes",
	"checkRocksdbCqWriteProgress -n/nameserverAddr": "comes from the context or the environment, as everywhere",
	"DecodeMessageId -i/messageId":                  "demanded: mqadmin ends with an exception",
	"dumpCompactionLog -f/file":                     "demanded: mqadmin prints its help",
	"getAcl -s/subject":                             "demanded: the broker refuses a request without",
	"getUser -u/username":                           "demanded: the broker refuses a request without",
}

// TestOptionsOfMqadmin compares every option of every camel-case command with
// what the original declares: letter, name, whether it is demanded and whether
// it takes a value. None is missing, none is ours alone.
func TestOptionsOfMqadmin(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(mqadminOptions) {
		name, options, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen[name] = true
		c := commands().byOld[strings.ToLower(name)]
		if c == nil || c.old != name {
			t.Errorf("%s is no command", name)
			continue
		}
		want := map[string]string{"-n/namesrvAddr": "=", "-h/help": ""}
		for _, m := range oneOption.FindAllStringSubmatch(options, -1) {
			want["-"+m[1]+"/"+m[2]] = m[3] + m[4]
		}
		v := vocabularyOf(c, true)
		for _, option := range slices.Sorted(maps.Keys(want)) {
			letter, long, _ := strings.Cut(option, "/")
			o, ok := v.long[long]
			if short, has := v.short[letter[1:]]; !ok || letter != "-" && (!has || short.flag != o.flag) {
				t.Errorf("%s has no %s", name, option)
				continue
			}
			how := ""
			if o.flag.required {
				how = "*"
			}
			if o.value {
				how += "="
			}
			if key := name + " " + option; how != want[option] != (lenientHere[key] != "") {
				t.Errorf("%s: %q, the original says %q; listed as an exception: %t", key, how, want[option], lenientHere[key] != "")
			}
		}
		for _, f := range v.flags {
			if _, ok := want["-"+f.short+"/"+f.long]; !ok && (f.short != "" || f.long != "") && !f.newOnly {
				t.Errorf("%s has -%s/%s, which the original has not", name, f.short, f.long)
			}
		}
	}
	if len(seen) != len(commands().oldNames) || len(seen) != 93 {
		t.Errorf("%d names of the original, %d of ours", len(seen), len(commands().oldNames))
	}
}

// TestOneTargetOnly: where the original takes one of two targets, both are refused.
func TestOneTargetOnly(t *testing.T) {
	tried := 0
	for line := range strings.Lines(mqadminOptions) {
		name, options, _ := strings.Cut(strings.TrimSpace(line), " ")
		c := commands().byOld[strings.ToLower(name)]
		for _, m := range oneGroup.FindAllStringSubmatch(options, -1) {
			letters := strings.Split(m[1], ",")
			if !slices.Contains(letters, "b") {
				continue // updateUser changes several settings at once
			}
			args := []string{name}
			for i := range c.flags {
				if f := &c.flags[i]; f.required {
					args = append(args, "-"+f.short, sample(f))
				}
			}
			tried++
			if got := normalised("mqctl", append(args, "-b", "b", "-c", "C")); got != "!CONTRADICTION" {
				t.Errorf("%s with -b and -c: %s", name, got)
			}
		}
	}
	if tried < 15 {
		t.Errorf("%d commands tried", tried)
	}
}
