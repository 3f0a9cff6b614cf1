package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Exit codes of mqctl: a contract with scripts. Every command lists the ones it
// can end with besides the general ones.
const (
	ExitOK               = 0  // done, nothing to do, or a condition that is true
	ExitFailed           = 1  // the broker refused, or anything without a better code
	ExitUsage            = 2  // wrong command line; nothing was sent
	ExitNotFound         = 3  // topic, group, broker, cluster or message does not exist
	ExitUnreachable      = 4  // no connection to a nameserver or broker
	ExitTimeout          = 5  // connected but no answer in time, or a deadline is over
	ExitPartial          = 6  // some targets done or answered, others not
	ExitConditionFalse   = 7  // a check, a limit or a wait condition is not met
	ExitDenied           = 8  // no permission, or the broker does not offer the operation
	ExitAborted          = 9  // confirmation declined, or needed and impossible
	ExitChanges          = 10 // there is something to change
	ExitBadConfig        = 11 // a configuration or input file is invalid
	ExitStoreInUse       = 12 // another process holds the store
	ExitPortInUse        = 13 // an address is already bound
	ExitIdentityConflict = 14 // the broker's name and id are registered elsewhere
	ExitStoreDamaged     = 15 // damage in the store that is not cut without a human
	ExitBug              = 70 // internal error; a report was written
	ExitHangup           = 129
	ExitInterrupted      = 130
	ExitTerminated       = 143
)

// exitNames explains the codes in help pages.
var exitNames = map[int]string{
	ExitOK:               "done",
	ExitFailed:           "refused or failed",
	ExitUsage:            "wrong command line, nothing was sent",
	ExitNotFound:         "not found",
	ExitUnreachable:      "unreachable",
	ExitTimeout:          "no answer in time",
	ExitPartial:          "some targets done, others not",
	ExitConditionFalse:   "condition not met",
	ExitDenied:           "denied or not offered by this broker",
	ExitAborted:          "not confirmed",
	ExitChanges:          "there is something to change",
	ExitBadConfig:        "bad configuration",
	ExitStoreInUse:       "store in use",
	ExitPortInUse:        "port in use",
	ExitIdentityConflict: "name and id registered elsewhere",
	ExitStoreDamaged:     "store damaged",
	ExitBug:              "internal error, a report was written",
	ExitHangup:           "the terminal has gone (SIGHUP)",
	ExitInterrupted:      "interrupted (SIGINT)",
	ExitTerminated:       "terminated (SIGTERM)",
}

// generalExits are the codes every command may end with.
var generalExits = []int{ExitOK, ExitFailed, ExitUsage, ExitUnreachable, ExitTimeout, ExitDenied}

// exitOrder is the precedence of failures when no target succeeded: the first
// that applies is the command's code.
var exitOrder = []int{
	ExitUsage, ExitBadConfig, ExitUnreachable, ExitTimeout, ExitDenied, ExitNotFound,
	ExitAborted, ExitConditionFalse, ExitPartial, ExitFailed,
}

// exitOf folds the failures of a command with several targets into one code.
func exitOf(failures []Message, someDone bool) int {
	if len(failures) == 0 {
		return ExitOK
	}
	if someDone {
		return ExitPartial
	}
	for _, code := range exitOrder {
		for _, f := range failures {
			if f.ExitCode == code {
				return code
			}
		}
	}
	return failures[0].ExitCode
}

// Interrupted is the cause of a context that a signal ended; it keeps which
// signal it was, so that the exit status can say so.
type Interrupted struct {
	Signal os.Signal
	Code   int // 128 + the signal's number
}

func (i *Interrupted) Error() string { return fmt.Sprintf("stopped by %s", i.Signal) }

// interruption returns the exit status of a context ended by a signal.
func interruption(ctx context.Context) (int, bool) {
	var i *Interrupted
	if errors.As(context.Cause(ctx), &i) {
		return i.Code, true
	}
	return 0, false
}
