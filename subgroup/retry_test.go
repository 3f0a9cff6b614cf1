package subgroup_test

import (
	"testing"

	"mqctl/subgroup"
)

func TestRetryNames(t *testing.T) {
	if got := subgroup.RetryTopic("g"); got != "%RETRY%g" {
		t.Error(got)
	}
	if got := subgroup.DLQTopic("g"); got != "%DLQ%g" {
		t.Error(got)
	}
	for topic, want := range map[string]string{
		"%RETRY%g": "g", "%RETRY%g+t": "g", "%RETRY%a%b": "a%b", "%RETRY%": "", "%DLQ%g": "", "orders": "", "": "", "%RETRY%+t": "",
	} {
		got, ok := subgroup.GroupOfRetry(topic)
		if got != want && ok || ok != (want != "") {
			t.Errorf("GroupOfRetry(%s) = %q %v", topic, got, ok)
		}
		b, okb := subgroup.GroupOfRetry([]byte(topic))
		if okb != ok || ok && string(b) != got {
			t.Errorf("GroupOfRetry of the bytes of %s = %q %v", topic, b, okb)
		}
	}
}

func TestMaxAttempts(t *testing.T) {
	c := subgroup.Defaults("g")
	zero, three := int32(0), int32(3)
	for _, x := range []struct {
		version int
		asked   *int32
		want    int32
	}{{479, nil, 16}, {479, &three, 3}, {121, &zero, 0}, {120, &three, 16}, {0, &three, 16}} {
		if got := c.MaxAttempts(x.version, x.asked); got != x.want {
			t.Errorf("version %d, asked %v: %d, want %d", x.version, x.asked, got, x.want)
		}
	}
}

func TestSendBack(t *testing.T) {
	for _, c := range []struct {
		times, level, most int32
		dead               bool
		want               int32
	}{
		{0, 0, 16, false, 3}, {1, 0, 16, false, 4}, {15, 0, 16, false, 18}, {16, 0, 16, true, 0}, {17, 5, 16, true, 0},
		{0, -1, 16, true, 0}, {0, 7, 16, false, 7}, {0, 0, 0, true, 0}, {0, 0, -1, true, 0},
	} {
		dead, level := subgroup.SendBack(c.times, c.level, c.most)
		if dead != c.dead || level != c.want {
			t.Errorf("%d times, level %d, at most %d: %v %d", c.times, c.level, c.most, dead, level)
		}
	}
	for _, c := range []struct {
		times, most int32
		locked      bool
		want        bool
	}{{16, 16, false, false}, {17, 16, false, true}, {0, 16, true, true}, {0, 0, false, false}} {
		if got := subgroup.ClientRetryIsDead(c.times, c.most, c.locked); got != c.want {
			t.Errorf("%d times, at most %d, locked %v: %v", c.times, c.most, c.locked, got)
		}
	}
}
