// Command homeward is the idempotency layer of a payments API: a regional node,
// a whole cluster for a laptop, and the tools around them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/homeward-io/homeward/internal/cli"
)

func main() {
	// Stores, buckets, keys and reports are for this user alone. What others read, as
	// certificates, sets its own permissions.
	syscall.Umask(0o077)
	ends := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ends = append(ends, syscall.SIGHUP) // a lost terminal ends a command as Ctrl-C does, so that a drill repairs what it broke
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	code := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
