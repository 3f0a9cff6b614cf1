package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Statuses that the shell itself gives.
const (
	codeOK          = 0
	codeFailed      = 1
	codeUsage       = 2
	codeNotFound    = 3
	codeInterrupted = 130
)

// Streams are what a command reads and writes, and the environment it sees.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(name string) string
	Focus    Focus
}

// Focus is what "use" has chosen: later commands that name no broker or group
// of their own take it.
type Focus struct{ Broker, Group string }

// Status is what the prompt tells about the cluster.
type Status struct {
	Context   string // "" if none was chosen
	Cluster   string
	Broker    string // broker-a/0
	Role      string // of the broker: ASYNC_MASTER, SLAVE; "" is unknown
	GapBytes  *int64 // of the slave that lacks most; nil is unknown
	Protected bool
}

// Host runs commands of the registry.
type Host interface {
	// Run runs one command and returns its exit status; ctx ends when the user
	// interrupts. words has at least one element.
	Run(ctx context.Context, words []string, s Streams) int
	// Complete gives candidates for the last of words, at once or after a moment.
	Complete(ctx context.Context, words []string, s Streams) []Candidate
	// Status asks the cluster, within the time of ctx.
	Status(ctx context.Context, s Streams) (Status, error)
	// Interrupts calls f with the cause at each interrupt of the user, instead of
	// ending the program, until the returned function is called.
	Interrupts(f func(cause error)) (release func())
	// Interrupt is the cause of an interrupt that came as a key.
	Interrupt() error
	// Check refuses a value of a setting that cannot be right.
	Check(setting, value string, s Streams) error
	// Help is the text of "help" without a name.
	Help() string
}

// Options of a Session.
type Options struct {
	Host     Host
	Streams  Streams
	History  *History
	KeepOn   bool // scripts: go on after failures, end with the worst status
	Colour   bool // of the prompt
	UTF8     bool // signs beyond ASCII may be printed
	Dumb     bool // the terminal knows no escape sequences
	Now      func() time.Time
	Settings map[string]string // of "set": name to variable of the environment
}

// Session is one run of the shell: its settings, its last status. It is not
// safe for use by several goroutines.
type Session struct {
	o           Options
	status      int
	worst       int
	depth       int // of source
	focus       Focus
	vars        map[string]string // of set, connect and context use, by variable
	aliases     map[string]string
	interactive bool
	sourcing    bool // a file within the shell
	editor      LineEditor
	stopOnError bool // set -e
	left        bool // exit was called
	watcher     *watcher
	signalJob   func() // SIGINT to all processes of the job

	stray   atomic.Pointer[error]          // the cause of a Ctrl-C that came when no command took it
	pressed atomic.Bool                    // Ctrl-C, since the last line was read
	again   atomic.Bool                    // the next one is known already
	early   atomic.Pointer[earlyInterrupt] // of the program that is being started
	dropped atomic.Int64                   // lines that Ctrl-C took from what was typed ahead
}

// New makes a session.
func New(o Options) *Session {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Session{o: o, vars: map[string]string{}, aliases: map[string]string{}, signalJob: func() { _ = syscall.Kill(0, syscall.SIGINT) }}
}

// env is the environment with the session's own settings in front.
func (s *Session) env(name string) string {
	if v, ok := s.vars[name]; ok {
		return v
	}
	return s.o.Streams.Env(name)
}

// streams are those of a command of this session.
func (s *Session) streams() Streams {
	t := s.o.Streams
	t.Env, t.Focus = s.env, s.focus
	return t
}

// say writes a line of the shell itself.
func (s *Session) say(format string, args ...any) {
	fmt.Fprintf(s.o.Streams.Err, format+"\n", args...)
}

// fail says what was wrong in the form of all errors of mqctl.
func (s *Session) fail(code int, id, format string, args ...any) int {
	s.say("error   "+format+"  ["+id+"]", args...)
	return code
}

// errExit ends the session: exit was called.
var errExit = errors.New("exit")

