package admin

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"sort"

	"mqctl/broker/remoting"
)

// The fields that carry a request's signature, as RocketMQ's clients name them.
const (
	fieldAccessKey = "AccessKey"
	fieldSignature = "Signature"
)

// signed is ext with the access key and the signature that RocketMQ's servers
// check: HMAC-SHA1 under the secret key over the values of all fields in the
// order of their names, followed by the body, in base64.
func signed(ext remoting.Map, body []byte, accessKey, secretKey string) remoting.Map {
	out := make(remoting.Map, len(ext)+2)
	names := make([]string, 0, len(ext)+1)
	for k, v := range ext {
		if k != fieldSignature && k != fieldAccessKey {
			out[k] = v
			names = append(names, k)
		}
	}
	out[fieldAccessKey] = accessKey
	names = append(names, fieldAccessKey)
	sort.Strings(names)
	mac := hmac.New(sha1.New, []byte(secretKey))
	for _, k := range names {
		mac.Write([]byte(out[k])) // a hash takes everything
	}
	mac.Write(body)
	out[fieldSignature] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return out
}
