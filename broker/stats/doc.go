// Package stats counts messages per topic and group for admin tools
// (BrokerStatsManager and StoreStatsService of RocketMQ).
//
// Counting takes no lock and does not allocate once a topic or group is known.
// Figures over time come from snapshots of the counters that Sample takes every
// ten seconds: 7 of them ten seconds apart are the minute, 7 ten minutes apart
// the hour, 25 an hour apart the day; a window's sum is its last snapshot less
// its first.
//
// The package starts no goroutine: the broker's task loop calls Sample and Roll.
package stats
