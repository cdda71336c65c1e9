package notice

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// A provider whose notices use other ids than its API: a hundred good charges end in one page and
// no refund, and each notice waits for a person.
func TestAliasesOfGoodChargesAreNotRefunded(t *testing.T) {
	for name, spoil := range map[string]func(w *world, id, alias string){
		"its API does not show it": func(*world, string, string) {},
		"shown as itself":          func(w *world, id, alias string) { w.shows[alias] = w.shows[w.books[id].ProviderRef] },
		"of another reference": func(w *world, id, alias string) {
			w.shows[alias] = psp.Movement{ProviderRef: alias, Reference: "other", Amount: 100, Currency: "usd", Outcome: psp.Approved}
		},
		"of another amount": func(w *world, id, alias string) {
			w.shows[alias] = psp.Movement{ProviderRef: alias, Reference: id, Amount: 99, Currency: "usd", Outcome: psp.Approved}
		},
		"of another currency": func(w *world, id, alias string) {
			w.shows[alias] = psp.Movement{ProviderRef: alias, Reference: id, Amount: 100, Currency: "eur", Outcome: psp.Approved}
		},
		"declined": func(w *world, id, alias string) {
			w.shows[alias] = psp.Movement{ProviderRef: alias, Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Declined}
		},
		"that has the booked one under no such name": func(w *world, id, alias string) {
			w.shows[alias] = psp.Movement{ProviderRef: alias, Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Approved}
			delete(w.shows, w.books[id].ProviderRef)
		},
		"that shows nothing by its own ids": func(w *world, _, _ string) { w.blind = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.aliases = true
			for i := range 100 {
				id, alias := objectID(t, "ch", i), fmt.Sprint("tx_", i)
				w.have(id, claim.Completed, fmt.Sprint("p", i))
				spoil(w, id, alias)
				n := charged(id, alias)
				n.ID = alias
				require.Contains(t, fmt.Sprint(w.deliver(n)), "Parked: not given back")
				require.NotContains(t, w.books, ledger.GhostID("sim", alias), "nothing is booked either")
			}
			require.Empty(t, w.lookups)
			require.Equal(t, []string{pageDoubt}, w.pages)
			w.now = w.now.Add(window)
			w.deliver(charged(objectID(t, "ch", 1), "tx_1"))
			require.Len(t, w.pages, 2, "an hour later it pages again")
		})
	}
}

// A look-up without an answer is unknown and retried, and never taken for a no.
func TestASilentProviderProvesNothing(t *testing.T) {
	id := objectID(t, "ch", 1)
	w := newWorld(t)
	w.have(id, claim.Completed, "p1")
	w.silent = true
	require.Contains(t, fmt.Sprint(w.deliver(charged(id, "p2"))), "Failed: the provider does not say")
	require.Empty(t, w.lookups)
	require.Empty(t, w.pages)
	w.silent = false
	w.deliver(charged(id, "p2"))
	require.Equal(t, ProcessedCompensated, w.closed["sim:e"])
	require.Len(t, w.moved, 1)
}

// More refunds within an hour than there may be, by number and by sum: one page, no
// refund beyond the limit, and all go on once a person has released them.
func TestTooManyCompensationsStop(t *testing.T) {
	for name, limits := range map[string]Limits{
		"by number":           {Count: 5, Sum: 1 << 40},
		"by sum":              {Count: 100, Sum: 599},
		"by sum of the usd":   {Count: 100, Sum: 1, Sums: map[string]int64{"usd": 500}},
		"by number, released": {Count: 5, Sum: 500},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.limits = limits
			const ghosts = 12
			send := func(i int) string {
				id := objectID(t, "ch", i)
				w.have(id, claim.FailedTerminal, "")
				n := charged(id, fmt.Sprint("p", i))
				n.ID = fmt.Sprint("e", i)
				return fmt.Sprint(w.deliver(n))
			}
			for i := range ghosts {
				verdict := send(i)
				require.Equal(t, i >= 5, verdict == fmt.Sprint(outbox.Later(heldPause)), "%d: %s", i, verdict)
				require.Contains(t, w.books, ledger.GhostID("sim", fmt.Sprint("p", i)), "suspense shows the debt of each")
			}
			require.Len(t, w.moved, 5)
			require.Equal(t, []string{pageHeld}, w.pages)
			w.now = w.now.Add(2 * window) // time alone releases nothing
			send(11)
			require.Len(t, w.moved, 5)
			require.Len(t, w.pages, 1)

			for released := 0; len(w.moved) < ghosts; released++ {
				require.Less(t, released, 3)
				changed, err := Release(t.Context(), brakeRows{w}, "sim", nil)
				require.NoError(t, err)
				require.True(t, changed)
				for i := range ghosts {
					send(i)
				}
			}
			require.Len(t, w.moved, ghosts, "nothing is lost, and nothing is refunded twice")
			require.Len(t, w.lookups, ghosts)
		})
	}
}

