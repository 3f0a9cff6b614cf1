package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/store/vfs"
	"mqctl/subgroup"
)

// fakeBroker is what a change of roles touches, without a broker.
type fakeBroker struct {
	stand   standingRef
	roles   *roles
	log     []string // what was done, in order
	fail    string   // the action that fails
	end     int64
	follow  following
	others  map[string]*body.RoleStatus
	members map[int64]string
	enabled bool
	now     time.Time
}

func newFakeBroker(s standing) *fakeBroker {
	f := &fakeBroker{end: 100, enabled: true, now: time.Unix(1000, 0), others: map[string]*body.RoleStatus{}, members: map[int64]string{}}
	f.stand.p.Store(&s)
	did := func(format string, args ...any) error {
		what := fmt.Sprintf(format, args...)
		f.log = append(f.log, what)
		if f.fail != "" && strings.HasPrefix(what, f.fail) {
			return errors.New("broken")
		}
		return nil
	}
	f.roles = newRoles(rolesOptions{
		Name: "broker-a", Addr: func() string { return "own:1" }, HAAddr: func() string { return "own:2" }, Stand: &f.stand,
		Become: func(_ context.Context, next standing) error {
			if err := did("become %s/%d fenced=%v", next.Role, next.ID, next.Fenced); err != nil {
				return err
			}
			f.stand.p.Store(&next)
			return nil
		},
		Save: func(h *heldRole) error {
			return did("save %s/%d epoch=%d rejoin=%v", h.Role, h.ID, h.Epoch, h.Rejoin)
		},
		Enabled:   func() bool { return f.enabled },
		Following: func() (following, bool) { return f.follow, f.stand.Load().isSlave() },
		Positions: func() store.Positions {
			return store.Positions{Max: record.PhysOffset(f.end), Dispatched: record.PhysOffset(f.end)}
		},
		Clamp: func() []subgroup.ProgressRecord {
			did("clamp")
			return []subgroup.ProgressRecord{{Topic: "T", Group: "g", Progress: subgroup.Progress{Offset: 7}}}
		},
		Exchange: func(context.Context) error { return did("exchange") },
		Hold:     func() { did("hold") }, Release: func() { did("release") }, Follow: func(m string) { did("follow %s", m) },
		Ask: func(_ context.Context, addr string) (*body.RoleStatus, error) {
			if st := f.others[addr]; st != nil {
				return st, nil
			}
			return nil, errors.New("refused")
		},
		Related: func(addr string) bool { return addr != "stranger:1" },
		Took:    func(int64, string) {},
		Members: func(context.Context) map[int64]string { return f.members },
		Now:     func() time.Time { return f.now }, Log: slog.New(slog.DiscardHandler),
	})
	return f
}

