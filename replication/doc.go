// Package replication is the place of what keeps a slave's log equal to its
// master's: the transfer protocol, both of its roles, and failover. Nothing of
// it is built yet; a broker refuses to start as a slave, and package broker's
// keys for it are accepted at their defaults only.
package replication