// The window slides: what was let through an hour ago counts no more, and a refund that
// is tried again counts once.
func TestTheLimitIsOfOneHour(t *testing.T) {
	l, at := Limits{Count: 2, Sum: 100}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := Brake{Provider: "sim"}
	admit := func(id string, amount int64, after time.Duration) bool {
		next, ok := l.admit(b, Admission{ID: id, Amount: amount, Currency: "usd"}, at.Add(after))
		if ok {
			b = next
		}
		return ok
	}
	require.True(t, admit("a", 50, 0))
	require.True(t, admit("a", 50, time.Minute), "again")
	require.True(t, admit("b", 50, 30*time.Minute))
	require.Len(t, b.Admitted, 2)
	require.False(t, admit("c", 1, 59*time.Minute))
	require.True(t, admit("c", 50, 60*time.Minute))
	require.False(t, admit("d", 1, 89*time.Minute))
	b.ReleasedAt = at.Add(70 * time.Minute)
	require.True(t, admit("d", 100, 89*time.Minute), "what was before a release counts no more")
	require.Len(t, b.Admitted, 1)
}

// One ghost above the hourly sum by itself: the others go on once a person has released
// them, and so does it, without a second page.
func TestALargeGhostIsLetThroughByOneRelease(t *testing.T) {
	w := newWorld(t)
	w.limits = Limits{Count: 100, Sum: 150}
	send := func(i int, amount int64) string {
		id := objectID(t, "ch", i)
		w.have(id, claim.FailedTerminal, "")
		n := charged(id, fmt.Sprint("p", i))
		n.ID, n.Amount = fmt.Sprint("e", i), amount
		return fmt.Sprint(w.deliver(n))
	}
	held := fmt.Sprint(outbox.Later(heldPause))
	require.Equal(t, held, send(0, 1000))
	require.Equal(t, held, send(1, 100))
	require.Contains(t, w.brakes["sim"].Held.Reason, ledger.GhostRefundID("sim", "p0")+" alone", "a person finds it in the books")
	w.now = w.now.Add(2 * window)
	changed, err := Release(t.Context(), brakeRows{w}, "sim", nil)
	require.NoError(t, err)
	require.True(t, changed)
	w.now = w.now.Add(2 * window) // whoever is to give it back may come late
	require.NotEqual(t, held, send(0, 1000))
	require.NotEqual(t, held, send(1, 100), "the large one took the place of the small one")
	require.Len(t, w.moved, 2)
	require.Equal(t, []string{pageHeld}, w.pages)
	require.Equal(t, held, send(2, 1000), "the release was of one")
}

// A refund that was let through and waits for the provider's answer is not counted a
// second time, an hour later, as if it were another ghost.
func TestAWaitingRefundIsCountedOnce(t *testing.T) {
	for _, waits := range []string{"unknown", "soft"} {
		t.Run(waits, func(t *testing.T) {
			w := newWorld(t)
			w.limits, w.refuse = Limits{Count: 3, Sum: 1 << 40}, waits
			send := func(i int) {
				id := objectID(t, "ch", i)
				w.have(id, claim.FailedTerminal, "")
				require.Contains(t, fmt.Sprint(w.deliver(charged(id, fmt.Sprint("p", i)))), "Failed: ", "%d waits for more than the provider", i)
			}
			send(0)
			send(1)
			w.now = w.now.Add(window + time.Minute)
			for _, i := range []int{2, 0, 1, 3} { // two are new within this hour
				send(i)
			}
			require.Empty(t, w.pages)
			w.refuse = ""
			for i := range 4 {
				w.deliver(charged(objectID(t, "ch", i), fmt.Sprint("p", i)))
			}
			require.Len(t, w.moved, 4)
		})
	}
}

