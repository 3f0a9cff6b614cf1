package broker

// otherKeys are the settings that RocketMQ 5.3.3 knows (and a few of ours) that
// have no effect here, or belong to a feature that is not built. Their defaults
// are those of a fresh RocketMQ; "computed" ones depend on the machine.
var otherKeys = []keyGroup{
	{
		use: Ignored, section: "limits", text: "Sizes a thread pool or a queue before one; this broker serves requests on their connections.",
		keys: `
			ackMessageThreadPoolNums int 16, ackThreadPoolQueueCapacity int 100000, adminBrokerThreadPoolNums int 16,
			adminBrokerThreadPoolQueueCapacity int 10000, batchDispatchRequestThreadPoolNums int 16, clientManageThreadPoolNums int 32,
			clientManagerThreadPoolQueueCapacity int 1000000, consumerManageThreadPoolNums int 32,
			consumerManagerThreadPoolQueueCapacity int 1000000, endTransactionPoolQueueCapacity int 100000,
			endTransactionThreadPoolNums int computed, heartbeatThreadPoolNums int computed,
			heartbeatThreadPoolQueueCapacity int 50000, litePullMessageThreadPoolNums int computed,
			litePullThreadPoolQueueCapacity int 100000, loadBalanceProcessorThreadPoolNums int 32,
			loadBalanceThreadPoolQueueCapacity int 100000, processReplyMessageThreadPoolNums int computed,
			pullMessageThreadPoolNums int computed, pullThreadPoolQueueCapacity int 100000,
			putMessageFutureThreadPoolNums int computed, putThreadPoolQueueCapacity int 10000, queryMessageThreadPoolNums int computed,
			queryThreadPoolQueueCapacity int 20000, recoverThreadPoolNums int 32, replyThreadPoolQueueCapacity int 10000,
			sendMessageThreadPoolNums int computed, sendThreadPoolQueueCapacity int 10000, maxAsyncPutMessageRequests int 5000
		`,
	},
	{
		use: Ignored, section: "limits", text: "Bounds the wait in a request queue; this broker bounds bytes in flight and answers SYSTEM_BUSY beyond.",
		keys: `
			brokerFastFailureEnable bool true, waitTimeMillsInAckQueue ms 3000, waitTimeMillsInAdminBrokerQueue ms 5000,
			waitTimeMillsInHeartbeatQueue ms 31000, waitTimeMillsInLitePullQueue ms 5000, waitTimeMillsInPullQueue ms 5000,
			waitTimeMillsInSendQueue ms 200, waitTimeMillsInTransactionQueue ms 3000, osPageCacheBusyTimeOutMills ms 1000,
			putMessageTimeout ms 8000
		`,
	},
	{
		use: Ignored, section: "network", text: "Tunes the Netty network layer, which this broker does not have.",
		keys: `
			clientAsyncSemaphoreValue int 65535, clientCallbackExecutorThreads int computed, clientChannelMaxIdleTimeSeconds s 120,
			clientCloseSocketIfTimeout bool true, clientOnewaySemaphoreValue int 65535, clientPooledByteBufAllocatorEnable bool false,
			clientSocketRcvBufSize int 0, clientSocketSndBufSize int 0, clientWorkerThreads int 4, channelNotActiveInterval ms 60000,
			connectTimeoutMillis ms 3000, disableCallbackExecutor bool false, disableNettyWorkerGroup bool false,
			enableFastChannelEventProcess bool false, enableReconnectForGoAway bool true, isScanAvailableNameSrv bool true,
			maxReconnectIntervalTimeSeconds s 60, serverAsyncSemaphoreValue int 64, serverCallbackExecutorThreads int 0,
			serverLoadBalancerEnable bool true, serverNettyWorkerGroupEnable bool true, serverOnewaySemaphoreValue int 256,
			serverPooledByteBufAllocatorEnable bool true, serverSelectorThreads int 3, serverSocketBacklog int 1024,
			serverSocketRcvBufSize int 0, serverSocketSndBufSize int 0, serverWorkerThreads int 8, socksProxyConfig text {},
			useEpollNativeSelector bool false, writeBufferHighWaterMark int 0, writeBufferLowWaterMark int 0,
			transferMsgByHeap bool true, asyncSendEnable bool true, forwardTimeout ms 3000, enableShutdownGracefully bool false
		`,
	},
	{
		use: Ignored, section: "nameserver", text: "Tunes how a broker talks to nameservers; this one always registers everything in one uncompressed request.",
		keys: `
			brokerHeartbeatInterval ms 1000, brokerNotActiveTimeoutMillis ms 10000, cleanOfflineBrokerInterval ms 30000,
			compatibleWithOldNameSrv bool true, compressedRegister bool false, enableSingleTopicRegister bool false,
			enableSplitRegistration bool false, splitRegistrationSize int 800, fetchNamesrvAddrInterval ms 10000,
			forceRegister bool true, loadBalancePollNameServerInterval ms 30000, sendHeartbeatTimeoutMillis ms 1000,
			updateNameServerAddrPeriod ms 120000, disappearTimeAfterStart int -1
		`,
	},
	{
		use: Fixed, section: "nameserver", text: "Other ways to find nameservers are not built; name them in namesrvAddr.",
		keys: `
			fetchNameSrvAddrByDnsLookup bool false, fetchNamesrvAddrByAddressServer bool false
		`,
	},
	{
		use: Ignored, section: "store", text: "Tunes the mapped files and locks of the Java store; the Go store works otherwise.",
		keys: `
			accessMessageInMemoryHotRatio int 26, autoMessageVersionOnTopicLen bool true, checkCRCOnRecover bool true,
			cleanSwapedMapInterval ms 300000, commitLogForceSwapMapInterval ms 43200000, commitLogSwapMapInterval ms 3600000,
			commitLogSwapMapReserveFileNum int 100, correctLogicMinOffsetForceInterval ms 300000,
			correctLogicMinOffsetSleepInterval ms 1, debugLockEnable bool false, diskFallRecorded bool true,
			dispatchCqCacheNum int 4096, dispatchCqThreads int 10, dispatchFromSenderThread bool false, enableAsyncReput bool true,
			enableBuildConsumeQueueConcurrently bool false, enableScheduleMessageStats bool true,
			flushLeastPagesWhenWarmMapedFile int 4096, logicQueueForceSwapMapInterval ms 43200000,
			logicQueueSwapMapInterval ms 3600000, logicQueueSwapMapReserveFileNum int 20, mappedFileSwapEnable bool true,
			maxChecksumRange bytes 1073741824, maxRecoveryCommitlogFiles int 30, messageIndexSafe bool false,
			putConsumeQueueDataByFileChannel bool true, putMsgIndexHightWater int 600000, recoverConcurrently bool false,
			sampleCountThreshold int 5000, sampleSteps int 32, searchBcqByCacheEnable bool true,
			spinLockCollisionRetreatOptimalDegree int 1000, topicQueueLockNum int 32, travelCqFileNumWhenGetMessage int 1,
			useABSLock bool false, useReentrantLockWhenPutMessage bool true, warmMapedFileEnable bool false,
			bitMapLengthConsumeQueueExt int 64, maxConsumeQueueScan int 20000, replicasPerDiskPartition int 1
		`,
	},
	{
		use: Ignored, section: "flush", text: "Tunes flushing by page counts; this store flushes whatever is unwritten at each flushIntervalCommitLog.",
		keys: `
			commitCommitLogLeastPages int 4, commitCommitLogThoroughInterval ms 200, commitIntervalCommitLog int 200,
			fastFailIfNoBufferInStorePool bool false, flushCommitLogLeastPages int 4, flushCommitLogThoroughInterval ms 10000,
			flushCommitLogTimed bool true, flushConsumeQueueLeastPages int 2, flushConsumeQueueThoroughInterval ms 60000,
			flushConsumerOffsetHistoryInterval ms 60000, flushIntervalConsumeQueue int 1000, transientStorePoolSize int 5,
			wakeCommitWhenPutMessage bool true, wakeFlushWhenPutMessage bool false, consumerOffsetUpdateVersionStep long 500,
			delayOffsetUpdateVersionStep long 200
		`,
	},
	{
		use: Ignored, section: "retention", text: "Deletes files under their readers, or shares a disk between brokers: here readers may finish, and the disk's own use counts.",
		keys: `
			destroyMapedFileIntervalForcibly ms 120000, logicalDiskSpaceCleanForciblyThreshold float 0.8,
			maxBatchDeleteFilesNum int 50, redeleteHangedFileInterval ms 120000
		`,
	},
	{
		use: Fixed, section: "store", text: "Another kind of store, or another form of its files, is not built.",
		keys: `
			configManagerVersion text v1, duplicationEnable bool false,
			enableDLegerCommitLog bool false, enableLmq bool false, enableMultiDispatch bool false, enabledAppendPropCRC bool false,
			forceVerifyPropCRC bool false, messageStorePlugIn text, readUnCommitted bool false, readOnlyCommitLogStorePaths text?,
			recheckReputOffsetFromCq bool false, rocksdbCQDoubleWriteEnable bool false, storeType text default,
			transientStorePoolEnable bool false, maxTopicLength int 127
		`,
	},
	{
		use: Ignored, section: "store", text: "Belongs to the RocksDB store, LMQ or compacted topics, which are not built.",
		keys: `
			bottomMostCompressionTypeForConsumeQueueStore text zstd, cleanRocksDBDirtyCQIntervalMin long 60,
			compactionCqMappedFileSize bytes 10485760, compactionMappedFileSize bytes 104857600, compactionScheduleInternal ms 900000,
			compactionThreadNum int 6, enableCompaction bool true, enableLmqStats bool false, enableRocksDBLog bool false,
			maxLmqConsumeQueueNum int 20000, maxOffsetMapSize bytes 104857600, memTableFlushIntervalMs ms 3600000,
			realTimePersistRocksDBConfig bool true, rocksdbCompressionType text lz4, rocksdbFlushWalFrequency int 1024,
			rocksdbWalFileRollingThreshold bytes 1073741824, statRocksDBCQIntervalSec s 10, enableBatchPush bool false
		`,
	},
	{
		use: Fixed, section: "ha", text: "A mode of failover that is not built.",
		keys: `
			asyncLearner bool false, enableAutoInSyncReplicas bool false, syncMasterFlushOffsetWhenStartup bool false,
			enableControllerMode bool false, controllerAddr text, fetchControllerAddrByDnsLookup bool false,
			enableRemoteEscape bool false, lockInStrictMode bool false,
			isBrokerContainer bool false, isInBrokerContainer bool false, dLegerGroup text?, dLegerPeers text?, dLegerSelfId text?,
			preferredLeaderId text?
		`,
	},
	{
		use: Ignored, section: "ha", text: "Tunes a mode of failover that is not built.",
		keys: `
			brokerElectionPriority int 2147483647, checkSyncStateSetPeriod ms 5000, controllerHeartBeatTimeoutMills ms 10000,
			haMaxTimeSlaveNotCatchup ms 15000, maxSlaveResendLength bytes 268435456,
			skipPreOnline bool false, syncBrokerMemberGroupPeriod ms 1000, syncBrokerMetadataPeriod ms 5000,
			syncControllerMetadataPeriod ms 10000, storePathDLedgerCommitLog text?,
			storePathEpochFile text?, storePathBrokerIdentity text?
		`,
	},
	{
		use: Ignored, section: "ha", text: "The replicas of a name are those that are registered; inSyncReplicas says how many sends wait for.",
		keys: `
			totalReplicas int 1
		`,
	},
	{
		use: Ignored, section: "ha", text: "How much an empty slave copies is said by haCopy.",
		keys: `
			syncFromLastFile bool false
		`,
	},
	{
		use: Fixed, section: "read", text: "A way of reading that is not built.",
		keys: `
			coldCtrStrategyEnable bool false, coldDataFlowControlEnable bool false, coldDataScanEnable bool false,
			disableConsumeIfConsumerReadSlowly bool false, enableNetWorkFlowControl bool false, rejectPullConsumerEnable bool false
		`,
	},
	{
		use: Ignored, section: "read", text: "Tunes ways of reading that this broker does not have.",
		keys: `
			cgColdReadThreshold bytes 3145728, consumerFallbehindThreshold bytes 17179869184, dataReadAheadEnable bool true,
			globalColdReadThreshold bytes 104857600, highSpeedMode bool false, pullBatchMaxMessageCount int 160,
			usePIDColdCtrStrategy bool true
		`,
	},
	{
		use: Fixed, section: "topics", text: "Filters by SQL92 and static subscriptions are not built.",
		keys: `
			enableCalcFilterBitMap bool false, enablePropertyFilter bool false, filterSupportRetry bool false,
			useStaticSubscription bool false
		`,
	},
	{
		use: Ignored, section: "topics", text: "Tunes filters, lag estimates or broadcast offsets kept by the broker, which are not built.",
		keys: `
			broadcastOffsetExpireMaxSecond s 300, broadcastOffsetExpireSecond s 120, enableBroadcastOffsetStore bool true,
			estimateAccumulation bool true, expectConsumerNumUseFilter int 32, filterDataCleanTimeSpan long 86400000,
			maxErrorRateOfBloomFilter int 20
		`,
	},
	{
		use: Fixed, section: "topics", text: "The system topics and their rules are the defaults of RocketMQ.",
		keys: `
			brokerTopicEnable bool true, clusterTopicEnable bool true, enableRegisterProducer bool true,
			msgTraceTopicName text RMQ_SYS_TRACE_TOPIC, enableCleanExpiredOffset bool false
		`,
	},
	{
		use: Ignored, section: "topics", text: "Housekeeping that this broker does not need.",
		keys: `
			clearRetryTopicWhenDeleteTopic bool true, enableCreateSysGroup bool true, isolateLogEnable bool false,
			realTimeNotifyConsumerChange bool true, subscriptionExpiredTimeout ms 600000, storeReplyMessageEnable bool true
		`,
	},
	{
		use: Ignored, section: "stats", text: "Statistics and their print-out; this broker keeps those that admin tools ask for.",
		keys: `
			accountStatsEnable bool true, accountStatsPrintZeroValues bool true, autoDeleteUnusedStats bool true,
			commercialBaseCount int 1, commercialSizePerMsg int 4096, enableDetailStat bool true, maxStatsIdleTimeInMinutes int -1,
			printChannelGroups bool false, printChannelGroupsMinNum int 5, metricGrpcExporterIntervalInMills ms 60000,
			metricGrpcExporterTimeOutInMills ms 3000, metricLoggingExporterIntervalInMills ms 10000, metricsGrpcExporterHeader text,
			metricsGrpcExporterTarget text, metricsInDelta bool false, metricsLabel text, metricsOtelCardinalityLimit int 50000,
			metricsPromExporterHost text, metricsPromExporterPort int 5557
		`,
	},
	{
		use: Fixed, section: "stats", text: "Exporting metrics is not built yet.",
		keys: `
			metricsExporterType text DISABLE
		`,
	},
	{
		use: Fixed, section: "pop", text: "POP consumption is not built yet.",
		keys: `
			defaultMessageRequestMode text PULL, enableRetryTopicV2 bool false, popConsumerKVServiceEnable bool false
		`,
	},
	{
		use: Ignored, section: "pop", text: "Tunes POP consumption, which is not built yet.",
		keys: `
			appendAckAsync bool false, appendCkAsync bool false, defaultPopShareQueueNum int -1,
			enableNotifyAfterPopOrderLockRelease bool true, enableNotifyBeforePopCalculateLag bool true, enablePopBatchAck bool false,
			enablePopBufferMerge bool false, enablePopLog bool false, enablePopMessageThreshold bool false,
			enableSkipLongAwaitingAck bool false, initPopOffsetByCheckMsgInMem bool true, maxPopPollingSize long 100000,
			popCkMaxBufferSize int 200000, popCkOffsetMaxQueueSize int 20000, popCkStayBufferTime ms 10000,
			popCkStayBufferTimeOut ms 3000, popConsumerFSServiceInit bool true, popConsumerKVServiceInit bool false,
			popConsumerKVServiceLog bool false, popFromRetryProbability int 20, popInflightMessageThreshold long 10000,
			popLongPollingForceNotifyInterval ms 800, popPollingMapSize int 100000, popPollingSize int 1024,
			popResponseReturnActualRetryTopic bool false, popReviveMaxAttemptTimes int 16, popReviveMaxReturnSizePerRead int 16384,
			retrieveMessageFromPopRetryTopicV1 bool true, reviveAckWaitMs ms 180000, reviveInterval ms 1000, reviveMaxSlow long 3,
			reviveScanTime ms 10000, skipWhenCKRePutReachMaxTimes bool false
		`,
	},
	{
		use: Ignored, section: "transaction", text: "Tunes transactions, which are not built yet.",
		keys: `
			transactionCheckInterval ms 30000, transactionCheckMax int 15, transactionMetricFlushInterval ms 3000,
			transactionOpBatchInterval ms 3000, transactionOpMsgMaxSize int 4096, transactionTimeOut ms 6000
		`,
	},
	{
		use: Fixed, section: "timer", text: "Timer messages and their recall are not built yet.",
		keys: `
			recallMessageEnable bool false, timerInterceptDelayLevel bool false
		`,
	},
	{
		use: Ignored, section: "timer", text: "Tunes timer messages or asynchronous delivery of delay levels, which are not built.",
		keys: `
			allowRecallWhenBrokerNotWriteable bool true, enableScheduleAsyncDeliver bool false, mappedFileSizeTimerLog bytes 104857600,
			scheduleAsyncDeliverMaxPendingLimit int 2000, scheduleAsyncDeliverMaxResendNum2Blocked int 3,
			timerCheckMetricsWhen text 05, timerColdDataCheckIntervalMs ms 60000, timerCongestNumEachSlot int 2147483647,
			timerEnableCheckMetrics bool true, timerEnableDisruptor bool false, timerEnableRetryUntilSuccess bool false,
			timerFlushIntervalMs ms 1000, timerGetMessageThreadNum int 3, timerMaxDelaySec s 259200,
			timerMetricSmallThreshold int 1000000, timerPrecisionMs ms 1000, timerProgressLogIntervalMs ms 10000,
			timerPutMessageThreadNum int 3, timerRollWindowSlot int 172800, timerSkipUnknownError bool false,
			timerStopDequeue bool false, timerStopEnqueue bool false, timerWarmEnable bool false
		`,
	},
	{
		use: Fixed, section: "auth", text: "Access control and TLS are not built yet.",
		keys: `
			aclEnable bool false, authenticationEnabled bool false, authorizationEnabled bool false,
			migrateAuthFromV1Enabled bool false, useTLS bool false
		`,
	},
	{
		use: Ignored, section: "auth", text: "Belongs to access control, which is not built yet.",
		keys: `
			configName text?, clusterName text?, authConfigPath text?, authenticationProvider text?,
			authenticationMetadataProvider text?, authenticationStrategy text?, authenticationWhitelist text?,
			initAuthenticationUser text?, innerClientAuthenticationCredentials text?, authorizationProvider text?,
			authorizationMetadataProvider text?, authorizationStrategy text?, authorizationWhitelist text?, userCacheMaxNum int 1000,
			userCacheExpiredSecond s 600, userCacheRefreshSecond s 60, aclCacheMaxNum int 1000, aclCacheExpiredSecond s 600,
			aclCacheRefreshSecond s 60, statefulAuthenticationCacheMaxNum int 10000, statefulAuthenticationCacheExpiredSecond s 60,
			statefulAuthorizationCacheMaxNum int 10000, statefulAuthorizationCacheExpiredSecond s 60
		`,
	},
	{
		use: Ignored, section: "broker", text: "Set by the start script of RocketMQ; kept for tools that show it.",
		keys: `
			rocketmqHome text?
		`,
	},
	{
		use: Fixed, section: "network", own: true, text: "Not built yet.",
		keys: `
			fastListenPort int -1, maxConnections int 0
		`,
	},
	{
		use: Fixed, section: "network", own: true, text: "Access control and TLS are not built yet.",
		keys: `
			tlsEnable bool false
		`,
	},
	{
		use: Ignored, section: "network", own: true, text: "Belongs to TLS, which is not built yet.",
		keys: `
			tlsMode text permissive, tlsCert text, tlsKey text, tlsCa text
		`,
	},
	{
		use: Fixed, section: "nameserver.embedded", own: true, text: "Not built yet.",
		keys: `
			nameserver.embedded.notifyMinBrokerIdChanged bool false
		`,
	},
	{
		use: Ignored, section: "nameserver.embedded", own: true, text: "Order configuration is always returned.",
		keys: `
			nameserver.embedded.returnOrderTopicConfigToBroker bool true
		`,
	},
	{
		use: Ignored, section: "http", own: true, text: "The health port serves health and readiness only.",
		keys: `
			http.metrics bool true
		`,
	},
	{
		use: Fixed, section: "http", own: true, text: "The health port serves health and readiness only.",
		keys: `
			http.ui bool false
		`,
	},
	{
		use: Fixed, section: "http", own: true, text: "A word in a setting is seen by whoever reads the settings: name a file of its own in http.tokenFile.",
		keys: `
			http.token text
		`,
	},
	{
		use: Ignored, section: "log", own: true, text: "Log files are not rolled; leave that to the system.",
		keys: `
			log.maxSize bytes 104857600, log.maxFiles int 10
		`,
	},
	{
		use: Ignored, section: "log", own: true, text: "Slow appends are not logged yet.",
		keys: `
			log.slowPutMillis ms 500
		`,
	},
}
