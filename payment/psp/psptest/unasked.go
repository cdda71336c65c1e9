package psptest

import (
	"reflect"
	"testing"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// A movement that the provider makes by itself is reported as such, with its ids and
// amounts, and never as one that we requested.
func unasked(t *testing.T, h Harness, n psp.Notifier, in <-chan Delivery) {
	charge, transfer, transferRef := h.charge("5"), h.transfer("6"), ""
	chargeRef := wantApproved(t, h.Provider.Charge(t.Context(), charge))
	<-in
	if !h.Provider.Capabilities().NoTransfers {
		transferRef = wantApproved(t, h.Provider.Transfer(t.Context(), transfer))
		<-in
	}
	send := func(want psp.Unasked, of string, amount int64) string {
		t.Helper()
		id := h.Unasked(want.Kind, of, amount)
		if id == "" {
			return "" // it does not report such movements
		}
		d := <-in
		if _, err := n.Verify(d.Header, d.Body, d.At); err != nil {
			t.Fatalf("%s does not verify: %v", d.Body, err)
		}
		got, err := n.Read(d.Body)
		if err != nil || got.Movement || got.Reference != "" || len(got.Unasked) != 1 {
			t.Fatalf("%s reads as %+v, %v; want one thing that is unasked", d.Body, got, err)
		}
		u := got.Unasked[0]
		if want.ProviderRef = id; want.Kind == psp.KindDisputeOpened {
			if u.Status == "" || !h.SignsValues && (u.DueBy.IsZero() || u.DueBy.Location() != time.UTC || u.Reason == "") {
				t.Errorf("a dispute without a time to answer, a reason or a status: %+v", u)
			}
		}
		if want.Kind == psp.KindPayoutReversal {
			want.Of = id
		}
		if u.Reference != "" && want.Reference == "" {
			want.Reference = charge.Reference // some repeat it
		}
		u.DueBy, u.Reason, u.Status, u.IfOpened = time.Time{}, "", "", false
		if !reflect.DeepEqual(u, want) {
			t.Errorf("got  %+v\nwant %+v", u, want)
		}
		return id
	}
	about := func(kind psp.Kind, amount int64) psp.Unasked {
		return psp.Unasked{Kind: kind, Of: chargeRef, Amount: amount, Currency: charge.Currency}
	}
	send(about(psp.KindRefund, 200), chargeRef, 200)
	wantDisputed := func(want int64) {
		t.Helper()
		if !h.RefundsDisputed {
			return
		}
		found, m, err := h.Provider.Show(t.Context(), psp.KindCharge, charge.Reference, chargeRef)
		if err != nil || found != psp.FoundYes || m.Disputed != want || m.Outcome != psp.Approved {
			t.Errorf("found %d, %+v, %v; want a charge of which %d are disputed", found, m, err, want)
		}
	}
	wantDisputed(0)
	for _, end := range []psp.Kind{psp.KindDisputeWon, psp.KindDisputeLost} {
		dispute := send(about(psp.KindDisputeOpened, 300), chargeRef, 300)
		for _, next := range []psp.Kind{psp.KindDispute, psp.KindDisputeReversal, end} {
			wantDisputed(300)
			if again := send(about(next, 300), dispute, 0); again != dispute {
				t.Errorf("%s reports the dispute %s, not %s", next, again, dispute)
			}
		}
		wantDisputed(map[bool]int64{true: 300}[end == psp.KindDisputeLost])
	}
	if transferRef == "" {
		return
	}
	send(psp.Unasked{Kind: psp.KindTransferReversal, Of: transferRef, Reference: transfer.Reference, Amount: 100, Currency: transfer.Currency}, transferRef, 100)
	payout := send(psp.Unasked{Kind: psp.KindPayout, Amount: 700, Currency: "usd"}, "", 700)
	send(psp.Unasked{Kind: psp.KindPayoutReversal, Amount: 700, Currency: "usd"}, payout, 0)
}
