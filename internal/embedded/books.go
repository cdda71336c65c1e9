package embedded

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/ledger"
)

// Old books leave for the segments of the audit. A step that deletes transactions carries their
// sums forward and advances the chain, in one batch, under the lock of chains. A reader that
// follows an index row to its transaction holds that lock for reading.

// LeavingBooks implements [audit.Store]. It scans the region's books once for each page.
func (v *View) LeavingBooks(ctx context.Context, home string, after ledger.Position, before time.Time, limit int) (page audit.BooksPage, err error) {
	rows, err := v.Transactions(ctx, home, after, before, limit)
	if err != nil || len(rows) == 0 {
		return page, err
	}
	page.Next, page.More = rows[len(rows)-1].Position(), len(rows) == limit
	staying, err := v.stayingObjects(ctx, home)
	if err != nil {
		return page, err
	}
	for _, p := range rows {
		head, found := p, true
		if p.Reverses != "" {
			if head, found, err = v.Transaction(ctx, home, p.Reverses); err != nil {
				return page, err
			}
		}
		family := []ledger.Transaction{head}
		if found && head.Kind != ledger.Refund {
			refunds, err := v.Reversals(ctx, head.ID)
			if err != nil {
				return page, err
			}
			family = append(family, refunds...)
		}
		ids := map[string]bool{}
		for _, t := range family {
			ids[t.ID] = found && !p.Position().Before(t.Position())
		}
		err := v.in(ctx, home, func(t *tx) {
			t.hold(t.chain.RLocker())
			if t.mayLeave(family, ids, staying) {
				page.Transactions = append(page.Transactions, family...)
			}
		})
		if err != nil {
			return page, err
		}
	}
	return page, nil
}

// stayingObjects returns the objects of transactions that stay for ever.
func (v *View) stayingObjects(ctx context.Context, home string) (map[string]bool, error) {
	all, err := v.booked(ctx, home, math.MaxInt, func(t *ledger.Transaction) bool { return !t.Kind.Leaves() })
	objects := map[string]bool{}
	for i := range all {
		objects[all[i].Object] = true
	}
	return objects, err
}

// mayLeave reports whether transactions are all among ids and may leave together.
func (t *tx) mayLeave(all []ledger.Transaction, ids, staying map[string]bool) bool {
	for i := range all {
		b := &all[i]
		if !ids[b.ID] || b.Region != t.region || !b.Kind.Leaves() || b.Reverses != "" && !ids[b.Reverses] || b.Kind != ledger.Refund && staying[b.Object] {
			return false
		}
		alone := true
		for _, r := range t.order {
			t.of(r.Name).reversals(b.ID, func(reversal *ledger.Transaction) bool {
				alone = reversal != nil && r.Name == t.region && ids[reversal.ID]
				return alone
			})
			if !alone {
				return false
			}
		}
		if b.Kind == ledger.Charge || b.Kind == ledger.Transfer {
			if u := t.syncedUnpaid(b.Object); u != nil && t.remembers(u) {
				return false
			}
		}
	}
	return t.err == nil
}

// ForgetBooks implements [audit.Store].
func (v *View) ForgetBooks(ctx context.Context, home string, was uint64, next audit.Chain, ids []string) (moved bool, err error) {
	all, err := v.Named(ctx, home, ids)
	if err != nil || len(all) != len(ids) {
		return false, err
	}
	staying, err := v.stayingObjects(ctx, home)
	if err != nil {
		return false, err
	}
	err = v.in(ctx, home, func(t *tx) {
		t.hold(&t.chain)
		var c audit.Chain
		version := t.versioned(t.key(tableChain), &c)
		among := make(map[string]bool, len(ids))
		for i := range all {
			among[all[i].ID] = t.clock.now().Sub(all[i].At) >= audit.MinKeepBooks
		}
		if version == 0 || version != was || !t.mayLeave(all, among, staying) {
			return
		}
		c.Version, c.Number, c.Digest, c.Books = was+1, next.Number, next.Digest, next.Books
		moved = t.putVersioned(t.key(tableChain), was, c)
		t.forget(all)
	})
	return moved && err == nil, err
}

// forget deletes transactions with their indexes, and carries their sums forward. It deletes a
// refusal with its booking: without the booking it would look final.
func (t *tx) forget(all []ledger.Transaction) {
	var locks []int
	for i := range all {
		locks = append(locks, t.books.index(t.code, bookOf(all[i].Object)))
	}
	t.lock(t.books, locks...)
	sums := t.carried()
	for i := range all {
		b := &all[i]
		sums.Add(b)
		if u := t.unpaid(b.Object); u != nil && !t.remembers(u) {
			t.delete(t.key(tableUnpaid, b.Object))
		}
		t.delete(t.key(tableLedger, b.ID))
		t.delete(t.timedKey(tableBooks, micros(b.At), b.ID))
		if b.Incoming() {
			t.delete(t.key(tableArrival, b.Provider, b.ProviderRef))
		}
		if b.Reverses != "" {
			t.delete(t.key(tableReversal, b.Reverses, b.ID))
		}
		if isAbout(b.Kind) {
			t.delete(t.key(tableAbout, b.Object, b.ID))
		}
		for _, key := range t.listed(b) {
			t.delete(key)
		}
	}
	for key, balance := range sums {
		value, err := json.Marshal(balance)
		t.fail(err)
		t.set(t.key(tableCarried, string(key.Account), key.Currency), value)
	}
}

// carried reads the sums of the transactions that were deleted.
func (t *tx) carried() ledger.Sums {
	sums, prefix := ledger.Sums{}, t.key(tableCarried)
	t.scan(prefix, prefixEnd(prefix), func(k, value []byte) bool {
		var b ledger.Balance
		if err := json.Unmarshal(value, &b); err != nil {
			t.fail(damaged(k, err))
		}
		sums[b.Key()] = b
		return true
	})
	return sums
}

// Carried implements [ledger.Store].
func (v *View) Carried(ctx context.Context, region string, after ledger.AccountKey, limit int) (page []ledger.Balance, err error) {
	err = v.on(ctx, region, func(t *tx) {
		page = t.carried().Page(after, max(limit, 0))
		t.durable()
	})
	return page, err
}
