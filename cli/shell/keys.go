package shell

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/chzyer/readline"
	"golang.org/x/sys/unix"
)

// keyReader stands between the terminal and the line editor. It reads only while
// a line is being read, gives out at most one line at a time, so that what was
// pasted behind it stays here, and rewrites the keys that the editor does not
// know: Home and End of tmux (ESC [1~, ESC [4~, also 7 and 8) become ESC [H and
// ESC [F, and what brackets a paste is dropped. A tab that was pasted is a blank
// and no key: it would complete words, and a tab between two of them join them.
// Pasted is what stands in the brackets of a paste, and, as not every terminal
// has them, a line that came with its end.
type keyReader struct {
	fd   int
	wake [2]int // a pipe: a byte ends a wait

	mu     sync.Mutex
	cond   *sync.Cond
	active bool
	closed bool
	pasted bool   // a paste has begun
	tabbed bool   // the last key that was given out is a Tab: somebody may wait for what it does
	hurry  func() // called when another key is given out; may be nil
	buf    []byte // read, not given out
}

func newKeyReader(fd int) (*keyReader, error) {
	k := &keyReader{fd: fd}
	k.cond = sync.NewCond(&k.mu)
	if err := unix.Pipe(k.wake[:]); err != nil { // pipe2 is not everywhere
		return nil, err
	}
	for _, end := range k.wake {
		unix.CloseOnExec(end)
		if err := unix.SetNonblock(end, true); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// enable starts and stops reading.
func (k *keyReader) enable(on bool) {
	if on && k.ahead() == 0 && k.fill(0) == nil && k.ahead() == 0 {
		k.unbracket() // whatever has taken the end of a paste
	}
	k.mu.Lock()
	k.active = on
	k.cond.Broadcast()
	k.mu.Unlock()
	if !on {
		k.rouse()
	}
}

// rouse ends the wait for a key; a pipe that is full does so already.
func (k *keyReader) rouse() { _, _ = unix.Write(k.wake[1], []byte{0}) }

// Read waits for keys.
func (k *keyReader) Read(b []byte) (int, error) {
	for {
		k.mu.Lock()
		for !k.active && !k.closed {
			k.cond.Wait()
		}
		if k.closed {
			k.mu.Unlock()
			return 0, io.EOF
		}
		if n := k.give(b); n > 0 {
			k.mu.Unlock()
			return n, nil
		}
		k.mu.Unlock()
		if err := k.fill(-1); err != nil {
			return 0, err
		}
	}
}

// give hands out the keys of at most one line. k.mu is held.
func (k *keyReader) give(b []byte) int {
	for {
		n, skip, key := nextKeys(k.buf)
		if n == 0 && skip == 0 {
			return 0
		}
		if key == "" && n > 0 {
			n = copy(b, k.buf[:n])
			if k.pasted || lineEnd(k.buf[n-1]) || bytes.ContainsAny(k.buf[n:], "\r\n") {
				blankTabs(b[:n])
			} else if at := bytes.IndexByte(b[:n], '\t'); at >= 0 {
				n = at + 1 // what is behind a Tab is the next key
			}
			k.buf = k.buf[n:]
			k.given(b[:n])
			return n
		}
		if bytes.HasPrefix(k.buf, []byte(pasteBegins)) {
			k.pasted = true
		} else if bytes.HasPrefix(k.buf, []byte(pasteEnds)) {
			k.pasted = false
		}
		k.buf = k.buf[skip:]
		if key != "" {
			k.given([]byte(key))
			return copy(b, key)
		}
	}
}

// given notes what is given out. k.mu is held.
func (k *keyReader) given(b []byte) {
	if k.hurry != nil {
		k.hurry()
	}
	k.tabbed = b[len(b)-1] == '\t'
}

// untilKey is a context for what a Tab has begun: it ends when the next key is
// there, perhaps at once.
func (k *keyReader) untilKey(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.tabbed {
		cancel()
	}
	k.hurry = cancel
	return ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.hurry = nil
		cancel()
	}
}

func lineEnd(c byte) bool { return c == '\r' || c == '\n' }

// blankTabs makes blanks of tabs.
func blankTabs(b []byte) {
	for i, c := range b {
		if c == '\t' {
			b[i] = ' '
		}
	}
}

// unbracket takes a paste for ended: nothing comes from it any more.
func (k *keyReader) unbracket() {
	k.mu.Lock()
	k.pasted = false
	k.mu.Unlock()
}

// What a terminal puts around a paste, when it was asked for it.
const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
)

