package claim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// rows is the smallest Store that keeps the contract: a map under a mutex. The
// tests run in a synctest bubble, so time.Now is the store's clock and waiting
// takes no time.
type rows struct {
	Store
	mu       sync.Mutex
	policy   Policy
	claims   map[Key]*Record
	messages map[string]outbox.Message
	// renew, when set, answers Renew instead.
	renew func(leases []Lease) error
	// settled, when set, runs before a Settle is applied.
	settling func()
	// begun, when set, runs after a Begin was applied.
	begun func()
	notes []AuditEntry
}

func newRows(p Policy) *rows {
	return &rows{policy: p, claims: map[Key]*Record{}, messages: map[string]outbox.Message{}}
}

func (s *rows) keep(next *Record, fx Effects) {
	s.claims[next.Key] = next
	if fx.Enqueue != nil {
		s.messages[fx.Enqueue.ID] = *fx.Enqueue
	}
	if m, ok := s.messages[next.Minted.ID]; ok && !fx.Reschedule.IsZero() {
		m.Due = fx.Reschedule
		s.messages[m.ID] = m
	}
	if fx.Finish {
		delete(s.messages, next.Minted.ID)
	}
}

func (s *rows) Begin(ctx context.Context, a Arrival) (Begun, error) {
	got, err := s.begin(ctx, a)
	if s.begun != nil {
		s.begun()
	}
	return got, err
}

func (s *rows) begin(_ context.Context, a Arrival) (Begun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.claims[a.Key]
	next, fx, decision, err := Begin(rec, &a, &s.policy, time.Now())
	if err != nil {
		return Begun{}, err
	}
	if next != nil {
		s.keep(next, fx)
		rec = next
	}
	if rec == nil {
		return Begun{Decision: decision}, nil
	}
	return Begun{Decision: decision, Record: *rec, Now: time.Now()}, nil
}

func (s *rows) Settle(_ context.Context, held Record, v Verdict) (Record, error) {
	if s.settling != nil {
		s.settling()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next, fx, err := Settle(s.claims[held.Key], &held, &v, &s.policy, time.Now(), 0.5)
	if err != nil {
		return Record{}, err
	}
	s.keep(next, fx)
	return *next, nil
}

func (s *rows) Renew(_ context.Context, holder string, leases []Lease) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renew != nil {
		if err := s.renew(leases); err != nil {
			return nil, err
		}
	}
	kept := make([]bool, len(leases))
	for i, l := range leases {
		if next, err := Renew(s.claims[l.Key], holder, l.Fence, &s.policy, time.Now()); err == nil {
			s.claims[l.Key], kept[i] = next, true
		}
	}
	return kept, nil
}

func (s *rows) TakeOver(_ context.Context, key Key, _, object, holder, region string) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, fx, err := TakeOver(s.claims[key], object, holder, region, &s.policy, time.Now())
	if err != nil {
		return Record{}, err
	}
	s.keep(next, fx)
	return *next, nil
}

func (s *rows) Get(_ context.Context, key Key, _ string) (Record, time.Time, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.claims[key]; rec != nil {
		return *rec, time.Now(), true, nil
	}
	return Record{}, time.Now(), false, nil
}

func (s *rows) Note(_ context.Context, _ Key, _ string, e AuditEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, e)
}

func (s *rows) row(key Key) Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.claims[key]
}

// provider is an Executor made of a function.
type provider func(ctx context.Context, a Attempt) Verdict

func (p provider) Attempt(ctx context.Context, a Attempt) Verdict { return p(ctx, a) }

func charged(a Attempt) Verdict {
	return Verdict{Outcome: OutcomeDone, Response: Response{Status: 201, Body: []byte("charged " + a.Record.Minted.ID)}}
}

// bucket is a Blobs in memory.
type bucket map[string][]byte

func (b bucket) Put(_ context.Context, body []byte) (string, error) {
	sum := sha256.Sum256(body)
	ref := hex.EncodeToString(sum[:])
	b[ref] = bytes.Clone(body)
	return ref, nil
}

func (b bucket) Get(_ context.Context, ref string) ([]byte, error) {
	if body, ok := b[ref]; ok {
		return body, nil
	}
	return nil, fmt.Errorf("no object %s", ref)
}

