package payment

import (
	"context"
	"encoding/json"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// ReasonKeyCanceled is the reason of a claim that ended since its key was canceled.
const ReasonKeyCanceled = "key_canceled"

// Withdrawn is the payload of an [outbox.KindRefund]: a charge that moved money although its key was
// canceled. The row has the tenant and the home.
type Withdrawn struct {
	Object      string `json:"object"`
	Provider    string `json:"provider"`
	ProviderRef string `json:"provider_ref"`
	// Amount is in minor units of Currency.
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// withdraw is the outcome of an attempt whose key was canceled. A charge that moved money is refused,
// and its money is a ghost, which the step that refuses it books, and enqueues to be refunded. So from
// the mark on no request reads that the charge was made. Other money cannot be called back: then the
// claim says that it has moved.
func (t *attempt) withdraw(ctx context.Context) claim.Outcome {
	if t.op == CancelKey || t.Closing {
		_ = t.parse() // a closing has no request, and no event
		return t.withdrawn("", nil)
	}
	o := t.Found
	if o == nil && t.neverSent() && t.parse() == nil {
		t.cleared = true
		return t.withdrawn("", nil)
	}
	if o == nil {
		o = t.run(ctx)
	} else if t.parse() != nil {
		return o // which is unknown
	}
	switch o := o.(type) {
	case *claim.Done:
		if t.op == Charge && o.Posting != nil && o.ProviderRef != "" {
			return t.withdrawn(o.ProviderRef, o.Posting)
		}
	case *claim.Refused:
		return t.withdrawn(o.ProviderRef, nil)
	case *claim.Released:
		return t.withdrawn(o.ProviderRef, nil)
	case *claim.Moved:
		return t.withdrawn("", nil)
	case *claim.Unsent:
		if !t.Recovery || t.neverSent() { // nothing was sent in any attempt of this generation
			t.cleared = true
			return t.withdrawn("", nil)
		}
	case *claim.Pending:
		if t.Found != nil {
			soon := *o
			soon.AskIn = 0 // to call it off
			return &soon
		}
	}
	return o
}

// neverSent reports whether each attempt of this generation before this one certainly sent nothing: the
// first one said so, and none since may have called. At a provider that answers look-ups these tell. A
// transfer that had been sent after all could not be called back, so a row that a restore may have
// brought back does not prove it.
func (t *attempt) neverSent() bool {
	return t.op == Charge && t.Recovery && !t.caps.Lookup && t.Record.NotFounds > 0 && t.ReportedRef == "" && t.Held == nil && t.Witness == nil
}

// withdrawn refuses a claim whose key was canceled. moved is the booking of the charge if its money has
// moved, nil if not.
func (t *attempt) withdrawn(ref string, moved *ledger.Transaction) claim.Outcome {
	detail := "This key was canceled before its " + Object(t.op) + " was answered. No money moved."
	switch {
	case t.op == CancelKey:
		detail = "This key was canceled before it was used. Nothing was sent under it."
	case moved != nil, t.op == Charge && t.Recovery && !t.cleared:
		detail = "This key was canceled before its charge was answered. If money moved, the payer gets it back."
	case t.Recovery && !t.cleared:
		detail = "This key was canceled, and the provider does not find its " + Object(t.op) + ". Should it turn out to have been made, it is not reversed: compare with the provider before you send another."
	}
	v := &claim.Refused{
		Response: t.refusal(problem.New(problem.KeyCanceled, detail)), Reason: ReasonKeyCanceled, ProviderRef: ref,
		Events: t.failure(statusCanceled, ReasonKeyCanceled),
	}
	if moved != nil {
		ghost := *moved
		ghost.ID, ghost.Kind, ghost.Credit, ghost.Created = ledger.GhostID(ghost.Provider, ref), ledger.Ghost, ledger.Suspense(ghost.Tenant), time.Time{}
		payload, err := json.Marshal(Withdrawn{ghost.Object, ghost.Provider, ref, ghost.Amount, ghost.Currency})
		if err != nil {
			panic("payment: a withdrawn charge cannot be written: " + err.Error()) // strings and numbers always encode
		}
		v.Posting, v.Refund = &ghost, &outbox.Message{Operation: string(t.op), Payload: payload, Due: t.Now}
	}
	return v
}
