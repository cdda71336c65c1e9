// Command harness tries a client through the scenarios of this directory's parent:
//
//	go run ./sdk/harness [flags] COMMAND [ARG ...]
//
// It runs COMMAND, the client's own tests, with the harness's URL in HOMEWARD_SDK, and ends with its
// exit code. Scenarios with real regions need homeward demo, which runs beside it; without one
// they are left out.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/homeward-io/homeward/sdk"
)

func main() {
	regions := flag.String("regions", "http://127.0.0.1:8081,http://127.0.0.1:8082,http://127.0.0.1:8083", "the `URLs` of three regions")
	simulator := flag.String("simulator", "http://127.0.0.1:8090", "the `URL` of the payment simulator")
	key := flag.String("api-key", "sk_demo_acme", "the API `key` of the merchant")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "harness: name the command that runs the client's tests: go run ./sdk/harness npm test --prefix sdk/typescript")
		os.Exit(2)
	}
	world := sdk.World{Regions: strings.Split(*regions, ","), Simulator: *simulator, APIKey: *key}
	if res, err := http.Get(world.Simulator + "/_sim/summary"); err != nil {
		fmt.Fprintf(os.Stderr, "harness: scenarios with real regions are left out: no simulator answers at %s; start homeward demo\n", world.Simulator)
		world = sdk.World{}
	} else {
		_ = res.Body.Close()
	}
	if err := run(world, flag.Args()); err != nil {
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			os.Exit(failed.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "harness:", err)
		os.Exit(1)
	}
}

func run(world sdk.World, command []string) error {
	h, err := sdk.New(world)
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "HOMEWARD_SDK=http://"+l.Addr().String())
	return cmd.Run()
}
