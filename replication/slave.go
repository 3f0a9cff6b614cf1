package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mqctl/store/record"
)

// SlaveOptions of the receiving side.
type SlaveOptions struct {
	Log      Log
	Settings func() *Settings
	Dial     func(ctx context.Context, addr string) (net.Conn, error)
	// Attach asks the master over remoting. ours is false where the master does not
	// know the request (Apache's): then the checks of Foreign are made.
	Attach func(ctx context.Context, master string, r AttachRequest) (reply AttachReply, ours bool, err error)
	// Foreign asks an Apache master for the bounds of its log (28), and for the
	// record at p (33); nil bytes: it has none there. p < 0: only for the bounds.
	Foreign func(ctx context.Context, master string, p record.PhysOffset) (min, end int64, rec []byte, err error)
	Self    func() AttachRequest // who we are; bounds and sums are filled in here
	// Rejoin says that this log was written, in part, by a master of an older epoch
	// (a demoted one), so that a tail which the new master does not have may be set
	// aside. nil: only a master of a higher epoch tells.
	Rejoin func() bool
	// Cut hears that the log was cut or replaced, after it happened. nil: nobody.
	Cut     func()
	Changed func()
	Auth    *Auth
	Now     func() time.Time // as that of MasterOptions; the times of SlaveStatus are its
	Slog    *slog.Logger
}

// Pauses between attempts.
const (
	firstPause   = 50 * time.Millisecond
	foreignPause = 500 * time.Millisecond
	longestPause = 5 * time.Second
	alarmPause   = 10 * time.Second // in a state that time alone seldom heals
	askTime      = 5 * time.Second  // for an answer over remoting
	scoutEvery   = 5 * time.Second
)

// Slave follows a master.
type Slave struct {
	o SlaveOptions

	mu       sync.Mutex // guards what follows
	addr, ha string
	cut      func()        // ends the session
	changed  chan struct{} // closed at the next one
	st       SlaveStatus   // State, Sentence, Aside, DialRefused, CopyFrom, CopyTo, Connected, LostAt

	masterEnd, masterEndAt atomic.Int64
	lastRead, lastWrite    atomic.Int64 // Unix nanoseconds
	bytes, rate            atomic.Int64
}

