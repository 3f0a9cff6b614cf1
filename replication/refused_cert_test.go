package replication

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"mqctl/store"
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

// lockedText takes a log.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestRefusedCertificateOnTheWire is the same over TLS and TCP, where what the master says
// must not be lost with the connection.
func TestRefusedCertificateOnTheWire(t *testing.T) {
	server, client := selfSigned(t)
	strange, _ := selfSigned(t)
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, client.RootCAs
	client.Certificates = strange.Certificates
	auth, err := NewAuth(nil, server, client)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		master := newRealMaster(t, 1<<20, func(o *MasterOptions) { o.Auth = auth })
		var b store.Batch
		appendDrafts(t, master.st, &b, testDrafts(4, 100))
		var told lockedText
		slave, stop := newRealSlave(t, 1<<20, master, func(o *SlaveOptions) {
			o.Auth, o.Slog = auth, slog.New(slog.NewTextHandler(&told, nil))
		})
		until(t, "the refusal", func() bool { return slave.s.Status().State == Mismatch })
		st := slave.s.Status()
		stop()
		if s := told.String(); strings.Contains(s, string(Syncing)) || strings.Contains(s, string(Connecting)) {
			t.Errorf("it passed for connected, or for cut off, before it was refused:\n%s", s)
		}
		if !strings.Contains(st.Sentence, "haTlsCert") {
			t.Fatalf("%s: %s", st.State, st.Sentence)
		}
		if end := slave.st.Positions().Max; end != 0 {
			t.Errorf("%d bytes came through", end)
		}
	}
}
