package recon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// falls books that the movement booked under id has failed.
func (w *world) falls(id string) {
	of, found, err := w.Transaction(w.t.Context(), home, id)
	require.NoError(w.t, err)
	require.True(w.t, found)
	failed := ledger.FailureOf(of)
	failed.At = noon.Add(time.Duration(len(w.books)) * time.Microsecond)
	w.books = append(w.books, failed)
}

// What failed after it had succeeded, a charge, a refund and a ghost's refund which was
// made once more, agrees where the statement and the books both have it.
func TestFailuresAgree(t *testing.T) {
	w := newWorld(t)
	charge, p1 := w.paid(1)
	w.stateAs("charge_failed", p1, charge, 100, "usd", noon)
	w.falls(charge)
	paid, _ := w.paid(2)
	w.stateAs("refund", "r2", "re_2", 60, "usd", noon)
	w.book(ledger.Refund, "re_2", "re_2", "r2", 60).Reverses = paid
	w.stateAs("refund_failed", "r2", "re_2", 60, "usd", noon)
	w.falls("re_2")
	ghost := objectID(t, 3)
	w.state("p3", ghost, 100)
	w.claim(ghost, "", claim.FailedTerminal, "expired")
	w.book(ledger.Ghost, ledger.GhostID(pspName, "p3"), ghost, "p3", 100)
	for try, ref := range []string{"r3", "r4"} {
		w.stateAs("refund", ref, "re_"+ref, 100, "usd", noon)
		w.book(ledger.GhostRefund, ledger.GhostRefundTryID(pspName, "p3", try+1), "re_"+ref, ref, 100).Reverses = ledger.GhostID(pspName, "p3")
	}
	w.stateAs("refund_failed", "r3", "re_r3", 100, "usd", noon)
	w.falls(ledger.GhostRefundID(pspName, "p3"))
	report, all := w.run()
	require.Empty(t, all)
	require.Equal(t, len(w.lines), report.Agree)
}

// A failure of which no notice came is named, and is nothing to give back; so is one
// that the provider does not state.
func TestFailuresThatDisagree(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w *world)
		want []Class
	}{
		"a charge that failed without a notice": {func(w *world) {
			charge, ref := w.paid(1)
			w.stateAs("charge_failed", ref, charge, 100, "usd", noon)
		}, []Class{FailedButBooked}},
		"a ghost that failed without a notice": {func(w *world) {
			ghost := objectID(w.t, 1)
			w.state("p1", ghost, 100)
			w.claim(ghost, "", claim.FailedTerminal, "expired")
			w.stateAs("charge_failed", "p1", ghost, 100, "usd", noon)
		}, []Class{ChargedButUnknown}},
		"a failure that is not stated": {func(w *world) { charge, _ := w.paid(1); w.falls(charge) }, []Class{NotOnStatement}},
		"a ghost with a failed refund": {func(w *world) {
			ghost := objectID(w.t, 1)
			w.state("p1", ghost, 100)
			w.claim(ghost, "", claim.FailedTerminal, "expired")
			w.book(ledger.Ghost, ledger.GhostID(pspName, "p1"), ghost, "p1", 100)
			w.stateAs("refund", "r1", "re_1", 100, "usd", noon)
			w.book(ledger.GhostRefund, ledger.GhostRefundID(pspName, "p1"), "re_1", "r1", 100).Reverses = ledger.GhostID(pspName, "p1")
			w.stateAs("refund_failed", "r1", "re_1", 100, "usd", noon)
			w.falls(ledger.GhostRefundID(pspName, "p1"))
		}, []Class{RefundMissing}},
		"a failure stated twice": {func(w *world) {
			charge, ref := w.paid(1)
			w.falls(charge)
			for range 2 {
				w.stateAs("charge_failed", ref, charge, 100, "usd", noon)
			}
		}, []Class{RepeatedLine}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w)
			_, all := w.run()
			var got []Class
			for _, m := range all {
				got = append(got, m.Class)
				require.Equal(t, m.Class == RefundMissing, m.Refundable, "%+v", m)
			}
			require.Equal(t, c.want, got)
		})
	}
}