func serve(t *testing.T, s Store, blobs Blobs, p Policy, node string, e provider) *Service {
	t.Helper()
	return serveAt(t, "", s, blobs, p, node, e)
}

// serveAt is serve where the provider has a name.
func serveAt(t *testing.T, psp string, s Store, blobs Blobs, p Policy, node string, e provider) *Service {
	t.Helper()
	service, err := NewService(Config{
		Store: s, Executor: e, Blobs: blobs, Policy: p, Node: node, Region: "us-east1", Provider: psp,
		Code:       func(home string) (RegionCode, bool) { return 1, home == "us-east1" || home == "europe-west1" },
		Operations: Operations{"charge": "ch"},
	})
	require.NoError(t, err)
	service.Start()
	t.Cleanup(service.Stop)
	return service
}

func order(value string, amount int) *Request {
	return &Request{
		Key: Key{Tenant: "acme", Value: value}, Operation: "charge", Stamp: 1,
		Input: FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme", ContentType: "application/json", Canonical: fmt.Appendf(nil, `{"amount":%d}`, amount)},
	}
}

func TestLosersWaitForTheWinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Verdict {
			calls++
			time.Sleep(3 * time.Second)
			return charged(a)
		})
		var wg sync.WaitGroup
		bodies := make([]string, 20)
		for i := range bodies {
			wg.Go(func() {
				reply, err := s.Do(t.Context(), "us-east1", order("k", 100))
				require.NoError(t, err)
				bodies[i] = string(reply.Response.Body)
			})
		}
		wg.Wait()
		require.Equal(t, 1, calls)
		for _, b := range bodies {
			require.Equal(t, bodies[0], b)
		}
	})
}

func TestTheWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Verdict {
			time.Sleep(20 * time.Second)
			return charged(a)
		})
		first := make(chan error, 1)
		go func() {
			_, err := s.Do(t.Context(), "us-east1", order("k", 100))
			first <- err
		}()
		synctest.Wait()
		start := time.Now()
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		var inUse *InUseError
		require.ErrorAs(t, err, &inUse)
		require.Equal(t, 5*time.Second, inUse.RetryAfter)
		require.Equal(t, store.policy.WaitMax, time.Since(start))
		_, err = s.Do(t.Context(), "us-east1", order("k", 200))
		require.ErrorIs(t, err, ErrMismatch)
		require.NoError(t, <-first)
	})
}

func TestALongCallKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		slow := func(_ context.Context, a Attempt) Verdict {
			calls++
			time.Sleep(100 * time.Second)
			return charged(a)
		}
		s := serve(t, store, bucket{}, store.policy, "n1", slow)
		done := make(chan error, 1)
		go func() {
			_, err := s.Do(t.Context(), "us-east1", order("k", 100))
			done <- err
		}()
		time.Sleep(90 * time.Second) // three leases
		rival := serve(t, store, bucket{}, store.policy, "n2", slow)
		_, err := rival.Do(t.Context(), "us-east1", order("k", 100))
		var inUse *InUseError
		require.ErrorAs(t, err, &inUse)
		require.NoError(t, <-done)
		require.Equal(t, 1, calls)
		require.EqualValues(t, 1, store.row(order("k", 100).Key).Fence)
	})
}

// A holder that cannot renew must stop before the store lets anybody else in.
func TestTrustEndsBeforeTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		store.renew = func([]Lease) error { return ErrUnavailable }
		start := time.Now()
		var ended time.Duration
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, a Attempt) Verdict {
			<-ctx.Done()
			ended = time.Since(start)
			return Verdict{Reason: "cancelled"}
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, store.policy.Lease-store.policy.LeaseMargin, ended)
		require.Equal(t, InFlight, store.row(order("k", 100).Key).State)
	})
}

