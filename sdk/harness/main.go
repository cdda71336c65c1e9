// Command harness tries a client through the scenarios of this directory's parent:
//
//	go run ./sdk/harness [flags] COMMAND [ARG ...]
//
// It runs COMMAND, the client's own tests, with the harness's URL in HOMEWARD_SDK, and ends with its
// exit code. Scenarios with real regions need homeward demo, which runs beside it; without one
// they are left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"github.com/homeward-io/homeward/sdk"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:])
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		os.Exit(max(failed.ExitCode(), 1)) // the command has said why
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "harness:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("harness", flag.ContinueOnError)
	regions := flags.String("regions", "http://127.0.0.1:8081,http://127.0.0.1:8082,http://127.0.0.1:8083", "the `URLs` of three regions")
	simulator := flags.String("simulator", "http://127.0.0.1:8090", "the `URL` of the payment simulator")
	key := flags.String("api-key", "sk_demo_acme", "the API `key` of the merchant")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name the command that runs the client's tests: go run ./sdk/harness npm test --prefix sdk/typescript")
	}
	world := sdk.World{Regions: strings.Split(*regions, ","), Simulator: *simulator, APIKey: *key}
	if !answers(ctx, world.Simulator) {
		fmt.Fprintf(os.Stderr, "harness: no simulator answers at %s, so scenarios with real regions are left out; start homeward demo\n", world.Simulator)
		world = sdk.World{}
	}
	h, err := sdk.New(world)
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	cmd := exec.CommandContext(ctx, flags.Arg(0), flags.Args()[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "HOMEWARD_SDK=http://"+l.Addr().String())
	return cmd.Run()
}

// answers reports whether a simulator does.
func answers(ctx context.Context, simulator string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, simulator+"/_sim/summary", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}
