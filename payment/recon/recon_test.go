package recon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/notice"
)

const (
	home    = "us-east1"
	pspName = "sim"
)

// rows is a ledger and claims in memory.
type rows struct {
	ledger.Store
	books  []ledger.Transaction // in order
	claims []claim.Record       // in the order of their keys
	unpaid []claim.Unpaid
	fail   error
}

func (r *rows) Transaction(_ context.Context, _, id string) (ledger.Transaction, bool, error) {
	for _, t := range r.books {
		if t.ID == id {
			return t, true, nil
		}
	}
	return ledger.Transaction{}, false, nil
}

func (r *rows) Reversals(_ context.Context, ids ...string) (all []ledger.Transaction, _ error) {
	for _, t := range r.books {
		if slices.Contains(ids, t.Reverses) {
			all = append(all, t)
		}
	}
	return all, nil
}

func (r *rows) ReversalsAt(ctx context.Context, _, id string) ([]ledger.Transaction, error) {
	return r.Reversals(ctx, id)
}

func (r *rows) Incoming(_ context.Context, provider, ref string) (all []ledger.Transaction, _ error) {
	for _, t := range r.books {
		if t.Incoming() && t.Provider == provider && t.ProviderRef == ref {
			all = append(all, t)
		}
	}
	return all, nil
}

func (r *rows) Transactions(_ context.Context, _ string, after ledger.Position, before time.Time, limit int) (some []ledger.Transaction, _ error) {
	if r.fail != nil {
		return nil, r.fail
	}
	from := sort.Search(len(r.books), func(i int) bool {
		p := r.books[i].Position()
		return p.At.After(after.At) || p.At.Equal(after.At) && p.ID > after.ID
	})
	for _, t := range r.books[from:] {
		if len(some) == limit || !before.IsZero() && !t.At.Before(before) {
			break
		}
		some = append(some, t)
	}
	return some, nil
}

func (r *rows) Settled(_ context.Context, _ string, after claim.Key, limit int) (some []claim.Record, _ error) {
	from := sort.Search(len(r.claims), func(i int) bool { return r.claims[i].Key.Value > after.Value })
	for _, c := range r.claims[from:] {
		if len(some) == limit {
			break
		}
		if c.State != claim.InFlight {
			some = append(some, c)
		}
	}
	return some, nil
}

func (r *rows) GhostRefund(_ context.Context, _, object string) (ledger.Transaction, bool, error) {
	for _, t := range r.books {
		if t.Kind == ledger.GhostRefund && t.Object == object {
			return t, true, nil
		}
	}
	return ledger.Transaction{}, false, nil
}

func (r *rows) ByObject(_ context.Context, _, id string) (claim.Record, bool, error) {
	for _, c := range r.claims {
		if c.Minted.ID == id {
			return c, true, nil
		}
	}
	return claim.Record{}, false, nil
}

