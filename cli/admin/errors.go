package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mqctl/broker/remoting"
)

// ErrNoAddress is the cause inside an Unreachable for a broker that has no
// address to go to, such as a broker name without a master.
var ErrNoAddress = errors.New("no address is registered for it")

// Unreachable says that no connection to Addr could be made, or that it ended
// before the answer came.
type Unreachable struct {
	Addr string
	// Lost is true when a connection was there and broke; a change may or may
	// not have been made then.
	Lost bool
	Err  error
}

func (e *Unreachable) Error() string {
	where := e.Addr
	if where == "" {
		where = "broker"
	}
	if e.Lost {
		return fmt.Sprintf("%s: connection lost before the answer: %v", where, e.Err)
	}
	return fmt.Sprintf("%s: not reachable: %v", where, e.Err)
}

// Unwrap gives the network error.
func (e *Unreachable) Unwrap() error { return e.Err }

// Timeout says that Addr was connected but did not answer in time.
type Timeout struct {
	Addr    string
	Request int           // request code
	After   time.Duration // how long was waited
	// Deadline is true when the caller's own deadline ended, not the time of one request.
	Deadline bool
}

func (e *Timeout) Error() string {
	name := remoting.RequestName(e.Request)
	if e.Deadline {
		return fmt.Sprintf("%s: the deadline ended while waiting for the answer to %s", e.Addr, name)
	}
	return fmt.Sprintf("%s: no answer to %s within %v", e.Addr, name, e.After)
}

// Is makes errors.Is(err, context.DeadlineExceeded) true.
func (e *Timeout) Is(target error) bool { return target == context.DeadlineExceeded }

// NotFound says that a thing does not exist where it was looked for.
type NotFound struct {
	Kind  string   // cluster, broker, topic, group, client, key, message, statistic
	Name  string   // what was asked for; "" when there is none at all of the kind
	Where string   // the address or the cluster that was asked
	Known []string // what there is of the kind, when known
}

func (e *NotFound) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("no %s is known at %s", e.Kind, e.Where)
	}
	if e.Where == "" {
		return fmt.Sprintf("%s %q does not exist", e.Kind, e.Name)
	}
	return fmt.Sprintf("%s %q does not exist at %s", e.Kind, e.Name, e.Where)
}

// NotOnline says that a consumer group has no live member at a broker (code 206).
type NotOnline struct {
	Group, Addr string
}

func (e *NotOnline) Error() string {
	return fmt.Sprintf("group %q has no client online at %s", e.Group, e.Addr)
}

// Refused is any other answer than success.
type Refused struct {
	Addr    string
	Request int // request code
	Code    int // response code
	Remark  string
}

// Overloaded says that the broker had too much to do for the request: its remark names
// flow control, as RocketMQ's do. It did nothing.
func (e *Refused) Overloaded() bool {
	return e.Code == remoting.CodeSystemBusy && strings.HasPrefix(e.Remark, remoting.OverloadMark)
}

func (e *Refused) Error() string {
	remark := strings.TrimSpace(e.Remark)
	if remark == "" {
		remark = "no reason given"
	}
	return fmt.Sprintf("%s: %s refused with code %d (%s): %s",
		e.Addr, remoting.RequestName(e.Request), e.Code, remoting.CodeName(e.Code), remark)
}

// Unsupported reports whether the peer does not know the request at all.
func (e *Refused) Unsupported() bool { return e.Code == remoting.CodeRequestCodeNotSupported }

// Denied reports whether the peer knows the request and forbids it.
func (e *Refused) Denied() bool {
	return e.Code == remoting.CodeNoPermission || e.Code == remoting.CodeIllegalOperation
}

// BadAnswer is an answer that cannot be read.
type BadAnswer struct {
	Addr    string
	Request int
	Err     error
}

func (e *BadAnswer) Error() string {
	return fmt.Sprintf("%s: the answer to %s cannot be read: %v", e.Addr, remoting.RequestName(e.Request), e.Err)
}

// Unwrap gives the parser's error.
func (e *BadAnswer) Unwrap() error { return e.Err }

// BadAddress is text that is not host:port.
type BadAddress struct {
	Text string
	Why  string
}

func (e *BadAddress) Error() string { return fmt.Sprintf("%q is not an address: %s", e.Text, e.Why) }

// TargetMissing says that a cluster or broker must be named, since several clusters are registered.
type TargetMissing struct {
	Clusters []string
}

func (e *TargetMissing) Error() string {
	return "a cluster must be named: " + strings.Join(e.Clusters, ", ") + " are registered"
}

// NoNameserver says that none of the nameservers answered; Errs has one error for each.
type NoNameserver struct {
	Addrs []string
	Errs  []error
}

func (e *NoNameserver) Error() string {
	if len(e.Errs) == 0 {
		return "no nameserver address was given"
	}
	parts := make([]string, len(e.Errs))
	for i, err := range e.Errs {
		parts[i] = err.Error()
	}
	return "no nameserver answered: " + strings.Join(parts, "; ")
}

// Unwrap gives every nameserver's error.
func (e *NoNameserver) Unwrap() []error { return e.Errs }

// failed maps an error of remoting.Client.Call to the errors of this package.
// ctx is the caller's context (not the one of the single request).
func failed(ctx context.Context, addr string, request int, after time.Duration, err error) error {
	var timeout *remoting.TimeoutError
	var dial *remoting.DialError
	var closed *remoting.ClosedError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%s: %w", addr, context.Canceled)
	case ctx.Err() != nil:
		return &Timeout{Addr: addr, Request: request, After: after, Deadline: true}
	case errors.As(err, &dial):
		return &Unreachable{Addr: addr, Err: dial.Unwrap()}
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return &Timeout{Addr: addr, Request: request, After: after}
	case errors.As(err, &closed):
		return &Unreachable{Addr: addr, Lost: true, Err: closed.Unwrap()}
	}
	return &Unreachable{Addr: addr, Err: err}
}

// orNotFound turns a refusal with code into NotFound.
func orNotFound(err error, code int, kind, name string) error {
	var refused *Refused
	if errors.As(err, &refused) && refused.Code == code {
		return &NotFound{Kind: kind, Name: name, Where: refused.Addr}
	}
	return err
}

// orNotFoundText is for the requests whose "not found" is SYSTEM_ERROR, which may
// mean anything: the remark tells.
func orNotFoundText(err error, text, kind, name string) error {
	var refused *Refused
	if errors.As(err, &refused) && strings.Contains(refused.Remark, text) {
		return orNotFound(err, remoting.CodeSystemError, kind, name)
	}
	return err
}
