// Package claimtest is the conformance suite of claim.Store. [Exercise] runs unchanged
// on each backend. [Model] is a naive implementation against which random operations
// are checked. New semantics land here first.
package claimtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Harness is one backend under test, initially empty. All times of the tests derive
// from Policy, so that a backend without a movable clock can run with a policy of
// seconds instead of hours.
type Harness struct {
	// Regions names at least three regions; Codes has the code of each.
	Regions []string
	// Store and Outbox are the view of a node in a region.
	Store  func(region string) claim.Store
	Outbox func(region string) outbox.Store
	// Queue and Ledger open the other stores that Settle writes to, as the same
	// node sees them. Outbox is the queue of provider calls.
	Queue  func(region string, q outbox.Queue) outbox.Store
	Ledger func(region string) ledger.Store
	// Policy is what the store was opened with. MaxUnknowns and MaxGenerations
	// should be small, as tests go through all of them.
	Policy claim.Policy
	// ReplicaLag is the longest time until a replica shows a row.
	ReplicaLag time.Duration
	// Advance moves the store's clock forward. If it is nil, the tests wait for
	// real time to pass.
	Advance func(d time.Duration)
	// SetBack sets that clock back, or opens the store anew on one that is behind; nil
	// together with Advance.
	SetBack func(d time.Duration)
	// Sweep deletes expired rows until none is left; nil if the database deletes
	// them itself.
	Sweep func(t testing.TB)
	// Flush writes what the store has in memory to where it reads it from later; nil: it
	// has nothing there.
	Flush func(t testing.TB)
	// PutTenant and MoveRegistrar change the tenant table.
	PutTenant     func(t testing.TB, tenant claim.Tenant)
	MoveRegistrar func(t testing.TB, tenant, to string)
	// SetStatus sets a region's status as an operator does.
	SetStatus func(t testing.TB, region string, status claim.RegionStatus)
}

// Exercise checks every promise of the contract. newHarness opens a backend for each
// subtest.
func Exercise(t *testing.T, newHarness func(t *testing.T) Harness) {
	Transitions(t, newHarness)
	run(t, newHarness, wholeTests, effectTests, settledTests, unpaidTests, reversingTests, pinTests, pinHereTests, replicaTests, historyTests, raceTests, restorePinTests)
	t.Run("random operations agree with the model", func(t *testing.T) { Random(t, newHarness(t)) })
}

// Transitions checks what the transitions of package claim decide. It needs the Store's
// steps and Timeline, the queue of provider calls, and [claim.Restores].
func Transitions(t *testing.T, newHarness func(t *testing.T) Harness) {
	run(t, newHarness, beginTests, settleTests, waitTests, answerTests, closingTests, leaseTests, cancelTests, restoreTests, elapseTests)
}

func run(t *testing.T, newHarness func(t *testing.T) Harness, groups ...[]test) {
	for _, group := range groups {
		for _, tc := range group {
			t.Run(tc.name, func(t *testing.T) { tc.run(newWorld(t, newHarness(t))) })
		}
	}
}

type test struct {
	name string
	run  func(w *world)
}

// world is a harness with the helper steps of the tests.
type world struct {
	Harness
	*testing.T
	ctx    context.Context
	tenant string
	home   string // the first region
	minted int
}

func newWorld(t *testing.T, h Harness) *world {
	require.GreaterOrEqual(t, len(h.Regions), 3, "the conformance suite needs three regions")
	require.NoError(t, h.Policy.Validate())
	w := &world{Harness: h, T: t, ctx: t.Context(), tenant: "acme", home: h.Regions[0]}
	h.PutTenant(t, claim.Tenant{ID: w.tenant, Name: "Acme", Registrar: h.Regions[0]})
	return w
}

func (w *world) key(value string) claim.Key { return claim.Key{Tenant: w.tenant, Value: value} }

func (w *world) at(region string) claim.Store { return w.Store(region) }

// arrival is a stamped request for key at home with this body.
func (w *world) arrival(key, body string) claim.Arrival {
	w.minted++
	return NewArrival(w.key(key), w.home, body, fmt.Sprintf("node-%d", w.minted), fmt.Sprintf("ch_%s_%04d", key, w.minted))
}

