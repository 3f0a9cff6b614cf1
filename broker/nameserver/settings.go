package nameserver

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"mqctl/broker/remoting"
)

// switches are the settings that can be changed while the nameserver runs. They
// last until it ends, unless Options.Save keeps them.
type switches struct {
	orderMessages, actingMaster, deleteVanished, topicLists, allTopics atomic.Bool
}

// maxSettings bounds the text of one change, in bytes.
const maxSettings = 64 << 10

// live are the switches by the names of NamesrvConfig.
func (s *Server) live() map[string]*atomic.Bool {
	return map[string]*atomic.Bool{
		"orderMessageEnable":                &s.switches.orderMessages,
		"supportActingMaster":               &s.switches.actingMaster,
		"deleteTopicWithBrokerRegistration": &s.switches.deleteVanished,
		"enableTopicList":                   &s.switches.topicLists,
		"enableAllTopicList":                &s.switches.allTopics,
	}
}

// BootTimestamp is the name of ours, in the answer of 319, for when the
// nameserver was made, in milliseconds; brokers have one of that name in 28.
const BootTimestamp = "bootTimestamp"

// fixed are the settings that only a restart changes, with their values.
func (s *Server) fixed() map[string]string {
	host, port, err := net.SplitHostPort(s.o.Listener.Addr().String())
	if err != nil {
		host = s.o.Listener.Addr().String()
	}
	return map[string]string{
		"bindAddress": host, "listenPort": port, "scanNotActiveBrokerInterval": strconv.FormatInt(s.o.ScanEvery.Milliseconds(), 10),
		"notifyMinBrokerIdChanged": strconv.FormatBool(s.o.NotifyMinBrokerIDChanged),
		BootTimestamp:              strconv.FormatInt(s.boot.UnixMilli(), 10),
	}
}

// forbidden are what 318 never changes (the black list of NamesrvConfig): paths.
var forbidden = map[string]bool{"configBlackList": true, "configStorePath": true, "kvConfigPath": true, "rocketmqHome": true}

// settings serves 319: key=value lines, sorted.
func (s *Server) settings(r *remoting.Request) {
	all := s.fixed()
	all["kvConfigPath"] = s.o.KVPath
	for name, v := range s.live() {
		all[name] = strconv.FormatBool(v.Load())
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text.WriteString(name + "=" + all[name] + "\n")
	}
	r.Reply(remoting.CodeSuccess, "", nil, []byte(text.String()))
}

// changeSettings serves 318: all of the text is taken, or nothing. Apache's nameserver ignores
// what it does not know.
func (s *Server) changeSettings(r *remoting.Request) {
	next, err := s.parseSettings(string(r.Body))
	if err != nil {
		r.Reply(err.Code, err.Remark, nil, nil)
		return
	}
	last := "until this nameserver ends"
	if s.o.Save != nil {
		values := map[string]string{}
		for name, v := range s.live() {
			if on, changed := next[v]; changed {
				values[name] = strconv.FormatBool(on)
			}
		}
		s.saving.Lock()
		defer s.saving.Unlock()
		if err := s.o.Save(values); err != nil {
			s.log.Error("settings cannot be saved; nothing was changed", "err", err)
			r.Reply(remoting.CodeSystemError, "the settings cannot be saved, nothing was changed: "+err.Error(), nil, nil)
			return
		}
		last = "in its file"
	}
	for v, on := range next {
		v.Store(on)
	}
	s.log.Info("settings changed", "last", last, "text", strings.TrimSpace(string(r.Body)), "peer", r.Conn.RemoteAddr())
	r.Reply(remoting.CodeSuccess, "", nil, nil)
}

func (s *Server) parseSettings(text string) (map[*atomic.Bool]bool, *remoting.Error) {
	bad := func(code int, format string, args ...any) (map[*atomic.Bool]bool, *remoting.Error) {
		return nil, &remoting.Error{Code: code, Remark: fmt.Sprintf(format, args...)}
	}
	if len(text) > maxSettings {
		return bad(remoting.CodeInvalidParameter, "the text is longer than %d bytes", maxSettings)
	}
	next, live, fixed := map[*atomic.Bool]bool{}, s.live(), s.fixed()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		v := live[key]
		_, needsRestart := fixed[key]
		on, err := strconv.ParseBool(value)
		switch {
		case !ok:
			return bad(remoting.CodeInvalidParameter, "%.80q is no line key=value; nothing was changed", line)
		case forbidden[key]:
			return bad(remoting.CodeNoPermission, "Can not update config in black list.")
		case needsRestart:
			return bad(remoting.CodeInvalidParameter, "%s cannot be changed while the nameserver runs; nothing was changed", key)
		case v == nil:
			return bad(remoting.CodeInvalidParameter, "there is no setting %.80q that could be changed; there are %s", key, strings.Join(slices.Sorted(maps.Keys(live)), ", "))
		case err != nil:
			return bad(remoting.CodeInvalidParameter, "%s: %.80q is neither true nor false; nothing was changed", key, value)
		}
		next[v] = on
	}
	return next, nil
}
