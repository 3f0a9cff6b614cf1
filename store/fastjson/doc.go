// Package fastjson reads and writes the dialect of JSON that RocketMQ's
// fastjson 1.2.83 produces. It differs from JSON in the keys of maps: integers
// are bare, objects are object literals.
//
//	{"offsetTable":{"orders@billing":{0:17,3:99}}}
//	{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"t"}:{"maxOffset":5}}}
//
// Reading makes legal JSON of it (Clean) and leaves the rest to encoding/json.
// Writing is encoding/json too; only RawMap has bare keys.
package fastjson
