//go:build !linux

package replication

import (
	"net"
	"syscall"

	"mqctl/store"
)

// wire writes only by net.Conn here: the sender goroutine does all of it.
type wire struct{ raw syscall.RawConn }

func newWire(net.Conn) *wire { return &wire{} }

func (w *wire) writeNow([]byte, bool) (int, bool, error) { panic("not reached: raw is nil") }

func (w *wire) sendfileNow(store.RawRange) (int, bool, bool, error) { return 0, false, false, nil }

func (w *wire) whenWritable(func() bool) error { panic("not reached: raw is nil") }
