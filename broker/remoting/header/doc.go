// Package header has one struct for each request and response header, named after
// RocketMQ's header classes without "RequestHeader"; headers of answers end in Reply.
//
// Decode reads a request's ext fields and fails with *FieldError if a required one
// is missing or is no number in range. EncodeExt writes a header. DecodeMap reads
// the ext fields of an answer. Unknown fields are ignored. A boolean is true if its
// text is "true" in any case, as in Java, else false.
//
// Optional fields whose absence means something have a Has field beside them; other
// optional fields are absent when they are empty or zero.
//
// The headers of requests that come by the hundred thousand (SendMessage,
// PullMessage, UpdateConsumerOffset, QueryConsumerOffset) hold slices that alias the
// request, valid until its handler returns, and allocate nothing.
package header
