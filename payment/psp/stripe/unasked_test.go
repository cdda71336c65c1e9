package stripe_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
)

// A movement of a connected account has its id and the account's, as those of calls in its name.
// Its payouts go to the merchant's bank, and are not ours.
func TestUnaskedOfConnectedAccount(t *testing.T) {
	const (
		dispute  = `{"id":"du_1","object":"dispute","amount":1250,"currency":"usd","status":"lost","payment_intent":"pi_1"}`
		refund   = `{"id":"re_1","object":"refund","amount":1250,"currency":"usd","status":%q,"payment_intent":"pi_1"}`
		transfer = `{"id":"tr_1","object":"transfer","amount":1250,"currency":"usd","metadata":{"homeward_reference":"tr_a"},"reversals":{"object":"list","data":[{"id":"trr_1","object":"transfer_reversal","amount":1250,"currency":"usd"}]}}`
		payout   = `{"id":"po_1","object":"payout","amount":1250,"currency":"usd","status":"paid"}`
	)
	type reported struct {
		kind    psp.Kind
		ref, of string
	}
	p := adapter(t, "http://127.0.0.1:1", secret)
	read := func(event, account, object string) (all []reported) {
		n, err := p.Read(fmt.Appendf(nil, `{"id":"evt_1","object":"event","created":1772366400,"type":%q,"account":%q,"data":{"object":%s}}`, event, account, object))
		require.NoError(t, err, event)
		require.False(t, n.Movement, event)
		for _, u := range n.Unasked {
			all = append(all, reported{u.Kind, u.ProviderRef, u.Of})
		}
		return all
	}
	for _, c := range []struct {
		event, object string
		want          reported
	}{
		{"charge.dispute.created", dispute, reported{psp.KindDisputeOpened, "du_1", "pi_1"}},
		{"charge.dispute.funds_withdrawn", dispute, reported{psp.KindDispute, "du_1", "pi_1"}},
		{"charge.dispute.funds_reinstated", dispute, reported{psp.KindDisputeReversal, "du_1", "pi_1"}},
		{"charge.dispute.closed", dispute, reported{psp.KindDisputeLost, "du_1", "pi_1"}},
		{"refund.created", fmt.Sprintf(refund, "succeeded"), reported{psp.KindRefund, "re_1", "pi_1"}},
		{"refund.failed", fmt.Sprintf(refund, "failed"), reported{psp.KindRefund, "re_1", "pi_1"}},
		{"transfer.reversed", transfer, reported{psp.KindTransferReversal, "trr_1", "tr_1"}},
	} {
		require.Equal(t, []reported{c.want}, read(c.event, "", c.object), c.event)
		c.want.ref, c.want.of = c.want.ref+"@acct_1", c.want.of+"@acct_1"
		require.Equal(t, []reported{c.want}, read(c.event, "acct_1", c.object), c.event)
	}
	for _, event := range []string{"payout.created", "payout.paid", "payout.failed", "payout.canceled"} {
		require.Len(t, read(event, "", payout), 1, event)
		require.Empty(t, read(event, "acct_1", payout), event)
	}
	require.Empty(t, read("charge.dispute.created", "acct_1", `{"id":"du_1","object":"dispute","amount":1250,"currency":"usd","status":"lost"}`), "of no payment")
}