// rewritten are the keys that the editor does not know.
var rewritten = map[string]string{
	"\x1b[1~": "\x1b[H", "\x1b[7~": "\x1b[H", "\x1b[4~": "\x1b[F", "\x1b[8~": "\x1b[F", pasteBegins: "", pasteEnds: "",
}

// nextKeys looks at the beginning of b: n bytes that may be given out as they
// are, or skip bytes that stand for key ("" for none). Nothing of both means
// that b is empty or the beginning of a key.
func nextKeys(b []byte) (n, skip int, key string) {
	if len(b) == 0 {
		return 0, 0, ""
	}
	if b[0] == 0x1b {
		for from, to := range rewritten {
			if bytes.HasPrefix(b, []byte(from)) {
				return 0, len(from), to
			}
		}
		if unfinished(b) {
			return 0, 0, ""
		}
		return 1, 0, ""
	}
	for i, c := range b {
		switch c {
		case '\r', '\n':
			return i + 1, 0, ""
		case 0x1b:
			return i, 0, ""
		}
	}
	return len(b), 0, ""
}

// unfinished tells the beginning of a key that is rewritten. A lone ESC is a key.
func unfinished(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	for from := range rewritten {
		if len(b) < len(from) && bytes.HasPrefix([]byte(from), b) {
			return true
		}
	}
	return false
}

// fill waits for input for some milliseconds (-1: without end, or until somebody
// rouses it) and takes it.
func (k *keyReader) fill(millis int) error {
	fds := []unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}, {Fd: int32(k.wake[0]), Events: unix.POLLIN}}
	if millis >= 0 {
		fds[1].Fd = -1 // a byte for whoever waits without end is none for this look
	}
	if _, err := unix.Poll(fds, millis); err != nil && err != unix.EINTR {
		return err
	}
	if fds[1].Revents != 0 {
		var drop [64]byte
		_, _ = unix.Read(k.wake[0], drop[:]) // only a wake-up
		return nil
	}
	if fds[0].Revents == 0 {
		return nil
	}
	var in [4096]byte
	n, err := unix.Read(k.fd, in[:])
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
		return nil
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	}
	k.mu.Lock()
	k.buf = append(k.buf, in[:n]...)
	k.mu.Unlock()
	return nil
}

// mostAhead bounds what is looked at ahead of the line that is being read.
const mostAhead = 1 << 20

// interrupted reports whether a Ctrl-C is among what was typed behind the line
// that was read last, while the terminal still took it for a key like others. It
// drops it with all before it, as the terminal does, and returns the number of
// lines of that. Nobody may be reading.
func (k *keyReader) interrupted() (lines int, ok bool) {
	for had := -1; had < k.ahead() && k.ahead() < mostAhead; {
		had = k.ahead()
		if k.fill(0) != nil {
			break // the next line meets it again
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	at := bytes.LastIndexByte(k.buf, readline.CharInterrupt)
	if at >= 0 {
		k.pasted = false
	}
	lines = countLines(k.buf[:at+1])
	k.buf = k.buf[at+1:]
	return lines, at >= 0
}

// ahead is the number of bytes that were read and not given out.
func (k *keyReader) ahead() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.buf)
}

func countLines(b []byte) int { return bytes.Count(b, []byte("\r")) + bytes.Count(b, []byte("\n")) }

// forget drops what was read already, and returns the number of its lines.
func (k *keyReader) forget() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	lines := countLines(k.buf)
	k.buf, k.pasted = nil, false
	return lines
}

// discard drops what is there and what still comes without a pause, and returns
// the number of its lines. Nobody may be reading.
func (k *keyReader) discard() int {
	lines := 0
	for {
		had := k.ahead()
		lines += k.forget()
		if k.fill(50) != nil {
			return lines
		}
		if had == 0 && k.ahead() == 0 {
			return lines
		}
	}
}

// Close ends all reading for good.
func (k *keyReader) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.closed = true
		k.cond.Broadcast()
		k.rouse()
	}
	return nil
}
