package notice

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// desk is the claims of refunds that a cancellation begins, and the charge's books.
type desk struct {
	bookkeeper
	rec     claim.Record
	err     error
	refunds map[string]claim.Record // by key
	bodies  map[string]string
	asked   []claim.Request
	open    []claim.Reversing // the merchant's own refunds in flight
	says    func(amount int64) (claim.Reply, error)
}

func newDesk(t *testing.T, operation payment.Operation, state claim.State, reason string) *desk {
	w := newWorld(t)
	id, err := claim.NewObjectID(payment.Prefix(operation), 1, nil)
	require.NoError(t, err)
	d := &desk{
		bookkeeper: bookkeeper{world: w}, refunds: map[string]claim.Record{}, bodies: map[string]string{},
		rec: claim.Record{Key: claim.Key{Tenant: tenant, Value: "order-1"}, Home: home, Operation: string(operation), State: state, Reason: reason, Minted: claim.Minted{ID: id}},
	}
	d.says = func(int64) (claim.Reply, error) {
		return claim.Reply{State: claim.Completed, Response: claim.Response{Status: 201, Body: []byte(`{"id":"re_1"}`)}}, nil
	}
	return d
}

func (d *desk) charged(amount int64) {
	d.book(ledger.Transaction{ID: d.rec.Minted.ID, Kind: ledger.Charge, Amount: amount})
}

func (d *desk) book(t ledger.Transaction) {
	t.Region, t.Tenant, t.Object, t.Currency, t.Provider = home, tenant, d.rec.Minted.ID, "usd", "sim"
	d.books[t.ID] = t
}

func (d *desk) About(_ context.Context, _ string, objects ...string) (all []ledger.Transaction, _ error) {
	for _, t := range d.books {
		if slices.Contains(objects, t.Object) && t.Kind == ledger.Ghost {
			all = append(all, t)
		}
	}
	return all, d.point()
}

// Cancel, ask and inspect are those of claim.Service and of the router.
func (d *desk) Cancel(context.Context, string, *claim.Request) (claim.Record, claim.Reply, error) {
	return d.rec, claim.Reply{Home: home, State: d.rec.State, Replayed: true}, d.err
}

func (d *desk) inspect(_ context.Context, key claim.Key, _ string) (claim.Status, bool, error) {
	rec, ok := d.refunds[key.Value]
	return claim.Status{Record: rec}, ok, d.point()
}

func (d *desk) do(_ context.Context, req claim.Request, _ string) (claim.Reply, error) {
	var body struct {
		Amount int64
		Charge string
	}
	require.NoError(d, json.Unmarshal(req.Input.Canonical, &body))
	require.Equal(d, d.rec.Minted.ID, body.Charge)
	require.Equal(d, string(payment.Refund), req.Operation)
	_, err := claim.ParseKey(req.Key.Value)
	require.Error(d, err, "no merchant can send it")
	if was, ok := d.bodies[req.Key.Value]; ok && was != string(req.Input.Canonical) {
		return claim.Reply{}, claim.ErrMismatch
	}
	d.asked = append(d.asked, req)
	reply, err := d.says(body.Amount)
	d.bodies[req.Key.Value] = string(req.Input.Canonical)
	rec, again := d.refunds[req.Key.Value]
	if !again {
		rec.Minted.ID = fmt.Sprint("re_", len(d.refunds)+1)
	}
	rec.State = reply.State
	d.refunds[req.Key.Value] = rec
	if reply.State == claim.Completed {
		reply.Response.Body = fmt.Appendf(nil, `{"id":%q}`, rec.Minted.ID)
		d.book(ledger.Transaction{ID: rec.Minted.ID, Kind: ledger.Refund, Amount: body.Amount, Reverses: body.Charge})
	}
	return reply, err
}

// flights are the claims of a desk's refunds, as payment.Present reads them.
type flights struct{ *desk }

// Object is not read.
func (flights) Object(context.Context, string, string, string) (o claim.Object, found bool, err error) {
	return o, false, nil
}

