package payment

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// testFake is the provider of test tenants.
type testFake struct{ fake }

func (*testFake) Name() string { return claim.TestProvider }

// TestNoProviderOfTheOtherSide: whatever names its provider (nothing, the claim, the books), a test
// payment goes to the provider of test tenants alone, and a live one never does.
func TestNoProviderOfTheOtherSide(t *testing.T) {
	const live = "acme"
	test := claim.TestTenant(live)
	for _, c := range []struct {
		name, tenant, names string
		op                  Operation
		booked              ledger.Transaction
		goes                string
	}{
		{"a live charge", live, "", Charge, ledger.Transaction{}, "fake"},
		{"a live charge at its provider", live, "fake", Charge, ledger.Transaction{}, "fake"},
		{"a live charge at the other side's", live, claim.TestProvider, Charge, ledger.Transaction{}, ""},
		{"a test charge", test, "", Charge, ledger.Transaction{}, claim.TestProvider},
		{"a test charge at its provider", test, claim.TestProvider, Charge, ledger.Transaction{}, claim.TestProvider},
		{"a test charge at the other side's", test, "fake", Charge, ledger.Transaction{}, ""},
		{"a live refund", live, "", Refund, ledger.Transaction{Tenant: live, Provider: "fake"}, "fake"},
		{"a live refund at the other side's", live, "", Refund, ledger.Transaction{Tenant: live, Provider: claim.TestProvider}, ""},
		{"a test refund", test, "", Refund, ledger.Transaction{Tenant: test, Provider: claim.TestProvider}, claim.TestProvider},
		{"a test refund at the other side's", test, "", Refund, ledger.Transaction{Tenant: test, Provider: "fake"}, ""},
		{"a test refund of a live charge", test, "", Refund, ledger.Transaction{Tenant: live, Provider: "fake"}, ""},
		{"a live refund of a test charge", live, "", Refund, ledger.Transaction{Tenant: test, Provider: claim.TestProvider}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			approves := fake{result: psp.Result{Outcome: psp.Approved, ProviderRef: "px_2"}, caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey}}
			approving, simulated := &approves, &testFake{approves}
			c.booked.ID, c.booked.Kind, c.booked.Object, c.booked.ProviderRef = paid, ledger.Charge, paid, "px_1"
			c.booked.Amount, c.booked.Currency, c.booked.Region = 1999, "usd", "europe"
			e := NewExecutor(psp.Providers{approving, simulated}, Options{
				Logger: slog.New(slog.DiscardHandler), Books: oneBooking{c.booked}, Home: func(claim.RegionCode) (string, bool) { return "europe", true },
			})
			a := attemptOf(c.op)
			a.Record.Key.Tenant, a.Provider = c.tenant, c.names
			if c.op == Refund {
				a.Payload = []byte(`{"charge":"` + paid + `"}`)
			}
			v := See(e.Attempt(t.Context(), a))
			calls := map[string]int{"fake": len(approving.calls), claim.TestProvider: len(simulated.calls)}
			want := map[string]int{"fake": 0, claim.TestProvider: 0}
			if c.goes == "" {
				require.NotEqual(t, claim.OutcomeDone, v.Outcome)
			} else {
				require.Equal(t, claim.OutcomeDone, v.Outcome)
				want[c.goes] = 1
			}
			require.Equal(t, want, calls)
			for _, call := range append(approving.calls, simulated.calls...) {
				require.Equal(t, ShownTenant(c.tenant), call.Tenant, "a real provider learns of no tenant")
			}
		})
	}
}

// TestObjectsSayTheirSide: an answer and its event say whether money moves.
func TestObjectsSayTheirSide(t *testing.T) {
	for tenant, says := range map[string]string{"acme": `"livemode":true`, claim.TestTenant("acme"): `"livemode":false`} {
		p := fake{result: psp.Result{Outcome: psp.Approved, ProviderRef: "px_1"}, caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey}}
		e := NewExecutor(psp.Providers{&p, &testFake{p}}, Options{Logger: slog.New(slog.DiscardHandler), Sinks: []outbox.Kind{"event_log"}})
		a := attemptOf(Charge)
		a.Record.Key.Tenant = tenant
		v := See(e.Attempt(t.Context(), a))
		require.Contains(t, string(v.Response.Body), says)
		require.Equal(t, 2, strings.Count(string(v.Events[0].Payload), says), "of the event and of its object: %s", v.Events[0].Payload)
		failed := FailedLater(Fallen{Transaction: ledger.Transaction{Tenant: tenant, Kind: ledger.Charge, Object: "ch_1"}}, []outbox.Kind{"event_log"})
		require.Equal(t, 2, strings.Count(string(failed[0].Payload), says), "%s", failed[0].Payload)
		happened := HappenedUnasked(Happened{Transaction: ledger.Transaction{ID: "x_1", Tenant: tenant, Kind: ledger.DisputeOpened}}, []outbox.Kind{"event_log"})
		require.Equal(t, 2, strings.Count(string(happened[0].Payload), says), "%s", happened[0].Payload)
	}
}

// TestTimeThatPassedCountsForTheRequest: a test charge past its expires_at by the time that has passed
// for its tenant is not payable any more.
func TestTimeThatPassedCountsForTheRequest(t *testing.T) {
	p := &testFake{fake{result: psp.Result{Outcome: psp.Approved, ProviderRef: "px_1"}, caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey}}}
	e := NewExecutor(psp.Providers{&fake{}, p}, Options{Logger: slog.New(slog.DiscardHandler)})
	a := attemptOf(Charge)
	a.Record.Key.Tenant = claim.TestTenant("acme")
	a.Record.FirstUse, a.Record.Minted.Created = a.Now, a.Now.Truncate(time.Second)
	a.Payload = []byte(`{"amount":1,"currency":"usd","expires_at":"` + a.Now.Add(time.Hour).Format(time.RFC3339) + `","payment_method":"pm_1"}`)
	a.Record = *a.Record.Elapsed(2*time.Hour, new(claim.DefaultPolicy()))
	require.Equal(t, claim.OutcomeRefused, See(e.Attempt(t.Context(), a)).Outcome)
	require.Empty(t, p.calls)
}
