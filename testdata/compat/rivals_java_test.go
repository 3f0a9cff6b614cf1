//go:build java

package compat

import (
	"os/exec"
	"path/filepath"
	"syscall"
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

// rivalPairs are masters of the original to measure beside ours.
func rivalPairs(b *testing.B, sync bool) []loadPair {
	far := &broker{namesrv: apacheNameserver(b)}
	role := "ASYNC_MASTER"
	if sync {
		role = "SYNC_MASTER"
	}
	// inSyncReplicas is 1 by default there: then nothing waits for the slave.
	addr, m := apacheBrokerWith(b, "apache", far.namesrv, filepath.Join(b.TempDir(), "store"), 1024,
		"brokerRole="+role, "inSyncReplicas=2", "brokerIP2=127.0.0.1")
	until(b, 60*time.Second, "registration", func() bool { return routed(b, far, "TBW102") })
	return []loadPair{{loadTarget{"apache", addr, m.cmd.Process.Pid}, func(b *testing.B) *loadSlave {
		addr, s := apacheBrokerWith(b, "apache", far.namesrv, filepath.Join(b.TempDir(), "slave"), 1024,
			"brokerId=1", "brokerRole=SLAVE", "brokerIP2=127.0.0.1")
		return &loadSlave{addr, s.cmd.Process.Pid, func() { s.stop(syscall.SIGKILL) }}
	}}}
}

// mqadminCommands are commands of the original's tool to measure beside ours.
func mqadminCommands(b *testing.B, namesrv string) []namedCommand {
	dir := b.TempDir()
	return []namedCommand{{"clusterList", func() *exec.Cmd {
		return javaCommand(dir, 512, nil, "org.apache.rocketmq.tools.command.MQAdminStartup", "clusterList", "-n", namesrv)
	}}}
}
