package claim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Effects holds the writes that must become durable in the same atomic step as
// the record that a transition returns. A store that persists one without the
// other loses or repeats work.
type Effects struct {
	// Enqueue is the provider call to insert, or nil. It replaces a row with
	// the same id.
	Enqueue *outbox.Message
	// Reschedule is when the claim's own outbox row becomes due; zero: leave it.
	Reschedule time.Time
	// Finish removes the claim's own outbox row.
	Finish bool
	// Post is appended to the books; nil: nothing.
	Post *ledger.Transaction
	// Events are appended to [outbox.Events] in order, each behind those of its line that
	// are there: see [outbox.Message.CreatedAt].
	Events []outbox.Message
	// Expiry is put into [outbox.Expiries] unless a row of its id is there; nil: none.
	Expiry *outbox.Message
	// Unpaid replaces the object's [Unpaid] row; nil: leave it.
	Unpaid *Unpaid
	// Audit is appended in order.
	Audit []AuditEntry
}

// Decision is the outcome of [Begin].
type Decision uint8

const (
	// Won: the arrival holds the claim and must attempt the operation.
	Won Decision = iota + 1
	// WonUnknown: as Won, but an earlier attempt may have moved money: ask, or
	// repeat under the same provider key.
	WonUnknown
	// Replay: the record holds the final response.
	Replay
	// Busy: another holder's lease is running.
	Busy
	// Mismatch: the key belongs to another request.
	Mismatch
	// TombStone: the key's replay window is over.
	TombStone
	// NeedPin: there is no claim, and the caller showed no pin young enough to
	// outlive a new one. Or the arrival is to be compared only, and there is no claim or
	// a released one.
	NeedPin
	// Shared: a generation was released while the request was under way or waited for it, or a
	// moment before. The record's Refusal is its answer; only a request that began later, see
	// [Refusal.SharedUntil], may try again.
	Shared
	// Waiting: the claim waits for the payer or for a bank, or the worker is asking the provider.
	// The record's Interim is the answer for now.
	Waiting
	// Used: the arrival gives its key up, and the record is what a request has made of it. See
	// [Cancel].
	Used
)

func (d Decision) String() string {
	names := [...]string{"?", "won", "won_unknown", "replay", "busy", "mismatch", "tombstone", "need_pin", "shared", "waiting", "used"}
	if int(d) < len(names) {
		return names[d]
	}
	return fmt.Sprintf("decision(%d)", uint8(d))
}

// Begin handles the arrival of a request. rec is the stored row or nil. sinceSent is the time from
// the start of the store call until the store decides, or longer: the request began no later than
// a.UnderWay, and no earlier than both together, before now. If the returned record is not nil, the
// store must persist it with the effects; otherwise nothing changes.
func Begin(rec *Record, a *Arrival, sinceSent time.Duration, p *Policy, now time.Time) (*Record, Effects, Decision, error) {
	decision, respelled, err := a.answer(rec, sinceSent, p, now)
	switch {
	case err != nil || decision != 0:
		return nil, Effects{}, decision, err
	case rec.absent(p, now) && !a.creates(p, now):
		return nil, Effects{}, NeedPin, nil
	case rec.absent(p, now):
		next, fx := New(a, p).replacing(rec).At(now)
		return next, fx, Won, nil
	default:
		next, fx, decision := a.goOn(rec, respelled, p, now)
		return next, fx, decision, nil
	}
}

// absent reports whether r is no claim, or one with a key that is free again.
func (r *Record) absent(p *Policy, now time.Time) bool { return r == nil || r.Age(p, now) == Gone }

// answer decides what rec alone says to a; 0 if a step may have to change it. respelled
// reports that a spells the request of rec in another way.
func (a *Arrival) answer(rec *Record, sinceSent time.Duration, p *Policy, now time.Time) (_ Decision, respelled bool, err error) {
	if rec.absent(p, now) {
		return 0, false, nil
	}
	if rec.Age(p, now) == Expired {
		return TombStone, false, nil
	}
	if a.Operation == CancelKey && rec.Operation != CancelKey {
		return Used, false, nil
	}
	fingerprint, err := a.print(rec.Fingerprint.Version)
	if err != nil {
		return 0, false, err
	}
	if rec.Operation == CancelKey { // it refuses whatever arrives
		fingerprint = rec.Fingerprint
	}
	respelled = fingerprint != rec.Fingerprint
	switch {
	case respelled && a.Also != rec.Fingerprint:
		return Mismatch, respelled, nil
	case a.shares(rec, sinceSent, p, now):
		return Shared, respelled, nil
	case rec.State.Final():
		return Replay, respelled, nil
	case rec.State == InFlight && rec.Interim != nil && (respelled || !rec.LeaseLapsed(p, now)):
		return Waiting, respelled, nil
	case rec.State != InFlight && rec.State != FailedRetry:
		return 0, respelled, fmt.Errorf("claim: row of %s in %s has state %d, which this version does not support", rec.Minted.ID, rec.Home, rec.State)
	}
	return 0, respelled, nil
}

