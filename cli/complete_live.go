package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// completionTime bounds how long a completion waits for the cluster.
const completionTime = 300 * time.Millisecond

// completionAsks bounds the question itself where a shell goes on with it: an
// answer that comes too late for one Tab is there for the next.
const completionAsks = 3 * time.Second

// quietCall is a call that asks for the program itself and not for its user: it
// says nothing.
func quietCall(stdio Stdio, values map[string][]string) (*call, error) {
	cmd := commands().byPath["cluster list"]
	stdio.Out, stdio.Err = io.Discard, io.Discard
	c := &call{cmd: cmd, io: stdio, values: values, vocab: vocabularyOf(cmd, false), begun: time.Now()}
	if err := c.useClientFile(); err != nil {
		return nil, err
	}
	_, err := c.admin()
	return c, err
}

// release closes the client of a quiet call, unless a shell keeps it.
func (c *call) release() {
	if c != nil && c.client != nil && !c.io.session.keeps(c.client) {
		c.client.Close()
	}
}

// live offers names of the cluster: what a shell still knows, else what the
// cluster says within a short time, else what the shell knew before.
func (c *completer) live(ctx context.Context, what string, l *unfinished) {
	patience := cmp.Or(c.patience, completionTime)
	ask := func(ctx context.Context, patience time.Duration) string {
		all := &completer{r: c.r, io: c.io, seen: map[string]bool{}}
		if strings.HasPrefix(c.typ, "%") {
			all.typ = "%"
		}
		all.ask(ctx, what, l, patience)
		return all.out.String()
	}
	var words [][2]string
	if s := c.io.session; s != nil {
		words = s.live(ctx, c.liveKey(what, l), what, patience, func(ctx context.Context) string { return ask(ctx, completionAsks) })
	} else {
		words = candidateLines(ask(ctx, patience))
	}
	for _, w := range words {
		c.offer(w[0], w[1])
	}
}

// candidateLines are the words and descriptions of candidates, one a line.
func candidateLines(lines string) [][2]string {
	var words [][2]string
	for line := range strings.Lines(lines) {
		w, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		words = append(words, [2]string{w, text})
	}
	return words
}

// liveKey tells questions apart by all that their answers depend on.
func (c *completer) liveKey(what string, l *unfinished) string {
	key := []string{what, c.io.Env("MQCTL_CONTEXT"), c.io.Env("MQCTL_NAMESRV"), c.io.Env("NAMESRV_ADDR")}
	for _, k := range connectionFlags {
		key = append(key, strings.Join(l.values[k], ","))
	}
	switch what {
	case "client":
		key = append(key, l.value("group"))
	case "queue", "broker-queue", "offset", "place", "place=":
		key = append(key, l.value("topic"), l.value("queue"), l.value("broker-name"), l.value("broker"), fmt.Sprint(l.old))
	case "topic":
		key = append(key, fmt.Sprint(strings.HasPrefix(c.typ, "%")))
	}
	return fmt.Sprintf("%q", key)
}

// connectionFlags say where a line talks to and as whom.
var connectionFlags = []string{"namesrv", "context", "access-key", "access-key-file", "secret-key-file"}

// ask asks the cluster as the line would, for a short time.
func (c *completer) ask(ctx context.Context, what string, l *unfinished, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	values := map[string][]string{"timeout": {patience.String()}, "retries": {"0"}}
	for _, k := range connectionFlags {
		if v := l.values[k]; len(v) > 0 {
			values[k] = v
		}
	}
	q, err := quietCall(c.io, values)
	defer q.release()
	if err != nil {
		return
	}
	switch what {
	case "topic":
		c.topics(ctx, q.client)
	case "queue", "broker-queue", "offset", "place", "place=":
		c.queues(ctx, q.client, what, l)
	case "cluster", "broker", "group", "client":
		view, err := q.client.Cluster(ctx)
		if err != nil {
			return
		}
		c.members(ctx, q.client, view, what, l)
	}
}

