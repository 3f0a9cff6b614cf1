package broker

import "strings"

// Hidden stands in the place of a value that nobody should see: in answers to
// GET_BROKER_CONFIG, in listings and in messages. It is no value for such a key.
const Hidden = "(hidden)"

// secretWords are in the names of settings that hold secrets: those of this table,
// of RocketMQ's other programs and of brokers that mqctl does not know.
var secretWords = []string{
	"password", "passwd", "secret", "accesskey", "access-key", "access_key", "token", "credential", "authenticationuser", "exporterheader",
}

// SecretName reports whether the name of a setting says that its value is a secret.
// The name of a file with a secret is none.
func SecretName(name string) bool {
	low := strings.ToLower(name)
	if strings.HasSuffix(low, "file") || strings.HasSuffix(low, "path") {
		return false
	}
	for _, w := range secretWords {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}

// HideSecret is a value as it may be shown.
func HideSecret(name, value string) string {
	if value != "" && SecretName(name) {
		return Hidden
	}
	return value
}
