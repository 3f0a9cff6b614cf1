package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"

	"mqctl/store"
	"mqctl/store/archive"
	"mqctl/store/inspect"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// archiveItem is what was exported or imported of one topic.
type archiveItem struct {
	Topic    string `json:"topic"`
	Messages int64  `json:"messages"`
}

// archiveTotals sums an export or import up.
type archiveTotals struct {
	ID       string `json:"id"`
	Messages int64  `json:"messages"`
	Bytes    int64  `json:"bytes"`
	From     int64  `json:"from"` // positions in the log
	To       int64  `json:"to"`
	Skipped  int64  `json:"skipped"` // by an export: of kinds that no other store can use
	Resumed  int64  `json:"resumed"` // by an import: done before it was interrupted
	Raised   int64  `json:"raised"`  // by an import: store times
}

func archiveView() view {
	return view{
		item: archiveItem{}, name: func(item any) string { return item.(*archiveItem).Topic },
		columns: []column{{head: "TOPIC", field: "topic"}, {head: "MESSAGES", field: "messages", as: asNumber}},
		foot: func(p *printer, r *result) {
			t := r.totals.(archiveTotals)
			p.printf("\n%d messages, %d bytes, from %d to %d   archive %s\n", t.Messages, t.Bytes, t.From, t.To, t.ID)
		},
	}
}

func storeExportCommand() *command {
	return &command{
		path: "store export", summary: "messages of a range of the log to a file", args: "DIR", min: 1, max: 1, argFrom: "file", attrs: local,
		run: runStoreExport, schema: "mqctl.store.export/v1", exits: []int{ExitNotFound, ExitStoreInUse, ExitStoreDamaged},
		examples: []string{
			"mqctl store export /data/mq/broker-a --topic orders --file orders.mq", "mqctl store export /data/mq/broker-a --from 2026-11-29T10:00 --to 2026-11-29T12:00 --file noon.mq",
			"mqctl store export /data/mq/broker-a --file - | ssh other mqctl store import /data/mq/broker-b --file - --yes",
		},
		flags: storeFlags(
			flagSpec{key: "file", letter: "f", meta: "FILE", complete: "file", help: "the archive to write, - for stdout"},
			flagSpec{key: "from", meta: "POSITION|TIME", help: "from this position of the log, or stored at or after this time"},
			flagSpec{key: "to", meta: "POSITION|TIME", help: "before this position or time"},
			flagSpec{key: "topic", meta: "TOPIC", help: "only this topic"},
			forceRead(),
		),
		view: archiveView(),
	}
}

func storeImportCommand() *command {
	return &command{
		path: "store import", summary: "append the messages of a file to a store", args: "DIR", min: 1, max: 1, argFrom: "file", attrs: local | mutates | destructive,
		run: runStoreImport, schema: "mqctl.store.import/v1", exits: []int{ExitNotFound, ExitAborted, ExitBadConfig, ExitStoreInUse, ExitStoreDamaged},
		examples: []string{"mqctl store import /data/mq/broker-b --file orders.mq", "mqctl store import /data/mq/broker-b --file orders.mq --dry-run"},
		flags: changesStore(
			flagSpec{key: "file", letter: "f", meta: "FILE", complete: "file", help: "the archive to read, - for stdin"},
			flagSpec{key: "again", kind: kindBool, help: "also an archive that was imported before"},
			flagSpec{key: "index-entries", kind: kindInt, min: 2, max: 1 << 30, meta: "N", help: "maxIndexNum (default: learned from the index)"},
			configFlag(),
		),
		view: archiveView(),
	}
}

// fileFlag is --file, which is needed.
func (c *call) fileFlag() (string, error) {
	if c.str("file") == "" {
		return "", usage("FLAG_MISSING", "%s needs --file", c.cmd.path).because("a file, or - for a pipe")
	}
	return c.str("file"), nil
}

// exporter writes one archive.
type exporter struct {
	topic   string
	w       *archive.Writer
	items   map[string]*archiveItem
	order   []*archiveItem
	skipped int64
	damaged int64
	first   func(raw []byte) error // begins the archive
}

