package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/store/fastjson"
)

// How the brokers of a name trust each other. With haAuthKeyFile every request between
// them that changes something proves the key, unless it comes from this machine: hello,
// attach and MQCTL_PROGRESS each with their body, MQCTL_RELAY once for its connection,
// by a challenge, since it carries every message. Without a key the address counts:
// this machine's, or one that a nameserver has for a broker of this name. A nameserver
// believes whoever registers, so that keeps out mistakes, not malice.

// Steps of MQCTL_ROLE by which a connection is proved.
const (
	stepChallenge = "challenge" // asks for a challenge
	stepProve     = "prove"     // answers it
)

// connProof is what a connection has shown of itself.
type connProof struct {
	challenge atomic.Pointer[string]
	done      atomic.Bool
}

// proofOf is what a connection has shown; nil if nothing was asked over it yet.
func proofOf(c *remoting.Conn) *connProof {
	if s, ok := c.Session.(*session); ok {
		return &s.proof
	}
	return nil
}

// serveChallenge gives a connection something to answer with the key.
func (b *Broker) serveChallenge(_ context.Context, r *remoting.Request) {
	p := proofOf(r.Conn)
	if p == nil || len(b.roleKey) == 0 {
		r.Reply(remoting.CodeNoPermission, "this broker has no haAuthKeyFile, so there is no key to prove: set it on both or on neither", nil, nil)
		return
	}
	text := rand.Text()
	p.challenge.Store(&text)
	r.Reply(remoting.CodeSuccess, "", remoting.Map{"challenge": text}, nil)
}

// serveProve takes the answer; a challenge is answered once.
func (b *Broker) serveProve(_ context.Context, r *remoting.Request) {
	proof, _ := r.Ext.Get(body.PeerProofField)
	p := proofOf(r.Conn)
	if p == nil {
		r.Reply(remoting.CodeNoPermission, "this connection cannot be proved", nil, nil)
		return
	}
	if c := p.challenge.Swap(nil); c == nil || !body.ConnProved(b.roleKey, *c, proof) {
		r.Reply(remoting.CodeNoPermission, "the key of the other broker's haAuthKeyFile is not the one of this broker's", nil, nil)
		return
	}
	p.done.Store(true)
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}

// proveConn shows another broker of this name, over a connection to it, that this one
// has the key. Without a key there is nothing to do.
func (b *Broker) proveConn(ctx context.Context, c *remoting.Conn) error {
	if len(b.roleKey) == 0 {
		return nil
	}
	step := func(ext remoting.Map) (*remoting.Response, error) {
		resp, err := c.Call(ctx, remoting.ReqMqctlRole, ext, nil)
		if err == nil {
			err = resp.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("the key of haAuthKeyFile: %w", err)
		}
		return resp, nil
	}
	resp, err := step(remoting.Map{"step": stepChallenge})
	if err != nil {
		return err
	}
	_, err = step(remoting.Map{"step": stepProve, body.PeerProofField: body.ProveConn(b.roleKey, resp.Ext["challenge"])})
	return err
}

// signStep adds the proof of the key to a hello or an attach.
func (b *Broker) signStep(step string, text []byte) remoting.Map {
	ext := remoting.Map{"step": step}
	if len(b.roleKey) > 0 {
		ext[body.PeerTimeField], ext[body.PeerProofField] = body.SignPeer(b.roleKey, step, b.here.name, text, b.opts.Now())
	}
	return ext
}

// proved says whether a request of another broker may change something here.
func (b *Broker) proved(r *remoting.Request, what, who string) bool {
	if len(b.roleKey) == 0 || b.trusted(r.Conn) {
		return true
	}
	at, _ := r.Ext.Get(body.PeerTimeField)
	proof, _ := r.Ext.Get(body.PeerProofField)
	return body.VerifyPeer(b.roleKey, what, who, r.Body, at, proof, b.opts.Now())
}

// provedStep refuses a hello or an attach without the key.
func (b *Broker) provedStep(step string, f handlerFunc) handlerFunc {
	return func(ctx context.Context, r *remoting.Request) {
		if !b.proved(r, step, b.here.name) {
			r.Reply(remoting.CodeNoPermission, unproved(step, r.Conn.RemoteAddr()), nil, nil)
			return
		}
		f(ctx, r)
	}
}

// unproved says why a request of another broker is refused.
func unproved(what string, from fmt.Stringer) string {
	return fmt.Sprintf("%s from %s: brokers of other machines prove the key of haAuthKeyFile, which this broker has: give the other the same (and a clock within 30 s)", what, from)
}

// signedAsking is a header of MQCTL_PROGRESS with the proof of the key.
type signedAsking struct {
	*asking
	at, proof string
}

