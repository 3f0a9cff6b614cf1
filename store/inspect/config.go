package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"

	"mqctl/store"
	"mqctl/store/fastjson"
	"mqctl/store/internal/checkpoint"
	"mqctl/store/vfs"
)

// maxConfig bounds what is read of a configuration file, in bytes.
const maxConfig = 1 << 30

// Config is one configuration file of the broker.
type Config struct {
	Path    string
	Bytes   int64
	Text    []byte // as legal JSON; nil if it cannot be read
	Counter int64  // of its data version; -1 if it has none
	Err     error  // why it cannot be read
}

// configNames are the tables that are JSON.
func isTable(name string) bool {
	name = strings.TrimSuffix(name, ".bak")
	return strings.HasSuffix(name, ".json") || name == "timermetrics" || name == "transactionMetrics"
}

// Configs reads the configuration files and their older generations (.bak).
func (s *Store) Configs() ([]Config, error) {
	dir := filepath.Join(s.opt.Dir, "config")
	entries, err := s.opt.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Config
	for _, e := range entries {
		if e.Dir || !isTable(e.Name) {
			continue
		}
		c := Config{Path: "config/" + e.Name, Bytes: e.Size, Counter: -1}
		b, err := vfs.ReadFile(s.opt.FS, filepath.Join(dir, e.Name), maxConfig)
		switch {
		case err != nil:
			c.Err = err
		case len(b) == 0:
			c.Err = errEmpty
		default:
			c.parse(b)
		}
		out = append(out, c)
	}
	return out, nil
}

var errEmpty = errors.New("is empty")

func (c *Config) parse(b []byte) {
	if c.Text, c.Err = fastjson.Clean(b); c.Err != nil {
		c.Text = nil
		return
	}
	var head struct {
		DataVersion *struct{ Counter int64 } `json:"dataVersion"`
	}
	if err := json.Unmarshal(c.Text, &head); err != nil {
		c.Err, c.Text = err, nil
	} else if head.DataVersion != nil {
		c.Counter = head.DataVersion.Counter
	}
}

// config checks that the broker can read its tables.
func (v *verifier) config() error {
	list, err := v.s.Configs()
	if err != nil {
		return err
	}
	byName := map[string]Config{}
	var names []string
	for _, c := range list {
		byName[c.Path] = c
		if main := strings.TrimSuffix(c.Path, ".bak"); main == c.Path || byName[main].Path == "" {
			names = append(names, main)
		}
	}
	sort.Strings(names)
	for i, name := range names {
		if i == 0 || names[i-1] != name {
			v.generations(name, byName)
		}
	}
	return v.neededConfig(byName)
}

// generations judges a table by its two files.
func (v *verifier) generations(name string, by map[string]Config) {
	main, hasMain := by[name]
	bak, hasBak := by[name+".bak"]
	good := func(c Config, has bool) bool { return has && c.Err == nil }
	blank := func(c Config, has bool) bool { return !has || errors.Is(c.Err, errEmpty) }
	f := store.Finding{Kind: store.ConfigDamaged, File: name, Phys: -1, Bytes: main.Bytes}
	switch {
	case good(main, hasMain) && (good(bak, hasBak) || blank(bak, hasBak)):
		return
	case good(main, hasMain):
		f.File += ".bak"
		f.What = fmt.Sprintf("the older generation cannot be read: %v", bak.Err)
		v.find(Found{Finding: f, Severity: Note})
	case good(bak, hasBak):
		f.What = "cannot be read: " + why(main, hasMain) + "; a start takes " + name + ".bak, which is complete"
		v.find(Found{Finding: f, Severity: Repair})
	case blank(main, hasMain) && blank(bak, hasBak):
		f.What = "is empty, and so is " + name + ".bak: a start begins without it"
		v.find(Found{Finding: f, Severity: Repair})
	default:
		f.What = fmt.Sprintf("cannot be read: %s; %s.bak: %s", why(main, hasMain), name, why(bak, hasBak))
		f.Try = "restore one of the two from a backup, or mqctl store repair DIR starts without it"
		v.find(Found{Finding: f, Severity: Damage})
	}
}

func why(c Config, has bool) string {
	if !has {
		return "it is missing"
	}
	return c.Err.Error()
}

