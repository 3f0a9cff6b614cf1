package body

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mqctl/store/fastjson"
)

// RegisterBroker is the body of 103. A registration after a change of topics holds
// only these, so a topic's absence says nothing.
type RegisterBroker struct {
	FilterServerList            []string                              `json:"filterServerList"`
	TopicConfigSerializeWrapper TopicConfigAndMappingSerializeWrapper `json:"topicConfigSerializeWrapper"`
}

// Limits of a compressed body, in bytes after decompression. A zlib stream of one
// frame could otherwise unfold to a thousand times its size.
const (
	maxRegister      = 64 << 20
	maxRegisterEntry = 1 << 20
)

// MaxRegisterTopics is how many topics, and how many mapping infos, one registration
// may hold. A few megabytes of a compressed one would otherwise become millions.
const MaxRegisterTopics = 100_000

// mqVersion50 is the version from which on a compressed body has mapping infos.
const mqVersion50 = 413

// CRC32 is the checksum RocketMQ uses for bodies: IEEE without its top bit.
func CRC32(b []byte) int32 { return int32(crc32.ChecksumIEEE(b) & 0x7FFFFFFF) }

// Encode writes the plain form.
func (r RegisterBroker) Encode() []byte {
	r.FilterServerList = nonNil(r.FilterServerList)
	r.TopicConfigSerializeWrapper = r.TopicConfigSerializeWrapper.full()
	return encode(r)
}

// DecodeRegisterBroker reads both forms. A zlib stream is known by its first byte:
// Java's sender says compressed=false even for one.
func DecodeRegisterBroker(b []byte, version int) (*RegisterBroker, error) {
	if len(b) > 0 && b[0] == 0x78 {
		r, err := decodeCompressed(b, version, maxRegister)
		if err != nil {
			return nil, fmt.Errorf("compressed registration: %w", err)
		}
		return r, nil
	}
	return decode[RegisterBroker]("registration", b)
}

// EncodeCompressed writes the compressed form for a nameserver. Order and sysFlag of
// topics are lost in it, and Java's nameserver refuses it unless the header says
// compressed=true, so mqctl's brokers do not send it.
func (r RegisterBroker) EncodeCompressed() []byte {
	var buf bytes.Buffer
	z, err := zlib.NewWriterLevel(&buf, zlib.BestCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	w := r.TopicConfigSerializeWrapper
	out := appendEntry(nil, w.DataVersion.Encode())
	out = binary.BigEndian.AppendUint32(out, uint32(len(w.TopicConfigTable)))
	for _, name := range slices.Sorted(maps.Keys(w.TopicConfigTable)) {
		out = appendEntry(out, topicLine(w.TopicConfigTable[name]))
	}
	out = appendEntry(out, encode(nonNil(r.FilterServerList)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(w.TopicQueueMappingInfoMap)))
	for _, name := range slices.Sorted(maps.Keys(w.TopicQueueMappingInfoMap)) {
		out = appendEntry(out, encode(w.TopicQueueMappingInfoMap[name]))
	}
	// Writes to a bytes.Buffer do not fail.
	_, _ = z.Write(out)
	_ = z.Close()
	return buf.Bytes()
}

func appendEntry(b, entry []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(entry))), entry...)
}

// topicLine is Java's TopicConfig.encode.
func topicLine(c TopicConfig) []byte {
	b := fmt.Appendf(nil, "%s %d %d %d %s", c.TopicName, c.ReadQueueNums, c.WriteQueueNums, c.Perm, c.TopicFilterType)
	return append(append(b, ' '), encode(nonNilMap(c.Attributes))...)
}

// unpacker reads the entries of a compressed body.
type unpacker struct {
	r io.Reader
}

func (u unpacker) count() (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(u.r, b[:]); err != nil {
		return 0, err
	}
	n := int32(binary.BigEndian.Uint32(b[:]))
	if n < 0 {
		return 0, fmt.Errorf("count %d is negative", n)
	}
	return int(n), nil
}

// entries is how many topics or mapping infos follow.
func (u unpacker) entries(what string) (int, error) {
	n, err := u.count()
	if err == nil && n > MaxRegisterTopics {
		return 0, fmt.Errorf("%d %s in one registration, the limit is %d", n, what, MaxRegisterTopics)
	}
	return n, err
}

func (u unpacker) entry() ([]byte, error) {
	n, err := u.count()
	if err != nil {
		return nil, err
	}
	if n > maxRegisterEntry {
		return nil, fmt.Errorf("entry of %d bytes passes the limit of %d", n, maxRegisterEntry)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(u.r, b)
	return b, err
}

// decodeCompressed reads:
//
//	i32 len + DataVersion | i32 topics, each i32 len + line | i32 len + filter servers
//	from version 413 on: i32 mappings, each i32 len + TopicQueueMappingInfo
//
// and refuses a stream that unfolds to more than limit bytes.
func decodeCompressed(b []byte, version int, limit int64) (*RegisterBroker, error) {
	z, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	u := unpacker{r: bufio.NewReader(io.LimitReader(z, limit))}
	r := new(RegisterBroker)
	w := &r.TopicConfigSerializeWrapper
	if err := u.json(&w.DataVersion); err != nil {
		return nil, err
	}
	if err := u.topics(w); err != nil {
		return nil, err
	}
	if err := u.json(&r.FilterServerList); err != nil {
		return nil, err
	}
	if version < mqVersion50 {
		return r, nil
	}
	n, err := u.entries("mapping infos")
	if errors.Is(err, io.EOF) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	w.TopicQueueMappingInfoMap = make(map[string]TopicQueueMappingInfo)
	for range n {
		var info TopicQueueMappingInfo
		if err := u.json(&info); err != nil {
			return nil, err
		}
		w.TopicQueueMappingInfoMap[info.Topic] = info
	}
	return r, nil
}

// json reads one entry of JSON.
func (u unpacker) json(v any) error {
	b, err := u.entry()
	if err != nil {
		return err
	}
	return fastjson.Unmarshal(b, v)
}

func (u unpacker) topics(w *TopicConfigAndMappingSerializeWrapper) error {
	n, err := u.entries("topics")
	if err != nil {
		return err
	}
	w.TopicConfigTable = make(map[string]TopicConfig)
	for range n {
		b, err := u.entry()
		if err != nil {
			return err
		}
		c, err := parseTopicLine(string(b))
		if err != nil {
			return err
		}
		w.TopicConfigTable[c.TopicName] = c
	}
	return nil
}

// parseTopicLine reads "name readQueues writeQueues perm filterType [attributes]".
func parseTopicLine(line string) (TopicConfig, error) {
	f := strings.SplitN(line, " ", 6)
	if len(f) < 5 {
		return TopicConfig{}, fmt.Errorf("topic line %.80q has %d of 5 parts", line, len(f))
	}
	var n [3]int32
	for i := range n {
		v, err := strconv.ParseInt(f[1+i], 10, 32)
		if err != nil {
			return TopicConfig{}, fmt.Errorf("topic line %.80q: %q is no number", line, f[1+i])
		}
		n[i] = int32(v)
	}
	c := TopicConfig{
		TopicName: f[0], ReadQueueNums: n[0], WriteQueueNums: n[1], Perm: int(n[2]),
		TopicFilterType: f[4], Attributes: map[string]string{},
	}
	if len(f) == 6 && f[5] != "" {
		if err := json.Unmarshal([]byte(f[5]), &c.Attributes); err != nil {
			return TopicConfig{}, fmt.Errorf("topic line %.80q: attributes: %w", line, err)
		}
	}
	return c, nil
}
