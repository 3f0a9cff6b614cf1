package broker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/broker/remoting"
	"mqctl/replication"
	"mqctl/store/vfs"
)

// A slave that is told nothing but its master's replication port.
func TestFixedMaster(t *testing.T) {
	alone := func(o *Options) { o.Namesrvs = nil }
	for _, tt := range []struct {
		name   string
		port   string // of the master's replication
		within time.Duration
		master string // remoting address as the slave knows it then
	}{
		{"beside the main port", "127.0.0.1:10912", 3 * time.Second, mainAddr},
		{"elsewhere", "127.0.0.1:4000", 15 * time.Second, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPair(t)
				p.startMaster(alone, func(o *Options) { o.HAListen, o.HAAddr = tt.port, tt.port })
				p.sendBodies(0, 5)
				p.startSlave(alone, func(o *Options) { o.HAMaster = tt.port })
				<-time.After(tt.within)
				p.caughtUp()
				p.sendBodies(5, 10)
				p.caughtUp()
				p.sameLogs()
				if s := p.s.b.stand.Load(); s.Master != tt.master || s.HA != tt.port || !s.MasterAlive {
					t.Errorf("standing %+v", s)
				}
			})
		})
	}
}

// A slave that is told a replication port behind which no master of its name is says so.
func TestFixedMasterThatIsNone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startSlave(func(o *Options) { o.Namesrvs, o.HAMaster = nil, "127.0.0.1:10912" })
		<-time.After(3 * time.Second)
		st := p.s.b.ha.slave.Status()
		if want := "no master of this brokerName answers at 127.0.0.1:10911, the main port that belongs to haMasterAddress 127.0.0.1:10912"; st.State != replication.Connecting || st.Sentence != want {
			t.Errorf("%s: %s, want %s", st.State, st.Sentence, want)
		}
	})
}

// The two sides of a pair agree about keys and certificates, or say that they do not.
func TestSecurePair(t *testing.T) {
	files := vfs.NewMem()
	put := func(name string, text []byte) {
		f, err := files.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(text, 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	put("/key", []byte("0123456789abcdef0123456789abcdef\n"))
	put("/other", []byte("fedcba9876543210fedcba9876543210\n"))
	ca, cert, key := certificates(t, 2100)
	oldCA, old, oldKey := certificates(t, 1999)
	put("/both-ca", append(oldCA, ca...))
	put("/old", old)
	put("/oldkey", oldKey)
	put("/ca", ca)
	put("/cert", cert)
	put("/certkey", key)
	secret := func(name string) func(*Options) { return func(o *Options) { o.HAAuthKey = name } }
	encrypted := func(o *Options) { o.HATLS = HATLS{On: true, Cert: "/cert", Key: "/certkey", CA: "/ca"} }
	// Each trusts both signers; the certificate of one is out of date.
	both := func(o *Options) { encrypted(o); o.HATLS.CA = "/both-ca" }
	expired := func(o *Options) { o.HATLS = HATLS{On: true, Cert: "/old", Key: "/oldkey", CA: "/both-ca"} }
	plain := func(*Options) {}
	for _, tt := range []struct {
		name          string
		master, slave func(*Options)
		why           string // "": they replicate
	}{
		{"one key", secret("/key"), secret("/key"), ""},
		{"two keys", secret("/key"), secret("/other"), "haAuthKeyFile"},
		{"key on the master only", secret("/key"), plain, "haAuthKeyFile is set on the master and not on the slave"},
		{"key on the slave only", plain, secret("/key"), "haAuthKeyFile is set on the slave and not on the master"},
		{"encrypted", encrypted, encrypted, ""},
		{"encrypted on the slave only", plain, encrypted, "haTlsEnable is set on the slave and not on the master"},
		{"the master's certificate is out of date", expired, both, "certificate"},
		{"encrypted, with one key", func(o *Options) { encrypted(o); o.HAAuthKey = "/key" }, func(o *Options) { encrypted(o); o.HAAuthKey = "/key" }, ""},
		{"encrypted, with two keys", func(o *Options) { encrypted(o); o.HAAuthKey = "/key" }, func(o *Options) { encrypted(o); o.HAAuthKey = "/other" }, "haAuthKeyFile"},
		{"encrypted on the master only", encrypted, plain, "haTlsEnable is set on the master and not on the slave"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPair(t)
				secrets := func(o *Options) { o.FS = bothFS{o.FS, files} }
				p.startMaster(tt.master, secrets)
				p.sendBodies(0, 5)
				p.startSlave(tt.slave, secrets)
				if tt.why == "" {
					p.caughtUp()
					p.sameLogs()
					return
				}
				<-time.After(20 * time.Second)
				if n := p.m.b.ha.master.Status().Refused; n > 10 {
					t.Errorf("%d connections were refused within 20 s", n)
				}
				if st := p.s.b.ha.slave.Status(); st.State != replication.Mismatch || !strings.Contains(st.Sentence, tt.why) {
					t.Errorf("%s: %s", st.State, st.Sentence)
				}
				if end := p.s.b.store.Positions().Max; end != 0 {
					t.Errorf("%d bytes came through", end)
				}
			})
		})
	}
}

