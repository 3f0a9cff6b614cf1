package admin

import (
	"testing"

	"mqctl/broker/remoting"
)

// TestSigned compares with a value worked out by another implementation of
// HMAC-SHA1: printf 'RocketMQTopicTest0hi' | openssl sha1 -hmac 12345678 -binary | base64.
func TestSigned(t *testing.T) {
	ext := remoting.Map{"topic": "TopicTest", "zone": "0", "Signature": "old"}
	got := signed(ext, []byte("hi"), "RocketMQ", "12345678")
	if want := "aFwgCf0husEPRCSsA1sGYULleR4="; got["Signature"] != want || got["AccessKey"] != "RocketMQ" || got["topic"] != "TopicTest" {
		t.Errorf("%v, want the signature %s", got, want)
	}
	if ext["Signature"] != "old" || len(ext) != 3 {
		t.Errorf("the caller's fields were changed: %v", ext)
	}
}
