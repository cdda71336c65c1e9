package payment

import (
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Seen is all that tests compare of outcomes, whichever of them has it.
type Seen struct {
	Outcome             string
	Response            claim.Response // of an unknown: the last answer
	Reason, ProviderRef string
	State, By, Next     string
	RetryIn             time.Duration
	NotFound, Unsent    bool
	KeepAsking          bool // an unknown that never ends the claim
	Posting             *ledger.Transaction
	Events              []outbox.Message
	Expiry              *outbox.Message
}

// See is what tests compare of o.
func See(o claim.Outcome) Seen {
	v := Seen{Outcome: o.String()}
	switch o := o.(type) {
	case *claim.Done:
		v.Response, v.ProviderRef, v.Posting, v.Events = o.Response, o.ProviderRef, o.Posting, o.Events
	case *claim.Refused:
		v.Response, v.Reason, v.ProviderRef, v.Events = o.Response, o.Reason, o.ProviderRef, o.Events
	case *claim.Released:
		v.Response, v.Reason, v.ProviderRef, v.Events = o.Response, o.Reason, o.ProviderRef, o.Events
		v.RetryIn, v.Expiry = o.Pause, o.Expiry
	case *claim.Pending:
		v.Response, v.Reason, v.ProviderRef, v.Events = o.Response, o.State, o.ProviderRef, o.Events
		v.State, v.By, v.RetryIn = o.State, o.By, o.AskIn
	case *claim.Moved:
		v.Reason, v.Next = o.Reason, o.Next
	case *claim.Unknown:
		v.Reason, v.NotFound, v.RetryIn = o.Reason, o.NotFound, o.RetryIn
		if v.KeepAsking = o.GiveUp == nil; !v.KeepAsking {
			v.Response, v.Events = o.GiveUp.Response, o.GiveUp.Events
		}
	case *claim.Unsent:
		v.Reason, v.Unsent, v.KeepAsking, v.RetryIn = o.Reason, true, true, o.RetryIn
	}
	return v
}
