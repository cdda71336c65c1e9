package claim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/notice"
)

// A request that gives its key up is one of the requests of a world with banks. Where it finds a claim
// it acts as claim.Service.Cancel and notice.Canceler do.

// givesUp is a request that gives a's key up, in the other region.
func givesUp(a ask) ask {
	a.body, a.op, a.entry, a.node = claimtest.GiveUp, payment.CancelKey, asia, 1
	return a
}

// cancel is what request i does about the claim that has its key.
func (w *world) cancel(i int, rec claim.Record) string {
	t := &w.tasks[i]
	accepted := func() {
		if !slices.Contains(w.gaveUp, rec.Minted.ID) {
			w.gaveUp = append(w.gaveUp, rec.Minted.ID)
		}
	}
	switch {
	case rec.State == claim.InFlight:
		fence := rec.Fence
		got, err := w.claims(t.region).Cancel(context.Background(), rec.Key, rec.Home, rec.Minted.ID, uuid.NewSHA1(uuid.Nil, []byte(t.node)), t.node, regions[t.region])
		if errors.Is(err, claim.ErrFenced) {
			return "; it is over, and it asks again"
		}
		accepted()
		if row := w.row(&got); w.without == "the fence of a mark" && got.Fence > fence {
			unfenced := *row
			unfenced.Fence = fence
			w.store.rows[w.place(row)] = &unfenced
		}
		w.end(i)
		return "; it is marked"
	case rec.State == claim.FailedRetry:
		o := w.attemptOf(claim.Attempt{Record: rec, Closing: true, Canceled: true})
		got, err := w.settle(t.region, rec, claim.Verdict{Outcome: o, ID: verdictID(i, t.node, &rec)})
		if err != nil {
			return "; it goes on, and it asks again"
		}
		accepted()
		w.read(i, got.Response, got.SettledAt)
		return "; it is closed"
	}
	line, _ := w.in(t.region, w.name(i, t.region), fate{decides: w.decides[0]}, func(r *run) string {
		present := payment.Present{
			Claims: finds{rec, w.store}, Books: w.rails.compensator.Books, Homes: func() []string { return []string{rec.Home} },
			Home: func(claim.RegionCode) (string, bool) { return rec.Home, true },
		}
		canceler := notice.Canceler{Claims: finds{rec, w.store}, Compensator: w.rails.compensator, Left: present.Left}
		reply, err := canceler.Cancel(context.Background(), rec.Home, &claim.Request{Key: rec.Key, Operation: claim.CancelKey})
		if err != nil {
			return fmt.Sprintf("; %v", err)
		}
		return fmt.Sprintf("; %s", reply.Response.Body)
	})
	if rec.State == claim.Completed {
		accepted()
	}
	w.end(i)
	return line
}

// finds is a claim that a canceler finds.
type finds struct {
	rec   claim.Record
	store *pureStore
}

// Object is not read.
func (finds) Object(context.Context, string, string, string) (o claim.Object, found bool, err error) {
	return o, false, nil
}

func (f finds) Reversing(ctx context.Context, tenant, home, id string, limit int) ([]claim.Reversing, error) {
	return f.store.Reversing(ctx, tenant, home, id, limit)
}

func (f finds) Cancel(context.Context, string, *claim.Request) (claim.Record, claim.Reply, error) {
	return f.rec, claim.Reply{Home: f.rec.Home, State: f.rec.State}, nil
}

// sees has task i, whose verdict was fenced off, go on under a mark if that is all that happened, as
// claim.Service does.
func (w *world) sees(i int) bool {
	t, row := &w.tasks[i], w.row(&w.tasks[i].held)
	if row == nil || t.held.Canceled() || !row.Canceled() || row.Minted.ID != t.held.Minted.ID || row.Holder != t.held.Holder || row.Fence != t.held.Fence+1 {
		return false
	}
	t.held = *row
	a := claim.Attempt{Record: t.held, Payload: t.body, Recovery: t.recovery, Provider: t.provider, Found: t.verdict.Outcome}
	w.learn(i, w.attemptOf(a))
	return true
}

// refundEvents are the refunds of canceled charges that wait for a worker.
func (w *world) refundEvents(event func(func(n *world) string)) {
	for ref, m := range w.store.queued[outbox.Expiries] {
		if m.Kind != outbox.KindRefund {
			continue
		}
		w.attemptBy(0, europe, event, func(n *world, r *run) string {
			d := n.rails.processor.Refund(context.Background(), m)
			if d == outbox.Done() {
				delete(n.store.queued[outbox.Expiries], ref)
			}
			return fmt.Sprintf("%s refunds the canceled %s: %v", r.node, m.ID, d)
		})
	}
}

// canceledReturned: nothing moves under a key that was given up before it was used. No charge is recorded
// as made once it was given up. The money of one that is recorded otherwise is on its way back.
func canceledReturned(_, w *world) string {
	for at, r := range w.store.rows {
		if r.Operation == claim.CancelKey {
			for _, m := range w.moves {
				if m.idk == at.Key.Value {
					return fmt.Sprintf("%s was given up before it was used, and %s moved", at.Key.Value, m.ref)
				}
			}
		}
		if r.Operation != string(payment.Charge) || !slices.Contains(w.gaveUp, r.Minted.ID) {
			continue
		}
		for _, m := range w.moves {
			if m.object != r.Minted.ID || m.state != "paid" || m.ref != r.ProviderRef {
				continue
			}
			if why := w.owed(r, &m); why != "" {
				return fmt.Sprintf("%s of %s was given up, is %s, and %s", m.ref, r.Minted.ID, r.State, why)
			}
		}
	}
	return ""
}

// owed is why the money of m, which r records, does not come back; "" if it does.
func (w *world) owed(r *claim.Record, m *movement) string {
	if m.refunds != "" {
		return ""
	}
	for at, other := range w.store.rows {
		back := other.Operation == string(payment.Compensation) || other.Operation == string(payment.Refund)
		if back && other.State == claim.InFlight && at.Key != r.Key {
			return ""
		}
	}
	switch r.State {
	case claim.Completed:
		return "nothing refunds it"
	case claim.FailedTerminal:
		_, queued := w.store.queued[outbox.Expiries][claimtest.Ref{Home: r.Home, ID: r.Minted.ID + "/" + string(outbox.KindRefund)}]
		_, booked := w.store.books[claimtest.Ref{Home: r.Home, ID: ledger.GhostID(m.bank, m.ref)}]
		if !queued || !booked {
			return fmt.Sprintf("a worker has its refund: %v, and the books a ghost: %v", queued, booked)
		}
	}
	return ""
}
