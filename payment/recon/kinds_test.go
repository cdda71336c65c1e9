package recon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/psp"
)

// words are all that a mapping can call a line.
func words() (all []string) {
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		all = append(all, string(kind))
		if requestable(kind) {
			all = append(all, string(kind)+"_failed")
		}
	}
	return all
}

// only compares a statement of lines that are "kind,reference,of,id".
func (w *world) only(at time.Time, lines ...string) (*Report, []Mismatch) {
	w.t.Helper()
	text := "kind,reference,of,id,amount,currency,created\n"
	for _, l := range lines {
		text += fmt.Sprintf("%s,100,usd,%d\n", l, at.Unix())
	}
	var all []Mismatch
	w.c.Found = func(_ context.Context, m Mismatch) error { all = append(all, m); return nil }
	report, err := Run(w.t.Context(), w.c, strings.NewReader(text), CSV)
	require.NoError(w.t, err)
	return report, all
}

// Reconciliation accounts for each line of a statement of our own account, of any kind: money of a
// payment that is not in the books is a mismatch, by its reference, and an omitted kind is counted
// under its name.
func TestEveryKindIsAccountedFor(t *testing.T) {
	for _, word := range words() {
		kind, _, ok := kindIn(word)
		require.True(t, ok)
		for name, line := range map[string]string{
			"without a reference": word + ",,pi_9,m1", "another's reference": word + ",order-7,pi_9,m1", "ours, not booked": word + "," + objectID(t, 7) + ",pi_9,m1",
			"of nothing": word + ",,,m1",
		} {
			t.Run(word+"/"+name, func(t *testing.T) {
				w := newWorld(t)
				report, all := w.only(noon, line)
				if byItself(kind) { // the provider's and ours, without a payment
					require.Empty(t, all)
					require.Equal(t, map[psp.Kind]int{kind: 1}, report.NotBooked)
					require.NotEmpty(t, report.Unjudged())
					return
				}
				require.Len(t, all, 1, "%+v", report)
				require.Equal(t, "m1", all[0].ProviderRef)
				require.Equal(t, strings.Split(line, ",")[1], all[0].Reference)
				require.Equal(t, kind, all[0].Kind)
				require.EqualValues(t, 100, all[0].Stated)
				require.False(t, all[0].Refundable)
				require.Zero(t, report.Agree+report.Outside+report.OtherAccount+report.Undecided)
			})
		}
		t.Run(word+"/of another period", func(t *testing.T) {
			w := newWorld(t)
			w.c.From, w.c.To = noon.Add(-time.Hour), noon.Add(time.Hour)
			report, all := w.only(noon.Add(-2*time.Hour), word+",,pi_9,m1")
			require.Empty(t, all)
			require.Equal(t, 1, report.Outside)
			require.Contains(t, report.Unjudged(), "1 line of another period")
		})
		t.Run(word+"/of another account", func(t *testing.T) {
			w := newWorld(t)
			w.c.Account = "acct_1"
			report, all := w.only(noon, word+",,pi_9,m1")
			require.Empty(t, all)
			if byItself(kind) {
				require.Equal(t, map[psp.Kind]int{kind: 1}, report.NotBooked)
				return
			}
			require.Equal(t, 1, report.OtherAccount)
			require.Contains(t, report.Unjudged(), "1 line of the account's own business")

			_, all = w.only(noon, word+","+objectID(t, 7)+",pi_9,m1")
			require.Len(t, all, 1, "our id is on it")
			require.False(t, all[0].Refundable)
		})
	}
}

// The same beside a payment that is in the books, as m1, and is stated.
func TestEveryKindBesideAPayment(t *testing.T) {
	for _, word := range words() {
		want, listed := map[string]struct {
			id    string // of the line
			class Class  // "": none
			agree int    // with the payment's own line
		}{
			"charge":            {"m2", Duplicate, 1},
			"charge_failed":     {"m1", FailedButBooked, 1},
			"refund":            {"m2", UnaskedNotBooked, 1},
			"refund_failed":     {"m2", UnaskedNotBooked, 1},
			"transfer":          {"m2", Duplicate, 1},
			"transfer_failed":   {"m2", UnaskedNotBooked, 1},
			"dispute":           {"m2", UnaskedNotBooked, 1},
			"dispute_reversal":  {"m2", UnaskedNotBooked, 1},
			"transfer_reversal": {"m2", UnaskedNotBooked, 1},
			"capture_reversal":  {"m1", AmountDiffers, 0}, // nothing is left of it
			"payout":            {"m2", "", 1},
			"payout_reversal":   {"m2", "", 1},
			"top_up":            {"m2", "", 1},
			"fee":               {"m2", "", 1},
			"fee_refund":        {"m2", "", 1},
		}[word]
		require.True(t, listed, "decide what a %s beside its payment is", word)
		t.Run(word, func(t *testing.T) {
			w := newWorld(t)
			id, _ := w.paid(1)
			w.books[0].ProviderRef, w.claims[0].ProviderRef = "m1", "m1"
			report, all := w.only(noon, "charge,"+id+",,m1", word+","+id+",m1,"+want.id)
			require.Equal(t, want.agree, report.Agree, "%+v %+v", report, all)
			if want.class == "" {
				require.Empty(t, all)
				require.Len(t, report.NotBooked, 1)
				return
			}
			require.Len(t, all, 1)
			require.Equal(t, want.class, all[0].Class)
			require.Equal(t, id, all[0].Reference)
			require.Equal(t, word == "charge", all[0].Refundable)
		})
	}
}

// A failure is judged with its movement where the statement has both, and a claim that
// waits for an answer decides about it, too.
func TestAFailureOfWhatIsNotBooked(t *testing.T) {
	w := newWorld(t)
	id := objectID(t, 7)
	_, all := w.only(noon, "charge,"+id+",,m1", "charge_failed,"+id+",,m1")
	require.Len(t, all, 1)
	require.Equal(t, ChargedButUnknown, all[0].Class)
	require.Contains(t, all[0].Detail, "it has failed since")

	w.claim(id, "", claim.InFlight, "")
	report, all := w.only(noon, "charge_failed,"+id+",,m1")
	require.Empty(t, all)
	require.Equal(t, 1, report.Undecided)
	require.Contains(t, report.Unjudged(), "1 undecided")

	w.claims[0].State, w.claims[0].Reason = claim.FailedTerminal, "expired"
	_, all = w.only(noon, "charge_failed,"+id+",,m1")
	require.Len(t, all, 1)
	require.Equal(t, "acme", all[0].Tenant)
}

// All agree only if nothing was left out.
func TestUnjudged(t *testing.T) {
	w := newWorld(t)
	id, _ := w.paid(1)
	w.books[0].ProviderRef, w.claims[0].ProviderRef = "m1", "m1"
	report, _ := w.only(noon, "charge,"+id+",,m1")
	require.Empty(t, report.Unjudged())
	report, all := w.only(noon, "charge,"+id+",,m1", "risk_reserved_funds,,,m2", "fee,,,m3")
	require.Empty(t, all)
	require.Equal(t, "1 line of an unknown kind, 1 of kind fee that is not booked", report.Unjudged())
}
