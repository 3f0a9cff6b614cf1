package record

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// goldenMessage is what the recording's own decoder said of a record.
type goldenMessage struct {
	Topic          string            `json:"topic"`
	QueueID        int32             `json:"queueId"`
	QueueOffset    QueueOffset       `json:"queueOffset"`
	PhysicalOffset PhysOffset        `json:"physicalOffset"`
	Size           int               `json:"size"`
	Version        int               `json:"version"`
	Flag           int32             `json:"flag"`
	SysFlag        int32             `json:"sysFlag"`
	ReconsumeTimes int32             `json:"reconsumeTimes"`
	PreparedOffset PhysOffset        `json:"preparedTransactionOffset"`
	BornTimestamp  int64             `json:"bornTimestamp"`
	StoreTimestamp int64             `json:"storeTimestamp"`
	BornHost       string            `json:"bornHost"`
	StoreHost      string            `json:"storeHost"`
	BodyLen        int               `json:"bodyLen"`
	BodyCRC        uint32            `json:"bodyCRC"`
	BodySha256     string            `json:"bodySha256"`
	Properties     map[string]string `json:"properties"`
}

type goldenStore struct {
	messages []goldenMessage
	blanks   [][2]int
	log      []byte // all segments
	results  []producerResult
}

type producerResult struct {
	MsgID       string `json:"msgId"`
	OffsetMsgID string `json:"offsetMsgId"`
}

func readGolden(t testing.TB, name string) goldenStore {
	t.Helper()
	var g goldenStore
	text, err := os.ReadFile("../../testdata/store/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	doc := struct {
		Messages []goldenMessage
		Log      struct{ Blanks [][2]int }
		Results  []producerResult `json:"producer_results"`
	}{}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	g.messages, g.blanks, g.results = doc.Messages, doc.Log.Blanks, doc.Results
	f, err := os.Open("../../testdata/store/" + name + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	segments := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(h.Name, "store/commitlog/") && h.Typeflag == tar.TypeReg {
			if segments[h.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	var names []string
	for n := range segments {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		g.log = append(g.log, segments[n]...)
	}
	return g
}

// Every record Apache 5.3.3 wrote: all fields, and the same bytes when the
// fields are encoded again.
func TestGoldenRecords(t *testing.T) {
	for _, name := range []string{"clean", "formats"} {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, name)
			at := 0
			for _, want := range g.messages {
				if left, ok := Blank(g.log[at:]); ok {
					checkBlank(t, g, at, int(left))
					at += int(left)
				}
				v, err := Parse(g.log[at:])
				if err != nil {
					t.Fatalf("record at %d: %v", at, err)
				}
				checkGolden(t, v, want)
				reencode(t, v)
				at += v.Size()
			}
			if _, err := Parse(g.log[at:]); !errors.Is(err, ErrMagic) {
				t.Errorf("behind the last record: %v, want ErrMagic", err)
			}
			if len(g.messages) < 25 {
				t.Errorf("only %d records", len(g.messages))
			}
		})
	}
}

func checkBlank(t *testing.T, g goldenStore, at, left int) {
	t.Helper()
	if _, err := Parse(g.log[at:]); !errors.Is(err, ErrBlank) {
		t.Errorf("blank at %d: Parse says %v", at, err)
	}
	if !slices.Contains(g.blanks, [2]int{at, left}) {
		t.Errorf("blank at %d with %d bytes is not among %v", at, left, g.blanks)
	}
	if b := AppendBlank(nil, int32(left)); !bytes.Equal(b, g.log[at:at+BlankSize]) {
		t.Errorf("blank of %d bytes is %x, want %x", left, b, g.log[at:at+BlankSize])
	}
}

func checkGolden(t *testing.T, v View, want goldenMessage) {
	t.Helper()
	got := goldenMessage{
		Topic: string(v.Topic()), QueueID: v.QueueID(), QueueOffset: v.QueueOffset(),
		PhysicalOffset: v.PhysOffset(), Size: v.Size(), Version: v.Version(), Flag: v.Flag(),
		SysFlag: v.SysFlag(), ReconsumeTimes: v.ReconsumeTimes(), PreparedOffset: v.PreparedOffset(),
		BornTimestamp: v.BornMillis(), StoreTimestamp: v.StoreMillis(),
		BornHost: want.BornHost, StoreHost: want.StoreHost, // compared as addresses below
		BodyLen: len(v.Body()), BodyCRC: v.BodyCRC(), Properties: map[string]string{},
	}
	sum := sha256.Sum256(v.Body())
	got.BodySha256 = hex.EncodeToString(sum[:])
	EachProperty(v.Properties(), func(name, value []byte) bool {
		got.Properties[string(name)] = string(value) // as Java: the last one
		return true
	})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("record at %d:\n got %+v\nwant %+v", v.PhysOffset(), got, want)
	}
	born, err := netip.ParseAddrPort(want.BornHost)
	if err != nil || v.BornHost() != born {
		t.Errorf("record at %d: born host %v, want %s (%v)", v.PhysOffset(), v.BornHost(), want.BornHost, err)
	}
	store, err := netip.ParseAddrPort(want.StoreHost)
	if err != nil || v.StoreHost() != store {
		t.Errorf("record at %d: store host %v, want %s (%v)", v.PhysOffset(), v.StoreHost(), want.StoreHost, err)
	}
	if err := v.CheckCRC(); err != nil {
		t.Errorf("record at %d: %v", v.PhysOffset(), err)
	}
	for name := range want.Properties {
		first := v.Property(name)
		if first == nil {
			t.Errorf("record at %d: property %s not found", v.PhysOffset(), name)
		}
		if m := v.Message(); m.Properties[name] != string(first) {
			t.Errorf("record at %d: Message has %q for %s, want the first, %q", v.PhysOffset(), m.Properties[name], name, first)
		}
	}
}

