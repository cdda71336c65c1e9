package claim

import "time"

// Unpaid says whose an object was for which no money moved, as far as anybody knew
// when its claim was settled. It outlives the claim by far: a provider may tell of a
// success months later, and it has to be known then whom the money concerns. What did
// move money needs none, as the books name its tenant for ever.
//
// A claim leaves one in the very step that refuses, gives up, closes or releases it.
// A released one that is paid in the end keeps it: whoever reads it has read the books
// first.
type Unpaid struct {
	// Object is the id that the claim minted, Home the region that it names.
	Object, Home string
	Tenant       string
	Operation    string
	// State is what the merchant was told last: [FailedTerminal] or [FailedRetry].
	State State
	// Reason is the decline code, or [ReasonOutcomeUnknown].
	Reason string
	// At is the store's clock then.
	At time.Time
}

// MinRememberFor is the least that [Policy.RememberFor] may be: a year and a month,
// as long as the audit is kept and longer than a card payment can be disputed.
const MinRememberFor = 400 * 24 * time.Hour

// unpaid is what r leaves behind, nil where money moved or may still.
func (r *Record) unpaid(now time.Time) *Unpaid {
	if r.State != FailedTerminal && r.State != FailedRetry {
		return nil
	}
	return &Unpaid{
		Object: r.Minted.ID, Home: r.Home, Tenant: r.Key.Tenant, Operation: r.Operation,
		State: r.State, Reason: r.Reason, At: now,
	}
}
