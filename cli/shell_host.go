package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"mqctl/cli/admin"
	"mqctl/cli/shell"
)

// shellSettings are the names that "set" of the shell knows, and the variables of
// the environment that they stand for.
var shellSettings = map[string]string{
	"output": "MQCTL_OUTPUT", "timeout": "MQCTL_TIMEOUT", "deadline": "MQCTL_DEADLINE", "units": "MQCTL_UNITS", "time": "MQCTL_TIME",
	"color": "MQCTL_COLOR", "cluster": "MQCTL_CLUSTER", "namesrv": "MQCTL_NAMESRV", "context": "MQCTL_CONTEXT", "yes": "MQCTL_YES",
	"dry-run": "MQCTL_DRY_RUN", "reason": "MQCTL_REASON",
}

// session runs the commands of a shell in this process. It keeps the connections
// of all of them, so that a command costs no new one.
//
// Goroutines: one for each question of completion that is under way, which close
// ends and awaits.
type session struct {
	keys *interrupts
	io   Stdio
	ctx  context.Context //nolint:containedctx // of the questions of completion
	end  context.CancelFunc
	asks sync.WaitGroup

	mu      sync.Mutex
	ended   bool
	clients map[string]*admin.Client
	names   map[string]*liveNames
}

func newSession(ctx context.Context, io Stdio) *session {
	s := &session{keys: interruptsOf(ctx), io: io, clients: map[string]*admin.Client{}, names: map[string]*liveNames{}}
	s.ctx, s.end = context.WithCancel(ctx)
	return s
}

// mostClients bounds the connections that other settings leave behind.
const mostClients = 16

// client is the one for these options, made at first use.
func (s *session) client(active string, o admin.Options) *admin.Client {
	key := fmt.Sprintf("%q %q %v %d %d %q %q", active, o.Nameservers, o.Timeout, o.Retries, o.Parallel, o.AccessKey, o.SecretKey)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[key]; c != nil {
		return c
	}
	if len(s.clients) >= mostClients {
		s.closeAll()
	}
	c := admin.New(o)
	s.clients[key] = c
	return c
}

// closeAll ends all connections; a command that is using one asks again.
func (s *session) closeAll() {
	for key, c := range s.clients {
		c.Close()
		delete(s.clients, key)
	}
}

func (s *session) close() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.end()
	s.asks.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeAll()
}

// keeps reports whether the client stays open when a command has ended.
func (s *session) keeps(c *admin.Client) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, own := range s.clients {
		if own == c {
			return true
		}
	}
	return false
}

func (s *session) stdio(t shell.Streams) Stdio {
	return Stdio{In: t.In, Out: t.Out, Err: t.Err, Env: t.Env, session: s}
}

// Run is one command of the shell.
func (s *session) Run(ctx context.Context, words []string, t shell.Streams) int {
	io := s.stdio(t)
	io.focus = t.Focus
	return Run(ctx, append([]string{"mqctl"}, words...), io)
}

// Interrupts gives Ctrl-C to f.
func (s *session) Interrupts(f func(cause error)) func() { return s.keys.take(f) }

// Interrupt is the cause of a Ctrl-C that came as a key.
func (s *session) Interrupt() error { return interruptedBy(syscall.SIGINT) }

// Complete asks the completion that all shells use.
func (s *session) Complete(ctx context.Context, words []string, t shell.Streams) []shell.Candidate {
	io := s.stdio(t)
	var out bytes.Buffer
	io.Out = &out
	complete(ctx, words, io)
	var all []shell.Candidate
	for _, w := range candidateLines(out.String()) {
		all = append(all, shell.Candidate{Word: w[0], Text: w[1]})
	}
	return all
}

// Check refuses a context that does not exist and addresses that are none.
func (s *session) Check(setting, value string, t shell.Streams) error {
	switch setting {
	case "namesrv":
		_, err := addresses([]string{value})
		return err
	case "context":
		f, err := loadClientFile(t.Env)
		if err != nil {
			return err
		}
		if f.Contexts[value] == nil {
			return fmt.Errorf("there is no context %q; there are: %s", value, strings.Join(f.names(), ", "))
		}
	}
	return nil
}

