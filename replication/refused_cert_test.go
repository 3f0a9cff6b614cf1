package replication

import (
	"crypto/tls"
	"errors"
	"fmt"
	"mqctl/store"
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
		slave, stop := newRealSlave(t, 1<<20, master, func(o *SlaveOptions) { o.Auth = auth })
		until(t, "the refusal", func() bool { return slave.s.Status().State == Mismatch })
		st := slave.s.Status()
		stop()
		if !strings.Contains(st.Sentence, "haTlsCert") {
			t.Fatalf("%s: %s", st.State, st.Sentence)
		}
		if end := slave.st.Positions().Max; end != 0 {
			t.Errorf("%d bytes came through", end)
		}
	}
}
