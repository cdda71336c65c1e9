package cockroach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

var _ ledger.Store = (*View)(nil)

// postArgs are the columns of a transaction that are not the region's or the
// clock's to say, in the order of both statements that book one.
func postArgs(t *ledger.Transaction) []any {
	return []any{
		t.ID, t.Tenant, string(t.Kind), string(t.Debit), string(t.Credit), t.Amount,
		t.Currency, t.Object, t.Reverses, t.Provider, t.ProviderRef,
	}
}

// ledgerArrivals is the unique index of migration 036.
const ledgerArrivals = "ledger_arrivals"

// settleError says why settle was refused: for certain nothing is done where a name
// is taken that should have been new.
func settleError(fx *claim.Effects, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == codeUnique {
		switch {
		case (pg.ConstraintName == "ledger_pkey" || pg.ConstraintName == ledgerArrivals) && fx.Post != nil:
			return fmt.Errorf("settle: %w: %s of %s", ledger.ErrConflict, fx.Post.ID, fx.Post.ProviderRef)
		case pg.ConstraintName == "events_pkey" && len(fx.Events) > 0:
			return fmt.Errorf("settle: an event waits already under the id of %s or one beside it; give each event an id of its own", fx.Events[0].ID)
		}
	}
	return claimError("settle", err)
}

// scanTransaction scans columns.Transaction.
func scanTransaction(row pgx.CollectableRow) (t ledger.Transaction, err error) {
	err = row.Scan(&t.Region, &t.ID, &t.Tenant, &t.Kind, &t.At, &t.Debit, &t.Credit, &t.Amount,
		&t.Currency, &t.Object, &t.Reverses, &t.Provider, &t.ProviderRef)
	t.At = t.At.UTC()
	return t, err
}

// Post implements [ledger.Store]. posted is also false where the reply to its own
// insertion was lost.
func (v *View) Post(ctx context.Context, t ledger.Transaction) (posted bool, err error) {
	return v.post(ctx, &t, func(ctx context.Context) (posted bool, err error) {
		_, posted, _, err = one(ctx, v.db, "ledger_post", repeatable, append([]any{t.Region}, postArgs(&t)...), pgx.RowTo[time.Time])
		return posted, err
	})
}

// Fail implements [notice.Store], with posted as of Post.
func (v *View) Fail(ctx context.Context, t ledger.Transaction, events []outbox.Message) (posted bool, err error) {
	ids, kinds, keys, operations, traces, payloads := []string{}, []string{}, []string{}, []string{}, []string{}, [][]byte{}
	for i := range events {
		m := &events[i]
		ids, kinds, keys = append(ids, m.ID), append(kinds, string(m.Kind)), append(keys, m.Key)
		operations, payloads, traces = append(operations, m.Operation), append(payloads, notNil(m.Payload)), append(traces, m.TraceParent)
	}
	return v.post(ctx, &t, func(ctx context.Context) (posted bool, err error) {
		args := slices.Concat([]any{t.Region}, postArgs(&t), []any{ids, kinds, keys, operations, payloads, traces})
		_, posted, _, err = one(ctx, v.db, "ledger_fail", repeatable, args, pgx.RowTo[time.Time])
		return posted, err
	})
}

// post books t by a statement, and says what it has found where that books nothing.
func (v *View) post(ctx context.Context, t *ledger.Transaction, book func(context.Context) (posted bool, err error)) (posted bool, err error) {
	if err := t.Validate(); err != nil {
		return false, err
	}
	within, err := v.reach(ctx, t.Region)
	if err != nil {
		return false, err
	}
	within = ofClaims(within)
	posted, err = book(within)
	var pg *pgconn.PgError
	// Perhaps by a twin that posts the same transaction at this moment.
	arrived := errors.As(err, &pg) && pg.Code == codeUnique && pg.ConstraintName == ledgerArrivals
	if err != nil && !arrived || posted {
		return posted, claimError("ledger", err)
	}
	there, found, err := v.Transaction(ctx, t.Region, t.ID)
	switch {
	case err != nil:
		return false, err
	case !found && arrived:
		return false, fmt.Errorf("%w: %s is booked already", ledger.ErrConflict, t.ProviderRef)
	case !found: // nothing is ever removed
		return false, unavailable("ledger", fmt.Errorf("transaction %s is neither there nor to be appended", t.ID))
	case !there.Same(*t):
		return false, fmt.Errorf("%w: %s", ledger.ErrConflict, t.ID)
	}
	return false, nil
}

// GhostRefund implements [ledger.Store].
func (v *View) GhostRefund(ctx context.Context, region, object string) (ledger.Transaction, bool, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil {
		return ledger.Transaction{}, false, err
	}
	t, found, _, err := one(ctx, v.db, "ledger_ghost_refund", repeatable, []any{region, object}, scanTransaction)
	if err != nil || !found {
		return ledger.Transaction{}, false, claimError("ledger_ghost_refund", err)
	}
	return t, true, nil
}

// Transaction implements [ledger.Store].
func (v *View) Transaction(ctx context.Context, region, id string) (ledger.Transaction, bool, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil {
		return ledger.Transaction{}, false, err
	}
	t, found, _, err := one(ctx, v.db, "ledger_transaction", repeatable, []any{region, id}, scanTransaction)
	if err != nil || !found {
		return ledger.Transaction{}, false, claimError("ledger_transaction", err)
	}
	return t, true, nil
}

// Transactions implements [ledger.Store].
func (v *View) Transactions(ctx context.Context, region string, after ledger.Position, before time.Time, limit int) ([]ledger.Transaction, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil || limit <= 0 {
		return nil, err
	}
	all, err := many(ctx, v.db, "ledger_transactions", repeatable,
		[]any{region, after.At, after.ID, zeronull.Timestamptz(before), int64(limit)}, scanTransaction)
	return all, claimError("ledger_transactions", err)
}

// Reversals implements [ledger.Store]. It needs every region's rows.
func (v *View) Reversals(ctx context.Context, id string) ([]ledger.Transaction, error) {
	all, err := many(away(ctx, everywhere), v.db, "ledger_reversals", repeatable, []any{id}, scanTransaction)
	return all, claimError("ledger_reversals", err)
}

// Balances implements [ledger.Store]. It may take as long as a person waits.
func (v *View) Balances(ctx context.Context, region string, after ledger.AccountKey, limit int) (all []ledger.Balance, err error) {
	if ctx, err = v.reach(ctx, region); err != nil || limit <= 0 {
		return nil, err
	}
	err = v.db.transaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, v.db.queries["unhurried"].sql); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, v.db.queries["ledger_balances"].sql, region, string(after.Account), after.Currency, int64(limit))
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b ledger.Balance, err error) {
			err = row.Scan(&b.Account, &b.Currency, &b.Debits, &b.Credits, &b.Transactions)
			return b, err
		})
		return err
	})
	return all, claimError("ledger_balances", err)
}
