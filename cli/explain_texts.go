package cli

import "strings"

// requestTexts says what each request of the protocol asks for: NAME | sentence.
const requestTexts = `
SEND_MESSAGE | Stores one message; clients of today send SEND_MESSAGE_V2.
PULL_MESSAGE | Reads messages of one queue from an offset on; the broker may hold the request until there are some.
QUERY_MESSAGE | Finds messages of a topic by key or unique id.
QUERY_BROKER_OFFSET | Asks for the offset of a queue; no broker of today serves it.
QUERY_CONSUMER_OFFSET | Reads how far a group has come in one queue.
UPDATE_CONSUMER_OFFSET | Notes how far a group has come in one queue.
UPDATE_AND_CREATE_TOPIC | Creates a topic at a broker, or overwrites all of its settings.
UPDATE_AND_CREATE_TOPIC_LIST | Does that for many topics at once.
GET_ALL_TOPIC_CONFIG | Reads the settings of all topics of a broker.
GET_TOPIC_CONFIG_LIST | An older form of reading topics.
GET_TOPIC_NAME_LIST | An older form of listing topics.
UPDATE_BROKER_CONFIG | Changes settings of a running broker.
GET_BROKER_CONFIG | Reads all settings of a broker.
TRIGGER_DELETE_FILES | Asks a broker to remove old files; no broker of today serves it.
GET_BROKER_RUNTIME_INFO | Reads counters, offsets and load of a broker.
SEARCH_OFFSET_BY_TIMESTAMP | Finds the offset of a queue at a moment.
GET_MAX_OFFSET | Reads the end of a queue.
GET_MIN_OFFSET | Reads the beginning of a queue.
GET_EARLIEST_MSG_STORETIME | Reads when the oldest message of a queue was stored.
VIEW_MESSAGE_BY_ID | Reads one message at a position of the commit log.
HEART_BEAT | A client says that it lives, with its groups and subscriptions.
UNREGISTER_CLIENT | A client says goodbye.
CONSUMER_SEND_MSG_BACK | Gives a message back that was not consumed; it comes again later or goes to the dead letters.
END_TRANSACTION | Commits or rolls back a transactional message.
GET_CONSUMER_LIST_BY_GROUP | Lists the clients of a group, so that they can share the queues.
CHECK_TRANSACTION_STATE | The broker asks a producer what became of a transaction.
NOTIFY_CONSUMER_IDS_CHANGED | The broker tells consumers that the members of their group have changed.
LOCK_BATCH_MQ | Locks queues for orderly consumption.
UNLOCK_BATCH_MQ | Gives such locks back.
GET_ALL_CONSUMER_OFFSET | A slave copies the offsets of all groups.
GET_ALL_DELAY_OFFSET | A slave copies how far delayed messages have come.
CHECK_CLIENT_CONFIG | A client asks whether a subscription can be understood.
GET_CLIENT_CONFIG | Asks for a client's settings; no broker of today serves it.
GET_TIMER_CHECK_POINT | A slave copies the state of the timer.
GET_TIMER_METRICS | A slave copies the counters of the timer.
PUT_KV_CONFIG | Writes a value of the nameserver's key table.
GET_KV_CONFIG | Reads a value of the nameserver's key table.
DELETE_KV_CONFIG | Removes a value of the nameserver's key table.
REGISTER_BROKER | A broker tells a nameserver its address, role and topics.
UNREGISTER_BROKER | A broker leaves a nameserver.
GET_ROUTEINFO_BY_TOPIC | Asks a nameserver which brokers have a topic.
GET_BROKER_CLUSTER_INFO | Asks a nameserver for all brokers and clusters.
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP | Creates a consumer group at a broker, or overwrites all of its settings.
GET_ALL_SUBSCRIPTIONGROUP_CONFIG | Reads the settings of all groups of a broker.
GET_TOPIC_STATS_INFO | Reads the first and last offset of each queue of a topic.
GET_CONSUMER_CONNECTION_LIST | Lists the connections and subscriptions of a group.
GET_PRODUCER_CONNECTION_LIST | Lists the connections of a producer group.
WIPE_WRITE_PERM_OF_BROKER | Takes the right to write from a broker in the routes of a nameserver.
GET_ALL_TOPIC_LIST_FROM_NAMESERVER | Lists the topics that a nameserver knows.
DELETE_SUBSCRIPTIONGROUP | Removes a consumer group from a broker.
GET_CONSUME_STATS | Reads how far a group has come in each queue, and the queue's end.
SUSPEND_CONSUMER | Asks a client to stop consuming; no broker of today serves it.
RESUME_CONSUMER | Asks a client to go on; no broker of today serves it.
RESET_CONSUMER_OFFSET_IN_CONSUMER | An older form of moving a group.
RESET_CONSUMER_OFFSET_IN_BROKER | An older form of moving a group.
ADJUST_CONSUMER_THREAD_POOL | Asks a client for more or fewer threads; no broker of today serves it.
WHO_CONSUME_THE_MESSAGE | Asks which groups have consumed a message; no broker of today serves it.
DELETE_TOPIC_IN_BROKER | Removes a topic from a broker.
DELETE_TOPIC_IN_NAMESRV | Removes a topic from the routes of a nameserver.
REGISTER_TOPIC_IN_NAMESRV | Writes a topic into the routes of a nameserver.
GET_KVLIST_BY_NAMESPACE | Lists the values of one namespace of the nameserver's key table.
RESET_CONSUMER_CLIENT_OFFSET | The broker tells a client to continue at other offsets.
GET_CONSUMER_STATUS_FROM_CLIENT | The broker asks a client how far it has come.
INVOKE_BROKER_TO_RESET_OFFSET | Moves a group to a moment, with its clients online.
INVOKE_BROKER_TO_GET_CONSUMER_STATUS | Asks a broker to ask the clients of a group how far they have come.
GET_TOPICS_BY_CLUSTER | Lists the topics of one cluster at a nameserver.
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST | Creates or overwrites many groups at once.
QUERY_TOPIC_CONSUME_BY_WHO | Lists the groups that consume a topic.
REGISTER_FILTER_SERVER | Belongs to filter servers, which are gone.
REGISTER_MESSAGE_FILTER_CLASS | Belongs to filter servers, which are gone.
QUERY_CONSUME_TIME_SPAN | Reads between which moments a group's backlog lies.
GET_SYSTEM_TOPIC_LIST_FROM_NS | Lists the system topics that a nameserver knows.
GET_SYSTEM_TOPIC_LIST_FROM_BROKER | Lists the system topics of a broker.
CLEAN_EXPIRED_CONSUMEQUEUE | Removes consume queue files that point before the commit log.
GET_CONSUMER_RUNNING_INFO | Asks a client, by way of the broker, about itself.
QUERY_CORRECTION_OFFSET | Compares the offsets of groups on a topic.
CONSUME_MESSAGE_DIRECTLY | Hands one message to one client, by way of the broker.
SEND_MESSAGE_V2 | Stores one message; the header has short names.
GET_UNIT_TOPIC_LIST | Lists topics that belong to a unit.
GET_HAS_UNIT_SUB_TOPIC_LIST | Lists topics with subscriptions of a unit.
GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST | Lists topics outside of units with subscriptions of one.
CLONE_GROUP_OFFSET | Copies the offsets of one group to another.
VIEW_BROKER_STATS_DATA | Reads one counter of a broker by minute, hour and day.
CLEAN_UNUSED_TOPIC | Removes consume queues of topics that do not exist.
GET_BROKER_CONSUME_STATS | Reads the backlog of all groups of a broker.
UPDATE_NAMESRV_CONFIG | Changes settings of a nameserver.
GET_NAMESRV_CONFIG | Reads the settings of a nameserver.
SEND_BATCH_MESSAGE | Stores several messages of one topic.
QUERY_CONSUME_QUEUE | Reads raw entries of a consume queue.
QUERY_DATA_VERSION | A broker asks a nameserver whether it has news for it.
RESUME_CHECK_HALF_MESSAGE | Asks again what became of a transaction that was given up.
SEND_REPLY_MESSAGE | Sends the reply to a request made by a message.
SEND_REPLY_MESSAGE_V2 | The same with short names in the header.
PUSH_REPLY_MESSAGE_TO_CLIENT | The broker hands a reply to the client that waits for it.
ADD_WRITE_PERM_OF_BROKER | Gives a broker the right to write back in the routes of a nameserver.
GET_ALL_PRODUCER_INFO | Lists all producers of a broker.
DELETE_EXPIRED_COMMITLOG | Removes commit log files past retention now.
QUERY_TOPICS_BY_CONSUMER | Lists the topics that a group consumes.
QUERY_SUBSCRIPTION_BY_CONSUMER | Reads a group's subscription to a topic.
GET_TOPIC_CONFIG | Reads the settings of one topic.
GET_SUBSCRIPTIONGROUP_CONFIG | Reads the settings of one group; RocketMQ creates the group when it is not there.
UPDATE_AND_GET_GROUP_FORBIDDEN | Forbids a group to read a topic, or asks whether it is.
CHECK_ROCKSDB_CQ_WRITE_PROGRESS | Compares consume queues in files with those in RocksDB.
EXPORT_ROCKSDB_CONFIG_TO_JSON | Writes a configuration that lies in RocksDB as JSON.
LITE_PULL_MESSAGE | A pull of a consumer without a group's coordination.
RECALL_MESSAGE | Takes a delayed message back.
QUERY_ASSIGNMENT | Asks the broker which queues a client gets.
SET_MESSAGE_REQUEST_MODE | Chooses pull or pop for a group on a topic.
GET_ALL_MESSAGE_REQUEST_MODE | A slave copies these choices.
UPDATE_AND_CREATE_STATIC_TOPIC | Creates or changes a topic with logical queues.
GET_BROKER_MEMBER_GROUP | Asks a nameserver for all replicas of a broker name.
ADD_BROKER | Adds a broker to a process that holds several.
REMOVE_BROKER | Removes a broker from such a process.
BROKER_HEARTBEAT | A broker says that it lives.
NOTIFY_MIN_BROKER_ID_CHANGE | A nameserver says which replica of a name is the lowest that lives.
EXCHANGE_BROKER_HA_INFO | Master and slave tell each other their replication addresses and offsets.
GET_BROKER_HA_STATUS | Reads the state of a broker's replication connections.
RESET_MASTER_FLUSH_OFFSET | Tells a slave up to where its master has flushed.
CONTROLLER_ALTER_SYNC_STATE_SET | A master changes its in-sync set at the controller.
CONTROLLER_ELECT_MASTER | Asks the controller for a master.
CONTROLLER_REGISTER_BROKER | A replica registers at the controller.
CONTROLLER_GET_REPLICA_INFO | Reads the replicas of a name at the controller.
CONTROLLER_GET_METADATA_INFO | Reads the controller's leader and members.
CONTROLLER_GET_SYNC_STATE_DATA | Reads the in-sync sets at the controller.
GET_BROKER_EPOCH_CACHE | Reads the epochs of a broker's log.
NOTIFY_BROKER_ROLE_CHANGED | The controller tells a replica its new role.
UPDATE_CONTROLLER_CONFIG | Changes settings of the controller.
GET_CONTROLLER_CONFIG | Reads the settings of the controller.
CLEAN_BROKER_DATA | Removes replicas from the controller.
CONTROLLER_GET_NEXT_BROKER_ID | Asks the controller for the next free id of a name.
CONTROLLER_APPLY_BROKER_ID | Takes that id.
BROKER_CLOSE_CHANNEL_REQUEST | An event inside the controller: a broker's connection is gone.
CHECK_NOT_ACTIVE_BROKER_REQUEST | An event inside the controller: look for silent brokers.
GET_BROKER_LIVE_INFO_REQUEST | A question inside the controller: which brokers live.
GET_SYNC_STATE_DATA_REQUEST | A question inside the controller: the in-sync sets.
RAFT_BROKER_HEART_BEAT_EVENT_REQUEST | An event inside the controller: a broker lives.
UPDATE_COLD_DATA_FLOW_CTR_CONFIG | Sets how much of old data a group may read.
REMOVE_COLD_DATA_FLOW_CTR_CONFIG | Takes that limit away.
GET_COLD_DATA_FLOW_CTR_INFO | Reads these limits and what was read.
SET_COMMITLOG_READ_MODE | Chooses how the system reads the commit log ahead.
AUTH_CREATE_USER | Creates a user.
AUTH_UPDATE_USER | Changes a user's password, type or state.
AUTH_DELETE_USER | Removes a user.
AUTH_GET_USER | Reads one user.
AUTH_LIST_USER | Lists users.
AUTH_CREATE_ACL | Creates a rule of access.
AUTH_UPDATE_ACL | Changes a rule of access.
AUTH_DELETE_ACL | Removes rules of access.
AUTH_GET_ACL | Reads the rules of one subject.
AUTH_LIST_ACL | Lists rules of access.
MQCTL_INSPECT | Ours: reads what RocketMQ has no request for, such as gaps in bytes and time.
MQCTL_ROLE | Ours: the steps of a planned or forced change of roles.
MQCTL_PROGRESS | Ours: replicas tell each other how far groups and delayed messages have come.
MQCTL_RELAY | Ours: a former master or a slave hands a write to the master.
MQCTL_KICK | Ours: closes the connection of a client.
MQCTL_LOG | Ours: reads the log of a broker.
MQCTL_CLEAN | Ours: removes old or orphaned files of a broker and says which.
POP_MESSAGE | Reads messages that stay invisible to others until they are acknowledged.
ACK_MESSAGE | Acknowledges a message read so.
PEEK_MESSAGE | Looks at messages without taking them.
CHANGE_MESSAGE_INVISIBLETIME | Keeps such a message invisible for longer.
NOTIFICATION | Waits until there are messages to read so.
POLLING_INFO | Asks how many such requests are held.
POP_ROLLBACK | Makes messages that were read so and not acknowledged visible again.
BATCH_ACK_MESSAGE | Acknowledges several messages read so.
`

