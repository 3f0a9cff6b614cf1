package cli

import "strings"

// absentOldTable are the mqadmin commands that are not built yet, one a line:
// name | options | modern twin | summary. An option is letter/longName with *
// when mqadmin demands it and ! when it takes no value. The front door reads
// their command lines in full, so that a typing error is told from an absence.
const absentOldTable = `
updateStaticTopic | c/clusters b/brokers t/topic* qn/totalQueueNum* mf/mapFile fr/forceReplace | topic static set | create or resize a static topic
remappingStaticTopic | c/clusters b/brokers t/topic* mf/mapFile fr/forceReplace | topic static remap | move logical queues between brokers
checkRocksdbCqWriteProgress | c/cluster* t/topic cf/checkFrom |  | compare file and RocksDB consume queues
brokerConsumeStats | b/brokerAddr* t/timeoutMillis l/level o/order | stats lag --broker B --min N | backlog of everything on one broker
startMonitoring |  | check lag --watch | watch backlog and dead letters without end
getSyncStateSet | a/controllerAddress* c/clusterName b/brokerName i/interval | ha syncset | in-sync set of a controller
getBrokerEpoch | c/clusterName b/brokerName i/interval | ha epoch | epochs of a broker
setCommitLogReadAheadMode | b/brokerAddr c/clusterName m/commitLogReadAheadMode* | broker config set | read-ahead of the commit log
getColdDataFlowCtrInfo | b/brokerAddr c/clusterName | broker cold get | cold read control table
updateColdDataFlowCtrGroupConfig | b/brokerAddr c/clusterName g/consumerGroup* v/threshold* | broker cold set | cold read threshold of a group
removeColdDataFlowCtrGroupConfig | b/brokerAddr c/clusterName g/consumerGroup* | broker cold delete | remove a cold read threshold
addBroker | c/brokerContainerAddr* b/brokerConfigPath* | broker start | add a broker to a container
removeBroker | c/brokerContainerAddr* b/brokerIdentity* | broker stop | remove a broker from a container
sendMsgStatus | b/brokerName* s/messageSize c/count | bench send | send test messages to one broker
checkMsgSendRT | t/topic* a/amount s/size | bench rtt | send latency per queue
clusterRT | a/amount s/size c/cluster p/print_log m/machine_room i/interval | bench rtt --watch | send latency of clusters, without end
exportPopRecord | c/clusterName b/brokerAddr d/dryRun |  | roll pop records back
exportMetrics | c/clusterName* f/filePath | debug bundle | metrics of a cluster to a file
getNamesrvConfig |  | nameserver config get | properties of nameservers
updateNamesrvConfig | k/key* v/value* | nameserver config set | set a property of nameservers
getControllerMetaData | a/controllerAddress* | controller status | controller leader and peers
getControllerConfig | a/controllerAddress* | controller config get | controller properties
updateControllerConfig | a/controllerAddress* k/key* v/value* | controller config set | set a controller property
electMaster | a/controllerAddress* b/brokerId* bn/brokerName* c/clusterName* | ha promote | make one replica the master
cleanBrokerMetadata | a/controllerAddress* b/brokerControllerIdsToClean bn/brokerName* c/clusterName l/cleanLivingBroker! | controller clean | remove replicas from a controller
exportMetadataInRocksDB | p/path* t/configType* j/jsonEnable | config import | read a RocksDB configuration folder
rocksDBConfigToJson | t/configType p/configPath e/exportFile j/jsonEnable c/cluster b/brokerAddr | config import | RocksDB configuration as JSON
createUser | c/clusterName b/brokerAddr u/username* p/password* t/userType | user create | create a user
updateUser | c/clusterName b/brokerAddr u/username* p/password t/userType s/userStatus | user set | change a user
deleteUser | c/clusterName b/brokerAddr u/username* | user delete | delete a user
getUser | b/brokerAddr c/clusterName u/username | user get | show a user
listUser | b/brokerAddr c/clusterName f/filter | user list | list users
copyUser | f/fromBroker* t/toBroker* u/usernames | user copy | copy users between brokers
createAcl | c/clusterName b/brokerAddr s/subject* r/resources* a/actions* i/sourceIp d/decision* | acl create | create an access rule
updateAcl | c/clusterName b/brokerAddr s/subject* r/resources* a/actions* d/decision* i/sourceIp | acl set | change an access rule
deleteAcl | c/clusterName b/brokerAddr s/subject* r/resources | acl delete | delete an access rule
getAcl | b/brokerAddr c/clusterName s/subject | acl get | access rules of a subject
listAcl | b/brokerAddr c/clusterName s/subject r/resource | acl list | list access rules
copyAcl | f/fromBroker* t/toBroker* s/subjects | acl copy | copy access rules between brokers
`

// absentTreeTable are the commands of the modern tree that are not built yet.
const absentTreeTable = `
broker logs | log of a broker
broker cold get | cold read control table
broker cold set | cold read threshold of a group
broker cold delete | remove a cold read threshold
nameserver config get | properties of nameservers
nameserver config set | set a property of nameservers
cluster health | one verdict and its reasons
cluster route-check | do all nameservers tell the same
ha syncset | in-sync set of a controller
ha epoch | epochs of a broker
topic static set | create or resize a static topic
topic static remap | move logical queues between brokers
stats latency | put and pull percentiles
events | stream of changes
check broker | brokers for monitoring
check lag | backlog for monitoring
check disk | disks for monitoring
check drift | differences between masters
check all | all checks
wait lag | wait for a backlog
wait topic | wait for a topic
wait group | wait for a group
bench send | measure sending
bench consume | measure consuming
bench rtt | measure round trips
user create | create a user
user set | change a user
user get | show a user
user list | list users
user delete | delete a user
user copy | copy users between brokers
acl create | create an access rule
acl set | change an access rule
acl get | access rules of a subject
acl list | list access rules
acl delete | delete an access rule
acl copy | copy access rules between brokers
controller status | controller leader and peers
controller config get | controller properties
controller config set | set a controller property
controller clean | remove replicas from a controller
config import | read a RocksDB configuration folder
debug bundle | collect diagnostics
debug analyse | findings in a bundle
debug profile | profile of a broker
`

// absentOld makes commands of absentOldTable.
func absentOld() []*command {
	var out []*command
	for line := range strings.Lines(absentOldTable) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 4 {
			continue
		}
		out = append(out, &command{
			old: cells[0], twin: cells[2], summary: cells[3], absent: true, flags: oldOptions(cells[1]),
		})
	}
	return out
}

// oldOptions reads the options column of absentOldTable.
func oldOptions(text string) []flagSpec {
	var out []flagSpec
	for _, f := range strings.Fields(text) {
		o := flagSpec{oldOnly: true}
		if strings.HasSuffix(f, "!") {
			o.kind, o.bareOld = kindBool, true
		}
		o.required = strings.HasSuffix(f, "*")
		o.short, o.long, _ = strings.Cut(strings.TrimRight(f, "*!"), "/")
		o.long = strings.ReplaceAll(o.long, "_", " ")
		o.key = o.long
		out = append(out, o)
	}
	return out
}

// absentTree makes commands of absentTreeTable.
func absentTree() []*command {
	var out []*command
	for line := range strings.Lines(absentTreeTable) {
		path, summary, ok := strings.Cut(strings.TrimSpace(line), " | ")
		if ok {
			out = append(out, &command{path: path, summary: summary, absent: true, max: -1})
		}
	}
	return out
}
