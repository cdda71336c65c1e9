package payment

import (
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Outcomes of an object: its status in an event, and the second half of the event's
// type.
const (
	statusSucceeded = "succeeded"
	statusDeclined  = "declined" // for now: the same key may be retried
	statusFailed    = "failed"   // for good
	statusExpired   = "expired"
	statusCanceled  = "canceled"
)

// EventsOf begins the ids of the events of an object, whatever they report of it.
func EventsOf(object string) string { return "evt_" + object + "_" }

// events returns one message for each sink about the object, given its rendering. All
// bytes follow from stored values: an attempt that is repeated under the same fence
// makes the same event.
func (t *attempt) events(status string, object []byte) []outbox.Message {
	if len(t.o.Sinks) == 0 {
		return nil
	}
	fence := t.Record.Fence
	if t.Closing {
		// Closing raises no fence, and the decline before it has an event of its own. A
		// holder with the next fence keeps the closing from being recorded.
		fence++
	}
	id := EventsOf(t.Record.Minted.ID) + strconv.FormatUint(fence, 10)
	b := make([]byte, 0, renderRoom+len(object))
	b = append(b, `{"id":`...)
	b = appendString(b, id)
	b = append(b, `,"type":"`...)
	b = append(b, Object(t.op)...)
	b = append(b, '.')
	b = append(b, status...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, t.Now.Unix(), 10)
	b = appendLivemode(b, !t.intent.test)
	b = append(b, `,"data":`...)
	b = append(b, object...)
	if t.op.GivesBack() {
		order, metadata := t.named()
		if t.intent.metadata != nil {
			metadata = "" // the object has it
		}
		b = append(appendNamed(b[:len(b)-1], order, metadata), '}')
	}
	b = append(b, '}')
	all := make([]outbox.Message, len(t.o.Sinks))
	for i, sink := range t.o.Sinks {
		all[i] = outbox.Message{ID: id + "/" + strings.TrimPrefix(string(sink), "event_"), Kind: sink, Payload: b}
	}
	return all
}

// appendNamed appends what a booking has of what its merchant sent.
func appendNamed(b []byte, order, metadata string) []byte {
	if order != "" {
		b = appendString(append(b, `,"order_id":`...), order)
	}
	if metadata != "" {
		b = append(append(b, `,"metadata":`...), metadata...)
	}
	return b
}

// failure is the event of an object for which no money moved by its settlement: the request, with a
// status and the code that gives the reason.
func (t *attempt) failure(status, code string) []outbox.Message {
	if len(t.o.Sinks) == 0 || t.intent.Operation == "" || t.op.Orders() {
		return nil // no sink, or no event: the charge's own event reports the change
	}
	b := appendObject(make([]byte, 0, renderRoom+t.intent.sent()), t.Record.Minted, &t.intent, status)
	b = append(b, `,"code":`...)
	b = appendString(b, code)
	return t.events(status, append(b, '}'))
}

// Fallen is a movement that failed after it was booked.
type Fallen struct {
	// Transaction is its booking.
	ledger.Transaction
	// Charge is the charge that a ghost's refund has refunded; a refund's is in Reverses.
	Charge string
	// Key is the key of its claim, or an id in its place if the claim was deleted.
	Key string
	// Code is the reason and At the time, as the provider reports them.
	Code string
	At   time.Time
}

// FailedLater returns the messages that emit f's failure to every sink. They render the
// object from the ledger, as its claim may have expired. A ghost was never emitted, so it
// has none.
func FailedLater(f Fallen, sinks []outbox.Kind) []outbox.Message {
	var object string
	charge := f.Charge
	switch f.Kind {
	case ledger.Charge:
		object = string(Charge)
	case ledger.Transfer:
		object = string(Transfer)
	case ledger.Refund:
		object, charge = string(Refund), f.Reverses
	case ledger.GhostRefund:
		object = string(Refund)
	default:
		return nil
	}
	id := EventsOf(f.Object) + statusFailed
	b := make([]byte, 0, 2*renderRoom)
	b = append(b, `{"id":`...)
	b = appendString(b, id)
	b = append(b, `,"type":"`...)
	b = append(b, object...)
	b = append(b, '.')
	b = append(b, statusFailed...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, f.At.Unix(), 10)
	b = appendLivemode(b, claim.Livemode(f.Tenant))
	b = append(b, `,"data":{"id":`...)
	b = appendString(b, f.Object)
	b = append(b, `,"object":`...)
	b = appendString(b, object)
	b = append(b, `,"amount":`...)
	b = strconv.AppendInt(b, f.Amount, 10)
	b = append(b, `,"currency":`...)
	b = appendString(b, f.Currency)
	b = append(b, `,"status":"`...)
	b = append(b, statusFailed...)
	b = append(b, '"')
	b = appendLivemode(b, claim.Livemode(f.Tenant))
	if charge != "" {
		b = append(b, `,"charge":`...)
		b = appendString(b, charge)
	}
	b = appendNamed(b, f.Order, f.Metadata)
	b = append(b, `,"provider":{"name":`...)
	b = appendString(b, f.Provider)
	b = append(b, `,"reference":`...)
	b = appendString(b, f.ProviderRef)
	b = append(b, `},"code":`...)
	b = appendString(b, f.Code)
	b = append(b, '}', '}')
	all := make([]outbox.Message, len(sinks))
	for i, sink := range sinks {
		all[i] = outbox.Message{
			ID: id + "/" + strings.TrimPrefix(string(sink), "event_"), Region: f.Region, Kind: sink,
			Tenant: f.Tenant, Key: f.Key, Operation: object, Payload: b,
		}
	}
	return all
}
