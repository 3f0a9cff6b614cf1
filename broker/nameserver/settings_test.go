package nameserver

import (
	"net"
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := New(Options{Listener: l, SupportActingMaster: true, ScanEvery: 7 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	next, bad := s.parseSettings("deleteTopicWithBrokerRegistration=true\r\norderMessageEnable=1\n")
	if bad != nil {
		t.Fatal(bad)
	}
	for v, on := range next {
		v.Store(on)
	}
	if !s.switches.orderMessages.Load() || !s.switches.deleteVanished.Load() || !s.switches.actingMaster.Load() || !s.routes.deleteVanished() {
		t.Error("a switch does not act")
	}
	if _, bad = s.parseSettings(strings.Repeat("#", maxSettings+1)); bad == nil {
		t.Error("a text without end was taken")
	}
	if _, bad = s.parseSettings("orderMessageEnable=false\nkvConfigPath=/x"); bad == nil || !s.switches.orderMessages.Load() {
		t.Error("a part of a bad text was taken")
	}
}
