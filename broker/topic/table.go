package topic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/store/vfs"
	"mqctl/subgroup"
	"mqctl/subgroup/live"
)

// Options of a Table.
type Options struct {
	FS              vfs.FS
	Dir             string // <root>/config
	Cluster, Broker string
	DefaultQueues   int32       // defaultTopicQueueNums, queues of the template; 0 means 8
	AutoCreate      func() bool // autoCreateTopicEnable, live
	TraceTopic      bool        // traceTopicEnable: make RMQ_SYS_TRACE_TOPIC
	TimerTopic      bool        // timerWheelEnable: make rmq_sys_wheel_timer
	DelayLevels     int32       // queues of SCHEDULE_TOPIC_XXXX; 0 means 18
	ReviveQueues    int32       // reviveQueueNum; 0 means 8
	// AllowMixed is enableMixedMessageType, live; nil means never.
	AllowMixed func() bool
	// Changed is called after a change is durable and live, with the names
	// changed, by the goroutine that made the change.
	Changed   func(names []string)
	NowMillis func() int64
}

// Table is the topic table: immutable values, read without a lock.
type Table struct {
	o       Options
	live    *live.Table[Config]
	mapping table.DataVersion    // of the static topic mappings, of which there are none
	body    atomic.Pointer[body] // of JSON, for one version of the table
	told    live.History[Config] // to slaves
	refused []string

	fallback, lost error
}

// body is an encoded answer to code 21.
type body struct {
	of   *live.Snapshot[Config]
	text []byte
}

// memberTopics is the member of topics.json that has the topics.
const memberTopics = "topicConfigTable"

// document is topics.json.
type document struct {
	DataVersion      table.DataVersion `json:"dataVersion"`
	TopicConfigTable map[string]Config `json:"topicConfigTable"`
}