// print is a's fingerprint under a version.
func (a *Content) print(v FingerprintVersion) (Fingerprint, error) {
	if a.Print.Version == v {
		return a.Print, nil
	}
	return a.Input.Fingerprint(v)
}

// goOn begins the next generation of the released claim rec, or takes over the one in flight.
func (a *Arrival) goOn(rec *Record, respelled bool, p *Policy, now time.Time) (*Record, Effects, Decision) {
	switch {
	case rec.State == FailedRetry && a.CompareOnly:
		return nil, Effects{}, NeedPin // no money has moved, and none will
	case rec.State == FailedRetry:
		next, fx := reclaim(rec, a, p, now)
		if respelled {
			next.Fingerprint = a.Print // it names the fingerprint of what this generation's provider received
		}
		return next, fx, Won
	case respelled:
		// The provider received the other spelling under this provider key, and
		// must not receive this one. The outbox row has the first spelling and
		// recovers the claim.
		return nil, Effects{}, Busy
	}
	next, fx, err := TakeOver(rec, rec.Minted.ID, a.Node, a.Region, News{}, p, now)
	if err != nil {
		return nil, Effects{}, Busy // another request holds it, or the next attempt is not due
	}
	if _, ok := rec.With(a.Providers); !ok {
		return nil, Effects{}, Busy // only a node with its provider can ask it
	}
	return next, fx, WonUnknown
}

// shares reports whether the refusal of rec's latest released generation answers a. If in
// doubt it does, as no other attempt is under way. While one is, only a request that surely
// began before the release shares: a later one may be what began that attempt, and is asked
// again because its outcome is unknown.
func (a *Content) shares(rec *Record, sinceSent time.Duration, p *Policy, now time.Time) bool {
	latest := now.Add(-a.UnderWay)
	switch {
	case rec.Refusal == nil:
		return false
	case rec.State == InFlight:
		return !latest.After(rec.Refusal.At)
	case a.Waited:
		return true // a release has the time at which its step began
	default:
		return !latest.Add(-sinceSent).After(rec.Refusal.SharedUntil(p))
	}
}

func reclaim(rec *Record, a *Arrival, p *Policy, now time.Time) (*Record, Effects) {
	next := *rec
	next.State = InFlight
	if rec.Operation != CancelKey { // which refuses whatever arrives
		next.Operation = a.Operation // the generation before has nothing left to recover
	}
	next.Fence++
	next.Generation++
	next.ProviderKey = providerKey(rec.Key, rec.Minted.ID, next.Generation, a.Provider)
	if rec.ProviderRef != "" && rec.ProviderKey != providerKey(rec.Key, rec.Minted.ID, rec.Generation, a.Provider) {
		next.ProviderRef = "" // this holder has another provider and cannot continue
	}
	next.Holder, next.HeldSince, next.LeaseUntil = a.Node, now, now.Add(p.Lease)
	next.Attempts++
	next.Unknowns, next.NotFounds, next.Reason, next.SettledAt = 0, 0, "", time.Time{}
	next.Verdict = uuid.Nil
	return &next, Effects{
		Enqueue: dated(next.call(&a.Content), next.LeaseUntil, now),
		Audit:   []AuditEntry{next.entry(EventReclaimed, a.Region, a.Node, now, "")},
	}
}

// News is what a holder has learned before it takes a claim over: the named provider has reported
// what the call of this generation, counted from 1, came to. The zero value is no news.
type News struct {
	Provider   string
	Generation uint32
}

// about reports whether n ends r's present generation: an attempt need not ask the provider.
func (n *News) about(r *Record) bool {
	if n.Generation != r.Generation {
		return false
	}
	_, ok := r.With([]string{n.Provider})
	return ok
}

