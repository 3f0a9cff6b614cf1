package store

// Status of a put: what Java calls PutMessageStatus.
type Status uint8

// The results of a put that this store gives.
const (
	PutOK               Status = iota
	FlushDiskTimeout           // stored, but not known to be on disk in time
	ServiceNotAvailable        // closed, disk full, or a sick disk
	CreateFailed               // no next segment of the commit log
	MessageIllegal             // lengths that the format or the limits forbid
	PropertiesExceeded         // properties above 32767 bytes
	UnknownError               // the write failed
)

var statusNames = [...]string{
	"PUT_OK", "FLUSH_DISK_TIMEOUT", "SERVICE_NOT_AVAILABLE", "CREATE_MAPPED_FILE_FAILED",
	"MESSAGE_ILLEGAL", "PROPERTIES_SIZE_EXCEEDED", "UNKNOWN_ERROR",
}

// String is the name Java uses.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "UNKNOWN_ERROR"
}

// ReadStatus is what a read found: Java's GetMessageStatus.
type ReadStatus uint8

// The results of a read.
const (
	Found ReadStatus = iota
	NoMatchedMessage
	MessageWasRemoving
	OffsetFoundNull
	OffsetOverflowBadly
	OffsetOverflowOne
	OffsetTooSmall
	NoMatchedLogicQueue
	NoMessageInQueue
	OffsetReset // made by the pull handler
)

var readStatusNames = [...]string{
	"FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL", "OFFSET_OVERFLOW_BADLY",
	"OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MATCHED_LOGIC_QUEUE", "NO_MESSAGE_IN_QUEUE", "OFFSET_RESET",
}

// String is the name Java uses.
func (s ReadStatus) String() string {
	if int(s) < len(readStatusNames) {
		return readStatusNames[s]
	}
	return "UNKNOWN"
}
