package broker

import "testing"

// Every key with an empty value: what LoadConfig takes, with which --print-config and
// config lint are content, must be what a start takes.
func TestEmptyValues(t *testing.T) {
	for _, k := range KnownKeys() {
		in := ConfigInput{HostName: "h", HomeDir: "/home/u", LocalIP: "127.0.0.1", CPUs: 2, Set: []string{k.Name + "="}}
		c, err := LoadConfig(in)
		if err != nil {
			continue
		}
		if _, err := c.Options(); err != nil {
			t.Errorf("%s: taken, and then: %v", k.Name, err)
		}
	}
}
