package store

import (
	"bytes"
	"context"
)

// What crash tests drive by hand instead of Run.

// KeepOnce is a second of roller, keeper and marker.
func (s *Store) KeepOnce() {
	s.rollQueues()
	s.keepOnce()
	s.markIfDue()
}

func (s *Store) FlushOnce()         { s.flushOnce() }
func (s *Store) PrepareNext() error { return s.log.Prepare() }
func (s *Store) CheckDisk()         { s.checkDisk() }

// Mark is a mark as the keeper makes it.
func (s *Store) Mark() error {
	err := s.mark(false)
	if err != nil {
		s.background("write queues and checkpoint", err)
	}
	return err
}

// WriteQueues is a round of the roller.
func (s *Store) WriteQueues() { s.rollQueues() }

// NoteOnce is a second of the keeper alone.
func (s *Store) NoteOnce() { s.keepOnce() }

// SetPID makes the store think that it is opened by another process.
func (o *Options) SetPID(pid int) { o.pid = pid }

// SetSyncAlone changes up to how many queues are synced one by one.
func (o *Options) SetSyncAlone(queues int) { o.syncAlone = queues }

// SyncLog flushes without dispatching, Dispatch the other way round.
func (s *Store) SyncLog()  { _, _ = s.log.Sync() }
func (s *Store) Dispatch() { s.dispatch() }

// WhileDispatchBusy runs f while the dispatch lock is held as the keeper holds it.
func (s *Store) WhileDispatchBusy(f func()) {
	s.disp.mu.Lock()
	f()
	s.unlockDispatch()
}

// RewriteCutNote decodes the file mqctl/cut and encodes it again.
func RewriteCutNote(b []byte) ([]byte, error) {
	c, err := decodeCutNote(b)
	if err != nil {
		return nil, err
	}
	return c.encode(), nil
}

// RewriteSnapshot decodes the file mqctl/queues, whose checksum is made right first, and
// encodes it again.
func RewriteSnapshot(b []byte) ([]byte, error) {
	b = bytes.Clone(b[:bytes.LastIndexByte(b, '\n')+1])
	if i := bytes.LastIndex(b, []byte("\ncrc ")); i >= 0 {
		b = b[:i+1]
	}
	sn, err := decodeSnapshot(seal(bytes.NewBuffer(b)))
	if err != nil {
		return nil, err
	}
	return sn.encode(), nil
}

// ParseProperties is what the store finds in property text.
func ParseProperties(text []byte) (p Properties) {
	p.parse(text)
	p.batchKey = nil // for the index only
	return p
}

// RetainOnce is one run of retention.
func (s *Store) RetainOnce() { s.retainOnce(context.Background()) }

// LeavingBytes are those of expired files that still take space.
func (s *Store) LeavingBytes() int64 { return s.retain.leavingBytes.Load() }

// DropTail frees the copy of the newest bytes of the log.
func (s *Store) DropTail() { s.log.DropTail() }

// Kill lets go of the lock and nothing else, as the death of the process does.
func (s *Store) Kill() error { return s.lock.Close() }

// AppendJoined appends small batches together, as AppendAll does with those that
// several connections have at one time, and says whether it could.
func (s *Store) AppendJoined(all ...*Batch) bool {
	for _, b := range all {
		b.joined.Store(false)
	}
	s.appendMu.Lock()
	s.appendJoined(all)
	s.appendMu.Unlock()
	s.dispatch()
	for _, b := range all {
		if !b.joined.Load() {
			return false
		}
	}
	return true
}

// Alone notes a batch and says whether it comes behind one of its own sender.
func (s *Store) Alone(sender uint64) bool { return s.joiner.alone(sender) }

// Hope makes the next small batches wait for others.
func (s *Store) Hope() { s.joiner.hope.Store(1 << 30) }
