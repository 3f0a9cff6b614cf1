package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// authority signs certificates of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // the certificate, PEM
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(dir, name+".pem")}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour), KeyUsage: x509.KeyUsageCertSign}
	var der []byte
	der, a.key = a.sign(tmpl, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// sign makes a key and a certificate for it; a nil parent signs itself.
func (a *authority) sign(tmpl, parent *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	signer := a.key
	if parent == nil {
		parent, signer = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// issue makes a certificate with its key for an address or a name, as two files.
func (a *authority) issue(name string, until time.Time) (cert, key string) {
	a.t.Helper()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if ip := net.ParseIP(name); ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	} else {
		tmpl.DNSNames = []string{name}
	}
	der, priv := a.sign(tmpl, a.cert)
	raw, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		a.t.Fatal(err)
	}
	base := strings.TrimSuffix(a.file, ".pem") + "-" + name + until.Format("-0102")
	writePEM(a.t, base+".crt", "CERTIFICATE", der)
	writePEM(a.t, base+".key", "PRIVATE KEY", raw)
	return base + ".crt", base + ".key"
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// overTLS is a port that speaks TLS and passes on to one that does not.
func overTLS(t *testing.T, to, cert, key string, clients *authority) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		cfg.ClientCAs.AddCert(clients.cert)
	}
	return listener(t, func(c net.Conn) {
		defer c.Close()
		in := tls.Server(c, cfg)
		if in.Handshake() != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer out.Close()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = io.Copy(out, in)
			_ = out.Close()
		})
		_, _ = io.Copy(in, out)
		_ = c.Close()
		wg.Wait()
	})
}

// TestContextTLS goes to nameservers and brokers that speak TLS, and to ones that do
// not, over real connections: with the right certificates and with wrong ones.
func TestContextTLS(t *testing.T) {
	dir := t.TempDir()
	ours, others := newAuthority(t, dir, "ours"), newAuthority(t, dir, "others")
	later := time.Now().Add(24 * time.Hour)
	cert, key := ours.issue("127.0.0.1", later)
	oldCert, oldKey := ours.issue("127.0.0.1", time.Now().Add(-time.Hour))
	nameCert, nameKey := ours.issue("mq.example", later)
	client, clientKey := ours.issue("client", later)
	strange, strangeKey := others.issue("client", later)
	bad := filepath.Join(dir, "bad.pem")
	if err := os.WriteFile(bad, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := func(cert, key string, clients *authority) string {
		f := newFakeCluster(t)
		b, _ := f.add("127.0.0.1", "broker-a", 0, 100, nil)
		b.addr = overTLS(t, b.addr, cert, key, clients)
		return overTLS(t, f.ns.addr, cert, key, clients)
	}
	ns, closed := cluster(cert, key, nil), cluster(cert, key, ours)
	plain := newFakeCluster(t)
	plain.add("127.0.0.1", "broker-a", 0, 100, nil)
	half := newFakeCluster(t) // its nameserver's certificate is right, its broker's is not
	b, _ := half.add("127.0.0.1", "broker-a", 0, 100, nil)
	b.addr = overTLS(t, b.addr, oldCert, oldKey, nil)
	silent := listener(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	ca := "enable = true\nca = \"" + ours.file + "\"\n"
	for _, tt := range []struct {
		name, ns, tls string
		want          int
		says          string
	}{
		{"own authority", ns, ca, ExitOK, ""},
		{"wrong authority", ns, "enable = true\nca = \"" + others.file + "\"\n", ExitUnreachable, "signed by nobody who is trusted here"},
		{"the system's authorities", ns, "enable = true\n", ExitUnreachable, "signed by nobody who is trusted here"},
		{"nothing is verified", ns, "enable = true\nskip_verify = true\n", ExitOK, ""},
		{"expired", cluster(oldCert, oldKey, nil), ca, ExitUnreachable, "its certificate is valid from "},
		{"another name", cluster(nameCert, nameKey, nil), ca, ExitUnreachable, `is not for "127.0.0.1", but for mq.example`},
		{"another name that is expected", cluster(nameCert, nameKey, nil), ca + "server_name = \"mq.example\"\n", ExitOK, ""},
		{"client certificate", closed, ca + "cert = \"" + client + "\"\nkey = \"" + clientKey + "\"\n", ExitOK, ""},
		{"no client certificate", closed, ca, ExitUnreachable, "asks for a client certificate"},
		{"client certificate of others", closed, ca + "cert = \"" + strange + "\"\nkey = \"" + strangeKey + "\"\n", ExitUnreachable, "asks for a client certificate that it trusts"},
		{"TLS to a plain port", plain.ns.addr, ca, ExitUnreachable, "it closed the connection in the TLS handshake: does it speak TLS?"},
		{"TLS to a silent port", silent, ca, ExitUnreachable, "it said nothing in the TLS handshake"},
		{"plain to TLS", ns, "", ExitUnreachable, "or may want TLS"},
		{"plain to plain", plain.ns.addr, "", ExitOK, ""},
		{"the broker's is expired", overTLS(t, half.ns.addr, cert, key, nil), ca, ExitUnreachable, "its certificate is valid from "},
		{"no such authority", ns, "enable = true\nca = \"/none.pem\"\n", ExitBadConfig, "context.x.tls: ca: open /none.pem"},
		{"no certificate", ns, "enable = true\nca = \"" + bad + "\"\n", ExitBadConfig, "holds no certificate"},
		{"no key", ns, ca + "cert = \"" + client + "\"\n", ExitBadConfig, "context.x.tls: cert: "},
		{"another's key", ns, ca + "cert = \"" + client + "\"\nkey = \"" + strangeKey + "\"\n", ExitBadConfig, "context.x.tls: cert: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.toml")
			if err := os.WriteFile(file, []byte("current = \"x\"\n[context.x]\nnamesrv = [\""+tt.ns+"\"]\n[context.x.tls]\n"+tt.tls), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, line := range []string{"broker config get brokerRole --trace", "getBrokerConfig -c C --trace", "broker config get brokerRole -o json --trace", "context test"} {
				r := try(append(strings.Fields(line), "--timeout=10s"), map[string]string{"HOME": t.TempDir(), "MQCTL_CONFIG": file}, 30*time.Second)
				if line == "context test" && tt.name == "the broker's is expired" {
					continue // it reaches nameservers
				}
				if r.code != tt.want {
					t.Errorf("%s: exit %d, want %d\n%s%s", line, r.code, tt.want, r.out, r.errs)
				}
				if !strings.Contains(r.errs+r.out, tt.says) {
					t.Errorf("%s: no %q in\n%s%s", line, tt.says, r.out, r.errs)
				}
				if tt.want != ExitOK {
					r.decent(t, line)
					continue
				}
				if trace := strings.Contains(r.errs, "trace   106 GET_BROKER_CLUSTER_INFO  "+tt.ns); !trace && strings.Contains(line, "--trace") {
					t.Errorf("%s: no trace in\n%s", line, r.errs)
				}
			}
		})
	}
}
