package body

import (
	"maps"
	"testing"
	"time"
)

// A step is proved for one broker, one content and half a minute.
func TestRoleProof(t *testing.T) {
	key, now := []byte("0123456789abcdef"), time.Unix(1000, 0)
	signed := map[string]string{"step": "fence", "epoch": "4"}
	SignRole(key, "h:1", signed, now)
	for _, tt := range []struct {
		name   string
		key    string
		addr   string
		change map[string]string
		after  time.Duration
		want   bool
	}{
		{name: "as it is", key: string(key), addr: "h:1", want: true},
		{name: "in time", key: string(key), addr: "h:1", after: roleProofAge, want: true},
		{name: "too late", key: string(key), addr: "h:1", after: roleProofAge + 1},
		{name: "too early", key: string(key), addr: "h:1", after: -roleProofAge - 1},
		{name: "another broker", key: string(key), addr: "h:2"},
		{name: "another key", key: "0123456789abcdeg", addr: "h:1"},
		{name: "no key", addr: "h:1"},
		{name: "another step", key: string(key), addr: "h:1", change: map[string]string{"step": "demote"}},
		{name: "one field more", key: string(key), addr: "h:1", change: map[string]string{"force": "true"}},
		{name: "no proof", key: string(key), addr: "h:1", change: map[string]string{"mac": ""}},
		{name: "no time", key: string(key), addr: "h:1", change: map[string]string{"at": ""}},
	} {
		f := maps.Clone(signed)
		maps.Copy(f, tt.change)
		if got := VerifyRole([]byte(tt.key), tt.addr, f, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	st := RoleStatus{Broker: "a", Role: "SLAVE", Clamped: []ClampedProgress{{Group: "g", To: 3}}, ClampedTotal: 1}
	if got, err := DecodeRoleStatus(st.Encode()); err != nil || got.Broker != "a" || len(got.Clamped) != 1 || got.Clamped[0].To != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
