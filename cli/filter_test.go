package cli

import (
	"errors"
	"strings"
	"testing"
	"time"
)

type filterSample struct {
	Group string            `json:"group"`
	Role  string            `json:"role" enum:"ASYNC_MASTER|SLAVE"`
	At    *string           `json:"storedAt"`
	Keys  map[string]string `json:"runtime"`
	Gap   *int64            `json:"gapBytes"`
	Late  int64             `json:"gapMillis"`
	Rate  float64           `json:"rate"`
	Sync  bool              `json:"inSync"`
	Tags  []string          `json:"tags"`
	Log   struct {
		Min int64 `json:"minOffset"`
	} `json:"commitLog"`
}

func TestFilter(t *testing.T) {
	it := filterSample{Group: "order consumer", Role: "SLAVE", Gap: ptr(int64(2 << 20)), Late: 5000, Rate: 1.5, Sync: true, Tags: []string{"a", "b"}}
	it.Log.Min = 7
	it.At, it.Keys = ptr(stamp(time.Now().Add(-time.Hour))), map[string]string{"putTps": "9.5"}
	unknown := filterSample{Role: "ASYNC_MASTER"}
	for expr, want := range map[string][2]bool{
		"gapBytes>1MiB && role==SLAVE":          {true, false},
		"gapBytes>=2MiB":                        {true, false},
		"gapBytes > 2097152":                    {false, false},
		"gapBytes==null":                        {false, true},
		"gapBytes!=null":                        {true, false},
		"gapBytes<1GiB || role=ASYNC_MASTER":    {true, true},
		"gapBytes!=5":                           {true, false},
		"group~^order":                          {true, false},
		"group!~order":                          {false, true},
		"group=='order consumer'":               {true, false},
		"gapMillis>=5s":                         {true, false},
		"gapMillis<1m":                          {true, true},
		"rate>1.2":                              {true, false},
		"inSync":                                {true, false},
		"!inSync":                               {false, true},
		"inSync==true":                          {true, false},
		"inSync==false":                         {false, true},
		"!(inSync && role==SLAVE)":              {false, true},
		"tags==b":                               {true, false},
		"tags!=b":                               {false, true},
		"tags~^[ab]$":                           {true, false},
		"commitLog.minOffset==7":                {true, false},
		"(role==SLAVE || inSync) && tags":       {true, false},
		"role==slave":                           {true, false},
		"role!=slave":                           {false, true},
		"storedAt<-30m":                         {true, false},
		"storedAt>-30m":                         {false, false},
		"storedAt>-2h && storedAt>2020-01-01":   {true, false},
		"storedAt<=2020-01-01T10:00:00Z":        {false, false},
		"storedAt==null":                        {false, true},
		"storedAt~^20":                          {true, false},
		"runtime.putTps>10":                     {false, false},
		"runtime.putTps<10":                     {true, false},
		"runtime.putTps==9.5":                   {true, false},
		"runtime.none==null":                    {true, true},
		`role=="SLAVE"&&(group~order||tags==c)`: {true, false},
	} {
		f, err := parseFilter(expr, it)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		for i, x := range []filterSample{it, unknown} {
			if got := f(x); got != want[i] {
				t.Errorf("%s, item %d: %t", expr, i, got)
			}
		}
	}
	for _, expr := range []string{
		"", "gap>1", "gapBytes>", "gapBytes>1 role==x", "(inSync", "inSync)", "== 5", "group~[", "group=='x", "&& inSync", "inSync &&", "!", "inSync & x",
		"gapBytes>lots", "gapMillis==soon", "rate<x", "inSync==yes", "role==MASTER", "storedAt>yesterday", "commitLog.nope==1", "group.x", "commitLog.minOffset>a",
		"gapBytes>null", "'group'==x", "group=||", strings.Repeat("(", 100) + "inSync", strings.Repeat("!", 100) + "inSync", strings.Repeat("x", maxFilter+1),
	} {
		_, err := parseFilter(expr, it)
		var m *Message
		if !errors.As(err, &m) || m.ExitCode != ExitUsage {
			t.Errorf("%q: %v", expr, err)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, s := range []string{"gapBytes>1MiB && role==SLAVE", "!(inSync)", "tags~'a|b'", "gapBytes==null || rate<5s"} {
		f.Add(s)
	}
	it := filterSample{Gap: ptr(int64(1)), Tags: []string{"a"}}
	f.Fuzz(func(t *testing.T, expr string) {
		p, err := parseFilter(expr, it)
		var m *Message
		switch {
		case err == nil:
			p(it)
		case !errors.As(err, &m) || m.ExitCode != ExitUsage:
			t.Fatalf("%q: %v", expr, err)
		}
	})
}
