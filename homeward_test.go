package homeward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/outbox"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashURL) != "" {
		crash()
		os.Exit(3) // it lives
	}
	os.Exit(dbtest.Main(m))
}

// quick lets leases run out while a test waits for it. A holder trusts one for longer than a loaded
// machine takes for a statement.
func quick(s *settings) {
	s.poll = 20 * time.Millisecond
	s.policy = func(p *claim.Policy) {
		offset := p.ClockOffset
		p.Lease, p.RenewEvery, p.LeaseMargin, p.LeaseCeiling = 2500*time.Millisecond, 500*time.Millisecond, 300*time.Millisecond, 2500*time.Millisecond
		p.DeclinePause, p.WaitPoll, p.BackoffMin, p.BackoffMax = 10*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond, 20*time.Millisecond
		if p.ClockOffset = 0; offset > 0 { // CockroachDB, which has three nodes here
			p.Lease, p.LeaseMargin, p.LeaseCeiling, p.ClockOffset = 4*time.Second, time.Second, 4*time.Second, offset
		}
	}
}

// quiet logs nothing, and waits for a database that shares a machine with other tests.
func quiet(s *settings) {
	s.log = slog.New(slog.DiscardHandler)
	s.pool = func(p *sqlstore.Pool) {
		p.StatementTimeout, p.CallTimeout, p.ConnectTimeout = 10*time.Second, 15*time.Second, 10*time.Second
	}
}

// onCockroach reports whether the database of these tests is CockroachDB, with a node in each of
// dbtest.Regions.
func onCockroach() bool { return os.Getenv("HOMEWARD_TEST_KIND") == string(localdb.CockroachDB) }

// sqlAt is the store at url, as a process in the first region uses it.
func sqlAt(url string) Store {
	if onCockroach() {
		return Cockroach(url, dbtest.Regions[0])
	}
	return Postgres(url)
}

// migrated is a database with our schema.
var migrated = dbtest.Template{
	Make: func(ctx context.Context, s *localdb.Server, name string) error {
		if err := s.CreateDatabase(ctx, name, ""); err != nil {
			return err
		}
		if onCockroach() {
			return Migrate(ctx, sqlAt(s.URL("", name)), dbtest.Regions...)
		}
		return Migrate(ctx, sqlAt(s.URL("", name)))
	},
	Keep: []string{"regions", "deployment", "audit_chains", "homeward_schema_version"},
}

func database(t testing.TB) string {
	t.Helper()
	if !onCockroach() && dbtest.Shared(t).Kind() != localdb.PostgreSQL {
		t.Skip("run it on CockroachDB with HOMEWARD_TEST_KIND=cockroachdb")
	}
	return dbtest.Shared(t).URL("", migrated.Database(t))
}

func open(t testing.TB, store Store, options ...Option) *Homeward {
	t.Helper()
	h, err := Open(t.Context(), store, append([]Option{quiet}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, h.Close(ctx))
	})
	return h
}

// onEach runs a test on each store.
func onEach(t *testing.T, test func(t *testing.T, h *Homeward), options ...Option) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, open(t, Embedded(t.TempDir()), options...))
	})
	t.Run("sql", func(t *testing.T) {
		t.Parallel()
		test(t, open(t, sqlAt(database(t)), options...))
	})
}

// always is a function with one outcome.
func always(o Outcome) func(context.Context, Attempt) Outcome {
	return func(context.Context, Attempt) Outcome { return o }
}

// never is a function that must not run.
func never(t *testing.T) func(context.Context, Attempt) Outcome {
	return func(context.Context, Attempt) Outcome {
		t.Error("the function ran once more")
		return nil
	}
}

func TestAnOperationRunsOnce(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		ctx := t.Context()
		op := Op{Tenant: "acme", Name: "ship", Key: "k1", Request: []byte("one")}
		var seen Attempt
		first, err := h.Do(ctx, op, func(ctx context.Context, a Attempt) Outcome {
			seen = a
			of, ok := AttemptOf(ctx)
			require.True(t, ok)
			require.Equal(t, a, of)
			return Done{Reply: []byte("shipped")}
		})
		require.NoError(t, err)
		require.Equal(t, StateDone, first.State)
		require.Equal(t, "shipped", string(first.Body))
		require.False(t, first.Replayed)
		require.Equal(t, Attempt{Key: seen.Key, ID: seen.ID, Created: seen.Created, Number: 1}, seen)
		require.NotEmpty(t, seen.Key)
		require.NotEmpty(t, seen.ID)
		require.WithinDuration(t, first.FirstUse.Add(24*time.Hour), first.ExpiresAt, time.Minute)

		again, err := h.Do(ctx, op, never(t))
		require.NoError(t, err)
		require.Equal(t, "shipped", string(again.Body))
		require.True(t, again.Replayed)

		for name, other := range map[string]Op{
			"request": {Tenant: "acme", Name: "ship", Key: "k1", Request: []byte("two")},
			"name":    {Tenant: "acme", Name: "bill", Key: "k1", Request: []byte("one")},
		} {
			_, err = h.Do(ctx, other, never(t))
			require.ErrorIs(t, err, claim.ErrMismatch, name)
		}
		ran := false
		_, err = h.Do(ctx, Op{Tenant: "other", Name: "ship", Key: "k1", Request: []byte("one")}, func(context.Context, Attempt) Outcome {
			ran = true
			return Done{}
		})
		require.NoError(t, err)
		require.True(t, ran, "another tenant has keys of its own")

		for _, key := range []string{"", "a b", strings.Repeat("k", 256), "ä"} {
			_, err = h.Do(ctx, Op{Key: key}, never(t))
			var bad *claim.KeyError
			require.ErrorAs(t, err, &bad, key)
		}
		for _, tenant := range []string{strings.Repeat("t", 256), "a\x00b", "\xff"} {
			_, err = h.Do(ctx, Op{Tenant: tenant, Key: "k"}, never(t))
			require.ErrorContains(t, err, "a tenant must be UTF-8")
		}
	})
}

