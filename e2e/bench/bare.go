package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/homeward-io/homeward/internal/lab/localdb"
)

// bareDatabase is the floors' own.
const bareDatabase = "bench_bare"

// bareBook is the database of the floors.
type bareBook struct {
	urls    []string // of regions, in their order
	regions []string
	kind    localdb.Kind
}

func newBareBook(ctx context.Context, s *localdb.Server, regions []string) (*bareBook, error) {
	if err := s.CreateDatabase(ctx, bareDatabase, ""); err != nil {
		return nil, err
	}
	b := &bareBook{regions: regions, kind: s.Kind()}
	for _, region := range regions {
		b.urls = append(b.urls, s.URL(region, bareDatabase))
	}
	var ddl []string
	if s.Kind() == localdb.CockroachDB {
		for i, region := range regions {
			verb := "ADD REGION"
			if i == 0 {
				verb = "SET PRIMARY REGION"
			}
			ddl = append(ddl, "ALTER DATABASE "+bareDatabase+" "+verb+" "+pgx.Identifier{region}.Sanitize())
		}
	}
	ddl = append(ddl, bareTables(s.Kind())...)
	return b, b.exec(ctx, ddl...)
}

func (b *bareBook) exec(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, b.urls[0])
	if err != nil {
		return err
	}
	for _, sql := range statements {
		if _, err = conn.Exec(ctx, sql); err != nil {
			err = fmt.Errorf("%s: %w", sql, err)
			break
		}
	}
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// fill makes so many finished charges in each table of claims.
func (b *bareBook) fill(ctx context.Context, keys int) error {
	var all []string
	for _, table := range []string{"bare_claims", "bare_rows", "bare_indexed", "bare_many", "bare_many_indexed", "bare_many_calls", "bare_many_told"} {
		all = append(all, fmt.Sprintf(`INSERT INTO %s (home_region, tenant_id, idem_key, object_id, fingerprint, state, fence, holder, lease_until, first_use, settled_at, status, body)
			SELECT '%s', '%s', md5(n::text)::uuid::text, 'ch_' || n::text, 'print', 2, 1, 'floor', now(), now(), now(), 201, '%s'
			FROM generate_series(1, %d) AS g (n)`, table, b.regions[0], tenantID, requestBody, keys))
		all = append(all, "ANALYZE "+table)
	}
	return b.exec(ctx, append(all, "ANALYZE bare_outbox", "ANALYZE bare_many_outbox", "ANALYZE bare_audit")...)
}

// bareTable is one table of a floor's claims.
type bareTable struct {
	*bareBook
	table string
}

func (t bareTable) count(ctx context.Context) (done int, err error) {
	conn, err := pgx.Connect(ctx, t.urls[0])
	if err != nil {
		return 0, err
	}
	var others int
	err = conn.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FILTER (WHERE state = 2 AND body IS NOT NULL),
		count(*) FILTER (WHERE state <> 2) + (SELECT count(*) FROM bare_outbox) FROM %s`, t.table)).Scan(&done, &others)
	if err == nil && others > 0 {
		err = fmt.Errorf("%d rows of %s or the outbox are not done", others, t.table)
	}
	return done, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// callers make charges with a floor's statements, at the regions in turns.
type callers struct {
	regions []string
	pools   []*pgxpool.Pool
	turn    atomic.Int64
}

func (b *bareBook) callers(ctx context.Context, conns int) (*callers, error) {
	c := &callers{regions: b.regions}
	for _, u := range b.urls {
		p, err := pool(ctx, u, poolOf(max(1, conns/len(b.urls))))
		if err != nil {
			c.close()
			return nil, err
		}
		c.pools = append(c.pools, p)
	}
	return c, nil
}

func (c *callers) close() {
	for _, p := range c.pools {
		p.Close()
	}
}

func (c *callers) next() (string, *pgxpool.Pool) {
	i := int(c.turn.Add(1)) % len(c.pools)
	return c.regions[i], c.pools[i]
}

// row makes a charge of one row.
func (c *callers) row(of bare) func(context.Context) error {
	return func(ctx context.Context) error {
		region, pool := c.next()
		key := uuid.NewString()
		if err := send(ctx, pool, 1, of.begin, region, tenantID, key, "ch_"+key, barePrint); err != nil {
			return err
		}
		return send(ctx, pool, 1, of.settle, region, tenantID, key, bareBody)
	}
}

// call makes a charge of a claim and a provider call.
func (c *callers) call(ctx context.Context) error {
	region, pool := c.next()
	key := uuid.NewString()
	if err := send(ctx, pool, 1, bareCalls.begin, region, tenantID, key, "ch_"+key, barePrint, bareBody); err != nil {
		return err
	}
	return send(ctx, pool, 1, bareCalls.settle, region, tenantID, key, bareBody, "ch_"+key)
}

// many makes inOne charges of one row each.
func (c *callers) many(of bare) func(context.Context) error {
	return func(ctx context.Context) error {
		region, pool := c.next()
		keys, ids := make([]string, inOne), make([]string, inOne)
		for i := range keys {
			keys[i] = uuid.NewString()
			ids[i] = "ch_" + keys[i]
		}
		if err := send(ctx, pool, inOne, of.begin, region, tenantID, keys, ids, barePrint); err != nil {
			return err
		}
		return send(ctx, pool, inOne, of.settle, region, tenantID, keys, bareBody)
	}
}
