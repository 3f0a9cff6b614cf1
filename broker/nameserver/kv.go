package nameserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"sync/atomic"

	"mqctl/broker/remoting"
	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/store/vfs"
)

// orderNamespace holds the queue lists of ordered topics.
const orderNamespace = "ORDER_TOPIC_CONFIG"

// Bounds of the key table.
const (
	maxKeyBytes   = 255
	maxValueBytes = 64 << 10
	maxKeys       = 100_000
	kvQueue       = 1024 // changes waiting for the writer
	kvBatch       = 256  // changes that share one write
)

// pairs is the table: namespace, key, value. Immutable once published.
type pairs map[string]map[string]string

// kvTable is the key table of KVConfigManager: read from a published state,
// written by one goroutine.
type kvTable struct {
	file    *table.File // nil: in memory only
	lock    io.Closer   // of the file: two writers would lose each other's changes
	current atomic.Pointer[pairs]
	queue   chan kvChange
	log     *slog.Logger
	rest    []byte // members of the file that are not ours, kept
}

// kvChange puts a value, or removes a key, and says whom to answer.
type kvChange struct {
	call                  remoting.Call
	namespace, key, value string
	remove                bool
}

// kvFile is kvConfig.json (KVConfigSerializeWrapper).
type kvFile struct {
	Table pairs `json:"configTable"`
}

// loadKV reads the table at path, or begins an empty one in memory for "". A path
// that another process writes, or that nobody can write, is an error here and not
// when the first key is put.
func loadKV(fs vfs.FS, path string, log *slog.Logger) (*kvTable, error) {
	k := &kvTable{queue: make(chan kvChange, kvQueue), log: log}
	t := pairs{}
	k.current.Store(&t)
	if path == "" {
		return k, nil
	}
	if err := fs.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("key table %s: %w", path, err)
	}
	var err error
	if k.lock, err = fs.Lock(path + ".lock"); err != nil {
		return nil, fmt.Errorf("key table %s: %w", path, err)
	}
	k.file = table.NewFile(fs, filepath.Dir(path), filepath.Base(path))
	_, err = k.file.Load(func(b []byte) (err error) {
		var f kvFile
		if err = fastjson.Unmarshal(b, &f); err != nil {
			return err
		}
		if k.rest, err = fastjson.Unknown(b, "", "configTable"); err != nil {
			return err
		}
		if f.Table == nil {
			f.Table = pairs{}
		}
		k.current.Store(&f.Table)
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("key table %s: %w", path, err), k.lock.Close())
	}
	if why := k.file.UsedBak(); why != nil {
		log.Warn("the key table is older than it was: its newest changes are lost", "error", why)
	}
	return k, nil
}

// close lets others write the file.
func (k *kvTable) close() error {
	if k.lock == nil {
		return nil
	}
	return k.lock.Close()
}

// value is one value.
func (k *kvTable) value(namespace, key string) (string, bool) {
	v, ok := (*k.current.Load())[namespace][key]
	return v, ok
}

// namespace is all keys of a namespace; ok is false if there never was one.
func (k *kvTable) namespace(name string) (t map[string]string, ok bool) {
	t, ok = (*k.current.Load())[name]
	return t, ok
}

// change hands a change to the writer, which answers it; false if too many wait.
func (k *kvTable) change(c kvChange) bool {
	select {
	case k.queue <- c:
		return true
	default:
		return false
	}
}

// run is the writer.
func (k *kvTable) run(ctx context.Context) error {
	for {
		select {
		case c := <-k.queue:
			k.commit(k.gather(c))
		case <-ctx.Done():
			select {
			case c := <-k.queue:
				k.commit(k.gather(c))
			default:
				return nil
			}
		}
	}
}

// gather takes what waits besides first, up to a batch.
func (k *kvTable) gather(first kvChange) []kvChange {
	batch := []kvChange{first}
	for len(batch) < kvBatch {
		select {
		case c := <-k.queue:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// commit makes a batch durable, then visible, then answers it.
func (k *kvTable) commit(batch []kvChange) {
	old := *k.current.Load()
	next := maps.Clone(old)
	own := make(map[string]bool)
	refused := make([]string, len(batch))
	for i, c := range batch {
		if !c.remove && count(next) >= maxKeys && !has(next, c.namespace, c.key) {
			refused[i] = fmt.Sprintf("the key table is full: %d keys", maxKeys)
			continue
		}
		apply(next, own, c)
	}
	if err := k.save(next); err != nil {
		k.log.Error("key table not saved, the change was refused", "err", err)
		for _, c := range batch {
			c.call.ReplyNow(remoting.CodeSystemError, "the key table could not be saved: "+err.Error(), nil, nil)
		}
		return
	}
	k.current.Store(&next)
	for i, c := range batch {
		if refused[i] != "" {
			c.call.ReplyNow(remoting.CodeSystemError, refused[i], nil, nil)
			continue
		}
		c.call.ReplyNow(remoting.CodeSuccess, "", nil, nil)
	}
}

// apply changes next; own has the namespaces that are copies already.
func apply(next pairs, own map[string]bool, c kvChange) {
	ns := next[c.namespace]
	if c.remove && ns == nil {
		return
	}
	if !own[c.namespace] {
		own[c.namespace] = true
		if ns = maps.Clone(ns); ns == nil {
			ns = map[string]string{}
		}
		next[c.namespace] = ns
	}
	if c.remove {
		delete(ns, c.key)
		return
	}
	ns[c.key] = c.value
}

func (k *kvTable) save(t pairs) error {
	if k.file == nil {
		return nil
	}
	b, err := fastjson.Marshal(kvFile{Table: t})
	if err != nil {
		return err
	}
	if len(k.rest) > 0 {
		b = append(append(b[:len(b)-1], k.rest...), '}')
	}
	return k.file.Save(b)
}

func count(t pairs) (n int) {
	for _, ns := range t {
		n += len(ns)
	}
	return n
}

func has(t pairs, namespace, key string) bool {
	_, ok := t[namespace][key]
	return ok
}

// orderConf is a topic's queue list, if it is one: both clients index into its
// parts without a look, so a malformed one would make them fail.
func (k *kvTable) orderConf(topic string) string {
	v, _ := k.value(orderNamespace, topic)
	if !validOrderConf(v) {
		return ""
	}
	return v
}

// validOrderConf accepts "broker:queues;broker:queues".
func validOrderConf(s string) bool {
	for begin := 0; begin <= len(s); {
		end := begin
		colon := -1
		for ; end < len(s) && s[end] != ';'; end++ {
			if s[end] == ':' {
				if colon >= 0 {
					return false
				}
				colon = end
			}
		}
		if colon <= begin || colon+1 >= end || end-colon > 6 {
			return false
		}
		for _, c := range []byte(s[colon+1 : end]) {
			if c < '0' || c > '9' {
				return false
			}
		}
		begin = end + 1
	}
	return true
}
