package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/payment/account"
)

type accountCommand struct {
	List   accountListCommand   `cmd:"" help:"List provider names that have been used, and the account of each."`
	Accept accountAcceptCommand `cmd:"" help:"Accept another account under a provider's name."`
}

// Help returns the text that homeward account --help adds.
func (accountCommand) Help() string {
	return "A provider's name belongs to one account: its books, and what its webhooks and look-ups mean. A node with a key of another account under the same name does not start.\n\n" + migrateCommand{}.Help()
}

type accountListCommand struct{}

func (c *accountListCommand) Run(ctx context.Context, io streams) error {
	return withDatabase(ctx, func(db *sqlstore.DB) error {
		rows, err := db.Accounts(ctx)
		if err != nil {
			return err
		}
		t := accountColumns.list(io)
		for _, r := range rows {
			t.row(r.Provider, r.Account, r.Pinned)
		}
		return t.Flush()
	})
}

type accountAcceptCommand struct {
	Provider string `required:"" placeholder:"NAME" help:"The provider's name."`
	Account  string `required:"" placeholder:"ID" help:"The provider's id of the account, as the refused start printed it."`
	Anyway   bool   `help:"Accept although claims, refunds or ghosts are open in the former account. The new account is asked about them, does not know them, and is charged again, unless it holds everything that the former one held."`
}

// Help returns the text that homeward account accept --help adds.
func (accountAcceptCommand) Help() string {
	return "Run it when no node has a key of the former account any more: open work is counted once, and what such a node begins after that may be charged again in the new account. docs/RUNBOOK.md, \"Change providers\", has the steps."
}

// Run is for an operator who has checked that the other account has the movements of this one, as
// after a migration by the provider: movements of the former account are not found in another.
func (c *accountAcceptCommand) Run(ctx context.Context, io streams) error {
	return withDatabase(ctx, func(db *sqlstore.DB) error {
		work, err := node.OpenWork(ctx, db)
		if err != nil {
			return err
		}
		if c.Anyway {
			work = nil
		}
		changed, err := account.Accept(ctx, db, work, c.Provider, c.Account, time.Now())
		switch {
		case errors.Is(err, account.ErrUnknown):
			return fmt.Errorf("%w: %s; homeward account list shows those that have", err, c.Provider)
		case err != nil:
			return err
		case !changed:
			fmt.Fprintf(io.out, "nothing to do: %s is the account %s\n", c.Provider, c.Account)
			return nil
		}
		fmt.Fprintf(io.out, "%s is the account %s from now on: look-ups and refunds of what moved before go to it, too; nodes with a key of the former account send it nothing more within %v\n", c.Provider, c.Account, account.CheckEvery)
		return nil
	})
}
