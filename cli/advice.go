package cli

import "strings"

// errorTexts says of each error code what it means and what to do: CODE |
// sentence | try | try. An error that says no more of its own takes both from
// here, if there is nothing that it offers; COMMAND stands for the command that met it.
const errorTexts = `
ABORTED | The question was answered with no; nothing was changed. | COMMAND --dry-run
ALREADY_IMPORTED | All of the archive is in the store already; nothing was written. | mqctl store verify DIR
AMBIGUOUS | One file was named, and there are several brokers; nothing was sent. | --broker NAME/ID
AMBIGUOUS_FLAG | A beginning of a flag must fit one flag only; nothing was sent. | COMMAND --help
ARGUMENT_MISSING | Nothing was sent. | COMMAND --help
AUDIT_OFF | Changes are noted only where the client file or MQCTL_AUDIT does not switch it off, and undo reads those notes. | audit = true in [defaults] of the client file | MQCTL_AUDIT=FILE
AUDIT_UNREADABLE | undo and audit list read the file that notes the changes made from here. | MQCTL_AUDIT=FILE | mqctl config show --origin
BAD_ADDRESS | The address has not the form host:port; nothing was sent. | 10.0.0.4:9876
BAD_ARCHIVE | The file is no archive of store export, or it was changed or cut off since; nothing was written. | mqctl store export DIR --file FILE
BAD_COMMAND_LINE | The command line cannot be understood; nothing was sent. | COMMAND --help
BAD_CONFIG | A configuration or input file cannot be used; nothing was started or sent. | mqctl config lint FILE
BAD_FILE | The file cannot be used; nothing was sent. | COMMAND --examples
BAD_FILTER | Fields are compared with values, and comparisons joined with && and ||; nothing was sent. | 'gapBytes>1MiB && role==SLAVE' | mqctl help output
BAD_FOLDER | The folder must exist or be possible to make, and be writable by this user. | ls -ld DIR
BAD_NAME | RocketMQ takes letters, digits and the signs _-%| in names of topics and groups; nothing was sent. | COMMAND --help
BAD_OFFSET | An offset lies between the first and the next one of its queue; nothing was changed. | mqctl topic status TOPIC
BAD_PROTOCOL | What answers there does not speak RocketMQ's protocol: it may be another port or program. | mqctl cluster list | COMMAND --trace
BAD_TEMPLATE | A template is text/template of Go over the object that JSON shows. | mqctl help output | COMMAND --schema
BAD_VALUE | A value of a flag or argument is not possible; nothing was sent. | COMMAND --help
BROKER_NOT_FOUND | No broker of that name is registered where it was looked for; nothing was changed. | mqctl broker list
BROKER_UNREACHABLE | Nobody answers at that address: the broker has stopped, or the address (brokerIP1, if it is registered with it) is wrong. | mqctl broker list | mqctl cluster route-check
BUG | An internal error; the report file says where. | mqctl debug bundle --out FILE
CANNOT_SHRINK | Queues of a static topic hold messages that could not be read any more; nothing was changed. | mqctl topic status TOPIC
CHANGED_SINCE | Somebody or something changed it after this command's user did: putting the old value back would undo that too. | mqctl audit list | COMMAND --dry-run
CHANGE_NOT_FOUND | Only changes that were made from here, by this user, are noted. | mqctl audit list
CHANGE_UNDER_WAY | One change of roles at a time; nothing was changed by this one. | mqctl ha status | mqctl broker list
CLIENT_NOT_FOUND | A client is online while it has a connection to a broker. | mqctl client list
CLUSTER_EMPTY | The nameserver answers and knows no broker; brokers register when they start and every 30 s. | mqctl wait broker NAME --ready | check namesrvAddr of the broker
CONFIG_DAMAGED | A table of the broker is kept in two generations, of which one can be read after every crash: somebody or something else wrote here. | mqctl store verify DIR
CONFIRMATION_NEEDED | Something would be destroyed and nobody is there to ask; nothing was changed. | add --yes | COMMAND --dry-run
CONTEXT_NOT_FOUND | Contexts are in the client file. | mqctl context list | mqctl context add NAME --namesrv HOST:9876
CONTRADICTION | These cannot both hold; nothing was sent. | COMMAND --help
CREDENTIALS_MISSING | Requests shall be signed, and there is no key to do it with; nothing was sent. | --access-key-file FILE --secret-key-file FILE
DEADLINE | The command took longer than --deadline allows; a change may or may not have been made. | --deadline 1m
DENIED | The key that signs the request may not do this, or the server forbids it for everybody. | mqctl acl list | mqctl context show
DRAINED | A drained broker takes no messages. | mqctl broker undrain BROKER
FAILED | These are the words of the system; there is no better code for it. | COMMAND --trace
FILE_EXISTS | Nothing is overwritten; nothing was changed. | --yes | name another file
FILE_NOT_FOUND | Nothing was sent or changed. | ls -l DIR
FILE_NOT_WRITTEN | The folder must exist and be writable, and the disk have room. | ls -ld DIR | df -h DIR
FLAG_MISSING | Nothing was sent. | COMMAND --help
FLAG_TWICE | Only one of the values could be taken; nothing was sent. | COMMAND --help
GAP_NOT_CLOSED | A slave that lacks bytes would lose them as the master. | --wait=10m | mqctl stats ha --watch
GROUP_EXISTS | The group is to be made, and there is one. | mqctl group set NAME | mqctl group get NAME
GROUP_NOT_FOUND | No broker asked has the group. | mqctl group list
HTTP_OFF | The broker runs without its port for health and metrics. | --http HOST:PORT
IDENTITY_CONFLICT | Another broker is registered with this name and id; two masters of one name split the queues. | --role slave --id 1 | --name NAME
IMPORT_FAILED | What was written stays; the same command goes on where it ended. | df -h DIR | COMMAND --yes
INTERRUPTED | Ctrl-C or a signal ended the command. | COMMAND --dry-run
KEY_NOT_FOUND | Nameservers keep pairs of keys and values by namespaces. | mqctl kv list --namespace NAMESPACE
MAPPING_BROKEN | The brokers' halves of the map of a static topic must fit together before it can be changed; nothing was changed. | mqctl topic route TOPIC | mqctl topic status TOPIC
LOSS_UNKNOWN | The slave was away before its master died, or had heard nothing of it for some seconds, so nobody can say how far the log went; nothing was changed. | bring the master back | mqctl ha promote BROKER --id N --force
MASTER_ALIVE | A forced change of roles is for a master that is gone: two masters would split the queues. | mqctl ha promote BROKER --id N --planned
MAX_LOSS | More than --max-loss allows may be missing in the new master; nothing was changed. | bring the master back | mqctl ha promote BROKER --id N --force --max-loss BYTES
MESSAGE_NOT_FOUND | It never was there, or retention has removed it. | mqctl topic status TOPIC | mqctl message tail TOPIC
NAMESRV_FAILED | The nameserver's port, folder or file of keys cannot be used. | --set kvConfigPath=FILE | --listen HOST:PORT
NAMESRV_TIMEOUT | The nameservers were reached and gave no answer in time. | mqctl nameserver status | --timeout 15s
NAMESRV_UNREACHABLE | None of the nameservers could be reached: wrong -n, a nameserver that is not running, or a network between. | mqctl -n HOST:9876 cluster list
NEVER | Waiting for it was ended early, since it cannot come true any more. | mqctl cluster list | mqctl stats ha
NOTHING_GIVEN | Settings that are not named keep their value. | COMMAND --help
NOTHING_MEASURED | Not one request succeeded. | mqctl cluster health | COMMAND --trace
NOTHING_TO_UNDO | Only changes that were made from here, by this user, are noted. | mqctl audit list
NOT_A_MASTER | Only masters are written to; nothing was changed. | mqctl broker list
NOT_A_SLAVE | Only a slave follows somebody. | mqctl broker list
NOT_FOUND | No such thing is registered, or it does not answer. | mqctl broker list
NOT_KILLED | The process may have another user, or be gone. | mqctl broker status
NOT_KNOWN | Settings, error codes, request codes and exit codes are explained. | mqctl config keys | mqctl help
NOT_NEWER | Of two masters the one that was made later stays; nothing was changed. | mqctl ha status | mqctl ha epoch
NOT_OFFERED | The server does not serve this request: its version does not have it, or a setting of it switches it off. | mqctl broker list
NOT_ONLINE | A group is online while one of its clients has a connection to a broker. | mqctl client list | mqctl group list --offline
NOT_REACHABLE | The port is open to its own machine only. | run it there | --set http.listen=ADDR at the broker's start
NOT_REACHED | The condition may come true later: the time of --for is over. | --for 30m
NOT_READY | The log of the process says what it waits for. | --ready-timeout 5m | --log FILE
NOT_REMOVED | The disk or the permissions of the folder do not allow it; the rest is done. | ls -ld DIR
NOT_ROLLED_BACK | The broker did not take the old value back. | mqctl audit list | mqctl undo ID
NOT_RUNNING | No process of this user on this machine was started with it; nothing was stopped. | mqctl broker list --local | mqctl nameserver status
NOT_SAVED | The file and its folder must be writable, and the disk have room. | ls -ld DIR | df -h DIR
NOT_SENT | The brokers that took none are named. | mqctl broker status BROKER
NOT_STARTED | The program must be installed and be found in PATH. | command -v PROGRAM
NOT_STATIC | Only a topic with logical queues can be moved so. | mqctl topic static set TOPIC | mqctl topic set TOPIC
NOT_STOPPED | It is still shutting down. | --grace 5m | --force
NOT_SUPPORTED | Nothing was sent. | COMMAND --help
NOT_TRACED | A client must be told to trace its messages. | --trace-topic TOPIC | mqctl message find --topic TOPIC --key KEY
NOT_TRIED | What changes several things stops at the first failure. | --on-error continue | the same command again: it is safe to repeat
NOT_VERIFIED | The broker took the change, and what was read back is not that. | the same command again: it is safe to repeat | mqctl broker status BROKER
NOT_VISIBLE | Brokers tell the nameservers of their changes at once, or within 30 s. | mqctl cluster route-check | --wait=2m
NOT_WRITTEN | The folder must exist and be writable, and the disk have room. | ls -ld DIR | df -h DIR
NO_ADDRESS | Its note in the state folder is gone or of an older start; nothing was stopped. | mqctl broker stop NAME
NO_EFFECT | It is taken so that old scripts start, and left out; everything else is done. | COMMAND --help
NO_MASTER | Writes go to a master, and none is registered for that name. | mqctl broker list | mqctl ha promote BROKER --id N --force
NO_OFFSETS | A group has an offset in a queue once it has consumed from it. | mqctl group lag GROUP
NO_OTHER_MASTER | Without a master nobody takes messages; nothing was changed. | mqctl ha promote BROKER --id N --planned
NO_SCHEMA | Only commands that print JSON have a schema. | mqctl schema list
NO_SNIPPET | A snippet is a tested script for one task. | mqctl cheat
NO_STORE | The folder of a store has a folder commitlog in it. | ls -l DIR
NO_TERMINAL | This draws on a terminal that can move its cursor. | mqctl top --once | mqctl shell FILE
NO_WAY_BACK | What was before is not known, or cannot be put back; nothing was changed. | mqctl audit list
ORDER_NOT_FOUND | Only topics that were made with --order have one. | mqctl kv list --namespace ORDER_TOPIC_CONFIG
OTHER_CLUSTER | A change is taken back where it was made; nothing was changed. | mqctl audit list
OTHER_IMPORT | An import that was begun goes on before another one begins; nothing was written. | mqctl store verify DIR
OTHER_PROCESS | Another broker or program listens on that port. | --http HOST:PORT | mqctl broker list
OUTPUT_FAILED | The command itself was carried out; what reads its output has gone, or the disk is full. | df -h
OVERLOADED | The broker holds back what it cannot serve in time (flow control); nothing was changed. | the same command again in a moment | mqctl top
PARTIAL | Some brokers were changed or have answered and others not; nothing is lost by a repetition. | the same command again: it is safe to repeat
PORT_IN_USE | Another process listens on this port. | --listen HOST:PORT
QUEUE_NOT_FOUND | The topic has no such queue at that broker. | mqctl topic status TOPIC
READ_FAILED | The disk or the permissions of the files do not allow it. | ls -l DIR | mqctl store verify DIR
READ_ONLY | The context in use refuses every change (read_only = true); nothing was sent. | --context NAME | mqctl context list
REFUSED | The server understood the request and did not do it; its own words are above. | mqctl broker logs BROKER --last 50 | COMMAND --trace
REPAIR_FAILED | What was written stays, and a repetition goes on from there. | mqctl store verify DIR | df -h DIR
ROLES_CHANGED | The roles are others than this command had read; nothing was changed by it since. | mqctl ha status | mqctl broker list
ROUTES_NOT_SEEN | Brokers register every 30 s at the latest. | mqctl cluster route-check
RULE_EXISTS | A rule is to be made, and there is another one for the same; nothing was changed. | mqctl acl set | mqctl acl list
RULE_NOT_FOUND | No broker asked has such a rule; nothing was changed. | mqctl acl list
SCHEMA_NOT_FOUND | Every command that prints JSON has one. | mqctl schema list
SECRET_VISIBLE | Everybody on this machine can read a command line; nothing was started. | give the name of a file with it
START_FAILED | The last lines of its log say what it met. | mqctl broker start --check | --log FILE
STILL_WRITTEN | Producers stop when they ask for routes again, within 30 s. | --wait=2m | mqctl stats traffic
STORE_CHANGED | Something else has written into the store since. | mqctl store verify DIR
STORE_DAMAGED | Nothing is cut or overwritten without being told to. | mqctl store verify DIR | mqctl store repair DIR --dry-run
STORE_IN_USE | Another process works in this store. | mqctl broker status | mqctl broker stop --store DIR
STRAY_ARGUMENT | Nothing was sent. | COMMAND --help
TARGET_MISSING | Several could be meant; nothing was sent. | --broker NAME/ID | --cluster NAME
TIMEOUT | The server was reached and gave no answer in time; a change may or may not have been made. | --timeout 15s | mqctl broker status BROKER
TOO_MUCH | What is printed at once is bounded. | --output jsonl | --limit 100
TOPIC_EXISTS | The topic is to be made, and there is one. | mqctl topic set NAME | mqctl topic get NAME
TOPIC_NOT_FOUND | Nobody asked has the topic. | mqctl topic list
TOPIC_READ_ONLY | The topic's or the broker's permission does not allow it; nothing was sent. | mqctl topic set TOPIC --perm rw | mqctl broker undrain BROKER
UNKNOWN | The connection was lost in the middle of a change of roles. | mqctl ha status | mqctl broker list
UNKNOWN_COMMAND | No command has this name; nothing was sent. | mqctl help | mqctl help mqadmin
UNKNOWN_FIELD | Fields have their names in JSON. | COMMAND --schema
UNKNOWN_FLAG | The command has no such flag; nothing was sent. | COMMAND --help
UNKNOWN_KEY | No setting has this name; nothing was sent. | mqctl config keys
UNREACHABLE | Nobody listens there, or the network does not let it through. | --http HOST:PORT
USER_EXISTS | The user is to be made, and there is one; nothing was changed. | mqctl user set NAME | mqctl user get NAME
USER_MISSING | A password is never exported: a new user's comes from the file that passwordFile names. | passwordFile = "FILE" in the user's table
USER_NOT_FOUND | No broker asked has the user. | mqctl user list
VALUE_MISSING | Nothing was sent. | COMMAND --help
WRITE_FAILED | The folder must be writable, and the disk have room. | ls -ld DIR | df -h DIR
`

