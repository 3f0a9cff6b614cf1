package store

import (
	"bytes"
	"slices"

	"mqctl/store/internal/keyindex"
	"mqctl/store/record"
)

// QueryResult of Query.
type QueryResult struct {
	Count            int
	LastUpdateMillis int64
	LastUpdatePhys   record.PhysOffset
}

const (
	// maxQueryCandidates bounds how many index hits one query looks at.
	maxQueryCandidates = 10000
	// maxQueryBytes ends a query whose records fill a frame.
	maxQueryBytes = 16 << 20
)

// Query finds messages by key through the index, verified against the records
// (topic and key equal): oldest last (newest files first), at most max, each
// record appended to dst. unique: key is a UNIQ_KEY, else one of KEYS.
// Times are store times, both ends included.
func (s *Store) Query(dst []byte, topic, key string, max int, beginMillis, endMillis int64, unique bool) ([]byte, QueryResult) {
	var res QueryResult
	if s.index == nil || max <= 0 {
		return dst, res
	}
	millis, phys := s.index.LastUpdate()
	res.LastUpdateMillis, res.LastUpdatePhys = millis, record.PhysOffset(phys)
	var seen []int64
	from := len(dst)
	// Entry times are floored to seconds: a second more at both ends, then the
	// record's own time decides.
	err := s.index.Query(keyindex.KeyHash(topic, key), maxQueryCandidates, beginMillis-1000, addSecond(endMillis), func(phys int64) bool {
		if slices.Contains(seen, phys) {
			return true // put twice by a recovery of Apache
		}
		start := len(dst)
		var err error
		if dst, err = s.Message(dst, record.PhysOffset(phys)); err != nil {
			return true // expired, or an entry older than a cut of the log
		}
		v, err := record.Parse(dst[start:])
		if err != nil || string(v.Topic()) != topic || !hasKey(v, key, unique) ||
			v.StoreMillis() < beginMillis || v.StoreMillis() > endMillis {
			dst = dst[:start]
			return true
		}
		seen = append(seen, phys)
		res.Count++
		return res.Count < max && len(dst)-from < maxQueryBytes
	})
	if err != nil {
		s.opt.Log.Error("cannot read the key index", "error", err)
	}
	return dst, res
}

func addSecond(millis int64) int64 {
	if millis > 1<<62 {
		return millis
	}
	return millis + 1000
}

// hasKey looks for the key among all entries of the property, since records
// that Apache made of a client batch have two UNIQ_KEY.
func hasKey(v record.View, key string, unique bool) bool {
	name := record.PropertyKeys
	if unique {
		name = record.PropertyUniqueKey
	}
	for props := v.Properties(); ; {
		n, value, rest, ok := record.NextProperty(props)
		if !ok {
			return false
		}
		props = rest
		if string(n) != name {
			continue
		}
		if unique {
			if string(value) == key {
				return true
			}
			continue
		}
		for part := range bytes.SplitSeq(value, []byte(" ")) {
			if string(part) == key {
				return true
			}
		}
	}
}
