package stripe_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/psp/stripe"
)

// simulated is the adapter against the simulator, with what was sent.
type simulated struct {
	*stripe.Provider
	sim *simulator.Simulator

	mu    sync.Mutex
	forms []url.Values
	paths []string
	heads []http.Header
}

func simulate(t *testing.T) *simulated {
	sim, err := simulator.Open(simulator.Config{})
	require.NoError(t, err)
	s := &simulated{sim: sim}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(raw))
		s.mu.Lock()
		s.forms, s.paths, s.heads = append(s.forms, form), append(s.paths, r.Method+" "+r.URL.Path), append(s.heads, r.Header.Clone())
		s.mu.Unlock()
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(raw))
		sim.Handler().ServeHTTP(w, again)
	}))
	t.Cleanup(func() { srv.Close(); _ = sim.Close() })
	s.Provider = adapter(t, srv.URL+"/stripe", "")
	return s
}

func (s *simulated) last() (string, url.Values, http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.paths) - 1
	return s.paths[n], s.forms[n], s.heads[n]
}

func (s *simulated) shown(t *testing.T, ref string) psp.Movement {
	t.Helper()
	found, m, err := s.Show(t.Context(), psp.KindCharge, "", ref)
	require.NoError(t, err)
	require.Equal(t, psp.FoundYes, found)
	return m
}

func there(key, source string) psp.Call {
	return psp.Call{Kind: psp.KindCharge, Key: key, Reference: "ch_" + key, Amount: 1250, Currency: "usd", Source: source, Terms: &psp.Terms{OnSession: true}}
}

// On session a charge may wait for its payer, and becomes what the payer makes of it.
func TestPayerActs(t *testing.T) {
	s := simulate(t)
	for act, want := range map[string]psp.Outcome{simulator.ActSucceed: psp.Approved, simulator.ActFail: psp.Declined} {
		call := there(act, "pm_card_3ds")
		r := s.Charge(t.Context(), call)
		require.Equal(t, psp.Pending, r.Outcome, "%v", r.Err)
		require.Equal(t, psp.RequiresAction, r.Wait.State)
		require.Contains(t, r.Wait.ClientSecret, r.ProviderRef+"_secret_")
		require.JSONEq(t, `{"type":"redirect_to_url","redirect_to_url":{"url":"https://bank.example/3ds/`+r.ProviderRef+`","return_url":null}}`, string(r.Wait.NextAction))
		found, looked := s.Lookup(t.Context(), call)
		require.Equal(t, psp.FoundYes, found)
		require.Equal(t, r, looked, "a look-up has the payer's action, too")
		require.NoError(t, s.sim.Act(r.ProviderRef, act))
		require.Equal(t, want, s.shown(t, r.ProviderRef).Outcome)
		again := s.Charge(t.Context(), call)
		require.Equal(t, want, again.Outcome, "the reply that Stripe kept is old")
		if want == psp.Declined {
			require.Equal(t, psp.Soft, again.Decline.Class, "the payer may try again")
			require.Equal(t, r.ProviderRef, again.ProviderRef, "the same payment")
		}
	}
	require.Len(t, s.sim.Effects(), 1)
}

// Off session it is a final decline with that code.
func TestAnAbsentPayer(t *testing.T) {
	s := simulate(t)
	call := there("away", "pm_card_3ds")
	call.Terms = nil
	r := s.Charge(t.Context(), call)
	require.Equal(t, psp.Declined, r.Outcome)
	require.Equal(t, psp.Hard, r.Decline.Class)
	require.Equal(t, "authentication_required", r.Decline.Code)
	require.Contains(t, r.Decline.Message, "off_session false")
}