// bothFS reads what is missing from a second place.
type bothFS struct {
	vfs.FS
	second vfs.FS
}

func (b bothFS) Open(name string) (vfs.File, error) {
	f, err := b.FS.Open(name)
	if err != nil {
		if g, err := b.second.Open(name); err == nil {
			return g, nil
		}
	}
	return f, err
}

// certificates are a signer's and one that it signed, with its key.
func certificates(t *testing.T, until int) (ca, cert, key []byte) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// Good in the time of a bubble (2000) and now.
	make := func(name string, signer bool) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: signer, BasicConstraintsValid: true,
			NotBefore: time.Date(1998, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(until, 1, 1, 0, 0, 0, 0, time.UTC),
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	root := make("replicas", true)
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, signer.Public(), signer)
	must(err)
	leafDER, err := x509.CreateCertificate(rand.Reader, make("broker-a", false), root, own.Public(), signer)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(own)
	must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func TestBadSecrets(t *testing.T) {
	fs := vfs.NewMem()
	for name, text := range map[string]string{"/short": "abc", "/junk": "not a certificate"} {
		f, err := fs.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, key, want string
		o               Options
	}{
		{"no file", "haAuthKeyFile", "does not exist", Options{HAAuthKey: "/gone"}},
		{"short key", "haAuthKeyFile", "has 3 bytes", Options{HAAuthKey: "/short"}},
		{"no certificate", "haTlsCert", "/junk", Options{HATLS: HATLS{On: true, Cert: "/junk", Key: "/junk", CA: "/junk"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.FS = fs
			_, err := tt.o.haAuth()
			var c *ConfigError
			if !errors.As(err, &c) || c.Key != tt.key || !strings.Contains(c.Why, tt.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// What strangers may send to the steps between replicas.
func TestBadAttach(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPair(t)
		p.startMaster()
		ask := func(step, text string) *remoting.Response {
			return p.m.call(remoting.ReqMqctlRole, map[string]string{"step": step}, []byte(text))
		}
		p.m.wants(ask("", ""), remoting.CodeInvalidParameter, `there is no step ""`)
		for _, step := range []string{stepAttach, stepHello} {
			p.m.wants(ask(step, "{"), remoting.CodeInvalidParameter, "the body is no JSON of this step")
			p.m.wants(ask(step, strings.Repeat(" ", mostAttachBytes+1)), remoting.CodeInvalidParameter, "the body has 65537 bytes, more than 65536")
		}
		p.m.wants(ask(stepHello, `{"brokerName":"broker-b","brokerId":1}`), remoting.CodeInvalidParameter, "broker-b/1 is no other replica of broker-a/0")
		p.m.wants(ask(stepHello, `{"brokerName":"broker-a","brokerId":0}`), remoting.CodeInvalidParameter, "broker-a/0 is no other replica of broker-a/0")
		if got := ask(stepAttach, `{"BrokerName":"broker-b","BrokerID":1,"SegmentBytes":1048576}`); !strings.Contains(string(got.Body), string(replication.WrongGroup)) {
			t.Errorf("attach of another name: %s", got.Body)
		}
		// Many that claim to be replicas are forgotten again.
		for i := range 3 * mostPeers {
			p.m.wants(ask(stepHello, `{"brokerName":"broker-a","brokerId":`+text(i+1)+`,"addr":"10.0.0.1:`+text(i)+`"}`), 0, "")
		}
		if n := len(p.m.b.ha.known.byAddr); n > mostPeers {
			t.Errorf("%d are remembered", n)
		}
	})
}

// Which registered slave is behind a connection that said nothing.
func TestIdentify(t *testing.T) {
	b := &Broker{reg: &registrar{}}
	b.stand.p.Store(&standing{})
	b.ha.known.init()
	b.reg.group = map[int64]string{0: "10.0.0.1:10911", 1: "10.0.0.2:10911", 2: "10.0.0.3:10911", 3: "10.0.0.3:10921", 4: "10.0.0.4:10911", 5: "10.0.0.5:10911", 6: "junk"}
	b.ha.known.ours("10.0.0.4:10911")
	conns := []replication.SlaveConn{{Peer: replication.Peer{ID: 5}, Known: true}}
	for _, addr := range []string{"10.0.0.3:1", "10.0.0.2:1", "10.0.0.2:2"} {
		conns = append(conns, replication.SlaveConn{Remote: netip.MustParseAddrPort(addr)})
	}
	for addr, want := range map[string]int64{
		"10.0.0.2:4711": 1, "[::ffff:10.0.0.2]:4711": 1,
		"10.0.0.1:4711": -1, // the master itself
		"10.0.0.3:4711": -1, // two live there, of which one is connected
		"10.0.0.4:4711": -1, // ours attach
		"10.0.0.5:4711": -1, // is connected already
		"10.0.0.9:4711": -1,
	} {
		got, ok := b.identifyAmong(conns, netip.MustParseAddrPort(addr))
		if ok != (want >= 0) || ok && (got.ID != want || got.Addr != b.reg.group[want] || got.Ours) {
			t.Errorf("%s: %+v %v", addr, got, ok)
		}
	}
	conns = append(conns, conns[1])
	if got, ok := b.identifyAmong(conns, netip.MustParseAddrPort("10.0.0.3:2")); !ok || got.ID != 2 {
		t.Errorf("with both connected the first is called %+v %v", got, ok)
	}
	conns[1].Known, conns[1].ID = true, 2
	if got, ok := b.identifyAmong(conns, netip.MustParseAddrPort("10.0.0.3:2")); !ok || got.ID != 3 {
		t.Errorf("the second is called %+v %v", got, ok)
	}
}

func TestToggle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, ended int
		g := newToggle(func(ctx context.Context) error {
			begun++
			<-ctx.Done()
			ended++
			return nil
		})
		g.off() // before Run: nothing to wait for
		g.on()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		for i := range 3 {
			if begun != i+1 || ended != i {
				t.Fatalf("round %d: begun %d, ended %d", i, begun, ended)
			}
			g.off()
			if ended != i+1 {
				t.Fatal("off came back before the work ended")
			}
			g.off()
			g.on()
			g.on()
			synctest.Wait()
		}
		cancel()
		if err := <-done; err != nil || ended != 4 {
			t.Errorf("%v, ended %d", err, ended)
		}
		g.off() // after Run
	})
}

func TestToggleFails(t *testing.T) {
	sick := errors.New("sick")
	g := newToggle(func(context.Context) error { return sick })
	g.on()
	if err := g.Run(t.Context()); !errors.Is(err, sick) {
		t.Errorf("%v", err)
	}
}

// A change of roles waits for the bursts that are inside.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ref standingRef
		ref.p.Store(&standing{})
		g := &sendGate{stand: &ref}
		for range 2 {
			if !g.enter() {
				t.Fatal("a master takes sends")
			}
		}
		ref.update(func(s *standing) { s.Fenced = true })
		if g.enter() {
			t.Fatal("a fenced one takes none")
		}
		drained := make(chan error, 1)
		go func() { drained <- g.drain(t.Context()) }()
		g.leave()
		<-time.After(time.Second)
		select {
		case <-drained:
			t.Fatal("one is still inside")
		default:
		}
		g.leave()
		if err := <-drained; err != nil {
			t.Error(err)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ref.update(func(s *standing) { s.Fenced = false })
		g.enter()
		if err := g.drain(late); err == nil {
			t.Error("it did not give up")
		}
	})
}
