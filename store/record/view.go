package record

import (
	"encoding/binary"
	"net/netip"
)

// View reads the fields of one encoded record without copying it. Its slices
// are parts of the bytes given to Parse.
type View struct {
	raw                                                 []byte
	bodyAt, bodyLen, topicAt, topicLen, propAt, propLen int
}

// Parse checks the structure of the record at the start of b (size, magic,
// field lengths; not the CRC) and returns a view of it. len(b) may exceed the
// record. Errors: ErrTruncated, ErrMagic, ErrBlank, ErrLengths.
func Parse(b []byte) (View, error) {
	if len(b) < BlankSize {
		return View{}, ErrTruncated
	}
	be := binary.BigEndian
	magic := int32(be.Uint32(b[magicAt:]))
	lenBytes := 1
	switch magic {
	case MagicV1:
	case MagicV2:
		lenBytes = 2
	case MagicBlank:
		return View{}, ErrBlank
	default:
		return View{}, ErrMagic
	}
	size := int(int32(be.Uint32(b)))
	if size < MinSize {
		return View{}, ErrLengths
	}
	if size > len(b) {
		return View{}, ErrTruncated
	}
	b = b[:size:size]
	v := View{raw: b}
	flags := int32(be.Uint32(b[sysFlagAt:]))
	at := bornHostAt + hostSize(flags, FlagBornV6) + 8 + hostSize(flags, FlagStoreV6) + 12
	// The three variable fields: each length must be there, be positive and
	// leave room for what follows. All sums stay far below the int range.
	if at+4 > size {
		return View{}, ErrLengths
	}
	v.bodyAt, v.bodyLen = at+4, int(int32(be.Uint32(b[at:])))
	if v.bodyLen < 0 || v.bodyLen > size-v.bodyAt-lenBytes-2 {
		return View{}, ErrLengths
	}
	at = v.bodyAt + v.bodyLen
	if lenBytes == 1 {
		v.topicLen = int(int8(b[at]))
	} else {
		v.topicLen = int(int16(be.Uint16(b[at:])))
	}
	v.topicAt = at + lenBytes
	if v.topicLen < 0 || v.topicLen > size-v.topicAt-2 {
		return View{}, ErrLengths
	}
	at = v.topicAt + v.topicLen
	v.propAt, v.propLen = at+2, int(int16(be.Uint16(b[at:])))
	if v.propLen < 0 || v.propAt+v.propLen != size {
		return View{}, ErrLengths
	}
	return v, nil
}

func (v View) int32At(at int) int32 { return int32(binary.BigEndian.Uint32(v.raw[at:])) }
func (v View) int64At(at int) int64 { return int64(binary.BigEndian.Uint64(v.raw[at:])) }

// storeAt is the position of the store time.
func (v View) storeAt() int { return bornHostAt + hostSize(v.SysFlag(), FlagBornV6) }

// tailAt is the position of reconsumeTimes.
func (v View) tailAt() int { return v.bodyAt - 16 }

// Raw is exactly the record.
func (v View) Raw() []byte { return v.raw }

// Size is the length of the record in bytes.
func (v View) Size() int { return len(v.raw) }

// Version is 1, or 2 for a record with a long topic.
func (v View) Version() int {
	if v.int32At(magicAt) == MagicV2 {
		return 2
	}
	return 1
}

// QueueID is the number of the queue.
func (v View) QueueID() int32 { return v.int32At(queueIDAt) }

// Flag is the application's flag.
func (v View) Flag() int32 { return v.int32At(flagAt) }

// QueueOffset is the number of the message in its queue.
func (v View) QueueOffset() QueueOffset { return QueueOffset(v.int64At(queueOffsetAt)) }

// PhysOffset is the position of the record in the commit log.
func (v View) PhysOffset() PhysOffset { return PhysOffset(v.int64At(physOffsetAt)) }

// SysFlag has the Flag bits.
func (v View) SysFlag() int32 { return v.int32At(sysFlagAt) }

// RolledBack says whether a record's head, its first MinSize bytes, has the bits of a
// transaction that was rolled back.
func RolledBack(head []byte) bool {
	return len(head) >= MinSize && View{raw: head}.SysFlag()&FlagRollback == FlagRollback
}

// BornMillis is the producer's clock, Unix milliseconds.
func (v View) BornMillis() int64 { return v.int64At(bornMillisAt) }

// StoreMillis is the broker's clock, Unix milliseconds.
func (v View) StoreMillis() int64 { return v.int64At(v.storeAt()) }

// BornHost is the producer's address.
func (v View) BornHost() netip.AddrPort { return v.hostAt(bornHostAt, FlagBornV6) }

// StoreHost is the address of the broker that stored the message first.
func (v View) StoreHost() netip.AddrPort { return v.hostAt(v.storeAt()+8, FlagStoreV6) }

// hostAt reads an address. A port outside of 16 bits, which nobody sends but
// the field can hold, loses its high bits.
func (v View) hostAt(at int, bit int32) netip.AddrPort {
	n := hostSize(v.SysFlag(), bit) - 4
	addr, _ := netip.AddrFromSlice(v.raw[at : at+n])
	return netip.AddrPortFrom(addr, uint16(v.int32At(at+n)))
}

// ReconsumeTimes counts earlier failed deliveries.
func (v View) ReconsumeTimes() int32 { return v.int32At(v.tailAt()) }

// PreparedOffset is the position of the half message that this one commits.
func (v View) PreparedOffset() PhysOffset { return PhysOffset(v.int64At(v.tailAt() + 4)) }

// BodyCRC is the stored checksum of the body.
func (v View) BodyCRC() uint32 { return uint32(v.int32At(crcAt)) }

// Body is the body as stored, perhaps compressed.
func (v View) Body() []byte { return v.raw[v.bodyAt : v.bodyAt+v.bodyLen] }

// Topic is the topic of the queue that holds the message.
func (v View) Topic() []byte { return v.raw[v.topicAt : v.topicAt+v.topicLen] }

// Properties is the encoded property text.
func (v View) Properties() []byte { return v.raw[v.propAt : v.propAt+v.propLen] }

// Property is the value of the first property called name, nil if absent.
func (v View) Property(name string) []byte { return FindProperty(v.Properties(), name) }

// CheckCRC compares the body with its checksum; the error is ErrBodyCRC.
func (v View) CheckCRC() error {
	if CRC31(v.Body()) != v.BodyCRC() {
		return ErrBodyCRC
	}
	return nil
}
