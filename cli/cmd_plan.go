package cli

import "slices"

// planCommands are the commands about plans of many things, and their record.
func planCommands() []*command {
	return slices.Concat(auditCommands(), kvCommands(), orderCommands(), topicMoreCommands(), applyCommands(), exportCommands())
}
