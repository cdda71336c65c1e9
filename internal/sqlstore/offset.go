package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
)

// defaultMaxOffset is what a CockroachDB node without --max-offset takes.
const defaultMaxOffset = 500 * time.Millisecond

// MaxOffset returns the greatest clock difference that CockroachDB tolerates between
// its nodes before one of them stops: the greatest --max-offset among them. It is 0 on
// PostgreSQL, which has one clock. It is read off the nodes' command lines, which needs
// the privilege VIEWCLUSTERMETADATA and is not promised by CockroachDB: a check for
// operators, on which nothing may depend.
func (db *DB) MaxOffset(ctx context.Context) (time.Duration, error) {
	if !db.dialect.cockroach {
		return 0, nil
	}
	conn, err := pgx.ConnectConfig(ctx, db.pool.Config().ConnConfig)
	if err != nil {
		return 0, unavailable("max_offset", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// In a session of its own. Versions without the setting allow it to everybody with
	// the privilege.
	_, _ = conn.Exec(ctx, "SET allow_unsafe_internals = true")
	rows, err := conn.Query(ctx, "SELECT args FROM crdb_internal.kv_node_status")
	if err != nil {
		return 0, unavailable("max_offset", err)
	}
	commands, err := pgx.CollectRows(rows, pgx.RowTo[[]string])
	if err != nil {
		return 0, unavailable("max_offset", err)
	}
	var greatest time.Duration
	for _, args := range commands {
		offset, err := maxOffset(args)
		if err != nil {
			return 0, err
		}
		greatest = max(greatest, offset)
	}
	return greatest, nil
}

// maxOffset reads --max-offset off a command line, where the last one counts.
func maxOffset(args []string) (time.Duration, error) {
	text := ""
	for i, arg := range args {
		flag, value, joined := strings.Cut(arg, "=")
		switch {
		case strings.TrimLeft(flag, "-") != "max-offset":
		case joined:
			text = value
		case i+1 < len(args):
			text = args[i+1]
		}
	}
	if text == "" {
		return defaultMaxOffset, nil
	}
	offset, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%w: max_offset: a node was started with --max-offset %q, which is not a duration", claim.ErrUnavailable, text)
	}
	return offset, nil
}