func runStoreExport(ctx context.Context, c *call) (*result, error) {
	file, err := c.fileFlag()
	if err != nil {
		return nil, err
	}
	bar := c.progress("export")
	s, err := c.openStore(bar.at)
	if err != nil {
		return nil, err
	}
	defer s.close()
	d := &dumper{c: c, s: s, to: math.MaxInt64}
	if err := d.bounds(ctx); err != nil {
		return nil, err
	}
	end, err := s.LogEnd(ctx)
	if err != nil {
		return nil, notStore(s.dir, err)
	}
	h := archive.Header{From: max(d.from, s.LogMin()), To: min(d.to, end), Topic: c.str("topic"), ExportedAt: stamp(c.begun)}
	e := &exporter{topic: h.Topic, items: map[string]*archiveItem{}}
	out, done, err := c.archiveOut(file)
	if err != nil {
		return nil, err
	}
	e.first = func(raw []byte) (err error) {
		h.ID = archive.NewID(h.From, h.To, h.Topic, raw)
		e.w, err = archive.NewWriter(out, h)
		return err
	}
	err = s.Records(ctx, h.From, h.To, e.take)
	bar.end()
	if err == nil && e.nothing() && !s.knowsTopic(e.topic) {
		m := s.noTopic(e.topic)
		_ = done(m) // nothing of the file is left
		return nil, m
	}
	if err == nil && e.w == nil {
		err = e.first(nil)
	}
	if err == nil {
		err = e.w.Close()
	}
	if err := done(err); err != nil {
		return nil, err
	}
	r := &result{totals: archiveTotals{ID: h.ID, Messages: e.w.Records(), Bytes: e.w.Bytes(), From: h.From, To: h.To, Skipped: e.skipped}}
	for _, it := range e.order {
		r.add(it)
	}
	if e.skipped > 0 {
		r.warn(warning("NOT_EXPORTED", s.dir, "%d records were left out: parts of transactions, batches of topics with queue.type=BatchCQ, and fillers mean nothing in another store", e.skipped))
	}
	if e.damaged > 0 {
		r.failed(fail(ExitStoreDamaged, "STORE_DAMAGED", "%d parts of the range are damaged and were left out", e.damaged).try("mqctl store verify " + shellWord(s.dir)))
	}
	if file == "-" {
		fmt.Fprintf(c.io.Err, "note    %d messages, %d bytes, archive %s\n", e.w.Records(), e.w.Bytes(), h.ID)
		r.streamed = true
	}
	return r, nil
}

// nothing reports whether a topic was asked for and the range has no trace of it.
func (e *exporter) nothing() bool {
	return e.topic != "" && e.w == nil && e.skipped == 0 && e.damaged == 0
}

func (e *exporter) take(st inspect.Stretch) (bool, error) {
	if st.Err != nil {
		e.damaged++
		return true, nil
	}
	v := st.Record
	if e.topic != "" && string(v.Topic()) != e.topic {
		return true, nil
	}
	if e.useless(v) {
		e.skipped++
		return true, nil
	}
	if e.w == nil {
		if err := e.first(v.Raw()); err != nil {
			return false, err
		}
	}
	it := e.items[string(v.Topic())]
	if it == nil {
		it = &archiveItem{Topic: string(v.Topic())}
		e.items[it.Topic] = it
		e.order = append(e.order, it)
	}
	it.Messages++
	return true, e.w.Add(v.Raw())
}

// useless reports whether a record means nothing outside of its store.
func (e *exporter) useless(v record.View) bool {
	switch v.SysFlag() & record.FlagTransaction {
	case record.FlagPrepared, record.FlagRollback:
		return true
	}
	return v.SysFlag()&record.FlagInnerBatch != 0 || e.topic == "" && strings.HasPrefix(string(v.Topic()), "RMQ_SYS_TRANS_")
}

