package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// disk loses power at a chosen step: what was not synced is lost, in part or whole, and the cluster
// that ran on it is cut off from store and provider. Its goroutines go on in the test's process,
// but can do nothing any more.
type disk struct {
	fs      *vfs.MemFS
	objects string // the object store has a disk of its own and loses nothing
	share   int    // percent of the unsynced data that survives
	seed    uint64

	dead  atomic.Bool
	once  sync.Once
	clone chan *vfs.MemFS
}

const noDisk = "the disk is the database's own, and its vendor proves what it keeps"

// diskDir is where the store lies on every disk.
const diskDir = "store"

func newDisk(t testing.TB, share int, seed uint64) *disk {
	return &disk{
		fs: vfs.NewCrashableMem(), objects: "file://" + t.TempDir(), share: share, seed: seed,
		clone: make(chan *vfs.MemFS, 1),
	}
}

// crash cuts the power, once. The provider gets nothing more from then on; its movements stay.
func (d *disk) crash() {
	d.once.Do(func() {
		d.dead.Store(true)
		d.clone <- d.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: d.share, RNG: rand.New(rand.NewPCG(d.seed, 3))})
	})
}

// on makes a cluster run on the disk until it dies. apart is that of the points.
func (d *disk) on(c *node.ClusterConfig, apart bool, at func(point)) {
	c.FS, c.Dir, c.Objects = d.fs, diskDir, d.objects
	c.Providers = psp.Providers{&mortalProvider{c.Providers[0], &d.dead}}
	c.WrapStore = func(_ string, s deployment.Store) deployment.Store {
		return &mortalStore{&pointedStore{Store: &mortalStore{s, &d.dead}, at: at, apart: apart}, &d.dead}
	}
}

// mortalStore gives no answer once it is dead. What was under way then may have
// reached the disk after the clone was taken, which the survivors never see.
type mortalStore struct {
	deployment.Store
	dead *atomic.Bool
}

func (s *mortalStore) gone() error {
	if s.dead.Load() {
		return fmt.Errorf("%w: the power is off", claim.ErrUnavailable)
	}
	return nil
}

func mortal[T any](s *mortalStore, do func() (T, error)) (T, error) {
	var none T
	if err := s.gone(); err != nil {
		return none, err
	}
	v, err := do()
	if gone := s.gone(); gone != nil {
		return none, gone
	}
	return v, err
}

func (s *mortalStore) Pin(ctx context.Context, key claim.Key, entry string) (claim.Pin, error) {
	return mortal(s, func() (claim.Pin, error) { return s.Store.Pin(ctx, key, entry) })
}

func (s *mortalStore) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	return mortal(s, func() (claim.Begun, error) { return s.Store.Begin(ctx, a) })
}

func (s *mortalStore) Settle(ctx context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	return mortal(s, func() (claim.Record, error) { return s.Store.Settle(ctx, held, v) })
}

func (s *mortalStore) Renew(ctx context.Context, holder string, leases []claim.Lease) ([]bool, error) {
	return mortal(s, func() ([]bool, error) { return s.Store.Renew(ctx, holder, leases) })
}

func (s *mortalStore) TakeOver(ctx context.Context, key claim.Key, home, object, holder, region string, news claim.News) (claim.Record, error) {
	return mortal(s, func() (claim.Record, error) { return s.Store.TakeOver(ctx, key, home, object, holder, region, news) })
}

func (s *mortalStore) Queue(q outbox.Queue) outbox.Store {
	if q != outbox.ProviderCalls {
		return s.Store.Queue(q)
	}
	return mortalQueue{s.Store.Queue(q), s}
}

type mortalQueue struct {
	outbox.Store
	s *mortalStore
}

func (q mortalQueue) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	if q.s.dead.Load() {
		return nil, nil // the worker asks all the time; nothing is due
	}
	return mortal(q.s, func() ([]outbox.Message, error) { return q.Store.Take(ctx, region, limit, lease) })
}

// mortalProvider makes no call once it is dead.
type mortalProvider struct {
	psp.Provider
	dead *atomic.Bool
}

func (p *mortalProvider) Charge(ctx context.Context, call psp.Call) psp.Result {
	if p.dead.Load() {
		return psp.Result{}
	}
	return p.Provider.Charge(ctx, call)
}

func (p *mortalProvider) Transfer(ctx context.Context, call psp.Call) psp.Result {
	if p.dead.Load() {
		return psp.Result{}
	}
	return p.Provider.Transfer(ctx, call)
}

