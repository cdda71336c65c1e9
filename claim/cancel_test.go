package claim

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// giving is a request that gives the key of another up.
func giving(value string) *Request {
	req := order(value, 0)
	req.Operation, req.Input.Canonical = CancelKey, []byte("{}")
	return req
}

// canceler executes as package payment does for a canceled key, and otherwise charges after a while.
func canceler(calls *int, takes time.Duration) provider {
	no := func(text string) Outcome {
		return &Refused{Response: Response{Status: 410, Body: []byte(text)}, Reason: "key_canceled"}
	}
	return func(ctx context.Context, a Attempt) Outcome {
		switch {
		case a.Record.Operation == CancelKey:
			return no("unused")
		case a.Canceled && a.Found != nil:
			return no("called off " + a.Record.Minted.ID)
		case a.Canceled:
			return no("never sent")
		}
		*calls++
		select {
		case <-time.After(takes):
			return charged(a)
		case <-ctx.Done():
			return &Unknown{Reason: "cut off"}
		}
	}
}

func serveCancel(t *testing.T, store Store, p Policy, node string, e provider) *Service {
	t.Helper()
	s := serve(t, store, bucket{}, p, node, e)
	s.c.Operations = Operations{"charge": "ch", "capture": "cap", CancelKey: "key"}
	s.c.Unstopped = map[string]bool{"capture": true}
	return s
}

func TestAKeyIsGivenUpBeforeItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		s := serveCancel(t, store, store.policy, "n1", canceler(&calls, time.Second))
		for range 2 {
			rec, reply, err := s.Cancel(t.Context(), "us-east1", giving("k"))
			require.NoError(t, err)
			require.Equal(t, CancelKey, rec.Operation)
			require.Equal(t, FailedTerminal, rec.State)
			require.Equal(t, FailedTerminal, reply.State)
		}
		for _, amount := range []int{100, 200} {
			reply, err := s.Do(t.Context(), "us-east1", order("k", amount))
			require.NoError(t, err)
			require.Equal(t, "unused", string(reply.Response.Body))
			require.True(t, reply.Replayed)
		}
		require.Zero(t, calls)
	})
}

// The holder of a claim goes on with its call, over many heartbeats, finds the mark when it records the
// answer, and records what that is under the mark. Its caller, its twin and the merchant who gave up
// read the same.
func TestAKeyIsGivenUpDuringItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		s := serveCancel(t, store, store.policy, "n1", canceler(&calls, 60*time.Second))
		other := serveCancel(t, store, store.policy, "n2", canceler(&calls, time.Second))
		type answer struct {
			body string
			err  error
		}
		first := make(chan answer, 1)
		go func() {
			reply, err := s.Do(t.Context(), "us-east1", order("k", 100))
			first <- answer{string(reply.Response.Body), err}
		}()
		synctest.Wait()
		start := time.Now()
		rec, _, err := other.Cancel(t.Context(), "us-east1", giving("k"))
		require.NoError(t, err)
		require.Equal(t, InFlight, rec.State)
		require.True(t, rec.Canceled())
		require.Equal(t, store.policy.WaitMax, time.Since(start))
		got := <-first
		require.NoError(t, got.err)
		require.Equal(t, "called off "+rec.Minted.ID, got.body)
		require.Equal(t, 60*time.Second, time.Since(start), "the call was not cut off")
		rec, _, err = other.Cancel(t.Context(), "us-east1", giving("k"))
		require.NoError(t, err)
		require.Equal(t, FailedTerminal, rec.State)
		reply, err := other.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, got.body, string(reply.Response.Body))
		require.Equal(t, 1, calls)
	})
}

// A holder that died does not see the mark; whoever takes its claim over does.
func TestAKeyIsGivenUpAfterItsHolderDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		e := canceler(&calls, time.Second)
		dead := serveCancel(t, brokenSettle{store}, store.policy, "n1", e)
		_, err := dead.Do(t.Context(), "us-east1", order("k", 100))
		require.Error(t, err)
		s := serveCancel(t, store, store.policy, "n2", e)
		rec, _, err := s.Cancel(t.Context(), "us-east1", giving("k"))
		require.NoError(t, err)
		require.Equal(t, InFlight, rec.State)
		time.Sleep(2 * store.policy.LeaseCeiling)
		s.Recover(t.Context(), store.messages[rec.Minted.ID])
		reply, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, "never sent", string(reply.Response.Body))
		require.Equal(t, 1, calls)
	})
}

func TestAReleasedKeyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		e := canceler(&calls, time.Second)
		s := serveCancel(t, store, store.policy, "n1", func(ctx context.Context, a Attempt) Outcome {
			if a.Canceled {
				return e(ctx, a)
			}
			return &Released{Response: Response{Status: 402, Body: []byte("no funds")}}
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		rec, reply, err := s.Cancel(t.Context(), "us-east1", giving("k"))
		require.NoError(t, err)
		require.Equal(t, FailedTerminal, rec.State)
		require.Equal(t, FailedTerminal, reply.State)
		time.Sleep(time.Hour)
		again, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, "never sent", string(again.Response.Body))
	})
}

