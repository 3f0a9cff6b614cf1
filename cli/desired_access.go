package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mqctl/cli/admin"
)

// Users and access rules in the file of an export. Passwords are never in it:
// a user that an import has to create names a file with its password.
//
//	[users.ops]
//	userType = "Super"
//	userStatus = "enable"
//	passwordFile = "/run/secrets/ops"     only where the user must be created
//	[acls."User:ops"."Custom Topic:orders"]
//	actions = ["Pub"]
//	sourceIps = []
//	decision = "Allow"

// passwordFileField names the file with a user's password.
const passwordFileField = "passwordFile"

// accessOf is what a broker has of users and rules, without passwords.
type accessOf struct {
	users, acls map[string]state
}

// accessAt reads them: one request each.
func (c *call) accessAt(ctx context.Context, t admin.Target) (*accessOf, error) {
	users, err := c.client.Users(ctx, t.Addr, "")
	if err != nil {
		return nil, err
	}
	rules, err := c.client.ACLs(ctx, t.Addr, "", "")
	if err != nil {
		return nil, err
	}
	out := &accessOf{users: map[string]state{}, acls: map[string]state{}}
	for _, u := range users {
		out.users[u.Name] = userState(u)
		delete(out.users[u.Name], passwordField)
	}
	for i := range rules {
		out.acls[rules[i].Subject] = aclState(&rules[i])
	}
	return out, nil
}

// checkUser refuses what is no account.
func checkUser(name string, s state) error {
	if err := checkAccount(name); err != nil {
		return err
	}
	for _, k := range sortedKeys(s) {
		text, isText := s[k].(string)
		switch {
		case k == passwordField:
			return errors.New("a password does not belong into this file: write passwordFile = \"PATH\"")
		case k == passwordFileField && isText && text != "":
		case k == "userType" && isText && (text == "Super" || text == "Normal"):
		case k == "userStatus" && isText && (text == "enable" || text == "disable"):
		default:
			return fmt.Errorf("%s = %v: userType is Super or Normal, userStatus enable or disable, passwordFile the name of a file", k, s[k])
		}
	}
	return nil
}

// checkRules refuses what are no rules of a subject, and completes them.
func checkRules(subject string, s state) error {
	if kind, name, ok := strings.Cut(subject, ":"); !ok || kind == "" || name == "" {
		return errors.New("a subject is KIND:NAME, as User:ops")
	}
	for _, k := range sortedKeys(s) {
		policy, resource, _ := strings.Cut(k, " ")
		rules, ok := s[k].(map[string]any)
		var rule aclRule
		if !ok || policy != policyCustom && policy != "Default" || resource == "" {
			return fmt.Errorf("%q is no section \"Custom RESOURCE\" or \"Default RESOURCE\"", k)
		}
		if err := state(rules).into(&rule); err != nil {
			return fmt.Errorf("%q: %w", k, err)
		}
		if len(rule.Actions) == 0 || rule.Decision != "Allow" && rule.Decision != "Deny" {
			return fmt.Errorf("%q: actions are needed, and a decision, which is Allow or Deny", k)
		}
		rule.SourceIPs = orNone(rule.SourceIPs)
		s[k] = ruleState(rule)
	}
	return nil
}

// planAccess compares users and rules with one broker. What a user needs that is
// not there comes from its password file; without one the user is left out, with
// its rules: brokers refuse rules of users that they do not have.
func (c *call) planAccess(ctx context.Context, t admin.Target, d *desired) (plan []*planItem, missing []*Message, err error) {
	if len(d.users)+len(d.acls) == 0 {
		return nil, nil, nil
	}
	now, err := c.accessAt(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	absent := map[string]bool{}
	for _, name := range sortedKeys(d.users) {
		before, want := now.users[name], d.users[name].with(nil)
		path, _ := want[passwordFileField].(string)
		delete(want, passwordFileField)
		after := before.with(want)
		if before == nil {
			if path == "" {
				absent["User:"+name] = true
				missing = append(missing, userMissing(t, name, want))
				continue
			}
			secret, err := readPassword(path)
			if err != nil {
				return nil, nil, err
			}
			after = state{"userType": "Normal", "userStatus": "enable", passwordField: secret}.with(want)
		}
		plan = append(plan, planThing(t, kindUser+"/"+name, before, after))
	}
	for _, subject := range sortedKeys(d.acls) {
		if before := now.acls[subject]; !absent[subject] {
			plan = append(plan, planThing(t, kindACL+"/"+subject, before, before.with(d.acls[subject])))
		}
	}
	return plan, missing, nil
}

func userMissing(t admin.Target, name string, want state) *Message {
	m := fail(ExitNotFound, "USER_MISSING", "%s has no user %q, and the file does not say where its password is; the user and its rules are left out", t, name)
	m.Target, m.Addr = t.String(), t.Addr
	kind, _ := want["userType"].(string)
	return m.try("passwordFile = \"PATH\" in [users."+name+"]", "mqctl user create "+name+" --type "+firstOf(kind, "Normal")+" --password-file PATH --broker "+t.String())
}
