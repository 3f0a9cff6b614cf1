// Package record is the codec of one stored message: pure functions, no
// allocation on the send and pull path.
//
// A record, as Apache RocketMQ's MessageExtEncoder writes it and
// MessageDecoder reads it; integers are big-endian and signed, a host is an
// address of 4 or 16 bytes (sysFlag bits 0x10 and 0x20) and an int32 port:
//
//	 0  int32 totalSize, of the whole record
//	 4  int32 magic, version 1 or 2
//	 8  int32 CRC-32 of the body & 0x7FFFFFFF
//	12  int32 queueId
//	16  int32 flag, the application's
//	20  int64 queueOffset      patched when the record gets its place
//	28  int64 physicalOffset   patched
//	36  int32 sysFlag
//	40  int64 bornTimestamp, ms
//	48  host  bornHost
//	    int64 storeTimestamp, ms   patched
//	    host  storeHost
//	    int32 reconsumeTimes
//	    int64 preparedTransactionOffset
//	    int32 length, body
//	    int8  length, topic        (version 2: int16 length)
//	    int16 length, properties   (name 0x01 value 0x02, repeated)
//
// Consumers get these bytes as they lie in the log.
package record
