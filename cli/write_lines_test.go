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
	} {
		closedLines[name] = line
	}
}