func TestOutcomes(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		ctx := t.Context()
		do := func(t *testing.T, op Op, o Outcome) (Reply, error) {
			t.Helper()
			return h.Do(ctx, op, always(o))
		}
		t.Run("refused", func(t *testing.T) {
			op := Op{Tenant: "acme", Key: "refused"}
			r, err := do(t, op, Refused{Reply: []byte("no"), Reason: "empty"})
			require.NoError(t, err)
			require.Equal(t, StateRefused, r.State)
			r, err = h.Do(ctx, op, never(t))
			require.NoError(t, err)
			require.Equal(t, StateRefused, r.State)
			require.Equal(t, "no", string(r.Body))
		})
		t.Run("released", func(t *testing.T) {
			op := Op{Tenant: "acme", Key: "released"}
			var keys [2]string
			r, err := h.Do(ctx, op, func(_ context.Context, a Attempt) Outcome {
				keys[0] = a.Key
				return Released{Reply: []byte("not now")}
			})
			require.NoError(t, err)
			require.Equal(t, StateReleased, r.State)
			require.Eventually(t, func() bool {
				r, err = h.Do(ctx, op, func(_ context.Context, a Attempt) Outcome {
					keys[1] = a.Key
					require.False(t, a.Recovery)
					return Done{Reply: []byte("yes")}
				})
				require.NoError(t, err)
				return r.State == StateDone // until then it shares the refusal
			}, 10*time.Second, 5*time.Millisecond)
			require.NotEqual(t, keys[0], keys[1], "whoever dedupes by it would repeat its refusal")
		})
		t.Run("unknown", func(t *testing.T) {
			op := Op{Tenant: "acme", Key: "unknown"}
			for _, o := range []Outcome{nil, Unknown{Reason: "timeout"}} {
				op.Key += "x"
				_, err := do(t, op, o)
				require.ErrorIs(t, err, ErrUnknown)
				_, err = h.Do(ctx, op, never(t))
				require.ErrorIs(t, err, ErrUnknown)
			}
		})
		t.Run("unknown, repeatable", func(t *testing.T) {
			op := Op{Tenant: "acme", Key: "repeatable", Repeatable: true}
			var first Attempt
			_, err := h.Do(ctx, op, func(_ context.Context, a Attempt) Outcome {
				first = a
				return nil
			})
			var unknown *claim.UnknownError
			require.ErrorAs(t, err, &unknown)
			require.Eventually(t, func() bool {
				r, err := h.Do(ctx, op, func(_ context.Context, a Attempt) Outcome {
					require.True(t, a.Recovery)
					require.Equal(t, first.Key, a.Key)
					require.Equal(t, first.ID, a.ID)
					return Done{Reply: []byte("found")}
				})
				return err == nil && string(r.Body) == "found"
			}, 10*time.Second, 5*time.Millisecond)
		})
		t.Run("not repeatable any more, or not yet", func(t *testing.T) {
			for _, then := range []bool{true, false} {
				op := Op{Tenant: "acme", Key: fmt.Sprint("then ", then)[5:] + "-then", Repeatable: then}
				var unknown *claim.UnknownError
				_, err := do(t, op, nil)
				if !then {
					require.ErrorIs(t, err, ErrUnknown)
					continue
				}
				require.ErrorAs(t, err, &unknown)
				op.Repeatable = false
				require.Eventually(t, func() bool {
					_, err = h.Do(ctx, op, never(t))
					return errors.Is(err, ErrUnknown)
				}, 10*time.Second, 5*time.Millisecond)
			}
		})
		t.Run("pending", func(t *testing.T) {
			op := Op{Tenant: "acme", Key: "pending", Repeatable: true}
			r, err := do(t, op, Pending{Reply: []byte("wait"), AskIn: time.Hour})
			require.NoError(t, err)
			require.Equal(t, StatePending, r.State)
			r, err = h.Do(ctx, op, never(t))
			require.NoError(t, err)
			require.Equal(t, "wait", string(r.Body))

			op.Key = "pending-short"
			_, err = do(t, op, Pending{Reply: []byte("wait"), AskIn: time.Millisecond})
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				r, err := h.Do(ctx, op, func(_ context.Context, a Attempt) Outcome {
					require.True(t, a.Recovery)
					return Done{Reply: []byte("paid")}
				})
				require.NoError(t, err)
				return r.State == StateDone
			}, 10*time.Second, 5*time.Millisecond)

			_, err = do(t, Op{Tenant: "acme", Key: "pending-once"}, Pending{Reply: []byte("wait")})
			require.ErrorIs(t, err, ErrUnknown, "nobody could ask")
		})
		t.Run("panic", func(t *testing.T) {
			for name, f := range map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit} {
				op := Op{Tenant: "acme", Key: "once-" + name}
				broken := func(context.Context, Attempt) Outcome { f(); return Done{} }
				_, err := h.Do(ctx, op, broken)
				require.ErrorIs(t, err, ErrUnknown)
				op = Op{Tenant: "acme", Key: "again-" + name, Repeatable: true}
				_, err = h.Do(ctx, op, broken)
				var unknown *claim.UnknownError
				require.ErrorAs(t, err, &unknown)
			}
		})
		t.Run("too long", func(t *testing.T) {
			op := Op{Tenant: "acme", Key: "long"}
			_, err := do(t, op, Done{Reply: make([]byte, maxReply)})
			require.NoError(t, err)
			op.Key = "longer"
			_, err = do(t, op, Done{Reply: make([]byte, maxReply+1)})
			require.NoError(t, err)
			r, err := h.Do(ctx, op, never(t))
			require.NoError(t, err)
			require.Equal(t, StateDone, r.State)
			require.Empty(t, r.Body)
		})
	}, quick)
}