// What is held for a home that cannot be reached must not cost the others theirs.
func TestHomesAreRenewedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		store.renew = func(leases []Lease) error {
			for _, l := range leases {
				if l.Home != "us-east1" {
					return ErrUnavailable
				}
			}
			return nil
		}
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, a Attempt) Verdict {
			select {
			case <-ctx.Done():
				return Verdict{Reason: "cut"}
			case <-time.After(2 * store.policy.Lease):
				return charged(a)
			}
		})
		var unknown *UnknownError
		var both sync.WaitGroup
		both.Go(func() {
			_, err := s.Do(t.Context(), "us-east1", order("near", 1))
			require.NoError(t, err)
		})
		both.Go(func() {
			_, err := s.Do(t.Context(), "europe-west1", order("far", 1))
			require.ErrorAs(t, err, &unknown)
		})
		both.Wait()
		require.Equal(t, Completed, store.row(order("near", 1).Key).State)
	})
}

// Nobody waits for an attempt whose caller has hung up, but for its drain.
func TestDrainWaitsForWhatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		started, answer := make(chan struct{}), make(chan struct{})
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Verdict {
			close(started)
			<-answer
			return charged(a)
		})
		require.NoError(t, s.Drain(t.Context()), "nothing in hand")
		go func() { _, _ = s.Do(t.Context(), "us-east1", order("k", 1)) }()
		<-started
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.Drain(short), context.DeadlineExceeded)
		close(answer)
		require.NoError(t, s.Drain(t.Context()))
		require.Equal(t, Completed, store.row(order("k", 1).Key).State)
	})
}

// The ceiling ends even a holder whose renewals succeed.
func TestTheCeilingEndsAStuckHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		start := time.Now()
		var ended time.Duration
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, a Attempt) Verdict {
			<-ctx.Done()
			ended = time.Since(start)
			return Verdict{}
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.Error(t, err)
		require.LessOrEqual(t, ended, store.policy.LeaseCeiling-store.policy.LeaseMargin)
		require.Greater(t, ended, store.policy.LeaseCeiling/2)
	})
}

// A holder that comes back late finds its fence overtaken: its result is
// dropped, and the caller is never shown it.
func TestAFencedHolderAbandonsItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		stuck := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Verdict {
			v := charged(a)
			v.Response.Body = []byte("late")
			return v
		})
		other := serve(t, store, bucket{}, store.policy, "n2", func(_ context.Context, a Attempt) Verdict {
			require.True(t, a.Recovery)
			return charged(a)
		})
		var winner Reply
		// The first holder stalls between the provider's answer and its Settle, its
		// heartbeat with it, longer than its lease, and another node takes over meanwhile.
		store.renew = func([]Lease) error { return ErrUnavailable }
		store.settling = func() {
			store.settling = nil
			time.Sleep(store.policy.Lease + time.Second)
			var err error
			winner, err = other.Do(t.Context(), "us-east1", order("k", 100))
			require.NoError(t, err)
		}
		_, err := stuck.Do(t.Context(), "us-east1", order("k", 100))
		var inUse *InUseError
		require.ErrorAs(t, err, &inUse)
		again, err := stuck.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.True(t, again.Replayed)
		require.Equal(t, winner.Response, again.Response)
		require.NotEqual(t, "late", string(again.Response.Body))
	})
}

func TestUnknownIsAskedAgainUnderTheSameProviderKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		var keys []string
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Verdict {
			keys = append(keys, a.Record.ProviderKey)
			if len(keys) < 3 {
				return Verdict{Reason: "timeout"}
			}
			return charged(a)
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown)
		for len(keys) < 3 {
			rec := store.row(order("k", 100).Key)
			require.Equal(t, InFlight, rec.State)
			message := store.messages[rec.Minted.ID]
			require.Equal(t, rec.LeaseUntil, message.Due, "a deferred claim and its outbox row fall due together")
			require.Equal(t, outbox.Later(max(time.Until(message.Due), store.policy.WaitPoll)), s.Recover(t.Context(), message), "not before it is due")
			time.Sleep(time.Until(message.Due))
			require.Equal(t, outbox.Gone(), s.Recover(t.Context(), message))
		}
		require.Equal(t, keys[0], keys[1])
		require.Equal(t, keys[0], keys[2])
		require.Empty(t, store.messages)
		reply, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.True(t, reply.Replayed)
	})
}

