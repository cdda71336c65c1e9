package embedded

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
)

// errMoved: the step needs a region that it has not travelled to yet; retry.
var errMoved = errors.New("embedded: a pin step needs another region")

// maxPinTrips bounds how often one pin step starts over: once for a registrar
// that moved on the way and once for the old home, both rare; one to spare.
const maxPinTrips = 4

// Pin implements [claim.Store]. It goes to the tenant's registrar, and concurrently to
// the previous one while pins there live; to the old home as well if a pin past its
// life may protect a claim there.
func (v *View) Pin(ctx context.Context, key claim.Key, entry string) (claim.Pin, error) {
	if err := errors.Join(checkKey(key), claim.Pinnable(key)); err != nil {
		return claim.Pin{}, err
	}
	if entry != "" {
		if _, err := v.code(entry); err != nil {
			return claim.Pin{}, err
		}
	}
	been := map[string]bool{v.name: true}
	need, err := v.registrars(ctx, key.Tenant)
	if err != nil {
		return claim.Pin{}, err
	}
	for range maxPinTrips {
		var far []string
		for _, r := range need {
			if !been[r] {
				far = append(far, r)
				been[r] = true
			}
		}
		if err := v.reachAll(ctx, far); err != nil {
			return claim.Pin{}, err
		}
		pin, missing, err := v.pinStep(ctx, key, entry, been)
		if !errors.Is(err, errMoved) {
			return pin, err
		}
		need = missing
	}
	return claim.Pin{}, unavailable(errors.New("the tenant's registrar keeps moving; try again"))
}

// firstPin is the pin of a key that has none yet, which Begin writes with the claim. Until
// release it holds the locks of a pin step. Without a db there is none.
type firstPin struct {
	mint string // the id that Begin mints for a new claim; for each Begin
	db   *DB
	lock *sync.RWMutex // of the key's pin
	code claim.RegionCode
	pin  claim.Pin
}

func (f *firstPin) taken() bool { return f != nil && f.db != nil }

func (f *firstPin) release() {
	if !f.taken() {
		return
	}
	f.db.topologyMu.RUnlock()
	f.lock.Unlock()
	f.db.tenantMu.RUnlock()
	f.db.leave()
}

// pinFirst gives a key its home before its claim if a requests it. Usually the key is new
// and its registrar is its home, near: then first is taken, for the batch of the claim.
// Otherwise the two are a batch each: see putPin for the crash points.
func (v *View) pinFirst(ctx context.Context, a *claim.Arrival, first *firstPin) error {
	if !a.PinsHere() {
		return nil
	}
	if err := errors.Join(checkKey(a.Key), claim.Pinnable(a.Key)); err != nil {
		return err
	}
	if a.Home == v.name {
		if known, err := v.takePin(ctx, a, first); err != nil || known {
			return err
		}
	}
	need, err := v.registrars(ctx, a.Key.Tenant)
	if err != nil || len(need) != 1 || need[0] != a.Home {
		return ifUnavailable(err)
	}
	pin, err := v.Pin(ctx, a.Key, a.Home)
	if err != nil {
		return ifUnavailable(err)
	}
	if pin.Home == a.Home {
		a.PinnedAt = pin.CreatedAt
	}
	return nil
}

// takePin is pinFirst for a key whose one registrar is the view's region. It reports
// whether the home is known: because the stored pin stands, or because first is taken.
func (v *View) takePin(ctx context.Context, a *claim.Arrival, first *firstPin) (known bool, err error) {
	db := v.db
	code, err := v.code(a.Home)
	if err != nil {
		return false, err
	}
	if err := db.enter(ctx); err != nil {
		return false, err
	}
	db.tenantMu.RLock()
	held := firstPin{mint: a.Mint.ID, db: db, lock: db.pins.of(0, a.Key), code: code}
	held.lock.Lock()
	db.topologyMu.RLock()
	defer func() {
		if !first.taken() {
			held.release()
		}
	}()
	t, ok := db.tenants[a.Key.Tenant]
	if !ok || t.PreviousRegistrar != "" || t.Registrar != a.Home {
		return false, nil
	}
	old, err := db.readPin(code, a.Key)
	if err != nil {
		return false, err
	}
	pin, change := claim.PinFor(old, a.Key, a.Home, false, &db.policy, db.clock.now())
	switch {
	case change == claim.PinStands:
		if pin.Home == a.Home {
			a.PinnedAt = pin.CreatedAt
		}
		return true, nil
	case old != nil || db.statuses[a.Home] != claim.RegionActive:
		return false, nil
	}
	held.pin, a.PinnedAt = pin, pin.CreatedAt
	*first = held
	return true, nil
}

// ifUnavailable drops errors that [claim.Store.Pin] will report.
func ifUnavailable(err error) error {
	if errors.Is(err, claim.ErrUnknownTenant) || errors.Is(err, claim.ErrNoNewHomes) {
		return nil
	}
	return err
}

