package cli

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// format says how a value is shown in tables. JSON and CSV always have the
// plain value.
type format uint8

const (
	asText    format = iota
	asNumber         // 1,234,567 on a terminal
	asBytes          // 8.0 KiB on a terminal
	asRate           // per second
	asPercent        // 0 to 100
	asMillis         // a length of time in ms
	asTime           // an RFC 3339 text
	asPerm           // permission bits as rw
	asList           // joined with commas
	asCommand        // words of a command line
	asPairs          // a map as k=v,k=v
	asBody           // somebody's text: escaped in a pipe, not changed
	asSplit          // a pullSplit in percent
	asChanges        // settings as key=before->after
	asReplica        // the id of a replica, with its part on a terminal
	asTry            // sentences and commands of a last column: with their blanks in a pipe too
)

// right reports whether cells of the format are aligned to the right.
func (f format) right() bool {
	switch f {
	case asText, asTime, asPerm, asList, asCommand, asTry, asPairs, asBody, asChanges, asReplica:
		return false
	default:
		return true
	}
}

// cell formats one value for people (terminal) or for awk (pipe).
func (s *style) cell(v any, f format) string {
	if v == nil {
		return s.unknown()
	}
	var text string
	switch f {
	case asNumber, asBytes, asMillis:
		if text = plain(v); !reflect.ValueOf(v).CanFloat() { // parts of a millisecond are told as they are
			text = s.whole(v, f)
		}
	case asRate:
		text = s.rate(v)
	case asPercent:
		text = strconv.FormatFloat(number(v), 'f', -1, 64)
		if s.terminal {
			text = fmt.Sprintf("%.0f %%", number(v))
		}
	case asTime:
		text = s.when(fmt.Sprint(v))
	case asPerm:
		text = permText(int(number(v)))
	case asReplica:
		if text = plain(v); s.terminal {
			text = map[bool]string{true: "master", false: "slave"}[number(v) == 0] + " (" + text + ")"
		}
	case asTry:
		text = oneLine(joinedWith(v, "   or   "))
	case asList:
		text = oneLine(joined(v))
	case asCommand:
		if text = joined(v); s.terminal {
			text = oneLine(joinedWith(v, " "))
		}
	case asPairs:
		text = joinedPairs(v)
	case asChanges:
		text = joinedChanges(v)
	case asSplit:
		if split, ok := v.(pullSplit); ok {
			text = split.percent(s.terminal)
		}
	case asBody:
		text = plain(v)
		if s.terminal {
			text = oneLine(text)
		} else {
			text = escaped(text)
		}
	default:
		text = oneLine(plain(v))
	}
	if text == "" {
		return s.unknown()
	}
	if !s.terminal && f != asTry {
		// One word a cell, so that every row has the same number of words.
		text = strings.Join(strings.Fields(text), "_")
	}
	return text
}

// joinedChanges is a list of changed settings as one text.
func joinedChanges(v any) string {
	list, _ := v.([]settingChange)
	parts := make([]string, len(list))
	for i, ch := range list {
		parts[i] = ch.Key + "=" + valueText(ch.Before) + "->" + valueText(ch.After)
	}
	return strings.Join(parts, ",")
}

// escaped writes a text as one word with Go's escapes, so that it can be read
// back: \x20 is a blank.
func escaped(text string) string {
	quoted := strconv.Quote(text)
	body := strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	return strings.ReplaceAll(body, " ", `\x20`)
}

// unknown is the cell of a value that is not known or empty.
func (s *style) unknown() string { return "-" }

// whole formats integers.
func (s *style) whole(v any, f format) string {
	n := int64(number(v))
	if i, ok := v.(int64); ok {
		n = i
	}
	if !s.terminal || f == asBytes && s.units == "bytes" {
		return strconv.FormatInt(n, 10)
	}
	switch f {
	case asBytes:
		if n < 0 {
			return "-" + humanize.IBytes(uint64(-n))
		}
		return humanize.IBytes(uint64(n))
	case asMillis:
		return shortDuration(time.Duration(n) * time.Millisecond)
	default:
		return humanize.Comma(n)
	}
}

func (s *style) rate(v any) string {
	n := number(v)
	switch {
	case !s.terminal:
		return strconv.FormatFloat(n, 'f', 2, 64)
	case n >= 100 || n == math.Trunc(n):
		return humanize.Comma(int64(math.Round(n)))
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// when shows a time as the flags say; never relative in a pipe.
func (s *style) when(rfc string) string {
	t, err := time.Parse(time.RFC3339, rfc)
	if err != nil {
		return rfc
	}
	switch {
	case s.time == "utc" || !s.terminal && s.time != "local":
		return stamp(t)
	case s.time == "local":
		return t.Local().Format("2006-01-02 15:04:05")
	}
	return shortDuration(s.now.Sub(t))
}

// shortDuration shows a duration with its two largest units.
func shortDuration(d time.Duration) string {
	if d <= -time.Millisecond {
		return "-" + shortDuration(-d)
	}
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

// number reads any numeric value.
func number(v any) float64 {
	rv := reflect.ValueOf(v)
	switch {
	case rv.CanInt():
		return float64(rv.Int())
	case rv.CanUint():
		return float64(rv.Uint())
	case rv.CanFloat():
		return rv.Float()
	}
	return 0
}

// plain is the value without any dressing, as in CSV.
func plain(v any) string {
	v = deref(v)
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case fmt.Stringer:
		return x.String()
	}
	return fmt.Sprint(v)
}

func joined(v any) string { return joinedWith(v, ",") }

func joinedWith(v any, between string) string {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Slice {
		return plain(v)
	}
	parts := make([]string, rv.Len())
	for i := range parts {
		parts[i] = plain(rv.Index(i).Interface())
	}
	return strings.Join(parts, between)
}

func joinedPairs(v any) string {
	m, ok := v.(map[string]string)
	if !ok {
		return plain(v)
	}
	return strings.Join(pairs(m), ",")
}

// permText writes permission bits (4 read, 2 write).
func permText(p int) string {
	switch p & 6 {
	case 6:
		return "rw"
	case 4:
		return "r"
	case 2:
		return "w"
	}
	return "none"
}

// compare orders two values: numbers by size, everything else as text, unknown last.
func compare(a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	ra, rb := reflect.ValueOf(a), reflect.ValueOf(b)
	isNum := func(v reflect.Value) bool { return v.CanInt() || v.CanUint() || v.CanFloat() }
	if isNum(ra) && isNum(rb) {
		x, y := number(a), number(b)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	return strings.Compare(plain(a), plain(b))
}
