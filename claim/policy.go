package claim

import (
	"errors"
	"fmt"
	"time"
)

// Policy holds the durations and bounds of a claim's life. The zero value is
// invalid; start from [DefaultPolicy]. All nodes of a deployment must use the
// same Policy.
type Policy struct {
	// Lease is how long a holder may act without renewing, and how long a payment of one
	// that died waits. It exceeds a provider call's usual length, so that most calls never
	// renew, and the pauses of a process on a busy machine. Default 10 s.
	Lease time.Duration `koanf:"lease"`
	// RenewEvery is the heartbeat interval: two of them and a call's time are below Lease less
	// LeaseMargin, so that one renewal may fail. Default 3 s.
	RenewEvery time.Duration `koanf:"renew_every"`
	// LeaseCeiling bounds how long one holder may keep a claim, renewals
	// included; beyond it the holder is presumed stuck. Default 180 s.
	LeaseCeiling time.Duration `koanf:"lease_ceiling"`
	// LeaseMargin is how much earlier than the store a holder stops trusting its
	// lease: at least the store's clock offset plus a statement's time. Default 2 s.
	LeaseMargin time.Duration `koanf:"lease_margin"`
	// ClockOffset is the greatest difference between two of the store's clocks;
	// a take-over waits this much longer than the lease. 0 for a store with one
	// clock (embedded), 500 ms or the cluster's --max-offset for CockroachDB.
	ClockOffset time.Duration `koanf:"clock_offset"`
	// ReplayFor and TombstoneFor are the public retention windows: 24 h each.
	ReplayFor    time.Duration `koanf:"replay_for"`
	TombstoneFor time.Duration `koanf:"tombstone_for"`
	// PinGrace is how long a pin outlives the windows: 1 h, far above any
	// request's deadline. Pins live ReplayFor+TombstoneFor+PinGrace = 49 h.
	PinGrace time.Duration `koanf:"pin_grace"`
	// RememberFor is how long an [Unpaid] row is kept after a refusal: as long as a
	// provider may still report a success. 400 days, and never less for payments. 0: no row is
	// written, as no provider reports anything after its answer.
	RememberFor time.Duration `koanf:"remember_for"`
	// MaxGenerations bounds soft declines under one key. Default 20.
	MaxGenerations uint32 `koanf:"max_generations"`
	// DeclinePause is the shortest time between a soft decline and the next try under
	// its key. An earlier request gets the same decline again. Default 1 s: no person
	// retries faster, and copies of one request may arrive that far apart.
	DeclinePause time.Duration `koanf:"decline_pause"`
	// ActionFor is how long a payer may take to authenticate if the request has no
	// expires_at; then the payment is canceled. Default 24 h. ProcessingFor is how long
	// a payment method may take before the node pages an operator. The worker never
	// stops asking. 14 days.
	ActionFor     time.Duration `koanf:"action_for"`
	ProcessingFor time.Duration `koanf:"processing_for"`
	// MaxUnknowns bounds attempts with an unknown outcome. With BackoffMax 5 min the default of 60
	// is about four hours of look-ups.
	MaxUnknowns uint32 `koanf:"max_unknowns"`
	// BackoffMin and BackoffMax bound the pause after an unknown outcome; it
	// doubles in between, with full jitter.
	BackoffMin time.Duration `koanf:"backoff_min"`
	BackoffMax time.Duration `koanf:"backoff_max"`
	// WaitPoll is how often the losing side re-reads a row that another node
	// holds (jittered); WaitMax is how long it waits before 409. 50 ms, 5 s.
	WaitPoll time.Duration `koanf:"wait_poll"`
	WaitMax  time.Duration `koanf:"wait_max"`
	// InlineBody is the largest response body kept in the row, in bytes; larger
	// ones go to the object store. Default 256 KiB.
	InlineBody int `koanf:"inline_body"`
}

// DefaultPolicy is the published contract.
//
// The lease is as long as the payments of a holder that died wait. 10 s with a heartbeat of 3 s
// outlast pauses of 3 s and of 8 s of all nodes of a region: no claim was taken over from a holder
// that lived, at a load that the machine carried. On two cores with twenty times their work, where
// charges took 20 s, holders lost some two claims in a hundred; each costs a call that the provider
// dedupes, or a look-up. Only calls of over 3 s are renewed, in one statement for each node. The
// price is that a database which is away for over 8 s leaves outcomes unknown, which the worker asks
// the provider for; with 30 s that took 28 s.
func DefaultPolicy() Policy {
	return Policy{
		Lease:          10 * time.Second,
		RenewEvery:     3 * time.Second,
		LeaseCeiling:   180 * time.Second,
		LeaseMargin:    2 * time.Second,
		ReplayFor:      24 * time.Hour,
		TombstoneFor:   24 * time.Hour,
		PinGrace:       time.Hour,
		RememberFor:    MinRememberFor,
		MaxGenerations: 20,
		DeclinePause:   time.Second,
		ActionFor:      24 * time.Hour,
		ProcessingFor:  14 * 24 * time.Hour,
		MaxUnknowns:    60,
		BackoffMin:     250 * time.Millisecond,
		BackoffMax:     5 * time.Minute,
		WaitPoll:       50 * time.Millisecond,
		WaitMax:        5 * time.Second,
		InlineBody:     256 << 10,
	}
}

