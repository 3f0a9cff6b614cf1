package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"mqctl/broker/remoting"
)

func TestQueries(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil)
		r.createTopic("T", 1)
		for i := range 40 {
			r.mustSend("T", 0, fmt.Sprintf("m%d", i), "UNIQ_KEY", fmt.Sprintf("U%d", i), "KEYS", fmt.Sprintf("k%d all", i%10))
		}
		synctest.Wait()
		query := func(key, unique string, most int, change ...string) *remoting.Response {
			ext := map[string]string{"topic": "T", "key": key, "maxNum": fmt.Sprint(most), "beginTimestamp": "0", "endTimestamp": "9223372036854775807", "_UNIQUE_KEY_QUERY": unique}
			for i := 0; i+1 < len(change); i += 2 {
				ext[change[i]] = change[i+1]
			}
			return r.call(12, ext, nil)
		}
		for _, c := range []struct {
			key, unique string
			most, want  int
		}{{"k3", "false", 64, 4}, {"all", "false", 64, 40}, {"all", "false", 7, 7}, {"U5", "true", 1, 1}, {"U5", "false", 64, 0}, {"nothing", "false", 64, 0}, {"all", "false", 0, 0}, {"all", "false", -1, 0}} {
			resp := query(c.key, c.unique, c.most)
			if c.want == 0 {
				r.wants(resp, 22, notFoundByKey)
				if resp.Ext["indexLastUpdateTimestamp"] == "" {
					t.Errorf("ext fields of 22: %v", resp.Ext)
				}
				continue
			}
			if n := len(messages(t, resp.Body)); resp.Code != 0 || n != c.want || resp.Ext["indexLastUpdatePhyoffset"] == "" {
				t.Errorf("key %s: %d messages, want %d (%d %s %v)", c.key, n, c.want, resp.Code, resp.Remark, resp.Ext)
			}
		}
		r.wants(query("all", "false", 64, "topic", "None"), 22, "")
		r.wants(query("all", "false", 64, "endTimestamp", "5"), 22, "")
		r.wants(query("all", "false", 64, "maxNum", "x"), 1, "")
		ms := messages(t, query("U7", "true", 1).Body)
		byOffset := r.call(33, map[string]string{"offset": fmt.Sprint(ms[0].phys)}, nil)
		if got := messages(t, byOffset.Body); len(got) != 1 || got[0].body != "m7" {
			t.Errorf("33: %+v", got)
		}
		for _, bad := range []string{"999999999", "-1", fmt.Sprint(ms[0].phys + 1)} {
			r.wants(r.call(33, map[string]string{"offset": bad}, nil), 1, "can not find message by the offset, "+bad)
		}
	})
}

func TestWholeRecords(t *testing.T) {
	rec := func(n int) []byte { return append([]byte{0, 0, 0, byte(n)}, make([]byte, n-4)...) }
	b := slices.Concat(rec(10), rec(20), rec(30))
	for most, want := range map[int]int{60: 60, 100: 60, 59: 30, 30: 30, 29: 10, 9: 0} {
		if got := len(wholeRecords(b, most)); got != want {
			t.Errorf("most %d: %d bytes, want %d", most, got, want)
		}
	}
	if got := len(wholeRecords(make([]byte, 100), 50)); got != 0 {
		t.Errorf("records of no length: %d", got)
	}
}

// TestQueryAnswerFitsInAFrame: six messages of 3 MiB have the key, five fit.
func TestQueryAnswerFitsInAFrame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, nil, func(o *Options) { o.Store.CommitLogBytes = 32 << 20 })
		r.createTopic("T", 1)
		for i := range 6 {
			r.mustSend("T", 0, strings.Repeat("x", 3<<20), "UNIQ_KEY", fmt.Sprint(i), "KEYS", "k")
		}
		synctest.Wait()
		resp := r.call(12, map[string]string{"topic": "T", "key": "k", "maxNum": "64", "beginTimestamp": "0", "endTimestamp": "9223372036854775807"}, nil)
		if n := len(messages(t, resp.Body)); resp.Code != 0 || n != 5 {
			t.Errorf("%d messages of %d bytes (%d %s)", n, len(resp.Body), resp.Code, resp.Remark)
		}
	})
}
