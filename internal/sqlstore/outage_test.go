package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/outbox"
)

const (
	// callers are the requests at work when the database goes away.
	callers = 200
	// slack is how many times CallTimeout a call may take on a busy machine.
	slack = 5
	// perConnection is how many goroutines a connection that is being made, watched
	// or closed may have.
	perConnection = 8
)

// outage is a server of the test's own, and one store on it.
type outage struct {
	*testing.T
	server *localdb.Server
	url    string
	pool   sqlstore.Pool
	db     *sqlstore.DB
	view   *sqlstore.View
}

// newOutage starts a server and opens a store that is closed, without a goroutine
// left behind, when the test ends.
func newOutage(t *testing.T, change func(p *sqlstore.Pool)) *outage {
	t.Helper()
	// One node, whose data survives its death on either database.
	s := dbtest.Start(t, localdb.Config{Regions: []string{here}, Durable: true})
	require.NoError(t, s.CreateDatabase(t.Context(), "homeward", ""))
	o := &outage{T: t, server: s, url: s.URL(here, "homeward"), pool: sqlstore.DefaultPool()}
	m, err := sqlstore.OpenMigrator(t.Context(), o.url, false)
	require.NoError(t, err)
	require.NoError(t, m.Up(t.Context(), sqlstore.Migration{Regions: []claim.Region{{Name: here}}}, nil))
	require.NoError(t, m.Close(t.Context()))
	o.pool.TenantCache = -1
	change(&o.pool)
	ours := []goleak.Option{
		goleak.IgnoreCurrent(),
		// A server that is started again has goroutines that wait for its end.
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"),
		goleak.IgnoreAnyFunction("github.com/homeward-io/homeward/internal/lab/localdb.(*Server).launch.func1"),
	}
	o.db, err = sqlstore.Open(t.Context(), sqlstore.Config{URL: o.url, Policy: testPolicy(), Pool: o.pool})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, o.db.Close())
		// The last connections may still be closing.
		left := goleak.Find(ours...)
		for give := time.Now().Add(patience); left != nil && time.Now().Before(give); {
			left = goleak.Find(ours...)
		}
		require.NoError(t, left)
	})
	o.view = view(t, o.db, here)
	require.NoError(t, o.db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: here}))
	return o
}

func (o *outage) begin(ctx context.Context, key string) (claim.Record, error) {
	got, err := o.view.Begin(ctx, claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, here, "100", "node", "ch_"+key))
	if err == nil && got.Decision != claim.Won {
		err = fmt.Errorf("key %s: %s", key, got.Decision)
	}
	return got.Record, err
}

func paid(key string) claim.Verdict {
	return claim.Verdict{Node: "node", Region: here, Outcome: &claim.Done{Response: claim.Response{Status: 201, Body: []byte("paid " + key)}}}
}

// journal is what the store has acknowledged.
type journal struct {
	mu             sync.Mutex
	begun, settled map[string]claim.Record
	// wrong is what no call may answer; slowest the longest that one took.
	wrong   []error
	slowest time.Duration
}

func (j *journal) note(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
}

// charge begins and settles one key, and keeps what was acknowledged.
func (j *journal) charge(o *outage, key string) error {
	rec, err := j.timed(func() (claim.Record, error) { return o.begin(context.Background(), key) })
	if err != nil {
		return err
	}
	j.note(func() { j.begun[key] = rec })
	final, err := j.timed(func() (claim.Record, error) { return o.view.Settle(context.Background(), rec, paid(key)) })
	if err != nil {
		return err
	}
	j.note(func() { j.settled[key] = final })
	return nil
}

func (j *journal) timed(call func() (claim.Record, error)) (claim.Record, error) {
	start := time.Now()
	rec, err := call()
	took := time.Since(start)
	j.note(func() {
		j.slowest = max(j.slowest, took)
		if err != nil && (!errors.Is(err, claim.ErrUnavailable) || strings.Contains(err.Error(), "\n")) {
			j.wrong = append(j.wrong, err)
		}
	})
	return rec, err
}

