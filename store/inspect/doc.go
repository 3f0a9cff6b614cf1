// Package inspect looks into a store folder without changing it: for store
// verify, dump, offsets and export, and for tests. It knows every file that
// FORMAT.md draws, those of mqctl and those that only RocketMQ writes.
//
// Nothing is locked here and nothing is written; a folder that belongs to a
// running broker may be read too (Options.Live), and then what the broker has
// not written yet counts as no fault. What is read is bounded: files are read
// in pieces, and a whole verification holds 64 MiB of queue entries at most and a
// few hundred bytes for each queue, whatever the size of the store.
//
// # How a store is verified
//
//  1. Names and sizes of all files.
//  2. Each queue is read once: where it begins and ends, and whether only zeros follow.
//  3. The log is read once, from its first to its last record, with the scan that
//     a recovery uses. Each record must be found in its queue under its own number, and
//     its keys in the index, which is read along with the log.
//  4. Queues with entries that no record claimed are read again to say which.
//  5. The small files: checkpoint, configuration, timers, mqctl's own.
//
// There are no goroutines.
package inspect
