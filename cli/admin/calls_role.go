package admin

import (
	"context"
	"errors"
	"strconv"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

// RoleStep is one step of a change of roles (30002), which only brokers of this
// program know.
type RoleStep struct {
	Step   string // status, begin, fence, unfence, exchange, demote, promote, end
	Epoch  int64  // of the change; every step of one change has the same
	Force  bool
	Reason string // for the broker's log
	Change string // random, the same in every step of one change: brokers let one change in at a time
	Target string // begin: who is to be the master

	Role   string // promote: ASYNC_MASTER or SYNC_MASTER
	End    int64  // promote without Force: where the log must end
	ID     int64  // demote: the id as a slave
	Master string // demote: remoting address of the new master
	HA     string // demote: its replication address

	Key []byte // of the group (haAuthKeyFile), for brokers of other machines; nil: none
}

// Role takes a step at a broker and returns what the broker is afterwards. A
// repeated step of one epoch does nothing. Brokers without changes of roles
// refuse it: see Unsupported of *Refused. One that had too much to do at the moment is
// asked once more.
func (c *Client) Role(ctx context.Context, addr string, s RoleStep) (*body.RoleStatus, error) {
	st, err := c.role(ctx, addr, s)
	var r *Refused
	if !errors.As(err, &r) || !r.Overloaded() {
		return st, err
	}
	select {
	case <-ctx.Done():
		return nil, err
	case <-time.After(overloadPause):
	}
	return c.role(ctx, addr, s)
}

// overloadPause is how long an overloaded broker is left alone.
const overloadPause = 300 * time.Millisecond

func (c *Client) role(ctx context.Context, addr string, s RoleStep) (*body.RoleStatus, error) {
	ext := remoting.Map{"step": s.Step}
	if s.Step != "status" {
		ext["epoch"] = strconv.FormatInt(s.Epoch, 10)
		ext["force"] = strconv.FormatBool(s.Force)
		ext["reason"], ext["change"] = s.Reason, s.Change
	}
	switch s.Step {
	case "begin":
		ext["target"] = s.Target
	case "promote":
		ext["role"], ext["end"] = s.Role, strconv.FormatInt(s.End, 10)
	case "demote":
		ext["id"], ext["master"], ext["ha"] = strconv.FormatInt(s.ID, 10), s.Master, s.HA
	}
	if len(s.Key) > 0 {
		body.SignRole(s.Key, addr, ext, time.Now())
	}
	resp, err := c.call(ctx, addr, request{code: remoting.ReqMqctlRole, ext: ext, write: s.Step != "status"})
	if err != nil {
		return nil, err
	}
	if len(s.Key) > 0 && !body.AnswerProved(s.Key, body.RoleProofOf(ext), s.Step, resp.Body, resp.Ext[body.PeerProofField]) {
		return nil, &BadAnswer{Addr: addr, Request: remoting.ReqMqctlRole, Err: errors.New("it does not prove the key: the broker's haAuthKeyFile is another one, or there is none")}
	}
	st, err := body.DecodeRoleStatus(resp.Body)
	if err != nil {
		return nil, &BadAnswer{Addr: addr, Request: remoting.ReqMqctlRole, Err: err}
	}
	return st, nil
}

// NoRoles reports whether err is the answer of a broker that knows no changes of roles.
func NoRoles(err error) bool {
	var r *Refused
	return errors.As(err, &r) && r.Unsupported()
}
