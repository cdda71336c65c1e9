package wireproxy

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

const insert = "-- name: insert\nINSERT INTO wireproxy_rows (id) VALUES ($1)"

// world is a node's pool behind a proxy, and the test's own connection past it.
type world struct {
	t      *testing.T
	proxy  *Proxy
	pool   *pgxpool.Pool
	direct *pgx.Conn
}

// patience bounds a test that hangs; nothing is asserted about it.
const patience = 20 * time.Second

func connect(t *testing.T) *world {
	t.Helper()
	databaseURL := dbtest.Database(t)
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	w := &world{t: t}
	w.direct, err = pgx.Connect(t.Context(), databaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.direct.Close(context.WithoutCancel(t.Context()))) })
	_, err = w.direct.Exec(t.Context(), "CREATE TABLE wireproxy_rows (id INT PRIMARY KEY)")
	require.NoError(t, err)
	w.proxy, err = Start(u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.proxy.Close()) })
	w.pool, err = pgxpool.New(t.Context(), w.proxy.URL(databaseURL))
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	return w
}

func (w *world) wait(shot *Shot) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	require.NoError(w.t, shot.Wait(ctx))
}

func (w *world) holds(id int) bool {
	w.t.Helper()
	var there bool
	require.NoError(w.t, w.direct.QueryRow(w.t.Context(),
		"SELECT EXISTS (SELECT 1 FROM wireproxy_rows WHERE id = $1)", id).Scan(&there))
	return there
}

func (w *world) execute(ctx context.Context, id int) error {
	_, err := w.pool.Exec(ctx, insert, id)
	return err
}

func (w *world) recovers(id int) {
	w.t.Helper()
	require.NoError(w.t, w.execute(w.t.Context(), id))
	require.True(w.t, w.holds(id))
}

// lost says that the connection failed, and nothing about the statement.
func lost(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	var answer *pgconn.PgError
	require.NotErrorAs(t, err, &answer, "answered: %v", err)
}

func answered(t *testing.T, code string, err error) {
	t.Helper()
	var answer *pgconn.PgError
	require.ErrorAs(t, err, &answer)
	require.Equal(t, code, answer.Code)
}

// Each fault twice: at the first use on a connection, which prepares, and later.
func TestWhatTheClientSeesAndTheDatabaseHolds(t *testing.T) {
	tests := []struct {
		fault    Fault
		saw      string // SQLSTATE; "" is a lost connection
		executed bool
	}{
		{DropBefore, "", false},
		{DropAfter, "", true},
		{Refuse40001, "40001", false},
		{RowsThenError, "40001", false},
		{Ambiguous40003Done, "40003", true},
		{Ambiguous40003NotDone, "40003", false},
	}
	for _, tt := range tests {
		t.Run(tt.fault.String(), func(t *testing.T) {
			w := connect(t)
			for round := range 2 {
				id, before := 10*round, w.proxy.Statements()["insert"]
				shot := w.proxy.Arm("insert", tt.fault, 1)
				err := w.execute(t.Context(), id)
				if tt.saw == "" {
					lost(t, err)
				} else {
					answered(t, tt.saw, err)
				}
				require.Equal(t, 1, shot.Fired())
				require.Equal(t, tt.executed, w.holds(id))
				passed := 0
				if tt.executed || tt.fault == RowsThenError {
					passed = 1
				}
				require.Equal(t, passed, w.proxy.Statements()["insert"]-before)
				w.recovers(id + 1)
				require.Equal(t, passed+1, w.proxy.Statements()["insert"]-before)
			}
			if tt.saw != "" {
				require.EqualValues(t, 1, w.pool.Stat().NewConnsCount(), "the connection should have lived on")
			}
		})
	}
}

// The rows come before the error, and are rolled back.
func TestRowsComeBeforeTheirError(t *testing.T) {
	w := connect(t)
	seen := 0
	w.proxy.Arm("insert", RowsThenError, 1)
	rows, err := w.pool.Query(t.Context(), insert+" RETURNING id", 7)
	require.NoError(t, err)
	for rows.Next() {
		seen++
	}
	answered(t, "40001", rows.Err())
	require.Equal(t, 1, seen)
	require.False(t, w.holds(7))
	w.recovers(8)
	require.EqualValues(t, 1, w.pool.Stat().NewConnsCount(), "the connection should have lived on")
}

func TestAStallLastsUntilTheClientGivesUp(t *testing.T) {
	for fault, executed := range map[Fault]bool{StallBefore: false, StallAfter: true} {
		t.Run(fault.String(), func(t *testing.T) {
			w := connect(t)
			for round := range 2 {
				id := 10 * round
				shot := w.proxy.Arm("insert", fault, 1)
				ctx, giveUp := context.WithCancel(t.Context())
				failed := make(chan error, 1)
				go func() { failed <- w.execute(ctx, id) }()
				w.wait(shot)
				require.Equal(t, executed, w.holds(id))
				require.Empty(t, failed, "the client was answered")
				giveUp()
				err := <-failed
				require.ErrorIs(t, err, context.Canceled)
				lost(t, err)
				w.recovers(id + 1)
				require.Equal(t, executed, w.holds(id))
			}
		})
	}
}

