package replication

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Between nodes of ours a connection begins with a preamble. Its first byte is
// above 0x7F, which no report has, except -1 (all of it 0xFF).
//
//	slave:  | 8A 'M' 'Q' 01 | flags u8 | 0 0 0 | token i64 | nonce 16 |
//	with flag 1:
//	master: | nonce 16 | HMAC-SHA256(key, "master" preamble nonce) 32 |
//	slave:  | HMAC-SHA256(key, "slave" preamble nonce) 32 |
//
// then the reports as ever. The token is the one that Attach gave, or 0. Each side
// proves that it has the key over the other's fresh nonce, so a recording proves
// nothing a second time. What follows is as safe as the network: add TLS against
// somebody who changes bytes under way.
const (
	preambleSize  = 32
	nonceSize     = 16
	macSize       = sha256.Size
	flagAuth      = 1
	preambleMagic = 0x8A4D5101 // as a big-endian u32
	minKeyBytes   = 16
	// handshakeTime is how long either side waits for the other's part.
	handshakeTime = 5 * time.Second
)

// ErrAuth says that the two ends of an HA connection disagree about keys or TLS.
var ErrAuth = errors.New("replication security")

// Auth is the shared key and TLS between nodes of ours. A nil *Auth is none of both.
type Auth struct {
	key            []byte
	server, client *tls.Config
}

// NewAuth makes the security of HA connections from the content of
// haAuthKeyFile (at least 16 bytes besides white space at its ends; nil for none)
// and the TLS of either role (nil for none).
func NewAuth(keyFile []byte, server, client *tls.Config) (*Auth, error) {
	a := &Auth{key: bytes.TrimSpace(keyFile), server: server, client: client}
	if keyFile != nil && len(a.key) < minKeyBytes {
		return nil, fmt.Errorf("the key for replication has %d bytes, at least %d are needed: make one with  openssl rand -hex 32",
			len(a.key), minKeyBytes)
	}
	if (server == nil) != (client == nil) {
		return nil, errors.New("TLS of replication needs settings for both roles, since a broker may change its role")
	}
	if len(a.key) == 0 && server == nil {
		return nil, nil
	}
	return a, nil
}

// Keyed reports whether peers must prove that they have the key.
func (a *Auth) Keyed() bool { return a != nil && len(a.key) > 0 }

// TLS reports whether connections are encrypted.
func (a *Auth) TLS() bool { return a != nil && a.server != nil }

// preamble is what a slave of ours says first.
type preamble struct {
	raw   [preambleSize]byte
	keyed bool
	token int64
}

func newPreamble(token int64, keyed bool) (p preamble) {
	p.token, p.keyed = token, keyed
	binary.BigEndian.PutUint32(p.raw[:], preambleMagic)
	if keyed {
		p.raw[4] = flagAuth
	}
	binary.BigEndian.PutUint64(p.raw[8:], uint64(token))
	rand.Read(p.raw[16:]) // never fails
	return p
}

func parsePreamble(b []byte) (p preamble, err error) {
	copy(p.raw[:], b)
	if len(b) < preambleSize || binary.BigEndian.Uint32(b) != preambleMagic || b[4]&^flagAuth != 0 || b[5]|b[6]|b[7] != 0 {
		return p, errors.New("it begins neither with a report nor with a preamble of mqctl")
	}
	p.keyed = b[4]&flagAuth != 0
	p.token = int64(binary.BigEndian.Uint64(b[8:]))
	return p, nil
}

func (a *Auth) mac(who string, p *preamble, nonce []byte) []byte {
	h := hmac.New(sha256.New, a.key)
	h.Write([]byte("mqctl replication " + who))
	h.Write(p.raw[:])
	h.Write(nonce)
	return h.Sum(nil)
}

