package cli

import (
	"context"
	"slices"
	"strings"

	"mqctl/cli/admin"
)

// aclItem is one access rule at one broker.
type aclItem struct {
	Broker     string   `json:"broker"`
	Subject    string   `json:"subject"`
	PolicyType string   `json:"policyType"`
	Resource   string   `json:"resource"`
	Actions    []string `json:"actions"`
	SourceIPs  []string `json:"sourceIps"`
	Decision   string   `json:"decision"`

	addr string
}

// aclActions are what a rule may be about.
var aclActions = []string{"All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "Any"}

func aclCommands() []*command {
	exits := []int{ExitNotFound, ExitPartial, ExitChanges}
	show := view{item: aclItem{}, name: func(item any) string { return item.(*aclItem).Subject }, old: oldACL, columns: []column{
		{head: "BROKER", field: "broker"}, {head: "SUBJECT", field: "subject"}, {head: "POLICY", field: "policyType"}, {head: "RESOURCE", field: "resource"},
		{head: "ACTIONS", field: "actions", as: asList}, {head: "SOURCE IPS", field: "sourceIps", as: asList}, {head: "DECISION", field: "decision"}}}
	subject := flagSpec{key: "subject", long: "subject", short: "s", required: true, meta: "User:NAME", help: "whom the rules are for"}
	rule := append(oneTarget(), subject,
		flagSpec{key: "resources", long: "resources", short: "r", required: true, meta: "Topic:T,Group:G", help: "what they are about: Topic:orders, Group:*, Cluster:c"},
		flagSpec{key: "actions", long: "actions", short: "a", required: true, meta: "Pub,Sub", help: strings.Join(aclActions, ", ")},
		flagSpec{key: "decision", long: "decision", short: "d", required: true, kind: kindEnum, enum: []string{"Allow", "Deny"}, meta: "Allow|Deny", help: "allow or deny"},
		flagSpec{key: "source-ip", long: "sourceIp", short: "i", meta: "A,B", help: "only from these addresses or networks"})
	filter := subject
	filter.required = false
	filter.meta, filter.help = "TEXT", "only subjects with this in them"
	return []*command{
		{path: "acl create", old: "createAcl", summary: "create an access rule", run: runACLPut, schema: "mqctl.acl.create/v1", attrs: mutates | planned, exits: exits, view: thingView("create acl to %s success.\n"),
			examples: []string{"mqctl acl create --subject User:ops --resources Topic:orders --actions Pub,Sub --decision Allow",
				"mqctl createAcl -n 127.0.0.1:9876 -c DefaultCluster -s User:ops -r Topic:orders -a Pub,Sub -d Allow"}, flags: rule},
		{path: "acl set", old: "updateAcl", summary: "change an access rule", run: runACLPut, schema: "mqctl.acl.set/v1", attrs: mutates | planned, exits: exits, view: thingView("update acl to %s success.\n"),
			examples: []string{"mqctl acl set --subject User:ops --resources Topic:orders --actions Sub --decision Allow",
				"mqctl updateAcl -n 127.0.0.1:9876 -c DefaultCluster -s User:ops -r Topic:orders -a Sub -d Allow"}, flags: rule},
		{path: "acl delete", old: "deleteAcl", summary: "delete access rules", run: runACLDelete, schema: "mqctl.acl.delete/v1", attrs: mutates | planned | destructive, exits: append(exits, ExitAborted),
			view:     thingView("delete acl to %s success.\n"),
			examples: []string{"mqctl acl delete --subject User:ops --resources Topic:orders --yes", "mqctl deleteAcl -n 127.0.0.1:9876 -c DefaultCluster -s User:ops"},
			flags:    append(oneTarget(), subject, flagSpec{key: "resources", long: "resources", short: "r", meta: "Topic:T,Group:G", help: "the rules of these only"})},
		{path: "acl get", old: "getAcl", summary: "access rules of a subject", run: runACLGet, schema: "mqctl.acl.get/v1", exits: exits, view: show,
			examples: []string{"mqctl acl get --subject User:ops", "mqctl getAcl -n 127.0.0.1:9876 -c DefaultCluster -s User:ops"}, flags: append(oneTarget(), subject)},
		{path: "acl list", old: "listAcl", summary: "list access rules", run: runACLList, schema: "mqctl.acl.list/v1", exits: exits, view: show,
			examples: []string{"mqctl acl list --subject User:ops", "mqctl listAcl -n 127.0.0.1:9876 -c DefaultCluster"},
			flags:    append(oneTarget(), filter, flagSpec{key: "resource", long: "resource", short: "r", meta: "TEXT", help: "only resources with this in them"})},
		{path: "acl copy", old: "copyAcl", summary: "copy access rules between brokers", args: "[SUBJECT...]", max: -1, run: runACLCopy, schema: "mqctl.acl.copy/v1", attrs: mutates | planned, exits: exits,
			view: copyView("copy acl of %s from %s to %s success.\n"), examples: []string{"mqctl acl copy --from broker-a --to broker-b", "mqctl copyAcl -n 127.0.0.1:9876 -f 10.0.0.4:10911 -t 10.0.0.5:10911 -s User:ops"},
			flags: append(copyFlags(), flagSpec{key: "subjects", long: "subjects", short: "s", oldOnly: true, meta: "A,B", help: "these only"})},
	}
}

func (c *call) subject() (string, error) {
	if err := c.needFlags("subject"); err != nil {
		return "", err
	}
	s := c.str("subject")
	if kind, name, ok := strings.Cut(s, ":"); !ok || kind == "" || checkAccount(name) != nil {
		return "", usage("BAD_NAME", "%q is no subject", s).because("KIND:NAME is expected").try("--subject User:ops")
	}
	return s, nil
}

// words are the parts of a list with commas.
func (c *call) words(key string) []string {
	return strings.FieldsFunc(c.str(key), func(r rune) bool { return r == ',' || r == ' ' })
}

// ruleOf is the rule that the flags describe.
func (c *call) ruleOf() (aclRule, error) {
	rule := aclRule{Actions: []string{}, SourceIPs: orNone(c.words("source-ip")), Decision: c.str("decision")}
	for _, word := range c.words("actions") {
		i := slices.IndexFunc(aclActions, func(known string) bool { return strings.EqualFold(known, word) })
		if i < 0 {
			return rule, usage("BAD_VALUE", "%s: %q is no action", c.hint("actions"), word).because("one of %s", strings.Join(aclActions, ", "))
		}
		rule.Actions = append(rule.Actions, aclActions[i])
	}
	return rule, nil
}

// runACLPut is acl create and acl set.
func runACLPut(ctx context.Context, c *call) (*result, error) {
	subject, err := c.subject()
	if err != nil {
		return nil, err
	}
	if err := c.needFlags("resources", "actions", "decision"); err != nil {
		return nil, err
	}
	rule, err := c.ruleOf()
	if err != nil {
		return nil, err
	}
	rules := state{}
	for _, res := range c.words("resources") {
		rules[policyCustom+" "+res] = ruleState(rule)
	}
	create := c.cmd.path == "acl create"
	return c.changeACL(ctx, subject, func(now state) (state, error) {
		for _, name := range sortedKeys(rules) {
			_, resource, _ := strings.Cut(name, " ")
			switch have := now[name] != nil; {
			case create && have && !sameJSON(now[name], rules[name]):
				return nil, fail(ExitFailed, "RULE_EXISTS", "%s has another rule for %s", subject, resource).try("mqctl acl set", "mqctl acl get --subject "+subject)
			case !create && !have:
				return nil, fail(ExitNotFound, "RULE_NOT_FOUND", "%s has no rule for %s", subject, resource).try("mqctl acl create", "mqctl acl get --subject "+subject)
			}
		}
		return now.with(rules), nil
	})
}

// changeACL plans the rules of one subject at all targets and carries it out.
func (c *call) changeACL(ctx context.Context, subject string, next func(now state) (state, error)) (*result, error) {
	targets, err := configTargets(ctx, c, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets), change: &change{DryRun: c.dryRun()}}
	var edits []*edit
	for _, res := range c.statesAt(ctx, targets, kindACL+"/"+subject) {
		var after state
		err := res.Err
		if err == nil {
			after, err = next(res.Value)
		}
		if err != nil {
			r.failed(c.at(err, res.Target))
			continue
		}
		edits = append(edits, c.thingEdit(planThing(res.Target, kindACL+"/"+subject, res.Value, after)))
	}
	c.carryOut(ctx, r, edits)
	return r, nil
}

