// Package keyindex finds messages by key: RocketMQ's index files
// (org.apache.rocketmq.store.index.IndexFile), byte for byte. Integers are
// big-endian:
//
//	 0  int64 beginTimestamp   store time of the first entry, ms
//	 8  int64 endTimestamp     store time of the last entry, ms
//	16  int64 beginPhyOffset
//	24  int64 endPhyOffset
//	32  int32 hashSlotCount    slots in use
//	36  int32 indexCount       next entry number; entry 0 is never used
//	40  slots:   int32 newest entry number of the slot, 0 = none
//	    entries: int32 key hash, int64 physical offset, int32 seconds since
//	             beginTimestamp, int32 previous entry of the same slot
//
// A file is named by its creation time in the local zone, yyyyMMddHHmmssSSS.
//
// # Use
//
//	x, err := keyindex.Open(fs, dir, keyindex.Options{Clean: clean, SyncedMillis: checkpoint.index})
//	err = x.Truncate(logEnd)       // after the recovery of the log, before the first Put
//	from := x.EndPhys()            // dispatch the keys of records behind it
//	err = x.Put(keyindex.KeyHash(topic, key), phys, storeMillis) // once per key, in log order
//	err = x.Flush()                // each second
//	err = x.Sync()                 // each checkpoint
//	err = x.Query(hash, 64, begin, end, func(phys int64) bool { ... }) // candidates: verify them
//
// # How it works
//
// Nothing is mapped. The slot table of the newest file is in memory (4 bytes a
// slot, taken at the first Put) and its newest entries in a buffer. A flush
// writes the entries, then the slots that changed, then the header: after the
// death of the process the header never names an entry that is not there. What
// a power loss did to the newest files is found at the next Open, since each
// entry must link to the one that the entries before it imply; the table is
// rebuilt from the good entries, which Apache's broker instead deletes.
//
// All methods are safe for concurrent use, except that Truncate must not run
// beside Put. No goroutine is started. Locks: Index.syncing, held during syncs and removals,
// comes before Index.io, held during writes, and that before Index.mu, which is never held
// during them.
package keyindex
