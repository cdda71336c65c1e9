package claim

import "time"

// Unpaid records the tenant of an object for which no money moved, by what its settlement recorded.
// It far outlives the claim: a provider may report a success months later, and that money must then
// be matched to its tenant. A movement of money needs no Unpaid, as the books name its tenant for
// ever.
//
// The step that refuses, gives up, closes or releases a claim writes it. A released
// claim that is later paid keeps it: readers check the books first.
type Unpaid struct {
	// Object is the id that the claim minted, Home the region that it names.
	Object, Home string
	Tenant       string
	Operation    string
	// State is the last state that the merchant was sent: [FailedTerminal] or
	// [FailedRetry].
	State State
	// Reason is the decline code, or [ReasonOutcomeUnknown].
	Reason string
	// At is when it was written, by the store's clock.
	At time.Time
}

// MinRememberFor is the least that [Policy.RememberFor] may be for payments: a year and a month,
// as long as the audit is kept and longer than a card payment can be disputed.
const MinRememberFor = 400 * 24 * time.Hour

// unpaid returns the row for r, without its time; nil if money moved or still may, or nothing is
// remembered.
func (r *Record) unpaid(p *Policy) *Unpaid {
	if r.State != FailedTerminal && r.State != FailedRetry || p.RememberFor == 0 ||
		r.Operation == CancelKey { // of which no provider has heard
		return nil
	}
	return &Unpaid{
		Object: r.Minted.ID, Home: r.Home, Tenant: r.Key.Tenant, Operation: r.Operation,
		State: r.State, Reason: r.Reason,
	}
}
