package claim

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// offsetPolicy is that of a store with many clocks.
func offsetPolicy() *Policy {
	p := DefaultPolicy()
	p.ClockOffset = 500 * time.Millisecond
	return &p
}

// arrivalOf is a stamped request with the fingerprint of body.
func arrivalOf(t *testing.T, body string) *Arrival {
	t.Helper()
	in := FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme", Canonical: []byte(body)}
	fingerprint, err := in.Fingerprint(CurrentFingerprint)
	require.NoError(t, err)
	return &Arrival{
		Content: Content{Key: Key{Tenant: "acme", Value: "k"}, Operation: "charge", Input: in, Print: fingerprint, Mint: Minted{ID: "ch_1"}},
		Route:   Route{Home: "us-east1", Stamped: true},
		Holder:  Holder{Node: "n1", Region: "us-east1"},
	}
}

func begun(t *testing.T, rec *Record, a *Arrival, p *Policy, now time.Time, want Decision) *Record {
	t.Helper()
	next, _, decision, err := Begin(rec, a, 0, p, now)
	require.NoError(t, err)
	require.Equal(t, want.String(), decision.String())
	return next
}

func settled(t *testing.T, rec *Record, v Verdict, p *Policy, now time.Time) *Record {
	t.Helper()
	if response, _ := v.outcome().answer(); response != nil {
		response.Status = 402
	}
	next, _ := settledWith(t, rec, &v, p, now)
	return next
}

// settledWith is settled, with the effects.
func settledWith(t *testing.T, rec *Record, v *Verdict, p *Policy, now time.Time) (*Record, Effects) {
	t.Helper()
	s, err := Settle(rec, v, p, 0)
	require.NoError(t, err)
	next, fx, err := s.On(rec, p, now)
	require.NoError(t, err)
	return next, fx
}

// The claim that is created under a pin at the last moment is over, by the slowest clock,
// when another region may take the pin, by the fastest.
func TestAPinOutlivesTheClaimUnderIt(t *testing.T) {
	p := offsetPolicy()
	a := arrivalOf(t, "100")
	a.Stamped, a.PinnedAt = false, newYear
	last := newYear.Add(p.CreateWithin()).Add(-1)
	begun(t, nil, a, p, last.Add(1), NeedPin)
	rec := begun(t, nil, a, p, last, Won)
	rec = settled(t, rec, Verdict{Outcome: &Done{}}, p, last)
	pin, change := PinFor(&Pin{Key: a.Key, Home: "us-east1", CreatedAt: newYear}, a.Key, "europe-west1", false, p, rec.FreeAt(p, last).Add(p.ClockOffset).Add(-1))
	require.Equal(t, PinConfirmed, change)
	require.Equal(t, "us-east1", pin.Home)
}

// A request that gets a pin has at least half of CreateWithin to create its claim.
func TestAPinIsConfirmedInTime(t *testing.T) {
	p := offsetPolicy()
	a := arrivalOf(t, "100")
	old := Pin{Key: a.Key, Home: "us-east1", CreatedAt: newYear}
	half := newYear.Add(p.CreateWithin() / 2)
	_, change := PinFor(&old, a.Key, "europe-west1", false, p, half.Add(-1))
	require.Equal(t, PinUnchanged, change)
	_, change = PinFor(&old, a.Key, "europe-west1", false, p, half)
	require.Equal(t, PinConfirmed, change)
}

// A request began between UnderWay and UnderWay with sinceSent before the clock that
// decides. While nothing is in flight the doubt counts for the refusal, while an attempt is,
// against it.
func TestWhoSharesARefusal(t *testing.T) {
	p := offsetPolicy()
	first := begun(t, nil, arrivalOf(t, "100"), p, newYear, Won)
	released := settled(t, first, Verdict{Outcome: &Released{Pause: 3 * time.Second}}, p, newYear)
	until := released.Refusal.SharedUntil(p)
	require.Equal(t, newYear.Add(3*time.Second+p.ClockOffset), until)
	again := begun(t, released, arrivalOf(t, "100"), p, until.Add(1), Won)
	for name, c := range map[string]struct {
		rec                 *Record
		after               time.Duration // the release
		underWay, sinceSent time.Duration
		want                Decision
	}{
		"began in the pause, at its end":         {released, until.Sub(newYear), 0, 0, Shared},
		"began after the pause":                  {released, until.Sub(newYear) + 1, 0, 0, Won},
		"began before, and was long on its way":  {released, time.Minute, time.Minute - until.Sub(newYear), 0, Shared},
		"began after, by a moment":               {released, time.Minute, time.Minute - until.Sub(newYear) - 1, 0, Won},
		"began perhaps in the pause":             {released, until.Sub(newYear) + time.Second, 0, time.Second, Shared},
		"began surely after it":                  {released, until.Sub(newYear) + time.Second, 0, time.Second - 1, Won},
		"another is under way, began before":     {again, 5 * time.Second, 5 * time.Second, 0, Shared},
		"another is under way, began after":      {again, 5 * time.Second, 5*time.Second - 1, 0, Busy},
		"another is under way, began perhaps so": {again, 5 * time.Second, 4 * time.Second, 2 * time.Second, Busy},
		"another is under way, in the pause":     {again, 5 * time.Second, 4 * time.Second, 0, Busy},
	} {
		t.Run(name, func(t *testing.T) {
			a := arrivalOf(t, "100")
			a.UnderWay = c.underWay
			_, _, decision, err := Begin(c.rec, a, c.sinceSent, p, newYear.Add(c.after))
			require.NoError(t, err)
			require.Equal(t, c.want.String(), decision.String())
		})
	}
}

