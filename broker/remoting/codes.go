package remoting

import (
	"maps"
	"slices"
	"strconv"
)

// Request codes (Java class RequestCode). Dead codes, which nothing sends, are
// listed too, so that a trace can name them. The 30001s are private to mqctl.
const (
	ReqSendMessage                          = 10
	ReqPullMessage                          = 11
	ReqQueryMessage                         = 12
	ReqQueryBrokerOffset                    = 13
	ReqQueryConsumerOffset                  = 14
	ReqUpdateConsumerOffset                 = 15
	ReqUpdateAndCreateTopic                 = 17
	ReqUpdateAndCreateTopicList             = 18
	ReqGetAllTopicConfig                    = 21
	ReqGetTopicConfigList                   = 22
	ReqGetTopicNameList                     = 23
	ReqUpdateBrokerConfig                   = 25
	ReqGetBrokerConfig                      = 26
	ReqTriggerDeleteFiles                   = 27
	ReqGetBrokerRuntimeInfo                 = 28
	ReqSearchOffsetByTimestamp              = 29
	ReqGetMaxOffset                         = 30
	ReqGetMinOffset                         = 31
	ReqGetEarliestMsgStoreTime              = 32
	ReqViewMessageByID                      = 33
	ReqHeartBeat                            = 34
	ReqUnregisterClient                     = 35
	ReqConsumerSendMsgBack                  = 36
	ReqEndTransaction                       = 37
	ReqGetConsumerListByGroup               = 38
	ReqCheckTransactionState                = 39
	ReqNotifyConsumerIDsChanged             = 40
	ReqLockBatchMQ                          = 41
	ReqUnlockBatchMQ                        = 42
	ReqGetAllConsumerOffset                 = 43
	ReqGetAllDelayOffset                    = 45
	ReqCheckClientConfig                    = 46
	ReqGetClientConfig                      = 47
	ReqGetTimerCheckPoint                   = 60
	ReqGetTimerMetrics                      = 61
	ReqPutKVConfig                          = 100
	ReqGetKVConfig                          = 101
	ReqDeleteKVConfig                       = 102
	ReqRegisterBroker                       = 103
	ReqUnregisterBroker                     = 104
	ReqGetRouteInfoByTopic                  = 105
	ReqGetBrokerClusterInfo                 = 106
	ReqUpdateAndCreateSubscriptionGroup     = 200
	ReqGetAllSubscriptionGroupConfig        = 201
	ReqGetTopicStatsInfo                    = 202
	ReqGetConsumerConnectionList            = 203
	ReqGetProducerConnectionList            = 204
	ReqWipeWritePermOfBroker                = 205
	ReqGetAllTopicListFromNameserver        = 206
	ReqDeleteSubscriptionGroup              = 207
	ReqGetConsumeStats                      = 208
	ReqSuspendConsumer                      = 209
	ReqResumeConsumer                       = 210
	ReqResetConsumerOffsetInConsumer        = 211
	ReqResetConsumerOffsetInBroker          = 212
	ReqAdjustConsumerThreadPool             = 213
	ReqWhoConsumeTheMessage                 = 214
	ReqDeleteTopicInBroker                  = 215
	ReqDeleteTopicInNamesrv                 = 216
	ReqRegisterTopicInNamesrv               = 217
	ReqGetKVListByNamespace                 = 219
	ReqResetConsumerClientOffset            = 220
	ReqGetConsumerStatusFromClient          = 221
	ReqInvokeBrokerToResetOffset            = 222
	ReqInvokeBrokerToGetConsumerStatus      = 223
	ReqGetTopicsByCluster                   = 224
	ReqUpdateAndCreateSubscriptionGroupList = 225
	ReqQueryTopicConsumeByWho               = 300
	ReqRegisterFilterServer                 = 301
	ReqRegisterMessageFilterClass           = 302
	ReqQueryConsumeTimeSpan                 = 303
	ReqGetSystemTopicListFromNS             = 304
	ReqGetSystemTopicListFromBroker         = 305
	ReqCleanExpiredConsumeQueue             = 306
	ReqGetConsumerRunningInfo               = 307
	ReqQueryCorrectionOffset                = 308
	ReqConsumeMessageDirectly               = 309
	ReqSendMessageV2                        = 310
	ReqGetUnitTopicList                     = 311
	ReqGetHasUnitSubTopicList               = 312
	ReqGetHasUnitSubUnunitTopicList         = 313
	ReqCloneGroupOffset                     = 314
	ReqViewBrokerStatsData                  = 315
	ReqCleanUnusedTopic                     = 316
	ReqGetBrokerConsumeStats                = 317
	ReqUpdateNamesrvConfig                  = 318
	ReqGetNamesrvConfig                     = 319
	ReqSendBatchMessage                     = 320
	ReqQueryConsumeQueue                    = 321
	ReqQueryDataVersion                     = 322
	ReqResumeCheckHalfMessage               = 323
	ReqSendReplyMessage                     = 324
	ReqSendReplyMessageV2                   = 325
	ReqPushReplyMessageToClient             = 326
	ReqAddWritePermOfBroker                 = 327
	ReqGetAllProducerInfo                   = 328
	ReqDeleteExpiredCommitLog               = 329
	ReqQueryTopicsByConsumer                = 343
	ReqQuerySubscriptionByConsumer          = 345
	ReqGetTopicConfig                       = 351
	ReqGetSubscriptionGroupConfig           = 352
	ReqUpdateAndGetGroupForbidden           = 353
	ReqCheckRocksDBCQWriteProgress          = 354
	ReqExportRocksDBConfigToJSON            = 355
	ReqLitePullMessage                      = 361
	ReqRecallMessage                        = 370
	ReqQueryAssignment                      = 400
	ReqSetMessageRequestMode                = 401
	ReqGetAllMessageRequestMode             = 402
	ReqUpdateAndCreateStaticTopic           = 513
	ReqGetBrokerMemberGroup                 = 901
	ReqAddBroker                            = 902
	ReqRemoveBroker                         = 903
	ReqBrokerHeartbeat                      = 904
	ReqNotifyMinBrokerIDChange              = 905
	ReqExchangeBrokerHAInfo                 = 906
	ReqGetBrokerHAStatus                    = 907
	ReqResetMasterFlushOffset               = 908
	ReqControllerAlterSyncStateSet          = 1001
	ReqControllerElectMaster                = 1002
	ReqControllerRegisterBroker             = 1003
	ReqControllerGetReplicaInfo             = 1004
	ReqControllerGetMetadataInfo            = 1005
	ReqControllerGetSyncStateData           = 1006
	ReqGetBrokerEpochCache                  = 1007
	ReqNotifyBrokerRoleChanged              = 1008
	ReqUpdateControllerConfig               = 1009
	ReqGetControllerConfig                  = 1010
	ReqCleanBrokerData                      = 1011
	ReqControllerGetNextBrokerID            = 1012
	ReqControllerApplyBrokerID              = 1013
	ReqBrokerCloseChannelRequest            = 1014
	ReqCheckNotActiveBrokerRequest          = 1015
	ReqGetBrokerLiveInfoRequest             = 1016
	ReqGetSyncStateDataRequest              = 1017
	ReqRaftBrokerHeartBeatEventRequest      = 1018
	ReqUpdateColdDataFlowCtrConfig          = 2001
	ReqRemoveColdDataFlowCtrConfig          = 2002
	ReqGetColdDataFlowCtrInfo               = 2003
	ReqSetCommitLogReadMode                 = 2004
	ReqAuthCreateUser                       = 3001
	ReqAuthUpdateUser                       = 3002
	ReqAuthDeleteUser                       = 3003
	ReqAuthGetUser                          = 3004
	ReqAuthListUser                         = 3005
	ReqAuthCreateACL                        = 3006
	ReqAuthUpdateACL                        = 3007
	ReqAuthDeleteACL                        = 3008
	ReqAuthGetACL                           = 3009
	ReqAuthListACL                          = 3010
	ReqMqctlInspect                         = 30001
	ReqMqctlRole                            = 30002
	ReqMqctlProgress                        = 30003
	ReqMqctlRelay                           = 30004
	ReqMqctlKick                            = 30005
	ReqMqctlLog                             = 30006
	ReqMqctlClean                           = 30007
	ReqPopMessage                           = 200050
	ReqAckMessage                           = 200051
	ReqPeekMessage                          = 200052
	ReqChangeMessageInvisibleTime           = 200053
	ReqNotification                         = 200054
	ReqPollingInfo                          = 200055
	ReqPopRollback                          = 200056
	ReqBatchAckMessage                      = 200151
)

