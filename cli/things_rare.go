package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mqctl/cli/admin"
	"mqctl/store/fastjson"
)

// Things of brokers with access control, of controllers, of nameservers'
// settings and of the limits of cold reads.

// passwordField is the setting of a user that nothing shows.
const passwordField = "password"

// readRare is readThing for them.
func (c *call) readRare(ctx context.Context, t admin.Target, kind, name string) (state, error) {
	var missing *admin.NotFound
	switch kind {
	case kindUser:
		u, err := c.client.User(ctx, t.Addr, name)
		if errors.As(err, &missing) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return userState(*u), nil
	case kindACL:
		a, err := c.client.ACL(ctx, t.Addr, name)
		if errors.As(err, &missing) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return aclState(a), nil
	case kindNamesrv, kindController:
		read := c.client.NameserverConfig
		if kind == kindController {
			read = c.client.ControllerConfig
		}
		p, err := read(ctx, t.Addr)
		if err != nil {
			return nil, err
		}
		if v, ok := p.Values[name]; ok {
			return state{valueField: v}, nil
		}
		return nil, nil
	case kindCold:
		table, err := c.coldTable(ctx, t)
		if err != nil || table == nil {
			return nil, err
		}
		if v, ok := table.Config[name]; ok {
			return state{valueField: json.Number(strings.Trim(string(v), `"`))}, nil
		}
		return nil, nil
	}
	return nil, fmt.Errorf("nothing is known of %q", kind+"/"+name)
}

// writeRare is writeThing for them.
func (c *call) writeRare(ctx context.Context, t admin.Target, kind, name string, before, after state) error {
	switch kind {
	case kindUser:
		return c.putUserState(ctx, t, name, before, after)
	case kindACL:
		return c.putACLState(ctx, t, name, before, after)
	case kindNamesrv, kindController:
		if after == nil {
			return fail(ExitFailed, "NO_WAY_BACK", "%s: a %s cannot forget a setting", name, kind)
		}
		write := c.client.UpdateNameserverConfig
		if kind == kindController {
			write = c.client.UpdateControllerConfig
		}
		return write(ctx, t.Addr, map[string]string{name: fmt.Sprint(after[valueField])})
	case kindCold:
		if after == nil {
			return c.client.RemoveColdThreshold(ctx, t.Addr, name)
		}
		n, err := strconv.ParseInt(fmt.Sprint(after[valueField]), 10, 64)
		if err != nil {
			return fmt.Errorf("%v is no threshold", after[valueField])
		}
		return c.client.SetColdThreshold(ctx, t.Addr, name, n)
	}
	return fmt.Errorf("nothing is known of %q", kind+"/"+name)
}

func userState(u admin.User) state {
	return state{"userType": u.Type, "userStatus": u.Status, passwordField: u.Password}
}

// putUserState creates, changes or deletes an account. A password travels only
// from where it was given or read; what was noted of a change has none.
func (c *call) putUserState(ctx context.Context, t admin.Target, name string, before, after state) error {
	if after == nil {
		return c.client.DeleteUser(ctx, t.Addr, name)
	}
	u := admin.User{Name: name}
	u.Type, _ = after["userType"].(string)
	u.Status, _ = after["userStatus"].(string)
	u.Password, _ = after[passwordField].(admin.Secret)
	if before == nil && u.Password.Empty() {
		return fail(ExitFailed, "NO_WAY_BACK", "user %s cannot be made again: its password is kept nowhere", name).try("mqctl user create " + name)
	}
	return c.client.PutUser(ctx, t.Addr, u, before == nil)
}

// aclRule is one rule without its policy and resource, which are its name in a
// state: "Custom Topic:orders".
type aclRule struct {
	Actions   []string `json:"actions"`
	SourceIPs []string `json:"sourceIps"`
	Decision  string   `json:"decision"`
}

const policyCustom = "Custom"

// aclState has one field for each rule of a subject.
func aclState(a *admin.ACL) state {
	out := state{}
	for _, p := range a.Policies {
		for _, e := range p.Entries {
			out[firstOf(p.Type, policyCustom)+" "+e.Resource] = ruleState(aclRule{orNone(e.Actions), orNone(e.SourceIPs), e.Decision})
		}
	}
	return out
}

// ruleState is a rule in the form that a state read from a file has.
func ruleState(r aclRule) map[string]any { return stateOf(r) }

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// putACLState brings the rules of a subject from one state to another; a rule
// that is nil afterwards is removed.
func (c *call) putACLState(ctx context.Context, t admin.Target, subject string, before, after state) error {
	if after == nil {
		return c.client.DeleteACL(ctx, t.Addr, subject, "", "")
	}
	byPolicy := map[string][]admin.ACLEntry{}
	for _, name := range sortedKeys(after) {
		policy, resource, _ := strings.Cut(name, " ")
		switch {
		case sameJSON(before[name], after[name]):
		case after[name] == nil:
			if err := c.client.DeleteACL(ctx, t.Addr, subject, policy, resource); err != nil {
				return err
			}
		default:
			var rule aclRule
			if b, err := marshal(after[name]); err != nil || fastjson.Unmarshal(b, &rule) != nil {
				return fmt.Errorf("%s of %s is no access rule", name, subject)
			}
			byPolicy[policy] = append(byPolicy[policy], admin.ACLEntry{Resource: resource, Actions: rule.Actions, SourceIPs: orNone(rule.SourceIPs), Decision: rule.Decision})
		}
	}
	if len(byPolicy) == 0 {
		return nil
	}
	a := admin.ACL{Subject: subject}
	for _, p := range sortedKeys(byPolicy) {
		a.Policies = append(a.Policies, admin.ACLPolicy{Type: p, Entries: byPolicy[p]})
	}
	return c.client.PutACL(ctx, t.Addr, a, before == nil)
}

// coldTable is a broker's table of cold reads.
type coldTable struct {
	Runtime map[string]json.RawMessage `json:"runtimeTable"`
	Config  map[string]json.RawMessage `json:"configTable"`

	text string
}

// coldTable reads it; nil when the broker keeps none.
func (c *call) coldTable(ctx context.Context, t admin.Target) (*coldTable, error) {
	text, err := c.client.ColdReads(ctx, t.Addr)
	if err != nil || strings.TrimSpace(text) == "" {
		return nil, err
	}
	out := coldTable{text: text}
	if err := fastjson.Unmarshal([]byte(text), &out); err != nil {
		return nil, &admin.BadAnswer{Addr: t.Addr, Request: 2003, Err: err}
	}
	return &out, nil
}
