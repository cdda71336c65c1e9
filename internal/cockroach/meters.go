package cockroach

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/homeward-io/homeward/meter"
)

// meters are the metrics of a database.
type meters struct {
	took, groups *meter.Histogram
	retries      *meter.Counter
	system       string
}

func newMeters(s *meter.Set) meters {
	return meters{took: s.Histogram(meter.DBDuration), groups: s.Histogram(meter.GroupSize), retries: s.Counter(meter.DBRetries)}
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

// roomNames are the names of the rooms, in their order.
var roomNames = [numRooms]string{"claims_near", "claims_far", "errands_near", "errands_far", "arrivals_near", "arrivals_far"}

// observe records the gauges of the pools and rooms.
func (db *DB) observe(s *meter.Set) error {
	if db.meters.system = "postgresql"; db.dialect.cockroach {
		db.meters.system = "cockroachdb"
	}
	return s.Observe(func(o *meter.Observer) {
		for name, pool := range map[string]*pgxpool.Pool{"main": db.pool, "door": db.door.pool} {
			stat := pool.Stat()
			o.Is(meter.DBConnections, float64(stat.IdleConns()), name, "idle")
			o.Is(meter.DBConnections, float64(stat.AcquiredConns()), name, "used")
			o.Is(meter.DBConnectionsMax, float64(stat.MaxConns()), name)
			o.Is(meter.PoolWaits, float64(stat.EmptyAcquireCount()), name)
			o.Is(meter.PoolWaitTime, stat.EmptyAcquireWaitTime().Seconds(), name)
			o.Is(meter.PoolTimeouts, float64(stat.CanceledAcquireCount()), name)
		}
		for i, name := range roomNames {
			inside, waits := db.rooms.look(i)
			o.Is(meter.RoomInside, float64(inside), name)
			o.Is(meter.RoomWaits, float64(waits.count), name)
			o.Is(meter.RoomWaitTime, waits.took.Seconds(), name)
		}
	})
}
