//go:build java

package compat

import (
	"path/filepath"
	"testing"
	"time"
)

// rivals are other brokers to measure beside ours: the original, with the settings given to ours.
func rivals(b *testing.B, extra []string) []loadTarget {
	far := &broker{namesrv: apacheNameserver(b)}
	var more []string
	for _, s := range extra {
		if s != "--set" {
			more = append(more, s)
		}
	}
	addr, p := apacheBrokerWith(b, "apache", far.namesrv, filepath.Join(b.TempDir(), "store"), 2048, more...)
	until(b, 60*time.Second, "registration", func() bool { return routed(b, far, "TBW102") })
	return []loadTarget{{"apache", addr, p.cmd.Process.Pid}}
}