// responseTexts says what each answer means and what to do.
const responseTexts = `
SUCCESS | Done.
SYSTEM_ERROR | The server could not do it; the remark says why.
SYSTEM_BUSY | The server has too much to do at the moment; clients try again elsewhere.
REQUEST_CODE_NOT_SUPPORTED | The server does not know this request; another version of it may.
TRANSACTION_FAILED | The transaction was not stored.
FLUSH_DISK_TIMEOUT | The message is stored, and was not on the disk in time.
SLAVE_NOT_AVAILABLE | The message is stored at the master, and no slave was there to take it.
FLUSH_SLAVE_TIMEOUT | The message is stored at the master, and the slaves did not have it in time.
MESSAGE_ILLEGAL | The message breaks a rule, such as the largest size; it was not stored.
SERVICE_NOT_AVAILABLE | The broker takes no messages now: it is a slave, shutting down, or its disk is full.
VERSION_NOT_SUPPORTED | The client is too old or too new for this server.
NO_PERMISSION | The broker, topic or group does not allow it, or the key may not.
TOPIC_NOT_EXIST | There is no such topic at this server.
TOPIC_EXIST_ALREADY | The topic exists and may not be created again.
PULL_NOT_FOUND | Nothing new to read.
PULL_RETRY_IMMEDIATELY | Nothing that fits the filter here; the client reads on at once.
PULL_OFFSET_MOVED | The offset is not there; the answer says where to go on.
QUERY_NOT_FOUND | Nothing was found.
SUBSCRIPTION_PARSE_FAILED | The filter cannot be understood.
SUBSCRIPTION_NOT_EXIST | The broker knows no subscription of this group to the topic.
SUBSCRIPTION_NOT_LATEST | The broker has an older subscription of this client; the next heartbeat mends it.
SUBSCRIPTION_GROUP_NOT_EXIST | There is no such consumer group at this broker.
FILTER_DATA_NOT_EXIST | The filter of this client is not known to the broker.
FILTER_DATA_NOT_LATEST | The broker has an older filter of this client.
INVALID_PARAMETER | A value of the request is not possible.
TRANSACTION_SHOULD_COMMIT | The producer says: commit.
TRANSACTION_SHOULD_ROLLBACK | The producer says: roll back.
TRANSACTION_STATE_UNKNOW | The producer does not know yet.
TRANSACTION_STATE_GROUP_WRONG | Another group of producers made this transaction.
NO_BUYER_ID | Left over from an older use of the protocol.
NOT_IN_CURRENT_UNIT | The topic belongs to another unit.
CONSUMER_NOT_ONLINE | No client of the group is connected.
CONSUME_MSG_TIMEOUT | The client did not consume the message in time.
NO_MESSAGE | There is no message.
POLLING_FULL | The broker holds too many requests already.
POLLING_TIMEOUT | The request was held for as long as it asked; nothing came.
BROKER_NOT_EXIST | There is no such broker.
BROKER_DISPATCH_NOT_COMPLETE | The broker is not ready: its queues are still being built.
BROADCAST_CONSUMPTION | The group gets every message at every client, so it has no offset at the broker.
FLOW_CONTROL | Too many requests; the client slows down.
NOT_LEADER_FOR_QUEUE | Another broker leads this logical queue.
ILLEGAL_OPERATION | The operation is not possible here.
GO_AWAY | The server closes down; the client connects anew elsewhere.
FENCED_MASTER_EPOCH | The master is an old one.
FENCED_SYNC_STATE_SET_EPOCH | The in-sync set is an old one.
INVALID_MASTER | This replica is not the master.
INVALID_REPLICAS | These are not the replicas of this name.
MASTER_NOT_AVAILABLE | There is no master now.
INVALID_REQUEST | The controller cannot make sense of the request.
BROKER_NOT_ALIVE | The broker has gone silent.
NOT_LEADER | This controller is not the leader.
BROKER_METADATA_NOT_EXIST | The controller does not know this broker.
INVALID_CLEAN_BROKER_METADATA | These replicas cannot be removed.
BROKER_NEED_TO_BE_REGISTERED | The broker must register first.
MASTER_STILL_EXIST | The master lives; no other is elected.
ELECT_MASTER_FAILED | No replica can become the master.
ALTER_SYNC_STATE_SET_FAILED | The in-sync set was not changed.
BROKER_ID_INVALID | This id is not possible.
JRAFT_INTERNAL_ERROR | The controllers could not agree.
BROKER_LIVE_INFO_NOT_EXISTS | The controller knows nothing of this broker's life.
USER_NOT_EXIST | There is no such user.
POLICY_NOT_EXIST | There is no such rule.
`

// tableText finds a name in one of the tables above.
func tableText(table, name string) string {
	for line := range strings.Lines(table) {
		if key, text, ok := strings.Cut(strings.TrimSpace(line), " | "); ok && key == name {
			return text
		}
	}
	return ""
}
