package consumequeue

import (
	"slices"
)

// Expired lists the files, oldest first, none of whose units points to minPhys or behind.
// Units without message do not count: the last one of a file may be such, behind messages.
// The last file is never one of them: it keeps the numbers of a queue that lost
// its messages.
func (q *Queue) Expired(minPhys int64) (bases []int64, err error) {
	live, err := q.FirstFrom(minPhys)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone || q.rolling || q.nextBase < 0 {
		return nil, nil
	}
	for base := q.first * q.unit; base+q.sh.FileBytes < q.nextBase && base+q.sh.FileBytes <= live*q.unit; base += q.sh.FileBytes {
		if slices.Contains(q.unsynced, base) {
			break
		}
		bases = append(bases, base)
	}
	return bases, nil
}

// Drop removes files that Expired has listed; nobody may write units of the queue
// to disk or delete it meanwhile but by appending. Each removal is durable before
// the next, so that no crash leaves a hole between the files.
func (q *Queue) Drop(bases []int64) error {
	if len(bases) == 0 {
		return nil
	}
	q.sh.Files.Forget(q)
	for _, base := range bases {
		if !q.begin(base, base+q.sh.FileBytes) {
			return nil
		}
		if err := q.removeFile(base); err != nil {
			q.begin(base+q.sh.FileBytes, base)
			return err
		}
		if err := q.sh.FS.SyncDir(q.dir); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the queue begin at byte to, if it begins at from.
func (q *Queue) begin(from, to int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone || q.first*q.unit != from {
		return false
	}
	q.first = to / q.unit
	return true
}

// FileBytes is the size of a file of the queue.
func (q *Queue) FileBytes() int64 { return q.sh.FileBytes }
