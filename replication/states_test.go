package replication

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mqctl/store/record"
)

func filled(n int, mark string) *memLog {
	l := newMemLog(testSeg)
	for i := range n {
		l.put(fmt.Sprint(mark, i, strings.Repeat("b", 1000)))
	}
	return l
}

func extended(l *memLog, n int, mark string) *memLog {
	l = l.clone()
	for i := range n {
		l.put(fmt.Sprint(mark, i, strings.Repeat("c", 1000)))
	}
	return l
}

func dropped(l *memLog, segs int64) *memLog {
	l = l.clone()
	l.drop(segs * testSeg)
	return l
}

// TestStates brings logs together that do not just continue each other.
func TestStates(t *testing.T) {
	base, one := filled(300, "same"), filled(1, "same")
	for _, c := range []struct {
		name          string
		master, slave *memLog
		set           func(*Settings)
		rejoin        bool
		epoch         int64 // of the master
		state         State
		says          string
		same          bool // the logs are equal afterwards
		asides        int
	}{
		{name: "empty", master: base, slave: newMemLog(testSeg), state: Syncing, same: true},
		{name: "empty, first files gone", master: dropped(base, 2), slave: newMemLog(testSeg), state: Syncing, same: true},
		{name: "was away while files rolled", master: extended(base, 300, "new"), slave: base.clone(), state: Syncing, same: true},
		{name: "equal", master: base, slave: base.clone(), state: Syncing, same: true},
		{name: "empty master and slave", master: newMemLog(testSeg), slave: newMemLog(testSeg), state: Syncing, same: true},
		{name: "too old", master: dropped(extended(base, 300, "new"), 6), slave: base.clone(), state: Syncing, same: true, asides: 1},
		{name: "ahead", master: base, slave: extended(base, 70, "tail"), state: Ahead, says: "has lost its newest messages"},
		{
			name: "ahead, but no rejoin wanted", master: base, slave: extended(base, 70, "tail"), rejoin: true, state: Ahead,
			set: func(s *Settings) { s.RejoinTruncate = false },
		},
		{name: "ahead of a new master", master: base, slave: extended(base, 70, "tail"), epoch: 2, state: Syncing, same: true, asides: 1},
		{name: "diverged", master: extended(base, 50, "theirs"), slave: extended(base, 20, "ours"), state: Diverged, says: "the same up to " + fmt.Sprint(base.end())},
		{name: "diverged, master shorter", master: extended(base, 20, "theirs"), slave: extended(base, 50, "ours"), state: Diverged, says: "the same up to " + fmt.Sprint(base.end())},
		{name: "rejoin", master: extended(base, 50, "theirs"), slave: extended(base, 100, "ours"), rejoin: true, state: Syncing, same: true, asides: 1},
		{name: "rejoin at the first record", master: extended(one, 50, "theirs"), slave: extended(one, 50, "ours"), rejoin: true, state: Syncing, same: true, asides: 1},
		{name: "nothing in common", master: filled(100, "theirs"), slave: filled(50, "ours"), rejoin: true, state: Diverged, says: "not one record in common"},
		{name: "wiped master", master: newMemLog(testSeg), slave: base.clone(), rejoin: true, state: Diverged, says: "not one record in common"},
		{name: "other segments", master: base, slave: newMemLog(1 << 20), state: Mismatch, says: "mappedFileSizeCommitLog is 65536 on the master and 1048576"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pn := newPipeNet()
				a := newNode(t, c.master).serve(pn, "a", func(o *MasterOptions) { o.Epoch = func() int64 { return c.epoch } })
				defer func() { a.stop() }()
				b := newNode(t, c.slave)
				st := *b.set.Load()
				st.RejoinTruncate, st.SegmentBytes = true, c.slave.seg
				if c.set != nil {
					c.set(&st)
				}
				b.set.Store(&st)
				before := c.slave.clone()
				b.follow(pn, a, "a", func(o *SlaveOptions) { o.Rejoin = func() bool { return c.rejoin } })
				defer func() { b.stop() }()
				<-time.After(30 * time.Second)
				got := b.s.Status()
				if got.State != c.state || !strings.Contains(got.Sentence, c.says) {
					t.Fatalf("%s: %s\n%s", got.State, got.Sentence, b.logged())
				}
				if len(c.slave.asides) != c.asides || (got.Aside != "") != (c.asides > 0) {
					t.Fatal(c.slave.asides, got.Aside)
				}
				if c.same {
					sameLogs(t, c.master, c.slave)
				} else {
					sameLogs(t, before, c.slave)
				}
				if n := pn.dials.Load(); n > 4 {
					t.Fatal("dialed", n)
				}
				if n := strings.Count(b.logged(), "\n"); n > 5 {
					t.Fatal(b.logged())
				}
			})
		})
	}
}

