package notice

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// The books match a ghost's refund for as long as they are kept, not for the two days of its claim:
// a provider reports it again a week later, when the bank has numbered it. The processor parks
// another movement under its id.
func TestALateNoticeOfAGhostsRefundIsMatched(t *testing.T) {
	w := newWorld(t)
	id := objectID(t, "ch", 1)
	w.have(id, claim.FailedTerminal, "")
	w.deliver(charged(id, "p1"))
	back, ok := w.books[ledger.GhostRefundID("sim", "p1")]
	require.True(t, ok)
	n := charged(back.Object, back.ProviderRef)
	n.ID, n.Kind = "later", psp.KindRefund
	verdict := w.deliver(n) // the compensation's claim is forgotten
	require.Equal(t, ProcessedOK, w.closed["sim:later"], "%v", verdict)

	other := n
	other.ID, other.ProviderRef = "other", "r9"
	require.Contains(t, fmt.Sprint(w.deliver(other)), "LIMBO: the provider made the refund")
	wrong := n
	wrong.ID, wrong.Amount = "wrong", 99
	require.Contains(t, fmt.Sprint(w.deliver(wrong)), "reports 99 usd where 100 usd are booked")
	require.Len(t, w.moved, 1)
}

// The compensator reads the books first: the refund's claim is deleted after two days, the provider
// forgets its keys, and a notice may come for months.
func TestTheBooksRememberARefundLongerThanItsClaim(t *testing.T) {
	w := newWorld(t)
	id := objectID(t, "ch", 1)
	w.have(id, claim.FailedTerminal, "")
	w.deliver(charged(id, "p1"))
	require.Equal(t, 1, w.lookups["p1"])
	w.forget(id)
	clear(w.begun)
	clear(w.moved)
	again := charged(id, "p1")
	again.ID = "later"
	w.deliver(again)
	require.Equal(t, ProcessedCompensated, w.closed["sim:later"])
	require.Equal(t, 1, w.lookups["p1"], "no second refund is requested")
}

// A provider of money that names the object of a test tenant is for a person: nothing of the one side is
// booked for the other, and no refund of real money could be made for a test tenant.
func TestAMovementOfTheOtherSideIsParked(t *testing.T) {
	w := newWorld(t)
	id := objectID(t, "ch", 1)
	w.have(id, claim.FailedTerminal, "")
	rec := w.claims[id]
	rec.Key.Tenant = claim.TestTenant(tenant)
	w.claims[id] = rec
	require.Contains(t, fmt.Sprint(w.deliver(charged(id, "p1"))), "Parked: unknown charge: "+id+" is of the tenant "+rec.Key.Tenant+", which has nothing at sim")
	require.Empty(t, w.books)
	require.Empty(t, w.begun)
}

// A ghost is refunded as it was booked: another amount under its name is for a person.
func TestAGhostOfTwoAmountsIsParked(t *testing.T) {
	w := newWorld(t)
	w.blind, w.refuse = true, "soft"
	id := objectID(t, "ch", 1)
	w.have(id, claim.FailedTerminal, "")
	w.deliver(charged(id, "p1"))
	w.refuse = ""
	other := charged(id, "p1")
	other.ID, other.Amount = "other", 99
	require.Contains(t, fmt.Sprint(w.deliver(other)), "LIMBO: the provider reported the same movement with another amount, currency or object")
	require.Empty(t, w.moved)
}

// A refund that the provider has, and has not paid out, is waited for.
func TestARefundThatIsPendingIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.refuse = "pending"
	id := objectID(t, "ch", 1)
	w.have(id, claim.FailedTerminal, "")
	require.Contains(t, fmt.Sprint(w.deliver(charged(id, "p1"))), "Failed: the provider has the refund, and has not paid it out yet")
	require.Empty(t, w.closed)
}

// A failure that is reported before the success finds no booking to reverse, so its notice is
// closed. The ghost is not refunded all the same, as the compensator asks the provider.
func TestAFailureThatIsReportedBeforeTheSuccess(t *testing.T) {
	w := newWorld(t)
	id := objectID(t, "ch", 1)
	w.have(id, claim.FailedTerminal, "")
	w.shows["p1"] = psp.Movement{ProviderRef: "p1", Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Approved}
	w.deliver(w.fallen(psp.KindCharge, id, "p1"))
	require.Equal(t, Ignored, w.closed["sim:failed p1"])
	w.deliver(charged(id, "p1"))
	require.Empty(t, w.moved, "the provider shows that the movement has failed")
	require.Empty(t, w.books)
	require.Empty(t, w.pages)
	require.Equal(t, ProcessedCompensated, w.closed["sim:e"])
}

