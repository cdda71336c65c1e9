package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/notice"
)

// Healer refunds ghosts outside of every node, on the database of a deployment and at
// its provider. It joins no gossip and forwards nothing: like a deputy it acts on rows
// of every home through the store, whose leases and fences let any number of healers
// and nodes do so concurrently. It is safe for concurrent use.
type Healer struct {
	keeper      *account.Keeper
	claims      *claim.Guarded
	service     *claim.Service
	compensator *notice.Compensator
	means       *means
}

// OpenHealer starts a Healer with the settings and secrets of a deployment's nodes. ctx
// bounds the start only; the caller stops it.
func OpenHealer(ctx context.Context, settings ServeSettings, secrets Secrets, log *slog.Logger) (_ *Healer, err error) {
	if secrets.DatabaseURL == "" {
		return nil, fmt.Errorf("no database is set: set %s, as in postgresql://user@host:26257/homeward?sslmode=verify-full", DatabaseURL)
	}
	name, err := settings.name("heal-" + uuid.NewString()[:8]) // no process owns the leases of an earlier start
	if err != nil {
		return nil, err
	}
	m, err := openMeans(ctx, settings, secrets, nil, log)
	if err != nil {
		return nil, err
	}
	c := m.config(settings, name, log)
	c.keepProviders(log)
	if _, err := c.keeper.Pin(ctx, time.Now()); err != nil {
		return nil, errors.Join(err, m.close())
	}
	h, err := newHealer(ctx, c, log)
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	h.means = m
	return h, nil
}

func newHealer(ctx context.Context, c Config, log *slog.Logger) (*Healer, error) {
	guard, err := claim.NewGuard(ctx, c.Store)
	if err != nil {
		return nil, err
	}
	service, err := c.service(guard, nil, log)
	if err != nil {
		return nil, err
	}
	h := &Healer{keeper: c.keeper, claims: c.claims(guard), service: service}
	home := func(key claim.Key) (string, error) {
		code, ok := claim.ReadStamp(key.Value)
		home, found := c.home(code)
		if !ok || !found {
			return "", fmt.Errorf("%w: the key of the compensation names no region of the topology", claim.ErrHomeUnreachable)
		}
		return home, nil
	}
	h.compensator = c.compensator(
		func(ctx context.Context, req claim.Request, _ string) (claim.Reply, error) {
			at, err := home(req.Key)
			if err != nil {
				return claim.Reply{}, err
			}
			return service.Do(ctx, at, &req)
		},
		func(ctx context.Context, key claim.Key, _ string) (claim.Status, bool, error) {
			at, err := home(key)
			if err != nil {
				return claim.Status{}, false, err
			}
			return service.Inspect(ctx, at, key)
		}, log)
	service.Start()
	return h, nil
}

// Compensate refunds g as [notice.Compensator.Compensate] does. The accounts of the
// providers' names may have changed since the start.
func (h *Healer) Compensate(ctx context.Context, g notice.Ghost) (notice.Progress, string, error) {
	if h.keeper != nil {
		if err := h.keeper.Check(ctx, time.Now()); err != nil {
			return notice.Pending, "", err
		}
	}
	if _, _, err := h.claims.ByObject(ctx, g.Home, g.Object); err != nil {
		return notice.Pending, "", err // after a restore it may be no ghost
	}
	return h.compensator.Compensate(ctx, g)
}

// Stop waits, within ctx, for work in progress, and closes the database last. The nodes
// recover what it leaves unfinished.
func (h *Healer) Stop(ctx context.Context) error {
	err := h.service.Drain(ctx)
	h.service.Stop()
	if h.means != nil {
		err = errors.Join(err, h.means.close())
	}
	return err
}
