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