// What one provider may have done, another one cannot know: it is neither asked nor
// called, however long the first one is not there.
func TestAClaimStaysWithItsProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		var first, second int
		a := serveAt(t, "a", store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Verdict {
			if first++; first == 1 {
				return Verdict{Reason: "timeout"}
			}
			return charged(a)
		})
		b := serveAt(t, "b", store, bucket{}, store.policy, "n2", func(_ context.Context, a Attempt) Verdict {
			second++
			return charged(a)
		})
		_, err := a.Do(t.Context(), "us-east1", order("k", 100))
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown)
		rec := store.row(order("k", 100).Key)
		for range 2 * int(store.policy.MaxUnknowns) {
			message := store.messages[rec.Minted.ID]
			time.Sleep(time.Until(message.Due))
			require.Equal(t, outbox.Gone(), b.Recover(t.Context(), message))
			require.Equal(t, outbox.Later(max(time.Until(store.messages[rec.Minted.ID].Due), store.policy.WaitPoll)), b.Learn(t.Context(), store.messages[rec.Minted.ID], "p1"))
		}
		require.Equal(t, InFlight, store.row(rec.Key).State, "nothing is used up meanwhile")
		time.Sleep(time.Until(store.messages[rec.Minted.ID].Due))
		require.Equal(t, outbox.Gone(), a.Recover(t.Context(), store.messages[rec.Minted.ID]))
		require.Equal(t, Completed, store.row(rec.Key).State)
		require.Equal(t, []int{2, 0}, []int{first, second})

		// A new request is the new provider's from the start.
		_, err = b.Do(t.Context(), "us-east1", order("k2", 100))
		require.NoError(t, err)
		require.Equal(t, 1, second)
	})
}

// A row of the key's former life, whose worker slept through it, must not put its
// own request into the new life.
func TestARowOfAFormerLifeIsNotWorkedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		var paid []string
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Verdict {
			paid = append(paid, string(a.Payload))
			if len(paid) == 1 {
				return Verdict{Reason: "timeout"}
			}
			return charged(a)
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 999))
		require.Error(t, err)
		rec := store.row(order("k", 999).Key)
		stale := store.messages[rec.Minted.ID]
		stale.ID, stale.Payload = "ch_former", []byte(`{"amount":100}`)
		time.Sleep(time.Until(stale.Due))
		require.Equal(t, outbox.Done(), s.Recover(t.Context(), stale))
		require.Len(t, paid, 1, "the provider was not called")
		require.Equal(t, rec, store.row(rec.Key), "the new life's claim was not taken over")
		require.Equal(t, outbox.Gone(), s.Recover(t.Context(), store.messages[rec.Minted.ID]))
		require.Equal(t, []string{`{"amount":999}`, `{"amount":999}`}, paid)
	})
}

// A charge that was made and could not be recorded is unknown to its caller, not
// undone.
func TestAnUnrecordedOutcomeIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		s := serve(t, brokenSettle{store}, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Verdict { return charged(a) })
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown)
		require.NotErrorIs(t, err, ErrUnavailable)
	})
}

// brokenSettle is a store that is gone when an attempt ends.
type brokenSettle struct{ *rows }

func (brokenSettle) Settle(context.Context, Record, Verdict) (Record, error) {
	return Record{}, ErrUnavailable
}

// faultySettle answers Settle with err until then, before the row hears of it or
// after; nil for as long as the row says.
type faultySettle struct {
	*rows
	err   error
	until time.Time
	after bool
	tries atomic.Int64
}

func (s *faultySettle) Settle(ctx context.Context, held Record, v Verdict) (Record, error) {
	s.tries.Add(1)
	if faulty := time.Now().Before(s.until); faulty && !s.after {
		return Record{}, s.err
	} else if rec, err := s.rows.Settle(ctx, held, v); err != nil || !faulty {
		return rec, err
	}
	return Record{}, s.err
}