// Every step from every standing: what is done, in which order, or why it is refused.
func TestRoleSteps(t *testing.T) {
	master, slave := standing{Role: SyncMaster, Epoch: 3}, standing{Role: Slave, ID: 1, Epoch: 3, Master: "m:1"}
	demote := roleStep{Step: "demote", Epoch: 4, ID: 1, Master: "n:1", HA: "n:2"}
	forced := func(s roleStep) roleStep { s.Force = true; return s }
	for _, tt := range []struct {
		name  string
		from  standing
		setup func(f *fakeBroker)
		steps []roleStep
		did   string
		err   string // of the last step
		is    string
	}{
		{name: "fence", from: master, steps: []roleStep{{Step: "fence", Epoch: 4}}, did: "hold, become SYNC_MASTER/0 fenced=true", is: "SYNC_MASTER/0 3 fenced"},
		{name: "fence twice", from: master, steps: []roleStep{{Step: "fence", Epoch: 4}, {Step: "fence", Epoch: 4}}, did: "hold, become SYNC_MASTER/0 fenced=true", is: "SYNC_MASTER/0 3 fenced"},
		{name: "fence of another change", from: master, steps: []roleStep{{Step: "fence", Epoch: 4}, {Step: "fence", Epoch: 5}}, did: "hold, become SYNC_MASTER/0 fenced=true",
			err: "fenced by another change of roles (epoch 4)", is: "SYNC_MASTER/0 3 fenced"},
		{name: "fence of an old epoch", from: master, steps: []roleStep{{Step: "fence", Epoch: 3}}, err: "too old", is: "SYNC_MASTER/0 3"},
		{name: "fence a slave", from: slave, steps: []roleStep{{Step: "fence", Epoch: 4}}, err: "is a slave", is: "SLAVE/1 3"},
		{name: "fence fails", from: master, setup: func(f *fakeBroker) { f.fail = "become" }, steps: []roleStep{{Step: "fence", Epoch: 4}},
			did: "hold, become SYNC_MASTER/0 fenced=true, release", err: "could not be stopped: broken", is: "SYNC_MASTER/0 3"},
		{name: "unfence", from: master, steps: []roleStep{{Step: "fence", Epoch: 4}, {Step: "unfence", Epoch: 4}, {Step: "unfence", Epoch: 4}},
			did: "hold, become SYNC_MASTER/0 fenced=true, become SYNC_MASTER/0 fenced=false, release", is: "SYNC_MASTER/0 3"},
		{name: "unfence by another", from: master, steps: []roleStep{{Step: "fence", Epoch: 4}, {Step: "unfence", Epoch: 5}}, did: "hold, become SYNC_MASTER/0 fenced=true",
			err: "fenced by epoch 4, not 5", is: "SYNC_MASTER/0 3 fenced"},
		{name: "demote", from: master, steps: []roleStep{{Step: "fence", Epoch: 4}, demote, demote},
			did: "hold, become SYNC_MASTER/0 fenced=true, hold, save SLAVE/1 epoch=4 rejoin=false, become SLAVE/1 fenced=false, follow n:1", is: "SLAVE/1 4"},
		{name: "demote without a fence", from: master, steps: []roleStep{demote}, err: "fence it first", is: "SYNC_MASTER/0 3"},
		{name: "demote by force", from: master, steps: []roleStep{forced(demote)}, did: "hold, save SLAVE/1 epoch=4 rejoin=true, become SLAVE/1 fenced=false, follow n:1", is: "SLAVE/1 4"},
		{name: "demote of another change", from: master, steps: []roleStep{{Step: "fence", Epoch: 5}, demote}, did: "hold, become SYNC_MASTER/0 fenced=true",
			err: "fenced by another change", is: "SYNC_MASTER/0 3 fenced"},
		{name: "demote to no id", from: master, steps: []roleStep{forced(roleStep{Step: "demote", Epoch: 4})}, err: "0 is no id of a slave", is: "SYNC_MASTER/0 3"},
		{name: "demote a slave", from: slave, steps: []roleStep{demote}, err: "is a slave already", is: "SLAVE/1 3"},
		{name: "demote: not saved", from: master, setup: func(f *fakeBroker) { f.fail = "save" }, steps: []roleStep{forced(demote)},
			did: "hold, save SLAVE/1 epoch=4 rejoin=true, release", err: "could not be saved", is: "SYNC_MASTER/0 3"},
		{name: "demote: not possible", from: master, setup: func(f *fakeBroker) { f.fail = "become" }, steps: []roleStep{forced(demote)},
			did: "hold, save SLAVE/1 epoch=4 rejoin=true, become SLAVE/1 fenced=false, save SYNC_MASTER/0 epoch=3 rejoin=false, release", err: "could not be changed", is: "SYNC_MASTER/0 3"},
		{name: "promote", from: slave, steps: []roleStep{{Step: "promote", Epoch: 4, End: 100, Role: SyncMaster}, {Step: "promote", Epoch: 4, End: 100, Role: SyncMaster}},
			did: "save SYNC_MASTER/0 epoch=4 rejoin=false, become SYNC_MASTER/0 fenced=false, release", is: "SYNC_MASTER/0 4 former 1"},
		{name: "promote with a gap", from: slave, steps: []roleStep{{Step: "promote", Epoch: 4, End: 101}}, err: "ends at 100, the fenced master's at 101", is: "SLAVE/1 3"},
		{name: "promote to an old epoch", from: slave, steps: []roleStep{{Step: "promote", Epoch: 3, End: 100}}, err: "too old", is: "SLAVE/1 3"},
		{name: "promote a master", from: master, steps: []roleStep{{Step: "promote", Epoch: 4}}, err: "is the master already", is: "SYNC_MASTER/0 3"},
		{name: "promote to a slave", from: slave, steps: []roleStep{{Step: "promote", Epoch: 4, End: 100, Role: Slave}}, err: "is ASYNC_MASTER or SYNC_MASTER", is: "SLAVE/1 3"},
		{name: "promote by force", from: slave, steps: []roleStep{{Step: "promote", Epoch: 4, Force: true}},
			did: "save ASYNC_MASTER/0 epoch=4 rejoin=false, become ASYNC_MASTER/0 fenced=false, clamp, release", is: "ASYNC_MASTER/0 4 former 1 clamped 1"},
		{name: "by force while the log comes", from: slave, setup: func(f *fakeBroker) { f.follow.Connected = true }, steps: []roleStep{{Step: "promote", Epoch: 4, Force: true}},
			err: "is alive: its log still comes", is: "SLAVE/1 3"},
		{name: "by force while the master answers", from: slave, setup: func(f *fakeBroker) {
			f.others["m:1"] = &body.RoleStatus{Broker: "broker-a", Role: "ASYNC_MASTER", Epoch: 3}
		}, steps: []roleStep{{Step: "promote", Epoch: 4, Force: true}}, err: "m:1 answers as ASYNC_MASTER", is: "SLAVE/1 3"},
		{name: "by force while somebody else answers", from: slave, setup: func(f *fakeBroker) {
			f.others["m:1"] = &body.RoleStatus{Broker: "broker-b", Role: "ASYNC_MASTER", Epoch: 3}
		}, steps: []roleStep{{Step: "promote", Epoch: 4, Force: true}},
			did: "save ASYNC_MASTER/0 epoch=4 rejoin=false, become ASYNC_MASTER/0 fenced=false, clamp, release", is: "ASYNC_MASTER/0 4 former 1 clamped 1"},
		{name: "an epoch from nowhere", from: slave, steps: []roleStep{{Step: "promote", Epoch: math.MaxInt64, Force: true}}, err: "cannot follow the epoch 3", is: "SLAVE/1 3"},
		{name: "a fence from nowhere", from: master, steps: []roleStep{{Step: "fence", Epoch: 4 + mostEpochJump}}, err: "cannot follow the epoch 3", is: "SYNC_MASTER/0 3"},
		{name: "the furthest epoch", from: master, steps: []roleStep{{Step: "fence", Epoch: 3 + mostEpochJump}}, did: "hold, become SYNC_MASTER/0 fenced=true", is: "SYNC_MASTER/0 3 fenced"},
		{name: "exchange", from: slave, steps: []roleStep{{Step: "exchange"}}, did: "exchange", is: "SLAVE/1 3"},
		{name: "exchange at the master", from: master, steps: []roleStep{{Step: "exchange"}}, err: "is the master", is: "SYNC_MASTER/0 3"},
		{name: "no such step", from: master, steps: []roleStep{{Step: "abdicate", Epoch: 9}}, err: "there is no step", is: "SYNC_MASTER/0 3"},
		{name: "switched off", from: master, setup: func(f *fakeBroker) { f.enabled = false }, steps: []roleStep{{Step: "fence", Epoch: 4}}, err: "roleSwitchEnable is false", is: "SYNC_MASTER/0 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeBroker(tt.from)
			if tt.setup != nil {
				tt.setup(f)
			}
			var err error
			for _, s := range tt.steps {
				_, err = f.roles.take(t.Context(), s)
			}
			if got := strings.Join(f.log, ", "); got != tt.did {
				t.Errorf("did  %s\nwant %s", got, tt.did)
			}
			var remote *remoting.Error
			switch {
			case tt.err == "" && err != nil:
				t.Error(err)
			case tt.err != "" && (!errors.As(err, &remote) || !strings.Contains(remote.Remark, tt.err)):
				t.Errorf("error %v, want %q", err, tt.err)
			}
			st := f.roles.status()
			is := fmt.Sprintf("%s/%d %d", st.Role, st.BrokerID, st.Epoch)
			if st.Fenced {
				is += " fenced"
			}
			if st.Former != 0 {
				is += fmt.Sprint(" former ", st.Former)
			}
			if st.ClampedTotal > 0 {
				is += fmt.Sprint(" clamped ", st.ClampedTotal)
			}
			if is != tt.is {
				t.Errorf("is %q, want %q", is, tt.is)
			}
		})
	}
}