// Twins get one outcome, whichever process they are in.
func TestTwins(t *testing.T) {
	url := database(t)
	dir := t.TempDir()
	for name, all := range map[string][]*Homeward{
		"embedded":      {open(t, Embedded(dir))},
		"two processes": {open(t, sqlAt(url)), open(t, sqlAt(url))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for round := range 5 {
				var ran atomic.Int32
				var wg sync.WaitGroup
				var mu sync.Mutex
				bodies := map[string]int{}
				const twins = 12
				for i := range twins {
					wg.Go(func() {
						r, err := all[i%len(all)].Do(t.Context(), Op{Tenant: fmt.Sprint("new", round), Key: "twin"}, func(context.Context, Attempt) Outcome {
							return Done{Reply: fmt.Appendf(nil, "run %d", ran.Add(1))}
						})
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						defer mu.Unlock()
						bodies[string(r.Body)]++
					})
				}
				wg.Wait()
				require.Equal(t, map[string]int{"run 1": twins}, bodies)
			}
		})
	}
}

// A caller who leaves ends its wait, and not the function.
func TestACallerLeaves(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		ctx, leave := context.WithCancel(t.Context())
		running, finish := make(chan struct{}), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			_, err := h.Do(ctx, Op{Tenant: "acme", Key: "left"}, func(ctx context.Context, _ Attempt) Outcome {
				close(running)
				<-finish
				return Done{Reply: []byte(fmt.Sprint(ctx.Err()))}
			})
			ended <- err
		}()
		<-running
		leave()
		close(finish)
		require.NoError(t, <-ended)
		r, err := h.Do(t.Context(), Op{Tenant: "acme", Key: "left"}, never(t))
		require.NoError(t, err)
		require.Equal(t, "<nil>", string(r.Body))

		_, err = h.Do(ctx, Op{Tenant: "acme", Key: "gone"}, never(t))
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A function that does not return is unknown when its lease ends, and goes on for nobody.
func TestAFunctionHangs(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		finish := make(chan struct{})
		defer close(finish)
		hang := func(ctx context.Context, a Attempt) Outcome {
			<-ctx.Done()
			<-finish
			return Done{Reply: []byte("late")}
		}
		_, err := h.Do(t.Context(), Op{Tenant: "acme", Key: "hang"}, hang)
		require.Error(t, err)
		require.Eventually(t, func() bool {
			_, err := h.Do(t.Context(), Op{Tenant: "acme", Key: "hang"}, never(t))
			return errors.Is(err, ErrUnknown)
		}, 20*time.Second, 20*time.Millisecond)
	}, quick)
}

// A store that is closed fails, and Close waits for what is under way.
func TestClose(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		running, finish := make(chan struct{}), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			_, err := h.Do(t.Context(), Op{Tenant: "acme", Key: "close"}, func(context.Context, Attempt) Outcome {
				close(running)
				<-finish
				return Done{}
			})
			ended <- err
		}()
		<-running
		closed := make(chan error, 1)
		go func() { closed <- h.Close(context.Background()) }()
		select {
		case <-closed:
			t.Fatal("it did not wait")
		case <-time.After(50 * time.Millisecond):
		}
		close(finish)
		require.NoError(t, <-ended)
		require.NoError(t, <-closed)
		_, err := h.Do(t.Context(), Op{Tenant: "acme", Key: "late"}, never(t))
		require.ErrorIs(t, err, errClosed)
		require.NoError(t, h.Close(context.Background()))
	})
}

