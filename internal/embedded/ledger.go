package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// bookOf names the lock of a transaction by its id. bookLocks are those of its id and its
// incoming payment, which are looked up and written under them; none for nil.
func bookOf(id string) claim.Key { return claim.Key{Value: id} }

func (t *tx) bookLocks(b *ledger.Transaction) (locks []int) {
	if b != nil {
		locks = append(locks, t.books.index(t.code, bookOf(b.ID)))
		if b.Incoming() {
			locks = append(locks, t.books.index(t.code, claim.Key{Tenant: b.Provider, Value: b.ProviderRef}))
		}
	}
	return locks
}

// arrived returns the id of the transaction that has booked the payment that b is of, "" if there
// is none. The caller holds its lock.
func (t *tx) arrived(b *ledger.Transaction) (id string) {
	if b.Incoming() {
		t.read(t.key(tableArrival, b.Provider, b.ProviderRef), func(value []byte) error {
			id = string(value)
			return nil
		})
	}
	return id
}

// transaction reads one row, nil if there is none. The caller holds its lock.
func (t *tx) transaction(id string) *ledger.Transaction {
	return row(t, t.key(tableLedger, id), func(m *storev1.Transaction) *ledger.Transaction { return fromTransaction(t.region, id, m) })
}

// book writes a new transaction with its indexes; false if it is there. Another one in its
// place is a conflict. The caller holds its locks.
func (t *tx) book(b *ledger.Transaction) (fresh bool) {
	if err := b.Validate(); err != nil {
		t.fail(fmt.Errorf("%w: %w", claim.ErrUnstorable, err))
	}
	switch {
	case b.Kind != ledger.Charge:
		b.Created = time.Time{}
	case b.Created.IsZero():
		b.Created = b.At
	}
	there, as := t.transaction(b.ID), t.arrived(b)
	switch {
	case there != nil && there.Same(*b):
		return false
	case there != nil:
		t.fail(fmt.Errorf("%w: %s of %d %s, booked at %v", ledger.ErrConflict, b.ID, there.Amount, there.Currency, there.At))
	case as != "":
		t.fail(fmt.Errorf("%w: %s is booked as %s", ledger.ErrConflict, b.ProviderRef, as))
	}
	t.fail(checkName("transaction", b.ID))
	t.put(t.key(tableLedger, b.ID), toTransaction(b))
	t.set(t.timedKey(tableBooks, micros(b.At), b.ID), nil)
	if b.Incoming() {
		t.fail(checkName("provider", b.Provider))
		t.set(t.key(tableArrival, b.Provider, b.ProviderRef), []byte(b.ID))
	}
	if b.Reverses != "" {
		t.fail(checkName("reversed transaction", b.Reverses))
		t.set(t.key(tableReversal, b.Reverses, b.ID), nil)
	}
	if isAbout(b.Kind) {
		t.fail(checkName("object", b.Object))
		t.set(t.key(tableAbout, b.Object, b.ID), nil)
	}
	for _, key := range t.listed(b) {
		t.set(key, nil)
	}
	return true
}

// listed are the keys by which [View.Charges] finds b.
func (t *tx) listed(b *ledger.Transaction) (keys [][]byte) {
	if b.Kind != ledger.Charge {
		return nil
	}
	keys = append(keys, chargeKey(t.key(tableCharge, b.Tenant, ""), b.Created, b.ID))
	if b.Order != "" {
		keys = append(keys, chargeKey(t.key(tableOrder, b.Tenant, b.Order, ""), b.Created, b.ID))
	}
	return keys
}

// chargeKey orders charges behind prefix by a time, and then by id.
func chargeKey(prefix []byte, at time.Time, id string) []byte {
	return append(binary.BigEndian.AppendUint64(prefix, uint64(micros(at))), id...)
}

// isAbout reports whether [View.About] returns transactions of k. A charge writes no row for it.
func isAbout(k ledger.Kind) bool {
	return k != ledger.Charge && k != ledger.Transfer && k != ledger.Refund
}

// Post implements [ledger.Store].
func (v *View) Post(ctx context.Context, b ledger.Transaction) (posted bool, err error) {
	return v.Book(ctx, b, nil)
}

