package inspect

import (
	"mqctl/store"
)

// Kinds of findings that only a verification makes; see package store for the
// others.
const (
	// NotStopped is the file abort: the broker was killed, or runs.
	NotStopped store.FindingKind = "NOT_STOPPED"
	// EmptyFile is a file without content at the end of a queue of files.
	EmptyFile store.FindingKind = "EMPTY_FILE"
	// OddSize is a file of the log that is longer than the others.
	OddSize store.FindingKind = "ODD_SIZE"
	// SpareFile is a file that was made ahead and not used yet.
	SpareFile store.FindingKind = "SPARE_FILE"
	// NoBlank is a file of the log that is full to its last byte.
	NoBlank store.FindingKind = "NO_BLANK"
	// BadBlank is a blank with another length than to the end of its file.
	BadBlank store.FindingKind = "BAD_BLANK"
	// TimeBack is a record that is older than the one before it.
	TimeBack store.FindingKind = "TIME_BACK"
	// LogBegins tells that queues have entries from before the log's first file.
	LogBegins store.FindingKind = "LOG_BEGINS_LATER"
	// EarlierLife are records from before a topic was deleted and made again.
	EarlierLife store.FindingKind = "EARLIER_LIFE"
	// QueueBegins is a queue that begins behind its first message of the log.
	QueueBegins store.FindingKind = "QUEUE_BEGINS_LATER"
	// QueueVoid are entries without message although the log has it.
	QueueVoid store.FindingKind = "QUEUE_VOID"
	// QueueWrongTag is an entry with a tag code that its record does not have.
	QueueWrongTag store.FindingKind = "QUEUE_WRONG_TAG"
	// QueueTail are bytes behind the last entry of a queue that are not zero.
	QueueTail store.FindingKind = "QUEUE_TAIL"
	// ZeroFile is a queue file without any entry.
	ZeroFile store.FindingKind = "ZERO_FILE"
	// IndexBehind are keys of records that the index does not have.
	IndexBehind store.FindingKind = "INDEX_BEHIND"
	// IndexAhead are entries of the index behind the end of the log.
	IndexAhead store.FindingKind = "INDEX_AHEAD"
	// IndexWrongEntry is an entry of the index that leads to no record with its key.
	IndexWrongEntry store.FindingKind = "INDEX_WRONG_ENTRY"
	// CheckpointDamaged is a checkpoint that says nothing.
	CheckpointDamaged store.FindingKind = "CHECKPOINT_DAMAGED"
	// ExtDamaged is an extension file that an entry leads into in vain.
	ExtDamaged store.FindingKind = "EXT_DAMAGED"
	// TimerDamaged is a file of RocketMQ's timer that does not hold together.
	TimerDamaged store.FindingKind = "TIMER_DAMAGED"
)

// Severity says what a finding means for the next start of mqctl.
type Severity string

// The severities.
const (
	// Note is nothing wrong.
	Note Severity = "NOTE"
	// Repair is what the next start repairs by itself, with no message lost that
	// was complete.
	Repair Severity = "REPAIR"
	// Damage is lost or wrong and stays so, or keeps the broker from starting.
	Damage Severity = "DAMAGE"
)

// Found is a finding and what it means.
type Found struct {
	store.Finding
	Severity Severity
	Count    int64 // entries, records or files concerned; 0: it is about one
}

// Worse reports whether a means more than b; "" means nothing.
func Worse(a, b Severity) bool { return rank(a) > rank(b) }

func rank(s Severity) int {
	switch s {
	case Damage:
		return 3
	case Repair:
		return 2
	case Note:
		return 1
	}
	return 0
}
