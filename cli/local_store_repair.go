package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mqctl/store"
	"mqctl/store/inspect"
	"mqctl/store/vfs"
)

// repairItem is one step of a repair.
type repairItem struct {
	Action     string  `json:"action" enum:"SET_ASIDE|RESIZE|CUT|FILL|START"`
	File       string  `json:"file"`
	PhysOffset *int64  `json:"physOffset"`
	Bytes      *int64  `json:"bytes"`
	Reason     string  `json:"reason"`
	Effect     string  `json:"effect"`
	Applied    bool    `json:"applied"`
	Result     *string `json:"result"`
}

func storeRepairCommand() *command {
	return &command{
		path: "store repair", summary: "take damage out of a store, keeping a copy", args: "DIR", min: 1, max: 1, argFrom: "file", attrs: local | mutates | destructive,
		run: runStoreRepair, schema: "mqctl.store.repair/v1", exits: []int{ExitNotFound, ExitAborted, ExitBadConfig, ExitStoreInUse, ExitStoreDamaged},
		examples: []string{"mqctl store repair /data/mq/broker-a --dry-run", "mqctl store repair /data/mq/broker-a", "mqctl store repair /data/mq/broker-a --fill --yes"},
		flags: changesStore(
			flagSpec{key: "fill", kind: kindBool, help: "write fillers over damaged parts of the log, so that RocketMQ too reads on behind them"},
			configFlag(),
		),
		view: view{
			item: repairItem{}, name: func(item any) string { return item.(*repairItem).File },
			columns: []column{
				{head: "ACTION", field: "action"}, {head: "FILE", field: "file"}, {head: "POSITION", field: "physOffset", as: asNumber}, {head: "SIZE", field: "bytes", as: asBytes},
				{head: "REASON", field: "reason", as: asBody, cut: 60, wide: true}, {head: "EFFECT", field: "effect", as: asBody, cut: 60, wide: true}, {head: "APPLIED", field: "applied"},
			},
		},
	}
}

// repairPlan is what a repair is going to do.
type repairPlan struct {
	dir    string
	items  []*repairItem
	aside  []string // relative names
	rescan bool
	cut    bool
	holes  []*repairItem
	odd    []store.OddFile // files of the log to give their size
	left   []inspect.Found // damage that no repair takes away
	start  int             // findings that the next start mends by itself
	slots  [2]int          // of the index files that are there
	log    string
	levels []time.Duration // messageDelayLevel
	warn   *Message
}

