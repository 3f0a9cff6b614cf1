package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mqctl/store"
	"mqctl/store/inspect"
	"mqctl/store/record"
	"mqctl/store/vfs"
)

// ErrImported says that the archive was imported into the store before.
var ErrImported = errors.New("this archive was imported into the store already")

// OtherError says that another import was begun and not finished.
type OtherError struct{ ID string }

func (e *OtherError) Error() string {
	return "the import of archive " + e.ID + " was begun and not finished"
}

// ChangedError says that somebody wrote to the store since an import was interrupted.
type ChangedError struct {
	Done int64 // records that were imported
	Pos  int64 // where something else follows
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("after %d messages the import was interrupted, and since then something else was written to the log at %d", e.Done, e.Pos)
}

// Result is what an import did.
type Result struct {
	Records int64 // all of the archive
	Resumed int64 // of them, those that an interrupted import had done
	Bytes   int64
	Raised  int64            // whose store time was raised to that of the store's newest message
	Topics  map[string]int64 // messages of each topic
	From    int64            // positions in the log
	To      int64
}

// notes are the side files of imports, in mqctl/.
const (
	pendingFile  = "import"   // the one that is under way
	importedFile = "imported" // ids of those that are done
)

// Import appends the messages of an archive to a store that nobody has open. o is for
// the store; its clock is replaced. open opens the archive at its beginning, and may be
// called twice. A crash in between is made good by importing the same archive again:
// what is there already is not imported twice. again allows an archive that was imported
// before. Errors: ErrImported, *OtherError, *ChangedError, *FormatError,
// *vfs.LockedError, *store.DamagedError, those of disk and input.
func Import(ctx context.Context, o store.Options, open func() (io.Reader, error), again bool) (Result, error) {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	im := &importer{opt: o, res: Result{Topics: map[string]int64{}}}
	in, err := open()
	if err != nil {
		return im.res, err
	}
	if im.in, err = NewReader(in); err != nil {
		return im.res, err
	}
	begun, at, err := im.begin(again)
	if err != nil {
		return im.res, err
	}
	if begun {
		if err := im.settle(); err != nil {
			return im.res, err
		}
		if err := im.skipDone(ctx, at); err != nil {
			return im.res, err
		}
	}
	return im.res, im.run(ctx, begun)
}

type importer struct {
	opt   store.Options
	in    *Reader
	res   Result
	first record.View // read from the archive by skipDone, not yet appended
	ahead bool
	eof   bool
	now   int64 // what the store's clock says
	batch store.Batch
	draft record.Draft
	props []byte
}

func (im *importer) own(name string) string { return filepath.Join(im.opt.Dir, "mqctl", name) }

// begin looks at the notes: whether this archive was begun, and where in the log.
func (im *importer) begin(again bool) (begun bool, at int64, err error) {
	id := im.in.Header().ID
	done, err := readNote(im.opt.FS, im.own(importedFile))
	if err != nil {
		return false, 0, err
	}
	pending, err := readNote(im.opt.FS, im.own(pendingFile))
	if err != nil {
		return false, 0, err
	}
	was := false
	for _, l := range done {
		was = was || l[0] == id
	}
	for _, l := range pending {
		if l[0] != id && !has(done, l[0]) {
			return false, 0, &OtherError{ID: l[0]}
		}
		if l[0] == id && (!was || again) {
			at, err := strconv.ParseInt(l[1], 10, 64)
			return true, at, err
		}
	}
	if was && !again {
		return false, 0, ErrImported
	}
	return false, 0, nil
}

func has(lines [][2]string, name string) bool {
	for _, l := range lines {
		if l[0] == name {
			return true
		}
	}
	return false
}

// settle has the store recover as a replica does: where a power loss left holes in what
// the interrupted import wrote, the log is cut, and the archive has what follows.
func (im *importer) settle() error {
	o := im.opt
	o.Replica = true
	s, _, err := store.Open(o)
	if err != nil {
		return err
	}
	return s.Close()
}

// skipDone reads what an interrupted import has left behind position at, and leaves the
// archive at the first record that is not there.
func (im *importer) skipDone(ctx context.Context, at int64) error {
	s, err := inspect.Open(inspect.Options{FS: im.opt.FS, Dir: im.opt.Dir, CommitLogDir: im.opt.CommitLogDir, CommitLogBytes: im.opt.CommitLogBytes})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // only read from
	return s.Records(ctx, at, 1<<62, func(st inspect.Stretch) (bool, error) {
		if st.Pos < at {
			return true, nil
		}
		if err := im.next(); err != nil {
			return false, err
		}
		if im.eof || st.Err != nil || !same(st.Record, im.first) {
			return false, &ChangedError{Done: im.res.Resumed, Pos: st.Pos}
		}
		im.res.Resumed++
		im.count(im.first)
		im.ahead = false
		return true, nil
	})
}

// next has the next record of the archive in first.
func (im *importer) next() error {
	if im.ahead || im.eof {
		return nil
	}
	v, err := im.in.Next()
	if errors.Is(err, io.EOF) {
		im.eof = true
		return nil
	}
	im.first, im.ahead = v, err == nil
	return err
}

// same reports whether a record of the log is that of the archive, but for what an import
// sets anew.
func same(a, b record.View) bool {
	return string(a.Topic()) == string(b.Topic()) && a.QueueID() == b.QueueID() && a.BornMillis() == b.BornMillis() &&
		a.BodyCRC() == b.BodyCRC() && bytes.Equal(a.Body(), b.Body()) && bytes.Equal(a.Properties(), withoutCRC(nil, b))
}

