package cli

import (
	"fmt"
	"strconv"
	"strings"

	"mqctl/broker/remoting/body"
)

// explainStep is one step of a broker's decision where a pull goes next.
type explainStep struct {
	Step  int    `json:"step"`
	Name  string `json:"name"`
	Value string `json:"value"` // plain numbers are bytes
	Note  string `json:"note"`
	Stops bool   `json:"stops"` // this step decides

	as    format // of Value on a terminal
	bytes *int64 // shown behind Note
}

// step appends a step.
func (it *pullItem) step(name, value, note string) *explainStep {
	it.Explain = append(it.Explain, explainStep{Step: len(it.Explain) + 1, Name: name, Value: value, Note: note})
	return &it.Explain[len(it.Explain)-1]
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// explainCounted walks through the decision of a broker of ours.
func (it *pullItem) explainCounted(v *body.InspectPull, row *body.InspectPullRow) {
	it.step("newest byte", decimal(v.Max), "").as = asNumber
	last := it.step("last message of the pull", decimal(row.LastPhys), "behind")
	last.as, last.bytes = asNumber, &row.BehindBytes
	slow := row.BehindBytes > v.LimitBytes
	limit := it.step("limit", fmt.Sprintf("%d %% of %d", v.MemoryRatio, v.MemoryBytes), "within memory")
	limit.bytes = &v.LimitBytes
	if slow {
		limit.Note = "slow"
	}
	if v.Role == "SLAVE" {
		it.explainSlave(v, row, slow)
		return
	}
	read := it.step("slaveReadEnable", strconv.FormatBool(v.SlaveRead), "slaves may be suggested")
	if !v.SlaveRead {
		read.Note, read.Stops = "stops here: master suggested", true
		it.toChange = []string{"mqctl broker config set slaveReadEnable=true --broker " + v.Broker + " --all"}
	}
	want := it.explainGroup(row, slow, !v.SlaveRead)
	if want == 0 && v.SlaveRead {
		it.Explain[len(it.Explain)-1].Stops = true
		return
	}
	if want != 0 {
		it.explainReplica(v, row, want)
	}
}

// explainGroup is the step of the group's setting; it returns the id it names.
func (it *pullItem) explainGroup(row *body.InspectPullRow, slow, stopped bool) int64 {
	name, want := "brokerId", row.GroupBroker
	if slow {
		name, want = "whichBrokerWhenConsumeSlowly", row.GroupSlow
	}
	s := it.step(name, decimal(want), "used")
	switch {
	case stopped:
		s.Note = "would be used"
	case want == 0:
		s.Note = "the master"
	}
	return want
}

// explainReplica is the step of the broker that the group's setting names.
func (it *pullItem) explainReplica(v *body.InspectPull, row *body.InspectPullRow, want int64) {
	peer, id := (*body.InspectPullPeer)(nil), want
	for _, next := range []int64{want, want + 1} { // as clients do
		for i := range v.Replicas {
			if peer == nil && v.Replicas[i].BrokerID == next {
				peer, id = &v.Replicas[i], next
			}
		}
	}
	s := it.step(fmt.Sprintf("%s/%d", v.Broker, id), "", "")
	group := fmt.Sprintf("mqctl group set %s --slow-broker", row.Group)
	switch {
	case peer == nil:
		s.Value, s.Note = "unknown", "stops here: no such broker is connected"
		for i := range v.Replicas {
			if v.Replicas[i].Alive {
				it.toChange = append(it.toChange, fmt.Sprintf("%s %d", group, v.Replicas[i].BrokerID))
			}
		}
	case !peer.Alive:
		s.Value, s.Note = "not connected", "stops here: it could not serve"
		it.toChange = append(it.toChange, "mqctl stats ha --broker "+v.Broker)
	case !peer.Readable:
		s.Value, s.Note = "connected", "stops here: it serves no reads (slaveReadEnable=false)"
		it.toChange = append(it.toChange, fmt.Sprintf("mqctl broker config set slaveReadEnable=true --broker %s/%d", v.Broker, id))
	case peer.Acked >= 0 && peer.Acked <= row.LastPhys:
		s.Value, s.Note = "acknowledged "+decimal(peer.Acked), "stops here: it does not hold the message yet"
		it.toChange = append(it.toChange, "mqctl stats ha --broker "+v.Broker)
	case !v.SlaveRead:
		s.Value, s.Note = "connected", "could serve"
		return
	default:
		s.Value, s.Note = "connected", "suggested"
	}
	s.Stops = v.SlaveRead
}

// explainSlave are the steps that only a slave has.
func (it *pullItem) explainSlave(v *body.InspectPull, row *body.InspectPullRow, slow bool) {
	if !v.SlaveRead {
		it.step("slaveReadEnable", "false", "stops here: this slave refuses pulls").Stops = true
		it.toChange = append(it.toChange, fmt.Sprintf("mqctl broker config set slaveReadEnable=true --broker %s/%d", v.Broker, v.BrokerID))
		return
	}
	alive := it.step("its master", "alive", "may be suggested")
	if !v.MasterAlive {
		alive.Value, alive.Note, alive.Stops = "gone", "stops here: the slave suggests itself", true
		return
	}
	want := it.explainGroup(row, slow, false)
	s := &it.Explain[len(it.Explain)-1]
	s.Stops = true
	switch {
	case row.Reason == "REDIRECTED_TO_MASTER":
		s.Note, s.Stops = "not looked at", false
		it.step("the offset asked for", "not held here", "stops here: master suggested").Stops = true
	case want == v.BrokerID || want != 0 && want+1 == v.BrokerID:
		s.Note = "this slave"
	case want != 0:
		s.Note = "another slave: the master decides"
	}
}

// printExplained is the text of --explain.
func printExplained(p *printer, r *result) {
	for i, item := range r.items {
		it := item.(*pullItem)
		if i > 0 {
			p.printf("\n")
		}
		p.printf("%s · %s · %s/%d\n", p.style.cyan(it.Group), it.Topic, it.Broker, it.BrokerID)
		wide, values := 0, make([]string, len(it.Explain))
		for j := range it.Explain {
			s := &it.Explain[j]
			wide, values[j] = max(wide, len(s.Name)), s.Value
			if n, err := strconv.ParseInt(s.Value, 10, 64); err == nil {
				values[j] = p.style.cell(n, s.as)
			}
		}
		for j := range it.Explain {
			s := &it.Explain[j]
			note := s.Note
			switch {
			case s.bytes != nil && s.Name == "limit":
				note = p.style.cell(*s.bytes, asBytes) + " → " + note
			case s.bytes != nil:
				note += " " + p.style.cell(*s.bytes, asBytes)
			}
			if s.Stops {
				note = "← " + note
			}
			p.printf("%s\n", strings.TrimRight(fmt.Sprintf("  %d  %-*s  %-22s %s", s.Step, wide, s.Name, values[j], note), " "))
		}
		p.printf("     why  %s\n", it.Why)
		for _, line := range it.toChange {
			p.printf("to change it   %s\n", line)
		}
	}
}