type noQueue struct{ outbox.Queues }

func (noQueue) Queue(outbox.Queue) outbox.Store { return nil }

func TestMistakesAtTheStart(t *testing.T) {
	ctx := t.Context()
	broken := Embedded(t.TempDir())
	openIt := broken.open
	broken.open = func(ctx context.Context, o opening) (*rows, error) {
		r, err := openIt(ctx, o)
		r.queues = noQueue{r.queues}
		return r, err
	}
	h, err := Open(ctx, broken)
	require.Error(t, err)
	require.Nil(t, h, "there is nothing to close")
	_, err = Open(ctx, Store{})
	require.EqualError(t, err, "homeward: there is no store; pass Postgres, Cockroach or Embedded to Open")
	dir := t.TempDir()
	open(t, Embedded(dir))
	_, err = Open(ctx, Embedded(dir))
	require.ErrorContains(t, err, "in use by another process")
	_, err = Open(ctx, Postgres(""))
	require.ErrorContains(t, err, "no database is set")
	_, err = Open(ctx, Postgres("postgres://127.0.0.1:1/x?sslmode=disable"))
	require.ErrorIs(t, err, claim.ErrUnavailable)
	require.NotContains(t, err.Error(), "HOMEWARD_DATABASE_URL")

	url := database(t)
	empty := dbtest.Database(t)
	_, err = Open(ctx, sqlAt(empty))
	require.ErrorContains(t, err, "call homeward.Migrate")
	require.NotContains(t, err.Error(), "\n")
	_, err = Open(ctx, Cockroach(url, ""))
	require.ErrorContains(t, err, "no region is named")
	if onCockroach() {
		_, err = Open(ctx, Cockroach(url, "atlantis"))
		require.ErrorContains(t, err, `the database has no region "atlantis", but asia-northeast1, europe-west1, us-east1`)
		_, err = Open(ctx, Postgres(url))
		require.ErrorContains(t, err, "the database has the regions asia-northeast1, europe-west1, us-east1")
		return
	}
	_, err = Open(ctx, Cockroach(url, "us-east1"))
	require.ErrorContains(t, err, `the database has no region "us-east1", but here`)
	require.NoError(t, Migrate(ctx, Postgres(url), "there"))
	_, err = Open(ctx, Postgres(url))
	require.ErrorContains(t, err, "the database has the regions here, there")
}

// A key is at home where it was first used, and a process in any region acts on it.
func TestOperationsInSeveralRegions(t *testing.T) {
	if !onCockroach() {
		t.Skip("PostgreSQL has one region: run it with HOMEWARD_TEST_KIND=cockroachdb")
	}
	ctx, server, name := t.Context(), dbtest.Shared(t), migrated.Database(t)
	var all []*Homeward
	var pools []*pgxpool.Pool
	for _, r := range dbtest.Regions {
		all = append(all, open(t, Cockroach(server.URL(r, name), r)))
		pool, err := pgxpool.New(ctx, server.URL(r, name))
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		pools = append(pools, pool)
	}
	for i, region := range dbtest.Regions {
		op := Op{Tenant: "acme", Name: "ship", Key: "of-" + region, Request: []byte("one")}
		first, err := all[i].Do(ctx, op, always(Done{Reply: []byte("shipped from " + region)}))
		require.NoError(t, err)
		rec, _, found, err := all[0].rows.store.Get(ctx, claim.Key{Tenant: "acme", Value: op.Key}, region)
		require.NoError(t, err)
		require.True(t, found, "it is at home in %s", region)
		require.Equal(t, claim.Completed, rec.State)
		other := op
		other.Request = []byte("two")
		for _, h := range all {
			again, err := h.Do(ctx, op, never(t))
			require.NoError(t, err)
			require.Equal(t, []any{first.Body, true}, []any{again.Body, again.Replayed})
			_, err = h.Do(ctx, other, never(t))
			require.ErrorIs(t, err, claim.ErrMismatch)
		}

		// A transaction of any region finds the claim of another one's.
		tx := Op{Tenant: "acme", Key: "tx-" + region}
		bodies := map[string]int{}
		for n := range pools {
			n = (i + n) % len(pools)
			require.NoError(t, pgx.BeginFunc(ctx, pools[n], func(inner pgx.Tx) error {
				r, err := all[n].DoTx(ctx, inner, tx, func(pgx.Tx) ([]byte, error) { return []byte("by " + dbtest.Regions[n]), nil })
				bodies[string(r.Body)]++
				return err
			}))
		}
		require.Equal(t, map[string]int{"by " + region: len(pools)}, bodies)
	}

	var ran atomic.Int32
	var twins sync.WaitGroup
	for i := range 12 { // a key of no region
		twins.Go(func() {
			r, err := all[i%len(all)].Do(ctx, Op{Tenant: "globex", Key: "twin"}, func(context.Context, Attempt) Outcome {
				return Done{Reply: fmt.Append(nil, ran.Add(1))}
			})
			if err != nil || string(r.Body) != "1" {
				t.Error(string(r.Body), err)
			}
		})
	}
	twins.Wait()
}

