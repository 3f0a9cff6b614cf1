package cli

import (
	"math"
	"testing"
)

// TestMemoryLimits: what runs once is bounded, what serves, lives long or measures is not.
func TestMemoryLimits(t *testing.T) {
	free := map[string]bool{"broker start": true, "nameserver start": true, "dev": true, "shell": true, "top": true, "bench send": true, "bench rtt": true, "bench consume": true}
	bounded := 0
	for _, c := range commands().commands {
		limit, name := limitOf(c), c.name(c.path == "")
		switch {
		case free[name] && limit != math.MaxInt64:
			t.Errorf("%s is limited to %d", name, limit)
		case limit != math.MaxInt64:
			bounded++
		case !free[name]:
			t.Errorf("%s is not limited", name)
		}
	}
	if bounded < 100 {
		t.Errorf("only %d commands are bounded", bounded)
	}
}
