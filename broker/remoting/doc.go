// Package remoting is RocketMQ's wire protocol: frames, headers in JSON and in
// the ROCKETMQ binary form, a server that serves bursts of frames without a
// hand-over, and a client.
//
// A frame on the wire (all numbers big endian, Java class RemotingCommand):
//
//	+0  i32  length      bytes that follow this word = 4 + headerLen + bodyLen
//	+4  i8   type        0 = JSON header, 1 = binary header
//	+5  u24  headerLen
//	+8       header      headerLen bytes
//	+8+h     body        the rest
//
// # Goroutines
//
//   - Each connection has one reader, started by Server.Serve when it accepts or
//     by Client when it dials (the same goroutine dials first). It reads a burst, calls the handler for
//     each whole frame, and writes the answers that the socket takes at once. The
//     socket's data wakes it; Close, Drain or a failed read stops it. It calls
//     Handler.Closed as its last act.
//   - Each connection has a writer only while bytes wait for a socket that does
//     not take them (always, while bytes wait, on connections that are no TCP
//     sockets). Flush starts it; it ends when nothing waits or the connection ends.
//   - Each Server.Serve has one sweeper, which closes idle connections. A timer
//     wakes it; the end of Serve stops it.
//
// # Memory
//
// A peer that takes no answers is not read any more while a quarter of MaxUnread waits
// for it, and closed at MaxUnread. While 256 MiB wait for all peers together, those for
// whom 64 KiB or more wait are not read either: many slow readers need little more than
// one.
//
// # Locks
//
// Conn.mu guards what waits to be written and which requests are unanswered; it
// is never held during a system call or a wait. Server.mu and Client.mu guard
// their tables of connections. No two of them are held together.
package remoting
