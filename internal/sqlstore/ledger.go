package sqlstore

import (
	"cmp"
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

var (
	ledgerBook         = declare[bookArgs]("ledger_book")
	eventsWaits        = declare[waitsArgs]("events_waits")
	ledgerAbout        = declare[ledgerAboutArgs]("ledger_about")
	ledgerNamed        = declare[ledgerNamedArgs]("ledger_named")
	ledgerTransactions = declare[transactionsArgs]("ledger_transactions")
	ledgerCharges      = declare[chargesArgs]("ledger_charges")
	ledgerOrders       = declare[ordersArgs]("ledger_orders")
	ledgerReversals    = declare[idArgs]("ledger_reversals")
	ledgerReversed     = declare[reversedArgs]("ledger_reversed")
	ledgerIncomingOf   = declare[incomingArgs]("ledger_incoming")
	ledgerBalances     = declare[balancesArgs]("ledger_balances")
	ledgerCarried      = declare[balancesArgs]("ledger_carried")
)

type (
	// postingRow has the columns of a transaction that neither the region nor the clock
	// sets.
	postingRow struct {
		ID, TenantID, Kind, Debit, Credit                   string
		Amount                                              int64
		Currency, ObjectID, Reverses, Provider, ProviderRef string
		Created                                             zeronull.Timestamptz
		OrderID, Metadata                                   zeronull.Text
	}
	postArgs struct {
		Home string
		postingRow
		DecidedBy, DecidedWhy string
	}
	bookArgs struct {
		postArgs
		Events []bookedEvent
	}
	bookedEvent struct {
		eventRow
		IdemKey, Operation string
	}
	waitsArgs struct {
		Home, TenantID, Prefix string
	}
	ledgerNamedArgs struct {
		Home string
		IDs  []string
	}
	ledgerAboutArgs struct {
		Home    string
		Objects []string
	}
	chargesArgs struct {
		Home, TenantID    string
		After             time.Time
		AfterID, BeforeID string
		Before            zeronull.Timestamptz
		Latest            bool
		Limit             int64
	}
	ordersArgs struct {
		chargesArgs
		OrderID string
	}
	transactionsArgs struct {
		Home   string
		At     time.Time
		ID     string
		Before zeronull.Timestamptz
		Limit  int64
	}
	reversedArgs struct{ IDs []string }
	incomingArgs struct{ Provider, ProviderRef string }
	balancesArgs struct {
		Home, Account, Currency string
		Limit                   int64
	}
)

func postingOf(t *ledger.Transaction) postingRow {
	return postingRow{
		ID: t.ID, TenantID: t.Tenant, Kind: string(t.Kind), Debit: string(t.Debit), Credit: string(t.Credit), Amount: t.Amount,
		Currency: t.Currency, ObjectID: t.Object, Reverses: t.Reverses, Provider: t.Provider, ProviderRef: t.ProviderRef,
		Created: zeronull.Timestamptz(t.Created), OrderID: zeronull.Text(t.Order), Metadata: zeronull.Text(t.Metadata),
	}
}

func postArgsOf(t *ledger.Transaction) postArgs {
	return postArgs{Home: t.Region, postingRow: postingOf(t), DecidedBy: t.By, DecidedWhy: t.Why}
}

// ledgerIncomingIndex is the unique index of money that came in.
const ledgerIncomingIndex = "ledger_incoming"

// settleError maps a refusal of settle: if an id is taken that should be new, nothing
// was done for certain.
func settleError(fx *claim.Effects, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == codeUnique {
		switch {
		case (pg.ConstraintName == "ledger_pkey" || pg.ConstraintName == ledgerIncomingIndex) && fx.Post != nil:
			return fmt.Errorf("settle: %w: %s of %s", ledger.ErrConflict, fx.Post.ID, fx.Post.ProviderRef)
		case pg.ConstraintName == "events_pkey" && len(fx.Events) > 0:
			return fmt.Errorf("settle: the event %s, or one beside it, is queued already; give each event an id of its own", fx.Events[0].ID)
		}
	}
	return claimError("settle", err)
}

// scanTransaction scans a whole transaction, as ledger_named selects it.
func scanTransaction(row pgx.CollectableRow) (t ledger.Transaction, err error) {
	var created zeronull.Timestamptz
	err = row.Scan(&t.Region, &t.ID, &t.Tenant, &t.Kind, &t.At, &t.Debit, &t.Credit, &t.Amount,
		&t.Currency, &t.Object, &t.Reverses, &t.Provider, &t.ProviderRef, &t.By, &t.Why, &created, (*zeronull.Text)(&t.Order), (*zeronull.Text)(&t.Metadata))
	t.At, t.Created = t.At.UTC(), utc(created)
	return t, err
}

// Post implements [ledger.Store]. posted is also false if the reply to its own
// insertion was lost.
func (v *View) Post(ctx context.Context, t ledger.Transaction) (posted bool, err error) {
	return v.Book(ctx, t, nil)
}

// Book implements [notice.Store], with posted as of Post.
func (v *View) Book(ctx context.Context, t ledger.Transaction, events []outbox.Message) (posted bool, err error) {
	if err := t.Validate(); err != nil {
		return false, fmt.Errorf("%w: %w", claim.ErrUnstorable, err)
	}
	within, err := v.reach(ctx, t.Region)
	if err != nil {
		return false, err
	}
	within = ends(within)
	args := bookArgs{postArgs: postArgsOf(&t)}
	for i := range events {
		m := &events[i]
		args.Events = append(args.Events, bookedEvent{eventRow: eventOf(m), IdemKey: m.Key, Operation: m.Operation})
	}
	_, posted, _, err = one(within, v.db, ledgerBook, repeatable, args, pgx.RowTo[time.Time])
	var pg *pgconn.PgError
	// Perhaps by a concurrent call that posts the same transaction.
	arrived := errors.As(err, &pg) && pg.Code == codeUnique && pg.ConstraintName == ledgerIncomingIndex
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
		return false, unavailable("ledger", fmt.Errorf("transaction %s does not exist and cannot be appended", t.ID))
	case !there.Same(t):
		return false, fmt.Errorf("%w: %s", ledger.ErrConflict, t.ID)
	}
	return false, nil
}

