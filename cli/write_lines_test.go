package cli

// The command lines of the commands that change the cluster by a plan.
func init() {
	for name, line := range map[string]string{
		"offset reset":           "offset reset g --topic t --to latest --yes",
		"offset skip":            "offset skip g --yes",
		"offset clone":           "offset clone --from a --to b --topic t --yes",
		"resetOffsetByTime":      "resetOffsetByTime -g g -t t -s now",
		"resetOffsetByTimeOld":   "resetOffsetByTimeOld -g g -t t -s now",
		"skipAccumulatedMessage": "skipAccumulatedMessage -g g -t t",
		"cloneGroupOffset":       "cloneGroupOffset -s a -d b -t t",
		"kv list":                "kv list --namespace N",
		"kv get":                 "kv get k --namespace N",
		"kv set":                 "kv set k v --namespace N",
		"kv delete":              "kv delete k --namespace N",
		"updateKvConfig":         "updateKvConfig -s N -k k -v v",
		"deleteKvConfig":         "deleteKvConfig -s N -k k",
		"topic order get":        "topic order get t",
		"topic order set":        "topic order set t --conf b:8",
		"topic order delete":     "topic order delete t",
		"updateOrderConf":        "updateOrderConf -t t -m put -v b:8",
		"topic cq":               "topic cq t --queue b:0",
		"queryCq":                "queryCq -t t -q 0 -i 0",
		"topic allocate":         "topic allocate t --clients a,b",
		"allocateMQ":             "allocateMQ -t t -i a,b",
		"topicClusterList":       "topicClusterList -t t",
		"group mode":             "group mode g --topic t --mode PULL",
		"setConsumeMode":         "setConsumeMode -c C -t t -g g -m PULL",
		"group pause":            "group pause g",
		"group resume":           "group resume g",
		"plan":                   "plan -f ../testdata/plan/cluster.toml",
		"apply":                  "apply -f ../testdata/plan/cluster.toml",
		"cluster import":         "cluster import -f ../testdata/plan/cluster.toml",
		"group apply":            "group apply -f ../testdata/plan/groups.json",
		"updateSubGroupList":     "updateSubGroupList -c C -f ../testdata/plan/groups.json",
		"topic apply":            "topic apply -f ../testdata/plan/topics.json",
		"updateTopicList":        "updateTopicList -c C -f ../testdata/plan/topics.json",
		"cluster export":         "cluster export",
		"exportMetadata":         "exportMetadata -c C",
		"exportConfigs":          "exportConfigs -c C",
		"offset export":          "offset export --group g",
		"offset import":          "offset import --file ../testdata/plan/offsets.json --yes",
	} {
		closedLines[name] = line
	}
}
