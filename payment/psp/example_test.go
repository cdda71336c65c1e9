package psp_test

import (
	"errors"
	"fmt"

	"github.com/homeward-io/homeward/payment/psp"
)

// A reply that does not come is no decline: the zero result has decided nothing.
func ExampleResult() {
	for _, r := range []psp.Result{
		{Outcome: psp.Approved, ProviderRef: "pi_1"},
		{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Soft, Code: "insufficient_funds"}},
		{Err: errors.New("no reply within 30 s")},
	} {
		switch r.Outcome {
		case psp.Approved:
			fmt.Println("money moved:", r.ProviderRef)
		case psp.Declined:
			fmt.Println("no money moved:", r.Decline.Code, r.Decline.Class)
		default:
			fmt.Println(r.Outcome, "because:", r.Err)
		}
	}
	// Output:
	// money moved: pi_1
	// no money moved: insufficient_funds soft
	// unknown because: no reply within 30 s
}
