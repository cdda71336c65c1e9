package embedded_test

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
)

// BenchmarkBeginSettle is the CPU cost of one charge's two steps, on a disk in
// memory that syncs for nothing.
func BenchmarkBeginSettle(b *testing.B) {
	db := open(b, embedded.Config{FS: vfs.NewMem()})
	v := view(b, db, "us-east1")
	body := make([]byte, 600) // what a charge object comes to
	arrivals := make([]claim.Arrival, b.N)
	for i := range arrivals {
		key := claim.Key{Tenant: "acme", Value: fmt.Sprintf("3f6f0d8e-5a5c-4a5e-9a3e-%012d", i)}
		arrivals[i] = claimtest.NewArrival(key, "us-east1", `{"amount":100,"currency":"eur","payment_method":"pm_card_visa"}`, "node-1", fmt.Sprintf("ch_04hkaps9le6uv093v%09d", i))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, a := range arrivals {
		got, err := v.Begin(b.Context(), a)
		if err != nil || got.Decision != claim.Won {
			b.Fatal(got.Decision, err)
		}
		verdict := claim.Verdict{Outcome: claim.OutcomeDone, Response: claim.Response{
			Status: 201, Body: body, Header: []claim.HeaderField{{Name: "Content-Type", Value: "application/json"}},
		}}
		if _, err := v.Settle(b.Context(), got.Record, verdict); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplay is the cost of reading a finished key at home.
func BenchmarkReplay(b *testing.B) {
	v := view(b, open(b, embedded.Config{FS: vfs.NewMem()}), "us-east1")
	a := arrive("k", "us-east1")
	got, err := v.Begin(b.Context(), a)
	require.NoError(b, err)
	_, err = v.Settle(b.Context(), got.Record, claim.Verdict{
		Outcome: claim.OutcomeDone, Response: claim.Response{Status: 201, Body: make([]byte, 600)},
	})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if got, err := v.Begin(b.Context(), a); err != nil || got.Decision != claim.Replay {
			b.Fatal(got.Decision, err)
		}
	}
}
