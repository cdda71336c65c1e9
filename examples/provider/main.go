// Command provider is a complete adapter for a payment provider: read provider.go, and
// then its test, which runs the conformance suite. The command makes one charge and
// repeats it.
//
//	homeward simulator --listen 127.0.0.1:8099 &    # not the demo's, which would look for the charge
//	go run ./examples/provider http://127.0.0.1:8099
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/homeward-io/homeward/payment/psp"
)

func main() {
	if len(os.Args) != 2 || !strings.HasPrefix(os.Args[1], "http") {
		fmt.Fprintln(os.Stderr, "usage: provider URL, where a simulator listens, as in http://127.0.0.1:8099")
		os.Exit(2)
	}
	run(context.Background(), os.Stdout, newGiftCards(os.Args[1]))
}

// run charges twice under one key, as the executor does after a reply was lost.
func run(ctx context.Context, out io.Writer, p psp.Provider) {
	call := psp.Call{Kind: psp.KindCharge, Key: "example-1", Reference: "ch_example", Amount: 1999, Currency: "usd", Source: "pm_card_visa"}
	for range 2 {
		switch r := p.Charge(ctx, call); r.Outcome {
		case psp.Approved:
			fmt.Fprintln(out, "approved", r.ProviderRef)
		case psp.Declined:
			fmt.Fprintln(out, "declined", r.Decline.Code)
		default:
			fmt.Fprintln(out, "unknown:", r.Err)
		}
	}
}
