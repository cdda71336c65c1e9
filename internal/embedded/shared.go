package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/notice"
)

// Brakes, accounts, restores and witnesses are rows of the deployment, as tenants are.
// They change by compare-and-set: a value is the row's version and then the rest as JSON,
// as in the SQL store. A version of 0 is that of a row that is not there.

const versionBytes = 8

// versioned reads a row and returns its version. Its lock must be held.
func (t *tx) versioned(key []byte, into any) (version uint64) {
	t.read(key, func(value []byte) (err error) {
		version, err = decodeVersioned(key, value, into)
		return err
	})
	return version
}

func decodeVersioned(key, value []byte, into any) (version uint64, err error) {
	if len(value) < versionBytes {
		return 0, damaged(key, errTruncated)
	}
	if err := json.Unmarshal(value[versionBytes:], into); err != nil {
		return 0, damaged(key, err)
	}
	return binary.BigEndian.Uint64(value), nil
}

// putVersioned replaces a row if its version is was. Its lock must be held.
func (t *tx) putVersioned(key []byte, was uint64, row any) (changed bool) {
	if t.versioned(key, &json.RawMessage{}) != was {
		return false
	}
	state, err := json.Marshal(row)
	t.fail(err)
	t.set(key, append(binary.BigEndian.AppendUint64(nil, was+1), state...))
	return true
}

func (db *DB) putVersioned(ctx context.Context, key []byte, was uint64, row any) (changed bool, err error) {
	err = db.do(ctx, func(t *tx) {
		t.hold(&t.shared)
		changed = t.putVersioned(key, was, row)
	})
	return changed && err == nil, err
}

// versions reads all rows of a table in the order of their names; see sets the name and
// the version of one.
func versions[T any](ctx context.Context, db *DB, table byte, see func(row *T, name string, version uint64)) (rows []T, err error) {
	err = db.do(ctx, func(t *tx) {
		t.hold(t.shared.RLocker())
		t.scan([]byte{table}, []byte{table + 1}, func(k, value []byte) bool {
			var row T
			version, err := decodeVersioned(k, value, &row)
			t.fail(err)
			see(&row, string(k[1:]), version)
			rows = append(rows, row)
			return true
		})
	})
	return rows, err
}

// Brakes implements [notice.BrakeStore].
func (db *DB) Brakes(ctx context.Context) ([]notice.Brake, time.Time, error) {
	rows, err := versions(ctx, db, tableBrake, func(b *notice.Brake, provider string, version uint64) {
		b.Provider, b.Version = provider, version
	})
	return rows, db.clock.now(), err
}

// PutBrake implements [notice.BrakeStore].
func (db *DB) PutBrake(ctx context.Context, b notice.Brake) (changed bool, err error) {
	return db.putVersioned(ctx, append([]byte{tableBrake}, b.Provider...), b.Version, b)
}

// Accounts implements [account.Store].
func (db *DB) Accounts(ctx context.Context) ([]account.Row, error) {
	return versions(ctx, db, tableAccount, func(r *account.Row, provider string, version uint64) {
		r.Provider, r.Version = provider, version
	})
}

// PutAccount implements [account.Store].
func (db *DB) PutAccount(ctx context.Context, r account.Row) (changed bool, err error) {
	return db.putVersioned(ctx, append([]byte{tableAccount}, r.Provider...), r.Version, r)
}

// Calls implements [account.Work]. Calls are few beside claims: each page reads all due rows.
func (v *View) Calls(ctx context.Context, home, after string, limit int) ([]outbox.Message, error) {
	return page(ctx, v, home, limit, func(t *tx, add func(*outbox.Message) bool) {
		var ids []string
		prefix := t.key(providerCalls.due)
		t.eachPlace(prefix, prefixEnd(prefix), func(d due) bool {
			ids = append(ids, d.id)
			return true
		})
		slices.Sort(ids)
		for _, id := range ids {
			if id > after && !add(t.message(providerCalls, id)) {
				break
			}
		}
	})
}

// restoreKey is the key of the one row.
var restoreKey = []byte{tableRestore}

// Restore implements [claim.Restores].
func (db *DB) Restore(ctx context.Context) (r claim.Restore, now time.Time, err error) {
	err = db.do(ctx, func(t *tx) {
		t.hold(t.shared.RLocker())
		var state json.RawMessage
		if version := t.versioned(restoreKey, &state); version > 0 {
			var err error
			r, err = claim.ParseRestore(version, state)
			t.fail(err)
		}
	})
	return r, db.clock.now(), err
}

// PutRestore implements [claim.Restores].
func (db *DB) PutRestore(ctx context.Context, r claim.Restore) (changed bool, err error) {
	return db.putVersioned(ctx, restoreKey, r.Version, r)
}

// witnessKey is the key of the row of a witness. The row's value is JSON.
func witnessKey(key claim.Key) []byte { return append([]byte{tableWitness}, pair(key)...) }

func readWitness(k, value []byte) (w claim.Witness, err error) {
	if err := json.Unmarshal(value, &w); err != nil {
		return w, damaged(k, err)
	}
	w.Key, err = readPair(k[1:])
	return w, err
}

// Witness implements [claim.Restores].
func (db *DB) Witness(ctx context.Context, key claim.Key) (w claim.Witness, found bool, err error) {
	if err := checkKey(key); err != nil {
		return w, false, err
	}
	err = db.do(ctx, func(t *tx) {
		t.hold(t.shared.RLocker())
		k := witnessKey(key)
		found = t.read(k, func(value []byte) (err error) {
			w, err = readWitness(k, value)
			return err
		})
	})
	return w, found, err
}

// PutWitnesses implements [claim.Restores].
func (db *DB) PutWitnesses(ctx context.Context, all []claim.Witness) error {
	return db.do(ctx, func(t *tx) {
		t.hold(&t.shared)
		for i := range all {
			state, err := json.Marshal(all[i])
			t.fail(err)
			t.fail(checkKey(all[i].Key))
			t.set(witnessKey(all[i].Key), state)
		}
	})
}

// Witnesses implements [claim.Restores].
func (db *DB) Witnesses(ctx context.Context, after claim.Key, limit int) (all []claim.Witness, err error) {
	err = db.do(ctx, func(t *tx) {
		from := []byte{tableWitness}
		if after != (claim.Key{}) {
			from = behind(witnessKey(after))
		}
		t.scan(from, []byte{tableWitness + 1}, func(k, value []byte) bool {
			w, err := readWitness(k, value)
			t.fail(err)
			all = append(all, w)
			return len(all) < limit
		})
		t.durable()
	})
	return all, err
}

// DropWitnesses implements [claim.Restores].
func (db *DB) DropWitnesses(ctx context.Context, limit int) (dropped int, err error) {
	err = db.do(ctx, func(t *tx) {
		t.hold(&t.shared)
		t.scan([]byte{tableWitness}, []byte{tableWitness + 1}, func(k, _ []byte) bool {
			if dropped < limit {
				t.delete(k)
				dropped++
			}
			return dropped < limit
		})
	})
	return dropped, err
}
