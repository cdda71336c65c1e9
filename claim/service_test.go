package claim

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
)

func TestLosersWaitForTheWinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
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
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
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

// Who waited for a holder that has died is told to come back when its lease lapses, and not a whole wait
// later.
func TestAWaitForTheDeadEndsWithTheirLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		store.policy.ClockOffset = 500 * time.Millisecond
		dies := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, _ Attempt) Outcome {
			<-t.Context().Done()
			return nil
		})
		store.renew = func([]Lease) error { return ErrUnavailable }
		go func() { _, _ = dies.Do(t.Context(), "us-east1", order("k", 100)) }()
		synctest.Wait()
		began := time.Now()
		time.Sleep(700 * time.Millisecond) // the database's own part of a loss
		rival := serve(t, store, bucket{}, store.policy, "n2", func(_ context.Context, a Attempt) Outcome { return charged(a) })
		for {
			_, err := rival.Do(t.Context(), "us-east1", order("k", 100))
			if err == nil {
				break
			}
			var inUse *InUseError
			require.ErrorAs(t, err, &inUse)
			time.Sleep(inUse.RetryAfter)
		}
		lapsed := store.policy.Lease + store.policy.ClockOffset
		require.GreaterOrEqual(t, time.Since(began), lapsed)
		require.Less(t, time.Since(began), lapsed+2*store.policy.WaitPoll) // which has jitter
	})
}

func TestALongCallKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		slow := func(_ context.Context, a Attempt) Outcome {
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
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, a Attempt) Outcome {
			<-ctx.Done()
			ended = time.Since(start)
			return &Unknown{Reason: "cancelled"}
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, store.policy.Lease-store.policy.LeaseMargin, ended)
		require.Equal(t, InFlight, store.row(order("k", 100).Key).State)
	})
}

// A renewal is trusted from the moment before it was sent, and no longer than the lease that it may
// have written then.
func TestARenewalIsTrustedFromBeforeItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, renewals := newRows(DefaultPolicy()), 0
		p := &store.policy
		store.renew = func([]Lease) error {
			if renewals++; renewals > 1 {
				return ErrUnavailable
			}
			time.Sleep(p.RenewEvery / 2) // its reply is late
			return nil
		}
		start := time.Now()
		var ended time.Duration
		s := serve(t, store, bucket{}, *p, "n1", func(ctx context.Context, _ Attempt) Outcome {
			<-ctx.Done()
			ended = time.Since(start)
			return &Unknown{Reason: "cancelled"}
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.Error(t, err)
		require.Equal(t, p.RenewEvery+p.Lease-p.LeaseMargin, ended)
	})
}

// A holder ends its call at once when its renewal finds that another node has the claim.
func TestAFencedHolderEndsItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		start := time.Now()
		var ended time.Duration
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, a Attempt) Outcome {
			store.mu.Lock()
			fenced := *store.claims[a.Record.Key]
			fenced.Fence, fenced.Holder = fenced.Fence+1, "n2"
			store.claims[a.Record.Key] = &fenced
			store.mu.Unlock()
			<-ctx.Done()
			require.Equal(t, errTrustLost, context.Cause(ctx))
			ended = time.Since(start)
			return &Unknown{Reason: "cancelled"}
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.ErrorAs(t, err, new(*InUseError))
		require.Equal(t, store.policy.RenewEvery, ended)
	})
}

// hung is a store that does not answer renewals.
type hung struct {
	*rows
	renewals atomic.Int64
}

func (s *hung) Renew(ctx context.Context, _ string, _ []Lease) ([]bool, error) {
	s.renewals.Add(1)
	<-ctx.Done()
	return nil, ErrUnavailable
}

// A renewal without an answer is given up before the next one is due.
func TestARenewalIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hung{rows: newRows(DefaultPolicy())}
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, _ Attempt) Outcome {
			<-ctx.Done()
			return &Unknown{Reason: "cancelled"}
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.Error(t, err)
		require.EqualValues(t, 2, store.renewals.Load(), "trust lasts for two")
	})
}

