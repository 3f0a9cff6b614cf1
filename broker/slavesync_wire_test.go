package broker

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"mqctl/broker/remoting"
	"mqctl/store"
	"mqctl/store/fastjson"
	"mqctl/store/table"
	"mqctl/subgroup"
)

func someRecords(n int) []subgroup.ProgressRecord {
	records := make([]subgroup.ProgressRecord, n)
	for i := range records {
		records[i] = subgroup.ProgressRecord{Topic: fmt.Sprintf("topic-%d", i%7), Group: fmt.Sprintf("group-%d", i%5), Queue: int32(i),
			Progress: subgroup.Progress{Offset: int64(i * 11), Gen: uint32(i % 3), Source: subgroup.FromCommit, Updated: int64(i)}}
	}
	return records
}

func TestTablesBody(t *testing.T) {
	for _, give := range []tables{
		{},
		{records: someRecords(3)},
		{leases: []subgroup.Lease{{Group: "g", ClientID: "c", Queue: subgroup.QueueKey{Topic: "t", BrokerName: "b", QueueID: 3}, LeftMillis: 59}}},
		{records: someRecords(40), delays: []byte(`{"offsetTable":{}}`), modes: noModes},
		{deletions: &deletionsTold{last: 7, list: []store.Deletion{{Topic: "t", Before: 1 << 40}, {Topic: "%RETRY%g", Before: 0}}}},
	} {
		got, err := decodeTables(give.encode())
		if err != nil || !reflect.DeepEqual(*got, give) {
			t.Errorf("%+v came back as %+v, %v", give, got, err)
		}
	}
	whole := (&tables{records: someRecords(3), modes: noModes}).encode()
	for n := 1; n < len(whole); n++ {
		if got, err := decodeTables(whole[:n]); err == nil && n > len(bodyMagic) && len(got.records) == 3 && got.modes != nil {
			t.Errorf("%d of %d bytes were taken for the whole", n, len(whole))
		}
	}
	unknown := append(slices.Clone(whole), appendSection(nil, 99, []byte("later"))...)
	if got, err := decodeTables(unknown); err != nil || len(got.records) != 3 {
		t.Errorf("a section of a later version: %+v %v", got, err)
	}
	lies := append([]byte(bodyMagic), tagProgress, 0xff, 0xff, 0xff, 0xff)
	if _, err := decodeTables(lies); err == nil {
		t.Error("a length beyond the body was believed")
	}
}

func FuzzTablesBody(f *testing.F) {
	f.Add((&tables{records: someRecords(5), delays: []byte("{}"), modes: noModes}).encode())
	f.Add((&tables{deletions: &deletionsTold{last: 3, list: []store.Deletion{{Topic: "t", Before: 9}}}}).encode())
	f.Add(appendSection([]byte(bodyMagic), tagDeleted, []byte("12345678\xff\xff\xff\xff\xff\xff\xff\xff\x00\x01t")))
	f.Add([]byte(bodyMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeTables(b)
		if err != nil {
			return
		}
		again, err := decodeTables(got.encode())
		if err != nil || len(again.records) != len(got.records) || len(again.leases) != len(got.leases) || !bytes.Equal(again.modes, got.modes) ||
			!reflect.DeepEqual(again.deletions, got.deletions) {
			t.Errorf("%+v came back as %+v, %v", got, again, err)
		}
	})
}

// All records arrive, each once, however small the bodies are.
func TestCut(t *testing.T) {
	for _, most := range []int{1, 200, 1000, 1 << 20} {
		var got []subgroup.ProgressRecord
		var after *progressKey
		for {
			a := &asking{after: after}
			rest := slices.DeleteFunc(someRecords(100), func(r subgroup.ProgressRecord) bool { return a.had(&r) })
			part, next := cut(rest, after, most)
			if again, _ := cut(someRecords(100), after, most); !slices.Equal(part, again) {
				t.Fatalf("bodies of %d bytes: without what the asker had %v, with it %v", most, part, again)
			}
			got = append(got, part...)
			if next == nil {
				break
			}
			if len(part) == 0 {
				t.Fatal("a part without records asks for more")
			}
			after = next
		}
		seen := map[progressKey]bool{}
		for i := range got {
			seen[keyOf(&got[i])] = true
		}
		if len(got) != 100 || len(seen) != 100 {
			t.Errorf("bodies of %d bytes: %d records, %d keys", most, len(got), len(seen))
		}
	}
}