// Script runs text to its end or to the first failure, and returns the status:
// that of the failed command, or the worst one if the session keeps on.
func (s *Session) Script(ctx context.Context, text io.Reader, name string) int {
	code := s.script(ctx, text, name)
	if s.o.KeepOn && !s.left {
		return s.worst
	}
	return code
}

func (s *Session) script(ctx context.Context, text io.Reader, name string) int {
	in := NewPlain(text, nil)
	unfinished, line, begin := "", 0, 1
	for ctx.Err() == nil {
		part, err := in.ReadLine("")
		if errors.Is(err, io.EOF) {
			if unfinished != "" {
				return s.fail(codeUsage, "BAD_SCRIPT", "%s:%d: the command is not finished at the end", name, begin)
			}
			return s.status
		}
		if err != nil {
			return s.fail(codeFailed, "BAD_SCRIPT", "%s: %v", name, err)
		}
		if line++; unfinished == "" {
			begin = line
		}
		commands, err := Parse(unfinished + part)
		if errors.Is(err, ErrIncomplete) {
			unfinished += part + "\n"
			continue
		}
		unfinished = ""
		if err != nil {
			s.status = s.syntax(err, name, begin)
			s.worst = max(s.worst, s.status)
		} else if errors.Is(s.list(ctx, commands), errExit) {
			return s.status
		}
		if s.status != codeOK && !s.o.KeepOn {
			return s.status
		}
	}
	return codeInterrupted
}

func (s *Session) syntax(err error, name string, begin int) int {
	var wrong *SyntaxError
	if errors.As(err, &wrong) && name != "" {
		return s.fail(codeUsage, "BAD_SCRIPT", "%s:%d: %s", name, begin+wrong.Line-1, wrong.Text)
	}
	return s.fail(codeUsage, "BAD_LINE", "%v", err)
}

// list runs the commands of one text. In a script it ends with the first list of
// && and || that failed.
func (s *Session) list(ctx context.Context, commands []Command) error {
	for i, c := range commands {
		if c.Join == And && s.status != codeOK || c.Join == Or && s.status == codeOK {
			continue
		}
		var err error
		s.status, err = s.command(ctx, c)
		s.worst = max(s.worst, s.status)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		ends := i+1 == len(commands) || commands[i+1].Join == Always
		if ends && s.status != codeOK && s.stops() {
			return nil
		}
		if s.interactive && s.pressed.Load() {
			return nil // Ctrl-C ends the whole line
		}
	}
	return nil
}

// stops reports whether a failure ends what is being run.
func (s *Session) stops() bool {
	if s.interactive && !s.sourcing {
		return s.stopOnError
	}
	return !s.o.KeepOn
}

// command runs one command with its pipe or file.
func (s *Session) command(ctx context.Context, c Command) (int, error) {
	if c.System != "" {
		return s.system(ctx, c.System, s.o.Streams.In), nil
	}
	words := make([]string, len(c.Words))
	for i, w := range c.Words {
		words[i] = w.Text(s.variable)
	}
	words, err := s.unalias(unprefixed(words))
	if err != nil {
		return s.fail(codeUsage, "BAD_ALIAS", "%v", err), nil
	}
	out := s.streams()
	switch {
	case c.File != nil:
		return s.toFile(ctx, words, out, c)
	case c.Pipe != "":
		return s.toPipe(ctx, words, out, c.Pipe)
	}
	return s.run(ctx, words, out)
}

// variable is $NAME and $?.
func (s *Session) variable(name string) string {
	if name == "?" {
		return strconv.Itoa(s.status)
	}
	return s.env(name)
}

