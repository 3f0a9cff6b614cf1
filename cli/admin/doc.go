// Package admin is the client that the commands use to talk to nameservers and
// brokers, of mqctl or of Apache RocketMQ.
//
// A Client finds things (Cluster, Route, Targets), asks many brokers side by
// side (Each, EachNameserver) and has one typed method for each request. It
// prints nothing. Its errors are typed (errors.go), so that a caller can tell
// "not reachable" from "not there" from "refused" without reading texts.
//
// Goroutines: Each and EachNameserver start at most Options.Parallel of them
// and return after the last has ended; the connections belong to
// remoting.Client and end with Close.
package admin
