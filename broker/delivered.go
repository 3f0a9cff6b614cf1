package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/store/vfs"
)

// delivered is <root>/mqctl/delivered.json: what Apache slaves, by address, have shown
// back of moves of progress made here (subgroup.PlainSlave.Delivered).
type delivered struct {
	file *table.File

	mu     sync.Mutex // guards what follows; held while the file is written
	byAddr map[string]map[string]map[int32]uint32
}

type deliveredDocument struct {
	Slaves map[string]map[string]map[int32]uint32 `json:"slaves"`
}

func loadDelivered(fs vfs.FS, dir string) (*delivered, error) {
	d := &delivered{file: table.NewFile(fs, dir, "delivered.json"), byAddr: map[string]map[string]map[int32]uint32{}}
	var doc deliveredDocument
	_, err := d.file.Load(func(b []byte) error {
		doc = deliveredDocument{}
		return fastjson.Unmarshal(b, &doc)
	})
	if err != nil {
		return nil, err
	}
	if doc.Slaves != nil {
		d.byAddr = doc.Slaves
	}
	return d, nil
}

// of is what is known of one slave, false if there is nothing of an earlier process.
func (d *delivered) of(addr string) (map[string]map[int32]uint32, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	gens, ok := d.byAddr[addr]
	return maps.Clone(gens), ok
}

// save keeps what is known of one slave.
func (d *delivered) save(addr string, gens map[string]map[int32]uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, has := d.byAddr[addr]; !has && len(d.byAddr) >= mostMembers {
		clear(d.byAddr) // addresses that come and go
	}
	d.byAddr[addr] = gens
	text, err := json.Marshal(deliveredDocument{Slaves: d.byAddr})
	if err == nil {
		err = d.file.Save(text)
	}
	if err != nil {
		return fmt.Errorf("save what slaves have seen of resets: %w", err)
	}
	return nil
}