// A fingerprint is compared under the version of the row: what another build wrote is
// neither a match nor a mismatch.
func TestAnUnknownFingerprintVersionIsNoMismatch(t *testing.T) {
	p, a := offsetPolicy(), arrivalOf(t, "100")
	rec := begun(t, nil, a, p, newYear, Won)
	for _, sum := range [][sha256.Size]byte{a.Print.Sum, {1}} {
		later := *rec
		later.Fingerprint = Fingerprint{Version: CurrentFingerprint + 1, Sum: sum}
		_, _, _, err := Begin(&later, a, 0, p, newYear)
		require.ErrorIs(t, err, ErrFingerprintVersion)
		lost := &Witness{Home: a.Home, Object: "ch_1", FirstUse: newYear, Fingerprint: later.Fingerprint, Generation: 1}
		_, _, _, err = Reattach(nil, a, lost, 0, p, newYear)
		require.ErrorIs(t, err, ErrFingerprintVersion)
	}
}

// Another spelling of the request reads its claim, and begins or continues nothing: the
// provider has received the first one under this key. The next generation is of the second.
func TestAnotherSpelling(t *testing.T) {
	p, a, other := offsetPolicy(), arrivalOf(t, "100"), arrivalOf(t, "100.0")
	rec := begun(t, nil, a, p, newYear, Won)
	lapsed := rec.LeaseUntil.Add(p.ClockOffset)
	begun(t, rec, other, p, lapsed, Mismatch)
	other.Also = arrivalOf(t, "101").Print
	begun(t, rec, other, p, lapsed, Mismatch)
	other.Also = a.Print
	begun(t, rec, other, p, lapsed, Busy)
	begun(t, rec, a, p, lapsed, WonUnknown)

	waits := settled(t, rec, Verdict{Outcome: &Pending{State: "processing"}}, p, newYear)
	begun(t, waits, other, p, lapsed, Waiting)
	begun(t, waits, a, p, lapsed, WonUnknown)
	begun(t, waits, a, p, newYear, Waiting)

	released := settled(t, rec, Verdict{Outcome: &Released{}}, p, newYear)
	next := begun(t, released, other, p, lapsed, Won)
	require.Equal(t, other.Print, next.Fingerprint)
	paid := settled(t, rec, Verdict{Outcome: &Done{}}, p, newYear)
	begun(t, paid, other, p, lapsed, Replay)
}

// A provider's id of a movement is of use to that provider alone.
func TestAProvidersReferenceStaysWithIt(t *testing.T) {
	p, a := offsetPolicy(), arrivalOf(t, "100")
	a.Provider = "one"
	rec := begun(t, nil, a, p, newYear, Won)
	released := settled(t, rec, Verdict{Outcome: &Released{ProviderRef: "px_1"}}, p, newYear)
	later := newYear.Add(time.Hour)
	require.Equal(t, "px_1", begun(t, released, a, p, later, Won).ProviderRef, "the next generation may resume it")
	a.Provider = "two"
	require.Empty(t, begun(t, released, a, p, later, Won).ProviderRef)

	waits := settled(t, rec, Verdict{Outcome: &Pending{State: "processing", ProviderRef: "px_1"}}, p, newYear)
	require.Equal(t, "px_1", waits.ProviderRef)
	require.Empty(t, settled(t, waits, Verdict{Outcome: &Moved{Next: "two"}}, p, newYear).ProviderRef)
}

