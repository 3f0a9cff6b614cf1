package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

// fakeRoles answers the steps of a change of roles. The steps are listed in log;
// one that starts with fail is refused.
type fakeRoles struct {
	st   body.RoleStatus
	fail string
	log  []string
	// change and target are of the claim.
	change, target string
	on             func(step string, st *body.RoleStatus)
	overloads      int // of the next steps, which are refused
}

func (f *fakeRoles) serve(r *remoting.Request) {
	ext := r.Ext.Map()
	if f.overloads > 0 && ext["step"] == "begin" {
		f.overloads--
		r.Reply(remoting.CodeSystemBusy, "[OVERLOAD]system busy, start flow control for a while", nil, nil)
		return
	}
	step, epoch := ext["step"], int64(0)
	if step != "status" {
		epoch, _ = strconv.ParseInt(ext["epoch"], 10, 64)
		if step != "begin" && step != "end" {
			f.log = append(f.log, fmt.Sprintf("%s %d", step, epoch))
		}
		if f.change != "" && f.change != ext["change"] {
			r.Reply(remoting.CodeSystemBusy, f.target+" is being promoted: a command from 10.0.0.1:5 began that 1s ago", nil, nil)
			return
		}
	}
	if f.on != nil {
		f.on(step, &f.st)
	}
	if f.fail != "" && strings.HasPrefix(step, f.fail) {
		r.Reply(remoting.CodeSystemError, "the disk is sick", nil, nil)
		return
	}
	switch step {
	case "begin":
		f.change, f.target = ext["change"], ext["target"]
	case "end":
		f.change = ""
	case "fence":
		f.st.Fenced, f.st.FenceEpoch = true, epoch
	case "unfence":
		f.st.Fenced, f.st.FenceEpoch = false, 0
	case "demote":
		f.st.Role, f.st.Epoch, f.st.Fenced = "SLAVE", epoch, false
	case "promote":
		f.st.Role, f.st.Epoch = ext["role"], epoch
	}
	r.Reply(remoting.CodeSuccess, "", nil, f.st.Encode())
}

// rolePair is a master and its slave whose answers a test sets.
func rolePair(t *testing.T) (f *fakeCluster, master, slave *fakeRoles) {
	f = newFakeCluster(t)
	add := func(id int64, role string, end int64) *fakeRoles {
		r := &fakeRoles{st: body.RoleStatus{Broker: "a", BrokerID: id, ConfiguredID: id, Role: role, Max: end, Dispatched: end, Connected: true, HAAddr: "127.0.0.1:1", Switchable: true}}
		b, _ := f.add("127.0.0.1", "a", id, end, func(b *fakeBroker) { b.more[remoting.ReqMqctlRole] = r.serve })
		r.st.Addr = b.addr
		return r
	}
	return f, add(0, "SYNC_MASTER", 9000), add(1, "SLAVE", 9000)
}

func steps(f *fakeRoles) string { return strings.Join(f.log, ", ") }

