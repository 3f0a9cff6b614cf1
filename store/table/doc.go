// Package table keeps a named document on disk with RocketMQ's two generations
// (name and name.bak, as ConfigManager has them), and lets concurrent changes
// of the state behind it share one save.
//
// Unlike ConfigManager 5.3.3, which overwrites both files in place, a Save
// writes a temporary file, syncs it and renames it, so that after a crash the
// document is the old or the new one, never neither.
//
// The package starts no goroutines: a change is saved by the goroutine of one
// of those who wait for it.
package table
