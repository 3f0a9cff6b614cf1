package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"mqctl/store/record"
)

// sumBytes is how much of a record is compared: its head, which holds its
// position, its store time and the checksum of its body, and more.
const sumBytes = 64 << 10

// probe asks the master for the sums of stretches, or an Apache master for records:
// Known and Sum are filled in where it has them.
type probe func(ctx context.Context, r []Range) ([]Range, error)

// span is a record or blank of our own log.
type span struct{ from, to int64 }

// spanAt reads which one begins at p.
func spanAt(log Log, p int64) (s span, compare int64, err error) {
	var head [8]byte
	n, err := log.ReadRaw(head[:], record.PhysOffset(p))
	if err == nil && n < len(head) {
		err = fmt.Errorf("the log ends inside the record at %d", p)
	}
	if err != nil {
		return span{}, 0, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:])))
	if size < record.BlankSize {
		return span{}, 0, fmt.Errorf("no record begins at %d", p)
	}
	compare = min(size, sumBytes)
	if int32(binary.BigEndian.Uint32(head[4:])) == record.MagicBlank {
		compare = record.BlankSize
	}
	return span{p, p + size}, compare, nil
}

// lastSpan is the newest record of our log; false if the log is empty.
func lastSpan(log Log) (Range, bool, error) {
	p, ok := log.LastRecord()
	if !ok {
		return Range{}, false, nil
	}
	s, compare, err := spanAt(log, int64(p))
	return Range{From: s.from, To: s.from + compare}, true, err
}

// common finds how far our log is the same as the master's, by a search among our
// records in [lo, hi), sixteen at a time. A record that is the same there proves
// that all before it is the same, since logs only grow, and each record holds its
// own position and time. verified is false if no record is the same.
//
// Invariants: what ends at or before lo is the same, or lo is where it began; what
// begins at or after hi is not the same.
func common(ctx context.Context, log Log, ask probe, lo, hi int64) (end int64, verified bool, err error) {
	for lo < hi {
		spans, ranges, err := candidates(log, lo, hi)
		if err != nil || len(spans) == 0 {
			return lo, verified, err
		}
		got, err := ask(ctx, ranges)
		if err != nil {
			return lo, verified, err
		}
		if len(got) != len(ranges) {
			return lo, verified, errors.New("the master did not answer for each stretch that it was asked about")
		}
		for i, s := range spans {
			sum, err := log.RawSum(record.PhysOffset(ranges[i].From), record.PhysOffset(ranges[i].To))
			if err != nil {
				return lo, verified, err
			}
			if !got[i].Known || got[i].Sum != sum {
				hi = s.from
				break
			}
			lo, verified = s.to, true
		}
	}
	return lo, verified, nil
}

// candidates chooses records of [lo, hi), spread evenly; lo is where one begins.
func candidates(log Log, lo, hi int64) (spans []span, ranges []Range, err error) {
	var at []int64
	const parts = 17
	for i := range int64(parts) {
		p := hi - 1
		if i < parts-1 {
			p = lo + int64(float64(hi-lo)*float64(i)/parts)
		}
		r, ok, err := log.RecordBefore(record.PhysOffset(p))
		if err != nil {
			return nil, nil, err
		}
		if !ok || int64(r) < lo {
			r = record.PhysOffset(lo)
		}
		at = append(at, int64(r))
	}
	slices.Sort(at)
	for _, p := range slices.Compact(at) {
		s, compare, err := spanAt(log, p)
		if err != nil {
			return nil, nil, err
		}
		spans = append(spans, s)
		ranges = append(ranges, Range{From: p, To: p + compare})
	}
	return spans, ranges, nil
}