func TestBankTakesItsTime(t *testing.T) {
	s := simulate(t)
	r := s.Charge(t.Context(), there("debit", "pm_bank_debit"))
	require.Equal(t, psp.Pending, r.Outcome)
	require.Equal(t, psp.Processing, r.Wait.State)
	require.Equal(t, psp.Processing, s.shown(t, r.ProviderRef).Wait.State)
	cancel := s.Cancel(t.Context(), psp.Call{Kind: psp.KindCancel, Key: "c", Source: r.ProviderRef})
	require.Equal(t, psp.Declined, cancel.Outcome, "a bank does not give it back")
	require.NoError(t, s.sim.Act(r.ProviderRef, simulator.ActSucceed))
	require.Equal(t, psp.Approved, s.shown(t, r.ProviderRef).Outcome)
}

// A charge that was declined for now is tried again as the same PaymentIntent, under a
// key of its own.
func TestSameIntentAgain(t *testing.T) {
	s := simulate(t)
	call := there("g1", "pm_card_insufficient_funds_once")
	call.Terms = nil
	first := s.Charge(t.Context(), call)
	require.Equal(t, psp.Soft, first.Decline.Class)
	require.NotEmpty(t, first.ProviderRef)
	call.Key, call.Again = "g2", first.ProviderRef
	second := s.Charge(t.Context(), call)
	require.Equal(t, psp.Approved, second.Outcome, "%v", second.Err)
	require.Equal(t, first.ProviderRef, second.ProviderRef)
	path, _, head := s.last()
	require.Equal(t, "POST /stripe/v1/payment_intents/"+first.ProviderRef+"/confirm", path)
	require.Equal(t, "g2", head.Get("Idempotency-Key"))
	require.Equal(t, psp.Approved, s.Charge(t.Context(), call).Outcome, "the same key, the same answer")
	call.Key = "g3"
	require.Equal(t, psp.Approved, s.Charge(t.Context(), call).Outcome, "a paid one cannot be confirmed again, and shows that it is paid")
	require.Len(t, s.sim.Effects(), 1)
}

func TestAdvice(t *testing.T) {
	s := simulate(t)
	later := s.Charge(t.Context(), there("l", "pm_card_try_again_later"))
	require.Equal(t, psp.Soft, later.Decline.Class)
	require.Equal(t, time.Hour, later.Decline.RetryIn)
	never := s.Charge(t.Context(), there("n", "pm_card_do_not_try_again"))
	require.Equal(t, psp.Hard, never.Decline.Class, "do_not_honor is soft by itself")
	require.Equal(t, psp.Hard, func() psp.Class {
		found, r := s.Lookup(t.Context(), there("n", ""))
		require.Equal(t, psp.FoundYes, found)
		return r.Decline.Class
	}(), "as a look-up finds it")
}

func TestCaptureAndCancel(t *testing.T) {
	s := simulate(t)
	hold := func(key string) string {
		call := there(key, "pm_card_visa")
		call.Terms.Manual = true
		r := s.Charge(t.Context(), call)
		require.Equal(t, psp.Authorized, r.Outcome, "%v", r.Err)
		return r.ProviderRef
	}
	ref := hold("h1")
	require.Empty(t, s.sim.Effects(), "held is not moved")
	capture := psp.Call{Kind: psp.KindCapture, Key: "c1", Reference: "cap_1", Amount: 1000, Currency: "usd", Source: ref}
	found, _ := s.Lookup(t.Context(), capture)
	require.Equal(t, psp.FoundNo, found)
	for range 2 {
		r := s.Capture(t.Context(), capture)
		require.Equal(t, psp.Approved, r.Outcome, "%v", r.Err)
		require.Equal(t, ref, r.ProviderRef)
	}
	found, r := s.Lookup(t.Context(), capture)
	require.Equal(t, psp.FoundYes, found)
	require.Equal(t, psp.Approved, r.Outcome)
	require.EqualValues(t, 1000, s.shown(t, ref).Amount)
	require.EqualValues(t, 1000, s.sim.Effects()[0].Amount)

	other := capture
	other.Key, other.Reference = "c2", "cap_2"
	require.Equal(t, psp.Declined, s.Capture(t.Context(), other).Outcome)
	_, r = s.Lookup(t.Context(), other)
	require.Equal(t, psp.Declined, r.Outcome, "another capture's success is not this one's")
	cancel := psp.Call{Kind: psp.KindCancel, Key: "x1", Reference: "can_1", Source: ref}
	require.Equal(t, psp.Declined, s.Cancel(t.Context(), cancel).Outcome)

	cancel.Source = hold("h2")
	require.Equal(t, psp.Approved, s.Cancel(t.Context(), cancel).Outcome)
	cancel.Key = "x2"
	require.Equal(t, psp.Approved, s.Cancel(t.Context(), cancel).Outcome, "canceled is canceled, whoever did it")
	require.Equal(t, psp.Declined, s.shown(t, cancel.Source).Outcome)
	require.Len(t, s.sim.Effects(), 1)
}

