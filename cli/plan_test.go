package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mqctl/cli/admin"
)

// TestOnError: what a failure at the second of three targets means for the others.
func TestOnError(t *testing.T) {
	cases := []struct {
		policy  string
		want    string // values afterwards
		applied bool
		done    int
		code    int
		result  string
	}{
		{"stop", "new old old", true, 1, ExitPartial, "PARTIAL"},
		{"continue", "new old new", true, 2, ExitPartial, "PARTIAL"},
		{"rollback", "old old old", false, 0, ExitFailed, "ROLLED_BACK"},
	}
	for _, x := range cases {
		path := t.TempDir() + "/audit.jsonl"
		cmd := commands().byPath["group set"]
		c := &call{cmd: cmd, vocab: vocabularyOf(cmd, false), values: map[string][]string{"on-error": {x.policy}, "reason": {"why"}},
			io: Stdio{Env: func(k string) string { return map[string]string{"MQCTL_AUDIT": path}[k] }}}
		values := []string{"old", "old", "old"}
		var edits []*edit
		for i := range values {
			where := admin.Target{Broker: fmt.Sprintf("b%d", i), Addr: fmt.Sprintf("h:%d", i)}
			edits = append(edits, &edit{target: where, items: []any{i},
				write: func(context.Context) (bool, error) {
					if i == 1 {
						return false, errors.New("refused")
					}
					values[i] = "new"
					return true, nil
				},
				revert: func(context.Context) error { values[i] = "old"; return nil },
				things: func() []auditThing {
					return []auditThing{{Target: where.String(), Key: "group/g", Before: rawJSON("old"), After: rawJSON("new")}}
				}})
		}
		r := &result{change: &change{}}
		c.carryOut(context.Background(), r, edits)
		if got := strings.Join(values, " "); got != x.want || r.change.Applied != x.applied || r.done != x.done || r.code() != x.code {
			t.Errorf("%s: %s applied %t done %d code %d, want %+v", x.policy, got, r.change.Applied, r.done, r.code(), x)
		}
		entries, damaged, err := readAudit(path)
		if err != nil || damaged != 0 || len(entries) != 1 || entries[0].Result != x.result || entries[0].Reason != "why" {
			t.Errorf("%s: audit %+v %d %v", x.policy, entries, damaged, err)
		}
		if len(entries) == 1 && (entries[0].UndoID != nil) != x.applied {
			t.Errorf("%s: undo id %v", x.policy, entries[0].UndoID)
		}
	}
}

// TestAuditSecrets: values whose names say that they are secret are not kept.
func TestAuditSecrets(t *testing.T) {
	path := t.TempDir() + "/audit.jsonl"
	cmd := commands().byOld["updatebrokerconfig"]
	c := &call{cmd: cmd, old: true, vocab: vocabularyOf(cmd, true), values: map[string][]string{"key": {"haAuthSecret"}, "value": {"hunter2"}},
		args: []string{"secretKey=hunter2"}, io: Stdio{Env: func(k string) string { return map[string]string{"MQCTL_AUDIT": path}[k] }}}
	r := &result{change: &change{Applied: true}}
	c.note(r, []auditThing{{Target: "b/0", Key: "config/haAuthSecret", Before: rawJSON("hunter1"), After: rawJSON("hunter2")}})
	entries, _, err := readAudit(path)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	text := string(rawJSON(entries[0]))
	if strings.Contains(text, "hunter") || entries[0].UndoID != nil {
		t.Errorf("the audit file has a secret, or offers to undo what it does not know: %s", text)
	}
}