// TestTheDatabaseGoesAway: under load it dies, or stands still. Every call ends in
// its time and says that nothing is known, nothing piles up, and when the database
// is back the same store goes on. What was acknowledged is there.
func TestTheDatabaseGoesAway(t *testing.T) {
	for name, how := range map[string]struct{ away, back func(o *outage) }{
		"killed": {
			func(o *outage) { require.NoError(o, o.server.Kill(here)) },
			func(o *outage) { require.NoError(o, o.server.Restart(context.Background(), here)) },
		},
		"paused": {
			func(o *outage) { require.NoError(o, o.server.Pause(here)) },
			func(o *outage) { require.NoError(o, o.server.Resume(here)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t, func(p *sqlstore.Pool) {
				p.MaxConns = 8
				p.StatementTimeout, p.CallTimeout, p.ConnectTimeout = 1500*time.Millisecond, 2*time.Second, time.Second
			})
			goroutines := runtime.NumGoroutine()
			j := &journal{begun: map[string]claim.Record{}, settled: map[string]claim.Record{}}

			// Everybody charges until the database is gone; then makes a few calls in
			// vain; and when it is back, charges once more.
			gone, back := make(chan struct{}), make(chan struct{})
			var loaded, inVain, again sync.WaitGroup
			var enough atomic.Int64
			running := make(chan struct{})
			var answered atomic.Int64 // calls that succeeded without a database
			loaded.Add(callers)
			inVain.Add(callers)
			for i := range callers {
				again.Go(func() {
					for n := 0; ; n++ {
						if j.charge(o, fmt.Sprintf("load-%d-%d", i, n)) == nil && enough.Add(1) == callers {
							close(running)
						}
						select {
						case <-gone:
						default:
							continue
						}
						break
					}
					loaded.Done()
					for n := range 2 {
						if j.charge(o, fmt.Sprintf("vain-%d-%d", i, n)) == nil {
							answered.Add(1)
						}
					}
					inVain.Done()
					<-back
					// The first may still meet what the outage has left in the pool.
					for n := 0; j.charge(o, fmt.Sprintf("back-%d-%d", i, n)) != nil && n < 100; n++ {
					}
				})
			}
			o.signalled(running)
			how.away(o)
			close(gone)
			loaded.Wait()
			j.note(func() { j.slowest = 0 }) // while it died it was there in part

			stop := make(chan struct{})
			most := watch(o, stop)
			inVain.Wait()
			close(stop)
			piled := <-most
			slowest := time.Duration(0)
			j.note(func() { slowest = j.slowest })

			how.back(o)
			close(back)
			again.Wait()

			require.Empty(t, j.wrong, "errors other than unavailable, or of more lines than one")
			require.Zero(t, answered.Load(), "calls that succeeded without a database")
			require.Less(t, slowest, slack*o.pool.CallTimeout)
			require.LessOrEqual(t, piled.connections, int(o.pool.MaxConns))
			require.LessOrEqual(t, piled.calls, callers+int(o.pool.MaxConns), "who calls, and the statements of batches")
			// And a few that pool, batches and runtime have of their own; a pile would grow with
			// the calls, several by each caller.
			require.LessOrEqual(t, piled.goroutines, goroutines+callers+perConnection*int(o.pool.MaxConns)+60)
			require.Zero(t, o.db.Calls(), "calls that never ended")
			for i := range callers {
				found := false
				for n := 0; n <= 100 && !found; n++ {
					_, found = j.settled[fmt.Sprintf("back-%d-%d", i, n)]
				}
				require.True(t, found, "caller %d was not served again", i)
			}
			o.keeps(j)
		})
	}
}

// keeps reads everything that was acknowledged back.
func (o *outage) keeps(j *journal) {
	o.Helper()
	require.NotEmpty(o, j.settled)
	for key, rec := range j.begun {
		row, _, found, err := o.view.Get(context.Background(), rec.Key, here)
		require.NoError(o, err)
		require.True(o, found, "the claim of %s was acknowledged and is lost", key)
		require.Equal(o, rec.Fence, row.Fence)
		require.Equal(o, rec.Minted, row.Minted)
		require.EqualValues(o, 1, row.Attempts)
		if final, ok := j.settled[key]; ok {
			require.Equal(o, final, row, "the outcome of %s was acknowledged", key)
		}
	}
	conn, err := pgx.Connect(context.Background(), o.url)
	require.NoError(o, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var halves int
	require.NoError(o, conn.QueryRow(context.Background(), `
		SELECT count(*) FROM claims AS c
		WHERE (c.state = 1) <> (c.call_due IS NOT NULL) OR (c.state = 2) <> (c.answer_status IS NOT NULL)`).Scan(&halves))
	require.Zero(o, halves, "claims without their call, or without their response")
}

func (o *outage) signalled(c <-chan struct{}) {
	o.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		o.Fatal("what was waited for does not happen")
	}
}

type heap struct{ connections, calls, goroutines int }

// watch returns the most of everything that there was until stop.
func watch(o *outage, stop <-chan struct{}) <-chan heap {
	most := make(chan heap, 1)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		var h heap
		for {
			h.connections = max(h.connections, o.db.Connections())
			h.calls = max(h.calls, o.db.Calls())
			h.goroutines = max(h.goroutines, runtime.NumGoroutine())
			select {
			case <-tick.C:
			case <-stop:
				most <- h
				return
			}
		}
	}()
	return most
}

