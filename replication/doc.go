// Package replication copies the commit log from a master to its slaves with
// the byte stream of RocketMQ's DefaultHAService, in both roles: a slave of ours
// follows our master or Apache's, and feeds an Apache slave as well as ours.
//
// # What is promised, and what can be lost
//
//   - Async master: a send is answered when the master has the message. If the
//     master dies for good, what its slaves did not have yet is lost: usually the
//     last milliseconds, at most the gap that stats ha shows.
//   - Sync master: a send is answered SEND_OK when enough replicas hold the
//     message (inSyncReplicas, the master included; all of the in-sync set with
//     allAckInSyncStateSet). With haAckLevel=memory "hold" means that the slave's
//     process wrote it to its file: it outlives the death of either process, and
//     of one machine. With haAckLevel=fsync it is on the slave's disk: it
//     outlives a loss of power at both, if the master flushes synchronously too.
//   - A send that was answered FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE is
//     stored on the master, and replicated later. It is lost if the master never
//     comes back.
//   - Failover by hand (ha promote): planned loses nothing. Forced loses what the
//     new master did not have. The old master's extra tail is set aside in a file
//     when it comes back as a slave, never silently deleted.
//
// A slave appends only what it has checked: record by record, each with its
// magic, size, own position and body checksum. Before it connects to a master of
// ours it compares sums of its newest records (Attach); with an Apache master it
// compares the bytes of its last record. If they differ it stops, says so, and
// asks again every ten seconds. Where either side has a hole, or what fills one,
// nothing is compared: the other one may have the good copy, and keeps it.
// A difference that may have begun inside a hole is taken to begin where the hole
// does: all from there on is set aside, or told of. If all that a slave has behind
// the last common record lies inside its master's hole, nothing can tell whether it is the
// same, and it stays.
//
// # The stream
//
// See frame.go for the bytes. All of them are Apache's. Between nodes of ours the
// connection begins with a preamble (auth.go), which carries the token that
// Attach gave out, so that the master knows whose acknowledgements these are
// whatever lies between; and frames may be larger than Apache's 32 KiB.
//
// # Goroutines
//
// Master.Run owns, until its context ends:
//
//   - acceptor: takes connections, up to maxConns.
//   - ticker: every second; identifies slaves, measures rates, notices who is out of
//     sync.
//   - deadlines: answers waits whose time is up. Woken when waits begin, then by
//     one timer.
//   - per connection a reader: takes reports, and releases the waits that they
//     fulfil; ends with the connection.
//   - per connection a sender: sends what the append path could not, because the
//     socket was full or the slave far behind; heartbeats; ends with the connection.
//
// Appended itself writes to sockets that take the bytes, on the goroutine that
// appended.
//
// Slave.Run owns, until its context ends:
//
//   - the follower, on the caller's goroutine: attaches, dials, reads, appends,
//     reports; the only one that changes the log.
//   - per connection a scout: asks every 5 s where the master's log ends.
//   - per connection, with haAckLevel=fsync, a syncer: syncs and reports.
//
// # Locks
//
// Master.mu (connections, tokens), Master.waitMu (waits) and each connection's
// sendMu are never held together, except that sendMu holders call the Log. None
// covers a wait for a socket.
package replication
