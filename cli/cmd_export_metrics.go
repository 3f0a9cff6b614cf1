package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"mqctl/cli/admin"
)

// metricsItem is what exportMetrics wrote of one broker. The file has mqadmin's
// shape and names; what a broker does not tell is null there.
type metricsItem struct {
	Broker string `json:"broker"`
	Topics int    `json:"topics" min:"0"`
	Groups int    `json:"groups" min:"0"`
	File   string `json:"file"`
}

func exportMetricsCommand() *command {
	return &command{
		old: "exportMetrics", twin: "debug bundle", summary: "metrics of a cluster to a JSON file", run: runExportMetrics, schema: "mqctl.export.metrics/v1", exits: []int{ExitNotFound, ExitPartial},
		examples: []string{"mqctl exportMetrics -n 127.0.0.1:9876 -c DefaultCluster -f /tmp/export"},
		flags: []flagSpec{
			{key: "cluster", long: "clusterName", short: "c", required: true, meta: "NAME", complete: "cluster", help: "the cluster"},
			{key: "dir", long: "filePath", short: "f", oldOnly: true, meta: "FOLDER", help: "folder of metrics.json (default /tmp/rocketmq/export)"},
		},
		view: view{
			item: metricsItem{}, name: func(item any) string { return item.(*metricsItem).Broker },
			columns: []column{{head: "BROKER", field: "broker"}, {head: "TOPICS", field: "topics", as: asNumber}, {head: "GROUPS", field: "groups", as: asNumber}, {head: "FILE", field: "file"}},
			old: func(p *printer, r *result) {
				if path, ok := r.extra.(string); ok {
					p.printf("export %s success", path)
				}
			},
		},
	}
}

// Names of statistics of messages that are not plain.
const (
	halfTopic     = "RMQ_SYS_TRANS_HALF_TOPIC"
	scheduleTopic = "SCHEDULE_TOPIC_XXXX"
)

// brokerReport is a broker in the file.
type brokerReport struct {
	Env     runtimeEnv      `json:"runtimeEnv"`
	Quota   runtimeQuota    `json:"runtimeQuota"`
	Version runtimeVersions `json:"runtimeVersion"`
}

type runtimeEnv struct {
	CPUs   *string `json:"cpuNum,omitempty"`
	Memory *string `json:"totalMemKBytes,omitempty"`
}

type runtimeQuota struct {
	Disk struct {
		Log    *string `json:"commitLogDiskRatio"`
		Queues *string `json:"consumeQueueDiskRatio"`
	} `json:"diskRatio"`
	TPS struct {
		In       float64 `json:"normalInTps"`
		Out      float64 `json:"normalOutTps"`
		Trans    float64 `json:"transInTps"`
		Schedule float64 `json:"scheduleInTps"`
	} `json:"tps"`
	Day struct {
		In       int64 `json:"normalOneDayInNum"`
		Out      int64 `json:"normalOneDayOutNum"`
		Trans    int64 `json:"transOneDayInNum"`
		Schedule int64 `json:"scheduleOneDayInNum"`
	} `json:"oneDayNum"`
	Size   *string `json:"messageAverageSize"`
	Topics int     `json:"topicSize"`
	Groups int     `json:"groupSize"`
}

type runtimeVersions struct {
	Broker  *string  `json:"rocketmqVersion"`
	Clients []string `json:"clientInfo"`
}

