package broker

// readsChanged makes changed settings of reading act: the memory limit and the
// window of the counts at once, and held pulls are answered with what they are told
// now, so that their clients go there.
func (b *Broker) readsChanged(old *Reloadable) {
	l := b.live.Load()
	b.store.SetMemoryRatio(memoryRatio(b.stand.Load(), l.MemoryRatio))
	if old.MemoryBytes != l.MemoryBytes {
		b.store.SetMemoryBytes(l.MemoryBytes)
	}
	b.pulls.counts.setWindow(l.PullWindow)
	if old.SlaveRead != l.SlaveRead || old.MemoryRatio != l.MemoryRatio || old.MemoryBytes != l.MemoryBytes || old.OffsetCheckInSlave != l.OffsetCheckInSlave {
		b.holds.ChangedAll()
	}
}

// standingChanged is called after the broker's standing was replaced: another
// role, id or master, or the master died or came back. A promoted slave has its
// full memory ratio again.
func (b *Broker) standingChanged() {
	b.store.SetMemoryRatio(memoryRatio(b.stand.Load(), b.live.Load().MemoryRatio))
	b.holds.ChangedAll()
}

// setPeers replaces what is known of the other replicas and answers held pulls if
// one of them came, went, or changed whether it serves reads.
func (b *Broker) setPeers(peers map[int64]replicaPeer) {
	old := b.peers.Load()
	b.peers.p.Store(&peers)
	if samePeers(old, peers) {
		return
	}
	b.holds.ChangedAll()
}

// samePeers compares what suggestions depend on.
func samePeers(a, b map[int64]replicaPeer) bool {
	if len(a) != len(b) {
		return false
	}
	for id, p := range a {
		q, ok := b[id]
		if !ok || p.Alive != q.Alive || p.Readable != q.Readable {
			return false
		}
	}
	return true
}