// Reversing has the refunds of cancellations, too.
func (d flights) Reversing(context.Context, string, string, string, int) ([]claim.Reversing, error) {
	all := slices.Clone(d.open)
	for key, rec := range d.refunds {
		if rec.State == claim.InFlight {
			all = append(all, claim.Reversing{ID: rec.Minted.ID, Payload: []byte(d.bodies[key])})
		}
	}
	return all, d.point()
}

func (d *desk) canceler() *Canceler {
	present := payment.Present{
		Claims: flights{d}, Books: d, Homes: func() []string { return []string{home} },
		Home: func(claim.RegionCode) (string, bool) { return home, true },
	}
	return &Canceler{Claims: d, Left: present.Left, Compensator: &Compensator{
		Books: d, Do: d.do, Inspect: d.inspect, Code: func(string) (claim.RegionCode, bool) { return 1, true },
		Brakes: &Brakes{Store: brakeRows{d.world}, Limits: DefaultLimits()},
	}}
}

func (d *desk) cancel() (int, cancellation, string) {
	d.Helper()
	reply, err := d.canceler().Cancel(d.Context(), home, &claim.Request{})
	require.NoError(d, err)
	require.False(d, reply.Replayed, "nothing of the answer is stored")
	var is cancellation
	var p struct{ Code, Detail string }
	require.NoError(d, json.Unmarshal(reply.Response.Body, &is))
	require.NoError(d, json.Unmarshal(reply.Response.Body, &p))
	return reply.Response.Status, is, p.Code
}

func TestWhatACanceledKeyCameTo(t *testing.T) {
	for _, c := range []struct {
		operation payment.Operation
		state     claim.State
		reason    string
		status    int
		says      string
	}{
		{payment.CancelKey, claim.FailedTerminal, payment.ReasonKeyCanceled, 200, CancelUnused},
		{payment.Charge, claim.InFlight, "", 202, CancelUnknown},
		{payment.Charge, claim.FailedTerminal, payment.ReasonKeyCanceled, 200, CancelNotMade},
		{payment.Charge, claim.FailedTerminal, "stolen_card", 200, CancelNotMade},
		{payment.Charge, claim.FailedTerminal, claim.ReasonOutcomeUnknown, 202, CancelUnknown},
		{payment.Transfer, claim.InFlight, "", 202, CancelUnknown},
		{payment.Transfer, claim.FailedTerminal, payment.ReasonKeyCanceled, 200, CancelNotMade},
		{payment.Transfer, claim.FailedTerminal, claim.ReasonOutcomeUnknown, 400, claim.ReasonOutcomeUnknown},
		{payment.Transfer, claim.Completed, "", 400, codeAlreadyMade},
		{payment.Refund, claim.Completed, "", 400, codeAlreadyMade},
		{payment.Capture, claim.Completed, "", 400, codeAlreadyMade},
		{payment.Cancel, claim.Completed, "", 400, codeAlreadyMade},
	} {
		t.Run(fmt.Sprint(c.operation, " ", c.state, " ", c.reason), func(t *testing.T) {
			d := newDesk(t, c.operation, c.state, c.reason)
			status, is, code := d.cancel()
			require.Equal(t, c.status, status)
			require.Contains(t, []string{is.Outcome, code}, c.says)
			if status < 400 {
				require.Equal(t, c.operation == payment.Charge, is.Charge != "")
			}
			require.Empty(t, d.asked)
		})
	}
}

// What is left of a charge is refunded, once, whoever asks and however often.
func TestACanceledChargeIsRefundedOnce(t *testing.T) {
	d := newDesk(t, payment.Charge, claim.Completed, "")
	d.charged(1000)
	d.book(ledger.Transaction{ID: "re_a", Kind: ledger.Refund, Amount: 300, Reverses: d.rec.Minted.ID})
	d.book(ledger.Transaction{ID: "re_b", Kind: ledger.ProviderRefund, Amount: 50, Reverses: d.rec.Minted.ID})
	d.book(ledger.Transaction{ID: "re_c", Kind: ledger.Refund, Amount: 200, Reverses: d.rec.Minted.ID})
	d.book(ledger.Transaction{ID: ledger.FailureID("re_c"), Kind: ledger.RefundFailed, Amount: 200, Reverses: "re_c"})
	d.book(ledger.Transaction{ID: "dp_a", Kind: ledger.DisputeOpened, Amount: 400, Reverses: d.rec.Minted.ID})
	for range 3 {
		status, is, _ := d.cancel()
		require.Equal(t, []any{200, CancelRefunded, "re_1"}, []any{status, is.Outcome, is.Refund})
	}
	require.Len(t, d.asked, 1)
	require.Contains(t, string(d.asked[0].Input.Canonical), `"amount":650`)
}