// survivor starts a cluster on what the disk kept. Its clock has moved past
// every lease, so that recovery starts at once.
func survivor(t *testing.T, d *disk, remains *vfs.MemFS, j *judge) *world {
	clock := &aheadClock{}
	clock.advance(2 * quick().Lease)
	return startWorld(t, j, func(c *node.ClusterConfig) {
		c.FS, c.Dir, c.Objects, c.Clock = remains, diskDir, d.objects, clock.now
	})
}

// TestPowerLoss takes the power away at each point, with none, half and all of
// the unsynced data surviving.
func TestPowerLoss(t *testing.T) {
	embeddedOnly(t, noDisk)
	large := largeMetadata()
	for _, tc := range []struct {
		die    point
		opaque bool
		filler string
	}{
		{die: beforeWrite},
		{die: pinned, opaque: true},
		{die: begun},
		{die: answered},
		{die: answered, filler: large},
		{die: settled},
	} {
		for i, share := range []int{0, 50, 100} {
			if testing.Short() && share != 50 {
				continue
			}
			if tc.filler != "" && share != 0 {
				continue // the object store is what is looked at here
			}
			t.Run(fmt.Sprintf("%s, %d%% kept, %d KiB", tc.die, share, len(tc.filler)>>10), func(t *testing.T) {
				t.Parallel()
				all := ways(t, tc.filler)
				if tc.opaque {
					all = onlyOpaque(all)
				}
				for k := range all {
					if strings.Contains(all[k].name, "opaque") && (tc.die == beforeWrite || tc.die == pinned) {
						all[k].home = ""
					}
				}
				d := newDisk(t, share, uint64(i))
				var arrived atomic.Int32
				down := make(chan struct{})
				doomed := startWorld(t, nil, func(c *node.ClusterConfig) {
					c.Policy.InlineBody = smallRow
					d.on(c, tc.die == pinned, func(p point) {
						if p != tc.die || d.dead.Load() {
							return
						}
						if arrived.Add(1) == int32(len(all)) {
							d.crash()
							close(down)
						}
						<-down
					})
				})
				r := &crashRun{t: t, ctx: doomed.ctx, judge: doomed.judge, ways: all, caller: doomed.caller}
				ctx, hangUp := context.WithCancel(r.ctx)
				replies := r.sendAll(ctx)
				remains := receive(t, "the power loss", d.clone)
				hangUp() // a machine without power answers no merchant
				for range all {
					got := receive(t, "the end of a request", replies)
					require.False(t, got.Final(), "answered for good without power: %v", got)
				}
				w := survivor(t, d, remains, doomed.judge)
				r.caller = w.caller
				r.recover()
			})
		}
	}
}

// TestPowerLossAnywhere takes the power away in the middle of a crowd, at any
// step of any request, and holds the survivors to every answer that was given.
func TestPowerLossAnywhere(t *testing.T) {
	embeddedOnly(t, noDisk)
	const keys = 60
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 11))
			d := newDisk(t, rng.IntN(101), seed)
			var steps atomic.Int32
			steps.Store(int32(20 + rng.IntN(4*keys-40))) // a request takes four to six steps
			doomed := startWorld(t, nil, func(c *node.ClusterConfig) {
				d.on(c, false, func(point) {
					if steps.Add(-1) == 0 {
						d.crash()
					}
				})
			})
			requests := make([]request, keys)
			before := make([]*answer.Answer, keys) // answers given while there was power
			var crowd sync.WaitGroup
			for i := range requests {
				key, region := fmt.Sprint("order-", i), regions[rng.IntN(3)]
				if rng.IntN(2) == 0 {
					key = stamped(t, regions[rng.IntN(3)])
				}
				requests[i] = charge(key, 1000+i)
				crowd.Go(func() {
					r := doomed.send(doomed.ctx, region, requests[i])
					if !d.dead.Load() && r.Final() {
						before[i] = r
					}
				})
			}
			remains := receive(t, "the power loss", d.clone)
			crowd.Wait()

			w := survivor(t, d, remains, doomed.judge)
			after := make([]*answer.Answer, keys)
			for i, q := range requests {
				region := regions[rng.IntN(3)]
				crowd.Go(func() { after[i] = w.settle(w.ctx, region, q, nil) })
			}
			crowd.Wait()
			for i := range requests {
				require.NoError(t, after[i].Err)
				require.Equal(t, http.StatusCreated, after[i].Status, "%s", after[i].Body)
				if before[i] != nil {
					require.Equal(t, before[i].Remembered(), after[i].Remembered())
				}
				require.Equal(t, 1, w.judge.moved(objectID(t, after[i])))
			}
			w.judge.once(t, keys)
		})
	}
}
