package homeward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
)

// shop is a program with a table of its own.
type shop struct {
	h    *Homeward
	pool *pgxpool.Pool
	runs atomic.Int32
}

func newShop(t *testing.T, url string) *shop {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, item text NOT NULL)")
	require.NoError(t, err)
	return &shop{h: open(t, sqlAt(url)), pool: pool}
}

// again reports whether err asks for the transaction to run again, which is how CockroachDB, and
// PostgreSQL above READ COMMITTED, end one of two.
func again(err error, level pgx.TxIsoLevel) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && state.SQLState() == "40001" && (onCockroach() || level != pgx.ReadCommitted)
}

// order is what a caller of DoTx writes.
func (s *shop) order(tx pgx.Tx) ([]byte, error) {
	run := s.runs.Add(1)
	var id int
	err := tx.QueryRow(context.Background(), "INSERT INTO orders (item) VALUES ('book') RETURNING id").Scan(&id)
	return fmt.Appendf(nil, "order %d of run %d", id, run), err
}

// buy is one transaction.
func (s *shop) buy(ctx context.Context, key string, options pgx.TxOptions) (reply Reply, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error {
		reply, err = s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: key}, s.order)
		return err
	})
	return reply, err
}

// bought is buy, run again for as long as CockroachDB asks for that, as it does of a slow transaction.
func bought(buy func() (Reply, error)) (Reply, error) {
	reply, err := buy()
	for onCockroach() && again(err, pgx.Serializable) {
		reply, err = buy()
	}
	return reply, err
}

func (s *shop) orders(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, s.pool.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n))
	return n
}

func TestATransactionRunsOnce(t *testing.T) {
	s := newShop(t, database(t))
	ctx := t.Context()
	first, err := bought(func() (Reply, error) { return s.buy(ctx, "k1", pgx.TxOptions{}) })
	require.NoError(t, err)
	require.Equal(t, StateDone, first.State)
	require.False(t, first.Replayed)
	retry, err := bought(func() (Reply, error) { return s.buy(ctx, "k1", pgx.TxOptions{}) })
	require.NoError(t, err)
	require.True(t, retry.Replayed)
	require.Equal(t, first.Body, retry.Body)
	require.True(t, first.FirstUse.Equal(retry.FirstUse))
	require.True(t, first.ExpiresAt.Equal(retry.ExpiresAt))
	require.Equal(t, 1, s.orders(t))
	require.EqualValues(t, 1, s.runs.Load())

	tx, err := s.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: "k1", Request: []byte("other")}, s.order)
	require.ErrorIs(t, err, claim.ErrMismatch)
	_, err = s.h.Do(ctx, Op{Tenant: "acme", Key: "k1"}, never(t))
	require.ErrorIs(t, err, claim.ErrMismatch, "a key is of one way of asking")
	// The transaction goes on, as it was.
	_, err = s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: "k2", Request: []byte("one")}, func(tx pgx.Tx) ([]byte, error) {
		var path string
		require.NoError(t, tx.QueryRow(ctx, "SHOW search_path").Scan(&path))
		require.Equal(t, `"$user", public`, path, "the function's statements are in the program's schema")
		return s.order(tx)
	})
	require.NoError(t, err)
	var path string
	require.NoError(t, tx.QueryRow(ctx, "SHOW search_path").Scan(&path))
	require.Equal(t, `"$user", public`, path)
	require.NoError(t, tx.Commit(ctx))
	rec, _, found, err := s.h.rows.store.Get(ctx, claim.Key{Tenant: "acme", Value: "k1"}, s.h.rows.region)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, claim.Completed, rec.State)
}

// What is rolled back has not happened: the claim neither.
func TestATransactionRollsBack(t *testing.T) {
	s := newShop(t, database(t))
	ctx := t.Context()
	tx, err := s.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: "k"}, s.order)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(ctx))
	require.Zero(t, s.orders(t))

	// A function that fails takes back what it did, and the claim; the rest commits.
	sold := errors.New("sold out")
	tx, err = s.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "INSERT INTO orders (item) VALUES ('before')")
	require.NoError(t, err)
	_, err = s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: "k"}, func(tx pgx.Tx) ([]byte, error) {
		_, err := s.order(tx)
		require.NoError(t, err)
		return nil, sold
	})
	require.ErrorIs(t, err, sold)
	require.NoError(t, tx.Commit(ctx))
	require.Equal(t, 1, s.orders(t))

	// So does one that panics.
	require.Panics(t, func() {
		_ = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			_, err := s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: "k"}, func(pgx.Tx) ([]byte, error) { panic("boom") })
			return err
		})
	})
	tx = mustBegin(t, s.pool)
	_, err = s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: "k"}, func(pgx.Tx) ([]byte, error) { return make([]byte, maxReply+1), nil })
	require.ErrorContains(t, err, "nothing was written")
	require.NoError(t, tx.Rollback(ctx)) // on CockroachDB a row that a savepoint took back stays locked until then

	reply, err := bought(func() (Reply, error) { return s.buy(ctx, "k", pgx.TxOptions{}) })
	require.NoError(t, err)
	require.False(t, reply.Replayed, "the key was never used")
	require.Equal(t, 2, s.orders(t))
}

