package sqlstore

import (
	"context"
	"encoding/hex"
	"reflect"
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

// Statement is one as pgx sends it, with arguments of each type.
type Statement struct {
	SQL  string
	Args []any
}

// Statements are all that the store sends to this database for rows of a region, by name.
// Their arguments are zero values, and each list has one row.
func (db *DB) Statements(ctx context.Context, region string) (map[string]Statement, error) {
	all := map[string]Statement{}
	for name, args := range declared {
		of := reflect.New(args).Elem()
		for _, f := range reflect.VisibleFields(args) {
			switch field := of.FieldByIndex(f.Index); {
			case f.Name == "Home":
				field.SetString(region)
			case f.Type.Kind() == reflect.Slice:
				field.Set(reflect.MakeSlice(f.Type, 1, 1))
			}
		}
		sql, bound, err := db.dialect.bind(name, of.Interface())
		if err != nil {
			return nil, err
		}
		bound = slices.DeleteFunc(bound, func(arg any) bool { _, mode := arg.(pgx.QueryExecMode); return mode })
		all[name] = Statement{sql, bound}
	}
	return all, nil
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

// MayBeDone sends a statement once, in a mode of pgx, and reports whether its error leaves open that
// it was done.
func (db *DB) MayBeDone(ctx context.Context, sql string, mode pgx.QueryExecMode) bool {
	err := db.try(ctx, ctx, sql, []any{mode}, func(rows pgx.Rows) error {
		rows.Close()
		return rows.Err()
	})
	return err != nil && judge(err) == unknown
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

// ResetSessions has every later statement use a session that began after this call.
func (db *DB) ResetSessions() {
	for _, pool := range []*pgxpool.Pool{db.pool, db.door.pool} {
		for pool.Stat().ConstructingConns() > 0 { // Reset would keep those
			time.Sleep(time.Millisecond)
		}
		pool.Reset()
	}
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