func (r *rows) Unpaid(_ context.Context, _, id string) (claim.Unpaid, bool, error) {
	for _, u := range r.unpaid {
		if u.Object == id {
			return u, true, nil
		}
	}
	return claim.Unpaid{}, false, nil
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func objectID(t testing.TB, n int) string {
	seed := fmt.Appendf(nil, "%010d", n) // as long as what is random in an id
	id, err := claim.NewObjectID("ch", 1, bytes.NewReader(seed))
	require.NoError(t, err)
	return id
}

// world is a statement and what it is compared with, made of charges.
type world struct {
	t     testing.TB
	lines []string
	rows
	c Config
}

func newWorld(t testing.TB) *world {
	w := &world{t: t}
	w.c = Config{
		Books: &w.rows, Claims: &w.rows, Provider: pspName, Regions: []string{home}, Parts: 3, Dir: t.TempDir(),
		Home: func(c claim.RegionCode) (string, bool) { return home, c == 1 },
		Now:  func() time.Time { return noon.Add(time.Hour) },
	}
	return w
}

func (w *world) state(ref, reference string, amount int64) {
	w.stateAs("charge", ref, reference, amount, "usd", noon)
}

func (w *world) stateAs(kind, ref, reference string, amount int64, currency string, at time.Time) {
	w.lines = append(w.lines, fmt.Sprintf("%s,%s,%s,%d,%s,%d", ref, kind, reference, amount, currency, at.Unix()))
}

func (w *world) book(kind ledger.Kind, id, object, ref string, amount int64) *ledger.Transaction {
	w.books = append(w.books, ledger.Transaction{
		ID: id, Region: home, Tenant: "acme", Kind: kind, Amount: amount, Currency: "usd", Object: object,
		Provider: pspName, ProviderRef: ref, At: noon.Add(time.Duration(len(w.books)) * time.Microsecond),
	})
	return &w.books[len(w.books)-1]
}

func (w *world) claim(object, ref string, state claim.State, reason string) {
	w.claims = append(w.claims, claim.Record{
		Key: claim.Key{Tenant: "acme", Value: fmt.Sprintf("k%09d", len(w.claims))}, Home: home, State: state,
		Minted: claim.Minted{ID: object}, ProviderRef: ref, Reason: reason, SettledAt: noon,
	})
}

// paid is a charge on which all three agree.
func (w *world) paid(n int) (reference, ref string) {
	reference, ref = objectID(w.t, n), fmt.Sprintf("p%d", n)
	w.state(ref, reference, 100)
	w.book(ledger.Charge, reference, reference, ref, 100)
	w.claim(reference, ref, claim.Completed, "")
	return reference, ref
}

func (w *world) run() (*Report, []Mismatch) {
	w.t.Helper()
	var all []Mismatch
	w.c.Found = func(_ context.Context, m Mismatch) error { all = append(all, m); return nil }
	report, err := Run(w.t.Context(), w.c, w.statement(), CSV)
	require.NoError(w.t, err)
	require.Equal(w.t, len(all), report.Total())
	entries, err := os.ReadDir(w.c.Dir)
	require.NoError(w.t, err)
	require.Empty(w.t, entries, "temporary files are left behind")
	return report, all
}

func (w *world) statement() io.Reader {
	return strings.NewReader("id,kind,reference,amount,currency,created\n" + strings.Join(w.lines, "\n") + "\n")
}

func TestAllAgree(t *testing.T) {
	w := newWorld(t)
	for n := range 50 {
		w.paid(n)
	}
	report, all := w.run()
	require.Empty(t, all)
	require.Equal(t, Report{Lines: 50, Bookings: 50, Claims: 50, Agree: 50, Mismatches: map[Class]int{}}, *report)
}

func TestEachClass(t *testing.T) {
	ghost := func(w *world, n int, back bool) (string, string) {
		reference, ref := objectID(w.t, n), fmt.Sprintf("p%d", n)
		w.state(ref, reference, 100)
		w.book(ledger.Ghost, ledger.GhostID(pspName, ref), reference, ref, 100)
		w.claim(reference, "", claim.FailedTerminal, "expired")
		if back {
			w.stateAs("refund", "r"+ref, "re_"+ref, 100, "usd", noon)
			w.book(ledger.GhostRefund, ledger.GhostRefundID(pspName, ref), "re_"+ref, "r"+ref, 100).Reverses = ledger.GhostID(pspName, ref)
		}
		return reference, ref
	}
	atProvider := func(w *world, amount int64) {
		reference, ref := ghost(w, 1, false)
		of := w.books[0]
		back := ledger.UnaskedOf(of, ledger.ProviderRefund, "r_hand", amount)
		w.book(ledger.ProviderRefund, back.ID, reference, "r_hand", amount).Reverses = ledger.GhostID(pspName, ref)
		w.stateAs("refund", "r_hand", reference, amount, "usd", noon)
	}
	for name, c := range map[string]struct {
		do   func(w *world)
		want []Class
		// refundable is whether the one mismatch is.
		refundable bool
	}{
		"a charge of an unknown reference": {func(w *world) { w.state("p", "order-7", 5) }, []Class{ChargedButUnknown}, false},
		"a charge without a reference":     {func(w *world) { w.state("p", "", 5) }, []Class{ChargedButUnknown}, false},
		"a charge without a record":        {func(w *world) { w.state("p", objectID(w.t, 7), 5) }, []Class{ChargedButUnknown}, false},
		"a charge of a failed claim": {func(w *world) {
			w.state("p", objectID(w.t, 7), 5)
			w.claim(objectID(w.t, 7), "", claim.FailedTerminal, "outcome_unknown")
		}, []Class{ChargedButUnknown}, true},
		"a charge of a failed claim that is forgotten": {func(w *world) {
			w.state("p", objectID(w.t, 7), 5)
			w.unpaid = append(w.unpaid, claim.Unpaid{Object: objectID(w.t, 7), Home: home, Tenant: "acme", State: claim.FailedTerminal, Reason: "outcome_unknown"})
		}, []Class{ChargedButUnknown}, true},
		"a charge of a released claim that is forgotten": {func(w *world) {
			w.state("p", objectID(w.t, 7), 5)
			w.unpaid = append(w.unpaid, claim.Unpaid{Object: objectID(w.t, 7), Home: home, Tenant: "acme", State: claim.FailedRetry, Reason: "insufficient_funds"})
		}, []Class{ChargedButUnknown}, true},
		"a charge that was released, and paid in the end": {func(w *world) {
			reference, _ := w.paid(1)
			w.claims = nil
			w.unpaid = append(w.unpaid, claim.Unpaid{Object: reference, Home: home, Tenant: "acme", State: claim.FailedRetry})
			w.books[0].At = noon.Add(-9 * time.Hour)
			w.c.From = noon.Add(-time.Hour)
		}, nil, false},
		"a charge of a claim in flight": {func(w *world) {
			w.state("p", objectID(w.t, 7), 5)
			w.claim(objectID(w.t, 7), "", claim.InFlight, "")
		}, nil, false},
		"a charge that is not stated": {func(w *world) { w.paid(1); w.lines = nil }, []Class{NotOnStatement}, false},
		"another amount":              {func(w *world) { w.paid(1); w.books[0].Amount++ }, []Class{AmountDiffers}, false},
		"another currency":            {func(w *world) { w.paid(1); w.books[0].Currency = "eur"; w.books[0].Amount++ }, []Class{CurrencyDiffers}, false},
		"a second movement":           {func(w *world) { ref, _ := w.paid(1); w.state("again", ref, 100) }, []Class{Duplicate}, true},
		"an amount that was booked outside the period": {func(w *world) {
			w.paid(1)
			w.books[0].Amount, w.books[0].At = 7, noon.Add(9*time.Hour)
			w.claims[0].SettledAt = w.books[0].At
			w.c.From, w.c.To = noon.Add(-time.Hour), noon.Add(time.Hour)
		}, []Class{AmountDiffers}, false},
		"a refund that is booked as a charge": {func(w *world) {
			w.paid(1)
			w.lines[0] = strings.Replace(w.lines[0], "charge", "refund", 1)
		}, []Class{AmountDiffers}, false},
		"a movement that is booked twice": {func(w *world) {
			reference, ref := w.paid(1)
			w.book(ledger.GhostRefund, ledger.GhostRefundID(pspName, ref), "re", "r", 100)
			w.stateAs("refund", "r", "re", 100, "usd", noon)
			w.book(ledger.Ghost, ledger.GhostID(pspName, ref), reference, ref, 100)
		}, []Class{NotOnStatement}, false},
		"a charge at another provider": {func(w *world) {
			w.paid(1)
			w.lines, w.books[0].Provider = nil, "other"
		}, nil, false},
		"a charge at both providers, or at one with a changed name": {func(w *world) {
			w.paid(1)
			w.books[0].Provider = "other"
		}, []Class{Duplicate}, false},
		"a charge at both providers, under two references": {func(w *world) {
			reference, _ := w.paid(1)
			w.lines, w.books[0].Provider = nil, "other"
			w.state("again", reference, 100)
		}, []Class{Duplicate}, false},
		"a second movement, the first not stated": {func(w *world) {
			reference, _ := w.paid(1)
			w.lines = nil
			w.state("again", reference, 100)
			w.books[0].At = noon.Add(-time.Minute)
			w.c.From = noon
		}, []Class{Duplicate}, false},
		"a second movement that comes first": {func(w *world) {
			w.state("again", objectID(w.t, 1), 100)
			w.paid(1)
		}, []Class{Duplicate}, true},
		"a charge under the id of a refund": {func(w *world) {
			refund, err := claim.NewObjectID("re", 1, strings.NewReader("0000000007"))
			require.NoError(w.t, err)
			w.state("p", refund, 5)
			w.claim(refund, "", claim.FailedTerminal, "charge_disputed")
		}, []Class{ChargedButUnknown}, false},
		"a claim of another movement": {func(w *world) {
			w.paid(1)
			w.claims[0].ProviderRef = "p9"
		}, []Class{ClaimWithoutBooking}, false},
		"a refund of a claim that was refused": {func(w *world) {
			w.stateAs("refund", "r", objectID(w.t, 7), 5, "usd", noon)
			w.claim(objectID(w.t, 7), "", claim.FailedTerminal, "charge_disputed")
		}, []Class{ChargedButUnknown}, false},
		"a line twice":              {func(w *world) { w.paid(1); w.lines = append(w.lines, w.lines[0]) }, []Class{RepeatedLine}, false},
		"a ghost that was refunded": {func(w *world) { ghost(w, 1, true) }, nil, false},
		"a ghost that was not":      {func(w *world) { ghost(w, 1, false) }, []Class{RefundMissing}, true},
		"a ghost that was refunded at the provider, in part": {func(w *world) { atProvider(w, 99) }, []Class{RefundMissing}, true},
		"a ghost that was refunded at the provider":          {func(w *world) { atProvider(w, 100) }, nil, false},
		"a refund that is not stated":                        {func(w *world) { ghost(w, 1, true); w.lines = w.lines[:1] }, []Class{RefundMissing}, false},
		"a claim that is not booked": {func(w *world) {
			w.claim(objectID(w.t, 1), "p", claim.Completed, "")
		}, []Class{ClaimWithoutBooking}, false},
		"a booking of a declined claim": {func(w *world) {
			w.paid(1)
			w.claims[0].State, w.claims[0].Reason = claim.FailedTerminal, "stolen_card"
		}, []Class{BookingWithoutClaim}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w)
			report, all := w.run()
			var classes []Class
			for _, m := range all {
				classes = append(classes, m.Class)
				require.NotEmpty(t, m.Detail)
			}
			require.Equal(t, c.want, classes)
			if len(all) == 1 {
				require.Equal(t, c.refundable, all[0].Refundable, "%+v", all[0])
			}
			require.Equal(t, len(c.want), report.Total())
		})
	}
}

