package audittest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// books writes transactions into the books of the home region, and remembers their ids.
type books struct {
	*world
	keys   *audit.Keys
	bucket *Bucket
	// sums are of all that was ever posted.
	sums ledger.Sums
	ids  []string
}

func newBooks(w *world) *books {
	w.Helper()
	text, err := audit.NewKey()
	require.NoError(w, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(w, err)
	b := &books{world: w, keys: keys, bucket: NewBucket(), sums: ledger.Sums{}}
	_, err = w.Audit(w.home).AdvanceAudit(w.ctx, w.home, 0, audit.Chain{From: w.now().Truncate(24 * time.Hour)})
	require.NoError(w, err)
	return b
}

func (b *books) post(t ledger.Transaction) ledger.Transaction {
	b.Helper()
	posted, err := b.Ledger(b.home).Post(b.ctx, t)
	require.NoError(b, err)
	require.True(b, posted)
	b.pass(time.Millisecond)
	if t.Region == b.home {
		require.True(b, b.sums.Add(&t))
		b.ids = append(b.ids, t.ID)
	}
	return t
}

func (b *books) charge(id string) ledger.Transaction {
	b.Helper()
	return b.post(ledger.Transaction{
		ID: id, Region: b.home, Tenant: "acme", Kind: ledger.Charge, Debit: ledger.Provider("sim"), Credit: ledger.Merchant("acme"),
		Amount: 100, Currency: "usd", Object: id, Provider: "sim", ProviderRef: "psp_" + id,
	})
}

func (b *books) refund(id string, of ledger.Transaction, region string) ledger.Transaction {
	b.Helper()
	t := of
	t.ID, t.Object, t.ProviderRef, t.Region, t.Kind, t.Reverses, t.Amount = id, id, "psp_"+id, region, ledger.Refund, of.ID, 40
	t.Debit, t.Credit = of.Credit, of.Debit
	return b.post(t)
}

func (b *books) transfer(id string) ledger.Transaction {
	b.Helper()
	return b.post(ledger.Transaction{
		ID: id, Region: b.home, Tenant: "acme", Kind: ledger.Transfer, Debit: ledger.Merchant("acme"), Credit: ledger.Provider("sim"),
		Amount: 7, Currency: "eur", Object: id, Provider: "sim", ProviderRef: "psp_" + id,
	})
}

// page reads all that may leave, by id.
func (b *books) page(before time.Time, limit int) (all []ledger.Transaction) {
	b.Helper()
	for after, more := (ledger.Position{}), true; more; {
		page, err := b.Audit(b.home).LeavingBooks(b.ctx, b.home, after, before, limit)
		require.NoError(b, err)
		all, after, more = append(all, page.Transactions...), page.Next, page.More
	}
	slices.SortFunc(all, func(a, b ledger.Transaction) int { return a.At.Compare(b.At) })
	return all
}

func idsOf(all []ledger.Transaction) (ids []string) {
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	return ids
}

func (b *books) forget(ids ...string) bool {
	b.Helper()
	c, _, _, err := b.Audit(b.home).AuditChain(b.ctx, b.home)
	require.NoError(b, err)
	next := c
	next.Number, next.Digest, next.Books = c.Number+1, "of the segment", ledger.Position{At: b.now().Add(-audit.MinKeepBooks), ID: "x"}
	moved, err := b.Audit(b.Regions[1]).ForgetBooks(b.ctx, b.home, c.Version, next, ids)
	require.NoError(b, err)
	if next.Version = c.Version + 1; !moved {
		next = c
	}
	now, _, _, err := b.Audit(b.home).AuditChain(b.ctx, b.home)
	require.NoError(b, err)
	require.Equal(b, next, now)
	return moved
}

// balanced checks that balances are of all that was ever posted, and returns what is carried.
func (b *books) balanced() ledger.Sums {
	b.Helper()
	is, err := b.Ledger(b.home).Balances(b.ctx, b.home, ledger.AccountKey{}, 1000)
	require.NoError(b, err)
	require.Equal(b, b.sums.Page(ledger.AccountKey{}, 1000), is)
	carried, err := ledger.Carried(b.ctx, b.Ledger(b.home), b.home)
	require.NoError(b, err)
	return carried
}

func (b *books) rows() []ledger.Transaction {
	b.Helper()
	all, err := b.Ledger(b.home).Transactions(b.ctx, b.home, ledger.Position{}, time.Time{}, 1000)
	require.NoError(b, err)
	return all
}

func leaving(w *world) {
	if w.Advance == nil {
		w.Skip("it takes more than a year")
	}
	b := newBooks(w)
	there := w.Regions[1]
	b.charge("ch_plain")
	b.refund("re_1", b.charge("ch_refunded"), w.home)
	b.refund("re_2", b.charge("ch_refunded_there"), there)
	b.post(ledger.FailureOf(b.refund("re_3", b.charge("ch_refund_failed"), w.home)))
	b.post(ledger.FailureOf(b.charge("ch_failed")))
	b.post(ledger.UnaskedOf(b.charge("ch_disputed"), ledger.DisputeOpened, "dp_1", 100))
	ghost := b.charge("ch_twice")
	ghost.ID, ghost.Kind, ghost.Credit, ghost.ProviderRef = ledger.GhostID("sim", "again"), ledger.Ghost, ledger.Suspense("acme"), "again"
	b.post(ghost)
	claimed := w.begin(key(1), w.home)
	b.charge(claimed.Minted.ID)
	b.transfer("tr_plain")
	b.post(ledger.FeeOf(w.home, "acme", "ch_plain", "sim", "fee_1", 3, "usd"))
	halves := ledger.ConversionOf(w.home, "acme", "ch_plain", "sim", "conv_1", 10, "usd", 9, "eur")
	b.post(halves[0])
	b.post(halves[1])
	b.post(ledger.PayoutOf(w.home, "sim", "po_1", 50, "usd"))
	late := b.charge("ch_refunded_late")
	stay := len(b.ids)
	w.pass(audit.MinKeepBooks - time.Hour)
	w.settle(claimed, claim.Verdict{Outcome: &claim.Released{Reason: "insufficient_funds"}})
	b.refund("re_late", late, w.home)
	w.pass(2 * time.Hour)

	before := w.now().Add(-audit.MinKeepBooks)
	want := []string{"ch_plain", "ch_refunded", "re_1", "tr_plain", ledger.UnaskedID(ledger.Fee, "sim", "fee_1"), halves[0].ID, halves[1].ID}
	for limit := range stay + 1 {
		require.Equal(w, want, idsOf(b.page(before, limit+1)), "in pages of %d", limit+1)
	}
	gone := b.page(before, 1000)
	held := b.rows()
	require.True(w, b.forget(want...))
	sums := ledger.Sums{}
	for i := range gone {
		require.True(w, slices.ContainsFunc(held, func(t ledger.Transaction) bool { return t.Same(gone[i]) && t.At.Equal(gone[i].At) }), "as it was")
		require.True(w, sums.Add(&gone[i]))
	}
	require.Equal(w, sums, b.balanced())
	rest := idsOf(b.rows())
	require.Len(w, rest, len(b.ids)-len(want))
	for _, id := range want {
		require.NotContains(w, rest, id)
		_, found, err := b.Ledger(w.home).Transaction(w.ctx, w.home, id)
		require.NoError(w, err)
		require.False(w, found)
	}
	for _, none := range []func() ([]ledger.Transaction, error){
		func() ([]ledger.Transaction, error) { return b.Ledger(w.home).Reversals(w.ctx, "ch_refunded") },
		func() ([]ledger.Transaction, error) { return b.Ledger(w.home).Incoming(w.ctx, "sim", "psp_ch_plain") },
		func() ([]ledger.Transaction, error) { return b.Ledger(w.home).About(w.ctx, w.home, "ch_plain") },
	} {
		all, err := none()
		require.NoError(w, err)
		require.Empty(w, all)
	}
	require.Empty(w, b.page(before, 1000), "what stays does so for ever")

	w.pass(audit.MinKeepBooks)
	remembered := func() bool {
		_, found, err := w.Store(w.home).Unpaid(w.ctx, w.home, claimed.Minted.ID)
		require.NoError(w, err)
		return found
	}
	require.True(w, remembered(), "as nothing was swept")
	require.Equal(w, []string{claimed.Minted.ID, "ch_refunded_late", "re_late"}, idsOf(b.page(w.now().Add(-audit.MinKeepBooks), 1)))
	require.True(w, b.forget(claimed.Minted.ID, "ch_refunded_late", "re_late"))
	require.False(w, remembered(), "without its booking it would look as if nothing was ever paid")
	b.balanced()
}

func refusedBooks(w *world) {
	b := newBooks(w)
	b.charge("ch_1")
	require.False(w, b.forget("ch_1"), "it is young")
	if w.Advance == nil {
		return
	}
	refunded := b.charge("ch_2")
	b.refund("re_2", refunded, w.home)
	there := b.charge("ch_3")
	w.pass(audit.MinKeepBooks - time.Minute)
	require.False(w, b.forget("ch_1"), "it is young")
	b.charge("ch_young")
	w.pass(time.Hour)
	for name, ids := range map[string][]string{
		"one is young":               {"ch_1", "ch_young"},
		"one is missing":             {"ch_1", "ch_none"},
		"a refund stays":             {"ch_1", "ch_2"},
		"what is refunded stays":     {"ch_1", "re_2"},
		"one was refunded elsewhere": {"ch_1", "ch_3"},
		"one was disputed":           {"ch_1", "ch_4"},
	} {
		switch name {
		case "one was refunded elsewhere":
			b.refund("re_3", there, w.Regions[2])
		case "one was disputed": // since it was read
			b.post(ledger.UnaskedOf(b.charge("ch_4"), ledger.DisputeOpened, "dp_4", 10))
		}
		require.False(w, b.forget(ids...), name)
		require.Empty(w, b.balanced(), name)
	}
	c, _, _, err := b.Audit(w.home).AuditChain(w.ctx, w.home)
	require.NoError(w, err)
	moved, err := b.Audit(w.home).ForgetBooks(w.ctx, w.home, c.Version-1, c, []string{"ch_1"})
	require.NoError(w, err)
	require.False(w, moved, "the chain has moved since")
	require.Empty(w, b.balanced())
	require.True(w, b.forget())
	require.True(w, b.forget("ch_1", "ch_2", "re_2"))
	require.Len(w, b.balanced(), 2)
	require.False(w, b.forget("ch_1"), "it has left")
}

func (b *books) exporter(s audit.Store, o audit.Objects) *audit.Exporter {
	b.Helper()
	x, err := audit.NewExporter(audit.Config{
		Store: s, Objects: o, Keys: b.keys, Deployment: uuid.NameSpaceOID, Home: b.home, Node: "node-1", Entries: 5, Page: 4,
		Policy: audit.Policy{Window: 24 * time.Hour, Settle: time.Minute, KeepRows: audit.MinKeepRows, KeepBooks: audit.MinKeepBooks},
	})
	require.NoError(b, err)
	return x
}

func (b *books) verify() audit.Report {
	b.Helper()
	r, err := audit.Verify(b.ctx, audit.VerifyConfig{Objects: b.bucket, Trust: b.keys.Trust()})
	require.NoError(b, err)
	return r
}

// idle moves the chain's window to the present, as if every day since had been exported.
func (b *books) idle() {
	b.Helper()
	c, now, _, err := b.Audit(b.home).AuditChain(b.ctx, b.home)
	require.NoError(b, err)
	next := c
	next.From = now.Truncate(24 * time.Hour)
	moved, err := b.Audit(b.home).AdvanceAudit(b.ctx, b.home, c.Version, next)
	require.NoError(b, err)
	require.True(b, moved)
}

// booksDie kills an exporter before, after and in the midst of each of its steps while books
// leave, lets another one do the rest, and checks that each transaction is in the rows or in one
// segment, and that both add up.
func booksDie(w *world) {
	if w.Advance == nil {
		w.Skip("it takes more than a year")
	}
	b := newBooks(w)
	left, kills, acts := 0, 0, 0
	killEach(func(r *reaper) bool {
		acts++
		for i := range 4 {
			t := b.charge(fmt.Sprintf("ch_%d_%d", acts, i))
			if i%2 == 0 {
				b.refund(fmt.Sprintf("re_%d_%d", acts, i), t, w.home)
			}
		}
		w.pass(audit.MinKeepBooks/2 + 24*time.Hour)
		b.idle()
		r.Store, r.Objects = w.Audit(w.home), b.bucket
		done, err := b.exporter(r, r).Round(w.ctx)
		left += done.Left
		if err != nil {
			require.ErrorIs(w, err, ErrDead)
			kills++
		}
		again, rerr := b.exporter(w.Audit(w.home), b.bucket).Round(w.ctx)
		require.NoError(w, rerr)
		left += again.Left
		require.Len(w, b.rows(), 6, "what is younger stays")
		carried := b.balanced()
		report := b.verify()
		for _, f := range report.Failures { // an object that is written in part
			require.Equal(w, audit.Changed, f.Class, "%v", f)
		}
		if len(carried) > 0 || len(report.Regions) > 0 {
			require.Equal(w, carried, report.Regions[0].Carried)
		}
		return err != nil
	})
	require.Greater(w, kills, 20)
	report := b.verify()
	require.EqualValues(w, len(b.ids)-6, report.Regions[0].Books)
	require.LessOrEqual(w, left, len(b.ids)-6, "what was done when its reply was lost is not counted")
	archive := audit.Archive{Objects: b.bucket, Trust: b.keys.Trust(), Deployment: uuid.NameSpaceOID}
	all, _, err := archive.Books(w.ctx, "ch_1_0", nil)
	require.NoError(w, err)
	require.Equal(w, []string{"ch_1_0", "re_1_0"}, idsOf(all))
}

// overRefunded has a provider give back more than it took: the books record it, and no segment
// could prove it.
func overRefunded(w *world) {
	if w.Advance == nil {
		w.Skip("it takes more than a year")
	}
	b := newBooks(w)
	b.charge("ch_plain")
	over := b.charge("ch_over")
	for i := range 3 {
		b.refund(fmt.Sprintf("re_%d", i), over, w.home)
	}
	w.pass(audit.MinKeepBooks + 24*time.Hour)
	b.idle()
	done, err := b.exporter(w.Audit(w.home), b.bucket).Round(w.ctx)
	require.NoError(w, err)
	report := b.verify()
	require.Empty(w, report.Failures)
	require.Equal(w, 1, done.Left)
	require.Equal(w, []string{"ch_over", "re_0", "re_1", "re_2"}, idsOf(b.rows()))
	require.Equal(w, report.Regions[0].Carried, b.balanced())
}

// liar reports that nothing was carried forward.
type liar struct{ audit.Store }

func (liar) Carried(context.Context, string, ledger.AccountKey, int) ([]ledger.Balance, error) {
	return nil, nil
}

func unbalanced(w *world) {
	if w.Advance == nil {
		w.Skip("it takes more than a year")
	}
	b := newBooks(w)
	round := func(s audit.Store) {
		b.transfer(fmt.Sprintf("tr_%d", len(b.ids)))
		w.pass(audit.MinKeepBooks + 24*time.Hour)
		b.idle()
		done, err := b.exporter(s, b.bucket).Round(w.ctx)
		require.NoError(w, err)
		require.Equal(w, 1, done.Left)
	}
	round(w.Audit(w.home))
	round(w.Audit(w.home))
	require.Empty(w, b.verify().Failures)
	whole := b.bucket.Clone()
	round(liar{w.Audit(w.home)})
	report := b.verify()
	require.Len(w, report.Failures, 1)
	require.Equal(w, audit.Unbalanced, report.Failures[0].Class)
	require.EqualValues(w, 3, report.Failures[0].Number)

	b.bucket = whole
	b.bucket.Remove(b.bucket.Names()[0])
	var classes []audit.Class
	for _, f := range b.verify().Failures {
		classes = append(classes, f.Class)
	}
	require.Equal(w, []audit.Class{audit.Removed, audit.Unbalanced}, classes)
}
