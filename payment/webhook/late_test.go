package webhook

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// A refund of a ghost is known for as long as the books are, and not for two days, as its
// claim is: a provider tells of it again when the bank has given it a number, a week
// later. Another movement under its id is a person's business.
func TestALateNoticeOfAGhostsRefundIsKnown(t *testing.T) {
	w := newWorld(t)
	id := objectID(t, "ch", 1)
	w.have(id, claim.FailedTerminal, "")
	w.tell(charged(id, "p1"))
	back, ok := w.books[ledger.GhostRefundID("sim", "p1")]
	require.True(t, ok)
	n := charged(back.Object, back.ProviderRef)
	n.ID, n.Kind = "later", psp.KindRefund
	verdict := w.tell(n) // the compensation's claim is forgotten
	require.Equal(t, ProcessedOK, w.closed["sim:later"], "%v", verdict)

	other := n
	other.ID, other.ProviderRef = "other", "r9"
	require.Contains(t, fmt.Sprint(w.tell(other)), "LIMBO: the provider made the refund")
	wrong := n
	wrong.ID, wrong.Amount = "wrong", 99
	require.Contains(t, fmt.Sprint(w.tell(wrong)), "tells of 99 usd where 100 usd are booked")
	require.Len(t, w.moved, 1)
}

// A failure that is told before the success: nothing was booked for it to take back, so its
// notice is closed. The ghost is not refunded all the same, as the provider is asked for it.
func TestAFailureThatIsToldBeforeTheSuccess(t *testing.T) {
	w := newWorld(t)
	id := objectID(t, "ch", 1)
	w.have(id, claim.FailedTerminal, "")
	w.shows["p1"] = psp.Movement{ProviderRef: "p1", Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Approved}
	w.tell(w.fallen(psp.KindCharge, id, "p1"))
	require.Equal(t, Ignored, w.closed["sim:failed p1"])
	w.tell(charged(id, "p1"))
	require.Empty(t, w.moved, "the provider, asked, says that the movement has failed")
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
		"of another amount":   {func(_ *world, m *psp.Movement) { m.Amount = 1 }, 0, "Parked: not given back: asked for p1", []string{pageDoubt}},
		"under another name":  {func(_ *world, m *psp.Movement) { m.ProviderRef = "tx" }, 0, "Parked: not given back: asked for p1", []string{pageDoubt}},
		"of somebody else's":  {func(_ *world, m *psp.Movement) { m.Reference = "other" }, 0, "Parked: not given back: asked for p1", []string{pageDoubt}},
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
			verdict := fmt.Sprint(w.tell(charged(id, "p1")))
			require.Contains(t, verdict, c.verdict)
			require.Equal(t, c.verdict == "", w.closed["sim:e"] == ProcessedCompensated, verdict)
			require.Len(t, w.moved, c.moved)
			require.Equal(t, c.pages, w.pages)
			require.Equal(t, c.moved > 0, w.books[ledger.GhostID("sim", "p1")].ID != "")
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
		w.tell(charged(id, "p1"))
		m := w.shows["p1"]
		m.Outcome = psp.Declined
		w.shows["p1"], w.refuse = m, ""
		w.steps, w.dieAt = 0, die
		w.tell(charged(id, "p1"))
		died := w.steps >= die
		w.dieAt = 0
		w.tell(charged(id, "p1"))
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
