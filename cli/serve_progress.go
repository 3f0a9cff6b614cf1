package cli

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
)

// scanProgress says on stderr how far the scan of a log is that a start has to
// make: on a terminal one line that is written over, else a line for each tenth. Short
// scans say nothing.
type scanProgress struct {
	w    io.Writer
	tty  bool
	last int64 // tenths, or on a terminal hundredths, that were told
	open bool  // the line is not ended yet
}

func (s *serving) scanProgress() *scanProgress {
	p := &scanProgress{w: s.c.io.Err, tty: isTerminal(s.c.io.Err)}
	if s.quietStart() {
		p.w, p.tty = io.Discard, false
	}
	return p
}

// report is store.Options.Progress.
func (p *scanProgress) report(done, total int64) {
	if total <= 0 {
		return
	}
	percent := min(done*100/total, 100)
	if p.tty {
		if percent == p.last {
			return
		}
		p.last, p.open = percent, true
		fmt.Fprintf(p.w, "\rrecovery  %s of at most %s scanned, %d %% ", humanize.IBytes(uint64(done)), humanize.IBytes(uint64(total)), percent)
		return
	}
	if percent/10 == p.last {
		return
	}
	p.last = percent / 10
	fmt.Fprintf(p.w, "recovery  %s of at most %s scanned, %d %%\n", humanize.IBytes(uint64(done)), humanize.IBytes(uint64(total)), percent)
}

// end finishes the line of a terminal.
func (p *scanProgress) end() {
	if p.open {
		fmt.Fprintln(p.w)
	}
}