func (s *Session) toFile(ctx context.Context, words []string, out Streams, c Command) (int, error) {
	flag := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if c.Append {
		flag = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	f, err := os.OpenFile(c.File.Text(s.variable), flag, 0o644)
	if err != nil {
		return s.fail(codeFailed, "BAD_FILE", "%v", err), nil
	}
	out.Out = f
	code, exit := s.run(ctx, words, out)
	if err := f.Close(); err != nil && code == codeOK {
		code = s.fail(codeFailed, "BAD_FILE", "%v", err)
	}
	return code, exit
}

// toPipe runs a command with its result going to a program. The status is the
// command's, or, if that is 0, the program's.
func (s *Session) toPipe(ctx context.Context, words []string, out Streams, text string) (int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return s.fail(codeFailed, "NO_PIPE", "%v", err), nil
	}
	early := s.earlyInterrupts()
	defer early.end()
	cmd := s.program(text, r)
	err = cmd.Start()
	_ = r.Close() // the program has its own
	if err != nil {
		_ = w.Close()
		return s.fail(codeFailed, "NOT_STARTED", "the system's shell cannot be started: %v", err), nil
	}
	early.begin(s.o.Now())
	out.Out = w
	code, exit := s.run(ctx, words, out)
	_ = w.Close() // now the program comes to its end
	if other := s.programStatus(await(ctx, cmd)); code == codeOK {
		code = other
	}
	return code, exit
}

// program is a text for the system's shell.
func (s *Session) program(text string, in io.Reader) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", text)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, s.o.Streams.Out, s.o.Streams.Err
	return cmd
}

func (s *Session) system(ctx context.Context, text string, in io.Reader) int {
	cmd := s.program(text, in)
	if !s.interactive {
		cmd = exec.CommandContext(ctx, "/bin/sh", "-c", text)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, s.o.Streams.Out, s.o.Streams.Err
	}
	early := s.earlyInterrupts()
	defer early.end()
	release := s.interrupts(func(error) {}) // the terminal sends Ctrl-C to the program too
	defer release()
	if s.interactive && s.stray.Swap(nil) != nil {
		return codeInterrupted
	}
	if err := cmd.Start(); err != nil {
		return s.programStatus(err)
	}
	early.begin(s.o.Now())
	return s.programStatus(await(ctx, cmd))
}

// endGrace is how long a program may go on when the shell itself is to end.
const endGrace = time.Second

// await waits for a program, and ends it when ctx has ended and it does not do so
// by itself: the shell was sent a signal that the program has not got.
func await(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan struct{})
	defer close(ended)
	defer context.AfterFunc(ctx, func() {
		late := time.NewTimer(endGrace)
		defer late.Stop()
		select {
		case <-ended:
		case <-late.C:
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
		}
	})()
	return cmd.Wait()
}

// earlyInterrupt repeats a Ctrl-C that came before there was a program for it: the
// terminal gave it to the shell alone, and the program would run on. So would what
// a system's shell starts that was itself about to begin: dash then waits for a
// program that Ctrl-C has missed. Hence pauses, after each of which it is repeated
// unless the program has ended.
type earlyInterrupt struct {
	again   func() // gives it to the whole job
	pauses  []time.Duration
	release func() // nobody tells of interrupts any more; may be nil

	mu    sync.Mutex
	begun time.Time // of the program; zero: not yet
	came  bool      // before that
	done  bool      // again was called; it comes here as well
	ended bool
}

// earlyInterrupts watches for a Ctrl-C that comes too early for a program that is
// about to be started, whoever takes it. Scripts end as a whole.
func (s *Session) earlyInterrupts() *earlyInterrupt {
	e := &earlyInterrupt{again: s.interruptJob, pauses: []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond}}
	if s.interactive {
		s.early.Store(e)
		e.release = func() { s.early.CompareAndSwap(e, nil) }
		if s.pressed.Load() {
			e.interrupt(s.o.Now())
		}
	}
	return e
}

// interruptsMayLag is how long after the program's begin we may learn of a Ctrl-C
// that came before it. For the program a second one so early is as the first.
const interruptsMayLag = time.Second

func (e *earlyInterrupt) interrupt(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.came = true
	if !e.begun.IsZero() && now.Sub(e.begun) < interruptsMayLag {
		e.repeat()
	}
}

func (e *earlyInterrupt) begin(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = now
	if e.came {
		e.repeat()
	}
}

