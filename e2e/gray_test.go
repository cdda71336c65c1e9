package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/outbox"
)

// cutStore is a node's view of a store with a way that can be cut.
type cutStore struct {
	deployment.Store
	cut *atomic.Bool
	// deaf: the store does what it is asked to begin, and only the answer is lost.
	deaf *atomic.Bool
	// lost: what is asked while it is not nil has no answer until it is closed.
	lost *atomic.Pointer[chan struct{}]
}

// vanish waits where packets vanish.
func (s *cutStore) vanish(ctx context.Context) error {
	if s.lost == nil {
		return nil
	}
	if back := s.lost.Load(); back != nil {
		select {
		case <-*back:
		case <-ctx.Done():
			return claim.ErrUnavailable
		}
	}
	return nil
}

func (s *cutStore) Answers(ctx context.Context) error { return s.vanish(ctx) }

func (s *cutStore) way() error {
	if s.cut.Load() {
		return claim.ErrUnavailable
	}
	return nil
}

func (s *cutStore) Ready(context.Context) error { return s.way() }

func (s *cutStore) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	if s.deaf.Swap(false) {
		_, err := s.Store.Begin(ctx, a)
		return claim.Begun{}, errors.Join(claim.ErrUnavailable, err)
	}
	if err := errors.Join(s.vanish(ctx), s.way()); err != nil {
		return claim.Begun{}, err
	}
	return s.Store.Begin(ctx, a)
}

func (s *cutStore) Pin(ctx context.Context, key claim.Key, entry string) (claim.Pin, error) {
	if err := s.way(); err != nil {
		return claim.Pin{}, err
	}
	return s.Store.Pin(ctx, key, entry)
}

func (s *cutStore) Registrar(ctx context.Context, tenant string) (string, error) {
	if err := s.way(); err != nil {
		return "", err
	}
	return s.Store.Registrar(ctx, tenant)
}

func (s *cutStore) Replica(ctx context.Context, key claim.Key) (claim.Shown, error) {
	if err := s.way(); err != nil {
		return claim.Shown{}, err
	}
	return s.Store.Replica(ctx, key)
}

func (s *cutStore) Get(ctx context.Context, key claim.Key, home string) (rec claim.Record, now time.Time, found bool, err error) {
	if err := errors.Join(s.vanish(ctx), s.way()); err != nil {
		return rec, now, false, err
	}
	return s.Store.Get(ctx, key, home)
}

func (s *cutStore) Object(ctx context.Context, tenant, home, id string) (rec claim.Record, now time.Time, found bool, err error) {
	if err := s.way(); err != nil {
		return rec, now, false, err
	}
	return s.Store.Object(ctx, tenant, home, id)
}

func (s *cutStore) TenantByAPIKey(ctx context.Context, key claim.APIKeyHash) (claim.Tenant, bool, error) {
	if err := s.way(); err != nil {
		return claim.Tenant{}, false, err
	}
	return s.Store.TenantByAPIKey(ctx, key)
}

// TenantInMemory knows none, as the memory of a database's node ends during an outage.
func (*cutStore) TenantInMemory(claim.APIKeyHash) (t claim.Tenant, found, known bool) {
	return t, false, false
}

func (s *cutStore) NextDue(ctx context.Context, region string) (map[outbox.Queue]time.Duration, error) {
	if err := s.way(); err != nil {
		return nil, err
	}
	return s.Store.NextDue(ctx, region)
}

