// Package consumequeue is one consume queue: a run of 20-byte units, one for
// each message of a queue of a topic, that point into the commit log (Java:
// ConsumeQueue).
//
// The newest units are kept in memory and written in runs, so that ten
// thousand busy queues do not mean ten thousand small writes for as many
// messages. What a crash takes from memory is rebuilt from the commit log.
//
// Layout of a unit, big-endian:
//
//	0  physical offset of the record  8
//	8  size of the record             4
//	12 tag code                       8
package consumequeue

import "encoding/binary"

// UnitBytes is the size of one unit.
const UnitBytes = 20

// Unit points to one message.
type Unit struct {
	Phys int64 // where its record starts in the commit log
	Size int32 // bytes of the record
	Tags int64 // tag code, or the time of delivery in a delay queue
	// Millis is the store time. It is not part of the encoding: only an extension
	// unit has it.
	Millis int64
}

// VoidSize marks a unit without message: Java fills up with {0, VoidSize, 0}
// in front of the first unit of a queue that starts late.
const VoidSize = 0x7FFFFFFF

// Void is the unit without message.
var Void = Unit{Phys: 0, Size: VoidSize}

// IsVoid says that there is no message behind u.
func (u Unit) IsVoid() bool { return u.Phys == 0 && u.Size == VoidSize }

// Valid is false for the zeros behind the last unit of a file, and for
// nonsense.
func (u Unit) Valid() bool { return u.Phys >= 0 && u.Size > 0 }

// End is the position behind the record.
func (u Unit) End() int64 { return u.Phys + int64(u.Size) }

// Put encodes u into the first 20 bytes of b.
func (u Unit) Put(b []byte) {
	_ = b[UnitBytes-1]
	binary.BigEndian.PutUint64(b, uint64(u.Phys))
	binary.BigEndian.PutUint32(b[8:], uint32(u.Size))
	binary.BigEndian.PutUint64(b[12:], uint64(u.Tags))
}

// Decode reads the unit at the start of b.
func Decode(b []byte) Unit {
	_ = b[UnitBytes-1]
	return Unit{
		Phys: int64(binary.BigEndian.Uint64(b)),
		Size: int32(binary.BigEndian.Uint32(b[8:])),
		Tags: int64(binary.BigEndian.Uint64(b[12:])),
	}
}