// The fake's rows change between two reads, as those of a store do.
type changing struct {
	*rows
	// settled is done before the claim of an object is read again, transactions before
	// the books are listed.
	settled, transactions func()
}

func (c *changing) Settled(ctx context.Context, home string, after claim.Key, limit int) ([]claim.Record, error) {
	defer func() { c.settled() }()
	return c.rows.Settled(ctx, home, after, limit)
}

func (c *changing) Transactions(ctx context.Context, region string, after ledger.Position, before time.Time, limit int) ([]ledger.Transaction, error) {
	defer func() { c.transactions() }()
	return c.rows.Transactions(ctx, region, after, before, limit)
}

// Money moves while it is compared, which is no mismatch.
func TestMoneyThatMovesMeanwhile(t *testing.T) {
	nothing := func() {}
	for name, c := range map[string]func(w *world, c *changing){
		"completed after the claims were read": func(w *world, c *changing) {
			w.paid(1)
			now, later := w.claims[0], w.books
			w.claims[0].State, w.claims[0].ProviderRef, w.claims[0].Reason = claim.FailedRetry, "", "insufficient_funds"
			w.books = nil
			c.settled = func() { w.claims[0], w.books = now, later }
		},
		"completed after the books were read": func(w *world, c *changing) {
			w.paid(1)
			later := w.books
			claims := w.claims
			w.books, w.claims = nil, nil
			c.transactions = func() { w.books, w.claims = later, claims }
		},
		"booked after all": func(w *world, c *changing) {
			w.paid(1)
			id := objectID(w.t, 2)
			c.transactions = func() {
				w.book(ledger.Charge, id, id, "p2", 1).At = noon.Add(2 * time.Hour)
				w.claim(id, "p2", claim.Completed, "")
				c.transactions = nothing
			}
		},
		"given back after the books were read": func(w *world, c *changing) {
			w.paid(1)
			re := objectID(w.t, 3)
			w.stateAs("refund", "r9", re, 100, "usd", noon)
			c.transactions = func() {
				w.book(ledger.GhostRefund, ledger.GhostRefundID(pspName, "p9"), re, "r9", 100)
				w.claim(re, "r9", claim.Completed, "")
				w.claims[len(w.claims)-1].Operation = "compensation"
				c.transactions = nothing
			}
		},
		"booked during the comparison": func(w *world, c *changing) {
			w.paid(1)
			id := objectID(w.t, 2)
			w.book(ledger.Charge, id, id, "p2", 1).At = noon.Add(2 * time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			store := &changing{rows: &w.rows, settled: nothing, transactions: nothing}
			c(w, store)
			w.c.Books, w.c.Claims = store, store
			report, all := w.run()
			require.Empty(t, all)
			require.Equal(t, 1, report.Agree)
		})
	}
}

