// Package live has the two shapes in which a broker keeps named settings that
// every request reads and few requests change.
//
// Map is read without a lock and without allocation, also by the bytes of a
// name as they lie in a request. Table puts a file under a Map: a change is on
// disk before it can be seen, concurrent changes share one write and one sync,
// and a change that could not be written leaves no trace.
//
// The package starts no goroutine.
package live