// Validate returns an error that names every setting that would break a
// promise.
func (p Policy) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("claim policy: "+format, args...))
		}
	}
	check(p.Lease > 0, "lease must be above 0, is %v", p.Lease)
	check(p.RenewEvery > 0 && p.RenewEvery <= p.Lease/2, "renew_every must be above 0 and at most half of lease %v, is %v", p.Lease, p.RenewEvery)
	check(p.LeaseMargin > 0 && p.LeaseMargin >= p.ClockOffset && p.LeaseMargin < p.Lease, "lease_margin must be at least clock_offset %v and below lease %v, is %v", p.ClockOffset, p.Lease, p.LeaseMargin)
	check(p.LeaseCeiling >= p.Lease, "lease_ceiling must be at least lease %v, is %v", p.Lease, p.LeaseCeiling)
	check(p.ClockOffset >= 0, "clock_offset must not be negative, is %v", p.ClockOffset)
	check(p.ReplayFor > 0, "replay_for must be above 0, is %v", p.ReplayFor)
	check(p.TombstoneFor > 0, "tombstone_for must be above 0, is %v", p.TombstoneFor)
	check(p.PinGrace > p.ClockOffset, "pin_grace must be above clock_offset %v, is %v", p.ClockOffset, p.PinGrace)
	check(p.RememberFor == 0 || p.RememberFor >= MinRememberFor && p.RememberFor <= maxWindow, "remember_for must be at least %v and at most %v, is %v", MinRememberFor, maxWindow, p.RememberFor)
	check(max(p.ReplayFor, p.TombstoneFor, p.PinGrace) <= maxWindow, "replay_for, tombstone_for and pin_grace must be at most %v", maxWindow)
	check(p.MaxGenerations >= 1, "max_generations must be at least 1")
	check(p.DeclinePause >= 0 && p.DeclinePause < p.ReplayFor, "decline_pause must not be negative and be below replay_for %v, is %v", p.ReplayFor, p.DeclinePause)
	check(p.ActionFor > 0 && p.ActionFor <= maxWindow, "action_for must be above 0 and at most %v, is %v", maxWindow, p.ActionFor)
	check(p.ProcessingFor > 0 && p.ProcessingFor <= maxWindow, "processing_for must be above 0 and at most %v, is %v", maxWindow, p.ProcessingFor)
	check(p.MaxUnknowns >= 1, "max_unknowns must be at least 1")
	check(p.BackoffMin > 0 && p.BackoffMax >= p.BackoffMin, "backoff_min must be above 0 and at most backoff_max %v, is %v", p.BackoffMax, p.BackoffMin)
	check(p.WaitPoll > 0 && p.WaitMax >= p.WaitPoll, "wait_poll must be above 0 and at most wait_max %v, is %v", p.WaitMax, p.WaitPoll)
	check(p.InlineBody >= 0, "inline_body must not be negative, is %d", p.InlineBody)
	return errors.Join(errs...)
}

// TryAgainAfter is how long a caller should wait after a soft decline before it
// retries. It includes ClockOffset, so it holds whichever of the store's clocks
// decides.
func (p *Policy) TryAgainAfter() time.Duration { return p.DeclinePause + p.ClockOffset }

// maxWindow keeps sums of windows from overflowing a duration.
const maxWindow = 10 * 365 * 24 * time.Hour

// EventsFor is how long a claim's first holder may take to deliver its events: six leases, by
// default the minute that a taken row gets. Half of it must be enough for a delivery.
func (p *Policy) EventsFor() time.Duration { return 6 * p.Lease }

// PinLife is how long a pin fixes its key's home.
func (p *Policy) PinLife() time.Duration { return p.ReplayFor + p.TombstoneFor + p.PinGrace }

// CreateWithin is how long after its time a pin allows a claim to be created under it.
// The claim's windows then end before the pin does: no other region can take the pin
// while the claim, or its tombstone, owns the key.
func (p *Policy) CreateWithin() time.Duration { return p.PinGrace - p.ClockOffset }
