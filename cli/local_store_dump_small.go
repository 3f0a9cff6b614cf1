package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"

	"mqctl/store/inspect"
)

// index dumps the headers of the index files, and their entries in the range.
func (d *dumper) index(ctx context.Context) error {
	files, err := d.s.IndexFiles()
	if err != nil {
		return err
	}
	for i := range files {
		f := &files[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		it := &dumpItem{Kind: "INDEX_FILE", File: f.Path, Bytes: ptr(f.Bytes), Count: ptr(int64(f.Count) - 1), Values: map[string]string{
			"beginTime": millisText(f.BeginMillis), "endTime": millisText(f.EndMillis),
			"beginPosition": strconv.FormatInt(f.BeginPhys, 10), "endPosition": strconv.FormatInt(f.EndPhys, 10),
			"usedSlots": strconv.Itoa(int(f.UsedSlots)), "entries": strconv.Itoa(int(f.Count) - 1), "slots": strconv.Itoa(int(f.Slots)),
		}}
		if !f.Sane() && f.Count > 1 {
			it.Problem = ptr("its header cannot be true")
		}
		if err := d.add(it); err != nil {
			return err
		}
		err := d.s.EachIndexEntry(f, func(e inspect.IndexEntry) (bool, error) {
			if e.Phys < d.from || e.Phys >= d.to {
				return true, nil
			}
			return true, d.add(&dumpItem{
				Kind: "KEY", File: f.Path, Offset: f.EntryOffset(e.Number), Number: ptr(int64(e.Number)), Hash: ptr(int64(e.Hash)), PhysOffset: ptr(e.Phys),
				StoredAt: stampMillis(f.BeginMillis + int64(e.Seconds)*1000), Previous: ptr(int64(e.Prev)),
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func millisText(ms int64) string {
	if s := stampMillis(ms); s != nil {
		return *s
	}
	return "-"
}

// checkpoint dumps the checkpoint and abort.
func (d *dumper) checkpoint(context.Context) error {
	c, size, ok, err := d.s.Checkpoint()
	if err != nil {
		return err
	}
	if size >= 0 {
		it := &dumpItem{Kind: "CHECKPOINT", File: "checkpoint", Bytes: ptr(size), Values: map[string]string{
			"logSafe": millisText(c.PhysMillis), "queuesSafe": millisText(c.LogicsMillis), "indexSafe": millisText(c.IndexMillis),
			"masterFlushed": strconv.FormatInt(c.MasterFlushed, 10), "confirmPosition": strconv.FormatInt(c.ConfirmPhys, 10),
		}}
		if !ok {
			it.Values, it.Problem = nil, ptr("says nothing")
		}
		if err := d.add(it); err != nil {
			return err
		}
	}
	text, has, err := d.s.Abort()
	if err != nil || !has {
		return err
	}
	return d.add(&dumpItem{Kind: "ABORT", File: "abort", Bytes: ptr(int64(len(text))), Values: map[string]string{"pid": text}})
}

// config dumps the configuration files.
func (d *dumper) config(context.Context) error {
	list, err := d.s.Configs()
	if err != nil {
		return err
	}
	for _, f := range list {
		it := &dumpItem{Kind: "CONFIG", File: f.Path, Bytes: ptr(f.Bytes)}
		if f.Err != nil {
			it.Problem = ptr(f.Err.Error())
		} else {
			it.Content = ptr(string(f.Text))
		}
		if f.Counter >= 0 {
			it.Values = map[string]string{"dataVersion": strconv.FormatInt(f.Counter, 10)}
		}
		if err := d.add(it); err != nil {
			return err
		}
	}
	return nil
}

// side dumps mqctl's own files.
func (d *dumper) side(context.Context) error {
	list, err := d.s.SideFiles()
	if err != nil {
		return err
	}
	for _, f := range list {
		it := &dumpItem{Kind: "SIDE_FILE", File: f.Path, Bytes: ptr(f.Bytes), Values: map[string]string{}}
		for _, l := range f.Values {
			it.Values[uniqueName(it.Values, l[0])] = l[1]
		}
		if f.Err != nil {
			it.Problem = ptr(f.Err.Error())
		}
		if err := d.add(it); err != nil {
			return err
		}
	}
	return nil
}

// uniqueName numbers the lines of one name.
func uniqueName(values map[string]string, name string) string {
	for n, key := 2, name; ; n++ {
		if _, taken := values[key]; !taken {
			return key
		}
		key = fmt.Sprintf("%s.%d", name, n)
	}
}

// ext dumps the entries of the extension files that queues lead to.
func (d *dumper) ext(ctx context.Context) error {
	for _, q := range d.s.Queues() {
		if d.topic != "" && q.Topic != d.topic || d.queue >= 0 && int64(q.ID) != d.queue {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := q.EachExt(func(n int64, e inspect.Ext) (bool, error) {
			return true, d.add(&dumpItem{
				Kind: "EXT", File: e.File, Offset: e.Offset, Bytes: ptr(e.Bytes), Topic: &q.Topic, QueueID: &q.ID, QueueOffset: ptr(n), TagCode: ptr(e.Tags),
				StoredAt: stampMillis(e.StoreMillis), Values: map[string]string{"address": strconv.FormatInt(e.Address, 10), "bits": hex.EncodeToString(e.Bits)},
			})
		}); err != nil {
			return err
		}
	}
	return nil
}

// timer dumps RocketMQ's timer files.
func (d *dumper) timer(context.Context) error {
	if _, err := d.s.EachTimerSlot(func(t inspect.TimerSlot) (bool, error) {
		return true, d.add(&dumpItem{
			Kind: "TIMER_SLOT", File: "timerwheel", Offset: t.Offset(), Number: ptr(t.Number), Count: ptr(int64(t.Count)),
			Values: map[string]string{"time": strconv.FormatInt(t.Time, 10), "first": strconv.FormatInt(t.First, 10), "last": strconv.FormatInt(t.Last, 10), "count": strconv.Itoa(int(t.Count))},
		})
	}); err != nil {
		return err
	}
	_, err := d.s.EachTimerEntry(func(e inspect.TimerEntry) (bool, error) {
		return true, d.add(&dumpItem{
			Kind: "TIMER_ENTRY", File: "timerlog", Offset: e.Pos, PhysOffset: ptr(e.Phys), Bytes: ptr(int64(e.Size)), Previous: ptr(e.Prev), Hash: ptr(int64(e.Hash)),
			Values: map[string]string{"due": millisText(e.WriteMillis + int64(e.DelayMillis)), "position": strconv.FormatInt(e.Phys, 10), "magic": strconv.Itoa(int(e.Magic))},
		})
	})
	return err
}
