package broker

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/delay"
	"mqctl/store"
	"mqctl/store/vfs"
)

// computeDefaults fills the values whose default depends on the machine, the
// file's format or other keys.
func (c *Config) computeDefaults() {
	def := func(key, value string) {
		s := c.values[key]
		s.Default = value
		if s.Origin.Kind == "default" || s.Value == "" || key == "haListenPort" && s.Value == "0" {
			s.Value = value
		}
	}
	cpus := max(c.in.CPUs, 1)
	for key, n := range map[string]int{
		"sendMessageThreadPoolNums": min(cpus, 4), "pullMessageThreadPoolNums": 16 + 2*cpus, "litePullMessageThreadPoolNums": 16 + 2*cpus,
		"processReplyMessageThreadPoolNums": 16 + 2*cpus, "queryMessageThreadPoolNums": 8 + cpus, "endTransactionThreadPoolNums": max(8+2*cpus, 4*min(cpus, 4)),
		"heartbeatThreadPoolNums": min(cpus, 32), "putMessageFutureThreadPoolNums": min(cpus, 4), "clientCallbackExecutorThreads": cpus,
	} {
		def(key, strconv.Itoa(n))
	}
	def("namesrvAddr", c.namesrvFromEnv())
	def("brokerName", c.in.HostName)
	// A broker that nobody configured opens nothing to the network.
	if c.File == "" && c.Value("namesrvAddr") == "" && c.Value("bindAddress") == "" {
		def("bindAddress", "127.0.0.1")
	} else {
		def("bindAddress", "0.0.0.0")
	}
	def("brokerIP1", reachable(c.Value("bindAddress"), c.in.LocalIP))
	def("brokerIP2", c.Value("brokerIP1"))
	def("haListenPort", strconv.FormatInt(c.Int("listenPort")+1, 10))
	def("nameserver.embedded.enable", strconv.FormatBool(c.Value("namesrvAddr") == ""))
	def("nameserver.embedded.listen", net.JoinHostPort(c.Value("bindAddress"), "9876"))
	def("storePathRootDir", c.defaultRoot())
	for _, key := range []string{"storePathRootDir", "storePathCommitLog"} {
		if rest, ok := strings.CutPrefix(c.Value(key), "~/"); ok {
			c.values[key].Value = filepath.Join(c.in.HomeDir, rest)
		}
	}
	def("nameserver.embedded.kvConfigPath", filepath.Join(c.Value("storePathRootDir"), "namesrv", "kvConfig.json"))
}

// reachable is where clients find a broker that listens on bind: there, if it is one
// address; local, the machine's own, if it is all.
func reachable(bind, local string) string {
	if ip := net.ParseIP(bind); ip != nil && !ip.IsUnspecified() {
		return bind
	}
	if local == "" || bind == "localhost" {
		return "127.0.0.1"
	}
	return local
}

// recomputeDefaults follows a change of values that others are computed from.
// The store stays where it is even if its folder was named after the broker.
func (c *Config) recomputeDefaults() {
	root := c.Value("storePathRootDir")
	c.computeDefaults()
	if s := c.values["storePathRootDir"]; s.Origin.Kind == "default" {
		s.Value, s.Default = root, root
	}
}

// namesrvFromEnv is the default of namesrvAddr: RocketMQ's NAMESRV_ADDR, and
// before it the variable that the commands of mqctl read.
func (c *Config) namesrvFromEnv() string {
	found := map[string]string{}
	for _, pair := range c.in.Env {
		name, value, _ := strings.Cut(pair, "=")
		if addrs, err := splitAddrs(value); err == nil {
			found[name] = strings.Join(addrs, ";")
		}
	}
	if v := found["MQCTL_NAMESRV"]; v != "" {
		return v
	}
	return found["NAMESRV_ADDR"]
}

// defaultRoot is RocketMQ's $HOME/store for a broker started from a file of
// RocketMQ's, else a folder of ours named after the broker.
func (c *Config) defaultRoot() string {
	if c.File != "" && !c.TOML {
		return filepath.Join(c.in.HomeDir, "store")
	}
	return filepath.Join(c.in.HomeDir, ".local", "share", "mqctl", c.Value("brokerName")+"-"+c.Value("brokerId"))
}

