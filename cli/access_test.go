package cli

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mqctl/broker/remoting"
	"mqctl/cli/admin"
)

// accounts is a broker's access control as the original keeps it.
type accounts struct {
	users map[string]map[string]string
	rules map[string]map[string]admin.ACLEntry // by subject and resource
}

// withAccounts lets a fake answer 3001 to 3010.
func withAccounts(b *fakeBroker) *accounts {
	a := &accounts{users: map[string]map[string]string{}, rules: map[string]map[string]admin.ACLEntry{}}
	ok := func(r *remoting.Request) { r.Reply(remoting.CodeSuccess, "", nil, nil) }
	putUser := func(r *remoting.Request) {
		var u map[string]string
		if json.Unmarshal(r.Body, &u) != nil {
			r.Reply(remoting.CodeSystemError, "no JSON", nil, nil)
			return
		}
		name := r.Ext.Map()["username"]
		if a.users[name] == nil {
			a.users[name] = map[string]string{}
		}
		maps.Copy(a.users[name], u)
		ok(r)
	}
	putRules := func(r *remoting.Request) {
		var acl admin.ACL
		if json.Unmarshal(r.Body, &acl) != nil {
			r.Reply(remoting.CodeSystemError, "no JSON", nil, nil)
			return
		}
		if a.rules[acl.Subject] == nil {
			a.rules[acl.Subject] = map[string]admin.ACLEntry{}
		}
		for _, p := range acl.Policies {
			for _, e := range p.Entries {
				a.rules[acl.Subject][e.Resource] = e
			}
		}
		ok(r)
	}
	rulesOf := func(subject string) admin.ACL {
		out := admin.ACL{Subject: subject, Policies: []admin.ACLPolicy{{Type: "Custom"}}}
		for _, res := range sortedKeys(a.rules[subject]) {
			out.Policies[0].Entries = append(out.Policies[0].Entries, a.rules[subject][res])
		}
		return out
	}
	maps.Copy(b.more, map[int]func(r *remoting.Request){
		remoting.ReqAuthCreateUser: putUser, remoting.ReqAuthUpdateUser: putUser,
		remoting.ReqAuthDeleteUser: func(r *remoting.Request) { delete(a.users, r.Ext.Map()["username"]); ok(r) },
		remoting.ReqAuthGetUser: func(r *remoting.Request) {
			if u := a.users[r.Ext.Map()["username"]]; u != nil {
				reply(r, u)
				return
			}
			ok(r)
		},
		remoting.ReqAuthListUser: func(r *remoting.Request) {
			var all []map[string]string
			for _, name := range sortedKeys(a.users) {
				all = append(all, a.users[name])
			}
			reply(r, all)
		},
		remoting.ReqAuthCreateACL: putRules, remoting.ReqAuthUpdateACL: putRules,
		remoting.ReqAuthDeleteACL: func(r *remoting.Request) {
			m := r.Ext.Map()
			if m["resource"] == "" {
				delete(a.rules, m["subject"])
			} else {
				delete(a.rules[m["subject"]], m["resource"])
			}
			ok(r)
		},
		remoting.ReqAuthGetACL: func(r *remoting.Request) {
			if a.rules[r.Ext.Map()["subject"]] == nil {
				ok(r)
				return
			}
			reply(r, rulesOf(r.Ext.Map()["subject"]))
		},
		remoting.ReqAuthListACL: func(r *remoting.Request) {
			var all []admin.ACL
			for _, s := range sortedKeys(a.rules) {
				all = append(all, rulesOf(s))
			}
			reply(r, all)
		},
	})
	return a
}

