package claim

import (
	"errors"
	"strings"
	"time"
)

// A tenant has a test side: a tenant of its own, whose id is that of the live tenant and
// testSuffix. Every row of a tenant begins with its id or has it, so that the two sides share
// nothing, and each row says by itself which side it is of. A store makes a test side only beside
// its live tenant, and no other id may end like it.
const testSuffix = "~test"

// TestProvider is the name of the provider of all test tenants, and of no other: it moves no money.
// A claim of the one side never gets a provider of the other, see [MayCall].
const TestProvider = "test"

// TestTenant returns the id of the test side of a live tenant.
func TestTenant(live string) string { return live + testSuffix }

// LiveTenant returns the id of the live side of a tenant, which may be the tenant itself.
func LiveTenant(tenant string) string { return strings.TrimSuffix(tenant, testSuffix) }

// Livemode reports whether money moves for the tenant of that id: it is no test side.
func Livemode(tenant string) bool { return !strings.HasSuffix(tenant, testSuffix) }

// MayCall reports whether the claims of a tenant may go to the provider of that name.
func MayCall(tenant, provider string) bool {
	return Livemode(tenant) == (provider != TestProvider)
}

// ErrLive: time passes for test tenants alone.
var ErrLive = errors.New("claim: the tenant is live, and its time cannot be moved")

// Elapsed is what becomes of a claim of a test tenant when a store lets time pass for it: the times
// by which it is judged lie so much further back, and of an unknown outcome there were as many attempts
// as that time has at their longest pauses. The first attempt afterwards is not the last one: what the
// provider reports in that time comes before Homeward gives up. Who holds the claim keeps its lease.
func (r *Record) Elapsed(by time.Duration, p *Policy) *Record {
	next := *r
	if more, most := p.Asks(by); r.State == InFlight && r.Holder == "" && r.Unknowns > 0 {
		next.Unknowns = max(r.Unknowns, min(r.Unknowns+more, most))
	}
	next.FirstUse = r.FirstUse.Add(-by)
	if !r.SettledAt.IsZero() {
		next.SettledAt = r.SettledAt.Add(-by)
	}
	if r.Refusal != nil {
		refusal := *r.Refusal
		refusal.At = refusal.At.Add(-by)
		next.Refusal = &refusal
	}
	if r.Holder == "" {
		next.LeaseUntil = r.LeaseUntil.Add(-by)
	}
	return &next
}

// Asks is how many attempts a test tenant's time has at their longest pauses, and how many unknown
// outcomes a claim has at most by them.
func (p *Policy) Asks(by time.Duration) (more, most uint32) {
	return uint32(min(by/p.BackoffMax, time.Duration(p.MaxUnknowns))), max(p.MaxUnknowns, 2) - 2
}

// Ahead is how far time has passed for r since its first use beyond the store's clock: 0 for the
// claims of live tenants. The request's own times are compared with the clock so far ahead.
func (r *Record) Ahead() time.Duration {
	if Livemode(r.Key.Tenant) {
		return 0
	}
	return max(0, r.Minted.Created.Sub(r.FirstUse.Truncate(time.Second)))
}
