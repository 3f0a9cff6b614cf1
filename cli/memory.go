package cli

import (
	"math"
	"os"
	"runtime/debug"
)

// heapLimit is the memory from which on a command collects its garbage eagerly: a
// thousand groups on four brokers stay below 40 MiB resident with it, for a third
// more of processor time.
const heapLimit = 26 << 20

// limitOf is the memory limit of a command; math.MaxInt64: none. What serves, lives
// long or measures has none.
func limitOf(c *command) int64 {
	switch {
	case c.is(server) || c.path == "shell" || c.path == "top" || c.is(measures) || c.path == "bench consume":
		return math.MaxInt64
	}
	return heapLimit
}

// boundMemory sets the limit where the command is all that the process does and
// nobody has chosen one with GOMEMLIMIT.
func boundMemory(c *command, stdio Stdio) {
	if stdio.Out == os.Stdout && stdio.session == nil && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(limitOf(c))
	}
}
