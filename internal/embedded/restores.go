package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
)

// The row of restores, and the witnesses, are stored like brakes: each region has a
// copy, so that access costs no trip. A witness is stored under its tenant and key.

// restoreKey is the key of the one row.
var restoreKey = []byte{tableRestore}

// Restore implements [claim.Restores].
func (db *DB) Restore(ctx context.Context) (claim.Restore, time.Time, error) {
	if err := db.enter(ctx); err != nil {
		return claim.Restore{}, time.Time{}, err
	}
	defer db.leave()
	db.restoreMu.Lock()
	defer db.restoreMu.Unlock()
	r, err := db.readRestore()
	return r, db.clock.now(), err
}

// readRestore reads the row. restoreMu must be held.
func (db *DB) readRestore() (r claim.Restore, err error) {
	_, err = db.get(restoreKey, func(value []byte) error {
		if len(value) < brakeHead {
			return damaged("restore", "row", errors.New("it is truncated"))
		}
		r, err = claim.ParseRestore(binary.BigEndian.Uint64(value), value[brakeHead:])
		return err
	})
	return r, err
}

// PutRestore implements [claim.Restores].
func (db *DB) PutRestore(ctx context.Context, r claim.Restore) (changed bool, err error) {
	if err := db.enter(ctx); err != nil {
		return false, err
	}
	defer db.leave()
	db.restoreMu.Lock()
	defer db.restoreMu.Unlock()
	was, err := db.readRestore()
	if err != nil || was.Version != r.Version {
		return false, err
	}
	state, err := json.Marshal(r)
	if err != nil {
		return false, err
	}
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if err := b.Set(restoreKey, append(binary.BigEndian.AppendUint64(nil, r.Version+1), state...), nil); err != nil {
		return false, unavailable(err)
	}
	err = db.commit(b, pebble.Sync)
	return err == nil, err
}

// witnessKey is the key of a witness.
func witnessKey(key claim.Key) []byte {
	b := append([]byte{tableWitness}, key.Tenant...)
	return append(append(b, nameEnd), key.Value...)
}

// Witness implements [claim.Restores].
func (db *DB) Witness(ctx context.Context, key claim.Key) (w claim.Witness, found bool, err error) {
	if err := checkKey(key); err != nil {
		return w, false, err
	}
	if err := db.enter(ctx); err != nil {
		return w, false, err
	}
	defer db.leave()
	db.restoreMu.Lock()
	defer db.restoreMu.Unlock()
	found, err = db.get(witnessKey(key), func(value []byte) error {
		w, err = readWitness(key, value)
		return err
	})
	return w, found, err
}

func readWitness(key claim.Key, value []byte) (w claim.Witness, err error) {
	if err := json.Unmarshal(value, &w); err != nil {
		return w, damaged("witness of", key.Tenant, err)
	}
	w.Key = key
	return w, nil
}

// PutWitnesses implements [claim.Restores].
func (db *DB) PutWitnesses(ctx context.Context, all []claim.Witness) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	db.restoreMu.Lock()
	defer db.restoreMu.Unlock()
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	for i := range all {
		if err := checkKey(all[i].Key); err != nil {
			return err
		}
		state, err := json.Marshal(all[i])
		if err != nil {
			return err
		}
		if err := b.Set(witnessKey(all[i].Key), state, nil); err != nil {
			return unavailable(err)
		}
	}
	return db.commit(b, pebble.Sync)
}

// Witnesses implements [claim.Restores].
func (db *DB) Witnesses(ctx context.Context, after claim.Key, limit int) (all []claim.Witness, err error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	prefix := []byte{tableWitness}
	from := prefix
	if after != (claim.Key{}) {
		from = append(witnessKey(after), 0) // the next possible key
	}
	err = db.scan(from, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		tenant, key, ok := strings.Cut(string(k[1:]), "\x00")
		if !ok {
			return false, damaged("witness", string(k[1:]), errors.New("its key is truncated"))
		}
		w, err := readWitness(claim.Key{Tenant: tenant, Value: key}, value)
		if err != nil {
			return false, err
		}
		all = append(all, w)
		return len(all) < limit, ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return all, db.afterScan()
}

// DropWitnesses implements [claim.Restores].
func (db *DB) DropWitnesses(ctx context.Context, limit int) (dropped int, err error) {
	all, err := db.Witnesses(ctx, claim.Key{}, limit)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	if err := db.enter(ctx); err != nil {
		return 0, err
	}
	defer db.leave()
	db.restoreMu.Lock()
	defer db.restoreMu.Unlock()
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	for i := range all {
		if err := b.Delete(witnessKey(all[i].Key), nil); err != nil {
			return 0, unavailable(err)
		}
	}
	return len(all), db.commit(b, pebble.Sync)
}

// Restore is [DB.Restore].
func (v *View) Restore(ctx context.Context) (claim.Restore, time.Time, error) {
	return v.db.Restore(ctx)
}

// PutRestore is [DB.PutRestore].
func (v *View) PutRestore(ctx context.Context, r claim.Restore) (bool, error) {
	return v.db.PutRestore(ctx, r)
}

// Witness is [DB.Witness].
func (v *View) Witness(ctx context.Context, key claim.Key) (claim.Witness, bool, error) {
	return v.db.Witness(ctx, key)
}

// PutWitnesses is [DB.PutWitnesses].
func (v *View) PutWitnesses(ctx context.Context, all []claim.Witness) error {
	return v.db.PutWitnesses(ctx, all)
}

// Witnesses is [DB.Witnesses].
func (v *View) Witnesses(ctx context.Context, after claim.Key, limit int) ([]claim.Witness, error) {
	return v.db.Witnesses(ctx, after, limit)
}

// DropWitnesses is [DB.DropWitnesses].
func (v *View) DropWitnesses(ctx context.Context, limit int) (int, error) {
	return v.db.DropWitnesses(ctx, limit)
}

// Policy is the policy that the store was opened with.
func (db *DB) Policy() claim.Policy { return db.policy }
