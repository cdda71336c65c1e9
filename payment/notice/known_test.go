package notice

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// Of many notices CloseBooked closes those of movements that are booked as they say, with one
// reading and one closing, and leaves every other. Handle closes the same in the same
// way.
func TestCloseBookedClosesWhatIsBookedAndNothingElse(t *testing.T) {
	w := newWorld(t)
	first, second, ghost := objectID(t, "ch", 1), objectID(t, "ch", 2), objectID(t, "ch", 3)
	w.have(first, claim.Completed, "p1")
	w.have(second, claim.Completed, "p2")
	w.have(ghost, claim.FailedTerminal, "")
	var rows []outbox.Message
	row := func(id string, n psp.Notice, change func(n *psp.Notice)) {
		change(&n)
		body, err := json.Marshal(n)
		require.NoError(t, err)
		rows = append(rows, w.row(body, id))
	}
	same := func(*psp.Notice) {}
	row("known", charged(first, "p1"), same)
	row("again", charged(first, "p1"), same)
	row("other", charged(second, "p2"), same)
	for id, change := range map[string]func(n *psp.Notice){
		"second movement": func(n *psp.Notice) { n.ProviderRef = "p9" },
		"amount":          func(n *psp.Notice) { n.Amount++ },
		"currency":        func(n *psp.Notice) { n.Currency = "eur" },
		"declined":        func(n *psp.Notice) { n.Outcome = psp.Declined },
		"held":            func(n *psp.Notice) { n.Held = true },
		"refund":          func(n *psp.Notice) { n.Kind = psp.KindRefund },
		"stranger":        func(n *psp.Notice) { n.Reference = "order-7" },
		"elsewhere":       func(n *psp.Notice) { n.Reference, _ = claim.NewObjectID(payment.Prefix(payment.Charge), 7, nil) },
		"ghost":           func(n *psp.Notice) { n.Reference = ghost },
	} {
		row(id, charged(first, "p1"), change)
	}
	rows = append(rows, w.row([]byte("{"), "unread"))
	gone := w.row(rows[0].Payload, "no notifier")
	gone.Operation = "bank"
	rows = append(rows, gone)

	p, before := w.processor(), w.steps
	rest := p.CloseBooked(t.Context(), rows)
	require.Equal(t, 3, w.steps-before, "one reading; before and after one closing")
	require.Equal(t, rows[3:], rest)
	require.Equal(t, map[string]Status{"sim:known": ProcessedOK, "sim:again": ProcessedOK, "sim:other": ProcessedOK}, w.closed)
	clear(w.closed)
	require.Equal(t, outbox.Gone(), p.Handle(t.Context(), rows[0]))
	require.Equal(t, map[string]Status{"sim:known": ProcessedOK}, w.closed)
}

// CloseBooked closes together the events from which nothing follows, as Handle closes each: events
// without movements, and declines without an object of ours. It reads nothing for them.
func TestCloseBookedClosesEventsWithoutMovements(t *testing.T) {
	w := newWorld(t)
	own := objectID(t, "ch", 1)
	w.have(own, claim.Completed, "p1")
	elsewhere, err := claim.NewObjectID(payment.Prefix(payment.Charge), 7, nil)
	require.NoError(t, err)
	refused := func(reference, provider string, change func(n *psp.Notice)) psp.Notice {
		n := charged(reference, provider)
		n.Outcome, n.Decline = psp.Declined, &psp.Decline{}
		change(&n)
		return n
	}
	same := func(*psp.Notice) {}
	idle := map[string]psp.Notice{
		"created":   {},
		"our own":   {Reference: own},
		"stranger":  refused("order-7", "", same),
		"nameless":  refused("", "", same),
		"elsewhere": refused(elsewhere, "", same),
		"undecided": refused("order-7", "p7", func(n *psp.Notice) { n.Outcome, n.Decline = psp.Unknown, nil }),
		"held":      refused("order-7", "p7", func(n *psp.Notice) { n.Outcome, n.Held, n.Decline = psp.Authorized, true, nil }),
	}
	others := map[string]psp.Notice{
		"refused": refused(own, "", same),
		"failed":  refused("order-7", "p7", same),
		"unasked": {Unasked: []psp.Unasked{{}}},
	}
	row := func(id string, n psp.Notice) outbox.Message {
		body, err := json.Marshal(n)
		require.NoError(t, err)
		return w.row(body, id)
	}
	var rows, rest []outbox.Message
	want := map[string]Status{}
	for id, n := range idle {
		rows = append(rows, row(id, n))
		want["sim:"+id] = Ignored
	}
	for id, n := range others {
		rest = append(rest, row(id, n))
	}
	p := w.processor()
	require.Equal(t, rest, p.CloseBooked(t.Context(), append(slices.Clone(rows), rest...)))
	require.Equal(t, 2, w.steps, "before and after one closing")
	require.Equal(t, want, w.closed)
	clear(w.closed)
	for _, m := range rows {
		require.Equal(t, outbox.Gone(), p.Handle(t.Context(), m))
	}
	require.Equal(t, want, w.closed)
	require.Equal(t, 2+2*len(rows), w.steps)
}

// bookedNotice returns a processor and the row of a notice of a booked charge.
func bookedNotice(t *testing.T) (*world, *Processor, []outbox.Message) {
	t.Helper()
	w := newWorld(t)
	id := objectID(t, "ch", 1)
	w.have(id, claim.Completed, "p1")
	body, err := json.Marshal(charged(id, "p1"))
	require.NoError(t, err)
	return w, w.processor(), []outbox.Message{w.row(body, "e")}
}

// While the books of a home do not answer, its notices hold up no others: each is left to
// its handler, until one has been compared.
func TestCloseBookedSkipsASilentHome(t *testing.T) {
	w, p, rows := bookedNotice(t)
	w.dieAt = w.steps + 1
	require.Equal(t, rows, p.CloseBooked(t.Context(), rows))
	steps := w.steps
	require.Equal(t, rows, p.CloseBooked(t.Context(), rows))
	require.Equal(t, steps, w.steps, "it read nothing")
	require.Equal(t, outbox.Gone(), p.Handle(t.Context(), rows[0]))
	require.Empty(t, p.CloseBooked(t.Context(), rows))
}

// A close with an unknown outcome ends with the lease: the notices are not handled twice at once.
func TestCloseBookedLeavesAnUnknownCloseToTheLease(t *testing.T) {
	w, p, rows := bookedNotice(t)
	w.dieAt = w.steps + 2
	require.Empty(t, p.CloseBooked(t.Context(), rows))
	require.Empty(t, w.closed)
	require.Empty(t, p.CloseBooked(t.Context(), rows), "taken again")
	require.Equal(t, map[string]Status{"sim:e": ProcessedOK}, w.closed)
}

// Panics of one cohort leave its notices to their handlers.
func TestAPanicOverManyLeavesEachToItsHandler(t *testing.T) {
	_, p, rows := bookedNotice(t)
	p.c.Books = struct{ ledger.Store }{} // every method panics
	require.Equal(t, rows, p.CloseBooked(t.Context(), rows))
}