// A generation begins with nothing of the one before it, and its provider call has a fence
// that no worker of that one can hold.
func TestAGenerationBeginsAnew(t *testing.T) {
	p, a := offsetPolicy(), arrivalOf(t, "100")
	rec := begun(t, nil, a, p, newYear, Won)
	rec = settled(t, rec, Verdict{ID: uuid.New(), Outcome: &Unknown{NotFound: true}}, p, newYear)
	require.Equal(t, []uint32{1, 1}, []uint32{rec.Unknowns, rec.NotFounds})
	taken, fx, err := TakeOver(rec, "ch_1", "n2", "us-east1", News{}, p, newYear.Add(time.Hour))
	require.NoError(t, err)
	require.Zero(t, taken.Verdict, "who settles it next has not settled it yet")
	require.Equal(t, taken.LeaseUntil, fx.Reschedule)
	v := Verdict{ID: uuid.New(), Outcome: &Released{Reason: "no"}}
	released := settled(t, taken, v, p, newYear.Add(time.Hour))
	require.Equal(t, v.ID, released.Verdict)
	next, fx, decision, err := Begin(released, a, 0, p, newYear.Add(2*time.Hour))
	require.NoError(t, err)
	require.Equal(t, Won, decision)
	require.Zero(t, next.Verdict)
	require.Equal(t, []uint32{0, 0, 2}, []uint32{next.Unknowns, next.NotFounds, next.Generation})
	require.Empty(t, next.Reason)
	require.Equal(t, uint64(1)<<32, fx.Enqueue.Fence)
	require.Equal(t, next.LeaseUntil, fx.Enqueue.Due)
}

// The times of a claim in flight: minted in whole seconds, a lease that a set back clock does
// not shorten, and one that others wait for by the slowest clock.
func TestTimesOfAHolder(t *testing.T) {
	p := offsetPolicy()
	now := newYear.Add(1500 * time.Millisecond)
	rec := begun(t, nil, arrivalOf(t, "100"), p, now, Won)
	require.Equal(t, newYear.Add(time.Second), rec.Minted.Created)
	back, err := Renew(rec, "n1", 1, p, now.Add(-time.Minute))
	require.NoError(t, err)
	require.Equal(t, rec.LeaseUntil, back.LeaseUntil)
	_, _, err = TakeOver(rec, "ch_1", "n2", "us-east1", News{}, p, now)
	var held *LeaseHeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, p.Lease+p.ClockOffset, held.For)
	_, _, err = TakeOver(rec, "ch_1", "n2", "us-east1", News{}, p, now.Add(held.For))
	require.NoError(t, err)
	// Further ahead than any lease: the clock was set back, and a take-over need not wait.
	most := rec.LeaseUntil.Add(-p.LeaseCeiling - p.ClockOffset)
	require.False(t, rec.LeaseLapsed(p, most))
	require.True(t, rec.LeaseLapsed(p, most.Add(-1)))
	early := now.Add(-time.Hour)
	_, _, err = TakeOver(rec, "ch_1", "n2", "us-east1", News{}, p, early)
	require.NoError(t, err)
	back, err = Renew(rec, "n1", 1, p, early)
	require.NoError(t, err)
	require.Equal(t, early.Add(p.Lease), back.LeaseUntil, "a holder that lives has it again")
	paused := *rec
	paused.Holder = "" // a pause may be longer than a lease
	require.False(t, paused.LeaseLapsed(p, early))
	far := now.Add(100 * p.ReplayFor)
	require.Equal(t, Live, rec.Age(p, far))
	require.Equal(t, far.Add(p.ReplayFor), rec.ExpiresAt(p, far))
	require.Equal(t, p.Lease+p.ClockOffset, p.untilNextAttempt(rec, now))

	released := settled(t, rec, Verdict{Outcome: &Released{}}, p, now)
	require.Equal(t, released.FreeAt(p, now).Add(-p.PinGrace/closePart-p.ClockOffset), released.CloseUntil(p, now))
	_, fx := settledWith(t, rec, &Verdict{Outcome: &Pending{State: "processing", AskIn: time.Minute, Response: Response{Status: 202}}}, p, now)
	require.Equal(t, now.Add(time.Minute), fx.Reschedule)
	for n := range uint32(100) {
		d := p.backoff(n, 0, 0.999)
		require.GreaterOrEqual(t, d, p.BackoffMin/4)
		require.LessOrEqual(t, d, p.BackoffMax)
	}
	pin := &Pin{CreatedAt: newYear}
	require.True(t, pin.Settled(p, newYear.Add(p.ReplayFor+p.TombstoneFor-p.ClockOffset).Add(-1)))
	require.False(t, pin.Settled(p, newYear.Add(p.ReplayFor+p.TombstoneFor-p.ClockOffset)), "by a slower clock another region may have it")
}