// A refund that was not sent, as its provider cannot be reached or is not on this node, is no refusal:
// the merchant tries again.
func TestTheRefundOfACanceledChargeIsNotSent(t *testing.T) {
	d := newDesk(t, payment.Charge, claim.Completed, "")
	d.charged(1000)
	yes := d.says
	d.says = func(int64) (claim.Reply, error) {
		return claim.Reply{State: claim.FailedRetry, Response: claim.Response{Status: 503, Body: []byte(`{"code":"provider_not_available","detail":"Not here."}`)}}, nil
	}
	_, err := d.canceler().Cancel(t.Context(), home, &claim.Request{})
	require.ErrorIs(t, err, claim.ErrUnavailable)
	require.ErrorContains(t, err, "Not here.")
	d.says = yes
	status, is, _ := d.cancel()
	require.Equal(t, []any{200, CancelRefunded}, []any{status, is.Outcome})
	require.Equal(t, d.asked[0].Key, d.asked[1].Key)
}

// It stays unknown whether the refund was made: that is no refusal, and no other one is begun beside it.
func TestTheRefundOfACanceledChargeStaysUnknown(t *testing.T) {
	d := newDesk(t, payment.Charge, claim.Completed, "")
	d.charged(1000)
	d.says = func(int64) (claim.Reply, error) { return claim.Reply{State: claim.InFlight}, &claim.UnknownError{} }
	status, _, _ := d.cancel()
	require.Equal(t, 202, status)
	for key, rec := range d.refunds {
		rec.State, rec.Reason = claim.FailedTerminal, claim.ReasonOutcomeUnknown
		d.refunds[key] = rec
	}
	d.book(ledger.Transaction{ID: "re_a", Kind: ledger.Refund, Amount: 300, Reverses: d.rec.Minted.ID})
	status, _, code := d.cancel()
	require.Equal(t, []any{400, claim.ReasonOutcomeUnknown}, []any{status, code})
	require.Len(t, d.asked, 1)
}

// A refund that the provider takes back later has refunded nothing: who cancels again gets another one.
func TestTheRefundOfACanceledChargeFailsLater(t *testing.T) {
	d := newDesk(t, payment.Charge, claim.Completed, "")
	d.charged(1000)
	for n := range cancelRefunds + 1 {
		for range 2 {
			status, is, code := d.cancel()
			if n == cancelRefunds {
				require.Equal(t, []any{400, codeNotRefundable}, []any{status, code})
				continue
			}
			require.Equal(t, []any{200, CancelRefunded, fmt.Sprint("re_", n+1)}, []any{status, is.Outcome, is.Refund})
			require.Len(t, d.asked, n+1)
			require.Contains(t, string(d.asked[n].Input.Canonical), `"amount":1000`)
		}
		id := fmt.Sprint("re_", len(d.refunds))
		d.book(ledger.Transaction{ID: ledger.FailureID(id), Kind: ledger.RefundFailed, Amount: 1000, Reverses: id})
	}
	require.Len(t, d.asked, cancelRefunds)
}

func TestNothingIsLeftOfACanceledCharge(t *testing.T) {
	for name, back := range map[string]ledger.Transaction{
		"refunded": {ID: "re_a", Kind: ledger.Refund, Amount: 1000},
		"failed":   {Kind: ledger.ChargeFailed, Amount: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, payment.Charge, claim.Completed, "")
			d.charged(1000)
			if back.ID == "" {
				back.ID = ledger.FailureID(d.rec.Minted.ID)
			}
			back.Reverses = d.rec.Minted.ID
			d.book(back)
			status, is, _ := d.cancel()
			require.Equal(t, []any{200, CancelRefunded, ""}, []any{status, is.Outcome, is.Refund})
			require.Empty(t, d.asked)
		})
	}
}

