package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
)

const (
	// fillBatch bounds one statement's work, since CockroachDB bounds a
	// transaction's memory.
	fillBatch = 20_000
	// filledSpan is over how long the stored charges are spread: half of what is
	// answered for.
	filledSpan = 12 * time.Hour
)

// charged are the tables in which a finished charge may leave rows that are worth a copy.
var charged = []string{"pins", "claims", "audit"}

// filled are those of them that this schema has.
func filled(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_name = ANY ($1)", charged)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// fill makes keys finished charges: the store makes one, and the database copies
// its rows under other keys and ids, spread over the last hours. Whatever columns
// the tables get, the copies have them.
func (l *ledger) fill(ctx context.Context, keys int) (err error) {
	db, _, err := l.open(ctx, l.url, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.PutTenant(ctx, tenant()); err != nil {
		return err
	}
	view, err := db.Region(regionNames[0])
	if err != nil {
		return err
	}
	key, err := l.charges.pinned(ctx, view)
	if err != nil {
		return err
	}
	rec, _, found, err := view.Get(ctx, key, regionNames[0])
	if err == nil && !found {
		err = fmt.Errorf("the charge that was just made under key %s is missing", key.Value)
	}
	if err != nil {
		return err
	}
	return l.connected(ctx, func(conn *pgx.Conn) error {
		tables, err := filled(ctx, conn)
		if err != nil {
			return err
		}
		for _, table := range tables {
			if err := copyRows(ctx, conn, table, &rec, keys); err != nil {
				return fmt.Errorf("fill %s: %w", table, err)
			}
		}
		return l.rest(ctx, conn, tables)
	})
}

// rest leaves the database as one that was filled at its ease: with statistics of what it
// has, but for tables whose statistics the schema sets. All rows are in one region, and by
// statistics of them CockroachDB would read the others whole, which is what the schema's
// prevent.
func (l *ledger) rest(ctx context.Context, conn *pgx.Conn, tables []string) error {
	commands := []string{"VACUUM", "CHECKPOINT"}
	if l.kind == localdb.CockroachDB {
		commands = nil
	}
	for _, table := range tables {
		if l.kind == localdb.CockroachDB {
			var schema string
			if err := conn.QueryRow(ctx, "SELECT create_statement FROM [SHOW CREATE TABLE "+table+"]").Scan(&schema); err != nil {
				return fmt.Errorf("the schema of %s: %w", table, err)
			}
			if strings.Contains(schema, "sql_stats_automatic_collection_enabled = false") {
				continue
			}
		}
		commands = append(commands, "ANALYZE "+table)
	}
	for _, sql := range commands {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// refill empties the database of charges and fills it again.
func (l *ledger) refill(ctx context.Context, keys int) error {
	err := l.connected(ctx, func(conn *pgx.Conn) error {
		tables, err := filled(ctx, conn)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "TRUNCATE "+strings.Join(tables, ", "))
		return err
	})
	if err != nil {
		return err
	}
	l.last.Store(nil)
	return l.fill(ctx, keys)
}

// copyRows copies the rows of the charge rec until there are keys of them.
func copyRows(ctx context.Context, conn *pgx.Conn, table string, rec *claim.Record, keys int) error {
	rows, err := conn.Query(ctx, `SELECT column_name, data_type FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name = $1 ORDER BY ordinal_position`, table)
	if err != nil {
		return err
	}
	var names, values []string
	var name, kind string
	by, value := "idem_key", rec.Key.Value
	_, err = pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		if name == "object_id" && table == "responses" {
			by, value = name, rec.Minted.ID
		}
		names, values = append(names, pgx.Identifier{name}.Sanitize()), append(values, copied(name, kind))
		return nil
	})
	if err != nil {
		return err
	}
	sql := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s AS t, generate_series($1::int8, $2::int8) AS g (n) WHERE t.%s = $4::text AND $3::float8 > 0",
		table, strings.Join(names, ", "), strings.Join(values, ", "), table, by)
	apart := filledSpan.Seconds() / float64(keys)
	for from := 2; from <= keys; from += fillBatch {
		if _, err := conn.Exec(ctx, sql, from, min(keys, from+fillBatch-1), apart, value); err != nil {
			return err
		}
	}
	return nil
}

// copied is a column's value in copy g.n, which is $3 seconds older than the one
// before. Keys and ids are as random as those that clients and nodes make.
func copied(column, kind string) string {
	switch {
	case column == "idem_key":
		return "md5(g.n::text)::uuid::text"
	case column == "object_id":
		return "'ch_' || left(md5('object' || g.n::text), 26)"
	case kind == "uuid":
		// Columns that are one in the charge are one in its copies.
		return "md5(t." + pgx.Identifier{column}.Sanitize() + "::text || g.n::text)::uuid"
	case kind == "timestamp with time zone":
		return "t." + pgx.Identifier{column}.Sanitize() + " - g.n::float8 * $3::float8 * interval '1 second'"
	default:
		return "t." + pgx.Identifier{column}.Sanitize()
	}
}
