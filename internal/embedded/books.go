package embedded

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// Old books leave for the segments of the audit. A step that deletes transactions carries their
// sums forward and moves the chain, in one batch, under auditMu. Who goes from an index row to its
// transaction holds auditMu for reading.

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
		leave, err := v.mayLeave(ctx, home, family, ids, staying)
		if err != nil {
			return page, err
		}
		if leave {
			page.Transactions = append(page.Transactions, family...)
		}
	}
	return page, nil
}

// stayingObjects are those of transactions that stay for ever.
func (v *View) stayingObjects(ctx context.Context, home string) (map[string]bool, error) {
	all, err := v.booked(ctx, home, math.MaxInt, func(t *ledger.Transaction) bool { return !t.Kind.Leaves() })
	objects := map[string]bool{}
	for i := range all {
		objects[all[i].Object] = true
	}
	return objects, err
}

// mayLeave reports whether transactions are all among ids and may leave together. The caller
// holds auditMu or can bear that they change.
func (v *View) mayLeave(ctx context.Context, home string, all []ledger.Transaction, ids, staying map[string]bool) (bool, error) {
	code := v.db.regions[home]
	for i := range all {
		t := &all[i]
		if !ids[t.ID] || t.Region != home || !t.Kind.Leaves() || t.Reverses != "" && !ids[t.Reverses] || t.Kind != ledger.Refund && staying[t.Object] {
			return false, nil
		}
		for _, r := range v.db.order {
			reversals, err := v.db.reversals(r.Name, r.Code, t.ID)
			if err != nil {
				return false, err
			}
			for j := range reversals {
				if r.Name != home || !ids[reversals[j].ID] {
					return false, nil
				}
			}
		}
		if t.Kind != ledger.Charge && t.Kind != ledger.Transfer {
			continue
		}
		unlock := v.db.lockUnpaid(code, t.Object)
		u, err := v.db.readUnpaid(home, code, t.Object)
		unlock()
		if err != nil || u != nil {
			return false, err
		}
	}
	return true, ctx.Err()
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
	if err := v.db.enter(ctx); err != nil {
		return false, err
	}
	defer v.db.leave()
	v.db.auditMu.Lock()
	defer v.db.auditMu.Unlock()
	code := v.db.regions[home]
	c, found, err := v.db.readChain(home, code)
	if err != nil || !found || c.Version != was {
		return false, err
	}
	among := make(map[string]bool, len(ids))
	for i := range all {
		among[all[i].ID] = v.db.clock.now().Sub(all[i].At) >= audit.MinKeepBooks
	}
	if leave, err := v.mayLeave(ctx, home, all, among, staying); err != nil || !leave {
		return false, err
	}
	c.Version, c.Number, c.Digest, c.Books = was+1, next.Number, next.Digest, next.Books
	b := v.db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if err := v.db.forgetBooks(b, home, code, &c, all); err != nil {
		return false, err
	}
	err = v.db.commit(b, pebble.Sync)
	return err == nil, err
}

func (db *DB) forgetBooks(b *pebble.Batch, home string, code claim.RegionCode, c *audit.Chain, all []ledger.Transaction) error {
	if err := putChain(b, code, c); err != nil {
		return err
	}
	sums, err := db.carried(home, code)
	if err != nil {
		return err
	}
	for i := range all {
		t := &all[i]
		sums.Add(t)
		keys := [][]byte{appendMessage(nil, tableLedger, code, t.ID), appendTimed(nil, tableBooks, code, micros(t.At), t.ID)}
		if t.Arrival() {
			keys = append(keys, appendScoped(nil, tableArrival, code, t.Provider, t.ProviderRef))
		}
		if t.Reverses != "" {
			keys = append(keys, appendScoped(nil, tableReversal, code, t.Reverses, t.ID))
		}
		for _, key := range keys {
			if err := b.Delete(key, nil); err != nil {
				return unavailable(err)
			}
		}
	}
	for key, balance := range sums {
		value, err := json.Marshal(balance)
		if err != nil {
			return err
		}
		if err := b.Set(appendScoped(nil, tableCarried, code, string(key.Account), key.Currency), value, nil); err != nil {
			return unavailable(err)
		}
	}
	return nil
}

// carried reads what the transactions have left behind that have left.
func (db *DB) carried(home string, code claim.RegionCode) (ledger.Sums, error) {
	sums := ledger.Sums{}
	prefix := appendRegion(nil, tableCarried, code)
	err := db.scan(prefix, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		var b ledger.Balance
		if err := json.Unmarshal(value, &b); err != nil {
			return false, damaged("carried balance", home+" "+string(k), err)
		}
		sums[b.Key()] = b
		return true, nil
	})
	return sums, err
}

// Carried implements [ledger.Store].
func (v *View) Carried(ctx context.Context, region string, after ledger.AccountKey, limit int) (page []ledger.Balance, err error) {
	code, err := v.reach(ctx, region)
	if err != nil || limit <= 0 {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	sums, err := v.db.carried(region, code)
	if err != nil {
		return nil, err
	}
	return sums.Page(after, limit), v.db.afterScan()
}