// Response codes (Java classes ResponseCode and RemotingSysResponseCode).
const (
	CodeSuccess                    = 0
	CodeSystemError                = 1
	CodeSystemBusy                 = 2
	CodeRequestCodeNotSupported    = 3
	CodeTransactionFailed          = 4
	CodeFlushDiskTimeout           = 10
	CodeSlaveNotAvailable          = 11
	CodeFlushSlaveTimeout          = 12
	CodeMessageIllegal             = 13
	CodeServiceNotAvailable        = 14
	CodeVersionNotSupported        = 15
	CodeNoPermission               = 16
	CodeTopicNotExist              = 17
	CodeTopicExistAlready          = 18
	CodePullNotFound               = 19
	CodePullRetryImmediately       = 20
	CodePullOffsetMoved            = 21
	CodeQueryNotFound              = 22
	CodeSubscriptionParseFailed    = 23
	CodeSubscriptionNotExist       = 24
	CodeSubscriptionNotLatest      = 25
	CodeSubscriptionGroupNotExist  = 26
	CodeFilterDataNotExist         = 27
	CodeFilterDataNotLatest        = 28
	CodeInvalidParameter           = 29
	CodeTransactionShouldCommit    = 200
	CodeTransactionShouldRollback  = 201
	CodeTransactionStateUnknow     = 202
	CodeTransactionStateGroupWrong = 203
	CodeNoBuyerID                  = 204
	CodeNotInCurrentUnit           = 205
	CodeConsumerNotOnline          = 206
	CodeConsumeMsgTimeout          = 207
	CodeNoMessage                  = 208
	CodePollingFull                = 209
	CodePollingTimeout             = 210
	CodeBrokerNotExist             = 211
	CodeBrokerDispatchNotComplete  = 212
	CodeBroadcastConsumption       = 213
	CodeFlowControl                = 215
	CodeNotLeaderForQueue          = 501
	CodeIllegalOperation           = 604
	CodeGoAway                     = 1500
	CodeFencedMasterEpoch          = 2000
	CodeFencedSyncStateSetEpoch    = 2001
	CodeInvalidMaster              = 2002
	CodeInvalidReplicas            = 2003
	CodeMasterNotAvailable         = 2004
	CodeInvalidRequest             = 2005
	CodeBrokerNotAlive             = 2006
	CodeNotLeader                  = 2007
	CodeBrokerMetadataNotExist     = 2008
	CodeInvalidCleanBrokerMetadata = 2009
	CodeBrokerNeedToBeRegistered   = 2010
	CodeMasterStillExist           = 2011
	CodeElectMasterFailed          = 2012
	CodeAlterSyncStateSetFailed    = 2013
	CodeBrokerIDInvalid            = 2014
	CodeJraftInternalError         = 2015
	CodeBrokerLiveInfoNotExists    = 2016
	CodeUserNotExist               = 3001
	CodePolicyNotExist             = 3002
)