func TestTheRefundOfACanceledChargeWaits(t *testing.T) {
	for name, says := range map[string]func(int64) (claim.Reply, error){
		"unknown": func(int64) (claim.Reply, error) {
			return claim.Reply{State: claim.InFlight}, &claim.UnknownError{}
		},
		"pending": func(int64) (claim.Reply, error) {
			return claim.Reply{State: claim.InFlight, Response: claim.Response{Status: 202, Body: []byte(`{"id":"re_1"}`)}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, payment.Charge, claim.Completed, "")
			d.charged(1000)
			d.says = says
			for range 2 {
				status, is, _ := d.cancel()
				require.Equal(t, []any{202, CancelRefundPending, "re_1"}, []any{status, is.Outcome, is.Refund})
			}
			require.Len(t, d.asked, 1, "its worker goes on with it")
		})
	}
}

// A refund of the merchant's own that is in flight is not made a second time. The cancellation refunds
// what that leaves, and the rest if it is refused.
func TestACancellationCountsTheMerchantsRefundsInFlight(t *testing.T) {
	begun := func(d *desk, id, amount string) claim.Reversing {
		return claim.Reversing{ID: id, Payload: fmt.Appendf(nil, `{%s"charge":%q}`, amount, d.rec.Minted.ID)}
	}
	for name, c := range map[string]struct {
		amount string
		asked  int64 // at once
	}{"a part": {`"amount":300,`, 700}, "the whole": {"", 0}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, payment.Charge, claim.Completed, "")
			d.charged(1000)
			d.open = []claim.Reversing{begun(d, "re_own", c.amount)}
			for range 2 {
				status, is, _ := d.cancel()
				require.Equal(t, []any{202, CancelRefundPending, "re_own"}, []any{status, is.Outcome, is.Refund})
			}
			require.Equal(t, c.asked, d.sum())
			d.open = nil // it was refused
			status, is, _ := d.cancel()
			require.Equal(t, []any{200, CancelRefunded}, []any{status, is.Outcome})
			require.EqualValues(t, 1000, d.sum())
		})
	}

	// One that ended while it was listed counts once.
	d := newDesk(t, payment.Charge, claim.Completed, "")
	d.charged(1000)
	d.open = []claim.Reversing{begun(d, "re_own", `"amount":300,`)}
	d.book(ledger.Transaction{ID: "re_own", Kind: ledger.Refund, Amount: 300, Reverses: d.rec.Minted.ID})
	status, is, _ := d.cancel()
	require.Equal(t, []any{200, CancelRefunded, "re_1"}, []any{status, is.Outcome, is.Refund})
	require.EqualValues(t, 700, d.sum())

	// One that begins when all has gone back will be refused: "refunded" stays.
	d = newDesk(t, payment.Charge, claim.Completed, "")
	d.charged(1000)
	for range 2 {
		status, is, _ = d.cancel()
		require.Equal(t, []any{200, CancelRefunded, "re_1"}, []any{status, is.Outcome, is.Refund})
		d.open = []claim.Reversing{begun(d, "re_late", `"amount":300,`)}
	}

	// While one is in flight, no refusal of the cancellation's is for good.
	d = newDesk(t, payment.Charge, claim.Completed, "")
	d.charged(1000)
	d.open = []claim.Reversing{begun(d, "re_own", `"amount":300,`)}
	d.says = func(int64) (claim.Reply, error) {
		return claim.Reply{State: claim.FailedRetry, Response: claim.Response{Status: 400, Body: []byte(`{"code":"charge_disputed"}`)}}, nil
	}
	status, is, _ = d.cancel()
	require.Equal(t, []any{202, CancelRefundPending, "re_own"}, []any{status, is.Outcome, is.Refund})

	// One that began behind the look has the provider refuse the cancellation's, for now.
	d = newDesk(t, payment.Charge, claim.Completed, "")
	d.charged(1000)
	yes := d.says
	d.says = func(amount int64) (claim.Reply, error) {
		if amount > 700 {
			d.open = []claim.Reversing{begun(d, "re_late", `"amount":300,`)}
			return claim.Reply{State: claim.FailedRetry, Response: claim.Response{Status: 400, Body: []byte(`{"code":"refund_exceeds_charge"}`)}}, nil
		}
		return yes(amount)
	}
	status, is, _ = d.cancel()
	require.Equal(t, []any{202, CancelRefundPending, "re_late"}, []any{status, is.Outcome, is.Refund})
	d.open = nil
	d.book(ledger.Transaction{ID: "re_late", Kind: ledger.Refund, Amount: 300, Reverses: d.rec.Minted.ID})
	status, is, _ = d.cancel()
	require.Equal(t, []any{200, CancelRefunded}, []any{status, is.Outcome})
	require.EqualValues(t, 700, d.sum())
}

