package payment_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// Against a provider over HTTP whose books can be read: an attempt whose reply
// is lost, then as many recoveries as it takes. Money moves once.
func TestRecoveryMovesMoneyOnce(t *testing.T) {
	const window = time.Minute
	for _, caps := range []psp.Capabilities{
		{Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
		{Dedupe: psp.DedupeKeyAndParameters},
		{Dedupe: psp.DedupeNone, Lookup: true, SettleWindow: window},
	} {
		for _, faults := range []simulator.Faults{{DropReply: 1}, {ErrorAfter: 1}, {ErrorBefore: 1}} {
			for _, op := range []payment.Operation{payment.Charge, payment.Transfer} {
				t.Run(fmt.Sprintf("%+v/%+v/%s", caps, faults, op), func(t *testing.T) {
					sim, executor := provider(t, caps)
					a := first(op, "pm_card_visa")
					if err := sim.SetFaults(faults); err != nil {
						t.Fatal(err)
					}
					if v := payment.See(executor.Attempt(t.Context(), a)); v.Outcome != claim.OutcomeUnknown {
						t.Fatalf("first attempt: %+v", v)
					}
					if err := sim.SetFaults(simulator.Faults{}); err != nil {
						t.Fatal(err)
					}
					a.Recovery = true
					v := payment.Seen{Outcome: claim.OutcomeUnknown}
					tries := 0
					for ; tries < 5 && v.Outcome == claim.OutcomeUnknown; tries++ {
						v = payment.See(executor.Attempt(t.Context(), a))
						if v.NotFound {
							if v.RetryIn != window {
								t.Errorf("asks again in %v", v.RetryIn)
							}
							a.Record.NotFounds++
							a.Now = a.Now.Add(window)
						}
					}
					want := 1
					if caps.Dedupe == psp.DedupeNone && faults.ErrorBefore > 0 {
						want = 3 // not found, twice, then looked up and called
					}
					if v.Outcome != claim.OutcomeDone || v.Response.Status != 201 || v.ProviderRef == "" || tries != want {
						t.Errorf("after %d recoveries: %+v %s", tries, v, v.Response.Body)
					}
					again := payment.See(executor.Attempt(t.Context(), a))
					if string(again.Response.Body) != string(v.Response.Body) {
						t.Errorf("rendered differently:\n%s\n%s", v.Response.Body, again.Response.Body)
					}
					if s := sim.Summary(); s.Effects != 1 || s.DuplicateEffects != 0 {
						t.Errorf("the provider's books: %+v", s)
					}
				})
			}
		}
	}
}

// The first call moved money and its reply was lost; from then on the provider
// refuses every call as invalid before it looks the key up. A claim that let go
// of its key now would charge again.
func TestRefusedRepeatNeverLetsGo(t *testing.T) {
	for _, caps := range []psp.Capabilities{
		{Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
		{Dedupe: psp.DedupeKeyAndParameters},
		{Dedupe: psp.DedupeNone, Lookup: true, SettleWindow: time.Minute},
	} {
		for _, op := range []payment.Operation{payment.Charge, payment.Transfer} {
			t.Run(fmt.Sprintf("%+v/%s", caps, op), func(t *testing.T) {
				var refused atomic.Int32
				var refusing atomic.Bool
				sim, executor := provider(t, caps, func(h http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if refusing.Load() && r.Method == http.MethodPost {
							refused.Add(1)
							w.WriteHeader(http.StatusBadRequest)
							_, _ = w.Write([]byte(`{"error":{"class":"invalid","code":"no_such_token","message":"The token has been used up."}}`))
							return
						}
						h.ServeHTTP(w, r)
					})
				})
				a := first(op, "pm_card_visa")
				if err := sim.SetFaults(simulator.Faults{DropReply: 1}); err != nil {
					t.Fatal(err)
				}
				if v := payment.See(executor.Attempt(t.Context(), a)); v.Outcome != claim.OutcomeUnknown {
					t.Fatalf("first attempt: %+v", v)
				}
				refusing.Store(true)
				a.Recovery = true
				for range claim.DefaultPolicy().MaxUnknowns {
					v := payment.See(executor.Attempt(t.Context(), a))
					if caps.Lookup {
						if v.Outcome != claim.OutcomeDone || v.ProviderRef == "" {
							t.Fatalf("after %d refused repeats: %+v", refused.Load(), v)
						}
						break
					}
					if v.Outcome != claim.OutcomeUnknown {
						t.Fatalf("after %d refused repeats: %+v", refused.Load(), v)
					}
				}
				if s := sim.Summary(); s.Effects != 1 {
					t.Errorf("the provider's books: %+v", s)
				}
			})
		}
	}
}

