package broker

import (
	"bytes"
	"context"
	"net/netip"
	"slices"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/subgroup"
)

// stepTurn bounds how long a step waits for the one before it.
const stepTurn = 5 * time.Second

// changeSteps are the steps of MQCTL_ROLE that ask for the role or change it.
func (b *Broker) changeSteps() map[string]handlerFunc {
	steps := make(map[string]handlerFunc)
	for _, name := range []string{"status", "begin", "fence", "unfence", "exchange", "demote", "promote", "end"} {
		steps[name] = b.serveChange
	}
	return steps
}

// serveChange serves one step. Everybody may ask for the status, as it says no
// more than 30001 and 26 do; a change needs a peer on this machine or one that
// was authenticated. Who asked with the key is answered with it: brokers give up
// their place for what another one answers.
func (b *Broker) serveChange(ctx context.Context, r *remoting.Request) {
	s, err := readStep(r)
	if err == nil && s.Step != "status" && !b.trusted(r.Conn) && !body.VerifyRole(b.roleKey, b.Addr(), r.Ext.Map(), b.opts.Now()) {
		err = refusal(remoting.CodeNoPermission,
			"%s from %s: a change of roles is taken from the broker's own machine, or with the key of its haAuthKeyFile (and a clock within 30 s)", s.Step, s.Peer)
	}
	if err != nil {
		refuse(r, err)
		return
	}
	turn, cancel := context.WithTimeout(ctx, stepTurn)
	defer cancel()
	st, err := b.roles.take(turn, s)
	if err != nil {
		refuse(r, err)
		return
	}
	text := st.Encode()
	var ext remoting.ExtEncoder = remoting.None{}
	if asked := body.RoleProofOf(r.Ext.Map()); asked != "" && len(b.roleKey) > 0 {
		ext = remoting.Map{body.PeerProofField: body.SignAnswer(b.roleKey, asked, s.Step, text)}
	}
	r.Reply(remoting.CodeSuccess, "", ext, text)
}

// Bounds of texts in a step.
const (
	maxReason   = 1024
	maxStepText = 300
)

// readStep reads the fields of a step. Its errors are *remoting.Error.
func readStep(r *remoting.Request) (roleStep, error) {
	bad := func(format string, args ...any) (roleStep, error) {
		return roleStep{}, refusal(remoting.CodeInvalidParameter, format, args...)
	}
	text := func(key string) string { v, _ := r.Ext.Get(key); return v }
	s := roleStep{Step: text("step"), Force: text("force") == "true", Reason: text("reason"), Peer: r.Conn.RemoteAddr().String(),
		Master: text("master"), HA: text("ha"), Change: text("change"), Target: text("target")}
	if len(s.Reason) > maxReason || max(len(s.Master), len(s.HA), len(s.Change), len(s.Target)) > maxStepText {
		return bad("a text of the step is too long")
	}
	for key, to := range map[string]*int64{"epoch": &s.Epoch, "end": &s.End, "id": &s.ID} {
		v, _, err := r.Ext.Int(key)
		if err != nil || v < 0 {
			return bad("field %s: %.40q is no number from 0 on", key, text(key))
		}
		*to = v
	}
	switch {
	case s.Step == "status":
		return s, nil
	case s.Epoch == 0 && s.Step != "exchange":
		return bad("field epoch is missing")
	case s.Step == "begin" && (s.Change == "" || s.Target == ""):
		return bad("fields change and target are missing: whose change is it, and who is to be the master?")
	case s.Step == "promote":
		role := text("role")
		if s.Role = roleNamed(role); s.Role.String() != role {
			return bad("field role: %.40q is none of ASYNC_MASTER and SYNC_MASTER", role)
		}
	case s.Step == "demote":
		for key, addr := range map[string]string{"master": s.Master, "ha": s.HA} {
			if _, port, err := splitAddr(addr); err != nil || port == 0 {
				return bad("field %s: %.80q is no address host:port", key, addr)
			}
		}
	}
	return s, nil
}

// trusted says whether a connection may change what the broker is: it comes from
// this machine.
func (b *Broker) trusted(c *remoting.Conn) bool {
	remote, local := c.RemoteAddr(), c.LocalAddr()
	return !remote.IsValid() || remote.Addr().IsLoopback() || remote.Addr() == local.Addr()
}

// fromGroup says whether a connection comes from a broker of this name: from this
// machine, or with the key of haAuthKeyFile; without one, from the address of a
// registered broker. What is relayed from there is what its clients may send here
// themselves, but for the address that their messages get.
func (b *Broker) fromGroup(s *session, c *remoting.Conn) bool {
	if b.trusted(c) {
		return true
	}
	if len(b.roleKey) > 0 {
		return s.proof.done.Load()
	}
	for _, p := range b.peers.Load() {
		at, err := netip.ParseAddrPort(p.Addr)
		if err == nil && at.Addr().Unmap() == c.RemoteAddr().Addr() {
			return true
		}
	}
	return false
}

