package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/psp/testmode"
	"github.com/homeward-io/homeward/region"
)

// checkProviders refuses a start with a key of another account, or without a provider that has open
// work. The keeper later retries a provider that does not report its account, as while it is down.
func (n *Node) checkProviders(ctx context.Context) (parts.Stop, error) {
	n.c.keepProviders(n.log)
	doubts, err := n.c.keeper.Pin(ctx, time.Now())
	named := slices.Concat(n.c.Providers.Names(), n.c.LeaveProviders)
	if err := errors.Join(err, account.CheckRemoved(ctx, n.c.Store, n.c.work(n.c.Store), named)); err != nil {
		return nil, err
	}
	for _, doubt := range doubts {
		n.log.Warn("a provider does not report the account of its key; the node retries", "why", doubt)
	}
	// It has no account, and is not the operator's to leave out.
	n.test = testmode.New(func(ctx context.Context, tenant, event string, after time.Duration, body []byte) error {
		return n.receiver.Report(ctx, tenant, event, after, body)
	}, func(ctx context.Context, tenant, charge, but string) (left int64, found bool, err error) {
		left, _, found, err = n.present().Left(ctx, tenant, charge, but)
		return left, found, err
	})
	n.c.Providers = append(n.c.Providers, n.test)
	return nil, nil
}

// keepProviders keeps the providers to their accounts from now on.
func (c *Config) keepProviders(log *slog.Logger) {
	c.keeper = account.NewKeeper(c.Store, c.Providers, log)
	c.Providers = c.keeper.Providers()
}

func (c *Config) work(w account.Work) *account.Homes {
	return &account.Homes{Work: w, Names: c.Topology.Names(), Home: c.home}
}

// watchAccounts compares accounts periodically.
func (n *Node) watchAccounts(context.Context) (parts.Stop, error) {
	n.background.every(n.log, account.CheckEvery, n.checkAccounts)
	return nil, nil
}

func (n *Node) checkAccounts(ctx context.Context) {
	if err := n.c.keeper.Check(ctx, time.Now()); err != nil {
		n.log.Warn("the node could not compare the providers' accounts; it retries in a minute", "error", err)
	}
}

// openWork returns the open work that a node with these settings would leave behind.
func openWork(ctx context.Context, db *sqlstore.DB, settings *ServeSettings, regions []region.Region) error {
	if len(regions) == 0 || settings.validateProviders() != nil {
		return nil // a mistake of its own
	}
	work, err := workOf(db, regions)
	if err != nil {
		return err
	}
	return account.CheckRemoved(ctx, db, work, slices.Concat(settings.ProviderNames(), settings.LeaveProviders))
}

// OpenWork reads what is open in the regions of a database, for tools.
func OpenWork(ctx context.Context, db *sqlstore.DB) (*account.Homes, error) {
	regions, _, err := db.Regions(ctx)
	if err != nil || len(regions) == 0 {
		return nil, err
	}
	return workOf(db, regions)
}

func workOf(db *sqlstore.DB, regions []region.Region) (*account.Homes, error) {
	view, err := db.Region(regions[0].Name)
	if err != nil {
		return nil, err
	}
	topology, err := region.NewTopology(regions)
	if err != nil {
		return nil, err
	}
	c := Config{Topology: topology}
	return c.work(view), nil
}
