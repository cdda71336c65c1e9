package account_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/psp"
)

// rows is a store in memory; race makes another node faster once.
type rows struct {
	all  map[string]account.Row
	race func()
}

func (s *rows) Accounts(context.Context) (all []account.Row, err error) {
	for _, r := range s.all {
		all = append(all, r)
	}
	return all, nil
}

func (s *rows) PutAccount(_ context.Context, r account.Row) (bool, error) {
	if race := s.race; race != nil {
		s.race = nil
		race()
	}
	if s.all[r.Provider].Version != r.Version {
		return false, nil
	}
	r.Version++
	s.all[r.Provider] = r
	return true, nil
}

// bank is a provider that reports its account.
type bank struct {
	psp.Provider
	name, is string
	err      error
}

func (b *bank) Name() string                            { return b.name }
func (b *bank) Account(context.Context) (string, error) { return b.is, b.err }

// silent is a provider without an account.
type silent struct{ psp.Provider }

func (silent) Name() string { return "silent" }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestAKeyOfAnotherAccountIsRefused(t *testing.T) {
	store := &rows{all: map[string]account.Row{}}
	b := &bank{name: "bank", is: "acct_1"}
	pin := func() ([]string, error) { return account.Pin(t.Context(), store, psp.Providers{b, silent{}}, now) }
	for range 2 {
		doubts, err := pin()
		require.NoError(t, err)
		require.Empty(t, doubts)
		require.Equal(t, map[string]account.Row{
			"bank": {Provider: "bank", Version: 1, Account: "acct_1", Pinned: now}, "silent": {Provider: "silent", Version: 1},
		}, store.all)
	}
	b.is = "acct_2"
	_, err := pin()
	require.ErrorContains(t, err, "the key of the provider bank is of the account acct_2, and bank has been the account acct_1 since 2026-01-02T03:04:05Z")
	require.ErrorContains(t, err, "homeward account accept --provider bank --account acct_2")
	require.NotContains(t, err.Error(), "\n")

	changed, err := account.Accept(t.Context(), store, nil, "bank", "acct_2", now)
	require.NoError(t, err)
	require.True(t, changed)
	changed, err = account.Accept(t.Context(), store, nil, "bank", "acct_2", now)
	require.NoError(t, err)
	require.False(t, changed)
	_, err = pin()
	require.NoError(t, err)
	_, err = account.Accept(t.Context(), store, nil, "nobody", "acct_2", now)
	require.ErrorIs(t, err, account.ErrUnknown)
}

// A provider that does not answer is in use all the same, and reported as in doubt. Its account is
// pinned once the provider reports it.
func TestAnAccountIsPinnedOnceItIsReported(t *testing.T) {
	store := &rows{all: map[string]account.Row{}}
	b := &bank{name: "bank", err: errors.New("no route")}
	doubts, err := account.Pin(t.Context(), store, psp.Providers{b}, now)
	require.NoError(t, err)
	require.Len(t, doubts, 1)
	require.Contains(t, doubts[0], "no route")
	require.Equal(t, account.Row{Provider: "bank", Version: 1}, store.all["bank"])
	b.is, b.err = "acct_1", nil
	_, err = account.Pin(t.Context(), store, psp.Providers{b}, now)
	require.NoError(t, err)
	require.Equal(t, "acct_1", store.all["bank"].Account)
}

// Of two nodes that start together with keys of two accounts one is refused.
func TestTwoFirstStarts(t *testing.T) {
	store := &rows{all: map[string]account.Row{}}
	store.race = func() {
		_, err := account.Pin(t.Context(), store, psp.Providers{&bank{name: "bank", is: "acct_1"}}, now)
		require.NoError(t, err)
	}
	_, err := account.Pin(t.Context(), store, psp.Providers{&bank{name: "bank", is: "acct_2"}}, now)
	require.ErrorContains(t, err, "bank has been the account acct_1")
}