// checkTogether looks at what single values cannot tell.
func (c *Config) checkTogether(problems *ConfigErrors) {
	fail := func(key, why, try string) {
		e := &ConfigError{Key: key, Why: why, Try: try}
		if o := c.values[key].Origin; o.Kind == "file" {
			file, line, _ := cutLast(o.Where, ":")
			if n, err := strconv.Atoi(line); err == nil {
				e.File, e.Line = file, n
			}
		}
		*problems = append(*problems, e)
	}
	if c.Value("brokerName") == "" || checkName(c.Value("brokerName")) != nil {
		fail("brokerName", fmt.Sprintf("the host name %q is no name for a broker", c.Value("brokerName")), "set brokerName (or --name)")
	}
	if c.Value("brokerClusterName") == "" {
		fail("brokerClusterName", "the name is empty", "")
	}
	if c.Int("brokerId") != 0 {
		fail("brokerId", c.Value("brokerId")+" would be a slave: replication is not built yet", "leave brokerId 0")
	}
	if p := c.Int("listenPort"); c.Int("haListenPort") == p || c.Int("haListenPort") == p-2 {
		fail("haListenPort", "the port is the broker's own", "leave it 0 for listenPort + 1")
	}
	if c.Value("haListenPort") == "65536" {
		fail("haListenPort", "listenPort + 1 is no port", "choose a smaller listenPort")
	}
	if net.ParseIP(c.Value("brokerIP1")) == nil {
		fail("brokerIP1", fmt.Sprintf("%q is no IP address", c.Value("brokerIP1")), "clients are told this address: write it in numbers")
	}
	if c.in.HomeDir == "" && c.values["storePathRootDir"].Origin.Kind == "default" {
		fail("storePathRootDir", "there is no home folder to put the store in", "set storePathRootDir (or --store)")
	}
	if c.Int("maxMessageSize")+(64<<10) > c.Int("mappedFileSizeCommitLog") {
		if c.values["maxMessageSize"].Origin.Kind == "default" {
			c.warn("mappedFileSizeCommitLog: messages near maxMessageSize (%s bytes) do not fit in a file of %s bytes", c.Value("maxMessageSize"), c.Value("mappedFileSizeCommitLog"))
		}
	}
	if c.Value("diskMaxUsedSpaceRatio") != "75" || c.values["fileReservedTime"].Changed() {
		c.warn("old files are not deleted yet: sends are refused when %s %% of the disk are in use", c.Value("diskSpaceWarningLevelRatio"))
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// Namesrvs are the nameservers to register at; an embedded one comes besides.
func (c *Config) Namesrvs() []string {
	addrs, _ := splitAddrs(c.Value("namesrvAddr"))
	if len(addrs) == 0 {
		return nil
	}
	return addrs
}

// EmbeddedNameserver says whether to run a nameserver in this process, and where.
func (c *Config) EmbeddedNameserver() (listen string, on bool) {
	return c.Value("nameserver.embedded.listen"), c.Bool("nameserver.embedded.enable") && c.Value("nameserver.embedded.listen") != "off"
}

// HTTPListen is the address of the health port, "" for none; asked says that
// somebody chose it, so that a taken port is an error.
func (c *Config) HTTPListen() (addr string, asked bool) {
	s := c.values["http.listen"]
	if s.Value == "off" {
		return "", true
	}
	return s.Value, s.Origin.Kind != "default"
}

// Options is the configuration as New takes it. The caller adds Log, and the
// address of an embedded nameserver to Namesrvs.
func (c *Config) Options() (Options, error) {
	fs := c.in.FS
	if fs == nil {
		fs = vfs.OS{}
	}
	levels, err := delay.ParseLevels(c.Value("messageDelayLevel"))
	if err != nil {
		return Options{}, &ConfigError{Key: "messageDelayLevel", Why: err.Error()}
	}
	settings := newSettings(c, fs)
	o := Options{
		Name: c.Value("brokerName"), Cluster: c.Value("brokerClusterName"), ID: c.Int("brokerId"),
		ListenAddr:        net.JoinHostPort(c.Value("bindAddress"), c.Value("listenPort")),
		Advertise:         c.Value("brokerIP1"),
		HAAddr:            net.JoinHostPort(c.Value("brokerIP2"), c.Value("haListenPort")),
		Namesrvs:          c.Namesrvs(),
		FS:                fs,
		Store:             c.storeOptions(fs, levels),
		DelayLevels:       c.Value("messageDelayLevel"),
		RegisterEvery:     c.Duration("registerNameServerPeriod"),
		RegisterTimeout:   c.Duration("registerBrokerTimeoutMills"),
		OffsetsEvery:      c.Duration("flushConsumerOffsetInterval"),
		DelayOffsetsEvery: c.Duration("flushDelayOffsetInterval"),
		IdleTimeout:       c.Duration("serverChannelMaxIdleTimeSeconds"),
		ClientExpiry:      c.Duration("channelExpiredTimeout"),
		DrainTimeout:      c.Duration("shutdownWaitTimeSeconds"),
		DefaultQueues:     int32(c.Int("defaultTopicQueueNums")),
		ReviveQueues:      int32(c.Int("reviveQueueNum")),
		TraceTopic:        c.Bool("traceTopicEnable"),
		TimerTopic:        c.Bool("timerWheelEnable"),
		Reloadable:        *settings.Live(),
		Settings:          settings,
	}
	return o, nil
}

func (c *Config) storeOptions(fs vfs.FS, levels []time.Duration) store.Options {
	o := store.Options{
		FS:                     fs,
		Dir:                    c.Value("storePathRootDir"),
		CommitLogDir:           c.Value("storePathCommitLog"),
		CommitLogBytes:         c.Int("mappedFileSizeCommitLog"),
		QueueFileBytes:         (c.Int("mappedFileSizeConsumeQueue") + 19) / 20 * 20,
		IndexSlots:             int(c.Int("maxHashSlotNum")),
		IndexEntries:           int(c.Int("maxIndexNum")),
		IndexOff:               !c.Bool("messageIndexEnable"),
		SyncFlush:              c.Value("flushDiskType") == "SYNC_FLUSH",
		FlushInterval:          c.Duration("flushIntervalCommitLog"),
		FlushTimeout:           c.Duration("syncFlushTimeout"),
		MaxMessage:             int(c.Int("maxMessageSize")),
		MaxTransferMemoryBytes: int(c.Int("maxTransferBytesOnMessageInMemory")),
		MaxTransferMemoryCount: int(c.Int("maxTransferCountOnMessageInMemory")),
		MaxTransferDiskBytes:   int(c.Int("maxTransferBytesOnMessageInDisk")),
		MaxTransferDiskCount:   int(c.Int("maxTransferCountOnMessageInDisk")),
		MaxFilterBytes:         int(c.Int("maxFilterMessageSize")),
		DiskFullRatio:          int(c.Int("diskSpaceWarningLevelRatio")),
		MemoryBytes:            c.Int("memoryLimitForRatio"),
		MemoryRatio:            int(c.Int("accessMessageInMemoryMaxRatio")),
		DelayLevels:            levels,
	}
	if o.CommitLogDir == "" {
		o.CommitLogDir = filepath.Join(o.Dir, "commitlog")
	}
	return o
}

// reloadable picks the values that act at once.
func reloadable(value func(key string) string) Reloadable {
	flag := func(key string) bool { return value(key) == "true" }
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(value(key), 10, 64)
		return n
	}
	return Reloadable{
		Permission:           int(number("brokerPermission")),
		AutoCreateTopic:      flag("autoCreateTopicEnable"),
		AutoCreateGroup:      flag("autoCreateSubscriptionGroup"),
		SlaveRead:            flag("slaveReadEnable"),
		MemoryRatio:          int(number("accessMessageInMemoryMaxRatio")),
		MaxMessage:           int(number("maxMessageSize")),
		LongPolling:          flag("longPollingEnable"),
		ShortPolling:         time.Duration(number("shortPollingTimeMills")) * time.Millisecond,
		NotifyIDsChanged:     flag("notifyConsumerIdsChangedEnable"),
		RejectTransaction:    flag("rejectTransactionMessage"),
		LitePull:             flag("litePullMessageEnable"),
		TraceOn:              flag("traceOn"),
		Region:               value("regionId"),
		DiskWarnRatio:        int(number("diskSpaceWarningLevelRatio")),
		StartAccept:          number("startAcceptSendRequestTimeStamp"),
		ReturnZeroIfInMemory: true,
		ValidateSystemTopic:  flag("validateSystemTopicWhenUpdateTopic"),
		MixedMessageType:     flag("enableMixedMessageType"),
		QueryMax:             int(number("maxMsgsNumBatch")),
		QueryUniqueMax:       int(number("defaultQueryMaxNum")),
	}
}
