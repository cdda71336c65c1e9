package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// stormEnv chooses the long storm, which make storm runs and whose figures it
// shows.
const stormEnv = "HOMEWARD_STORM"

type stormSize struct{ clients, keys, kills int }

// stormSeed makes the requests the same in every run; their timing never is.
const stormSeed = 20260

// TestStorm runs the command itself under many clients, a provider that fails
// and two SIGKILLs, and then counts the money.
func TestStorm(t *testing.T) {
	size := stormSize{clients: 50, keys: 400, kills: 2}
	if os.Getenv(stormEnv) == "long" {
		size = stormSize{clients: 200, keys: 10_000, kills: 2}
	} else {
		t.Parallel()
	}
	s := newStorm(t, size)
	s.run()
	s.check()
	s.print()
}

// stormKey is one key and everything that is sent under it.
type stormKey struct {
	key   string
	sends []stormSend
	hard  bool // the card is stolen
}

type stormSend struct {
	region string
	q      request
	last   *reply
}

type storm struct {
	t       *testing.T
	ctx     context.Context
	size    stormSize
	judge   *judge
	keys    []*stormKey
	history history
	args    []string
	caller  *caller
	took    time.Duration

	requests, retries, softs, mismatches, inUse atomic.Int64
	none                                        atomic.Int64
	mu                                          sync.Mutex
	unavailable                                 map[string]int // 503s by error
	kills                                       int
	completed, declined                         int
	leftInFlight                                time.Duration
}

func newStorm(t *testing.T, size stormSize) *storm {
	j := newJudge(t)
	require.NoError(t, j.SetFaults(simulator.Faults{
		Latency: 2 * time.Millisecond, Jitter: 8 * time.Millisecond,
		ErrorBefore: 0.04, ErrorAfter: 0.03, DropReply: 0.03, Seed: stormSeed,
	}))
	port := ports(t, len(regions))
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(cancel)
	return &storm{
		t: t, ctx: ctx, size: size, judge: j, unavailable: map[string]int{},
		keys: stormKeys(t, size.keys), caller: newCaller(t, demoBases(port)),
		args: []string{"demo", "--config", quickSettings(t), "--psp", j.url, "--data", t.TempDir(),
			"--listen", fmt.Sprintf("127.0.0.1:%d", port), "--wan", stormDistances},
	}
}

// stormDistances keep the regions apart, and the storm short.
const stormDistances = "us-east1:europe-west1=4ms,us-east1:asia-northeast1=8ms,europe-west1:asia-northeast1=10ms"

// stormKeys makes the requests. Each key's amount is its own, so that the judge
// alone can tell how often a key was charged.
func stormKeys(t *testing.T, n int) []*stormKey {
	rng := rand.New(rand.NewPCG(stormSeed, 1))
	all := make([]*stormKey, n)
	for i := range all {
		k := &stormKey{key: fmt.Sprintf("order-%d", i)}
		if rng.IntN(2) == 0 {
			k.key = stamped(t, regions[rng.IntN(3)])
		}
		q := charge(k.key, stormAmount(i, false))
		changed := charge(k.key, stormAmount(i, true))
		switch p := rng.IntN(100); {
		case p < 15:
			q.body = strings.Replace(q.body, "pm_card_visa", "pm_card_insufficient_funds_once", 1)
		case p < 22:
			k.hard = true
			q.body = strings.Replace(q.body, "pm_card_visa", "pm_card_stolen", 1)
			changed.body = strings.Replace(changed.body, "pm_card_visa", "pm_card_stolen", 1)
		case p < 45:
			q, changed = transfer(k.key, stormAmount(i, false)), transfer(k.key, stormAmount(i, true))
		}
		tenant := []string{"sk_demo_acme", "sk_demo_globex"}[rng.IntN(2)]
		q.tenant, changed.tenant = tenant, tenant
		mixed := rng.IntN(100) < 15
		for range 1 + rng.IntN(5) {
			one := q
			if mixed && rng.IntN(2) == 0 {
				one = changed
			}
			k.sends = append(k.sends, stormSend{region: regions[rng.IntN(3)], q: one})
		}
		all[i] = k
	}
	return all
}

func stormAmount(i int, changed bool) int {
	if changed {
		return 1_000_000 + i
	}
	return 1_000 + i
}

// run sends everything, and kills the process whenever another share of the
// keys is through.
func (s *storm) run() {
	process := runCommand(s.t, s.args...)
	process.ready()
	start := time.Now()
	queue := make(chan *stormKey, len(s.keys))
	for _, k := range s.keys {
		queue <- k
	}
	close(queue)
	through := make(chan struct{}, len(s.keys))
	var clients sync.WaitGroup
	for c := range s.size.clients {
		clients.Go(func() {
			for k := range queue {
				s.send(c, k)
				through <- struct{}{}
			}
		})
	}
	for n := 1; n <= len(s.keys); n++ {
		select {
		case <-through:
		case <-s.ctx.Done():
			require.FailNow(s.t, "the storm does not end", "%d of %d keys are through", n-1, len(s.keys))
		}
		if s.kills < s.size.kills && n >= (s.kills+1)*len(s.keys)/(s.size.kills+1) {
			s.kills++
			process.kill()
			process = runCommand(s.t, s.args...)
			process.ready()
		}
	}
	clients.Wait()
	s.took = time.Since(start)
	require.Equal(s.t, s.size.kills, s.kills)
}

