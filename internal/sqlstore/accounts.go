package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/account"
)

var (
	accounts     = declare[none]("accounts")
	accountPut   = declare[brakeArgs]("account_put")
	callsOpen    = declare[homePageArgs]("calls_open")
	ledgerGhosts = declare[ghostsArgs]("ledger_ghosts")
)

type ghostsArgs struct {
	homePageArgs
	Provider string
}

// Accounts implements [account.Store].
func (db *DB) Accounts(ctx context.Context) ([]account.Row, error) {
	all, err := many(ctx, db, accounts, repeatable, none{}, func(row pgx.CollectableRow) (r account.Row, err error) {
		var version int64
		var state []byte
		if err := row.Scan(&r.Provider, &version, &state); err != nil {
			return r, err
		}
		if err := json.Unmarshal(state, &r); err != nil {
			return r, fmt.Errorf("the row of accounts for provider %q cannot be decoded: %w", r.Provider, err)
		}
		r.Version = uint64(version)
		return r, nil
	})
	return all, claimError(accounts.name, err)
}

// PutAccount implements [account.Store].
func (db *DB) PutAccount(ctx context.Context, r account.Row) (changed bool, err error) {
	state, err := json.Marshal(r)
	if err != nil {
		return false, err
	}
	_, changed, _, err = one(ctx, db, accountPut, once, brakeArgs{r.Provider, int64(r.Version), state}, pgx.RowTo[int64])
	return changed, claimError(accountPut.name, err)
}

// Calls implements [account.Work].
func (v *View) Calls(ctx context.Context, home, after string, limit int) ([]outbox.Message, error) {
	ctx, err := v.reach(ctx, home)
	if err != nil || limit <= 0 {
		return nil, err
	}
	rows, err := many(ctx, v.db, callsOpen, repeatable, homePageArgs{home, pageArgs{after, int64(limit)}}, scanMessage)
	return messages(rows, home), claimError(callsOpen.name, err)
}

// Ghosts implements [account.Work].
func (v *View) Ghosts(ctx context.Context, home, provider, after string, limit int) ([]ledger.Transaction, error) {
	ctx, err := v.reach(ctx, home)
	if err != nil || limit <= 0 {
		return nil, err
	}
	all, err := many(ctx, v.db, ledgerGhosts, repeatable, ghostsArgs{homePageArgs{home, pageArgs{after, int64(limit)}}, provider}, scanTransaction)
	return all, claimError(ledgerGhosts.name, err)
}

// Accounts is [DB.Accounts].
func (v *View) Accounts(ctx context.Context) ([]account.Row, error) { return v.db.Accounts(ctx) }

// PutAccount is [DB.PutAccount].
func (v *View) PutAccount(ctx context.Context, r account.Row) (bool, error) {
	return v.db.PutAccount(ctx, r)
}
