package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"mqctl/replication"
	"mqctl/store/vfs"
)

// mostSecretBytes bounds a key or certificate file.
const mostSecretBytes = 1 << 20

// haAuth reads the shared key and the certificates of replication; nil without
// any. Errors are *ConfigError with the key that names the file.
func (o Options) haAuth() (*replication.Auth, error) {
	var key []byte
	if o.HAAuthKey != "" {
		var err error
		if key, err = o.readSecret("haAuthKeyFile", o.HAAuthKey); err != nil {
			return nil, err
		}
	}
	server, client, err := o.haTLS()
	if err != nil {
		return nil, err
	}
	a, err := replication.NewAuth(key, server, client)
	if err != nil {
		return nil, &ConfigError{Key: "haAuthKeyFile", Why: err.Error()}
	}
	return a, nil
}

// haTLS makes the TLS of both roles: each side shows the certificate of this
// broker and asks for one that haTlsCa signed. Names in certificates are not
// compared: replicas know each other by addresses that may change.
func (o Options) haTLS() (server, client *tls.Config, err error) {
	if !o.HATLS.On {
		return nil, nil, nil
	}
	cert, err := o.readSecret("haTlsCert", o.HATLS.Cert)
	if err != nil {
		return nil, nil, err
	}
	key, err := o.readSecret("haTlsKey", o.HATLS.Key)
	if err != nil {
		return nil, nil, err
	}
	ca, err := o.readSecret("haTlsCa", o.HATLS.CA)
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, nil, &ConfigError{Key: "haTlsCert", Why: fmt.Sprintf("%s and %s are no pair: %v", o.HATLS.Cert, o.HATLS.Key, err)}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, nil, &ConfigError{Key: "haTlsCa", Why: o.HATLS.CA + " holds no certificate in PEM form"}
	}
	server = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	client = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, //nolint:gosec // verified below, without the name
		VerifyConnection: func(s tls.ConnectionState) error { return signedBy(pool, s.PeerCertificates) }}
	return server, client, nil
}

// signedBy verifies a chain against the certificates that sign replicas' ones.
func signedBy(pool *x509.CertPool, chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("the master showed no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired { // its text has the time, and each attempt would be news
		return fmt.Errorf("the master's certificate has expired or is not valid yet: it is good from %s to %s",
			chain[0].NotBefore.UTC().Format(time.RFC3339), chain[0].NotAfter.UTC().Format(time.RFC3339))
	}
	return err
}

// readSecret reads a file that a key names.
func (o Options) readSecret(key, path string) ([]byte, error) {
	b, err := vfs.ReadFile(o.FS, path, mostSecretBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &ConfigError{Key: key, Why: path + " does not exist"}
	case err != nil:
		return nil, &ConfigError{Key: key, Why: err.Error()}
	}
	return b, nil
}
