package embedded

import (
	"context"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// Replica reads answer from what a replica near the view would have: rows that
// have been final for at least the replica lag. They never travel, so they also
// answer while the home is cut off.

// Replica implements [claim.Store].
func (v *View) Replica(ctx context.Context, key claim.Key) (claim.Record, bool, error) {
	if err := checkKey(key); err != nil {
		return claim.Record{}, false, err
	}
	if err := v.db.enter(ctx); err != nil {
		return claim.Record{}, false, err
	}
	defer v.db.leave()
	stamp, stamped := claim.ReadStamp(key.Value)
	for _, home := range v.db.order {
		if stamped && home.Code != stamp {
			continue // a stamped key has a claim nowhere else
		}
		rec, err := v.db.readSynced(home.Name, home.Code, key)
		if err != nil {
			return claim.Record{}, false, err
		}
		if v.db.replicated(rec, v.db.clock.now()) {
			return *rec, true, nil
		}
	}
	return claim.Record{}, false, nil
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

// ReplicaPin implements [claim.Store].
func (v *View) ReplicaPin(ctx context.Context, key claim.Key) (claim.Pin, bool, error) {
	if err := checkKey(key); err != nil {
		return claim.Pin{}, false, err
	}
	if err := v.db.enter(ctx); err != nil {
		return claim.Pin{}, false, err
	}
	defer v.db.leave()
	v.db.tenantMu.RLock()
	defer v.db.tenantMu.RUnlock()
	t, ok := v.db.tenants[key.Tenant]
	if !ok {
		return claim.Pin{}, false, claim.ErrUnknownTenant
	}
	lock := v.db.pins.of(0, key)
	lock.RLock()
	defer lock.RUnlock()
	now := v.db.clock.now()
	pin, err := v.db.governingPin(&t, key)
	if err != nil || pin == nil {
		return claim.Pin{}, false, err
	}
	if !pin.Settled(&v.db.policy, now) || now.Before(pin.CreatedAt.Add(v.db.replicaLag)) {
		return claim.Pin{}, false, nil
	}
	return *pin, true, nil
}