func TestPromoteGoesBack(t *testing.T) {
	for _, tt := range []struct {
		name          string
		set           func(m, s *fakeRoles)
		exit          int
		says          []string
		master, slave string // the steps that each was asked for
		is            string // role of the old master afterwards
	}{
		{"far behind", func(_, s *fakeRoles) { s.st.Max -= 2 << 20 }, 5,
			[]string{"GAP_NOT_CLOSED", "promotion cancelled, a/0 is master and writable again", "--wait=10m"}, "", "", "SYNC_MASTER"},
		{"the slave does not follow", func(_, s *fakeRoles) { s.st.Connected, s.st.State = false, "DIVERGED" }, 5,
			[]string{"GAP_NOT_CLOSED", "it does not follow the master now: DIVERGED"}, "", "", "SYNC_MASTER"},
		{"the last bytes do not come", func(_, s *fakeRoles) { s.st.Max = 8999 }, 5,
			[]string{"GAP_NOT_CLOSED", "UNDONE"}, "fence 1, unfence 1", "", "SYNC_MASTER"},
		{"the fence is refused", func(m, _ *fakeRoles) { m.fail = "fence" }, 1, []string{"the disk is sick"}, "fence 1, unfence 1", "", "SYNC_MASTER"},
		{"tables cannot be taken over", func(_, s *fakeRoles) { s.fail = "exchange" }, 1, []string{"the disk is sick", "UNDONE"}, "fence 1, unfence 1", "exchange 1", "SYNC_MASTER"},
		{"the slave cannot be promoted", func(_, s *fakeRoles) { s.fail = "promote" }, 1, []string{"the disk is sick", "UNDONE"},
			"fence 1, demote 1, promote 2", "exchange 1, promote 1", "SYNC_MASTER"},
		{"and the master cannot come back", func(m, s *fakeRoles) { m.fail, s.fail = "promote", "promote" }, 1, []string{"NO_MASTER", "could not be undone"},
			"fence 1, demote 1, promote 2", "exchange 1, promote 1", "SLAVE"},
		{"the answer of the promotion is lost", func(_, s *fakeRoles) {
			s.on = func(step string, st *body.RoleStatus) {
				if step == "promote" {
					st.Role, st.Epoch, s.fail = "SYNC_MASTER", 1, "promote"
				}
			}
		}, 0, []string{"master of epoch 1"}, "fence 1, demote 1", "exchange 1, promote 1", "SLAVE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, m, s := rolePair(t)
			tt.set(m, s)
			if tt.exit == 0 { // the nameserver shows the new master at once
				f.brokers[0].id, f.brokers[1].id = 1, 0
			}
			out, errs := f.mq(tt.exit, "ha", "promote", "a", "--id", "1", "--planned", "--wait=300ms", "-o", "json")
			has(t, out+errs, tt.says...)
			if m.st.Fenced {
				t.Error("the master is left fenced")
			}
			if m.change != "" || s.change != "" {
				t.Error("the claim was not given up")
			}
			master := steps(m)
			for strings.Contains(master, "unfence 1, fence 1") { // the last bytes are waited for more than once
				master = strings.Replace(master, "unfence 1, fence 1, ", "", 1)
			}
			if master != tt.master || steps(s) != tt.slave || m.st.Role != tt.is {
				t.Errorf("steps of the master %q, of the slave %q; the old master is %s", master, steps(s), m.st.Role)
			}
		})
	}
}

// Who takes a dead master's place by force waits for slaves as that did. If it never
// heard how, its own inSyncReplicas decides, and it is said.
func TestForcedRole(t *testing.T) {
	for _, tt := range []struct {
		name, heard, replicas, flag string
		is, says                    string
	}{
		{"heard", "SYNC_MASTER", "1", "", "SYNC_MASTER", ""},
		{"heard that it did not wait", "ASYNC_MASTER", "2", "", "ASYNC_MASTER", ""},
		{"never heard, meant for two copies", "", "2", "", "SYNC_MASTER", "it becomes SYNC_MASTER, since its own inSyncReplicas is 2"},
		{"never heard, nothing is set", "", "1", "", "ASYNC_MASTER", "it becomes ASYNC_MASTER, since its own inSyncReplicas is not set above 1"},
		{"never heard, but said", "", "2", "master", "ASYNC_MASTER", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, _, s := rolePair(t)
			f.brokers[0].more[remoting.ReqMqctlRole] = func(r *remoting.Request) { r.Reply(remoting.CodeSystemError, "gone", nil, nil) }
			s.st.MasterRole, s.st.Connected = tt.heard, false
			f.brokers[1].config["inSyncReplicas"] = tt.replicas
			f.brokers[0].id, f.brokers[1].id = 1, 0 // the nameserver shows the new master at once
			args := []string{"ha", "promote", "a", "--id", "1", "--force", "--yes"}
			if tt.flag != "" {
				args = append(args, "--role", tt.flag)
			}
			out, errs := f.mq(0, args...)
			has(t, out, tt.is)
			has(t, errs, tt.says)
			if s.st.Role != tt.is || strings.Contains(errs, "MASTER_ROLE_UNKNOWN") != (tt.says != "") {
				t.Errorf("it is %s\n%s", s.st.Role, errs)
			}
		})
	}
}

