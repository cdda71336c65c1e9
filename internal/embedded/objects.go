package embedded

import (
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// Object implements [claim.Store].
func (v *View) Object(ctx context.Context, tenant, home, id string) (claim.Record, time.Time, bool, error) {
	code, err := v.reach(ctx, home)
	if err != nil {
		return claim.Record{}, time.Time{}, false, err
	}
	if err := v.db.enter(ctx); err != nil {
		return claim.Record{}, time.Time{}, false, err
	}
	defer v.db.leave()
	rec, err := v.db.readObject(tenant, home, code, id)
	if err != nil || rec == nil {
		return claim.Record{}, v.db.clock.now(), false, err
	}
	return *rec, v.db.clock.now(), true, nil
}

// ByObject reads the claim of an object of any tenant with authority. A row past its
// tombstone is returned.
func (v *View) ByObject(ctx context.Context, home, id string) (claim.Record, bool, error) {
	code, err := v.reach(ctx, home)
	if err != nil {
		return claim.Record{}, false, err
	}
	if err := v.db.enter(ctx); err != nil {
		return claim.Record{}, false, err
	}
	defer v.db.leave()
	rec, err := v.db.findObject(home, code, id)
	if err != nil || rec == nil {
		return claim.Record{}, false, err
	}
	return *rec, true, nil
}

// readObject finds a tenant's row by its minted id, nil if there is none.
func (db *DB) readObject(tenant, home string, code claim.RegionCode, id string) (*claim.Record, error) {
	rec, err := db.findObject(home, code, id)
	if err != nil || rec == nil || rec.Key.Tenant != tenant {
		return nil, err // do not reveal another tenant's object
	}
	return rec, nil
}

// findObject finds a row by its minted id, nil if there is none.
func (db *DB) findObject(home string, code claim.RegionCode, id string) (*claim.Record, error) {
	if checkName("id", id) != nil {
		return nil, nil // nobody has such an object
	}
	key, found, err := db.keyOf(code, id)
	if err != nil || !found {
		return nil, err
	}
	rec, err := db.readSynced(home, code, key)
	if err != nil || rec == nil || rec.Minted.ID != id {
		return nil, err // replaced or swept between the two reads
	}
	return rec, nil
}

// keyOf returns the key of an object: from its booking, if one has its id; from its
// provider call, while that is not settled; else from its own row.
func (db *DB) keyOf(code claim.RegionCode, id string) (key claim.Key, found bool, err error) {
	// The step that deletes the provider call adds one of the others: a reader that
	// found none of them before finds one after it.
	for _, table := range [...]byte{tableLedger, tableObject, providerCalls.row, tableLedger, tableObject} {
		_, err := db.get(appendMessage(nil, table, code, id), func(value []byte) (err error) {
			switch table {
			case tableLedger:
				key, found, err = bookedFor(value)
			case tableObject:
				key, found = readOwner(value)
			default:
				key, found, err = calledFor(value)
			}
			if err == nil && !found && table != tableLedger {
				err = errCutShort
			}
			if err != nil {
				return damaged("what names the key of", id, err)
			}
			return nil
		})
		if err != nil || found {
			return key, found, err
		}
	}
	return claim.Key{}, false, nil
}

// putObject writes the row with an object's key once its provider call is gone, unless
// its booking has it. It deletes the row of a replaced object.
func (db *DB) putObject(b *pebble.Batch, s *scratch, code claim.RegionCode, old, next *claim.Record, fx *claim.Effects) error {
	if fx.Finish && old.State == claim.InFlight && !names(fx.Post, next) {
		s.key = appendMessage(s.key[:0], tableObject, code, next.Minted.ID)
		s.value = appendOwner(s.value[:0], next.Key)
		if err := b.Set(s.key, s.value, nil); err != nil {
			return unavailable(err)
		}
	}
	if old == nil || old.Minted.ID == next.Minted.ID {
		return nil
	}
	s.key = appendMessage(s.key[:0], tableObject, code, old.Minted.ID)
	if err := b.Delete(s.key, nil); err != nil {
		return unavailable(err)
	}
	return nil
}

// names reports whether a booking has the id of a claim's object, and so has its key.
func names(post *ledger.Transaction, r *claim.Record) bool {
	return post != nil && post.ID == r.Minted.ID && post.Tenant == r.Key.Tenant
}
