package delay

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// maxLevels bounds the levels of a broker.
	maxLevels = 1024
	// maxDelay bounds one level: beyond it deliver times are no use.
	maxDelay = 100 * 365 * 24 * time.Hour
)

// ParseLevels reads messageDelayLevel, such as "1s 5s 10s 30s 1m": whole
// numbers with a unit of s, m, h or d, divided by blanks.
func ParseLevels(s string) ([]time.Duration, error) {
	var levels []time.Duration
	for text := range strings.FieldsSeq(s) {
		unit, known := units(text[len(text)-1])
		n, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
		if !known || err != nil || n < 0 || n > int64(maxDelay/unit) {
			return nil, fmt.Errorf("delay level %q: write a whole number and one of the units s, m, h, d, such as 30s", text)
		}
		levels = append(levels, time.Duration(n)*unit)
	}
	switch {
	case len(levels) == 0:
		return nil, fmt.Errorf("no delay levels in %q: write some such as 1s 5s 10s", s)
	case len(levels) > maxLevels:
		return nil, fmt.Errorf("%d delay levels are too many, at most %d", len(levels), maxLevels)
	}
	return levels, nil
}

func units(unit byte) (time.Duration, bool) {
	switch unit {
	case 's':
		return time.Second, true
	case 'm':
		return time.Minute, true
	case 'h':
		return time.Hour, true
	case 'd':
		return 24 * time.Hour, true
	}
	return 1, false
}
