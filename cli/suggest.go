package cli

import (
	"sort"
	"strings"
)

// nearest returns up to five of words that look like what was typed, best
// first. It is used for commands, flags, configuration keys and names alike.
func nearest(typed string, words []string) []string {
	type scored struct {
		word string
		d    int
	}
	var hits []scored
	low := strings.ToLower(typed)
	limit := max(len(low)/3, 1)
	for _, w := range words {
		lw := strings.ToLower(w)
		d := editDistance(low, lw)
		if d > limit && len(low) >= 3 && strings.HasPrefix(lw, low) {
			d = limit
		}
		if d <= limit {
			hits = append(hits, scored{w, d})
		}
	}
	sort.SliceStable(hits, func(i, j int) bool { return hits[i].d < hits[j].d })
	var out []string
	for _, h := range hits {
		if len(out) == 5 {
			break
		}
		out = append(out, h.word)
	}
	return out
}

// editDistance counts insertions, removals, replacements and swaps of
// neighbours (optimal string alignment) between a and b, in bytes.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		if a == b {
			return 0
		}
		return 64
	}
	before := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