// NewArrival returns a stamped request with the canonical body body.
func NewArrival(key claim.Key, home, body, holder, id string) claim.Arrival {
	in := claim.FingerprintInput{
		Method: "POST", Path: "/v1/charges", Tenant: key.Tenant,
		ContentType: "application/json", Canonical: []byte(body),
	}
	fingerprint, err := in.Fingerprint(claim.CurrentFingerprint)
	if err != nil {
		panic(err) // every build supports the current version
	}
	return claim.Arrival{
		Content: claim.Content{
			Key: key, Operation: "charge", Input: in, Print: fingerprint, Mint: claim.Minted{ID: id, Receipt: "R-" + id},
			TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		Route:  claim.Route{Home: home, Stamped: true},
		Holder: claim.Holder{Node: holder, Region: home},
	}
}

// begin sends a request that begins now. After a release it waits until the store
// judges the request as later.
func (w *world) begin(a claim.Arrival, want claim.Decision) claim.Record {
	w.Helper()
	return w.arrives(a, want, func() (claim.Begun, error) { return w.at(a.Home).Begin(w.ctx, a) })
}

func (w *world) arrives(a claim.Arrival, want claim.Decision, send func() (claim.Begun, error)) claim.Record {
	w.Helper()
	for step := time.Microsecond; ; step *= 10 {
		got, err := send()
		require.NoError(w, err)
		if got.Decision == claim.Shared && want != claim.Shared && a.UnderWay == 0 {
			// A store adds the time that it takes itself.
			w.until(later(got.Now, got.Record.Refusal.SharedUntil(&w.Policy)).Add(step))
			continue
		}
		require.Equal(w, want.String(), got.Decision.String())
		require.False(w, got.Now.IsZero())
		return got.Record
	}
}

func (w *world) settle(rec claim.Record, v claim.Verdict) claim.Record {
	w.Helper()
	got, err := w.at(rec.Home).Settle(w.ctx, rec, v)
	require.NoError(w, err)
	return got
}

func (w *world) get(rec claim.Record) claim.Record {
	w.Helper()
	got, _, found, err := w.at(rec.Home).Get(w.ctx, rec.Key, rec.Home)
	require.NoError(w, err)
	require.True(w, found)
	return got
}

// now reads the store's clock.
func (w *world) now() time.Time {
	w.Helper()
	_, now, _, err := w.at(w.home).Get(w.ctx, w.key("clock"), w.home)
	require.NoError(w, err)
	return now
}

// until waits for the store's clock to reach t. It moves the clock if it can.
func (w *world) until(t time.Time) {
	w.Helper()
	if now := w.now(); w.Advance != nil {
		if d := t.Sub(now); d > 0 {
			w.Advance(d)
		}
		return
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for w.now().Before(t) {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.Fatal("the test ended before the store's clock got there")
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// expire moves past the end of rec's replay window; free past its tombstone.
func (w *world) expire(rec claim.Record) {
	w.Helper()
	w.until(rec.ExpiresAt(&w.Policy, w.now()))
}

func (w *world) free(rec claim.Record) {
	w.Helper()
	w.until(rec.FreeAt(&w.Policy, w.now()))
}

// lapse moves past the end of rec's lease.
func (w *world) lapse(rec claim.Record) {
	w.Helper()
	w.until(rec.LeaseUntil.Add(w.Policy.ClockOffset))
}

// dueIDs returns the ids of a region's due calls. It takes zero-length leases, so that only the
// fences change.
func (w *world) dueIDs(region string) []string {
	w.Helper()
	taken, err := w.Outbox(region).Take(w.ctx, region, 1000, 0)
	require.NoError(w, err)
	ids := make([]string, 0, len(taken))
	for _, m := range taken {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return ids
}

// isDue checks that one call is due, and no other.
func (w *world) isDue(rec claim.Record, why ...any) {
	w.Helper()
	due := w.dueIDs(rec.Home)
	for deadline := time.Now().Add(patience); w.Advance == nil && len(due) == 0 && time.Now().Before(deadline); {
		due = w.dueIDs(rec.Home)
	}
	require.Equal(w, []string{rec.Minted.ID}, due, why...)
}

// patience bounds the wait for a row that a database skips while the locks of who wrote it are
// removed.
const patience = 30 * time.Second

func (w *world) pending(region string) int {
	w.Helper()
	d, err := w.Outbox(region).Depth(w.ctx, region)
	require.NoError(w, err)
	return d.Pending
}

func (w *world) audit(rec claim.Record) []claim.AuditEntry {
	w.Helper()
	line, err := w.at(rec.Home).Timeline(w.ctx, rec.Key, rec.Home, 100)
	require.NoError(w, err)
	return line
}

func (w *world) events(rec claim.Record) []claim.Event {
	w.Helper()
	line := w.audit(rec)
	events := make([]claim.Event, len(line))
	for i, e := range line {
		events[i] = e.Event
	}
	return events
}

// Verdicts that the tests use.

func approved(body string) claim.Verdict {
	return claim.Verdict{Node: "n", Region: "r", Outcome: &claim.Done{Response: answer(201, body), ProviderRef: "psp_1"}}
}

func declinedHard(body string) claim.Verdict {
	return claim.Verdict{Node: "n", Region: "r", Outcome: &claim.Refused{Response: answer(402, body), Reason: "stolen_card"}}
}

func declinedSoft(body string) claim.Verdict {
	return claim.Verdict{Node: "n", Region: "r", Outcome: &claim.Released{Response: answer(402, body), Reason: "insufficient_funds"}}
}

// declinedFor is a soft decline of a provider that asks for a pause.
func declinedFor(body string, pause time.Duration) claim.Verdict {
	v := declinedSoft(body)
	v.Outcome.(*claim.Released).Pause = pause
	return v
}

// pending is the verdict of a provider that waits for a payer or a bank.
func pending(state string, askIn time.Duration) claim.Verdict {
	return claim.Verdict{Node: "n", Region: "r", Outcome: &claim.Pending{
		State: state, Response: answer(202, "wait for the "+state), AskIn: askIn, ProviderRef: "psp_1",
	}}
}

// ordered is pending, caused by an object.
func ordered(state, by string) claim.Verdict {
	v := pending(state, 0)
	waits := v.Outcome.(*claim.Pending)
	waits.By, waits.Response = by, answer(202, by+" is at it")
	return v
}

func unknown(notFound bool) claim.Verdict {
	return claim.Verdict{Node: "n", Region: "r", Outcome: &claim.Unknown{
		Reason: "timeout", NotFound: notFound, GiveUp: &claim.GivenUp{Response: answer(502, "given up")},
	}}
}

// unsent is the verdict of an attempt that sent nothing to the provider.
func unsent(retryIn time.Duration) claim.Verdict {
	return claim.Verdict{Node: "n", Region: "r", Outcome: &claim.Unsent{Reason: "provider_open", RetryIn: retryIn}}
}

// emitting is v with these events, if its outcome can have any.
func emitting(v claim.Verdict, events []outbox.Message) claim.Verdict {
	if _, all := answerOf(v.Outcome); all != nil {
		*all = events
	}
	return v
}

// Answer gives o, which is the caller's own, a response if it can have one.
func Answer(o claim.Outcome, r claim.Response) {
	if response, _ := answerOf(o); response != nil {
		*response = r
	}
}

// answerOf returns the response and the events of o, nil if it can have none.
func answerOf(o claim.Outcome) (*claim.Response, *[]outbox.Message) {
	switch o := o.(type) {
	case *claim.Done:
		return &o.Response, &o.Events
	case *claim.Refused:
		return &o.Response, &o.Events
	case *claim.Released:
		return &o.Response, &o.Events
	case *claim.Pending:
		return &o.Response, &o.Events
	case *claim.Unknown:
		if o.GiveUp != nil {
			return &o.GiveUp.Response, &o.GiveUp.Events
		}
	}
	return nil, nil
}

func answer(status int, body string) claim.Response {
	return claim.Response{
		Status: status,
		// Not UTF-8, on purpose: a body is bytes.
		Header: []claim.HeaderField{{Name: "Content-Type", Value: "application/json"}, {Name: "Location", Value: "/v1/\xff"}},
		Body:   []byte(body),
	}
}

// same compares two records field by field, times as instants.
func (w *world) same(want, got claim.Record) {
	w.Helper()
	require.Equal(w, normal(want), normal(got))
}

func normal(r claim.Record) claim.Record {
	for _, t := range []*time.Time{&r.LeaseUntil, &r.HeldSince, &r.FirstUse, &r.SettledAt, &r.CanceledAt, &r.Minted.Created} {
		if !t.IsZero() {
			*t = t.UTC().Round(0)
		}
	}
	if r.Response != nil {
		c := *r.Response
		if len(c.Body) == 0 {
			c.Body = nil
		}
		r.Response = &c
	}
	if r.Refusal != nil {
		c := *r.Refusal
		c.At = c.At.UTC().Round(0)
		r.Refusal = &c
	}
	if r.Interim != nil {
		c := *r.Interim
		if len(c.Response.Body) == 0 {
			c.Response.Body = nil
		}
		r.Interim = &c
	}
	return r
}
