package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// way is one request on its way when the process dies: what moves the money, how
// the key finds its home, where it arrives and where it is tried again.
type way struct {
	name    string
	q       request
	entry   string
	home    string // "" when nothing durable may have fixed it before the death
	replays [2]string
}

// ways are charges and transfers, stamped and opaque keys, at home, forwarded,
// and pinned by a registrar here and elsewhere.
func ways(t testing.TB, filler string) []way {
	var all []way
	for i, make := range []func(key string, amount int) request{charge, transfer} {
		kind := [...]string{"charge", "transfer"}[i]
		add := func(name, key, entry, home, other string) {
			q := make(key, 1000+len(all))
			if filler != "" {
				q.body = strings.TrimSuffix(q.body, "}") + `,"metadata":{` + filler + `}}`
			}
			all = append(all, way{kind + ", " + name, q, entry, home, [2]string{entry, other}})
		}
		add("stamped, at home", stamped(t, us), us, us, asia)
		add("stamped, forwarded", stamped(t, asia), eu, asia, us)
		add("opaque, pinned here", "order-1-"+kind, us, us, eu)
		add("opaque, pinned elsewhere", "order-2-"+kind, eu, eu, asia)
	}
	return all
}

func onlyOpaque(all []way) []way {
	var some []way
	for _, w := range all {
		if strings.Contains(w.name, "opaque") {
			some = append(some, w)
		}
	}
	return some
}

// crashRun is one test's requests, before and after the death.
type crashRun struct {
	t     *testing.T
	ctx   context.Context
	judge *judge
	dir   string
	rows  backend
	ways  []way
	*caller
}

func newCrashRun(t *testing.T, ways []way) *crashRun {
	rows := newBackend(t)
	rows.Policy.InlineBody = smallRow
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(cancel)
	return &crashRun{t: t, ctx: ctx, judge: newJudge(t), dir: t.TempDir(), rows: rows, ways: ways, caller: newCaller(t, nil)}
}

// start starts the cluster on the run's directory and database.
func (r *crashRun) start(c childConfig) *child {
	r.t.Helper()
	c.Dir, c.PSP, c.backend = r.dir, r.judge.url, r.rows
	p := startChild(r.t, c)
	r.move(p.bases)
	return p
}

// sendAll sends every request. Where a loaded machine lets a lease run out on the way it retries
// after Retry-After, so that all of them reach the point of death. How each ends, cut off or
// answered for good, arrives on the channel.
func (r *crashRun) sendAll(ctx context.Context) <-chan *answer.Answer {
	replies := make(chan *answer.Answer, len(r.ways))
	for _, w := range r.ways {
		go func() { replies <- r.sendOn(ctx, w.entry, w.q) }()
	}
	return replies
}

// sendOn sends a request until it is answered for good, or cut off.
func (r *crashRun) sendOn(ctx context.Context, region string, q request) *answer.Answer {
	for {
		got := r.send(ctx, region, q)
		if got.Err != nil || got.Final() || wait(ctx, pauseAfter(got)) != nil {
			return got
		}
	}
}

// unanswered asserts that the death cut every request off.
func (r *crashRun) unanswered(replies <-chan *answer.Answer) {
	r.t.Helper()
	for range r.ways {
		got := receive(r.t, "the end of a request that was cut off", replies)
		require.Error(r.t, got.Err, "answered by a dead process: %v", got)
	}
}

// recover retries every request, from its own region and from another one at
// once, and then checks all that is promised.
func (r *crashRun) recover() {
	r.t.Helper()
	type replay struct {
		way int
		*answer.Answer
	}
	replays := make(chan replay)
	for i, w := range r.ways {
		for _, region := range w.replays {
			go func() { replays <- replay{i, r.settle(r.ctx, region, w.q, nil)} }()
		}
	}
	first := make([]*answer.Answer, len(r.ways))
	for range 2 * len(r.ways) {
		a := <-replays
		w := r.ways[a.way]
		require.NoError(r.t, a.Err, w.name)
		require.Equal(r.t, http.StatusCreated, a.Status, "%s: %s", w.name, a.Body)
		if first[a.way] == nil {
			first[a.way] = a.Answer
		}
		require.Equal(r.t, first[a.way].Remembered(), a.Remembered(), w.name)
	}
	for i, w := range r.ways {
		status, err := r.inspect(r.ctx, w.replays[1], w.q.tenant, w.q.key)
		require.NoError(r.t, err, w.name)
		require.Equal(r.t, "COMPLETED", status.State, w.name)
		require.Equal(r.t, objectID(r.t, first[i]), status.Object, w.name)
		if w.home != "" {
			require.Equal(r.t, w.home, status.HomeRegion, w.name)
		}
		for _, region := range regions {
			again := r.send(r.ctx, region, w.q)
			require.NoError(r.t, again.Err, w.name)
			require.Equal(r.t, first[i].Remembered(), again.Remembered(), w.name)
			require.Equal(r.t, "true", again.Header.Get("Idempotent-Replayed"), w.name)
		}
		require.Equal(r.t, 1, r.judge.moved(objectID(r.t, first[i])), w.name)
	}
	r.judge.once(r.t, len(r.ways))
	require.EqualValues(r.t, len(r.ways), r.judge.Summary().Keys, "the provider saw one key for each request")
}