func runStoreRepair(ctx context.Context, c *call) (*result, error) {
	p, err := c.planRepair(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{change: &change{DryRun: c.dryRun()}, empty: "there is nothing to repair"}
	if p.start > 0 {
		r.empty = fmt.Sprintf("nothing needs a repair: what is marked REPAIR (%d) is made right by the next start of the broker", p.start)
	}
	for _, it := range p.items {
		r.add(it)
	}
	if p.warn != nil && len(p.items) > 0 {
		r.warn(*p.warn)
	}
	defer func() {
		for _, f := range p.left {
			m := Message{Code: string(f.Kind), Target: f.File, Text: f.File + ": " + f.What, ExitCode: ExitStoreDamaged}
			if f.Try != "" {
				m.Try = []string{strings.ReplaceAll(f.Try, " DIR", " "+shellWord(p.dir))}
			}
			r.failed(&m)
		}
	}()
	if len(p.items) == 0 || c.dryRun() {
		return r, nil
	}
	if err := c.showRepair(p); err != nil {
		return nil, err
	}
	return r, c.applyRepair(p, r)
}

// showRepair prints the plan on stderr and asks.
func (c *call) showRepair(p *repairPlan) error {
	if !c.on("yes") {
		for _, it := range p.items {
			fmt.Fprintf(c.io.Err, "plan    %-9s  %s: %s; %s\n", it.Action, it.File, oneLine(it.Reason), it.Effect)
		}
	}
	return c.confirm("store repair "+p.dir, fmt.Sprintf("%d steps, nothing is deleted: what is taken out is kept in mqctl/", len(p.items)))
}

// planRepair verifies the store and decides what to do about each finding.
func (c *call) planRepair(ctx context.Context) (*repairPlan, error) {
	bar := c.progress("verify")
	s, err := c.openStore(bar.at)
	if err != nil {
		return nil, err
	}
	defer s.close()
	p := &repairPlan{dir: s.dir, log: c.str("commit-log")}
	if p.levels, p.warn, err = c.delayLevels(s.dir); err != nil {
		return nil, err
	}
	_, err = s.Verify(ctx, func(f inspect.Found) { p.take(f, c.on("fill")) })
	bar.end()
	if err != nil {
		return nil, notStore(s.dir, err)
	}
	files, err := s.IndexFiles()
	if err != nil {
		return nil, notStore(s.dir, err)
	}
	for _, f := range files {
		p.slots = [2]int{int(f.Slots), int(f.Entries)}
	}
	if len(p.holes) > 0 || p.cut {
		p.items = append(p.items, p.holes...)
	}
	return p, nil
}

// take adds a step for a finding, or notes that there is none.
func (p *repairPlan) take(f inspect.Found, fill bool) {
	if f.Severity == inspect.Repair {
		p.start++
	}
	switch f.Kind {
	case store.ShortFile:
		if f.Severity == inspect.Damage {
			p.resize(f, f.Offset+f.Bytes, "the missing end becomes zeros, which are a hole of the log")
		}
	case inspect.OddSize:
		p.resize(f, f.Offset, "what is too much is kept in mqctl/")
	case store.StrangeFile:
		p.putAway(f, f.File, "the folder has data files only", false)
	case store.ConfigDamaged:
		if f.Severity == inspect.Damage {
			p.putAway(f, f.File, "the broker starts without this table", false)
			p.aside = append(p.aside, f.File+".bak")
		}
	case inspect.QueueVoid, inspect.QueueWrongTag, store.QueueWrongEntry, store.QueueBehind:
		if f.Severity == inspect.Damage {
			p.putAway(f, path.Dir(f.File), "the next start makes the queue anew from the log", true)
		}
	case store.IndexDamaged:
		p.putAway(f, "index", "the next start makes the index anew from the log", true)
	case inspect.IndexBehind:
		if f.Severity == inspect.Damage {
			p.putAway(f, "index", "the next start makes the index anew from the log", true)
		}
	case store.Damaged, store.WrongPosition:
		p.hole(f, fill)
	case store.MissingFile:
		switch {
		case f.File == "commitlog":
			for _, name := range []string{"consumequeue", "batchconsumequeue", "consumequeue_ext", "index"} {
				p.putAway(f, name, "all messages are given up, queues begin at 0", true)
			}
		case strings.HasPrefix(f.File, "commitlog/"):
			p.hole(f, fill)
		case f.Severity == inspect.Damage:
			p.left = append(p.left, f)
		}
	case store.TornTail:
		if f.Count == 0 && f.Severity == inspect.Damage {
			p.start++
		}
		if f.Count > 0 {
			p.cut = true
			p.items = append(p.items, &repairItem{
				Action: "CUT", File: f.File, PhysOffset: ptr(int64(f.Phys)), Bytes: ptr(f.Bytes), Reason: f.What,
				Effect: "the log ends there; what lies behind is kept in mqctl/",
			})
		}
	default:
		if f.Severity == inspect.Damage {
			p.left = append(p.left, f)
		}
	}
}

// resize gives a file of the log the size of the others: it keeps all its messages.
func (p *repairPlan) resize(f inspect.Found, size int64, effect string) {
	if in := path.Dir(f.File); in != "commitlog" && in != filepath.ToSlash(filepath.Clean(p.log)) {
		p.left = append(p.left, f)
		return
	}
	p.odd = append(p.odd, store.OddFile{Base: int64(f.Phys), Size: size})
	p.items = append(p.items, &repairItem{
		Action: "RESIZE", File: f.File, PhysOffset: ptr(int64(f.Phys)), Bytes: ptr(size), Reason: f.What, Effect: effect,
	})
}

func (p *repairPlan) hole(f inspect.Found, fill bool) {
	if !fill {
		p.left = append(p.left, f)
		return
	}
	p.holes = append(p.holes, &repairItem{
		Action: "FILL", File: f.File, PhysOffset: ptr(int64(f.Phys)), Bytes: ptr(f.Bytes), Reason: f.What,
		Effect: "a filler takes the place, a copy of the bytes is kept in mqctl/",
	})
}

func (p *repairPlan) putAway(f inspect.Found, name, effect string, rescan bool) {
	if !filepath.IsLocal(name) {
		p.left = append(p.left, f) // on another disk: a human's work
		return
	}
	p.rescan = p.rescan || rescan
	if _, err := os.Stat(filepath.Join(p.dir, name)); err != nil || slices.Contains(p.aside, name) {
		return
	}
	p.aside = append(p.aside, name)
	it := &repairItem{Action: "SET_ASIDE", File: name, Reason: f.What, Effect: effect}
	if f.Phys >= 0 {
		it.PhysOffset = ptr(int64(f.Phys))
	}
	p.items = append(p.items, it)
}

// applyRepair does what was planned: first the log, on which all else depends.
func (c *call) applyRepair(p *repairPlan, r *result) error {
	if len(p.odd) > 0 {
		to, err := store.Resize(vfs.OS{}, p.dir, p.log, c.begun, p.odd)
		if err != nil {
			return c.repairFailed(p, err)
		}
		r.change.Applied = true
		for _, it := range p.items {
			if it.Action != "RESIZE" {
				continue
			}
			it.Applied = true
			if to != "" {
				it.Result = ptr("what was too much is in " + to)
			}
		}
	}
	if p.cut || len(p.holes) > 0 {
		if err := c.repairLog(p); err != nil {
			return c.repairFailed(p, err)
		}
		r.change.Applied = true
	}
	if len(p.aside) == 0 {
		return nil
	}
	to, err := store.PutAway(vfs.OS{}, p.dir, c.begun, p.aside, p.rescan)
	if err != nil {
		return c.repairFailed(p, err)
	}
	r.change.Applied = true
	for _, it := range p.items {
		if it.Action == "SET_ASIDE" {
			it.Applied, it.Result = true, ptr("moved to "+to+"/"+it.File)
		}
	}
	return nil
}

// repairLog opens the store as a start would and fills the holes of its log.
func (c *call) repairLog(p *repairPlan) error {
	o := store.Options{Dir: p.dir, CommitLogDir: p.log, CutFiles: p.cut, Log: slog.New(slog.DiscardHandler), DelayLevels: p.levels, IndexSlots: p.slots[0], IndexEntries: p.slots[1]}
	known, err := store.ReadHoles(o)
	if err == nil && !p.known(known) {
		// Damage in a part of the log that no start has read since.
		if err := store.Rescan(vfs.OS{}, p.dir); err != nil {
			return err
		}
		err = store.ErrHolesUnknown
	}
	if p.cut || errors.Is(err, store.ErrHolesUnknown) {
		s, rec, err := store.Open(o)
		if err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
		for _, f := range rec.Findings {
			if f.Done != "" {
				fmt.Fprintf(c.io.Err, "note    %s: %s; %s\n", f.File, oneLine(f.What), f.Done)
			}
		}
	} else if err != nil {
		return err
	}
	for _, it := range p.items {
		it.Applied = it.Applied || it.Action == "CUT"
	}
	if len(p.holes) == 0 {
		return nil
	}
	done, err := store.FillHoles(o, nil)
	for _, d := range done {
		for _, it := range p.holes {
			if *it.PhysOffset >= int64(d.Phys) && *it.PhysOffset < int64(d.Phys)+max(d.Bytes, 1) {
				it.Applied, it.Result = true, ptr(d.Done)
			}
		}
	}
	return err
}

// known reports whether the store's own list has all holes that are to be filled.
func (p *repairPlan) known(holes []store.Hole) bool {
	for _, it := range p.holes {
		if !slices.ContainsFunc(holes, func(h store.Hole) bool {
			return *it.PhysOffset >= int64(h.From) && *it.PhysOffset < int64(h.To)
		}) {
			return false
		}
	}
	return true
}

func (c *call) repairFailed(p *repairPlan, err error) error {
	var locked *vfs.LockedError
	var damaged *store.DamagedError
	switch {
	case errors.As(err, &locked):
		return c.storeInUse(p.dir, locked.PID)
	case errors.As(err, &damaged):
		m := fail(ExitStoreDamaged, "STORE_DAMAGED", "%s: %s", damaged.Where, damaged.What)
		if damaged.Try != "" {
			m = m.try(damaged.Try)
		}
		return m
	}
	return fail(ExitFailed, "REPAIR_FAILED", "%v", err).because("steps before it were done, and it can be done again").try("mqctl store verify " + shellWord(p.dir))
}