// TestForeignStates is the same with an Apache master, which only tells its bounds
// and single records.
func TestForeignStates(t *testing.T) {
	base := filled(300, "same")
	for _, c := range []struct {
		name          string
		master, slave *memLog
		copyLast      bool
		state         State
		start         int64
		same          bool
	}{
		{name: "empty, one file", master: filled(10, "same"), slave: newMemLog(testSeg), state: Syncing, same: true},
		{name: "empty, all files from 0", master: base, slave: newMemLog(testSeg), state: Syncing, same: true},
		{name: "empty, all files", master: dropped(base, 2), slave: newMemLog(testSeg), state: Syncing, same: true},
		{name: "empty, last file", master: base, slave: newMemLog(testSeg), copyLast: true, state: Syncing, start: base.end() / testSeg * testSeg},
		{name: "away", master: extended(base, 300, "new"), slave: base.clone(), state: Syncing, same: true},
		{name: "too old", master: dropped(extended(base, 300, "new"), 6), slave: base.clone(), state: Syncing, same: true},
		{name: "ahead", master: base, slave: extended(base, 70, "tail"), state: Ahead},
		{name: "diverged", master: extended(base, 50, "theirs"), slave: extended(base, 20, "ours"), state: Diverged},
		{name: "nothing in common", master: filled(100, "theirs"), slave: filled(50, "ours"), state: Diverged},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pn := newPipeNet()
				a := newNode(t, c.master)
				a.set.Store(&Settings{SegmentBytes: testSeg}) // as Apache: only the last file for a report of 0
				a.serve(pn, "a")
				defer func() { a.stop() }()
				b := newNode(t, c.slave)
				b.set.Store(&Settings{SegmentBytes: testSeg, CopyAll: !c.copyLast, RejoinTruncate: true})
				pos := c.master.Positions()
				b.follow(pn, nil, "a", foreign(int64(pos.Min), int64(pos.Max), func(p record.PhysOffset) []byte {
					rec, _ := c.master.Message(nil, p)
					return rec
				}))
				defer func() { b.stop() }()
				<-time.After(35 * time.Second)
				if got := b.s.Status(); got.State != c.state || got.Ours {
					t.Fatalf("%s: %s\n%s\n%s", got.State, got.Sentence, b.logged(), a.logged())
				}
				if c.same {
					sameLogs(t, c.master, c.slave)
				}
				if c.start > 0 {
					c.master.drop(c.start)
					sameLogs(t, c.master, c.slave)
				}
			})
		})
	}
}

func selfSigned(t *testing.T) (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"a"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: pool, ServerName: "a"}
}

func TestAuth(t *testing.T) {
	server, client := selfSigned(t)
	mustAuth := func(key string, withTLS bool) *Auth {
		var k []byte
		if key != "" {
			k = []byte(key)
		}
		s, c := server, client
		if !withTLS {
			s, c = nil, nil
		}
		a, err := NewAuth(k, s, c)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	const right, wrong = "0123456789abcdef0123456789abcdef\n", "another key of which nobody knows"
	for _, c := range []struct {
		name          string
		master, slave *Auth
		attachLies    bool // the remoting side does not notice
		state         State
		masterSays    string
		slaveSays     string
	}{
		{"key", mustAuth(right, false), mustAuth(right, false), false, Syncing, "", ""},
		{"TLS", mustAuth("", true), mustAuth("", true), false, Syncing, "", ""},
		{"both", mustAuth(right, true), mustAuth(right, true), false, Syncing, "", ""},
		{"other key", mustAuth(right, false), mustAuth(wrong, false), false, Mismatch, "broke off", "not this slave's"},
		{"slave without key", mustAuth(right, false), nil, false, Mismatch, "set on the master and not on the slave", "haAuthKeyFile is set on the master"},
		{"master without key", nil, mustAuth(right, false), false, Mismatch, "set on the slave and not", "haAuthKeyFile is set on the slave"},
		{"slave without key, unasked", mustAuth(right, false), nil, true, Connecting, "the slave has no key", ""},
		{"master without key, unasked", nil, mustAuth(right, false), true, Mismatch, "this master has none", "did not prove"},
		{"only master TLS", mustAuth("", true), nil, false, Mismatch, "", "haTlsEnable is set on the master"},
		{"only slave TLS, unasked", nil, mustAuth("", true), true, Mismatch, "", "TLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pn := newPipeNet()
				a := newNode(t, filled(100, "x")).serve(pn, "a", func(o *MasterOptions) { o.Auth = c.master })
				defer func() { a.stop() }()
				b := newNode(t, newMemLog(testSeg)).follow(pn, a, "a", func(o *SlaveOptions) {
					o.Auth = c.slave
					if c.attachLies {
						o.Attach = func(_ context.Context, _ string, r AttachRequest) (AttachReply, bool, error) {
							r.Secure, r.TLS = c.master.Keyed(), c.master.TLS()
							return a.m.Attach(netip.AddrPort{}, r), true, nil
						}
					}
				})
				defer func() { b.stop() }()
				<-time.After(7 * time.Second)
				got := b.s.Status()
				if got.State != c.state || !strings.Contains(got.Sentence, c.slaveSays) {
					t.Fatalf("%s: %s", got.State, got.Sentence)
				}
				if !strings.Contains(a.logged(), c.masterSays) {
					t.Fatal(a.logged())
				}
				if c.state == Syncing {
					sameLogs(t, a.log, b.log)
				} else if b.log.end() != 0 {
					t.Fatal("bytes came through")
				}
			})
		})
	}
	if _, err := NewAuth([]byte("short\n"), nil, nil); err == nil {
		t.Fatal("a short key was taken")
	}
	if _, err := NewAuth(nil, server, nil); err == nil {
		t.Fatal("half of TLS was taken")
	}
	if a, err := NewAuth(nil, nil, nil); a != nil || err != nil {
		t.Fatal(a, err)
	}
}

