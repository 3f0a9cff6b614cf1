package broker

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"mqctl/broker/delay"
	"mqctl/replication"
	"mqctl/store"
	"mqctl/store/vfs"
)

// Options of a Broker: everything that cannot change while it runs, plus the
// first Reloadable. conf.go fills them from RocketMQ's configuration keys.
type Options struct {
	Name    string // brokerName, [A-Za-z0-9._-]{1,127}
	Cluster string // brokerClusterName, same characters
	Role    Role   // brokerRole at the start
	ID      int64  // brokerId: 0 = master
	Epoch   int64  // of the role: the stateVersion of data versions; raised by each change of role
	// ConfiguredID is brokerId of the configuration, which role.json may override: what operators call the broker.
	ConfiguredID int64
	FormerID     int64 // of a promoted master: the id it had as a slave
	Rejoin       bool  // of a former master: its log may have a tail that its new master lacks

	Listen     func(network, addr string) (net.Listener, error) // nil: net.Listen
	ListenAddr string                                           // host:port of the main port; the fast port is port-2
	Advertise  string                                           // IP address given to clients (brokerIP1)
	HAAddr     string                                           // haServerAddr told to nameservers; port 0: the one that was bound
	HAListen   string                                           // host:port of the replication port; "": one above the main port
	HAMaster   string                                           // haMasterAddress, where a slave's log comes from; "": told by nameservers
	HAAuthKey  string                                           // haAuthKeyFile
	HATLS      HATLS
	// PreOnlineWait is how long a master that starts waits for the progress of
	// its other replicas before its ports serve (preOnlineWaitMillis); 0: not at all.
	PreOnlineWait time.Duration

	// Dial connects to nameservers and other brokers; nil: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	Namesrvs []string // host:port each; nil: none

	FS            vfs.FS
	Store         store.Options
	DelayLevels   string        // messageDelayLevel; "" means RocketMQ's 18 levels
	RegisterEvery time.Duration // registerNameServerPeriod; 0 means 30 s
	OffsetsEvery  time.Duration // flushConsumerOffsetInterval; 0 means 5 s

	RegisterTimeout   time.Duration // registerBrokerTimeoutMills; 0 means 24 s
	DelayOffsetsEvery time.Duration // flushDelayOffsetInterval; 0 means 10 s
	IdleTimeout       time.Duration // serverChannelMaxIdleTimeSeconds; 0 means 120 s
	ClientExpiry      time.Duration // channelExpiredTimeout; 0 means 120 s
	DrainTimeout      time.Duration // shutdownWaitTimeSeconds; 0 means 30 s
	DefaultQueues     int32         // defaultTopicQueueNums; 0 means 8
	ReviveQueues      int32         // reviveQueueNum; 0 means 8
	TraceTopic        bool          // traceTopicEnable
	TimerTopic        bool          // timerWheelEnable: the topic of timer messages exists

	Reloadable Reloadable
	Settings   *Settings // answers 26 and takes 25; made by conf.go
	Version    string    // of this program, told by 28; "" means its module's

	unwatched bool // tests: standing and peers stay what the test makes them

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: discarded
	// Logs keeps what was logged for operators, if Log writes to it too; nil: nothing is kept.
	Logs *LogRing
}

// Reloadable are the settings that act at once when changed by request 25. A
// change replaces the whole value; it is never modified.
type Reloadable struct {
	Permission           int // brokerPermission: 2 write, 4 read
	AutoCreateTopic      bool
	AutoCreateGroup      bool
	SlaveRead            bool            // slaveReadEnable
	MemoryRatio          int             // accessMessageInMemoryMaxRatio, percent; a slave uses 10 less
	MemoryBytes          int64           // memoryLimitForRatio: what the ratio refers to; 0: the machine's, or the container's
	PullWindow           time.Duration   // pullStatsWindow; 0 means a minute
	MaxMessage           int             // maxMessageSize, bytes of one body
	LongPolling          bool            // longPollingEnable
	ShortPolling         time.Duration   // shortPollingTimeMills, used without LongPolling
	NotifyIDsChanged     bool            // notifyConsumerIdsChangedEnable
	RejectTransaction    bool            // rejectTransactionMessage
	LitePull             bool            // litePullMessageEnable
	TraceOn              bool            // traceOn
	Region               string          // regionId
	Retention            store.Retention // what is deleted and when; the zero value means RocketMQ's
	StartAccept          int64           // startAcceptSendRequestTimeStamp, ms
	ClientReset          bool            // useServerSideResetOffset=false: the members of a group carry a reset out
	ValidateSystemTopic  bool            // validateSystemTopicWhenUpdateTopic
	MixedMessageType     bool            // enableMixedMessageType
	QueryMax             int             // maxMsgsNumBatch, messages found by a key
	QueryUniqueMax       int             // defaultQueryMaxNum, messages found by a unique key
	ReturnZeroIfInMemory bool            // answer 0 to 14 for a young queue without progress

	OffsetCheckInSlave bool // offsetCheckInSlave: a slave corrects offsets outside of a queue
	ForwardStaleWrites bool // forwardStaleWrites: sends that reach a slave are relayed
	RoleSwitch         bool // roleSwitchEnable
	ActingMaster       bool // enableSlaveActingMaster
	// HA are the settings of replication that both roles read.
	HA replication.Settings
}

