// Command mqctl runs RocketMQ-compatible brokers and nameservers and administers them.
package main

import (
	"os"

	"mqctl/cli"
)

func main() {
	os.Exit(cli.Run(cli.Signals(), os.Args, cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
