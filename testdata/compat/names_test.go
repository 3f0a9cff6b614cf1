package compat

// namesTable has a command line for each of the 93 names of mqadmin, in an
// order in which each finds what it needs. {B} is a broker's address, {N} its
// name, {CTL} a controller, {DIR} a folder, {ID} and {UNIQ} a message's ids,
// {T0} a moment before it. A line that begins with # is a heading.
const namesTable = `
# Topics
updateTopic -b {B} -t Table -r 4 -w 4
updateTopicList -b {B} -f {DIR}/topics.json
deleteTopic -c DefaultCluster -t Doomed
updateTopicPerm -c DefaultCluster -t Listed -p 4
topicRoute -t Table
topicStatus -t Table
topicClusterList -t Table
topicList
updateOrderConf -t Table -m put -v {N}:2
allocateMQ -t Table -i 10.0.0.1,10.0.0.2
updateStaticTopic -b {N} -t Static -qn 2
remappingStaticTopic -b {N} -t Static
statsAll -t HeldTopic
queryCq -t HeldTopic -q 0 -i 0 -b {B}
checkRocksdbCqWriteProgress -c DefaultCluster -t Table
# Groups and offsets
updateSubGroup -b {B} -g table -w 2 -i 1
updateSubGroupList -b {B} -f {DIR}/groups.json
deleteSubGroup -b {B} -g doomed
getConsumerConfig -g table
setConsumeMode -b {B} -t Table -g table -m POP -q 8
consumerProgress -g held
consumerStatus -g held
brokerConsumeStats -b {B}
resetOffsetByTime -g idle -t Table -s 0
skipAccumulatedMessage -g idle -t Table
cloneGroupOffset -s held -d table -t HeldTopic
startMonitoring
consumer -g held
resetOffsetByTimeOld -g resting -t Table -s 1
getConsumerStatus -g held -t HeldTopic
DecodeMessageId -i {UNIQ}
# Cluster and brokers
clusterList
brokerStatus -b {B}
getBrokerConfig -b {B}
updateBrokerConfig -b {B} -k slaveReadEnable -v true
haStatus -b {B}
getSyncStateSet -a {CTL} -b {N}
getBrokerEpoch -b {N}
resetMasterFlushOffset -b {B} -o 0
wipeWritePerm -b {N}
addWritePerm -b {N}
cleanExpiredCQ -b {B}
deleteExpiredCommitLog -b {B}
cleanUnusedTopic -b {B}
setCommitLogReadAheadMode -b {B} -m 1
updateColdDataFlowCtrGroupConfig -b {B} -g table -v 1048576
getColdDataFlowCtrInfo -b {B}
removeColdDataFlowCtrGroupConfig -b {B} -g table
addBroker -c {B} -b {DIR}/none.conf
removeBroker -c {B} -b DefaultCluster:none:0
# Clients
producerConnection -g held-p -t HeldTopic
consumerConnection -g held
producer -b {B}
# Messages
queryMsgById -t Table -i {ID}
queryMsgByKey -t Table -k tablekey
queryMsgByUniqueKey -t Table -i {UNIQ}
queryMsgByOffset -t Table -b {N} -i 0 -o 0
queryMsgTraceById -i {UNIQ}
printMsg -t Table
printMsgByQueue -t Table -a {N} -i 0
sendMessage -t Table -p hello -k tablekey
consumeMessage -t Table -b {N} -i 0 -o 0 -c 1
sendMsgStatus -b {N} -c 2
checkMsgSendRT -t Table -a 2
clusterRT -a 2
dumpCompactionLog -f {DIR}/none
# Files and keys
exportPopRecord -b {B} -d true
exportMetrics -c DefaultCluster -f {DIR}
updateKvConfig -s TABLE -k limit -v 10
deleteKvConfig -s TABLE -k limit
getNamesrvConfig
updateNamesrvConfig -k supportActingMaster -v true
exportMetadata -c DefaultCluster -f {DIR}
exportConfigs -c DefaultCluster -f {DIR}
exportMetadataInRocksDB -p {DIR}/none -t topics
rocksDBConfigToJson -c DefaultCluster -t topics
# Controllers
getControllerMetaData -a {CTL}
getControllerConfig -a {CTL}
updateControllerConfig -a {CTL} -k scanNotActiveBrokerInterval -v 6000
electMaster -a {CTL} -b 1 -bn {N} -c DefaultCluster
cleanBrokerMetadata -a {CTL} -bn {N} -c DefaultCluster
# Users and access rules
createUser -b {B} -u table -p table-secret -t Normal
updateUser -b {B} -u table -s disable
getUser -b {B} -u table
listUser -b {B}
copyUser -f {B} -t {B} -u table
createAcl -b {B} -s User:table -r Topic:Table -a Pub,Sub -d Allow
updateAcl -b {B} -s User:table -r Topic:Table -a Sub -d Allow
getAcl -b {B} -s User:table
listAcl -b {B}
copyAcl -f {B} -t {B} -s User:table
deleteAcl -b {B} -s User:table
deleteUser -b {B} -u table
`