// TestForcedMaxLoss: the limit is compared with the known end of the master's log only if that
// was heard within two heartbeats before the connection ended.
func TestForcedMaxLoss(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(st *body.RoleStatus)
		exit int
		says []string
	}{
		{"heard until it was killed", func(st *body.RoleStatus) { st.MasterEnd, st.MasterEndLag = 9800, 4000 }, ExitOK, []string{"at_least_800_B", "ended_at_9800_1h0m0s_ago"}},
		{"more than that", func(st *body.RoleStatus) { st.MasterEnd = 12000 }, ExitConditionFalse, []string{"[MAX_LOSS]", "at least 2.9 KiB", "a larger --max-loss"}},
		{"silent before the connection ended", func(st *body.RoleStatus) { st.MasterEndLag = 20_000 }, ExitConditionFalse,
			[]string{"[LOSS_UNKNOWN]", "for 20s after that nothing was heard", "nothing was changed", "without --max-loss it asks"}},
		{"away since", func(st *body.RoleStatus) { st.MasterEndOld = true }, ExitConditionFalse, []string{"[LOSS_UNKNOWN]", "this broker was away since"}},
		{"never heard", func(st *body.RoleStatus) { st.MasterEndAt = 0 }, ExitConditionFalse, []string{"[LOSS_UNKNOWN]", "it is not known how far"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, _, s := rolePair(t)
			f.brokers[0].more[remoting.ReqMqctlRole] = func(r *remoting.Request) { r.Reply(remoting.CodeSystemError, "gone", nil, nil) }
			f.brokers[0].id, f.brokers[1].id = 1, 0 // the nameserver shows the new master at once
			s.st.Connected, s.st.MasterRole, s.st.MasterEnd, s.st.MasterEndAt = false, "ASYNC_MASTER", 9000, time.Now().Add(-time.Hour).UnixMilli()
			tt.set(&s.st)
			out, errs := f.mq(tt.exit, "ha", "promote", "a", "--id", "1", "--force", "--max-loss", "1KiB")
			has(t, out+errs, tt.says...)
			if (steps(s) != "") != (tt.exit == ExitOK) {
				t.Errorf("steps %q", steps(s))
			}
		})
	}
}

func TestPromoteNotOffered(t *testing.T) {
	f := newFakeCluster(t)
	f.add("127.0.0.1", "a", 0, 9000, nil)
	f.add("127.0.0.1", "a", 1, 9000, nil)
	_, errs := f.mq(8, "ha", "promote", "a", "--id", "1", "--planned")
	has(t, errs, "NOT_OFFERED", "does not change its role")
	_, errs = f.mq(8, "ha", "demote", "a", "--yes")
	has(t, errs, "NOT_OFFERED")
}

// TestPromoteBackNeedsTheFormerMaster: where the broker that was configured as the
// master is gone, "back to id 0" is not done because somebody else has that id.
func TestPromoteBackNeedsTheFormerMaster(t *testing.T) {
	f, former, now := rolePair(t)
	now.st.Role, now.st.BrokerID, f.brokers[1].id = "SYNC_MASTER", 0, 0
	f.hide(f.brokers[0].addr)
	out, errs := f.mq(3, "ha", "promote", "a", "--id", "0", "--planned", "--yes")
	has(t, out+errs, "NOT_FOUND", "the broker of a that was configured with id 0 does not answer", "which was configured with id 1")
	if steps(former) != "" || steps(now) != "" {
		t.Errorf("steps %q, %q", steps(former), steps(now))
	}
	now.st.ConfiguredID = 0
	out, _ = f.mq(0, "ha", "promote", "a", "--id", "0", "--planned", "--yes")
	has(t, out, "SKIPPED")
}

// TestLookFirst: the same command some time later would change the roles back: it asks, and
// the line that it offers is complete.
func TestLookFirst(t *testing.T) {
	f, m, s := rolePair(t)
	m.st.ConfiguredID, s.st.ConfiguredID = 1, 0 // they have changed places
	_, errs := f.mq(9, "ha", "promote", "a", "--id", "1", "--planned", "--reason", "two words")
	has(t, errs, "CONFIRMATION_NEEDED", "it is a/1 at "+s.st.Addr+" now; a/0 at ", "was configured with id 1", "look first: mqctl ha promote a --id 1 --planned --reason 'two words' --dry-run")
}

