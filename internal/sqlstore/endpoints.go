package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/outbox/relay"
)

var (
	_ relay.Endpoints = (*DB)(nil)
	_ relay.Endpoints = (*View)(nil)
	_ relay.Secrets   = (*DB)(nil)
	_ relay.Secrets   = (*View)(nil)
)

var (
	endpointGet     = declare[tenantArgs]("endpoint")
	endpointPut     = declare[endpointArgs]("endpoint_put")
	endpointRemove  = declare[tenantArgs]("endpoint_remove")
	endpointNote    = declare[deliveryArgs]("endpoint_note")
	endpointSecrets = declare[pageArgs]("endpoints_secrets")
	endpointRewrite = declare[secretsArgs]("endpoint_rewrite")
)

type (
	tenantArgs   struct{ TenantID string }
	endpointArgs struct {
		TenantID, URL string
		Secrets       []string
	}
	deliveryArgs struct {
		TenantID, URL string
		OK            bool
		DisableAfter  time.Duration
	}
	secretsArgs struct {
		TenantID            string
		OldSecrets, Secrets []string
	}
)

// seenEndpoint is a row and the store's clock.
type seenEndpoint struct {
	now time.Time
	relay.Endpoint
}

func scanEndpoint(row pgx.CollectableRow) (s seenEndpoint, err error) {
	var failing, disabled zeronull.Timestamptz
	err = row.Scan(&s.now, &s.Tenant, &s.URL, &s.Secrets, &failing, &disabled)
	if at := time.Time(failing); !at.IsZero() {
		s.FailingSince = at.UTC()
	}
	if at := time.Time(disabled); !at.IsZero() {
		s.DisabledAt = at.UTC()
	}
	return s, err
}

func (db *DB) endpoint(ctx context.Context, tenant string) (s seenEndpoint, found bool, err error) {
	s, found, _, err = one(ctx, db, endpointGet, repeatable, tenantArgs{tenant}, scanEndpoint)
	if err != nil || !found {
		return seenEndpoint{}, false, claimError(endpointGet.name, err)
	}
	return s, true, nil
}

// Endpoint implements [relay.Endpoints].
func (db *DB) Endpoint(ctx context.Context, tenant string) (relay.Endpoint, bool, error) {
	s, found, err := db.endpoint(ctx, tenant)
	return s.Endpoint, found, err
}

// PutEndpoint implements [relay.Endpoints].
func (db *DB) PutEndpoint(ctx context.Context, e relay.Endpoint) error {
	if e.Tenant == "" || e.URL == "" || len(e.Secrets) < 1 || len(e.Secrets) > relay.MaxSecrets {
		return fmt.Errorf("webhook endpoint of tenant %q: it needs a tenant, a URL and 1 to %d secrets", e.Tenant, relay.MaxSecrets)
	}
	_, _, err := affected(ctx, db, endpointPut, repeatable, endpointArgs{TenantID: e.Tenant, URL: e.URL, Secrets: e.Secrets})
	return claimError(endpointPut.name, err)
}

// RemoveEndpoint implements [relay.Endpoints].
func (db *DB) RemoveEndpoint(ctx context.Context, tenant string) (bool, error) {
	n, lost, err := affected(ctx, db, endpointRemove, repeatable, tenantArgs{tenant})
	// After a lost reply the row existed before, or the statement was sent for nothing.
	return n > 0 || lost, claimError(endpointRemove.name, err)
}

// NoteDelivery implements [relay.Endpoints].
func (db *DB) NoteDelivery(ctx context.Context, tenant, url string, ok bool, disableAfter time.Duration) (relay.Endpoint, error) {
	e, err := db.endpointAt(ctx, tenant, url)
	if err != nil || !e.changes(ok, disableAfter) {
		return e.Endpoint, err
	}
	changed, found, _, err := one(ctx, db, endpointNote, repeatable, deliveryArgs{
		TenantID: tenant, URL: url, OK: ok, DisableAfter: disableAfter.Truncate(time.Microsecond),
	}, scanEndpoint)
	switch {
	case err != nil:
		return relay.Endpoint{}, claimError(endpointNote.name, err)
	case found:
		return changed.Endpoint, nil
	}
	// Another node has recorded the same meanwhile, or our own first try has.
	e, err = db.endpointAt(ctx, tenant, url)
	return e.Endpoint, err
}

// endpointAt returns the tenant's endpoint if it is at url.
func (db *DB) endpointAt(ctx context.Context, tenant, url string) (seenEndpoint, error) {
	e, found, err := db.endpoint(ctx, tenant)
	if err == nil && (!found || e.URL != url) {
		err = relay.ErrNoEndpoint
	}
	if err != nil {
		return seenEndpoint{}, err
	}
	return e, nil
}

// changes reports whether a delivery changes the row, as endpoint_note judges it:
// reading the row is near in every region, and writing it is not.
func (e *seenEndpoint) changes(ok bool, disableAfter time.Duration) bool {
	switch {
	case ok:
		return !e.FailingSince.IsZero()
	case e.FailingSince.IsZero():
		return true
	default:
		return e.DisabledAt.IsZero() && !e.now.Before(e.FailingSince.Add(disableAfter))
	}
}

// RewriteSecrets implements [relay.Secrets].
func (db *DB) RewriteSecrets(ctx context.Context, after string, limit int, again func(tenant string, secrets []string) ([]string, error)) (last string, err error) {
	type held struct {
		tenant  string
		secrets []string
	}
	page, err := many(ctx, db, endpointSecrets, repeatable, pageArgs{after, int64(limit)}, func(row pgx.CollectableRow) (h held, err error) {
		err = row.Scan(&h.tenant, &h.secrets)
		return h, err
	})
	if err != nil {
		return "", claimError(endpointSecrets.name, err)
	}
	for _, h := range page {
		next, err := again(h.tenant, h.secrets)
		if err != nil {
			return "", err
		}
		if next == nil {
			continue
		}
		if _, _, err := affected(ctx, db, endpointRewrite, repeatable, secretsArgs{TenantID: h.tenant, OldSecrets: h.secrets, Secrets: next}); err != nil {
			return "", claimError(endpointRewrite.name, err)
		}
	}
	if len(page) < limit {
		return "", nil
	}
	return page[limit-1].tenant, nil
}

// RewriteSecrets implements [relay.Secrets].
func (v *View) RewriteSecrets(ctx context.Context, after string, limit int, again func(tenant string, secrets []string) ([]string, error)) (string, error) {
	return v.db.RewriteSecrets(ctx, after, limit, again)
}

// Endpoint implements [relay.Endpoints].
func (v *View) Endpoint(ctx context.Context, tenant string) (relay.Endpoint, bool, error) {
	return v.db.Endpoint(ctx, tenant)
}

// PutEndpoint implements [relay.Endpoints].
func (v *View) PutEndpoint(ctx context.Context, e relay.Endpoint) error {
	return v.db.PutEndpoint(ctx, e)
}

// RemoveEndpoint implements [relay.Endpoints].
func (v *View) RemoveEndpoint(ctx context.Context, tenant string) (bool, error) {
	return v.db.RemoveEndpoint(ctx, tenant)
}

// NoteDelivery implements [relay.Endpoints].
func (v *View) NoteDelivery(ctx context.Context, tenant, url string, ok bool, disableAfter time.Duration) (relay.Endpoint, error) {
	return v.db.NoteDelivery(ctx, tenant, url, ok, disableAfter)
}
