package table

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Committer groups concurrent changes of one table so that they share one save
// and one sync.
//
// Changes go in groups. A group is applied, saved and published before the
// next one is applied; who comes while a save is under way belongs to the next
// group. So a change never builds on one that may still fail, and undoing a
// group in reverse order leads back to what is on disk.
type Committer struct {
	file     *File
	snapshot func() ([]byte, error)
	// delta is what the changes since its last call amount to, as one line for the
	// journal; nil where only the whole document says it.
	delta func() []byte

	// state is the table's lock: held while functions of the owner run, never
	// during disk I/O.
	state sync.Mutex

	mu      sync.Mutex // guards what follows, for moments
	waiting []*change
	busy    bool // a goroutine saves, or is about to
}

// change is one call of Change.
type change struct {
	apply         func() (publish, undo func(), err error)
	publish, undo func()
	err           error
	applied       bool
	whole         bool // no line of the journal will do
	// wake gets false when the change is done, true when its goroutine is to
	// save the next group. Buffered, so that nobody waits for its reader.
	wake chan bool
}

// NewCommitter groups changes of the document in f. snapshot returns the whole
// document with all applied changes; it is called under the table's lock.
func NewCommitter(f *File, snapshot func() ([]byte, error)) *Committer {
	return &Committer{file: f, snapshot: snapshot}
}

// Journal lets changes of a large document be appended instead of saved with all of it
// (File.Append). delta is called once for each group of changes, under the table's lock,
// after they were applied.
func (c *Committer) Journal(delta func() []byte) { c.delta = delta }

// Flush saves the whole document if some of its changes are in the journal only.
func (c *Committer) Flush() error {
	if !c.file.Pending() {
		return nil
	}
	return c.change(&change{apply: func() (publish, undo func(), err error) { return nil, nil, nil }, whole: true})
}

// Change makes one change: apply returns publish, which is run (in order, under the lock) after
// the save that holds the change succeeded; if the save fails, undo is run
// instead (in reverse order) and the error returned. apply returning an error
// changes nothing. publish and undo may be nil. The functions run under the
// table's lock, perhaps by the goroutine of another caller; they must not call
// Change. A panic in one of them is returned as an error.
func (c *Committer) Change(apply func() (publish, undo func(), err error)) error {
	return c.change(&change{apply: apply})
}

func (c *Committer) change(ch *change) error {
	ch.wake = make(chan bool, 1)
	c.mu.Lock()
	c.waiting = append(c.waiting, ch)
	lead := !c.busy
	c.busy = true
	c.mu.Unlock()
	if !lead && !<-ch.wake {
		return ch.err
	}
	c.lead(ch)
	return ch.err
}

// lead commits the group that own belongs to and hands the next one to
// somebody in it.
func (c *Committer) lead(own *change) {
	c.mu.Lock()
	group := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	c.commit(group)
	for _, ch := range group {
		if ch != own {
			ch.wake <- false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.busy = false
		return
	}
	c.waiting[0].wake <- true
}

// commit applies, saves and publishes a group.
func (c *Committer) commit(group []*change) {
	applied, line := c.apply(group)
	if !applied {
		return // nobody changed anything
	}
	err := c.save(line)
	c.state.Lock()
	defer c.state.Unlock()
	if err == nil {
		for _, ch := range group {
			if ch.applied && ch.publish != nil {
				ch.err = guard(func() error { ch.publish(); return nil })
			}
		}
		return
	}
	for i := len(group) - 1; i >= 0; i-- {
		ch := group[i]
		if !ch.applied {
			continue
		}
		ch.err = err
		if ch.undo != nil {
			if uerr := guard(func() error { ch.undo(); return nil }); uerr != nil {
				ch.err = fmt.Errorf("%w (and taking the change back: %w)", err, uerr)
			}
		}
	}
}

// save makes what was applied durable: line, if the journal takes it, else all.
func (c *Committer) save(line []byte) error {
	if line != nil {
		if done, err := c.file.Append(line); done {
			return err
		}
	}
	c.state.Lock()
	var data []byte
	err := guard(func() (err error) {
		data, err = c.snapshot()
		return err
	})
	c.state.Unlock()
	if err != nil {
		return err
	}
	return c.file.Save(data)
}

// apply applies a group; any says whether a change applied. line is for the journal.
func (c *Committer) apply(group []*change) (any bool, line []byte) {
	c.state.Lock()
	defer c.state.Unlock()
	whole := false
	for _, ch := range group {
		ch.err = guard(func() (err error) {
			ch.publish, ch.undo, err = ch.apply()
			return err
		})
		ch.applied = ch.err == nil
		any, whole = any || ch.applied, whole || ch.whole
	}
	if any && c.delta != nil {
		if err := guard(func() error { line = c.delta(); return nil }); err != nil || whole {
			line = nil
		}
	}
	return any, line
}

// guard turns a panic of the owner's code into an error: it may run on the
// goroutine of somebody else, and the others of the group must hear the end.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error in a table change: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// DataVersion is RocketMQ's version of a table (remoting/protocol/DataVersion).
// Name servers and slaves compare all three fields to see whether a table
// changed; Counter must never go backwards.
type DataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	Timestamp    int64 `json:"timestamp"` // ms
}

// Next is counter+1 at now (ms).
func (v DataVersion) Next(nowMillis int64) DataVersion {
	return DataVersion{Counter: v.Counter + 1, StateVersion: v.StateVersion, Timestamp: nowMillis}
}