// archiveOut opens the file to write. done ends it: a file gets its name only when it is
// complete and on disk.
func (c *call) archiveOut(file string) (out io.Writer, done func(error) error, err error) {
	if file == "-" {
		return c.io.Out, func(err error) error { return err }, nil
	}
	if _, err := os.Stat(file); err == nil {
		return nil, nil, fail(ExitFailed, "FILE_EXISTS", "%s exists already", file).because("an export replaces nothing").try("another --file")
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".mqctl-export-*")
	if err != nil {
		return nil, nil, fail(ExitFailed, "WRITE_FAILED", "%v", err)
	}
	return f, func(err error) error {
		if err == nil {
			err = f.Sync()
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err == nil {
			err = os.Link(f.Name(), file) // fails where somebody made the file meanwhile
		}
		_ = os.Remove(f.Name()) // it has its other name, or is of no use
		if err != nil {
			return fail(ExitFailed, "WRITE_FAILED", "%v", err).because("nothing of the archive is left")
		}
		return nil
	}, nil
}

// checkArchive reads an archive to its end, so that nothing of a bad one is imported.
func checkArchive(ctx context.Context, in io.Reader, bar *progressBar, size int64) (archive.Header, archiveTotals, error) {
	var t archiveTotals
	r, err := archive.NewReader(in)
	if err != nil {
		return archive.Header{}, t, err
	}
	for {
		v, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header(), t, nil
		}
		if err != nil {
			return r.Header(), t, err
		}
		if t.Messages++; t.Messages%10000 == 0 {
			bar.at(r.Offset(), size)
			if err := ctx.Err(); err != nil {
				return r.Header(), t, err
			}
		}
		t.Bytes += int64(v.Size())
	}
}

func runStoreImport(ctx context.Context, c *call) (*result, error) {
	file, err := c.fileFlag()
	if err != nil {
		return nil, err
	}
	p, err := c.importTarget()
	if err != nil {
		return nil, err
	}
	r := &result{change: &change{DryRun: c.dryRun()}}
	if p.warn != nil {
		r.warn(*p.warn)
	}
	open := func() (io.Reader, error) { return c.io.In, nil }
	what := "the archive on stdin"
	if file != "-" {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, noFile(file).try("mqctl store export ... --file " + shellWord(file))
		}
		if err != nil {
			return nil, c.importFailed(file, p.opt.Dir, err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return nil, c.importFailed(file, p.opt.Dir, err)
		}
		if info.IsDir() {
			return nil, fail(ExitBadConfig, "BAD_ARCHIVE", "%s: %s", file, "it is a folder").because("an archive is a file; nothing was changed").try("mqctl store export ... --file FILE")
		}
		bar := c.progress("check")
		h, t, err := checkArchive(ctx, f, bar, info.Size())
		bar.end()
		if err != nil {
			return nil, c.importFailed(file, p.opt.Dir, err)
		}
		what = fmt.Sprintf("%d messages of archive %s", t.Messages, h.ID)
		t.ID, t.From, t.To = h.ID, h.From, h.To
		r.totals = t
		open = func() (io.Reader, error) { _, err := f.Seek(0, io.SeekStart); return f, err }
	} else if c.dryRun() {
		return nil, usage("CONTRADICTION", "--dry-run cannot look into a pipe")
	} else if !c.on("yes") {
		return nil, usage("FLAG_MISSING", "store import --file - needs --yes").because("stdin is the archive, so nobody can be asked")
	}
	if c.dryRun() {
		return r, nil
	}
	if err := c.confirm("store import "+p.opt.Dir, what+" are appended to its log as new messages"); err != nil {
		return nil, err
	}
	res, err := archive.Import(ctx, p.opt, open, c.on("again"))
	if err != nil {
		return nil, c.importFailed(file, p.opt.Dir, err)
	}
	return r, c.imported(r, res, p)
}

// importPlan is where an import goes.
type importPlan struct {
	opt   store.Options
	warn  *Message
	known map[string]bool
}

