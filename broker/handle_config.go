package broker

import (
	"context"

	"mqctl/broker/remoting"
	"mqctl/broker/remoting/header"
	"mqctl/store/fastjson"
)

// configAdmin serves the broker's configuration: 25 and 26.
type configAdmin struct {
	settings *Settings // nil for a broker that was made without a configuration
}

// noSettings is the answer of a broker that was embedded without a Config.
const noSettings = "this broker was started without a configuration"

// show serves 26: the properties text, and its version in the header.
func (a *configAdmin) show(_ context.Context, r *remoting.Request) {
	if a.settings == nil {
		r.Reply(remoting.CodeSystemError, noSettings, nil, nil)
		return
	}
	text, version := a.settings.Text()
	v, err := fastjson.Marshal(version)
	if err != nil {
		refuse(r, err)
		return
	}
	r.Reply(remoting.CodeSuccess, "", &header.GetBrokerConfigReply{Version: string(v)}, text)
}

// change serves 25. A request without a body changes nothing, as in RocketMQ.
func (a *configAdmin) change(_ context.Context, r *remoting.Request) {
	if a.settings == nil {
		r.Reply(remoting.CodeSystemError, noSettings, nil, nil)
		return
	}
	keep, _ := r.Ext.Get(header.FieldPersist)
	remark, err := a.settings.apply(r.Body, keep != "false")
	if err != nil {
		refuse(r, err)
		return
	}
	r.Reply(remoting.CodeSuccess, remark, nil, nil)
}
