package documents_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/documents"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/notice"
)

// memory keeps documents of one kind. The suites of the contracts run on the stores; here
// others act at the moment that matters.
type memory struct {
	all map[string]documents.Document
	// before, if set, is called before each write, with how many there were.
	before func(writes int)
	writes int
	err    error // of the next write, which is done
}

func newMemory() *memory { return &memory{all: map[string]documents.Document{}} }

func (m *memory) Documents(_ context.Context, _, from string, limit int) (page []documents.Document, now time.Time, err error) {
	for name, d := range m.all {
		if name >= from {
			page = append(page, d)
		}
	}
	slices.SortFunc(page, func(a, b documents.Document) int { return cmp.Compare(a.Name, b.Name) })
	return page[:min(limit, len(page))], time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), nil
}

func (m *memory) PutDocument(_ context.Context, _ string, d documents.Document) (bool, error) {
	if m.writes++; m.before != nil {
		m.before(m.writes)
	}
	if m.all[d.Name].Version != d.Version {
		return false, nil
	}
	d.Version++
	m.all[d.Name] = d
	return true, m.err
}

// touch is a change by somebody else that says the same.
func (m *memory) touch(name string) {
	d := m.all[name]
	d.Version++
	m.all[name] = d
}

func endpoint(t *testing.T) (*memory, documents.Contracts, relay.Endpoint) {
	m := newMemory()
	e := relay.Endpoint{Tenant: "acme", URL: "https://shop.example/hooks?a=1&b=<2>", Secrets: []string{"whsec_a"}}
	require.NoError(t, documents.In(m).PutEndpoint(t.Context(), relay.Endpoint{}, e))
	m.writes = 0
	return m, documents.In(m), e
}

func TestWhatChangesNothingIsNotWritten(t *testing.T) {
	m, rows, e := endpoint(t)
	got, err := rows.NoteDelivery(t.Context(), "acme", e.URL, true, time.Hour)
	require.NoError(t, err)
	require.Equal(t, e, got)
	require.NoError(t, rows.PutEndpoint(t.Context(), e, e))
	require.Zero(t, m.writes)
	for range 3 {
		got, err = rows.NoteDelivery(t.Context(), "acme", e.URL, false, time.Hour)
		require.NoError(t, err)
		require.False(t, got.FailingSince.IsZero())
	}
	require.Equal(t, 1, m.writes)
	_, err = rows.RemoveEndpoint(t.Context(), "nobody")
	require.NoError(t, err)
	require.Equal(t, 1, m.writes)
}

// changes has every way to change an endpoint.
var changes = map[string]func(ctx context.Context, rows documents.Contracts, e relay.Endpoint) error{
	"put": func(ctx context.Context, rows documents.Contracts, e relay.Endpoint) error {
		next := e
		next.Secrets = []string{"whsec_b"}
		return rows.PutEndpoint(ctx, e, next)
	},
	"remove": func(ctx context.Context, rows documents.Contracts, e relay.Endpoint) error {
		_, err := rows.RemoveEndpoint(ctx, e.Tenant)
		return err
	},
	"note": func(ctx context.Context, rows documents.Contracts, e relay.Endpoint) error {
		_, err := rows.NoteDelivery(ctx, e.Tenant, e.URL, false, time.Hour)
		return err
	},
	"rewrite": func(ctx context.Context, rows documents.Contracts, _ relay.Endpoint) error {
		_, err := rows.RewriteSecrets(ctx, "", 10, func(string, []string) ([]string, error) { return []string{"whsec_b"}, nil })
		return err
	},
}

func TestAChangeWhileOthersChange(t *testing.T) {
	const bound = 8
	for name, change := range changes {
		t.Run(name+"/a few times", func(t *testing.T) {
			m, rows, e := endpoint(t)
			m.before = func(writes int) {
				if writes < bound {
					m.touch("acme")
				}
			}
			require.NoError(t, change(t.Context(), rows, e))
			require.Equal(t, bound, m.writes)
		})
		t.Run(name+"/all the time", func(t *testing.T) {
			m, rows, e := endpoint(t)
			m.before = func(int) { m.touch("acme") }
			err := change(t.Context(), rows, e)
			require.ErrorIs(t, err, claim.ErrUnavailable)
			require.ErrorContains(t, err, "the endpoint of tenant acme keeps changing; try again")
			require.Equal(t, bound, m.writes)
		})
		t.Run(name+"/until its caller leaves", func(t *testing.T) {
			m, rows, e := endpoint(t)
			ctx, leave := context.WithCancel(t.Context())
			m.before = func(writes int) {
				if m.touch("acme"); writes == 2 {
					leave()
				}
			}
			require.ErrorIs(t, change(ctx, rows, e), context.Canceled)
			require.Equal(t, 2, m.writes)
		})
		t.Run(name+"/without an answer", func(t *testing.T) {
			m, rows, e := endpoint(t)
			m.err = errors.New("no answer")
			require.ErrorIs(t, change(t.Context(), rows, e), m.err)
			require.Equal(t, 1, m.writes, "nobody knows whether it is done: the caller decides")
		})
	}
}

