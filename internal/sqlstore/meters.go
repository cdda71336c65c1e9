package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/sqlstore/pool"
)

// meters are the metrics of a database.
type meters struct {
	took, batches *meter.Histogram
	retries       *meter.Counter
	system        string
}

func newMeters(s *meter.Set) meters {
	return meters{took: s.Histogram(meter.DBDuration), batches: s.Histogram(meter.BatchSize), retries: s.Counter(meter.DBRetries)}
}

// statement records the duration of a try that began at began and ended with err.
func (m *meters) statement(ctx context.Context, name string, began time.Time, err *error) {
	if m.took == nil {
		return
	}
	outcome := "answered"
	switch {
	case *err == nil:
	case judge(*err) == refused:
		outcome = meter.Refused
	case errors.Is(*err, context.Canceled):
		outcome = "gone"
	default:
		outcome = "failed"
	}
	m.took.Took(ctx, time.Since(began), m.system, name, outcome)
}

// observe records the gauges of the pools.
func (db *DB) observe(s *meter.Set) error {
	if db.meters.system = "postgresql"; db.dialect.cockroach {
		db.meters.system = "cockroachdb"
	}
	return s.Observe(func(o *meter.Observer) {
		for name, conns := range map[string]*pgxpool.Pool{"main": db.pool, "door": db.door.pool} {
			stat := conns.Stat()
			o.Is(meter.DBConnections, float64(stat.IdleConns()), name, "idle")
			o.Is(meter.DBConnections, float64(stat.AcquiredConns()), name, "used")
			o.Is(meter.DBConnectionsMax, float64(stat.MaxConns()), name)
			o.Is(meter.PoolTimeouts, float64(stat.CanceledAcquireCount()), name)
		}
		begun, arriving := db.conns.Stats()
		for name, stats := range map[string]pool.Stats{"begun": begun, "arriving": arriving} {
			o.Is(meter.PoolCalls, float64(stats.Calls), name)
			o.Is(meter.PoolWaits, float64(stats.Waits), name)
			o.Is(meter.PoolWaitTime, stats.Waited.Seconds(), name)
			o.Is(meter.PoolTimeouts, float64(stats.Timeouts), name)
		}
	})
}
