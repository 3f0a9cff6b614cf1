// Package archive carries messages from one store to another in a file or
// through a pipe: the raw records of a range of the log, in their order.
//
//	"MQCTL-ARCHIVE 1\n"  16 bytes
//	block 0              JSON of a Header
//	block 1, 2, ...      whole records as in the commit log, back to back
//	end                  a block of 40 bytes with its length stated as 0:
//	                     int64 number of records, SHA-256 of all record bytes
//
// A block is int32 length, int32 CRC-32C of its content, content; integers are
// big-endian. A block has at most 1 MiB, unless it is one longer record, and
// never more than 256 MiB. An archive without its end is not complete.
//
// An import appends the messages as new ones: they get new positions and the
// next numbers of their queues, and keep topic, queue, body, properties and with
// them their unique ids, the times and hosts of their birth, and their store
// time, unless the store has newer messages already: the order of the log is that
// of its store times.
package archive
