package webhook

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// A refund of a ghost is known for as long as the books are, and not for two days, as its
// claim is: a provider tells of it again when the bank has given it a number, a week
// later. Another movement under its id is a person's business.
func TestALateNoticeOfAGhostsRefundIsKnown(t *testing.T) {
	w := newWorld(t)
	id := objectID(t, "ch", 1)
	w.have(id, claim.FailedTerminal, "")
	w.tell(charged(id, "p1"))
	back, ok := w.books[ledger.GhostRefundID("sim", "p1")]
	require.True(t, ok)
	n := charged(back.Object, back.ProviderRef)
	n.ID, n.Kind = "later", psp.KindRefund
	verdict := w.tell(n) // the compensation's claim is forgotten
	require.Equal(t, ProcessedOK, w.closed["sim:later"], "%v", verdict)

	other := n
	other.ID, other.ProviderRef = "other", "r9"
	require.Contains(t, fmt.Sprint(w.tell(other)), "LIMBO: the provider made the refund")
	wrong := n
	wrong.ID, wrong.Amount = "wrong", 99
	require.Contains(t, fmt.Sprint(w.tell(wrong)), "tells of 99 usd where 100 usd are booked")
	require.Len(t, w.moved, 1)
}
