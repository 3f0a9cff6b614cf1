package cli

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"mqctl/cli/admin"
)

// runtimeView reads the texts of a broker's runtime table (request 28). A value
// that is missing or unreadable is null, never 0.
type runtimeView map[string]string

func (r runtimeView) whole(key string) *int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(r[key]), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

func (r runtimeView) number(key string) *float64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(r[key]), 64)
	if err != nil {
		return nil
	}
	return &n
}

// rate is the first of the three rates (over 10 s, 1 min, 10 min) of a key.
func (r runtimeView) rate(key string) *float64 {
	first, _, _ := strings.Cut(strings.TrimSpace(r[key]), " ")
	n, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return nil
	}
	return &n
}

// percent turns a ratio of 0 to 1 into percent, rounded to tenths.
func (r runtimeView) percent(key string) *float64 {
	n := r.number(key)
	if n == nil || *n < 0 {
		return nil
	}
	return ptr(float64(int64(*n*1000+0.5)) / 10)
}

// since is the difference of two counters.
func (r runtimeView) since(later, earlier string) *int64 {
	a, b := r.whole(later), r.whole(earlier)
	if a == nil || b == nil {
		return nil
	}
	return ptr(*a - *b)
}

// boolean is null when the key is missing.
func (r runtimeView) boolean(key string) *bool {
	v, err := strconv.ParseBool(r[key])
	if err != nil {
		return nil
	}
	return &v
}

// text is null when the key is missing.
func (r runtimeView) text(key string) *string {
	v, ok := r[key]
	if !ok || v == "" {
		return nil
	}
	return &v
}

// version is mqctl's own version where the broker is one, else RocketMQ's.
func (r runtimeView) version() *string {
	if v := r.text("mqctlVersion"); v != nil {
		return ptr("mqctl " + *v)
	}
	return r.text("brokerVersionDesc")
}

// freeBytes reads "Total : 252.0 GiB, Free : 240.0 GiB.": exact to the unit shown.
func (r runtimeView) freeBytes() *int64 {
	_, free, ok := strings.Cut(r["commitLogDirCapacity"], "Free : ")
	if !ok {
		return nil
	}
	n, err := humanize.ParseBytes(strings.TrimSuffix(strings.TrimSpace(free), "."))
	if err != nil || n > math.MaxInt64 {
		return nil
	}
	return ptr(int64(n))
}

// replica is what the two requests about a broker say: runtime (28) and, when
// asked for, configuration (26).
type replica struct {
	runtime runtimeView
	config  map[string]string
}

// role is the replica's role, from its configuration where that is known.
func (r replica) role(id int64) string {
	switch v := r.config["brokerRole"]; v {
	case "ASYNC_MASTER", "SYNC_MASTER", "SLAVE":
		return v
	}
	if id > 0 {
		return "SLAVE"
	}
	return "ASYNC_MASTER"
}

// replicas asks every target for its runtime, and its configuration too if that
// is needed. Both requests of one broker are under way at the same time.
func (c *call) replicas(ctx context.Context, targets []admin.Target, config bool) []admin.Result[replica] {
	ask := targets
	if config {
		ask = append(append([]admin.Target(nil), targets...), targets...)
	}
	n := len(targets)
	parts := admin.Each(ctx, c.client, max(8, len(ask)), indexed(ask), func(ctx context.Context, t admin.Target) (replica, error) {
		i, target := atIndex(t, ask)
		if i < n {
			v, err := c.client.RuntimeInfo(ctx, target.Addr)
			return replica{runtime: v}, err
		}
		cfg, err := c.client.BrokerConfig(ctx, target.Addr)
		if err != nil {
			return replica{}, err
		}
		return replica{config: cfg.Values}, nil
	})
	out := make([]admin.Result[replica], n)
	for i := range targets {
		out[i] = parts[i]
		out[i].Target = targets[i]
		if !config {
			continue
		}
		other := parts[n+i]
		var refused *admin.Refused
		if other.Err != nil && !errors.As(other.Err, &refused) && out[i].Err == nil {
			out[i].Err = other.Err
		}
		out[i].Value.config = other.Value.config
	}
	return out
}

// indexed makes targets that carry their place in the list, so that the same
// broker can be asked twice.
func indexed(targets []admin.Target) []admin.Target {
	out := make([]admin.Target, len(targets))
	for i := range targets {
		out[i] = admin.Target{Cluster: strconv.Itoa(i), Addr: targets[i].Addr}
	}
	return out
}

func atIndex(t admin.Target, targets []admin.Target) (int, admin.Target) {
	i, err := strconv.Atoi(t.Cluster)
	if err != nil || i >= len(targets) {
		return 0, t
	}
	return i, targets[i]
}

// identify fills in the name of targets that were given as an address.
func (c *call) identify(ctx context.Context, targets []admin.Target) []admin.Target {
	out := append([]admin.Target(nil), targets...)
	for i, t := range out {
		if t.Broker != "" {
			continue
		}
		if who, err := c.client.Identify(ctx, t.Addr); err == nil {
			out[i] = who
		}
	}
	return out
}

// bootTime is when a broker says it was started.
func bootTime(r runtimeView) *string {
	ms := r.whole("bootTimestamp")
	if ms == nil {
		return nil
	}
	return stampMillis(*ms)
}

// hoursSince is how many hours ago a time in ms was, for mqadmin's column.
func hoursSince(ms int64, now time.Time) float64 {
	return float64(now.UnixMilli()-ms) / 3600000
}