// A delivery that began before an endpoint was removed, and set again, is of the former one. Were the
// document deleted, the new one would have the version that the delivery compares.
func TestALateNoteFindsNoNewEndpoint(t *testing.T) {
	m, rows, e := endpoint(t)
	next := e
	next.Secrets = []string{"whsec_new"}
	m.before = func(writes int) {
		if writes != 1 {
			return
		}
		removed, err := rows.RemoveEndpoint(t.Context(), "acme")
		require.NoError(t, err)
		require.True(t, removed)
		require.Equal(t, "{}", string(m.all["acme"].State), "what is removed leaves no URL and no secret")
		require.NoError(t, rows.PutEndpoint(t.Context(), relay.Endpoint{}, next))
	}
	_, err := rows.NoteDelivery(t.Context(), "acme", e.URL, false, time.Hour)
	require.NoError(t, err)
	got, _, err := rows.Endpoint(t.Context(), "acme")
	require.NoError(t, err)
	require.Equal(t, next.Secrets, got.Secrets)
}

func TestATenantReadsNoOther(t *testing.T) {
	_, rows, _ := endpoint(t)
	for _, tenant := range []string{"", "acm", "acme~test"} {
		_, found, err := rows.Endpoint(t.Context(), tenant)
		require.NoError(t, err)
		require.False(t, found)
	}
}

// Of two nodes that raise the windows at once the one with the shorter ones is refused, and lowers
// nothing.
func TestWindowsOnlyGrow(t *testing.T) {
	m := newMemory()
	rows := documents.In(m)
	first, longer, longest := claim.DefaultPolicy(), claim.DefaultPolicy(), claim.DefaultPolicy()
	longer.ReplayFor += time.Hour
	longest.ReplayFor, longest.PinGrace = longest.ReplayFor+2*time.Hour, longest.PinGrace+time.Hour
	none, err := rows.Windows(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, none)
	require.NoError(t, rows.Promise(t.Context(), &first))
	require.NoError(t, rows.Promise(t.Context(), &first))
	require.Equal(t, 1, m.writes, "usually nothing is written")
	m.before = func(writes int) {
		if writes == 2 {
			require.NoError(t, rows.Promise(t.Context(), &longest))
		}
	}
	err = rows.Promise(t.Context(), &longer)
	require.ErrorContains(t, err, "claim.replay_for is 25h0m0s, and keys in this store were promised 26h0m0s")
	require.ErrorContains(t, err, "claim.pin_grace")
	require.NotContains(t, err.Error(), "tombstone_for")
	require.Equal(t, err, rows.Breaks(t.Context(), &longer))
	require.NoError(t, rows.Breaks(t.Context(), &longest))
	seen, err := rows.Windows(t.Context())
	require.NoError(t, err)
	require.Equal(t, []time.Duration{longest.ReplayFor, longest.TombstoneFor, longest.PinGrace}, []time.Duration{seen.ReplayFor, seen.TombstoneFor, seen.PinGrace})

	m.before = func(int) { m.touch("") }
	longest.TombstoneFor += time.Hour
	require.ErrorIs(t, rows.Promise(t.Context(), &longest), claim.ErrUnavailable)
}

func TestADamagedDocument(t *testing.T) {
	m := newMemory()
	m.all["sim"] = documents.Document{Name: "sim", Version: 1, State: []byte("{")}
	rows := documents.In(m)
	for kind, read := range map[string]func() error{
		"brake":    func() error { _, _, err := rows.Brakes(t.Context()); return err },
		"account":  func() error { _, err := rows.Accounts(t.Context()); return err },
		"endpoint": func() error { _, _, err := rows.Endpoint(t.Context(), "sim"); return err },
	} {
		err := read()
		require.ErrorIs(t, err, claim.ErrUnavailable)
		require.ErrorContains(t, err, "the document "+kind+` "sim" cannot be decoded`)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := rows.PutBrake(t.Context(), notice.Brake{Provider: "sim", Version: 1})
	require.NoError(t, err)
}