// sum is what cancellations have refunded.
func (d *desk) sum() (sum int64) {
	for key, rec := range d.refunds {
		var body struct{ Amount int64 }
		require.NoError(d, json.Unmarshal([]byte(d.bodies[key]), &body))
		if rec.State == claim.Completed {
			sum += body.Amount
		}
	}
	return sum
}

// A refund that was refused since another one was under way is tried again under a key of its own, once
// less is left. One that is refused for good is for a person.
func TestARefusedRefundOfACanceledCharge(t *testing.T) {
	d := newDesk(t, payment.Charge, claim.Completed, "")
	d.charged(1000)
	no := claim.Reply{State: claim.FailedRetry, Response: claim.Response{Status: 400, Body: []byte(`{"code":"amount_too_large","detail":"Too much."}`)}}
	yes := d.says
	d.says = func(amount int64) (claim.Reply, error) {
		if amount > 700 {
			return no, nil
		}
		return yes(amount)
	}
	for range 2 {
		status, _, code := d.cancel()
		require.Equal(t, []any{400, codeNotRefundable}, []any{status, code})
	}
	d.book(ledger.Transaction{ID: "re_a", Kind: ledger.Refund, Amount: 300, Reverses: d.rec.Minted.ID})
	for range 2 { // the refused one does not hide the one that was made
		status, is, _ := d.cancel()
		require.Equal(t, []any{200, CancelRefunded, "re_2"}, []any{status, is.Outcome, is.Refund})
	}
	keys := map[string]bool{}
	for _, req := range d.asked {
		keys[req.Key.Value] = true
	}
	require.Len(t, keys, 2)

	d = newDesk(t, payment.Charge, claim.Completed, "")
	d.charged(1000)
	d.says = func(amount int64) (claim.Reply, error) { return no, nil }
	for left := int64(1000); left > 0; left -= 100 {
		d.book(ledger.Transaction{ID: fmt.Sprint("re_", left), Kind: ledger.Refund, Amount: 100, Reverses: d.rec.Minted.ID})
		if status, _, code := d.cancel(); left > 100 {
			require.Equal(t, []any{400, codeNotRefundable}, []any{status, code})
		}
	}
	keys = map[string]bool{}
	for _, req := range d.asked {
		keys[req.Key.Value] = true
	}
	require.LessOrEqual(t, len(keys), cancelRefunds)
}

func TestACancellationThatCannotReadTheBooksFails(t *testing.T) {
	for step := 1; ; step++ {
		d := newDesk(t, payment.Charge, claim.Completed, "")
		d.charged(1000)
		d.dieAt = step
		_, err := d.canceler().Cancel(t.Context(), home, &claim.Request{})
		if d.steps < step {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, errDied)
	}
}

