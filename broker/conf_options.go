package broker

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mqctl/broker/delay"
	"mqctl/replication"
	"mqctl/store"
	"mqctl/store/vfs"
)

// computeDefaults fills the values whose default depends on the machine, the
// file's format or other keys.
func (c *Config) computeDefaults() {
	def := func(key, value string) {
		s := c.values[key]
		s.Default = value
		if key == "inSyncReplicas" && s.Value == "0" {
			s.Origin = Origin{Kind: "default"} // 0 is how a file says that it is not set
		}
		if s.Origin.Kind == "default" || s.Value == "" || s.Value == "0" && (key == "haListenPort" || key == "inSyncReplicas") {
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
	def("inSyncReplicas", map[bool]string{false: "1", true: "2"}[c.Value("brokerRole") == SyncMaster.String()])
	def("nameserver.embedded.enable", strconv.FormatBool(c.Value("namesrvAddr") == "" && c.Value("brokerRole") != Slave.String()))
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
	c.checkRole(fail)
	if p := c.Int("listenPort"); c.Int("haListenPort") == p || c.Int("haListenPort") == p-2 {
		fail("haListenPort", "the port is the broker's own: it answers on listenPort and two below", "leave it 0 for listenPort + 1")
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
	if _, err := hours(c.Value("deleteWhen")); err != nil {
		fail("deleteWhen", err.Error(), "write hours of the day, 0 to 23, separated by semicolons")
	}
}

// checkRole looks whether role, id and the settings of replication agree.
func (c *Config) checkRole(fail func(key, why, try string)) {
	role, id := c.Value("brokerRole"), c.Int("brokerId")
	switch {
	case id < 0:
		fail("brokerId", fmt.Sprintf("%d is negative", id), "a master has 0, its slaves 1, 2 and so on")
	case role == Slave.String() && id == 0:
		fail("brokerId", "0 is the id of a master, but brokerRole is SLAVE", "brokerId=1, or --id 1: each slave of a name has an id of its own")
	case role != Slave.String() && id != 0:
		fail("brokerId", fmt.Sprintf("%d is the id of a slave, but brokerRole is %s", id, role), "set brokerRole=SLAVE (or --role slave), or brokerId=0")
	case role == Slave.String() && c.Value("namesrvAddr") == "" && c.Value("haMasterAddress") == "" && !c.Bool("nameserver.embedded.enable"):
		fail("haMasterAddress", "nobody tells this slave where its master is", "name the nameservers (-n HOST:9876), or the master's replication port (--master HOST:10912)")
	}
	if role == SyncMaster.String() && c.values["inSyncReplicas"].Origin.Kind == "default" {
		c.warn("brokerRole SYNC_MASTER without inSyncReplicas: sends wait for %s copies, the master's included; set inSyncReplicas=1 for its own alone, which is RocketMQ's default", c.Value("inSyncReplicas"))
	}
	if c.Int("haHousekeepingInterval") <= c.Int("haSendHeartbeatInterval") {
		fail("haHousekeepingInterval", fmt.Sprintf("%s ms is not longer than haSendHeartbeatInterval (%s ms): idle connections would be cut", c.Value("haHousekeepingInterval"), c.Value("haSendHeartbeatInterval")), "")
	}
	c.checkHAFiles(fail)
}

// checkHAFiles looks whether the files of secure replication are named.
func (c *Config) checkHAFiles(fail func(key, why, try string)) {
	if c.Bool("haTlsEnable") {
		for _, key := range []string{"haTlsCert", "haTlsKey", "haTlsCa"} {
			if c.Value(key) == "" {
				fail(key, "haTlsEnable is on, but the file is not named", "replicas show each other certificates: name all of haTlsCert, haTlsKey and haTlsCa")
			}
		}
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
	held := c.held
	if held == nil {
		held = &heldRole{}
	}
	o := Options{
		Name: c.Value("brokerName"), Cluster: c.Value("brokerClusterName"),
		Role: roleNamed(c.Value("brokerRole")), ID: c.Int("brokerId"),
		Epoch: held.Epoch, FormerID: held.Former, Rejoin: held.Rejoin,
		ConfiguredID:      c.configuredID,
		ListenAddr:        net.JoinHostPort(c.Value("bindAddress"), c.Value("listenPort")),
		Advertise:         c.Value("brokerIP1"),
		HAAddr:            net.JoinHostPort(c.Value("brokerIP2"), c.Value("haListenPort")),
		HAListen:          net.JoinHostPort(c.Value("bindAddress"), c.Value("haListenPort")),
		HAMaster:          c.Value("haMasterAddress"),
		HAAuthKey:         c.Value("haAuthKeyFile"),
		HATLS:             HATLS{On: c.Bool("haTlsEnable"), Cert: c.Value("haTlsCert"), Key: c.Value("haTlsKey"), CA: c.Value("haTlsCa")},
		PreOnlineWait:     c.Duration("preOnlineWaitMillis"),
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
		BatchQueueBytes:        (c.Int("mapperFileSizeBatchConsumeQueue") + 45) / 46 * 46,
		QueueExtBytes:          c.Int("mappedFileSizeConsumeQueueExt"),
		QueueExt:               c.Bool("enableConsumeQueueExt"),
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
		Retention:              retention(c.Value),
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
		MemoryBytes:          number("memoryLimitForRatio"),
		PullWindow:           time.Duration(number("pullStatsWindow")) * time.Millisecond,
		MaxMessage:           int(number("maxMessageSize")),
		LongPolling:          flag("longPollingEnable"),
		ShortPolling:         time.Duration(number("shortPollingTimeMills")) * time.Millisecond,
		NotifyIDsChanged:     flag("notifyConsumerIdsChangedEnable"),
		RejectTransaction:    flag("rejectTransactionMessage"),
		LitePull:             flag("litePullMessageEnable"),
		TraceOn:              flag("traceOn"),
		Region:               value("regionId"),
		Retention:            retention(value),
		StartAccept:          number("startAcceptSendRequestTimeStamp"),
		ReturnZeroIfInMemory: true,
		ClientReset:          !flag("useServerSideResetOffset"),
		ValidateSystemTopic:  flag("validateSystemTopicWhenUpdateTopic"),
		MixedMessageType:     flag("enableMixedMessageType"),
		QueryMax:             int(number("maxMsgsNumBatch")),
		QueryUniqueMax:       int(number("defaultQueryMaxNum")),
		OffsetCheckInSlave:   flag("offsetCheckInSlave"),
		ForwardStaleWrites:   flag("forwardStaleWrites"),
		RoleSwitch:           flag("roleSwitchEnable"),
		ActingMaster:         flag("enableSlaveActingMaster"),
		HA:                   haSettings(value),
	}
}

// retention picks the settings of what is deleted.
func retention(value func(key string) string) store.Retention {
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(value(key), 10, 64)
		return n
	}
	millis := func(key string) time.Duration { return time.Duration(number(key)) * time.Millisecond }
	when, _ := hours(value("deleteWhen")) // checked
	return store.Retention{
		Keep:       time.Duration(number("fileReservedTime")) * time.Hour,
		Hours:      when,
		UsedRatio:  int(number("diskMaxUsedSpaceRatio")),
		ForceRatio: int(number("diskSpaceCleanForciblyRatio")),
		FullRatio:  int(number("diskSpaceWarningLevelRatio")),
		NoForce:    value("cleanFileForciblyEnable") != "true",
		Every:      millis("cleanResourceInterval"),
		LogPause:   millis("deleteCommitLogFilesInterval"),
		QueuePause: millis("deleteConsumeQueueFilesInterval"),
		Batch:      int(number("deleteFileBatchMax")),
	}
}

// hours reads deleteWhen: bit h is set for each hour h. No hour at all means that
// the clock alone deletes nothing.
func hours(text string) (set uint32, err error) {
	for word := range strings.SplitSeq(text, ";") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		h, err := strconv.Atoi(word)
		if err != nil || h < 0 || h > 23 {
			return 0, fmt.Errorf("%q is no hour of the day", word)
		}
		set |= 1 << h
	}
	return set, nil
}

// haSettings picks the settings of replication.
func haSettings(value func(key string) string) replication.Settings {
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(value(key), 10, 64)
		return n
	}
	millis := func(key string) time.Duration { return time.Duration(number(key)) * time.Millisecond }
	s := replication.Settings{
		SegmentBytes:         number("mappedFileSizeCommitLog"),
		TransferBatch:        int(number("haTransferBatchSize")),
		HeartbeatInterval:    millis("haSendHeartbeatInterval"),
		HousekeepingInterval: millis("haHousekeepingInterval"),
		MaxGapNotInSync:      number("haMaxGapNotInSync"),
		InSyncReplicas:       int(number("inSyncReplicas")),
		MinInSyncReplicas:    int(number("minInSyncReplicas")),
		AllAckInSync:         value("allAckInSyncStateSet") == "true",
		SlaveTimeout:         millis("slaveTimeout"),
		AckFsync:             value("haAckLevel") == "fsync",
		CopyAll:              value("haCopy") == "all",
		RejoinTruncate:       value("rejoinTruncateEnable") == "true",
	}
	if value("haFlowControlEnable") == "true" {
		s.FlowBytesPerSecond = number("maxHaTransferByteInSecond")
	}
	return s
}
