package cli

import (
	"context"
	"fmt"
	"strings"

	"mqctl/store/inspect"
)

// storeDamage is one thing that a verification found.
type storeDamage struct {
	Kind       string   `json:"kind"`
	Severity   string   `json:"severity" enum:"NOTE|REPAIR|DAMAGE"`
	Offset     int64    `json:"offset"`     // in the file
	PhysOffset *int64   `json:"physOffset"` // in the log
	Bytes      *int64   `json:"bytes"`
	Count      *int64   `json:"count"`
	Message    string   `json:"message"`
	Try        []string `json:"try"`
}

// storeFileItem is one file of a store with what was found in it.
type storeFileItem struct {
	File        string        `json:"file"`
	Bytes       *int64        `json:"bytes"`
	FirstOffset *int64        `json:"firstOffset"` // position of the first record in the log
	LastOffset  *int64        `json:"lastOffset"`  // behind the last
	Messages    *int64        `json:"messages"`
	State       string        `json:"state" enum:"OK|NOTE|REPAIR|DAMAGE"`
	Damage      []storeDamage `json:"damage"`
}

// storeTotals sums a verification up.
type storeTotals struct {
	MinOffset    int64  `json:"minOffset"`
	MaxOffset    int64  `json:"maxOffset"`
	Messages     int64  `json:"messages"`
	MessageBytes int64  `json:"messageBytes"`
	Fillers      int64  `json:"fillers"`
	Queues       int    `json:"queues"`
	QueueEntries int64  `json:"queueEntries"`
	IndexFiles   int    `json:"indexFiles"`
	IndexEntries int64  `json:"indexEntries"`
	Findings     int64  `json:"findings"`
	State        string `json:"state"`
	Live         bool   `json:"live"`
}

func storeVerifyCommand() *command {
	return &command{
		path: "store verify", summary: "check a store without changing it", args: "DIR", min: 1, max: 1, argFrom: "file", attrs: local,
		run: runStoreVerify, schema: "mqctl.store.verify/v1", exits: []int{ExitNotFound, ExitStoreInUse, ExitStoreDamaged},
		examples: []string{"mqctl store verify /data/mq/broker-a", "mqctl store verify /data/mq/broker-a -o json", "mqctl store verify ~/store --strict"},
		flags: storeFlags(
			flagSpec{key: "strict", kind: kindBool, help: "exit 15 also for what the next start repairs by itself"},
			forceRead(),
		),
		view: view{
			item: storeFileItem{}, name: func(item any) string { return item.(*storeFileItem).File },
			columns: []column{
				{head: "FILE", field: "file"}, {head: "FIRST", field: "firstOffset", as: asNumber}, {head: "LAST", field: "lastOffset", as: asNumber},
				{head: "MESSAGES", field: "messages", as: asNumber}, {head: "SIZE", field: "bytes", as: asBytes, wide: true}, {head: "STATE", field: "state"},
			},
			foot: func(p *printer, r *result) {
				t := r.totals.(storeTotals)
				p.printf("\n%d messages of %d bytes from %d to %d, %d entries of %d queues, %d keys of %d index files\n",
					t.Messages, t.MessageBytes, t.MinOffset, t.MaxOffset, t.QueueEntries, t.Queues, t.IndexEntries, t.IndexFiles)
			},
		},
	}
}

// maxFindings bounds what is kept of a verification.
const maxFindings = 10000

func runStoreVerify(ctx context.Context, c *call) (*result, error) {
	bar := c.progress("verify")
	s, err := c.openStore(bar.at)
	if err != nil {
		return nil, err
	}
	defer s.close()
	found := map[string][]inspect.Found{}
	var order []string
	kept := 0
	rep, err := s.Verify(ctx, func(f inspect.Found) {
		if kept++; kept > maxFindings {
			return
		}
		if len(found[f.File]) == 0 {
			order = append(order, f.File)
		}
		found[f.File] = append(found[f.File], f)
	})
	bar.end()
	if err != nil {
		return nil, notStore(s.dir, err)
	}
	r := &result{}
	c.verified(r, s, rep, found, order)
	if kept > maxFindings {
		r.warn(warning("MORE_FINDINGS", s.dir, "only the first %d of %d findings are listed", maxFindings, kept))
	}
	if lockHolder(lockPath(s.dir)) > 0 && s.lock != nil && !c.on("force-read") {
		return nil, c.storeInUse(s.dir, lockHolder(lockPath(s.dir)))
	}
	return r, nil
}

