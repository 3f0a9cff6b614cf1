package broker

import (
	"mqctl/broker/remoting"
	"mqctl/store"
	"mqctl/store/record"
	"mqctl/subgroup"
)

// reason says why a pull was told to go where it was told.
type reason uint8

// Reasons of suggestions.
const (
	withinMemory       reason = iota // near the log's end: the group's brokerId
	behindLimit                      // further behind than the memory ratio: whichBrokerWhenConsumeSlowly
	slaveReadDisabled                // slaveReadEnable is off here
	redirectedToMaster               // a slave lacks it and its master lives
	brokerIDMissing                  // no broker of that id is known
	slaveDead                        // it is known, but not connected
	slaveUnreadable                  // it serves no pulls
	slaveBehind                      // it has not acknowledged what was read
	masterDead                       // a slave whose master is gone serves alone
	offsetMoved                      // the offset is corrected or reset
	reasonCount
)

// reasonNames are the words of stats pull.
var reasonNames = [reasonCount]string{
	"WITHIN_MEMORY", "BEHIND_LIMIT", "SLAVE_READ_DISABLED", "REDIRECTED_TO_MASTER", "BROKER_ID_MISSING",
	"SLAVE_DEAD", "SLAVE_UNREADABLE", "SLAVE_BEHIND", "MASTER_DEAD", "OFFSET_MOVED",
}

// String is the reason's word.
func (r reason) String() string { return reasonNames[r] }

// ackedBy tells what a slave holds of the log, and whether it is connected
// (replication.Master.AckedBy). nil: nothing is known.
type ackedBy func(id int64) (record.PhysOffset, bool)

// slaveRatioLess is what a slave takes off accessMessageInMemoryMaxRatio
// (RocketMQ's BrokerStartup), so that a reader leaves the master above one line
// and comes back only below another.
const slaveRatioLess = 10

// memoryRatio is the ratio that a broker in this standing compares with. The
// configuration keeps the full value: RocketMQ writes the lowered one back and
// loses another 10 at each start.
func memoryRatio(st *standing, configured int) int {
	if st.isSlave() {
		return max(0, configured-slaveRatioLess)
	}
	return configured
}

// pullFacts is all that the answer to a pull depends on besides the messages.
type pullFacts struct {
	stand *standing
	live  *live
	group *subgroup.Config
	peers map[int64]replicaPeer
	acked ackedBy

	status store.ReadStatus
	offset record.QueueOffset // asked for
	next   record.QueueOffset // corrected, as the store gives it
	slow   bool               // further behind than the memory ratio
	// need is the end of the last record that was read: a slave that has not
	// acknowledged it cannot serve what follows. 0: nothing is needed.
	need record.PhysOffset
	// returned: this client was sent to the master and asks here again.
	returned bool
}

// pullAnswer is the answer but for the messages.
type pullAnswer struct {
	code    int
	next    int64
	suggest int64
	why     reason
}

// decide is the truth table of the read split (composeResponseHeader and
// DefaultPullMessageResultHandler of RocketMQ's pull processor) with what is
// right where RocketMQ's rows lead clients astray: only a slave that lives, serves
// reads and has acknowledged what was read is suggested, a slave never sends
// anyone to itself for what it lacks while the master lives, nor to a master that
// is dead. It is a pure function: testdata/ha has the rows.
func decide(f *pullFacts) pullAnswer {
	a := pullAnswer{code: pullCode(f.status, f.offset), next: int64(f.next)}
	if !f.stand.isSlave() {
		a.suggest, a.why = f.onMaster()
		if a.code == remoting.CodePullOffsetMoved && a.suggest == f.stand.ID {
			a.why = offsetMoved
		}
		return a
	}
	a.suggest, a.why = f.onSlave()
	if a.code != remoting.CodePullOffsetMoved {
		return a
	}
	if f.status == store.OffsetReset {
		a.why = offsetMoved
		return a
	}
	if f.stand.MasterAlive {
		a.suggest, a.why = 0, redirectedToMaster
	}
	if f.live.OffsetCheckInSlave {
		return a
	}
	// What a slave lacks says nothing about the log: the offset stands.
	a.next = int64(f.offset)
	a.code = remoting.CodePullNotFound
	if f.stand.MasterAlive && !f.returned {
		// One wasted round trip. Who comes back cannot reach the master and would
		// do nothing else: 19, which is held.
		a.code = remoting.CodePullRetryImmediately
	}
	return a
}

// wanted is what the group's settings say, without a look at who is there.
func (f *pullFacts) wanted() (int64, reason) {
	if f.slow {
		return f.group.WhichBrokerWhenConsumeSlowly, behindLimit
	}
	return f.group.BrokerID, withinMemory
}

// onMaster suggests for a master.
func (f *pullFacts) onMaster() (int64, reason) {
	self := f.stand.ID
	if !f.live.SlaveRead {
		return self, slaveReadDisabled
	}
	want, why := f.wanted()
	if want == self {
		return self, why
	}
	peer, ok := f.peers[want]
	if !ok {
		// Clients look for the next id too: a group's default names 1, and the slave
		// may be 2.
		peer, ok = f.peers[want+1]
		want++
	}
	switch {
	case !ok:
		return self, brokerIDMissing
	case !peer.Alive:
		return self, slaveDead
	case !peer.Readable:
		return self, slaveUnreadable
	case !f.holds(want):
		return self, slaveBehind
	}
	return want, why
}

// holds says whether a slave has acknowledged what was read.
func (f *pullFacts) holds(id int64) bool {
	if f.acked == nil {
		return false
	}
	end, connected := f.acked(id)
	return connected && end >= f.need
}

// onSlave suggests for a slave. Of other slaves it does not know what they hold,
// so it leaves them to the master.
func (f *pullFacts) onSlave() (int64, reason) {
	self := f.stand.ID
	if !f.stand.MasterAlive {
		return self, masterDead
	}
	want, why := f.wanted()
	if want == 0 || want == self {
		return want, why
	}
	if _, known := f.peers[want]; !known && want+1 == self {
		return self, why // see onMaster
	}
	return 0, brokerIDMissing
}

// pullCode maps what the store found to the answer's code.
func pullCode(st store.ReadStatus, offset record.QueueOffset) int {
	switch st {
	case store.Found:
		return remoting.CodeSuccess
	case store.NoMatchedMessage, store.MessageWasRemoving:
		return remoting.CodePullRetryImmediately
	case store.NoMatchedLogicQueue, store.NoMessageInQueue:
		if offset != 0 {
			return remoting.CodePullOffsetMoved
		}
		return remoting.CodePullNotFound
	case store.OffsetFoundNull, store.OffsetOverflowOne:
		return remoting.CodePullNotFound
	default: // OffsetOverflowBadly, OffsetTooSmall, OffsetReset
		return remoting.CodePullOffsetMoved
	}
}
