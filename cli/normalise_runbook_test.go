package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// runbookCases are command lines as they stand in runbooks, split as a shell does;
// the first word is the program that is called. A want that begins with "!" is the
// code of the usage error; all of them end with 2, and nothing is sent.
var runbookCases = []struct{ in, want string }{
	{"mqadmin clusterList -n 10.0.0.4:9876", "clusterList --namesrv=10.0.0.4:9876 --"},
	{"mqadmin clusterlist -n '10.0.0.4:9876;10.0.0.5:9876'", "clusterList --namesrv=10.0.0.4:9876;10.0.0.5:9876 --"},
	{"mqadmin clusterList -n '10.0.0.4:9876; 10.0.0.5:9876'", "clusterList --namesrv=10.0.0.4:9876; 10.0.0.5:9876 --"},
	{"mqadmin clusterList -n '10.0.0.4:9876 10.0.0.5:9876'", "clusterList --namesrv=10.0.0.4:9876 10.0.0.5:9876 --"},
	{"mqadmin clusterList -n 10.0.0.4:9876,10.0.0.5:9876", "clusterList --namesrv=10.0.0.4:9876,10.0.0.5:9876 --"},
	{"mqadmin clusterList -n10.0.0.4:9876 -m", "clusterList --more=true --namesrv=10.0.0.4:9876 --"},
	{"mqadmin clusterList -mn 10.0.0.4:9876", "!UNKNOWN_FLAG"},
	{"mqadmin clusterList -n 10.0.0.4:9876 -i 5 -c DefaultCluster", "clusterList --cluster=DefaultCluster --interval=5 --namesrv=10.0.0.4:9876 --"},
	{"mqadmin clusterList -n 10.0.0.4:9876 --moreStats", "clusterList --more=true --namesrv=10.0.0.4:9876 --"},
	{"mqadmin clusterList -n 10.0.0.4:9876 -moreStats", "clusterList --more=true --namesrv=10.0.0.4:9876 --"},
	{"mqadmin clusterList -n 10.0.0.4:9876 -m=true", "!BAD_VALUE"},
	{"sh mqadmin clusterList", "!UNKNOWN_COMMAND"},
	{"/opt/rocketmq/bin/mqadmin updateTopic -n 10.0.0.4:9876 -c DefaultCluster -t orders -r 8 -w 8 -p 6", "updateTopic --cluster=DefaultCluster --read-queues=8 --write-queues=8 --perm=6 --namesrv=10.0.0.4:9876 -- orders"},
	{"mqadmin updateTopic -n 10.0.0.4:9876 -b 10.0.0.4:10911 -t orders -r8 -w8 -p6 -o true", "updateTopic --broker=10.0.0.4:10911 --read-queues=8 --write-queues=8 --perm=6 --order=true --namesrv=10.0.0.4:9876 -- orders"},
	{"mqadmin updateTopic -n 10.0.0.4:9876 -b 10.0.0.4:10911 -c DefaultCluster -t orders", "!CONTRADICTION"},
	{"mqadmin updateTopic -t orders -c DefaultCluster -a '+message.type=FIFO'", "updateTopic --cluster=DefaultCluster --attributes=+message.type=FIFO -- orders"},
	{"mqadmin updateTopic -t orders -c DefaultCluster -a +message.type=FIFO,-retention", "updateTopic --cluster=DefaultCluster --attributes=+message.type=FIFO,-retention -- orders"},
	{"mqadmin updateTopic -t orders -c DefaultCluster --attributes=+cleanup.policy=COMPACTION", "updateTopic --cluster=DefaultCluster --attributes=+cleanup.policy=COMPACTION -- orders"},
	{"mqadmin updateTopic -t orders -c DefaultCluster -r -4", "!BAD_VALUE"},
	{"mqadmin updateTopic -t orders -c DefaultCluster -r many", "!BAD_VALUE"},
	{"mqadmin updateTopic -t orders -c DefaultCluster -p 7", "updateTopic --cluster=DefaultCluster --perm=7 -- orders"},
	{"mqadmin updateTopic -c DefaultCluster -r 8", "!FLAG_MISSING"},
	{"mqadmin updateTopic -t orders -t orders2 -c DefaultCluster", "!FLAG_TWICE"},
	{"mqadmin updateTopicPerm -n 10.0.0.4:9876 -t orders -b 10.0.0.4:10911 -p 4", "updateTopicPerm --broker=10.0.0.4:10911 --perm=4 --namesrv=10.0.0.4:9876 -- orders"},
	{"mqadmin updateTopicPerm -t orders -c DefaultCluster -p rw", "updateTopicPerm --cluster=DefaultCluster --perm=rw -- orders"},
	{"mqadmin deleteTopic -n 10.0.0.4:9876 -c DefaultCluster -t orders", "deleteTopic --cluster=DefaultCluster --namesrv=10.0.0.4:9876 -- orders"},
	{"mqadmin deleteTopic -n 10.0.0.4:9876 -cDefaultCluster -torders", "deleteTopic --cluster=DefaultCluster --namesrv=10.0.0.4:9876 -- orders"},
	{"mqadmin deleteTopic -t orders -c DefaultCluster --yes", "deleteTopic --cluster=DefaultCluster --yes=true -- orders"},
	{"mqadmin deleteTopic -t orders -c DefaultCluster -y", "!UNKNOWN_FLAG"},
	{"mqadmin topicRoute -n 10.0.0.4:9876 -t '%RETRY%order_consumer'", "topicRoute --namesrv=10.0.0.4:9876 -- %RETRY%order_consumer"},
	{"mqadmin topicRoute -t orders -l true", "!STRAY_ARGUMENT"},
	{"mqadmin topicStatus -n 10.0.0.4:9876 -t orders --cluster DefaultCluster", "topicStatus --cluster=DefaultCluster --namesrv=10.0.0.4:9876 -- orders"},
	{"mqadmin topicList -n 10.0.0.4:9876 -c", "topicList --join=true --namesrv=10.0.0.4:9876 --"},
	{"mqadmin topicList -c DefaultCluster", "!STRAY_ARGUMENT"},
	{"mqadmin topicClusterList -t orders", "topicClusterList --topic=orders --"},
	{"mqadmin updateOrderConf -t orders -m put -v 'broker-a:4;broker-b:4'", "updateOrderConf --topic=orders --conf=broker-a:4;broker-b:4 --method=put --"},
	{"mqadmin updateOrderConf -t orders -m get", "updateOrderConf --topic=orders --method=get --"},
	{"mqadmin allocateMQ -t orders -i 10.0.1.1,10.0.1.2", "allocateMQ --clients=10.0.1.1,10.0.1.2 -- orders"},
	{"mqadmin statsAll -a -t orders", "statsAll --topic=orders --active=true --"},
	{"mqadmin statsAll -a true", "!STRAY_ARGUMENT"},
	{"mqadmin queryCq -t orders -q 0 -i 100 -c 10 -b broker-a -g order_consumer", "queryCq --queue=0 --from=100 --count=10 --broker=broker-a --group=order_consumer -- orders"},
	{"mqadmin remappingStaticTopic -t orders -b broker-a,broker-b -mf map.json -fr true", "remappingStaticTopic --brokers=broker-a,broker-b --map-file=map.json --force-replace=true -- orders"},
	{"mqadmin remappingStaticTopic -t orders -b broker-a,broker-b -mfmap.json", "remappingStaticTopic --brokers=broker-a,broker-b --map-file=map.json -- orders"},
	{"mqadmin updateSubGroup -n 10.0.0.4:9876 -c DefaultCluster -g order_consumer -w 1 -i 0", "updateSubGroup --cluster=DefaultCluster --broker-id=0 --which-broker-when-consume-slowly=1 --namesrv=10.0.0.4:9876 -- order_consumer"},
	{"mqadmin updateSubGroup -n=10.0.0.4:9876 -c=DefaultCluster -g=order_consumer -w=1 -i=0", "updateSubGroup --cluster=DefaultCluster --broker-id=0 --which-broker-when-consume-slowly=1 --namesrv=10.0.0.4:9876 -- order_consumer"},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer -s false", "updateSubGroup --cluster=DefaultCluster --consume=false -- order_consumer"},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer -s FALSE", "updateSubGroup --cluster=DefaultCluster --consume=false -- order_consumer"},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer -s f", "!BAD_VALUE"},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer -consumeEnable true -consumeFromMinEnable false", "updateSubGroup --cluster=DefaultCluster --consume=true --from-min=false -- order_consumer"},
	{`mqadmin updateSubGroup -c DefaultCluster -g order_consumer -p '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000, 5000]}}'`, `updateSubGroup --cluster=DefaultCluster --retry-policy={"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000, 5000]}} -- order_consumer`},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer --attributes +a=b", "updateSubGroup --cluster=DefaultCluster --attributes=+a=b -- order_consumer"},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer -a false", "updateSubGroup --cluster=DefaultCluster --notify-ids=false -- order_consumer"},
	{"mqadmin updateSubGroup -c DefaultCluster -g 'order consumer'", "updateSubGroup --cluster=DefaultCluster -- order consumer"},
	{"mqadmin updateSubGroup -c DefaultCluster -g ''", "!FLAG_MISSING"},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer true", "!STRAY_ARGUMENT"},
	{"mqadmin updateSubGroup -c DefaultCluster --groupName order_consumer --retryMaxTimes 3 --retryQueueNums 2", "updateSubGroup --cluster=DefaultCluster --retry-queues=2 --retry-max=3 -- order_consumer"},
	{"mqadmin updateSubGroup -c DefaultCluster --groupN order_consumer --retryM 3 --retryQ 2", "updateSubGroup --cluster=DefaultCluster --retry-queues=2 --retry-max=3 -- order_consumer"},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer -x 1", "!UNKNOWN_FLAG"},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer -o json", "!BAD_VALUE"},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer --output json --dry-run --detailed-exit-code", "updateSubGroup --cluster=DefaultCluster --output=json --dry-run=true --detailed-exit-code=true -- order_consumer"},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer --wait=30s", "updateSubGroup --cluster=DefaultCluster --wait=30s -- order_consumer"},
	{"mqadmin updateSubGroup -c DefaultCluster -g order_consumer --wait 30s", "!BAD_VALUE"},
	{"mqadmin deleteSubGroup -c DefaultCluster -g order_consumer -r true", "deleteSubGroup --cluster=DefaultCluster --remove-offset=true -- order_consumer"},
	{"mqadmin deleteSubGroup -b 10.0.0.4:10911 -g order_consumer -r", "!VALUE_MISSING"},
	{"mqadmin getConsumerConfig -g order_consumer", "getConsumerConfig -- order_consumer"},
	{"mqadmin setConsumeMode -c DefaultCluster -t orders -g order_consumer -m POP -q 8", "setConsumeMode --cluster=DefaultCluster --topic=orders --mode=POP --share-queues=8 -- order_consumer"},
	{"mqadmin consumerProgress -n 10.0.0.4:9876", "consumerProgress --namesrv=10.0.0.4:9876 --"},
	{"mqadmin consumerProgress -n 10.0.0.4:9876 -g order_consumer -t orders -s true", "consumerProgress --topic=orders --clients=true --namesrv=10.0.0.4:9876 -- order_consumer"},
	{"mqadmin consumerProgress -g order_consumer -s", "!VALUE_MISSING"},
	{"mqadmin consumerStatus -g order_consumer -s -i 10.0.1.1@7", "consumerStatus --stack=true --client=10.0.1.1@7 -- order_consumer"},
	{"mqadmin brokerConsumeStats -b 10.0.0.4:10911 -l 1000 -t 30000 -o true", "brokerConsumeStats --broker=10.0.0.4:10911 --timeout-millis=30000 --level=1000 --order=true --"},
	{"mqadmin cloneGroupOffset -s old_group -d new_group -t orders -o false", "cloneGroupOffset --from=old_group --to=new_group --topic=orders --offline=false --"},
	{"mqadmin resetOffsetByTime -n 10.0.0.4:9876 -g order_consumer -t orders -s now", "resetOffsetByTime --topic=orders --to=now --namesrv=10.0.0.4:9876 -- order_consumer"},
	{"mqadmin resetOffsetByTime -g order_consumer -t orders -s '2026-11-29#10:00:00:000'", "resetOffsetByTime --topic=orders --to=2026-11-29#10:00:00:000 -- order_consumer"},
	{"mqadmin resetOffsetByTime -g order_consumer -t orders -s -1", "resetOffsetByTime --topic=orders --to=-1 -- order_consumer"},
	{"mqadmin resetOffsetByTime -g order_consumer -t orders -s 1732870800000 -f true -c", "!VALUE_MISSING"},
	{"mqadmin skipAccumulatedMessage -g order_consumer -t orders -f true", "skipAccumulatedMessage --topic=orders --force=true -- order_consumer"},
	{"mqadmin brokerStatus -n 10.0.0.4:9876 -b 10.0.0.4:10911", "brokerStatus --broker=10.0.0.4:10911 --namesrv=10.0.0.4:9876 --"},
	{"mqadmin BrokerStatus -c DefaultCluster", "brokerStatus --cluster=DefaultCluster --"},
	{"mqadmin getBrokerConfig -n 10.0.0.4:9876 -b 10.0.0.4:10911", "getBrokerConfig --broker=10.0.0.4:10911 --namesrv=10.0.0.4:9876 --"},
	{"mqadmin updateBrokerConfig -n 10.0.0.4:9876 -b 10.0.0.4:10911 -k slaveReadEnable -v true", "updateBrokerConfig --broker=10.0.0.4:10911 --key=slaveReadEnable --value=true --namesrv=10.0.0.4:9876 --"},
	{"mqadmin updateBrokerConfig -c DefaultCluster -k messageDelayLevel -v '1s 5s 10s 30s 1m'", "updateBrokerConfig --cluster=DefaultCluster --key=messageDelayLevel --value=1s 5s 10s 30s 1m --"},
	{"mqadmin updateBrokerConfig -c DefaultCluster -k brokerPermission -v 4 -u true", "!UNKNOWN_FLAG"},
	{"mqadmin updateBrokerConfig -c DefaultCluster -k namesrvAddr -v 'a:9876;b:9876'", "updateBrokerConfig --cluster=DefaultCluster --key=namesrvAddr --value=a:9876;b:9876 --"},
	{"mqadmin updateBrokerConfig -c DefaultCluster -k slaveReadEnable", "!FLAG_MISSING"},
	{"mqadmin updateBrokerConfig -c DefaultCluster -k slaveReadEnable -v ''", "updateBrokerConfig --cluster=DefaultCluster --key=slaveReadEnable --value= --"},
	{"mqadmin wipeWritePerm -n 10.0.0.4:9876 -b broker-a", "wipeWritePerm --namesrv=10.0.0.4:9876 -- broker-a"},
	{"mqadmin addWritePerm -b broker-a", "addWritePerm -- broker-a"},
	{"mqadmin cleanExpiredCQ -b 10.0.0.4:10911", "cleanExpiredCQ --broker=10.0.0.4:10911 --"},
	{"mqadmin cleanUnusedTopic -c DefaultCluster", "cleanUnusedTopic --cluster=DefaultCluster --"},
	{"mqadmin haStatus -n 10.0.0.4:9876 -b 10.0.0.4:10911 -i 1", "haStatus --broker=10.0.0.4:10911 --interval=1 --namesrv=10.0.0.4:9876 --"},
	{"mqadmin haStatus -c DefaultCluster -i abc", "!BAD_VALUE"},
	{"mqadmin sendMessage -t orders -p 'hello world' -k 'key one' -c TagA -m true", "sendMessage --body=hello world --key=key one --tag=TagA --old-trace=true -- orders"},
	{`mqadmin sendMessage -t orders -p '{"a": 1}' -b broker-a -i 0`, `sendMessage --body={"a": 1} --broker=broker-a --queue=0 -- orders`},
	{"mqadmin sendMessage -t orders -p -1", "sendMessage --body=-1 -- orders"},
	{"mqadmin sendMessage -t orders -p '--body'", "!VALUE_MISSING"},
	{"mqadmin sendMessage -t orders -p", "!VALUE_MISSING"},
	{"mqadmin queryMsgById -n 10.0.0.4:9876 -i 0A000004000029FF0000000000000000", "!FLAG_MISSING"},
	{"mqadmin queryMsgByKey -t orders -k 'order 1'", "queryMsgByKey --topic=orders --key=order 1 --"},
	{"mqadmin queryMsgByUniqueKey -t orders -i 0A00000400002A9F0000000000000000 -a", "queryMsgByUniqueKey --uniq=0A00000400002A9F0000000000000000 --topic=orders --all=true --"},
	{"mqadmin printMsg -t orders -s 'TagA || TagB' -b 'currentTimeMillis|now' -d false", "printMsg --topic=orders --tag=TagA || TagB --begin=currentTimeMillis|now --body=false --"},
	{"mqadmin getNamesrvConfig -n 10.0.0.4:9876", "getNamesrvConfig --namesrv=10.0.0.4:9876 --"},
	{"mqadmin updateNamesrvConfig -n 10.0.0.4:9876 -k orderMessageEnable -v true", "updateNamesrvConfig --namesrv=10.0.0.4:9876 -- orderMessageEnable true"},
	{"mqadmin updateKvConfig -s ORDER_TOPIC_CONFIG -k orders -v 'broker-a:4;broker-b:4'", "updateKvConfig --namespace=ORDER_TOPIC_CONFIG -- orders broker-a:4;broker-b:4"},
	{"mqadmin createUser -b 10.0.0.4:10911 -u ops -p 'a b' -t Normal", "createUser --broker=10.0.0.4:10911 --password=a b --type=Normal -- ops"},
	{"mqadmin createAcl -c DefaultCluster -s User:ops -r 'Topic:orders,Group:*' -a Pub,Sub -d Allow -i 10.0.0.0/8", "createAcl --cluster=DefaultCluster --subject=User:ops --resources=Topic:orders,Group:* --actions=Pub,Sub --decision=Allow --source-ip=10.0.0.0/8 --"},
	{"mqadmin copyUser -f 10.0.0.4:10911 -t 10.0.0.5:10911 -u ops,dev", "copyUser --from=10.0.0.4:10911 --to=10.0.0.5:10911 --usernames=ops,dev --"},
	{"mqadmin electMaster -a 10.0.0.4:9878 -b 2 -bn broker-a -c DefaultCluster", "electMaster --controller=10.0.0.4:9878 --id=2 --broker-name=broker-a --cluster=DefaultCluster --"},
	{"mqadmin electMaster -a 10.0.0.4:9878 -b2 -bnbroker-a -cDefaultCluster", "electMaster --controller=10.0.0.4:9878 --id=2 --broker-name=broker-a --cluster=DefaultCluster --"},
	{"mqadmin exportMetadata -c DefaultCluster -t -g -f /tmp/export", "exportMetadata --cluster=DefaultCluster --dir=/tmp/export --topics-only=true --groups-only=true --"},
	{"mqadmin help updateSubGroup", "no command"},
	{"mqadmin updateSubGroup -h", "updateSubGroup --"},
	{"mqadmin nonsense -n a:1", "!UNKNOWN_COMMAND"},
	{"mqctl updateSubGroup --context prod -c DefaultCluster -g order_consumer -w 1", "updateSubGroup --cluster=DefaultCluster --which-broker-when-consume-slowly=1 --context=prod -- order_consumer"},
	{"mqctl --context prod updateSubGroup -c DefaultCluster -g order_consumer -w 1", "updateSubGroup --cluster=DefaultCluster --which-broker-when-consume-slowly=1 --context=prod -- order_consumer"},
	{"mqctl group set 'order_consumer' --slow-broker 1 --reason 'kernel update, 3 hosts'", "group set --which-broker-when-consume-slowly=1 --reason=kernel update, 3 hosts -- order_consumer"},
	{"mqctl group set order_consumer --reason --yes", "!VALUE_MISSING"},
	{"mqctl group set order_consumer -f x", "!UNKNOWN_FLAG"},
	{"mqctl offset reset report --topic orders --to latest --wait -y", "offset reset --topic=orders --to=latest --yes=true --wait=60s -- report"},
	{"mqctl offset reset report --topic orders --to -2h", "offset reset --topic=orders --to=-2h -- report"},
	{"mqctl offset reset report --topic orders --to=-2h", "offset reset --topic=orders --to=-2h -- report"},
	{"mqctl broker config set 'messageDelayLevel=1s 5s' slaveReadEnable=true --all", "broker config set --all=true -- messageDelayLevel=1s 5s slaveReadEnable=true"},
	{"mqctl broker config set messageDelayLevel=1s 5s", "broker config set -- messageDelayLevel=1s 5s"},
	{"mqctl cluster list --filter 'gapBytes>1MiB && role==SLAVE' --sort gapBytes --reverse --limit 3", "cluster list --sort=gapBytes --reverse=true --filter=gapBytes>1MiB && role==SLAVE --limit=3 --"},
	{"mqctl cluster list --watch=1s -o jsonl", "cluster list --output=jsonl --watch=1s --"},
	{"mqctl cluster list --watch 1s", "!BAD_VALUE"},
	{"mqctl cluster list -o=csv --no-headers --fields broker,addr", "cluster list --output=csv --fields=broker,addr --no-headers=true --"},
	{"mqctl cluster list -v", "!UNKNOWN_FLAG"},
	{"mqctl topic route orders -o template='{{range .items}}{{.broker}} {{end}}'", "topic route --output=template={{range .items}}{{.broker}} {{end}} -- orders"},
	{"mqctl message send orders --body '' --property a=1 --property 'b=x y'", "message send --body= --property=a=1 --property=b=x y -- orders"},
	{"mqctl message tail orders --last 10 -n 'a:1;b:2' -n c:3", "message tail --last=10 --namesrv=a:1;b:2 --namesrv=c:3 -- orders"},
	{"mqctl wait lag --group g --max 1000 --for 10m", "wait lag --group=g --max=1000 --for=10m0s --"},
	{"mqctl wait broker broker-a/1 --ready --gone", "wait broker --ready=true --gone=true -- broker-a/1"},
	{"mqctl check lag --max ten", "!BAD_VALUE"},
	{"mqbroker -c /etc/rocketmq/broker.conf -n '10.0.0.4:9876;10.0.0.5:9876'", "broker start --config=/etc/rocketmq/broker.conf --namesrv=10.0.0.4:9876;10.0.0.5:9876 --"},
	{"mqbroker -n 10.0.0.4:9876 -c broker.conf -p", "broker start --config=broker.conf --namesrv=10.0.0.4:9876 --print-config=all --"},
	{"mqbroker --enable-proxy -c broker.conf", "!NOT_SUPPORTED"},
	{"/usr/bin/mqbroker -m -c broker.conf --role slave --id 1", "broker start --config=broker.conf --id=1 --role=slave --print-config=important --"},
	{"mqnamesrv", "nameserver start --"},
	{"mqnamesrv --listen 0.0.0.0:9876 --detach", "nameserver start --listen=0.0.0.0:9876 --detach=true --"},
	{"mqnamesrv -p", "nameserver start --print-config=all --"},
	{"mqnamesrv -c /etc/rocketmq/namesrv.conf", "nameserver start --config=/etc/rocketmq/namesrv.conf --"},
}

// TestNormaliseRunbooks feeds lines of runbooks through the front door.
func TestNormaliseRunbooks(t *testing.T) {
	for _, c := range runbookCases {
		words, err := splitWords(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got := normalised(words[0], words[1:]); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
		if !strings.HasPrefix(c.want, "!") {
			continue
		}
		// The whole program says the same: exit 2, a sentence with the code, and no output.
		program := filepath.Base(words[0])
		code, out, errs := runLine(append([]string{program}, words[1:]...)...)
		if code != ExitUsage || out != "" || !strings.HasPrefix(errs, "error   ") || !strings.Contains(errs, "["+c.want[1:]+"]") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", c.in, code, out, errs)
		}
	}
	if n := len(normaliseCases) + len(runbookCases); n < 200 {
		t.Errorf("%d command lines are tried; 200 are promised", n)
	}
}
