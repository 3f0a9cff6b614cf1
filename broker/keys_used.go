package broker

// usedKeys are the settings that act in this broker.
var usedKeys = []Key{
	// Identity.
	{Name: "brokerClusterName", Kind: Text, Default: "DefaultCluster", Section: "broker", Text: "Cluster this broker belongs to."},
	{Name: "brokerName", Kind: Text, Section: "broker", Computed: true, Text: "Name of the broker; empty means the host name."},
	{Name: "brokerId", Kind: Long, Default: "0", Section: "broker", Text: "0 is the master of its name, others are its slaves."},
	{Name: "brokerRole", Kind: Enum, Default: "ASYNC_MASTER", Values: []string{"ASYNC_MASTER", "SYNC_MASTER", "SLAVE"}, Section: "broker", Text: "Part this broker plays in replication."},
	{Name: "brokerPermission", Kind: Int, Default: "6", Applies: Live, Min: 0, Max: 7, Section: "broker", Text: "2 write, 4 read, 6 both: what clients may do at this broker."},
	{Name: "regionId", Kind: Text, Default: "DefaultRegion", Applies: Live, Section: "broker", Text: "Region told to clients with each answer to a send."},
	{Name: "traceOn", Kind: Bool, Default: "true", Applies: Live, Section: "topics", Text: "Tell clients to write message traces."},
	{Name: "brokerConfigPath", Kind: Text, Section: "broker", Computed: true, Optional: true, Text: "File this broker was started from; set by the loader."},
	{Name: "configBlackList", Kind: Text, Default: "configBlackList;brokerConfigPath", Section: "broker", Text: "Keys that no admin tool may change, separated by semicolons."},
	{Name: "shutdownWaitTimeSeconds", Kind: Seconds, Default: "30", Max: 3600, Section: "network", Text: "How long answers under way may take at shutdown."},

	// Network.
	{Name: "bindAddress", Kind: Text, Section: "network", Computed: true, Text: "Address to listen on."},
	{Name: "listenPort", Kind: Int, Default: "10911", Min: 3, Max: 65535, Section: "network", Text: "Main port; this port less 2 answers as well."},
	{Name: "brokerIP1", Kind: Text, Section: "network", Computed: true, Text: "Address told to clients; empty means the first that is not loopback."},
	{Name: "brokerIP2", Kind: Text, Section: "network", Computed: true, Text: "Address told to slaves; empty means brokerIP1."},
	{Name: "haListenPort", Kind: Int, Section: "ha", Computed: true, Max: 65535, Text: "Replication port told to slaves; 0 means listenPort + 1."},
	{Name: "serverChannelMaxIdleTimeSeconds", Kind: Seconds, Default: "120", Min: 1, Max: 86400, Applies: Restart, Section: "network", Text: "A connection silent for so long is closed."},
	{Name: "channelExpiredTimeout", Kind: Millis, Default: "120000", Min: 1000, Max: 86400000, Section: "network", Text: "A client that sent no heartbeat for so long is forgotten."},

	// Nameservers.
	{Name: "namesrvAddr", Kind: Text, Section: "nameserver", Optional: true, Text: "Nameservers to register at, host:port separated by semicolons."},
	{Name: "registerNameServerPeriod", Kind: Millis, Default: "30000", Min: 10000, Max: 60000, Section: "nameserver", Text: "How often the broker registers."},
	{Name: "registerBrokerTimeoutMills", Kind: Millis, Default: "24000", Min: 100, Max: 600000, Section: "nameserver", Text: "How long one registration may take."},
	{Name: "nameserver.embedded.enable", Kind: Bool, Own: true, Computed: true, Section: "nameserver.embedded", Text: "Run a nameserver in this process; on when no nameserver is named."},
	{Name: "nameserver.embedded.listen", Kind: Text, Own: true, Computed: true, Section: "nameserver.embedded", Text: "Address of the embedded nameserver; empty means port 9876 where the broker listens."},
	{Name: "nameserver.embedded.kvConfigPath", Kind: Text, Own: true, Computed: true, Section: "nameserver.embedded", Text: "File of the nameserver's key-value table."},
	{Name: "nameserver.embedded.scanNotActiveBrokerInterval", Kind: Millis, Default: "5000", Min: 100, Max: 600000, Own: true, Section: "nameserver.embedded", Text: "How often silent brokers are looked for."},
	{Name: "nameserver.embedded.supportActingMaster", Kind: Bool, Default: "true", Own: true, Section: "nameserver.embedded", Text: "Show a name's lowest slave as its master, read-only, while the master is away."},
	{Name: "nameserver.embedded.orderMessageEnable", Kind: Bool, Default: "false", Own: true, Section: "nameserver.embedded", Text: "Add the order configuration to routes."},

	// Store.
	{Name: "storePathRootDir", Kind: Text, Computed: true, Section: "store", Text: "Folder of everything this broker keeps."},
	{Name: "storePathCommitLog", Kind: Text, Computed: true, Optional: true, Section: "store", Text: "Folder of the commit log; empty means commitlog below the root."},
	{Name: "mappedFileSizeCommitLog", Kind: Bytes, Default: "1073741824", Min: 4096, Max: 1 << 31, Section: "store", Text: "Size of one commit log file."},
	{Name: "mappedFileSizeConsumeQueue", Kind: Bytes, Default: "6000000", Min: 20, Max: 1 << 31, Section: "store", Text: "Size of one consume queue file; rounded up to whole entries of 20 bytes."},
	{Name: "maxHashSlotNum", Kind: Int, Default: "5000000", Min: 1, Max: 100000000, Section: "store", Text: "Hash slots of one key index file."},
	{Name: "maxIndexNum", Kind: Int, Default: "20000000", Min: 2, Max: 100000000, Section: "store", Text: "Entries of one key index file."},
	{Name: "messageIndexEnable", Kind: Bool, Default: "true", Section: "store", Text: "Keep an index by message key."},
	{Name: "maxMessageSize", Kind: Bytes, Default: "4194304", Min: 1, Max: 16 << 20, Applies: Live, Section: "store", Text: "Largest message body."},
	{Name: "maxFilterMessageSize", Kind: Int, Default: "16000", Min: 1, Max: 1 << 30, Section: "store", Text: "Bound of queue entries looked at for one filtered pull."},
	{Name: "defaultQueryMaxNum", Kind: Int, Default: "32", Min: 1, Max: 1024, Applies: Live, Section: "store", Text: "Most messages found by a unique key."},
	{Name: "maxMsgsNumBatch", Kind: Int, Default: "64", Min: 1, Max: 1024, Applies: Live, Section: "store", Text: "Most messages found by a key."},
	{Name: "diskSpaceWarningLevelRatio", Kind: Int, Default: "90", Min: 1, Max: 100, Applies: Live, Section: "retention", Text: "Percent of the disk in use above which sends are refused."},
	{Name: "flushDiskType", Kind: Enum, Default: "ASYNC_FLUSH", Values: []string{"ASYNC_FLUSH", "SYNC_FLUSH"}, Section: "flush", Text: "Whether a send waits for the disk."},
	{Name: "flushIntervalCommitLog", Kind: Millis, Default: "500", Min: 1, Max: 60000, Section: "flush", Text: "Pause between two flushes of the commit log."},
	{Name: "syncFlushTimeout", Kind: Millis, Default: "5000", Min: 1, Max: 600000, Section: "flush", Text: "How long a send waits for the disk."},
	{Name: "flushConsumerOffsetInterval", Kind: Millis, Default: "5000", Min: 10, Max: 600000, Section: "flush", Text: "How often consume progress is saved."},
	{Name: "flushDelayOffsetInterval", Kind: Millis, Default: "10000", Min: 10, Max: 600000, Section: "flush", Text: "How often the progress of delayed messages is saved."},

	// Reading.
	{Name: "slaveReadEnable", Kind: Bool, Default: "false", Applies: Live, Section: "read", Text: "Let answers to pulls suggest a slave."},
	{Name: "accessMessageInMemoryMaxRatio", Kind: Int, Default: "40", Min: 1, Max: 100, Applies: Live, Section: "read", Text: "Percent of memory: a reader further behind counts as slow."},
	{Name: "memoryLimitForRatio", Kind: Bytes, Default: "0", Own: true, Section: "read", Text: "Memory the ratio refers to; 0 means the machine's or the container's, whichever is less."},
	{Name: "maxTransferBytesOnMessageInMemory", Kind: Bytes, Default: "262144", Min: 1, Max: 16 << 20, Section: "read", Text: "Most bytes in one answer from memory."},
	{Name: "maxTransferCountOnMessageInMemory", Kind: Int, Default: "32", Min: 1, Max: 65536, Section: "read", Text: "Most messages in one answer from memory."},
	{Name: "maxTransferBytesOnMessageInDisk", Kind: Bytes, Default: "65536", Min: 1, Max: 16 << 20, Section: "read", Text: "Most bytes in one answer from disk."},
	{Name: "maxTransferCountOnMessageInDisk", Kind: Int, Default: "8", Min: 1, Max: 65536, Section: "read", Text: "Most messages in one answer from disk."},
	{Name: "longPollingEnable", Kind: Bool, Default: "true", Applies: Live, Section: "read", Text: "Hold pulls that find nothing until something comes."},
	{Name: "shortPollingTimeMills", Kind: Millis, Default: "1000", Min: 1, Max: 600000, Applies: Live, Section: "read", Text: "How long pulls are held when longPollingEnable is off."},
	{Name: "litePullMessageEnable", Kind: Bool, Default: "true", Applies: Live, Section: "read", Text: "Serve lite pulls."},

	// Topics and groups.
	{Name: "autoCreateTopicEnable", Kind: Bool, Default: "true", Applies: Live, Section: "topics", Text: "Create a missing topic at the first send."},
	{Name: "defaultTopicQueueNums", Kind: Int, Default: "8", Min: 1, Max: 65535, Section: "topics", Text: "Queues of the template of created topics."},
	{Name: "autoCreateSubscriptionGroup", Kind: Bool, Default: "true", Applies: Live, Section: "topics", Text: "Create a missing consumer group at its first request."},
	{Name: "messageDelayLevel", Kind: Text, Default: "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", Section: "topics", Text: "Times of the delay levels."},
	{Name: "traceTopicEnable", Kind: Bool, Default: "false", Section: "topics", Text: "Make the system topic for message traces."},
	{Name: "reviveQueueNum", Kind: Int, Default: "8", Min: 1, Max: 1024, Section: "topics", Text: "Queues of the system topic that POP consumers revive messages from."},
	{Name: "rejectTransactionMessage", Kind: Bool, Default: "false", Applies: Live, Section: "topics", Text: "Refuse transactional messages."},
	{Name: "notifyConsumerIdsChangedEnable", Kind: Bool, Default: "true", Applies: Live, Section: "topics", Text: "Tell the members of a group when one joins or leaves."},
	{Name: "validateSystemTopicWhenUpdateTopic", Kind: Bool, Default: "true", Applies: Live, Section: "topics", Text: "Refuse admin changes to system topics."},
	{Name: "enableMixedMessageType", Kind: Bool, Default: "false", Applies: Live, Section: "topics", Text: "Allow topics of message.type MIXED."},
	{Name: "timerWheelEnable", Kind: Bool, Default: "true", Section: "timer", Text: "Keep the system topic of timer messages; their delivery is not built yet."},
	{Name: "startAcceptSendRequestTimeStamp", Kind: Long, Default: "0", Applies: Live, Section: "limits", Text: "Sends before this time (ms since 1970) are refused."},

	// Health port and log of this process.
	{Name: "http.listen", Kind: Text, Default: "127.0.0.1:10980", Own: true, Section: "http", Text: "Address for health and readiness; off or empty serves none."},
	{Name: "log.level", Kind: Enum, Default: "info", Values: []string{"debug", "info", "warn", "error"}, Own: true, Section: "log", Text: "Least severe line that is logged."},
	{Name: "log.format", Kind: Enum, Default: "text", Values: []string{"text", "json"}, Own: true, Section: "log", Text: "Form of the log lines."},
	{Name: "log.file", Kind: Text, Own: true, Section: "log", Text: "File to log to; empty means stderr."},
}