// A claim that expires between its read and the request is in an unknown state. The next try reads
// it, and parks only a final refusal. One that completed since the books were read is booked.
func TestAnExpiredClaimIsNoRefusal(t *testing.T) {
	for state, want := range map[claim.State]string{
		claim.FailedRetry:    "Failed: the provider refused the refund for now; it can be requested again at 2026-03-02T",
		claim.FailedTerminal: "Parked: LIMBO: the provider refused the refund: charge_disputed",
		claim.Completed:      "Failed: the refund was completed after the books were read",
	} {
		w := newWorld(t)
		w.refuse = "expired"
		id := objectID(t, "ch", 1)
		w.have(id, claim.FailedTerminal, "")
		require.Contains(t, fmt.Sprint(w.deliver(charged(id, "p1"))), "Failed: ")
		w.begun[w.keys[0]] = claim.Status{
			Record: claim.Record{Operation: string(payment.Compensation), State: state, Reason: "charge_disputed"},
			Age:    claim.Expired, FreeAt: w.now.Add(12 * time.Hour),
		}
		require.Contains(t, fmt.Sprint(w.deliver(charged(id, "p1"))), want)
		require.Len(t, w.keys, 1, "a refund is not requested before its time")
	}
}

// The list of what was let through is bounded, and keeps the latest.
func TestReleasesRememberTheLatest(t *testing.T) {
	w := newWorld(t)
	for i := range maxLet + 1 {
		b := w.brakes["sim"]
		b.Provider, b.Held = "sim", &Hold{At: w.now, Of: fmt.Sprint(i)}
		_, err := brakeRows{w}.PutBrake(t.Context(), b)
		require.NoError(t, err)
		_, err = Release(t.Context(), brakeRows{w}, "sim", nil)
		require.NoError(t, err)
	}
	let := w.brakes["sim"].Let
	require.Equal(t, []any{maxLet, "1", fmt.Sprint(maxLet)}, []any{len(let), let[0], let[maxLet-1]})
}

// A limit is about as much in every currency, whatever its minor unit is worth: an
// ordinary ghost of some dollars passes, and one of a million does not.
func TestALimitIsOfTheSameOrderInEveryCurrency(t *testing.T) {
	l := DefaultLimits()
	for currency, perDollar := range map[string]int64{ // minor units, roughly
		"usd": 100, "eur": 90, "gbp": 75, "jpy": 150, "isk": 130, "cny": 720, "krw": 1400, "kwd": 310, "jod": 710,
		"inr": 8_700, "vnd": 26_000, "pyg": 7_300, "huf": 35_000, "ngn": 153_000, "cop": 405_000, "idr": 1_630_000, "lbp": 8_950_000,
	} {
		for dollars, want := range map[int64]bool{1_000: true, 10_000: true, 1_000_000: false} {
			_, ok := l.admit(Brake{}, Admission{ID: "a", Amount: dollars * perDollar, Currency: currency}, time.Time{})
			require.Equal(t, want, ok, "%d dollars in %s", dollars, currency)
		}
	}
	require.EqualValues(t, 7, Limits{Sum: 5, Sums: map[string]int64{"idr": 7}}.sum("idr"), "a limit that is set is in the currency's own units")
	require.EqualValues(t, 50_000, Limits{Sum: 5}.sum("idr"), "a lower limit is lower in each")
	require.Positive(t, Limits{Sum: math.MaxInt64}.sum("irr"))
	seen := map[string]int64{}
	for n, currencies := range cheap {
		for c := range strings.FieldsSeq(currencies) {
			require.Len(t, c, 3)
			require.Zero(t, seen[c], "%s is in two lines", c)
			seen[c] = n
		}
	}
}

// rivalRows are brakes of which another node changes one just before this node does.
type rivalRows struct {
	brakeRows
	rival func()
}

func (r *rivalRows) PutBrake(ctx context.Context, row Brake) (bool, error) {
	if rival := r.rival; rival != nil {
		r.rival = nil
		rival()
	}
	return r.brakeRows.PutBrake(ctx, row)
}

// A refund that another node admits meanwhile counts.
func TestAdmissionsOfTwoNodesCount(t *testing.T) {
	for limit, reason := range map[int]bool{1: true, 2: false} {
		w := newWorld(t)
		admit := func(store BrakeStore, id string) string {
			b := &Brakes{Store: store, Limits: Limits{Count: limit, Sum: math.MaxInt64}}
			reason, err := b.Admit(t.Context(), "sim", Admission{ID: id, Amount: 1, Currency: "usd"})
			require.NoError(t, err)
			return reason
		}
		rows := &rivalRows{brakeRows{w}, func() { require.Empty(t, admit(brakeRows{w}, "b")) }}
		require.Equal(t, reason, admit(rows, "a") != "")
		require.Len(t, w.brakes["sim"].Admitted, limit)
	}
}