// Help is the text of help.
func (s *session) Help() string { return shellHelp() }

// Status is what the prompt tells: one question about the cluster and one to the
// broker of the focus, else to the first master.
func (s *session) Status(ctx context.Context, t shell.Streams) (shell.Status, error) {
	c, err := quietCall(s.stdio(t), map[string][]string{"timeout": {"300ms"}, "retries": {"0"}})
	defer c.release()
	if err != nil {
		return shell.Status{}, err
	}
	st := shell.Status{Context: c.active.Name, Protected: c.active.Protected}
	view, err := c.client.Cluster(ctx)
	if err != nil {
		return st, err
	}
	name := c.str("cluster")
	if all := view.Names(); name == "" && len(all) == 1 {
		name = all[0]
	}
	st.Cluster = name
	sel := admin.Selector{Cluster: name, Broker: t.Focus.Broker}
	targets, err := view.Targets(sel)
	if err != nil || len(targets) == 0 {
		return st, nil // the cluster is known, and nothing more
	}
	target := targets[0]
	st.Broker = target.String()
	ha, err := c.client.InspectHA(ctx, target.Addr)
	if err == nil {
		st.Role = ha.Role
		for _, peer := range ha.Slaves {
			st.GapBytes = ptr(max(peer.GapBytes, orZero(st.GapBytes)))
		}
		if f := ha.Following; f != nil && f.Connected {
			st.GapBytes = ptr(max(0, f.MasterEnd-ha.Max))
		}
		return st, nil
	}
	old, err := c.client.HAStatus(ctx, target.Addr)
	if err != nil {
		return st, nil
	}
	st.Role = "SLAVE"
	if old.Master {
		st.Role = "ASYNC_MASTER"
	}
	for _, peer := range old.Peers {
		st.GapBytes = ptr(max(peer.Diff, orZero(st.GapBytes)))
	}
	return st, nil
}

// liveNames are names of a cluster that completion asked for.
type liveNames struct {
	words  [][2]string   // word and description
	at     time.Time     // of the answer
	asking chan struct{} // of the question under way, closed at its end; nil: none
	begun  time.Time     // of that question
}

// liveAge is how long names are offered without asking again.
func liveAge(what string) time.Duration {
	if what == "broker" || what == "cluster" {
		return 5 * time.Second
	}
	return 30 * time.Second
}

// mostNames bounds the lists that are kept.
const mostNames = 64

// live gives the names of a key. When they are old it asks, and waits for the
// answer until the question is as old as patience or ctx ends; the question goes
// on, so that a slow cluster is waited for once and not at each Tab.
func (s *session) live(ctx context.Context, key, what string, patience time.Duration, ask func(ctx context.Context) string) [][2]string {
	n, asking, begun := s.askLive(key, what, ask)
	if asking != nil {
		late := time.NewTimer(time.Until(begun.Add(patience)))
		defer late.Stop()
		select {
		case <-asking:
		case <-late.C:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return n.words
}

// askLive begins to ask unless the names are fresh or it is being asked.
func (s *session) askLive(key, what string, ask func(ctx context.Context) string) (n *liveNames, asking chan struct{}, begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = s.names[key]
	if n == nil {
		if len(s.names) >= mostNames {
			clear(s.names)
		}
		n = &liveNames{}
		s.names[key] = n
	}
	if s.ended || !n.at.IsZero() && time.Since(n.at) < liveAge(what) {
		return n, nil, begun
	}
	if n.asking == nil {
		n.asking, n.begun = make(chan struct{}), time.Now()
		s.asks.Add(1)
		go func(done chan struct{}) {
			defer s.asks.Done()
			defer close(done)
			lines := ask(s.ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			if n.asking = nil; lines != "" {
				n.words, n.at = candidateLines(lines), time.Now()
			}
		}(n.asking)
	}
	return n, n.asking, n.begun
}
