package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"mqctl/store/fastjson"
	"mqctl/subgroup"
)

// desired is what a file wants of a cluster. Settings that it does not name are
// left as they are.
//
//	[topics.orders]              on every master
//	writeQueueNums = 16
//	[groups.report]
//	retryMaxTimes = 5
//	[config]                     broker keys of every master
//	slaveReadEnable = true
//	[offsets.report.orders]      stored offsets
//	"broker-a:0" = 1200
//	[brokers.broker-b.topics.orders]   of one broker name, over the above
//	writeQueueNums = 8
type desired struct {
	topics, groups map[string]state
	users, acls    map[string]state // see planAccess
	config         map[string]string
	offsets        map[string]int64 // GROUP/TOPIC/BROKER:QUEUE
	brokers        map[string]*desired
}

// maxFile bounds files that are applied, in bytes.
const maxFile = 64 << 20

func newDesired() *desired {
	return &desired{topics: map[string]state{}, groups: map[string]state{}, users: map[string]state{}, acls: map[string]state{}, config: map[string]string{}, offsets: map[string]int64{}, brokers: map[string]*desired{}}
}

// noFile is the error of an input file that is not there.
func noFile(path string) *Message {
	return fail(ExitBadConfig, "FILE_NOT_FOUND", "there is no file %s", path).try("ls -l " + shellWord(filepath.Dir(path)))
}

// unreadable is the error of an input file that cannot be opened.
func unreadable(path string, err error) *Message {
	if errors.Is(err, os.ErrNotExist) {
		return noFile(path)
	}
	return badFile(path, "%s", plainFileError(err))
}

// plainFileError is an error of the file system without the path, which is said
// already.
func plainFileError(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// jsonWrong says where text is not the JSON that is expected there, and why.
func jsonWrong(text []byte, err error) string {
	var syntax *json.SyntaxError
	var clean *fastjson.SyntaxError
	var kind *json.UnmarshalTypeError
	at := func(offset int64, reason string) string {
		before := text[:min(int(offset), len(text))]
		return fmt.Sprintf("line %d, column %d: no JSON: %s", 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n')-1, reason)
	}
	switch {
	case errors.As(err, &syntax):
		return at(syntax.Offset, err.Error())
	case errors.As(err, &clean):
		return at(clean.Offset, clean.Reason)
	case errors.As(err, &kind):
		line := 1 + bytes.Count(text[:min(int(kind.Offset), len(text))], []byte("\n"))
		where := "it"
		if kind.Field != "" {
			where = kind.Field
		}
		return fmt.Sprintf("line %d: %s is a %s, which cannot be there", line, where, kind.Value)
	}
	return err.Error()
}

// badFile is the error of an input file.
func badFile(path, format string, args ...any) *Message {
	m := fail(ExitBadConfig, "BAD_FILE", "%s: %s", path, fmt.Sprintf(format, args...))
	m.reason("nothing was sent")
	return m
}

// readInput reads a file, or stdin for "-".
func (c *call) readInput(path string) ([]byte, error) {
	in := c.io.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, badFile(path, "%v", err)
	}
	if len(b) > maxFile {
		return nil, badFile(path, "it is longer than %d bytes", maxFile)
	}
	return b, nil
}

// readDesired reads a TOML file, or one of mqadmin's JSON files.
func (c *call) readDesired(path string) (*desired, error) {
	b, err := c.readInput(path)
	if err != nil {
		return nil, err
	}
	d := newDesired()
	if trimmed := bytes.TrimSpace(b); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[' && looksLikeJSON(trimmed)) {
		if err = d.fromJSON(trimmed); err != nil {
			err = errors.New(jsonWrong(trimmed, err))
		}
	} else {
		var doc map[string]any
		_, err = toml.Decode(string(b), &doc)
		if p := (toml.ParseError{}); errors.As(err, &p) && secretWord(p.LastKey) {
			err = fmt.Errorf("line %d: the value cannot be read; put it in quotes", p.Position.Line) // the text says a part of it
		}
		if err == nil {
			err = d.fromTOML(doc, true)
		}
	}
	if err == nil {
		err = d.check()
	}
	if err != nil {
		return nil, badFile(path, "%v", err)
	}
	return d, nil
}

// looksLikeJSON tells an array of objects from the head of a TOML section.
func looksLikeJSON(b []byte) bool {
	rest := bytes.TrimSpace(b[1:])
	return len(rest) > 0 && (rest[0] == '{' || rest[0] == ']')
}

func (d *desired) fromTOML(doc map[string]any, top bool) error {
	for _, section := range sortedKeys(doc) {
		table, ok := doc[section].(map[string]any)
		if !ok && section == "cluster" && top {
			continue // a note of the export
		}
		if !ok {
			return fmt.Errorf("%q is no section", section)
		}
		var err error
		switch section {
		case "topics":
			err = namedTables(table, d.topics)
		case "groups":
			err = namedTables(table, d.groups)
		case "users":
			err = namedTables(table, d.users)
		case "acls":
			err = namedTables(table, d.acls)
		case "config":
			err = d.configFrom(table)
		case "offsets":
			err = d.offsetsFrom(table)
		case "brokers":
			if !top {
				return errors.New("brokers within brokers")
			}
			for name, v := range table {
				sub, ok := v.(map[string]any)
				if !ok {
					return fmt.Errorf("brokers.%s is no section", name)
				}
				d.brokers[name] = newDesired()
				if err := d.brokers[name].fromTOML(sub, false); err != nil {
					return fmt.Errorf("brokers.%s: %w", name, err)
				}
			}
		default:
			return fmt.Errorf("the section %q is unknown; there are topics, groups, config, offsets, users, acls and brokers", section)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", section, err)
		}
	}
	return nil
}

func namedTables(table map[string]any, to map[string]state) error {
	for name, v := range table {
		sub, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%q is no section", name)
		}
		to[name] = stateOf(sub)
	}
	return nil
}

