//go:build scenarios

package compat

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// secrets are the key and certificate files of one test; each method is the settings
// of one broker.
type secrets struct {
	t   *testing.T
	dir string
}

func newSecrets(t *testing.T) *secrets {
	t.Helper()
	s := &secrets{t: t, dir: t.TempDir()}
	s.write("key", []byte("0123456789abcdef0123456789abcdef\n"))
	s.write("other-key", []byte("fedcba9876543210fedcba9876543210\n"))
	good := s.signer("ca")
	s.signed("good", good, time.Now().Add(time.Hour))
	s.signed("old", good, time.Now().Add(-time.Minute))
	s.signed("strange", s.signer("strange-ca"), time.Now().Add(time.Hour))
	return s
}

func (s *secrets) path(name string) string { return filepath.Join(s.dir, name) }

func (s *secrets) write(name string, text []byte) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), text, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (s *secrets) signer(name string) authority {
	s.t.Helper()
	key := s.newKey()
	c := certificate(name, time.Now().Add(time.Hour))
	c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		s.t.Fatal(err)
	}
	s.write(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return authority{c, key}
}

func (s *secrets) signed(name string, by authority, until time.Time) {
	s.t.Helper()
	key := s.newKey()
	der, err := x509.CreateCertificate(rand.Reader, certificate(name, until), by.cert, key.Public(), by.key)
	if err != nil {
		s.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	s.write(name+"-key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func (s *secrets) newKey() *ecdsa.PrivateKey {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

func certificate(name string, until time.Time) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature}
}

func (s *secrets) key(name string) []string { return []string{"haAuthKeyFile=" + s.path(name)} }

// tls shows the certificate name and trusts those that ca signed.
func (s *secrets) tls(name, ca string) []string {
	return []string{"haTlsEnable=true", "haTlsCert=" + s.path(name), "haTlsKey=" + s.path(name+"-key"), "haTlsCa=" + s.path(ca)}
}

// newSecurePair is a pair whose brokers have settings of their own.
func newSecurePair(t *testing.T, master, slave []string) *pair {
	t.Helper()
	p := newNameserver(t)
	p.master, p.slave = p.node(0, master...), p.node(1, slave...)
	p.broker.addr = p.master.addr
	p.run()
	return p
}

// state is what stats ha says of the slave.
func (p *pair) state() (state, why string) {
	for _, i := range p.json(0, "stats", "ha", "--broker", pairName) {
		links, _ := i["connections"].([]any)
		for _, l := range links {
			if k, ok := l.(map[string]any); ok && k["brokerId"] == float64(1) {
				state, _ = k["state"].(string)
				why, _ = k["why"].(string)
			}
		}
	}
	return state, why
}

// TestSecretsDisagree: two brokers that disagree about keys or TLS, or whose
// certificates are no good, replicate nothing. stats ha says MISMATCH and what to do,
// the log says it once, and neither tries again and again.
func TestSecretsDisagree(t *testing.T) {
	s := newSecrets(t)
	for _, tt := range []struct {
		name          string
		master, slave []string
		why           string
	}{
		{"two keys", s.key("key"), s.key("other-key"), "haAuthKeyFile"},
		{"key on the master only", s.key("key"), nil, "haAuthKeyFile is set on the master and not on the slave"},
		{"key on the slave only", nil, s.key("key"), "haAuthKeyFile is set on the slave and not on the master"},
		{"TLS on the master only", s.tls("good", "ca"), nil, "haTlsEnable is set on the master and not on the slave"},
		{"TLS on the slave only", nil, s.tls("good", "ca"), "haTlsEnable is set on the slave and not on the master"},
		{"the slave does not trust", s.tls("good", "ca"), s.tls("good", "strange-ca"), "unknown authority"},
		{"the master does not trust", s.tls("good", "ca"), s.tls("strange", "ca"), "refuses this broker's certificate"},
		{"the master's certificate is out of date", s.tls("old", "ca"), s.tls("good", "ca"), "expired"},
		{"the slave's certificate is out of date", s.tls("good", "ca"), s.tls("old", "ca"), "expired"},
		{"TLS and two keys", append(s.tls("good", "ca"), s.key("key")...), append(s.tls("good", "ca"), s.key("other-key")...), "haAuthKeyFile"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newSecurePair(t, tt.master, tt.slave)
			var state, why string
			until(t, 60*time.Second, "stats ha with the reason", func() bool {
				state, why = p.state()
				return state == "MISMATCH"
			})
			if !strings.Contains(why, tt.why) {
				t.Errorf("stats ha says %q", why)
			}
			<-time.After(4 * time.Second)
			if n := p.end(p.slave); n != 0 {
				t.Errorf("%d bytes came through", n)
			}
			if state, again := p.state(); state != "MISMATCH" || again != why {
				t.Errorf("stats ha says %s: %s", state, again)
			}
			for _, n := range []*node{p.master, p.slave} {
				text, err := os.ReadFile(n.dir + ".log")
				if err != nil {
					t.Fatal(err)
				}
				lines := 0
				for line := range strings.Lines(string(text)) {
					if strings.Contains(line, "replication") {
						lines++
					}
				}
				if lines > 8 {
					t.Errorf("broker %d wrote %d lines about it:\n%s", n.id, lines, tail(text, 3000))
				}
				if n.id == 1 && !strings.Contains(string(text), tt.why) {
					t.Errorf("the log of the slave does not say why:\n%s", tail(text, 3000))
				}
			}
		})
	}
}

// TestSecretsAgree: with one key and good certificates the slave has all of the log,
// takes over by plan, and the master that died comes back behind it.
func TestSecretsAgree(t *testing.T) {
	s := newSecrets(t)
	both := append(s.tls("good", "ca"), s.key("key")...)
	p := newSecurePair(t, both, both)
	topic := name(t, "t")
	p.pairTopic(topic, scenarioQueues)
	l := p.load(topic, time.Millisecond, 1024, 2)
	until(t, 60*time.Second, "messages flow", func() bool { n, _ := l.count(); return n > 200 })
	p.json(0, "ha", "promote", pairName, "--id", "1", "--planned", "--yes", "--key-file", s.path("key"))
	n, _ := l.count()
	until(t, 60*time.Second, "sends go on", func() bool { m, _ := l.count(); return m > n+200 })
	if _, errs := l.end(); len(errs) > 0 {
		t.Errorf("%d sends failed: %v", len(errs), errs[0])
	}
	p.synced(20 * time.Second)
	p.sameLogs()
	p.master.kill(syscall.SIGKILL)
	p.master.start()
	until(t, 20*time.Second, "the old master follows again", func() bool { return p.inSync() == 1 })
	p.synced(20 * time.Second)
	p.sameLogs()
}