// HATLS are the files of encrypted replication (haTlsCert, haTlsKey, haTlsCa).
type HATLS struct {
	On            bool
	Cert, Key, CA string
}

// defaultDelayLevels is messageDelayLevel of MessageStoreConfig.
const defaultDelayLevels = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

// PortError says that an address cannot be listened on (exit 13).
type PortError struct {
	Addr   string
	Holder string // the process that listens there, as far as it can be known: "pid 12 (mqctl)"
	Err    error
}

func (e *PortError) Error() string {
	text := fmt.Sprintf("cannot listen on %s: %v", e.Addr, e.Err)
	if e.Holder != "" {
		text += "; it is held by " + e.Holder
	}
	return text
}

func (e *PortError) Unwrap() error { return e.Err }

// IdentityError says that another live broker is registered under this name
// and id (exit 14).
type IdentityError struct {
	Name string
	ID   int64
	Addr string // where the other one answers
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("%s/%d is already registered from %s, which answers under this name; two brokers of one name and id would split its queues", e.Name, e.ID, e.Addr)
}

var identity = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9._-]{1,127}$`)
})

// withDefaults fills what was left out.
func (o Options) withDefaults() Options {
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	if o.DelayLevels == "" {
		o.DelayLevels = defaultDelayLevels
	}
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&o.RegisterEvery, 30 * time.Second}, {&o.RegisterTimeout, 24 * time.Second}, {&o.OffsetsEvery, 5 * time.Second},
		{&o.DelayOffsetsEvery, 10 * time.Second}, {&o.IdleTimeout, 120 * time.Second}, {&o.ClientExpiry, 120 * time.Second},
		{&o.DrainTimeout, 30 * time.Second},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.DefaultQueues == 0 {
		o.DefaultQueues = 8
	}
	if o.ReviveQueues == 0 {
		o.ReviveQueues = 8
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Store.FS == nil {
		o.Store.FS = o.FS
	}
	if o.Store.Now == nil {
		o.Store.Now = o.Now
	}
	if o.Store.Log == nil {
		o.Store.Log = o.Log
	}
	return o
}

// Validate checks what New needs; the error is a *ConfigError.
func (o Options) Validate() error {
	bad := func(key, format string, args ...any) error {
		return &ConfigError{Key: key, Why: fmt.Sprintf(format, args...)}
	}
	const name = "%q is not a name: 1 to 127 of A-Z a-z 0-9 . _ - and not . or .."
	switch {
	case !validIdentity(o.Name):
		return bad("brokerName", name, o.Name)
	case !validIdentity(o.Cluster):
		return bad("brokerClusterName", name, o.Cluster)
	case o.Role != Slave && o.ID != 0:
		return bad("brokerId", "%d is a slave's id, but brokerRole is %s; a master has 0", o.ID, o.Role)
	case o.Role == Slave && o.ID <= 0:
		return bad("brokerId", "%d is no id of a slave; slaves have 1 and above", o.ID)
	case o.FS == nil:
		return bad("storePathRootDir", "no file system was given")
	case o.Store.Dir == "":
		return bad("storePathRootDir", "is empty; it names the folder of the messages")
	case o.OffsetsEvery < 0:
		return bad("flushConsumerOffsetInterval", "is negative")
	case o.RegisterEvery < 0:
		return bad("registerNameServerPeriod", "is negative")
	}
	if _, err := netip.ParseAddr(o.Advertise); err != nil {
		return bad("brokerIP1", "%q is not an IP address; clients are told to connect to it", o.Advertise)
	}
	if _, _, err := splitListen(o.ListenAddr); err != nil {
		return bad("listenPort", "%v", err)
	}
	if _, _, err := splitAddr(o.HAListen); o.HAListen != "" && err != nil {
		return bad("haListenPort", "%v", err)
	}
	if _, _, err := splitAddr(o.HAMaster); o.HAMaster != "" && err != nil {
		return bad("haMasterAddress", "%v", err)
	}
	if _, err := delay.ParseLevels(o.DelayLevels); err != nil {
		return bad("messageDelayLevel", "%v", err)
	}
	return nil
}

func validIdentity(s string) bool {
	return s != "." && s != ".." && identity().MatchString(s)
}

// splitListen takes the main address apart. Port 0 lets the system choose both
// ports (tests); else the fast port (port-2) must be a port too.
func splitListen(addr string) (host string, port int, err error) {
	if host, port, err = splitAddr(addr); err != nil {
		return "", 0, err
	}
	if port != 0 && port < 3 {
		return "", 0, fmt.Errorf("port %d leaves no place for the fast port, which is two below", port)
	}
	return host, port, nil
}

// splitAddr takes host:port apart; port 0 is allowed.
func splitAddr(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not host:port", addr)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%q is not a port", text)
	}
	return host, port, nil
}

// processID goes into the unique keys that the broker makes.
func processID() int { return os.Getpid() }
