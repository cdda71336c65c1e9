package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	crdbpgx "github.com/cockroachdb/cockroach-go/v2/crdb/crdbpgxv5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
)

var (
	tenantByID      = declare[tenantArgs]("tenant")
	tenantPage      = declare[pageArgs]("tenants")
	tenantPut       = declare[tenantPutArgs]("tenant_put")
	tenantChange    = declare[tenantChangeArgs]("tenant_change")
	tenantRegistrar = declare[moveArgs]("registrar_move")
	apiKeyPut       = declare[apiKeyArgs]("api_key_put")
	apiKeysEnd      = declare[apiKeysEndArgs]("api_keys_end")
	apiKeysOf       = declare[tenantArgs]("api_keys")
)

type (
	tenantArgs    struct{ TenantID string }
	tenantPutArgs struct {
		TenantID, Name, Registrar, CardNumbers, Routes string
		RatePerSecond                                  float64
		Burst                                          int32
	}
	// tenantChangeArgs are what changes of a tenant; nil: that does not.
	tenantChangeArgs struct {
		TenantID            string
		RatePerSecond       *float64
		Burst               *int32
		CardNumbers, Routes *string
	}
	moveArgs struct {
		TenantID, Registrar string
		MovedAt             zeronull.Timestamptz
	}
	apiKeyArgs struct {
		TenantID string
		Hash     []byte
	}
	apiKeysEndArgs struct {
		apiKeyArgs
		After time.Duration
	}
)

func scanTenant(row pgx.CollectableRow) (t claim.Tenant, err error) {
	var previous zeronull.Text
	var moved zeronull.Timestamptz
	var burst int32
	err = row.Scan(&t.ID, &t.Name, &t.Registrar, &previous, &moved, &t.RatePerSecond, &burst, &t.CardNumbers, &t.Routes)
	t.PreviousRegistrar, t.Burst = string(previous), int(burst)
	if at := time.Time(moved); !at.IsZero() {
		t.RegistrarMovedAt = at.UTC()
	}
	return t, err
}

// Registrar implements [claim.Store].
func (v *View) Registrar(ctx context.Context, tenant string) (string, error) {
	if t, ok := v.db.byID.get(tenant); ok {
		return t.Registrar, nil
	}
	t, err := v.db.Tenant(ctx, tenant)
	return t.Registrar, err
}

// Tenant returns one tenant, or [claim.ErrUnknownTenant].
func (db *DB) Tenant(ctx context.Context, id string) (claim.Tenant, error) {
	t, found, _, err := one(ofTenant(ctx, id), db, tenantByID, repeatable, tenantArgs{id}, scanTenant)
	if err != nil {
		return claim.Tenant{}, claimError(tenantByID.name, err)
	}
	if !found {
		return claim.Tenant{}, claim.ErrUnknownTenant
	}
	db.byID.put(id, t)
	return t, nil
}

// Tenants returns up to limit tenants with an id above after, by id.
func (db *DB) Tenants(ctx context.Context, after string, limit int) ([]claim.Tenant, error) {
	all, err := many(ctx, db, tenantPage, repeatable, pageArgs{after, int64(limit)}, scanTenant)
	return all, claimError(tenantPage.name, err)
}

// APIKeys lists the API keys of a tenant, oldest first, including those that have
// ended.
func (db *DB) APIKeys(ctx context.Context, tenant string) ([]claim.StoredAPIKey, error) {
	all, err := many(ctx, db, apiKeysOf, repeatable, tenantArgs{tenant}, func(row pgx.CollectableRow) (k claim.StoredAPIKey, err error) {
		var hash []byte
		var ends zeronull.Timestamptz
		if err = row.Scan(&hash, &k.CreatedAt, &ends, &k.Ended); err != nil {
			return k, err
		}
		copy(k.Hash[:], hash)
		k.CreatedAt = k.CreatedAt.UTC()
		if at := time.Time(ends); !at.IsZero() {
			k.EndsAt = at.UTC()
		}
		return k, nil
	})
	return all, claimError(apiKeysOf.name, err)
}