// The tables are beside the program's, and migrating again changes nothing.
func TestTheSchemaIsItsOwn(t *testing.T) {
	url := database(t)
	ctx := t.Context()
	require.NoError(t, Migrate(ctx, sqlAt(url)))
	require.NoError(t, Migrate(ctx, Embedded("unused")))
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	rows, err := conn.Query(ctx, "SELECT DISTINCT n.nspname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'crdb_internal', 'pg_extension')")
	require.NoError(t, err)
	schemas, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"homeward"}, schemas)
	h := open(t, sqlAt(url))
	_, err = h.rows.sweep(ctx, 10) // by a function, on PostgreSQL
	require.NoError(t, err)
	if onCockroach() { // its functions name their tables by id
		return
	}
	rows, err = conn.Query(ctx, "SELECT array_to_string(proconfig, ';') FROM pg_proc WHERE prosecdef AND pronamespace = 'homeward'::regnamespace")
	require.NoError(t, err)
	paths, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Len(t, paths, 3)
	for _, p := range paths {
		require.Equal(t, "search_path=pg_catalog, homeward, pg_temp", p)
	}
}

// The roles of a database may be made for the package's schema, and the one of nodes is enough for a program.
func TestRolesOfAProgram(t *testing.T) {
	at := database(t)
	if onCockroach() {
		t.Skip("roles outlive a test's database on CockroachDB")
	}
	ctx := t.Context()
	m, err := sqlstore.OpenMigrator(ctx, within(at, schema), true)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(context.Background())) }()
	roles := sqlstore.Roles{Owner: "shop_owner", Node: "shop_node", Reader: "shop_reader"}
	conn, err := pgx.Connect(ctx, at)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, name := range []string{roles.Reader, roles.Node, roles.Owner} {
			_, err := conn.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %s CASCADE; DROP ROLE %[1]s", name))
			require.NoError(t, err)
		}
		require.NoError(t, conn.Close(context.Background()))
	})
	steps := 0
	require.NoError(t, m.MakeRoles(ctx, roles, func(s sqlstore.Step) {
		steps++
		require.NotContains(t, s.SQL, "public.")
	}))
	require.NotZero(t, steps)
	planned, err := m.PlanRoles(ctx, roles)
	require.NoError(t, err)
	require.Empty(t, planned, "there is nothing left to do")
	_, err = conn.Exec(ctx, "ALTER ROLE shop_node PASSWORD 'secret'")
	require.NoError(t, err)
	as, err := url.Parse(at)
	require.NoError(t, err)
	as.User = url.UserPassword(roles.Node, "secret")
	h := open(t, Postgres(as.String()))
	_, err = h.Do(ctx, Op{Key: "k"}, always(Done{}))
	require.NoError(t, err)
	_, err = h.rows.sweep(ctx, 10)
	require.NoError(t, err)
}

const (
	crashURL   = "HOMEWARD_CRASH_URL"
	crashPoint = "HOMEWARD_CRASH_POINT"
	crashOp    = "HOMEWARD_CRASH_OP"
)

// crashing kills this process at a step of the store.
type crashing struct {
	claim.Store
	at string
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (c *crashing) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	if c.at == "before begin" {
		die()
	}
	b, err := c.Store.Begin(ctx, a)
	if c.at == "after begin" && err == nil {
		die()
	}
	return b, err
}

func (c *crashing) Settle(ctx context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	if c.at == "before settle" {
		die()
	}
	r, err := c.Store.Settle(ctx, held, v)
	if c.at == "after settle" && err == nil {
		die()
	}
	return r, err
}

// crash is the process that dies.
func crash() {
	at := os.Getenv(crashPoint)
	ctx := context.Background()
	url := os.Getenv(crashURL)
	var h *Homeward
	err := claim.ErrUnavailable
	for tries := 0; errors.Is(err, claim.ErrUnavailable) && tries < 30; tries++ { // the machine may be busy
		h, err = Open(ctx, sqlAt(url), quiet, quick, func(s *settings) {
			s.wrapStore = func(store claim.Store) claim.Store { return &crashing{store, at} }
		})
	}
	if err != nil {
		panic(err)
	}
	op := Op{Tenant: "acme", Key: os.Getenv(crashOp), Repeatable: strings.HasSuffix(os.Getenv(crashOp), "repeatable")}
	err = claim.ErrUnavailable
	for tries := 0; errors.Is(err, claim.ErrUnavailable) && tries < 30; tries++ {
		_, err = h.Do(ctx, op, doomed(url, at, op.Key))
	}
	fmt.Println("it lives:", err)
}

// doomed is a function that may not live to its end.
func doomed(url, at, key string) func(context.Context, Attempt) Outcome {
	return func(ctx context.Context, a Attempt) Outcome {
		if at == "before the work" {
			die()
		}
		work(ctx, url, key, a)
		if at == "after the work" {
			die()
		}
		return Done{Reply: []byte("done by the first")}
	}
}