func (e *earlyInterrupt) repeat() {
	if !e.done {
		e.done = true
		e.press(e.pauses)
	}
}

// press calls again now and after each of the pauses. e.mu is held.
func (e *earlyInterrupt) press(pauses []time.Duration) {
	e.again()
	if len(pauses) == 0 {
		return
	}
	time.AfterFunc(pauses[0], func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !e.ended {
			e.press(pauses[1:])
		}
	})
}

// end tells that the program has ended.
func (e *earlyInterrupt) end() {
	if e.release != nil {
		e.release()
	}
	e.mu.Lock()
	e.ended = true
	e.mu.Unlock()
}

// interruptJob does what the terminal does at Ctrl-C.
func (s *Session) interruptJob() {
	s.again.Store(true)
	s.signalJob()
}

func (s *Session) programStatus(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return codeOK
	case errors.As(err, &exit) && exit.ExitCode() >= 0 && exit.ExitCode() != codeInterrupted:
		return exit.ExitCode()
	case errors.As(err, &exit):
		if !s.pressed.Load() { // the program has heard of Ctrl-C before us
			s.again.Store(true)
			s.press()
		}
		return codeInterrupted
	}
	return s.fail(codeFailed, "NOT_STARTED", "the system's shell cannot be run: %v", err)
}

// unalias replaces the first word by what it stands for, also behind watch, time
// and repeat.
func (s *Session) unalias(words []string) ([]string, error) {
	rest := commandWords(words)
	text, ok := s.aliases[rest[0]]
	if !ok {
		return words, nil
	}
	commands, err := Parse(text)
	if err != nil || len(commands) != 1 || commands[0].Pipe != "" || commands[0].File != nil || commands[0].System != "" {
		return nil, fmt.Errorf("the alias %s is no single command: %s", rest[0], text)
	}
	out := slices.Clone(words[:len(words)-len(rest)])
	for _, w := range commands[0].Words {
		out = append(out, w.Text(s.variable))
	}
	return append(out, rest[1:]...), nil
}

// unprefixed drops the name of the program from a line that was written for another shell.
func unprefixed(words []string) []string {
	if len(words) > 1 && words[0] == "mqctl" {
		return words[1:]
	}
	return words
}

// run runs a built-in or a command of the host.
func (s *Session) run(ctx context.Context, words []string, out Streams) (int, error) {
	if b := builtins[words[0]]; b.run != nil && (b.own == nil || b.own(words)) {
		return b.run(ctx, s, words, out)
	}
	return s.host(ctx, words, out), nil
}

// host runs a command of the host that Ctrl-C ends.
func (s *Session) host(ctx context.Context, words []string, out Streams) int {
	ctx, done := s.interruptible(ctx)
	defer done()
	code := s.o.Host.Run(ctx, words, out)
	if s.watcher != nil {
		s.watcher.refresh()
	}
	return code
}

// interrupts gives each Ctrl-C that is news to f.
func (s *Session) interrupts(f func(cause error)) (release func()) {
	return s.o.Host.Interrupts(func(cause error) {
		if !s.again.Swap(false) {
			s.press()
			if e := s.early.Load(); e != nil {
				e.interrupt(s.o.Now())
			}
			f(cause)
		}
	})
}

// press is Ctrl-C: what was typed before it is dropped.
func (s *Session) press() {
	s.pressed.Store(true)
	if s.interactive {
		s.dropped.Add(int64(s.editor.Discard(false)))
	}
}

// inside marks a context that Ctrl-C ends already.
type inside struct{}

// interruptible is a context that Ctrl-C ends while the shell lives on. Scripts
// end with the program's own context.
func (s *Session) interruptible(ctx context.Context) (context.Context, func()) {
	if !s.interactive || ctx.Value(inside{}) != nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, inside{}, true))
	release := s.interrupts(cancel)
	if cause := s.stray.Swap(nil); cause != nil {
		cancel(*cause)
	}
	return ctx, func() { release(); cancel(nil) }
}