func mustBegin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// Twins wait for each other, also of two processes, and those above READ COMMITTED run again.
func TestTwinsOfATransaction(t *testing.T) {
	url := database(t)
	shops := []*shop{newShop(t, url), newShop(t, url)}
	levels := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	if onCockroach() {
		levels = []pgx.TxIsoLevel{pgx.Serializable, pgx.RepeatableRead} // which is the former there
	}
	for i := range 10 * len(levels) { // as twins meet at each index of a pin, but seldom at the second
		level := levels[i%len(levels)]
		key := fmt.Sprint("twin-", i)
		var wg sync.WaitGroup
		var mu sync.Mutex
		bodies := map[string]int{}
		const twins = 8
		for n := range twins {
			wg.Go(func() {
				for {
					r, err := shops[n%2].buy(t.Context(), key, pgx.TxOptions{IsoLevel: level})
					if again(err, level) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					bodies[string(r.Body)]++
					mu.Unlock()
					return
				}
			})
		}
		wg.Wait()
		require.Len(t, bodies, 1, level)
		require.Equal(t, i+1, shops[0].orders(t))
	}
}

// A twin waits on the row of a transaction that is open.
func TestATwinWaits(t *testing.T) {
	s := newShop(t, database(t))
	ctx := t.Context()
	for _, commit := range []bool{true, false} {
		key := fmt.Sprint("wait-", commit)
		tx := mustBegin(t, s.pool)
		_, err := s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: key}, s.order)
		require.NoError(t, err)
		type end struct {
			Reply
			error
		}
		ended := make(chan end, 1)
		go func() {
			r, err := bought(func() (Reply, error) { return s.buy(ctx, key, pgx.TxOptions{}) })
			ended <- end{r, err}
		}()
		waits := "SELECT count(*) FROM pg_locks WHERE NOT granted"
		if onCockroach() {
			waits = "SELECT count(*) FROM crdb_internal.cluster_locks WHERE NOT granted AND database_name = current_database()"
		}
		require.Eventually(t, func() bool { // it waits for a lock
			var n int
			require.NoError(t, s.pool.QueryRow(ctx, waits).Scan(&n))
			return n == 1
		}, 20*time.Second, 5*time.Millisecond)
		require.Empty(t, ended)
		if commit {
			require.NoError(t, tx.Commit(ctx))
		} else {
			require.NoError(t, tx.Rollback(ctx))
		}
		e := <-ended
		require.NoError(t, e.error)
		require.Equal(t, commit, e.Replayed)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	tx := mustBegin(t, s.pool)
	_, err := s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: "short"}, s.order)
	require.NoError(t, err)
	_, err = s.buy(short, "short", pgx.TxOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// through is a proxy in front of the database of url.
func through(t *testing.T, url string) *wireproxy.Proxy {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	proxy, err := wireproxy.Start(net.JoinHostPort(c.Host, fmt.Sprint(c.Port)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	return proxy
}

// The reply to COMMIT is lost: the transaction is done or not, and running it again reads which.
func TestTheReplyToACommitIsLost(t *testing.T) {
	url := database(t)
	ctx := t.Context()
	for fault, done := range map[wireproxy.Fault]bool{
		wireproxy.DropAfter: true, wireproxy.Ambiguous40003Done: true, wireproxy.DropBefore: false,
	} {
		t.Run(fault.String(), func(t *testing.T) {
			upstream := newShop(t, url)
			proxy := through(t, url)
			pool, err := pgxpool.New(ctx, proxy.URL(url))
			require.NoError(t, err)
			defer pool.Close()
			s := &shop{h: upstream.h, pool: pool}
			before := upstream.orders(t)
			shot := proxy.Arm("sql:commit", fault, 1)
			key := "lost-" + fault.String()
			_, err = bought(func() (Reply, error) { return s.buy(ctx, key, pgx.TxOptions{}) })
			require.Error(t, err)
			require.Equal(t, 1, shot.Fired())
			r, err := bought(func() (Reply, error) { return s.buy(ctx, key, pgx.TxOptions{}) })
			require.NoError(t, err)
			if !onCockroach() || fault != wireproxy.DropAfter { // the reply that was lost may have been a refusal of the commit
				require.Equal(t, done, r.Replayed)
			}
			require.Equal(t, before+1, upstream.orders(t))
		})
	}
}

// Its connection dies between any two statements: nothing has happened.
func TestAConnectionDiesInATransaction(t *testing.T) {
	url := database(t)
	ctx := t.Context()
	upstream := newShop(t, url)
	proxy := through(t, url)
	pool, err := pgxpool.New(ctx, proxy.URL(url))
	require.NoError(t, err)
	defer pool.Close()
	s := &shop{h: upstream.h, pool: pool}
	n := upstream.orders(t)
	for _, statement := range []string{"sql:savepoint", "begin_here", "sql:insert", "settle", "sql:release"} {
		for _, fault := range []wireproxy.Fault{wireproxy.DropBefore, wireproxy.DropAfter} {
			shot := proxy.Arm(statement, fault, 1)
			key := statement[len(statement)-4:] + fault.String()
			_, err := bought(func() (Reply, error) { return s.buy(ctx, key, pgx.TxOptions{}) })
			require.Error(t, err, statement)
			require.Equal(t, 1, shot.Fired(), statement)
			require.Equal(t, n, upstream.orders(t))
			r, err := bought(func() (Reply, error) { return s.buy(ctx, key, pgx.TxOptions{}) })
			require.NoError(t, err, statement)
			require.False(t, r.Replayed)
			n++
			require.Equal(t, n, upstream.orders(t))
		}
	}
	// What the database says reaches whoever runs the transaction again.
	proxy.Arm("settle", wireproxy.Refuse40001, 1)
	_, err = s.buy(ctx, "serialization", pgx.TxOptions{})
	var state interface{ SQLState() string }
	require.ErrorAs(t, err, &state)
	require.Equal(t, "40001", state.SQLState())
}

// A key past its tombstone is new, although its row is still there, and so is its pin.
func TestATransactionTakesAFreeKey(t *testing.T) {
	s := newShop(t, database(t))
	ctx := t.Context()
	_, err := bought(func() (Reply, error) { return s.buy(ctx, "old", pgx.TxOptions{}) })
	require.NoError(t, err)
	age := func(days int) {
		_, err := s.pool.Exec(ctx, `UPDATE homeward.claims SET first_use = now() - $1::int8 * '1 day'::interval, settled_at = now() - $1::int8 * '1 day'::interval`, days)
		require.NoError(t, err)
	}
	age(1)
	_, err = bought(func() (Reply, error) { return s.buy(ctx, "old", pgx.TxOptions{}) })
	var expired *claim.ExpiredError
	require.ErrorAs(t, err, &expired)
	age(3)
	for _, pins := range []string{"UPDATE homeward.pins SET created_at = now() - '3 days'::interval", "DELETE FROM homeward.pins"} {
		_, err = s.pool.Exec(ctx, pins)
		require.NoError(t, err)
		r, err := bought(func() (Reply, error) { return s.buy(ctx, "old", pgx.TxOptions{}) })
		require.NoError(t, err)
		require.False(t, r.Replayed)
		age(3)
	}
}

func TestATransactionNeedsADatabase(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	_, err := h.DoTx(t.Context(), nil, Op{Key: "k"}, nil)
	require.ErrorContains(t, err, "open Postgres or Cockroach")
}

// buyOn is one transaction on a connection.
func (s *shop) buyOn(ctx context.Context, conn *pgx.Conn, key string) (reply Reply, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		reply, err = s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: key}, s.order)
		return err
	})
	return reply, err
}