// send sends all of a key's requests at once and retries each as told.
func (s *storm) send(client int, k *stormKey) {
	var rivals sync.WaitGroup
	for i := range k.sends {
		one := &k.sends[i]
		rivals.Go(func() {
			first := true
			one.last = s.caller.settle(s.ctx, one.region, one.q, func(start time.Time, r *reply) {
				s.history.add(client, one.q, start, r)
				s.count(r, first)
				first = false
			})
		})
	}
	rivals.Wait()
}

func (s *storm) count(r *reply, first bool) {
	s.requests.Add(1)
	if !first {
		s.retries.Add(1)
	}
	switch {
	case r.err != nil:
		s.none.Add(1)
	case r.status == http.StatusUnprocessableEntity:
		s.mismatches.Add(1)
	case r.status == http.StatusConflict:
		s.inUse.Add(1)
	case r.status == http.StatusPaymentRequired && !r.final():
		s.softs.Add(1)
	case r.status == http.StatusServiceUnavailable:
		s.mu.Lock()
		s.unavailable[r.problem.Error]++
		s.mu.Unlock()
	}
}

// check asserts the promises: by what the callers were told, by what the API
// says of each key, and by what the judge saw.
func (s *storm) check() {
	t := s.t
	settledSince := time.Now()
	moved, references := map[int64]int{}, map[string]int{}
	for i, k := range s.keys {
		winner, answer := "", ""
		for _, one := range k.sends {
			require.True(t, one.last.final(), "%s: never answered for good: %v", k.key, one.last)
			if one.last.status == http.StatusUnprocessableEntity {
				continue
			}
			require.Contains(t, []int{http.StatusCreated, http.StatusPaymentRequired}, one.last.status, "%s: %v", k.key, one.last)
			if winner == "" {
				winner, answer = one.q.body, one.last.remembered()
			}
			require.Equal(t, winner, one.q.body, "%s: two different requests were answered", k.key)
			require.Equal(t, answer, one.last.remembered(), "%s: two different answers", k.key)
			require.Equal(t, k.hard, one.last.status == http.StatusPaymentRequired, "%s: %v", k.key, one.last)
		}
		require.NotEmpty(t, winner, "%s: nobody was answered", k.key)
		for _, one := range k.sends {
			if one.q.body != winner {
				require.Equal(t, http.StatusUnprocessableEntity, one.last.status, "%s: a changed body: %v", k.key, one.last)
			}
		}
		status := s.settledStatus(k)
		if k.hard {
			require.Equal(t, "FAILED_TERMINAL", status.State, k.key)
			s.declined++
			continue
		}
		require.Equal(t, "COMPLETED", status.State, k.key)
		s.completed++
		require.Contains(t, answer, status.Object, "the answer is about the key's object")
		references[status.Object]++
		if strings.Contains(winner, fmt.Sprintf(`"amount":%d,`, stormAmount(i, true))) {
			moved[int64(stormAmount(i, true))]++
		} else {
			moved[int64(stormAmount(i, false))]++
		}
	}
	s.leftInFlight = time.Since(settledSince)
	for _, e := range s.judge.Effects() {
		moved[e.Amount]--
		references[e.Reference]--
	}
	for amount, n := range moved {
		require.Zero(t, n, "movements of %d, too few or too many", amount)
	}
	for reference, n := range references {
		require.Zero(t, n, "movements for %s, too few or too many", reference)
	}
	s.judge.once(t, s.completed)
	s.history.check(t)
}

// settledStatus reads a key's state until nothing is in flight under it.
func (s *storm) settledStatus(k *stormKey) (status keyStatus) {
	s.t.Helper()
	until(s.t, k.key+" is settled", func() bool {
		var err error
		status, err = s.caller.inspect(s.ctx, k.sends[0].region, k.sends[0].q.tenant, k.key)
		require.NoError(s.t, err)
		return status.State != "" && status.State != "IN_FLIGHT"
	})
	return status
}

// print shows the figures.
func (s *storm) print() {
	stats := s.judge.Stats()
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { _, _ = fmt.Fprintf(w, "%s\t%v\n", name, value) }
	row("clients", s.size.clients)
	row("keys", s.size.keys)
	row("requests", s.requests.Load())
	row("  of them retries", s.retries.Load())
	row("kills (SIGKILL)", s.kills)
	row("keys completed", s.completed)
	row("keys declined for good", s.declined)
	row("soft declines", s.softs.Load())
	row("422 fingerprint mismatch", s.mismatches.Load())
	row("409 in use", s.inUse.Load())
	for kind, n := range s.unavailable {
		row("503 "+kind, n)
	}
	row("no answer (killed, refused)", s.none.Load())
	row("provider calls", stats.Calls)
	row("provider faults", stats.ErrorsBefore+stats.ErrorsAfter+stats.RepliesDropped)
	row("movements of money", stats.Effects)
	row("duplicates", stats.DuplicateEffects)
	row("replays that differed", 0)
	row("left in flight", 0)
	row("time", s.took.Round(time.Millisecond))
	row("requests per second", int(float64(s.requests.Load())/s.took.Seconds()))
	_ = w.Flush()
	if os.Getenv(stormEnv) == "long" {
		_, _ = io.WriteString(os.Stdout, out.String())
		return
	}
	s.t.Logf("\n%s", &out)
}
