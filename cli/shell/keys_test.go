package shell

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// newTestKeys is a keyReader with a pipe for the terminal.
func newTestKeys(t *testing.T) (*keyReader, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	k, err := newKeyReader(int(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = k.Close(), r.Close(); _ = w.Close() })
	return k, w
}

func (k *keyReader) chunk(t *testing.T) string {
	t.Helper()
	var b [4096]byte
	n, err := k.Read(b[:])
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// TestPastedTabs: a tab that was pasted is a blank, one that was pressed is a key.
func TestPastedTabs(t *testing.T) {
	for _, c := range []struct {
		name, typed string
		want        []string
	}{
		{"a key", "gro\t", []string{"gro\t"}},
		{"a key and what is typed behind it", "gro\tg", []string{"gro\t", "g"}},
		{"a pasted line", "!echo\ta\tb\r", []string{"!echo a b\r"}},
		{"two lines, and a key", "\ta\rb\tc\rd\t", []string{" a\r", "b c\r", "d\t"}},
		{"a paste without the end of its line", "\x1b[200~a\tb\x1b[201~\t", []string{"a b", "\t"}},
		{"a paste of several lines", "\x1b[200~a\tb\rc\td\x1b[201~", []string{"a b\r", "c d"}},
		{"a line with a key that is an escape sequence", "a\tb\x1b[Dc\r", []string{"a b", "\x1b", "[Dc\r"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, w := newTestKeys(t)
			k.enable(true)
			if _, err := w.WriteString(c.typed); err != nil {
				t.Fatal(err)
			}
			for i, want := range c.want {
				if got := k.chunk(t); got != want {
					t.Fatalf("chunk %d is %q, want %q", i, got, want)
				}
			}
		})
	}
}

// TestPasteWithoutEnd: a paste whose end somebody else has read is over with the
// next line.
func TestPasteWithoutEnd(t *testing.T) {
	k, w := newTestKeys(t)
	k.enable(true)
	_, _ = w.WriteString("\x1b[200~a\r")
	if got := k.chunk(t); got != "a\r" {
		t.Fatalf("%q", got)
	}
	k.enable(false)
	k.enable(true)
	_, _ = w.WriteString("gro\t")
	if got := k.chunk(t); got != "gro\t" {
		t.Errorf("the Tab key is %q", got)
	}
}

// TestInterruptBehindLine: a Ctrl-C that came while the terminal still took it
// for a key, and that nobody has read yet, is found, although the reader was told
// a moment before to stop waiting.
func TestInterruptBehindLine(t *testing.T) {
	k, w := newTestKeys(t)
	k.enable(true)
	_, _ = w.WriteString("watch version\r")
	if got := k.chunk(t); got != "watch version\r" {
		t.Fatalf("%q", got)
	}
	k.enable(false)
	_, _ = w.WriteString("lost\r\x03kept\r")
	if lines, ok := k.interrupted(); !ok || lines != 1 {
		t.Errorf("interrupted says %d, %v", lines, ok)
	}
	k.enable(true)
	if got := k.chunk(t); got != "kept\r" {
		t.Errorf("behind Ctrl-C is %q", got)
	}
	k.enable(false)
	_, _ = w.WriteString("dropped\rdropped\r")
	if n := k.discard(); n != 2 {
		t.Errorf("discard drops %d lines", n)
	}
}

// TestKeyEndsCompletion: what Tab has begun does not hold up the next key.
func TestKeyEndsCompletion(t *testing.T) {
	for _, c := range []struct {
		name, typed string
		before      bool // the other key is there before the completion begins
		ends        bool
	}{
		{"alone", "gro\t", false, false},
		{"a key behind it", "gro\tx", true, true},
		{"a key while it asks", "gro\tx", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, w := newTestKeys(t)
			k.enable(true)
			_, _ = w.WriteString(c.typed)
			if got := k.chunk(t); !strings.HasSuffix(got, "\t") {
				t.Fatalf("%q", got)
			}
			if c.before {
				k.chunk(t)
			}
			ctx, done := k.untilKey(context.Background())
			defer done()
			if c.ends && !c.before {
				k.chunk(t)
			}
			select {
			case <-ctx.Done():
			default:
				if c.ends {
					select {
					case <-ctx.Done():
					case <-time.After(10 * time.Second):
						t.Error("the next key waits for the completion")
					}
				}
				return
			}
			if !c.ends {
				t.Error("it ends without a key")
			}
		})
	}
}
