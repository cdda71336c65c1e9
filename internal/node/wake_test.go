package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/outbox"
)

// losing is a store whose first Settle is done, and whose reply is lost after a time.
type losing struct {
	deployment.Store
	tries atomic.Int32
	lost  func()
}

func (s *losing) Settle(ctx context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	rec, err := s.Store.Settle(ctx, held, v)
	if s.tries.Add(1) == 1 {
		s.lost()
		return claim.Record{}, fmt.Errorf("%w: the reply was lost", claim.ErrUnavailable)
	}
	return rec, err
}

// The service repeats a verdict with the same id when a reply was lost. Meanwhile the row became due,
// and another node delivered it and later events of its line. No process died.
func TestARepeatedVerdictDeliversNothingAgain(t *testing.T) {
	const here = "us-east1"
	policy := claim.DefaultPolicy()
	policy.Lease, policy.RenewEvery, policy.LeaseMargin = time.Second, 300*time.Millisecond, 100*time.Millisecond
	db, err := embedded.Open(embedded.Config{Dir: t.TempDir(), Policy: policy, Regions: []claim.Region{{Name: here, Code: 1}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	d := deployment.Embedded(db)
	require.NoError(t, d.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: here}))
	store, err := d.Region(here)
	require.NoError(t, err)

	var mu sync.Mutex
	var delivered []string
	heard := make(chan string, 10)
	worker := func(name string) *outbox.Worker {
		w, err := outbox.NewWorker(outbox.WorkerConfig{
			Store: store.Queue(outbox.Events), Regions: func() []string { return []string{here} }, Poll: 20 * time.Millisecond,
			Handlers: map[outbox.Kind]outbox.Handler{outbox.KindLog: func(_ context.Context, m outbox.Message) outbox.Disposition {
				mu.Lock()
				delivered = append(delivered, m.ID+" by "+name)
				mu.Unlock()
				heard <- m.ID
				return outbox.Done()
			}},
		})
		require.NoError(t, err)
		w.Start()
		t.Cleanup(w.Stop)
		return w
	}
	mine, others := worker("the node that settled"), worker("another node")
	flaky := &losing{Store: store}
	n := &Node{c: Config{}, log: slog.New(slog.DiscardHandler)}
	n.c.Policy = policy
	sets := []workerSet{{workers: map[outbox.Queue]*outbox.Worker{outbox.Events: mine}}}
	n.workers.Store(&sets)
	s := notifying{flaky, n}

	key := claim.Key{Tenant: "acme", Value: "k"}
	begun, err := s.Begin(t.Context(), claimtest.NewArrival(key, here, "100", "node-1", "ch_1"))
	require.NoError(t, err)
	held := begun.Record
	event := outbox.Message{ID: "evt_1/log", Kind: outbox.KindLog, Payload: []byte("{}")}
	v := claim.Verdict{ID: uuid.New(), MadeAt: time.Now(), Outcome: &claim.Done{
		Response: claim.Response{Status: 200, Body: []byte("paid")}, Posting: claimtest.Posting(held, "ch_1"), Events: []outbox.Message{event},
	}}
	later := *claimtest.Posting(held, "later")
	later.Region = here
	flaky.lost = func() { // a node of the same region goes on meanwhile
		for {
			others.Wake(here, 0)
			select {
			case <-heard:
			case <-time.After(50 * time.Millisecond):
				continue
			}
			break
		}
		_, err := store.Book(context.Background(), later, []outbox.Message{{
			ID: "evt_2/log", Region: here, Kind: outbox.KindLog, Tenant: "acme", Key: "k", Operation: "charge", Payload: []byte("{}"),
		}})
		require.NoError(t, err)
		others.Wake(here, 0)
		<-heard
	}
	_, err = s.Settle(t.Context(), held, v)
	require.ErrorIs(t, err, claim.ErrUnavailable)
	_, err = s.Settle(t.Context(), held, v) // as service.settle does
	require.NoError(t, err)
	mine.Stop()
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, delivered, 2, "%q", delivered)
}

// answering is a store whose Settle has one answer.
type answering struct {
	deployment.Store
	rec claim.Record
	err error
}

func (s answering) Settle(context.Context, claim.Record, claim.Verdict) (claim.Record, error) {
	return s.rec, s.err
}

// counting is an empty queue that counts takes.
type counting struct {
	outbox.Store
	takes atomic.Int32
}

func (q *counting) Take(context.Context, string, int, time.Duration) ([]outbox.Message, error) {
	q.takes.Add(1)
	return nil, nil
}

// The events' worker takes when a step's rows are due, also if the step's reply was lost, and not at
// all for a step that writes none.
func TestTheWorkerTakesWhenEventsAreDue(t *testing.T) {
	lost := fmt.Errorf("%w: the reply was lost", claim.ErrUnavailable)
	answer := claim.Response{Status: 200, Body: []byte("{}")}
	events := []outbox.Message{{ID: "evt_1/log", Kind: outbox.KindLog, Payload: []byte("{}")}}
	refused := &claim.Refused{Response: answer, Events: events}
	policy := claim.DefaultPolicy()
	for name, tc := range map[string]struct {
		fence   uint64
		outcome claim.Outcome
		err     error
		soon    int32 // takes at once
		later   int32 // and when the rows of a first holder are due
	}{
		"the first holder's, and the reply was lost": {1, refused, lost, 0, 1},
		"a later holder's":                           {2, refused, nil, 1, 0},
		"a later holder's, and the reply was lost":   {2, refused, lost, 1, 0},
		"an unknown that does not give up":           {1, &claim.Unknown{GiveUp: &claim.GivenUp{Response: answer, Events: events}}, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := &counting{}
				w, err := outbox.NewWorker(outbox.WorkerConfig{
					Store: queue, Regions: func() []string { return []string{"us-east1"} },
					Handlers: map[outbox.Kind]outbox.Handler{outbox.KindLog: func(context.Context, outbox.Message) outbox.Disposition { return outbox.Done() }},
				})
				require.NoError(t, err)
				w.Start()
				defer w.Stop()
				n := &Node{c: Config{}, log: slog.New(slog.DiscardHandler)}
				n.c.Policy = policy
				n.workers.Store(&[]workerSet{{workers: map[outbox.Queue]*outbox.Worker{outbox.Events: w}}})
				time.Sleep(policy.Lease)
				synctest.Wait()
				started := queue.takes.Load()
				held := claim.Record{Home: "us-east1", State: claim.InFlight, Fence: tc.fence, Minted: claim.Minted{ID: "ch_1"}}
				_, _ = notifying{answering{err: tc.err}, n}.Settle(t.Context(), held, claim.Verdict{ID: uuid.New(), MadeAt: time.Now(), Outcome: tc.outcome})
				time.Sleep(policy.Lease)
				synctest.Wait()
				require.Equal(t, tc.soon, queue.takes.Load()-started, "at once")
				time.Sleep(policy.EventsFor() + time.Second)
				synctest.Wait()
				require.Equal(t, tc.soon+tc.later, queue.takes.Load()-started, "when they are due")
			})
		})
	}
}
