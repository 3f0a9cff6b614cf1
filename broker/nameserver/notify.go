package nameserver

import (
	"context"
	"time"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
)

// notifyTimeout bounds one notice, connecting included.
const notifyTimeout = time.Second

// notify hands changes of lowest ids to the messenger.
func (s *Server) notify(changes []change) {
	if !s.o.NotifyMinBrokerIDChanged {
		return
	}
	for _, c := range changes {
		select {
		case s.notices <- c:
		default:
			s.log.Warn("notice of a changed lowest broker id dropped: too many wait", "broker", c.group.name)
		}
	}
}

// tell is the messenger: it opens connections to the brokers themselves, since
// 905 is a request of the nameserver.
func (s *Server) tell(ctx context.Context) error {
	client := remoting.NewClient(remoting.ClientOptions{DialTimeout: notifyTimeout, Dial: s.o.Dial, Log: s.log})
	defer client.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-s.notices:
			for _, addr := range c.receivers() {
				one, cancel := context.WithTimeout(ctx, notifyTimeout)
				err := client.OneWay(one, addr, remoting.ReqNotifyMinBrokerIDChange, c.header(), nil)
				cancel()
				if err != nil && ctx.Err() == nil {
					s.log.Info("a broker was not told of the new lowest id", "broker", c.group.name, "addr", addr, "err", err)
				}
			}
		}
	}
}

// header of 905. Java's nameserver leaves the broker's name out too.
func (c *change) header() *header.NotifyMinBrokerIDChange {
	lowest := c.group.replicas[0]
	return &header.NotifyMinBrokerIDChange{MinBrokerID: lowest.id, HasMinBrokerID: true, MinBrokerAddr: lowest.addr,
		OfflineBrokerAddr: c.offline, HABrokerAddr: c.haAddr}
}

// receivers: when one left, all that stay; when one came, all but it, or only it.
func (c *change) receivers() []string {
	var out []string
	for i, r := range c.group.replicas {
		if i > 0 || c.offline != "" || len(c.group.replicas) == 1 {
			out = append(out, r.addr)
		}
	}
	return out
}