// The worker of a canceled charge's refund refunds the ghost that its settlement booked, and tries until
// it has; the answer to the cancellation says how far that is.
func TestTheRefundOfACanceledChargeThatMoved(t *testing.T) {
	w := newWorld(t)
	w.blind = true
	w.limits = Limits{} // which admit no automatic refund
	id, err := claim.NewObjectID("ch", 1, nil)
	require.NoError(t, err)
	ghost := ledger.Transaction{
		ID: ledger.GhostID("sim", "px_1"), Region: home, Tenant: tenant, Kind: ledger.Ghost, Debit: ledger.Provider("sim"), Credit: ledger.Suspense(tenant),
		Amount: 700, Currency: "usd", Object: id, Provider: "sim", ProviderRef: "px_1",
	}
	w.books[ghost.ID] = ghost
	payload, err := json.Marshal(payment.Withdrawn{Object: id, Provider: "sim", ProviderRef: "px_1", Amount: 700, Currency: "usd"})
	require.NoError(t, err)
	row := outbox.Message{ID: id + "/refund", Region: home, Kind: outbox.KindRefund, Tenant: tenant, Key: "order-1", Payload: payload, CreatedAt: time.Now()}
	p := w.processor()
	w.refuse = "unknown"
	pause, later := p.Refund(t.Context(), row).Delay()
	require.True(t, later, "it costs no attempt")
	require.Equal(t, refundSoonest, pause)
	row.CreatedAt = row.CreatedAt.Add(-25 * time.Hour)
	pause, _ = p.Refund(t.Context(), row).Delay()
	require.Equal(t, refundLatest, pause)
	require.Equal(t, []string{pageWaiting}, slices.Compact(w.pages))
	w.refuse = ""
	clear(w.begun)
	require.Equal(t, outbox.Done(), p.Refund(t.Context(), row))
	require.Len(t, w.moved, 1)
	require.Empty(t, w.closed, "there is no notice")
	require.Empty(t, w.brakes, "no limit counts it")
	row.Payload = []byte("{")
	require.Contains(t, p.Refund(t.Context(), row).String(), "cannot be read")
}

// The provider's notice of a canceled charge may come before the worker of its refund, and settles the
// charge itself where the provider has no look-ups. No limit counts that refund either.
func TestNoLimitCountsTheNoticeOfACanceledCharge(t *testing.T) {
	for reason, at := range map[string]time.Time{payment.ReasonKeyCanceled: {}, claim.ReasonOutcomeUnknown: time.Unix(1, 0)} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t)
			w.limits = Limits{} // which admit no automatic refund
			id := objectID(t, "ch", 1)
			w.have(id, claim.FailedTerminal, "")
			rec := w.claims[id]
			rec.Reason, rec.CanceledAt = reason, at
			w.claims[id] = rec
			w.deliver(charged(id, "p1"))
			require.Equal(t, ProcessedCompensated, w.closed["sim:e"])
			require.Len(t, w.moved, 1)
			require.Empty(t, w.brakes)
		})
	}
}

// A charge of two generations may have two ghosts. The answer says refunded once both are.
func TestTheLastOfACanceledChargesGhostsDecides(t *testing.T) {
	for name, pays := range map[string][]string{"the first": {"px_1"}, "the second": {"px_2"}, "both": {"px_1", "px_2"}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, payment.Charge, claim.FailedTerminal, payment.ReasonKeyCanceled)
			for _, ref := range []string{"px_1", "px_2"} {
				d.book(ledger.Transaction{ID: ledger.GhostID("sim", ref), Kind: ledger.Ghost, Amount: 500, ProviderRef: ref})
			}
			for _, ref := range pays {
				d.book(ledger.Transaction{ID: ledger.GhostRefundID("sim", ref), Kind: ledger.GhostRefund, Amount: 500, ProviderRef: "r" + ref, Reverses: ledger.GhostID("sim", ref)})
			}
			d.blind, d.refuse = true, "unknown"
			c := d.canceler()
			c.Compensator.Do, c.Compensator.Inspect, c.Compensator.Providers = d.world.do, d.world.inspect, psp.Providers{provider{world: d.world}}
			for range 20 { // the books list them in no order
				reply, err := c.Cancel(t.Context(), home, &claim.Request{})
				require.NoError(t, err)
				var is cancellation
				require.NoError(t, json.Unmarshal(reply.Response.Body, &is))
				want := CancelRefundPending
				if len(pays) == 2 {
					want = CancelRefunded
				}
				require.Equal(t, want, is.Outcome)
			}
		})
	}
}
