package broker

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"

	"mqctl/broker/remoting"
)

// adminHandlers lists the requests of operators and tools. They run in the
// admin pool on their own copy of the request, and may wait for the disk or a
// client. Each family is a struct of what it uses.
func adminHandlers(b *Broker) map[int]handlerFunc {
	topics := &topicAdmin{live: &b.live, topics: b.topics, offsets: b.offsets, members: b.members, holds: b.holds, store: b.store, announce: b.announce}
	groups := &groupAdmin{groups: b.groups, offsets: b.offsets, holds: b.holds}
	clients := &clientAdmin{members: b.members, dated: b.datedMillis}
	config := &configAdmin{settings: b.opts.Settings}
	queries := &queryAdmin{live: &b.live, store: b.store}
	figures := &statsAdmin{here: b.here, topics: b.topics, groups: b.groups, offsets: b.offsets, members: b.members,
		stats: b.stats, store: b.store, now: b.opts.Now}
	ha := &haAdmin{stand: &b.stand, hub: &b.ha, dated: b.dated, store: b.store}
	status := &runtimeAdmin{replica: ha, version: programVersion(b.opts.Version), start: b.start, now: b.opts.Now, up: b.uptime, live: &b.live,
		settings: b.opts.Settings, store: b.store, fs: b.opts.FS, logDir: commitLogDir(b.opts), delays: b.delays,
		stats: b.stats, admin: b.admin, data: b.data}
	metadata := &metadataAdmin{topics: b.topics, groups: b.groups, delays: b.delays, modes: b.modes, store: b.store,
		start: b.start, now: b.opts.Now, allProgress: b.sync.AllOffsets}
	handlers := map[int]handlerFunc{
		remoting.ReqUpdateAndCreateTopic:         topics.put,
		remoting.ReqUpdateAndCreateTopicList:     topics.putList,
		remoting.ReqGetAllTopicConfig:            metadata.allTopics,
		remoting.ReqDeleteTopicInBroker:          topics.remove,
		remoting.ReqGetTopicConfig:               topics.one,
		remoting.ReqGetSystemTopicListFromBroker: topics.system,
		remoting.ReqQueryTopicConsumeByWho:       topics.consumers,

		remoting.ReqUpdateAndCreateSubscriptionGroup:     groups.put,
		remoting.ReqUpdateAndCreateSubscriptionGroupList: groups.putList,
		remoting.ReqSetMessageRequestMode:                (&modeAdmin{b.modes, b.topics, b.groups}).put,
		remoting.ReqGetAllSubscriptionGroupConfig:        metadata.allGroups,
		remoting.ReqDeleteSubscriptionGroup:              groups.remove,
		remoting.ReqGetSubscriptionGroupConfig:           groups.one,
		remoting.ReqUpdateAndGetGroupForbidden:           groups.forbid,

		remoting.ReqInvokeBrokerToResetOffset: newResetAdmin(b).run,

		remoting.ReqGetConsumerConnectionList:   clients.consumers,
		remoting.ReqGetProducerConnectionList:   clients.producers,
		remoting.ReqGetAllProducerInfo:          clients.allProducers,
		remoting.ReqQuerySubscriptionByConsumer: clients.subscription,

		remoting.ReqGetBrokerConfig:    config.show,
		remoting.ReqUpdateBrokerConfig: config.change,

		remoting.ReqQueryMessage:      queries.byKey,
		remoting.ReqViewMessageByID:   queries.byOffset,
		remoting.ReqQueryConsumeQueue: queries.entries,

		remoting.ReqGetTopicStatsInfo:     figures.topic,
		remoting.ReqGetConsumeStats:       figures.group,
		remoting.ReqGetBrokerConsumeStats: figures.allGroups,
		remoting.ReqQueryTopicsByConsumer: figures.topicsOf,
		remoting.ReqViewBrokerStatsData:   figures.view,
		remoting.ReqQueryConsumeTimeSpan:  figures.spans,
		remoting.ReqGetAllConsumerOffset:  metadata.allOffsets,
		remoting.ReqGetAllDelayOffset:     metadata.allDelays,

		remoting.ReqGetTimerCheckPoint:       metadata.timerCheckpoint,
		remoting.ReqGetTimerMetrics:          metadata.timerMetrics,
		remoting.ReqGetAllMessageRequestMode: metadata.allModes,

		remoting.ReqGetBrokerRuntimeInfo:   status.status,
		remoting.ReqGetBrokerHAStatus:      ha.status,
		remoting.ReqResetMasterFlushOffset: ha.resetFlushed,
	}
	maps.Copy(handlers, ownHandlers(b))
	status.serves = capabilities(handlers)
	for code, f := range handlers {
		handlers[code] = guardSlave(&b.stand, code, f)
	}
	return handlers
}

// ownHandlers are the requests that RocketMQ does not have, those that are handed on
// to clients, and those that clean.
func ownHandlers(b *Broker) map[int]handlerFunc {
	relays := &relayAdmin{here: b.here, members: b.members, topics: b.topics, groups: b.groups, store: b.store}
	clean := &cleanAdmin{topics: b.topics, store: b.store}
	return map[int]handlerFunc{
		remoting.ReqGetConsumerRunningInfo:          relays.running,
		remoting.ReqConsumeMessageDirectly:          relays.consume,
		remoting.ReqInvokeBrokerToGetConsumerStatus: relays.status,

		remoting.ReqCleanExpiredConsumeQueue: clean.queues,
		remoting.ReqCleanUnusedTopic:         clean.unused,
		remoting.ReqDeleteExpiredCommitLog:   clean.log,
		remoting.ReqMqctlClean:               clean.clean,

		remoting.ReqMqctlKick:     relays.kick,
		remoting.ReqMqctlLog:      (&logAdmin{b.opts.Logs}).serve,
		remoting.ReqMqctlProgress: b.sync.serve,
		remoting.ReqMqctlRole:     serveRole(b.roleSteps()),
		remoting.ReqMqctlInspect:  b.inspector().serve,
	}
}

// commitLogDir is where the store keeps its log.
func commitLogDir(o Options) string {
	if o.Store.CommitLogDir != "" {
		return o.Store.CommitLogDir
	}
	return filepath.Join(o.Store.Dir, "commitlog")
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