// errForeignKey: the API key belongs to another tenant.
var errForeignKey = errors.New("an API key is empty, mistyped, of the other side (live or test) or belongs to another tenant; mint a new one")

// PutTenant writes a tenant and gives it API keys, of which only the SHA-256 is stored.
// If the tenant exists, PutTenant changes name, rate, card numbers and routes, adds the
// keys, and leaves the registrar alone, since only MoveRegistrar moves it safely. It refuses a test
// side without its live tenant, and a key of the other side.
func (db *DB) PutTenant(ctx context.Context, t claim.Tenant, apiKeys ...string) error {
	if t.ID == "" {
		return errors.New("tenant: no id given")
	}
	if _, ok := (*db.regions.Load())[t.Registrar]; !ok {
		return fmt.Errorf("tenant %s: there is no region %q to be registrar", t.ID, t.Registrar)
	}
	if !claim.Livemode(t.ID) { // tenants are never deleted
		if _, err := db.Tenant(ctx, claim.LiveTenant(t.ID)); errors.Is(err, claim.ErrUnknownTenant) {
			return fmt.Errorf("there is no tenant %s whose test side %s could be; make that one first", claim.LiveTenant(t.ID), t.ID)
		} else if err != nil {
			return err
		}
	}
	sql, args := tenantPut.in(db.dialect, tenantPutArgs{
		TenantID: t.ID, Name: t.Name, Registrar: t.Registrar, RatePerSecond: t.RatePerSecond, Burst: int32(t.Burst),
		CardNumbers: string(cmp.Or(t.CardNumbers, claim.RefuseCardNumbers)), Routes: t.Routes,
	})
	defer db.recall(apiKeys)
	return db.transaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return err
		}
		for _, k := range apiKeys {
			if err := db.giveKey(ctx, tx, t.ID, k); err != nil {
				return err
			}
		}
		return nil
	})
}

func (db *DB) giveKey(ctx context.Context, tx pgx.Tx, tenant, key string) error {
	hash := claim.HashAPIKey(key)
	if claim.APIKeyMadeUp(key) || !claim.APIKeyFits(key, tenant) {
		return fmt.Errorf("tenant %s: %w", tenant, errForeignKey) // no node would let it in
	}
	var owner string
	sql, args := apiKeyPut.in(db.dialect, apiKeyArgs{tenant, hash[:]})
	err := tx.QueryRow(ctx, sql, args...).Scan(&owner)
	if key == "" || errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("tenant %s: %w", tenant, errForeignKey)
	}
	return err
}

// recall clears this process's cache of refused keys.
func (db *DB) recall(keys []string) {
	for _, k := range keys {
		db.door.refused.forget(claim.HashAPIKey(k))
	}
}

