package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"mqctl/broker/remoting"
)

// Bounds of what a LogRing keeps and of one answer to MQCTL_LOG.
const (
	ringBytes    = 4 << 20
	mostLogLines = 1000
)

// LogRing keeps the newest records of a broker's log in memory, at most 4 MiB, so
// that operators can read them over the network (30006, MQCTL_LOG).
type LogRing struct {
	mu    sync.Mutex // held for slice operations only
	lines [][]byte   // oldest first, each a JSON object without its line end
	bytes int
}

// NewLogRing makes an empty ring.
func NewLogRing() *LogRing { return &LogRing{} }

// Tee is a handler that writes to next what it is for, and to the ring everything
// from level Info on.
func (l *LogRing) Tee(next slog.Handler) slog.Handler {
	return slog.NewMultiHandler(next, slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// Write takes one record from slog's JSON handler. It never fails.
func (l *LogRing) Write(line []byte) (int, error) {
	kept := bytes.Clone(bytes.TrimRight(line, "\n"))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, kept)
	l.bytes += len(kept)
	drop := 0
	for l.bytes > ringBytes && drop < len(l.lines)-1 {
		l.bytes -= len(l.lines[drop])
		l.lines[drop] = nil
		drop++
	}
	l.lines = l.lines[drop:]
	return len(line), nil
}

// since returns up to limit of the newest lines that are not older than t and at
// least of a level, oldest first.
func (l *LogRing) since(t time.Time, level slog.Level, limit int) [][]byte {
	l.mu.Lock()
	all := append([][]byte(nil), l.lines...)
	l.mu.Unlock()
	var out [][]byte
	for i := len(all) - 1; i >= 0 && len(out) < limit; i-- {
		var rec struct {
			Time  time.Time  `json:"time"`
			Level slog.Level `json:"level"`
		}
		if json.Unmarshal(all[i], &rec) != nil {
			continue
		}
		if rec.Time.Before(t) {
			break
		}
		if rec.Level >= level {
			out = append(out, all[i])
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// logAdmin serves MQCTL_LOG (30006).
type logAdmin struct{ ring *LogRing }

// serve answers with the newest records, one JSON object a line. Fields: since (ms
// since 1970), level (debug info warn error), limit.
func (a *logAdmin) serve(_ context.Context, r *remoting.Request) {
	if a.ring == nil {
		r.Reply(remoting.CodeRequestCodeNotSupported, "this broker keeps no log in memory", nil, nil)
		return
	}
	since, _, err := r.Ext.Int("since")
	limit, given, err2 := r.Ext.Int("limit")
	var level slog.Level
	text, _ := r.Ext.Get("level")
	if text == "" {
		text = "info"
	}
	if err != nil || err2 != nil || limit < 0 || level.UnmarshalText([]byte(text)) != nil {
		r.Reply(remoting.CodeInvalidParameter, "since and limit are numbers, level is one of debug, info, warn and error", nil, nil)
		return
	}
	if !given || limit > mostLogLines {
		limit = mostLogLines
	}
	lines := a.ring.since(time.UnixMilli(since), level, int(limit))
	r.Reply(remoting.CodeSuccess, "", remoting.Map{"count": strconv.Itoa(len(lines))}, append(bytes.Join(lines, []byte{'\n'}), '\n'))
}
