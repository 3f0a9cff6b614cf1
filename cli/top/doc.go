// Package top is the live view of a cluster: a Collector asks the brokers, a
// Frame is what they said, a Model is what is shown of it. Model is bubbletea's
// kind of model and needs no terminal; only view.go and run.go know the library
// that draws.
//
// Goroutines: those of bubbletea while Run runs, one for a refresh, and the
// Collector's.
package top

import "mqctl/cli/top/calm"

// The imports of this package are initialised: the terminal was not asked.
func init() { calm.Restore() }
