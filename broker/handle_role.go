package broker

import (
	"context"
	"fmt"

	"mqctl/broker/remoting"
)

// Steps of MQCTL_ROLE (30002).
const (
	stepAttach = "attach" // a slave of ours is about to connect: replication.AttachRequest
	stepHello  = "hello"  // a slave of ours says that it lives, and hears the same
)

// roleSteps are the steps of MQCTL_ROLE by name.
func (b *Broker) roleSteps() map[string]handlerFunc {
	steps := b.changeSteps()
	steps[stepAttach] = b.provedStep(stepAttach, b.serveAttach)
	steps[stepHello] = b.provedStep(stepHello, b.serveHello)
	steps[stepChallenge] = b.serveChallenge
	steps[stepProve] = b.serveProve
	return steps
}

// serveRole serves MQCTL_ROLE: ext step says which.
func serveRole(steps map[string]handlerFunc) handlerFunc {
	return func(ctx context.Context, r *remoting.Request) {
		step, _ := r.Ext.Get("step")
		f := steps[step]
		if f == nil {
			r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("there is no step %q", step), nil, nil)
			return
		}
		f(ctx, r)
	}
}