// RequestName is the name RocketMQ gives a request code, or its number.
func RequestName(code int) string {
	if n, ok := requestNames[code]; ok {
		return n
	}
	return strconv.Itoa(code)
}

// CodeName is the name RocketMQ gives a response code, or its number.
func CodeName(code int) string {
	if n, ok := codeNames[code]; ok {
		return n
	}
	return strconv.Itoa(code)
}

var requestNames = map[int]string{
	ReqSendMessage:                          "SEND_MESSAGE",
	ReqPullMessage:                          "PULL_MESSAGE",
	ReqQueryMessage:                         "QUERY_MESSAGE",
	ReqQueryBrokerOffset:                    "QUERY_BROKER_OFFSET",
	ReqQueryConsumerOffset:                  "QUERY_CONSUMER_OFFSET",
	ReqUpdateConsumerOffset:                 "UPDATE_CONSUMER_OFFSET",
	ReqUpdateAndCreateTopic:                 "UPDATE_AND_CREATE_TOPIC",
	ReqUpdateAndCreateTopicList:             "UPDATE_AND_CREATE_TOPIC_LIST",
	ReqGetAllTopicConfig:                    "GET_ALL_TOPIC_CONFIG",
	ReqGetTopicConfigList:                   "GET_TOPIC_CONFIG_LIST",
	ReqGetTopicNameList:                     "GET_TOPIC_NAME_LIST",
	ReqUpdateBrokerConfig:                   "UPDATE_BROKER_CONFIG",
	ReqGetBrokerConfig:                      "GET_BROKER_CONFIG",
	ReqTriggerDeleteFiles:                   "TRIGGER_DELETE_FILES",
	ReqGetBrokerRuntimeInfo:                 "GET_BROKER_RUNTIME_INFO",
	ReqSearchOffsetByTimestamp:              "SEARCH_OFFSET_BY_TIMESTAMP",
	ReqGetMaxOffset:                         "GET_MAX_OFFSET",
	ReqGetMinOffset:                         "GET_MIN_OFFSET",
	ReqGetEarliestMsgStoreTime:              "GET_EARLIEST_MSG_STORETIME",
	ReqViewMessageByID:                      "VIEW_MESSAGE_BY_ID",
	ReqHeartBeat:                            "HEART_BEAT",
	ReqUnregisterClient:                     "UNREGISTER_CLIENT",
	ReqConsumerSendMsgBack:                  "CONSUMER_SEND_MSG_BACK",
	ReqEndTransaction:                       "END_TRANSACTION",
	ReqGetConsumerListByGroup:               "GET_CONSUMER_LIST_BY_GROUP",
	ReqCheckTransactionState:                "CHECK_TRANSACTION_STATE",
	ReqNotifyConsumerIDsChanged:             "NOTIFY_CONSUMER_IDS_CHANGED",
	ReqLockBatchMQ:                          "LOCK_BATCH_MQ",
	ReqUnlockBatchMQ:                        "UNLOCK_BATCH_MQ",
	ReqGetAllConsumerOffset:                 "GET_ALL_CONSUMER_OFFSET",
	ReqGetAllDelayOffset:                    "GET_ALL_DELAY_OFFSET",
	ReqCheckClientConfig:                    "CHECK_CLIENT_CONFIG",
	ReqGetClientConfig:                      "GET_CLIENT_CONFIG",
	ReqGetTimerCheckPoint:                   "GET_TIMER_CHECK_POINT",
	ReqGetTimerMetrics:                      "GET_TIMER_METRICS",
	ReqPutKVConfig:                          "PUT_KV_CONFIG",
	ReqGetKVConfig:                          "GET_KV_CONFIG",
	ReqDeleteKVConfig:                       "DELETE_KV_CONFIG",
	ReqRegisterBroker:                       "REGISTER_BROKER",
	ReqUnregisterBroker:                     "UNREGISTER_BROKER",
	ReqGetRouteInfoByTopic:                  "GET_ROUTEINFO_BY_TOPIC",
	ReqGetBrokerClusterInfo:                 "GET_BROKER_CLUSTER_INFO",
	ReqUpdateAndCreateSubscriptionGroup:     "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
	ReqGetAllSubscriptionGroupConfig:        "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
	ReqGetTopicStatsInfo:                    "GET_TOPIC_STATS_INFO",
	ReqGetConsumerConnectionList:            "GET_CONSUMER_CONNECTION_LIST",
	ReqGetProducerConnectionList:            "GET_PRODUCER_CONNECTION_LIST",
	ReqWipeWritePermOfBroker:                "WIPE_WRITE_PERM_OF_BROKER",
	ReqGetAllTopicListFromNameserver:        "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
	ReqDeleteSubscriptionGroup:              "DELETE_SUBSCRIPTIONGROUP",
	ReqGetConsumeStats:                      "GET_CONSUME_STATS",
	ReqSuspendConsumer:                      "SUSPEND_CONSUMER",
	ReqResumeConsumer:                       "RESUME_CONSUMER",
	ReqResetConsumerOffsetInConsumer:        "RESET_CONSUMER_OFFSET_IN_CONSUMER",
	ReqResetConsumerOffsetInBroker:          "RESET_CONSUMER_OFFSET_IN_BROKER",
	ReqAdjustConsumerThreadPool:             "ADJUST_CONSUMER_THREAD_POOL",
	ReqWhoConsumeTheMessage:                 "WHO_CONSUME_THE_MESSAGE",
	ReqDeleteTopicInBroker:                  "DELETE_TOPIC_IN_BROKER",
	ReqDeleteTopicInNamesrv:                 "DELETE_TOPIC_IN_NAMESRV",
	ReqRegisterTopicInNamesrv:               "REGISTER_TOPIC_IN_NAMESRV",
	ReqGetKVListByNamespace:                 "GET_KVLIST_BY_NAMESPACE",
	ReqResetConsumerClientOffset:            "RESET_CONSUMER_CLIENT_OFFSET",
	ReqGetConsumerStatusFromClient:          "GET_CONSUMER_STATUS_FROM_CLIENT",
	ReqInvokeBrokerToResetOffset:            "INVOKE_BROKER_TO_RESET_OFFSET",
	ReqInvokeBrokerToGetConsumerStatus:      "INVOKE_BROKER_TO_GET_CONSUMER_STATUS",
	ReqGetTopicsByCluster:                   "GET_TOPICS_BY_CLUSTER",
	ReqUpdateAndCreateSubscriptionGroupList: "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST",
	ReqQueryTopicConsumeByWho:               "QUERY_TOPIC_CONSUME_BY_WHO",
	ReqRegisterFilterServer:                 "REGISTER_FILTER_SERVER",
	ReqRegisterMessageFilterClass:           "REGISTER_MESSAGE_FILTER_CLASS",
	ReqQueryConsumeTimeSpan:                 "QUERY_CONSUME_TIME_SPAN",
	ReqGetSystemTopicListFromNS:             "GET_SYSTEM_TOPIC_LIST_FROM_NS",
	ReqGetSystemTopicListFromBroker:         "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
	ReqCleanExpiredConsumeQueue:             "CLEAN_EXPIRED_CONSUMEQUEUE",
	ReqGetConsumerRunningInfo:               "GET_CONSUMER_RUNNING_INFO",
	ReqQueryCorrectionOffset:                "QUERY_CORRECTION_OFFSET",
	ReqConsumeMessageDirectly:               "CONSUME_MESSAGE_DIRECTLY",
	ReqSendMessageV2:                        "SEND_MESSAGE_V2",
	ReqGetUnitTopicList:                     "GET_UNIT_TOPIC_LIST",
	ReqGetHasUnitSubTopicList:               "GET_HAS_UNIT_SUB_TOPIC_LIST",
	ReqGetHasUnitSubUnunitTopicList:         "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST",
	ReqCloneGroupOffset:                     "CLONE_GROUP_OFFSET",
	ReqViewBrokerStatsData:                  "VIEW_BROKER_STATS_DATA",
	ReqCleanUnusedTopic:                     "CLEAN_UNUSED_TOPIC",
	ReqGetBrokerConsumeStats:                "GET_BROKER_CONSUME_STATS",
	ReqUpdateNamesrvConfig:                  "UPDATE_NAMESRV_CONFIG",
	ReqGetNamesrvConfig:                     "GET_NAMESRV_CONFIG",
	ReqSendBatchMessage:                     "SEND_BATCH_MESSAGE",
	ReqQueryConsumeQueue:                    "QUERY_CONSUME_QUEUE",
	ReqQueryDataVersion:                     "QUERY_DATA_VERSION",
	ReqResumeCheckHalfMessage:               "RESUME_CHECK_HALF_MESSAGE",
	ReqSendReplyMessage:                     "SEND_REPLY_MESSAGE",
	ReqSendReplyMessageV2:                   "SEND_REPLY_MESSAGE_V2",
	ReqPushReplyMessageToClient:             "PUSH_REPLY_MESSAGE_TO_CLIENT",
	ReqAddWritePermOfBroker:                 "ADD_WRITE_PERM_OF_BROKER",
	ReqGetAllProducerInfo:                   "GET_ALL_PRODUCER_INFO",
	ReqDeleteExpiredCommitLog:               "DELETE_EXPIRED_COMMITLOG",
	ReqQueryTopicsByConsumer:                "QUERY_TOPICS_BY_CONSUMER",
	ReqQuerySubscriptionByConsumer:          "QUERY_SUBSCRIPTION_BY_CONSUMER",
	ReqGetTopicConfig:                       "GET_TOPIC_CONFIG",
	ReqGetSubscriptionGroupConfig:           "GET_SUBSCRIPTIONGROUP_CONFIG",
	ReqUpdateAndGetGroupForbidden:           "UPDATE_AND_GET_GROUP_FORBIDDEN",
	ReqCheckRocksDBCQWriteProgress:          "CHECK_ROCKSDB_CQ_WRITE_PROGRESS",
	ReqExportRocksDBConfigToJSON:            "EXPORT_ROCKSDB_CONFIG_TO_JSON",
	ReqLitePullMessage:                      "LITE_PULL_MESSAGE",
	ReqRecallMessage:                        "RECALL_MESSAGE",
	ReqQueryAssignment:                      "QUERY_ASSIGNMENT",
	ReqSetMessageRequestMode:                "SET_MESSAGE_REQUEST_MODE",
	ReqGetAllMessageRequestMode:             "GET_ALL_MESSAGE_REQUEST_MODE",
	ReqUpdateAndCreateStaticTopic:           "UPDATE_AND_CREATE_STATIC_TOPIC",
	ReqGetBrokerMemberGroup:                 "GET_BROKER_MEMBER_GROUP",
	ReqAddBroker:                            "ADD_BROKER",
	ReqRemoveBroker:                         "REMOVE_BROKER",
	ReqBrokerHeartbeat:                      "BROKER_HEARTBEAT",
	ReqNotifyMinBrokerIDChange:              "NOTIFY_MIN_BROKER_ID_CHANGE",
	ReqExchangeBrokerHAInfo:                 "EXCHANGE_BROKER_HA_INFO",
	ReqGetBrokerHAStatus:                    "GET_BROKER_HA_STATUS",
	ReqResetMasterFlushOffset:               "RESET_MASTER_FLUSH_OFFSET",
	ReqControllerAlterSyncStateSet:          "CONTROLLER_ALTER_SYNC_STATE_SET",
	ReqControllerElectMaster:                "CONTROLLER_ELECT_MASTER",
	ReqControllerRegisterBroker:             "CONTROLLER_REGISTER_BROKER",
	ReqControllerGetReplicaInfo:             "CONTROLLER_GET_REPLICA_INFO",
	ReqControllerGetMetadataInfo:            "CONTROLLER_GET_METADATA_INFO",
	ReqControllerGetSyncStateData:           "CONTROLLER_GET_SYNC_STATE_DATA",
	ReqGetBrokerEpochCache:                  "GET_BROKER_EPOCH_CACHE",
	ReqNotifyBrokerRoleChanged:              "NOTIFY_BROKER_ROLE_CHANGED",
	ReqUpdateControllerConfig:               "UPDATE_CONTROLLER_CONFIG",
	ReqGetControllerConfig:                  "GET_CONTROLLER_CONFIG",
	ReqCleanBrokerData:                      "CLEAN_BROKER_DATA",
	ReqControllerGetNextBrokerID:            "CONTROLLER_GET_NEXT_BROKER_ID",
	ReqControllerApplyBrokerID:              "CONTROLLER_APPLY_BROKER_ID",
	ReqBrokerCloseChannelRequest:            "BROKER_CLOSE_CHANNEL_REQUEST",
	ReqCheckNotActiveBrokerRequest:          "CHECK_NOT_ACTIVE_BROKER_REQUEST",
	ReqGetBrokerLiveInfoRequest:             "GET_BROKER_LIVE_INFO_REQUEST",
	ReqGetSyncStateDataRequest:              "GET_SYNC_STATE_DATA_REQUEST",
	ReqRaftBrokerHeartBeatEventRequest:      "RAFT_BROKER_HEART_BEAT_EVENT_REQUEST",
	ReqUpdateColdDataFlowCtrConfig:          "UPDATE_COLD_DATA_FLOW_CTR_CONFIG",
	ReqRemoveColdDataFlowCtrConfig:          "REMOVE_COLD_DATA_FLOW_CTR_CONFIG",
	ReqGetColdDataFlowCtrInfo:               "GET_COLD_DATA_FLOW_CTR_INFO",
	ReqSetCommitLogReadMode:                 "SET_COMMITLOG_READ_MODE",
	ReqAuthCreateUser:                       "AUTH_CREATE_USER",
	ReqAuthUpdateUser:                       "AUTH_UPDATE_USER",
	ReqAuthDeleteUser:                       "AUTH_DELETE_USER",
	ReqAuthGetUser:                          "AUTH_GET_USER",
	ReqAuthListUser:                         "AUTH_LIST_USER",
	ReqAuthCreateACL:                        "AUTH_CREATE_ACL",
	ReqAuthUpdateACL:                        "AUTH_UPDATE_ACL",
	ReqAuthDeleteACL:                        "AUTH_DELETE_ACL",
	ReqAuthGetACL:                           "AUTH_GET_ACL",
	ReqAuthListACL:                          "AUTH_LIST_ACL",
	ReqMqctlInspect:                         "MQCTL_INSPECT",
	ReqMqctlRole:                            "MQCTL_ROLE",
	ReqMqctlProgress:                        "MQCTL_PROGRESS",
	ReqMqctlRelay:                           "MQCTL_RELAY",
	ReqMqctlKick:                            "MQCTL_KICK",
	ReqMqctlLog:                             "MQCTL_LOG",
	ReqMqctlClean:                           "MQCTL_CLEAN",
	ReqPopMessage:                           "POP_MESSAGE",
	ReqAckMessage:                           "ACK_MESSAGE",
	ReqPeekMessage:                          "PEEK_MESSAGE",
	ReqChangeMessageInvisibleTime:           "CHANGE_MESSAGE_INVISIBLETIME",
	ReqNotification:                         "NOTIFICATION",
	ReqPollingInfo:                          "POLLING_INFO",
	ReqPopRollback:                          "POP_ROLLBACK",
	ReqBatchAckMessage:                      "BATCH_ACK_MESSAGE",
}

