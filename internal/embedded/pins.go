package embedded

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
)

// maxPinTrips bounds how often one pin step starts over: first for the trip to the registrars, once
// for a registrar that moved meanwhile and once for the old home, both rare; and one to spare.
const maxPinTrips = 4

// Pin implements [claim.Store]. It goes to the tenant's registrar, and concurrently to
// the previous one while pins there live; to the old home as well if a pin past its
// life may protect a claim there.
func (v *View) Pin(ctx context.Context, key claim.Key, entry string) (claim.Pin, error) {
	if err := errors.Join(checkKey(key), claim.Pinnable(key)); err != nil {
		return claim.Pin{}, err
	}
	if entry != "" {
		if _, err := v.codeOf(entry); err != nil {
			return claim.Pin{}, err
		}
	}
	been := []string{v.name}
	for range 1 + maxPinTrips {
		var pin claim.Pin
		var missing []string
		err := v.do(ctx, func(t *tx) {
			t.holdPin(key)
			var err error
			pin, missing, err = t.pinStep(key, entry, "", been, t.clock.now())
			t.fail(err)
			// It need not wait for the disk: a crash that loses this pin also loses every write
			// after it, the claim made under it included. See doc.go.
			t.opts = pebble.NoSync
		})
		if err != nil || len(missing) == 0 {
			return pin, err
		}
		if err := v.reach(ctx, missing...); err != nil {
			return claim.Pin{}, err
		}
		been = append(been, missing...)
	}
	return claim.Pin{}, unavailable(errors.New("the tenant's registrar keeps moving; try again"))
}

// pinHere pins the key of an arrival that has no claim at its home, in the step that begins
// one: it holds the claim's row and what holdPin holds. It reports false if there is any
// obstacle, which [claim.Store.Pin] then reports.
func (t *tx) pinHere(a *claim.Arrival, now time.Time) bool {
	pin, missing, err := t.pinStep(a.Key, a.Home, a.Home, []string{a.Home}, now)
	if err != nil || len(missing) > 0 || pin.Home != a.Home {
		return false
	}
	a.PinnedAt = pin.CreatedAt
	return true
}

// partitions returns the regions whose pins of t count, the registrar first. Those at
// the previous one count for as long as there are any, however old: a pin past its life
// may protect a claim in flight.
func partitions(t *claim.Tenant) []string {
	if t.PreviousRegistrar != "" {
		return []string{t.Registrar, t.PreviousRegistrar}
	}
	return []string{t.Registrar}
}

// holdPin takes the locks of a pin. A move of the registrar waits for every step that saw the
// old one, and a change of a region's status for the pins made before it.
func (t *tx) holdPin(key claim.Key) {
	t.hold(t.tenantMu.RLocker())
	t.lock(t.pins, t.pins.index(0, key))
	t.hold(t.topology.RLocker())
	t.share()
}

// pinStep pins key to entry if it has no home. If it needs regions that are not in been, it
// only returns those. free is the home whose claim the caller has locked and found absent.
func (t *tx) pinStep(key claim.Key, entry, free string, been []string, now time.Time) (pin claim.Pin, missing []string, err error) {
	tenant, err := t.tenant(key.Tenant)
	if err != nil {
		return pin, nil, err
	}
	old, need := t.governingPin(&tenant, key), partitions(&tenant)
	past := old != nil && !now.Before(old.CreatedAt.Add(t.policy.PinLife()))
	if past {
		need = append(need, old.Home)
	}
	if missing = slices.DeleteFunc(need, func(r string) bool { return slices.Contains(been, r) }); len(missing) > 0 {
		return pin, missing, nil
	}
	spokenFor := false
	if past && old.Home != free {
		rec := t.of(old.Home).syncedClaim(key)
		spokenFor = rec != nil && rec.Age(&t.policy, now) != claim.Gone
	}
	pin, change := claim.PinFor(old, key, entry, spokenFor, &t.policy, now)
	switch {
	case change == claim.PinUnchanged:
		return pin, nil, nil
	case change == claim.PinTaken && (entry == "" || t.status(entry) != claim.RegionActive):
		return claim.Pin{}, nil, claim.ErrNoNewHomes
	}
	r := t.of(tenant.Registrar)
	r.put(r.scoped(tablePin, key), &storev1.Pin{Home: pin.Home, CreatedAt: micros(pin.CreatedAt)})
	return pin, nil, nil
}

// governingPin returns the pin that holds for key, nil if there is none: of the
// partitions the latest, since a pin is only ever written anew after all of them were read.
func (t *tx) governingPin(tenant *claim.Tenant, key claim.Key) (governing *claim.Pin) {
	for _, r := range partitions(tenant) {
		if pin := t.of(r).pin(key); pin != nil && (governing == nil || pin.CreatedAt.After(governing.CreatedAt)) {
			governing = pin
		}
	}
	return governing
}

// pin reads one row, nil if there is none.
func (t *tx) pin(key claim.Key) *claim.Pin {
	return row(t, t.scoped(tablePin, key), func(m *storev1.Pin) *claim.Pin {
		return &claim.Pin{Key: key, Home: m.Home, CreatedAt: fromMicros(m.CreatedAt)}
	})
}

// replicatedPin returns the pin that a replica shows by now, nil for none.
func (t *tx) replicatedPin(key claim.Key) *claim.Pin {
	t.hold(t.tenantMu.RLocker())
	tenant, err := t.tenant(key.Tenant)
	if err != nil {
		return nil // it has none
	}
	t.hold(t.pins.of(0, key).RLocker())
	pin, now := t.governingPin(&tenant, key), t.clock.now()
	if pin == nil || !pin.Settled(&t.policy, now) || now.Before(pin.CreatedAt.Add(t.replicaLag)) {
		return nil
	}
	return pin
}

// Registrar implements [claim.Store].
func (v *View) Registrar(ctx context.Context, tenant string) (string, error) {
	t, err := v.Tenant(ctx, tenant)
	return t.Registrar, err
}