func dial(t *testing.T, config *pgx.ConnConfig) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

// How the program's connection sends its own statements is its own affair.
func TestATransactionInEachMode(t *testing.T) {
	url := database(t)
	s := newShop(t, url)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		config, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		config.DefaultQueryExecMode, config.StatementCacheCapacity, config.DescriptionCacheCapacity = mode, 8, 0
		if mode == pgx.QueryExecModeCacheDescribe {
			config.DescriptionCacheCapacity = 8
		}
		conn := dial(t, config)
		for _, replayed := range []bool{false, true} {
			r, err := bought(func() (Reply, error) { return s.buyOn(t.Context(), conn, fmt.Sprintf("mode-%d", mode)) })
			require.NoError(t, err, mode)
			require.Equal(t, replayed, r.Replayed, mode)
		}
	}
}

// A temporary table of the program hides none of ours.
func TestATransactionWithTemporaryTables(t *testing.T) {
	url := database(t)
	s := newShop(t, url)
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	conn := dial(t, config)
	if onCockroach() {
		_, err = conn.Exec(t.Context(), "SET experimental_enable_temp_tables = on")
		require.NoError(t, err)
	}
	_, err = conn.Exec(t.Context(), "CREATE TEMP TABLE pins (id int); CREATE TEMP TABLE claims (id int); CREATE TEMP TABLE audit (id int)")
	require.NoError(t, err)
	for _, replayed := range []bool{false, true} {
		r, err := bought(func() (Reply, error) { return s.buyOn(t.Context(), conn, "temporary") })
		require.NoError(t, err)
		require.Equal(t, replayed, r.Replayed)
	}
}

