package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/homeward-io/homeward/internal/cockroach"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/region"
)

// accountsEvery is how often a provider that has not said whose account it is is asked
// again.
const accountsEvery = time.Minute

// pageAccount is what operators watch for.
const pageAccount = "page: a provider that did not answer at the start is of another account than its name stands for; stop this node"

// knowProviders refuses a start with a key of another account, or without a provider that
// has open work. Whoever does not say which account it is, as while it is down, is asked
// again later.
func (n *Node) knowProviders(ctx context.Context) (parts.Stop, error) {
	doubts, err := n.c.knowProviders(ctx)
	if err != nil {
		return nil, err
	}
	for _, doubt := range doubts {
		n.log.Warn("a provider does not say which account its key opens; it is asked again", "why", doubt)
	}
	n.unsaid.Store(len(doubts) > 0)
	return nil, nil
}

func (c *Config) knowProviders(ctx context.Context) (doubts []string, err error) {
	named := slices.Concat(c.Providers.Names(), c.LeaveProviders)
	doubts, err = account.Pin(ctx, c.Store, c.Providers, time.Now())
	return doubts, errors.Join(err, account.Left(ctx, c.Store, c.Store, c.regionNames(), c.home, named))
}

func (c *Config) regionNames() (names []string) {
	for _, r := range c.Topology.Regions() {
		names = append(names, r.Name)
	}
	return names
}

// watchAccounts asks those again that have not said.
func (n *Node) watchAccounts(context.Context) (parts.Stop, error) {
	n.background.every(n.log, accountsEvery, func(ctx context.Context) {
		if n.unsaid.Load() {
			n.askAccounts(ctx, n.log)
		}
	})
	return nil, nil
}

func (n *Node) askAccounts(ctx context.Context, log *slog.Logger) {
	doubts, err := account.Pin(ctx, n.c.Store, n.c.Providers, time.Now())
	if err != nil {
		log.Error(pageAccount, "error", err)
		return
	}
	n.unsaid.Store(len(doubts) > 0)
}

// accountsOf is whom a tool acts as: a key of another account is refused, whoever has open
// work.
func (c *Config) accountsOf(ctx context.Context, providers psp.Providers) error {
	_, err := account.Pin(ctx, c.Store, providers, time.Now())
	return err
}

// leftOpen says whether a node with these settings would leave open work behind.
func leftOpen(ctx context.Context, db *cockroach.DB, settings *ServeSettings, regions []region.Region) error {
	if len(regions) == 0 || settings.validateProviders() != nil {
		return nil // a mistake of its own
	}
	view, err := db.Region(regions[0].Name)
	if err != nil {
		return err
	}
	topology, err := region.NewTopology(regions)
	if err != nil {
		return err
	}
	c := Config{Store: view, Topology: topology}
	return account.Left(ctx, view, view, c.regionNames(), c.home, slices.Concat(settings.ProviderNames(), settings.LeaveProviders))
}