// An attempt that cannot close a released claim is an error, and is not repeated without end.
func TestAReleasedKeyThatCannotBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, closings := newRows(DefaultPolicy()), 0
		s := serveCancel(t, store, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
			if a.Closing {
				closings++
				require.Less(t, closings, 3)
				return &Unsent{Reason: "provider_changed"}
			}
			return &Released{Response: Response{Status: 402, Body: []byte("no funds")}}
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		_, _, err = s.Cancel(t.Context(), "us-east1", giving("k"))
		require.ErrorIs(t, err, ErrUnavailable)
		require.Equal(t, FailedRetry, store.row(order("k", 0).Key).State)
	})
}

// A final claim stays as it is, and so does one that is not stopped.
func TestWhatAKeyHasDoneStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		s := serveCancel(t, store, store.policy, "n1", canceler(&calls, 3*time.Second))
		reply, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		before := store.row(order("k", 0).Key)
		rec, _, err := s.Cancel(t.Context(), "us-east1", giving("k"))
		require.NoError(t, err)
		require.Equal(t, before, rec)
		require.Equal(t, before, store.row(rec.Key))
		require.Equal(t, Completed, reply.State)

		capture := order("capture", 100)
		capture.Operation = "capture"
		go func() { _, _ = s.Do(t.Context(), "us-east1", capture) }()
		synctest.Wait()
		rec, _, err = s.Cancel(t.Context(), "us-east1", giving("capture"))
		require.NoError(t, err)
		require.Equal(t, Completed, rec.State, "Cancel has waited for its end")
		require.False(t, rec.Canceled())

		time.Sleep(store.policy.ReplayFor)
		_, _, err = s.Cancel(t.Context(), "us-east1", giving("k"))
		var expired *ExpiredError
		require.ErrorAs(t, err, &expired)
	})
}

// A claim that is not stopped, and is released while Cancel waits for its end, is closed like one that
// was released before: a retry of its request sends nothing.
func TestAKeyIsGivenUpThatIsReleasedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		e := canceler(&calls, time.Second)
		s := serveCancel(t, store, store.policy, "n1", func(ctx context.Context, a Attempt) Outcome {
			if a.Canceled || a.Record.Generation > 1 {
				return e(ctx, a)
			}
			time.Sleep(3 * time.Second)
			return &Released{Response: Response{Status: 400, Body: []byte("order in progress")}}
		})
		capture := order("capture", 100)
		capture.Operation = "capture"
		go func() { _, _ = s.Do(t.Context(), "us-east1", capture) }()
		synctest.Wait()
		rec, reply, err := s.Cancel(t.Context(), "us-east1", giving("capture"))
		require.NoError(t, err)
		require.Equal(t, FailedTerminal, rec.State)
		require.Equal(t, FailedTerminal, reply.State)
		time.Sleep(time.Hour)
		again, err := s.Do(t.Context(), "us-east1", capture)
		require.NoError(t, err)
		require.Equal(t, "never sent", string(again.Response.Body))
		require.Zero(t, calls)
	})
}

// While a Cancel waits, its node sleeps for so long that the key has another claim since. That one is
// given up; its row is no answer about the one before.
func TestAKeyIsGivenUpThatIsUsedAnewMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		s := serveCancel(t, store, store.policy, "n1", canceler(&calls, time.Minute))
		charge := order("anew", 100)
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = s.Do(t.Context(), "us-east1", charge)
		}()
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			store.mu.Lock()
			defer store.mu.Unlock()
			next := *store.claims[charge.Key]
			next.Minted.ID, next.Fence, next.CanceledAt = "ch_anew", next.Fence+1, time.Time{}
			store.claims[charge.Key] = &next
		}()
		rec, _, err := s.Cancel(t.Context(), "us-east1", giving("anew"))
		require.NoError(t, err)
		require.Equal(t, "ch_anew", rec.Minted.ID)
		require.True(t, rec.Canceled(), "the claim that has the key now is not given up")
		<-over
	})
}

// A mark between the move to another provider and the take-over is no holder that may have called it:
// nothing is sent there.
func TestAKeyIsGivenUpDuringItsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		var tries []Attempt
		s := serveAt(t, "a,b", markedMove{store}, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
			if tries = append(tries, a); !a.Canceled {
				return &Moved{Next: "b"}
			}
			return &Refused{Response: Response{Status: 410}, Reason: "key_canceled"}
		})
		reply, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		require.Equal(t, FailedTerminal, reply.State)
		require.Len(t, tries, 2)
		require.True(t, tries[1].Canceled)
		require.False(t, tries[1].Recovery)
	})
}

// markedMove has the key given up right after its claim has moved.
type markedMove struct{ *rows }

func (s markedMove) Settle(ctx context.Context, held Record, v Verdict) (Record, error) {
	rec, err := s.rows.Settle(ctx, held, v)
	if _, moved := v.Outcome.(*Moved); err == nil && moved {
		_, err = s.Cancel(ctx, rec.Key, rec.Home, rec.Minted.ID, uuid.New(), "n2", rec.Home)
	}
	return rec, err
}

