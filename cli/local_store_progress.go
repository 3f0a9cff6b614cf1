package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// progressBar tells on stderr how far long work is: on a terminal a line that is
// drawn again, from half a second on; elsewhere a line for every tenth part.
type progressBar struct {
	c     *call
	what  string
	begun time.Time
	drawn time.Time
	tenth int64
	width int
}

func (c *call) progress(what string) *progressBar {
	return &progressBar{c: c, what: what, begun: time.Now(), tenth: -1}
}

// at is called with what is done of how much, in bytes.
func (b *progressBar) at(done, total int64) {
	if total <= 0 {
		return
	}
	now := time.Now()
	done = min(max(done, 0), total)
	switch {
	case now.Sub(b.begun) < 500*time.Millisecond:
	case b.c.p.errStyle.terminal:
		if now.Sub(b.drawn) < 100*time.Millisecond {
			return
		}
		b.drawn = now
		b.draw(done, total, now)
	default:
		if t := done * 10 / total; t > b.tenth && t < 10 {
			b.tenth = t
			fmt.Fprintf(b.c.io.Err, "%s %d %% of %s\n", b.what, t*10, humanize.IBytes(uint64(total)))
		}
	}
}

func (b *progressBar) draw(done, total int64, now time.Time) {
	const cells = 24
	full := int(done * cells / total)
	rate := float64(done) / now.Sub(b.begun).Seconds()
	left := ""
	if rate > 0 {
		left = ", " + shortDuration(time.Duration(float64(total-done)/rate*float64(time.Second))) + " left"
	}
	line := fmt.Sprintf("%s [%s%s] %d %% of %s, %s/s%s", b.what, strings.Repeat("#", full), strings.Repeat(".", cells-full),
		done*100/total, humanize.IBytes(uint64(total)), humanize.IBytes(uint64(rate)), left)
	pad := max(b.width-len(line), 0)
	b.width = len(line)
	fmt.Fprintf(b.c.io.Err, "\r%s%s", line, strings.Repeat(" ", pad))
}

// end takes the line away.
func (b *progressBar) end() {
	if b.width > 0 {
		fmt.Fprintf(b.c.io.Err, "\r%s\r", strings.Repeat(" ", b.width))
		b.width = 0
	}
}