// What is known is never thrown away: while the store gives no answer the verdict
// is said again, and its lease renewed, for as long as trust lasts.
func TestAVerdictIsSaidUntilItIsRecorded(t *testing.T) {
	lease := DefaultPolicy().Lease
	for name, c := range map[string]struct {
		err       error
		after     bool
		away      time.Duration
		renewable bool
		want      time.Duration // until the answer; 0: at once
		recorded  bool
		tries     int
	}{
		"the store is away for two leases":        {err: ErrUnavailable, away: 2 * lease, renewable: true, want: 2 * lease, recorded: true},
		"the home is out of reach for a while":    {err: ErrHomeUnreachable, away: lease / 2, want: lease / 2, recorded: true},
		"for longer than trust lasts":             {err: ErrUnavailable, away: time.Hour, want: lease - DefaultPolicy().LeaseMargin},
		"for longer than a holder may hold":       {err: ErrUnavailable, away: time.Hour, renewable: true, want: DefaultPolicy().LeaseCeiling - DefaultPolicy().LeaseMargin},
		"it was recorded, and the reply lost":     {err: ErrUnavailable, after: true, away: time.Nanosecond, recorded: true, tries: 2},
		"so, and a renewal finds it settled":      {err: ErrUnavailable, after: true, away: DefaultPolicy().RenewEvery - time.Millisecond, renewable: true, want: DefaultPolicy().RenewEvery - time.Millisecond, recorded: true},
		"fenced off: not again":                   {err: ErrFenced, away: time.Hour, tries: 1},
		"what is booked already is so: not again": {err: ledger.ErrConflict, away: time.Hour, tries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := DefaultPolicy()
				p.InlineBody = 4 // the body goes to the object store, once
				store := &faultySettle{rows: newRows(p), err: c.err, until: time.Now().Add(c.away), after: c.after}
				if !c.renewable {
					store.renew = func([]Lease) error { return ErrUnavailable }
				}
				calls, began := 0, time.Now()
				s := serve(t, store, bucket{}, p, "n1", func(_ context.Context, a Attempt) Verdict {
					calls++
					return charged(a)
				})
				reply, err := s.Do(t.Context(), "us-east1", order("k", 100))
				took := time.Since(began)
				require.Equal(t, 1, calls)
				require.GreaterOrEqual(t, took, c.want)
				require.LessOrEqual(t, took, c.want+2*settlePauseMax)
				if c.tries != 0 {
					require.EqualValues(t, c.tries, store.tries.Load())
				}
				require.EqualValues(t, 1, store.row(order("k", 100).Key).Fence)
				if !c.recorded {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				require.False(t, reply.Replayed)
				require.Equal(t, "charged "+store.row(order("k", 100).Key).Minted.ID, string(reply.Response.Body))
				require.Less(t, store.tries.Load(), int64(100), "with back-off")
				again, err := s.Do(t.Context(), "us-east1", order("k", 100))
				require.NoError(t, err)
				require.Equal(t, reply.Response, again.Response)
			})
		})
	}
}

func TestASoftDeclineReleasesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		var keys []string
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Verdict {
			keys = append(keys, a.Record.ProviderKey)
			if len(keys) == 1 {
				return Verdict{Outcome: OutcomeReleased, Reason: "insufficient_funds", Response: Response{Status: 402}}
			}
			return charged(a)
		})
		first, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, 402, first.Response.Status)
		_, err = s.Do(t.Context(), "us-east1", order("k", 200))
		require.ErrorIs(t, err, ErrMismatch, "released, but still this request's")
		require.Equal(t, "us-east1", first.Home)
		require.True(t, first.ExpiresAt.Equal(time.Now().Add(store.policy.ReplayFor)))
		time.Sleep(store.policy.DeclinePause + time.Microsecond)
		second, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, 201, second.Response.Status)
		require.NotEqual(t, keys[0], keys[1], "the old provider key would only repeat the decline")
	})
}