// RotateKey gives a tenant a new API key and ends all others after the given time:
// until then both are valid, so that the merchant can change over.
func (db *DB) RotateKey(ctx context.Context, tenant, key string, endOthersAfter time.Duration) error {
	if _, err := db.Tenant(ctx, tenant); err != nil {
		return err
	}
	defer db.recall([]string{key})
	return db.transaction(ctx, func(tx pgx.Tx) error {
		if err := db.giveKey(ctx, tx, tenant, key); err != nil {
			return err
		}
		hash := claim.HashAPIKey(key)
		sql, args := apiKeysEnd.in(db.dialect, apiKeysEndArgs{apiKeyArgs{tenant, hash[:]}, endOthersAfter})
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

// SetCardNumbers sets the policy for card numbers in a tenant's free text. Nodes follow
// within Pool.TenantCache.
func (db *DB) SetCardNumbers(ctx context.Context, tenant string, cards claim.CardNumbers) error {
	return db.changeTenant(ctx, tenantChangeArgs{TenantID: tenant, CardNumbers: (*string)(&cards)})
}

// SetRoutes sets the providers of a tenant's payments; see payment.Routes, which the
// caller has validated. Nodes follow within Pool.TenantCache.
func (db *DB) SetRoutes(ctx context.Context, tenant, routes string) error {
	return db.changeTenant(ctx, tenantChangeArgs{TenantID: tenant, Routes: &routes})
}

func (db *DB) changeTenant(ctx context.Context, args tenantChangeArgs) error {
	n, lost, err := affected(ctx, db, tenantChange, repeatable, args)
	if err == nil && n == 0 && !lost {
		return claim.ErrUnknownTenant
	}
	return claimError(tenantChange.name, err)
}

// transaction runs f in a transaction until its outcome is known, within adminTimeout.
// f must be safe to repeat after it was done, as operators' changes are. Errors wrap
// [claim.ErrUnavailable], which leaves open whether it was done, except f's own and the
// database's refusal.
func (db *DB) transaction(ctx context.Context, f func(tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	run := func() error { return pgx.BeginFunc(ctx, db.pool, f) }
	if db.dialect.cockroach {
		// It retries with savepoints, as CockroachDB recommends. Not on PostgreSQL: it
		// drops the error of COMMIT, since on CockroachDB RELEASE has committed.
		run = func() error { return crdbpgx.ExecuteTx(ctx, db.pool, pgx.TxOptions{}, f) }
	}
	pause := firstPause
	for try := 1; ; try++ {
		err := run()
		db.heed(err)
		switch {
		case err == nil, errors.Is(err, errForeignKey), judge(err) == refused:
			return err
		case try == maxTries || !sleep(ctx, pause/2+rand.N(pause)):
			return unavailable("transaction", err)
		}
		pause = min(2*pause, lastPause)
	}
}

// adminTimeout bounds an operator's change: writes of GLOBAL tables take 0.5 to 0.8 s
// each.
const adminTimeout = 30 * time.Second

// MoveRegistrar makes region the keeper of the tenant's pins from now on. Pins in the
// former region are still read, and move over one by one; until the last of them is
// gone only a move back is possible, as pins in a third region would not be found.
func (db *DB) MoveRegistrar(ctx context.Context, tenant, to string) error {
	if _, ok := (*db.regions.Load())[to]; !ok {
		return fmt.Errorf("tenant %s: there is no region %q to be registrar", tenant, to)
	}
	var refused *time.Time // the move after which the last try, for certain, changed nothing
	for range maxLooks {
		t, err := db.Tenant(ctx, tenant)
		if err != nil || t.Registrar == to {
			return err
		}
		if refused != nil && refused.Equal(t.RegistrarMovedAt) {
			windows, err := db.Windows(ctx) // a tool has no policy of the nodes
			if err != nil {
				return err
			}
			return fmt.Errorf("tenant %s: pins made before the last move are still at %s and count, or that move is less than a minute old; move back, or wait until housekeeping has removed the last of them: usually %v after the move of %s, and later where an outcome is still owed",
				tenant, t.PreviousRegistrar, windows.PinLife(), t.RegistrarMovedAt.Format("2006-01-02 15:04:05Z"))
		}
		n, lost, err := affected(ctx, db, tenantRegistrar, repeatable, moveArgs{TenantID: tenant, Registrar: to, MovedAt: zeronull.Timestamptz(t.RegistrarMovedAt)})
		db.byID.forget(tenant)
		if err != nil {
			return claimError(tenantRegistrar.name, err)
		}
		if n > 0 {
			return nil
		}
		if !lost {
			refused = &t.RegistrarMovedAt
		}
		// Another caller may have moved it meanwhile, or our own first try: read again.
	}
	return fmt.Errorf("%w: the registrar of tenant %s keeps moving; try again", claim.ErrUnavailable, tenant)
}