// work has an effect, which is deduped by the attempt's key as a provider does.
func work(ctx context.Context, url, key string, a Attempt) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "INSERT INTO public.effects (dedupe, key) VALUES ($1, $2) ON CONFLICT DO NOTHING", a.Key, key); err != nil {
		panic(err)
	}
}

// The process is killed at each point, and another one gets the retry.
func TestCrashPoints(t *testing.T) {
	url := database(t)
	ctx := t.Context()
	pool, err := pgxpool.New(ctx, url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS public.effects (dedupe text PRIMARY KEY, key text NOT NULL)")
	require.NoError(t, err)
	h := open(t, sqlAt(url), quick)
	ctx = context.WithoutCancel(ctx) // the parallel ones run when this function has ended
	const first, second, unknown = "done by the first", "done by the second", "unknown"
	for _, c := range []struct {
		point, kind, want string
		effects           int
	}{
		{"before begin", "once", second, 1},
		{"after begin", "once", unknown, 0},
		{"before the work", "once", unknown, 0},
		{"after the work", "once", unknown, 1},
		{"before settle", "once", unknown, 1},
		{"after settle", "once", first, 1},
		{"before begin", "repeatable", second, 1},
		{"after begin", "repeatable", second, 1},
		{"before the work", "repeatable", second, 1},
		{"after the work", "repeatable", second, 1},
		{"before settle", "repeatable", second, 1},
		{"after settle", "repeatable", first, 1},
	} {
		t.Run(c.kind+" "+c.point, func(t *testing.T) {
			t.Parallel()
			key := strings.ReplaceAll(c.point, " ", "-") + "-" + c.kind
			child := exec.CommandContext(ctx, os.Args[0])
			child.Env = append(os.Environ(), crashURL+"="+url, crashPoint+"="+c.point, crashOp+"="+key)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s", out)
			require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "%s", out)

			got := ""
			require.Eventually(t, func() bool {
				r, err := h.Do(ctx, Op{Tenant: "acme", Key: key, Repeatable: c.kind == "repeatable"}, func(ctx context.Context, a Attempt) Outcome {
					require.Equal(t, c.kind == "repeatable" && c.point != "before begin", a.Recovery)
					work(ctx, url, key, a)
					return Done{Reply: []byte(second)}
				})
				var inUse *claim.InUseError
				switch {
				case errors.As(err, &inUse), errors.Is(err, claim.ErrUnavailable):
					return false
				case errors.Is(err, ErrUnknown):
					got = unknown
				default:
					require.NoError(t, err)
					got = string(r.Body)
				}
				return true
			}, 30*time.Second, 10*time.Millisecond)
			require.Equal(t, c.want, got)
			var n int
			require.NoError(t, pool.QueryRow(ctx, "SELECT count(*) FROM public.effects WHERE key = $1", key).Scan(&n))
			require.Equal(t, c.effects, n)
		})
	}
}

// A claim of a function that could not be repeated stays so, whatever the program says by then.
func TestWhatWasNotRepeatableStaysSo(t *testing.T) {
	url := database(t)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), crashURL+"="+url, crashPoint+"=before the work", crashOp+"=then-once")
	require.Error(t, child.Run())
	h := open(t, sqlAt(url), quick, func(s *settings) { s.poll = time.Hour }) // no worker is faster
	require.Eventually(t, func() bool {
		_, err := h.Do(t.Context(), Op{Tenant: "acme", Key: "then-once", Repeatable: true}, never(t))
		return errors.Is(err, ErrUnknown)
	}, 30*time.Second, 10*time.Millisecond)
}

// After a release the key is of whoever calls next: a call that may not be repeated is not, although the
// released one might have been.
func TestAGenerationIsRepeatableOrNot(t *testing.T) {
	m := &silent{}
	h := open(t, Embedded(t.TempDir()), quick, func(s *settings) {
		s.poll = time.Hour // no worker is faster
		s.wrapStore = func(store claim.Store) claim.Store { m.Store = store; return m }
	})
	op := Op{Key: "k", Repeatable: true}
	_, err := h.Do(t.Context(), op, always(Released{}))
	require.NoError(t, err)
	op.Repeatable = false
	m.on.Store(true)
	var unknown *claim.UnknownError
	require.Eventually(t, func() bool { // until it is no longer under way with the release
		_, err := h.Do(t.Context(), op, always(Done{}))
		return errors.As(err, &unknown)
	}, 30*time.Second, 10*time.Millisecond)
	m.on.Store(false)
	op.Repeatable = true
	require.Eventually(t, func() bool {
		_, err := h.Do(t.Context(), op, never(t))
		return errors.Is(err, ErrUnknown)
	}, 30*time.Second, 10*time.Millisecond)
}

// late is a store whose answer to Begin comes when the lease that it has written cannot be trusted any more.
type late struct {
	claim.Store
	on   atomic.Bool
	wait time.Duration
}

func (l *late) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	b, err := l.Store.Begin(ctx, a)
	if l.on.CompareAndSwap(true, false) {
		time.Sleep(l.wait) // which is what has to pass
	}
	return b, err
}