// Requests that are under way together share one decline: one call is made, under
// one provider key, and none of them tries again by itself.
func TestTwinsShareOneDecline(t *testing.T) {
	for name, declines := range map[string]int{"always": 1000, "once": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRows(DefaultPolicy())
				var mu sync.Mutex
				calls := 0
				s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Verdict {
					time.Sleep(time.Second) // the provider's
					mu.Lock()
					defer mu.Unlock()
					if calls++; calls <= declines {
						return Verdict{Outcome: OutcomeReleased, Reason: "insufficient_funds", Response: Response{Status: 402, Body: []byte("no funds")}}
					}
					return charged(a)
				})
				const twins = 24
				replies := make(chan Reply, twins)
				for i := range twins {
					req := order("k", 100)
					req.Began = time.Now()
					go func() {
						if i >= twins/2 {
							time.Sleep(3 * time.Second) // held up on its way, past the decline
						}
						reply, err := s.Do(t.Context(), "us-east1", req)
						if err != nil {
							reply.Response.Body = []byte(err.Error())
						}
						replies <- reply
					}()
				}
				made := 0
				for range twins {
					reply := <-replies
					require.Equal(t, 402, reply.Response.Status, "%s", reply.Response.Body)
					require.Equal(t, "no funds", string(reply.Response.Body))
					if !reply.Replayed {
						made++
					}
				}
				require.Equal(t, 1, made)
				require.Equal(t, 1, calls)
				require.EqualValues(t, 1, store.row(order("k", 100).Key).Generation)

				// A request that began after the decline may try again.
				_, err := s.Do(t.Context(), "us-east1", order("k", 100))
				require.NoError(t, err)
				require.Equal(t, 2, calls)
			})
		})
	}
}

// A process that is suspended between winning the claim and calling the provider
// sent nothing: the attempt uses nothing up, however few may stay unknown.
func TestAnAttemptThatNeverBeganCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := DefaultPolicy()
		p.MaxUnknowns = 1
		store, calls := newRows(p), 0
		s := serve(t, store, bucket{}, p, "n1", func(_ context.Context, a Attempt) Verdict {
			calls++
			return charged(a)
		})
		store.begun = func() { time.Sleep(p.Lease) }
		reply, err := s.Do(t.Context(), "us-east1", order("k", 100))
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, "us-east1", reply.Home)
		require.False(t, reply.ExpiresAt.Before(time.Now()))
		require.Zero(t, calls)
		rec := store.row(order("k", 100).Key)
		require.Equal(t, InFlight, rec.State)
		require.Zero(t, rec.Unknowns)
		require.Nil(t, rec.Response)

		store.begun = nil
		time.Sleep(p.BackoffMax)
		reply, err = s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, 201, reply.Response.Status)
		require.Equal(t, 1, calls)
	})
}

// Attempts in which our own code failed are no reason to give up: the first time-out
// after the code is mended is not the last attempt.
func TestFaultsUseNothingUp(t *testing.T) {
	p := DefaultPolicy()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rec := &Record{State: InFlight, Fence: 1, Minted: Minted{ID: "tr_1"}, Generation: 1, FirstUse: now, NotFounds: 2}
	for range p.MaxUnknowns {
		next, _, err := Settle(rec, rec, &Verdict{Reason: reasonFault, Fault: true}, &p, now, 0)
		require.NoError(t, err)
		require.Equal(t, rec.Fence+1, next.Fence, "or it could be recorded twice")
		rec = next
	}
	require.Zero(t, rec.NotFounds, "it may have called since the provider was asked")
	next, _, err := Settle(rec, rec, &Verdict{Reason: "no_answer", Response: Response{Status: 503}}, &p, now, 0)
	require.NoError(t, err)
	require.Equal(t, InFlight, next.State)
}

// A machine that was suspended had its requests under way all the time.
func TestUnderWayCountsTheMachinesSleep(t *testing.T) {
	req := Request{Began: time.Now().Add(-time.Minute).Round(0)} // as the wall clock tells after a sleep
	require.GreaterOrEqual(t, req.UnderWay(), time.Minute)
	require.Zero(t, new(Request).UnderWay())
}

// Whoever pauses for as long as callers are told may try again.
func TestCallersAreToldLongEnough(t *testing.T) {
	p := DefaultPolicy()
	p.ClockOffset = 500 * time.Millisecond
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.False(t, at.Add(p.TryAgainAfter()).Before((&Refusal{At: at}).SharedUntil(&p)))
}

