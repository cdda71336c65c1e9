package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
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