func (d *desired) configFrom(table map[string]any) error {
	for key, v := range table {
		switch v.(type) {
		case map[string]any, []any, []map[string]any:
			return fmt.Errorf("%s is no single value", key)
		}
		text := fmt.Sprint(v)
		if plain, ok := keptForm(key, text); ok {
			text = plain
		}
		d.config[key] = text
	}
	return nil
}

func (d *desired) offsetsFrom(table map[string]any) error {
	for group, v := range table {
		topics, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is no section", group)
		}
		for topic, v := range topics {
			queues, ok := v.(map[string]any)
			if !ok {
				return fmt.Errorf("%s.%s is no section", group, topic)
			}
			for at, v := range queues {
				n, ok := v.(int64)
				broker, id, cut := cutLast(at)
				if _, err := strconv.ParseUint(id, 10, 31); !ok || n < 0 || !cut || broker == "" || err != nil {
					return fmt.Errorf("%s.%s: %q = %v is not \"BROKER:QUEUE\" = OFFSET", group, topic, at, v)
				}
				d.offsets[group+"/"+topic+"/"+at] = n
			}
		}
	}
	return nil
}

func cutLast(at string) (broker, queue string, ok bool) {
	i := strings.LastIndexByte(at, ':')
	if i < 0 {
		return "", "", false
	}
	return at[:i], at[i+1:], true
}

// fromJSON reads what mqadmin's batch commands take (a list of topics or groups)
// and what exportMetadata and brokers write (tables of them).
func (d *desired) fromJSON(b []byte) error {
	var list []map[string]any
	if b[0] == '[' {
		if err := fastjson.Unmarshal(b, &list); err != nil {
			return err
		}
	} else {
		var doc struct {
			Topics map[string]map[string]any `json:"topicConfigTable"`
			Groups map[string]map[string]any `json:"subscriptionGroupTable"`
		}
		if err := fastjson.Unmarshal(b, &doc); err != nil {
			return err
		}
		for _, x := range doc.Topics {
			list = append(list, x)
		}
		for _, x := range doc.Groups {
			list = append(list, x)
		}
	}
	for _, x := range list {
		topic, _ := x["topicName"].(string)
		group, _ := x["groupName"].(string)
		switch {
		case topic != "" && group == "":
			delete(x, "topicName")
			delete(x, "topicFilterType") // there is one
			if attrs, ok := x["attributes"].(map[string]any); ok {
				plain := map[string]any{}
				for k, v := range attrs {
					plain[strings.TrimPrefix(k, "+")] = v
				}
				x["attributes"] = plain
			}
			d.topics[topic] = stateOf(x)
		case group != "" && topic == "":
			delete(x, "groupName")
			for _, k := range sortedKeys(x) {
				if x[k] == nil {
					delete(x, k)
				}
			}
			d.groups[group] = stateOf(x)
		default:
			return errors.New("an element has neither topicName nor groupName")
		}
	}
	return nil
}