// What an attempt gets: the row, the store's clock, whether a release would be final, and a context
// that marks it as work in progress. After a move the attempt is another provider's, and gets no
// notice of the first one.
func TestWhatAnAttemptGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := DefaultPolicy()
		p.MaxGenerations = 2
		store := newRows(p)
		var seen []Attempt
		s := serveAt(t, "a,b", store, bucket{}, p, "n1", func(ctx context.Context, a Attempt) Outcome {
			require.True(t, outbox.IsBegun(ctx))
			require.Equal(t, store.row(a.Record.Key).HeldSince, a.Now)
			switch seen = append(seen, a); {
			case len(seen) == 1:
				return &Unknown{Reason: "timeout"}
			case a.Provider == "a":
				return &Moved{Next: "b"}
			}
			return charged(a)
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.Error(t, err)
		message := store.messages[store.row(order("k", 100).Key).Minted.ID]
		time.Sleep(time.Until(message.Due))
		require.Equal(t, outbox.Gone(), s.LearnHeld(t.Context(), message, Held{By: "a", Word: HeldStill}))
		require.Len(t, seen, 3)
		require.Equal(t, []bool{false, false, true}, []bool{seen[0].Last, seen[1].Last, seen[2].Last})
		require.NotNil(t, seen[1].Held)
		require.Nil(t, seen[2].Held)
		require.Equal(t, []string{"a", ""}, []string{seen[1].ReportedBy, seen[2].ReportedBy})
	})
}

// A claim that waits has one answer, however an attempt since has spelled it.
func TestAWaitingClaimKeepsItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, tries := newRows(DefaultPolicy()), 0
		s := serve(t, store, bucket{}, store.policy, "n1", func(context.Context, Attempt) Outcome {
			tries++
			return &Pending{State: "processing", Response: Response{Status: 202, Body: fmt.Append(nil, tries)}}
		})
		for range 2 {
			reply, err := s.Do(t.Context(), "us-east1", order("k", 100))
			require.NoError(t, err)
			require.Equal(t, "1", string(reply.Response.Body))
			time.Sleep(store.policy.BackoffMax)
		}
		require.Equal(t, 2, tries)
	})
}

// Claims of a home that cannot be reached must not cost the claims of other homes their leases.
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
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, a Attempt) Outcome {
			select {
			case <-ctx.Done():
				return &Unknown{Reason: "cut"}
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

// Only a drain waits for an attempt of a disconnected caller.
func TestDrainWaitsForAttemptsOfDisconnectedCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		started, answer := make(chan struct{}), make(chan struct{})
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
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

// The ceiling ends even a holder with successful renewals.
func TestTheCeilingEndsAStuckHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		start := time.Now()
		var ended time.Duration
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, a Attempt) Outcome {
			<-ctx.Done()
			ended = time.Since(start)
			return &Unknown{}
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
		stuck := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
			v := charged(a)
			v.Response.Body = []byte("late")
			return v
		})
		other := serve(t, store, bucket{}, store.policy, "n2", func(_ context.Context, a Attempt) Outcome {
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

// A machine that was suspended had its requests under way all the time.
func TestUnderWayCountsTheMachinesSleep(t *testing.T) {
	req := Request{Began: time.Now().Add(-time.Minute).Round(0)} // as the wall clock shows after a suspend
	require.GreaterOrEqual(t, req.UnderWay(), time.Minute)
	require.Zero(t, new(Request).UnderWay())
}

// A caller that pauses for Retry-After may try again.
func TestRetryAfterOutlastsSharedRefusals(t *testing.T) {
	p := DefaultPolicy()
	p.ClockOffset = 500 * time.Millisecond
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.False(t, at.Add(p.TryAgainAfter()).Before((&Refusal{At: at}).SharedUntil(&p)))
}

// Whatever becomes of a request after its claim was read, the reply has the key's home and the time
// at which its answer expires.
func TestRefusalsSayWhereAndHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, a Attempt) Outcome {
			if string(a.Payload) == `{"amount":500}` {
				return &Unknown{}
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
		reply, err = s.Do(t.Context(), "us-east1", order("k1", 1000))
		require.Error(t, err)
		rec := store.row(order("k1", 1000).Key)
		require.True(t, reply.ExpiresAt.Equal(rec.FreeAt(&store.policy, time.Now())), "the key is free then")
	})
}

func TestLargeBodiesGoToTheObjectStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := DefaultPolicy()
		p.InlineBody = 16
		store, blobs := newRows(p), bucket{}
		large := bytes.Repeat([]byte("x"), 17)
		s := serve(t, store, blobs, p, "n1", func(_ context.Context, a Attempt) Outcome {
			return &Done{Response: Response{Status: 201, Body: large}}
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
		large = large[1:]
		_, err = s.Do(t.Context(), "us-east1", order("inline", 100))
		require.NoError(t, err)
		require.Equal(t, large, store.row(order("inline", 100).Key).Response.Body)
		clear(blobs)
		_, err = s.Do(t.Context(), "us-east1", order("k", 100))
		require.ErrorIs(t, err, ErrUnavailable, "a body that is missing is not an empty body")
	})
}

// The caller's hanging up ends its wait, never the work.
func TestHangingUpDoesNotStopTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, a Attempt) Outcome {
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
		time.AfterFunc(time.Second, cancel)
		_, err = s.Do(waiting, "us-east1", order("k2", 1))
		var inUse *InUseError
		require.ErrorAs(t, err, &inUse)
		time.Sleep(3 * time.Second)
	})
}

// The service closes a claim that was not paid in time once, however often it is requested, and not
// during another attempt.
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
		closes   Outcome
	}
	key := order("k", 100).Key
	for name, run := range map[string]func(w *world, m outbox.Message){
		"closed": func(w *world, m outbox.Message) {
			require.Equal(w, outbox.Done(), w.service.Expire(w.Context(), m))
			rec := w.store.row(key)
			require.Equal(w, FailedTerminal, rec.State)
			require.Equal(w, "expired", rec.Reason)
			require.Equal(w, outbox.Done(), w.service.Expire(w.Context(), m), "again, by a worker that lost the reply")
			require.Equal(w, rec, w.store.row(key))
			require.Equal(w, []int{1, 1}, []int{w.calls, w.closings}, "another call was made")
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
			w.closes = &Done{}
			require.Equal(w, outbox.Failed("closing gave done"), w.service.Expire(w.Context(), m))
			require.Equal(w, FailedRetry, w.store.row(key).State)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{T: t, store: newRows(DefaultPolicy()), closes: &Refused{
					Reason: "expired", Response: Response{Status: 402, Body: []byte("too late")},
				}}
				w.service = serve(t, w.store, bucket{}, w.store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
					if a.Closing {
						w.closings++
						return w.closes
					}
					w.calls++
					return &Released{Response: Response{Status: 402}}
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
		rec, _, decision, err := Begin(nil, &Arrival{
			Content: Content{Key: req.Key, Print: fingerprint, Mint: Minted{ID: id}},
			Route:   Route{Stamped: true},
		}, 0, &p, now)
		require.NoError(t, err)
		require.Equal(t, Won, decision)
		return rec
	}
	old, fresh := begin("ch_old"), begin("ch_new")
	require.Equal(t, old.Fence, fresh.Fence)
	paid := Verdict{Outcome: &Done{Response: Response{Status: 201}}}
	s, err := Settle(old, &paid, &p, 0)
	require.NoError(t, err)
	_, _, err = s.On(fresh, &p, now)
	require.ErrorIs(t, err, ErrFenced)
	settled(t, fresh, paid, &p, now)
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

// committing is a store that writes the row and answers when it is released, to a caller
// who still waits.
type committing struct {
	*rows
	written, release chan struct{}
}

func (s *committing) Begin(ctx context.Context, a Arrival) (Begun, error) {
	got, err := s.rows.Begin(ctx, a)
	s.written <- struct{}{}
	select {
	case <-s.release:
		return got, err
	case <-ctx.Done():
		return Begun{}, ctx.Err()
	}
}

func (s *committing) TakeOver(ctx context.Context, key Key, home, object, holder, region string, news News) (Record, error) {
	got, err := s.rows.TakeOver(ctx, key, home, object, holder, region, news)
	if ctx.Err() != nil {
		return Record{}, ctx.Err()
	}
	return got, err
}

// The node executes a claim whose caller disconnects while the store makes it, or while it takes a
// lapsed one over: no other node would act under it for a lease.
func TestAClaimIsExecutedAfterItsCallerDisconnects(t *testing.T) {
	for _, lapsed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, calls := &committing{newRows(DefaultPolicy()), make(chan struct{}, 1), make(chan struct{})}, 0
			s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
				calls++
				require.Equal(t, lapsed, a.Recovery)
				return charged(a)
			})
			key := order("k", 100).Key
			if lapsed {
				other := serve(t, store.rows, bucket{}, store.policy, "n2", func(context.Context, Attempt) Outcome { return &Unknown{} })
				_, err := other.Do(t.Context(), "us-east1", order("k", 100))
				require.Error(t, err)
				time.Sleep(store.policy.BackoffMax)
			}
			ctx, leave := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := s.Do(ctx, "us-east1", order("k", 100))
				done <- err
			}()
			<-store.written
			leave()
			require.Equal(t, InFlight, store.row(key).State)
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, s.Drain(short), context.DeadlineExceeded, "a drain waits for it")
			cancel()
			close(store.release)
			require.NoError(t, <-done)
			require.Equal(t, Completed, store.row(key).State)
			require.Equal(t, 1, calls)
			require.Less(t, time.Since(store.row(key).FirstUse), store.policy.Lease+store.policy.BackoffMax, "no lease had to end")
		})
	}
}

