package embedded_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/outbox"
)

// BenchmarkBeginSettle is the CPU cost of one charge's two steps, on a disk in
// memory that syncs for nothing.
func BenchmarkBeginSettle(b *testing.B) {
	db := open(b, embedded.Config{FS: vfs.NewMem()})
	v := view(b, db, "us-east1")
	body := make([]byte, 600) // the size of a charge
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
		verdict := claim.Verdict{Outcome: &claim.Done{Response: claim.Response{
			Status: 201, Body: body, Header: []claim.HeaderField{{Name: "Content-Type", Value: "application/json"}},
		}}}
		if _, err := v.Settle(b.Context(), got.Record, verdict); err != nil {
			b.Fatal(err)
		}
	}
}

// charge is one opaque charge as a node makes it: pinned and begun, settled with its
// booking.
func charge(b testing.TB, v *embedded.View, a claim.Arrival, body []byte, events int) {
	a.PinHere = true
	got, err := v.Begin(b.Context(), a)
	if err != nil || got.Decision != claim.Won {
		b.Fatal(got.Decision, err)
	}
	posting := claimtest.Posting(got.Record, a.Mint.ID)
	posting.ProviderRef = "px_" + a.Mint.ID
	done := &claim.Done{Posting: posting, ProviderRef: posting.ProviderRef, Response: claim.Response{
		Status: 201, Body: body, Header: []claim.HeaderField{{Name: "Content-Type", Value: "application/json"}},
	}}
	for _, m := range claimtest.Events(got.Record, events) {
		m.Payload = body
		done.Events = append(done.Events, m)
	}
	if _, err := v.Settle(b.Context(), got.Record, claim.Verdict{ID: uuid.New(), Outcome: done, Node: "node-1", Region: a.Home}); err != nil {
		b.Fatal(err)
	}
}

// opaque makes n arrivals with keys in no order.
func opaque(n int) []claim.Arrival {
	arrivals := make([]claim.Arrival, n)
	for i := range arrivals {
		id := uuid.New()
		key := claim.Key{Tenant: "acme", Value: uuid.NewString()}
		a := claimtest.NewArrival(key, "us-east1", `{"amount":100,"currency":"eur","payment_method":"pm_card_visa"}`, "node-1", fmt.Sprintf("ch_%x", id[:13]))
		a.Stamped, a.Region = false, a.Home
		arrivals[i] = a
	}
	return arrivals
}

// BenchmarkCharge is the CPU cost of all steps of one opaque charge, on a disk in memory, with as
// many keys stored as the run makes.
func BenchmarkCharge(b *testing.B) { benchmarkCharges(b, 0) }

// BenchmarkChargeWithEvent is BenchmarkCharge with an event, which a worker takes and finishes.
func BenchmarkChargeWithEvent(b *testing.B) { benchmarkCharges(b, 1) }

func benchmarkCharges(b *testing.B, events int) {
	db := open(b, embedded.Config{FS: vfs.NewMem()})
	v := view(b, db, "us-east1")
	require.NoError(b, db.PutTenant(b.Context(), claim.Tenant{ID: "acme", Registrar: "us-east1"}))
	body, arrivals := make([]byte, 600), opaque(b.N)
	before := db.Written()
	b.ReportAllocs()
	b.ResetTimer()
	began := cpu()
	for i, a := range arrivals {
		charge(b, v, a, body, events)
		if events > 0 && (i%16 == 15 || i == len(arrivals)-1) {
			finishEvents(b, v)
		}
	}
	b.ReportMetric(float64(cpu()-began)/1e3/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(db.Written()-before)/float64(b.N), "log-B/op")
}

// finishEvents takes and finishes all events that are due.
func finishEvents(b testing.TB, v *embedded.View) {
	q := v.Queue(outbox.Events)
	for {
		taken, err := q.Take(b.Context(), "us-east1", 32, time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range taken {
			if err := q.Finish(b.Context(), m.Region, m.Hold()); err != nil {
				b.Fatal(err)
			}
		}
		if len(taken) == 0 {
			return
		}
	}
}

// cpu is the CPU time of this process, background work included.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it fails for a bad argument only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReplay is the cost of reading a finished key at home.
func BenchmarkReplay(b *testing.B) {
	v := view(b, open(b, embedded.Config{FS: vfs.NewMem()}), "us-east1")
	a := arrive("k", "us-east1")
	got, err := v.Begin(b.Context(), a)
	require.NoError(b, err)
	_, err = v.Settle(b.Context(), got.Record, claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201, Body: make([]byte, 600)}}})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if got, err := v.Begin(b.Context(), a); err != nil || got.Decision != claim.Replay {
			b.Fatal(got.Decision, err)
		}
	}
}