// What was heard is known again, and nothing else is: neither another value of the same
// queue nor another queue.
func TestHeardRecords(t *testing.T) {
	var h heardRecords
	records := someRecords(100)
	if h.has(&records[0]) {
		t.Error("a record is known before any was heard")
	}
	h.add(records[:40])
	h.add(records[40:60])
	for i := range records {
		if h.has(&records[i]) != (i < 60) {
			t.Errorf("record %d: known %t", i, h.has(&records[i]))
		}
	}
	for _, change := range []func(r *subgroup.ProgressRecord){
		func(r *subgroup.ProgressRecord) { r.Offset++ },
		func(r *subgroup.ProgressRecord) { r.Gen++ },
		func(r *subgroup.ProgressRecord) { r.Pending = !r.Pending },
		func(r *subgroup.ProgressRecord) { r.Queue += 1000 },
		func(r *subgroup.ProgressRecord) { r.Topic += "x" },
		func(r *subgroup.ProgressRecord) { r.Group += "x" },
	} {
		r := records[3]
		if change(&r); h.has(&r) {
			t.Errorf("%+v is known, heard was %+v", r, records[3])
		}
	}
}

func TestVersionText(t *testing.T) {
	v := table.DataVersion{StateVersion: 3, Counter: 12, Timestamp: 1795969377704}
	if got, err := parseVersion(versionText(v)); got != v || err != nil {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"", "1.2", "1.2.x", "1.2.3.4"} {
		if _, err := parseVersion(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Who is no replica of this broker exchanges nothing with it.
func TestProgressRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		good := map[string]string{"brokerName": "broker-a", "brokerId": "1", "brokerAddr": "127.0.0.1:10921", "sinceVersion": "0"}
		for _, c := range []struct {
			key, value string
			body       []byte
			code       int
		}{
			{"brokerName", "broker-b", nil, 29}, {"brokerId", "0", nil, 29}, {"brokerId", "x", nil, 29}, {"brokerAddr", "nowhere", nil, 29},
			{"sinceVersion", "-1", nil, 29}, {"brokerId", "1", []byte("junk"), 29}, {"brokerId", "1", nil, 0},
		} {
			ext := map[string]string{}
			for k, v := range good {
				ext[k] = v
			}
			ext[c.key] = c.value
			if resp := r.call(remoting.ReqMqctlProgress, ext, c.body); resp.Code != c.code {
				t.Errorf("%s=%q, body %q: answer %d %q, want %d", c.key, c.value, c.body, resp.Code, resp.Remark, c.code)
			}
		}
	})
}

// Topics and groups in parts: each once, a total, and from the start when the
// asker's version is another one.
func TestPages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		for i := range 10 {
			r.createTopic("T"+strconv.Itoa(i), 1)
			r.putGroup(subgroup.Defaults("G" + strconv.Itoa(i)))
		}
		for _, c := range []struct {
			code                           int
			seq, most, total, member, have string
		}{{21, "topicSeq", "maxTopicNum", "totalTopicNum", "topicConfigTable", "T7"}, {201, "groupSeq", "maxGroupNum", "totalGroupNum", "subscriptionGroupTable", "G7"}} {
			all := map[string]bool{}
			version := ""
			for seq, total := 0, 1; seq < total; {
				ext := map[string]string{c.seq: strconv.Itoa(seq), c.most: "4", "dataVersion": version}
				resp := r.call(c.code, ext, nil)
				r.wants(resp, 0, "")
				var doc map[string]map[string]any
				if err := fastjson.Unmarshal(resp.Body, &doc); err != nil {
					t.Fatal(err)
				}
				part := doc[c.member]
				if len(part) == 0 || len(part) > 4 {
					t.Fatalf("code %d: a part of %d", c.code, len(part))
				}
				for name := range part {
					all[name] = true
				}
				seq += len(part)
				total, _ = strconv.Atoi(resp.Ext[c.total])
				text, _ := fastjson.Marshal(doc["dataVersion"])
				version = string(text)
			}
			if !all[c.have] || len(all) < 10 {
				t.Errorf("code %d: %v", c.code, all)
			}
			first := r.call(c.code, map[string]string{c.seq: "0", c.most: "4"}, nil)
			other := r.call(c.code, map[string]string{c.seq: "8", c.most: "4", "dataVersion": `{"counter":0,"stateVersion":0,"timestamp":1}`}, nil)
			if !bytes.Equal(first.Body, other.Body) {
				t.Errorf("code %d: another version did not begin anew", c.code)
			}
			for _, bad := range []map[string]string{{c.seq: "x"}, {c.seq: "-1"}, {c.most: "99999999999"}, {c.seq: "0", "dataVersion": "{"}} {
				if resp := r.call(c.code, bad, nil); resp.Code != 29 {
					t.Errorf("code %d with %v: answer %d", c.code, bad, resp.Code)
				}
			}
		}
	})
}