// Whatever becomes of a request whose claim was read, the caller learns the key's
// home and until when its answer is kept.
func TestRefusalsSayWhereAndHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, a Attempt) Verdict {
			if string(a.Payload) == `{"amount":500}` {
				return Verdict{}
			}
			time.Sleep(10 * time.Second)
			return charged(a)
		})
		check := func(amount int, want any) {
			t.Helper()
			reply, err := s.Do(t.Context(), "us-east1", order(fmt.Sprint("k", amount/1000), amount))
			require.ErrorAs(t, err, want)
			require.Equal(t, "us-east1", reply.Home)
			require.False(t, reply.FirstUse.IsZero())
			require.NotZero(t, reply.ExpiresAt)
		}
		check(500, new(*UnknownError))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := s.Do(t.Context(), "us-east1", order("k1", 1000))
			require.NoError(t, err)
		}()
		synctest.Wait()
		check(1000, new(*InUseError))
		<-done
		reply, err := s.Do(t.Context(), "us-east1", order("k1", 1001))
		require.ErrorIs(t, err, ErrMismatch)
		require.Equal(t, "us-east1", reply.Home)
		require.True(t, reply.ExpiresAt.After(time.Now()))
		time.Sleep(store.policy.ReplayFor)
		check(1000, new(*ExpiredError))
	})
}

func TestLargeBodiesGoToTheObjectStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := DefaultPolicy()
		p.InlineBody = 16
		store, blobs := newRows(p), bucket{}
		large := bytes.Repeat([]byte("x"), 17)
		s := serve(t, store, blobs, p, "n1", func(_ context.Context, a Attempt) Verdict {
			return Verdict{Outcome: OutcomeDone, Response: Response{Status: 201, Body: large}}
		})
		first, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, large, first.Response.Body)
		rec := store.row(order("k", 100).Key)
		require.Empty(t, rec.Response.Body)
		require.Len(t, blobs, 1)
		again, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, first.Response, again.Response)
		clear(blobs)
		_, err = s.Do(t.Context(), "us-east1", order("k", 100))
		require.ErrorIs(t, err, ErrUnavailable, "a body that is missing is not an empty body")
	})
}

// The caller's hanging up ends its wait, never the work.
func TestHangingUpDoesNotStopTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, a Attempt) Verdict {
			time.Sleep(2 * time.Second)
			require.NoError(t, ctx.Err())
			return charged(a)
		})
		ctx, hangUp := context.WithTimeout(t.Context(), time.Second)
		defer hangUp()
		_, err := s.Do(ctx, "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, Completed, store.row(order("k", 100).Key).State)

		waiting, cancel := context.WithCancel(t.Context())
		go func() { _, _ = s.Do(t.Context(), "us-east1", order("k2", 1)) }()
		synctest.Wait()
		cancel()
		_, err = s.Do(waiting, "us-east1", order("k2", 1))
		var inUse *InUseError
		require.ErrorAs(t, err, &inUse)
		time.Sleep(3 * time.Second)
	})
}

