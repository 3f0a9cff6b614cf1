// Package subgroup is everything a broker knows of subscription groups: their
// settings, their live members and subscriptions, their progress, the queue
// locks of ordered consumers, and the rules of retry and dead-letter topics.
//
// The life of a group: its first heartbeat (or pull) makes its settings with
// the defaults, if that is allowed (Groups); the heartbeats keep its members
// and their subscriptions (Members); the members commit how far they are
// (Offsets) and, if they consume in order, hold leases on queues (Locks). What
// a member could not consume comes back and goes to the group's retry topic,
// later to its dead-letter topic (retry.go). Settings and progress are on disk,
// the rest lives as long as the connections.
//
// Progress carries, beside the number, what it was meant as (Progress): replicas
// exchange what changed (Offsets.Since) and merge it by a total order
// (Offsets.Merge), so that nobody's progress goes back because a peer was down.
//
// The package starts no goroutine: the broker calls Members.Expire, Offsets.Sweep
// and Offsets.Persist from its task loop. No lock is held while a peer is notified
// or the disk is waited for, and no two locks of the package are ever held
// together, except that Groups takes its own inside the lock of its committer.
package subgroup
