package claim

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

func TestAnUnknownIsRetriedUnderTheSameProviderKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		var keys []string
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
			keys = append(keys, a.Record.ProviderKey)
			if len(keys) < 3 {
				return &Unknown{Reason: "timeout"}
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

// TestOnlyNewsEndsAPause: what was not found may be called again only after the pause, so whoever might
// have to call waits for its end. A notice that settles the claim by itself does not.
func TestOnlyNewsEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		s := serveAt(t, "a,b", store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
			if a.ReportedRef != "" && a.ReportedBy == a.Provider {
				return charged(a)
			}
			calls++
			return &Unknown{Reason: "not_found", NotFound: true, RetryIn: time.Hour}
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.ErrorAs(t, err, new(*UnknownError))
		rec := store.row(order("k", 100).Key)
		message := store.messages[rec.Minted.ID]
		later := outbox.Later(time.Until(message.Due) + store.policy.ClockOffset)
		for name, asked := range map[string]outbox.Disposition{
			"a worker that took the call before":   s.Recover(t.Context(), message),
			"a notice without a result":            s.Learn(t.Context(), message, "", "", 0),
			"a notice of perhaps another movement": s.Learn(t.Context(), message, "a", "p1", 0),
			"a notice of another provider":         s.Learn(t.Context(), message, "b", "p1", 1),
			"a notice of another generation":       s.LearnRefusal(t.Context(), message, "a", "declined", 2),
			"an order for the charge":              s.LearnHeld(t.Context(), message, Held{Order: "cp_1", Word: HeldOrdered}),
		} {
			require.Equal(t, later, asked, name)
		}
		require.Equal(t, rec, store.row(rec.Key))
		require.Equal(t, 1, calls)
		require.Equal(t, outbox.Gone(), s.Learn(t.Context(), message, "a", "p1", 1))
		require.Equal(t, Completed, store.row(rec.Key).State)
		require.Equal(t, 1, calls)
	})
}

// Retry-After of an unknown is the time until the next look-up, and a retry then makes it.
func TestRetryAfterOfAnUnknown(t *testing.T) {
	for asks, retryAfter := range map[time.Duration]time.Duration{
		0:                time.Second, // the back-off begins below it
		40 * time.Second: 40*time.Second + DefaultPolicy().ClockOffset,
		time.Hour:        DefaultPolicy().BackoffMax,
	} {
		synctest.Test(t, func(t *testing.T) {
			store, calls := newRows(DefaultPolicy()), 0
			s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
				calls++
				time.Sleep(2 * time.Second)
				if calls == 1 {
					return &Unknown{Reason: "timeout", RetryIn: asks}
				}
				return charged(a)
			})
			var first, retry *UnknownError
			_, err := s.Do(t.Context(), "us-east1", order("k", 100))
			require.ErrorAs(t, err, &first)
			require.Equal(t, retryAfter, first.RetryAfter)
			due := time.Now().Add(first.RetryAfter)
			if asks == 40*time.Second {
				_, err = s.Do(t.Context(), "us-east1", order("k", 100))
				require.ErrorAs(t, err, &retry)
				require.InDelta(t, time.Until(due), retry.RetryAfter, float64(2*store.policy.WaitPoll), "the same time, whoever asks for it")
			}
			if time.Sleep(time.Until(due)); asks < time.Hour {
				_, err = s.Do(t.Context(), "us-east1", order("k", 100))
				require.NoError(t, err)
				require.Equal(t, 2, calls)
			}
		})
	}
}

// One provider cannot know what another may have done: it is neither asked nor called, however long
// the first one is missing.
func TestAClaimStaysWithItsProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		var first, second int
		a := serveAt(t, "a", store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
			if first++; first == 1 {
				return &Unknown{Reason: "timeout"}
			}
			return charged(a)
		})
		b := serveAt(t, "b", store, bucket{}, store.policy, "n2", func(_ context.Context, a Attempt) Outcome {
			second++
			return charged(a)
		})
		_, err := a.Do(t.Context(), "us-east1", order("k", 100))
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown)
		rec := store.row(order("k", 100).Key)
		message := store.messages[rec.Minted.ID]
		time.Sleep(time.Until(message.Due))
		require.Equal(t, outbox.Gone(), b.Recover(t.Context(), message), "the first is taken over before its provider is read")
		rec = store.row(rec.Key)
		require.EqualValues(t, 1, rec.Unknowns, "a node without the provider learns nothing")
		for range 2 * int(store.policy.MaxUnknowns) {
			message = store.messages[rec.Minted.ID]
			time.Sleep(time.Until(message.Due))
			require.Equal(t, outbox.Later(otherProviderPause), b.Recover(t.Context(), message))
			require.Equal(t, outbox.Later(otherProviderPause), b.Learn(t.Context(), message, "b", "p1", 1))
			_, err := b.Do(t.Context(), "us-east1", order("k", 100))
			require.ErrorAs(t, err, &unknown)
		}
		require.Equal(t, rec, store.row(rec.Key), "the row is left as it is")
		// A node that has both providers calls the claim's, whatever its default.
		both := serveAt(t, "b,a", store, bucket{}, store.policy, "n3", func(_ context.Context, at Attempt) Outcome {
			require.Equal(t, "a", at.Provider)
			first++
			return charged(at)
		})
		require.Equal(t, outbox.Gone(), both.Recover(t.Context(), message))
		require.Equal(t, Completed, store.row(rec.Key).State)
		require.Equal(t, []int{2, 0}, []int{first, second})

		// A new request is the new provider's from the start.
		_, err = b.Do(t.Context(), "us-east1", order("k2", 100))
		require.NoError(t, err)
		require.Equal(t, 1, second)
	})
}

