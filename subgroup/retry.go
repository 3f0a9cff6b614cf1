package subgroup

// Retry names and rules of RocketMQ: SendMessageProcessor and
// AbstractSendMessageProcessor in the original.
const (
	// RetryPrefix and a group make the name of the group's retry topic.
	RetryPrefix = "%RETRY%"
	// DLQPrefix and a group make the name of the group's dead-letter topic.
	DLQPrefix = "%DLQ%"

	// firstRetryLevel is the delay level of a first retry (10 s by default).
	firstRetryLevel = 3
	// versionMaxReconsume is the first client version (V3_4_9) whose own limit
	// of attempts counts.
	versionMaxReconsume = 121
)

// RetryTopic is the topic of a group's messages to be consumed again.
func RetryTopic(group string) string { return RetryPrefix + group }

// DLQTopic is the topic of a group's messages that were given up.
func DLQTopic(group string) string { return DLQPrefix + group }

// GroupOfRetry is the group of a retry topic. Retry topics of POP put
// their topic behind a plus sign, which is cut off.
func GroupOfRetry[S ~string | ~[]byte](topic S) (group S, ok bool) {
	if len(topic) <= len(RetryPrefix) || string(topic[:len(RetryPrefix)]) != RetryPrefix {
		return group, false
	}
	group = topic[len(RetryPrefix):]
	for i := 0; i < len(group); i++ {
		if group[i] == '+' {
			group = group[:i]
			break
		}
	}
	return group, len(group) > 0
}

// MaxAttempts is how often a message of the group may be consumed again: the
// group's retryMaxTimes, or what the client asks for if its request has the
// field (asked not nil) and the client is new enough for the field to be meant.
func (c *Config) MaxAttempts(clientVersion int, asked *int32) int32 {
	if asked != nil && clientVersion >= versionMaxReconsume {
		return *asked
	}
	return c.RetryMaxTimes
}

// SendBack decides where a message goes that a consumer sent back (code 36):
// to the dead-letter topic, or to the retry topic after the delay level
// returned. delayLevel is the request's: negative gives up, 0 leaves the choice
// to the broker, which waits longer with every attempt.
func SendBack(reconsumeTimes, delayLevel, maxAttempts int32) (deadLetter bool, level int32) {
	if reconsumeTimes >= maxAttempts || delayLevel < 0 {
		return true, 0
	}
	if delayLevel == 0 {
		return false, firstRetryLevel + reconsumeTimes
	}
	return false, delayLevel
}

// ClientRetryIsDead decides whether a message that a client itself sends to a
// retry topic goes to the dead-letter topic. Unlike SendBack the limit itself
// is still allowed. A group that holds queue locks consumes in order, and such
// a consumer sends here only to give up.
func ClientRetryIsDead(reconsumeTimes, maxAttempts int32, locked bool) bool {
	return reconsumeTimes > maxAttempts || locked
}
