package cockroach

import (
	"context"
	"time"
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

// Statements are all that the store sends to this database, by name.
func (db *DB) Statements() map[string]string {
	all := make(map[string]string, len(db.queries))
	for name, q := range db.queries {
		all[name] = q.sql
	}
	return all
}

// Calls is how many calls have a connection or wait for one.
func (db *DB) Calls() int { return db.rooms.calls() }

// MostCalls is how many arrivals may.
func (db *DB) MostCalls() int { return db.rooms.all[arrivalsNear].size }

// Connections is the pool's count of them, those being made included.
func (db *DB) Connections() int { return int(db.pool.Stat().TotalConns()) }

// Exec runs a statement of the test's own on one of the store's connections.
func (db *DB) Exec(ctx context.Context, sql string) error {
	_, err := db.pool.Exec(ctx, sql)
	return err
}