// A page is of the stop that it names: a later one has a page of its own.
func TestAPageIsOfItsOwnStop(t *testing.T) {
	w := newWorld(t)
	stopped := func(reason string) {
		b := w.brakes["sim"]
		b.Provider, b.Held = "sim", &Hold{At: w.now, Reason: reason}
		changed, err := brakeRows{w}.PutBrake(t.Context(), b)
		require.NoError(t, err)
		require.True(t, changed)
		w.now = w.now.Add(pageAgain)
	}
	stopped("many")
	b := &Brakes{Store: &rivalRows{brakeRows{w}, func() { stopped("many again") }}}
	_, err := b.Held(t.Context(), "sim")
	require.NoError(t, err)
	require.Equal(t, "many again", w.brakes["sim"].Held.Reason)
	require.False(t, w.brakes["sim"].Held.Paged)
}

// A release that is not allowed releases nothing. Without a set brake allow is not called.
func TestAReleaseHasToBeAllowed(t *testing.T) {
	for _, of := range []string{AllProviders, "sim"} {
		w := newWorld(t)
		forbidden := errors.New("a restore is in effect")
		forbids := func(context.Context) error { return forbidden }
		_, err := Release(t.Context(), brakeRows{w}, of, forbids)
		require.NoError(t, err, "nothing is held")
		_, err = Stop(t.Context(), brakeRows{w}, of, "a drill")
		require.NoError(t, err)
		_, err = Release(t.Context(), brakeRows{w}, of, forbids)
		require.ErrorIs(t, err, forbidden)
		require.NotNil(t, w.brakes[of].Held)
		for _, allow := range []func(context.Context) error{nil, func(context.Context) error { return nil }} {
			changed, err := Release(t.Context(), brakeRows{w}, of, allow)
			require.NoError(t, err)
			require.True(t, changed)
			require.Nil(t, w.brakes[of].Held)
			_, err = Stop(t.Context(), brakeRows{w}, of, "again")
			require.NoError(t, err)
		}
	}
}

// A person stops all compensations at once, or those of one provider; A node whose settings switch
// them off makes none either.
func TestASwitchStopsCompensations(t *testing.T) {
	id := objectID(t, "ch", 1)
	for _, of := range []string{AllProviders, "sim"} {
		w := newWorld(t)
		w.have(id, claim.FailedTerminal, "")
		changed, err := Stop(t.Context(), brakeRows{w}, of, "a drill")
		require.NoError(t, err)
		require.True(t, changed)
		changed, err = Stop(t.Context(), brakeRows{w}, of, "twice")
		require.NoError(t, err)
		require.False(t, changed)
		w.deliver(charged(id, "p1"))
		require.Empty(t, w.lookups)
		require.Empty(t, w.pages, "the operator who stopped them needs no page")
		b := w.processor().c.Compensator.Brakes
		reason, err := b.Held(t.Context(), "sim")
		require.NoError(t, err)
		require.Equal(t, "stopped by a person: a drill", reason)
		if of == "sim" {
			reason, err = b.Held(t.Context(), "bank")
			require.NoError(t, err)
			require.Empty(t, reason)
		}
		_, err = Release(t.Context(), brakeRows{w}, of, nil)
		require.NoError(t, err)
		w.deliver(charged(id, "p1"))
		require.Len(t, w.moved, 1)
	}
	w := newWorld(t)
	off := &Brakes{Store: brakeRows{w}, Off: true}
	for _, held := range []func() (string, error){
		func() (string, error) { return off.Held(t.Context(), "sim") },
		func() (string, error) { return off.Admit(t.Context(), "sim", Admission{ID: "a"}) },
	} {
		reason, err := held()
		require.NoError(t, err)
		require.Equal(t, offReason, reason)
	}
	require.Empty(t, w.brakes)
}

// The node logs a page for money that is held for a day, once a day for any number of payers, and
// for each way to stop refunds.
func TestPayersWhoWaitForAReleasePageOnceADay(t *testing.T) {
	for name, stop := range map[string]func(w *world){
		"by a person, for all":          func(w *world) { w.stop(AllProviders) },
		"by a person, for the provider": func(w *world) { w.stop("sim") },
		"by its settings":               func(w *world) { w.off = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			stop(w)
			send := func() {
				for i := range 3 {
					id := objectID(t, "ch", i)
					w.have(id, claim.FailedTerminal, "")
					require.Equal(t, outbox.Later(heldPause), w.deliver(charged(id, fmt.Sprint("p", i))))
				}
			}
			w.waited = payment.PageAfter - time.Minute
			send()
			require.Empty(t, w.pages)
			w.waited = payment.PageAfter + time.Second
			for range 2 {
				send()
				w.now = w.now.Add(heldPause)
			}
			require.Equal(t, []string{pageHeldLong}, w.pages)
			w.now = w.now.Add(payment.PageAfter)
			send()
			require.Equal(t, []string{pageHeldLong, pageHeldLong}, w.pages, "and on the next day")
			require.Empty(t, w.lookups)
		})
	}
}