// A replica's final answer says nothing to who gives the key up, and a canceled key answers any body.
func TestAReplicaOfAKeyThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := newRows(DefaultPolicy()), 0
		s := serveCancel(t, shownRows{store}, store.policy, "n1", canceler(&calls, time.Second))
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		_, found, _, err := s.Replica(t.Context(), giving("k"))
		require.NoError(t, err)
		require.False(t, found)
		_, _, err = s.Cancel(t.Context(), "us-east1", giving("never"))
		require.NoError(t, err)
		reply, found, _, err := s.Replica(t.Context(), order("never", 300))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "unused", string(reply.Response.Body))
	})
}

// shownRows has replicas that are never behind.
type shownRows struct{ *rows }

func (s shownRows) Replica(ctx context.Context, key Key) (Shown, error) {
	rec, _, found, err := s.Get(ctx, key, "")
	if !found || !rec.State.Final() {
		return Shown{}, err
	}
	return Shown{Record: &rec}, err
}

// A holder that cannot read the mark at once goes on while its lease is trusted: neither its call is cut
// off nor is the provider's answer lost.
func TestAMarkThatCannotBeReadAtOnce(t *testing.T) {
	for name, takes := range map[string]time.Duration{"at a heartbeat": 60 * time.Second, "at the settlement": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, calls := newRows(DefaultPolicy()), 0
				s := serveCancel(t, &unread{store, time.Now().Add(store.policy.RenewEvery + time.Second)}, store.policy, "n1", canceler(&calls, takes))
				other := serveCancel(t, store, store.policy, "n2", canceler(&calls, time.Second))
				first := make(chan string, 1)
				go func() {
					reply, err := s.Do(t.Context(), "us-east1", order("k", 100))
					first <- fmt.Sprint(string(reply.Response.Body), err)
				}()
				synctest.Wait()
				rec, _, err := other.Cancel(t.Context(), "us-east1", giving("k"))
				require.NoError(t, err)
				require.Equal(t, "called off "+rec.Minted.ID+"<nil>", <-first)
			})
		})
	}
}

// unread is rows whose reads fail until then.
type unread struct {
	*rows
	until time.Time
}

func (s *unread) Get(ctx context.Context, key Key, home string) (Record, time.Time, bool, error) {
	if time.Now().Before(s.until) {
		return Record{}, time.Time{}, false, ErrUnavailable
	}
	return s.rows.Get(ctx, key, home)
}

// A holder whose claim was taken over since the mark, by another node or by another request here, has
// lost it: it records nothing.
func TestAMarkIsNoLease(t *testing.T) {
	for _, holder := range []string{"n1", "n2"} {
		synctest.Test(t, func(t *testing.T) {
			store, calls := newRows(DefaultPolicy()), 0
			s := serveCancel(t, store, store.policy, "n1", canceler(&calls, time.Second))
			store.settling = func() {
				store.settling = nil
				rec, _, err := s.Cancel(t.Context(), "us-east1", giving("k"))
				require.NoError(t, err)
				taken := rec
				taken.Fence, taken.Holder = rec.Fence+1, holder
				store.mu.Lock()
				store.claims[rec.Key] = &taken
				store.mu.Unlock()
			}
			_, err := s.Do(t.Context(), "us-east1", order("k", 100))
			var inUse *InUseError
			require.ErrorAs(t, err, &inUse)
			now := store.row(order("k", 0).Key)
			require.Equal(t, InFlight, now.State)
			require.Equal(t, holder, now.Holder)
		})
	}
}

// The verdict of a look-up that found nothing is recorded, its reply is lost, and the key is given up
// before Settle is retried. The claim has no holder by then, and the look-up counts once: a canceled
// payment is closed only after as many look-ups as any other, each a settle window apart.
func TestAMarkCountsNoLookUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		s := serveCancel(t, &markedLoss{rows: store}, store.policy, "n1", func(context.Context, Attempt) Outcome {
			return &Unknown{NotFound: true, RetryIn: time.Hour}
		})
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.Error(t, err)
		now := store.row(order("k", 0).Key)
		require.True(t, now.Canceled())
		require.Equal(t, [2]uint32{1, 1}, [2]uint32{now.Unknowns, now.NotFounds})
	})
}

// markedLoss loses the reply to the first verdict, and has the key given up before the next try.
type markedLoss struct {
	*rows
	lost bool
}

func (s *markedLoss) Settle(ctx context.Context, held Record, v Verdict) (Record, error) {
	rec, err := s.rows.Settle(ctx, held, v)
	if err != nil || s.lost {
		return rec, err
	}
	s.lost = true
	if _, err := s.Cancel(ctx, rec.Key, rec.Home, rec.Minted.ID, uuid.New(), "n2", rec.Home); err != nil {
		return rec, err
	}
	return Record{}, ErrUnavailable
}
