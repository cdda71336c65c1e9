package payment

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Happened is a movement that the provider made without a request of ours, as booked.
type Happened struct {
	ledger.Transaction
	// Of is the charge or transfer that the movement is about.
	Of ledger.Transaction
	// Dispute is the provider's id of the dispute that it is a step of, if any.
	Dispute string
	// Key is the key of Of's claim, or an id in its place if the claim was deleted.
	Key string
	// Reason is the provider's code, Status its status of a dispute.
	Reason, Status string
	// DueBy is until when a dispute can be answered; zero if the provider did not report it.
	DueBy, At time.Time
}

// The types of events, which are Stripe's (its API reference, "Types of events"), as are the
// members of their objects that the books have ("The Dispute object", "The Refund object", "The
// Transfer object").
var happenings = map[ledger.Kind]string{
	ledger.DisputeOpened: "charge.dispute.created", ledger.Dispute: "charge.dispute.funds_withdrawn",
	ledger.DisputeReversal: "charge.dispute.funds_reinstated", ledger.DisputeWon: "charge.dispute.closed", ledger.DisputeLost: "charge.dispute.closed",
	ledger.ProviderRefund: "refund.created", ledger.ProviderRefundFailed: "refund.failed", ledger.TransferReversal: "transfer.reversed",
}

// providerBody names the provider's movement, as in every object.
type providerBody struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
}

// namedBody is what finds the order, if its merchant sent any.
type namedBody struct {
	OrderID  string          `json:"order_id,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// disputeBody is a dispute as merchants receive it.
type disputeBody struct {
	ID       string        `json:"id"`
	Object   string        `json:"object"`
	Amount   int64         `json:"amount"`
	Currency string        `json:"currency"`
	Livemode bool          `json:"livemode"`
	Charge   string        `json:"charge"`
	Reason   string        `json:"reason"`
	Status   string        `json:"status"`
	Evidence *evidenceBody `json:"evidence_details,omitempty"`
	Provider providerBody  `json:"provider"`
	namedBody
}

type evidenceBody struct {
	DueBy int64 `json:"due_by"` // s since the Unix epoch
}

type refundBody struct {
	ID       string       `json:"id"`
	Object   string       `json:"object"`
	Amount   int64        `json:"amount"`
	Currency string       `json:"currency"`
	Livemode bool         `json:"livemode"`
	Status   string       `json:"status"`
	Charge   string       `json:"charge"`
	Reason   string       `json:"reason"`
	Provider providerBody `json:"provider"`
	Code     string       `json:"code,omitempty"`
	namedBody
}

type transferBody struct {
	ID       string       `json:"id"`
	Object   string       `json:"object"`
	Amount   int64        `json:"amount"`
	Currency string       `json:"currency"`
	Livemode bool         `json:"livemode"`
	Status   string       `json:"status"`
	Reversal reversalBody `json:"reversal"`
	Provider providerBody `json:"provider"`
	namedBody
}

type reversalBody struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	Amount int64  `json:"amount"`
}

// MadeAtProvider is the reason of a refund that a person made at the provider.
const MadeAtProvider = "made_at_provider"

// HappenedUnasked returns the messages that emit h to every sink, under the same id
// however often the provider reports it. Movements that belong to no merchant, such as
// payouts and fees, have none.
func HappenedUnasked(h Happened, sinks []outbox.Kind) []outbox.Message {
	kind, emits := happenings[h.Kind]
	if !emits || len(sinks) == 0 {
		return nil
	}
	id := EventsOf(h.Object) + h.ID
	payload, err := json.Marshal(struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Created  int64  `json:"created"`
		Livemode bool   `json:"livemode"`
		Data     any    `json:"data"`
	}{id, kind, h.At.Unix(), claim.Livemode(h.Tenant), h.object()})
	if err != nil {
		panic("payment: an event cannot be written: " + err.Error()) // strings and numbers always encode
	}
	all := make([]outbox.Message, len(sinks))
	for i, sink := range sinks {
		all[i] = outbox.Message{
			ID: id + "/" + strings.TrimPrefix(string(sink), "event_"), Region: h.Region, Kind: sink,
			Tenant: h.Tenant, Key: h.Key, Operation: string(h.Of.Kind), Payload: payload,
		}
	}
	return all
}

// object renders h as merchants receive it.
func (h *Happened) object() any {
	provider, live := providerBody{h.Provider, cmp.Or(h.Dispute, h.ProviderRef)}, claim.Livemode(h.Tenant)
	named := namedBody{h.Of.Order, json.RawMessage(h.Of.Metadata)}
	switch h.Kind {
	case ledger.ProviderRefund, ledger.ProviderRefundFailed:
		made := ledger.UnaskedID(ledger.ProviderRefund, h.Provider, h.ProviderRef)
		b := refundBody{nameOf("re", made), string(Refund), h.Amount, h.Currency, live, statusSucceeded, h.Object, MadeAtProvider, provider, "", named}
		if h.Kind == ledger.ProviderRefundFailed {
			b.Status, b.Code = statusFailed, h.Reason
		}
		return b
	case ledger.TransferReversal:
		return transferBody{
			h.Object, string(Transfer), h.Of.Amount, h.Currency, live, statusSucceeded, reversalBody{nameOf("trr", h.ID), "transfer_reversal", h.Amount},
			providerBody{h.Of.Provider, h.Of.ProviderRef}, named,
		}
	default:
		b := disputeBody{
			nameOf("dp", ledger.UnaskedID(ledger.DisputeOpened, h.Provider, h.Dispute)), "dispute", h.Amount, h.Currency,
			live, h.Object, h.Reason, h.disputeStatus(), nil, provider, named,
		}
		if !h.DueBy.IsZero() {
			b.Evidence = &evidenceBody{h.DueBy.Unix()}
		}
		return b
	}
}

// disputeStatus is the provider's status, or the one that follows from the step.
func (h *Happened) disputeStatus() string {
	switch {
	case h.Kind == ledger.DisputeLost:
		return "lost"
	case h.Status != "":
		return h.Status
	case h.Kind == ledger.DisputeWon:
		return "won"
	default:
		return "needs_response"
	}
}

// nameOf is the id under which merchants see the bookings under id. All bookings of one object
// share it, and it is not the id of an object that can be read.
func nameOf(prefix, id string) string { return prefix + "_" + id[strings.LastIndexByte(id, '_')+1:] }