func (c *completer) topics(ctx context.Context, client *admin.Client) {
	names, err := client.Topics(ctx)
	if err != nil {
		return
	}
	own := map[string]bool{} // brokers make topics of these names
	if view, err := client.Cluster(ctx); err == nil {
		for _, t := range mustReplicas(view) {
			own[t.Broker], own[t.Cluster] = true, true
		}
	}
	for _, n := range names {
		if strings.HasPrefix(c.typ, "%") || !hiddenTopic(n, own) {
			c.offer(n, "")
		}
	}
}

// members are what the map of the cluster holds, and what its brokers know.
func (c *completer) members(ctx context.Context, client *admin.Client, view *admin.Cluster, what string, l *unfinished) {
	switch what {
	case "cluster":
		for _, n := range view.Names() {
			c.offer(n, "")
		}
	case "broker":
		for _, t := range mustReplicas(view) {
			c.offer(t.Broker, "")
			c.offer(t.String(), t.Addr)
		}
	case "group":
		c.groups(ctx, client, view)
	case "client":
		c.clients(ctx, client, view, l.value("group"))
	}
}

func mustReplicas(view *admin.Cluster) []admin.Target {
	t, err := everyReplica(view, admin.Selector{})
	if err != nil {
		return nil
	}
	return t
}

// groups are those of the first master that answers.
func (c *completer) groups(ctx context.Context, client *admin.Client, view *admin.Cluster) {
	for _, t := range mustReplicas(view) {
		if t.ID != 0 {
			continue
		}
		all, _, err := client.Groups(ctx, t.Addr)
		if err != nil {
			continue
		}
		for _, n := range sortedKeys(all) {
			if !systemGroup(n) {
				c.offer(n, "")
			}
		}
		return
	}
}

// clients are the members of a group at the first master that knows one; without
// a group all clients of all brokers.
func (c *completer) clients(ctx context.Context, client *admin.Client, view *admin.Cluster, group string) {
	for _, t := range mustReplicas(view) {
		if group == "" {
			all, err := client.InspectClients(ctx, t.Addr)
			if err != nil {
				continue
			}
			for _, m := range all.Clients {
				c.offer(m.ClientID, strings.ToLower(m.Role)+" of "+m.Group)
			}
			continue
		}
		all, err := client.ConsumerConnections(ctx, t.Addr, group)
		if err != nil {
			continue
		}
		for _, m := range all.Connections {
			c.offer(m.ClientID, m.Language+" "+m.Addr)
		}
		return
	}
}

// queues are those of the topic on the line, and the ends of one of them.
func (c *completer) queues(ctx context.Context, client *admin.Client, what string, l *unfinished) {
	topic := l.value("topic")
	if topic == "" {
		return
	}
	route, err := client.Route(ctx, topic)
	if err != nil {
		return
	}
	all := map[admin.Queue]admin.QueueRange{}
	for _, t := range route.Targets(true) {
		stats, err := client.TopicStats(ctx, t.Addr, topic)
		if err != nil {
			continue
		}
		for q, ends := range stats.Queues {
			q.Topic, q.Broker = "", cmp.Or(q.Broker, t.Broker)
			all[q] = ends
		}
	}
	order := sortedQueues(all)
	name, _, _ := strings.Cut(l.value("broker"), "/")
	broker, id := firstOf(l.value("broker-name"), name), l.value("queue")
	if name, number, ok := strings.Cut(id, ":"); ok && !l.old {
		broker, id = name, number
	}
	for _, q := range order {
		ends := all[q]
		if broker != "" && q.Broker != broker {
			continue
		}
		number, span := strconv.Itoa(int(q.ID)), fmt.Sprintf("%s, offsets %d to %d", q.Broker, ends.Min, ends.Max)
		switch {
		case what == "queue" || what == "broker-queue" && l.old:
			c.offer(number, span)
		case what == "broker-queue":
			c.offer(q.Broker+":"+number, span)
		case what == "offset" && (id == "" || id == number):
			c.ends("", ends)
		case what == "place":
			c.ends(q.Broker+":"+number+":", ends)
		case what == "place=":
			c.ends(q.Broker+":"+number+"=", ends)
		}
	}
}

// ends offers where a queue begins and ends.
func (c *completer) ends(prefix string, r admin.QueueRange) {
	c.offer(prefix+strconv.FormatInt(r.Min, 10), "the first message")
	c.offer(prefix+strconv.FormatInt(r.Max, 10), "behind the last message")
}