// TakeOver transfers the lapsed or waiting claim of object to holder, which runs in region. The pause
// between two attempts binds as a lease does, but not who has news of the claim's generation: an
// attempt with news calls no provider, and one without it may call too soon. It returns
// ErrLeaseHeld while the lease or the pause runs, and ErrFenced if nothing is in flight or the key has
// since been reused for another object.
func TakeOver(rec *Record, object, holder, region string, news News, p *Policy, now time.Time) (*Record, Effects, error) {
	if rec == nil || rec.State != InFlight || rec.Minted.ID != object {
		return nil, Effects{}, ErrFenced
	}
	if !rec.LeaseLapsed(p, now) && (rec.Holder != "" || !rec.Waits() && !news.about(rec)) {
		return nil, Effects{}, &LeaseHeldError{For: rec.LeaseUntil.Add(p.ClockOffset).Sub(now)}
	}
	next := *rec
	next.Fence++
	next.Holder, next.HeldSince, next.LeaseUntil = holder, now, now.Add(p.Lease)
	next.Verdict = uuid.Nil
	next.Attempts++
	if rec.Holder != "" {
		// That holder recorded no verdict and may have called: what was not found before proves
		// nothing about a call that is on its way.
		next.NotFounds = 0
	}
	return &next, Effects{
		Reschedule: next.LeaseUntil,
		Audit:      []AuditEntry{next.entry(EventTakenOver, region, holder, now, rec.Holder)},
	}, nil
}

// Cancel marks the claim of object, which is in flight, as given up by its merchant: from now on an
// attempt sends nothing that was not sent before, and what it finds out ends the claim as canceled,
// where that can be. It raises the fence and leaves the holder its lease. So a holder that has not
// seen the mark cannot record its verdict; it reads the claim again, and goes on under the mark
// ([Attempt].Canceled). A claim that waits for its payer, a bank or a capture is due at once. step
// identifies the mark as a verdict's id does. Canceling again changes nothing. ErrFenced: object is
// not in flight.
func Cancel(rec *Record, object string, step uuid.UUID, node, region string, now time.Time) (*Record, Effects, error) {
	switch {
	case rec == nil || rec.State != InFlight || rec.Minted.ID != object:
		return nil, Effects{}, ErrFenced
	case rec.Canceled():
		return rec, Effects{}, nil
	}
	next, fx := *rec, Effects{}
	next.Fence++
	next.CanceledAt = now
	if rec.Holder == "" {
		next.Verdict = step
	}
	if rec.Waits() {
		next.LeaseUntil, fx.Reschedule = now, now
	}
	fx.Audit = []AuditEntry{next.entry(EventCanceled, region, node, now, "")}
	return &next, fx, nil
}

// Renew extends the lease of a holder that still has it, and returns ErrFenced
// otherwise. A lease that runs but cannot be extended, because the ceiling is
// reached or the store's clock was set back, is still held, and returned as it
// is; one that lies too far ahead ([Record.LeaseLapsed]) begins anew at the clock
// as it is now.
func Renew(rec *Record, holder string, fence uint64, p *Policy, now time.Time) (*Record, error) {
	if rec == nil || rec.State != InFlight || rec.Fence != fence || rec.Holder != holder {
		return nil, ErrFenced
	}
	until, ceiling := now.Add(p.Lease), rec.HeldSince.Add(p.LeaseCeiling)
	if until.After(ceiling) {
		until = ceiling
	}
	next := *rec
	if until.After(rec.LeaseUntil) || rec.leaseTooFar(p, now) {
		next.LeaseUntil = until
	}
	if !now.Before(next.LeaseUntil) {
		return nil, ErrFenced
	}
	return &next, nil
}

// Settlement is what a verdict makes of a claim. Its times count from when a store records it.
type Settlement struct {
	// Held is the claim as its holder got it. Record is the claim afterwards, and Effects are
	// what is written beside it, both without the times that At sets.
	Held    *Record
	Record  Record
	Effects Effects
	// Pause is how long a claim that stays in flight is left alone, and Due how long its
	// provider call waits. Both are whole microseconds, and zero for a claim that ends.
	Pause, Due time.Duration
	// EventsDue is how long the events wait for who records them to deliver them: see [Emitted].
	EventsDue time.Duration
}