// OverloadMark begins the remark of SYSTEM_BUSY where it means flow control, as in
// RocketMQ (BrokerFastFailure).
const OverloadMark = "[OVERLOAD]"

var codeNames = map[int]string{
	CodeSuccess:                    "SUCCESS",
	CodeSystemError:                "SYSTEM_ERROR",
	CodeSystemBusy:                 "SYSTEM_BUSY",
	CodeRequestCodeNotSupported:    "REQUEST_CODE_NOT_SUPPORTED",
	CodeTransactionFailed:          "TRANSACTION_FAILED",
	CodeFlushDiskTimeout:           "FLUSH_DISK_TIMEOUT",
	CodeSlaveNotAvailable:          "SLAVE_NOT_AVAILABLE",
	CodeFlushSlaveTimeout:          "FLUSH_SLAVE_TIMEOUT",
	CodeMessageIllegal:             "MESSAGE_ILLEGAL",
	CodeServiceNotAvailable:        "SERVICE_NOT_AVAILABLE",
	CodeVersionNotSupported:        "VERSION_NOT_SUPPORTED",
	CodeNoPermission:               "NO_PERMISSION",
	CodeTopicNotExist:              "TOPIC_NOT_EXIST",
	CodeTopicExistAlready:          "TOPIC_EXIST_ALREADY",
	CodePullNotFound:               "PULL_NOT_FOUND",
	CodePullRetryImmediately:       "PULL_RETRY_IMMEDIATELY",
	CodePullOffsetMoved:            "PULL_OFFSET_MOVED",
	CodeQueryNotFound:              "QUERY_NOT_FOUND",
	CodeSubscriptionParseFailed:    "SUBSCRIPTION_PARSE_FAILED",
	CodeSubscriptionNotExist:       "SUBSCRIPTION_NOT_EXIST",
	CodeSubscriptionNotLatest:      "SUBSCRIPTION_NOT_LATEST",
	CodeSubscriptionGroupNotExist:  "SUBSCRIPTION_GROUP_NOT_EXIST",
	CodeFilterDataNotExist:         "FILTER_DATA_NOT_EXIST",
	CodeFilterDataNotLatest:        "FILTER_DATA_NOT_LATEST",
	CodeInvalidParameter:           "INVALID_PARAMETER",
	CodeTransactionShouldCommit:    "TRANSACTION_SHOULD_COMMIT",
	CodeTransactionShouldRollback:  "TRANSACTION_SHOULD_ROLLBACK",
	CodeTransactionStateUnknow:     "TRANSACTION_STATE_UNKNOW",
	CodeTransactionStateGroupWrong: "TRANSACTION_STATE_GROUP_WRONG",
	CodeNoBuyerID:                  "NO_BUYER_ID",
	CodeNotInCurrentUnit:           "NOT_IN_CURRENT_UNIT",
	CodeConsumerNotOnline:          "CONSUMER_NOT_ONLINE",
	CodeConsumeMsgTimeout:          "CONSUME_MSG_TIMEOUT",
	CodeNoMessage:                  "NO_MESSAGE",
	CodePollingFull:                "POLLING_FULL",
	CodePollingTimeout:             "POLLING_TIMEOUT",
	CodeBrokerNotExist:             "BROKER_NOT_EXIST",
	CodeBrokerDispatchNotComplete:  "BROKER_DISPATCH_NOT_COMPLETE",
	CodeBroadcastConsumption:       "BROADCAST_CONSUMPTION",
	CodeFlowControl:                "FLOW_CONTROL",
	CodeNotLeaderForQueue:          "NOT_LEADER_FOR_QUEUE",
	CodeIllegalOperation:           "ILLEGAL_OPERATION",
	CodeGoAway:                     "GO_AWAY",
	CodeFencedMasterEpoch:          "FENCED_MASTER_EPOCH",
	CodeFencedSyncStateSetEpoch:    "FENCED_SYNC_STATE_SET_EPOCH",
	CodeInvalidMaster:              "INVALID_MASTER",
	CodeInvalidReplicas:            "INVALID_REPLICAS",
	CodeMasterNotAvailable:         "MASTER_NOT_AVAILABLE",
	CodeInvalidRequest:             "INVALID_REQUEST",
	CodeBrokerNotAlive:             "BROKER_NOT_ALIVE",
	CodeNotLeader:                  "NOT_LEADER",
	CodeBrokerMetadataNotExist:     "BROKER_METADATA_NOT_EXIST",
	CodeInvalidCleanBrokerMetadata: "INVALID_CLEAN_BROKER_METADATA",
	CodeBrokerNeedToBeRegistered:   "BROKER_NEED_TO_BE_REGISTERED",
	CodeMasterStillExist:           "MASTER_STILL_EXIST",
	CodeElectMasterFailed:          "ELECT_MASTER_FAILED",
	CodeAlterSyncStateSetFailed:    "ALTER_SYNC_STATE_SET_FAILED",
	CodeBrokerIDInvalid:            "BROKER_ID_INVALID",
	CodeJraftInternalError:         "JRAFT_INTERNAL_ERROR",
	CodeBrokerLiveInfoNotExists:    "BROKER_LIVE_INFO_NOT_EXISTS",
	CodeUserNotExist:               "USER_NOT_EXIST",
	CodePolicyNotExist:             "POLICY_NOT_EXIST",
}

// RequestCodes lists every request code that has a name.
func RequestCodes() []int { return sortedCodes(requestNames) }

// ResponseCodes lists every response code that has a name.
func ResponseCodes() []int { return sortedCodes(codeNames) }

func sortedCodes(names map[int]string) []int {
	return slices.Sorted(maps.Keys(names))
}
