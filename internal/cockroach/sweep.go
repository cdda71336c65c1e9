package cockroach

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
)

const (
	// auditLife is how long audit is kept: see migration 014, which tells
	// CockroachDB the same.
	auditLife = 400 * 24 * time.Hour
	// pinsPerLook bounds one statement of the pins' housekeeping.
	pinsPerLook = 1000
	// registrarRest is how long after a move the region before it is looked at for
	// certain: far longer than any statement may take.
	registrarRest = time.Hour
)

// sweeps remembers where the last look at a region's pins ended.
type sweeps struct {
	mu    sync.Mutex
	after map[string]claim.Key
}

// Sweep deletes up to limit rows of each sort that no longer say anything: pins
// of the view's region, and on PostgreSQL claims, responses and audit, which
// CockroachDB's row-level TTL deletes by itself. Nothing but disk space, and the
// second move of a registrar, depends on its being called. Any number of nodes
// may do so at once.
func (v *View) Sweep(ctx context.Context, limit int) (removed int, err error) {
	if !v.db.dialect.cockroach {
		for _, job := range []struct {
			name string
			args []any
		}{
			{"sweep_claims", []any{int64(limit)}},
			{"sweep_responses", []any{int64(limit)}},
			{"sweep_audit", []any{int64(limit), auditLife}},
		} {
			n, _, err := affected(ctx, v.db, job.name, repeatable, job.args)
			if err != nil {
				return removed, claimError(job.name, err)
			}
			removed += n
		}
	}
	n, through, err := v.sweepPins(ctx, min(limit, pinsPerLook))
	if err == nil && through {
		_, _, err = affected(ctx, v.db, "registrar_forget", repeatable, []any{v.name, registrarRest})
		err = claimError("registrar_forget", err)
	}
	return removed + n, err
}

type oldPin struct {
	now time.Time
	pin claim.Pin
}

// sweepPins looks at the next pins that the view's region keeps, and deletes
// those past their life whose key nobody speaks for; through means that they were
// the last. Row-level TTL cannot do it: whether a pin protects a claim is for
// another row, perhaps in another region, to say.
func (v *View) sweepPins(ctx context.Context, limit int) (removed int, through bool, err error) {
	s := &v.db.sweeps
	s.mu.Lock()
	after := s.after[v.name]
	s.mu.Unlock()
	pins, err := many(ctx, v.db, "pins_old", repeatable, []any{v.name, after.Tenant, after.Value, int64(limit)},
		func(row pgx.CollectableRow) (p oldPin, err error) {
			err = row.Scan(&p.now, &p.pin.Key.Tenant, &p.pin.Key.Value, &p.pin.Home, &p.pin.CreatedAt)
			return p, err
		})
	if err != nil {
		return 0, false, claimError("pins_old", err)
	}
	next := claim.Key{} // from the start again, unless there may be more
	through = len(pins) < limit
	if !through && limit > 0 {
		next = pins[len(pins)-1].pin.Key
	}
	p := &v.db.policy
	for _, old := range pins {
		if old.now.Before(old.pin.CreatedAt.Add(p.PinLife())) {
			continue
		}
		rec, now, found, err := v.Get(ctx, old.pin.Key, old.pin.Home)
		if err != nil {
			return removed, false, err
		}
		if found && rec.Age(p, now) != claim.Gone {
			continue
		}
		// As in Pin: no claim can be made under it, so this is still true; and a pin
		// that was written anew meanwhile has another time.
		n, _, err := affected(ctx, v.db, "pin_delete", repeatable, []any{v.name, old.pin.Key.Tenant, old.pin.Key.Value, old.pin.CreatedAt})
		if err != nil {
			return removed, false, claimError("pin_delete", err)
		}
		removed += n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after == nil {
		s.after = map[string]claim.Key{}
	}
	s.after[v.name] = next
	return removed, through, nil
}
