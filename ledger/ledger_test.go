package ledger

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// rows are the books of one region, by id.
type rows map[string]Transaction

func (r rows) Transaction(_ context.Context, _, id string) (Transaction, bool, error) {
	t, found := r[id]
	return t, found, nil
}

// How often a ghost has been refunded, and whether the money is with the payer.
func TestGhostRefunds(t *testing.T) {
	books := rows{}
	at := func(wantFailed int, wantRefunded bool) {
		t.Helper()
		failed, refunded, err := GhostRefunds(t.Context(), books, "us", "sim", "p9", MaxGhostRefunds)
		require.NoError(t, err)
		require.Equal(t, wantFailed, failed)
		require.Equal(t, wantRefunded, refunded)
	}
	at(0, false)
	for n := range MaxGhostRefunds {
		of := Transaction{ID: GhostRefundTryID("sim", "p9", n+1), Kind: GhostRefund}
		books[of.ID] = of
		at(n, true)
		books[FailureID(of.ID)] = FailureOf(of)
		at(n+1, false)
	}
}
