package cli

import "math"

// debugCommands collect what is needed to understand a fault, and say what they
// see in it.
func debugCommands() []*command {
	bundle := &command{
		path: "debug bundle", summary: "collect diagnostics of a cluster or a store into one archive", run: runDebugBundle, schema: "mqctl.debug.bundle/v1",
		exits: []int{ExitNotFound, ExitPartial}, attrs: streams,
		examples: []string{"mqctl debug bundle --out b.tar.gz", "mqctl debug bundle --broker broker-a --since 2h --seconds 10", "mqctl debug bundle --store /data/mq/broker-a --redact strict"},
		flags: []flagSpec{
			{key: "out", meta: "FILE", complete: "file", help: "the archive (default: mqctl-bundle-TIME.tar.gz here); it is replaced if it is there"},
			{key: "since", def: "1h", meta: "DUR|TIME", help: "how far back logs, events and the audit file are taken"},
			{key: "redact", kind: kindEnum, enum: []string{"secrets", "strict"}, def: "secrets", help: "secrets never go in; strict also replaces addresses and names of machines"},
			{key: "seconds", kind: kindInt, min: 0, max: mostProfileSeconds, def: "0", meta: "N", help: "a CPU profile of so many seconds too; 0: none"},
			{key: "store", meta: "DIR", complete: "file", help: "a store folder of this machine instead of a cluster"},
			httpFlag("token-file"),
		},
		view: view{
			item: bundleItem{}, name: func(item any) string { return item.(*bundleItem).File }, foot: footBundle,
			columns: []column{{head: "FILE", field: "file"}, {head: "SIZE", field: "bytes", as: asBytes}, {head: "PARTS", field: "count", as: asNumber}, {head: "MISSING", field: "missing", as: asNumber}},
		},
	}
	analyse := &command{
		path: "debug analyse", summary: "findings in a bundle, with reasons and next commands", args: "FILE", min: 1, max: 1, argFrom: "file", run: runDebugAnalyse,
		schema: "mqctl.debug.analyse/v1", exits: []int{ExitConditionFalse, ExitBadConfig}, attrs: local,
		examples: []string{"mqctl debug analyse b.tar.gz", "mqctl debug analyse b.tar.gz --strict -o json", "mqctl debug analyse b.tar.gz --max-lag 1000"},
		flags: []flagSpec{
			{key: "strict", kind: kindBool, help: "exit 7 for warnings too"},
			{key: "all", kind: kindBool, help: "show what was found in order too"},
			{key: "max-lag", kind: kindInt, min: 0, max: math.MaxInt64, def: "100000", meta: "N", help: "a group that is further behind is a finding"},
			{key: "max-gap", def: "64MiB", meta: "BYTES", help: "a slave that is further behind is a finding"},
		},
		view: view{
			item: findingItem{}, name: func(item any) string { return item.(*findingItem).Target }, foot: footAnalyse,
			columns: []column{
				{head: "STATE", field: "state"}, {head: "CHECK", field: "check"}, {head: "TARGET", field: "target"}, {head: "MESSAGE", field: "message"},
				{head: "WHY", field: "why", fold: 2}, {head: "PART", field: "part", wide: true}, {head: "TRY", field: "try", as: asTry, fold: 1},
			},
		},
	}
	profile := &command{
		path: "debug profile", summary: "profile of a broker's process", args: "[NAME[/ID]|HOST:PORT]", max: 1, argFrom: "broker", run: runDebugProfile,
		schema: "mqctl.debug.profile/v1", exits: []int{ExitNotFound, ExitPartial}, attrs: streams,
		examples: []string{"mqctl debug profile broker-a/0 --seconds 30", "mqctl debug profile broker-a/0 --kind goroutine --out stacks.txt", "mqctl debug profile --http 127.0.0.1:10980 --kind heap"},
		flags: []flagSpec{
			{key: "kind", kind: kindEnum, enum: profileKinds, def: "cpu", help: "what to take"},
			{key: "seconds", kind: kindInt, min: 1, max: mostProfileSeconds, def: "10", meta: "N", help: "how long the CPU is watched"},
			{key: "out", meta: "FILE", complete: "file", help: "the file to write (default: BROKER-ID-KIND-TIME here)"},
			httpFlag("http"), httpFlag("token-file"),
		},
		view: view{
			item: profileItem{}, name: func(item any) string { return item.(*profileItem).File }, foot: footProfile,
			columns: []column{{head: "BROKER", field: "broker"}, {head: "ID", field: "brokerId", as: asNumber}, {head: "KIND", field: "kind"}, {head: "SECONDS", field: "seconds", as: asNumber}, {head: "SIZE", field: "bytes", as: asBytes}, {head: "FILE", field: "file"}},
		},
	}
	return []*command{bundle, analyse, profile}
}

// httpFlag are the flags that tell where and how a broker gives its profiles away.
func httpFlag(key string) flagSpec {
	if key == "http" {
		return flagSpec{key: key, meta: "HOST:PORT", help: "the broker's http.listen, where it cannot be found out"}
	}
	return flagSpec{key: key, meta: "FILE", complete: "file", env: []string{"MQCTL_HTTP_TOKEN_FILE"}, help: "file with the token of the broker's http.tokenFile"}
}
