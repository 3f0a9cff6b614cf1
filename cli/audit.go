package cli

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mqctl/store/vfs"
)

// The audit file has one JSON object a line for each command that changed
// something: when, what was called, why (--reason), and each thing before and
// after. Only its owner may read it, and secrets are never in it. undo reads it.

// auditEntry is one line.
type auditEntry struct {
	At      string       `json:"at"`
	Context *string      `json:"context"`
	Command []string     `json:"command"`
	Reason  string       `json:"reason"`
	Items   []auditThing `json:"items"`
	UndoID  *string      `json:"undoId"` // null when there is nothing that could be put back
	Undoes  *string      `json:"undoes"` // the id of the change that this one took back
	Result  string       `json:"result" enum:"APPLIED|PARTIAL|FAILED|ROLLED_BACK"`

	Namesrv []string `json:"namesrv"`
	Undone  bool     `json:"undone,omitempty"` // in lists only: a later change took it back
}

// auditThing is one thing at one target. Before and After are whole values, or
// of topics and groups the settings that changed; null where the thing did not
// exist.
type auditThing struct {
	Target string          `json:"target"` // broker-a/0, or a nameserver's address
	Addr   string          `json:"addr"`
	Key    string          `json:"key"` // group/NAME topic/NAME offset/GROUP/TOPIC/QUEUE config/KEY kv/NAMESPACE/KEY mode/GROUP/TOPIC, else free text
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// auditOff switches the file off, in MQCTL_AUDIT.
const auditOff = "off"

// auditPath is MQCTL_AUDIT, the file that the client file names, or
// ~/.local/state/mqctl/audit.jsonl; "" when it is off.
func (c *call) auditPath() string {
	p := c.io.Env("MQCTL_AUDIT")
	if p == "" && !c.context().Audit || p == auditOff {
		return ""
	}
	if p == "" {
		p = c.context().AuditFile
	}
	if p != "" {
		return p
	}
	return filepath.Join(stateDir(c.io.Env), "audit.jsonl")
}

// rawJSON is v as JSON; null if it cannot be written.
func rawJSON(v any) json.RawMessage {
	b, err := marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

// secretThing reports whether the key of a thing names a value that is kept out of
// the file. Topics, groups and users may be called anything.
func secretThing(key string) bool {
	kind, name, _ := strings.Cut(key, "/")
	switch kind {
	case kindTopic, kindGroup, kindOffset, kindMode, kindUser, kindACL, kindCold:
		return false
	}
	return secretWord(name)
}

const hiddenValue = "(not kept)"

// note writes the audit line of what r says was done.
func (c *call) note(r *result, things []auditThing) {
	r.noted = true
	path := c.auditPath()
	if path == "" {
		return
	}
	e := auditEntry{At: stamp(time.Now()), Command: c.spelled(), Reason: c.str("reason"), Items: []auditThing{}, Result: "APPLIED", Namesrv: []string{}}
	if name := c.contextName(); name != "" {
		e.Context = &name
	}
	if c.client != nil {
		e.Namesrv = c.client.Nameservers()
	}
	undoable := false
	for _, t := range things {
		if secretThing(t.Key) {
			t.Before, t.After = rawJSON(hiddenValue), rawJSON(hiddenValue)
		} else if undoKind(t.Key) && noWayBack(t.Key, stateFrom(t.Before) != nil, stateFrom(t.After) != nil) == "" {
			undoable = true
		}
		e.Items = append(e.Items, t)
	}
	switch {
	case r.rolledBack && len(things) == 0:
		e.Result = "ROLLED_BACK"
	case len(r.errors) > 0 && r.change.Applied:
		e.Result = "PARTIAL"
	case len(r.errors) > 0:
		e.Result = "FAILED"
	}
	if undoable {
		e.UndoID = ptr(newUndoID())
	}
	if r.undoes != "" {
		e.Undoes = &r.undoes
	}
	if err := appendAudit(path, &e); err != nil {
		r.warn(warning("AUDIT_FAILED", "", "the change was made, but not noted in %s: %v", path, err))
		return
	}
	r.change.UndoID = e.UndoID
}

// noteOthers writes the audit line of a command that has no plan.
func (c *call) noteOthers(r *result) {
	if r == nil || r.change == nil || !r.change.Applied || r.noted || !c.cmd.is(mutates) {
		return
	}
	var things []auditThing
	for _, item := range r.items {
		t := auditThing{Key: c.cmd.name(c.cmd.path == ""), Before: rawJSON(lookup(item, "before")), After: rawJSON(lookup(item, "after"))}
		for _, name := range []string{"broker", "namesrv", "target"} {
			if text, ok := lookup(item, name).(string); ok && t.Target == "" {
				t.Target = text
			}
		}
		t.Addr, _ = lookup(item, "addr").(string)
		things = append(things, t)
	}
	c.note(r, things)
}

func newUndoID() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// shownArg is an argument without a secret.
func (c *call) shownArg(i int, a string) string {
	if i == 1 && c.cmd.args == "KEY VALUE" && secretWord(c.args[0]) {
		return hiddenValue
	}
	if key, _, ok := strings.Cut(a, "="); ok && secretWord(key) {
		return key + "=" + hiddenValue
	}
	return a
}

// spelled is the command line for the audit file, without secrets.
func (c *call) spelled() []string {
	out := strings.Fields(c.cmd.name(c.old))
	for _, f := range c.vocab.flags {
		for _, v := range c.values[f.key] {
			if secretWord(f.key) {
				v = hiddenValue
			}
			out = append(out, "--"+f.key+"="+v)
		}
	}
	for i, a := range c.args {
		out = append(out, c.shownArg(i, a))
	}
	if c.given("key") && secretWord(c.str("key")) {
		for i, w := range out {
			if strings.HasPrefix(w, "--value=") {
				out[i] = "--value=" + hiddenValue
			}
		}
	}
	return out
}

// appendAudit adds a line; the file is made for its owner alone.
func appendAudit(path string, e *auditEntry) error {
	b, err := marshal(e)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := vfs.CheckFile(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 && info.Mode().IsRegular() {
		err = f.Chmod(0o600)
	}
	if err == nil {
		_, err = f.Write(append(b, '\n'))
	}
	return errors.Join(err, f.Close())
}

// maxAuditLine bounds one line of the audit file in bytes; longer ones are skipped.
const maxAuditLine = 64 << 20

// readAudit reads the audit file, oldest first. Lines that cannot be read are counted.
func readAudit(path string) (entries []auditEntry, damaged int, err error) {
	if err := vfs.CheckFile(path); err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := readLine(in, maxAuditLine)
		if len(line) > 0 {
			var e auditEntry
			if json.Unmarshal(line, &e) != nil || e.At == "" {
				damaged++
			} else {
				entries = append(entries, e)
			}
		}
		if errors.Is(err, io.EOF) {
			return entries, damaged, nil
		}
		if err != nil {
			return entries, damaged, fmt.Errorf("reading %s: %w", path, err)
		}
	}
}

// readLine reads up to a line feed; of a line longer than most only its end is
// left out, which then is no JSON.
func readLine(in *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) <= most {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return line, err
	}
}

// contextName is the context in use, "" without one.
func (c *call) contextName() string { return c.context().Name }
