// Package store is the message store: Apache RocketMQ's commit log, consume
// queues, key index and checkpoint, byte for byte. FORMAT.md beside this file
// draws every file.
//
// # The life of a message
//
//  1. A connection's reader encodes what one burst brought into a Batch: each
//     record with its checksum, tag code and key hashes, the three late fields
//     empty. No lock is held.
//  2. AppendAll takes the append lock once: queue offset, position and store
//     time are set, and each piece goes into the ready segment with one write.
//  3. After the unlock the same goroutine dispatches, unless another is just
//     doing that: the unit into the queue's memory, the keys into the index.
//     With SyncFlush it has to wait for the flush, and the flusher does it.
//  4. OnArrival tells of new units once per queue and round.
//  5. Read finds the units in memory or in a file, and copies the records, in
//     memory for consumers that keep up, with one read for neighbours.
//
// # Replicas
//
// A store either takes messages of its own, or as a replica (SetReplica,
// Options.Replica) the bytes of its master's log: AppendRaw checks whole records, writes each
// burst with one write per segment and dispatches it by the numbers the records
// state, so that log and queues equal the master's to the last byte. RawFile and
// ReadRaw give the bytes out again, RawSum compares two logs. A log that
// turns out to differ is cut (TruncateTo) or put away (SetAside); both keep what
// they take. Readers of queues never see the messages of two masters mixed: what they
// found while a cut was made is read anew.
//
// # What is safe when
//
//   - Under SyncFlush a message is on disk before its sender hears of it, and
//     before anyone can read it.
//   - Without it, the death of the process loses nothing that was acknowledged;
//     a power loss may lose what came within the FlushInterval.
//   - A cut happens completely or not at all: a note on disk says what is
//     to be done, and the next start finishes it.
//   - Queues and index may lag behind the log on disk; the progress file says
//     how far, and the next start rebuilds the rest from the log. That holds through
//     any number of deaths within a recovery. After kill -9 a snapshot of the queues says
//     more: what was written, safe or not (resume.go).
//   - The index has the keys of all records up to its last one: keys that it did not take
//     wait, and newer ones behind them (missed.go).
//   - After a failed sync of the log nothing more is acknowledged, and what the kernel
//     may have dropped is written again by the next start before it counts as safe.
//   - Many queues are synced by one syncfs, where the system tells of writes that failed
//     since the folder was opened (vfs.Disk); else one by one.
//
// # Deletion
//
// Only the oldest file of the log is ever deleted, never the last one, nor one whose
// messages have no safe queue entries. Its name goes first, and that is durable
// before Positions().Min rises: no restart takes it back. Who reads it has its
// descriptor and finishes; then its blocks are given back in steps. Queues then
// begin with their first message that is still there and lose the files in front
// of it, but never their last, which keeps their numbers; so does the index.
//
// # Goroutines
//
// Open starts none that outlives it. Run owns seven, which end with its context:
//
//   - flusher (flushLoop): every fsync of the log. Woken by waiters and by
//     FlushInterval.
//   - preparer (prepareLoop): makes the next segment when one is half full.
//   - keeper (keepLoop): writes queue units and index every second, notes what is written
//     for a start after kill -9, watches the disk, and reads back what dispatch had to
//     leave out. It waits for no sync.
//   - marker (markLoop): syncs and marks every ten seconds, or each GiB of log.
//   - roller (rollLoop): makes the next files of queues. Woken by queues that need one.
//   - retainer (retainLoop): deletes files of the log that are old or that the disk
//     has no place for, and what points into them. Woken by cleanResourceInterval, a
//     full disk and requests.
//   - deadlines (deadlineLoop, only with SyncFlush): answers waiters whose time
//     is up while a sync hangs.
//
// Without Run everything still works: whoever waits for a flush does it, and
// Close settles the rest.
//
// # Locks
//
// In this order: rawState.mu, retainer.turn, keeper.mu, the dispatch lock (dispatcher.mu), the append
// lock (appendMu), dispatcher.pendMu. The locks of noter, flusher, queues, index and log, and
// joiner.mu, are leaves. No file is synced, made or removed under the append lock; under
// the dispatch lock only DeleteTopic does. A cut of a replica's log holds all of
// them: nobody sends to a replica. A mark holds keeper.mu for as long as its syncs take, so
// the keeper never asks for it.
package store