// withoutCRC appends the properties of a record without their checksum, which would cover
// the position too.
func withoutCRC(dst []byte, v record.View) []byte {
	if _, ok := v.PropertyCRC(); ok {
		return record.AppendWithout(dst, v.Properties(), "__CRC32#")
	}
	return append(dst, v.Properties()...)
}

// run opens the store and appends what is left of the archive.
func (im *importer) run(ctx context.Context, begun bool) (err error) {
	o := im.opt
	o.Now = func() time.Time { return time.UnixMilli(im.now) }
	o.SyncFlush, o.Replica = false, false
	o.MaxMessage = maxBlock
	s, _, err := store.Open(o)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, s.Close())
		}
	}()
	im.res.From = int64(s.Positions().Max)
	if !begun {
		if err := writeNote(o.FS, im.own(pendingFile), [][2]string{{im.in.Header().ID, strconv.FormatInt(im.res.From, 10)}}); err != nil {
			return err
		}
	}
	if err := im.appendAll(ctx, s); err != nil {
		return err
	}
	im.res.To = int64(s.Positions().Max)
	closed = true
	if err := s.Close(); err != nil { // now it is on disk
		return err
	}
	return im.finish()
}

// finish notes that the archive is in the store.
func (im *importer) finish() error {
	done, err := readNote(im.opt.FS, im.own(importedFile))
	if err != nil {
		return err
	}
	if id := im.in.Header().ID; !has(done, id) {
		done = append(done, [2]string{id, strconv.FormatInt(im.res.Records, 10)})
	}
	if err := writeNote(im.opt.FS, im.own(importedFile), done); err != nil {
		return err
	}
	if err := im.opt.FS.Remove(im.own(pendingFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return im.opt.FS.SyncDir(filepath.Join(im.opt.Dir, "mqctl"))
}

// maxBatch bounds what is appended at once: messages of one store time.
const maxBatch = 4 << 20

func (im *importer) appendAll(ctx context.Context, s *store.Store) error {
	for {
		if err := im.next(); err != nil {
			return errors.Join(err, im.flush(s))
		}
		if im.eof {
			return im.flush(s)
		}
		if ms := im.first.StoreMillis(); ms != im.now || im.batch.Bytes() > maxBatch {
			if err := im.flush(s); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			im.now = ms
		}
		im.add(s)
		im.count(im.first)
		im.ahead = false
	}
}

func (im *importer) count(v record.View) {
	im.res.Records++
	im.res.Bytes += int64(v.Size())
	im.res.Topics[string(v.Topic())]++
}

func (im *importer) add(s *store.Store) {
	v := im.first
	im.props = withoutCRC(im.props[:0], v)
	im.draft = record.Draft{
		Topic: v.Topic(), QueueID: v.QueueID(), Flag: v.Flag(), SysFlag: v.SysFlag(), BornMillis: v.BornMillis(), BornHost: v.BornHost(),
		StoreHost: v.StoreHost(), ReconsumeTimes: v.ReconsumeTimes(), PreparedOffset: v.PreparedOffset(), Body: v.Body(), Properties: im.props,
	}
	im.batch.Add(s, s.Queue(string(v.Topic()), v.QueueID()), &im.draft, 0)
}

func (im *importer) flush(s *store.Store) error {
	if im.batch.Len() == 0 {
		return nil
	}
	s.AppendAll(&im.batch)
	for _, it := range im.batch.Items {
		if it.Status != store.PutOK {
			if err := s.Writable(); err != nil {
				return fmt.Errorf("append a message of %d bytes: %v: %w", it.Size, it.Status, err)
			}
			return fmt.Errorf("append a message of %d bytes: %v", it.Size, it.Status)
		}
		if it.StoreMillis > im.now {
			im.res.Raised++
		}
	}
	im.batch.Reset()
	return nil
}

// A note is text: a head, lines of two words, and a last line with the CRC-32 of all
// before, as all side files of the store have.

const noteHead = "mqctl-import 1"

func writeNote(fsys vfs.FS, name string, lines [][2]string) error {
	var b strings.Builder
	fmt.Fprintln(&b, noteHead)
	for _, l := range lines {
		fmt.Fprintf(&b, "%s %s\n", l[0], l[1])
	}
	fmt.Fprintf(&b, "crc %08x\n", crc32.ChecksumIEEE([]byte(b.String())))
	if err := vfs.MkdirAllSync(fsys, filepath.Dir(name)); err != nil {
		return err
	}
	if err := vfs.WriteFile(fsys, name+".tmp", []byte(b.String())); err != nil {
		return err
	}
	if err := fsys.Rename(name+".tmp", name); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

func readNote(fsys vfs.FS, name string) ([][2]string, error) {
	b, err := vfs.ReadFile(fsys, name, 64<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text := string(b)
	i := strings.LastIndex(text, "\ncrc ")
	if i < 0 || text[i+1:] != fmt.Sprintf("crc %08x\n", crc32.ChecksumIEEE(b[:i+1])) || !strings.HasPrefix(text, noteHead+"\n") {
		return nil, fmt.Errorf("%s cannot be used: its checksum does not match; remove it if nothing was imported", name)
	}
	var out [][2]string
	for _, l := range strings.Split(text[:i], "\n")[1:] {
		name, value, _ := strings.Cut(l, " ")
		out = append(out, [2]string{name, value})
	}
	return out, nil
}
