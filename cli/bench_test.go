package cli

import "testing"

// BenchmarkRun is the work of a command besides starting the process and the
// network: the table is built anew each time, as a process has to.
func BenchmarkRun(b *testing.B) {
	for _, line := range [][]string{{"mqctl", "version"}, {"mqctl", "help"}, {"mqctl", "updateSubGroup", "-h"}, {"mqctl", "__complete", "--", "group", "set", "g", "--sl"}} {
		b.Run(line[1], func(b *testing.B) {
			for b.Loop() {
				table.all = newRegistry()
				if code, _, errs := runLine(line...); code != ExitOK {
					b.Fatal(errs)
				}
			}
		})
	}
}