// The request names whom a new claim is for; what finds its provider by itself is with
// none.
func TestARequestNamesItsProvider(t *testing.T) {
	store := newRows(DefaultPolicy())
	var called []string
	s := serveAt(t, "a,b", store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
		called = append(called, a.Provider)
		return charged(a)
	})
	s.c.Operations["refund"], s.c.Unbound = "re", map[string]bool{"refund": true}
	for i, named := range []string{"", "b", "a", "c"} {
		req := order(fmt.Sprint("k", i), 100)
		req.Provider = named
		_, err := s.Do(t.Context(), "us-east1", req)
		if named == "c" {
			require.ErrorIs(t, err, ErrUnavailable)
			require.ErrorContains(t, err, "no provider c")
			again := order("k0", 100)
			again.Provider = named
			reply, err := s.Do(t.Context(), "us-east1", again)
			require.NoError(t, err, "a retry is answered, whomever it would go to now")
			require.True(t, reply.Replayed)
			continue
		}
		require.NoError(t, err)
	}
	req := order("r", 100)
	req.Operation, req.Provider = "refund", "b"
	_, err := s.Do(t.Context(), "us-east1", req)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "a", ""}, called)
	rec := store.row(req.Key)
	name, ok := rec.With([]string{"a", "b"})
	require.True(t, ok)
	require.Empty(t, name)
}

// A charge's claim names the provider that it was begun for. A claim that names none is from a node
// with one provider without a name. It goes to no node that has several, and never to the default.
func TestAClaimWithoutAProviderMakesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		one := serve(t, store, bucket{}, store.policy, "n1", func(context.Context, Attempt) Outcome { return &Unknown{Reason: "timeout"} })
		_, err := one.Do(t.Context(), "us-east1", order("k", 100))
		require.Error(t, err)
		rec := store.row(order("k", 100).Key)
		var got []string
		s := serveAt(t, "b,a", store, bucket{}, store.policy, "n2", func(_ context.Context, a Attempt) Outcome {
			got = append(got, a.Provider)
			return charged(a)
		})
		for range 3 {
			message := store.messages[rec.Minted.ID]
			time.Sleep(time.Until(message.Due))
			s.Recover(t.Context(), message)
		}
		_, err = s.Do(t.Context(), "us-east1", order("k", 100))
		require.Error(t, err)
		require.Empty(t, got)
		require.Equal(t, InFlight, store.row(rec.Key).State)
	})
}

// A suspended worker with a call of the key's former life must not put its request into the new
// life.
func TestARowOfAFormerLifeIsNotWorkedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		var paid []string
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
			paid = append(paid, string(a.Payload))
			if len(paid) == 1 {
				return &Unknown{Reason: "timeout"}
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
		s := serve(t, brokenSettle{store}, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome { return charged(a) })
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown)
		require.NotErrorIs(t, err, ErrUnavailable)
	})
}

