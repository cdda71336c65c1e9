package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/homeward-io/homeward/claim"
)

var (
	windowsSeen  = declare[none]("windows")
	windowsRaise = declare[windowsArgs]("windows_raise")
)

type windowsArgs struct{ ReplayFor, TombstoneFor, PinGrace int64 } // microseconds

// windows are the times that decide when a key is free again. A reader judges age by
// its own policy, so all must have the same, and none may have shorter ones than those
// under which claims were made: it would give a key to another request, and so to
// another charge, that is still promised to the first.
type windows struct{ replay, tombstone, grace time.Duration }

func windowsOf(p *claim.Policy) windows { return windows{p.ReplayFor, p.TombstoneFor, p.PinGrace} }

func scanWindows(row pgx.CollectableRow) (w windows, err error) {
	var replay, tombstone, grace int64
	err = row.Scan(&replay, &tombstone, &grace)
	return windows{time.Duration(replay) * time.Microsecond, time.Duration(tombstone) * time.Microsecond, time.Duration(grace) * time.Microsecond}, err
}

// promise compares the policy's windows with those that the database has seen,
// and raises them there if the policy's are longer. Shorter ones are refused.
func (db *DB) promise(ctx context.Context, conn *pgxpool.Conn, c *pgx.ConnConfig) error {
	mine := windowsOf(&db.policy)
	sql, _ := windowsSeen.in(db.dialect, none{})
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return connectError(c, err)
	}
	seen, err := pgx.CollectOneRow(rows, scanWindows)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	if err != nil {
		return connectError(c, err)
	}
	if shorter := mine.shorterThan(seen); shorter != nil {
		return fmt.Errorf("database %q: %w", c.Database, shorter)
	}
	if mine == seen {
		return nil // usually, and then nothing is written
	}
	sql, args := windowsRaise.in(db.dialect, windowsArgs{
		ReplayFor: mine.replay.Microseconds(), TombstoneFor: mine.tombstone.Microseconds(), PinGrace: mine.grace.Microseconds(),
	})
	rows, err = conn.Query(ctx, sql, args...)
	if err != nil {
		return connectError(c, err)
	}
	if seen, err = pgx.CollectOneRow(rows, scanWindows); err != nil {
		return connectError(c, err)
	}
	if shorter := mine.shorterThan(seen); shorter != nil { // another node raised them meanwhile
		return fmt.Errorf("database %q: %w", c.Database, shorter)
	}
	return nil
}

// shorterThan names every window that is shorter than the promised one.
func (w windows) shorterThan(promised windows) error {
	var errs []error
	for _, c := range []struct {
		name       string
		have, want time.Duration
	}{
		{"claim.replay_for", w.replay, promised.replay},
		{"claim.tombstone_for", w.tombstone, promised.tombstone},
		{"claim.pin_grace", w.grace, promised.grace},
	} {
		if c.have < c.want {
			errs = append(errs, fmt.Errorf("%s is %v, and keys in this database were promised %v; set it to at least that at every node", c.name, c.have, c.want))
		}
	}
	return errors.Join(errs...)
}
