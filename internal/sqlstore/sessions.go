package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// toolName is the session name of tools, by which a restore distinguishes them from
// nodes.
const toolName = "homeward tool"

// Sessions returns the sessions that others have open: on PostgreSQL all on this
// database; on CockroachDB, where sessions are on no database, those whose name begins
// as ours do, and every server that did not answer. It fails if this user may not see
// the sessions of others. It is for an operator who is about to confirm that no node
// runs.
func (db *DB) Sessions(ctx context.Context) ([]string, error) {
	conn, err := pgx.ConnectConfig(ctx, db.pool.Config().ConnConfig)
	if err != nil {
		return nil, unavailable("sessions", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	names, err := sessionsOf(ctx, conn, db.dialect, toolName)
	if err != nil && !errors.Is(err, errUnseen) {
		err = unavailable("sessions", err)
	}
	return names, err
}

// sessionsOf returns the sessions beside conn's whose name is not except.
func sessionsOf(ctx context.Context, conn *pgx.Conn, d dialect, except string) (names []string, err error) {
	// PostgreSQL shows others' sessions to a user without pg_read_all_stats with name
	// and role, but NULL as type and address ("The Cumulative Statistics System").
	// Sessions without a role are the server's own.
	const onPostgres = `
SELECT application_name, usename, coalesce(host(client_addr), CASE WHEN backend_type IS NULL THEN 'unknown' ELSE 'local' END)
FROM pg_stat_activity
WHERE datname = current_database() AND usename IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'
AND pid <> pg_backend_pid() AND application_name <> $1
ORDER BY 1, 2, 3`
	const onCockroach = `
SELECT coalesce(application_name, ''), coalesce(user_name, ''), coalesce(client_address, format('node %s, which cannot be asked', node_id))
FROM [SHOW ALL CLUSTER SESSIONS]
WHERE session_id IS NULL OR application_name LIKE 'homeward%' AND application_name <> $1 AND status <> 'CLOSED'
ORDER BY 1, 2, 3`
	sql := onPostgres
	if d.cockroach {
		sql = onCockroach
		if err := seesSessions(ctx, conn); err != nil {
			return nil, err
		}
	}
	rows, err := conn.Query(ctx, sql, except)
	if err != nil {
		return nil, err
	}
	var name, user, at string
	_, err = pgx.ForEachRow(rows, []any{&name, &user, &at}, func() error {
		names = append(names, fmt.Sprintf("%q of %s from %s", strings.TrimSpace(name), user, at))
		return nil
	})
	return names, err
}

// errUnseen: it cannot be known whether others have sessions.
var errUnseen = errors.New("may not see the sessions of other users, so it is unknown whether a node runs")

// seesSessions fails if the user of CockroachDB sees no other user's sessions: without
// the system privilege VIEWACTIVITY or VIEWACTIVITYREDACTED ("SHOW SESSIONS").
func seesSessions(ctx context.Context, conn *pgx.Conn) error {
	var user string
	var sees bool
	if err := conn.QueryRow(ctx, `
SELECT current_user, has_system_privilege('VIEWACTIVITY') OR has_system_privilege('VIEWACTIVITYREDACTED')`).Scan(&user, &sees); err != nil {
		return err
	}
	if !sees {
		return fmt.Errorf("%s %w; GRANT SYSTEM VIEWACTIVITY TO %s, or be an admin", user, errUnseen, pgx.Identifier{user}.Sanitize())
	}
	return nil
}
