package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	record "github.com/homeward-io/homeward/e2e/history"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// history collects operations from concurrent clients.
type history struct{ record.History }

func (h *history) add(client int, q request, start time.Time, r *answer.Answer) {
	h.Add(client, record.Sent{Key: q.key, Body: q.body}, start, r.Got())
}

// check asserts that every key's history is one that the model could give.
func (h *history) check(t testing.TB) {
	t.Helper()
	require.Equal(t, porcupine.Ok, h.Check(patience), "the histories of the keys fit no order of events")
}

// TestHistories sends rivals at few keys from many clients, at a provider that fails, and checks
// each client's answers.
func TestHistories(t *testing.T) {
	t.Parallel()
	const keys, rivals = 40, 6
	w := startWorld(t, nil, nil)
	require.NoError(t, w.judge.SetFaults(simulator.Faults{
		Jitter: 5 * time.Millisecond, ErrorBefore: 0.05, ErrorAfter: 0.05, DropReply: 0.05, Seed: 1,
	}))
	var h history
	var all sync.WaitGroup
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range keys {
		key := fmt.Sprint("history-", i)
		if i%2 == 0 {
			key = stamped(t, regions[rng.IntN(3)])
		}
		for rival := range rivals {
			q := charge(key, 1000+i)
			if i%5 == 0 {
				q.body = strings.Replace(q.body, "pm_card_visa", "pm_card_insufficient_funds_once", 1)
			}
			if rival%3 == 2 { // the rest of the rivals want something else
				q = charge(key, 100_000+i)
			}
			region := regions[rng.IntN(3)]
			all.Go(func() {
				last := w.settle(w.ctx, region, q, func(start time.Time, r *answer.Answer) { h.add(i*rivals+rival, q, start, r) })
				if !last.Final() {
					t.Errorf("%s never came to an end: %v", q.key, last)
				}
			})
		}
	}
	all.Wait()
	h.check(t)
	w.judge.once(t, keys)
}
