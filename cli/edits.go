package cli

import (
	"context"
	"strings"

	"mqctl/cli/admin"
)

// The parts of plans that commands make of topics, groups and broker settings.

// thingOf is the audit record of settings that changed: of a new or deleted
// thing all of it, else the changed settings only.
func thingOf(t admin.Target, key string, before, after any, changes []settingChange) auditThing {
	out := auditThing{Target: t.String(), Addr: t.Addr, Key: key, Before: rawJSON(before), After: rawJSON(after)}
	if before == nil || after == nil {
		return out
	}
	was, is := map[string]any{}, map[string]any{}
	for _, ch := range changes {
		was[ch.Key], is[ch.Key] = ch.Before, ch.After
	}
	out.Before, out.After = rawJSON(was), rawJSON(is)
	return out
}

// groupEdit makes a planned group an edit.
func (c *call) groupEdit(it *groupSetItem) *edit {
	if !it.Changed {
		it.Verified = !c.dryRun()
	}
	return &edit{target: it.target, items: []any{it}, same: !it.Changed,
		write: func(ctx context.Context) (bool, error) {
			err := c.writeGroup(ctx, it)
			return it.Applied, err
		},
		verify: func(ctx context.Context) error { return c.verifyGroup(ctx, it) },
		revert: func(ctx context.Context) error {
			if it.before == nil {
				if err := c.client.DeleteGroup(ctx, it.Addr, it.after.GroupName, false); err != nil {
					return err
				}
			} else {
				old := *it.before
				old.Attributes = map[string]string{}
				if err := c.client.PutGroup(ctx, it.Addr, old); err != nil {
					return err
				}
			}
			it.Applied, it.Verified = false, false
			return nil
		},
		things: func() []auditThing {
			var before any
			if it.Before != nil {
				before = it.Before
			}
			return []auditThing{thingOf(it.target, "group/"+it.After.GroupName, before, it.After, it.Changes)}
		}}
}

// attributeSteps are what turns one set of attributes into another, as lists of
// topics have it: +key with its value, -key with none.
func attributeSteps(before, after map[string]string) map[string]string {
	steps := map[string]string{}
	for k, v := range after {
		if old, ok := before[k]; !ok || old != v {
			steps["+"+k] = v
		}
	}
	for k := range before {
		if _, ok := after[k]; !ok {
			steps["-"+k] = ""
		}
	}
	return steps
}

// attributeChanges is attributeSteps as one text: +key=value,-key.
func attributeChanges(before, after map[string]string) string {
	steps := attributeSteps(before, after)
	var parts []string
	for _, k := range sortedKeys(steps) {
		if k[0] == '+' {
			k += "=" + steps[k]
		}
		parts = append(parts, k)
	}
	return strings.Join(parts, ",")
}

// topicEdit makes a planned topic an edit.
func (c *call) topicEdit(it *topicSetItem) *edit {
	if !it.Changed {
		it.Verified = !c.dryRun()
	}
	return &edit{target: it.target, items: []any{it}, same: !it.Changed,
		write: func(ctx context.Context) (bool, error) {
			err := c.writeTopic(ctx, it)
			return it.Applied, err
		},
		revert: func(ctx context.Context) error {
			var err error
			if it.before == nil {
				err = c.client.DeleteTopic(ctx, it.Addr, it.After.TopicName)
			} else {
				err = c.client.PutTopic(ctx, it.Addr, *it.before, attributeChanges(it.after.Attributes, it.before.Attributes))
			}
			if err == nil {
				it.Applied, it.Verified = false, false
			}
			return err
		},
		things: func() []auditThing {
			var before any
			if it.Before != nil {
				before = it.Before
			}
			return []auditThing{thingOf(it.target, "topic/"+it.After.TopicName, before, it.After, it.Changes)}
		}}
}

// configEdit makes the settings of one broker an edit: one request for all of them.
func (c *call) configEdit(t admin.Target, now *admin.BrokerConfig, want map[string]string, keys []string) *edit {
	items, send := plannedSettings(t, now, want, keys)
	e := &edit{target: t, same: len(send) == 0}
	*e = edit{target: t, same: len(send) == 0,
		write: func(ctx context.Context) (bool, error) {
			note, err := c.setConfig(ctx, t, items, send)
			if note != nil {
				e.notes = append(e.notes, *note)
			}
			sent := false
			for _, it := range items {
				sent = sent || it.Applied
			}
			return sent, err
		},
		revert: func(ctx context.Context) error {
			back := map[string]string{}
			for _, it := range items {
				switch {
				case !it.Applied || it.was == nil:
				case *it.was == hiddenSetting && secretWord(it.Key):
					return fail(ExitFailed, "NO_WAY_BACK", "%s: the value before is not told", it.Key)
				default:
					back[it.Key] = *it.was
				}
			}
			if len(back) == 0 {
				return nil
			}
			if _, err := c.client.UpdateBrokerConfig(ctx, t.Addr, back); err != nil {
				return err
			}
			for _, it := range items {
				it.is, it.Applied, it.Verified = it.was, false, false
				it.show()
			}
			return nil
		},
		things: func() []auditThing {
			var out []auditThing
			for _, it := range items {
				if it.Applied {
					out = append(out, auditThing{Target: t.String(), Addr: t.Addr, Key: "config/" + it.Key, Before: rawJSON(it.Before), After: rawJSON(it.After)})
				}
			}
			return out
		}}
	for _, it := range items {
		it.Verified = e.same && !c.dryRun()
		e.items = append(e.items, it)
	}
	return e
}
