package account_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/psp"
)

// called is a bank that counts what reaches it.
type called struct {
	bank
	sent int
}

func (c *called) answer() psp.Result {
	c.sent++
	return psp.Result{Outcome: psp.Approved, ProviderRef: "p"}
}

func (c *called) Charge(context.Context, psp.Call) psp.Result   { return c.answer() }
func (c *called) Transfer(context.Context, psp.Call) psp.Result { return c.answer() }
func (c *called) Refund(context.Context, psp.Call) psp.Result   { return c.answer() }
func (c *called) Capture(context.Context, psp.Call) psp.Result  { return c.answer() }
func (c *called) Cancel(context.Context, psp.Call) psp.Result   { return c.answer() }
func (c *called) Lookup(context.Context, psp.Call) (psp.Found, psp.Result) {
	c.answer()
	return psp.FoundNo, psp.Result{}
}

func (c *called) Show(context.Context, psp.Kind, string, string) (psp.Found, psp.Movement, error) {
	c.answer()
	return psp.FoundNo, psp.Movement{}, nil
}

type counted struct {
	slog.Handler
	said *[]string
}

func (c counted) Enabled(context.Context, slog.Level) bool { return true }
func (c counted) Handle(_ context.Context, r slog.Record) error {
	*c.said = append(*c.said, r.Level.String()+" "+r.Message)
	return nil
}

// A process sends nothing under a name once its key opens another account than the name's. Every
// call returns NotSentError: no decline, and never not found. The keeper logs it once, and sends
// again when the key opens the name's account again.
func TestNothingIsSentInAnotherAccount(t *testing.T) {
	store := &rows{all: map[string]account.Row{}}
	b := &called{bank: bank{name: "bank", is: "acct_1"}}
	var said []string
	k := account.NewKeeper(store, psp.Providers{b}, slog.New(counted{slog.DiscardHandler, &said}))
	_, err := k.Pin(t.Context(), now)
	require.NoError(t, err)
	p := k.Providers()[0]
	all := func() (results []psp.Result, found []psp.Found) {
		for _, move := range []func(context.Context, psp.Call) psp.Result{p.Charge, p.Transfer, p.Refund, p.Capture, p.Cancel} {
			results = append(results, move(t.Context(), psp.Call{}))
		}
		lookup, r := p.Lookup(t.Context(), psp.Call{})
		shown, _, err := p.Show(t.Context(), psp.KindCharge, "", "")
		return append(results, r, psp.Result{Err: err}), []psp.Found{lookup, shown}
	}
	all()
	require.Equal(t, 7, b.sent)

	_, err = account.Accept(t.Context(), store, nil, "bank", "acct_2", now)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, k.Check(t.Context(), now))
		results, found := all()
		for _, r := range results {
			var held *psp.NotSentError
			require.ErrorAs(t, r.Err, &held)
			require.Equal(t, account.CheckEvery, held.RetryIn)
			require.Equal(t, psp.Unknown, r.Outcome)
		}
		require.Equal(t, []psp.Found{psp.FoundUnknown, psp.FoundUnknown}, found)
	}
	require.Equal(t, 7, b.sent)
	require.Len(t, said, 1)
	require.Contains(t, said[0], "ERROR page: ")

	_, err = account.Accept(t.Context(), store, nil, "bank", "acct_1", now)
	require.NoError(t, err)
	require.NoError(t, k.Check(t.Context(), now))
	all()
	require.Equal(t, 14, b.sent)
	require.Len(t, said, 2)
}

// The keeper reads a silent provider's account again, and stops calls if it is another one.
func TestALateAccountIsCompared(t *testing.T) {
	store := &rows{all: map[string]account.Row{"bank": {Provider: "bank", Version: 1, Account: "acct_1"}}}
	b := &called{bank: bank{name: "bank", err: errors.New("no route")}}
	k := account.NewKeeper(store, psp.Providers{b}, slog.New(slog.DiscardHandler))
	doubts, err := k.Pin(t.Context(), now)
	require.NoError(t, err)
	require.Len(t, doubts, 1)
	require.NoError(t, k.Check(t.Context(), now))
	k.Providers()[0].Charge(t.Context(), psp.Call{})
	require.Equal(t, 1, b.sent)
	b.is, b.err = "acct_2", nil
	require.NoError(t, k.Check(t.Context(), now))
	k.Providers()[0].Charge(t.Context(), psp.Call{})
	require.Equal(t, 1, b.sent)
}
