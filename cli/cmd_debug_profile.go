package cli

import (
	"context"
	"fmt"
	"strings"

	"mqctl/cli/admin"
)

// profileItem is one profile that was written.
type profileItem struct {
	Broker   string `json:"broker"`
	BrokerID int64  `json:"brokerId"` // -1: not known
	Addr     string `json:"addr"`     // of the http port
	Kind     string `json:"kind" enum:"cpu|heap|allocs|goroutine"`
	Seconds  *int64 `json:"seconds"` // of a CPU profile
	File     string `json:"file"`
	Bytes    int64  `json:"bytes" min:"0"`
}

func runDebugProfile(ctx context.Context, c *call) (*result, error) {
	token, err := c.httpToken()
	if err != nil {
		return nil, err
	}
	if c.given("http") {
		return c.profileByAddress(ctx, token)
	}
	if c.arg(0) != "" {
		c.values["broker"] = []string{c.arg(0)}
	}
	targets, err := c.targets(ctx, false)
	if err != nil {
		return nil, err
	}
	if len(targets) > 1 && c.given("out") {
		return nil, usage("AMBIGUOUS", "--out is one file, and there are %d brokers", len(targets)).because("%s", targetNames(targets)).try(c.arg(0) + "/0")
	}
	targets = c.identify(ctx, targets)
	r := &result{cluster: clusterOf(targets)}
	for _, res := range admin.Each(ctx, c.client, 0, targets, func(ctx context.Context, t admin.Target) (*profileItem, error) {
		addr, err := c.profileOf(ctx, t, nil)
		if err != nil {
			return nil, err
		}
		return c.takeProfile(ctx, profileAt{addr: addr, name: t.String(), token: token}, t)
	}) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		r.add(res.Value)
	}
	return r, nil
}

func targetNames(targets []admin.Target) string {
	var names []string
	for _, t := range targets {
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}

// profileByAddress is --http: no nameserver is asked.
func (c *call) profileByAddress(ctx context.Context, token string) (*result, error) {
	addr := c.str("http")
	if _, _, err := listenAddress(addr); err != nil {
		return nil, usage("BAD_ADDRESS", "--http: %v", err).because("HOST:PORT is expected").try("--http 127.0.0.1:10980")
	}
	if c.given("broker") {
		return nil, usage("CONTRADICTION", "--http and --broker exclude each other").because("nothing was sent")
	}
	at := profileAt{addr: addr, name: c.arg(0), token: token}
	t := admin.Target{ID: -1, Broker: addr}
	if name, id, ok := strings.Cut(c.arg(0), "/"); ok {
		t.Broker = name
		if _, err := fmt.Sscanf(id, "%d", &t.ID); err != nil {
			return nil, usage("BAD_VALUE", "%q is no broker: NAME/ID is expected", c.arg(0))
		}
	} else if c.arg(0) != "" {
		return nil, usage("BAD_VALUE", "%q names no replica: with --http, NAME/ID is expected", c.arg(0)).because("nothing was sent")
	}
	it, err := c.takeProfile(ctx, at, t)
	if err != nil {
		return nil, err
	}
	r := &result{done: 1}
	r.add(it)
	return r, nil
}

// takeProfile asks for the profile and writes its file.
func (c *call) takeProfile(ctx context.Context, at profileAt, t admin.Target) (*profileItem, error) {
	it := &profileItem{Broker: t.Broker, BrokerID: t.ID, Addr: at.addr, Kind: c.str("kind")}
	debug, end := 0, ".pprof"
	if it.Kind == "goroutine" {
		debug, end = 2, ".txt" // to read, without another tool
	}
	if it.Kind == "cpu" {
		it.Seconds = ptr(c.whole("seconds"))
	}
	b, err := at.profile(ctx, c.duration("timeout"), it.Kind, int(c.whole("seconds")), debug)
	if err != nil {
		return nil, err
	}
	it.File, it.Bytes = c.str("out"), int64(len(b))
	if it.File == "" {
		name := fmt.Sprintf("%s-%d", t.Broker, t.ID)
		if t.ID < 0 {
			name = t.Broker
		}
		it.File = fmt.Sprintf("%s-%s-%s%s", fileWord(name), it.Kind, c.begun.UTC().Format("20060102-150405"), end)
	}
	if err := writeWhole(it.File, b); err != nil {
		return nil, fail(ExitFailed, "FILE_NOT_WRITTEN", "%s: %v", it.File, err)
	}
	return it, nil
}

// fileWord is a name as a part of a file's name.
func fileWord(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.', r == '%':
			return r
		}
		return '-'
	}, strings.TrimLeft(name, "."))
}

func footProfile(p *printer, r *result) {
	for _, item := range r.items {
		if it := item.(*profileItem); it.Kind != "goroutine" {
			p.printf("\ngo tool pprof -top %s\n", shellWord(it.File))
			return
		}
	}
}