// What the database refuses a transaction is no outage: to ask again changes nothing.
func TestWhatATransactionMayNotDo(t *testing.T) {
	url := database(t)
	s := newShop(t, url)
	ctx := t.Context()
	buy := func(key string, options pgx.TxOptions, before string) error {
		return pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, before)
			require.NoError(t, err)
			_, err = s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: key}, func(pgx.Tx) ([]byte, error) { return nil, nil })
			return err
		})
	}
	refused := func(err error, code string) {
		t.Helper()
		var state interface{ SQLState() string }
		require.ErrorAs(t, err, &state)
		require.Equal(t, code, state.SQLState())
		require.NotErrorIs(t, err, claim.ErrUnavailable)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := s.pool.Exec(ctx, "CREATE ROLE clerk")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := s.pool.Exec(context.Background(), "DROP OWNED BY clerk; DROP ROLE clerk")
		require.NoError(t, err)
	})
	const asClerk = "SET LOCAL ROLE clerk"
	err = buy("clerk", pgx.TxOptions{}, asClerk)
	noSchema := "42P01"
	if onCockroach() {
		noSchema = "42501"
	}
	refused(err, noSchema)
	require.ErrorContains(t, err, "the role of this transaction may not use schema homeward; GRANT USAGE ON SCHEMA homeward")
	_, err = s.pool.Exec(ctx, "GRANT USAGE ON SCHEMA homeward TO clerk")
	require.NoError(t, err)
	err = buy("clerk", pgx.TxOptions{}, asClerk)
	refused(err, "42501")
	require.ErrorContains(t, err, "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA homeward")
	_, err = s.pool.Exec(ctx, "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA homeward TO clerk")
	require.NoError(t, err)
	for range 2 {
		_, err = bought(func() (Reply, error) { return Reply{}, buy("clerk", pgx.TxOptions{}, asClerk) })
		require.NoError(t, err, "these are all that it needs")
	}

	if onCockroach() {
		level := ""
		require.NoError(t, pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&level)
		}))
		if level != "serializable" { // a build without it takes the higher one
			err = buy("committed", pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, "SELECT 1")
			require.ErrorContains(t, err, "it is read committed, and a claim on CockroachDB needs a serializable one")
			require.NotErrorIs(t, err, claim.ErrUnavailable)
		}
	}
	err = buy("reader", pgx.TxOptions{AccessMode: pgx.ReadOnly}, "SELECT 1")
	refused(err, "25006")
	require.ErrorContains(t, err, "begin one that writes")
}

// The savepoint is not the function's to end.
func TestAFunctionCannotEndItsTransaction(t *testing.T) {
	s := newShop(t, database(t))
	ctx := t.Context()
	for name, end := range map[string]func(pgx.Tx) error{
		"commit": func(tx pgx.Tx) error { return tx.Commit(ctx) }, "rollback": func(tx pgx.Tx) error { return tx.Rollback(ctx) },
	} {
		before := s.orders(t)
		reply, err := bought(func() (reply Reply, err error) {
			err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
				reply, err = s.h.DoTx(ctx, tx, Op{Tenant: "acme", Key: name}, func(tx pgx.Tx) ([]byte, error) {
					require.ErrorContains(t, end(tx), "return an error to take back", name)
					var body []byte
					err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) (err error) { // its own savepoints are
						body, err = s.order(tx)
						return err
					})
					return body, err
				})
				return err
			})
			return reply, err
		})
		require.NoError(t, err, name)
		require.Equal(t, before+1, s.orders(t))
		retry, err := bought(func() (Reply, error) { return s.buy(ctx, name, pgx.TxOptions{}) })
		require.NoError(t, err)
		require.Equal(t, reply.Body, retry.Body)
	}
}