// What gives a claim up is an unknown that counts, and the last one allowed.
func TestWhatGivesAClaimUp(t *testing.T) {
	p := offsetPolicy()
	p.MaxUnknowns = 2
	rec := begun(t, nil, arrivalOf(t, "100"), p, newYear, Won)
	for name, c := range map[string]struct {
		before uint32
		v      Verdict
		want   State
	}{
		"not the last":                        {0, Verdict{Outcome: &Unknown{GiveUp: &GivenUp{}}}, InFlight},
		"the last":                            {1, Verdict{Outcome: &Unknown{GiveUp: &GivenUp{}}}, FailedTerminal},
		"the last, not found":                 {1, Verdict{Outcome: &Unknown{NotFound: true, GiveUp: &GivenUp{}}}, FailedTerminal},
		"one more":                            {2, Verdict{Outcome: &Unknown{GiveUp: &GivenUp{}}}, FailedTerminal},
		"an unknown without an answer":        {2, Verdict{}, InFlight},
		"an unknown that is retried for ever": {1, Verdict{Outcome: &Unknown{}}, InFlight},
		"one more, and nothing was sent":      {2, Verdict{Outcome: &Unsent{}}, InFlight},
		"one more, after a panic":             {2, Verdict{Outcome: &Fault{}}, InFlight},
	} {
		t.Run(name, func(t *testing.T) {
			at := *rec
			at.Unknowns = c.before
			require.Equal(t, c.want, settled(t, &at, c.v, p, newYear).State)
		})
	}
}

// A claim that moves to another provider begins there with nothing of the first, and is left
// alone by workers for as long as its holder may go on with it.
func TestAClaimThatMovesBeginsAnew(t *testing.T) {
	p := offsetPolicy()
	rec := begun(t, nil, arrivalOf(t, "100"), p, newYear, Won)
	rec = settled(t, rec, Verdict{Outcome: &Unknown{NotFound: true}}, p, newYear)
	rec = settled(t, rec, Verdict{Outcome: &Pending{State: "processing"}}, p, newYear)
	rec.NotFounds = 1
	v := &Verdict{Outcome: &Moved{Next: "two"}}
	moved, fx := settledWith(t, rec, v, p, newYear)
	require.Equal(t, []uint32{0, 0, 2}, []uint32{moved.Unknowns, moved.NotFounds, moved.Generation})
	require.Nil(t, moved.Interim)
	require.Equal(t, newYear.Add(p.Lease), fx.Reschedule)
	require.True(t, moved.LeaseLapsed(p, newYear))
	name, ok := moved.With([]string{"one", "two"})
	require.True(t, ok)
	require.Equal(t, "two", name)
}

// A verdict is repeated for its own claim, and a provider's text is the same wherever it is
// kept.
func TestAVerdictIsOfItsOwnClaim(t *testing.T) {
	p := offsetPolicy()
	rec := begun(t, nil, arrivalOf(t, "100"), p, newYear, Won)
	v := &Verdict{ID: uuid.New(), Outcome: &Done{
		Response: Response{Status: 201}, ProviderRef: "a\x00b", Posting: &ledger.Transaction{
			ID: "ch_1", Tenant: "acme", Kind: ledger.Charge, Debit: "a", Credit: "b", Amount: 1, Currency: "usd", Object: "ch_1", Provider: "one", ProviderRef: "a\x00b",
		},
	}}
	paid, fx := settledWith(t, rec, v, p, newYear)
	require.Equal(t, paid.ProviderRef, fx.Post.ProviderRef)
	s, err := Settle(rec, v, p, 0)
	require.NoError(t, err)
	again, fx, err := s.On(paid, p, newYear)
	require.NoError(t, err)
	require.Equal(t, paid, again)
	require.Equal(t, Effects{}, fx)
	_, fx = s.At(newYear)
	require.Equal(t, newYear, fx.Post.At)
	require.Zero(t, s.Effects.Post.At, "it can be recorded at another time")
	_, err = Settle(paid, v, p, 0)
	require.ErrorIs(t, err, ErrFenced, "it has no holder")
	other := *rec
	other.Minted.ID = "ch_2"
	s, err = Settle(&other, v, p, 0)
	require.NoError(t, err)
	_, _, err = s.On(paid, p, newYear)
	require.ErrorIs(t, err, ErrFenced)
}

