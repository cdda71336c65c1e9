package claim_test

import (
	"fmt"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// A stamped key names its home: it needs no look-up in any region.
func ExampleStamp() {
	key, err := claim.Stamp(2, nil) // a region's code
	if err != nil {
		fmt.Println(err)
		return
	}
	code, stamped := claim.ReadStamp(key)
	fmt.Println(code, stamped)
	_, stamped = claim.ReadStamp("order-7")
	fmt.Println(stamped)
	// Output:
	// 2 true
	// false
}

// Two spellings of one request have one canonical form, and so one fingerprint.
func ExampleCanonical() {
	for _, body := range []string{
		`{"amount": 4200, "currency": "usd"}`,
		`{"currency":"usd","amount":4.2e3}`,
		`{"currency":"usd","amount":4201}`,
	} {
		canonical, err := claim.Canonical([]byte(body), claim.CanonicalOptions{})
		fmt.Println(string(canonical), err)
	}
	// Output:
	// {"amount":4200,"currency":"usd"} <nil>
	// {"amount":4200,"currency":"usd"} <nil>
	// {"amount":4201,"currency":"usd"} <nil>
}

// The transitions are pure functions: a store reads a row, asks one of them, and writes
// what it returns. The first arrival owns the key, one beside it waits, and one with
// another request is refused.
func ExampleBegin() {
	policy, now := claim.DefaultPolicy(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	code := claim.RegionCode(1)
	value, err := claim.Stamp(code, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	arrival := func(body string) *claim.Arrival {
		in := claim.FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme", ContentType: "application/json", Canonical: []byte(body)}
		sum, err := in.Fingerprint(claim.CurrentFingerprint)
		if err != nil {
			panic(err)
		}
		return &claim.Arrival{
			Content: claim.Content{Key: claim.Key{Tenant: "acme", Value: value}, Operation: "charge", Input: in, Print: sum, Mint: claim.Minted{ID: "ch_1"}},
			Route:   claim.Route{Home: "us-east1", Stamped: true},
			Holder:  claim.Holder{Node: "node-1", Region: "us-east1"},
		}
	}
	row, _, decision, _ := claim.Begin(nil, arrival(`{"amount":4200}`), 0, &policy, now)
	fmt.Println(decision)
	_, _, decision, _ = claim.Begin(row, arrival(`{"amount":4200}`), 0, &policy, now.Add(time.Second))
	fmt.Println(decision)
	_, _, decision, _ = claim.Begin(row, arrival(`{"amount":9900}`), 0, &policy, now.Add(time.Second))
	fmt.Println(decision)
	// Output:
	// won
	// busy
	// mismatch
}