// A claim that is COMPLETED and not booked, as one from before there were books, is
// the merchant's money: it is named, once, and never given back.
func TestMoneyThatTheMerchantSawIsNotRefunded(t *testing.T) {
	w := newWorld(t)
	w.paid(1)
	w.books = nil
	_, all := w.run()
	require.Len(t, all, 1)
	require.Equal(t, ClaimWithoutBooking, all[0].Class)
	require.False(t, all[0].Refundable)
}

// What heals is what a notice of the same movement would make, to the byte.
func TestGhosts(t *testing.T) {
	w := newWorld(t)
	id := objectID(t, 1)
	w.state("p1", id, 70)
	w.claim(id, "", claim.FailedTerminal, "expired")
	twice, _ := w.paid(2)
	w.state("p3", twice, 100)
	booked, _ := w.paid(4)
	w.state("p5", booked, 100)
	w.book(ledger.Ghost, ledger.GhostID(pspName, "p5"), booked, "p5", 100)
	_, all := w.run()
	require.Len(t, all, 3)
	for _, m := range all {
		require.True(t, m.Refundable)
		require.Equal(t, map[string]notice.Ghost{
			"p1": {Tenant: "acme", Object: id, Home: home, Provider: pspName, ProviderRef: "p1", Amount: 70, Currency: "usd", Reason: "late_success"},
			"p3": {Tenant: "acme", Object: twice, Home: home, Provider: pspName, ProviderRef: "p3", Amount: 100, Currency: "usd", Reason: "second_movement"},
			"p5": {Tenant: "acme", Object: booked, Home: home, Provider: pspName, ProviderRef: "p5", Amount: 100, Currency: "usd", Reason: "second_movement"},
		}[m.ProviderRef], m.Ghost(pspName))
	}
}

