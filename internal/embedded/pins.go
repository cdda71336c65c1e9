package embedded

import (
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
)

// maxPinTrips bounds how often one pin step starts over: to go to the registrars, once for a
// registrar that moved on the way and once for the old home, both rare; one to spare.
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
	been := map[string]bool{v.name: true}
	for range 1 + maxPinTrips {
		pin, missing, err := v.pinStep(ctx, key, entry, been)
		if err != nil || len(missing) == 0 {
			return pin, err
		}
		if err := v.reach(ctx, missing...); err != nil {
			return claim.Pin{}, err
		}
		for _, r := range missing {
			been[r] = true
		}
	}
	return claim.Pin{}, unavailable(errors.New("the tenant's registrar keeps moving; try again"))
}

// pinHere is Pin for a key whose only registrar is its home, as Begin asks for it; pinned
// is false if there is any obstacle, which [claim.Store.Pin] then reports.
func (v *View) pinHere(ctx context.Context, a *claim.Arrival) (pinned bool, err error) {
	var pin claim.Pin
	t, err := v.Tenant(ctx, a.Key.Tenant)
	if err == nil && t.Registrar == a.Home && t.PreviousRegistrar == "" {
		pin, err = v.Pin(ctx, a.Key, a.Home)
	}
	if errors.Is(err, claim.ErrUnknownTenant) || errors.Is(err, claim.ErrNoNewHomes) {
		return false, nil
	}
	if err != nil || pin.Home != a.Home {
		return false, err
	}
	a.PinnedAt = pin.CreatedAt
	return true, nil
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

// pinStep is the atomic part of Pin. If it needs regions that are not in been, it only
// returns those.
func (v *View) pinStep(ctx context.Context, key claim.Key, entry string, been map[string]bool) (pin claim.Pin, missing []string, err error) {
	err = v.do(ctx, func(t *tx) {
		// The tenant is read in the same step: a move of the registrar waits
		// for every pin step that saw the old one.
		t.hold(t.tenantMu.RLocker())
		tenant, err := t.tenant(key.Tenant)
		if t.fail(err); err != nil {
			return
		}
		t.lock(t.pins, t.pins.index(0, key))
		old, need := t.governingPin(&tenant, key), partitions(&tenant)
		now := t.clock.now()
		past := old != nil && !now.Before(old.CreatedAt.Add(t.policy.PinLife()))
		if past {
			need = append(need, old.Home)
		}
		if missing = slices.DeleteFunc(need, func(r string) bool { return been[r] }); len(missing) > 0 {
			return
		}
		spokenFor := false
		if past {
			rec := t.of(old.Home).syncedClaim(key)
			spokenFor = rec != nil && rec.Age(&t.policy, now) != claim.Gone
		}
		var change claim.PinChange
		if pin, change = claim.PinFor(old, key, entry, spokenFor, &t.policy, now); change == claim.PinStands {
			return
		}
		t.hold(t.topology.RLocker()) // a change of status waits for the pin
		if change == claim.PinTaken && (entry == "" || t.status(entry) != claim.RegionActive) {
			t.fail(claim.ErrNoNewHomes)
		}
		// It need not wait for the disk: a crash that loses this pin also loses every write
		// after it, the claim made under it included. See doc.go.
		t.opts = pebble.NoSync
		r := t.of(tenant.Registrar)
		r.put(r.scoped(tablePin, key), &storev1.Pin{Home: pin.Home, CreatedAt: micros(pin.CreatedAt)})
	})
	return pin, missing, err
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
	var m storev1.Pin
	if !t.get(t.scoped(tablePin, key), &m) {
		return nil
	}
	return &claim.Pin{Key: key, Home: m.Home, CreatedAt: fromMicros(m.CreatedAt)}
}

// replicatedPin is the pin that a replica shows by now, nil for none.
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
