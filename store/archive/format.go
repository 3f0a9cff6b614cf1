package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"mqctl/store/record"
)

const (
	magic      = "MQCTL-ARCHIVE 1\n"
	blockBytes = 1 << 20
	// maxBlock bounds the memory that a stated length can take.
	maxBlock = 256 << 20
	endBytes = 8 + sha256.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header says what an archive holds.
type Header struct {
	ID         string `json:"id"`    // of the content's origin, 32 hex digits: an import remembers it
	From       int64  `json:"from"`  // positions in the log it came from
	To         int64  `json:"to"`    // exclusive
	Topic      string `json:"topic"` // "" for all
	ExportedAt string `json:"exportedAt"`
}

// NewID makes the id of an archive from what is exported: the same range of the same
// log has the same id, whenever it is exported.
func NewID(from, to int64, topic string, first []byte) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d %d %q\n", from, to, topic) // a hash takes everything
	h.Write(first)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// FormatError says what is wrong with an archive.
type FormatError struct {
	Offset int64 // in the archive
	What   string
}

func (e *FormatError) Error() string { return fmt.Sprintf("archive at byte %d: %s", e.Offset, e.What) }

// Writer writes an archive. Close ends it; without, it is not complete.
type Writer struct {
	out     io.Writer
	buf     []byte
	sum     hash.Hash
	records int64
	bytes   int64
}

// NewWriter begins an archive.
func NewWriter(out io.Writer, h Header) (*Writer, error) {
	if _, err := io.WriteString(out, magic); err != nil {
		return nil, err
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	w := &Writer{out: out, sum: sha256.New()}
	return w, w.block(text)
}

func (w *Writer) block(b []byte) error {
	var head [8]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(b)))
	binary.BigEndian.PutUint32(head[4:], crc32.Checksum(b, castagnoli))
	if _, err := w.out.Write(head[:]); err != nil {
		return err
	}
	_, err := w.out.Write(b)
	return err
}

// Add adds one whole record.
func (w *Writer) Add(raw []byte) error {
	if len(raw) > maxBlock {
		return fmt.Errorf("archive: a record of %d bytes, at most %d", len(raw), maxBlock)
	}
	if len(w.buf)+len(raw) > blockBytes {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.buf = append(w.buf, raw...)
	w.records++
	w.bytes += int64(len(raw))
	return nil
}

func (w *Writer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	w.sum.Write(w.buf)
	err := w.block(w.buf)
	w.buf = w.buf[:0]
	return err
}

// Records is the number of records, and Bytes their length, so far.
func (w *Writer) Records() int64 { return w.records }

// Bytes is the length of all records so far.
func (w *Writer) Bytes() int64 { return w.bytes }

// Close writes the end.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	end := w.sum.Sum(binary.BigEndian.AppendUint64(nil, uint64(w.records)))
	var head [8]byte
	binary.BigEndian.PutUint32(head[4:], crc32.Checksum(end, castagnoli))
	if _, err := w.out.Write(head[:]); err != nil {
		return err
	}
	_, err := w.out.Write(end)
	return err
}

// Reader reads an archive.
type Reader struct {
	in      io.Reader
	at      int64
	header  Header
	buf     []byte
	rest    []byte // of buf, not returned yet
	sum     hash.Hash
	records int64
	done    bool
}

// NewReader reads the beginning of an archive.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: in, sum: sha256.New()}
	head := make([]byte, len(magic))
	if err := r.read(head); err != nil {
		return nil, err
	}
	if string(head) != magic {
		return nil, &FormatError{0, "is no archive of messages: it does not begin with " + magic[:len(magic)-1]}
	}
	n, err := r.block()
	if err != nil {
		return nil, err
	}
	if n == 0 || json.Unmarshal(r.buf, &r.header) != nil {
		return nil, r.bad("the header cannot be read")
	}
	if id, err := hex.DecodeString(r.header.ID); err != nil || len(id) != 16 {
		return nil, r.bad("the header has no id")
	}
	return r, nil
}

// Header is what the archive says of itself.
func (r *Reader) Header() Header { return r.header }

// Records is the number of records returned so far, Offset the place in the archive.
func (r *Reader) Records() int64 { return r.records }

// Offset is how much of the archive is read, in bytes.
func (r *Reader) Offset() int64 { return r.at }

func (r *Reader) bad(what string) error { return &FormatError{r.at, what} }

func (r *Reader) read(b []byte) error {
	n, err := io.ReadFull(r.in, b)
	r.at += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.bad("it ends too early: it was not written completely")
	}
	return err
}

// block reads the next block into buf and returns the stated length.
func (r *Reader) block() (int, error) {
	var head [8]byte
	if err := r.read(head[:]); err != nil {
		return 0, err
	}
	n, want := int(int32(binary.BigEndian.Uint32(head[:]))), binary.BigEndian.Uint32(head[4:])
	size := n
	switch {
	case n == 0:
		size = endBytes
	case n < 0 || n > maxBlock:
		return 0, r.bad(fmt.Sprintf("a block of %d bytes, at most %d are possible", n, maxBlock))
	}
	// Memory is taken as the bytes come, not because a length says so.
	r.buf = r.buf[:0]
	for len(r.buf) < size {
		part := min(size-len(r.buf), blockBytes)
		at := len(r.buf)
		r.buf = append(r.buf, make([]byte, part)...)
		if err := r.read(r.buf[at:]); err != nil {
			return 0, err
		}
	}
	if crc32.Checksum(r.buf, castagnoli) != want {
		return 0, r.bad("the checksum of a block does not match")
	}
	return n, nil
}

// Next returns the next record, valid until the call after; io.EOF behind the last of
// a complete archive, a *FormatError where it is none.
func (r *Reader) Next() (record.View, error) {
	for len(r.rest) == 0 {
		if r.done {
			return record.View{}, io.EOF
		}
		n, err := r.block()
		if err != nil {
			return record.View{}, err
		}
		if n == 0 {
			return record.View{}, r.end()
		}
		r.sum.Write(r.buf)
		r.rest = r.buf
	}
	v, err := record.Parse(r.rest)
	if err != nil {
		return record.View{}, r.bad("a block holds what is no record: " + err.Error())
	}
	if err := v.CheckCRC(); err != nil {
		return record.View{}, r.bad(err.Error())
	}
	r.rest = r.rest[v.Size():]
	r.records++
	return v, nil
}

// end checks the last block.
func (r *Reader) end() error {
	want := r.sum.Sum(binary.BigEndian.AppendUint64(nil, uint64(r.records)))
	if string(want) != string(r.buf) {
		return r.bad(fmt.Sprintf("%d records were read, the end states others", r.records))
	}
	var more [1]byte
	switch _, err := io.ReadFull(r.in, more[:]); {
	case err == nil:
		return r.bad("something follows its end: two archives in one file are to be imported one by one")
	case !errors.Is(err, io.EOF):
		return err
	}
	r.done = true
	return io.EOF
}