// check refuses names and settings that no broker would take.
func (d *desired) check() error {
	for _, name := range sortedKeys(d.topics) {
		if err := checkTopic(name); err != nil {
			return err
		}
		v := viewOfTopic(newTopic(name))
		if err := d.topics[name].into(&v); err != nil {
			return fmt.Errorf("topic %s: %w", name, err)
		}
		if v.ReadQueueNums < 1 || v.ReadQueueNums > maxQueues || v.WriteQueueNums < 1 || v.WriteQueueNums > maxQueues || v.Perm < 0 || v.Perm > 7 {
			return fmt.Errorf("topic %s: queues must be within 1 and %d, perm within 0 and 7", name, maxQueues)
		}
	}
	for _, name := range sortedKeys(d.groups) {
		if err := checkGroupName(name); err != nil {
			return err
		}
		v := viewOfGroup(newGroup(name))
		if err := d.groups[name].into(&v); err != nil {
			return fmt.Errorf("group %s: %w", name, err)
		}
		b, err := marshal(v)
		if err != nil {
			return err
		}
		g, err := subgroup.DecodeConfig(b)
		if err == nil {
			err = g.Validate()
		}
		if err != nil {
			return fmt.Errorf("group %s: %w", name, err)
		}
	}
	for _, name := range sortedKeys(d.users) {
		if err := checkUser(name, d.users[name]); err != nil {
			return fmt.Errorf("user %s: %w", name, err)
		}
	}
	for _, subject := range sortedKeys(d.acls) {
		if err := checkRules(subject, d.acls[subject]); err != nil {
			return fmt.Errorf("rules of %s: %w", subject, err)
		}
	}
	for _, key := range sortedKeys(d.config) {
		if _, known := lookupKey(key); !known {
			err := fmt.Errorf("there is no broker key %q", key)
			if near := nearestKey(key); near != "" {
				err = fmt.Errorf("%w; is it %s?", err, near)
			}
			return err
		}
	}
	for _, name := range sortedKeys(d.brokers) {
		if err := d.brokers[name].check(); err != nil {
			return fmt.Errorf("brokers.%s: %w", name, err)
		}
	}
	return nil
}

// at is what is wanted of one broker name.
func (d *desired) at(broker string) *desired {
	own := d.brokers[broker]
	if own == nil {
		return d
	}
	out := newDesired()
	for _, part := range []*desired{d, own} {
		for k, v := range part.topics {
			out.topics[k] = out.topics[k].with(v)
		}
		for k, v := range part.groups {
			out.groups[k] = out.groups[k].with(v)
		}
		for k, v := range part.users {
			out.users[k] = out.users[k].with(v)
		}
		for k, v := range part.acls {
			out.acls[k] = out.acls[k].with(v)
		}
		for k, v := range part.config {
			out.config[k] = v
		}
	}
	return out
}

// toml writes the file that readDesired reads.
func (d *desired) toml(cluster string) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("# mqctl plan -f FILE compares it with a cluster, mqctl apply -f FILE applies it.\n")
	doc := d.sections()
	if cluster != "" {
		doc["cluster"] = cluster
	}
	brokers := map[string]any{}
	for name, own := range d.brokers {
		if s := own.sections(); len(s) > 0 {
			brokers[name] = s
		}
	}
	if len(brokers) > 0 {
		doc["brokers"] = brokers
	}
	enc := toml.NewEncoder(&out)
	enc.Indent = ""
	err := enc.Encode(doc)
	return out.Bytes(), err
}

func (d *desired) sections() map[string]any {
	doc := map[string]any{}
	add := func(name string, things map[string]state) {
		if len(things) > 0 {
			table := map[string]any{}
			for k, v := range things {
				table[k] = plainNumbers(map[string]any(v))
			}
			doc[name] = table
		}
	}
	add("topics", d.topics)
	add("groups", d.groups)
	add("users", d.users)
	add("acls", d.acls)
	if len(d.config) > 0 {
		doc["config"] = d.config
	}
	if len(d.offsets) > 0 {
		table := map[string]map[string]map[string]int64{}
		for key, n := range d.offsets {
			parts := strings.SplitN(key, "/", 3)
			if table[parts[0]] == nil {
				table[parts[0]] = map[string]map[string]int64{}
			}
			if table[parts[0]][parts[1]] == nil {
				table[parts[0]][parts[1]] = map[string]int64{}
			}
			table[parts[0]][parts[1]][parts[2]] = n
		}
		doc["offsets"] = table
	}
	return doc
}

// plainNumbers makes what JSON gave what TOML can write: json.Number becomes a
// number, null goes.
func plainNumbers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range x {
			if v != nil {
				out[k] = plainNumbers(v)
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = plainNumbers(v)
		}
		return out
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, _ := x.Float64()
		return f
	}
	return v
}

// names of all brokers that a file speaks of by themselves.
func (d *desired) brokerNames() []string {
	out := sortedKeys(d.brokers)
	sort.Strings(out)
	return out
}
