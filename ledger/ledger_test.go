package ledger

import (
	"context"
	"encoding/json"
	"testing"
	"time"

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

// ending are books whose reader's time ends after some reads.
type ending struct {
	end   context.CancelFunc
	reads int
}

func (b *ending) read(ctx context.Context, all ...Transaction) ([]Transaction, error) {
	if b.reads--; b.reads == 0 {
		defer b.end()
	}
	return all, ctx.Err()
}

func (b *ending) Named(ctx context.Context, _ string, ids []string) ([]Transaction, error) {
	return b.read(ctx, Transaction{ID: ids[0], Kind: Charge})
}

func (b *ending) About(ctx context.Context, _ string, _ ...string) ([]Transaction, error) {
	return b.read(ctx)
}

func (b *ending) Reversals(ctx context.Context, ids ...string) ([]Transaction, error) {
	if len(ids) > 1 {
		return b.read(ctx)
	}
	return b.read(ctx, Transaction{ID: "re_1", Reverses: ids[0]}, Transaction{ID: "re_2", Reverses: ids[0]})
}

// What could not be read in time is missing, and not absent.
func TestEverythingOrMissing(t *testing.T) {
	for reads := 1; reads <= 3; reads++ {
		ctx, cancel := context.WithCancel(t.Context())
		_, missing := Everything(ctx, &ending{cancel, reads}, []string{"us"}, "ch_1")
		require.NotEmpty(t, missing, "the time ended after %d reads of four", reads)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	books := &ending{cancel, 5}
	all, missing := Everything(ctx, books, []string{"us"}, "ch_1")
	require.Empty(t, missing)
	require.Len(t, all, 3)
	require.Equal(t, 1, books.reads, "two refunds are read together")
}

// A segment of old books cannot be changed for years, and so has nothing that merchants wrote.
func TestSegmentsHaveNoMerchantsText(t *testing.T) {
	b, err := json.Marshal(Transaction{ID: "ch_1", Created: time.Unix(1, 0), Order: "order-17", Metadata: `{"name":"Jo"}`})
	require.NoError(t, err)
	require.NotContains(t, string(b), "order-17")
	require.NotContains(t, string(b), "Jo")
}
