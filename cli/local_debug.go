package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"mqctl/store/inspect"
)

// storeLook is what a bundle says of a store folder.
type storeLook struct {
	Dir          string         `json:"dir"`
	InUseBy      *int64         `json:"inUseByPid"`
	Checked      string         `json:"checked" enum:"FULL|LIGHT"` // light: names, sizes and small files, not the log itself
	LogMin       int64          `json:"logMinOffset"`
	LogBytes     int64          `json:"logBytes"`
	SegmentBytes int64          `json:"segmentBytes"`
	Queues       int            `json:"queues"`
	State        string         `json:"state" enum:"OK|NOTE|REPAIR|DAMAGE"`
	Files        []storeLogFile `json:"files"`
	SideFiles    []storeSide    `json:"sideFiles"`
	Findings     []storeFound   `json:"findings"`
	Checkpoint   *storePoint    `json:"checkpoint"`
	More         int64          `json:"moreFindings"` // that are not listed
}

type storeLogFile struct {
	File  string `json:"file"`
	Base  int64  `json:"firstPosition"`
	Bytes int64  `json:"bytes"`
}

type storeSide struct {
	File  string  `json:"file"`
	Bytes int64   `json:"bytes"`
	Error *string `json:"error"`
}

type storePoint struct {
	PhysMillis  int64 `json:"physMillis"`
	LogicMillis int64 `json:"logicMillis"`
}

type storeFound struct {
	File string `json:"file"`
	storeDamage
}

// mostFullCheck is how long a log may be to be read as a whole for a bundle: bytes.
const mostFullCheck = 1 << 30

// mostBundleFindings bounds what a bundle tells of one store.
const mostBundleFindings = 500

// lookAtStore checks a folder for a bundle: a short log of a stopped broker as a
// whole, else what can be seen without reading the log. Configs are its tables.
func lookAtStore(ctx context.Context, dir string) (look *storeLook, configs map[string][]byte, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	pid := lockHolder(lockPath(dir))
	s, err := inspect.Open(inspect.Options{Dir: dir, Live: pid > 0})
	if err != nil {
		return nil, nil, notStore(dir, err)
	}
	defer func() { _ = s.Close() }() // only read from
	look = &storeLook{Dir: dir, Checked: "LIGHT", State: "OK", LogMin: s.LogMin(), SegmentBytes: s.SegmentBytes(), Queues: len(s.Queues()),
		Files: []storeLogFile{}, SideFiles: []storeSide{}, Findings: []storeFound{}}
	if pid > 0 {
		look.InUseBy = ptr(int64(pid))
	}
	for _, f := range s.LogFiles() {
		look.LogBytes += f.Bytes
		look.Files = append(look.Files, storeLogFile{f.Path, f.Base, f.Bytes})
	}
	check := s.VerifyLight
	if pid == 0 && look.LogBytes <= mostFullCheck {
		check, look.Checked = s.Verify, "FULL"
	}
	rep, err := check(ctx, look.take)
	if err != nil {
		return nil, nil, notStore(dir, err)
	}
	if rep.Worst != "" {
		look.State = string(rep.Worst)
	}
	if err := look.small(s); err != nil {
		return nil, nil, notStore(dir, err)
	}
	configs, err = storeConfigs(s)
	return look, configs, err
}

// take is one finding.
func (l *storeLook) take(f inspect.Found) {
	if len(l.Findings) >= mostBundleFindings {
		l.More++
		return
	}
	var it storeFileItem
	it.take([]inspect.Found{f}, l.Dir)
	l.Findings = append(l.Findings, storeFound{f.File, it.Damage[0]})
}

// small adds the checkpoint and mqctl's own files.
func (l *storeLook) small(s *inspect.Store) error {
	if c, _, ok, err := s.Checkpoint(); err == nil && ok {
		l.Checkpoint = &storePoint{c.PhysMillis, c.LogicsMillis}
	}
	side, err := s.SideFiles()
	for _, f := range side {
		it := storeSide{File: f.Path, Bytes: f.Bytes}
		if f.Err != nil {
			it.Error = ptr(f.Err.Error())
		}
		l.SideFiles = append(l.SideFiles, it)
	}
	return err
}

// storeConfigs are the tables of a store that can be read, without their older
// generations.
func storeConfigs(s *inspect.Store) (map[string][]byte, error) {
	list, err := s.Configs()
	out := map[string][]byte{}
	for _, c := range list {
		if c.Err == nil && c.Text != nil && !strings.HasSuffix(c.Path, ".bak") && strings.HasSuffix(c.Path, ".json") {
			out[filepath.Base(c.Path)] = c.Text
		}
	}
	return out, err
}

// deadNotes are the notes of brokers of this user that were here and were not
// stopped: nobody holds their store. Other than localBrokers it leaves them.
func deadNotes(env func(string) string) []localBroker {
	notes, err := filepath.Glob(filepath.Join(stateDir(env), "run", "broker-*.json"))
	if err != nil {
		return nil
	}
	var out []localBroker
	for _, path := range notes {
		var l localBroker
		if readNote(path, &l) == nil && l.StoreDir != "" && lockHolder(lockPath(l.StoreDir)) == 0 {
			out = append(out, l)
		}
	}
	return out
}

// isNoStore reports whether the error says that a folder is no store.
func isNoStore(err error) bool {
	var m *Message
	return errors.As(err, &m) && m.Code == "NO_STORE"
}