// NewSlave makes the receiving side; Run works while ctx lives.
func NewSlave(o SlaveOptions) *Slave {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Slog == nil {
		o.Slog = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Rejoin == nil {
		o.Rejoin = func() bool { return false }
	}
	if o.Cut == nil {
		o.Cut = func() {}
	}
	if o.Self == nil {
		o.Self = func() AttachRequest { return AttachRequest{} }
	}
	s := &Slave{o: o, changed: make(chan struct{})}
	s.st.State, s.st.Sentence = Connecting, "waits to hear from a nameserver where its master is"
	return s
}

// SetMaster names the master: its remoting and HA addresses, empty if unknown (the
// last one is still tried). A change ends the connection to the old one.
func (s *Slave) SetMaster(addr, haAddr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if addr == "" {
		addr = s.addr
	}
	if haAddr == "" {
		haAddr = s.ha
	}
	if addr == s.addr && haAddr == s.ha {
		return
	}
	s.addr, s.ha = addr, haAddr
	if s.cut != nil {
		s.cut()
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Waits says why nobody is followed yet, as long as nobody is.
func (s *Slave) Waits(sentence string) {
	if _, ha, _ := s.target(); ha == "" {
		s.setState(Connecting, sentence)
	}
}

// target is whom to follow, and a channel that is closed when that changes.
func (s *Slave) target() (addr, ha string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr, s.ha, s.changed
}

// begin lets SetMaster end the session by cancel; false if it was called since.
func (s *Slave) begin(changed <-chan struct{}, cancel func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cancel
	return changed == (<-chan struct{})(s.changed)
}

// stop is an end of a session that operators have to know about.
type stop struct {
	state    State
	sentence string
	pause    time.Duration
	cause    error
}

func (e *stop) Error() string { return e.sentence }
func (e *stop) Unwrap() error { return e.cause }

func alarm(state State, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &stop{state: state, sentence: err.Error(), pause: alarmPause, cause: errors.Unwrap(err)}
}

// errAgain asks for another session, after the usual pause: should a log ever be
// changed again and again, that is no hot loop.
var errAgain = errors.New("the log was changed to fit the master's")

// Run follows the master given with SetMaster until ctx ends; nothing is appended after it returned.
func (s *Slave) Run(ctx context.Context) error {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		addr, ha, changed := s.target()
		if ha == "" {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		began := s.o.Now()
		ours, err := s.follow(ctx, addr, ha, changed)
		if ctx.Err() != nil {
			break
		}
		least := foreignPause
		if ours {
			least = firstPause
		}
		if s.o.Now().Sub(began) > longestPause {
			pause = 0
		}
		pause = max(least, min(2*pause, longestPause))
		wait := s.ended(err, ha, pause)
		select {
		case <-ctx.Done():
		case <-changed:
			pause = 0
		case <-time.After(wait):
		}
	}
	s.rest()
	return nil
}

// rest forgets what was true of the master that is not followed any more. The next
// Run may follow another one, and nobody may take its log for compared before it was.
func (s *Slave) rest() {
	s.setConnected(false)
	s.mu.Lock()
	s.st.State, s.st.Sentence = Connecting, "follows nobody now"
	s.mu.Unlock()
	s.masterEnd.Store(0)
	s.masterEndAt.Store(0)
}

// ended makes the reason why a session ended visible, and says how long to wait.
func (s *Slave) ended(err error, ha string, pause time.Duration) time.Duration {
	s.setConnected(false)
	var e *stop
	var remote *net.OpError
	errors.As(err, &remote)
	switch {
	case errors.Is(err, errAgain):
	case errors.As(err, &e):
		s.setState(e.state, e.sentence)
		return max(e.pause, pause)
	case alertOf(err):
		// In TLS 1.3 a master refuses our certificate after the handshake has ended here.
		s.setState(Mismatch, fmt.Sprintf("the master at %s refuses this broker's certificate (%v): haTlsCert must be valid now and signed by one of the master's haTlsCa", ha, remote.Err))
		return max(alarmPause, pause)
	case errors.Is(err, syscall.ECONNREFUSED):
		s.setState(Connecting, fmt.Sprintf("nobody listens at the master's HA address %s", ha))
	default:
		s.setState(Connecting, fmt.Sprintf("no connection to the master at %s: %v", ha, err))
	}
	return pause
}

// follow is one session: the checks, the connection, and all that comes over it.
func (s *Slave) follow(ctx context.Context, addr, ha string, changed <-chan struct{}) (ours bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !s.begin(changed, cancel) {
		return false, errAgain
	}
	p, err := s.plan(ctx, addr)
	if err != nil {
		return p.ours, err
	}
	dialCtx, done := context.WithTimeout(ctx, askTime)
	defer done()
	nc, err := s.o.Dial(dialCtx, ha)
	s.setRefused(errors.Is(err, syscall.ECONNREFUSED))
	if err != nil {
		return p.ours, err
	}
	defer nc.Close()
	unhook := context.AfterFunc(ctx, func() { nc.Close() })
	defer unhook()
	io, err := s.o.Auth.dialed(dialCtx, nc, ha)
	if err == nil && (p.ours || s.o.Auth.Keyed()) {
		err = s.o.Auth.greet(io, p.token)
	}
	if errors.Is(err, ErrAuth) {
		return p.ours, alarm(Mismatch, "%w", err)
	}
	if err != nil {
		return p.ours, err
	}
	r := &receiver{s: s, nc: io, plan: p, master: addr}
	return p.ours, r.run(ctx)
}

func (s *Slave) setState(state State, sentence string) {
	s.mu.Lock()
	same := s.st.State == state
	told := same && s.st.Sentence == sentence
	s.st.State, s.st.Sentence = state, sentence
	s.mu.Unlock()
	if told {
		return
	}
	switch {
	case state == Syncing || state == Copying:
		s.o.Slog.Info("replication", "state", string(state), "is", sentence)
	case !same || state != Connecting:
		s.o.Slog.Warn("replication", "state", string(state), "is", sentence)
	}
	s.o.Changed()
}

func (s *Slave) setConnected(on bool) {
	s.mu.Lock()
	was := s.st.Connected
	s.st.Connected = on
	switch {
	case on:
		s.st.LostAt = time.Time{}
	case was:
		s.st.LostAt = s.o.Now()
	}
	if !on {
		s.st.CopyTo = 0
	}
	s.mu.Unlock()
	if was != on {
		s.o.Changed()
	}
}

func (s *Slave) setRefused(on bool) {
	s.mu.Lock()
	s.st.DialRefused = on
	s.mu.Unlock()
}

// setMasterEnd takes notice of where the master's log ends.
func (s *Slave) setMasterEnd(end int64) {
	s.masterEnd.Store(end)
	s.masterEndAt.Store(s.o.Now().UnixNano())
}

// SlaveStatus is the receiving side at one moment.
type SlaveStatus struct {
	State       State
	Sentence    string
	Master, HA  string
	Ours        bool // the master is one of ours
	Connected   bool
	MasterEnd   record.PhysOffset // newest known end of the master's log, and when
	MasterEndAt time.Time
	LastRead    time.Time
	LastWrite   time.Time
	LostAt      time.Time // when the last connection ended; zero while there is one
	DialRefused bool      // the last dial was refused: nobody listens there
	BytesPerSec int64
	CopyFrom    record.PhysOffset
	CopyTo      record.PhysOffset
	Aside       string // where a cut tail or an old log was kept
}

// Status is a snapshot.
func (s *Slave) Status() SlaveStatus {
	s.mu.Lock()
	st := s.st
	st.Master, st.HA = s.addr, s.ha
	s.mu.Unlock()
	st.MasterEnd = record.PhysOffset(s.masterEnd.Load())
	st.MasterEndAt = fromNanos(s.masterEndAt.Load())
	st.LastRead, st.LastWrite = fromNanos(s.lastRead.Load()), fromNanos(s.lastWrite.Load())
	if s.o.Now().Sub(st.LastRead) < 2*time.Second {
		st.BytesPerSec = s.rate.Load()
	}
	return st
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