// welcome is the master's part of the proof, after it read p.
func (a *Auth) welcome(nc net.Conn, p *preamble) error {
	switch {
	case p.keyed && !a.Keyed():
		return fmt.Errorf("%w: the slave wants to prove a key, and this master has none: set haAuthKeyFile on both or on neither", ErrAuth)
	case !p.keyed && a.Keyed():
		return fmt.Errorf("%w: the slave has no key, and this master asks for one: set the same haAuthKeyFile on both", ErrAuth)
	case !p.keyed:
		return nil
	}
	var nonce [nonceSize]byte
	rand.Read(nonce[:]) // never fails
	if err := nc.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	defer func() { _ = nc.SetDeadline(time.Time{}) }()
	if _, err := nc.Write(append(nonce[:], a.mac("master", p, nonce[:])...)); err != nil {
		return fmt.Errorf("send the proof of the key: %w", err)
	}
	var got [macSize]byte
	if _, err := io.ReadFull(nc, got[:]); err != nil {
		return fmt.Errorf("%w: the slave broke off instead of proving its key (%w): is haAuthKeyFile the same on both?", ErrAuth, err)
	}
	if !hmac.Equal(got[:], a.mac("slave", p, nonce[:])) {
		return fmt.Errorf("%w: the slave's key is not this master's: haAuthKeyFile must be the same on both", ErrAuth)
	}
	return nil
}

// greet is the slave's part: it says who it is, and proves its key.
func (a *Auth) greet(nc net.Conn, token int64) error {
	p := newPreamble(token, a.Keyed())
	if err := nc.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	defer func() { _ = nc.SetDeadline(time.Time{}) }()
	if _, err := nc.Write(p.raw[:]); err != nil {
		return lastWord(nc, err)
	}
	if !p.keyed {
		return nil
	}
	var answer [nonceSize + macSize]byte
	if _, err := io.ReadFull(nc, answer[:]); err != nil {
		if alertOf(err) {
			return err
		}
		return fmt.Errorf("%w: the master did not prove its key (%w): set the same haAuthKeyFile on both", ErrAuth, err)
	}
	nonce := answer[:nonceSize]
	if !hmac.Equal(answer[nonceSize:], a.mac("master", &p, nonce)) {
		return fmt.Errorf("%w: the master's key is not this slave's: haAuthKeyFile must be the same on both", ErrAuth)
	}
	_, err := nc.Write(a.mac("slave", &p, nonce))
	return err
}

// accept wraps an accepted connection into TLS, if that is on.
func (a *Auth) accept(ctx context.Context, nc net.Conn) (net.Conn, error) {
	if !a.TLS() {
		return nc, nil
	}
	t := tls.Server(nc, a.server)
	return t, handshake(ctx, t)
}

// dialed wraps a dialed connection into TLS, if that is on.
func (a *Auth) dialed(ctx context.Context, nc net.Conn, addr string) (net.Conn, error) {
	if !a.TLS() {
		return nc, nil
	}
	cfg := a.client
	if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		cfg = cfg.Clone()
		if host, _, err := net.SplitHostPort(addr); err == nil {
			cfg.ServerName = host
		}
	}
	t := tls.Client(nc, cfg)
	return t, handshake(ctx, t)
}

// lastWord is why the other end closed a connection to which nothing can be written
// any more: in TLS what it said before that lies unread, such as what it has against
// our certificate.
func lastWord(nc net.Conn, err error) error {
	t, ok := nc.(*tls.Conn)
	if !ok {
		return err
	}
	var one [1]byte
	if derr := t.SetReadDeadline(time.Now().Add(time.Second)); derr != nil {
		return err
	}
	if _, rerr := t.Read(one[:]); alertOf(rerr) {
		return rerr
	}
	return err
}

// alertOf says whether an error is what the other end of TLS said before it closed.
func alertOf(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

func handshake(ctx context.Context, t *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("%w: TLS: %w (both sides need haTlsEnable=true and certificates that they trust)", ErrAuth, err)
	}
	return nil
}
