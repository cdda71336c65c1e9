package embedded

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/outbox/relay"
)

// Endpoints are stored like tenants: each region has a copy of the table, so that
// access costs no trip.

var (
	_ relay.Endpoints = (*DB)(nil)
	_ relay.Secrets   = (*DB)(nil)
)

// readEndpoint reads one row. endpointMu must be held.
func (db *DB) readEndpoint(tenant string) (e relay.Endpoint, found bool, err error) {
	found, err = db.get(append([]byte{tableEndpoint}, tenant...), func(value []byte) error {
		e, err = decodeEndpoint(tenant, value)
		return err
	})
	return e, found, err
}

// putEndpoint replaces one row. endpointMu must be held for writing.
func (db *DB) putEndpoint(e *relay.Endpoint) error {
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = append(append(s.key[:0], tableEndpoint), e.Tenant...)
	if err := s.set(b, s.key, endpointToProto(e)); err != nil {
		return err
	}
	return db.commit(b, pebble.Sync)
}

// Endpoint implements [relay.Endpoints].
func (db *DB) Endpoint(ctx context.Context, tenant string) (relay.Endpoint, bool, error) {
	if err := db.enter(ctx); err != nil {
		return relay.Endpoint{}, false, err
	}
	defer db.leave()
	db.endpointMu.RLock()
	defer db.endpointMu.RUnlock()
	return db.readEndpoint(tenant)
}

// PutEndpoint implements [relay.Endpoints].
func (db *DB) PutEndpoint(ctx context.Context, e relay.Endpoint) error {
	if err := checkName("tenant", e.Tenant); err != nil {
		return err
	}
	if e.URL == "" || len(e.Secrets) < 1 || len(e.Secrets) > relay.MaxSecrets {
		return fmt.Errorf("embedded store: webhook endpoint of tenant %s: it needs a URL and 1 to %d secrets", e.Tenant, relay.MaxSecrets)
	}
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	db.endpointMu.Lock()
	defer db.endpointMu.Unlock()
	e.FailingSince, e.DisabledAt = time.Time{}, time.Time{}
	return db.putEndpoint(&e)
}

// RemoveEndpoint implements [relay.Endpoints].
func (db *DB) RemoveEndpoint(ctx context.Context, tenant string) (bool, error) {
	if err := db.enter(ctx); err != nil {
		return false, err
	}
	defer db.leave()
	db.endpointMu.Lock()
	defer db.endpointMu.Unlock()
	_, found, err := db.readEndpoint(tenant)
	if err != nil || !found {
		return false, err
	}
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if err := b.Delete(append([]byte{tableEndpoint}, tenant...), nil); err != nil {
		return false, unavailable(err)
	}
	err = db.commit(b, pebble.Sync)
	return err == nil, err
}

// NoteDelivery implements [relay.Endpoints].
func (db *DB) NoteDelivery(ctx context.Context, tenant, url string, ok bool, disableAfter time.Duration) (relay.Endpoint, error) {
	e, found, err := db.Endpoint(ctx, tenant)
	switch {
	case err != nil:
		return relay.Endpoint{}, err
	case !found || e.URL != url:
		return relay.Endpoint{}, relay.ErrNoEndpoint
	case ok && e.FailingSince.IsZero(), !ok && !e.DisabledAt.IsZero():
		return e, nil // as nearly always
	}
	if err := db.enter(ctx); err != nil {
		return relay.Endpoint{}, err
	}
	defer db.leave()
	db.endpointMu.Lock()
	defer db.endpointMu.Unlock()
	if e, found, err = db.readEndpoint(tenant); err != nil {
		return relay.Endpoint{}, err
	}
	if !found || e.URL != url {
		return relay.Endpoint{}, relay.ErrNoEndpoint
	}
	next, now := e, db.clock.now()
	switch {
	case ok:
		next.FailingSince = time.Time{}
	case e.FailingSince.IsZero():
		next.FailingSince = now
	case e.DisabledAt.IsZero() && !now.Before(e.FailingSince.Add(disableAfter)):
		next.DisabledAt = now
	}
	if next.FailingSince.Equal(e.FailingSince) && next.DisabledAt.Equal(e.DisabledAt) {
		return e, nil
	}
	if err := db.putEndpoint(&next); err != nil {
		return relay.Endpoint{}, err
	}
	return next, nil
}

// RewriteSecrets implements [relay.Secrets].
func (db *DB) RewriteSecrets(ctx context.Context, after string, limit int, again func(tenant string, secrets []string) ([]string, error)) (last string, err error) {
	page, err := db.endpointsAfter(ctx, after, limit)
	if err != nil {
		return "", err
	}
	for i := range page {
		next, err := again(page[i].Tenant, slices.Clone(page[i].Secrets))
		if err == nil && next != nil {
			err = db.rewriteSecrets(ctx, &page[i], next)
		}
		if err != nil {
			return "", err
		}
	}
	if len(page) < limit {
		return "", nil
	}
	return page[limit-1].Tenant, nil
}

func (db *DB) endpointsAfter(ctx context.Context, after string, limit int) (page []relay.Endpoint, err error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	db.endpointMu.RLock()
	defer db.endpointMu.RUnlock()
	from := append(append([]byte{tableEndpoint}, after...), 0) // the next possible key
	err = db.scan(from, []byte{tableEndpoint + 1}, func(k, value []byte) (bool, error) {
		e, err := decodeEndpoint(string(k[1:]), value)
		page = append(page, e)
		return len(page) < limit, err
	})
	return page, err
}

// rewriteSecrets replaces the secrets of an endpoint where they are still those of seen.
func (db *DB) rewriteSecrets(ctx context.Context, seen *relay.Endpoint, secrets []string) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	db.endpointMu.Lock()
	defer db.endpointMu.Unlock()
	e, found, err := db.readEndpoint(seen.Tenant)
	if err != nil || !found || !slices.Equal(e.Secrets, seen.Secrets) {
		return err
	}
	e.Secrets = secrets
	return db.putEndpoint(&e)
}

// Endpoint is [DB.Endpoint].
func (v *View) Endpoint(ctx context.Context, tenant string) (relay.Endpoint, bool, error) {
	return v.db.Endpoint(ctx, tenant)
}

// PutEndpoint is [DB.PutEndpoint].
func (v *View) PutEndpoint(ctx context.Context, e relay.Endpoint) error {
	return v.db.PutEndpoint(ctx, e)
}

// RemoveEndpoint is [DB.RemoveEndpoint].
func (v *View) RemoveEndpoint(ctx context.Context, tenant string) (bool, error) {
	return v.db.RemoveEndpoint(ctx, tenant)
}

// NoteDelivery is [DB.NoteDelivery].
func (v *View) NoteDelivery(ctx context.Context, tenant, url string, ok bool, disableAfter time.Duration) (relay.Endpoint, error) {
	return v.db.NoteDelivery(ctx, tenant, url, ok, disableAfter)
}

// RewriteSecrets is [DB.RewriteSecrets].
func (v *View) RewriteSecrets(ctx context.Context, after string, limit int, again func(tenant string, secrets []string) ([]string, error)) (string, error) {
	return v.db.RewriteSecrets(ctx, after, limit, again)
}
