package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

const (
	secondName = "second"
	// declined is what the first provider has no money for, and the second has.
	declined = "pm_card_insufficient_funds"
)

// otherwise is a provider that answers otherwise than the first for one payment method.
type otherwise struct{ psp.Provider }

func (p otherwise) Charge(ctx context.Context, c psp.Call) psp.Result {
	c.Source = strings.Replace(c.Source, declined, "pm_card_visa", 1)
	return p.Provider.Charge(ctx, c)
}

func namedProvider(name, url string) (*httpjson.Provider, error) {
	return httpjson.New(httpjson.Config{
		Name: name, BaseURL: url, Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
	})
}

// addSecond gives a cluster a second provider, which tries what the first has declined.
func addSecond(c *node.ClusterConfig, url string) error {
	p, err := namedProvider(secondName, url)
	if err != nil {
		return err
	}
	c.Providers = append(c.Providers, otherwise{p})
	c.Failover = map[string]payment.Failover{c.Providers[0].Name(): {To: secondName, Codes: []string{"insufficient_funds"}}}
	return nil
}

// onBoth asserts that money moved once for each object, over both providers together.
func onBoth(t *testing.T, first, second *judge, objects map[string]bool) {
	t.Helper()
	moved := map[string]int{}
	for _, j := range []*judge{first, second} {
		for _, e := range j.Effects() {
			moved[e.Reference]++
		}
		require.Zero(t, j.Stats().DuplicateEffects)
		require.Zero(t, j.Stats().KeyReuses)
	}
	for object, n := range moved {
		require.LessOrEqual(t, n, 1, "%s: moved over both providers together", object)
	}
	for object := range objects {
		require.Equal(t, 1, moved[object], object)
	}
	require.Len(t, moved, len(objects))
	keys := map[string]bool{}
	for _, j := range []*judge{first, second} {
		for _, e := range j.Effects() {
			require.False(t, keys[e.ProviderKey], "one provider key at two providers")
			keys[e.ProviderKey] = true
		}
	}
}

// TestCrashOnTheWayToAnotherProvider kills the process at each step of a payment's way from
// a provider that declined it to the next.
func TestCrashOnTheWayToAnotherProvider(t *testing.T) {
	for i, die := range []point{moving, arrived, takenOver, answered, settled} {
		if testing.Short() && i%2 != 1 {
			continue
		}
		t.Run(string(die), func(t *testing.T) {
			t.Parallel()
			var all []way
			for _, w := range ways(t, "") {
				if strings.HasPrefix(w.name, "charge") {
					w.q.body = strings.Replace(w.q.body, "pm_card_visa", declined, 1)
					all = append(all, w)
				}
			}
			r, second := newCrashRun(t, all), newJudge(t)
			dying := r.start(childConfig{Die: die, Arrivals: int32(len(all)), Second: second.url})
			replies := r.sendAll(r.ctx)
			dying.died()
			r.unanswered(replies)
			r.judge.once(t, 0)
			if die == moving || die == arrived || die == takenOver {
				second.once(t, 0)
			} else {
				second.once(t, len(all))
			}
			r.start(childConfig{Second: second.url})
			objects := map[string]bool{}
			for _, w := range all {
				got := r.settle(r.ctx, w.replays[1], w.q, nil)
				require.Equal(t, http.StatusCreated, got.Status, "%s: %s", w.name, got.Body)
				require.Contains(t, string(got.Body), `"provider":{"name":"second"`)
				for _, region := range regions {
					again := r.send(r.ctx, region, w.q)
					require.NoError(t, again.Err)
					require.Equal(t, got.Remembered(), again.Remembered(), w.name)
				}
				objects[objectID(t, got)] = true
			}
			require.Len(t, objects, len(all))
			onBoth(t, r.judge, second, objects)
			r.judge.once(t, 0)
		})
	}
}

// TestStormOverTwoProviders has many clients ask for payments, of which the first provider
// declines half, while both fail and cut replies and the process is killed twice. Whatever
// the merchants see, no money moves twice over both together.
func TestStormOverTwoProviders(t *testing.T) {
	if testing.Short() {
		t.Skip("TestStorm storms at one provider")
	}
	t.Parallel()
	const clients, keys = 24, 160
	rows, first, second := newBackend(t), newJudge(t), newJudge(t)
	for i, j := range []*judge{first, second} {
		require.NoError(t, j.SetFaults(simulator.Faults{
			Latency: 2 * time.Millisecond, Jitter: 6 * time.Millisecond,
			ErrorBefore: 0.05, ErrorAfter: 0.05, DropReply: 0.05, Seed: uint64(stormSeed + i),
		}))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	defer cancel()
	port := ports(t)
	c := childConfig{Dir: t.TempDir(), PSP: first.url, Second: second.url, backend: rows, Port: port}
	call := newCaller(t, demoBases(port))
	process := startChild(t, c)

	rng := rand.New(rand.NewPCG(stormSeed, 2))
	queue := make(chan request, keys)
	for i := range keys {
		q := charge(fmt.Sprintf("order-%d", i), 1000+i)
		if rng.IntN(2) == 0 {
			q.body = strings.Replace(q.body, "pm_card_visa", declined, 1)
		}
		queue <- q
	}
	close(queue)
	type ended struct {
		q request
		*answer.Answer
	}
	through := make(chan ended, keys)
	var working sync.WaitGroup
	for i := range clients {
		working.Go(func() {
			for q := range queue {
				through <- ended{q, call.settle(ctx, regions[i%len(regions)], q, nil)}
			}
		})
	}
	objects, at := map[string]bool{}, map[string]int{}
	for n := 1; n <= keys; n++ {
		got := receive(t, "the end of a request", through)
		require.NoError(t, got.Err)
		// What the second has never answered is its merchant's to try again.
		require.Equal(t, http.StatusCreated, got.Status, "%s", got.Body)
		objects[objectID(t, got.Answer)] = true
		for _, name := range []string{judged, secondName} {
			if strings.Contains(string(got.Body), `"provider":{"name":"`+name+`"`) {
				at[name]++
			}
		}
		if n == keys/3 || n == 2*keys/3 {
			process.kill()
			process = startChild(t, c)
		}
	}
	working.Wait()
	onBoth(t, first, second, objects)
	require.Positive(t, at[judged])
	require.Positive(t, at[secondName], "the second has tried some")
}
