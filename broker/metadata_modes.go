package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/store/vfs"
)

// requestModes is how groups take messages of a topic, pulled or popped
// (MessageRequestModeManager, code 402). This broker pops nothing; it keeps the
// table for the brokers that do: what it found in its folder, or its master has.
type requestModes struct {
	file *table.File
	rest []byte     // members of the file that are not ours, kept
	mu   sync.Mutex // one change at a time, while it is saved
	text atomic.Pointer[[]byte]
}

// noModes is an empty table.
var noModes = []byte(`{"messageRequestModeMap":{}}`)

// modesMember is the member of the document that has the table.
const modesMember = "messageRequestModeMap"

// maxModes bounds the table in bytes.
const maxModes = 4 << 20

// loadModes reads messageRequestMode.json of the configuration folder.
func loadModes(fs vfs.FS, storeDir string) (*requestModes, error) {
	m := &requestModes{file: table.NewFile(fs, filepath.Join(storeDir, "config"), "messageRequestMode.json")}
	m.text.Store(&noModes)
	_, err := m.file.Load(func(b []byte) error {
		rest, err := fastjson.Unknown(b, "", modesMember)
		if err != nil {
			return err
		}
		text, err := cleanModes(b)
		if err != nil {
			return err
		}
		m.rest = rest
		m.text.Store(&text)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading how groups take their messages: %w", err)
	}
	return m, nil
}

// cleanModes checks a table and makes its text compact.
func cleanModes(b []byte) ([]byte, error) {
	if len(b) > maxModes {
		return nil, fmt.Errorf("the table of request modes has %d bytes, the limit is %d", len(b), maxModes)
	}
	var doc struct {
		Map map[string]map[string]json.RawMessage `json:"messageRequestModeMap"`
	}
	if err := fastjson.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("the table of request modes: %w", err)
	}
	if doc.Map == nil {
		return nil, errors.New("the table of request modes has no " + modesMember)
	}
	return json.Marshal(doc)
}

// JSON is the answer body of code 402. It must not be modified.
func (m *requestModes) JSON() []byte { return *m.text.Load() }

// Replace makes the table a master's; one that is equal already is not written.
func (m *requestModes) Replace(b []byte) error {
	text, err := cleanModes(b)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes.Equal(text, m.JSON()) {
		return nil
	}
	return m.save(text)
}

// save writes a table and shows it. The caller holds mu.
func (m *requestModes) save(text []byte) error {
	doc := append(slices.Concat(text[:len(text)-1], m.rest), '}')
	if err := m.file.Save(doc); err != nil {
		return fmt.Errorf("save the table of request modes: %w", err)
	}
	m.text.Store(&text)
	return nil
}

// requestMode is one row of the table and the body of code 401
// (SetMessageRequestModeRequestBody).
type requestMode struct {
	Topic       string `json:"topic"`
	Group       string `json:"consumerGroup"`
	Mode        string `json:"mode"`
	ShareQueues int32  `json:"popShareQueueNum"`
}

// Put stores how a group takes the messages of a topic.
func (m *requestModes) Put(row requestMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var doc struct {
		Map map[string]map[string]json.RawMessage `json:"messageRequestModeMap"`
	}
	if err := json.Unmarshal(m.JSON(), &doc); err != nil {
		return err
	}
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	if doc.Map[row.Topic] == nil {
		doc.Map[row.Topic] = map[string]json.RawMessage{}
	}
	doc.Map[row.Topic][row.Group] = text
	all, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if len(all) > maxModes {
		return fmt.Errorf("the table of request modes would have %d bytes, the limit is %d", len(all), maxModes)
	}
	return m.save(all)
}
