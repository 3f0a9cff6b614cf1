package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mqctl/broker/remoting"
	"mqctl/store/table"
	"mqctl/subgroup"
)

// The body of MQCTL_PROGRESS, request and answer alike:
//
//	+------------+   sections, each:   +--------+-------------+----------------+
//	| "MQP1" 4 B |                     | tag u8 | length u32  | length bytes   |
//	+------------+                     +--------+-------------+----------------+
//
// Numbers are big-endian. A reader passes over tags that it does not know. What
// does not fit into one body follows in others.

const bodyMagic = "MQP1"

// Tags of sections.
const (
	tagProgress = 1 // records of consume progress
	tagLeases   = 2 // queue locks with what is left of them
	tagDelays   = 3 // the text of an answer to 45
	tagModes    = 4 // the text of an answer to 402
	tagDeleted  = 5 // deletions of topics, with their positions in the log
)

// sectionHead is the size of a section's head in bytes.
const sectionHead = 5

// mostRecordBytes is about how much progress goes into one body.
const mostRecordBytes = 2 << 20

func appendSection(dst []byte, tag byte, content []byte) []byte {
	dst = append(dst, tag)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(content)))
	return append(dst, content...)
}

// eachSection calls f for every section of a body; an empty body has none.
func eachSection(b []byte, f func(tag byte, content []byte) error) error {
	if len(b) == 0 {
		return nil
	}
	if len(b) < len(bodyMagic) || string(b[:len(bodyMagic)]) != bodyMagic {
		return errors.New("this is no body of MQCTL_PROGRESS")
	}
	b = b[len(bodyMagic):]
	for len(b) > 0 {
		if len(b) < sectionHead {
			return errors.New("a section is cut off in its head")
		}
		n := binary.BigEndian.Uint32(b[1:])
		if uint64(n) > uint64(len(b)-sectionHead) {
			return fmt.Errorf("a section says %d bytes and has %d", n, len(b)-sectionHead)
		}
		if err := f(b[0], b[sectionHead:][:n]); err != nil {
			return err
		}
		b = b[sectionHead+int(n):]
	}
	return nil
}

// tables are what one body carries.
type tables struct {
	records []subgroup.ProgressRecord
	leases  []subgroup.Lease
	delays  []byte // nil: not told
	modes   []byte

	deletions *deletionsTold // nil: none
}

func (t *tables) encode() []byte {
	if len(t.records)+len(t.leases) == 0 && t.delays == nil && t.modes == nil && t.deletions == nil {
		return nil
	}
	b := []byte(bodyMagic)
	if len(t.records) > 0 {
		b = appendSection(b, tagProgress, subgroup.AppendRecords(nil, t.records))
	}
	if len(t.leases) > 0 {
		b = appendSection(b, tagLeases, subgroup.AppendLeases(nil, t.leases))
	}
	if t.delays != nil {
		b = appendSection(b, tagDelays, t.delays)
	}
	if t.modes != nil {
		b = appendSection(b, tagModes, t.modes)
	}
	if t.deletions != nil {
		b = appendSection(b, tagDeleted, t.deletions.append(nil))
	}
	return b
}

