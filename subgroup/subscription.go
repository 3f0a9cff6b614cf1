package subgroup

import (
	"errors"
	"slices"
	"strings"

	"mqctl/store/record"
)

// Expression types of subscriptions. The empty text means TagExpression.
const (
	TagExpression = "TAG"
	SQLExpression = "SQL92"

	allTags = "*"
	// searchFrom is the number of codes from which a binary search wins.
	searchFrom = 16
)

// ErrNoTags is an expression of separators only (SUBSCRIPTION_PARSE_FAILED).
var ErrNoTags = errors.New("the tag expression has no tag between its separators, write * for all or tag1 || tag2")

// Subscription is one topic's subscription of a group (SubscriptionData).
type Subscription struct {
	Topic, SubString, ExpressionType string
	Tags                             []string
	// Codes are the hashes of Tags, sorted.
	Codes       []int32
	SubVersion  int64
	ClassFilter bool
}

// ParseTags parses a tag expression: *, or nothing, for all, else tags between
// || (FilterAPI.buildSubscriptionData).
func ParseTags(topic, expression string) (*Subscription, error) {
	s := &Subscription{Topic: topic, SubString: expression, ExpressionType: TagExpression}
	if expression == "" || expression == allTags {
		s.SubString = allTags
		return s, nil
	}
	s.Tags = splitTags(expression)
	if len(s.Tags) == 0 {
		return nil, ErrNoTags
	}
	s.Codes = tagCodes(s.Tags)
	return s, nil
}

// splitTags cuts an expression into its distinct tags.
func splitTags(expression string) []string {
	var tags []string
	for part := range strings.SplitSeq(expression, "||") {
		tag := strings.TrimSpace(part)
		if tag != "" && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

func tagCodes(tags []string) []int32 {
	codes := make([]int32, 0, len(tags))
	for _, tag := range tags {
		codes = append(codes, record.JavaHash(tag))
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// normal completes a subscription as a heartbeat has it: no expression type
// means TAG, and the codes are computed here. Those of the Go client are
// hashes of UTF-8 bytes, wrong for tags that are not ASCII.
func (s Subscription) normal() *Subscription {
	if s.ExpressionType == "" {
		s.ExpressionType = TagExpression
	}
	if s.ExpressionType != TagExpression {
		return &s
	}
	if s.SubString == "" {
		s.SubString = allTags
	}
	if s.SubString == allTags {
		s.Tags, s.Codes = nil, nil
		return &s
	}
	if len(s.Tags) == 0 {
		s.Tags = splitTags(s.SubString)
	}
	s.Tags = slices.Clone(s.Tags)
	s.Codes = tagCodes(s.Tags)
	return &s
}

// IsTag reports whether tags decide, not an SQL text.
func (s *Subscription) IsTag() bool {
	return s.ExpressionType == "" || s.ExpressionType == TagExpression
}

// all reports whether the expression selects everything.
func (s *Subscription) all() bool { return s.IsTag() && (s.SubString == allTags || s.SubString == "") }

// MatchTag reports whether a message with this tag code of the consume queue
// may pass. A code stands for several tags: the client compares the tags
// themselves. Subscriptions that no tag decides let everything pass.
func (s *Subscription) MatchTag(code int64) bool {
	if s.ClassFilter || s.SubString == allTags || !s.IsTag() {
		return true
	}
	c := int32(code)
	if len(s.Codes) < searchFrom {
		return slices.Contains(s.Codes, c)
	}
	_, found := slices.BinarySearch(s.Codes, c)
	return found
}

// sameFilter reports whether two subscriptions select the same messages.
func (s *Subscription) sameFilter(o *Subscription) bool {
	same := s.SubString == o.SubString || (s.all() && o.all())
	return same && s.IsTag() == o.IsTag() && s.ClassFilter == o.ClassFilter
}

// newer reports whether version a replaces version b. The Java client counts
// milliseconds and the Go client nanoseconds, so in a mixed group they are
// brought to one unit first.
func newer(a, b int64) bool {
	return versionMillis(a) > versionMillis(b) || (versionMillis(a) == versionMillis(b) && a > b)
}

func versionMillis(v int64) int64 {
	const nanosFrom = 1e17 // 1973 in nanoseconds, the year 5138 in milliseconds
	if v >= nanosFrom {
		return v / 1e6
	}
	return v
}