// importTarget learns the sizes of the store's files.
func (c *call) importTarget() (*importPlan, error) {
	s, err := c.openStore(nil)
	var m *Message
	if errors.As(err, &m) && m.Code == "NO_STORE" {
		dir := shellWord(c.arg(0))
		m.Why, m.Try = "messages are imported into the store of a stopped broker, which makes the folder at its first start", nil
		return nil, m.try("mqctl broker start --store "+dir+" --detach", "mqctl broker stop --store "+dir, "the same command again")
	}
	if err != nil {
		return nil, err
	}
	defer s.close()
	p := &importPlan{opt: store.Options{
		Dir: s.dir, CommitLogDir: c.str("commit-log"), Log: slog.New(slog.DiscardHandler),
		IndexSlots: int(c.whole("index-slots")), IndexEntries: int(c.whole("index-entries")),
		CommitLogBytes: s.logBytes, QueueFileBytes: s.queueBytes,
	}}
	if p.opt.DelayLevels, p.warn, err = c.delayLevels(s.dir); err != nil {
		return nil, err
	}
	files, err := s.IndexFiles()
	if err != nil {
		return nil, notStore(s.dir, err)
	}
	for _, f := range files {
		p.opt.IndexSlots, p.opt.IndexEntries = int(f.Slots), int(f.Entries)
	}
	p.known, err = s.KnownTopics()
	return p, err
}

func (c *call) imported(r *result, res archive.Result, p *importPlan) error {
	r.change.Applied = true
	id := ""
	if t, ok := r.totals.(archiveTotals); ok {
		id = t.ID
	}
	r.totals = archiveTotals{ID: id, Messages: res.Records, Bytes: res.Bytes, From: res.From, To: res.To, Resumed: res.Resumed, Raised: res.Raised}
	for _, topic := range sortedKeys(res.Topics) {
		r.add(&archiveItem{Topic: topic, Messages: res.Topics[topic]})
		if !p.known[topic] {
			w := warning("TOPIC_NOT_CONFIGURED", topic, "topic %q is not in config/topics.json: nobody can read it until it is created", topic)
			w.Try = []string{"mqctl topic create " + shellWord(topic)}
			r.warn(w)
		}
	}
	if res.Raised > 0 {
		r.warn(warning("STORE_TIMES_RAISED", p.opt.Dir, "%d messages are older than what was in the store: their store time is now that of its newest message", res.Raised))
	}
	return nil
}

func (c *call) importFailed(file, dir string, err error) error {
	var format *archive.FormatError
	var other *archive.OtherError
	var changed *archive.ChangedError
	switch {
	case errors.As(err, &format):
		return fail(ExitBadConfig, "BAD_ARCHIVE", "%s: %v", file, format).because("the file is damaged or was not written completely").try("mqctl store export ... --file " + shellWord(file))
	case errors.Is(err, archive.ErrImported):
		return fail(ExitFailed, "ALREADY_IMPORTED", "%s: %v", file, err).because("mqctl/imported of the store has its id; nothing was changed").try("--again")
	case errors.As(err, &other):
		return fail(ExitFailed, "OTHER_IMPORT", "%v", other).because("nothing was changed").try("import that archive again", "remove "+shellWord(filepath.Join(dir, "mqctl", "import"))+" to leave it as it is")
	case errors.As(err, &changed):
		return fail(ExitFailed, "STORE_CHANGED", "%v", changed).because("it cannot go on where it was").
			try("remove " + shellWord(filepath.Join(dir, "mqctl", "import")) + " and import what is missing from another export")
	}
	var locked *vfs.LockedError
	if errors.As(err, &locked) {
		return c.storeInUse(dir, locked.PID)
	}
	var damaged *store.DamagedError
	if errors.As(err, &damaged) {
		return c.repairFailed(&repairPlan{dir: dir}, err)
	}
	m := fail(ExitFailed, "IMPORT_FAILED", "%v", err).try("the same command again")
	if _, serr := os.Stat(filepath.Join(dir, "mqctl", "import")); errors.Is(serr, fs.ErrNotExist) {
		return m.because("nothing was changed")
	}
	return m.because("what was appended before stays, and the same import goes on behind it")
}
