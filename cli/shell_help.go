package cli

import (
	"fmt"
	"strings"
)

// shellTasks are the groups of "help" in the shell: by what somebody wants to
// do, not by noun.
var shellTasks = []struct {
	title string
	paths []string
}{
	{"look", []string{"cluster list", "broker status", "topic status", "group list", "group lag", "client list", "stats ha", "stats offsets", "top"}},
	{"steer a slow group", []string{"group lag", "group set", "stats pull", "wait lag", "group pause", "group resume", "offset skip"}},
	{"fail over", []string{"ha status", "wait ha", "ha promote", "ha demote", "wait role"}},
	{"roll", []string{"broker drain", "wait broker", "broker stop", "broker start", "broker undrain"}},
	{"clean", []string{"topic delete", "group delete", "broker clean commitlog", "broker clean cq", "broker clean topics"}},
	{"measure", []string{"stats traffic", "stats latency", "bench send", "bench consume", "bench rtt", "check ha", "check lag"}},
	{"configure", []string{"broker config get", "broker config set", "topic set", "plan", "apply", "context use", "undo"}},
	{"learn", []string{"help COMMAND", "help mqadmin", "explain", "cheat", "schema list", "version"}},
}

// shellHelp lists the task groups with the commands of them that there are.
func shellHelp() string {
	r := commands()
	var b strings.Builder
	for _, t := range shellTasks {
		var have []string
		for _, p := range t.paths {
			if r.byPath[p] != nil || strings.HasPrefix(p, "help ") {
				have = append(have, p)
			}
		}
		fmt.Fprintf(&b, "%-19s %s\n", t.title, strings.Join(have, ", "))
	}
	return b.String()
}
