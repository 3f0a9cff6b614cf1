//go:build !unix

package remoting

import (
	"errors"
	"math"
	"net"
	"syscall"
)

// rawConn is nil: connections are read and written by plain calls here.
func rawConn(net.Conn) syscall.RawConn { return nil }

func readNow(uintptr, []byte) (int, bool, error) { return 0, false, errors.ErrUnsupported }

func writeNow(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// connLimit knows no limit of descriptors here.
func connLimit() int { return math.MaxInt32 }
