package cockroach

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/notice"
)

const (
	// auditLife is how long audit is kept: see migration 014, which tells
	// CockroachDB the same.
	auditLife = 400 * 24 * time.Hour
	// pinsPerLook bounds one statement of the pins' housekeeping, some 10 ms, and
	// pinLooks one Sweep: 20,000 pins a minute at least, for each node.
	pinsPerLook = int64(1000)
	pinLooks    = 20
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
// of the view's region, and on PostgreSQL claims, responses, notices, audit and what
// is remembered of unpaid objects, which CockroachDB's row-level TTL deletes by
// itself. It drops the bodies of the region's notices that nobody needs any more, and
// counts them with the rows. Nothing but disk space, how long bodies are kept, and the
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
			{"sweep_notices", []any{int64(limit)}},
			{"sweep_unpaid", []any{int64(limit)}},
			{"sweep_audit", []any{int64(limit), auditLife}},
		} {
			n, _, err := affected(ctx, v.db, job.name, repeatable, job.args)
			if err != nil {
				return removed, claimError(job.name, err)
			}
			removed += n
		}
	}
	dropped, _, err := affected(ctx, v.db, "notices_drop_bodies", repeatable, []any{v.name, notice.KeepBodyFor, int64(limit)})
	if err != nil {
		return removed, claimError("notices_drop_bodies", err)
	}
	n, err := v.sweepPins(ctx, limit)
	return removed + dropped + n, err
}

// sweepPins looks at some of the pins that the view's region keeps, and deletes up
// to about limit of those past their life whose key nobody speaks for. Row-level
// TTL cannot do it: whether a pin protects a claim is for another row, perhaps in
// another region, to say.
func (v *View) sweepPins(ctx context.Context, limit int) (removed int, err error) {
	s := &v.db.sweeps
	s.mu.Lock()
	after := s.after[v.name]
	s.mu.Unlock()
	type page struct {
		seen, gone int64
		last       claim.Key
	}
	for look := 0; look < pinLooks && removed < limit; look++ {
		p, found, _, err := one(ctx, v.db, "pins_sweep", repeatable, []any{v.name, after.Tenant, after.Value, pinsPerLook, v.db.policy.PinLife()},
			func(row pgx.CollectableRow) (p page, err error) {
				err = row.Scan(&p.seen, &p.gone, &p.last.Tenant, &p.last.Value)
				return p, err
			})
		if err != nil {
			return removed, claimError("pins_sweep", err)
		}
		removed += int(p.gone)
		after = p.last
		if through := !found || p.seen < pinsPerLook; through {
			v.sweptUntil(claim.Key{}) // from the start again
			_, _, err := affected(ctx, v.db, "registrar_forget", repeatable, []any{v.name, registrarRest})
			return removed, claimError("registrar_forget", err)
		}
	}
	v.sweptUntil(after)
	return removed, nil
}

// sweptUntil remembers where the next look goes on.
func (v *View) sweptUntil(after claim.Key) {
	s := &v.db.sweeps
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after == nil {
		s.after = map[string]claim.Key{}
	}
	s.after[v.name] = after
}