// neededConfig reports tables that must have been there.
func (v *verifier) neededConfig(by map[string]Config) error {
	has := func(name string) bool {
		_, main := by[name]
		_, bak := by[name+".bak"]
		return main || bak
	}
	v.known = topicsOf(by)
	if len(v.s.queues) == 0 {
		return nil
	}
	if len(by) == 0 {
		f := notLog(store.MissingFile, "config", "there are no configuration files although there are queues: topics, groups and the offsets of consumers are unknown")
		f.Try = "restore it from a backup or a replica"
		v.find(Found{Finding: f, Severity: Damage})
		return nil
	}
	v.missesDelays = !has("config/delayOffset.json")
	if !has("config/topics.json") {
		v.lostTable("config/topics.json", "topics are unknown until they are created again")
	}
	return nil
}

func (v *verifier) lostTable(file, what string) {
	f := notLog(store.MissingFile, file, "is missing, and its .bak too: %s", what)
	f.Try = "restore it from a backup or a replica"
	v.find(Found{Finding: f, Severity: Damage})
}

// delays reports that the progress of delayed messages is missing, unless none of them
// can have been delivered: a broker that was killed soon after its first start has not
// written any yet.
func (v *verifier) delays() error {
	if !v.missesDelays {
		return nil
	}
	for _, q := range v.s.queues {
		if q.Topic != delayTopic || len(q.files) == 0 {
			continue
		}
		e, err := q.At(q.First())
		if err != nil {
			return err
		}
		if e.Size > 0 && e.Tags > v.lastMs {
			continue // its first message was not due when the last one was stored
		}
		v.lostTable("config/delayOffset.json", "delayed messages that are still in the log are delivered again")
		return nil
	}
	return nil
}

// topicsOf are the topics of config/topics.json; nil if it cannot be read.
func topicsOf(by map[string]Config) map[string]bool {
	c, ok := by["config/topics.json"]
	if !ok || c.Err != nil {
		c, ok = by["config/topics.json.bak"]
	}
	var t struct {
		Table map[string]json.RawMessage `json:"topicConfigTable"`
	}
	if !ok || c.Err != nil || json.Unmarshal(c.Text, &t) != nil || len(t.Table) == 0 {
		return nil
	}
	known := map[string]bool{}
	for name := range t.Table {
		known[name] = true
	}
	return known
}

// KnownTopics are the topics of config/topics.json; nil if it cannot be read.
func (s *Store) KnownTopics() (map[string]bool, error) {
	list, err := s.Configs()
	by := map[string]Config{}
	for _, c := range list {
		by[c.Path] = c
	}
	return topicsOf(by), err
}

// Checkpoint reads the checkpoint; ok is false if there is none that says something.
func (s *Store) Checkpoint() (c checkpoint.Checkpoint, size int64, ok bool, err error) {
	b, err := vfs.ReadFile(s.opt.FS, filepath.Join(s.opt.Dir, "checkpoint"), maxSideFile)
	if errors.Is(absent(err), fs.ErrNotExist) {
		return c, -1, false, nil
	}
	if err != nil {
		return c, 0, false, err
	}
	c, derr := checkpoint.Decode(b)
	return c, int64(len(b)), derr == nil && len(b) >= 40, nil
}

// checkpoint checks the checkpoint against the log.
func (v *verifier) checkpoint() error {
	if v.s.isWrong("checkpoint") {
		return nil
	}
	c, size, ok, err := v.s.Checkpoint()
	if err != nil {
		return err
	}
	f := store.Finding{Kind: CheckpointDamaged, File: "checkpoint", Phys: -1, Bytes: max(size, 0)}
	switch {
	case ok && c.PhysMillis > v.lastMs && v.lastMs > 0 && v.rep.Records > 0 && !v.s.opt.Live:
		f.What = fmt.Sprintf("says the log is safe up to %d, the newest record is of %d", c.PhysMillis, v.lastMs)
	case ok:
		return nil
	case size < 0 && v.rep.Records == 0:
		return nil
	case size < 0 && v.repaired:
		return nil
	case size < 0:
		f.Kind, f.What = store.MissingFile, "is missing: a recovery scans the whole log"
	default:
		f.What = fmt.Sprintf("has %d bytes instead of %d: a recovery scans the whole log", size, checkpoint.Bytes)
	}
	v.find(Found{Finding: f, Severity: Repair})
	return nil
}

// Abort reads the file abort: the process that had the store in use.
func (s *Store) Abort() (pid string, ok bool, err error) {
	b, err := vfs.ReadFile(s.opt.FS, filepath.Join(s.opt.Dir, "abort"), 4096)
	if errors.Is(absent(err), fs.ErrNotExist) {
		return "", false, nil
	}
	return string(b), err == nil, err
}
