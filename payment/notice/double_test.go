package notice

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// bookkeeper is the world's ledger.
type bookkeeper struct {
	ledger.Store
	*world
}

func (b bookkeeper) Transaction(_ context.Context, _, id string) (ledger.Transaction, bool, error) {
	t, ok := b.books[id]
	return t, ok, b.point()
}

func (b bookkeeper) Named(_ context.Context, _ string, ids []string) (all []ledger.Transaction, _ error) {
	for _, id := range ids {
		if t, ok := b.books[id]; ok {
			all = append(all, t)
		}
	}
	return all, b.point()
}

func (b bookkeeper) GhostRefund(_ context.Context, _, object string) (ledger.Transaction, bool, error) {
	for _, t := range b.books {
		if t.Kind == ledger.GhostRefund && t.Object == object {
			return t, true, b.point()
		}
	}
	return ledger.Transaction{}, false, b.point()
}

func (b bookkeeper) Reversals(_ context.Context, ids ...string) (all []ledger.Transaction, _ error) {
	for _, t := range b.books {
		if slices.Contains(ids, t.Reverses) {
			all = append(all, t)
		}
	}
	return all, b.point()
}

func (b bookkeeper) ReversalsAt(ctx context.Context, _, id string) ([]ledger.Transaction, error) {
	return b.Reversals(ctx, id)
}

func (b bookkeeper) Incoming(_ context.Context, provider, ref string) (all []ledger.Transaction, _ error) {
	for _, t := range b.books {
		if t.Incoming() && t.Provider == provider && t.ProviderRef == ref {
			all = append(all, t)
		}
	}
	return all, b.point()
}

func (b bookkeeper) Post(_ context.Context, t ledger.Transaction) (bool, error) {
	if err := b.point(); err != nil {
		return false, err
	}
	require.NoError(b, t.Validate())
	old, there := b.books[t.ID]
	for id, other := range b.books {
		if id != t.ID && t.Incoming() && other.Incoming() && other.Provider == t.Provider && other.ProviderRef == t.ProviderRef {
			return false, ledger.ErrConflict
		}
	}
	if there && !old.Same(t) {
		return false, ledger.ErrConflict
	}
	b.books[t.ID] = t
	return !there, b.point()
}

// queue is the world's provider calls; shelves its notices.
type queue struct {
	outbox.Store
	*world
}

func (q queue) Message(_ context.Context, _, id string) (outbox.Message, bool, error) {
	m, ok := q.calls[id]
	return m, ok, q.point()
}

type shelves struct {
	Store
	*world
}

func (s shelves) Close(_ context.Context, _, id string, _ uint64, status Status, _ string) error {
	if err := s.point(); err != nil {
		return err
	}
	s.closed[id] = status
	return s.point()
}

func (s shelves) CloseAll(_ context.Context, _ string, rows []outbox.Hold, status Status, _ string) (int, error) {
	if err := s.point(); err != nil {
		return 0, err
	}
	for _, r := range rows {
		s.closed[r.ID] = status
	}
	return len(rows), s.point()
}

func (s shelves) Book(_ context.Context, t ledger.Transaction, events []outbox.Message) (bool, error) {
	if err := s.point(); err != nil {
		return false, err
	}
	require.NoError(s, t.Validate())
	old, there := s.books[t.ID]
	if there && !old.Same(t) {
		return false, ledger.ErrConflict
	}
	if !there {
		s.books[t.ID] = t
		s.events = append(s.events, events...)
	}
	return !there, s.point()
}

func (s shelves) Waits(_ context.Context, _, _, events string) (key string, err error) {
	for _, m := range s.events {
		if strings.HasPrefix(m.ID, events) {
			key = m.Key
		}
	}
	return key, s.point()
}

// brakeRows are the world's brakes.
type brakeRows struct{ *world }

func (b brakeRows) Brakes(context.Context) (rows []Brake, now time.Time, err error) {
	for _, row := range b.brakes {
		rows = append(rows, row)
	}
	return rows, b.now, b.point()
}

func (b brakeRows) PutBrake(_ context.Context, row Brake) (bool, error) {
	if err := b.point(); err != nil {
		return false, err
	}
	if b.brakes[row.Provider].Version != row.Version {
		return false, nil
	}
	row.Version++
	b.brakes[row.Provider] = row
	return true, b.point()
}

// pager collects the pages.
type pager struct {
	slog.Handler
	*world
}

func (p pager) Enabled(context.Context, slog.Level) bool { return true }

func (p pager) WithAttrs([]slog.Attr) slog.Handler { return p }

func (p pager) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "page: ") {
		p.pages = append(p.pages, r.Message)
	}
	return nil
}

// provider is the provider of refunds, with the methods that these tests need.
type provider struct {
	psp.Provider
	*world
}

func (provider) Name() string { return "sim" }

func (p provider) Capabilities() psp.Capabilities { return psp.Capabilities{Blind: p.blind} }

func (p provider) Cancel(_ context.Context, call psp.Call) psp.Result {
	p.cancels = append(p.cancels, call)
	return psp.Result{Outcome: psp.Pending, ProviderRef: call.Source}
}

func (p provider) Show(_ context.Context, _ psp.Kind, _, ref string) (psp.Found, psp.Movement, error) {
	if err := p.point(); err != nil || p.silent {
		return psp.FoundUnknown, psp.Movement{}, err
	}
	m, ok := p.shows[ref]
	if !ok {
		return psp.FoundNo, m, nil
	}
	return psp.FoundYes, m, nil
}

// reader reads a notice that is psp.Notice as JSON.
type reader struct{}

func (reader) Signed(http.Header) bool { return true }

func (reader) Verify(http.Header, []byte, time.Time) (string, error) { return "", psp.ErrForged }

func (reader) Read(body []byte) (n psp.Notice, err error) {
	err = json.Unmarshal(body, &n)
	return n, err
}