// The provider key of every generation was sent, of this claim and to that provider.
func TestSentKeys(t *testing.T) {
	rec := &Record{Key: Key{Tenant: "acme", Value: "k"}, Minted: Minted{ID: "ch_1"}, Generation: 3}
	for g := uint32(1); g <= 4; g++ {
		require.Equal(t, g <= 3, rec.Sent(providerKey(rec.Key, "ch_1", g, "one"), "one"))
		require.Equal(t, g <= 3, rec.Sent(providerKey(rec.Key, "ch_1", g, ""), "one"), "as a refund's, which names none")
		require.False(t, rec.Sent(providerKey(rec.Key, "ch_1", g, "two"), "one"))
	}
	p := DefaultPolicy()
	p.MaxGenerations = 3
	require.True(t, rec.LastGeneration(&p))
	rec.Generation = 2
	require.False(t, rec.LastGeneration(&p))
}

// The events of a claim's first holder wait for six leases, as that holder delivers them itself. Those
// of a later one, or several of one line, are due at once: nobody else delivers them in order.
func TestWhoDeliversTheFirstEvents(t *testing.T) {
	p := DefaultPolicy()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first, _, decision, err := Begin(nil, &Arrival{
		Content: Content{Key: Key{Tenant: "acme", Value: "k"}, Operation: "charge", Mint: Minted{ID: "ch_1"}},
		Route:   Route{Home: "us-east1", Stamped: true}, Holder: Holder{Node: "n1"},
	}, 0, &p, now)
	require.NoError(t, err)
	require.Equal(t, Won, decision)
	lapsed := first.LeaseUntil.Add(p.ClockOffset)
	second, _, err := TakeOver(first, "ch_1", "n2", "us-east1", News{}, &p, lapsed)
	require.NoError(t, err)
	log, web := outbox.Message{ID: "e1", Kind: outbox.KindLog}, outbox.Message{ID: "e2", Kind: outbox.KindWebhook}
	for name, c := range map[string]struct {
		held   *Record
		events []outbox.Message
		due    time.Duration
	}{
		"of the first holder, to a sink each": {first, []outbox.Message{log, web}, 6 * p.Lease},
		"two of one line":                     {first, []outbox.Message{log, web, log}, 0},
		"of a later holder":                   {second, []outbox.Message{log, web}, 0},
		"none":                                {first, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := &Verdict{Outcome: &Done{Response: Response{Status: 201}, Events: c.events}}
			events, due := Emitted(c.held, v, &p)
			require.Equal(t, c.due, due)
			require.Len(t, events, len(c.events))
			s, err := Settle(c.held, v, &p, 0)
			require.NoError(t, err)
			_, fx := s.At(lapsed)
			for _, m := range fx.Events {
				require.Equal(t, lapsed.Add(c.due), m.Due)
				require.Equal(t, lapsed, m.CreatedAt)
			}
		})
	}
}

// A holder whose trust had ended before it called anything says so in the row, once. One that died, or took
// the claim over, says nothing.
func TestWhatWasNeverBegun(t *testing.T) {
	p := offsetPolicy()
	late := func(reason string) Verdict { return Verdict{ID: uuid.New(), Outcome: &Unsent{Reason: reason}} }
	taken := func(rec *Record, now time.Time) *Record {
		next, _, err := TakeOver(rec, rec.Minted.ID, "n2", "us-east1", News{}, p, now)
		require.NoError(t, err)
		return next
	}
	first := begun(t, nil, arrivalOf(t, "a"), p, newYear, Won)
	later := func(n int) time.Time { return newYear.Add(time.Duration(n) * time.Hour) }
	require.False(t, first.NeverBegun())
	require.False(t, taken(first, later(1)).NeverBegun(), "its holder died")
	said := settled(t, first, late(reasonLease), p, newYear)
	second := taken(said, later(1))
	require.True(t, second.NeverBegun())
	require.False(t, taken(second, later(2)).NeverBegun(), "the second one died, and may have called")
	require.False(t, taken(settled(t, second, late(reasonLease), p, later(1)), later(2)).NeverBegun(), "nobody counts further")
	require.False(t, taken(settled(t, first, late("no_upstream"), p, newYear), later(1)).NeverBegun(), "only the service knows that the executor was not called")
	require.False(t, taken(settled(t, first, Verdict{Outcome: &Unknown{Reason: reasonLease}}, p, newYear), later(1)).NeverBegun())

	released := settled(t, first, Verdict{Outcome: &Released{}}, p, newYear)
	again := begun(t, released, arrivalOf(t, "a"), p, later(1), Won)
	require.False(t, taken(settled(t, again, late(reasonLease), p, later(1)), later(2)).NeverBegun(), "of another generation")
}
