package broker

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

func (r *rig) inspectEvents(since int64) body.InspectEvents {
	r.t.Helper()
	resp := r.call(remoting.ReqMqctlInspect, map[string]string{"what": "events", "since": fmt.Sprint(since)}, nil)
	var out body.InspectEvents
	if resp.Code != 0 || json.Unmarshal(resp.Body, &out) != nil {
		r.t.Fatalf("events: %d %s %s", resp.Code, resp.Remark, resp.Body)
	}
	return out
}

// What happens to a pair is told by its brokers afterwards, in order.
func TestEvents(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster(switchable)
		p.startSlave(switchable)
		p.sendBodies(0, 3)
		p.m.b.groups.FindOrCreate("g")
		p.caughtUp()
		<-time.After(5 * time.Second)
		promote(p.m, p.s, 1)
		<-time.After(5 * time.Second)
		p.m.stop()
		<-time.After(15 * time.Second)
		line := func(e body.Event) string {
			return strings.TrimSpace(e.Broker + " " + e.Kind + " " + e.Target + " " + e.Before + " -> " + e.After)
		}
		ev := p.s.inspectEvents(0)
		var got []string
		for i, e := range ev.Events {
			if e.Seq != int64(i+1) || e.At == 0 {
				t.Errorf("event %+v at %d", e, i)
			}
			got = append(got, line(e))
		}
		for _, want := range []string{
			"broker-a/1 GROUP g  -> changed",
			"broker-a/0 ROLE role SLAVE/1 epoch 0 -> ASYNC_MASTER/0 epoch 1",
			"broker-a/0 SLAVE id 1 SYNCING, in sync -> gone",
		} {
			if !slices.Contains(got, want) {
				t.Errorf("%q is not among\n%s", want, strings.Join(got, "\n"))
			}
		}
		if later := p.s.inspectEvents(ev.Next); len(later.Events) != 0 || later.Next != ev.Next {
			t.Errorf("again: %+v", later)
		}
		if resp := p.s.call(remoting.ReqMqctlInspect, map[string]string{"what": "events", "since": "x"}, nil); resp.Code != remoting.CodeInvalidParameter {
			t.Errorf("since=x: %d", resp.Code)
		}
	})
}

func TestEventLogBound(t *testing.T) {
	l := newEventLog(func() string { return "b/0" }, time.Now)
	for range 5 * mostEvents {
		l.names(eventTopic, []string{"t"})
	}
	l.names(eventTopic, slices.Repeat([]string{"t"}, 500))
	got := l.since(0)
	if len(got.Events) != mostEvents || got.Next != 5*mostEvents+1 || got.Events[mostEvents-1].Target != "500 names" || len(l.ring) > 2*mostEvents {
		t.Errorf("%d events up to %d, %d kept", len(got.Events), got.Next, len(l.ring))
	}
}

// The log and the times of operations can be read over the network.
func TestLogAndLatency(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ring := NewLogRing()
		r := start(t, nil, func(o *Options) { o.Logs, o.Log = ring, slog.New(ring.Tee(slog.DiscardHandler)) })
		r.createTopic("T", 1)
		r.mustSend("T", 0, "x")
		r.all("T", 0)
		begin := time.Now()
		<-time.After(time.Second)
		r.b.log.Warn("odd", "peer", "p:1")
		r.b.log.Info("even")
		for _, tt := range []struct {
			ext  map[string]string
			want string
		}{
			{map[string]string{"since": fmt.Sprint(begin.UnixMilli() + 1)}, "odd even"},
			{map[string]string{"since": fmt.Sprint(begin.UnixMilli() + 1), "level": "warn"}, "odd"},
			{map[string]string{"limit": "1"}, "even"},
			{map[string]string{"since": fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())}, ""},
		} {
			resp := r.call(remoting.ReqMqctlLog, tt.ext, nil)
			var got []string
			for line := range strings.Lines(string(resp.Body)) {
				var rec struct{ Msg, Peer string }
				if json.Unmarshal([]byte(line), &rec) == nil {
					got = append(got, rec.Msg)
				}
			}
			if resp.Code != 0 || strings.Join(got, " ") != tt.want {
				t.Errorf("%v: %d %v, want %q", tt.ext, resp.Code, got, tt.want)
			}
		}
		for _, bad := range []map[string]string{{"since": "x"}, {"limit": "-1"}, {"level": "loud"}} {
			if resp := r.call(remoting.ReqMqctlLog, bad, nil); resp.Code != remoting.CodeInvalidParameter {
				t.Errorf("%v: %d", bad, resp.Code)
			}
		}
		resp := r.call(remoting.ReqMqctlInspect, map[string]string{"what": "latency"}, nil)
		var lat body.InspectLatency
		if err := json.Unmarshal(resp.Body, &lat); err != nil || len(lat.Operations) != 2 || lat.Operations[0].Op != "put" || lat.Operations[0].Count != 1 || lat.Operations[1].Count == 0 {
			t.Errorf("latency: %d %s %s", resp.Code, resp.Remark, resp.Body)
		}
	})
	ring := NewLogRing()
	for range 5000 {
		ring.Write([]byte(`{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"` + strings.Repeat("x", 2000) + "\"}\n"))
	}
	if ring.bytes > ringBytes || len(ring.since(time.Time{}, slog.LevelInfo, 1<<30)) < 1000 {
		t.Errorf("%d bytes, %d lines", ring.bytes, len(ring.lines))
	}
}