// lineWith writes the command that met an error with one more flag: as a whole line
// where the flag makes it run, by its name where the flag only tells about it; ""
// where the command has no such flag or nobody knows the command.
type lineWith func(flag string) string

// lineByName knows how the command is written and nothing of its line.
func lineByName(command string) lineWith {
	return func(flag string) string {
		if command == "" {
			return ""
		}
		return "mqctl " + command + " " + flag
	}
}

// lineWith is the line of this call with one more flag.
func (c *call) lineWith(flag string) string {
	switch key := strings.TrimPrefix(flag, "--"); {
	case flag == "--help" || flag == "--schema" || flag == "--examples":
		return lineByName(c.name())(flag)
	case c.given(key) || c.flag(key) == nil:
		return ""
	}
	return lineByName(c.name() + c.repeated(func(f *flagSpec) bool { return !secretWord(f.key) && f.key != "schema" && f.key != "watch" }))(flag)
}

// perhapsChanged is what only commands say that were to change something.
const perhapsChanged = "; a change may or may not have been made"

// complete gives an error that does not say what to try what its code always
// means.
func (m *Message) complete(line lineWith) {
	if line("--dry-run") == "" {
		m.Why = strings.TrimSuffix(m.Why, perhapsChanged)
	}
	if len(m.Try) > 0 {
		return
	}
	row := strings.Split(tableText(errorTexts, m.Code), " | ")
	if line("--dry-run") == "" {
		row[0] = strings.Replace(row[0], perhapsChanged, "", 1)
	}
	if m.Why == "" && row[0] != "" {
		m.Why = sentenceAsWhy(row[0])
	}
	for _, t := range row[1:] {
		if flag, ok := strings.CutPrefix(t, "COMMAND "); ok {
			if t = line(flag); t == "" && flag == "--help" {
				t = "mqctl help"
			}
		}
		if t != "" {
			m.offer(m.named(t))
		}
	}
}

// named is a line to paste with the broker that the error is about in the place of
// the word BROKER.
func (m *Message) named(line string) string {
	head, tail, found := strings.Cut(line, " BROKER")
	if !found {
		return line
	}
	name, _, _ := strings.Cut(m.Target, "/")
	if m.Addr != "" && (strings.HasSuffix(head, " status") || strings.HasSuffix(head, " logs")) {
		name = m.Addr
	}
	if name == "" || m.Addr == "" { // not about a broker, or nobody knows which
		return line
	}
	return head + " " + shellWord(name) + tail
}

// sentenceAsWhy is a sentence as the why line has it: without a capital at its
// beginning, unless it is a name, and without a full stop.
func sentenceAsWhy(s string) string {
	s = strings.TrimSuffix(s, ".")
	word, _, _ := strings.Cut(s, " ")
	if word == "RocketMQ" || word == "Ctrl-C" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// complete completes all errors of a result but those that a sum in front of them
// has said.
func (r *result) complete(line lineWith) {
	for i := range r.errors {
		m := &r.errors[i]
		if i > 0 && r.errors[0].Code == "PARTIAL" && m.said(&r.errors[0]) {
			continue
		}
		m.complete(line)
	}
}