// TestPromoteOverloaded: a broker that has too much to do is asked again once, and what it
// says then is no other change of roles.
func TestPromoteOverloaded(t *testing.T) {
	for _, tt := range []struct {
		times, exit int
		says        string
	}{
		{1, 5, "GAP_NOT_CLOSED"}, // it came to its steps
		{2, 1, "OVERLOADED"},
	} {
		t.Run(fmt.Sprint(tt.times), func(t *testing.T) {
			t.Parallel()
			f, m, s := rolePair(t)
			m.overloads, s.st.Max = tt.times, s.st.Max-2<<20
			out, errs := f.mq(tt.exit, "ha", "promote", "a", "--id", "1", "--planned", "--wait=300ms", "--yes", "-o", "json")
			has(t, out+errs, tt.says)
			if strings.Contains(out+errs, "CHANGE_UNDER_WAY") || m.overloads != 0 {
				t.Errorf("%d refusals are left: %s%s", m.overloads, out, errs)
			}
		})
	}
}

// TestPromoteBesideAnother: while another change of roles is under way nothing is done, in
// whichever order the two begin; who was first is said.
func TestPromoteBesideAnother(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(m, s *fakeRoles)
		args string
		exit int
		says []string
	}{
		{"the master is claimed", func(m, _ *fakeRoles) { m.change, m.target = "other", "a/2" }, "--planned", 7, []string{"CHANGE_UNDER_WAY", "a/2 is being promoted: a command"}},
		{"the slave is claimed", func(_, s *fakeRoles) { s.change, s.target = "other", "a/2" }, "--planned", 7, []string{"CHANGE_UNDER_WAY", "a/2 is being promoted: a command"}},
		{"the other one has won since it was looked", func(m, s *fakeRoles) {
			s.on = func(step string, st *body.RoleStatus) {
				if step == "begin" {
					m.st.Role, m.st.BrokerID, m.st.Epoch = "SLAVE", 1, 1
					st.Role, st.BrokerID, st.Epoch, st.ChangedMillis = "SYNC_MASTER", 0, 1, 60
				}
			}
		}, "--planned", 0, []string{"SKIPPED", "a/0 is the master already", "for 60ms now"}},
		{"the master is another one since it was looked", func(m, s *fakeRoles) {
			s.on = func(step string, st *body.RoleStatus) { st.Epoch = min(st.Epoch+1, 2) }
		}, "--planned", 7, []string{"ROLES_CHANGED", "nothing was changed by this one"}},
		{"it was made the master a moment ago", func(m, s *fakeRoles) {
			m.st.Role, m.st.BrokerID, m.st.Epoch = "SLAVE", 1, 1
			s.st.Role, s.st.BrokerID, s.st.Epoch, s.st.ChangedMillis = "SYNC_MASTER", 0, 1, 60
		}, "--planned", 0, []string{"SKIPPED", "is the master already", "for 60ms now", "nothing is changed back"}},
		{"by force", func(m, s *fakeRoles) {
			m.fail = "status"
			s.st.Connected, s.change, s.target = false, "other", "a/1"
		}, "--force", 7, []string{"CHANGE_UNDER_WAY", "a/1 is being promoted"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, m, s := rolePair(t)
			tt.set(m, s)
			out, errs := f.mq(tt.exit, "ha", "promote", "a", "--id", "1", tt.args, "--yes", "-o", "json")
			has(t, out+errs, tt.says...)
			if m.change == s.change && m.change != "" {
				t.Error("the claim was not given up")
			}
			if steps(m) != "" || steps(s) != "" {
				t.Errorf("steps %q, %q", steps(m), steps(s))
			}
		})
	}
}

// TestPromoteNeedsProof: with --key-file a broker that does not prove the key is believed nothing.
func TestPromoteNeedsProof(t *testing.T) {
	f, m, s := rolePair(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs := f.mq(4, "ha", "promote", "a", "--id", "1", "--planned", "--yes", "--key-file", key)
	has(t, out+errs, "does not prove the key")
	if steps(m) != "" || steps(s) != "" {
		t.Errorf("steps %q, %q", steps(m), steps(s))
	}
}
