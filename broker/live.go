package broker

import (
	"net/netip"
	"sync/atomic"

	"mqctl/store/record"
)

// live is the current Reloadable with what the hot path derives from it. It is
// immutable; a change swaps the pointer.
type live struct {
	Reloadable
	stamp  []byte // MSG_REGION, TRACE_ON and CLUSTER as property text, added to every message
	region []byte
}

func newLive(r Reloadable, cluster string) *live {
	l := &live{Reloadable: r, region: []byte(r.Region)}
	trace := "false"
	if r.TraceOn {
		trace = "true"
	}
	if r.Region != "" {
		l.stamp = record.AppendProperty(l.stamp, propRegion, r.Region)
	}
	l.stamp = record.AppendProperty(l.stamp, propTraceOn, trace)
	l.stamp = record.AppendProperty(l.stamp, propCluster, cluster)
	return l
}

// readable and writable are the bits of brokerPermission.
func (l *live) readable() bool { return l.Permission&4 != 0 }
func (l *live) writable() bool { return l.Permission&2 != 0 }

// place is who this broker is, as its messages and remarks tell.
type place struct {
	cluster, name string
	ip            string         // brokerIP1
	host          netip.AddrPort // storeHost of every record: brokerIP1 and the main port
}

// liveRef is where handlers read the current settings.
type liveRef = atomic.Pointer[live]
