package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/sqlstore/batch"
)

var claimsRenew = declare[renewArgs]("renew")

// Renew implements [claim.Store]. It is one step for each home, all concurrently, so
// that an unreachable home does not delay the others. A step has at most batch.MaxSteps claims
// in a statement: CockroachDB writes each row anew, with what else is in it.
func (v *View) Renew(ctx context.Context, holder string, leases []claim.Lease) ([]bool, error) {
	held := make([]bool, len(leases))
	homes := map[string][]int{}
	for i, l := range leases {
		homes[l.Home] = append(homes[l.Home], i)
	}
	var steps errgroup.Group
	for home, of := range homes {
		steps.Go(func() error {
			for part := range slices.Chunk(of, batch.MaxSteps) {
				if err := v.renew(ctx, home, holder, leases, part, held); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := steps.Wait(); err != nil {
		return nil, err
	}
	return held, nil
}

type (
	renewArgs struct {
		Home   string
		Leases []leaseRow
		Step   uuid.UUID
	}
	leaseRow struct {
		keyRow
		Step       uuid.UUID // that was read
		LeaseUntil time.Time
	}
)

// renew renews those of leases that of names, all at home, and marks in held
// which are.
func (v *View) renew(ctx context.Context, home, holder string, leases []claim.Lease, of []int, held []bool) error {
	ctx, err := v.reach(ends(ctx), home)
	if err != nil {
		return err
	}
	byKey := make(map[claim.Key][]int, len(of))
	for _, i := range of {
		byKey[leases[i].Key] = append(byKey[leases[i].Key], i)
	}
	for range maxLooks {
		// In the order of their keys, as batches write them: otherwise the two could
		// deadlock.
		keys := slices.SortedFunc(maps.Keys(byKey), claim.Key.Compare)
		rows, err := v.find(ctx, home, keys)
		if err != nil {
			return claimError(claimFind.name, err)
		}
		var renewals []leaseRow
		mine := map[claim.Key]int{}
		for n, k := range keys {
			r := rows[n].row
			if r == nil || r.readRow(k, home) != nil {
				continue // a damaged row delays no other
			}
			for _, i := range byKey[k] {
				next, err := claim.Renew(&r.record, holder, leases[i].Fence, &v.db.policy, rows[n].now)
				if err != nil {
					continue // fenced off: the only error there is
				}
				if next.LeaseUntil.Equal(r.record.LeaseUntil) {
					held[i] = true
					continue
				}
				mine[k] = i
				renewals = append(renewals, leaseRow{rowOf(k), r.step, next.LeaseUntil})
				break // two leases on one row have one fence, or one of them is stale
			}
		}
		if len(mine) == 0 {
			return nil
		}
		renewed, err := many(ctx, v.db, claimsRenew, once, renewArgs{home, renewals, newStep()},
			func(row pgx.CollectableRow) (k claim.Key, err error) {
				err = row.Scan(&k.Tenant, &k.Value)
				return k, err
			})
		if err != nil {
			return claimError(claimsRenew.name, err)
		}
		for _, k := range renewed {
			held[mine[k]] = true
			delete(mine, k)
		}
		if len(mine) == 0 {
			return nil
		}
		// These changed in between: read them again.
		for k := range byKey {
			if _, ok := mine[k]; !ok {
				delete(byKey, k)
			}
		}
	}
	return fmt.Errorf("%w: the claims to renew keep changing", claim.ErrUnavailable)
}