// decodeTables reads a body; what it returns shares memory with b only in the
// texts.
func decodeTables(b []byte) (*tables, error) {
	var t tables
	err := eachSection(b, func(tag byte, content []byte) error {
		switch tag {
		case tagProgress:
			records, err := subgroup.DecodeRecords(content)
			if err != nil {
				return fmt.Errorf("progress: %w", err)
			}
			if t.records == nil {
				t.records = records // the usual case: one section
			} else {
				t.records = append(t.records, records...)
			}
		case tagLeases:
			leases, err := subgroup.DecodeLeases(content)
			if err != nil {
				return fmt.Errorf("queue leases: %w", err)
			}
			t.leases = append(t.leases, leases...)
		case tagDelays:
			t.delays = content
		case tagModes:
			t.modes = content
		case tagDeleted:
			deletions, err := decodeDeletions(content)
			if err != nil {
				return fmt.Errorf("deletions of topics: %w", err)
			}
			t.deletions = deletions
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// progressKey names one queue's progress.
type progressKey struct {
	topic, group string
	queue        int32
}

func keyOf(r *subgroup.ProgressRecord) progressKey { return progressKey{r.Topic, r.Group, r.Queue} }

func compareKeys(a, b progressKey) int {
	if c := strings.Compare(a.topic, b.topic); c != 0 {
		return c
	}
	if c := strings.Compare(a.group, b.group); c != 0 {
		return c
	}
	return int(int64(a.queue) - int64(b.queue))
}

// recordBytes is about what a record takes in a body.
func recordBytes(r *subgroup.ProgressRecord) int { return len(r.Topic) + len(r.Group) + 48 }

// firstBytes is how many records make up about most bytes, at least one.
func firstBytes(records []subgroup.ProgressRecord, most int) int {
	size := 0
	for i := range records {
		size += recordBytes(&records[i])
		if size > most && i > 0 {
			return i
		}
	}
	return len(records)
}

// cut leaves the part of records that one body carries. after is the last key
// that the asker has, nil at first; next is what it is to say for the rest, nil if
// there is none. Only where there is a rest do the records get an order.
func cut(records []subgroup.ProgressRecord, after *progressKey, most int) (part []subgroup.ProgressRecord, next *progressKey) {
	if after == nil && firstBytes(records, most) == len(records) {
		return records, nil
	}
	slices.SortFunc(records, func(a, b subgroup.ProgressRecord) int { return compareKeys(keyOf(&a), keyOf(&b)) })
	if after != nil {
		i, found := slices.BinarySearchFunc(records, *after, func(r subgroup.ProgressRecord, k progressKey) int { return compareKeys(keyOf(&r), k) })
		if found {
			i++
		}
		records = records[i:]
	}
	n := firstBytes(records, most)
	if n < len(records) {
		k := keyOf(&records[n-1])
		next = &k
	}
	return records[:n], next
}

// asking is the header of a request MQCTL_PROGRESS.
type asking struct {
	name     string // brokerName of both
	id       int64  // of the asker
	addr     string
	slave    bool   // the asker's part
	instance string // of the one asked, that since belongs to
	since    uint64 // the newest version of its progress that the asker has
	push     bool   // only take what the body brings, answer nothing
	after    *progressKey

	deletions     *uint64 // those of topics after this number, too; nil: none
	deletionsOnly bool    // answer nothing else
}

// had says whether a record came with the parts that the asker has.
func (a *asking) had(r *subgroup.ProgressRecord) bool {
	return a.after != nil && compareKeys(keyOf(r), *a.after) <= 0
}

// EncodeExt writes the header.
func (a *asking) EncodeExt(w *remoting.ExtWriter) {
	w.String("brokerName", a.name)
	w.Int("brokerId", a.id)
	w.String("brokerAddr", a.addr)
	w.Bool("slave", a.slave)
	w.String("instance", a.instance)
	w.String("sinceVersion", strconv.FormatUint(a.since, 10))
	w.Bool("push", a.push)
	if a.deletions != nil {
		w.String("deletionsSince", strconv.FormatUint(*a.deletions, 10))
		w.Bool("deletionsOnly", a.deletionsOnly)
	}
	if a.after != nil {
		w.String("afterTopic", a.after.topic)
		w.String("afterGroup", a.after.group)
		w.Int("afterQueue", int64(a.after.queue))
	}
}

// decodeAsking reads the header.
func decodeAsking(f remoting.Fields) (a asking, err error) {
	m := f.Map()
	bad := func(key string) error {
		return &remoting.Error{Code: remoting.CodeInvalidParameter, Remark: fmt.Sprintf("%s %q is not what it should be", key, m[key])}
	}
	a = asking{name: m["brokerName"], addr: m["brokerAddr"], slave: m["slave"] == "true", instance: m["instance"], push: m["push"] == "true"}
	if a.id, err = strconv.ParseInt(m["brokerId"], 10, 64); err != nil || a.id < 0 {
		return a, bad("brokerId")
	}
	if text := m["sinceVersion"]; text != "" {
		if a.since, err = strconv.ParseUint(text, 10, 64); err != nil {
			return a, bad("sinceVersion")
		}
	}
	if text, more := m["deletionsSince"]; more {
		since, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return a, bad("deletionsSince")
		}
		a.deletions, a.deletionsOnly = &since, m["deletionsOnly"] == "true"
	}
	if topic, more := m["afterTopic"]; more {
		queue, err := strconv.ParseInt(m["afterQueue"], 10, 32)
		if err != nil {
			return a, bad("afterQueue")
		}
		a.after = &progressKey{topic, m["afterGroup"], int32(queue)}
	}
	return a, nil
}

// answering is the header of an answer.
type answering struct {
	id       int64
	slave    bool
	instance string // of the answerer: its versions count within it
	version  uint64 // of its progress, that the body leads to
	next     *progressKey
	topics   table.DataVersion
	groups   table.DataVersion
}

// EncodeExt writes the header.
func (a *answering) EncodeExt(w *remoting.ExtWriter) {
	w.Int("brokerId", a.id)
	w.Bool("slave", a.slave)
	w.String("instance", a.instance)
	w.String("version", strconv.FormatUint(a.version, 10))
	w.String("topics", versionText(a.topics))
	w.String("groups", versionText(a.groups))
	if a.next != nil {
		w.String("afterTopic", a.next.topic)
		w.String("afterGroup", a.next.group)
		w.Int("afterQueue", int64(a.next.queue))
	}
}

// decodeAnswering reads the header.
func decodeAnswering(m map[string]string) (a answering, err error) {
	a = answering{slave: m["slave"] == "true", instance: m["instance"]}
	var errs [5]error
	a.id, errs[0] = strconv.ParseInt(m["brokerId"], 10, 64)
	a.version, errs[1] = strconv.ParseUint(m["version"], 10, 64)
	a.topics, errs[2] = parseVersion(m["topics"])
	a.groups, errs[3] = parseVersion(m["groups"])
	if topic, more := m["afterTopic"]; more {
		var queue int64
		queue, errs[4] = strconv.ParseInt(m["afterQueue"], 10, 32)
		a.next = &progressKey{topic, m["afterGroup"], int32(queue)}
	}
	if err := errors.Join(errs[:]...); err != nil {
		return a, fmt.Errorf("the header of an answer to MQCTL_PROGRESS: %w", err)
	}
	return a, nil
}

// versionText is a data version as one word.
func versionText(v table.DataVersion) string {
	return fmt.Sprintf("%d.%d.%d", v.StateVersion, v.Counter, v.Timestamp)
}

func parseVersion(text string) (v table.DataVersion, err error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return v, fmt.Errorf("%q is no data version", text)
	}
	for i, n := range []*int64{&v.StateVersion, &v.Counter, &v.Timestamp} {
		if *n, err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return v, fmt.Errorf("%q is no data version", text)
		}
	}
	return v, nil
}