// Book implements [notice.Store]: it posts b, and emits events of one key with it.
func (v *View) Book(ctx context.Context, b ledger.Transaction, emit []outbox.Message) (posted bool, err error) {
	emit = slices.Clone(emit)
	err = v.on(ctx, b.Region, func(t *tx) {
		if len(emit) > 0 { // in the order of locks: row, then books
			t.lock(t.rows, t.rows.index(t.code, ownerOf(&emit[0])))
		}
		t.lock(t.books, t.bookLocks(&b)...)
		t.share()
		b.At = t.clock.now()
		if posted = t.book(&b); !posted {
			return
		}
		for i := range emit {
			emit[i].CreatedAt, emit[i].Due = b.At, b.At
		}
		t.appendEvents(emit)
	})
	return posted && err == nil, err
}

// Waits implements [notice.Store].
func (v *View) Waits(ctx context.Context, region, tenant, ids string) (key string, err error) {
	err = v.on(ctx, region, func(t *tx) {
		var latest *outbox.Message
		from := t.key(events.row, ids)
		each(t, from, prefixEnd(from), func(_ []byte, m *storev1.Message) bool {
			if row := fromMessage(region, "", m); row.Tenant == tenant && (latest == nil || row.CreatedAt.After(latest.CreatedAt)) {
				key, latest = row.Key, row
			}
			return true
		})
	})
	return key, err
}

// Transaction implements [ledger.Store].
func (v *View) Transaction(ctx context.Context, region, id string) (b ledger.Transaction, found bool, err error) {
	return first(v.Named(ctx, region, []string{id}))
}

// Named implements [ledger.Store].
func (v *View) Named(ctx context.Context, region string, ids []string) (all []ledger.Transaction, err error) {
	err = v.on(ctx, region, func(t *tx) {
		for _, id := range ids {
			b := synced(t, t.books.of(t.code, bookOf(id)), func() *ledger.Transaction { return t.transaction(id) })
			if b != nil {
				all = append(all, *b)
			}
		}
	})
	return all, err
}

// indexed reads the transaction that an index row names, for scans, which hold no locks.
func (t *tx) indexed(id string) *ledger.Transaction {
	b := t.transaction(id)
	if b == nil {
		t.fail(damaged([]byte(id), errors.New("an index names it, and it is missing")))
	}
	return b
}

// Transactions implements [ledger.Store].
func (v *View) Transactions(ctx context.Context, region string, after ledger.Position, before time.Time, limit int) ([]ledger.Transaction, error) {
	return page(ctx, v, region, limit, func(t *tx, add func(*ledger.Transaction) bool) {
		from := t.key(tableBooks)
		to := prefixEnd(from)
		if after != (ledger.Position{}) {
			from = behind(t.timedKey(tableBooks, micros(after.At), after.ID))
		}
		if !before.IsZero() {
			to = t.timedKey(tableBooks, micros(before), "")
		}
		t.hold(t.chain.RLocker()) // so that each index row has its transaction
		if bytes.Compare(from, to) < 0 {
			t.scan(from, to, func(k, _ []byte) bool {
				_, id, err := readTimed(k)
				t.fail(err)
				return add(t.indexed(id))
			})
		}
	})
}

// Charges implements [ledger.Store].
func (v *View) Charges(ctx context.Context, region string, c ledger.Charges) ([]ledger.Transaction, error) {
	return page(ctx, v, region, c.Limit, func(t *tx, add func(*ledger.Transaction) bool) {
		prefix := t.key(tableCharge, c.Tenant, "")
		if c.Order != "" {
			prefix = t.key(tableOrder, c.Tenant, c.Order, "")
		}
		from, to := prefix, prefixEnd(prefix)
		if !c.After.At.IsZero() {
			from = behind(chargeKey(slices.Clone(prefix), c.After.At, c.After.ID))
		}
		if !c.Before.At.IsZero() {
			to = chargeKey(slices.Clone(prefix), c.Before.At, c.Before.ID)
		}
		if bytes.Compare(from, to) >= 0 {
			return
		}
		t.hold(t.chain.RLocker())
		see := func(k, _ []byte) bool { return add(t.indexed(string(k[len(prefix)+8:]))) }
		if c.Latest {
			t.scanBack(from, to, see)
		} else {
			t.scan(from, to, see)
		}
	})
}

// ReversalsAt implements [ledger.Store].
func (v *View) ReversalsAt(ctx context.Context, region, id string) ([]ledger.Transaction, error) {
	return page(ctx, v, region, math.MaxInt, func(t *tx, add func(*ledger.Transaction) bool) {
		t.hold(t.chain.RLocker())
		t.reversals(id, add)
	})
}

