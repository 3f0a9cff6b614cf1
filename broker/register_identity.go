package broker

import (
	"context"
	"strconv"
	"strings"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/body"
)

// checkIdentity looks, before the first registration at a nameserver, whether
// this name and id are registered from another address at which a broker
// answers that it is the one. A dead address, or one that answers as somebody
// else, is no conflict; nor is a master of a newer epoch, whose slave this broker
// becomes, nor one of an older epoch: it came back while this one was away, and
// becomes this one's slave when it hears of it.
func (l *link) checkIdentity(ctx context.Context) *IdentityError {
	l.r.mu.Lock()
	met := l.met
	l.r.mu.Unlock()
	if met {
		return nil
	}
	st := l.r.o.Standing() // what is asked about, whatever the answers make of this broker
	addr, err := l.r.holder(ctx, l.addr, st.ID)
	if err != nil {
		return nil // the registration itself will say what is wrong
	}
	if addr != "" && addr != l.r.o.Addr && l.r.answersAsUs(ctx, addr, st.ID) {
		if st.isSlave() || l.r.o.Newer == nil || !l.r.o.Newer(ctx, addr) && !l.r.o.Older(ctx, addr) {
			return &IdentityError{Name: l.r.o.Name, ID: st.ID, Addr: addr}
		}
	}
	l.r.mu.Lock()
	l.met = true
	l.r.mu.Unlock()
	return nil
}

// holder asks a nameserver which address this name and id have.
func (r *registrar) holder(ctx context.Context, nameserver string, id int64) (string, error) {
	resp, err := r.ask(ctx, nameserver, remoting.ReqGetBrokerClusterInfo)
	if err != nil {
		return "", err
	}
	c, err := body.DecodeClusterInfo(resp.Body)
	if err != nil {
		return "", err
	}
	return c.BrokerAddrTable[r.o.Name].BrokerAddrs[id], nil
}

// answersAsUs asks the broker at addr for its configuration (26) and, if name
// and id are ours, for its start time (28): it may be this very process under
// an address that it had before.
func (r *registrar) answersAsUs(ctx context.Context, addr string, id int64) bool {
	resp, err := r.ask(ctx, addr, remoting.ReqGetBrokerConfig)
	if err != nil {
		return false
	}
	values := make(map[string]string)
	for line := range strings.Lines(string(resp.Body)) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		values[key] = value
	}
	if values["brokerName"] != r.o.Name || values["brokerId"] != strconv.FormatInt(id, 10) {
		return false
	}
	if resp, err = r.ask(ctx, addr, remoting.ReqGetBrokerRuntimeInfo); err != nil {
		return true
	}
	info, err := body.DecodeKVTable(resp.Body)
	return err != nil || info.Table["bootTimestamp"] != strconv.FormatInt(r.o.BootMillis, 10)
}

func (r *registrar) ask(ctx context.Context, addr string, code int) (*remoting.Response, error) {
	one, cancel := context.WithTimeout(ctx, identityWait)
	defer cancel()
	resp, err := r.net.Call(one, addr, code, nil, nil)
	if err != nil {
		return nil, err
	}
	return resp, resp.Err()
}
