package subgroup

import "cmp"

// Source says what made a progress value. The sources are in their order of
// strength within one generation, weakest first.
type Source uint8

// Sources, weakest first.
const (
	// FromReset is an explicit move: an operator's reset, a seek back, a deletion.
	FromReset Source = iota
	// FromCorrection replaces a value beyond the end of a queue that lost its tail.
	FromCorrection
	// FromImport is a number that nobody committed here, such as a copied one.
	FromImport
	// FromCommit is what a consumer committed.
	FromCommit
)

// String names the source as reports show it.
func (s Source) String() string {
	switch s {
	case FromCorrection:
		return "correction"
	case FromImport:
		return "import"
	case FromCommit:
		return "commit"
	default:
		return "reset"
	}
}

// markerMillis is how long the marker of a deletion is kept, so that a replica
// that comes back within it does not bring deleted progress back (7 days).
const markerMillis = 7 * 24 * 3600 * 1000

// Progress is one queue's consume progress with the intent behind it. Two
// replicas cannot tell an operator's reset from a stale copy by the number
// alone; with the generation they can, and merge by a total order (Beats)
// instead of by time.
type Progress struct {
	Offset  int64
	Gen     uint32 // reset generation; each explicit move that may go back adds 1
	Unknown bool   // an Apache broker wrote the number; Gen is 0 then
	Term    uint64 // epoch of the master that wrote it; 0: classic, without roles that change
	Source  Source
	Deleted bool  // marker of a deletion, kept 7 days; Offset means nothing
	Pending bool  // a server-side reset that no pull has seen yet
	Updated int64 // ms; decides only between records that are equal otherwise
}

// ProgressRecord is one key's progress on its way between replicas.
type ProgressRecord struct {
	Topic, Group string
	Queue        int32
	Progress
}

// Beats reports whether p wins over q in a merge of known generations. It is a
// strict total order, so that replicas agree in whatever order and however often
// they exchange: the larger generation; in one generation a commit before an
// import before a correction before a reset, a record before a deletion's
// marker; of two commits the larger offset, of two others the smaller one, as
// reading again is safe and skipping is loss; a reset that a pull has seen before
// one that waits; the larger term; the later time.
func (p Progress) Beats(q Progress) bool { return p.compare(&q) > 0 }

func (p *Progress) compare(q *Progress) int {
	if c := cmp.Compare(p.Gen, q.Gen); c != 0 {
		return c
	}
	if p.Deleted != q.Deleted {
		return prefer(q.Deleted)
	}
	if c := cmp.Compare(p.Source, q.Source); c != 0 {
		return c
	}
	if p.Offset != q.Offset && !p.Deleted {
		return prefer((p.Offset > q.Offset) == (p.Source == FromCommit))
	}
	if p.Pending != q.Pending {
		return prefer(q.Pending)
	}
	if c := cmp.Compare(p.Term, q.Term); c != 0 {
		return c
	}
	return cmp.Compare(p.Updated, q.Updated)
}

func prefer(first bool) int {
	if first {
		return 1
	}
	return -1
}

// merge is what a key holds after cur, which is here, meets in, which another
// replica sent. A number without a generation takes the other's. It does not undo a
// reset that waits nor a deletion: it is older than both, as a broker that writes no
// generations knows neither. A move of such a number here begins generation 1.
func (cur Progress) merge(in Progress) Progress {
	switch {
	case cur.Unknown && !in.Unknown:
		if in.Deleted || in.Pending {
			return in
		}
		cur.Unknown, cur.Gen = false, in.Gen
	case !cur.Unknown && in.Unknown:
		if cur.Deleted || cur.Pending {
			return cur
		}
		in.Unknown, in.Gen = false, cur.Gen
	}
	if in.Beats(cur) {
		return in
	}
	return cur
}

// normal leaves out what means nothing.
func (p Progress) normal() Progress {
	if p.Deleted {
		p.Offset, p.Pending, p.Unknown = 0, false, false
	}
	if p.Unknown {
		p.Gen = 0
	}
	return p
}

// same reports whether two records say the same but for the time of it.
func (p Progress) same(q Progress) bool {
	p.Updated = q.Updated
	return p == q
}