// TestTwoLeaders: of two changes of roles that begin at once one is led, and the other's
// steps do nothing, though both have the same epoch: it cannot lift the fence, nor promote
// a second master. It may begin when the first one has ended, or was given up.
func TestTwoLeaders(t *testing.T) {
	f := newFakeBroker(standing{Role: SyncMaster, Epoch: 3})
	take := func(change, step, says string) {
		t.Helper()
		_, err := f.roles.take(t.Context(), roleStep{Step: step, Epoch: 4, ID: 1, Master: "n:1", HA: "n:2", Change: change, Target: "broker-a/" + change, Peer: "10.0.0.1:5"})
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s of %q: %v, want %q", step, change, err, says)
		}
	}
	take("1", "begin", "")
	f.now = f.now.Add(1200 * time.Millisecond)
	for _, step := range []string{"begin", "fence", "unfence", "demote", "end"} {
		take("2", step, "broker-a/1 is being promoted: a command from 10.0.0.1:5 began that 1.2s ago")
	}
	take("", "demote", "broker-a/1 is being promoted") // ha demote, which claims nothing
	take("1", "fence", "")
	take("1", "fence", "")
	f.now = f.now.Add(claimLimit)
	take("2", "unfence", "broker-a/1 is being promoted") // as long as the fence stands
	if st := f.roles.status(); !st.Fenced || st.Promoting != "broker-a/1" || st.PromotingMillis != 16200 || st.ChangedMillis != 0 {
		t.Errorf("%+v", st)
	}
	take("1", "demote", "")
	take("1", "demote", "")
	take("1", "end", "")
	f.now = f.now.Add(60 * time.Millisecond)
	if st := f.roles.status(); st.Promoting != "" || st.ChangedMillis != 60 {
		t.Errorf("%+v", st)
	}
	take("2", "begin", "")
	take("2", "fence", "broker-a/1 is a slave for 60ms (epoch 4)")
	take("2", "demote", "broker-a/1 is a slave already for 60ms (epoch 4)")
	f.now = f.now.Add(claimLimit) // its leader has died
	take("3", "begin", "")
	f.roles.o.Enabled = func() bool { return false }
	take("3", "end", "")
}

