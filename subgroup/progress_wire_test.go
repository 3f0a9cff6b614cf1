package subgroup_test

import (
	"bytes"
	"reflect"
	"testing"

	"mqctl/subgroup"
)

var wireRecords = []subgroup.ProgressRecord{
	{Topic: "orders", Group: "billing", Queue: 0, Progress: subgroup.Progress{Offset: 17, Source: subgroup.FromCommit}},
	{Topic: "orders", Group: "billing", Queue: 3, Progress: subgroup.Progress{Offset: -1, Gen: 1 << 31, Term: 1 << 62, Source: subgroup.FromReset, Pending: true, Updated: 1_795_969_485_621}},
	{Topic: "%RETRY%audit", Group: "audit@broadcast", Queue: -2, Progress: subgroup.Progress{Unknown: true, Source: subgroup.FromImport}},
	{Topic: "%RETRY%audit", Group: "audit", Queue: 1, Progress: subgroup.Progress{Gen: 4, Deleted: true, Source: subgroup.FromCorrection, Updated: 5}},
}

var wireLeases = []subgroup.Lease{
	{Group: "g", ClientID: "10.0.0.1@1#2", Queue: subgroup.QueueKey{Topic: "t", BrokerName: "a", QueueID: 7}, LeftMillis: 59_999},
	{Group: "g", ClientID: "c", Queue: subgroup.QueueKey{Topic: "t", QueueID: -1}},
}

func TestProgressWire(t *testing.T) {
	b := subgroup.AppendRecords(nil, wireRecords)
	got, err := subgroup.DecodeRecords(b)
	if err != nil || !reflect.DeepEqual(got, wireRecords) {
		t.Errorf("%v: %+v", err, got)
	}
	if got, err := subgroup.DecodeRecords(subgroup.AppendRecords(nil, nil)); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	l := subgroup.AppendLeases(nil, wireLeases)
	leases, err := subgroup.DecodeLeases(l)
	if err != nil || !reflect.DeepEqual(leases, wireLeases) {
		t.Errorf("%v: %+v", err, leases)
	}
	for n := range b {
		if _, err := subgroup.DecodeRecords(b[:n]); err == nil {
			t.Errorf("the first %d bytes of records were taken for all", n)
		}
	}
	for n := range l {
		if _, err := subgroup.DecodeLeases(l[:n]); err == nil {
			t.Errorf("the first %d bytes of leases were taken for all", n)
		}
	}
	for name, b := range map[string][]byte{
		"more than there is":     {0xff, 0xff, 0xff, 0xff, 0x7f, 1},
		"bytes behind":           append(bytes.Clone(b), 0),
		"a row before the first": {1, 128, 3, 0, 0, 0, 0, 0},
		"an unknown source":      {1, 0, 4, 1, 't', 1, 'g', 0, 0, 0, 0, 0},
		"an unknown flag":        {1, 8, 3, 1, 't', 1, 'g', 0, 0, 0, 0, 0},
		"a long name":            {1, 0, 3, 0xff, 0x7f, 1, 'g', 0, 0, 0, 0, 0},
	} {
		if got, err := subgroup.DecodeRecords(b); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func FuzzDecodeRecords(f *testing.F) {
	f.Add(subgroup.AppendRecords(nil, wireRecords))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, err := subgroup.DecodeRecords(b)
		if err != nil {
			return
		}
		again, err := subgroup.DecodeRecords(subgroup.AppendRecords(nil, records))
		if err != nil || len(again) != len(records) || len(records) > 0 && !reflect.DeepEqual(again, records) {
			t.Fatalf("%v: %+v became %+v", err, records, again)
		}
	})
}

func FuzzDecodeLeases(f *testing.F) {
	f.Add(subgroup.AppendLeases(nil, wireLeases))
	f.Fuzz(func(t *testing.T, b []byte) {
		leases, err := subgroup.DecodeLeases(b)
		if err != nil {
			return
		}
		again, err := subgroup.DecodeLeases(subgroup.AppendLeases(nil, leases))
		if err != nil || len(again) != len(leases) || len(leases) > 0 && !reflect.DeepEqual(again, leases) {
			t.Fatalf("%v: %+v became %+v", err, leases, again)
		}
	})
}