// registrars returns the regions that a pin of tenant may be in.
func (v *View) registrars(ctx context.Context, tenant string) ([]string, error) {
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	v.db.tenantMu.RLock()
	defer v.db.tenantMu.RUnlock()
	t, ok := v.db.tenants[tenant]
	if !ok {
		return nil, claim.ErrUnknownTenant
	}
	return partitions(&t), nil
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

// keepsPins reports whether a region holds pins of tenant.
func (db *DB) keepsPins(region, tenant string) (found bool, err error) {
	from := appendScoped(nil, tablePin, db.regions[region], tenant, "")
	to := slices.Clone(from)
	to[len(to)-1]++ // past nameEnd: after every name of this tenant
	err = db.scan(from, to, func(_, _ []byte) (bool, error) {
		found = true
		return false, nil
	})
	return found, err
}

// pinStep is the atomic part of Pin. It fails with errMoved, and returns the missing
// regions, if it needs one that is not in been.
func (v *View) pinStep(ctx context.Context, key claim.Key, entry string, been map[string]bool) (pin claim.Pin, missing []string, err error) {
	db := v.db
	if err := db.enter(ctx); err != nil {
		return claim.Pin{}, nil, err
	}
	defer db.leave()
	// The tenant row is read in the same step: a move of the registrar waits
	// for every pin step that saw the old one.
	db.tenantMu.RLock()
	defer db.tenantMu.RUnlock()
	t, ok := db.tenants[key.Tenant]
	if !ok {
		return claim.Pin{}, nil, claim.ErrUnknownTenant
	}
	lock := db.pins.of(0, key)
	lock.Lock()
	defer lock.Unlock()

	now := db.clock.now()
	for _, r := range partitions(&t) {
		if !been[r] {
			return claim.Pin{}, partitions(&t), errMoved
		}
	}
	old, err := db.governingPin(&t, key)
	if err != nil {
		return claim.Pin{}, nil, err
	}
	spokenFor := false
	if old != nil && !now.Before(old.CreatedAt.Add(db.policy.PinLife())) {
		code, err := v.code(old.Home)
		if err != nil {
			return claim.Pin{}, nil, err
		}
		if !been[old.Home] {
			return claim.Pin{}, []string{old.Home}, errMoved
		}
		rec, err := db.readSynced(old.Home, code, key)
		if err != nil {
			return claim.Pin{}, nil, err
		}
		spokenFor = rec != nil && rec.Age(&db.policy, now) != claim.Gone
	}
	pin, change := claim.PinFor(old, key, entry, spokenFor, &db.policy, now)
	if change == claim.PinStands {
		return pin, nil, nil
	}
	// Held until the pin is written: a change of status waits for it.
	db.topologyMu.RLock()
	defer db.topologyMu.RUnlock()
	if change == claim.PinTaken && (entry == "" || db.statuses[entry] != claim.RegionActive) {
		return claim.Pin{}, nil, claim.ErrNoNewHomes
	}
	code, err := v.code(t.Registrar)
	if err != nil {
		return claim.Pin{}, nil, err
	}
	return pin, nil, db.putPin(code, &pin)
}

// putPin commits without waiting for the disk. There is one log and recovery
// keeps a prefix of it: a crash that loses this pin also loses every write
// after it, the claim made under it included. See doc.go.
func (db *DB) putPin(registrar claim.RegionCode, pin *claim.Pin) error {
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if err := putPinRow(b, registrar, pin); err != nil {
		return err
	}
	return db.commit(b, pebble.NoSync)
}

func putPinRow(b *pebble.Batch, registrar claim.RegionCode, pin *claim.Pin) error {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = appendScoped(s.key[:0], tablePin, registrar, pin.Key.Tenant, pin.Key.Value)
	s.value = encodePin(s.value[:0], pin)
	if err := b.Set(s.key, s.value, nil); err != nil {
		return unavailable(err)
	}
	return nil
}

// governingPin returns the pin that holds for key, nil if there is none: of the
// partitions that count the latest, since a pin is only ever written anew after
// all of them were read.
func (db *DB) governingPin(t *claim.Tenant, key claim.Key) (*claim.Pin, error) {
	var governing *claim.Pin
	for _, r := range partitions(t) {
		pin, err := db.readPin(db.regions[r], key)
		if err != nil {
			return nil, err
		}
		if pin != nil && (governing == nil || pin.CreatedAt.After(governing.CreatedAt)) {
			governing = pin
		}
	}
	return governing, nil
}

func (db *DB) readPin(registrar claim.RegionCode, key claim.Key) (pin *claim.Pin, err error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = appendScoped(s.key[:0], tablePin, registrar, key.Tenant, key.Value)
	_, err = db.probe(s.key, func(value []byte) error {
		pin, err = decodePin(key, value)
		return err
	})
	return pin, err
}

// Registrar implements [claim.Store].
func (v *View) Registrar(ctx context.Context, tenant string) (string, error) {
	need, err := v.registrars(ctx, tenant)
	if err != nil {
		return "", err
	}
	return need[0], nil
}
