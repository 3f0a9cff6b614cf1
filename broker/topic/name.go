package topic

import (
	"errors"
	"strings"

	"mqctl/subgroup"
)

// Names of system topics that other parts of a broker use.
const (
	// AutoCreate is the template of topics made by their first message.
	AutoCreate = "TBW102"
	// Schedule holds delayed messages, one queue for each level.
	Schedule = "SCHEDULE_TOPIC_XXXX"
	// TransHalf and TransOp belong to transactions.
	TransHalf = "RMQ_SYS_TRANS_HALF_TOPIC"
	TransOp   = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	// TransCheckMax takes half messages that nobody decided.
	TransCheckMax = "TRANS_CHECK_MAX_TIME_TOPIC"
	// Trace takes the trace records of clients.
	Trace = "RMQ_SYS_TRACE_TOPIC"

	benchmark   = "BenchmarkTest"
	selfTest    = "SELF_TEST_TOPIC"
	offsetMoved = "OFFSET_MOVED_EVENT"
	checkpoint  = "CHECKPOINT_TOPIC"
	wheelTimer  = "rmq_sys_wheel_timer"

	systemPrefix = "rmq_sys_"
	maxName      = 127
	maxLongName  = 255 // of retry and dead-letter topics
)

// Errors of CheckName, with the remarks of RocketMQ's TopicValidator.
var (
	errBlank   = errors.New("The specified topic is blank.")                                                     //nolint:staticcheck // the wire's text
	errIllegal = errors.New("The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$") //nolint:staticcheck // the wire's text
	errLong    = errors.New("The specified topic is longer than topic max length.")                              //nolint:staticcheck // the wire's text
)

// CheckName returns nil for a legal topic name, else an error whose text is
// RocketMQ's remark (code 29): characters [%|a-zA-Z0-9_-], at most 127 of them,
// or 255 for a retry or dead-letter topic. A legal name is safe as a folder.
func CheckName[S ~string | ~[]byte](name S) error {
	if blank(name) {
		return errBlank
	}
	for i := 0; i < len(name); i++ {
		if !legal[name[i]] {
			return errIllegal
		}
	}
	if len(name) > maxName && (len(name) > maxLongName || !longPrefix(name)) {
		return errLong
	}
	return nil
}

func blank[S ~string | ~[]byte](name S) bool {
	for i := 0; i < len(name); i++ {
		if name[i] > ' ' {
			return false
		}
	}
	return true
}

func longPrefix[S ~string | ~[]byte](name S) bool {
	return startsWith(name, subgroup.RetryPrefix) || startsWith(name, subgroup.DLQPrefix)
}

func startsWith[S ~string | ~[]byte](name S, prefix string) bool {
	return len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix
}

// legal marks the bytes of names.
var legal = func() (t [256]bool) {
	for _, c := range []byte("%|_-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") {
		t[c] = true
	}
	return t
}()

// NotSendable reports whether clients may not send to a topic (code 16): what
// lies there is written by the broker alone.
func NotSendable(name []byte) bool {
	switch string(name) {
	case Schedule, TransHalf, TransOp, TransCheckMax, selfTest, offsetMoved:
		return true
	}
	return false
}

// isReserved reports whether a name is a system topic in every broker.
func isReserved(name string) bool {
	switch name {
	case AutoCreate, Schedule, benchmark, TransHalf, Trace, TransOp, TransCheckMax, selfTest, offsetMoved, checkpoint:
		return true
	}
	return strings.HasPrefix(name, systemPrefix)
}

// ReplyTopic is where the replies of request-reply clients of a cluster go.
func ReplyTopic(cluster string) string { return cluster + "_REPLY_TOPIC" }

// IsSystemOf reports whether name is a system topic of any broker of a cluster
// (broker names, which are system topics of their own broker only, apart).
func IsSystemOf(cluster, name string) bool {
	return isReserved(name) || name == cluster || name == ReplyTopic(cluster)
}
