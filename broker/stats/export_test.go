package stats

// Bound lowers the number of topics and groups that are counted apart.
func (s *Stats) Bound(n int64) { s.bound = n }