// Reversals implements [ledger.Store]. It reads all regions.
func (v *View) Reversals(ctx context.Context, ids ...string) ([]ledger.Transaction, error) {
	return v.everywhere(ctx, func(t *tx, add func(*ledger.Transaction) bool) {
		for _, id := range ids {
			t.reversals(id, add)
		}
	})
}

func (t *tx) reversals(id string, add func(*ledger.Transaction) bool) {
	prefix := t.key(tableReversal, id, "")
	t.scan(prefix, prefixEnd(prefix), func(k, _ []byte) bool { return add(t.indexed(string(k[len(prefix):]))) })
}

// Incoming implements [ledger.Store]. It reads all regions.
func (v *View) Incoming(ctx context.Context, provider, ref string) ([]ledger.Transaction, error) {
	return v.everywhere(ctx, func(t *tx, add func(*ledger.Transaction) bool) {
		if id := t.arrived(&ledger.Transaction{Kind: ledger.Charge, Provider: provider, ProviderRef: ref}); id != "" {
			add(t.indexed(id))
		}
	})
}

// everywhere reads the books of all regions.
func (v *View) everywhere(ctx context.Context, read func(t *tx, add func(*ledger.Transaction) bool)) ([]ledger.Transaction, error) {
	var names []string
	for _, r := range v.order {
		names = append(names, r.Name)
	}
	if err := v.reach(ctx, names...); err != nil {
		return nil, err
	}
	return page(ctx, v, v.name, math.MaxInt, func(t *tx, add func(*ledger.Transaction) bool) {
		t.hold(t.chain.RLocker())
		for _, r := range names {
			read(t.of(r), add)
		}
	})
}

// GhostRefund implements [ledger.Store].
func (v *View) GhostRefund(ctx context.Context, region, object string) (b ledger.Transaction, found bool, err error) {
	all, err := v.About(ctx, region, object)
	return first(slices.DeleteFunc(all, func(b ledger.Transaction) bool { return b.Kind != ledger.GhostRefund }), err)
}

// About implements [ledger.Store].
func (v *View) About(ctx context.Context, region string, objects ...string) ([]ledger.Transaction, error) {
	all, err := page(ctx, v, region, math.MaxInt, func(t *tx, add func(*ledger.Transaction) bool) {
		t.hold(t.chain.RLocker())
		for _, object := range objects {
			prefix := t.key(tableAbout, object, "")
			t.scan(prefix, prefixEnd(prefix), func(k, _ []byte) bool { return add(t.indexed(string(k[len(prefix):]))) })
		}
	})
	slices.SortFunc(all, func(a, b ledger.Transaction) int { return strings.Compare(a.ID, b.ID) })
	return all, err
}

// Ghosts implements [account.Work]. It scans the region's books: a node calls it after a provider
// was removed from the settings, and an index would be written with each ghost.
func (v *View) Ghosts(ctx context.Context, home, provider, after string, limit int) ([]ledger.Transaction, error) {
	return v.booked(ctx, home, limit, func(b *ledger.Transaction) bool {
		return b.Kind == ledger.Ghost && b.Provider == provider && b.ID > after
	})
}

// booked scans a region's books for up to limit transactions that match, by id.
func (v *View) booked(ctx context.Context, region string, limit int, match func(*ledger.Transaction) bool) ([]ledger.Transaction, error) {
	return page(ctx, v, region, limit, func(t *tx, add func(*ledger.Transaction) bool) {
		t.eachTransaction(func(b *ledger.Transaction) bool { return !match(b) || add(b) })
	})
}

// eachTransaction scans the books of a region, by id.
func (t *tx) eachTransaction(see func(*ledger.Transaction) (more bool)) {
	prefix := t.key(tableLedger)
	each(t, prefix, prefixEnd(prefix), func(k []byte, m *storev1.Transaction) bool {
		return see(fromTransaction(t.region, string(k[len(prefix):]), m))
	})
}

// Balances implements [ledger.Store]. It scans the region's books for each page.
func (v *View) Balances(ctx context.Context, region string, after ledger.AccountKey, limit int) (page []ledger.Balance, err error) {
	err = v.on(ctx, region, func(t *tx) {
		t.hold(t.chain.RLocker())
		sums := t.carried()
		t.eachTransaction(func(b *ledger.Transaction) bool {
			sums.Add(b)
			return true
		})
		page = sums.Page(after, max(limit, 0))
		t.durable()
	})
	return page, err
}
