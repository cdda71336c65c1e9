package payment_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
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
					if v := executor.Attempt(t.Context(), a); v.Outcome != claim.OutcomeUnknown {
						t.Fatalf("first attempt: %+v", v)
					}
					if err := sim.SetFaults(simulator.Faults{}); err != nil {
						t.Fatal(err)
					}
					a.Recovery = true
					var v claim.Verdict
					tries := 0
					for ; tries < 5 && v.Outcome == claim.OutcomeUnknown; tries++ {
						v = executor.Attempt(t.Context(), a)
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
						want = 3 // nothing found, twice, then asked and called
					}
					if v.Outcome != claim.OutcomeDone || v.Response.Status != 201 || v.ProviderRef == "" || tries != want {
						t.Errorf("after %d recoveries: %+v %s", tries, v, v.Response.Body)
					}
					again := executor.Attempt(t.Context(), a)
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

func TestProviderDeclines(t *testing.T) {
	for token, want := range map[string]struct {
		outcome claim.Outcome
		status  int
		body    string
	}{
		"pm_card_stolen":             {claim.OutcomeRefused, 402, `"retry":"new_key"`},
		"pm_card_insufficient_funds": {claim.OutcomeReleased, 402, `"retry":"same_key"`},
		"pm_nobody":                  {claim.OutcomeReleased, 400, `"error":"invalid_request"`},
	} {
		sim, executor := provider(t, psp.Capabilities{Dedupe: psp.DedupeKey})
		v := executor.Attempt(t.Context(), first(payment.Charge, token))
		if v.Outcome != want.outcome || v.Response.Status != want.status || !strings.Contains(string(v.Response.Body), want.body) || v.Reason == "" {
			t.Errorf("%s: got %+v %s", token, v, v.Response.Body)
		}
		if s := sim.Summary(); s.Effects != 0 {
			t.Errorf("%s: the provider's books: %+v", token, s)
		}
	}
}

func provider(t *testing.T, caps psp.Capabilities) (*simulator.Simulator, *payment.Executor) {
	t.Helper()
	sim, err := simulator.Open(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	srv := httptest.NewServer(sim.Handler())
	t.Cleanup(srv.Close)
	p, err := httpjson.New(httpjson.Config{Name: "sim", BaseURL: srv.URL, Client: srv.Client(), Capabilities: caps})
	if err != nil {
		t.Fatal(err)
	}
	return sim, payment.NewExecutor(p, slog.New(slog.DiscardHandler))
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
