package embedded_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// crashWorld is a store on a disk that can lose unsynced data.
type crashWorld struct {
	t     *testing.T
	ctx   context.Context
	disk  *vfs.MemFS
	clock *virtualClock
	db    *embedded.DB
	home  *embedded.View
}

func newCrashWorld(t *testing.T) *crashWorld {
	w := &crashWorld{t: t, ctx: t.Context(), disk: vfs.NewCrashableMem(), clock: newClock()}
	w.db = open(t, embedded.Config{FS: w.disk, Clock: w.clock.now})
	w.home = view(t, w.db, "us-east1")
	require.NoError(t, w.db.PutTenant(w.ctx, claim.Tenant{ID: "acme", Registrar: "us-east1"}, "sk_acme"))
	return w
}

// crash cuts the power now, loses a varying share of the unsynced data, and opens the store again.
func (w *crashWorld) crash(seed uint64) *crashWorld {
	clone := w.disk.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: int(seed * 100 / (crashes - 1)),
		RNG:                 rand.New(rand.NewPCG(seed, 7)),
	})
	after := &crashWorld{t: w.t, ctx: w.ctx, disk: clone, clock: w.clock}
	after.db = open(w.t, embedded.Config{FS: clone, Clock: w.clock.now})
	after.home = view(w.t, after.db, "us-east1")
	return after
}

func (w *crashWorld) begin(a claim.Arrival) claim.Record {
	got, err := w.home.Begin(w.ctx, a)
	require.NoError(w.t, err)
	require.Contains(w.t, []claim.Decision{claim.Won, claim.WonUnknown}, got.Decision)
	return got.Record
}

func (w *crashWorld) settle(rec claim.Record, outcome string) claim.Record {
	got, err := w.home.Settle(w.ctx, rec, crashVerdict(rec, outcome))
	require.NoError(w.t, err)
	return got
}

// crashVerdict returns a verdict with every effect that its outcome can have.
func crashVerdict(rec claim.Record, outcome string) claim.Verdict {
	events := claimtest.Events(rec, 2)
	for i := range events { // a claim is closed under the fence of its release
		events[i].ID += "-" + outcome
	}
	answer := claim.Response{Status: 201, Body: []byte("paid")}
	return claim.Verdict{Node: "n", Region: "us-east1", Outcome: map[string]claim.Outcome{
		claim.OutcomeDone:    &claim.Done{Response: answer, Posting: claimtest.Posting(rec, rec.Minted.ID), Events: events},
		claim.OutcomeRefused: &claim.Refused{Response: answer, Events: events},
		claim.OutcomeReleased: &claim.Released{
			Response: answer, Events: events, Expiry: &outbox.Message{Operation: "charge", Due: rec.HeldSince.Add(24 * time.Hour)},
		},
		claim.OutcomeUnknown: &claim.Unknown{GiveUp: &claim.GivenUp{Response: answer, Events: events}},
	}[outcome]}
}

// rows counts the rows of a queue, and how many of them a worker could take.
func (w *crashWorld) rows(q outbox.Queue) outbox.Depth {
	d, err := w.home.Queue(q).Depth(w.ctx, "us-east1")
	require.NoError(w.t, err)
	return d
}

func (w *crashWorld) books() []ledger.Transaction {
	ts, err := w.home.Transactions(w.ctx, "us-east1", ledger.Position{}, time.Time{}, 1000)
	require.NoError(w.t, err)
	return ts
}

func (w *crashWorld) park() string {
	taken, err := w.home.Queue(outbox.ProviderCalls).Take(w.ctx, "us-east1", 10, time.Hour)
	require.NoError(w.t, err)
	require.Len(w.t, taken, 1)
	require.NoError(w.t, w.home.Queue(outbox.ProviderCalls).Park(w.ctx, "us-east1", taken[0].Hold(), "no"))
	return taken[0].ID
}

