package broker

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// parseValue checks one value against its key and returns the form that is
// kept: plain numbers in the unit of the key, true or false, the choice in
// RocketMQ's spelling. The error says what would be right.
func (k *Key) parseValue(raw string) (string, error) {
	v := strings.TrimSpace(raw)
	switch k.Kind {
	case Text:
		return k.parseText(v)
	case Bool:
		return parseBool(v)
	case Enum:
		return k.parseEnum(v)
	case Float:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return "", fmt.Errorf("%q is no number", v)
		}
		return strconv.FormatFloat(f, 'g', -1, 64), nil
	default: // whole numbers
	}
	n, err := k.parseNumber(v)
	if err != nil {
		return "", err
	}
	if lo, hi := k.bounds(); n < lo || n > hi {
		return "", fmt.Errorf("%s is out of range: it must be between %d and %d", v, lo, hi)
	}
	return strconv.FormatInt(n, 10), nil
}

// bounds are the smallest and largest number the key takes.
func (k *Key) bounds() (lo, hi int64) {
	if k.Min != 0 || k.Max != 0 {
		return k.Min, k.Max
	}
	switch k.Kind {
	case Long:
		return math.MinInt64, math.MaxInt64
	case Bytes:
		return 0, math.MaxInt64
	case Millis:
		return 0, math.MaxInt64 / int64(time.Millisecond)
	default:
		return math.MinInt32, math.MaxInt32
	}
}

func (k *Key) parseNumber(v string) (int64, error) {
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		return n, nil
	}
	switch k.Kind {
	case Bytes:
		n, err := humanize.ParseBytes(v)
		if err != nil || n > math.MaxInt64 || strings.ContainsAny(v, "-+") {
			return 0, fmt.Errorf("%q is no size: write bytes or a size with its unit, as 64MiB", v)
		}
		return int64(n), nil
	case Millis, Seconds:
		unit, name := time.Millisecond, "milliseconds"
		if k.Kind == Seconds {
			unit, name = time.Second, "seconds"
		}
		d, err := parseDuration(v)
		if err != nil {
			return 0, fmt.Errorf("%q is no time: write %s or a time with its unit, as 5s", v, name)
		}
		if d%unit != 0 {
			return 0, fmt.Errorf("%q is finer than %s, the unit of this key", v, name)
		}
		return int64(d / unit), nil
	default: // no unit to read
	}
	if isDigits(v) {
		return 0, fmt.Errorf("%s is too large a number", v)
	}
	return 0, fmt.Errorf("%q is no whole number", v)
}

// parseDuration is time.ParseDuration with days ("3d").
func parseDuration(v string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(v, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(v)
}

func isDigits(v string) bool {
	return v != "" && strings.Trim(strings.TrimPrefix(v, "-"), "0123456789") == ""
}

func parseBool(v string) (string, error) {
	switch strings.ToLower(v) {
	case "true", "false":
		return strings.ToLower(v), nil
	}
	return "", fmt.Errorf("%q is neither true nor false", v)
}

func (k *Key) parseEnum(v string) (string, error) {
	for _, c := range k.Values {
		if strings.EqualFold(c, v) {
			return c, nil
		}
	}
	return "", fmt.Errorf("%q is none of %s", v, strings.Join(k.Values, ", "))
}

// maxTextBytes bounds one text value.
const maxTextBytes = 4096

func (k *Key) parseText(v string) (string, error) {
	if len(v) > maxTextBytes {
		return "", fmt.Errorf("the value is longer than %d bytes", maxTextBytes)
	}
	for _, r := range v {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return "", fmt.Errorf("%q holds a control character", v)
		}
	}
	if check := textChecks[k.Name]; check != nil && (v != "" || k.Name == "messageDelayLevel") { // there, empty is not "unset"
		return v, check(v)
	}
	return v, nil
}

// checkName holds the rule for names of brokers and clusters, which become part
// of paths and of topic names.
func checkName(v string) error {
	if len(v) > 127 {
		return fmt.Errorf("the name is %d characters long, 127 are the limit", len(v))
	}
	if v == "." || v == ".." {
		return fmt.Errorf("%q is no name", v)
	}
	for _, r := range v {
		if !strings.ContainsRune("._-", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return fmt.Errorf("%q holds %q: letters, digits and . _ - are allowed", v, r)
		}
	}
	return nil
}
