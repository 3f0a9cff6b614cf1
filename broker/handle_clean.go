package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/topic"
	"mqctl/store"
)

// What MQCTL_CLEAN (30007) removes: ext what.
const (
	cleanLog    = "commitlog"
	cleanQueues = "cq"
	cleanTopics = "topics"
)

// cleanWait is how long a request to delete old files of the log may take.
const cleanWait = 2 * time.Second

// cleaned is the answer of MQCTL_CLEAN.
type cleaned struct {
	Files  int      `json:"files"`
	Bytes  int64    `json:"bytes"`
	Left   int      `json:"left,omitempty"` // files that go later, in the background
	Topics []string `json:"topics,omitempty"`
}

// cleanAdmin removes what nothing points to any more: 306, 316, 329, and what
// MQCTL_CLEAN asks for, which says how much that was, or would be.
type cleanAdmin struct {
	topics *topic.Table
	store  *store.Store
}

// used says whether the queues of a topic belong to something.
func (a *cleanAdmin) used(name string) bool {
	return a.topics.Get(name) != nil || a.topics.IsSystem(name) || strings.HasPrefix(name, "%LMQ%")
}

// log serves 329. As in RocketMQ the answer does not wait for the deletion.
func (a *cleanAdmin) log(_ context.Context, r *remoting.Request) {
	a.store.DeleteExpired()
	ok(r)
}

// queues serves 306.
func (a *cleanAdmin) queues(ctx context.Context, r *remoting.Request) {
	if _, err := a.store.CleanQueues(ctx, false); err != nil {
		refuse(r, err)
		return
	}
	ok(r)
}

// unused serves 316.
func (a *cleanAdmin) unused(ctx context.Context, r *remoting.Request) {
	if _, err := a.store.CleanTopics(ctx, false, a.used); err != nil {
		refuse(r, err)
		return
	}
	ok(r)
}

// clean serves MQCTL_CLEAN: ext what and dryRun.
func (a *cleanAdmin) clean(ctx context.Context, r *remoting.Request) {
	what, _ := r.Ext.Get("what")
	dry, given := r.Ext.Get("dryRun")
	if given && dry != "true" && dry != "false" {
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("dryRun is %q, not true or false", dry), nil, nil)
		return
	}
	var (
		c   store.Cleaned
		err error
	)
	switch what {
	case cleanLog:
		// Old files go one by one; who asks does not wait for hundreds.
		ctx, cancel := context.WithTimeout(ctx, cleanWait)
		c, err = a.store.CleanLog(ctx, dry == "true")
		cancel()
	case cleanQueues:
		c, err = a.store.CleanQueues(ctx, dry == "true")
	case cleanTopics:
		c, err = a.store.CleanTopics(ctx, dry == "true", a.used)
	default:
		r.Reply(remoting.CodeInvalidParameter, fmt.Sprintf("%q cannot be cleaned: commitlog, cq or topics", what), nil, nil)
		return
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(cleaned{Files: c.Files, Bytes: c.Bytes, Left: c.Left, Topics: c.Topics})
	}
	if err != nil {
		refuse(r, err)
		return
	}
	r.Reply(remoting.CodeSuccess, "", nil, text)
}
