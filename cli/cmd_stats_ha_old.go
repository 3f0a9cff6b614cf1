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
		s := it.asHAStatus()
		switch {
		case s == nil:
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

// asHAStatus is the item in the shape of request 907; nil when the broker told
// nothing.
func (it *haItem) asHAStatus() *admin.HAStatus {
	if it.old != nil || it.Addr == nil {
		return it.old
	}
	s := &admin.HAStatus{Master: it.Role != "SLAVE"}
	if !s.Master {
		if it.MaxOffset == nil {
			return nil
		}
		s.Client = admin.HAClient{
			MasterAddr: orEmpty(it.HAAddr), MaxOffset: *it.MaxOffset, TransferredPerSec: orZero(it.BytesPerSecond),
			LastReadMillis: millisOf(it.LastReadAt), LastWriteMillis: millisOf(it.LastWriteAt), MasterFlushOffset: orZero(it.MasterFlushed),
		}
		return s
	}
	if it.MasterMax == nil || it.State != nil {
		return nil
	}
	s.MaxOffset, s.InSyncSlaves = *it.MasterMax, int(orZero(it.InSyncSlaves))
	for i := range it.Connections {
		if k := &it.Connections[i]; k.connected() {
			s.Peers = append(s.Peers, admin.HAPeer{Addr: k.Addr, AckOffset: *k.AckedOffset, Diff: orZero(k.GapBytes), InSync: k.InSync != nil && *k.InSync,
				TransferredPerSec: orZero(k.BytesPerSecond), TransferFromOffset: orZero(k.SentFromOffset)})
		}
	}
	return s
}

// orZero and orEmpty are for layouts that know no null.
func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// millisOf reads a time of JSON back; 0 when there is none.
func millisOf(rfc *string) int64 {
	t, err := time.Parse(time.RFC3339, orEmpty(rfc))
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}
