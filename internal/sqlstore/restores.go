package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/documents"
)

var (
	witnessOf     = declare[keyRow]("witness")
	witnessesNext = declare[witnessPageArgs]("witnesses")
	witnessesPut  = declare[witnessesArgs]("witnesses_put")
	witnessesDrop = declare[dropArgs]("witnesses_drop")
	claimReattach = declare[reattachArgs]("reattach")
)

type (
	witnessPageArgs struct {
		keyRow
		Limit int64
	}
	witnessRow struct {
		keyRow
		State []byte
	}
	witnessesArgs struct{ Rows []witnessRow }
	dropArgs      struct {
		Kind           string
		Version, Limit int64
	}
	reattachArgs struct {
		heldArgs
		mintedRow
		FirstUse, Created time.Time
		Generation        int32
		CanceledAt        zeronull.Timestamptz
		GoodUntil         time.Time
		Message           callRow
	}
)

// Witness implements [claim.Restores].
func (db *DB) Witness(ctx context.Context, key claim.Key) (w claim.Witness, found bool, err error) {
	w, found, _, err = one(ctx, db, witnessOf, repeatable, rowOf(key), func(row pgx.CollectableRow) (claim.Witness, error) {
		var state []byte
		if err := row.Scan(&state); err != nil {
			return claim.Witness{}, err
		}
		return readWitness(key, state)
	})
	return w, found, claimError(witnessOf.name, err)
}

func readWitness(key claim.Key, state []byte) (w claim.Witness, err error) {
	if err := json.Unmarshal(state, &w); err != nil {
		return w, fmt.Errorf("a witness of tenant %s cannot be decoded (%s); the row is damaged", key.Tenant, oneLine(err))
	}
	w.Key = key
	return w, nil
}

// PutWitnesses implements [claim.Restores].
func (db *DB) PutWitnesses(ctx context.Context, all []claim.Witness) error {
	if len(all) == 0 {
		return nil
	}
	args := witnessesArgs{Rows: make([]witnessRow, len(all))}
	for i := range all {
		state, err := json.Marshal(all[i])
		if err != nil {
			return err
		}
		args.Rows[i] = witnessRow{rowOf(all[i].Key), state}
	}
	_, _, err := affected(ctx, db, witnessesPut, repeatable, args)
	return claimError(witnessesPut.name, err)
}

// Witnesses implements [claim.Restores].
func (db *DB) Witnesses(ctx context.Context, after claim.Key, limit int) ([]claim.Witness, error) {
	all, err := many(ctx, db, witnessesNext, repeatable, witnessPageArgs{rowOf(after), int64(limit)}, func(row pgx.CollectableRow) (claim.Witness, error) {
		var key claim.Key
		var state []byte
		if err := row.Scan(&key.Tenant, &key.Value, &state); err != nil {
			return claim.Witness{}, err
		}
		return readWitness(key, state)
	})
	return all, claimError(witnessesNext.name, err)
}

// DropWitnesses implements [claim.Restores].
func (db *DB) DropWitnesses(ctx context.Context, version uint64, limit int) (dropped int, err error) {
	dropped, _, err = affected(ctx, db, witnessesDrop, repeatable, dropArgs{documents.Restores, int64(version), int64(limit)})
	return dropped, claimError(witnessesDrop.name, err)
}

// Reattach implements [claim.Store]. It reads before it writes, which costs nothing while no
// restore stands.
func (v *View) Reattach(ctx context.Context, a claim.Arrival, w claim.Witness) (claim.Begun, error) {
	asked := time.Now()
	ctx, err := v.reach(ofTenant(ctx, a.Key.Tenant), a.Home)
	if err != nil {
		return claim.Begun{}, err
	}
	mine := map[uuid.UUID]claim.Decision{}
	for range maxLooks {
		row, now, err := v.get(ctx, a.Key, a.Home)
		if err != nil {
			return claim.Begun{}, err
		}
		begun := claim.Begun{Now: now}
		var old *claim.Record
		if row != nil {
			old, begun.Record = &row.record, row.record
			if decision, ok := mine[row.step]; ok {
				begun.Decision = decision
				return begun, nil
			}
		}
		next, fx, decision, err := claim.Reattach(old, &a, &w, time.Since(asked), &v.db.policy, now)
		if err != nil {
			return claim.Begun{}, err
		}
		begun.Decision = decision
		if next == nil {
			if decision == claim.NeedPin {
				begun.Record = claim.Record{}
			}
			return begun, nil
		}
		step := newStep()
		done, err := v.put(ctx, row, now, step, next, &fx)
		switch {
		case hasCode(err, codeUnique):
			continue // a concurrent arrival commits
		case err != nil:
			return claim.Begun{}, err
		case done:
			begun.Record = *next
			return begun, nil
		}
		mine[step] = decision
	}
	return claim.Begun{}, restless(a.Key)
}

// put writes a begun claim in the place of row, which may be nil.
func (v *View) put(ctx context.Context, row *claimRow, now time.Time, step uuid.UUID, next *claim.Record, fx *claim.Effects) (bool, error) {
	switch {
	case row != nil && fx.Enqueue != nil:
		return v.beginAgain(ctx, present{now: now, row: row}, step, next, fx)
	case row != nil:
		return v.change(ctx, row, step, next, fx)
	case fx.Enqueue == nil:
		return false, errors.New("database: a missing claim was taken over")
	}
	_, found, _, err := one(ends(ctx), v.db, claimReattach, repeatable, reattachArgs{
		heldArgs: heldBy(step, next, fx), mintedRow: mintedOf(next),
		FirstUse: next.FirstUse, Created: next.Minted.Created, Generation: int32(next.Generation),
		CanceledAt: zeronull.Timestamptz(next.CanceledAt), GoodUntil: now.Add(decisionLife), Message: callOf(fx.Enqueue),
	}, pgx.RowTo[int64])
	return found, claimError(claimReattach.name, err)
}

// Witness is [DB.Witness].
func (v *View) Witness(ctx context.Context, key claim.Key) (claim.Witness, bool, error) {
	return v.db.Witness(ctx, key)
}

// PutWitnesses is [DB.PutWitnesses].
func (v *View) PutWitnesses(ctx context.Context, all []claim.Witness) error {
	return v.db.PutWitnesses(ctx, all)
}

// Witnesses is [DB.Witnesses].
func (v *View) Witnesses(ctx context.Context, after claim.Key, limit int) ([]claim.Witness, error) {
	return v.db.Witnesses(ctx, after, limit)
}

// DropWitnesses is [DB.DropWitnesses].
func (v *View) DropWitnesses(ctx context.Context, version uint64, limit int) (int, error) {
	return v.db.DropWitnesses(ctx, version, limit)
}
