package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/payment/account"
)

// A person accepts another account where nothing is open in the former one, or overrides with
// --anyway.
func TestAccountsAreAcceptedByCommand(t *testing.T) {
	const region = "us-east1"
	url := migrated(t, region)
	does(t, "tenant", "create", "acme", "--name", "Acme", "--registrar", region)
	db, err := sqlstore.Open(t.Context(), sqlstore.Config{Policy: claim.DefaultPolicy(), Pool: sqlstore.DefaultPool(), URL: url})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for _, name := range []string{"bank", "other"} {
		_, err := db.PutAccount(t.Context(), account.Row{Provider: name, Account: "first", Pinned: time.Unix(0, 0)})
		require.NoError(t, err)
	}
	view, err := db.Region(region)
	require.NoError(t, err)
	open := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "k"}, region, "1", "n", "charge_k")
	open.Operation, open.Provider = "charge", "bank"
	_, err = view.Begin(t.Context(), open)
	require.NoError(t, err)

	refuses(t, []string{"bank: 1 claims, 0 refunds and 0 ghosts", "--anyway"}, "account", "accept", "--provider", "bank", "--account", "second")
	require.Regexp(t, `bank +first`, does(t, "account", "list"))
	require.Contains(t, does(t, "account", "accept", "--provider", "other", "--account", "second"), "within 1m0s")
	require.Contains(t, does(t, "account", "accept", "--provider", "bank", "--account", "second", "--anyway"), "bank is the account second")
	require.Contains(t, does(t, "account", "accept", "--provider", "bank", "--account", "second"), "nothing to do")
	refuses(t, []string{"nobody", "account list"}, "account", "accept", "--provider", "nobody", "--account", "x")
	require.Regexp(t, `bank +second +\S+ *\nother +second +\S+`, does(t, "account", "list"))
}
