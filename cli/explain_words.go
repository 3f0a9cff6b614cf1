package cli

// wordTexts says what the upper-case words of answers mean that are neither
// errors nor codes of the protocol: findings of a store, states, reasons.
// NAME | sentence. A word of several commands has one line.
const wordTexts = `
TORN_TAIL | A finding of a store: an unfinished write at the end of the log. A start copies the bytes to mqctl/ in the store and cuts them off; nothing that was confirmed is in them.
DAMAGED | A finding of a store: a part of the log that cannot be read, with good records behind it. It stays; readers go on behind it, and mqctl store repair --fill makes RocketMQ do so too.
MISSING_FILE | A finding of a store: a file of the log or of a queue is not there, with others behind it. Put it back if it exists anywhere; the messages in it are lost else.
SHORT_FILE | A finding of a store: a file does not have its full length, as after a crash or a copy that was cut short. A start lengthens the last one of the log.
STRANGE_FILE | A finding of a store: a file that has no place in the folder it lies in. It is left alone.
STALE_RECORDS | A finding of a store: records of an earlier life of the file, behind the end of the log. They are not part of it.
WRONG_NUMBER | A finding of a store: a record states another number than it has in its queue.
WRONG_POSITION | A finding of a store: a record states another position than it has, and is whole else.
QUEUE_BEHIND | A finding of a store: a queue lacks entries for messages of the log. A start makes them from the log.
QUEUE_AHEAD | A finding of a store: a queue has entries for what the log does not have. A start cuts them off.
QUEUE_WRONG_ENTRY | A finding of a store: an entry of a queue leads to another message, or to none. It is made again from the log by mqctl store repair.
INDEX_DAMAGED | A finding of a store: a file of the key index does not hold together. Only queries by key need it; it is made again from the log.
CONFIG_DAMAGED | A finding of a store: a configuration file cannot be read. Where its .bak can be, that is taken.
SIDE_FILE_DAMAGED | A finding of a store: a file in mqctl/ cannot be used. It is made again, or done without.
CONNECTING | A state of a slave: it is looking for its master.
SYNCING | A state of a slave: it follows the end of its master's log.
COPYING | A state of a slave: it is far behind and copies what it lacks.
STALLED | A state of a slave, seen by its master: it has acknowledged nothing for a while.
BEHIND | A state of a slave: its master, one of Apache's, says that it is not in sync.
TOO_OLD | A state of a slave: what it needs next is not kept by its master any more. It starts again from the oldest that there is.
DIVERGED | A state of a slave: it has other bytes than its master at the same position. It stops; mqctl stats ha says what to do.
AHEAD | A state of a slave: its log is longer than its master's. It stops, since one of the two has messages that the other never had; mqctl stats ha says what to do.
WRONG_MASTER | A state of a slave: what it was told to follow belongs to another broker name. Look at brokerName of both, and at haMasterAddress.
MISMATCH | A state of a slave: the size of the log's files or the security of replication differs from its master's. mqctl stats ha says what to set.
NOT_CONNECTED | A state of a slave: it is registered, and its master has no connection of it.
UNREACHABLE | A state: the broker is registered and does not answer.
UNKNOWN | A state: it cannot be told from what is known; the text beside it says why. As an error: a change of roles whose last answer is missing.
WITHIN_MEMORY | Why a pull was sent where it was: the reader is within the memory's share, so the group's brokerId decides.
BEHIND_LIMIT | Why a pull was sent where it was: the reader is further behind than the limit, so whichBrokerWhenConsumeSlowly decides.
SLAVE_READ_DISABLED | Why a pull was sent where it was: slaveReadEnable is false, so no slave is suggested.
REDIRECTED_TO_MASTER | Why a pull was sent where it was: the slave does not hold that offset, and names the master.
BROKER_ID_MISSING | Why a pull was sent where it was: the broker that the group's setting names is not connected.
SLAVE_DEAD | Why a pull was sent where it was: the slave that would be suggested is gone.
SLAVE_UNREADABLE | Why a pull was sent where it was: the slave that would be suggested serves no reads.
SLAVE_BEHIND | Why a pull was sent where it was: the slave that would be suggested does not hold the message yet.
MASTER_DEAD | Why a pull was sent where it was: the master is gone, so the slave suggests itself.
OFFSET_MOVED | Why a pull was sent where it was: the offset asked for is not kept any more.
HA_STATUS | Where a gap comes from: the master's own account of its connections.
RUNTIME_DIFF | Where a gap comes from: the difference of the ends of two logs, asked one after the other.
LAST_KNOWN | Where a gap comes from: what was known when the connection ended.
NOTE | How grave a finding is: nothing is to be done.
REPAIR | How grave a finding is: the next start, or mqctl store repair, mends it without a loss.
DAMAGE | How grave a finding is: something is lost or cannot be read.
SET_ASIDE | A step of a repair: a file is moved to mqctl/repair-TIME/ in the store.
RESIZE | A step of a repair: a file gets the length of the others; the old one is kept.
CUT | A step of a repair: the end of the log is cut off; its bytes are kept.
FILL | A step of a repair: a damaged part of the log is covered with fillers; its bytes are kept.
START | A step of a repair: what the next start of the broker does by itself.
FULL | How a store was checked: every record.
LIGHT | How a store was checked: a running broker's store, sizes and names only.
LIVE | When a setting applies: at once.
RECONNECT | When a setting applies: with the next connection.
RESTART | When a setting applies: at the next start of the broker.
SAME | What becomes of a setting: what becomes of it in RocketMQ. Of a comparison: no difference.
OURS | What becomes of a setting: only mqctl has it.
NO_EFFECT | What becomes of a setting: it is taken and kept, and changes nothing.
ABSENT | What becomes of a setting: it belongs to a feature that is not built, and may have its default only.
OLD | What becomes of a setting: it is an old spelling of another.
FOREIGN | What becomes of a setting: it belongs to another program.
DIFFERENT | Of a comparison: the brokers differ.
APPLIED | What became of a change: all of it was written and read back.
PARTIAL | What became of a change: a part of it was written.
ROLLED_BACK | What became of a change: a part failed, and the rest was put back.
DONE | A step: it was taken.
UNDONE | A step: it was taken, and taken back since a later one failed.
FAILED | A step or a change: it failed; of a slave: its disk failed. The text beside it says why.
SKIPPED | A step: it was not taken.
CREATE | What a plan does to a thing: it makes it.
CHANGE | What a plan does to a thing: it changes it.
DELETE | What a plan does to a thing: it removes it.
NONE | Nothing of the kind.
ONLINE | How an offset is moved: the group's clients are told.
STORED | How an offset is moved: it is written into the broker's table.
CLIENT | How a message is consumed again: a client is asked to.
TOPIC | How a message is consumed again: it is sent to the group's retry topic.
OK | A state: nothing is wrong.
WARN | A state: it should be looked at.
FAIL | A state: it does not meet what was asked.
DISK_HIGH | A state of a broker: its disk is fuller than it should be.
STOPPED | A state of a broker: it does not run on this machine.
PERMISSION | How a broker is drained: its brokerPermission was changed.
NAMESERVER | How a broker is drained: a nameserver took its right to be written to.
BROKER | Where an event comes from: the broker noted it.
POLL | Where an event comes from: two looks differed.
COUNTERS | Where figures come from: the broker's own counters.
OUTSIDE | Where figures come from: settings and offsets, since the broker counts nothing.
HISTOGRAM | Where figures come from: the broker's own distribution.
RUNTIME | Where figures come from: the broker's runtime keys.
MASTER | The broker whose log the others copy; where an offset was read from.
SLAVE | A broker that copies its master's log; where an offset was read from.
ASYNC_MASTER | A role: a master that does not wait for slaves.
SYNC_MASTER | A role: a master whose sends wait for inSyncReplicas copies.
CONSUMER | A role of a client: it reads.
PRODUCER | A role of a client: it sends.
BROADCASTING | Why a lag is not known: every member of the group keeps its own offsets.
OFFLINE | Why a lag is not known: nobody of the group is online.
NO_OFFSETS | Why a lag is not known: the group has stored no offsets.
CONSUMED | What became of a message in a group: it was consumed.
CONSUMED_BUT_FILTERED | What became of a message in a group: the group's filter did not want it.
PULL | What became of a message in a group: the group pulls by itself, so nobody knows.
NOT_CONSUME_YET | What became of a message in a group: it was not consumed yet.
NOT_ONLINE | What became of a message in a group: nobody of the group is online.
CONSUME_BROADCASTING | What became of a message in a group: it broadcasts, so nobody knows.
SEND_OK | What a send gives: as many brokers have the message as the master waits for.
`
