package record

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

const upperHex = "0123456789ABCDEF"

func appendHex(dst, b []byte) []byte {
	at := len(dst)
	dst = slices.Grow(dst, 2*len(b))[:at+2*len(b)]
	for i, out := 0, dst[at:]; i < len(b) && len(out) >= 2; i, out = i+1, out[2:] {
		out[0], out[1] = upperHex[b[i]>>4], upperHex[b[i]&15]
	}
	return dst
}

// AppendOffsetID appends the upper-case hex offset message id: address, int32
// port, int64 physical offset (MessageDecoder.createMessageId).
func AppendOffsetID(dst []byte, store netip.AddrPort, p PhysOffset) []byte {
	var b [28]byte
	n := putHost(b[:], store)
	binary.BigEndian.PutUint64(b[n:], uint64(p))
	return appendHex(dst, b[:n+8])
}

// ParseOffsetID takes it apart (32 or 56 hex digits of either case). Unique
// ids have the same shape, so success does not prove that id is an offset id;
// a port above 65535 or a negative offset proves that it is none.
func ParseOffsetID(id string) (netip.AddrPort, PhysOffset, error) {
	if len(id) != 32 && len(id) != 56 {
		return netip.AddrPort{}, 0, fmt.Errorf("message id %.80q has %d characters: an offset message id has 32, or 56 with an IPv6 address", id, len(id))
	}
	var buf [28]byte
	b := buf[:len(id)/2]
	if _, err := hex.Decode(b, []byte(id)); err != nil {
		return netip.AddrPort{}, 0, fmt.Errorf("message id %q is not hexadecimal: %w", id, err)
	}
	n := len(b) - 12
	addr, _ := netip.AddrFromSlice(b[:n])
	port := binary.BigEndian.Uint32(b[n:])
	offset := int64(binary.BigEndian.Uint64(b[n+4:]))
	if port > 65535 || offset < 0 {
		return netip.AddrPort{}, 0, fmt.Errorf("message id %q is no offset message id (port %d, offset %d): query it as a unique key", id, port, offset)
	}
	return netip.AddrPortFrom(addr, uint16(port)), PhysOffset(offset), nil
}

// UniqueIDs makes UNIQ_KEY values in the layout of MessageClientIDSetter:
// address, int16 pid, int32 chosen at random once (Java: hash of the class
// loader), int32 ms since the month began, int16 counter. It is safe for
// concurrent use; one per process is enough. Ids repeat only if more than
// 65536 are made in one millisecond.
type UniqueIDs struct {
	prefix  [44]byte // in hex
	length  int
	counter atomic.Uint32
	month   atomic.Pointer[month]
}

// month is a month of the local zone, start <= t < end, in Unix ms.
type month struct{ start, end int64 }

// NewUniqueIDs makes a source of ids for host (32 digits each, 56 for IPv6).
func NewUniqueIDs(host netip.Addr, pid int) *UniqueIDs {
	var b [20]byte
	n := putHost(b[:], netip.AddrPortFrom(host, 0)) - 4
	be := binary.BigEndian
	fixed := be.AppendUint16(b[:n], uint16(pid))
	fixed = be.AppendUint32(fixed, rand.Uint32())
	u := &UniqueIDs{}
	u.length = len(appendHex(u.prefix[:0], fixed))
	u.counter.Store(rand.Uint32())
	return u
}

// Append appends the next id, made at nowMillis.
func (u *UniqueIDs) Append(dst []byte, nowMillis int64) []byte {
	m := u.month.Load()
	if m == nil || nowMillis < m.start || nowMillis >= m.end {
		m = monthOf(nowMillis)
		u.month.Store(m)
	}
	var b [6]byte
	binary.BigEndian.PutUint32(b[:], uint32(nowMillis-m.start))
	binary.BigEndian.PutUint16(b[4:], uint16(u.counter.Add(1)))
	dst = append(dst, u.prefix[:u.length]...)
	return appendHex(dst, b[:])
}

func monthOf(nowMillis int64) *month {
	t := time.UnixMilli(nowMillis)
	start := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, t.Location())
	return &month{start.UnixMilli(), start.AddDate(0, 1, 0).UnixMilli()}
}

// UniqueID is what a client put into a unique id.
type UniqueID struct {
	Host    netip.Addr
	Pid     int // its lowest 16 bits
	At      time.Time
	Counter int
}

// ParseUniqueID reads a unique id of 32 or 56 hex digits. It has the time within
// its month only: of the months that are possible the newest is taken that does not
// lie after now (MessageClientIDSetter.getNearlyTimeFromID).
func ParseUniqueID(id string, now time.Time) (UniqueID, error) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != 16 && len(b) != 28 {
		return UniqueID{}, fmt.Errorf("a unique id has 32 or 56 hex digits")
	}
	host, _ := netip.AddrFromSlice(b[:len(b)-12])
	b = b[len(b)-12:]
	be := binary.BigEndian
	past := time.Duration(be.Uint32(b[6:])) * time.Millisecond
	u := UniqueID{Host: host, Pid: int(be.Uint16(b)), Counter: int(be.Uint16(b[10:]))}
	u.At = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, now.Location()).Add(past)
	if u.At.After(now) {
		u.At = time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, now.Location()).Add(past)
	}
	return u, nil
}