// What a ghost beside which nothing is paid comes to, by what the provider shows of it.
func TestAGhostIsRefundedAsTheProviderShowsIt(t *testing.T) {
	id := objectID(t, "ch", 1)
	shown := psp.Movement{ProviderRef: "p1", Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Approved}
	for name, c := range map[string]struct {
		change  func(w *world, m *psp.Movement)
		moved   int
		verdict string
		pages   []string
	}{
		"as it is":            {func(*world, *psp.Movement) {}, 1, "", nil},
		"one that is blind":   {func(w *world, m *psp.Movement) { w.blind, m.Amount = true, 1 }, 1, "", nil},
		"of another amount":   {func(_ *world, m *psp.Movement) { m.Amount = 1 }, 0, "Parked: not given back: for p1", []string{pageDoubt}},
		"under another name":  {func(_ *world, m *psp.Movement) { m.ProviderRef = "tx" }, 0, "Parked: not given back: for p1", []string{pageDoubt}},
		"of another merchant": {func(_ *world, m *psp.Movement) { m.Reference = "other" }, 0, "Parked: not given back: for p1", []string{pageDoubt}},
		"not decided yet":     {func(_ *world, m *psp.Movement) { m.Outcome = psp.Unknown }, 0, "Failed: the provider does not say", nil},
		"failed":              {func(_ *world, m *psp.Movement) { m.Outcome, m.Amount = psp.Declined, 0 }, 0, "", nil},
		"no answer":           {func(w *world, _ *psp.Movement) { w.silent = true }, 0, "Failed: the provider does not say", nil},
		"not under that name": {func(w *world, _ *psp.Movement) { w.aliases = true }, 0, "Parked: not given back: the provider has no", []string{pageDoubt}},
	} {
		t.Run(name, func(t *testing.T) {
			w, m := newWorld(t), shown
			w.have(id, claim.FailedTerminal, "")
			c.change(w, &m)
			if !w.aliases {
				w.shows["p1"] = m
			}
			verdict := fmt.Sprint(w.deliver(charged(id, "p1")))
			require.Contains(t, verdict, c.verdict)
			require.Equal(t, c.verdict == "", w.closed["sim:e"] == ProcessedCompensated, verdict)
			require.Len(t, w.moved, c.moved)
			require.Equal(t, c.pages, w.pages)
			waits := strings.HasPrefix(c.verdict, "Failed") // and suspense shows it meanwhile
			require.Equal(t, c.moved > 0 || waits, w.books[ledger.GhostID("sim", "p1")].ID != "")
		})
	}
}

// A ghost that is booked, and waits, is shown as failed though no notice of that is to come:
// its failure is booked, so that suspense shows no debt. The process dies at each step.
func TestAGhostThatIsShownAsFailedIsTakenBack(t *testing.T) {
	id := objectID(t, "ch", 1)
	points := 0
	for die := 1; ; die++ {
		w := newWorld(t)
		w.have(id, claim.FailedTerminal, "")
		w.refuse = "soft"
		w.deliver(charged(id, "p1"))
		m := w.shows["p1"]
		m.Outcome = psp.Declined
		w.shows["p1"], w.refuse = m, ""
		w.steps, w.dieAt = 0, die
		w.deliver(charged(id, "p1"))
		died := w.steps >= die
		w.dieAt = 0
		w.deliver(charged(id, "p1"))
		require.Equal(t, ProcessedCompensated, w.closed["sim:e"], "death at point %d", die)
		require.Empty(t, w.moved, "death at point %d", die)
		ghost := w.books[ledger.GhostID("sim", "p1")]
		require.True(t, w.books[ledger.FailureID(ghost.ID)].Same(ledger.FailureOf(ghost)), "death at point %d", die)
		if !died {
			break
		}
		points++
	}
	require.Greater(t, points, 6, "a run has that many points at which it can die")
}

