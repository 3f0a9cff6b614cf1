package fastjson_test

import (
	"testing"

	"mqctl/store/fastjson"
)

func TestUnknown(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{}`, ``},
		{`{"known":1,"too":[2]}`, ``},
		{`{"z":{"a":[1, null]},"known":1,"b\"c":"x"}`, `,|"b\"c":"x",|"z":{"a":[1, null]}`},
		{`{"numbers":{0:1,7:2}}`, `,|"numbers":{"0":1,"7":2}`},
	} {
		got, err := fastjson.Unknown([]byte(tt.text), "|", "known", "too")
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{``, `[1]`, `{"a":`, `3`} {
		if got, err := fastjson.Unknown([]byte(text), ""); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}