// Load reads topics.json (or its .bak) and adds the system topics that are
// missing. These are written with the first change, not by Load: they come
// back the same at every start, and a start must not need a write.
func Load(o Options) (*Table, error) {
	if o.DefaultQueues == 0 {
		o.DefaultQueues = 8
	}
	if o.DelayLevels == 0 {
		o.DelayLevels = 18
	}
	if o.ReviveQueues == 0 {
		o.ReviveQueues = 8
	}
	t := &Table{o: o, mapping: table.DataVersion{Timestamp: o.NowMillis()}}
	file := table.NewFile(o.FS, o.Dir, "topics.json")
	var doc document
	var rest live.Rest
	_, err := file.Load(func(b []byte) (err error) {
		doc = document{}
		if err = fastjson.Unmarshal(b, &doc); err == nil {
			rest, err = live.Unknown[Config](b, memberTopics)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the topic table: %w", err)
	}
	if doc.TopicConfigTable == nil {
		doc.TopicConfigTable = map[string]Config{}
	}
	if doc.DataVersion, err = live.Replay(file, doc.TopicConfigTable, doc.DataVersion); err != nil {
		return nil, fmt.Errorf("read the topic table: %w", err)
	}
	t.fallback, t.lost, doc.DataVersion = file.UsedBak(), file.Lost(), file.Version(doc.DataVersion)
	values, version := t.merge(doc)
	t.live, err = live.New(live.Options[Config]{
		File: file, Field: memberTopics, Rest: rest, NowMillis: o.NowMillis, Journal: true,
	}, values, version)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// merge puts the topics of the file over the system topics. Whatever the file
// says of a system topic stands, as in RocketMQ.
func (t *Table) merge(doc document) (map[string]*Config, table.DataVersion) {
	values := make(map[string]*Config, len(doc.TopicConfigTable)+16)
	for name, c := range doc.TopicConfigTable {
		if CheckName(name) != nil && !t.IsSystem(name) {
			t.refused = append(t.refused, name)
			continue
		}
		c = c.sanitize(name)
		values[name] = &c
	}
	slices.Sort(t.refused)
	version, added := doc.DataVersion, false
	for _, c := range t.system() {
		if values[c.TopicName] == nil {
			values[c.TopicName] = &c
			added = true
		}
	}
	if added {
		// A nameserver tells tables apart by their version.
		version = version.Next(t.o.NowMillis())
	}
	return values, version
}

// Flush writes topics.json if topics were made since that only its journal has: they are
// durable, but Apache does not read that.
func (t *Table) Flush() error { return t.live.Flush() }

// Fallback says why topics.json.bak was read instead of topics.json; nil if it was not.
func (t *Table) Fallback() error { return t.fallback }

// Lost says which changes in the journal of topics.json could not be used, and where it is
// kept; nil if all could.
func (t *Table) Lost() error { return t.lost }

// Refused names the entries of topics.json that were left out because their
// name is not legal: it would become a folder.
func (t *Table) Refused() []string { return t.refused }

// system lists the topics that exist from the start, as TopicConfigManager makes them.
func (t *Table) system() []Config {
	of := func(name string, queues int32, perm int) Config {
		c := Defaults(name)
		c.ReadQueueNums, c.WriteQueueNums, c.Perm = queues, queues, perm
		return c
	}
	const rw = PermRead | PermWrite
	list := []Config{
		of(selfTest, 1, rw),
		of(benchmark, 1024, rw),
		of(t.o.Cluster, 16, rw|PermInherit),
		of(t.o.Broker, 1, rw|PermInherit),
		of(offsetMoved, 1, rw),
		of(Schedule, t.o.DelayLevels, rw),
		of(ReplyTopic(t.o.Cluster), 1, rw),
		of(systemPrefix+"REVIVE_LOG_"+t.o.Cluster, t.o.ReviveQueues, rw),
		of(systemPrefix+"SYNC_BROKER_MEMBER_"+t.o.Broker, 1, PermInherit),
		of(TransHalf, 1, rw),
		of(TransOp, 1, rw),
	}
	if t.o.AutoCreate() {
		list = append(list, of(AutoCreate, t.o.DefaultQueues, rw|PermInherit))
	}
	if t.o.TraceTopic {
		list = append(list, of(Trace, 1, rw))
	}
	if t.o.TimerTopic {
		list = append(list, of(wheelTimer, 1, rw))
	}
	return list
}

// EnsureSystem makes system topics that a live change of the settings asks
// for, such as the template after autoCreateTopicEnable was turned on.
func (t *Table) EnsureSystem() error {
	for _, c := range t.system() {
		if _, err := t.Ensure(c); err != nil {
			return err
		}
	}
	return nil
}

// Get returns the config or nil; the value is immutable.
func (t *Table) Get(name string) *Config { return t.live.Get(name) }

// GetBytes is Get for a name that is still part of a request. It does not allocate.
func (t *Table) GetBytes(name []byte) *Config { return t.live.GetBytes(name) }

// Len is the number of topics.
func (t *Table) Len() int { return t.live.Len() }

// All is a snapshot of the table with its version. It must not be modified.
func (t *Table) All() (map[string]*Config, table.DataVersion) {
	s := t.live.Snapshot()
	return s.Values, s.Version
}

// IsSystem reports whether a name belongs to the system, the cluster's and the
// broker's own names included.
func (t *Table) IsSystem(name string) bool {
	return name == t.o.Broker || IsSystemOf(t.o.Cluster, name)
}

// SystemNames lists the system topics, for code 305. Names are here whether
// their topic exists or not.
func (t *Table) SystemNames() []string {
	names := map[string]bool{
		AutoCreate: true, Schedule: true, benchmark: true, TransHalf: true, Trace: true, TransOp: true,
		TransCheckMax: true, selfTest: true, offsetMoved: true, checkpoint: true, wheelTimer: true,
	}
	for _, c := range t.system() {
		names[c.TopicName] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// CheckUser refuses names that a user may not create, change or delete: illegal
// ones and system topics, with RocketMQ's remarks (*RuleError, code 29).
func (t *Table) CheckUser(name string) error {
	if err := CheckName(name); err != nil {
		return &RuleError{Code: codeInvalidParameter, Text: err.Error()}
	}
	if t.IsSystem(name) {
		return invalid("The topic[%s] is conflict with system topic.", name)
	}
	return nil
}

// Put creates or replaces a topic: durable before it returns, visible after;
// changed is false if it was the same before. Attributes that carry signs (+key,
// -key) are changes, others the whole new set; nil keeps what there is.
// Violations are a *RuleError.
func (t *Table) Put(c Config) (changed bool, err error) {
	return t.put(c, func(current *Config) (map[string]string, error) { return t.attributesOf(current, c) })
}

// attributesOf are those that a topic has when c was put over it.
func (t *Table) attributesOf(current *Config, c Config) (map[string]string, error) {
	if c.Attributes == nil || signed(c.Attributes) {
		return t.alterAttributes(current, c.Attributes)
	}
	return maps.Clone(c.Attributes), t.replaceAttributes(current, c.Attributes)
}

// PutAll is Put for many topics in one durable change, or none of them. Of a topic
// that is named twice the later settings count.
func (t *Table) PutAll(list []Config) (changed bool, err error) {
	last := make(map[string]int, len(list))
	for i := range list {
		if err := t.complete(&list[i]); err != nil {
			return false, named(list[i].TopicName, err)
		}
		last[list[i].TopicName] = i
	}
	var names []string
	changed, err = t.live.Apply(func(pending func(string) *Config) (live.Change[Config], error) {
		var change live.Change[Config]
		for i, c := range list {
			if last[c.TopicName] != i {
				continue
			}
			current := pending(c.TopicName)
			attributes, err := t.attributesOf(current, c)
			if err != nil {
				return change, named(c.TopicName, err)
			}
			if c.Attributes = attributes; current == nil || !current.Equal(c) {
				change.Edits = append(change.Edits, live.Edit[Config]{Name: c.TopicName, Value: &c})
				names = append(names, c.TopicName)
			}
		}
		return change, nil
	})
	if err != nil {
		return false, t.explain(fmt.Sprintf("%d topics", len(last)), err)
	}
	if changed && t.o.Changed != nil {
		t.o.Changed(names)
	}
	return changed, nil
}

// named says which of many topics broke a rule.
func named(name string, err error) error {
	if rule, ok := err.(*RuleError); ok { //nolint:errorlint // made in this package, never wrapped
		return &RuleError{Code: rule.Code, Text: fmt.Sprintf("%q: %s", name, rule.Text)}
	}
	return err
}

// complete fills in what a topic must have, and checks it.
func (t *Table) complete(c *Config) error {
	if c.TopicFilterType == "" {
		c.TopicFilterType = SingleTag
	}
	if err := CheckName(c.TopicName); err != nil && !t.IsSystem(c.TopicName) {
		return &RuleError{Code: codeInvalidParameter, Text: err.Error()}
	}
	return c.Validate()
}

// PutWithAttributes is Put with the attribute changes of code 17 as text,
// "+key=value,-key"; c.Attributes is not looked at.
func (t *Table) PutWithAttributes(c Config, attributes string) (changed bool, err error) {
	changes, err := ParseAttributes(attributes)
	if err != nil {
		return false, err
	}
	return t.put(c, func(current *Config) (map[string]string, error) {
		return t.alterAttributes(current, changes)
	})
}

func (t *Table) put(c Config, attributes func(current *Config) (map[string]string, error)) (bool, error) {
	if err := t.complete(&c); err != nil {
		return false, err
	}
	changed, err := t.live.Apply(func(pending func(string) *Config) (live.Change[Config], error) {
		current := pending(c.TopicName)
		var err error
		if c.Attributes, err = attributes(current); err != nil {
			return live.Change[Config]{}, err
		}
		if current != nil && current.Equal(c) {
			return live.Change[Config]{}, nil
		}
		return edit(c.TopicName, &c), nil
	})
	if err != nil {
		return false, t.explain("topic "+c.TopicName, err)
	}
	t.tell(changed, c.TopicName)
	return changed, nil
}

func edit(name string, c *Config) live.Change[Config] {
	return live.Change[Config]{Edits: []live.Edit[Config]{{Name: name, Value: c}}}
}

// explain adds what was being done to an error that is not a rule's.
func (t *Table) explain(name string, err error) error {
	if _, rule := err.(*RuleError); rule { //nolint:errorlint // made in this package, never wrapped
		return err
	}
	return fmt.Errorf("save %s, nothing changed: %w", name, err)
}

func (t *Table) tell(changed bool, name string) {
	if changed && t.o.Changed != nil {
		t.o.Changed([]string{name})
	}
}

// Ensure makes the topic if it is missing and returns what there is then.
func (t *Table) Ensure(c Config) (*Config, error) {
	if have := t.Get(c.TopicName); have != nil {
		return have, nil
	}
	if c.TopicFilterType == "" {
		c.TopicFilterType = SingleTag
	}
	if c.Attributes == nil {
		c.Attributes = map[string]string{}
	}
	if err := CheckName(c.TopicName); err != nil && !t.IsSystem(c.TopicName) {
		return nil, &RuleError{Code: codeInvalidParameter, Text: err.Error()}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	result := &c
	changed, err := t.live.Apply(func(pending func(string) *Config) (live.Change[Config], error) {
		if have := pending(c.TopicName); have != nil {
			result = have
			return live.Change[Config]{}, nil
		}
		return edit(c.TopicName, &c), nil
	})
	if err != nil {
		return nil, t.explain("topic "+c.TopicName, err)
	}
	t.tell(changed, c.TopicName)
	return result, nil
}

// AutoCreateFrom makes the topic of a message that has none, from the template
// the client named; nil and no error if that is refused. A retry topic needs no
// template: it gets one queue.
func (t *Table) AutoCreateFrom(name, template string, clientQueues, sysFlag int32) (*Config, error) {
	if have := t.Get(name); have != nil {
		return have, nil
	}
	if err := CheckName(name); err != nil {
		return nil, &RuleError{Code: codeInvalidParameter, Text: err.Error()}
	}
	c := Defaults(name)
	c.TopicSysFlag = sysFlag
	from := t.Get(template)
	switch {
	case from != nil && from.Perm&PermInherit != 0 && (template != AutoCreate || t.o.AutoCreate()):
		c.ReadQueueNums = max(0, min(clientQueues, from.WriteQueueNums))
		c.WriteQueueNums = c.ReadQueueNums
		c.Perm = from.Perm &^ PermInherit
		c.TopicFilterType = from.TopicFilterType
	case strings.HasPrefix(name, subgroup.RetryPrefix):
		c.ReadQueueNums, c.WriteQueueNums = 1, 1
	default:
		return nil, nil
	}
	return t.Ensure(c)
}

// Delete removes a topic, durably; false if it was not there.
func (t *Table) Delete(name string) (bool, error) {
	changed, err := t.live.Apply(func(pending func(string) *Config) (live.Change[Config], error) {
		if pending(name) == nil {
			return live.Change[Config]{}, nil
		}
		return edit(name, nil), nil
	})
	if err != nil {
		return false, t.explain("topic "+name, err)
	}
	t.tell(changed, name)
	return changed, nil
}

// JSON is the answer body of code 21: the whole table with empty mappings,
// encoded once for each version. It must not be modified.
func (t *Table) JSON() []byte {
	s := t.live.Snapshot()
	if b := t.body.Load(); b != nil && b.of == s {
		return b.text
	}
	text := t.encode(s.Version, s.Values)
	t.body.Store(&body{of: s, text: text})
	return text
}

// encode writes topics as code 21 tells them.
func (t *Table) encode(version table.DataVersion, topics map[string]*Config) []byte {
	text, err := fastjson.Marshal(struct {
		DataVersion        table.DataVersion  `json:"dataVersion"`
		MappingDataVersion table.DataVersion  `json:"mappingDataVersion"`
		TopicConfigTable   map[string]*Config `json:"topicConfigTable"`
		DetailMap          map[string]string  `json:"topicQueueMappingDetailMap"`
		InfoMap            map[string]string  `json:"topicQueueMappingInfoMap"`
	}{version, t.mapping, topics, map[string]string{}, map[string]string{}})
	if err != nil {
		panic("topic: a config of plain fields does not encode: " + err.Error())
	}
	return text
}
