package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/sqlstore/pool"
)

const (
	// doorShare sets how many connections look up API keys: one for so many of the
	// others, and at least leastDoor, half of them for strangers. A look-up takes about
	// a millisecond, so one connection finds all the keys of a node within a second.
	doorShare, leastDoor = 8, 2
	// maxStrangers bounds the look-ups of unknown keys that run or wait. At a thousand
	// look-ups a second that many are done within a call's time.
	maxStrangers = 256
	// refusedFor bounds how long an unknown key is refused from the cache, and so how
	// long a node may refuse a new key that it was asked for before the key was
	// created.
	refusedFor = 5 * time.Second
)

// door looks up API keys. Requests without a valid key must not crowd out the others:
// look-ups use connections of their own, and no others unless the database has none to
// spare. A key is looked up once at a time, however many requests carry it, and an unknown
// one is cached. Half of the connections are reserved for keys of recently admitted
// tenants, so that a flood of other keys cannot exclude them.
//
// The budgets of charges and replays need the cache of admitted keys: without it each request
// has one statement more. The cache of unknown keys is no budget's: it bounds what a flood of
// one key costs the database.
type door struct {
	pool      *pgxpool.Pool
	flights   singleflight.Group
	queue     chan struct{}             // strangers, including those that wait
	strangers chan struct{}             // those with a connection
	byKey     *memory[claim.APIKeyHash] // recently admitted
	refused   *memory[claim.APIKeyHash] // who was not
}

// openDoor opens a door beside the pool of c.
func openDoor(ctx context.Context, c Config) (*door, error) {
	life := c.Pool.TenantCache
	c.Pool.MaxConns = max(leastDoor, c.Pool.MaxConns/doorShare)
	c.Pool.MinConns = min(1, c.Pool.MinConns)
	pool, err := openPool(ctx, c)
	if err != nil {
		return nil, err
	}
	return &door{
		pool:      pool,
		queue:     make(chan struct{}, maxStrangers),
		strangers: make(chan struct{}, c.Pool.MaxConns/2),
		byKey:     newMemory[claim.APIKeyHash](life),
		refused:   newMemory[claim.APIKeyHash](min(life, refusedFor)),
	}, nil
}

// answer is the result of a look-up: the tenant, or that there is none.
type answer struct {
	tenant claim.Tenant
	found  bool
}

func (d *door) remembers(key claim.APIKeyHash) (answer, bool) {
	if t, ok := d.byKey.get(key); ok {
		return answer{t, true}, true
	}
	_, ok := d.refused.get(key)
	return answer{}, ok
}

// TenantByAPIKey returns the tenant of an API key. It caches a tenant for Pool.TenantCache,
// and an unknown key for as long, at most refusedFor. Keys are compared by their hash, so the
// time that takes reveals nothing about a key.
func (v *View) TenantByAPIKey(ctx context.Context, key claim.APIKeyHash) (claim.Tenant, bool, error) {
	db, d := v.db, v.db.door
	if a, ok := d.remembers(key); ok {
		return a.tenant, a.found, nil
	}
	// The first caller may disconnect while the others go on waiting.
	asked := d.flights.DoChan(string(key[:]), func() (any, error) {
		if a, ok := d.remembers(key); ok {
			return a, nil // another request has looked it up in between
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.limits.CallTimeout)
		defer cancel()
		t, found, err := db.askForKey(ctx, key)
		if err != nil {
			return answer{}, err
		}
		if found {
			d.byKey.put(key, t)
		} else {
			d.byKey.forget(key)
			d.refused.put(key, claim.Tenant{})
		}
		return answer{t, found}, nil
	})
	select {
	case got := <-asked:
		a, _ := got.Val.(answer)
		return a.tenant, a.found, got.Err
	case <-ctx.Done():
		return claim.Tenant{}, false, ctx.Err()
	}
}

// TenantInMemory is [View.TenantByAPIKey] if the answer is cached, and not known otherwise.
func (v *View) TenantInMemory(key claim.APIKeyHash) (t claim.Tenant, found, known bool) {
	a, known := v.db.door.remembers(key)
	return a.tenant, a.found, known
}

var tenantByAPIKey = declare[hashArgs]("tenant_by_api_key")

type hashArgs struct{ Hash []byte }

// askForKey queries the database, within ctx.
func (db *DB) askForKey(ctx context.Context, key claim.APIKeyHash) (t claim.Tenant, found bool, err error) {
	d := db.door
	turn, done := context.WithTimeout(ctx, db.limits.patience())
	defer done()
	if !d.byKey.knows(key) {
		select {
		case d.queue <- struct{}{}:
			defer func() { <-d.queue }()
		default:
			return t, false, fmt.Errorf("%w: more than %d look-ups of API keys that are not cached are running or waiting", claim.ErrUnavailable, cap(d.queue))
		}
		select {
		case d.strangers <- struct{}{}:
			defer func() { <-d.strangers }()
		case <-turn.Done():
			return t, false, unavailable(tenantByAPIKey.name, pool.ErrTimeout)
		}
	}
	sql, args := tenantByAPIKey.in(db.dialect, hashArgs{key[:]})
	pause := firstPause
	for try := 1; ; try++ {
		t, found, err = d.try(ctx, turn, sql, args)
		if err == nil {
			return t, found, nil
		}
		turn = ctx // it had its turn
		if hasCode(err, codeTooMany) {
			// The database has no connection to spare. Those of charges are open, and have room
			// for a request that arrives; strangers, at most so many, do not fill it.
			t, found, _, err = one(ctx, db, tenantByAPIKey, repeatable, hashArgs{key[:]}, scanTenant)
			return t, found, claimError(tenantByAPIKey.name, err)
		}
		if try == maxTries || judge(err) == refused || !sleep(ctx, pause/2+rand.N(pause)) {
			return claim.Tenant{}, false, unavailable(tenantByAPIKey.name, err)
		}
		pause = min(2*pause, lastPause)
	}
}

// try queries once. It waits for a connection until turn ends.
func (d *door) try(ctx, turn context.Context, sql string, args []any) (claim.Tenant, bool, error) {
	conn, err := d.pool.Acquire(turn)
	if err != nil {
		return claim.Tenant{}, false, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return claim.Tenant{}, false, err
	}
	t, err := pgx.CollectOneRow(rows, scanTenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return claim.Tenant{}, false, nil
	}
	return t, err == nil, err
}
