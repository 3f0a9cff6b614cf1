package cli

import (
	"time"

	"mqctl/cli/admin"
)

// oldHA is mqadmin's layout of haStatus: tabs between labels and values, then
// one line a connection; another form for slaves.
func oldHA(p *printer, r *result) {
	for _, item := range r.items {
		it := item.(*haItem)
		s := it.old
		switch {
		case s == nil: // it did not answer
		case it.Role == "SLAVE":
			oldHASlave(p, s)
		default:
			oldHAMaster(p, it, s)
		}
	}
}

func oldHAMaster(p *printer, it *haItem, s *admin.HAStatus) {
	p.printf("\n#MasterAddr\t%s\n#MasterCommitLogMaxOffset\t%d\n#SlaveNum\t%d\n#InSyncSlaveNum\t%d\n", *it.Addr, s.MaxOffset, len(s.Peers), s.InSyncSlaves)
	p.printf("%-32s  %-16s %16s %16s %16s %16s\n", "#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status", "#TransferFromWhere")
	for i := range s.Peers {
		c := &s.Peers[i]
		status := "Fall Behind"
		if c.InSync {
			status = "OK"
		}
		p.printf("%-32s  %-16d %16d %16.2f %16s %16d\n", c.Addr, c.AckOffset, c.Diff, float64(c.TransferredPerSec)/1024, status, c.TransferFromOffset)
	}
}

func oldHASlave(p *printer, s *admin.HAStatus) {
	c := &s.Client
	master := c.MasterAddr
	if master == "" {
		master = "null"
	}
	p.printf("\n#MasterAddr\t%s\n#CommitLogMaxOffset\t%d\n#TransferSpeed(KB/s)\t%.2f\n#LastReadTime\t%s\n#LastWriteTime\t%s\n#MasterFlushOffset\t%d\n",
		master, c.MaxOffset, float64(c.TransferredPerSec)/1024, oldTime(c.LastReadMillis), oldTime(c.LastWriteMillis), c.MasterFlushOffset)
}

// oldTime is UtilAll.timeMillisToHumanString2: local time with milliseconds.
func oldTime(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05,000") }

// orZero is a number for texts that know no null.
func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
