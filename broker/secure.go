package broker

import (
	"mqctl/replication"
)

// secureHA says whether replication connections are authenticated or encrypted.
func (o Options) secureHA() bool { return o.HAAuthKey != "" || o.HATLS.On }

// haAuth reads the key and the certificates of replication; nil without any.
func (o Options) haAuth() (*replication.Auth, error) {
	if !o.secureHA() {
		return nil, nil
	}
	return nil, &ConfigError{Key: "haAuthKeyFile", Why: "authenticated replication is not built yet"}
}
