package cockroach

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
)

// toolName is what sessions of tools call themselves: by it a restore tells them from nodes.
const toolName = "homeward tool"

// Sessions names the sessions that others have open: on PostgreSQL those on this database,
// whoever's they are; on CockroachDB, where sessions are on no database, those whose name
// begins as ours do, of this user unless it may see all. It is for a person who is about to
// say that no node runs.
func (db *DB) Sessions(ctx context.Context) ([]string, error) {
	conn, err := pgx.ConnectConfig(ctx, db.pool.Config().ConnConfig)
	if err != nil {
		return nil, unavailable("sessions", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	names, err := sessionsOf(ctx, conn, db.dialect, toolName)
	if err != nil {
		return nil, unavailable("sessions", err)
	}
	return names, nil
}

// sessionsOf names the sessions beside conn's that do not call themselves except.
func sessionsOf(ctx context.Context, conn *pgx.Conn, d dialect, except string) (names []string, err error) {
	const onPostgres = `
SELECT application_name, coalesce(host(client_addr), 'local') FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> $1
ORDER BY 1, 2`
	const onCockroach = `
SELECT application_name, client_address FROM [SHOW CLUSTER SESSIONS]
WHERE application_name LIKE 'homeward%' AND application_name <> $1 AND status <> 'CLOSED'
ORDER BY 1, 2`
	sql := onPostgres
	if d.cockroach {
		sql = onCockroach
	}
	rows, err := conn.Query(ctx, sql, except)
	if err != nil {
		return nil, err
	}
	var name, at string
	_, err = pgx.ForEachRow(rows, []any{&name, &at}, func() error {
		names = append(names, fmt.Sprintf("%q from %s", strings.TrimSpace(name), at))
		return nil
	})
	return names, err
}

// Windows are the longest that nodes have kept keys for.
func (db *DB) Windows(ctx context.Context) (claim.Policy, error) {
	p := claim.DefaultPolicy()
	seen, err := many(ctx, db, windowsSeen, repeatable, none{}, scanWindows)
	if err != nil || len(seen) == 0 {
		return p, claimError(windowsSeen.name, err)
	}
	p.ReplayFor, p.TombstoneFor, p.PinGrace = seen[0].replay, seen[0].tombstone, seen[0].grace
	p.ClockOffset = max(p.ClockOffset, time.Second)
	return p, nil
}