// What merchants ask for beside the amount arrives as Stripe spells it.
func TestTerms(t *testing.T) {
	s := simulate(t)
	call := there("t", "pm_card_visa")
	call.Currency, call.Amount = "mga", 100_000
	call.Terms = &psp.Terms{
		Customer: "cus_1", OnSession: true, SetupFutureUsage: "off_session", StatementSuffix: "ORDER 7", ReturnURL: "https://shop.example/back",
		Account: "acct_1", OnBehalfOf: "acct_2", TransferTo: "acct_3", TransferAmount: 50_000, OrderID: []byte(`"7"`), Metadata: []byte(`{"color":"red"}`),
	}
	r := s.Charge(t.Context(), call)
	require.Equal(t, psp.Approved, r.Outcome, "%v", r.Err)
	_, form, head := s.last()
	require.Equal(t, "acct_1", head.Get("Stripe-Account"))
	require.Regexp(t, `^pi_\w+@acct_1$`, r.ProviderRef, "it can be read in the account's name alone")
	for name, want := range map[string]string{
		"amount": "1000", "customer": "cus_1", "off_session": "", "setup_future_usage": "off_session", "statement_descriptor_suffix": "ORDER 7",
		"return_url": "https://shop.example/back", "automatic_payment_methods[allow_redirects]": "always", "on_behalf_of": "acct_2",
		"transfer_data[destination]": "acct_3", "transfer_data[amount]": "500", "metadata[color]": "red", "metadata[order_id]": "7", "metadata[homeward_reference]": "ch_t",
	} {
		require.Equal(t, want, form.Get(name), name)
	}
	s.Show(t.Context(), psp.KindCharge, "", r.ProviderRef)
	_, _, head = s.last()
	require.Equal(t, "acct_1", head.Get("Stripe-Account"))
	refund := psp.Call{Kind: psp.KindRefund, Key: "tr", Reference: "re_t", Amount: 100_000, Currency: "mga", Source: r.ProviderRef}
	require.Equal(t, psp.Approved, s.Refund(t.Context(), refund).Outcome)
	_, form, head = s.last()
	require.Equal(t, "acct_1", head.Get("Stripe-Account"))
	require.NotContains(t, form.Get("payment_intent"), "@")

	// What Stripe would not keep is refused by name, and not sent.
	sent := len(s.paths)
	for member, terms := range map[string]*psp.Terms{
		"metadata":             {Metadata: []byte(`{"a[b]":"1"}`)},
		"metadata.note":        {Metadata: []byte(`{"note":"` + strings.Repeat("x", 501) + `"}`)},
		"transfer_data.amount": {TransferTo: "acct_1", TransferAmount: 150},
	} {
		call.Terms = terms
		r := s.Charge(t.Context(), call)
		require.Equal(t, psp.Declined, r.Outcome)
		require.Equal(t, psp.Invalid, r.Decline.Class)
		require.Equal(t, member, r.Decline.Member)
	}
	require.Len(t, s.paths, sent)
}
