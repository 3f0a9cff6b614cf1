package cli

import (
	"strings"
	"testing"
)

func TestScanProgress(t *testing.T) {
	const total = 10 << 30
	feed := func(tty bool) string {
		var b strings.Builder
		p := &scanProgress{w: &b, tty: tty}
		for done := int64(0); done <= total; done += 16 << 20 {
			p.report(done, total)
		}
		p.report(0, 0) // an empty log
		p.end()
		return b.String()
	}
	lines := strings.Split(strings.TrimSuffix(feed(false), "\n"), "\n")
	if len(lines) != 10 || lines[0] != "recovery  1.0 GiB of at most 10 GiB scanned, 10 %" || !strings.HasSuffix(lines[9], ", 100 %") {
		t.Errorf("%q", lines)
	}
	tty := feed(true)
	if strings.Count(tty, "\n") != 1 || !strings.HasSuffix(tty, "100 % \n") || strings.Count(tty, "\r") != 100 {
		t.Errorf("%q", tty)
	}
}
