// Package nameserver keeps which broker holds which topic and tells clients.
//
// Brokers register themselves and their topics (103) at every nameserver, and
// again every 30 s; nameservers know nothing of each other. What clients ask
// for is answered from an immutable view (routes.go), so no reader ever waits
// for a registration. A broker is forgotten at once when the connection that
// registered it last is closed, when it says goodbye (104), and by the scan
// (expire.go) when it was silent for its own heartbeat time. Only the key table
// (kv.go) is kept on disk.
//
// Goroutines, all started by Server.Run and ended by its context:
//
//   - the server's accept loop and one reader for each connection (package
//     remoting); every request but a change of the key table is served there;
//   - the scan for silent brokers, woken every Options.ScanEvery;
//   - the key table's writer, woken by a change: it makes all waiting changes
//     durable with one sync and answers them;
//   - the messenger, woken by a change of a broker name's lowest id: it tells
//     the name's brokers (905). It runs only with NotifyMinBrokerIDChanged.
package nameserver
