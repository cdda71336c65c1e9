package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/notice"
)

const (
	// pinsPerLook bounds one statement of the pins' housekeeping, some 10 ms, and
	// pinLooks one Sweep: 20,000 pins a minute at least, for each node.
	pinsPerLook = int64(1000)
	pinLooks    = 20
	// registrarRest is for how long after a move the former region is always searched:
	// far longer than any statement may take.
	registrarRest = time.Hour
)

var (
	sweepRows   = declare[limitArgs]("sweep")
	dropBodies  = declare[bodiesArgs]("notices_drop_bodies")
	sweepPins   = declare[sweepPinsArgs]("pins_sweep")
	forgetMoves = declare[movesArgs]("registrar_forget")
)

type (
	limitArgs struct{ Limit int64 }
	oldArgs   struct {
		KeepFor time.Duration
		Limit   int64
	}
	bodiesArgs struct {
		Home string
		oldArgs
	}
	sweepPinsArgs struct {
		keyArgs
		Limit   int64
		PinLife time.Duration
	}
	movesArgs struct {
		Home string
		Rest time.Duration
	}
)

// sweeps remembers where the last sweep of a region's pins ended.
type sweeps struct {
	mu    sync.Mutex
	after map[string]claim.Key
}

// Sweep deletes up to limit expired rows of each sort: pins of the view's region, and
// on PostgreSQL claims, notices, audit and [claim.Unpaid] rows, which
// CockroachDB's row-level TTL deletes by itself. It drops the expired bodies of the
// region's notices, and counts them with the rows. Only disk space, how long bodies are
// kept, and a second move of a registrar depend on its being called. Any number of
// nodes may call it concurrently.
func (v *View) Sweep(ctx context.Context, limit int) (removed int, err error) {
	if !v.db.dialect.cockroach {
		n, _, _, err := one(ctx, v.db, sweepRows, repeatable, limitArgs{int64(limit)}, pgx.RowTo[int64])
		if err != nil {
			return 0, claimError(sweepRows.name, err)
		}
		removed = int(n)
	}
	n, err := v.SweepHome(ctx, v.name, limit)
	return removed + n, err
}

// SweepHome is the part of Sweep that each home needs for itself: its pins, with the
// end of a move of tenants' registrars away from it, and the bodies of its notices.
// Other regions call it for a lost one, so that it can be left for good.
func (v *View) SweepHome(ctx context.Context, home string, limit int) (removed int, err error) {
	if ctx, err = v.reach(ctx, home); err != nil {
		return 0, err
	}
	dropped, _, err := affected(ctx, v.db, dropBodies, repeatable, bodiesArgs{home, oldArgs{notice.KeepBodyFor, int64(limit)}})
	if err != nil {
		return 0, claimError(dropBodies.name, err)
	}
	n, err := v.sweepPins(ctx, home, limit)
	return dropped + n, err
}

// sweepPins scans some of the pins that a home keeps, and deletes up to about limit of
// those past their life whose key no claim owns. Row-level TTL cannot do it: another
// row, perhaps in another region, decides whether a pin protects a claim.
func (v *View) sweepPins(ctx context.Context, home string, limit int) (removed int, err error) {
	s := &v.db.sweeps
	s.mu.Lock()
	after := s.after[home]
	s.mu.Unlock()
	type page struct {
		seen, gone int64
		last       claim.Key
	}
	for look := 0; look < pinLooks && removed < limit; look++ {
		p, found, _, err := one(ctx, v.db, sweepPins, repeatable, sweepPinsArgs{keyIn(home, after), pinsPerLook, v.db.policy.PinLife()},
			func(row pgx.CollectableRow) (p page, err error) {
				err = row.Scan(&p.seen, &p.gone, &p.last.Tenant, &p.last.Value)
				return p, err
			})
		if err != nil {
			return removed, claimError(sweepPins.name, err)
		}
		removed += int(p.gone)
		after = p.last
		if through := !found || p.seen < pinsPerLook; through {
			v.sweptUntil(home, claim.Key{}) // from the start again
			_, _, err := affected(ctx, v.db, forgetMoves, repeatable, movesArgs{home, registrarRest})
			return removed, claimError(forgetMoves.name, err)
		}
	}
	v.sweptUntil(home, after)
	return removed, nil
}

// sweptUntil records where the next sweep of a home's pins continues.
func (v *View) sweptUntil(home string, after claim.Key) {
	s := &v.db.sweeps
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after == nil {
		s.after = map[string]claim.Key{}
	}
	s.after[home] = after
}
