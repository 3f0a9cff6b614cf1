package subgroup

import "sync"

const (
	// lockMillis is how long a queue lock lives without renewal (60 s). Clients
	// renew every 20 s and trust a lock for 30 s.
	lockMillis = 60_000
	// maxLocks bounds the locks of a broker: nothing else checks that the queues
	// of a request exist.
	maxLocks = 1 << 17
	// sweepMillis is the least time between two searches of a full table for ended
	// leases. Without it, each queue of a request would search the whole table.
	sweepMillis = 1000
)

// QueueKey names one queue in lock requests.
type QueueKey struct {
	Topic, BrokerName string
	QueueID           int32
}

// lease is who has a queue and since when.
type lease struct {
	clientID string
	millis   int64
}

// Locks are the queue leases of ordered consumers (RebalanceLockManager). They
// live in memory: after a restart clients lock anew.
type Locks struct {
	now func() int64

	mu     sync.Mutex // guards what follows; never held while waiting
	groups map[string]map[QueueKey]lease
	count  int   // leases in groups, expired ones included
	swept  int64 // when the table was last searched for ended leases
}

// NewLocks makes an empty table with a clock of milliseconds.
func NewLocks(nowMillis func() int64) *Locks {
	return &Locks{now: nowMillis, groups: map[string]map[QueueKey]lease{}, swept: -sweepMillis}
}

// Lock gives a client the queues that are free, its own, or whose lease has
// ended, and renews those it had. It returns the queues granted.
func (l *Locks) Lock(group, clientID string, queues []QueueKey) (granted []QueueKey) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.groups[group]
	for _, q := range queues {
		old, taken := held[q]
		if taken && old.clientID != clientID && !expired(old, now) {
			continue
		}
		if !taken {
			if l.count >= maxLocks && l.sweep(now) {
				held = l.groups[group]
			}
			if l.count >= maxLocks {
				continue
			}
			if held == nil {
				held = map[QueueKey]lease{}
				l.groups[group] = held
			}
			l.count++
		}
		held[q] = lease{clientID, now}
		granted = append(granted, q)
	}
	return granted
}

func expired(l lease, now int64) bool { return now-l.millis > lockMillis }

// sweep drops ended leases, unless that was done a moment ago. The caller holds mu.
func (l *Locks) sweep(now int64) (done bool) {
	if since := now - l.swept; since >= 0 && since < sweepMillis {
		return false
	}
	l.swept = now
	for group, held := range l.groups {
		for q, lease := range held {
			if expired(lease, now) {
				l.drop(group, held, q)
			}
		}
	}
	return true
}

// drop removes one lease, and its group when it was the last. The caller holds
// mu.
func (l *Locks) drop(group string, held map[QueueKey]lease, q QueueKey) {
	delete(held, q)
	l.count--
	if len(held) == 0 {
		delete(l.groups, group)
	}
}

// Unlock ends a client's own leases on queues.
func (l *Locks) Unlock(group, clientID string, queues []QueueKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.groups[group]
	for _, q := range queues {
		if old, ok := held[q]; ok && old.clientID == clientID {
			l.drop(group, held, q)
		}
	}
}

// Release ends all leases of a client that has gone, so that the others need
// not wait for their end (RocketMQ lets them wait up to 60 s).
func (l *Locks) Release(group, clientID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.groups[group]
	for q, old := range held {
		if old.clientID == clientID {
			l.drop(group, held, q)
		}
	}
}

// AnyLive reports whether a group holds a lease that has not ended: such a
// group consumes in order, and what it sends back is given up.
func (l *Locks) AnyLive(group string) bool {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.groups[group]
	for q, lease := range held {
		if !expired(lease, now) {
			return true
		}
		l.drop(group, held, q)
	}
	return false
}

// Lease is one queue lock on its way between replicas.
type Lease struct {
	Group, ClientID string
	Queue           QueueKey
	LeftMillis      int64 // what is left of it
}

// Leases lists the live locks with what is left of them, in no order.
func (l *Locks) Leases() []Lease {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Lease
	for group, held := range l.groups {
		for q, h := range held {
			if !expired(h, now) {
				all = append(all, Lease{Group: group, ClientID: h.clientID, Queue: q, LeftMillis: h.millis + lockMillis - now})
			}
		}
	}
	return all
}

// TakeOver takes leases of another replica in, for what is left of them there. A
// live lease here stays, unless it is of the same client and ends sooner.
func (l *Locks) TakeOver(leases []Lease) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range leases {
		in := &leases[i]
		if in.LeftMillis <= 0 || in.Group == "" || in.ClientID == "" {
			continue
		}
		millis := now - lockMillis + min(in.LeftMillis, lockMillis)
		held := l.groups[in.Group]
		old, taken := held[in.Queue]
		if taken && !expired(old, now) && (old.clientID != in.ClientID || old.millis >= millis) {
			continue
		}
		if !taken {
			if l.count >= maxLocks {
				continue
			}
			if held == nil {
				held = map[QueueKey]lease{}
				l.groups[in.Group] = held
			}
			l.count++
		}
		held[in.Queue] = lease{in.ClientID, millis}
	}
}
