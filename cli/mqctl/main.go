// Command mqctl runs RocketMQ-compatible brokers and nameservers and administers them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"mqctl/cli"
)

func main() {
	// A reader that goes away is told by the failed write, not by a signal.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() { // ends with the process
		cancel(interrupted(<-signals))
		os.Exit(interrupted(<-signals).Code)
	}()
	os.Exit(cli.Run(ctx, os.Args, cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

func interrupted(s os.Signal) *cli.Interrupted {
	code := cli.ExitTerminated
	if s == syscall.SIGINT {
		code = cli.ExitInterrupted
	}
	return &cli.Interrupted{Signal: s, Code: code}
}
