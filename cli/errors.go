package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Message is one error or warning: an element of the JSON envelope's "errors"
// and "warnings", and the labelled lines on stderr. It is also the error type
// of this package.
type Message struct {
	Code     string   `json:"code"`             // stable, for programs
	Target   string   `json:"target,omitempty"` // broker-a/1, a topic, a file
	Addr     string   `json:"addr,omitempty"`   // host:port asked
	Text     string   `json:"message"`          // what happened, with the exact value
	Why      string   `json:"why,omitempty"`    // what is known about the cause
	Try      []string `json:"try,omitempty"`    // commands that can be pasted
	ExitCode int      `json:"exitCode,omitempty"`

	cause   error
	missing *gap     // a value that may be asked for
	after   []string // lines of somebody else's text, printed below
}

func (m *Message) Error() string { return m.Text }

// Unwrap gives the error that was the reason, if there is one.
func (m *Message) Unwrap() error { return m.cause }

// because adds the why line.
func (m *Message) because(format string, args ...any) *Message {
	m.reason(format, args...)
	return m
}

// reason is because as a statement.
func (m *Message) reason(format string, args ...any) { m.Why = fmt.Sprintf(format, args...) }

// try adds things the user can do.
func (m *Message) try(lines ...string) *Message {
	m.offer(lines...)
	return m
}

// offer is try as a statement.
func (m *Message) offer(lines ...string) { m.Try = append(m.Try, lines...) }

// fail makes a Message with an exit code.
func fail(exit int, code, format string, args ...any) *Message {
	return &Message{Code: code, ExitCode: exit, Text: fmt.Sprintf(format, args...)}
}

// usage is a wrong command line: nothing was sent.
func usage(code, format string, args ...any) *Message {
	return fail(ExitUsage, code, format, args...)
}

// warning makes a Message for the warnings of a result.
func warning(code, target, format string, args ...any) Message {
	return Message{Code: code, Target: target, Text: fmt.Sprintf(format, args...)}
}

// lines gives the labelled lines of the text form; label is "error" or "warning".
func (m *Message) lines(label string) []string {
	out := []string{fmt.Sprintf("%-7s %s  [%s]", label, oneLine(m.Text), m.Code)}
	if m.Why != "" {
		out = append(out, fmt.Sprintf("%-7s %s", "why", oneLine(m.Why)))
	}
	if len(m.Try) > 0 {
		out = append(out, fmt.Sprintf("%-7s %s", "try", strings.Join(m.Try, "   or   ")))
	}
	for _, l := range m.after {
		out = append(out, "        "+oneLine(l))
	}
	return out
}

// short is the message within another one: who, where, and what went wrong.
func (m *Message) short() string {
	who := m.Target
	if m.Addr != "" && m.Addr != who {
		who = strings.TrimSpace(who + " " + m.Addr)
	}
	switch m.Code {
	case "NOT_TRIED":
		return m.Target + " not tried"
	case "BROKER_UNREACHABLE", "TIMEOUT":
		if m.cause != nil {
			return who + " " + netReason(m.cause)
		}
	}
	if strings.Contains(m.Text, m.Target) {
		return m.Text
	}
	return who + ": " + m.Text
}

// said reports whether a message that sums others up has all of this one.
func (m *Message) said(sum *Message) bool {
	return m.Why == "" && len(m.Try) == 0 && len(m.after) == 0 && strings.Contains(sum.Text, m.short())
}

// alike makes one message of those that say the same of different targets: one error
// for one cause, even if ten brokers share it.
func alike(list []Message) []Message {
	var out []Message
	first, more := map[string]int{}, map[int][]string{}
	for _, m := range list {
		who := firstOf(m.Target, m.Addr)
		text := m.Text + "\n" + m.Why
		for _, name := range []string{m.Addr, m.Target} {
			if name != "" {
				text = strings.ReplaceAll(text, name, "\x00")
			}
		}
		key := strings.Join(slices.Concat([]string{m.Code, text}, m.Try, m.after), "\n")
		at, is := first[key]
		if !is || who == "" {
			first[key] = len(out)
			out = append(out, m)
		} else if who != firstOf(out[at].Target, out[at].Addr) && !slices.Contains(more[at], who) {
			more[at] = append(more[at], who)
		}
	}
	for at, names := range more {
		text := strings.Join(names, ", ")
		if len(names) > maxNamed {
			text = fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
		}
		out[at].Text += "; the same: " + text
	}
	return out
}

// maxNamed is how many others a message names.
const maxNamed = 5

// oneLine keeps a message of a remote side from breaking the line structure.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// asMessage turns any error into a Message.
func asMessage(err error) *Message {
	var m *Message
	if errors.As(err, &m) {
		return m
	}
	return &Message{Code: "FAILED", ExitCode: ExitFailed, Text: err.Error(), cause: err}
}