// Lines of another period are not judged, unless they have a booking of this one.
func TestLinesOfAnotherPeriod(t *testing.T) {
	w := newWorld(t)
	w.c.From, w.c.To, w.c.Slack = noon.Add(-time.Hour), noon.Add(time.Hour), 30*time.Minute
	w.paid(1)
	w.stateAs("charge", "old", objectID(t, 2), 1, "usd", noon.Add(-5*time.Hour))
	w.stateAs("charge", "new", "", 1, "usd", noon.Add(5*time.Hour))
	w.stateAs("charge", "late", objectID(t, 3), 1, "usd", noon.Add(-2*time.Hour))
	w.book(ledger.Charge, objectID(t, 3), objectID(t, 3), "late", 1)
	report, all := w.run()
	require.Empty(t, all)
	require.Equal(t, 2, report.Outside)
	require.Equal(t, 2, report.Agree)
}

// A provider's clock may be a little ahead: booked before it is stated, at the end.
func TestClocksAtTheEdge(t *testing.T) {
	w := newWorld(t)
	w.c.From, w.c.To = noon.Add(-12*time.Hour), noon.Add(DefaultLag/2)
	id := objectID(t, 1)
	w.book(ledger.Charge, id, id, "p", 1)
	report, all := w.run()
	require.Empty(t, all)
	require.Equal(t, 1, report.Undecided)
}