func runACLDelete(ctx context.Context, c *call) (*result, error) {
	subject, err := c.subject()
	if err != nil {
		return nil, err
	}
	what, resources := "all access rules", c.words("resources")
	if len(resources) > 0 {
		what = "the access rules for " + strings.Join(resources, ", ")
	}
	if err := c.confirm("deleting "+what+" of "+subject, "what they allowed is refused from then on, and what they denied may be allowed"); err != nil {
		return nil, err
	}
	r, err := c.changeACL(ctx, subject, func(now state) (state, error) {
		if len(resources) == 0 || now == nil {
			return nil, nil
		}
		after, left := now.with(nil), len(now)
		for _, name := range sortedKeys(now) {
			if _, resource, _ := strings.Cut(name, " "); slices.Contains(resources, resource) {
				after[name] = nil
				left--
			}
		}
		if left == 0 {
			return nil, nil
		}
		return after, nil
	})
	return c.missingUnless(r, err, "access rule", subject)
}

func aclItems(t admin.Target, all []admin.ACL) []any {
	var out []any
	for _, a := range all {
		for _, p := range a.Policies {
			for _, e := range p.Entries {
				out = append(out, &aclItem{t.String(), a.Subject, firstOf(p.Type, policyCustom), e.Resource, orNone(e.Actions), orNone(e.SourceIPs), e.Decision, t.Addr})
			}
		}
	}
	return out
}