// TestUsers creates, changes, copies and deletes accounts at a broker that has
// them, and looks for the passwords in everything that is written.
func TestUsers(t *testing.T) {
	f := newFakeCluster(t)
	a, _ := f.add("127.0.0.1", "a", 0, 0, nil)
	b, _ := f.add("127.0.0.1", "b", 0, 0, nil)
	atA, atB := withAccounts(a), withAccounts(b)
	dir := t.TempDir()
	secret := filepath.Join(dir, "pw")
	if err := os.WriteFile(secret, []byte("top-hidden-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	audit := filepath.Join(dir, "audit.jsonl")
	all := ""
	run := func(want int, line string) (out, errs string) {
		t.Helper()
		code, out, errs := runEnv(map[string]string{"MQCTL_AUDIT": audit}, append([]string{"mqctl", "-n", f.ns.addr}, strings.Fields(line)...)...)
		if code != want {
			t.Errorf("%s: exit %d, want %d\n%s%s", line, code, want, out, errs)
		}
		all += out + errs
		return out, errs
	}
	run(0, "user create ops --broker a --password-file "+secret+" --type Super --dry-run")
	if len(atA.users) != 0 {
		t.Error("a dry run made a user")
	}
	out, _ := run(0, "user create ops --broker a --type Super -o json --password-file "+secret)
	has(t, out, `"action": "CREATE"`, `"verified": true`, `"password"`, `"******"`)
	if u := atA.users["ops"]; u["password"] != "top-hidden-1" || u["userType"] != "Super" || u["userStatus"] != "enable" {
		t.Errorf("the broker got %v", u)
	}
	run(1, "user create ops --broker a --password-file "+secret)
	run(2, "user create other --broker a") // nobody to ask
	run(11, "user create other --broker a --password-file "+dir)
	run(2, "user set ops --broker a")
	run(0, "user set ops --broker a --status disable")
	run(0, "undo --yes")
	if u := atA.users["ops"]; u["userStatus"] != "enable" || u["password"] != "top-hidden-1" {
		t.Errorf("undo left %v", u)
	}
	run(3, "user set none --broker a --status disable")
	out, _ = run(0, "getUser -b "+a.addr+" -u ops")
	has(t, out, "#UserName         #Password               #UserType               #UserStatus", "ops               ******                  Super                   enable")
	out, _ = run(0, "listUser -c C")
	has(t, out, "ops", "get user from "+a.addr+" success.")
	out, _ = run(0, "copyUser -f "+a.addr+" -t "+b.addr)
	has(t, out, "copy user of ops from "+a.addr+" to "+b.addr+" success.")
	if atB.users["ops"]["password"] != "top-hidden-1" {
		t.Errorf("the copy is %v", atB.users["ops"])
	}
	// mqadmin's -p works, and says what is wrong with it; a changed password alone is a change.
	out, errs := run(0, "updateUser -b "+a.addr+" -u ops -p top-hidden-2")
	has(t, out, "update user to "+a.addr+" success.")
	has(t, errs, "PASSWORD_VISIBLE", "--password-file")
	if atA.users["ops"]["password"] != "top-hidden-2" {
		t.Errorf("the password is %q", atA.users["ops"]["password"])
	}
	run(9, "user delete ops --broker b")
	run(0, "user delete ops --broker b --yes")
	run(3, "user delete ops --broker b --yes")
	run(0, "deleteUser -b "+b.addr+" -u ops") // mqadmin calls that a success
	run(3, "user get ops --broker b")
	out, _ = run(0, "user list -o csv --no-headers --fields broker,username,userType")
	has(t, out, "a/0,ops,Super")
	noted, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{all, string(noted)} {
		if strings.Contains(text, "top-hidden") {
			t.Errorf("a password is shown:\n%s", text)
		}
	}
}

// TestACLs: rules are added, changed and removed one by one, and come back.
func TestACLs(t *testing.T) {
	f := newFakeCluster(t)
	a, _ := f.add("127.0.0.1", "a", 0, 0, nil)
	b, _ := f.add("127.0.0.1", "b", 0, 0, nil)
	at, other := withAccounts(a), withAccounts(b)
	env := map[string]string{"MQCTL_AUDIT": filepath.Join(t.TempDir(), "audit.jsonl")}
	run := func(want int, line string) string {
		t.Helper()
		code, out, errs := runEnv(env, append([]string{"mqctl", "-n", f.ns.addr}, strings.Fields(line)...)...)
		if code != want {
			t.Errorf("%s: exit %d, want %d\n%s%s", line, code, want, out, errs)
		}
		return out
	}
	out := run(0, "createAcl -b "+a.addr+" -s User:ops -r Topic:orders,Group:* -a pub,Sub -d allow -i 10.0.0.0/8")
	has(t, out, "create acl to "+a.addr+" success.")
	if e := at.rules["User:ops"]["Topic:orders"]; e.Decision != "Allow" || strings.Join(e.Actions, ",") != "Pub,Sub" || e.SourceIPs[0] != "10.0.0.0/8" {
		t.Errorf("the broker got %+v", e)
	}
	run(1, "acl create --broker a --subject User:ops --resources Topic:orders --actions Sub --decision Deny")
	run(0, "acl set --broker a --subject User:ops --resources Topic:orders --actions Sub --decision Deny")
	run(0, "undo --yes")
	if e := at.rules["User:ops"]["Topic:orders"]; e.Decision != "Allow" || len(e.Actions) != 2 {
		t.Errorf("undo left %+v", e)
	}
	out = run(0, "getAcl -b "+a.addr+" -s User:ops")
	has(t, out, "#Subject          #PolicyType  #Resource               #Actions              #SourceIp                 #Decision",
		"User:ops          Custom      Topic:orders            [Pub, Sub]            [10.0.0.0/8]              Allow")
	run(0, "acl copy User:ops --from a --to b")
	if len(other.rules["User:ops"]) != 2 {
		t.Errorf("the copy is %v", other.rules)
	}
	run(0, "acl delete --broker a --subject User:ops --resources Topic:orders --yes")
	if len(at.rules["User:ops"]) != 1 {
		t.Errorf("left: %v", at.rules["User:ops"])
	}
	run(0, "undo --yes")
	if len(at.rules["User:ops"]) != 2 {
		t.Errorf("not back: %v", at.rules["User:ops"])
	}
	run(0, "deleteAcl -b "+a.addr+" -s User:ops")
	run(3, "acl delete --broker a --subject User:ops --yes")
	run(3, "acl get --broker a --subject User:ops")
	run(2, "acl create --broker a --subject ops --resources Topic:x --actions Pub --decision Allow")
	run(2, "acl create --broker a --subject User:ops --resources Topic:x --actions Fly --decision Allow")
	out = run(0, "acl list --broker b -o csv --no-headers --fields subject,resource,decision")
	has(t, out, "User:ops,Group:*,Allow", "User:ops,Topic:orders,Allow")
}

// TestExportAccess carries users and rules from one cluster to another by a
// file, which has no password.
func TestExportAccess(t *testing.T) {
	from, to := newFakeCluster(t), newFakeCluster(t)
	a, _ := from.add("127.0.0.1", "a", 0, 0, nil)
	b, _ := to.add("127.0.0.1", "a", 0, 0, nil)
	atA, atB := withAccounts(a), withAccounts(b)
	atA.users["ops"] = map[string]string{"username": "ops", "password": "top-hidden-1", "userType": "Super", "userStatus": "enable"}
	atA.users["dev"] = map[string]string{"username": "dev", "password": "top-hidden-2", "userType": "Normal", "userStatus": "disable"}
	atA.rules["User:dev"] = map[string]admin.ACLEntry{"Topic:orders": {Resource: "Topic:orders", Actions: []string{"Pub", "Sub"}, SourceIPs: []string{"10.0.0.0/8"}, Decision: "Allow"}}
	atB.users["ops"] = map[string]string{"username": "ops", "password": "another", "userType": "Normal", "userStatus": "enable"}
	dir := t.TempDir()
	env, file := map[string]string{"MQCTL_AUDIT": filepath.Join(dir, "audit.jsonl")}, filepath.Join(dir, "acl.toml")
	run := func(f *fakeCluster, want int, args ...string) (out, errs string) {
		t.Helper()
		code, out, errs := runEnv(env, append([]string{"mqctl", "-n", f.ns.addr}, args...)...)
		if code != want {
			t.Fatalf("%v: exit %d, want %d\n%s%s", args, code, want, out, errs)
		}
		return out, errs
	}
	out, _ := run(from, 0, "cluster", "export", "--what", "acl", "--out", file, "-o", "json")
	has(t, out, `"kind": "USER"`, `"kind": "ACL"`, `"User:dev"`)
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), "hidden") {
		t.Fatalf("%v\n%s", err, text)
	}
	has(t, string(text), "[users.ops]", `userType = "Super"`, `[acls."User:dev"."Custom Topic:orders"]`, `sourceIps = ["10.0.0.0/8"]`)
	run(from, 0, "plan", "-f", file)
	// dev is not there, and nobody said where the password is: the rest is done.
	_, errs := run(to, 6, "cluster", "import", "-f", file)
	has(t, errs, "USER_MISSING", `has no user "dev"`, "mqctl user create dev")
	if atB.users["ops"]["userType"] != "Super" || atB.users["ops"]["password"] != "another" || len(atB.rules) != 0 {
		t.Error(atB)
	}
	run(to, 0, "undo")
	if atB.users["ops"]["userType"] != "Normal" {
		t.Error(atB.users)
	}
	secret := filepath.Join(dir, "dev.pw")
	if err := os.WriteFile(secret, []byte("new-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	withFile := strings.Replace(string(text), "[users.dev]", "[users.dev]\npasswordFile = \""+secret+"\"", 1)
	if err := os.WriteFile(file, []byte(withFile), 0o600); err != nil {
		t.Fatal(err)
	}
	run(to, 10, "plan", "-f", file)
	out, _ = run(to, 0, "cluster", "import", "-f", file, "-o", "json")
	if strings.Contains(out, "new-secret") {
		t.Error(out)
	}
	if atB.users["dev"]["password"] != "new-secret" || atB.rules["User:dev"]["Topic:orders"].Decision != "Allow" {
		t.Error(atB)
	}
	run(to, 0, "plan", "-f", file)
	run(to, 0, "undo")
	if atB.users["dev"] != nil || len(atB.rules["User:dev"]) != 0 {
		t.Error(atB)
	}
	note, err := os.ReadFile(env["MQCTL_AUDIT"])
	if err != nil || strings.Contains(string(note), "new-secret") {
		t.Errorf("%v\n%s", err, note)
	}
	// What no broker would take, and a password in the file.
	for _, bad := range []string{"[users.dev]\npassword = \"x\"", "[users.dev]\nuserType = \"King\"", "[users.\"a b\"]\nuserType = \"Super\"",
		"[acls.dev.\"Custom Topic:t\"]\nactions = [\"Pub\"]\ndecision = \"Allow\"", "[acls.\"User:dev\".\"Topic:t\"]\nactions = [\"Pub\"]\ndecision = \"Allow\"",
		"[acls.\"User:dev\".\"Custom Topic:t\"]\nactions = []\ndecision = \"Allow\"", "[acls.\"User:dev\".\"Custom Topic:t\"]\nactions = [\"Pub\"]\ndecision = \"Perhaps\""} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		run(to, 11, "plan", "-f", file)
	}
	// A broker without access control: the rest of the file is written.
	plain := newFakeCluster(t)
	plain.add("127.0.0.1", "a", 0, 0, nil)
	run(plain, 8, "cluster", "export", "--what", "acl", "--out", file)
}
