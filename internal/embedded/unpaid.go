package embedded

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
)

// A [claim.Unpaid] row is written under the lock of its claim, and of its own:
// housekeeping does not know whose the claim was. Its own lock is among those of
// transactions, one of which it replaces.

func (db *DB) lockUnpaid(code claim.RegionCode, object string) (unlock func()) {
	return db.books.lockAll([]int{db.books.index(code, claim.Key{Value: object})})
}

// readUnpaid reads one row, nil if there is none. The caller holds its lock.
func (db *DB) readUnpaid(home string, code claim.RegionCode, object string) (u *claim.Unpaid, err error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = appendScoped(s.key[:0], tableUnpaid, code, "", object)
	_, err = db.probe(s.key, func(value []byte) error {
		u, err = decodeUnpaid(home, object, value)
		return err
	})
	return u, err
}

// Unpaid reads the [claim.Unpaid] row of an object with authority.
func (v *View) Unpaid(ctx context.Context, home, id string) (claim.Unpaid, bool, error) {
	if checkName("id", id) != nil {
		return claim.Unpaid{}, false, nil // nobody has such an object
	}
	code, err := v.reach(ctx, home)
	if err != nil {
		return claim.Unpaid{}, false, err
	}
	if err := v.db.enter(ctx); err != nil {
		return claim.Unpaid{}, false, err
	}
	defer v.db.leave()
	defer v.db.lockUnpaid(code, id)()
	u, err := v.db.readUnpaid(home, code, id)
	if err != nil || u == nil {
		return claim.Unpaid{}, false, err
	}
	return *u, true, nil
}

// sweepUnpaid deletes expired rows.
func (db *DB) sweepUnpaid(home string, code claim.RegionCode, key claim.Key) (bool, error) {
	defer db.lockUnpaid(code, key.Value)()
	u, err := db.readUnpaid(home, code, key.Value)
	if err != nil || u == nil || db.clock.now().Before(u.At.Add(db.policy.RememberFor)) {
		return false, err
	}
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if err := b.Delete(appendScoped(nil, tableUnpaid, code, "", key.Value), nil); err != nil {
		return false, unavailable(err)
	}
	err = db.commit(b, pebble.NoSync)
	return err == nil, err
}