// consistent checks that record, outbox, object index and audit are of the same moment.
func (w *crashWorld) consistent() (claim.Record, bool) {
	rec, _, found, err := w.home.Get(w.ctx, crashKey, "us-east1")
	require.NoError(w.t, err)
	line, err := w.home.Timeline(w.ctx, crashKey, "us-east1", 100)
	require.NoError(w.t, err)
	depth, err := w.home.Queue(outbox.ProviderCalls).Depth(w.ctx, "us-east1")
	require.NoError(w.t, err)
	parked, err := w.home.Queue(outbox.ProviderCalls).Parked(w.ctx, "us-east1", "", 10)
	require.NoError(w.t, err)
	require.Len(w.t, parked, depth.Parked)
	if !found {
		require.Empty(w.t, line)
		require.Zero(w.t, depth.Pending+depth.Parked)
		require.Empty(w.t, w.books())
		require.Zero(w.t, w.rows(outbox.Events))
		return rec, false
	}
	w.agrees(rec, line)
	byID, _, found, err := w.home.Object(w.ctx, "acme", "us-east1", rec.Minted.ID)
	require.NoError(w.t, err)
	require.True(w.t, found)
	require.Equal(w.t, rec, byID)

	owed := 0
	if rec.State == claim.InFlight {
		owed = 1
	}
	require.Equal(w.t, owed, depth.Pending+depth.Parked, "a claim in flight has a row in the outbox, any other has none")
	if depth.Pending == 1 { // the due row leads to the message
		w.clock.advance(48 * time.Hour)
		taken, err := w.home.Queue(outbox.ProviderCalls).Take(w.ctx, "us-east1", 10, 0)
		require.NoError(w.t, err)
		require.Len(w.t, taken, 1)
		require.Equal(w.t, rec.Minted.ID, taken[0].ID)
	}
	last := map[claim.State]claim.Event{
		claim.Completed: claim.EventSettled, claim.FailedTerminal: claim.EventSettled, claim.FailedRetry: claim.EventReleased,
	}
	got := line[len(line)-1]
	require.Equal(w.t, rec.Fence, got.Fence)
	if want, ok := last[rec.State]; ok {
		require.Equal(w.t, want, got.Event)
	} else {
		require.Contains(w.t, []claim.Event{claim.EventClaimed, claim.EventReclaimed, claim.EventReplaced, claim.EventTakenOver, claim.EventDeferred}, got.Event)
	}
	return rec, true
}

// agrees checks that books, events and expiries agree with the history of the only claim.
func (w *crashWorld) agrees(rec claim.Record, line []claim.AuditEntry) {
	ended, booked, released := 0, 0, 0
	for _, e := range line {
		switch {
		case e.Event == claim.EventReleased:
			ended++
			released++
		case e.Event == claim.EventSettled:
			ended++
		case e.Event == claim.EventAttempt && e.Detail == claim.OutcomeDone:
			booked++
		}
	}
	require.Len(w.t, w.books(), booked, "a booking for each claim settled as paid, and no other")
	for _, t := range w.books() {
		byID, found, err := w.home.Transaction(w.ctx, "us-east1", t.ID)
		require.NoError(w.t, err)
		require.True(w.t, found)
		require.Equal(w.t, t, byID)
	}
	events := w.rows(outbox.Events)
	require.Equal(w.t, 2*ended, events.Pending, "two events for each end, and no other")
	require.Equal(w.t, min(ended, 1), events.Due, "one of the key's line can be taken")
	require.Equal(w.t, min(released, 1), w.rows(outbox.Expiries).Pending, "it expires from its first release")
	unpaid, found, err := w.home.Unpaid(w.ctx, "us-east1", rec.Minted.ID)
	require.NoError(w.t, err)
	require.Equal(w.t, released > 0 || ended > booked, found, "an Unpaid row for a claim that ended without a payment, and no other")
	if rec.State == claim.FailedTerminal || rec.State == claim.FailedRetry {
		require.Equal(w.t, rec.State, unpaid.State)
	}
}
