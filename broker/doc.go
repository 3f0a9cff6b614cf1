// Package broker is one RocketMQ-compatible broker: it serves the remoting
// protocol on two ports, keeps messages in a store, topics, groups and progress
// in tables, and tells nameservers about itself. ARCHITECTURE.md beside this file
// has the pictures, the life of a message and the list of departures from
// RocketMQ.
//
// # Handlers
//
// requests.go maps a request code to its handler. Inline handlers run on the
// connection's reader and never wait: sends, pulls, offsets, heartbeats, locks.
// What would wait (an automatic creation, a cold read, a send-back, every admin
// request) is cloned and given to a bounded pool. Each handler is a struct that
// names the few things it uses; Broker constructs them and does nothing else.
//
// # Goroutines
//
// All are started by Run, each with an end of its own so that shutdown can
// follow an order; nothing else starts one.
//
//	store            store.Store.Run: flusher and dispatcher; ended last
//	held pulls       hold.Pulls.Run: owns the timer of held pulls; its end answers all
//	delayed messages toggle.Run with delay.Scheduler.Run: delivers due messages and saves its
//	                 progress, while this is a master that takes sends
//	housekeeping     keepHouse: saves consumer progress, expires silent clients, samples statistics
//	data pool        dataWorkers workers: auto-creation, send-back, cold reads
//	admin pool       adminWorkers workers: what operators ask
//	replication port replication.Master.Run: slaves copy from it; ended after the last send is answered
//	replication      toggle.Run with replication.Slave.Run: follows the master, while this is a slave
//	watch            watchPeers: the snapshot of the other replicas, whether the master lives
//	questions        askPeers: hellos to the master every second, 26 to Apache's every five
//	main, fast port  remoting.Server.Serve: accept; one reader for each connection, and a
//	                 writer while a client leaves answers unread
//	watch of the role watchRole: lifts a fence that nothing followed, looks for a newer
//	                 master, notes how far a master's log went
//	old routes       relay.Run: connects to the new master, ends what waited too long
//	tables           slaveSync.Run: a slave's topics, groups and progress follow its master
//	registration     registrar.Run: registers at the nameservers, unregisters at its end; beside it
//	                 the heartbeats of each second and the look at the members of this name
//	readiness        closes Ready when the registration is known; ends then
//
// # Locks
//
// hub.turn is held during a change of role, with its waits: nothing else takes it.
// No other lock of this package is held while another is taken, during a system call
// or a wait. lanes.mu guards a connection's queue of pooled requests (map
// operations only). Tables and the store have their own locks below; a callback
// from them (topics changed, groups changed, messages arrived) takes no lock of
// this package.
package broker