// TestTooManyWaitForAConnection: whoever comes when the pool and the line
// are full is refused at once, while the others still wait.
func TestTooManyWaitForAConnection(t *testing.T) {
	w := newWire(t, newDatabase(t), "acme", testPool())
	pool := testPool()
	pool.MaxConns, pool.MinConns, pool.MaxWaiting = 1, 0, 2
	db := open(t, sqlstore.Config{URL: w.proxy.URL(w.admin), Pool: pool})
	v := view(t, db, here)
	shot := w.proxy.Arm("ping", wireproxy.StallBefore, 1)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	answers := make(chan error, 3)
	for range 3 {
		go func() { answers <- v.Ready(ctx) }()
	}
	require.Eventually(t, func() bool { return db.Calls() == 3 && shot.Fired() == 1 }, patience, time.Millisecond)
	err := v.Ready(t.Context())
	require.ErrorIs(t, err, claim.ErrUnavailable)
	require.ErrorContains(t, err, "3 have a connection or wait for one")
	_, err = v.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "k"}, here, "100", "node", "ch_k"))
	require.ErrorIs(t, err, claim.ErrUnavailable)
	require.Empty(t, answers, "the others did not wait")
	require.NoError(t, v.Answers(t.Context()), "want of room is no silence")
	giveUp()
	for range 3 {
		require.ErrorIs(t, <-answers, claim.ErrUnavailable)
	}
	require.NoError(t, v.Ready(t.Context()))
	require.Zero(t, db.Calls())
	w.proxy.Refuse(true)
	w.proxy.CutAll()
	require.Error(t, v.Answers(t.Context()))
}

// TestTheServerForgets: what a connection has prepared can be gone, or no longer
// fit, without the connection's being told. The next calls do not show it.
func TestTheServerForgets(t *testing.T) {
	o := newOutage(t, func(p *sqlstore.Pool) {
		*p = testPool()
		// One connection, so that the call after the event is sure to meet it.
		p.MaxConns, p.MinConns = 1, 0
	})
	require.NoError(t, everyStatement(o, "first"))
	t.Run("restart", func(t *testing.T) {
		require.NoError(t, o.server.Kill(here))
		require.NoError(t, o.server.Restart(t.Context(), here))
		require.NoError(t, everyStatement(o, "restarted"))
	})
	t.Run("restart before what is sent once", func(t *testing.T) {
		require.NoError(t, o.server.Kill(here))
		require.NoError(t, o.server.Restart(t.Context(), here))
		// The connection breaks under it: that is unknown, and said.
		if _, err := o.view.Queue(outbox.ProviderCalls).Take(t.Context(), here, 1, time.Minute); err != nil {
			require.ErrorIs(t, err, claim.ErrUnavailable)
			require.NotContains(t, err.Error(), "prepared statement")
		}
		_, err := o.view.Queue(outbox.ProviderCalls).Take(t.Context(), here, 1, time.Minute)
		require.NoError(t, err)
		require.NoError(t, everyStatement(o, "restarted again"))
	})
	t.Run("deallocated", func(t *testing.T) {
		require.NoError(t, o.db.Exec(t.Context(), "DEALLOCATE ALL"))
		require.NoError(t, everyStatement(o, "deallocated"))
	})
	t.Run("migrated", func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), o.url)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(t.Context())) }()
		for _, sql := range []string{
			"ALTER TABLE claims ADD COLUMN more text",
			"ALTER TABLE claims ALTER COLUMN provider_key TYPE varchar(999)",
			"ALTER TABLE expiries ALTER COLUMN last_error TYPE varchar(999)",
			"ALTER TABLE tenants ALTER COLUMN name TYPE varchar(999)",
		} {
			_, err := conn.Exec(t.Context(), sql)
			require.NoError(t, err, sql)
		}
		require.NoError(t, everyStatement(o, "migrated"))
	})
}

// everyStatement sends what a request, a heartbeat and a worker send.
func everyStatement(o *outage, key string) error {
	ctx, v, k := context.Background(), o.view, claim.Key{Tenant: "acme", Value: key}
	if _, err := o.db.Tenant(ctx, k.Tenant); err != nil {
		return fmt.Errorf("tenant: %w", err)
	}
	rec, err := o.begin(ctx, key)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if _, err := v.Renew(ctx, "node", []claim.Lease{{Key: k, Home: here, Fence: rec.Fence}}); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	if _, err := v.Pin(ctx, k, here); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	if _, err := v.Queue(outbox.ProviderCalls).Take(ctx, here, 1, time.Minute); err != nil {
		return fmt.Errorf("take: %w", err)
	}
	if _, err := v.Settle(ctx, rec, paid(key)); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	if _, _, found, err := v.Get(ctx, k, here); err != nil || !found {
		return fmt.Errorf("get: found %v: %w", found, err)
	}
	return nil
}
