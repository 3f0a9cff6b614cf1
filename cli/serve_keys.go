package cli

import "mqctl/broker"

// The table of broker keys, as the config commands and completion need it.

// brokerKey is what the commands need to know of a key.
type brokerKey struct {
	name    string
	def     string
	applies string // LIVE, RECONNECT or RESTART
	text    string
}

// lookupKey finds a key by its name or an old spelling of it.
func lookupKey(name string) (brokerKey, bool) {
	k := broker.LookupKey(name)
	if k == nil {
		return brokerKey{}, false
	}
	return brokerKey{name: k.Name, def: k.Default, applies: string(k.Applies), text: k.Text}, true
}

// brokerKeys are all keys by name.
func brokerKeys() []brokerKey {
	known := broker.KnownKeys()
	out := make([]brokerKey, len(known))
	for i, k := range known {
		out[i] = brokerKey{name: k.Name, def: k.Default, applies: string(k.Applies), text: k.Text}
	}
	return out
}

// keyValues are the possible values of a setting that has few of them.
func keyValues(name string) []string {
	switch k := broker.LookupKey(name); {
	case k == nil:
		return nil
	case k.Kind == broker.Bool:
		return []string{"true", "false"}
	default:
		return k.Values
	}
}

// nearestKey is the key that name looks like, "" if none does.
func nearestKey(name string) string { return broker.NearestKey(name) }

// keptForm is a value as a broker keeps it, without units.
func keptForm(key, value string) (string, bool) {
	k := broker.LookupKey(key)
	if k == nil {
		return "", false
	}
	cfg, err := broker.LoadConfig(broker.ConfigInput{Set: []string{k.Name + "=" + value}, HostName: "localhost", HomeDir: "/", LocalIP: "127.0.0.1", CPUs: 1})
	if err != nil {
		return "", false
	}
	return cfg.Value(k.Name), true
}

// badSetting says why a broker of this program cannot take a value; nil when it
// can, or when it does not know the key.
func badSetting(key, value string) error {
	k := broker.LookupKey(key)
	if k == nil {
		return nil
	}
	_, err := k.Check(value)
	return err
}

// tokenFileKey names the file that takes the place of http.token.
const tokenFileKey = "http.tokenFile"

// shutSecret reports whether a setting is a secret that no broker of this program takes
// in any way, and what to write or to read instead of it.
func shutSecret(key string) (try string, shut bool) {
	k := broker.LookupKey(key)
	switch {
	case k == nil || k.Use != broker.Fixed || !k.Secret:
		return "", false
	case k.Name == "http.token":
		return tokenFileKey + "=PATH", true
	}
	return "mqctl broker config explain " + k.Name, true
}

// editDistance counts the edits between a and b; texts that are too long for a name are
// only compared.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		if a == b {
			return 0
		}
		return 64
	}
	return broker.EditDistance(a, b)
}

// secretWord reports whether a setting's name says that its value is a secret.
func secretWord(name string) bool { return broker.SecretName(name) }

// hideSecret is a setting's value as it may be shown.
func hideSecret(key, value string) string { return broker.HideSecret(key, value) }

// hiddenSetting is what brokers of this program and hideSecret show of a secret.
const hiddenSetting = broker.Hidden