func runExportMetrics(ctx context.Context, c *call) (*result, error) {
	targets, err := c.targets(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &result{cluster: clusterOf(targets)}
	reports := map[string]*brokerReport{}
	for _, res := range admin.Each(ctx, c.client, 0, targets, c.metricsOf) {
		if res.Err != nil {
			r.failed(c.at(res.Err, res.Target))
			continue
		}
		r.done++
		reports[res.Target.Broker] = res.Value
		r.add(&metricsItem{Broker: res.Target.Broker, Topics: res.Value.Quota.Topics, Groups: res.Value.Quota.Groups})
	}
	if len(reports) == 0 {
		return r, nil
	}
	dir, err := c.exportFolder()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "metrics.json")
	tps, day := map[string]float64{}, map[string]int64{}
	for _, b := range reports {
		q := &b.Quota
		tps["totalNormalInTps"] += q.TPS.In
		tps["totalNormalOutTps"] += q.TPS.Out
		tps["totalTransInTps"] += q.TPS.Trans
		tps["totalScheduleInTps"] += q.TPS.Schedule
		day["normalOneDayInNum"] += q.Day.In
		day["normalOneDayOutNum"] += q.Day.Out
		day["transOneDayInNum"] += q.Day.Trans
		day["scheduleOneDayInNum"] += q.Day.Schedule
	}
	b, err := marshalIndent(map[string]any{"evaluateReport": reports, "totalData": map[string]any{"totalTps": tps, "totalOneDayNum": day}})
	if err == nil {
		err = writeWhole(path, b)
	}
	if err != nil {
		return nil, fail(ExitFailed, "FILE_NOT_WRITTEN", "%s: %v", path, err)
	}
	for _, item := range r.items {
		item.(*metricsItem).File = path
	}
	r.extra = path
	return r, nil
}

// metricsOf asks one master.
func (c *call) metricsOf(ctx context.Context, t admin.Target) (*brokerReport, error) {
	out := &brokerReport{}
	raw, err := c.client.RuntimeInfo(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	rt := runtimeView(raw)
	cfg, err := c.client.BrokerConfig(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	topics, err := c.userTopics(ctx, t, false)
	if err != nil {
		return nil, err
	}
	all, _, err := c.client.Groups(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, name := range sortedKeys(all) {
		if !systemGroup(name) {
			groups = append(groups, name)
		}
	}
	out.Env = runtimeEnv{runtimeView(cfg.Values).text("clientCallbackExecutorThreads"), rt.text("totalMemKBytes")}
	q := &out.Quota
	q.Disk.Log, q.Disk.Queues = rt.text("commitLogDiskRatio"), rt.text("consumeQueueDiskRatio")
	q.Size, q.Topics, q.Groups = rt.text("putMessageAverageSize"), len(topics), len(groups)
	q.TPS.In, q.TPS.Out = zeroed(rt.rate("putTps")), zeroed(rt.rate("getTransferredTps"))
	q.Day.In = zeroed(rt.since("msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning"))
	q.Day.Out = zeroed(rt.since("msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning"))
	if err := c.putStats(ctx, t.Addr, halfTopic, &q.TPS.Trans, &q.Day.Trans); err != nil {
		return nil, err
	}
	if err := c.putStats(ctx, t.Addr, scheduleTopic, &q.TPS.Schedule, &q.Day.Schedule); err != nil {
		return nil, err
	}
	out.Version.Broker = rt.text("brokerVersionDesc")
	out.Version.Clients, err = c.clientKinds(ctx, t, groups)
	return out, err
}

func zeroed[T int64 | float64](v *T) T {
	if v == nil {
		return 0
	}
	return *v
}

// clientKinds are the languages and versions of a broker's consumers.
func (c *call) clientKinds(ctx context.Context, t admin.Target, groups []string) ([]string, error) {
	asks := make([]admin.Target, len(groups))
	kinds := map[string]bool{}
	for _, res := range admin.Each(ctx, c.client, 0, indexed(asks), func(ctx context.Context, at admin.Target) (*admin.ConsumerConnections, error) {
		i, _ := atIndex(at, asks)
		return c.client.ConsumerConnections(ctx, t.Addr, groups[i])
	}) {
		var offline *admin.NotOnline
		var refused *admin.Refused
		switch {
		case errors.As(res.Err, &offline), errors.As(res.Err, &refused):
		case res.Err != nil:
			return nil, res.Err
		default:
			for _, conn := range res.Value.Connections {
				kinds[strings.ToUpper(conn.Language)+"%"+versionText(conn.Version)] = true
			}
		}
	}
	return sortedKeys(kinds), nil
}
