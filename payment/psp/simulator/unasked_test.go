package simulator

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
)

// What the provider does by itself outlives its process, counts against what may be
// refunded, and stands in statements of both formats.
func TestUnasked(t *testing.T) {
	dir, now := t.TempDir(), birth
	s := open(t, Config{Dir: dir, Now: func() time.Time { return now }})
	charge(s, "a", "ch_1", "pm_card_visa") // 1250 usd
	do(s, "POST", "/v1/transfers", "b", body("tr_1", 700, "acct_1"))
	must := func(u Unasked, want string) {
		t.Helper()
		if id, err := s.Do(u); err != nil || id != want {
			t.Fatalf("%+v: %s, %v; want %s", u, id, err, want)
		}
	}
	must(Unasked{Kind: psp.KindRefund, Of: "psp_ch_000000000001", Amount: 250}, "psp_re_000000000003")
	must(Unasked{Kind: psp.KindDisputeOpened, Of: "pi_000000000001", Reason: "fraudulent"}, "psp_dp_000000000004")
	must(Unasked{Kind: psp.KindDispute, Of: "du_000000000004"}, "psp_dp_000000000004")
	must(Unasked{Kind: psp.KindTransferReversal, Of: "psp_tr_000000000002", Amount: 100}, "psp_trr_000000000006")
	must(Unasked{Kind: psp.KindPayout, Amount: 500, Currency: "usd"}, "psp_po_000000000007")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Dir: dir, Now: func() time.Time { return now }})
	must(Unasked{Kind: psp.KindDisputeReversal, Of: "psp_dp_000000000004"}, "psp_dp_000000000004")
	must(Unasked{Kind: psp.KindPayoutReversal, Of: "po_000000000007"}, "psp_po_000000000007")
	for _, u := range []Unasked{
		{Kind: psp.KindRefund, Of: "psp_ch_000000000001", Amount: 1001}, {Kind: psp.KindRefund, Of: "psp_tr_000000000002"},
		{Kind: psp.KindDispute, Of: "psp_dp_000000000001"}, {Kind: psp.KindDispute, Of: "psp_ch_000000000001"}, {Kind: psp.KindPayout},
		{Kind: psp.KindTransferReversal, Of: "psp_tr_000000000002", Amount: 601}, {Kind: psp.KindCharge}, {},
	} {
		if _, err := s.Do(u); err == nil {
			t.Errorf("%+v happened", u)
		}
	}
	do(s, "POST", "/v1/refunds", "c", body("re_1", 1001, "psp_ch_000000000001")).want(t, 402, "refund_exceeds_charge")
	do(s, "POST", "/_sim/unasked", "", `{"kind":"refund","of":"psp_ch_000000000001","amount":1001}`).want(t, 404, "not_found")
	do(s, "POST", "/_sim/unasked", "", `{"kind":"gift","of":"psp_ch_000000000001"}`).want(t, 400, "invalid_request")
	if _, err := s.Do(Unasked{Kind: "gift"}); err == nil || !strings.Contains(err.Error(), `"gift"; name one of dispute, dispute_lost,`) {
		t.Errorf("%v", err)
	}

	const at = "2026-03-01T12:00:00.0000005Z\n"
	want := "id,kind,reference,of,amount,currency,created\n" +
		"psp_ch_000000000001,charge,ch_1,,1250,usd," + at + "psp_tr_000000000002,transfer,tr_1,,700,usd," + at +
		"psp_re_000000000003,refund,,psp_ch_000000000001,250,usd," + at + "psp_dp_000000000004,dispute,,psp_ch_000000000001,1000,usd," + at +
		"psp_trr_000000000006,transfer_reversal,,psp_tr_000000000002,100,usd," + at + "psp_po_000000000007,payout,,,500,usd," + at +
		"psp_dp_000000000004,dispute_reversal,,psp_ch_000000000001,1000,usd," + at + "psp_po_000000000007,payout_reversal,,psp_po_000000000007,500,usd," + at
	if r := do(s, "GET", "/_sim/statement", "", ""); r.body != want {
		t.Errorf("got\n%swant\n%s", r.body, want)
	}
	const noon = "2026-03-01 12:00:00"
	times := strings.Join([]string{noon, noon, noon, noon}, ",")
	want = "balance_transaction_id,created_utc,created,available_on_utc,available_on,currency,gross,fee,net,reporting_category,source_id,description,customer_facing_amount,customer_facing_currency,charge_id,payment_intent_id\n" +
		"txn_000000000001," + times + ",eur,11.25,0.63,10.62,charge,ch_000000000001,,12.50,usd,ch_000000000001,pi_000000000001\n" +
		"txn_000000000002," + times + ",usd,-7.00,0.00,-7.00,transfer,tr_000000000002,,,,,\n" +
		"txn_000000000003," + times + ",eur,-2.25,0.00,-2.25,refund,re_000000000003,,2.50,usd,ch_000000000001,pi_000000000001\n" +
		"txn_000000000005," + times + ",eur,-9.00,15.00,-24.00,dispute,du_000000000004,,,,ch_000000000001,pi_000000000001\n" +
		"txn_000000000006," + times + ",usd,1.00,0.00,1.00,transfer_reversal,trr_000000000006,,,,,\n" +
		"txn_000000000007," + times + ",usd,-5.00,0.00,-5.00,payout,po_000000000007,,,,,\n" +
		"txn_000000000008," + times + ",eur,9.00,-15.00,24.00,dispute_reversal,du_000000000004,,,,ch_000000000001,pi_000000000001\n" +
		"txn_000000000009," + times + ",usd,5.00,0.00,5.00,payout_reversal,po_000000000007,,,,,\n"
	if r := do(s, "GET", "/_sim/statement?format=stripe&settle=eur&rates=usd:0.9&fee=290:30&dispute_fee=1500&metadata=no", "", ""); r.body != want {
		t.Errorf("got\n%swant\n%s", r.body, want)
	}
	if r := do(s, "GET", "/_sim/statement?format=stripe", "", ""); !strings.Contains(r.body, ",charge,ch_000000000001,,12.50,usd,ch_000000000001,pi_000000000001,ch_1,,\n") {
		t.Errorf("no reference in\n%s", r.body)
	}
	do(s, "GET", "/_sim/statement?format=stripe&fee=much", "", "").want(t, 400, "invalid_request")
	do(s, "GET", "/_sim/statement?format=stripe&rates=eur", "", "").want(t, 400, "invalid_request")
}

// Categories of statements are those of Stripe's OpenAPI document.
func TestStripesCategories(t *testing.T) {
	raw, err := os.ReadFile("../../recon/testdata/stripe_categories.json")
	require.NoError(t, err)
	var document struct {
		Categories []string `json:"reporting_category"`
	}
	require.NoError(t, json.Unmarshal(raw, &document))
	for kind, c := range categories {
		require.Contains(t, document.Categories, c.name, kind)
	}
}