// A recovery does not give the claim up when its caller stops between the take-over and the
// attempt.
func TestARecoveryIsExecutedAfterItsCallerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &committing{newRows(DefaultPolicy()), make(chan struct{}, 1), make(chan struct{})}
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
			if !a.Recovery {
				return &Unknown{}
			}
			return charged(a)
		})
		close(store.release)
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.Error(t, err)
		time.Sleep(store.policy.BackoffMax)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		rec := store.row(order("k", 100).Key)
		require.Equal(t, outbox.Gone(), s.Recover(ctx, store.messages[rec.Minted.ID]))
		require.Equal(t, Completed, store.row(rec.Key).State)
	})
}

// A verdict that the store refuses to record, now and later, is no outage of the store. The holder
// does not retry it and pages, and the worker parks its call once a recovery finds the same. The
// caller never reads that nothing happened.
func TestAVerdictThatCannotBeStoredIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultySettle{rows: newRows(DefaultPolicy()), err: fmt.Errorf("%w: a NUL", ErrUnstorable), until: time.Now().Add(time.Hour)}
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome { return charged(a) })
		var log bytes.Buffer
		s.c.Logger = slog.New(slog.NewJSONHandler(&log, nil))
		var unknown *UnknownError
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.ErrorAs(t, err, &unknown)
		require.EqualValues(t, 1, store.tries.Load())
		require.Contains(t, log.String(), pageUnstorable)
		time.Sleep(store.policy.Lease + time.Second)
		rec := store.row(order("k", 100).Key)
		require.Contains(t, s.Recover(t.Context(), store.messages[rec.Minted.ID]).String(), "Parked")
		require.EqualValues(t, 2, store.tries.Load())
		require.Equal(t, InFlight, store.row(rec.Key).State)
	})
}

// A request may begin while a drain waits: the server of a node that is given up still has connections. Under
// the race detector this fails with a sync.WaitGroup.
func TestARequestMayBeginDuringADrain(t *testing.T) {
	store := newRows(DefaultPolicy())
	s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome { return charged(a) })
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			_, err := s.Do(t.Context(), "us-east1", order(fmt.Sprint("k", i), 1))
			require.NoError(t, err)
		})
		all.Go(func() { require.NoError(t, s.Drain(t.Context())) })
	}
	all.Wait()
	require.NoError(t, s.Drain(t.Context()))
}
