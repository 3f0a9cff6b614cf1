package subgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Records and leases travel between brokers of one name in this form. Numbers
// are varints (u: unsigned, s: zigzag), texts a length (u) and bytes.
//
//	records: count u, then each:
//	  flags   1 B    Deleted 1, Pending 2, Unknown 4, same row as the one before 128
//	  source  1 B
//	  topic, group   texts; absent in the same row
//	  queue s, offset s, gen u, term u, updated s
//	leases:  count u, then each:
//	  group, client, topic, broker name   texts
//	  queue s, left u (ms)
//
// A length is checked against the rest of the bytes before memory is taken.

const (
	wireSameRow = 128
	// leastRecord and leastLease are the smallest sizes, in bytes: they bound what
	// a count can claim.
	leastRecord = 7
	leastLease  = 6
	// maxNameBytes bounds the names of records and leases.
	maxNameBytes = 4096
)

// AppendRecords appends records for DecodeRecords. Those of one row are smaller
// when they follow each other, as Since returns them after a load.
func AppendRecords(dst []byte, records []ProgressRecord) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	for i := range records {
		r := &records[i]
		flags := byte(flagsOf(&r.Progress))
		same := i > 0 && r.Topic == records[i-1].Topic && r.Group == records[i-1].Group
		if same {
			flags |= wireSameRow
		}
		dst = append(dst, flags, byte(r.Source))
		if !same {
			dst = appendText(appendText(dst, r.Topic), r.Group)
		}
		dst = binary.AppendVarint(dst, int64(r.Queue))
		dst = binary.AppendVarint(dst, r.Offset)
		dst = binary.AppendUvarint(dst, uint64(r.Gen))
		dst = binary.AppendUvarint(dst, r.Term)
		dst = binary.AppendVarint(dst, r.Updated)
	}
	return dst
}

// DecodeRecords reads what AppendRecords wrote; nothing may follow it.
func DecodeRecords(b []byte) ([]ProgressRecord, error) {
	d := wireReader{b: b}
	n := d.count(leastRecord)
	records := make([]ProgressRecord, 0, n)
	for i := range n {
		var r ProgressRecord
		flags := d.byte()
		r.Source = Source(d.byte())
		if flags&wireSameRow == 0 {
			r.Topic, r.Group = d.text(), d.text()
		} else if i > 0 {
			r.Topic, r.Group = records[i-1].Topic, records[i-1].Group
		}
		r.Queue = int32(d.signed(math.MinInt32, math.MaxInt32))
		r.Offset = d.signed(math.MinInt64, math.MaxInt64)
		r.Gen = uint32(d.unsigned(math.MaxUint32))
		r.Term = d.unsigned(math.MaxInt64)
		r.Updated = d.signed(math.MinInt64, math.MaxInt64)
		f := cellFlags(flags &^ wireSameRow)
		r.Deleted, r.Pending, r.Unknown = f&flagDeleted != 0, f&flagPending != 0, f&flagUnknown != 0
		if d.err == nil && (f&^flagsKnown != 0 || r.Source > FromCommit || r.Topic == "" || r.Group == floorGroup && !r.Deleted) {
			d.err = errors.New("it has unknown marks or no name")
		}
		if d.err != nil {
			return nil, fmt.Errorf("progress record %d of %d: %w", i+1, n, d.err)
		}
		records = append(records, r)
	}
	return records, d.end("progress records")
}

// AppendLeases appends leases for DecodeLeases.
func AppendLeases(dst []byte, leases []Lease) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(leases)))
	for i := range leases {
		l := &leases[i]
		dst = appendText(appendText(dst, l.Group), l.ClientID)
		dst = appendText(appendText(dst, l.Queue.Topic), l.Queue.BrokerName)
		dst = binary.AppendVarint(dst, int64(l.Queue.QueueID))
		dst = binary.AppendUvarint(dst, uint64(max(l.LeftMillis, 0)))
	}
	return dst
}

// DecodeLeases reads what AppendLeases wrote; nothing may follow it.
func DecodeLeases(b []byte) ([]Lease, error) {
	d := wireReader{b: b}
	n := d.count(leastLease)
	leases := make([]Lease, 0, n)
	for i := range n {
		var l Lease
		l.Group, l.ClientID = d.text(), d.text()
		l.Queue.Topic, l.Queue.BrokerName = d.text(), d.text()
		l.Queue.QueueID = int32(d.signed(math.MinInt32, math.MaxInt32))
		l.LeftMillis = int64(d.unsigned(lockMillis))
		if d.err != nil {
			return nil, fmt.Errorf("queue lease %d of %d: %w", i+1, n, d.err)
		}
		leases = append(leases, l)
	}
	return leases, d.end("queue leases")
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// wireReader reads until the first error, which it keeps; then everything is 0.
type wireReader struct {
	b   []byte
	err error
}

var errCut = errors.New("the bytes end too early")

func (d *wireReader) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *wireReader) byte() byte {
	if len(d.b) == 0 {
		d.fail(errCut)
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *wireReader) unsigned(most uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail(errCut)
		return 0
	}
	d.b = d.b[n:]
	if v > most {
		d.fail(fmt.Errorf("%d is more than %d", v, most))
		return 0
	}
	return v
}

func (d *wireReader) signed(least, most int64) int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail(errCut)
		return 0
	}
	d.b = d.b[n:]
	if v < least || v > most {
		d.fail(fmt.Errorf("%d is not within %d and %d", v, least, most))
		return 0
	}
	return v
}

func (d *wireReader) text() string {
	n := d.unsigned(maxNameBytes)
	if n > uint64(len(d.b)) {
		d.fail(errCut)
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

// count reads how many follow, each of at least size bytes.
func (d *wireReader) count(size int) int {
	n := d.unsigned(math.MaxInt64)
	if n > uint64(len(d.b)/size) {
		d.fail(fmt.Errorf("%d entries do not fit into %d bytes", n, len(d.b)))
		return 0
	}
	return int(n)
}

// end is the first error, or that something is left.
func (d *wireReader) end(what string) error {
	if d.err == nil && len(d.b) > 0 {
		d.err = fmt.Errorf("%d bytes follow the last one", len(d.b))
	}
	if d.err != nil {
		return fmt.Errorf("%s: %w", what, d.err)
	}
	return nil
}