// Waits implements [notice.Store].
func (v *View) Waits(ctx context.Context, region, tenant, ids string) (key string, err error) {
	within, err := v.reach(ctx, region)
	if err != nil {
		return "", err
	}
	key, _, _, err = one(within, v.db, eventsWaits, repeatable, waitsArgs{region, tenant, ids}, pgx.RowTo[string])
	return key, claimError(eventsWaits.name, err)
}

// GhostRefund implements [ledger.Store].
func (v *View) GhostRefund(ctx context.Context, region, object string) (ledger.Transaction, bool, error) {
	all, err := v.About(ctx, region, object)
	for _, t := range all {
		if t.Kind == ledger.GhostRefund {
			return t, true, nil
		}
	}
	return ledger.Transaction{}, false, err
}

// About implements [ledger.Store].
func (v *View) About(ctx context.Context, region string, objects ...string) ([]ledger.Transaction, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	all, err := many(ctx, v.db, ledgerAbout, repeatable, ledgerAboutArgs{region, objects}, scanTransaction)
	return all, claimError(ledgerAbout.name, err)
}

// Charges implements [ledger.Store].
func (v *View) Charges(ctx context.Context, region string, c ledger.Charges) ([]ledger.Transaction, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil || c.Limit <= 0 {
		return nil, err
	}
	args := chargesArgs{
		Home: region, TenantID: c.Tenant, After: c.After.At, AfterID: c.After.ID,
		Before: zeronull.Timestamptz(c.Before.At), BeforeID: c.Before.ID, Latest: c.Latest, Limit: int64(c.Limit),
	}
	var all []ledger.Transaction
	name := ledgerCharges.name
	if c.Order == "" {
		all, err = many(ctx, v.db, ledgerCharges, repeatable, args, scanTransaction)
	} else {
		name = ledgerOrders.name
		all, err = many(ctx, v.db, ledgerOrders, repeatable, ordersArgs{args, c.Order}, scanTransaction)
	}
	slices.SortFunc(all, func(a, b ledger.Transaction) int {
		if c.Latest {
			a, b = b, a
		}
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return all, claimError(name, err)
}

// Transaction implements [ledger.Store].
func (v *View) Transaction(ctx context.Context, region, id string) (ledger.Transaction, bool, error) {
	all, err := v.Named(ctx, region, []string{id})
	if err != nil || len(all) == 0 {
		return ledger.Transaction{}, false, err
	}
	return all[0], true, nil
}

// Named implements [ledger.Store].
func (v *View) Named(ctx context.Context, region string, ids []string) ([]ledger.Transaction, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	all, err := many(ctx, v.db, ledgerNamed, repeatable, ledgerNamedArgs{Home: region, IDs: ids}, scanTransaction)
	return all, claimError(ledgerNamed.name, err)
}

// Transactions implements [ledger.Store].
func (v *View) Transactions(ctx context.Context, region string, after ledger.Position, before time.Time, limit int) ([]ledger.Transaction, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil || limit <= 0 {
		return nil, err
	}
	all, err := many(ctx, v.db, ledgerTransactions, repeatable, transactionsArgs{
		Home: region, At: after.At, ID: after.ID, Before: zeronull.Timestamptz(before), Limit: int64(limit),
	}, scanTransaction)
	return all, claimError(ledgerTransactions.name, err)
}

// Reversals implements [ledger.Store]. It needs every region's rows.
func (v *View) Reversals(ctx context.Context, ids ...string) ([]ledger.Transaction, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	all, err := many(away(ctx, everywhere), v.db, ledgerReversed, repeatable, reversedArgs{ids}, scanTransaction)
	return all, claimError(ledgerReversed.name, err)
}

// ReversalsAt implements [ledger.Store].
func (v *View) ReversalsAt(ctx context.Context, region, id string) ([]ledger.Transaction, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	all, err := many(ctx, v.db, ledgerReversals, repeatable, idArgs{Home: region, ID: id}, scanTransaction)
	return all, claimError(ledgerReversals.name, err)
}

// Incoming implements [ledger.Store]. It needs every region's rows.
func (v *View) Incoming(ctx context.Context, provider, ref string) ([]ledger.Transaction, error) {
	all, err := many(away(ctx, everywhere), v.db, ledgerIncomingOf, repeatable, incomingArgs{provider, ref}, scanTransaction)
	return all, claimError(ledgerIncomingOf.name, err)
}

// Balances implements [ledger.Store]. It has no time-out of a request.
func (v *View) Balances(ctx context.Context, region string, after ledger.AccountKey, limit int) (all []ledger.Balance, err error) {
	if ctx, err = v.reach(ctx, region); err != nil || limit <= 0 {
		return nil, err
	}
	return manySlowly(ctx, v.db, ledgerBalances, balancesArgsOf(region, after, limit), scanBalance)
}

// manySlowly is many for a statement that reads or deletes much, and is safe to repeat after it
// was done. It has no time-out of a request.
func manySlowly[T, A any](ctx context.Context, db *DB, s statement[A], args A, scan pgx.RowToFunc[T]) (all []T, err error) {
	err = db.transaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, unhurried); err != nil {
			return err
		}
		sql, bound := s.in(db.dialect, args)
		rows, err := tx.Query(ctx, sql, bound...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, claimError(s.name, err)
}

// Carried implements [ledger.Store].
func (v *View) Carried(ctx context.Context, region string, after ledger.AccountKey, limit int) (all []ledger.Balance, err error) {
	if ctx, err = v.reach(ctx, region); err != nil || limit <= 0 {
		return nil, err
	}
	all, err = many(ctx, v.db, ledgerCarried, repeatable, balancesArgsOf(region, after, limit), scanBalance)
	return all, claimError(ledgerCarried.name, err)
}

func balancesArgsOf(region string, after ledger.AccountKey, limit int) balancesArgs {
	return balancesArgs{Home: region, Account: string(after.Account), Currency: after.Currency, Limit: int64(limit)}
}

func scanBalance(row pgx.CollectableRow) (b ledger.Balance, err error) {
	err = row.Scan(&b.Account, &b.Currency, &b.Debits, &b.Credits, &b.Transactions)
	return b, err
}
