package noticetest

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
)

// ExerciseOrder checks, with the real claims, books and queues of a backend, that a sink which was down
// for longer than a claim is kept gets the events of its object in order: those of what a provider
// reports later come behind those that wait.
func ExerciseOrder(t *testing.T, newHarness func(t *testing.T) LateHarness) {
	for name, before := range map[string][]psp.Kind{
		"a charge waits":                {},
		"a charge and its dispute wait": {psp.KindDisputeOpened},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLateWorld(t, newHarness(t))
			rec := w.charge()
			id := rec.Minted.ID
			w.settled(rec, []claim.Outcome{&claim.Done{
				Response: claim.Response{Status: http.StatusCreated}, ProviderRef: "pay_1",
				Posting: &ledger.Transaction{
					ID: id, Tenant: "acme", Kind: ledger.Charge, Debit: ledger.Provider("bank"), Credit: ledger.Merchant("acme"),
					Amount: 4200, Currency: "usd", Object: id, Provider: "bank", ProviderRef: "pay_1",
				},
				Events: []outbox.Message{{ID: "evt_" + id + "_1/log", Kind: outbox.KindLog, Payload: []byte(`{"type":"charge.succeeded"}`)}},
			}})
			report := func(kind psp.Kind) {
				status, disposition := w.handle(disputed("evt_"+string(kind), kind))
				require.Equal(t, notice.ProcessedOK, status, "%+v", disposition)
			}
			for _, kind := range before {
				report(kind)
			}
			w.forget(id)
			report(psp.KindDispute)
			report(psp.KindDisputeLost)
			require.Equal(t, []string{"charge.succeeded", "charge.dispute.created", "charge.dispute.funds_withdrawn", "charge.dispute.closed"}, w.delivered(4))
		})
	}
}

// delivered takes and finishes n events, and returns their types in that order.
func (w *lateWorld) delivered(n int) (types []string) {
	w.Helper()
	events := w.Rows.Queue(outbox.Events)
	for deadline := time.Now().Add(patience); len(types) < n && time.Now().Before(deadline); {
		rows, err := events.Take(w.Context(), w.Home, n, time.Minute)
		require.NoError(w, err)
		require.LessOrEqual(w, len(rows), 1, "they are in one line")
		for _, m := range rows {
			var e struct {
				Type string `json:"type"`
			}
			require.NoError(w, json.Unmarshal(m.Payload, &e))
			types = append(types, e.Type)
			require.NoError(w, events.Finish(w.Context(), w.Home, m.Hold()))
		}
		w.Pass(w, time.Second) // what was behind another is due
	}
	return types
}