// Settle is what an attempt's verdict makes of the claim that held describes. jitter in [0,1)
// spreads the retries of unknown outcomes. A store that reads the row first records the result
// by [*Settlement.On]; one whose statement compares what On compares, by [*Settlement.At].
//
// A verdict that leaves the outcome open raises either Unknowns or the fence. A pending
// verdict does not count as unknown; its claim is asked about at the interval that the
// verdict sets.
//
// A held record in FailedRetry may also be settled with [*Refused], which closes
// the claim for good without an attempt. Any other that is not in flight, or has this very
// verdict, has no holder: ErrFenced.
//
// What no store may keep is refused whatever the row is. No state is final without a response
// to replay: Settle refuses a final verdict without one with [ErrNoResponse], and an unknown
// without one never ends the claim. A posting that is invalid is [ErrUnstorable].
func Settle(held *Record, v *Verdict, p *Policy, jitter float64) (*Settlement, error) {
	_, refused := v.Outcome.(*Refused)
	closing := held.State == FailedRetry && refused
	if held.State != InFlight && !closing || v.ID != uuid.Nil && held.Verdict == v.ID {
		return nil, ErrFenced
	}
	s := &Settlement{Held: held, Record: *held}
	next, fx := &s.Record, &s.Effects
	next.Holder, next.Verdict, next.Reason = "", v.ID, printable(v.outcome().reason())
	attempt := next.entry(EventAttempt, v.Region, v.Node, time.Time{}, v.outcome().String())
	if closing {
		attempt.Event = EventClosed
	}
	event := EventSettled
	switch o := v.outcome().(type) {
	case *Done:
		next.end(Completed, &o.Response, o.ProviderRef)
		fx.Post = held.posted(o.Posting)
	case *Refused:
		next.end(FailedTerminal, &o.Response, o.ProviderRef)
		fx.Post = held.posted(o.Posting)
		fx.Expiry = held.later(o.Refund, outbox.KindRefund)
	case *Released:
		if held.LastGeneration(p) || held.Canceled() {
			next.end(FailedTerminal, &o.Response, o.ProviderRef)
			break
		}
		event = EventReleased
		next.State, next.Interim, next.ProviderRef = FailedRetry, nil, printable(o.ProviderRef)
		next.Refusal = &Refusal{Response: o.Response.row(), Pause: o.Pause}
		fx.Expiry = held.later(o.Expiry, outbox.KindExpiry)
	case *Pending:
		event = EventPending
		s.wait(o, p)
	case *Moved:
		event = EventMoved
		s.move(o, p)
	case *Unknown:
		next.Unknowns++
		if next.NotFounds++; !o.NotFound {
			next.NotFounds = 0
		}
		if o.GiveUp != nil && o.GiveUp.Response.Sendable() && next.Unknowns >= p.MaxUnknowns {
			event, next.Reason = EventGivenUp, ReasonOutcomeUnknown
			next.end(FailedTerminal, &o.GiveUp.Response, "")
			break
		}
		event = EventDeferred
		s.putOff(p.backoff(next.Unknowns, o.RetryIn, jitter))
	case *Unsent:
		event = EventDeferred
		next.Fence++ // the fence, not the count, shows that this verdict was recorded
		if o.NotFound {
			next.NotFounds = max(next.NotFounds, 1)
		}
		s.putOff(p.backoff(next.Unknowns, o.RetryIn, jitter))
	case *Fault:
		event = EventDeferred
		next.Fence++
		next.NotFounds = 0
		s.putOff(p.backoff(next.Unknowns, o.RetryIn, jitter))
	}
	response, events := v.outcome().answer()
	if response != nil && event != EventDeferred && !response.Sendable() {
		return nil, fmt.Errorf("%w: %s is %v", ErrNoResponse, held.Minted.ID, v.Outcome)
	}
	if fx.Post != nil {
		if err := fx.Post.Validate(); err != nil {
			return nil, fmt.Errorf("%w: settle: %w", ErrUnstorable, err)
		}
	}
	if next.State != InFlight {
		fx.Events = next.emitted(events)
	}
	if held.firstToEmit(fx.Events) {
		s.EventsDue = p.EventsFor()
	}
	fx.Finish, fx.Unpaid = next.State != InFlight, next.unpaid(p)
	fx.Audit = []AuditEntry{attempt, next.entry(event, v.Region, v.Node, time.Time{}, next.Reason)}
	return s, nil
}

