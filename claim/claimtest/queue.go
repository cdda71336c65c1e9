package claimtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/outboxtest"
)

// Queue adapts h to an outboxtest harness for one of the queues that claims write to:
// provider calls, events or expiries.
func Queue(t testing.TB, h Harness, q outbox.Queue) outboxtest.Harness {
	tenants := [2]string{"acme", "globex"}
	for _, id := range tenants {
		h.PutTenant(t, claim.Tenant{ID: id, Registrar: h.Regions[0]})
	}
	k := &queued{Harness: h, held: map[Place]claim.Record{}}
	o := outboxtest.Harness{
		Regions: h.Regions, Queue: q, Lease: h.Policy.Lease, Tenants: tenants,
		Store:  func(region string) outbox.Store { return h.Queue(region, q) },
		Queues: func(region string) outbox.Queues { return h.Store(region).(outbox.Queues) },
		Pass:   k.pass, Exact: h.Advance != nil,
	}
	switch q {
	case outbox.ProviderCalls:
		o.Store, o.Delay = h.Outbox, h.Policy.Lease
		o.Insert = func(t testing.TB, region, key string) string {
			return k.begin(t, region, tenants[0], key).Minted.ID
		}
		o.Settle = func(t testing.TB, region, key string) {
			k.settle(t, k.held[k.place(region, tenants[0], key)], approved("paid"))
		}
	case outbox.Events:
		o.Append = func(t testing.TB, region, tenant, key string, kinds ...outbox.Kind) (ids []string) {
			// The events of a first holder are due only later.
			rec := k.settle(t, k.begin(t, region, tenant, key), claim.Verdict{Outcome: &claim.Unsent{}})
			released := &claim.Released{Response: answer(402, "no")} // the key is free again
			for i, kind := range kinds {
				ids = append(ids, fmt.Sprintf("evt_%s_%d/%03d", rec.Minted.ID, rec.Fence, i))
				released.Events = append(released.Events, outbox.Message{ID: ids[i], Kind: kind, Payload: []byte("{}")})
			}
			k.settle(t, rec, claim.Verdict{Outcome: released})
			return ids
		}
		o.Insert = func(t testing.TB, region, key string) string {
			return o.Append(t, region, tenants[0], key, outbox.KindLog)[0]
		}
	case outbox.Expiries:
		o.Delay = h.Policy.Lease
		o.Insert = func(t testing.TB, region, key string) string {
			rec := k.begin(t, region, tenants[0], key)
			k.settle(t, rec, claim.Verdict{Outcome: &claim.Released{
				Response: answer(402, "no"), Expiry: &outbox.Message{Operation: "charge", Payload: []byte("100"), Due: k.now(t).Add(o.Delay)},
			}})
			return rec.Minted.ID
		}
	default:
		t.Fatalf("claims write nothing to %s", q)
	}
	return o
}

// queued maps messages to the claims that wrote them.
type queued struct {
	Harness
	held map[Place]claim.Record
}

func (k *queued) place(region, tenant, key string) Place {
	return Place{Home: region, Key: claim.Key{Tenant: tenant, Value: key}}
}

func (k *queued) begin(t testing.TB, region, tenant, key string) claim.Record {
	t.Helper()
	at := k.place(region, tenant, key)
	a := NewArrival(at.Key, region, "100", "node", "ch_"+tenant+"_"+key)
	got, err := k.Store(region).Begin(context.Background(), a)
	for step := time.Microsecond; err == nil && got.Decision == claim.Shared; step *= 10 { // a request that began after the release
		k.pass(t, k.Policy.ClockOffset+k.Policy.DeclinePause+step)
		got, err = k.Store(region).Begin(context.Background(), a)
	}
	require.NoError(t, err)
	require.Equal(t, claim.Won, got.Decision)
	k.held[at] = got.Record
	return got.Record
}

func (k *queued) settle(t testing.TB, rec claim.Record, v claim.Verdict) claim.Record {
	t.Helper()
	next, err := k.Store(rec.Home).Settle(context.Background(), rec, v)
	require.NoError(t, err)
	return next
}

func (k *queued) now(t testing.TB) time.Time {
	t.Helper()
	_, now, _, err := k.Store(k.Regions[0]).Get(context.Background(), claim.Key{Tenant: "acme", Value: "clock"}, k.Regions[0])
	require.NoError(t, err)
	return now
}

// pass advances the store's clock. It moves the clock if it can, and else waits.
func (k *queued) pass(t testing.TB, d time.Duration) {
	t.Helper()
	if k.Advance != nil {
		k.Advance(d)
		return
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := k.now(t).Add(d); k.now(t).Before(end); {
		<-tick.C
	}
}
