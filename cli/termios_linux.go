package cli

import "golang.org/x/sys/unix"

// Requests that read and write the settings of a terminal.
const (
	readTermios  = unix.TCGETS
	writeTermios = unix.TCSETS
)
