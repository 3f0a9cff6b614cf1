package remoting

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Why a server or a client ends a connection of its own accord.
var (
	ErrIdle       = errors.New("idle for too long")
	ErrUnread     = errors.New("the peer leaves too many answers unread")
	ErrNoProgress = errors.New("the peer takes no answers")
	ErrClosed     = errors.New("closed on this side")
	errPanic      = errors.New("internal error, answers may be lost")
	errDrained    = errors.New("shutting down")
)

// Error is a remote answer that is not success.
type Error struct {
	Code   int
	Remark string
}

func (e *Error) Error() string {
	if e.Remark == "" {
		return fmt.Sprintf("answered with code %d %s", e.Code, CodeName(e.Code))
	}
	return fmt.Sprintf("answered with code %d %s: %s", e.Code, CodeName(e.Code), e.Remark)
}

// DialError says that an address could not be reached.
type DialError struct {
	Addr string
	Err  error
}

func (e *DialError) Error() string { return fmt.Sprintf("cannot connect to %s: %v", e.Addr, e.Err) }

// Unwrap returns what dialling said.
func (e *DialError) Unwrap() error { return e.Err }

// TimeoutError says that no answer came in time.
type TimeoutError struct {
	Addr  string
	Code  int
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("no answer from %s to %s (%d) within %s",
		e.Addr, RequestName(e.Code), e.Code, e.After.Round(time.Millisecond))
}

// Unwrap makes errors.Is(err, context.DeadlineExceeded) true.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// Timeout is true, as net.Error has it.
func (e *TimeoutError) Timeout() bool { return true }

// ClosedError says that the connection ended before the answer came.
type ClosedError struct {
	Addr string
	Err  error
}

func (e *ClosedError) Error() string {
	return fmt.Sprintf("connection to %s lost: %v", e.Addr, e.Err)
}

// Unwrap returns why it ended.
func (e *ClosedError) Unwrap() error { return e.Err }
