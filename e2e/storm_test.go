package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// stormSize is the storm's size: twins are groups of equal requests with a card without funds, givenUp
// are keys that are canceled beside their requests, and the process is suspended once for suspended.
type stormSize struct {
	clients, keys, kills, twins, givenUp int
	suspended                            time.Duration
}

// stormSeed makes the requests the same in every run; their timing never is.
const stormSeed = 20260

// TestStorm runs the command itself, or a cluster on the SQL store, under many
// clients, a provider that fails, two SIGKILLs and a SIGSTOP, and then counts the
// money.
//
// Among the keys are groups of twins: equal requests, sent at once, that are declined for now. They
// share one decline. A group without retries or delayed requests has made no second generation.
// Other keys are canceled beside their requests: all of those read one answer, and what moved is
// returned.
//
// It has the machine to itself: beside it, tests of distances and cuts would measure its load.
func TestStorm(t *testing.T) {
	// The leases of the quick policy last a second: either pause ends all trust.
	size := stormSize{clients: 200, keys: 4_000, kills: 2, twins: 80, givenUp: 120, suspended: 30 * time.Second}
	if testing.Short() {
		size = stormSize{clients: 50, keys: 400, kills: 2, twins: 8, givenUp: 24, suspended: 2 * time.Second}
	}
	s := newStorm(t, size)
	s.run()
	s.judgement()
	s.print()
	s.check()
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
	last   *answer.Answer
}

type storm struct {
	t       *testing.T
	ctx     context.Context
	size    stormSize
	judge   *judge
	keys    []*stormKey
	twins   []*stormTwins
	givenUp []*stormGivenUp
	history history
	start   func() stormProcess // and wait until it is ready
	caller  *caller
	took    time.Duration

	requests, retries, softs, mismatches, inUse atomic.Int64
	none                                        atomic.Int64
	latest                                      atomic.Pointer[answer.Answer]
	mu                                          sync.Mutex
	unavailable                                 map[string]int // 503s by error
	kills                                       int
	suspensions                                 int
	counts                                      counts
}

func newStorm(t *testing.T, size stormSize) *storm {
	rows := newBackend(t)
	j := newJudge(t)
	require.NoError(t, j.SetFaults(simulator.Faults{
		Latency: 2 * time.Millisecond, Jitter: 8 * time.Millisecond,
		ErrorBefore: 0.04, ErrorAfter: 0.03, DropReply: 0.03, Seed: stormSeed,
	}))
	port := ports(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*patience)
	t.Cleanup(cancel)
	s := &storm{
		t: t, ctx: ctx, size: size, judge: j, unavailable: map[string]int{},
		keys: stormKeys(t, size.keys), caller: newCaller(t, demoBases(port)),
	}
	for i := range size.twins {
		s.twins = append(s.twins, newTwins(t, i))
	}
	for i := range size.givenUp {
		s.givenUp = append(s.givenUp, newGivenUp(t, i))
	}
	dir := t.TempDir()
	if onSQL() {
		c := childConfig{Dir: dir, PSP: j.url, backend: rows, Port: port, WAN: stormDistances}
		s.start = func() stormProcess { return startChild(t, c) }
		return s
	}
	args := []string{"demo", "--config", quickSettings(t), "--psp", j.url, "--data", dir,
		"--listen", fmt.Sprintf("127.0.0.1:%d", port), "--rpc-listen", "127.0.0.1:0", "--wan", stormDistances}
	s.start = func() stormProcess {
		c := runCommand(t, args...)
		c.ready()
		return c
	}
	return s
}

// stormProcess is the cluster in the storm: the command, or, on the SQL store,
// which homeward demo does not use, a child of the test.
type stormProcess interface {
	kill()
	dump()
	end() (dead <-chan struct{}, cmd *exec.Cmd)
}

// stormDistances keep the regions apart, and the storm short.
const stormDistances = "us-east1:europe-west1=4ms,us-east1:asia-northeast1=8ms,europe-west1:asia-northeast1=10ms"

