package body

import (
	"bytes"
	"compress/zlib"
	"reflect"
	"testing"

	"mqctl/broker/remoting/internal/recorded"
)

// pack makes a zlib stream.
func pack(b []byte) []byte {
	var buf bytes.Buffer
	z, _ := zlib.NewWriterLevel(&buf, zlib.BestSpeed)
	_, _ = z.Write(b)
	_ = z.Close()
	return buf.Bytes()
}

// FuzzBodies gives any text to every decoder: no panic, and what is read survives a trip.
func FuzzBodies(f *testing.F) {
	for i, r := range recorded.Frames(f, "../../../testdata/wire") {
		if r.Body != "" && len(r.Body) < 4000 && i%11 == 0 {
			f.Add([]byte(r.Body))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for code, decode := range bodies {
			v, err := decode(b)
			if err != nil {
				continue
			}
			text := v.Encode()
			again, err := decode(text)
			if err != nil {
				t.Fatalf("%d: %v in %s", code, err, text)
			}
			if twice := again.Encode(); !bytes.Equal(twice, text) {
				t.Errorf("%d: %s, then %s", code, text, twice)
			}
		}
		_, _ = DecodeConsumerRunningInfo(b)
	})
}

// FuzzRegister unfolds any registration within its limits.
func FuzzRegister(f *testing.F) {
	r := RegisterBroker{TopicConfigSerializeWrapper: TopicConfigTable{
		TopicConfigTable:         map[string]TopicConfig{"T": {TopicName: "T", Perm: 6, TopicFilterType: "SINGLE_TAG"}, "U": {TopicName: "U", Attributes: map[string]string{"a": "b"}}},
		TopicQueueMappingInfoMap: map[string]TopicQueueMappingInfo{"T": {Topic: "T", CurrIDMap: map[int32]int32{0: 1}}},
	}}
	f.Add(r.EncodeCompressed(), 479)
	f.Add(r.Encode(), 479)
	f.Add(append([]byte{0x78}, r.EncodeCompressed()...), 100)
	f.Fuzz(func(t *testing.T, b []byte, version int) {
		if len(b) > 0 && b[0] != 0x78 && b[0] != '{' {
			b = pack(b) // lets the fuzzer work on what is inside
		}
		r, err := DecodeRegisterBroker(b, version)
		if err != nil {
			return
		}
		again, err := DecodeRegisterBroker(r.Encode(), version)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := r.Encode(), again.Encode(); !reflect.DeepEqual(a, b) {
			t.Errorf("%s, then %s", a, b)
		}
	})
}
