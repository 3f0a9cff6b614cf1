package broker

import (
	"context"
	"errors"
	"fmt"

	"mqctl/replication"
)

// newSync makes the exchange of tables of this broker.
func (b *Broker) newSync() error {
	var err error
	b.sync, err = newSlaveSync(syncOptions{
		Name: b.opts.Name, Cluster: b.opts.Cluster, Addr: b.Addr, Stand: &b.stand, Peers: &b.peers,
		Topics: b.topics, Groups: b.groups, Offsets: b.offsets, Locks: b.locks, Delays: b.delays, Modes: b.modes, Store: b.store,
		Trust: b.trust, Dropped: b.topicsDropped, Namesrvs: b.opts.Namesrvs, Key: func() []byte { return b.roleKey }, Proved: b.proved, Chained: func() bool { return b.fixedMaster() != "" }, Known: b.replicas, Settled: func() bool { return b.roles.settled() && !b.stand.Load().Leaving },
		FS: b.opts.FS, Root: b.opts.Store.Dir, Wait: b.opts.PreOnlineWait, Dial: b.opts.Dial, Now: b.opts.Now, Steady: b.steady, Log: b.log,
	})
	if err != nil {
		return err
	}
	b.shareProgress = b.shareNow
	b.onStanding(func(_, next *standing) {
		b.delays.SetFollowing(next.isSlave())
		b.sync.Poke()
	})
	return nil
}

// trust says whether the tables of the master may be taken over: not those of a
// master whose log is another one, or was wiped. Deletions wait until its log is known
// to be the one that is copied here. With haAuthKeyFile everything waits for replication.
func (b *Broker) trust() (deletions bool, err error) {
	st := b.ha.slave.Status()
	switch st.State {
	case replication.Diverged, replication.Ahead, replication.WrongGroup, replication.Mismatch:
		return false, fmt.Errorf("replication is %s: %s", st.State, st.Sentence)
	case replication.Syncing, replication.Copying, replication.Stalled:
		return st.Connected, nil
	case replication.Connecting:
		if len(b.roleKey) > 0 { // whether the master has the key its replication port says
			return false, errors.New("the master has not proved the key of haAuthKeyFile yet: replication is not connected")
		}
	case replication.TooOld, replication.Failed:
	}
	return false, nil
}

// topicsDropped wakes the pulls that wait for topics which are gone.
func (b *Broker) topicsDropped(names []string) {
	for _, name := range names {
		for _, g := range b.members.GroupsOf(name) {
			b.holds.Changed(g)
		}
	}
}

// shareNow brings what changed lately to the connected replicas.
func (b *Broker) shareNow(ctx context.Context) {
	if err := b.sync.ShareNow(ctx); err != nil {
		b.log.Warn("a replica was not reached at once, it hears of the change when it asks", "err", err)
	}
}
