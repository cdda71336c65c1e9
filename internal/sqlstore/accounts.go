package sqlstore

import (
	"context"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

var (
	callsOpen    = declare[homePageArgs]("calls_open")
	ledgerGhosts = declare[ghostsArgs]("ledger_ghosts")
)

type ghostsArgs struct {
	homePageArgs
	Provider string
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
