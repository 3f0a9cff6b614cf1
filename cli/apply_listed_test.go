package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mqctl/broker/remoting"
)

// listedBroker keeps groups. Its lists are answered by list, if it is not nil.
func listedBroker(groups map[string]map[string]any, list func(r *remoting.Request, keep func(group map[string]any))) func(b *fakeBroker) {
	keep := func(g map[string]any) { groups[fmt.Sprint(g["groupName"])] = g }
	return func(b *fakeBroker) {
		b.more[remoting.ReqGetAllSubscriptionGroupConfig] = func(r *remoting.Request) {
			reply(r, map[string]any{"dataVersion": map[string]any{}, "subscriptionGroupTable": groups})
		}
		b.more[remoting.ReqUpdateAndCreateSubscriptionGroup] = func(r *remoting.Request) {
			var g map[string]any
			if err := json.Unmarshal(r.Body, &g); err != nil || g["groupName"] == "g05" && g["retryMaxTimes"] == 5.0 {
				r.Reply(remoting.CodeSystemError, "not this one", nil, nil)
				return
			}
			keep(g)
			r.Reply(remoting.CodeSuccess, "", nil, nil)
		}
		b.more[remoting.ReqUpdateAndCreateSubscriptionGroupList] = func(r *remoting.Request) {
			if list == nil {
				r.Reply(remoting.CodeRequestCodeNotSupported, "request type 225 not supported", nil, nil)
				return
			}
			list(r, keep)
		}
	}
}

// TestApplyListed: many groups go to a broker in a few requests; where it does not
// know lists, or refuses one, they go one by one, so that only the bad one fails;
// what may have arrived can be taken back.
func TestApplyListed(t *testing.T) {
	taken := func(r *remoting.Request, keep func(map[string]any)) {
		var b struct {
			Groups []map[string]any `json:"groupConfigList"`
		}
		if err := json.Unmarshal(r.Body, &b); err != nil {
			t.Error(err)
		}
		for _, g := range b.Groups {
			keep(g)
		}
	}
	cases := []struct {
		name           string
		list           func(r *remoting.Request, keep func(map[string]any))
		retries, flags string
		lists, singles int
		exit, verified int
		says           string
	}{
		{name: "lists", list: func(r *remoting.Request, keep func(map[string]any)) {
			taken(r, keep)
			r.Reply(remoting.CodeSuccess, "", nil, nil)
		}, retries: "7", lists: 4, singles: 1, verified: 20}, // batches of 1, 2, 4, 8 and 5
		{name: "lists are not known", retries: "7", lists: 1, singles: 20, verified: 20},
		{name: "a list is refused", list: func(r *remoting.Request, _ func(map[string]any)) {
			r.Reply(remoting.CodeInvalidParameter, "one is bad", nil, nil)
		}, retries: "5", flags: " --on-error continue", lists: 4, singles: 20, exit: ExitPartial, verified: 19, says: "not this one"},
		{name: "no answer", list: func(r *remoting.Request, keep func(map[string]any)) { taken(r, keep) }, retries: "7", flags: " --timeout 100ms",
			lists: 1, singles: 1, exit: ExitPartial, verified: 1, says: "no answer"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var lines []string
			for i := range 20 {
				lines = append(lines, fmt.Sprintf("[groups.g%02d]\nretryMaxTimes = %s", i, c.retries))
			}
			file := inputs(t)("groups.toml", strings.Join(lines, "\n"))
			groups := map[string]map[string]any{}
			f := newFakeCluster(t)
			b, _ := f.add("127.0.0.1", "b", 0, 100, listedBroker(groups, c.list))
			line := append([]string{"mqctl", "-n", f.ns.addr, "group", "apply", "-f", file, "-o", "json"}, strings.Fields(c.flags)...)
			code, out, errs := runEnv(map[string]string{"MQCTL_AUDIT": t.TempDir() + "/audit"}, line...)
			var doc struct {
				Applied bool                             `json:"applied"`
				UndoID  *string                          `json:"undoId"`
				Items   []struct{ Verified bool }        `json:"items"`
				Errors  []struct{ Message, Code string } `json:"errors"`
			}
			if err := json.Unmarshal([]byte(out), &doc); err != nil {
				t.Fatalf("%v\n%s%s", err, out, errs)
			}
			verified := 0
			for _, it := range doc.Items {
				if it.Verified {
					verified++
				}
			}
			if lists, singles := b.asked(remoting.ReqUpdateAndCreateSubscriptionGroupList), b.asked(remoting.ReqUpdateAndCreateSubscriptionGroup); lists != c.lists || singles != c.singles {
				t.Errorf("%d lists and %d single groups were sent, want %d and %d", lists, singles, c.lists, c.singles)
			}
			if code != c.exit || verified != c.verified || len(doc.Items) != 20 || !doc.Applied || doc.UndoID == nil || !strings.Contains(errs, c.says) {
				t.Errorf("exit %d, %d of %d verified, applied %v, undo %v\n%s", code, verified, len(doc.Items), doc.Applied, doc.UndoID, errs)
			}
		})
	}
}
