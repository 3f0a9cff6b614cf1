package body

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Fields that prove a step of 30002 by the shared key of the group.
const (
	roleTimeField  = "at"  // ms since 1970
	roleProofField = "mac" // hex HMAC-SHA-256 of all other fields, see roleProof
)

// roleProofAge is how old a proof may be, and how far ahead: clocks differ.
const roleProofAge = 30 * time.Second

// roleProof is the HMAC-SHA-256 of the fields without the proof: a line
// "key=length:value" for each in ascending order of the keys.
func roleProof(key []byte, fields map[string]string) string {
	h := hmac.New(sha256.New, key)
	_, _ = io.WriteString(h, "MQCTL_ROLE\n") // a hash takes everything
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		if k != roleProofField {
			_, _ = io.WriteString(h, k+"="+strconv.Itoa(len(fields[k]))+":"+fields[k]+"\n")
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// SignRole adds to the fields of a step that the sender has the key. The step is
// proved for the broker at addr alone.
func SignRole(key []byte, addr string, fields map[string]string, now time.Time) {
	fields["to"] = addr
	fields[roleTimeField] = strconv.FormatInt(now.UnixMilli(), 10)
	fields[roleProofField] = roleProof(key, fields)
}

// RoleProofOf is the proof among the fields of a step, to which its answer is proved by
// SignAnswer with the step's name as the head; empty if there is none.
func RoleProofOf(fields map[string]string) string { return fields[roleProofField] }

// VerifyRole reports whether the sender of a step for the broker at addr has the key.
func VerifyRole(key []byte, addr string, fields map[string]string, now time.Time) bool {
	at, err := strconv.ParseInt(fields[roleTimeField], 10, 64)
	if err != nil || len(key) == 0 || fields["to"] != addr || time.UnixMilli(at).Sub(now).Abs() > roleProofAge {
		return false
	}
	return hmac.Equal([]byte(fields[roleProofField]), []byte(roleProof(key, fields)))
}

// RoleStatus answers every step of the private code 30002 (MQCTL_ROLE): the
// broker's part in replication after the step. Positions are of the commit log, times in ms.
type RoleStatus struct {
	Broker   string `json:"broker"`
	BrokerID int64  `json:"brokerId"`
	// ConfiguredID is brokerId of the broker's own configuration, which role.json overrides: what the operators call it.
	ConfiguredID int64  `json:"configuredId"`
	Former       int64  `json:"formerId,omitempty"` // of a master: the id it had as a slave
	Role         string `json:"role"`
	Epoch        int64  `json:"epoch"`
	Fenced       bool   `json:"fenced"`
	FenceEpoch   int64  `json:"fenceEpoch,omitempty"`      // of the change that fenced it
	FenceLeft    int64  `json:"fenceLeftMillis,omitempty"` // until the fence lifts itself
	// ChangedMillis is how long ago a change of roles made the broker what it is; 0: not since it started.
	ChangedMillis int64 `json:"changedMillis,omitempty"`
	// Promoting is who is to be the master by the change that is under way here, and for how long that is; empty: none is.
	Promoting       string `json:"promoting,omitempty"`
	PromotingMillis int64  `json:"promotingMillis,omitempty"`
	Addr            string `json:"addr"`
	HAAddr          string `json:"haAddr"`
	Switchable      bool   `json:"roleSwitchEnable"`
	Min             int64  `json:"minOffset"`
	Max             int64  `json:"maxOffset"`
	Dispatched      int64  `json:"dispatchedOffset"`
	// Of a slave: its master, and the newest end of the master's log it has heard of.
	MasterAddr  string `json:"masterAddr,omitempty"`
	MasterAlive bool   `json:"masterAlive"`
	MasterRole  string `json:"masterRole,omitempty"` // when it was last heard
	Connected   bool   `json:"connected"`
	MasterEnd   int64  `json:"masterMaxOffset"`
	MasterEndAt int64  `json:"masterMaxOffsetAt"` // 0: never heard
	// MasterEndOld says that MasterEnd was heard before this broker started: it was away while the master may have gone on.
	MasterEndOld bool `json:"masterMaxOffsetOld,omitempty"`
	// MasterEndLag is for how long after that the master may have gone on: until the connection to it ended, or until now while it stands.
	MasterEndLag int64  `json:"masterMaxOffsetLagMillis,omitempty"`
	State        string `json:"state,omitempty"`
	Why          string `json:"why,omitempty"`
	// Aside is where a tail that the new master does not have was kept.
	Aside string `json:"aside,omitempty"`
	// Clamped are the consume positions that a forced promotion lowered to the end of their queue.
	Clamped      []ClampedProgress `json:"clamped,omitempty"`
	ClampedTotal int               `json:"clampedTotal,omitempty"`
}

// ClampedProgress is one consume position that was behind the end of the shortened log.
type ClampedProgress struct {
	Group string `json:"group"`
	Topic string `json:"topic"`
	Queue int32  `json:"queueId"`
	To    int64  `json:"to"`
}

// Encode writes the answer.
func (s RoleStatus) Encode() []byte { return encode(s) }

// DecodeRoleStatus reads the answer to 30002.
func DecodeRoleStatus(b []byte) (*RoleStatus, error) { return decode[RoleStatus]("role", b) }