// What is near an edge of the period may be on the statement before or after.
func TestPeriod(t *testing.T) {
	w := newWorld(t)
	w.c.From, w.c.To, w.c.Slack = noon.Add(-12*time.Hour), noon.Add(12*time.Hour), time.Hour
	at := func(n int, at time.Time) {
		reference := objectID(t, n)
		w.book(ledger.Charge, reference, reference, fmt.Sprintf("p%d", n), 1).At = at
	}
	at(1, w.c.From.Add(-2*time.Hour))   // another statement's
	at(2, w.c.From.Add(30*time.Minute)) // perhaps stated before
	at(3, noon)
	at(4, w.c.To.Add(30*time.Minute)) // perhaps stated within
	at(5, w.c.To.Add(2*time.Hour))
	w.state("p4", objectID(t, 4), 1)
	report, all := w.run()
	require.Len(t, all, 1)
	require.Equal(t, "p3", all[0].ProviderRef)
	require.Equal(t, 1, report.Agree)
	require.Equal(t, 1, report.Undecided)
}

func TestNothingIsDoneWithABadStatement(t *testing.T) {
	w := newWorld(t)
	w.state("p", "order-7", 5)
	w.lines = append(w.lines, "p,charge,\"r,1,usd,1", "p,charge,r,1,usd,1")
	w.c.Found = func(context.Context, Mismatch) error { t.Error("called for a mismatch"); return nil }
	_, err := Run(t.Context(), w.c, w.statement(), CSV)
	require.ErrorContains(t, err, `line 4: extraneous or missing "`)
	w.lines, w.fail = w.lines[:1], errors.New("down")
	_, err = Run(t.Context(), w.c, w.statement(), CSV)
	require.ErrorContains(t, err, "books of us-east1 cannot be read: down")
}

// Memory is bounded by a part, so ten times the lines in ten times the parts need
// no more of it.
func TestMemoryIsBoundedByAPart(t *testing.T) {
	if testing.Short() {
		t.Skip("reads some 50,000 lines")
	}
	peak := func(lines, parts int) uint64 {
		w := newWorld(t)
		w.c.Parts = parts
		w.c.Found = func(context.Context, Mismatch) error { return nil }
		runtime.GC()
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		var most uint64
		seen := 0
		statement := &generated{lines: lines, line: func(b []byte, n int) []byte {
			if n%2 == 0 { // without a reference, each is alone
				return fmt.Appendf(b, "p%d,charge,,100,usd,1700000000\n", n)
			}
			return fmt.Appendf(b, "p%d,charge,order-%d,100,usd,1700000000\n", n, n)
		}}
		w.c.Home = func(claim.RegionCode) (string, bool) { return "", false }
		w.c.Found = func(context.Context, Mismatch) error {
			if seen++; seen%(lines/10) == 0 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
			}
			return nil
		}
		report, err := Run(t.Context(), w.c, statement, CSV)
		require.NoError(t, err)
		require.Equal(t, lines, report.Total())
		return most
	}
	few, many := peak(5_000, 8), peak(50_000, 80)
	t.Logf("5,000 lines in 8 parts: %d KiB; 50,000 in 80: %d KiB", few>>10, many>>10)
	// Each part's file keeps a buffer, so a little more is right; ten times is not.
	require.Less(t, many, 6*few)
}

