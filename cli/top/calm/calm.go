// Package calm keeps bubbletea from asking the terminal for its colours when
// the program starts: it does so in an init function, in every process that is
// linked with it, also in one that only prints a list, and the terminal's answer
// would be taken for typed keys.
//
// The question is not asked where the variable CI is set. This package sets it
// for the time of the initialisation: it depends on package os alone, so that
// Go's order (by dependencies, then by import path) initialises it before any
// package that needs strings, which bubbletea does. Package top imports both,
// runs after both, and calls Restore. A test watches over it with a terminal.
package calm

import "os"

// had: the environment said something of its own.
var had bool

func init() {
	_, had = os.LookupEnv(name)
	if !had {
		_ = os.Setenv(name, "1") // if that fails the terminal is asked, nothing else
	}
}

const name = "CI"

// Restore gives the environment back as it was.
func Restore() {
	if !had {
		_ = os.Unsetenv(name) // only our own value is taken away
	}
}
