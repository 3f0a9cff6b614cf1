// Package body has the JSON bodies of requests and answers as fastjson 1.2.83
// writes and reads them (Java's remoting.protocol.body, heartbeat and route packages).
//
// Encode writes compact JSON with properties in alphabetical order and no null; maps
// come in the order of their keys. Where RocketMQ has message queues as keys of a map,
// Encode writes them as object literals, which is not legal JSON but the only form
// that Java's clients read. Integer keys are quoted, which every client reads.
//
// Decode reads both the legal and the raw form, ignores unknown properties and
// accepts what is missing; nesting is bounded by store/fastjson. An empty body is an error.
package body