// On is s as a store records it at now on the stored row rec, which may be nil. ErrFenced when
// rec is no longer the claim that was held: its fence has risen, a verdict was recorded under
// it already, or the key was deleted and used anew. A new row's fence starts over; its minted
// id does not, which is why both are compared. A released claim cannot be closed once its key
// is about to be free, see [*Record.CloseUntil], as the key may have another home by then.
//
// A retried verdict is recognised by its ID until another write: On then returns rec
// unchanged, and the store writes nothing.
func (s *Settlement) On(rec *Record, p *Policy, now time.Time) (*Record, Effects, error) {
	held, verdict := s.Held, s.Record.Verdict
	if rec != nil && verdict != uuid.Nil && rec.Verdict == verdict && rec.Minted.ID == held.Minted.ID {
		return rec, Effects{}, nil
	}
	if rec == nil || rec.State != held.State || rec.Fence != held.Fence || rec.Unknowns != held.Unknowns || rec.Minted.ID != held.Minted.ID ||
		held.State == FailedRetry && !now.Before(rec.CloseUntil(p, now)) {
		return nil, Effects{}, ErrFenced
	}
	next, fx := s.At(now)
	return next, fx, nil
}

// At is s as a store records it at now, with its effects.
func (s *Settlement) At(now time.Time) (*Record, Effects) {
	r, fx := s.Record, s.Effects
	r.LeaseUntil = now.Add(s.Pause)
	switch {
	case r.State == InFlight:
		fx.Reschedule = now.Add(s.Due)
	case r.State == FailedRetry:
		r.Refusal = changed(r.Refusal, func(r *Refusal) { r.At = now })
	default:
		r.SettledAt = now
	}
	fx.Post = changed(fx.Post, func(t *ledger.Transaction) { t.At = now })
	fx.Expiry = changed(fx.Expiry, func(m *outbox.Message) { m.CreatedAt = now })
	fx.Unpaid = changed(fx.Unpaid, func(u *Unpaid) { u.At = now })
	fx.Events = slices.Clone(fx.Events)
	for i := range fx.Events {
		fx.Events[i].CreatedAt, fx.Events[i].Due = now, now.Add(s.EventsDue)
	}
	fx.Audit = slices.Clone(fx.Audit)
	for i := range fx.Audit {
		fx.Audit[i].At = now
	}
	return &r, fx
}

// changed is a copy of v after change; nil: there is none.
func changed[T any](v *T, change func(*T)) *T {
	if v == nil {
		return nil
	}
	c := *v
	change(&c)
	return &c
}

// posted is a posting of r's settlement, without its time; nil: there is none.
func (r *Record) posted(t *ledger.Transaction) *ledger.Transaction {
	return changed(t, func(t *ledger.Transaction) { t.Region, t.ProviderRef = r.Home, printable(t.ProviderRef) })
}

// later is a row of [outbox.Expiries] of r's settlement, without its time; nil: there is none. A claim
// may have one of each kind.
func (r *Record) later(m *outbox.Message, kind outbox.Kind) *outbox.Message {
	return changed(m, func(m *outbox.Message) {
		m.ID, m.Kind, m.Region, m.Tenant, m.Key = r.Minted.ID, kind, r.Home, r.Key.Tenant, r.Key.Value
		if kind != outbox.KindExpiry {
			m.ID += "/" + string(kind)
		}
	})
}

// end makes r final with its answer.
func (r *Record) end(s State, answer *Response, ref string) {
	stored := answer.row()
	stored.ReplayFor = max(answer.ReplayFor.Truncate(time.Microsecond), 0)
	r.State, r.Response = s, &stored
	r.Refusal, r.Interim, r.ProviderRef = nil, nil, printable(ref)
}

// putOff leaves the claim in flight without a holder for a pause, after which the worker asks
// again.
func (s *Settlement) putOff(pause time.Duration) {
	s.Pause = pause.Truncate(time.Microsecond) // a back-off is any fraction
	s.Due = s.Pause
}

// move begins a generation with another provider, without a holder. The raised fence
// prevents a second Settle of the same verdict, and shows the next holder whether another
// took the claim over before. The outbox row waits for a whole lease, as the holder that
// recorded the verdict continues.
func (s *Settlement) move(o *Moved, p *Policy) {
	r := &s.Record
	r.Fence++
	r.Generation++
	r.ProviderKey = providerKey(r.Key, r.Minted.ID, r.Generation, o.Next)
	r.Unknowns, r.NotFounds, r.Interim = 0, 0, nil
	r.ProviderRef = "" // of the previous provider
	s.Pause, s.Due = -p.ClockOffset, p.Lease
}