// A verdict is never thrown away: while the store gives no answer the holder retries the settle,
// and renews its lease, for as long as trust lasts.
func TestAVerdictIsRetriedUntilItIsRecorded(t *testing.T) {
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
				s := serve(t, store, bucket{}, p, "n1", func(_ context.Context, a Attempt) Outcome {
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
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
			keys = append(keys, a.Record.ProviderKey)
			if len(keys) == 1 {
				return &Released{Reason: "insufficient_funds", Response: Response{Status: 402}}
			}
			return charged(a)
		})
		first, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, 402, first.Response.Status)
		shared, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, FailedRetry, shared.State)
		require.True(t, shared.Replayed)
		_, err = s.Do(t.Context(), "us-east1", order("k", 200))
		require.ErrorIs(t, err, ErrMismatch, "released, but still this request's")
		require.Equal(t, []string{"shared", "mismatch"}, []string{store.notes[0].Detail, store.notes[1].Detail})
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
				s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
					time.Sleep(time.Second) // the provider's
					mu.Lock()
					defer mu.Unlock()
					if calls++; calls <= declines {
						return &Released{Reason: "insufficient_funds", Response: Response{Status: 402, Body: []byte("no funds")}}
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
		s := serve(t, store, bucket{}, p, "n1", func(_ context.Context, a Attempt) Outcome {
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
		next := settled(t, rec, Verdict{Outcome: &Fault{Reason: reasonFault}}, &p, now)
		require.Equal(t, rec.Fence+1, next.Fence, "or it could be recorded twice")
		rec = next
	}
	require.Zero(t, rec.NotFounds, "it may have called since the look-up")
	next := settled(t, rec, Verdict{Outcome: &Unknown{Reason: "no_answer", GiveUp: &GivenUp{Response: Response{Status: 503}}}}, &p, now)
	require.Equal(t, InFlight, next.State)
}

// Before the executor calls another provider, its generation is in the row. It is a first attempt
// unless another holder had the claim in between. Its provider key is its own.
func TestAnotherProviderTries(t *testing.T) {
	for _, raced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newRows(DefaultPolicy())
			var tries []Attempt
			s := serveAt(t, "a,b", store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
				tries = append(tries, a)
				if a.Provider == "a" {
					return &Moved{Next: "b"}
				}
				require.Equal(t, a.Record.ProviderKey, store.row(a.Record.Key).ProviderKey, "it is in the row by now")
				return charged(a)
			})
			if raced {
				s.c.Store = &hasty{rows: store}
			}
			reply, err := s.Do(t.Context(), "us-east1", order("k", 100))
			require.NoError(t, err)
			require.Equal(t, Completed, reply.State)
			require.Len(t, tries, 2)
			require.Equal(t, []string{"a", "b"}, []string{tries[0].Provider, tries[1].Provider})
			require.NotEqual(t, tries[0].Record.ProviderKey, tries[1].Record.ProviderKey)
			require.Equal(t, raced, tries[1].Recovery)
		})
	}
}

// Where another node has taken the claim over after its move, and holds it, its answer is the
// answer.
func TestAMovedClaimThatAnotherHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, tries := newRows(DefaultPolicy()), 0
		s := serveAt(t, "a,b", &faster{rows: store}, bucket{}, store.policy, "n1", func(context.Context, Attempt) Outcome {
			tries++
			return &Moved{Next: "b"}
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.ErrorAs(t, err, new(*InUseError))
		require.Equal(t, 1, tries)
		require.Equal(t, "other", store.row(order("k", 100).Key).Holder)
	})
}

// faster lets another holder take a claim over after its move, and keep it.
type faster struct{ *rows }

func (s *faster) Settle(ctx context.Context, held Record, v Verdict) (Record, error) {
	rec, err := s.rows.Settle(ctx, held, v)
	if _, moved := v.Outcome.(*Moved); err == nil && moved {
		_, err = s.rows.TakeOver(ctx, rec.Key, rec.Home, rec.Minted.ID, "other", rec.Home, News{})
	}
	return rec, err
}

// hasty lets another holder take a claim over after its move, and drop it.
type hasty struct{ *rows }

func (s *hasty) Settle(ctx context.Context, held Record, v Verdict) (Record, error) {
	rec, err := s.rows.Settle(ctx, held, v)
	if _, moved := v.Outcome.(*Moved); err != nil || !moved {
		return rec, err
	}
	other, err := s.rows.TakeOver(ctx, rec.Key, rec.Home, rec.Minted.ID, "other", rec.Home, News{})
	if err != nil {
		return rec, err
	}
	if _, err := s.rows.Settle(ctx, other, Verdict{Outcome: &Unknown{Reason: "lost", RetryIn: 1}}); err != nil {
		return rec, err
	}
	time.Sleep(time.Second)
	return rec, nil
}

// TestARefusalEndsItsOwnGenerationAlone: between the reading of a claim and its take-over
// another notice may release it, and its merchant may try again.
func TestARefusalEndsItsOwnGenerationAlone(t *testing.T) {
	for name, of := range map[string]struct {
		generation uint32
		refused    string
	}{
		"the one under way": {2, "generic_decline"},
		"the one before it": {1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRows(DefaultPolicy())
				var seen []Attempt
				s := serveAt(t, "a", store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
					if seen = append(seen, a); a.Record.Generation > 1 {
						return &Unknown{Reason: "timeout"}
					}
					return &Released{Reason: "generic_decline", Response: Response{Status: 402, Body: []byte("declined")}}
				})
				_, err := s.Do(t.Context(), "us-east1", order("k", 100))
				require.NoError(t, err)
				key := order("k", 100).Key
				time.Sleep(time.Until(store.row(key).Refusal.SharedUntil(&store.policy)) + time.Second)
				var unknown *UnknownError
				_, err = s.Do(t.Context(), "us-east1", order("k", 100))
				require.ErrorAs(t, err, &unknown)
				rec := store.row(key)
				require.EqualValues(t, 2, rec.Generation)
				message := store.messages[rec.Minted.ID]
				time.Sleep(time.Until(message.Due))
				require.Equal(t, outbox.Gone(), s.LearnRefusal(t.Context(), message, "a", "generic_decline", of.generation))
				last := seen[len(seen)-1]
				require.True(t, last.Recovery)
				require.Equal(t, of.refused, last.Refused)
			})
		})
	}
}