// reencode makes the record anew from what the view says.
func reencode(t *testing.T, v View) {
	t.Helper()
	d := Draft{
		Topic: v.Topic(), QueueID: v.QueueID(), Flag: v.Flag(), SysFlag: v.SysFlag(),
		BornMillis: v.BornMillis(), BornHost: v.BornHost(), StoreHost: v.StoreHost(),
		ReconsumeTimes: v.ReconsumeTimes(), PreparedOffset: v.PreparedOffset(),
		Body: v.Body(), Properties: v.Properties(),
	}
	b, err := AppendDraft([]byte("before"), &d)
	if err != nil {
		t.Fatal(err)
	}
	rec := b[len("before"):]
	Patch(rec, v.QueueOffset(), v.PhysOffset(), v.StoreMillis())
	if !bytes.Equal(rec, v.Raw()) {
		t.Errorf("record at %d encoded again:\n got %x\nwant %x", v.PhysOffset(), rec, v.Raw())
	}
	if d.Size() != v.Size() {
		t.Errorf("record at %d: Size %d, want %d", v.PhysOffset(), d.Size(), v.Size())
	}
}

// Batches of 5.3.3 hold the batch's UNIQ_KEY behind the message's own.
func TestGoldenBatchKeepsItsOwnKeys(t *testing.T) {
	g := readGolden(t, "clean")
	twice := 0
	for _, m := range g.messages {
		v, err := Parse(g.log[m.PhysicalOffset:])
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		EachProperty(v.Properties(), func(name, value []byte) bool {
			if string(name) == PropertyUniqueKey {
				ids = append(ids, string(value))
			}
			return true
		})
		if len(ids) == 2 {
			twice++
			if v.Message().ID() != ids[0] || m.Properties[PropertyUniqueKey] != ids[1] {
				t.Errorf("message at %d: id %s of %v, Java's map has %s", m.PhysicalOffset, v.Message().ID(), ids, m.Properties[PropertyUniqueKey])
			}
		}
	}
	if twice == 0 {
		t.Error("no record has two UNIQ_KEYs: the recording changed")
	}
}

// The ids Apache returned to producers lead to their records.
func TestGoldenOffsetIDs(t *testing.T) {
	g := readGolden(t, "clean")
	seen := 0
	for _, r := range g.results {
		for _, id := range strings.Split(r.OffsetMsgID, ",") {
			if id == "" {
				continue
			}
			host, phys, err := ParseOffsetID(id)
			if err != nil {
				t.Fatal(err)
			}
			v, err := Parse(g.log[phys:])
			if err != nil || v.PhysOffset() != phys || v.StoreHost() != host {
				t.Fatalf("id %s leads to %v at %d: %v", id, host, phys, err)
			}
			if got := v.Message().OffsetID(); got != id {
				t.Errorf("id of the record at %d is %s, want %s", phys, got, id)
			}
			seen++
		}
	}
	if seen < 100 {
		t.Errorf("only %d ids", seen)
	}
}

// The bodies of `formats`: three compressions, and a zlib body of an old
// client without the type bits.
func TestGoldenCompression(t *testing.T) {
	g := readGolden(t, "formats")
	plain := map[string]string{}
	for _, m := range g.messages {
		if m.SysFlag&FlagCompressed == 0 {
			continue
		}
		v, err := Parse(g.log[m.PhysicalOffset:])
		if err != nil {
			t.Fatal(err)
		}
		msg := v.Message()
		b, err := msg.PlainBody(1 << 20)
		key := msg.Keys()[0]
		switch key {
		case "CMP-LZ4", "CMP-ZSTD":
			if ce := (*CompressionError)(nil); !errors.As(err, &ce) || ce.Err != nil {
				t.Errorf("%s: %v", key, err)
			}
		default:
			if err != nil {
				t.Errorf("%s: %v", key, err)
			}
			plain[key] = string(b)
			if _, err := msg.PlainBody(int64(len(b)) - 1); err == nil {
				t.Errorf("%s: %d bytes pass a limit of one less", key, len(b))
			}
		}
	}
	if plain["CMP-ZLIB"] == "" || plain["CMP-ZLIB"] != plain["CMP-OLD"] {
		t.Errorf("zlib bodies %q", plain)
	}
}

func ExampleView_Message() {
	b, err := hex.DecodeString(strings.Join(strings.Fields(worked), ""))
	if err != nil {
		panic(err)
	}
	v, err := Parse(b)
	if err != nil {
		panic(err)
	}
	m := v.Message()
	fmt.Println(m.ID(), m.OffsetID(), m.Topic, m.QueueID, m.QueueOffset, m.Tags(), m.Keys(), string(m.Body))
	// Output: 7F0000010A 0A00000200002A9F0000000000001000 orders 3 17 TagA [ORD-20417] hello
}
