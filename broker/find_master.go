package broker

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// blindAfter is how many questions in a row a broker at haMasterAddress leaves
// unanswered before it is followed without being asked anything.
const blindAfter = 10

// finder looks for the remoting port of a master of which only haMasterAddress is
// known. A slave that connects without asking cannot compare its log with the
// master's, and an empty one gets the last file only.
type finder struct{ misses int }

// findFixed takes one look if there is a need for one: with haMasterAddress, and
// no nameserver that knows the master.
func (b *Broker) findFixed(ctx context.Context, f *finder) {
	s, fixed := b.stand.Load(), b.fixedMaster()
	if !s.isSlave() || fixed == "" || s.Master != "" {
		return
	}
	guess := remotingBeside(fixed)
	found := b.sayHello(ctx, guess)
	if !found {
		_, _, _, err := b.askReadable(ctx, guess)
		found = err == nil
	}
	if found {
		b.follow(guess, fixed)
		return
	}
	b.ha.slave.Waits(fmt.Sprintf("no master of this brokerName answers at %s, the main port that belongs to haMasterAddress %s", guess, fixed))
	if f.misses++; f.misses < blindAfter || s.HA != "" {
		return
	}
	one, cancel := context.WithTimeout(ctx, peerWait)
	defer cancel()
	nc, err := b.opts.Dial(one, fixed)
	if err != nil {
		return // it is down: it may be asked when it is up
	}
	_ = nc.Close()
	b.log.Warn("the master answers at haMasterAddress only: its log is followed without being compared; name the nameservers, or give it haListenPort = listenPort + 1",
		"ha", fixed, "asked", guess)
	b.follow("", fixed)
}

// remotingBeside guesses the main port of a broker from its replication port, by
// the rule of the default.
func remotingBeside(ha string) string {
	host, port, err := splitAddr(ha)
	if err != nil || port < 2 {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(port-1))
}