// A fence that nothing follows lifts itself, not earlier and not later.
func TestFenceLiftsItself(t *testing.T) {
	f := newFakeBroker(standing{Role: AsyncMaster})
	if _, err := f.roles.take(t.Context(), roleStep{Step: "fence", Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	f.now = f.now.Add(fenceLimit - time.Millisecond)
	f.roles.expire(t.Context())
	if st := f.roles.status(); !st.Fenced || st.FenceLeft != 1 {
		t.Errorf("lifted too early: %+v", st)
	}
	f.now = f.now.Add(time.Millisecond)
	f.roles.expire(t.Context())
	if st := f.roles.status(); st.Fenced || st.FenceEpoch != 0 {
		t.Errorf("still fenced: %+v", st)
	}
	// It can be fenced again, and a demotion of the lifted fence is refused.
	if _, err := f.roles.take(t.Context(), roleStep{Step: "demote", Epoch: 1, ID: 1, Master: "n:1", HA: "n:2"}); err == nil {
		t.Error("a demotion after the fence was lifted")
	}
	if _, err := f.roles.take(t.Context(), roleStep{Step: "fence", Epoch: 1}); err != nil {
		t.Error(err)
	}
}

// Which masters a returning master follows, and under which id.
func TestNewerMaster(t *testing.T) {
	other := func(role string, epoch, former int64) *body.RoleStatus {
		return &body.RoleStatus{Broker: "broker-a", Role: role, Epoch: epoch, Former: former, HAAddr: "n:2"}
	}
	for _, tt := range []struct {
		name    string
		other   *body.RoleStatus
		members map[int64]string
		off     bool
		want    string // the id as a slave, or none
	}{
		{name: "newer", other: other("SYNC_MASTER", 4, 2), want: "2"},
		{name: "its former id is taken", other: other("SYNC_MASTER", 4, 2), members: map[int64]string{0: "n:1", 1: "x:1", 2: "y:1"}, want: "3"},
		{name: "our own id", other: other("SYNC_MASTER", 4, 0), members: map[int64]string{1: "own:1"}, want: "1"},
		{name: "of the same epoch", other: other("ASYNC_MASTER", 3, 1)},
		{name: "older", other: other("ASYNC_MASTER", 2, 1)},
		{name: "a slave", other: other("SLAVE", 4, 0)},
		{name: "another name", other: &body.RoleStatus{Broker: "broker-b", Role: "ASYNC_MASTER", Epoch: 9}},
		{name: "dead"},
		{name: "switched off", other: other("ASYNC_MASTER", 4, 1), off: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeBroker(standing{Role: AsyncMaster, Epoch: 3})
			f.members, f.enabled = tt.members, !tt.off
			if tt.other != nil {
				f.others["n:1"] = tt.other
			}
			if f.others["stranger:1"] = tt.other; tt.other != nil {
				s := newFakeBroker(standing{Role: AsyncMaster})
				s.others = f.others
				if s.roles.newer(t.Context(), "stranger:1") {
					t.Error("a broker that never was its replica was followed")
				}
			}
			mayFollow := tt.other != nil && tt.other.Broker == "broker-a" && tt.other.Role != "SLAVE" && tt.other.Epoch < 3
			if f.roles.older(t.Context(), "n:1") != mayFollow {
				t.Errorf("a former master: %v", !mayFollow)
			}
			followed := f.roles.newer(t.Context(), "n:1")
			st := f.stand.Load()
			if followed != (tt.want != "") || st.isSlave() != followed {
				t.Fatalf("followed %v: %+v", followed, st)
			}
			if followed && (fmt.Sprint(st.ID) != tt.want || st.Master != "n:1" || st.HA != "n:2" || st.Epoch != 4 || f.roles.settled()) {
				t.Errorf("%+v, settled %v", st, f.roles.settled())
			}
			if !followed {
				return
			}
			if err := f.roles.settle(); err != nil || !f.roles.settled() || f.log[len(f.log)-1] != "save SLAVE/"+tt.want+" epoch=4 rejoin=false" {
				t.Errorf("%v, %v", err, f.log)
			}
		})
	}
}

// role.json: what is written is read, overrides the configuration, and damage is refused.
func TestRoleFile(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string // role, id, epoch of the options
		err  string
	}{
		{"", "ASYNC_MASTER 0 0", ""},
		{`{"role":"SLAVE","id":2,"epoch":5}`, "SLAVE 2 5", ""},
		{`{"role":"SYNC_MASTER","id":0,"epoch":6,"former":1}`, "SYNC_MASTER 0 6", ""},
		{`{"role":"SLAVE","id":0,"epoch":5}`, "", "a master has 0"},
		{`{"role":"ASYNC_MASTER","id":1,"epoch":5}`, "", "a master has 0"},
		{`{"role":"LEADER","id":0,"epoch":5}`, "", "is none of"},
		{`{"role":"SLAVE","id":1,"epoch":-5}`, "", "negative"},
		{`{"role":"SLAVE","id":1,"epoch":9007199254740993}`, "", "no number of changes"},
		{`{"role":"SLAVE","id":1`, "", "unexpected EOF"},
		{`{"role":"SLAVE","id":1,"epoch":5}{}`, "", "more follows"},
		{`{"role":"SLAVE","id":1,"epoch":5,"x":1}`, "", "unknown field"},
		{`{"role":"SLAVE","id":1e30,"epoch":5}`, "", "cannot unmarshal"},
		{strings.Repeat(" ", maxRoleBytes) + "{}", "", "bytes"},
	} {
		fs := vfs.NewMem()
		if tt.text != "" {
			if err := replaceFile(fs, rolePath("/store"), []byte(tt.text)); err != nil {
				t.Fatal(err)
			}
		}
		c, err := LoadConfig(ConfigInput{Set: []string{"storePathRootDir=/store", "namesrvAddr=127.0.0.1:1"}, HostName: "h", FS: fs})
		if tt.err != "" {
			var e *ConfigError
			if !errors.As(err, &e) || e.File != "/store/config/role.json" || !strings.Contains(e.Why, tt.err) || e.Try == "" {
				t.Errorf("%s: error %v, want %q", tt.text, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		o, err := c.Options()
		if got := fmt.Sprint(o.Role, o.ID, " ", o.Epoch); err != nil || strings.Join(strings.Fields(got), " ") != tt.want {
			t.Errorf("%s: %s, %v", tt.text, got, err)
		}
		if kind := c.Origin("brokerId").Kind; tt.text != "" && kind != "role" {
			t.Errorf("%s: brokerId comes from %s", tt.text, kind)
		}
	}
	fs := vfs.NewMem()
	h := heldRole{Role: "SLAVE", ID: 3, Epoch: 9, Rejoin: true}
	if err := h.save(fs, "/store"); err != nil {
		t.Fatal(err)
	}
	if got, err := loadRole(fs, "/store"); err != nil || *got != h {
		t.Errorf("%+v, %v", got, err)
	}
	if err := (&heldRole{Role: "SLAVE"}).save(fs, "/store"); err == nil {
		t.Error("a role that could not be read again was saved")
	}
}

func FuzzRoleFile(f *testing.F) {
	f.Add([]byte(`{"role":"SLAVE","id":1,"epoch":3,"former":2,"rejoin":true}`))
	f.Add([]byte(`{"role":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseRole(b)
		if err != nil {
			return
		}
		fs := vfs.NewMem()
		if err := h.save(fs, "/s"); err != nil {
			t.Fatalf("%+v was read and is not written: %v", h, err)
		}
		if again, err := loadRole(fs, "/s"); err != nil || *again != h {
			t.Fatalf("%+v became %+v: %v", h, again, err)
		}
	})
}
