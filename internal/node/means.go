package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/internal/telemetry"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/region"
)

// means are what acting on claims needs, inside or outside a node: the database, the
// objects and the providers.
type means struct {
	db        *sqlstore.DB
	view      *sqlstore.View // as the nodes of the settings' region see it
	topology  *region.Topology
	providers []speaker // the default first
	seal      *seal.Ring
	*resources
}

// openMeans opens what the settings name. The caller closes it.
func openMeans(ctx context.Context, settings ServeSettings, secrets Secrets, meters *meter.Set, log *slog.Logger) (_ *means, err error) {
	m := &means{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if m.db, err = sqlstore.Open(ctx, sqlstore.Config{
		URL: secrets.DatabaseURL, Policy: settings.policy(), Pool: settings.Database, Trace: telemetry.Enabled(), Meters: meters, Logger: log,
	}); err != nil {
		return nil, err
	}
	if m.view, err = m.db.Region(settings.Node.Region); err != nil {
		return nil, err
	}
	regions, _, err := m.db.Regions(ctx)
	if err != nil {
		return nil, err
	}
	if m.topology, err = region.NewTopology(regions); err != nil {
		return nil, err
	}
	for _, p := range settings.providers() {
		adapter, err := p.open(secrets.Providers[p.Name])
		if err != nil {
			return nil, err
		}
		m.providers = append(m.providers, adapter)
	}
	if m.seal, err = OpenSeal(ctx, secrets.SealKeys, !settings.Seal, log); err != nil {
		return nil, err
	}
	var keys *audit.Keys
	if settings.Audit.Bucket != "" {
		if keys, err = ParseAuditKeys(secrets.AuditKeys); err != nil {
			return nil, err
		}
	}
	if m.resources, err = openResources(ctx, &settings.Tuning, keys, relay.Sealed(m.view, m.seal), log); err != nil {
		return nil, err
	}
	return m, nil
}

// config is the part of a node's that does not depend on where it listens.
func (m *means) config(settings ServeSettings, name string, log *slog.Logger) Config {
	blobs := claim.Blobs(inRows{})
	if m.objects != nil {
		blobs = m.objects
	}
	tuning := settings.Tuning
	tuning.Policy = settings.policy()
	var providers psp.Providers
	notifiers := map[string]psp.Notifier{}
	for _, p := range m.providers {
		providers, notifiers[p.Name()] = append(providers, p), p
	}
	c := Config{
		AuditObjects: m.auditObjects(), AuditKeys: m.auditKeys, RunsBook: m.runs.Book(),
		Tuning: tuning, Name: name, Region: settings.Node.Region, Topology: m.topology, Store: m.view, Blobs: blobs,
		Payments: Payments{Providers: providers, Failover: settings.failover(), Notifiers: notifiers}, Sinks: m.sinks.kinds, LeaveProviders: settings.LeaveProviders,
		Seal: m.seal, Logger: log,
	}
	if settings.Gateway.On() {
		c.Limits.HeaderBytes, c.Accounts = http.DefaultMaxHeaderBytes, m.db
	}
	return c
}

// close closes the database last.
func (m *means) close() error {
	var errs []error
	errs = append(errs, m.resources.close())
	for _, p := range m.providers {
		errs = append(errs, p.Close())
	}
	errs = append(errs, m.seal.Close())
	if m.db != nil {
		errs = append(errs, m.db.Close())
	}
	return errors.Join(errs...)
}