// What was not paid in time is closed once, whoever asks how often, and only where
// nobody is trying again.
func TestExpire(t *testing.T) {
	const grace = 10 * time.Minute
	message := func(rec Record) outbox.Message {
		return outbox.Message{ID: rec.Minted.ID, Region: rec.Home, Kind: outbox.KindExpiry, Tenant: rec.Key.Tenant, Key: rec.Key.Value, Payload: []byte(`{"amount":100}`)}
	}
	type world struct {
		*testing.T
		store    *rows
		service  *Service
		calls    int // of the provider
		closings int
		verdict  Verdict // of a closing
	}
	key := order("k", 100).Key
	for name, run := range map[string]func(w *world, m outbox.Message){
		"closed": func(w *world, m outbox.Message) {
			require.Equal(w, outbox.Done(), w.service.Expire(w.Context(), m))
			rec := w.store.row(key)
			require.Equal(w, FailedTerminal, rec.State)
			require.Equal(w, "expired", rec.Reason)
			require.Equal(w, outbox.Done(), w.service.Expire(w.Context(), m), "again, by a worker that did not hear")
			require.Equal(w, rec, w.store.row(key))
			require.Equal(w, []int{1, 1}, []int{w.calls, w.closings}, "nobody was called")
			reply, err := w.service.Do(w.Context(), "us-east1", order("k", 100))
			require.NoError(w, err)
			require.True(w, reply.Replayed)
			require.Equal(w, "too late", string(reply.Response.Body))
		},
		"not while it is in flight": func(w *world, m outbox.Message) {
			w.store.claims[key].State = InFlight
			require.Equal(w, outbox.Later(w.store.policy.Lease), w.service.Expire(w.Context(), m))
			require.Zero(w, w.closings)
		},
		"tried again in between": func(w *world, m outbox.Message) {
			w.store.settling = func() { w.store.claims[key].Fence++ }
			require.Equal(w, outbox.Later(w.store.policy.WaitPoll), w.service.Expire(w.Context(), m))
			require.Equal(w, FailedRetry, w.store.row(key).State)
		},
		"the key is free again": func(w *world, m outbox.Message) {
			before := w.store.row(key)
			time.Sleep(w.store.policy.PinLife())
			require.Equal(w, outbox.Done(), w.service.Expire(w.Context(), m))
			require.Equal(w, before, w.store.row(key))
		},
		"another life of the key": func(w *world, m outbox.Message) {
			m.ID = "ch_of_an_earlier_life"
			require.Equal(w, outbox.Done(), w.service.Expire(w.Context(), m))
			require.Zero(w, w.closings)
		},
		"no row": func(w *world, m outbox.Message) {
			delete(w.store.claims, key)
			require.Equal(w, outbox.Done(), w.service.Expire(w.Context(), m))
		},
		"an executor that does not refuse": func(w *world, m outbox.Message) {
			w.verdict = Verdict{Outcome: OutcomeDone}
			require.Equal(w, outbox.Failed("closing gave done"), w.service.Expire(w.Context(), m))
			require.Equal(w, FailedRetry, w.store.row(key).State)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{T: t, store: newRows(DefaultPolicy()), verdict: Verdict{
					Outcome: OutcomeRefused, Reason: "expired", Response: Response{Status: 402, Body: []byte("too late")},
				}}
				w.service = serve(t, w.store, bucket{}, w.store.policy, "n1", func(_ context.Context, a Attempt) Verdict {
					if a.Closing {
						w.closings++
						return w.verdict
					}
					w.calls++
					return Verdict{Outcome: OutcomeReleased, Response: Response{Status: 402}}
				})
				_, err := w.service.Do(t.Context(), "us-east1", order("k", 100))
				require.NoError(t, err)
				time.Sleep(grace)
				run(w, message(w.store.row(key)))
			})
		})
	}
}

func TestStartAndStopMayRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		s := serve(t, store, bucket{}, store.policy, "n1", nil)
		for range 3 {
			s.Start()
			s.Stop()
			s.Stop()
		}
	})
}

// A holder that sleeps until its row is deleted and the key used anew meets the
// same fence again, but not the same claim.
func TestAVeryOldHolderIsFencedToo(t *testing.T) {
	p := DefaultPolicy()
	now := time.Now()
	begin := func(id string) *Record {
		req := order("k", 100)
		fingerprint, err := req.Input.Fingerprint(CurrentFingerprint)
		require.NoError(t, err)
		rec, _, decision, err := Begin(nil, &Arrival{Key: req.Key, Stamped: true, Print: fingerprint, Mint: Minted{ID: id}}, &p, now)
		require.NoError(t, err)
		require.Equal(t, Won, decision)
		return rec
	}
	old, fresh := begin("ch_old"), begin("ch_new")
	require.Equal(t, old.Fence, fresh.Fence)
	paid := &Verdict{Outcome: OutcomeDone, Response: Response{Status: 201}}
	_, _, err := Settle(fresh, old, paid, &p, now, 0)
	require.ErrorIs(t, err, ErrFenced)
	_, _, err = Settle(fresh, fresh, paid, &p, now, 0)
	require.NoError(t, err)
}

func TestServiceRefusesAnIncompleteConfiguration(t *testing.T) {
	_, err := NewService(Config{Policy: DefaultPolicy()})
	require.ErrorContains(t, err, "needs Store")
	bad := DefaultPolicy()
	bad.Lease, bad.LeaseMargin = 0, 0
	_, err = NewService(Config{Policy: bad})
	require.ErrorContains(t, err, "lease must be above 0")
	require.ErrorContains(t, err, "lease_margin")
	require.NotErrorIs(t, err, ErrUnavailable)
}