// generated is a statement that is made as it is read.
type generated struct {
	lines, at int
	line      func(b []byte, n int) []byte
	rest      []byte
}

func (g *generated) Read(to []byte) (int, error) {
	for len(g.rest) < len(to) && g.at <= g.lines {
		if g.at == 0 {
			g.rest = append(g.rest, "id,kind,reference,amount,currency,created\n"...)
		} else {
			g.rest = g.line(g.rest, g.at)
		}
		g.at++
	}
	if len(g.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(to, g.rest)
	g.rest = slices.Delete(g.rest, 0, n)
	return n, nil
}

// What has left the books cannot be compared, and must not be booked again.
func TestAPeriodWithBooksThatHaveLeft(t *testing.T) {
	w := newWorld(t)
	left := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		from, left time.Time
		refused    bool
	}{
		{time.Time{}, time.Time{}, false},
		{time.Time{}, left, true},
		{left, left, true},
		{left.Add(DefaultSlack), left, true}, // a booking may be so much later than it is stated
		{left.Add(DefaultSlack + time.Second), left, false},
	} {
		w.c.From, w.c.Left, w.c.Found = c.from, c.left, func(context.Context, Mismatch) error { return nil }
		_, err := Run(t.Context(), w.c, strings.NewReader(""), CSV)
		refused := err != nil && strings.Contains(err.Error(), "can be compared from 2026-03-01T04:00:01Z on")
		require.Equal(t, c.refused, refused, "%v %v: %v", c.from, c.left, err)
	}
}

// A ghost is booked when it surfaces, days after its movement was stated. Whether an earlier statement had
// that, the claim's end shows: the movement is not later than that by more than the slack.
func TestAGhostThatWasHealedIsNotMissingOnTheNextStatement(t *testing.T) {
	for name, c := range map[string]struct {
		settled time.Duration // before noon
		claim   bool
		from    bool
		want    []Class
	}{
		"of the day before":               {30 * time.Hour, true, true, nil},
		"of a claim that is forgotten":    {0, false, true, nil},
		"of this period":                  {time.Hour, true, true, []Class{NotOnStatement}},
		"where all has to be stated":      {30 * time.Hour, true, false, []Class{NotOnStatement}},
		"where all is, without its claim": {0, false, false, []Class{NotOnStatement}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.c.To = noon.Add(24 * time.Hour)
			if c.from {
				w.c.From = noon.Add(-8 * time.Hour)
			}
			reference := objectID(t, 1)
			w.book(ledger.Ghost, ledger.GhostID(pspName, "p"), reference, "p", 100)
			w.book(ledger.GhostRefund, ledger.GhostRefundID(pspName, "p"), "re_p", "rp", 100).Reverses = ledger.GhostID(pspName, "p")
			w.stateAs("refund", "rp", "re_p", 100, "usd", noon)
			if c.claim {
				w.claim(reference, "", claim.FailedTerminal, "expired")
				w.claims[0].SettledAt = noon.Add(-c.settled)
			}
			report, all := w.run()
			var classes []Class
			for _, m := range all {
				classes = append(classes, m.Class)
			}
			require.Equal(t, c.want, classes, "%+v", all)
			require.Equal(t, 1-len(c.want), report.Undecided)
		})
	}
}