func runACLGet(ctx context.Context, c *call) (*result, error) {
	subject, err := c.subject()
	if err != nil {
		return nil, err
	}
	return c.showEach(ctx, func(ctx context.Context, t admin.Target) ([]any, error) {
		a, err := c.client.ACL(ctx, t.Addr, subject)
		if err != nil {
			return nil, err
		}
		return aclItems(t, []admin.ACL{*a}), nil
	})
}

func runACLList(ctx context.Context, c *call) (*result, error) {
	return c.showEach(ctx, func(ctx context.Context, t admin.Target) ([]any, error) {
		all, err := c.client.ACLs(ctx, t.Addr, c.str("subject"), c.str("resource"))
		return aclItems(t, all), err
	})
}

// oldACL is mqadmin's table of rules: what the first broker says.
func oldACL(p *printer, r *result) {
	const line = "%-16s  %-10s  %-22s  %-20s  %-24s  %-10s\n"
	for i, item := range r.items {
		it := item.(*aclItem)
		if i == 0 {
			p.printf(line, "#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision")
		}
		if it.addr == r.items[0].(*aclItem).addr {
			ips := "null" // brokers tell none, not an empty list
			if len(it.SourceIPs) > 0 {
				ips = javaList(it.SourceIPs)
			}
			p.printf(line, it.Subject, it.PolicyType, it.Resource, javaList(it.Actions), ips, it.Decision)
		}
	}
}

// javaList is a list as Java prints it.
func javaList(words []string) string { return "[" + strings.Join(words, ", ") + "]" }

func runACLCopy(ctx context.Context, c *call) (*result, error) {
	from, to, err := c.copyEnds(ctx)
	if err != nil {
		return nil, err
	}
	names := c.wantedNames("subjects")
	if len(names) == 0 {
		all, err := c.client.ACLs(ctx, from.Addr, "", "")
		if err != nil {
			return nil, c.at(err, from)
		}
		for _, a := range all {
			names = append(names, a.Subject)
		}
	}
	return c.copyThings(ctx, from, to, kindACL, names, func(t admin.Target, name string, before, after state) *edit {
		return c.thingEdit(planThing(t, kindACL+"/"+name, before, after))
	})
}
