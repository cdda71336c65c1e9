package deployment_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/psp"
)

type named struct{ psp.Provider }

func (named) Name() string { return "old" }

// Whichever store it is, the row of an account is changed by whoever has read the latest,
// and what is open at a provider is counted, in every region.
func TestWhatIsOpenAtAProvider(t *testing.T) {
	for name, open := range map[string]func(*testing.T) (deployment.Deployment, error){
		"embedded": func(t *testing.T) (deployment.Deployment, error) {
			db, err := embedded.Open(embeddedIn(t.TempDir()))
			return deployment.Embedded(db), err
		},
		"sql": func(t *testing.T) (deployment.Deployment, error) {
			db, err := sqlstore.Open(t.Context(), sqlstore.Config{Policy: claim.DefaultPolicy(), Pool: sqlstore.DefaultPool(), URL: database(t)})
			return deployment.SQL(db), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := open(t)
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			ctx := t.Context()
			require.NoError(t, d.PutTenant(ctx, claim.Tenant{ID: "acme", Name: "Acme", Registrar: us}, "key"))
			store, err := d.Region(us)
			require.NoError(t, err)

			changed, err := d.PutAccount(ctx, account.Row{Provider: "new", Version: 1, Account: "a"})
			require.NoError(t, err)
			require.False(t, changed, "there is none")
			for v := range uint64(2) {
				row := account.Row{Provider: "new", Version: v, Account: string(rune('a' + v)), Pinned: time.Unix(1, 0).UTC()}
				for _, first := range []bool{true, false} {
					changed, err = store.PutAccount(ctx, row)
					require.NoError(t, err)
					require.Equal(t, first, changed)
				}
			}
			_, err = account.Pin(ctx, store, psp.Providers{named{}}, time.Now())
			require.NoError(t, err)
			rows, err := d.Accounts(ctx)
			require.NoError(t, err)
			require.Equal(t, []account.Row{{Provider: "new", Version: 2, Account: "b", Pinned: time.Unix(1, 0).UTC()}, {Provider: "old", Version: 1}}, rows)

			home := func(code claim.RegionCode) (string, bool) {
				return map[claim.RegionCode]string{1: us, 2: eu}[code], code <= 2
			}
			work := &account.Homes{Work: store, Names: []string{us, eu}, Home: home}
			openWork := func(names ...string) error {
				return account.CheckRemoved(ctx, store, work, names)
			}
			require.NoError(t, openWork("new"))
			charge, err := claim.NewObjectID("ch", 1, nil)
			require.NoError(t, err)
			begin := func(at, key, operation, provider, payload string) claim.Record {
				a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, at, "1", "n", operation+"_"+key)
				a.Operation, a.Provider, a.Input.Canonical = operation, provider, []byte(payload)
				begun, err := store.Begin(ctx, a)
				require.NoError(t, err)
				return begun.Record
			}
			accept := func(provider, is string) (bool, error) {
				return account.Accept(ctx, store, work, provider, is, time.Unix(2, 0).UTC())
			}
			_, err = accept("old", "first")
			require.NoError(t, err)
			_, err = accept("old", "second")
			require.NoError(t, err, "nothing is open")
			first := begin(us, "k1", "charge", "old", "{}")
			begin(eu, "k2", "charge", "old", "{}")
			begin(us, "k3", "charge", "new", "{}")
			begin(us, "k4", "refund", "", `{"charge":"`+charge+`"}`)
			post := func(tx ledger.Transaction) {
				_, err := store.Post(ctx, tx)
				require.NoError(t, err)
			}
			post(ledger.Transaction{
				ID: charge, Region: us, Tenant: "acme", Kind: ledger.Charge, Debit: ledger.Provider("old"), Credit: ledger.Merchant("acme"),
				Amount: 1, Currency: "usd", Object: charge, Provider: "old", ProviderRef: "p1",
			})
			for _, ref := range []string{"g1", "g2", "g3", "g4", "g5"} {
				ghost := ledger.Transaction{
					ID: ledger.GhostID("old", ref), Region: us, Tenant: "acme", Kind: ledger.Ghost, Debit: ledger.Provider("old"), Credit: ledger.Suspense("acme"),
					Amount: 1, Currency: "usd", Object: charge, Provider: "old", ProviderRef: ref,
				}
				post(ghost)
				switch ref {
				case "g2":
					post(ledger.FailureOf(ghost))
				case "g3":
					post(ledger.Transaction{
						ID: ledger.GhostRefundID("old", ref), Region: us, Tenant: "acme", Kind: ledger.GhostRefund, Debit: ledger.Suspense("acme"), Credit: ledger.Provider("old"),
						Amount: 1, Currency: "usd", Object: "re_1", Reverses: ghost.ID, Provider: "old", ProviderRef: "r1",
					})
				case "g4": // its payer has the money back without us
					post(ledger.UnaskedOf(ghost, ledger.ProviderRefund, "by hand", 1))
				case "g5":
					post(ledger.UnaskedOf(ghost, ledger.DisputeOpened, "d1", 1))
				}
			}
			err = openWork("new")
			require.ErrorContains(t, err, "(old: 2 claims, 1 refunds and 1 ghosts)")
			require.ErrorContains(t, err, "leave_providers to [old]")
			require.NotContains(t, err.Error(), "\n")
			require.NoError(t, openWork("new", "old"))
			require.ErrorContains(t, openWork("old"), "(new: 1 claims, 0 refunds and 0 ghosts)")

			for provider, open := range map[string]string{"old": "old: 2 claims, 1 refunds and 1 ghosts", "new": "new: 1 claims"} {
				var refused *account.OpenError
				_, err = accept(provider, "third")
				require.ErrorAs(t, err, &refused)
				require.ErrorContains(t, err, open)
				require.ErrorContains(t, err, "--anyway")
				require.NotContains(t, err.Error(), "\n")
			}
			rows, err = d.Accounts(ctx)
			require.NoError(t, err)
			require.Equal(t, []string{"b", "second"}, []string{rows[0].Account, rows[1].Account})
			changed, err = account.Accept(ctx, store, nil, "old", "third", time.Now()) // anyway
			require.NoError(t, err)
			require.True(t, changed)
			_, err = store.Settle(ctx, first, claim.Verdict{Outcome: &claim.Refused{Response: claim.Response{Status: 402, Body: []byte("{}")}}})
			require.NoError(t, err)
			require.ErrorContains(t, openWork("new"), "old: 1 claims")

			page, err := store.Calls(ctx, us, "charge_k3", 1)
			require.NoError(t, err)
			require.Len(t, page, 1)
			require.Equal(t, "refund_k4", page[0].ID)
			ghosts, err := store.Ghosts(ctx, us, "old", ledger.GhostID("old", "g1"), 5)
			require.NoError(t, err)
			require.Less(t, len(ghosts), 5)
		})
	}
}
