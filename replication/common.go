package replication

import (
	"cmp"
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

// mostRounds bounds the questions of one comparison: sixteen records each.
const mostRounds = 1000

// sameness is how far our log is the same as the master's.
type sameness struct {
	end      int64 // what lies before it is the same
	verified bool  // at least one record is
	// lost: of all that lies behind end one of the two has lost the messages, up to
	// lostTo at least, so nothing says that the logs differ. Without it they do, from
	// somewhere between end and lostTo on.
	lost   bool
	lostTo int64
}

// common finds how far our log is the same as the master's, by a search among our
// records in [lo, hi), sixteen at a time. A record that is the same there proves
// that all before it is the same, since logs only grow, and each record holds its
// own position and time. Where either side has a hole nothing is compared: what the
// other one has there may be the good copy.
//
// Invariants: what ends at or before lo is the same, or lo is where it began; what
// begins at or after hi is not the same, or hi is the end.
func common(ctx context.Context, log Log, ask probe, lo, hi int64) (sameness, error) {
	var lost stretches
	top, verified := hi, false
	for rounds := 0; lo < hi; rounds++ {
		out := sameness{end: lo, verified: verified}
		if rounds == mostRounds {
			return out, fmt.Errorf("the comparison came to no end between %d and %d: both logs are damaged in too many places", lo, hi)
		}
		at, err := candidates(log, lo, hi, &lost)
		if err != nil {
			return out, err
		}
		if len(at) == 0 {
			if end := lost.around(lo); end >= hi { // nothing is left to be compared
				out.lost, out.lostTo = hi == top, end
				return out, nil
			}
			continue // a hole of our own was met
		}
		if lo, hi, verified, err = narrow(ctx, log, ask, at, lo, hi, verified, &lost); err != nil {
			return out, err
		}
	}
	return sameness{end: lo, verified: verified, lostTo: lost.around(lo)}, nil
}

// narrow asks about the records that begin at at.
func narrow(ctx context.Context, log Log, ask probe, at []int64, lo, hi int64, verified bool, lost *stretches) (int64, int64, bool, error) {
	spans, ranges := make([]span, len(at)), make([]Range, len(at))
	for i, p := range at {
		s, compare, err := spanAt(log, p)
		if err != nil {
			return lo, hi, verified, err
		}
		spans[i], ranges[i] = s, Range{From: p, To: p + compare}
	}
	got, err := ask(ctx, ranges)
	if err != nil {
		return lo, hi, verified, err
	}
	if len(got) != len(ranges) {
		return lo, hi, verified, errors.New("the master did not answer for each stretch that it was asked about")
	}
	for i, s := range spans {
		if g := &got[i]; g.LostTo > s.from && g.LostFrom <= s.from {
			lost.add(g.LostFrom, g.LostTo)
			continue
		}
		sum, err := log.RawSum(record.PhysOffset(ranges[i].From), record.PhysOffset(ranges[i].To))
		if err != nil {
			return lo, hi, verified, err
		}
		if !got[i].Known || got[i].Sum != sum {
			return lo, s.from, verified, nil
		}
		lo, verified = s.to, true
	}
	return lo, hi, verified, nil
}

// candidates chooses records of [lo, hi) outside of lost, spread evenly; lo is where
// one begins. It adds to lost what it meets of our own holes.
func candidates(log Log, lo, hi int64, lost *stretches) ([]int64, error) {
	gaps, total := lost.gaps(lo, hi)
	var at []int64
	const parts = 17
	for i := range int64(parts) {
		left := total - 1
		if i < parts-1 {
			left = int64(float64(total) * float64(i) / parts)
		}
		for _, g := range gaps {
			if n := g.to - g.from; left >= n {
				left -= n
				continue
			}
			r, ok, err := log.RecordBefore(record.PhysOffset(g.from + left))
			if err != nil {
				return nil, err
			}
			if !ok || int64(r) < g.from {
				r = record.PhysOffset(g.from) // where a hole ends a record begins
			}
			if from, to, own := log.Lost(r); own {
				lost.add(int64(from), int64(to))
			} else {
				at = append(at, int64(r))
			}
			break
		}
	}
	slices.Sort(at)
	return slices.Compact(at), nil
}

// stretches are parts of a log, in order and apart.
type stretches []span

// add takes [from, to) in.
func (x *stretches) add(from, to int64) {
	out := make(stretches, 0, len(*x)+1)
	for _, s := range *x {
		if s.to < from || s.from > to {
			out = append(out, s)
			continue
		}
		from, to = min(from, s.from), max(to, s.to)
	}
	out = append(out, span{from, to})
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	*x = out
}

// around is the end of the stretch that holds p; p if none does.
func (x *stretches) around(p int64) int64 {
	for _, s := range *x {
		if s.from <= p && p < s.to {
			return s.to
		}
	}
	return p
}

// gaps are what of [lo, hi) lies in none, and how many bytes that is.
func (x *stretches) gaps(lo, hi int64) (out []span, total int64) {
	for _, s := range *x {
		if s.to <= lo || s.from >= hi {
			continue
		}
		if s.from > lo {
			out = append(out, span{lo, s.from})
		}
		lo = max(lo, s.to)
	}
	if lo < hi {
		out = append(out, span{lo, hi})
	}
	for _, g := range out {
		total += g.to - g.from
	}
	return out, total
}
