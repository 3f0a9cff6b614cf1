package body

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
	"time"
)

// Fields that prove a request between the brokers of a name by their shared key, as in
// roleProof but with the body.
const (
	PeerTimeField  = "at"
	PeerProofField = "mac"
)

// peerProof is the HMAC-SHA-256 of who asks for what, when, and with which body.
func peerProof(key []byte, what, who, at string, payload []byte) string {
	h := hmac.New(sha256.New, key)
	for _, part := range []string{"MQCTL_PEER", what, who, at} {
		_, _ = io.WriteString(h, strconv.Itoa(len(part))+":"+part+"\n") // a hash takes everything
	}
	_, _ = h.Write(payload)
	return hex.EncodeToString(h.Sum(nil))
}

// SignPeer proves that the sender of a request has the key: what is asked for, who
// asks, and the body. Such requests may be repeated, so no more than their time keeps
// an old one out.
func SignPeer(key []byte, what, who string, payload []byte, now time.Time) (at, proof string) {
	at = strconv.FormatInt(now.UnixMilli(), 10)
	return at, peerProof(key, what, who, at, payload)
}

// VerifyPeer reports whether the sender of a request has the key, and sent it within
// the last 30 s by clocks that agree.
func VerifyPeer(key []byte, what, who string, payload []byte, at, proof string, now time.Time) bool {
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil || len(key) == 0 || time.UnixMilli(ms).Sub(now).Abs() > roleProofAge {
		return false
	}
	return hmac.Equal([]byte(proof), []byte(peerProof(key, what, who, at, payload)))
}

// ProveConn answers the challenge of a broker on a connection: it proves the key for
// all that comes over it.
func ProveConn(key []byte, challenge string) string {
	return peerProof(key, "connection", challenge, "", nil)
}

// ConnProved reports whether proof answers the challenge.
func ConnProved(key []byte, challenge, proof string) bool {
	return len(key) > 0 && challenge != "" && hmac.Equal([]byte(proof), []byte(ProveConn(key, challenge)))
}

// SignAnswer proves that an answer comes from a broker that has the key: to the request
// that carried the proof asked, with this head and body.
func SignAnswer(key []byte, asked, head string, payload []byte) string {
	return peerProof(key, "answer", asked, head, payload)
}

// AnswerProved reports whether whoever answered has the key.
func AnswerProved(key []byte, asked, head string, payload []byte, proof string) bool {
	return len(key) > 0 && asked != "" && hmac.Equal([]byte(proof), []byte(SignAnswer(key, asked, head, payload)))
}