// TestCrashPoints kills the process with SIGKILL at each point at which a death
// leaves something else behind.
func TestCrashPoints(t *testing.T) {
	large := largeMetadata() // the response does not fit its row
	for _, tc := range []struct {
		name    string
		die     point
		opaque  bool // only keys that need a pin come this way
		filler  string
		effects bool // money has moved by the time of death
		homes   bool // the home is fixed by then
	}{
		{name: "A before anything is durable", die: beforeWrite},
		// The embedded store syncs a pin together with the claim made under it, so
		// a death in between may lose the pin, and the key finds a home anew. A
		// database has committed it.
		{name: "A' after the pin, before Begin", die: pinned, opaque: true, homes: onSQL()},
		{name: "B after Begin, before the provider is called", die: begun, homes: true},
		{name: "D the provider answered, before Settle", die: answered, effects: true, homes: true},
		{name: "D' the large response is in the object store, before Settle", die: answered, filler: large, effects: true, homes: true},
		{name: "E after Settle, before the reply", die: settled, effects: true, homes: true},
		{name: "E' after Settle of a large response", die: settled, filler: large, effects: true, homes: true},
	} {
		if testing.Short() && (tc.opaque || tc.filler != "") {
			continue // the letters without a stroke
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			all := ways(t, tc.filler)
			if tc.opaque {
				all = onlyOpaque(all)
			}
			if !tc.homes {
				for i := range all {
					if strings.Contains(all[i].name, "opaque") {
						all[i].home = ""
					}
				}
			}
			r := newCrashRun(t, all)
			dying := r.start(childConfig{Die: tc.die, Arrivals: int32(len(all))})
			replies := r.sendAll(r.ctx)
			dying.died()
			r.unanswered(replies)
			moved := 0
			if tc.effects {
				moved = len(all)
			}
			r.judge.once(t, moved)
			if tc.filler != "" {
				objects, err := os.ReadDir(filepath.Join(r.dir, "objects"))
				require.NoError(t, err)
				require.Len(t, objects, len(all), "each large body is in the object store")
			}
			r.start(childConfig{})
			r.recover()
		})
	}
}

// TestCrashDuringTheCall is point C: the process dies while the provider works
// on the call. The call is carried out before the retry's, or arrives after it.
func TestCrashDuringTheCall(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late=%v", late), func(t *testing.T) {
			t.Parallel()
			r := newCrashRun(t, ways(t, ""))
			dying := r.start(childConfig{})
			g := r.judge.hold(t)
			decided := make(chan psp.Call, len(r.ways))
			replies := r.sendAll(r.ctx)
			for range r.ways {
				receive(t, "the provider call", g.entered)
			}
			dying.kill()
			r.unanswered(replies)
			r.judge.once(t, 0)
			r.judge.SetHooks(simulator.Hooks{After: func(_ context.Context, call psp.Call) { decided <- call }})
			if late {
				r.judge.SetHooks(simulator.Hooks{})
				r.start(childConfig{})
				r.recover()
				r.judge.SetHooks(simulator.Hooks{After: func(_ context.Context, call psp.Call) { decided <- call }})
			}
			g.release()
			for range r.ways {
				receive(t, "the decision on the first process's call", decided)
			}
			r.judge.once(t, len(r.ways))
			if !late {
				r.judge.SetHooks(simulator.Hooks{})
				r.start(childConfig{})
				r.recover()
			}
		})
	}
}

// TestCrashInRecovery kills the process a second time, in the hands of whoever
// recovers the first death: the outbox worker, or a retry that took over.
func TestCrashInRecovery(t *testing.T) {
	for i, tc := range []struct {
		name    string
		first   point
		second  point
		retries bool // the retry recovers, not the worker
	}{
		{"worker, after its take", begun, taken, false},
		{"worker, after its TakeOver", begun, takenOver, false},
		{"worker, before its Settle", begun, answered, false},
		{"worker, before its Settle of a call made before", answered, answered, false},
		{"worker, after its Settle", begun, settled, false},
		{"retry, after it took over", begun, retaken, true},
	} {
		if testing.Short() && i%3 != 2 {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newCrashRun(t, ways(t, ""))
			dying := r.start(childConfig{Die: tc.first, Arrivals: int32(len(r.ways))})
			replies := r.sendAll(r.ctx)
			dying.died()
			r.unanswered(replies)

			dying = r.start(childConfig{Die: tc.second, Arrivals: 1, NoWorker: tc.retries})
			if tc.retries {
				ctx, cancel := context.WithCancel(r.ctx)
				done := make(chan struct{}, len(r.ways))
				for _, w := range r.ways {
					go func() {
						r.settle(ctx, w.entry, w.q, nil)
						done <- struct{}{}
					}()
				}
				dying.died()
				cancel()
				for range r.ways {
					<-done
				}
			} else {
				dying.died()
			}
			r.start(childConfig{})
			r.recover()
		})
	}
}

// TestRecoveryWithoutRetries sends no retry, and yet each claim ends, also when the worker that took
// it over dies as well.
func TestRecoveryWithoutRetries(t *testing.T) {
	for i, worker := range []point{"", taken, takenOver, answered} {
		if testing.Short() && i%2 != 0 {
			continue
		}
		t.Run(cmp.Or(string(worker), "the first death is the only one"), func(t *testing.T) {
			t.Parallel()
			r := newCrashRun(t, ways(t, ""))
			dying := r.start(childConfig{Die: begun, Arrivals: int32(len(r.ways))})
			replies := r.sendAll(r.ctx)
			dying.died()
			r.unanswered(replies)
			if worker != "" {
				r.start(childConfig{Die: worker, Arrivals: 1}).died()
			}
			r.start(childConfig{})
			until(t, "the worker has completed every claim", func() bool {
				for _, w := range r.ways {
					status, err := r.inspect(r.ctx, w.entry, w.q.tenant, w.q.key)
					if err != nil || status.State != "COMPLETED" {
						return false
					}
				}
				return true
			})
			r.judge.once(t, len(r.ways))
			r.recover()
		})
	}
}