// The process dies at each step of that: another node logs the page, within a minute.
func TestThePageOfADayHeldSurvivesADeathAtEachStep(t *testing.T) {
	for die := 1; ; die++ {
		w := newWorld(t)
		id := objectID(t, "ch", 1)
		w.have(id, claim.FailedTerminal, "")
		w.stop("sim")
		w.waited = payment.PageAfter
		w.steps, w.dieAt = 0, die
		w.deliver(charged(id, "p1"))
		died := w.steps >= die
		w.dieAt = 0
		w.now = w.now.Add(pageAgain)
		w.deliver(charged(id, "p1"))
		require.True(t, w.brakes["sim"].Waiting.Paged, "death at point %d", die)
		require.Contains(t, w.pages, pageHeldLong, "death at point %d", die)
		require.LessOrEqual(t, len(w.pages), 2, "death at point %d", die)
		if !died {
			require.Equal(t, []string{pageHeldLong}, w.pages)
			require.Greater(t, die, 10, "a run has that many points at which it can die")
			return
		}
	}
}

// stop puts the brake on, for a person.
func (w *world) stop(provider string) {
	_, err := Stop(w.Context(), brakeRows{w}, provider, "a drill")
	require.NoError(w, err)
}

// The process dies before and after each step that sets the brake: the brake is set or not, no
// refund exceeds the limit, and a page is logged.
func TestTheBrakeSurvivesADeathAtEachStep(t *testing.T) {
	points := 0
	for die := 1; ; die++ {
		w := newWorld(t)
		w.limits = Limits{Count: 1, Sum: 1 << 40}
		for i := range 2 {
			w.have(objectID(t, "ch", i), claim.FailedTerminal, "")
		}
		w.deliver(charged(objectID(t, "ch", 0), "p0"))
		w.steps, w.dieAt = 0, die
		w.deliver(charged(objectID(t, "ch", 1), "p1"))
		died := w.steps >= die
		w.dieAt = 0
		w.now = w.now.Add(pageAgain)
		w.deliver(charged(objectID(t, "ch", 1), "p1"))
		require.Len(t, w.moved, 1, "death at point %d", die)
		require.NotNil(t, w.brakes["sim"].Held, "death at point %d", die)
		require.True(t, w.brakes["sim"].Held.Paged, "death at point %d", die)
		require.NotEmpty(t, w.pages, "death at point %d", die)
		require.LessOrEqual(t, len(w.pages), 2, "death at point %d", die)
		if !died {
			require.Len(t, w.pages, 1)
			break
		}
		points++
	}
	require.Greater(t, points, 10, "a run has that many points at which it can die")
}

// Where the brakes cannot be read nothing is given back.
func TestUnreadableBrakesHold(t *testing.T) {
	w := newWorld(t)
	w.have(objectID(t, "ch", 1), claim.FailedTerminal, "")
	p := w.processor()
	p.c.Compensator.Brakes.Store = noBrakes{}
	progress, _, err := p.c.Compensator.Compensate(t.Context(), Ghost{
		Tenant: tenant, Object: objectID(t, "ch", 1), Home: home, Provider: "sim", ProviderRef: "p1", Amount: 100, Currency: "usd",
	})
	require.ErrorIs(t, err, errDied)
	require.Equal(t, Pending, progress)
	require.Empty(t, w.lookups)
}

type noBrakes struct{ BrakeStore }

func (noBrakes) Brakes(context.Context) ([]Brake, time.Time, error) {
	return nil, time.Time{}, errDied
}

func TestParseSums(t *testing.T) {
	sums, err := ParseSums([]string{"jpy=5000000", "usd=1"})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"jpy": 5000000, "usd": 1}, sums)
	for _, bad := range []string{"", "usd", "usd=", "usd=0", "USD=1", "dollars=1", "usd=1.5", "usd=1 "} {
		_, err := ParseSums([]string{bad})
		require.Error(t, err, bad)
	}
	_, err = ParseSums([]string{"usd=1", "usd=2"})
	require.Error(t, err)
}
