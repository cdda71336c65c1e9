package sqlstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestGuards: a statement that guards its step itself decides as the pure transition does, and
// leaves the same record, whatever the row and whoever asks.
func TestGuards(t *testing.T) {
	d := newDatabase(t)
	p := testPolicy()
	p.BackoffMin = p.BackoffMax // so that a pause is the one that the outcome asks for
	db := open(t, sqlstore.Config{URL: d.url, Policy: p})
	if d.clock != nil {
		db.StopWaiting()
	}
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: here}))
	keys := 0
	rapid.Check(t, func(rt *rapid.T) {
		keys++
		g := &guards{T: rt, t: t, db: db, v: view(t, db, here), p: &p, exact: d.clock != nil, key: claim.Key{Tenant: "acme", Value: fmt.Sprint("guards-", keys)}}
		g.row()
		for range 6 {
			rapid.SampledFrom([]func(){g.begin, g.takeOver, g.renew, g.settle, g.settle, g.settle}).Draw(rt, "step")()
		}
	})
}

type guards struct {
	*rapid.T
	t      *testing.T
	db     *sqlstore.DB
	v      *sqlstore.View
	p      *claim.Policy
	exact  bool // the clock stands still
	key    claim.Key
	minted int
}

// row brings the key's row to a random state: none, or one that steps lead to, with random
// counters and times.
func (g *guards) row() {
	made := rapid.SampledFrom([]string{"none", "held", "waiting", "unknown", "released", "done"}).Draw(g.T, "row")
	if made == "none" {
		return
	}
	got, err := g.v.Begin(g.t.Context(), g.arrival())
	g.ok(err)
	outcomes := map[string]claim.Outcome{
		"waiting": &claim.Pending{Response: claim.Response{Status: 202}, State: "payer"}, "unknown": &claim.Unknown{},
		"released": &claim.Released{Response: claim.Response{Status: 402}}, "done": &claim.Done{Response: claim.Response{Status: 201}},
	}
	if o := outcomes[made]; o != nil {
		_, err = g.v.Settle(g.t.Context(), got.Record, claim.Verdict{ID: uuid.New(), Outcome: o})
		g.ok(err)
	}
	// The margins of the clock are where guards differ.
	p := g.p
	ages := []time.Duration{0, time.Hour, p.ReplayFor, p.ReplayFor + p.TombstoneFor - p.PinGrace/60 - p.ClockOffset, p.ReplayFor + p.TombstoneFor, p.PinLife()}
	age := rapid.SampledFrom(ages).Draw(g.T, "age") + g.near("age, nearly")
	lease := rapid.SampledFrom([]time.Duration{-p.ClockOffset, p.Lease, p.LeaseCeiling + p.ClockOffset}).Draw(g.T, "lease") + g.near("lease, nearly")
	held := rapid.SampledFrom([]time.Duration{0, p.LeaseCeiling - p.Lease, p.LeaseCeiling}).Draw(g.T, "held") + g.near("held, nearly")
	back := func(by time.Duration) string {
		return fmt.Sprintf("now() - '%d microseconds'::interval", by.Microseconds())
	}
	g.ok(g.db.Exec(g.t.Context(), fmt.Sprintf(`UPDATE claims SET fence = %d, unknowns = %d, not_founds = %d, generation = %d, first_use = %s,
		settled_at = CASE WHEN settled_at IS NOT NULL THEN %[5]s END, refused_at = CASE WHEN refused_at IS NOT NULL THEN %[5]s END,
		lease_until = %[6]s, held_since = %[7]s WHERE idem_key = '%[8]s'`,
		rapid.IntRange(1, 4).Draw(g.T, "fence"), rapid.IntRange(0, int(p.MaxUnknowns)).Draw(g.T, "unknowns"), rapid.IntRange(0, 2).Draw(g.T, "not founds"),
		rapid.IntRange(1, int(p.MaxGenerations)).Draw(g.T, "generation"), back(age), back(-lease), back(held), g.key.Value)))
}

