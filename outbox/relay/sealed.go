package relay

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homeward-io/homeward/internal/seal"
)

// sealedPrefix begins a sealed secret in a store. No signing secret begins with it.
const sealedPrefix = "sealed:"

// rowOf is the context to which the secrets of a tenant are bound.
func rowOf(tenant string) seal.Row { return seal.Row{Table: "endpoint", ID: tenant} }

// Sealed wraps all so that ring seals the secrets in the store; a nil ring stores them
// unsealed. An endpoint whose secrets cannot be opened is returned without them, with
// [seal.ErrLost] or [seal.ErrNoAnswer].
func Sealed(all Endpoints, ring *seal.Ring) Endpoints { return sealed{all, ring} }

type sealed struct {
	Endpoints
	ring *seal.Ring
}

func (s sealed) Endpoint(ctx context.Context, tenant string) (Endpoint, bool, error) {
	e, found, err := s.Endpoints.Endpoint(ctx, tenant)
	if err != nil || !found {
		return e, found, err
	}
	e, err = s.opened(ctx, e)
	return e, true, err
}

// PutEndpoint compares what was read with what is opened now, and has the store compare that as it is
// stored.
func (s sealed) PutEndpoint(ctx context.Context, was, e Endpoint) error {
	stored, _, err := s.Endpoints.Endpoint(ctx, e.Tenant)
	if err != nil {
		return err
	}
	now, err := s.opened(ctx, stored)
	switch {
	case errors.Is(err, seal.ErrNoAnswer):
		return err
	case !now.Same(was): // of one that is lost nothing was read
		return ErrChanged
	}
	// The store checks their number: it refuses none, and too many.
	secrets := make([]string, len(e.Secrets))
	for i, secret := range e.Secrets {
		value, err := s.ring.Seal(ctx, rowOf(e.Tenant), []byte(secret))
		if err != nil {
			return err
		}
		secrets[i] = text(value)
	}
	e.Secrets = secrets
	return s.Endpoints.PutEndpoint(ctx, stored, e)
}

// NoteDelivery returns no error for secrets that cannot be opened: no delivery was signed
// with them.
func (s sealed) NoteDelivery(ctx context.Context, tenant, url string, ok bool, disableAfter time.Duration) (Endpoint, error) {
	e, err := s.Endpoints.NoteDelivery(ctx, tenant, url, ok, disableAfter)
	if err != nil {
		return e, err
	}
	e, _ = s.opened(ctx, e)
	return e, nil
}

func (s sealed) opened(ctx context.Context, e Endpoint) (Endpoint, error) {
	secrets := make([]string, len(e.Secrets))
	for i, stored := range e.Secrets {
		value, err := bytesOf(stored)
		if err == nil {
			value, err = s.ring.Open(ctx, rowOf(e.Tenant), value)
		}
		if err != nil {
			e.Secrets = nil
			return e, fmt.Errorf("the webhook secret of tenant %s: %w", e.Tenant, err)
		}
		secrets[i] = string(value)
	}
	e.Secrets = secrets
	return e, nil
}

// text encodes a sealed value for a text column.
func text(value []byte) string {
	if _, sealed := seal.KeyOf(value); !sealed {
		return string(value)
	}
	return sealedPrefix + base64.RawStdEncoding.EncodeToString(value)
}

// bytesOf undoes text.
func bytesOf(stored string) ([]byte, error) {
	encoded, sealed := strings.CutPrefix(stored, sealedPrefix)
	if !sealed {
		return []byte(stored), nil
	}
	value, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not base64", seal.ErrLost)
	}
	return value, nil
}

// Secrets is a store of endpoints whose secrets can be rewritten.
type Secrets interface {
	// RewriteSecrets passes the secrets of up to limit tenants, in the order of their
	// ids and after the given one, to again. It replaces secrets that have not changed
	// since with the result, and nothing else of the endpoint; nil leaves them. last is
	// the tenant after which the next call continues, "" at the end.
	RewriteSecrets(ctx context.Context, after string, limit int, again func(tenant string, secrets []string) ([]string, error)) (last string, err error)
}

// rewriteBatch is a few hundred kilobytes of secrets.
const rewriteBatch = 500

// Reseal passes every secret to census. It may be stopped at any point and restarted.
func Reseal(ctx context.Context, all Secrets, census *seal.Census) error {
	for after := ""; ; {
		last, err := all.RewriteSecrets(ctx, after, rewriteBatch, func(tenant string, secrets []string) ([]string, error) {
			var next []string
			for i, stored := range secrets {
				value, err := bytesOf(stored)
				if err != nil {
					census.Lose(fmt.Errorf("the webhook secret of tenant %s: %w", tenant, err))
					continue
				}
				again, err := census.Value(ctx, rowOf(tenant), value)
				if err != nil {
					return nil, err
				}
				if again == nil {
					continue
				}
				if next == nil {
					next = append(next, secrets...)
				}
				next[i] = text(again)
			}
			return next, nil
		})
		if err != nil || last == "" {
			return err
		}
		after = last
	}
}