// An invalid request with a lost first answer releases its key after the provider has answered not
// found often enough.
func TestLostRefusalIsReleased(t *testing.T) {
	for _, caps := range []psp.Capabilities{
		{Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
		{Dedupe: psp.DedupeNone, Lookup: true, SettleWindow: time.Minute},
	} {
		t.Run(fmt.Sprintf("%+v", caps), func(t *testing.T) {
			sim, executor := provider(t, caps)
			a := first(payment.Charge, "pm_nobody") // recorded under the reference as a decline
			if err := sim.SetFaults(simulator.Faults{DropReply: 1}); err != nil {
				t.Fatal(err)
			}
			if v := payment.See(executor.Attempt(t.Context(), a)); v.Outcome != claim.OutcomeUnknown {
				t.Fatalf("first attempt: %+v", v)
			}
			if err := sim.SetFaults(simulator.Faults{}); err != nil {
				t.Fatal(err)
			}
			a.Recovery = true
			for range 2 {
				v := payment.See(executor.Attempt(t.Context(), a))
				if v.Outcome != claim.OutcomeUnknown || !v.NotFound || v.RetryIn <= 0 {
					t.Fatalf("with %d look-ups before: %+v", a.Record.NotFounds, v)
				}
				a.Record.NotFounds++
			}
			if v := payment.See(executor.Attempt(t.Context(), a)); v.Outcome != claim.OutcomeReleased || v.Response.Status != 400 {
				t.Errorf("got %+v %s", v, v.Response.Body)
			}
		})
	}
}

// A refund with a lost reply is made once, as a charge is; the provider decides how much of the
// charge can be refunded.
func TestRefundRecoveryMovesMoneyOnce(t *testing.T) {
	for _, caps := range []psp.Capabilities{
		{Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
		{Dedupe: psp.DedupeNone, Lookup: true, SettleWindow: time.Minute},
	} {
		t.Run(fmt.Sprintf("%+v", caps), func(t *testing.T) {
			sim, p := opened(t, caps)
			b := ledgerOf{}
			executor := payment.NewExecutor(psp.Providers{p}, payment.Options{
				Logger: slog.New(slog.DiscardHandler), Books: b, Home: func(claim.RegionCode) (string, bool) { return "europe", true },
			})
			a := first(payment.Charge, "pm_card_visa")
			id, err := claim.NewObjectID("ch", 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			a.Record.Minted.ID, a.Record.Key.Tenant = id, "acme"
			v := payment.See(executor.Attempt(t.Context(), a))
			if v.Outcome != claim.OutcomeDone {
				t.Fatalf("charge: %+v", v)
			}
			b[id] = *v.Posting

			refund := func(n, amount string) claim.Attempt {
				a := first(payment.Refund, "")
				a.Record.Key.Tenant, a.Record.ProviderKey, a.Record.Minted.ID = "acme", "hw_re_"+n, "re_"+n
				a.Payload = []byte(`{"amount":` + amount + `,"charge":"` + id + `"}`)
				return a
			}
			lost := refund("1", "1500")
			if err := sim.SetFaults(simulator.Faults{DropReply: 1}); err != nil {
				t.Fatal(err)
			}
			if v := payment.See(executor.Attempt(t.Context(), lost)); v.Outcome != claim.OutcomeUnknown {
				t.Fatalf("first attempt: %+v", v)
			}
			if err := sim.SetFaults(simulator.Faults{}); err != nil {
				t.Fatal(err)
			}
			lost.Recovery = true
			if v := payment.See(executor.Attempt(t.Context(), lost)); v.Outcome != claim.OutcomeDone || v.Posting.Reverses != id || v.Posting.Amount != 1500 {
				t.Errorf("recovery: %+v", v)
			}
			if v := payment.See(executor.Attempt(t.Context(), refund("2", "500"))); v.Outcome != claim.OutcomeReleased || v.Response.Status != 400 || v.Reason != "refund_exceeds_charge" {
				t.Errorf("more than is left: %+v", v)
			}
			if v := payment.See(executor.Attempt(t.Context(), refund("3", "499"))); v.Outcome != claim.OutcomeDone {
				t.Errorf("the rest: %+v", v)
			}
			if s := sim.Summary(); s.Refunds != 2 || s.Effects != 3 || s.DuplicateEffects != 0 {
				t.Errorf("the provider's books: %+v", s)
			}
		})
	}
}

// ledgerOf is the books by id.
type ledgerOf map[string]ledger.Transaction

func (l ledgerOf) Transaction(_ context.Context, _, id string) (ledger.Transaction, bool, error) {
	t, found := l[id]
	return t, found, nil
}

func (l ledgerOf) ReversalsAt(_ context.Context, _, id string) (all []ledger.Transaction, _ error) {
	for _, t := range l {
		if t.Reverses == id {
			all = append(all, t)
		}
	}
	return all, nil
}

func TestProviderDeclines(t *testing.T) {
	for token, want := range map[string]struct {
		outcome string
		status  int
		body    string
	}{
		"pm_card_stolen":             {claim.OutcomeRefused, 402, `"retry":"new_key"`},
		"pm_card_insufficient_funds": {claim.OutcomeReleased, 402, `"retry":"same_key"`},
		"pm_nobody":                  {claim.OutcomeReleased, 400, `"error":"invalid_request"`},
	} {
		sim, executor := provider(t, psp.Capabilities{Dedupe: psp.DedupeKey})
		v := payment.See(executor.Attempt(t.Context(), first(payment.Charge, token)))
		if v.Outcome != want.outcome || v.Response.Status != want.status || !strings.Contains(string(v.Response.Body), want.body) || v.Reason == "" {
			t.Errorf("%s: got %+v %s", token, v, v.Response.Body)
		}
		if s := sim.Summary(); s.Effects != 0 {
			t.Errorf("%s: the provider's books: %+v", token, s)
		}
	}
}

func provider(t *testing.T, caps psp.Capabilities, wrap ...func(http.Handler) http.Handler) (*simulator.Simulator, *payment.Executor) {
	t.Helper()
	sim, p := opened(t, caps, wrap...)
	return sim, payment.NewExecutor(psp.Providers{p}, payment.Options{Logger: slog.New(slog.DiscardHandler)})
}

func opened(t *testing.T, caps psp.Capabilities, wrap ...func(http.Handler) http.Handler) (*simulator.Simulator, psp.Provider) {
	t.Helper()
	sim, err := simulator.Open(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	h := sim.Handler()
	for _, w := range wrap {
		h = w(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	p, err := httpjson.New(httpjson.Config{Name: "sim", BaseURL: srv.URL, Client: srv.Client(), Capabilities: caps})
	if err != nil {
		t.Fatal(err)
	}
	return sim, p
}

func first(op payment.Operation, token string) claim.Attempt {
	source := `"payment_method":"` + token + `"`
	if op == payment.Transfer {
		source = `"destination":"acct_1"`
	}
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	return claim.Attempt{
		Record: claim.Record{
			Operation: string(op), ProviderKey: "hw_1", Generation: 1, FirstUse: at,
			Minted: claim.Minted{ID: payment.Prefix(op) + "_1", Created: at, Receipt: "R"},
		},
		Payload: []byte(`{"amount":1999,"currency":"usd",` + source + `}`), Now: at,
	}
}
