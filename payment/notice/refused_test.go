package notice

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// The notice of a provider without look-ups settles a pending payment, if it names the movement
// that the claim waits for and reports that it was never made.
func TestANoticeOfAProviderWithoutLookupsIsTrusted(t *testing.T) {
	id := objectID(t, "re", 1)
	said := psp.Notice{
		ID: "e", Movement: true, Kind: psp.KindRefund, Reference: id, ProviderRef: "r1", Outcome: psp.Declined, Never: true,
		Decline: &psp.Decline{Class: psp.Soft, Code: "refund_failed"}, Amount: 100, Currency: "usd",
	}
	for name, c := range map[string]struct {
		change  func(w *world, n *psp.Notice, rec *claim.Record)
		refused bool
		status  Status // "": not closed yet
	}{
		"the very refund":        {func(*world, *psp.Notice, *claim.Record) {}, true, ProcessedOK},
		"one before it":          {func(_ *world, n *psp.Notice, _ *claim.Record) { n.ProviderRef = "r0" }, false, Ignored},
		"one that has no number": {func(_ *world, _ *psp.Notice, rec *claim.Record) { rec.ProviderRef = "" }, true, ProcessedOK},
		"perhaps one before it":  {func(_ *world, _ *psp.Notice, rec *claim.Record) { rec.ProviderRef, rec.Generation = "", 2 }, false, Ignored},
		"that it failed later":   {func(_ *world, n *psp.Notice, _ *claim.Record) { n.Never = false }, false, ""},
		"that it is held": {func(_ *world, n *psp.Notice, _ *claim.Record) {
			n.Outcome, n.Decline, n.Never = psp.Authorized, nil, false
		}, false, Ignored},
		"of one with look-ups":      {func(w *world, _ *psp.Notice, _ *claim.Record) { w.blind = false }, false, ProcessedOK},
		"while an attempt is at it": {func(_ *world, _ *psp.Notice, rec *claim.Record) { rec.Holder = "node" }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, n := newWorld(t), said
			w.blind = true
			w.have(id, claim.InFlight, "")
			rec := w.claims[id]
			rec.ProviderRef, rec.Generation, rec.Interim = "r1", 1, &claim.Interim{State: string(psp.Processing)}
			c.change(w, &n, &rec)
			w.claims[id], w.calls[id] = rec, outbox.Message{ID: id, Region: home, Tenant: tenant, Payload: []byte(payload)}
			w.deliver(n)
			require.Equal(t, c.refused, len(w.refused) == 1 && w.refused[0] == "sim refund_failed", w.refused)
			require.Equal(t, c.status, w.closed["sim:e"])
			require.Empty(t, w.moved)
		})
	}
}
