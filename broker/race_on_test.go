//go:build race

package broker

// raceEnabled: the race detector empties sync.Pools at random, so allocations
// say nothing under it.
const raceEnabled = true