// near is a moment before or after: one that a clock which runs does not pass meanwhile.
func (g *guards) near(label string) time.Duration {
	moment := time.Microsecond
	if !g.exact {
		moment = 30 * time.Second
	}
	return rapid.SampledFrom([]time.Duration{-moment, 0, moment}).Draw(g.T, label)
}

func (g *guards) arrival() claim.Arrival {
	g.minted++
	body := rapid.SampledFrom([]string{"100", "100", "100", "200"}).Draw(g.T, "body")
	a := claimtest.NewArrival(g.key, here, body, rapid.SampledFrom([]string{"n1", "n2"}).Draw(g.T, "node"), fmt.Sprintf("ch_%s_%d", g.key.Value, g.minted))
	return a
}

func (g *guards) ok(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// now is the row, nil if there is none, and the clock.
func (g *guards) now() (*claim.Record, time.Time) {
	rec, now, found, err := g.v.Get(g.t.Context(), g.key, here)
	g.ok(err)
	if !found {
		return nil, now
	}
	return &rec, now
}

// same checks a step: its error, and the row that it left, which is was if it changed nothing.
func (g *guards) same(was, want *claim.Record, wanted, err error) {
	g.Helper()
	if !errors.Is(err, wanted) {
		g.Fatalf("the store says %v, the transition %v", err, wanted)
	}
	if want == nil {
		want = was
	}
	is, _ := g.now()
	if (is == nil) != (want == nil) {
		g.Fatalf("the row is %+v, the transition leaves %+v", is, want)
	}
	if is == nil {
		return
	}
	a, b := g.shown(*is), g.shown(*want)
	if a != b {
		g.Fatalf("the row is\n%s, the transition leaves\n%s", a, b)
	}
}

// shown has all of a record but its verdict's id, in bytes that can be compared; its times
// only where the clock stands still.
func (g *guards) shown(r claim.Record) string {
	all := []any{r.Key, r.Home, r.Operation, r.Fingerprint, r.State, r.Fence, r.Holder, r.Minted.ID, r.Minted.Receipt, r.Generation, r.ProviderKey, r.Attempts, r.Unknowns, r.NotFounds, r.Reason, r.ProviderRef}
	for _, t := range []time.Time{r.LeaseUntil, r.HeldSince, r.FirstUse, r.SettledAt, r.Minted.Created} {
		if g.exact {
			all = append(all, t.UTC().Truncate(time.Microsecond))
		}
	}
	if r.Response != nil {
		all = append(all, "response", r.Response.Status)
	}
	if r.Refusal != nil {
		all = append(all, "refusal", r.Refusal.Response.Status, r.Refusal.Pause)
	}
	if r.Interim != nil {
		all = append(all, "interim", r.Interim.Response.Status, r.Interim.State, r.Interim.By)
	}
	return fmt.Sprintf("%+v", all)
}

func (g *guards) begin() {
	was, now := g.now()
	a := g.arrival()
	if rapid.Bool().Draw(g.T, "pinned") {
		a.Stamped, a.PinnedAt = false, now.Add(-g.p.CreateWithin()+g.near("pin, nearly"))
	}
	a.CompareOnly = rapid.IntRange(0, 4).Draw(g.T, "compare only") == 0
	a.UnderWay = rapid.SampledFrom([]time.Duration{0, time.Minute, 3 * time.Hour}).Draw(g.T, "under way")
	want, _, decision, wanted := claim.Begin(was, &a, 0, g.p, now)
	got, err := g.v.Begin(g.t.Context(), a)
	if got.Decision != decision {
		if got.Decision == claim.Shared { // the store adds the time that it takes itself
			if _, _, late, _ := claim.Begin(was, &a, time.Minute, g.p, now); late == claim.Shared {
				return
			}
		}
		g.Fatalf("the store decides %v, the transition %v, of %+v", got.Decision, decision, was)
	}
	g.same(was, want, wanted, err)
}

func (g *guards) takeOver() {
	was, now := g.now()
	object := "ch_other"
	if was != nil && rapid.IntRange(0, 4).Draw(g.T, "of this life") > 0 {
		object = was.Minted.ID
	}
	want, _, wanted := claim.TakeOver(was, object, "heir", here, claim.News{}, g.p, now)
	_, err := g.v.TakeOver(g.t.Context(), g.key, here, object, "heir", here, claim.News{})
	if wanted != nil && errors.Is(wanted, claim.ErrLeaseHeld) {
		wanted = claim.ErrLeaseHeld // it says for how long
	}
	g.same(was, want, wanted, err)
}

func (g *guards) renew() {
	was, now := g.now()
	l := claim.Lease{Key: g.key, Home: here, Fence: uint64(rapid.IntRange(1, 4).Draw(g.T, "fence"))}
	if was != nil && rapid.IntRange(0, 4).Draw(g.T, "its fence") > 0 {
		l.Fence = was.Fence
	}
	holder := rapid.SampledFrom([]string{"n1", "n2"}).Draw(g.T, "holder")
	want, wanted := claim.Renew(was, holder, l.Fence, g.p, now)
	held, err := g.v.Renew(g.t.Context(), holder, []claim.Lease{l})
	g.ok(err)
	if held[0] != (wanted == nil) {
		g.Fatalf("the store says %v, the transition %v, of %+v", held, wanted, was)
	}
	g.same(was, want, nil, nil)
}

func (g *guards) settle() {
	was, now := g.now()
	held := claim.Record{Key: g.key, Home: here, State: claim.InFlight, Fence: 1, Minted: claim.Minted{ID: "ch_other"}}
	if was != nil {
		held = *was
		switch rapid.SampledFrom([]string{"", "", "fence", "fence", "unknowns", "unknowns", "id", "state"}).Draw(g.T, "stale") {
		case "fence":
			held.Fence++
		case "unknowns":
			held.Unknowns++
		case "id":
			held.Minted.ID = "ch_other"
		case "state":
			held.State = rapid.SampledFrom([]claim.State{claim.InFlight, claim.FailedRetry}).Draw(g.T, "state")
		}
	}
	answer, pause := claim.Response{Status: 402}, g.p.BackoffMax
	o := rapid.SampledFrom([]claim.Outcome{
		&claim.Done{Response: claim.Response{Status: 201}, ProviderRef: "px"}, &claim.Refused{Response: answer, Reason: "stolen"}, &claim.Refused{Response: answer, Reason: "expired"},
		&claim.Released{Response: answer, Reason: "no_funds", Pause: time.Minute}, &claim.Pending{Response: claim.Response{Status: 202}, State: "bank", AskIn: pause, ProviderRef: "px"},
		&claim.Moved{Next: "b", Reason: "closed"}, &claim.Unknown{Reason: "timeout", RetryIn: pause}, &claim.Unknown{NotFound: true, RetryIn: pause, GiveUp: &claim.GivenUp{Response: answer}},
		&claim.Unsent{Reason: "open", RetryIn: pause}, &claim.Fault{Reason: "fault", RetryIn: pause}, &claim.Done{},
	}).Draw(g.T, "outcome")
	v := claim.Verdict{ID: uuid.New(), Outcome: o, Node: "n1", Region: here}
	var want *claim.Record
	made, wanted := claim.Settle(&held, &v, g.p, 0)
	if wanted == nil {
		want, _, wanted = made.On(was, g.p, now)
	}
	if errors.Is(wanted, claim.ErrNoResponse) {
		wanted = claim.ErrNoResponse // it says of what
	}
	got, err := g.v.Settle(g.t.Context(), held, v)
	g.same(was, want, wanted, err)
	if err == nil {
		if a, b := g.shown(got), g.shown(*want); a != b {
			g.Fatalf("the store returns\n%s, the transition\n%s", a, b)
		}
	}
}