// A call that got its claim too late has begun nothing, and the row says so: the function runs with the next
// one, whatever it is, and the key is free where no other comes.
func TestAClaimThatComesTooLate(t *testing.T) {
	for name, next := range map[string]func(t *testing.T, h *Homeward, op Op){
		"the next call": func(t *testing.T, h *Homeward, op Op) {
			r, err := h.Do(t.Context(), op, func(_ context.Context, a Attempt) Outcome {
				require.False(t, a.Recovery)
				return Done{Reply: []byte("done")}
			})
			require.NoError(t, err)
			require.Equal(t, "done", string(r.Body))
		},
		"a worker": func(t *testing.T, h *Homeward, op Op) {
			key := claim.Key{Tenant: anyone, Value: op.Key}
			require.Eventually(t, func() bool {
				rec, _, found, err := h.rows.store.Get(t.Context(), key, h.rows.region)
				return err == nil && found && rec.State == claim.FailedRetry
			}, 30*time.Second, 10*time.Millisecond)
			require.Eventually(t, func() bool { // a call that began before the release reads that nothing ran
				r, err := h.Do(t.Context(), op, always(Done{Reply: []byte("done")}))
				if errors.Is(err, claim.ErrUnavailable) {
					return false
				}
				require.NoError(t, err)
				return string(r.Body) == "done"
			}, 30*time.Second, 10*time.Millisecond)
		},
	} {
		for _, repeatable := range []bool{false, true} {
			if repeatable && name == "a worker" { // it waits for a call
				continue
			}
			t.Run(fmt.Sprint(name, repeatable), func(t *testing.T) {
				t.Parallel()
				l := &late{}
				h := open(t, Embedded(t.TempDir()), quick, func(s *settings) {
					if name != "a worker" {
						s.poll = time.Hour // none is faster
					}
					policy := s.policy
					s.policy = func(p *claim.Policy) { policy(p); l.wait = p.Lease - p.LeaseMargin }
					s.wrapStore = func(store claim.Store) claim.Store { l.Store = store; return l }
				})
				l.on.Store(true)
				op := Op{Key: "k", Repeatable: repeatable}
				_, err := h.Do(t.Context(), op, never(t))
				var unknown *claim.UnknownError
				require.ErrorAs(t, err, &unknown)
				next(t, h, op)
			})
		}
	}
}

// silent is a store that records no outcome while it is on.
type silent struct {
	claim.Store
	on atomic.Bool
}

func (s *silent) Settle(ctx context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	if s.on.Load() {
		return claim.Record{}, claim.ErrUnavailable
	}
	return s.Store.Settle(ctx, held, v)
}

// The worker of another process ends what nobody calls again, and leaves alone what a call could
// still find out.
func TestAnAbandonedClaimEnds(t *testing.T) {
	url := database(t)
	ctx := t.Context()
	h := open(t, sqlAt(url), quick)
	for _, kind := range []string{"once", "repeatable"} {
		child := exec.CommandContext(ctx, os.Args[0])
		child.Env = append(os.Environ(), crashURL+"="+url, crashPoint+"=before the work", crashOp+"=left-"+kind)
		require.Error(t, child.Run())
	}
	get := func(kind string) claim.Record {
		rec, _, found, err := h.rows.store.Get(ctx, claim.Key{Tenant: "acme", Value: "left-" + kind}, h.rows.region)
		require.NoError(t, err)
		require.True(t, found)
		return rec
	}
	require.Eventually(t, func() bool { return get("once").State == claim.FailedTerminal }, 30*time.Second, 20*time.Millisecond)
	require.Equal(t, claim.ReasonOutcomeUnknown, get("once").Reason)

	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	// The worker has looked at the other one, and put it off.
	require.Eventually(t, func() bool {
		var later bool
		require.NoError(t, conn.QueryRow(ctx, "SELECT call_due > now() + '1 hour'::interval FROM homeward.claims WHERE idem_key = 'left-repeatable'").Scan(&later))
		return later
	}, 30*time.Second, 20*time.Millisecond)
	require.Equal(t, claim.InFlight, get("repeatable").State)

	// One that waits for somebody else is never ended.
	_, err = h.Do(ctx, Op{Tenant: "acme", Key: "left-pending", Repeatable: true}, always(Pending{Reply: []byte("wait"), AskIn: time.Millisecond}))
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "UPDATE homeward.claims SET held_since = held_since - '2 days'::interval, call_due = now() WHERE idem_key = 'left-pending'")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var later bool
		require.NoError(t, conn.QueryRow(ctx, "SELECT call_due > now() + '1 hour'::interval FROM homeward.claims WHERE idem_key = 'left-pending'").Scan(&later))
		return later
	}, 30*time.Second, 20*time.Millisecond)
	require.Equal(t, claim.InFlight, get("pending").State)

	_, err = conn.Exec(ctx, "UPDATE homeward.claims SET held_since = held_since - '1 day'::interval, lease_until = lease_until - '1 day'::interval, call_due = now() WHERE idem_key = 'left-repeatable'")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return get("repeatable").State == claim.FailedTerminal }, 30*time.Second, 20*time.Millisecond)
	_, err = h.Do(ctx, Op{Tenant: "acme", Key: "left-repeatable", Repeatable: true}, never(t))
	require.ErrorIs(t, err, ErrUnknown)
}