// verified makes the result of a verification.
func (c *call) verified(r *result, s *openedStore, rep inspect.Report, found map[string][]inspect.Found, order []string) {
	for _, f := range rep.Files {
		it := &storeFileItem{File: f.Path, Bytes: ptr(f.Bytes), Messages: ptr(f.Records)}
		if f.First >= 0 {
			it.FirstOffset, it.LastOffset = ptr(f.First), ptr(f.Last)
		}
		it.take(found[f.Path], s.dir)
		r.add(it)
		delete(found, f.Path)
	}
	for _, file := range order {
		if list := found[file]; len(list) > 0 {
			it := &storeFileItem{File: file}
			it.take(list, s.dir)
			r.add(it)
		}
	}
	state := "OK"
	if rep.Worst != "" {
		state = string(rep.Worst)
	}
	r.totals = storeTotals{
		MinOffset: rep.LogMin, MaxOffset: rep.LogEnd, Messages: rep.Records, MessageBytes: rep.RecordBytes, Fillers: rep.Fillers,
		Queues: rep.Queues, QueueEntries: rep.QueueEntries, IndexFiles: rep.IndexFiles, IndexEntries: rep.IndexEntries,
		Findings: rep.Findings, State: state, Live: s.lock == nil && c.on("force-read"),
	}
	for _, item := range r.items {
		it := item.(*storeFileItem)
		for _, d := range it.Damage {
			m := Message{Code: d.Kind, Target: it.File, Text: it.File + d.where() + ": " + d.Message, Try: d.Try}
			switch {
			case d.Severity == string(inspect.Note):
				if c.p.format == "table" || c.p.format == "wide" {
					fmt.Fprintf(c.io.Err, "note    %s  [%s]\n", oneLine(m.Text), m.Code)
				}
			case d.Severity == string(inspect.Damage), d.Severity == string(inspect.Repair) && c.on("strict"):
				m.ExitCode = ExitStoreDamaged
				r.failed(&m)
			default:
				r.warn(m)
			}
		}
	}
}

// where is the place in the file, for people.
func (d *storeDamage) where() string {
	switch {
	case d.Bytes == nil:
		return ""
	case d.PhysOffset != nil && *d.PhysOffset != d.Offset:
		return fmt.Sprintf(" at %d (log position %d), %d bytes", d.Offset, *d.PhysOffset, *d.Bytes)
	}
	return fmt.Sprintf(" at %d, %d bytes", d.Offset, *d.Bytes)
}

// take adds what was found in the file.
func (it *storeFileItem) take(list []inspect.Found, dir string) {
	it.State, it.Damage = "OK", []storeDamage{}
	worst := inspect.Severity("")
	for _, f := range list {
		d := storeDamage{Kind: string(f.Kind), Severity: string(f.Severity), Offset: f.Offset, Message: f.What, Try: []string{}}
		if f.Phys >= 0 {
			d.PhysOffset = ptr(int64(f.Phys))
		}
		if f.Bytes > 0 {
			d.Bytes = ptr(f.Bytes)
		}
		if f.Count > 0 {
			d.Count = ptr(f.Count)
		}
		if f.Try != "" {
			d.Try = append(d.Try, strings.ReplaceAll(f.Try, " DIR", " "+shellWord(dir)))
		}
		it.Damage = append(it.Damage, d)
		if inspect.Worse(f.Severity, worst) {
			worst = f.Severity
			it.State = string(worst)
		}
	}
}