// TestReplay shows that a recorded proof is worth nothing.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth, err := NewAuth([]byte(strings.Repeat("k", 32)), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		pn := newPipeNet()
		a := newNode(t, filled(10, "x")).serve(pn, "a", func(o *MasterOptions) { o.Auth = auth })
		defer func() { a.stop() }()
		rec := &recorder{}
		nc, _ := pn.dial(context.Background(), "a")
		rec.Conn = nc
		if err := auth.greet(rec, 0); err != nil {
			t.Fatal(err)
		}
		p := newPeer(nc)
		p.report(0)
		synctest.Wait()
		if len(p.frames()) == 0 {
			t.Fatal("the right key was not taken")
		}
		nc.Close()
		nc, _ = pn.dial(context.Background(), "a")
		p = newPeer(nc)
		nc.Write(rec.sent[:preambleSize])
		synctest.Wait()
		nc.Write(rec.sent[preambleSize:])
		synctest.Wait()
		if !p.isClosed() || len(p.got) != nonceSize+macSize || !strings.Contains(a.logged(), "the slave's key is not") {
			t.Fatal(len(p.got), a.logged())
		}
	})
}

type recorder struct {
	net.Conn
	sent []byte
}

func (r *recorder) Write(p []byte) (int, error) {
	r.sent = append(r.sent, p...)
	return r.Conn.Write(p)
}

// TestChangeOfMaster follows another master at once, and survives both being away.
func TestChangeOfMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pn := newPipeNet()
		base := filled(100, "x")
		a := newNode(t, base).serve(pn, "a")
		a2 := newNode(t, base.clone()).serve(pn, "a2")
		defer func() { a2.stop() }()
		var cur atomic.Pointer[node]
		cur.Store(a)
		b := newNode(t, newMemLog(testSeg)).follow(pn, a, "a", func(o *SlaveOptions) {
			o.Attach = func(ctx context.Context, m string, r AttachRequest) (AttachReply, bool, error) {
				n := cur.Load()
				if n == nil {
					return AttachReply{}, true, errors.New("connection refused")
				}
				return n.m.Attach(netip.AddrPort{}, r), true, nil
			}
		})
		defer func() { b.stop() }()
		<-time.After(time.Second)
		sameLogs(t, a.log, b.log)
		cur.Store(a2)
		b.s.SetMaster("master2", "a2")
		a2.put("from the new one")
		synctest.Wait()
		sameLogs(t, a2.log, b.log)
		if st := b.s.Status(); st.HA != "a2" || st.State != Syncing {
			t.Fatalf("%+v", st)
		}
		b.s.SetMaster("", "") // nobody knows: the last one is still followed
		a2.put("again")
		synctest.Wait()
		sameLogs(t, a2.log, b.log)
		a.stop()
		cur.Store(nil)
		a2.stop()
		dials := pn.dials.Load()
		<-time.After(time.Minute)
		if st := b.s.Status(); st.State != Connecting || st.Connected || pn.dials.Load()-dials > 30 {
			t.Fatalf("%+v, %d", st, pn.dials.Load()-dials)
		}
		a2.stop = nil
		a2.serve(pn, "a2")
		cur.Store(a2)
		<-time.After(6 * time.Second)
		a2.put("back")
		synctest.Wait()
		sameLogs(t, a2.log, b.log)
	})
}

func TestDiskOfSlave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pn := newPipeNet()
		a := newNode(t, filled(100, "x")).serve(pn, "a")
		defer func() { a.stop() }()
		b := newNode(t, newMemLog(testSeg))
		b.log.fail = errors.New("no space left on device")
		b.follow(pn, a, "a")
		defer func() { b.stop() }()
		<-time.After(time.Second)
		if st := b.s.Status(); st.State != Failed || !strings.Contains(st.Sentence, "no space left") {
			t.Fatalf("%+v", st)
		}
		b.log.mu.Lock()
		b.log.fail = nil
		b.log.mu.Unlock()
		<-time.After(20 * time.Second)
		sameLogs(t, a.log, b.log)
		if st := b.s.Status(); st.State != Syncing {
			t.Fatalf("%+v", st)
		}
	})
}
