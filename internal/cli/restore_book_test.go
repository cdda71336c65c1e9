package cli

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/restore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/verify"
)

// TestRestoreBook: the command books lost movements that were not requested again from a statement,
// as their claims had booked them. It leaves doubtful ones to a person.
func TestRestoreBook(t *testing.T) {
	twoBooks(t, func(t *testing.T, flags []string, open func(do func(*store))) {
		with := func(args ...string) []string { return append(args, flags...) }
		object := func(prefix string) string {
			id, err := claim.NewObjectID(prefix, 1, nil)
			require.NoError(t, err)
			return id
		}
		statement, home := statementHead, ""
		state := func(kind, id, ref string) {
			statement += fmt.Sprintf("%s,%s,%s,700,usd,%d\n", ref, kind, id, time.Now().Unix())
		}
		witness := func(operation, prefix, kind string) claim.Witness {
			id := object(prefix)
			state(kind, id, "p_"+id)
			return claim.Witness{
				Key: claim.Key{Tenant: "acme", Value: "key-" + id}, Object: id, FirstUse: time.Now().Add(-60 * time.Hour), Fence: 2, Generation: 1,
				Provider: "simulator", Operation: operation, Done: true, ProviderRef: "p_" + id,
			}
		}
		paid, sent, again := witness("charge", "ch", "charge"), witness("transfer", "tr", "transfer"), witness("charge", "ch", "charge")
		unpaid, another, refund, twice := witness("charge", "ch", "charge"), witness("charge", "ch", "charge"), witness("refund", "re", "refund"), witness("charge", "ch", "charge")
		unpaid.Done, another.ProviderRef = false, "p_another"
		state("charge", twice.Object, "p_second")
		state("charge", object("ch"), "p_unheard")
		path := filepath.Join(t.TempDir(), "mismatches.jsonl")
		lost := restore.Lost{From: time.Now().Add(-100 * time.Hour), Until: time.Now().Add(-time.Hour), By: "ops", Why: "a lost disk", Sessions: true}
		code, _, errs := homeward(t, with("reconcile", "--statement", write(t, "s.csv", statement), "--out", path)...)
		require.Equal(t, exitDiffers, code, errs)

		refuses(t, []string{"no restore is in effect"}, with("restore", "book", path)...)
		open(func(s *store) {
			home = s.codes[1]
			_, err := restore.Begin(t.Context(), s, s.rows, lost)
			require.NoError(t, err)
			all := []claim.Witness{paid, sent, again, unpaid, another, refund, twice}
			for i := range all {
				all[i].Home = home
			}
			require.NoError(t, s.PutWitnesses(t.Context(), all))
		})
		refuses(t, []string{"count as used until", "before homeward restore end"}, with("restore", "book", path)...)
		open(func(s *store) {
			r, _, err := s.Restore(t.Context())
			require.NoError(t, err)
			r.Until = time.Now().Add(-50 * time.Hour)
			_, err = s.PutRestore(t.Context(), r)
			require.NoError(t, err)
			// One request did come again, and its claim is under way.
			a := claimtest.NewArrival(again.Key, home, "700", "node-1", object("ch"))
			w := again
			w.Home, w.Fingerprint = home, a.Print
			a.Providers, a.Provider = []string{"simulator"}, "simulator"
			v, err := s.Region(home)
			require.NoError(t, err)
			begun, err := v.Reattach(t.Context(), a, w)
			require.NoError(t, err)
			require.Equal(t, again.Object, begun.Record.Minted.ID)
		})
		for range 2 { // the second time books nothing
			code, out, errs := homeward(t, with("restore", "book", path)...)
			require.Equal(t, exitDiffers, code)
			require.Contains(t, errs, "7 of 9 movements are not booked")
			for w, said := range map[*claim.Witness]string{
				&paid: "booked", &sent: "booked", &again: "its claim books it", &unpaid: "was not sent a success", &another: `has it as "p_another"`,
				&refund: "requested as a refund", &twice: "several movements",
			} {
				require.Regexp(t, w.Object+" +acme +700 usd +p_.*"+said, out)
			}
			require.Regexp(t, `p_unheard +the audit does not have its owner`, out)
		}
		open(func(s *store) {
			got, found, err := s.rows.Transaction(t.Context(), home, paid.Object)
			require.NoError(t, err)
			require.True(t, found)
			require.True(t, got.Same(ledger.Transaction{
				ID: paid.Object, Region: home, Tenant: "acme", Kind: ledger.Charge, Debit: "provider:simulator", Credit: "merchant:acme",
				Amount: 700, Currency: "usd", Object: paid.Object, Provider: "simulator", ProviderRef: paid.ProviderRef,
			}), "as its claim had booked it, so that refunds find it: %+v", got)
			got, _, err = s.rows.Transaction(t.Context(), home, sent.Object)
			require.NoError(t, err)
			require.Equal(t, ledger.Account("merchant:acme"), got.Debit)
			_, found, err = s.rows.Transaction(t.Context(), home, again.Object)
			require.NoError(t, err)
			require.False(t, found)
			report, err := verify.Books(t.Context(), s.rows, s.regions)
			require.NoError(t, err)
			require.True(t, report.OK(), "%v", report.Failures)
			// Its request, sent again after all, does not begin a claim that could not book.
			guard, err := claim.NewGuard(t.Context(), s)
			require.NoError(t, err)
			_, err = guard.Recall(t.Context(), paid.Key)
			var withheld *claim.WithheldError
			require.ErrorAs(t, err, &withheld)
		})
		code, out, _ := homeward(t, with("reconcile", "--statement", write(t, "s.csv", statement))...)
		require.Equal(t, exitDiffers, code)
		require.Contains(t, out, "2 movements agree")
		refuses(t, []string{"line 1 is no mismatch"}, with("restore", "book", write(t, "x.jsonl", `{"a":1}`))...)
	})
}
