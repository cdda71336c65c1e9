package node

import (
	"context"
	"errors"
	"log/slog"

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
	bucket    *Blobs // nil: every body is in its row
	audit     auditMeans
	runs      *Runs     // nil: there are none
	providers []gateway // the default first
	seal      *seal.Ring
	sinks     *Sinks
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
	if settings.Objects != "" {
		if m.bucket, err = OpenBlobs(ctx, settings.Objects); err != nil {
			return nil, err
		}
	}
	if m.audit, err = openAuditMeans(ctx, settings.Audit.Bucket, secrets.AuditKeys); err != nil {
		return nil, err
	}
	if m.runs, err = OpenRuns(ctx, settings.Runs); err != nil {
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
	if m.sinks, err = settings.Events.open(ctx, relay.Sealed(m.view, m.seal), log); err != nil {
		return nil, err
	}
	return m, nil
}

// config is the part of a node's that does not depend on where it listens.
func (m *means) config(settings ServeSettings, name string, log *slog.Logger) Config {
	blobs := claim.Blobs(inRows{})
	if m.bucket != nil {
		blobs = m.bucket
	}
	tuning := settings.Tuning
	tuning.Policy = settings.policy()
	var providers psp.Providers
	notifiers := map[string]psp.Notifier{}
	for _, p := range m.providers {
		providers, notifiers[p.Name()] = append(providers, p), p
	}
	return Config{
		AuditObjects: m.audit.objects(), AuditKeys: m.audit.keys, RunsBook: m.runs.Book(),
		Tuning: tuning, Name: name, Region: settings.Node.Region, Topology: m.topology, Store: m.view, Blobs: blobs,
		Providers: providers, Notifiers: notifiers, Sinks: m.sinks.kinds,
		LeaveProviders: settings.LeaveProviders, Failover: settings.failover(),
		Seal: m.seal, Logger: log,
	}
}

// close closes the database last.
func (m *means) close() error {
	var errs []error
	if m.sinks != nil {
		m.sinks.Close()
	}
	for _, p := range m.providers {
		errs = append(errs, p.Close())
	}
	if m.bucket != nil {
		errs = append(errs, m.bucket.Close())
	}
	errs = append(errs, m.audit.close(), m.runs.Close(), m.seal.Close())
	if m.db != nil {
		errs = append(errs, m.db.Close())
	}
	return errors.Join(errs...)
}