func TestADisarmedShotHitsNothingMore(t *testing.T) {
	w := connect(t)
	for _, never := range []bool{false, true} {
		shot := w.proxy.Arm("insert", DropBefore, 3)
		if !never {
			lost(t, w.execute(t.Context(), 1))
		}
		shot.Disarm()
		shot.Disarm()
		w.wait(shot)
		require.Equal(t, map[bool]int{false: 1}[never], shot.Fired())
		w.recovers(map[bool]int{false: 1, true: 2}[never])
	}
}

func TestALateStatementCommitsAfterTheClientHasReadBack(t *testing.T) {
	w := connect(t)
	shot := w.proxy.Arm("insert", LateDone, 1)
	lost(t, w.execute(t.Context(), 1))
	require.False(t, w.holds(1))
	w.recovers(2)
	require.Equal(t, 1, w.proxy.Statements()["insert"])
	shot.Release()
	require.True(t, w.holds(1))
	require.Equal(t, 2, w.proxy.Statements()["insert"])
}

func TestCommitCanBeInjured(t *testing.T) {
	tests := []struct {
		fault     Fault
		saw       string
		committed bool
	}{
		{DropBefore, "", false},
		{DropAfter, "", true},
		{Refuse40001, "40001", false},
		{RowsThenError, "40001", false},
		{Ambiguous40003Done, "40003", true},
		{Ambiguous40003NotDone, "40003", false},
		{LateDone, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.fault.String(), func(t *testing.T) {
			w := connect(t)
			shot := w.proxy.Arm("sql:commit", tt.fault, 1)
			err := pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), insert, 1)
				return err
			})
			if tt.saw == "" {
				lost(t, err)
			} else {
				answered(t, tt.saw, err)
			}
			require.Equal(t, 1, shot.Fired())
			shot.Release()
			require.Equal(t, tt.committed, w.holds(1))
			w.recovers(2)
		})
	}
}

func TestAnInjuredStatementFailsItsTransaction(t *testing.T) {
	for _, fault := range []Fault{Refuse40001, RowsThenError, Ambiguous40003Done, Ambiguous40003NotDone} {
		t.Run(fault.String(), func(t *testing.T) {
			w := connect(t)
			w.proxy.Arm("insert", fault, 1)
			tx, err := w.pool.Begin(t.Context())
			require.NoError(t, err)
			defer tx.Rollback(context.WithoutCancel(t.Context())) // a failed test must not keep the pool open
			require.Error(t, func() error { _, err := tx.Exec(t.Context(), insert, 1); return err }())
			_, err = tx.Exec(t.Context(), insert, 2)
			answered(t, "25P02", err)
			require.ErrorIs(t, tx.Commit(t.Context()), pgx.ErrTxCommitRollback)
			require.False(t, w.holds(1))
			require.False(t, w.holds(2))
			w.recovers(3)
		})
	}
}

func TestABatchIsInjuredAsAWhole(t *testing.T) {
	w := connect(t)
	send := func(first int) error {
		var b pgx.Batch
		b.Queue(insert, first)
		b.Queue("-- name: second\nINSERT INTO wireproxy_rows (id) VALUES ($1 + 0)", first+1)
		return w.pool.SendBatch(t.Context(), &b).Close()
	}
	w.proxy.Arm("second", Refuse40001, 1)
	answered(t, "40001", send(1))
	require.False(t, w.holds(1))
	w.proxy.Arm("second", DropAfter, 1)
	lost(t, send(1))
	require.True(t, w.holds(1))
	require.True(t, w.holds(2))
	require.NoError(t, send(3))
	require.Equal(t, 2, w.proxy.Statements()["second"])
	require.Equal(t, 2, w.proxy.Statements()["insert"])
}

func TestEveryModeOfExecutionIsSeen(t *testing.T) {
	w := connect(t)
	for i, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			before := w.proxy.Statements()["insert"]
			shot := w.proxy.Arm("insert", Refuse40001, 1)
			_, err := w.pool.Exec(t.Context(), insert, mode, i)
			answered(t, "40001", err)
			require.Equal(t, 1, shot.Fired())
			_, err = w.pool.Exec(t.Context(), insert, mode, i)
			require.NoError(t, err)
			require.True(t, w.holds(i))
			require.Equal(t, before+1, w.proxy.Statements()["insert"])
		})
	}
}

func TestADatabaseCanBeGoneAndComeBack(t *testing.T) {
	w := connect(t)
	w.recovers(1)
	w.proxy.Refuse(true)
	require.NoError(t, w.pool.Ping(t.Context()), "a connection that exists lives on")
	w.proxy.CutAll()
	lost(t, w.execute(t.Context(), 2))
	lost(t, w.execute(t.Context(), 2))
	w.proxy.Refuse(false)
	w.recovers(2)
}

func TestACancelledStatementIsCancelledInTheDatabase(t *testing.T) {
	w := connect(t)
	// The row is locked, so that the second insert of it waits.
	tx, err := w.direct.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), insert, 1)
	require.NoError(t, err)
	conn, err := w.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), insert, 1)
		failed <- err
	}()
	// Until the insert waits, a cancel request finds nothing to cancel: ask again.
	for len(failed) == 0 {
		require.NoError(t, conn.Conn().PgConn().CancelRequest(t.Context()))
	}
	answered(t, "57014", <-failed)
	require.NoError(t, tx.Rollback(t.Context()))
	require.False(t, w.holds(1))
}
