package sqlstore

import (
	"context"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/account"
)

var (
	callsOpen    = declare[homePageArgs]("calls_open")
	ledgerGhosts = declare[ghostsArgs]("ledger_ghosts")
)

type ghostsArgs struct {
	homePageArgs
	Provider string
}

// Accounts implements [account.Store].
func (db *DB) Accounts(ctx context.Context) (rows []account.Row, err error) {
	all, _, err := db.documents(ctx, accountDocument)
	for i := range all {
		var r account.Row
		if err := readDocument(accountDocument, &all[i], &r); err != nil {
			return nil, err
		}
		r.Provider, r.Version = all[i].name, all[i].version
		rows = append(rows, r)
	}
	return rows, err
}

// PutAccount implements [account.Store].
func (db *DB) PutAccount(ctx context.Context, r account.Row) (changed bool, err error) {
	return db.putDocument(ctx, accountDocument, r.Provider, r.Version, r)
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