// A failure whose movement is not booked under the name that its notice gives, beside one that is
// booked for the same reference: either an earlier try of it, which never succeeded, or the booked
// one, by a provider with other ids in its notices. The processor decides by what the provider
// shows. It parks what the provider does not show, and never ignores it.
func TestAFailureUnderAnotherName(t *testing.T) {
	charge, refund := objectID(t, "ch", 1), objectID(t, "re", 1)
	for name, c := range map[string]struct {
		change  func(w *world, own, other *psp.Movement)
		several bool // generations
		status  Status
		booked  bool
		verdict string
		pages   []string
	}{
		"an earlier try":               {change: func(*world, *psp.Movement, *psp.Movement) {}, status: Ignored},
		"the booked one, not shown so": {change: func(_ *world, own, other *psp.Movement) { own.Outcome, *other = psp.Declined, psp.Movement{} }, status: ProcessedOK, booked: true},
		"the booked one, shown so":     {change: func(_ *world, own, other *psp.Movement) { own.Outcome = psp.Declined; *other = *own }, status: ProcessedOK, booked: true},
		"an alias of one that counts": {change: func(_ *world, own, other *psp.Movement) { *other = *own },
			verdict: "Parked: the provider reports that tx failed", pages: []string{pageDoubt}},
		"one that counts": {change: func(_ *world, _, other *psp.Movement) { other.Outcome = psp.Approved },
			verdict: "for tx it shows tx of 100 usd", pages: []string{pageDoubt}},
		"of another": {change: func(_ *world, _, other *psp.Movement) { other.Reference = "other" },
			verdict: "for tx it shows tx of 100 usd", pages: []string{pageDoubt}},
		"not shown, and the booked one counts": {change: func(_ *world, _, other *psp.Movement) { *other = psp.Movement{} },
			verdict: "it does not show that movement", pages: []string{pageDoubt}},
		"not shown, of a claim that was declined before": {change: func(_ *world, _, other *psp.Movement) { *other = psp.Movement{} }, several: true, status: Ignored},
		"neither is shown": {change: func(_ *world, own, other *psp.Movement) { *own, *other = psp.Movement{}, psp.Movement{} },
			several: true, verdict: "it does not show px", pages: []string{pageDoubt}},
		"not decided": {change: func(_ *world, own, other *psp.Movement) { own.Outcome, *other = psp.Unknown, psp.Movement{} },
			verdict: "Failed: the provider reports that tx failed"},
		"no answer": {change: func(w *world, _, _ *psp.Movement) { w.silent = true }, verdict: "Failed: the provider reports that tx failed"},
		"one that is blind": {change: func(w *world, _, _ *psp.Movement) { w.blind = true },
			verdict: "Parked: the provider reports that tx failed", pages: []string{pageDoubt}},
		"one that is blind, of a claim that was declined before": {change: func(w *world, _, _ *psp.Movement) { w.blind = true }, several: true, status: Ignored},
	} {
		for _, kind := range []psp.Kind{psp.KindCharge, psp.KindRefund} {
			t.Run(fmt.Sprint(name, ", ", kind), func(t *testing.T) {
				w, id := newWorld(t), charge
				if w.refunded(charge, refund, "px"); kind == psp.KindRefund {
					id = refund
				} else {
					delete(w.books, refund)
					w.have(charge, claim.Completed, "px")
				}
				if rec := w.claims[id]; c.several {
					rec.Generation = 2
					w.claims[id] = rec
				}
				own := psp.Movement{ProviderRef: "px", Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Approved}
				other := psp.Movement{ProviderRef: "tx", Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Declined}
				c.change(w, &own, &other)
				w.aliases = true
				clear(w.shows)
				for ref, m := range map[string]psp.Movement{"px": own, "tx": other} {
					if m.ProviderRef != "" {
						w.shows[ref] = m
					}
				}
				n := psp.Notice{ID: "f", Movement: true, Kind: kind, Reference: id, ProviderRef: "tx", Outcome: psp.Declined, Amount: 100, Currency: "usd"}
				for range 2 {
					verdict := fmt.Sprint(w.deliver(n))
					require.Contains(t, verdict, c.verdict)
					require.Equal(t, c.status, w.closed["sim:f"], verdict)
				}
				failure, booked := w.books[ledger.FailureID(id)]
				require.Equal(t, c.booked, booked)
				if booked {
					require.True(t, failure.Same(ledger.FailureOf(w.books[id])))
					require.Len(t, w.events, 2, "one for each sink")
				}
				require.Equal(t, c.pages, w.pages)
			})
		}
	}
}

// A failure at home in a region that this node has not read waits for as long as a new region takes
// to reach all nodes. After that it is another deployment's, and is ignored.
func TestAFailureOfAnUnknownRegionEnds(t *testing.T) {
	id, err := claim.NewObjectID("ch", 9, nil)
	require.NoError(t, err)
	w := newWorld(t)
	n := charged(id, "p1")
	n.Outcome = psp.Declined
	body, err := json.Marshal(n)
	require.NoError(t, err)
	p := w.processor()
	p.c.Now = func() time.Time { return w.now }
	m := outbox.Message{ID: ID("sim", n.ID), Region: "eu", Kind: outbox.KindNotice, Operation: "sim", Payload: body, Fence: 1, CreatedAt: w.now}
	w.now = w.now.Add(appearWithin - 1)
	require.Contains(t, fmt.Sprint(p.Handle(t.Context(), m)), "code 9, which is not in the topology")
	require.Empty(t, w.closed)
	w.now = w.now.Add(1)
	require.Equal(t, outbox.Gone(), p.Handle(t.Context(), m))
	require.Equal(t, Ignored, w.closed["sim:e"])
}
