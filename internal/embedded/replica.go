package embedded

import (
	"context"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// Replica reads return what a replica near the view would have: rows that have been
// final for at least the replica lag. They never travel, so they also answer while the
// home is cut off.

// Replica implements [claim.Store].
func (v *View) Replica(ctx context.Context, key claim.Key) (claim.Shown, error) {
	if err := checkKey(key); err != nil {
		return claim.Shown{}, err
	}
	if err := v.db.enter(ctx); err != nil {
		return claim.Shown{}, err
	}
	defer v.db.leave()
	stamp, stamped := claim.ReadStamp(key.Value)
	for _, home := range v.db.order {
		if stamped && home.Code != stamp {
			continue // a stamped key has a claim nowhere else
		}
		rec, err := v.db.readSynced(home.Name, home.Code, key)
		if err != nil {
			return claim.Shown{}, err
		}
		if v.db.replicated(rec, v.db.clock.now()) {
			return claim.Shown{Record: rec}, nil
		}
	}
	if stamped {
		return claim.Shown{}, nil
	}
	pin, err := v.db.replicatedPin(key)
	return claim.Shown{Pin: pin}, err
}

// ReplicaObject implements [claim.Store].
func (v *View) ReplicaObject(ctx context.Context, tenant, home, id string) (claim.Record, bool, error) {
	code, err := v.code(home)
	if err != nil {
		return claim.Record{}, false, err
	}
	if err := v.db.enter(ctx); err != nil {
		return claim.Record{}, false, err
	}
	defer v.db.leave()
	rec, err := v.db.readObject(tenant, home, code, id)
	if err != nil || !v.db.replicated(rec, v.db.clock.now()) {
		return claim.Record{}, false, err
	}
	return *rec, true, nil
}

// replicated reports whether a replica shows rec as final and live by now.
func (db *DB) replicated(rec *claim.Record, now time.Time) bool {
	return rec != nil && rec.State.Final() && rec.Age(&db.policy, now) == claim.Live &&
		!now.Before(rec.SettledAt.Add(db.replicaLag))
}

// replicatedPin is the pin that a replica shows by now, nil for none.
func (db *DB) replicatedPin(key claim.Key) (*claim.Pin, error) {
	db.tenantMu.RLock()
	defer db.tenantMu.RUnlock()
	t, ok := db.tenants[key.Tenant]
	if !ok {
		return nil, nil
	}
	lock := db.pins.of(0, key)
	lock.RLock()
	defer lock.RUnlock()
	now := db.clock.now()
	pin, err := db.governingPin(&t, key)
	if err != nil || pin == nil || !pin.Settled(&db.policy, now) || now.Before(pin.CreatedAt.Add(db.replicaLag)) {
		return nil, err
	}
	return pin, nil
}
