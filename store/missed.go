package store

// mostMissed is how many keys wait in memory for an index that takes none.
const mostMissed = 1 << 16

// missed are the keys that the index did not take, in the order of the log. While there are
// any, newer ones wait behind them: the index has the keys of all records up to its last one, or
// a start would not put in again what is missing before that. Guarded by the dispatch lock.
type missed struct {
	keys []missedKey
	last int64 // the newest record whose keys are missing, if there are any
	lost bool  // more than wait here: the next start puts them in, from the log
}

type missedKey struct {
	hash         int32
	phys, millis int64
}

func (m *missed) any() bool { return m.lost || len(m.keys) > 0 }

func (m *missed) add(k missedKey) {
	m.last = k.phys
	if m.lost || len(m.keys) == mostMissed {
		m.lost = true
		return
	}
	m.keys = append(m.keys, k)
}

// cut forgets what lies at pos or behind it.
func (m *missed) cut(pos int64) {
	n := len(m.keys)
	for n > 0 && m.keys[n-1].phys >= pos {
		n--
	}
	m.keys = m.keys[:n]
	m.last = min(m.last, pos-1)
}

// putKey gives a key to the index. The caller holds the dispatch lock.
func (s *Store) putKey(k missedKey) {
	m := &s.disp.missed
	if m.any() {
		m.add(k)
		return
	}
	if err := s.index.Put(k.hash, k.phys, k.millis); err != nil {
		m.add(k)
		s.indexFailed(err)
	}
}

// putMissed tries again. The caller holds the dispatch lock.
func (s *Store) putMissed() {
	m := &s.disp.missed
	for i, k := range m.keys {
		if err := s.index.Put(k.hash, k.phys, k.millis); err != nil {
			m.keys = m.keys[i:]
			s.indexFailed(err)
			return
		}
	}
	m.keys = nil
}
