package broker

import (
	"context"
	"fmt"

	"mqctl/broker/remoting"
)

// On a slave, topics and groups are its master's: a change here would be gone
// after the next exchange (as it is in RocketMQ, which accepts it with code 0).

// refusedOnSlave says whether a request changes what a slave has of its master.
func refusedOnSlave(r *remoting.Request) bool {
	switch r.Code {
	case remoting.ReqUpdateAndCreateTopic, remoting.ReqUpdateAndCreateTopicList, remoting.ReqDeleteTopicInBroker,
		remoting.ReqUpdateAndCreateSubscriptionGroup, remoting.ReqUpdateAndCreateSubscriptionGroupList,
		remoting.ReqDeleteSubscriptionGroup, remoting.ReqSetMessageRequestMode, remoting.ReqCleanUnusedTopic:
		return true
	case remoting.ReqMqctlClean:
		what, _ := r.Ext.Get("what")
		return what == cleanTopics
	case remoting.ReqUpdateAndGetGroupForbidden:
		_, changes := r.Ext.Get("readable")
		return changes
	}
	return false
}

// goToMaster is the answer: 14 with the master's address in the remark, for
// people, and in an ext field, for tools.
func goToMaster(r *remoting.Request, st *standing, what string) {
	if st.Master == "" {
		r.Reply(remoting.CodeServiceNotAvailable, fmt.Sprintf("this broker is a slave (id %d) and knows no master yet; %s", st.ID, what), nil, nil)
		return
	}
	r.Reply(remoting.CodeServiceNotAvailable, fmt.Sprintf("this broker is a slave (id %d) of master %s; %s", st.ID, st.Master, what),
		remoting.Map{"masterAddr": st.Master}, nil)
}

// guardSlave wraps the handlers that change topics and groups.
func guardSlave(stand *standingRef, code int, f handlerFunc) handlerFunc {
	byExt := code == remoting.ReqUpdateAndGetGroupForbidden || code == remoting.ReqMqctlClean
	if !byExt && !refusedOnSlave(&remoting.Request{Code: code}) {
		return f
	}
	return func(ctx context.Context, r *remoting.Request) {
		if st := stand.Load(); st.isSlave() && refusedOnSlave(r) {
			goToMaster(r, st, "topics and groups are changed there")
			return
		}
		f(ctx, r)
	}
}
