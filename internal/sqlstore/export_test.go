package sqlstore

import (
	"context"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// StopWaiting makes notes count as written when they were made, for a database
// whose clock stands still.
func (db *DB) StopWaiting() {
	db.notes.flushing <- struct{}{}
	defer func() { <-db.notes.flushing }()
	db.since = func(time.Time) time.Duration { return 0 }
}

// MaxTries is how often one call runs a statement.
const MaxTries = maxTries

// Statements are all that the store sends to this database for rows of a region, by name:
// a text for each choice of lists that have rows.
func (db *DB) Statements(region string) map[string][]string {
	all := make(map[string][]string, len(db.queries))
	for name, q := range db.queries {
		all[name] = append(all[name], q.any.textIn(region))
		for choice := range 1 << len(q.lists) {
			numbers := make([]int, len(q.lists))
			for i, l := range q.lists {
				if !l.optional || choice>>i&1 == 1 {
					numbers[i] = manyRows
				}
			}
			if f, err := q.withRows(numbers); err == nil && !slices.Contains(all[name], f.textIn(region)) {
				all[name] = append(all[name], f.textIn(region))
			}
		}
	}
	return all
}

// Calls is how many calls have a connection or wait for one.
func (db *DB) Calls() int {
	begun, arriving := db.conns.Stats()
	return begun.Calls + arriving.Calls
}

// Connections is the pool's count of them, those being made included.
func (db *DB) Connections() int { return int(db.pool.Stat().TotalConns()) }

// Exec runs a statement of the test's own on one of the store's connections.
func (db *DB) Exec(ctx context.Context, sql string) error {
	_, err := db.pool.Exec(ctx, sql)
	return err
}

// Raw is every row of every table as text, and what stands there in hexadecimal once more
// as it is.
func (db *DB) Raw(ctx context.Context) ([]byte, error) {
	rows, err := db.pool.Query(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'")
	if err != nil {
		return nil, err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	var raw []byte
	for _, t := range tables {
		rows, err := db.pool.Query(ctx, "SELECT row_to_json(t)::text FROM "+pgx.Identifier{t}.Sanitize()+" AS t")
		if err != nil {
			return nil, err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		raw = append(raw, strings.Join(lines, "\n")...)
	}
	for _, hexed := range hexadecimal.FindAll(raw, -1) {
		raw = append(raw, '\n')
		raw, _ = hex.AppendDecode(raw, hexed[len(`\\x`):])
	}
	return raw, nil
}

var hexadecimal = regexp.MustCompile(`\\\\x(?:[0-9a-f]{2})+`)

// Raw is [DB.Raw].
func (v *View) Raw(ctx context.Context) ([]byte, error) { return v.db.Raw(ctx) }

// DemoteSessions makes every session that is open refuse writes, as when its server is
// demoted. Each pool must have all of its connections idle.
func (db *DB) DemoteSessions(ctx context.Context) error {
	for _, pool := range []*pgxpool.Pool{db.pool, db.door.pool} {
		for _, conn := range pool.AcquireAllIdle(ctx) {
			_, err := conn.Exec(ctx, "SET default_transaction_read_only = on")
			conn.Conn().PgConn().CustomData()["demoted"] = true
			conn.Release()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ResetSessions has every later statement use a new session.
func (db *DB) ResetSessions() {
	db.pool.Reset()
	db.door.pool.Reset()
}

// DemotedSessions counts those of [DB.DemoteSessions] that are idle.
func (db *DB) DemotedSessions() (n int) {
	for _, pool := range []*pgxpool.Pool{db.pool, db.door.pool} {
		for _, conn := range pool.AcquireAllIdle(context.Background()) {
			if conn.Conn().PgConn().CustomData()["demoted"] != nil {
				n++
			}
			conn.Release()
		}
	}
	return n
}

// LetSpaceBeTried ends the while in which [View.Ready] remembers that the database had no space.
func (db *DB) LetSpaceBeTried() {
	last := *db.diskFull.Load()
	last.at = last.at.Add(-notReadyFor)
	db.diskFull.Store(&last)
}