// TestARegionWithoutItsDatabase cuts the way from a region's node to the database alone. The node
// has others answer what arrives there, and the others act on its rows; each payment is made once.
func TestARegionWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	var cut, deaf atomic.Bool
	w := startWorld(t, nil, func(c *node.ClusterConfig) {
		c.DeputyAfter = soon
		c.WrapStore = func(region string, s deployment.Store) deployment.Store {
			if region != us {
				return s
			}
			return &cutStore{Store: s, cut: &cut, deaf: &deaf}
		}
	})
	before := charge("before", 1)
	first := w.at(us, before, http.StatusCreated)

	// The store does what it is asked, and the way is cut before the answer: the deputy finds a
	// holder, which never comes back.
	deaf.Store(true)
	cut.Store(true)
	begun := charge(stamped(t, us), 2)
	answered := w.later(us, begun)

	own, pinned := charge(stamped(t, us), 3), charge("order-1", 4)
	for _, q := range []request{own, pinned} {
		r := w.send(w.ctx, us, q)
		require.NoError(t, r.Err)
		require.Equal(t, http.StatusCreated, r.Status, "%s", r.Body)
		require.NotEqual(t, us, r.Header.Get("Homeward-Served-By"))
		require.Equal(t, "1", r.Header.Get("Homeward-Hops"))
		require.Equal(t, r.Remembered(), w.at(us, q, http.StatusCreated).Remembered())
		require.Equal(t, r.Remembered(), w.at(eu, q, http.StatusCreated).Remembered())
	}
	require.Equal(t, first.Remembered(), w.at(us, before, http.StatusCreated).Remembered())
	w.deputised(w.send(w.ctx, eu, charge(stamped(t, us), 5)), eu, us)
	s, err := w.inspect(w.ctx, us, acme, own.key)
	require.NoError(t, err)
	require.Equal(t, "COMPLETED", s.State)

	// All see it, and after the grace the workers of others recover what was begun.
	seen := func(unready bool) {
		until(t, "the others hear what the node can do", func() bool {
			return w.cluster.Region(eu).Membership().Nodes(us)[0].UnreadySince.IsZero() != unready
		})
	}
	seen(true)
	until(t, "the charge that was begun is recovered", func() bool {
		s, err := w.inspect(w.ctx, eu, acme, begun.key)
		return err == nil && s.State == "COMPLETED"
	})
	r := receive(t, "an answer to it", answered)
	require.NoError(t, r.Err)
	require.NotEqual(t, http.StatusServiceUnavailable, r.Status, "the wait may have been too short, and nothing else: %s", r.Body)
	w.judge.once(t, 5)

	cut.Store(false)
	seen(false)
	until(t, "the region serves by itself", func() bool {
		r := w.send(w.ctx, us, charge(stamped(t, us), 6))
		return r.Err == nil && r.Status == http.StatusCreated && r.Header.Get("Homeward-Served-By") == us
	})
}

// TestANodeWhosePacketsToItsDatabaseVanish: a charge does not wait for its statement. A deputy makes
// it, and the statement that arrives at last finds it made.
func TestANodeWhosePacketsToItsDatabaseVanish(t *testing.T) {
	t.Parallel()
	var cut, deaf atomic.Bool
	var lost atomic.Pointer[chan struct{}]
	w := startWorld(t, nil, func(c *node.ClusterConfig) {
		c.WrapStore = func(region string, s deployment.Store) deployment.Store {
			if region != us {
				return s
			}
			return &cutStore{s, &cut, &deaf, &lost}
		}
	})
	before := charge(stamped(t, us), 1)
	w.at(us, before, http.StatusCreated)
	arrived := charge(stamped(t, us), 3)
	back := make(chan struct{})
	restore := sync.OnceFunc(func() { lost.Store(nil); close(back) })
	defer restore()
	lost.Store(&back)
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	// What another region has sent there does not wait either, nor what it reads.
	s, err := w.inspect(ctx, eu, acme, before.key)
	require.NoError(t, err)
	require.Equal(t, "COMPLETED", s.State)
	w.deputised(w.send(ctx, eu, arrived), eu, us)
	first := charge(stamped(t, us), 2)
	r := w.send(ctx, us, first)
	require.NoError(t, r.Err)
	require.Equal(t, http.StatusCreated, r.Status, "%s", r.Body)
	require.NotEqual(t, us, r.Header.Get("Homeward-Served-By"))
	restore()
	until(t, "the region serves by itself", func() bool {
		again := w.at(us, first, http.StatusCreated)
		require.Equal(t, r.Remembered(), again.Remembered())
		return again.Header.Get("Homeward-Served-By") == us
	})
	w.judge.once(t, 3)
}

// TestANodeWithoutItsDatabaseAsksItsNeighbour: what arrives at it is served in its region, without a hop.
func TestANodeWithoutItsDatabaseAsksItsNeighbour(t *testing.T) {
	t.Parallel()
	var cut, deaf atomic.Bool
	var first sync.Once
	w := startWorld(t, nil, func(c *node.ClusterConfig) {
		c.Nodes = 2
		c.WrapStore = func(region string, s deployment.Store) deployment.Store {
			if region == us {
				first.Do(func() { s = &cutStore{Store: s, cut: &cut, deaf: &deaf} }) // merchants call the first node
			}
			return s
		}
	})
	before := charge("before", 1)
	answered := w.at(us, before, http.StatusCreated)
	cut.Store(true)
	charges := 1
	for name, next := range map[string]func() request{ // a busy machine may miss the neighbour now and then
		"a stamped key": func() request { charges++; return charge(stamped(t, us), charges) },
		"a new key":     func() request { charges++; return charge(fmt.Sprint("order-", charges), charges) },
		"a replay":      func() request { return before },
	} {
		until(t, name+" is served beside it", func() bool {
			q := next()
			r := w.at(us, q, http.StatusCreated)
			if q.key == before.key {
				require.Equal(t, answered.Remembered(), r.Remembered())
			}
			return r.Header.Get("Homeward-Served-By") == us && r.Header.Get("Homeward-Hops") == "0"
		})
	}
	s, err := w.inspect(w.ctx, us, acme, before.key)
	require.NoError(t, err)
	require.Equal(t, "COMPLETED", s.State)
	w.judge.once(t, charges)
}
