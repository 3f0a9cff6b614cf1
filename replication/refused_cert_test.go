package replication

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// TestRefusedCertificate: a master that refuses a slave's certificate says so after the
// slave's side of the handshake; the slave tells, and does not try again at once.
func TestRefusedCertificate(t *testing.T) {
	s := NewSlave(SlaveOptions{})
	err := fmt.Errorf("read: %w", &net.OpError{Op: "remote error", Err: errors.New("tls: expired certificate")})
	if pause := s.ended(err, "10.0.0.1:10912", time.Millisecond); pause < alarmPause {
		t.Errorf("it tries again after %s", pause)
	}
	if st := s.Status(); st.State != Mismatch || !strings.Contains(st.Sentence, "tls: expired certificate") || !strings.Contains(st.Sentence, "haTlsCert") {
		t.Errorf("%s: %s", st.State, st.Sentence)
	}
}
