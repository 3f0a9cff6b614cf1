// Package topic is the table of topics a broker has: their queues,
// permissions and attributes, the system topics that exist from the start, and
// the rules for names, creation and change. TopicConfigManager and
// TopicValidator are its counterparts in RocketMQ.
//
// Reads (Get, GetBytes) take no lock. A change is on disk before it is visible
// and before its call returns; changes made at the same time share one write
// and one sync. So everything that changes the table may wait for the disk and
// belongs in a pool, not on a connection's reader.
//
// The package starts no goroutine.
package topic