// Who names no tenant shares no key with a tenant of any name, and what no store takes for a tenant is
// refused for good.
func TestTenantsOfOperations(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		_, err := h.Do(t.Context(), Op{Key: "k"}, always(Done{Reply: []byte("of nobody")}))
		require.NoError(t, err)
		for _, tenant := range []string{"anyone", "nobody", "~", "acme~tests"} {
			r, err := h.Do(t.Context(), Op{Tenant: tenant, Key: "k"}, always(Done{Reply: []byte(tenant)}))
			require.NoError(t, err, tenant)
			require.Equal(t, tenant, string(r.Body))
		}
		for _, tenant := range []string{anyone, "acme~test", "~test", "a\x00", "\xff", strings.Repeat("a", maxTenant+1)} {
			_, err := h.Do(t.Context(), Op{Tenant: tenant, Key: "k"}, never(t))
			require.ErrorContains(t, err, "a tenant must", tenant)
			require.NotErrorIs(t, err, claim.ErrUnavailable)
		}
	})
}

// A key that was released again and again is still released.
func TestAKeyIsReleasedOften(t *testing.T) {
	h := open(t, Embedded(t.TempDir()), quick, func(s *settings) {
		policy := s.policy
		s.policy = func(p *claim.Policy) { policy(p); p.DeclinePause = 0 }
	})
	var runs int
	require.Eventually(t, func() bool { // a call that is under way in the millisecond of a release shares it
		r, err := h.Do(t.Context(), Op{Key: "k"}, func(_ context.Context, a Attempt) Outcome {
			runs = a.Number
			if runs > 2*int(claim.DefaultPolicy().MaxGenerations) {
				return Done{}
			}
			return Released{}
		})
		require.NoError(t, err)
		require.Contains(t, []State{StateReleased, StateDone}, r.State)
		return r.State == StateDone
	}, 30*time.Second, time.Millisecond)
}

// Nothing of a request is stored but a hash.
func TestNoRequestIsStored(t *testing.T) {
	url := database(t)
	ctx := t.Context()
	h := open(t, sqlAt(url))
	secret := []byte("4242424242424242")
	_, err := h.Do(ctx, Op{Tenant: "acme", Key: "secret", Request: secret, Repeatable: true}, func(ctx context.Context, _ Attempt) Outcome {
		conn, err := pgx.Connect(ctx, url)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(context.Background())) }()
		var row []byte
		require.NoError(t, conn.QueryRow(ctx, "SELECT call_payload FROM homeward.claims WHERE idem_key = 'secret'").Scan(&row))
		require.False(t, bytes.Contains(row, secret))
		return Done{}
	})
	require.NoError(t, err)
}

// A refusal leaves no row but its claim's: nobody reports later that it was a success after all.
func TestARefusalIsForgottenWithItsClaim(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		_, err := h.Do(t.Context(), Op{Tenant: "acme", Key: "k"}, always(Refused{}))
		require.NoError(t, err)
		rec, _, found, err := h.rows.store.Get(t.Context(), claim.Key{Tenant: "acme", Value: "k"}, h.rows.region)
		require.NoError(t, err)
		require.True(t, found)
		_, found, err = h.rows.store.Unpaid(t.Context(), h.rows.region, rec.Minted.ID)
		require.NoError(t, err)
		require.False(t, found)
	})
}

// A key that another deployment has stamped is refused for good. One of a region that was added since
// is at home there.
func TestAKeyOfAnotherDeployment(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		key, err := claim.Stamp(7, nil)
		require.NoError(t, err)
		_, err = h.Do(t.Context(), Op{Key: key}, never(t))
		var refused *claim.KeyError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, "region 7 of another deployment")
		require.NotErrorIs(t, err, claim.ErrUnavailable)
		if h.rows.sql != nil {
			_, err = h.DoTx(t.Context(), nil, Op{Key: key}, nil)
			require.ErrorAs(t, err, &refused)
		}
		key, err = claim.Stamp(1, nil)
		require.NoError(t, err)
		h.codes.Store(&codes{}) // as before it was added
		_, err = h.Do(t.Context(), Op{Key: key}, always(Done{}))
		require.NoError(t, err)
	})
}

// An attempt that calls under its own key would wait for itself.
func TestACallWithinItsOwnAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		op := Op{Tenant: "acme", Key: "k"}
		_, err := h.Do(t.Context(), op, func(ctx context.Context, a Attempt) Outcome {
			_, err := h.Do(ctx, op, never(t))
			require.ErrorContains(t, err, "derived from Attempt.ID")
			if h.rows.sql != nil {
				_, err = h.DoTx(ctx, nil, op, nil)
				require.ErrorContains(t, err, "derived from Attempt.ID")
			}
			_, err = h.Do(ctx, Op{Tenant: "acme", Key: a.ID}, always(Done{}))
			require.NoError(t, err)
			return Done{}
		})
		require.NoError(t, err)
	})
}
