package documents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox/relay"
)

// maxTries bounds how often a change of one endpoint is tried while others change it.
const maxTries = 8

// Endpoint implements [relay.Endpoints].
func (c Contracts) Endpoint(ctx context.Context, tenant string) (e relay.Endpoint, found bool, err error) {
	e, _, _, err = c.endpoint(ctx, tenant)
	return e, err == nil && e.URL != "", err
}

// PutEndpoint implements [relay.Endpoints]. After an error, but relay.ErrChanged, the endpoint may
// have changed or not: read it, or set it again.
func (c Contracts) PutEndpoint(ctx context.Context, was, e relay.Endpoint) error {
	if n := len(e.Secrets); e.Tenant == "" || e.URL == "" || !utf8.ValidString(e.URL) || n < 1 || n > relay.MaxSecrets {
		return fmt.Errorf("webhook endpoint of tenant %q: it needs a tenant, a URL in UTF-8 and 1 to %d secrets", e.Tenant, relay.MaxSecrets)
	}
	e.FailingSince, e.DisabledAt = time.Time{}, time.Time{}
	_, err := c.changeEndpoint(ctx, e.Tenant, func(is relay.Endpoint, _ time.Time) (relay.Endpoint, error) {
		if !is.Same(was) {
			return is, relay.ErrChanged
		}
		return e, nil
	})
	return err
}

// RemoveEndpoint implements [relay.Endpoints]. After an error the endpoint may be there or not: read
// it, or remove it again.
func (c Contracts) RemoveEndpoint(ctx context.Context, tenant string) (removed bool, err error) {
	_, err = c.changeEndpoint(ctx, tenant, func(e relay.Endpoint, _ time.Time) (relay.Endpoint, error) {
		if e.URL == "" {
			return e, relay.ErrNoEndpoint
		}
		return relay.Endpoint{}, nil
	})
	if errors.Is(err, relay.ErrNoEndpoint) {
		return false, nil
	}
	return err == nil, err
}

// NoteDelivery implements [relay.Endpoints]. A delivery that changes nothing writes nothing: a
// write waits for every region, a read for none. After an error the next delivery notes what it
// finds.
func (c Contracts) NoteDelivery(ctx context.Context, tenant, url string, ok bool, disableAfter time.Duration) (relay.Endpoint, error) {
	return c.changeEndpoint(ctx, tenant, func(e relay.Endpoint, now time.Time) (relay.Endpoint, error) {
		if e.URL == "" || e.URL != url {
			return e, relay.ErrNoEndpoint
		}
		return e.After(ok, disableAfter, now), nil
	})
}

// RewriteSecrets implements [relay.Secrets]. After an error it may be started again.
func (c Contracts) RewriteSecrets(ctx context.Context, after string, limit int, again func(tenant string, secrets []string) ([]string, error)) (last string, err error) {
	page, _, err := c.store.Documents(ctx, endpoints, after, limit+1) // with after itself
	if err != nil {
		return "", err
	}
	if len(page) > 0 && page[0].Name == after {
		page = page[1:]
	}
	page = page[:min(len(page), limit)]
	for i := range page {
		var seen relay.Endpoint
		if err := decode(endpoints, &page[i], &seen); err != nil {
			return "", err
		}
		if seen.URL == "" {
			continue
		}
		next, err := again(page[i].Name, slices.Clone(seen.Secrets))
		if err != nil {
			return "", err
		}
		if next == nil {
			continue
		}
		if _, err := c.changeEndpoint(ctx, page[i].Name, func(e relay.Endpoint, _ time.Time) (relay.Endpoint, error) {
			if slices.Equal(e.Secrets, seen.Secrets) {
				e.Secrets = next
			}
			return e, nil
		}); err != nil {
			return "", err
		}
	}
	if len(page) < limit {
		return "", nil
	}
	return page[limit-1].Name, nil
}

// endpoint reads a tenant's document. Without one, or after a removal, e has no URL.
func (c Contracts) endpoint(ctx context.Context, tenant string) (e relay.Endpoint, d Document, now time.Time, err error) {
	all, now, err := c.store.Documents(ctx, endpoints, tenant, 1)
	if err == nil && len(all) > 0 && all[0].Name == tenant { // else it is the next tenant's
		d = all[0]
		err = decode(endpoints, &d, &e)
	}
	e.Tenant = tenant
	return e, d, now, err
}

// changeEndpoint applies how to a tenant's endpoint until the result is written, and returns it.
// It writes nothing if nothing changes.
func (c Contracts) changeEndpoint(ctx context.Context, tenant string, how func(e relay.Endpoint, now time.Time) (relay.Endpoint, error)) (relay.Endpoint, error) {
	for range maxTries {
		if err := ctx.Err(); err != nil {
			return relay.Endpoint{}, err
		}
		e, d, now, err := c.endpoint(ctx, tenant)
		if err == nil {
			e, err = how(e, now)
		}
		if err != nil {
			return relay.Endpoint{}, err
		}
		state, err := json.Marshal(e)
		if err != nil || bytes.Equal(state, d.State) {
			return e, err
		}
		if changed, err := c.store.PutDocument(ctx, endpoints, Document{tenant, d.Version, state}); err != nil || changed {
			return e, err
		}
	}
	return relay.Endpoint{}, fmt.Errorf("%w: the endpoint of tenant %s keeps changing; try again", claim.ErrUnavailable, tenant)
}