// EncodeExt writes the header.
func (a *signedAsking) EncodeExt(w *remoting.ExtWriter) {
	a.asking.EncodeExt(w)
	w.String(body.PeerTimeField, a.at)
	w.String(body.PeerProofField, a.proof)
}

// who is what is proved of the header: which broker asks.
func (a *asking) who() string { return fmt.Sprintf("%s/%d at %s", a.name, a.id, a.addr) }

// askTables sends one MQCTL_PROGRESS, with the proof of the key if there is one; what
// is answered then must be proved too.
func (s *slaveSync) askTables(ctx context.Context, addr string, a *asking, text []byte) (*remoting.Response, error) {
	var h remoting.ExtEncoder = a
	key := s.key()
	proof := ""
	if len(key) > 0 {
		var at string
		at, proof = body.SignPeer(key, remoting.RequestName(remoting.ReqMqctlProgress), a.who(), text, s.o.Now())
		h = &signedAsking{a, at, proof}
	}
	resp, err := s.call(ctx, addr, remoting.ReqMqctlProgress, h, text)
	if err != nil || len(key) == 0 {
		return resp, err
	}
	head := pushHead
	if !a.push {
		said, err := decodeAnswering(resp.Ext)
		if err != nil {
			return nil, err
		}
		head = said.text()
	}
	if !body.AnswerProved(key, proof, head, resp.Body, resp.Ext[body.PeerProofField]) {
		return nil, unprovedAnswer(remoting.RequestName(remoting.ReqMqctlProgress), addr)
	}
	return resp, nil
}

// pushHead stands for the head of an answer that has none.
const pushHead = "push"

// key is the shared key of the brokers of this name, empty if there is none.
func (s *slaveSync) key() []byte {
	if s.o.Key == nil {
		return nil
	}
	return s.o.Key()
}

// replyTables answers an MQCTL_PROGRESS, to a push with neither head nor body.
func (s *slaveSync) replyTables(r *remoting.Request, head *answering, text []byte) {
	said, ext := pushHead, remoting.ExtEncoder(nil)
	if head != nil {
		said, ext = head.text(), head
	}
	if asked, _ := r.Ext.Get(body.PeerProofField); asked != "" && len(s.key()) > 0 {
		ext = &signedAnswering{head, body.SignAnswer(s.key(), asked, said, text)}
	}
	r.Reply(remoting.CodeSuccess, "", ext, text)
}

// signedAnswering is the header of an answer with the proof of the key.
type signedAnswering struct {
	*answering // nil: none
	proof      string
}

// EncodeExt writes the header.
func (a *signedAnswering) EncodeExt(w *remoting.ExtWriter) {
	if a.answering != nil {
		a.answering.EncodeExt(w)
	}
	w.String(body.PeerProofField, a.proof)
}

// text is what is proved of the header.
func (a *answering) text() string {
	next := ""
	if a.next != nil {
		next = fmt.Sprintf("%d %q %q", a.next.queue, a.next.topic, a.next.group)
	}
	return fmt.Sprintf("%d %t %q %d %s %s %s", a.id, a.slave, a.instance, a.version, versionText(a.topics), versionText(a.groups), next)
}

// unprovedAnswer says that who answered has not shown the key.
func unprovedAnswer(what, addr string) error {
	return fmt.Errorf("the answer of %s to %s %w: whoever answers there has another one, or none", addr, what, errUnproved)
}

var errUnproved = errors.New("does not prove the key of haAuthKeyFile")

// replyProved answers a hello or an attach with the proof of the key, if it was asked with one.
func (b *Broker) replyProved(r *remoting.Request, step string, v any) {
	text, err := fastjson.Marshal(v)
	if err != nil {
		refuse(r, err)
		return
	}
	var ext remoting.ExtEncoder
	if asked, _ := r.Ext.Get(body.PeerProofField); asked != "" && len(b.roleKey) > 0 {
		ext = remoting.Map{body.PeerProofField: body.SignAnswer(b.roleKey, asked, step, text)}
	}
	r.Reply(remoting.CodeSuccess, "", ext, text)
}

// askProved asks the master for a hello or an attach; an answer without the key, where
// this broker has one, comes with errUnproved.
func (b *Broker) askProved(ctx context.Context, master, step string, text []byte) (*remoting.Response, error) {
	ext := b.signStep(step, text)
	resp, err := b.askMaster(ctx, master, remoting.ReqMqctlRole, ext, text)
	if err == nil && resp.Code == remoting.CodeSuccess && len(b.roleKey) > 0 &&
		!body.AnswerProved(b.roleKey, ext[body.PeerProofField], step, resp.Body, resp.Ext[body.PeerProofField]) {
		return resp, unprovedAnswer(step, master)
	}
	return resp, err
}