// stormKeys makes the requests. Each key has another amount, so that the judge alone can count how
// often a key was charged.
func stormKeys(t *testing.T, n int) []*stormKey {
	rng := rand.New(rand.NewPCG(stormSeed, 1))
	all := make([]*stormKey, n)
	large := largeMetadata()
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
		tenant := []string{demoAcme, demoGlobex}[rng.IntN(2)]
		q.tenant, changed.tenant = tenant, tenant
		if tenant == demoGlobex && i%4 == 0 {
			// One tenant's bodies are as large as they may be, beside small ones of both.
			for _, r := range []*request{&q, &changed} {
				r.body = strings.TrimSuffix(r.body, "}") + `,"metadata":{` + large + `}}`
			}
		}
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

// run sends everything, kills the process whenever another share of the keys is
// through, and suspends it when half of them are.
func (s *storm) run() {
	process := s.start()
	dead, cmd := process.end()
	start := time.Now()
	all := len(s.keys) + len(s.twins) + len(s.givenUp)
	queue := make(chan func(client int), all)
	for i, k := range s.keys {
		queue <- func(client int) { s.send(client, k) }
		if every := len(s.keys) / max(len(s.twins), 1); i%every == every/2 && i/every < len(s.twins) {
			g := s.twins[i/every]
			queue <- func(int) { s.sendTwins(g) }
		}
		if every := len(s.keys) / max(len(s.givenUp), 1); i%every == every/3 && i/every < len(s.givenUp) {
			g := s.givenUp[i/every]
			queue <- func(int) { s.sendGivenUp(g) }
		}
	}
	close(queue)
	all = len(queue)
	through := make(chan struct{}, all)
	var clients sync.WaitGroup
	for c := range s.size.clients {
		clients.Go(func() {
			for work := range queue {
				work(c)
				through <- struct{}{}
			}
		})
	}
	for n := 1; n <= all; n++ {
		select {
		case <-through:
		case <-dead:
			require.FailNow(s.t, "the process ended by itself", "%v", cmd.ProcessState)
		case <-time.After(patience):
			process.dump()
			require.FailNow(s.t, "the storm does not end", "%d of %d keys are through; the latest answer was %v", n-1, all, s.latest.Load())
		}
		if s.suspensions == 0 && n >= all/2 {
			s.suspend(cmd.Process)
		}
		if s.kills < s.size.kills && n >= (s.kills+1)*all/(s.size.kills+1) {
			s.kills++
			process.kill()
			process = s.start()
			dead, cmd = process.end()
		}
	}
	clients.Wait()
	s.took = time.Since(start)
	require.Equal(s.t, s.size.kills, s.kills)
}

// suspend lets the process stand still, as a machine does that is moved: with calls
// on their way, and claims that others could take over meanwhile.
func (s *storm) suspend(p *os.Process) {
	s.suspensions++
	require.NoError(s.t, p.Signal(syscall.SIGSTOP))
	err := wait(s.ctx, s.size.suspended)
	require.NoError(s.t, errors.Join(err, p.Signal(syscall.SIGCONT)))
}

// stormTwins are equal requests under one key with a card without funds.
type stormTwins struct {
	q      request
	amount int
	// sends counts requests, declines those answered so; each twin ends with one. late
	// are first requests under way for longer than the pause after a decline: in a
	// socket of a suspended process, or on a busy machine, they may have arrived so long
	// after the others' decline that they are new requests.
	sends, declines, late atomic.Int64
	mu                    sync.Mutex
	answers               map[string]int
}

// twinsInAGroup are equal requests at once: more than generations are allowed.
const twinsInAGroup = 24

func newTwins(t *testing.T, i int) *stormTwins {
	key := fmt.Sprintf("twins-%d", i)
	if i%2 == 0 {
		key = stamped(t, regions[i%3])
	}
	g := &stormTwins{amount: 2_000_000 + i, answers: map[string]int{}}
	g.q = charge(key, g.amount)
	g.q.body = strings.Replace(g.q.body, "pm_card_visa", "pm_card_insufficient_funds", 1)
	g.q.tenant = demoAcme
	return g
}

// sendTwins sends a group's requests to all regions at once. Each is sent again
// until it is declined: then it is for a person to try again.
func (s *storm) sendTwins(g *stormTwins) {
	var twins sync.WaitGroup
	for i := range twinsInAGroup {
		twins.Go(func() {
			first := true
			for {
				g.sends.Add(1)
				sent := time.Now()
				r := s.caller.send(s.ctx, regions[i%len(regions)], g.q)
				if first && time.Since(sent) > quick().DeclinePause {
					g.late.Add(1)
				}
				s.count(r, first)
				first = false
				if r.Err == nil && r.Status == http.StatusPaymentRequired {
					g.declines.Add(1)
					g.mu.Lock()
					g.answers[r.Remembered()]++
					g.mu.Unlock()
					return
				}
				if wait(s.ctx, pauseAfter(r)) != nil {
					return
				}
			}
		})
	}
	twins.Wait()
}

// stormGivenUp is a key that is canceled beside its requests.
type stormGivenUp struct {
	q       request
	amount  int
	rivals  int
	after   time.Duration // of the cancellation
	mu      sync.Mutex
	answers map[string]int // final ones
	ended   []canceled     // what the cancellation came to, of each region
}

func newGivenUp(t *testing.T, i int) *stormGivenUp {
	rng := rand.New(rand.NewPCG(stormSeed, uint64(1000+i)))
	key := fmt.Sprintf("given-up-%d", i)
	if i%2 == 0 {
		key = stamped(t, regions[i%3])
	}
	g := &stormGivenUp{
		amount: 3_000_000 + i, rivals: rng.IntN(4), answers: map[string]int{},
		after: []time.Duration{0, time.Duration(rng.IntN(30)) * time.Millisecond, time.Second}[i%3],
	}
	g.q = charge(key, g.amount)
	g.q.tenant = demoAcme
	return g
}

// sendGivenUp sends a key's requests and its cancellation at once, to all regions, and each again until
// it has its end.
func (s *storm) sendGivenUp(g *stormGivenUp) {
	var all sync.WaitGroup
	for i := range g.rivals {
		all.Go(func() {
			r := s.caller.settle(s.ctx, regions[(g.amount+i)%len(regions)], g.q, func(_ time.Time, r *answer.Answer) { s.count(r, true) })
			g.mu.Lock()
			defer g.mu.Unlock()
			g.answers[r.Remembered()]++
		})
	}
	all.Go(func() {
		_ = wait(s.ctx, g.after)
		for _, region := range regions {
			is := s.caller.gaveUpAny(s.ctx, region, g.q)
			g.ended = append(g.ended, is)
		}
	})
	all.Wait()
}

// wrong is why the end of a key that was given up is none of the promised ones, "" if it is one. moved
// and back are how often its charge moved, and was returned.
func (g *stormGivenUp) wrong(moved, back int) string {
	for _, is := range g.ended {
		paid := is.Outcome == "refunded"
		if is != g.ended[0] || !paid && is.Outcome != "unused" && is.Outcome != "not_made" || paid != (moved == 1) {
			return fmt.Sprintf("%+v", g.ended)
		}
	}
	switch {
	case len(g.ended) != len(regions), moved > 1, back != moved, len(g.answers) > 1:
		return fmt.Sprintf("%+v, %v", g.ended, g.answers)
	}
	for text := range g.answers {
		if !strings.HasPrefix(text, "410|") && (moved == 0 || !strings.HasPrefix(text, "201|")) {
			return text
		}
	}
	return ""
}

// send sends all of a key's requests at once and retries each after Retry-After.
func (s *storm) send(client int, k *stormKey) {
	var rivals sync.WaitGroup
	for i := range k.sends {
		one := &k.sends[i]
		rivals.Go(func() {
			first := true
			one.last = s.caller.settle(s.ctx, one.region, one.q, func(start time.Time, r *answer.Answer) {
				s.history.add(client, one.q, start, r)
				s.count(r, first)
				first = false
			})
		})
	}
	rivals.Wait()
}

func (s *storm) count(r *answer.Answer, first bool) {
	s.latest.Store(r)
	s.requests.Add(1)
	if !first {
		s.retries.Add(1)
	}
	switch {
	case r.Err != nil:
		s.none.Add(1)
	case r.Status == http.StatusUnprocessableEntity:
		s.mismatches.Add(1)
	case r.Status == http.StatusConflict:
		s.inUse.Add(1)
	case r.Status == http.StatusPaymentRequired && !r.Final():
		s.softs.Add(1)
	case r.Status == http.StatusServiceUnavailable:
		s.mu.Lock()
		s.unavailable[r.Problem.Error]++
		s.mu.Unlock()
	}
}

// counts are what was promised, and what broken promises would look like.
type counts struct {
	completed, declined int

	unanswered  int // requests that never got a final answer
	twoRequests int // keys that answered two different requests
	differing   int // answers that differ from the first one to the same request
	unrefused   int // changed bodies that were not refused with 422
	inFlight    int // keys still in flight long after the last lease
	wrongState  int // keys with a state that does not fit their callers' answers
	miscounted  int // keys for which money moved too often or not at all

	canceled int // charges of keys that were given up, and that moved
	kept     int // keys that were given up and have another end than those promised

	undeclined  int // twins that were not declined, or for which money moved
	generations int // tries of twins that none of them made by itself
}

// judgement compares the callers' answers, the API's state of each key, and what the simulator saw.
func (s *storm) judgement() {
	v := &s.counts
	moved, back := map[int64]int{}, map[int64]int{} // by amount, which is the key's own
	byReference := map[string]int{}
	for _, e := range s.judge.Effects() {
		if e.Kind == psp.KindRefund {
			back[e.Amount]++
			continue
		}
		moved[e.Amount]++
		byReference[e.Reference]++
	}
	for _, g := range s.givenUp {
		n := moved[int64(g.amount)]
		v.canceled += n
		if wrong := g.wrong(n, back[int64(g.amount)]); wrong != "" {
			v.kept++
			s.t.Errorf("%s was given up, moved %d times and back %d times: %s", g.q.key, n, back[int64(g.amount)], wrong)
		}
	}
	for _, g := range s.twins {
		v.undeclined += twinsInAGroup - int(g.declines.Load()) + moved[int64(g.amount)]
		if len(g.answers) != 1 {
			v.differing++
		}
		// Who is sent again, or held up, may begin after the decline, and then tries again.
		v.generations += max(0, s.reclaimed(g)-(int(g.sends.Load())-twinsInAGroup)-int(g.late.Load()))
	}
	statuses := s.settledStatuses()
	for i, k := range s.keys {
		var winner *stormSend
		for n := range k.sends {
			one := &k.sends[n]
			switch {
			case !one.last.Final():
				v.unanswered++
			case one.last.Status == http.StatusUnprocessableEntity:
			case winner == nil:
				winner = one
			case winner.q.body != one.q.body:
				v.twoRequests++
			case winner.last.Remembered() != one.last.Remembered():
				v.differing++
			}
		}
		if winner == nil {
			v.unanswered++
			continue
		}
		for _, one := range k.sends {
			if one.q.body != winner.q.body && one.last.Status != http.StatusUnprocessableEntity {
				v.unrefused++
			}
		}
		status := statuses[i]
		plain, changed := moved[int64(stormAmount(i, false))], moved[int64(stormAmount(i, true))]
		switch {
		case status.State == "IN_FLIGHT":
			v.inFlight++
		case k.hard && status.State == "FAILED_TERMINAL" && winner.last.Status == http.StatusPaymentRequired:
			v.declined++
			if plain+changed != 0 {
				v.miscounted++
			}
		case !k.hard && status.State == "COMPLETED" && winner.last.Status == http.StatusCreated && objectID(s.t, winner.last) == status.Object:
			v.completed++
			if winner.q.amount(s.t) == stormAmount(i, true) {
				plain, changed = changed, plain
			}
			if plain != 1 || changed != 0 || byReference[status.Object] != 1 {
				v.miscounted++
			}
		default:
			v.wrongState++
		}
	}
}

// reclaimed is how often a group's claim began another generation.
func (s *storm) reclaimed(g *stormTwins) (n int) {
	status, err := s.caller.inspect(s.ctx, us, g.q.tenant, g.q.key)
	require.NoError(s.t, err)
	for _, e := range status.Timeline {
		if e.Event == string(claim.EventReclaimed) {
			n++
		}
	}
	return n
}

// check asserts that no promise was broken.
func (s *storm) check() {
	want := counts{completed: s.counts.completed, declined: len(s.keys) - s.counts.completed, canceled: s.counts.canceled}
	require.Equal(s.t, want, s.counts)
	require.NotZero(s.t, s.counts.completed)
	require.NotZero(s.t, s.counts.declined)
	require.NotZero(s.t, s.counts.canceled)
	require.Less(s.t, s.counts.canceled, len(s.givenUp), "some are given up before they move")
	require.Equal(s.t, 1, s.suspensions)
	s.judge.once(s.t, s.counts.completed+2*s.counts.canceled)
	s.history.check(s.t)
}

// settledStatuses reads every key's state, as many at a time as there are
// clients: until nothing is in flight under it, or far more time has passed than
// all leases together.
func (s *storm) settledStatuses() []keyStatus {
	statuses, errs := make([]keyStatus, len(s.keys)), make([]error, len(s.keys))
	next := make(chan int, len(s.keys))
	for i := range s.keys {
		next <- i
	}
	close(next)
	deadline := time.Now().Add(patience)
	var readers sync.WaitGroup
	for range s.size.clients {
		readers.Go(func() {
			for i := range next {
				statuses[i], errs[i] = s.settledStatus(s.keys[i], deadline)
			}
		})
	}
	readers.Wait()
	require.NoError(s.t, errors.Join(errs...))
	return statuses
}

func (s *storm) settledStatus(k *stormKey, deadline time.Time) (keyStatus, error) {
	for {
		status, err := s.caller.inspect(s.ctx, k.sends[0].region, k.sends[0].q.tenant, k.key)
		if err != nil || status.State != "IN_FLIGHT" || time.Now().After(deadline) {
			return status, err
		}
		if err := wait(s.ctx, 20*time.Millisecond); err != nil {
			return status, err
		}
	}
}

// print shows the figures.
func (s *storm) print() {
	stats := s.judge.Stats()
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { _, _ = fmt.Fprintf(w, "%s\t%v\n", name, value) }
	row("store", testStore())
	row("clients", s.size.clients)
	row("keys", s.size.keys)
	row("requests", s.requests.Load())
	row("  of them retries", s.retries.Load())
	row("kills (SIGKILL)", s.kills)
	row("suspended (SIGSTOP)", s.size.suspended)
	sends, tries, late := 0, 0, 0
	for _, g := range s.twins {
		sends += int(g.sends.Load())
		late += int(g.late.Load())
		tries += 1 + s.reclaimed(g)
	}
	row("keys with twins", len(s.twins))
	row("  equal requests at once", twinsInAGroup*len(s.twins))
	row("  of them sent again", sends-twinsInAGroup*len(s.twins))
	row("  of them held up", late)
	row("  generations", tries)
	row("  generations of no twin", s.counts.generations)
	row("  not declined, or charged", s.counts.undeclined)
	row("keys given up", len(s.givenUp))
	row("  charged, and refunded", s.counts.canceled)
	row("  with another end", s.counts.kept)
	row("keys completed", s.counts.completed)
	row("keys declined for good", s.counts.declined)
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
	row("keys charged wrongly", s.counts.miscounted)
	row("replays that differed", s.counts.differing)
	row("changed bodies not refused", s.counts.unrefused+s.counts.twoRequests)
	row("requests never answered", s.counts.unanswered)
	row("left in flight", s.counts.inFlight)
	row("time", s.took.Round(time.Millisecond))
	row("requests per second", int(float64(s.requests.Load())/s.took.Seconds()))
	_ = w.Flush()
	s.t.Logf("\n%s", &out)
}
