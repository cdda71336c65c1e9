package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// lockBooks takes the locks of a transaction's id and arrival, until unlock: they are
// looked up and written under them.
func (db *DB) lockBooks(code claim.RegionCode, t *ledger.Transaction) (unlock func()) {
	indexes := []int{db.books.index(code, claim.Key{Value: t.ID})}
	if t.Arrival() {
		indexes = append(indexes, db.books.index(code, claim.Key{Tenant: t.Provider, Value: t.ProviderRef}))
	}
	return db.books.lockAll(indexes)
}

// arrived returns the id of the transaction that has booked t's arrival, "" if there
// is none. The caller holds its lock.
func (db *DB) arrived(code claim.RegionCode, t *ledger.Transaction) (id string, err error) {
	if !t.Arrival() {
		return "", nil
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = appendScoped(s.key[:0], tableArrival, code, t.Provider, t.ProviderRef)
	_, err = db.probe(s.key, func(value []byte) error {
		id = string(value)
		return nil
	})
	return id, err
}

// readTransaction reads one row, nil if there is none. The caller holds its lock.
func (db *DB) readTransaction(region string, code claim.RegionCode, id string) (t *ledger.Transaction, err error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = appendMessage(s.key[:0], tableLedger, code, id)
	_, err = db.probe(s.key, func(value []byte) error {
		t, err = decodeTransaction(region, id, value)
		return err
	})
	return t, err
}

// putTransaction writes a new row with its indexes. If it has the id of a claim's
// object, key is that claim's, else "". The caller holds the lock of its id and has
// found it free.
func putTransaction(b *pebble.Batch, s *scratch, code claim.RegionCode, t *ledger.Transaction, key string) error {
	if err := checkName("transaction", t.ID); err != nil {
		return err
	}
	s.key = appendMessage(s.key[:0], tableLedger, code, t.ID)
	s.value = encodeTransaction(s.value[:0], t, key)
	if err := b.Set(s.key, s.value, nil); err != nil {
		return err
	}
	s.key = appendTimed(s.key[:0], tableBooks, code, micros(t.At), t.ID)
	if err := b.Set(s.key, nil, nil); err != nil {
		return err
	}
	if t.Arrival() {
		if err := checkName("provider", t.Provider); err != nil {
			return err
		}
		s.key = appendScoped(s.key[:0], tableArrival, code, t.Provider, t.ProviderRef)
		if err := b.Set(s.key, []byte(t.ID), nil); err != nil {
			return err
		}
	}
	if t.Reverses == "" {
		return nil
	}
	if err := checkName("reversed transaction", t.Reverses); err != nil {
		return err
	}
	s.key = appendScoped(s.key[:0], tableReversal, code, t.Reverses, t.ID)
	return b.Set(s.key, nil, nil)
}

// Post implements [ledger.Store].
func (v *View) Post(ctx context.Context, t ledger.Transaction) (posted bool, err error) {
	return v.post(ctx, t, nil)
}

// post books t, and writes events of one key with it.
func (v *View) post(ctx context.Context, t ledger.Transaction, tell []outbox.Message) (posted bool, err error) {
	if err := t.Validate(); err != nil {
		return false, fmt.Errorf("%w: %w", claim.ErrUnstorable, err)
	}
	code, err := v.reach(ctx, t.Region)
	if err != nil {
		return false, err
	}
	if err := v.db.enter(ctx); err != nil {
		return false, err
	}
	defer v.db.leave()
	if len(tell) > 0 { // in the order of locks: row, then books
		lock := v.db.rows.of(code, ownerOf(&tell[0]))
		lock.Lock()
		defer lock.Unlock()
	}
	defer v.db.lockBooks(code, &t)()
	there, err := v.db.readTransaction(t.Region, code, t.ID)
	switch {
	case err != nil:
		return false, err
	case there != nil && there.Same(t):
		return false, nil
	case there != nil:
		return false, fmt.Errorf("%w: %s of %d %s, booked at %v", ledger.ErrConflict, t.ID, there.Amount, there.Currency, there.At)
	}
	if as, err := v.db.arrived(code, &t); err != nil || as != "" {
		if err == nil {
			err = fmt.Errorf("%w: %s is booked as %s", ledger.ErrConflict, t.ProviderRef, as)
		}
		return false, err
	}
	t.At = v.db.clock.now()
	b := v.db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	s := scratches.Get().(*scratch)
	defer s.release()
	if err := putTransaction(b, s, code, &t, ""); err != nil {
		return false, err
	}
	tell = slices.Clone(tell)
	for i := range tell {
		tell[i].CreatedAt, tell[i].Due = t.At, t.At
	}
	if err := v.db.appendEvents(b, s, code, tell); err != nil {
		return false, err
	}
	err = v.db.commit(b, pebble.Sync)
	return err == nil, err
}

// Transaction implements [ledger.Store].
func (v *View) Transaction(ctx context.Context, region, id string) (ledger.Transaction, bool, error) {
	found, err := v.Named(ctx, region, []string{id})
	if err != nil || len(found) == 0 {
		return ledger.Transaction{}, false, err
	}
	return found[0], true, nil
}

// Named implements [ledger.Store].
func (v *View) Named(ctx context.Context, region string, ids []string) (all []ledger.Transaction, err error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	for _, id := range ids {
		lock := v.db.books.of(code, claim.Key{Value: id})
		lock.RLock()
		t, err := v.db.readTransaction(region, code, id)
		lock.RUnlock()
		if err != nil {
			return nil, err
		}
		if t != nil {
			all = append(all, *t)
		}
	}
	return all, nil
}

// indexed reads the transaction that an index row names, for scans, which hold no locks.
func (db *DB) indexed(region string, code claim.RegionCode, id string) (t *ledger.Transaction, err error) {
	_, err = db.get(appendMessage(nil, tableLedger, code, id), func(value []byte) error {
		t, err = decodeTransaction(region, id, value)
		return err
	})
	if err == nil && t == nil {
		err = damaged("index row", id, errors.New("its transaction is missing"))
	}
	return t, err
}

// Transactions implements [ledger.Store].
func (v *View) Transactions(ctx context.Context, region string, after ledger.Position, before time.Time, limit int) ([]ledger.Transaction, error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	if limit <= 0 {
		return nil, nil
	}
	prefix := appendRegion(nil, tableBooks, code)
	from, to := prefix, prefixEnd(prefix)
	if after != (ledger.Position{}) {
		from = append(appendTimed(nil, tableBooks, code, micros(after.At), after.ID), 0) // the next possible key
	}
	if !before.IsZero() {
		to = appendTimed(nil, tableBooks, code, micros(before), "")
	}
	if bytes.Compare(from, to) >= 0 {
		return nil, nil
	}
	v.db.auditMu.RLock()
	defer v.db.auditMu.RUnlock()
	var ts []ledger.Transaction
	err = v.db.scan(from, to, func(k, _ []byte) (bool, error) {
		_, id, ok := readTimed(k)
		if !ok {
			return false, damaged("index row", string(k), errors.New("it is truncated"))
		}
		t, err := v.db.indexed(region, code, id)
		if err != nil {
			return false, err
		}
		ts = append(ts, *t)
		return len(ts) < limit, ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return ts, v.db.afterScan()
}

// Reversals implements [ledger.Store]. It reads all regions.
func (v *View) Reversals(ctx context.Context, id string) (ts []ledger.Transaction, err error) {
	err = v.everywhere(ctx, func(r claim.Region) error {
		some, err := v.db.reversals(r.Name, r.Code, id)
		ts = append(ts, some...)
		return err
	})
	return ts, err
}

// ReversalsAt implements [ledger.Store].
func (v *View) ReversalsAt(ctx context.Context, region, id string) ([]ledger.Transaction, error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	v.db.auditMu.RLock()
	defer v.db.auditMu.RUnlock()
	ts, err := v.db.reversals(region, code, id)
	if err != nil {
		return nil, err
	}
	return ts, v.db.afterScan()
}

// Arrivals implements [ledger.Store]. It reads all regions.
func (v *View) Arrivals(ctx context.Context, provider, ref string) (ts []ledger.Transaction, err error) {
	if ref == "" {
		return nil, nil
	}
	of := ledger.Transaction{Kind: ledger.Charge, Provider: provider, ProviderRef: ref}
	err = v.everywhere(ctx, func(r claim.Region) error {
		id, err := v.db.arrived(r.Code, &of)
		if err != nil || id == "" {
			return err
		}
		t, err := v.db.indexed(r.Name, r.Code, id)
		if err == nil {
			ts = append(ts, *t)
		}
		return err
	})
	return ts, err
}

// everywhere reads the books of each region.
func (v *View) everywhere(ctx context.Context, read func(claim.Region) error) error {
	var names []string
	for _, r := range v.db.order {
		names = append(names, r.Name)
	}
	if err := v.reachAll(ctx, names); err != nil {
		return err
	}
	if err := v.db.enter(ctx); err != nil {
		return err
	}
	defer v.db.leave()
	v.db.auditMu.RLock()
	defer v.db.auditMu.RUnlock()
	for _, r := range v.db.order {
		if err := read(r); err != nil {
			return err
		}
	}
	return v.db.afterScan()
}

// reversals reads the reversals of a transaction in the books of region.
func (db *DB) reversals(region string, code claim.RegionCode, id string) (ts []ledger.Transaction, err error) {
	prefix := appendScoped(nil, tableReversal, code, id, "")
	err = db.scan(prefix, prefixEnd(prefix), func(k, _ []byte) (bool, error) {
		t, err := db.indexed(region, code, string(k[len(prefix):]))
		if err == nil {
			ts = append(ts, *t)
		}
		return err == nil, err
	})
	return ts, err
}

// Balances implements [ledger.Store]. It scans the region's books for each page.
func (v *View) Balances(ctx context.Context, region string, after ledger.AccountKey, limit int) ([]ledger.Balance, error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	if limit <= 0 {
		return nil, nil
	}
	v.db.auditMu.RLock()
	defer v.db.auditMu.RUnlock()
	sums, err := v.db.carried(region, code)
	if err != nil {
		return nil, err
	}
	prefix := appendRegion(nil, tableLedger, code)
	err = v.db.scan(prefix, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		t, err := decodeTransaction(region, string(k[len(prefix):]), value)
		if err == nil {
			sums.Add(t)
		}
		return err == nil, errors.Join(err, ctx.Err())
	})
	if err != nil {
		return nil, err
	}
	return sums.Page(after, limit), v.db.afterScan()
}