// openRoles makes what changes this broker's role, and what relays stale clients' requests.
func (b *Broker) openRoles() {
	b.relay = newRelay(relayOptions{Stand: &b.stand, Live: &b.live, Net: b.ha.net, Ask: b.askRole, Prove: b.proveConn, Resume: b.sends.resume, Refuse: b.refuseSend,
		Followed: b.announceSlave, Now: b.steady, Log: b.log})
	b.onCut(b.cutProgress)
	if b.opts.HAAuthKey != "" {
		key, err := b.opts.readSecret("haAuthKeyFile", b.opts.HAAuthKey)
		if err != nil { // it was read a moment ago
			b.log.Error("changes of roles are taken from this machine only", "err", err)
		}
		b.roleKey = bytes.TrimSpace(key)
	}
	b.masterEnd, b.rivals = loadMasterEnd(b.opts.FS, b.opts.Store.Dir), make(chan string, 1)
	b.offsets.SetTerm(uint64(b.opts.Epoch))
	b.onStanding(func(_, next *standing) { b.offsets.SetTerm(uint64(next.Epoch)) })
	b.roles = newRoles(rolesOptions{
		Name: b.here.name, ConfiguredID: b.opts.ConfiguredID, Former: b.opts.FormerID, Rejoin: b.opts.Rejoin,
		Addr: b.Addr, HAAddr: func() string { return b.ha.addr }, Stand: &b.stand,
		Become:  b.become,
		Save:    func(h *heldRole) error { return h.save(b.opts.FS, b.opts.Store.Dir) },
		Enabled: func() bool { return b.live.Load().RoleSwitch }, Following: b.following, Positions: b.store.Positions,
		Clamp: b.clampProgress, Exchange: func(ctx context.Context) error { return b.sync.ExchangeNow(ctx) }, Hold: b.relay.hold, Release: b.relay.release, Follow: b.relay.follow,
		Ask: b.askRole, Promote: b.promoteOther, Members: b.members901, Related: b.related, Took: b.tookPlace, Now: b.steady, Log: b.log.With("component", "role"),
	})
}

// become makes a standing act.
func (b *Broker) become(ctx context.Context, next standing) error {
	return b.setStanding(ctx, func(s *standing) { *s = next })
}

// divertSend is what becomes of a send that reaches a broker which takes none.
func (b *Broker) divertSend(s *session, r *remoting.Request) {
	if !b.relay.takeSend(s, r) {
		b.refuseSend(s, r)
	}
}

// askRole asks another broker what it is. Where there is a key it has to prove it: anybody
// can register at a nameserver and say that he is a newer master.
func (b *Broker) askRole(ctx context.Context, addr string) (*body.RoleStatus, error) {
	one, cancel := context.WithTimeout(ctx, peerWait)
	defer cancel()
	ext := remoting.Map{"step": "status"}
	if len(b.roleKey) > 0 {
		body.SignRole(b.roleKey, addr, ext, b.opts.Now())
	}
	resp, err := b.ha.net.Call(one, addr, remoting.ReqMqctlRole, ext, nil)
	if err == nil {
		err = resp.Err()
	}
	if err != nil {
		return nil, err
	}
	if len(b.roleKey) > 0 && !body.AnswerProved(b.roleKey, body.RoleProofOf(ext), "status", resp.Body, resp.Ext[body.PeerProofField]) {
		return nil, unprovedAnswer("status", addr)
	}
	return body.DecodeRoleStatus(resp.Body)
}

// following is what the replication of a slave knows of the master.
func (b *Broker) following() (following, bool) {
	if !b.stand.Load().isSlave() {
		return following{}, false
	}
	st := b.ha.slave.Status()
	heard := st.Connected && b.steady().Sub(st.LastRead) <= silentAfter // else a frozen master is none, though its sockets stay open
	f := following{Connected: heard, Refused: st.DialRefused, End: int64(st.MasterEnd), EndAt: b.dated(st.MasterEndAt),
		State: string(st.State), Why: st.Sentence}
	if list := shownAsides(b.store); len(list) > 0 {
		f.Aside = list[0]
	}
	f.Role = b.masterEnd.masterRole()
	if !f.EndAt.IsZero() {
		until := b.steady()
		if !st.Connected && !st.LostAt.Before(st.MasterEndAt) {
			until = st.LostAt
		}
		f.EndLag = until.Sub(st.MasterEndAt)
	} else {
		f.End, f.EndAt = b.masterEnd.known()
		f.EndOld = true
	}
	return f, true
}

// related says whether the broker at addr was a replica of this one, as far as it is
// remembered on disk. A master that changed its role before has the epochs for that.
func (b *Broker) related(addr string) bool {
	return slices.ContainsFunc(b.sync.members.all(), func(m member) bool { return m.Addr == addr })
}

// tookPlace remembers a former master as the replica that it is now.
func (b *Broker) tookPlace(id int64, addr string) {
	if b.sync.members.set(member{ID: id, Addr: addr}) {
		b.sync.members.save(b.sync.o.Log)
	}
}

// members901 are the registered brokers of this name.
func (b *Broker) members901(context.Context) map[int64]string { return b.replicas() }

// cutProgress lowers progress into a tail that was just cut off the log of a former
// master (P10), before the log grows again. A log that was set aside as a whole is
// copied anew from elsewhere: its empty queues say nothing.
func (b *Broker) cutProgress() {
	if pos := b.store.Positions(); b.roles.settled() || pos.Max <= pos.Min {
		return
	}
	lowered := b.clampProgress()
	b.roles.cut(lowered)
	for _, p := range lowered[:min(len(lowered), shownClamps)] {
		b.log.Warn("consume progress lowered to the end of its queue: the log was cut", "group", p.Group, "topic", p.Topic, "queue", p.Queue, "to", p.Offset)
	}
}

// clampProgress lowers consume positions behind the end of their queue, and makes that durable.
func (b *Broker) clampProgress() []subgroup.ProgressRecord {
	lowered := b.offsets.Clamp(func(topic string, queue int32) (int64, bool) {
		q := b.store.Lookup([]byte(topic), queue)
		if q == nil {
			return 0, true // it ended with the lost tail, or never was here
		}
		return int64(q.Max()), true
	})
	if len(lowered) > 0 {
		b.persistOffsets()
	}
	return lowered
}