// wait makes the claim wait for the payer, a bank or a capture.
func (s *Settlement) wait(o *Pending, p *Policy) {
	r := &s.Record
	r.Fence++ // as for an attempt that sent nothing
	r.NotFounds, r.ProviderRef = 0, printable(o.ProviderRef)
	s.putOff(max(o.AskIn, p.BackoffMin))
	if r.Interim == nil || r.Interim.State != o.State || r.Interim.By != o.By {
		r.Interim = &Interim{Response: o.Response.row(), State: o.State, By: o.By}
		s.Effects.Events = r.emitted(o.Events)
	}
}

// Emitted returns the events that a step writes which records v on held, and how long after the step
// they are due; nil if it writes none. They wait if they are the first of their lines: then who
// records v delivers them at once, without a take, and their rows are due for the case that it dies.
func Emitted(held *Record, v *Verdict, p *Policy) (events []outbox.Message, due time.Duration) {
	if len(v.Events()) == 0 {
		return nil, 0 // as for every verdict where there is no sink: the step is not worked out twice
	}
	s, err := Settle(held, v, p, 0)
	if err != nil {
		return nil, 0 // there is no such step
	}
	return s.Effects.Events, s.EventsDue
}

// firstToEmit reports whether the events of r's next verdict are the first of their lines: r is
// as its first holder got it, and the events are for a sink each.
func (r *Record) firstToEmit(events []outbox.Message) bool {
	if r.State != InFlight || r.Fence != 1 {
		return false
	}
	for i, m := range events {
		if slices.ContainsFunc(events[:i], func(o outbox.Message) bool { return o.Kind == m.Kind }) {
			return false
		}
	}
	return len(events) > 0
}

// emitted completes the events of r.
func (r *Record) emitted(events []outbox.Message) (all []outbox.Message) {
	for _, m := range events {
		m.Region, m.Tenant, m.Key, m.Operation, m.Fence = r.Home, r.Key.Tenant, r.Key.Value, r.Operation, 0
		all = append(all, m)
	}
	return all
}

// maxPrintable bounds the stored length of a provider's text, in bytes. References and
// codes in use have some 60.
const maxPrintable = 512

// printable makes a provider's text storable everywhere: valid UTF-8, without NUL, and
// bounded. Bad text must not keep an outcome from being recorded.
func printable(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > maxPrintable {
		s = strings.ToValidUTF8(s[:maxPrintable], "") // the cut may be inside a character
	}
	return s
}

// ReasonOutcomeUnknown marks a claim with an outcome that stayed unknown until MaxUnknowns. A
// charge that surfaces later is refunded.
const ReasonOutcomeUnknown = "outcome_unknown"

// LastGeneration reports whether a release of r would become its final answer,
// as MaxGenerations is reached.
func (r *Record) LastGeneration(p *Policy) bool { return r.Generation >= p.MaxGenerations }

// backoff is exponential with full jitter, and at least floor.
func (p *Policy) backoff(n uint32, floor time.Duration, jitter float64) time.Duration {
	limit := p.BackoffMax
	if shift := max(n, 1) - 1; shift < 32 && p.BackoffMin<<shift < limit && p.BackoffMin<<shift > 0 {
		limit = p.BackoffMin << shift
	}
	d := time.Duration(float64(limit) * jitter)
	return max(d, floor, p.BackoffMin/4)
}

// untilNextAttempt returns how long it takes until the next attempt of r, which has no holder: from
// then on the worker or a retry may take r over. A second (WaitMax if that is shorter) is the
// least, as an attempt takes a moment too, and BackoffMax the most.
func (p *Policy) untilNextAttempt(r *Record, now time.Time) time.Duration {
	return min(max(r.LeaseUntil.Add(p.ClockOffset).Sub(now), min(time.Second, p.WaitMax)), p.BackoffMax)
}

// untilRetry returns after which time a retry of r, which has a holder, may find another state: WaitMax, or
// when the lease lapses, if that is sooner. A holder that lives renews it before, so sooner is the lease
// of one that has died.
func (p *Policy) untilRetry(r *Record, now time.Time) time.Duration {
	return min(max(r.LeaseUntil.Add(p.ClockOffset).Sub(now), p.WaitPoll), p.WaitMax)
}

func (r *Record) entry(e Event, region, node string, at time.Time, detail string) AuditEntry {
	return AuditEntry{At: at, Event: e, Region: region, Node: node, Fence: r.Fence, Generation: r.Generation, Detail: detail}
}
