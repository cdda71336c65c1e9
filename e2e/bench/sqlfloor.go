package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/payment/psp"
)

// bareTables are those of the floors. Floors know no pins, audit, books or events: a
// claim, and the provider call in an outbox with an index of what is due, or the claim
// alone, with an index of what is in flight or without.
func bareTables(kind localdb.Kind) []string {
	table := ` (
    home_region crdb_internal_region NOT NULL,
    tenant_id   text NOT NULL,
    idem_key    text NOT NULL,
    object_id   text NOT NULL,
    fingerprint bytea NOT NULL,
    state       int2 NOT NULL,
    fence       int8 NOT NULL,
    holder      text NOT NULL,
    lease_until timestamptz NOT NULL,
    first_use   timestamptz NOT NULL,
    settled_at  timestamptz,
    status      int2,
    body        bytea,
    PRIMARY KEY (home_region, tenant_id, idem_key)
)`
	outbox := " (home_region crdb_internal_region NOT NULL, id text NOT NULL, payload bytea NOT NULL, due timestamptz NOT NULL, PRIMARY KEY (home_region, id))"
	locality, first := "", "CREATE DOMAIN crdb_internal_region AS text"
	if kind == localdb.CockroachDB {
		locality, first = " LOCALITY REGIONAL BY ROW AS home_region", "SELECT 1"
	}
	return []string{
		first,
		"CREATE TABLE bare_claims" + table + locality,
		"CREATE TABLE bare_rows" + table + locality,
		"CREATE TABLE bare_indexed" + table + locality,
		"CREATE TABLE bare_many" + table + locality,
		"CREATE TABLE bare_many_indexed" + table + locality,
		"CREATE TABLE bare_many_calls" + table + locality,
		"CREATE TABLE bare_many_told" + table + locality,
		"CREATE TABLE bare_outbox" + outbox + locality,
		"CREATE TABLE bare_many_outbox" + outbox + locality,
		"CREATE TABLE bare_audit (home_region crdb_internal_region NOT NULL, tenant_id text NOT NULL, idem_key text NOT NULL, n int8 NOT NULL, event text NOT NULL, PRIMARY KEY (home_region, tenant_id, idem_key, n))" + locality,
		"CREATE INDEX bare_outbox_due ON bare_outbox (home_region, due, id)",
		"CREATE INDEX bare_many_outbox_due ON bare_many_outbox (home_region, due, id)",
		"CREATE INDEX bare_many_told_lease ON bare_many_told (home_region, lease_until) WHERE state = 1",
		"CREATE INDEX bare_indexed_lease ON bare_indexed (home_region, lease_until) WHERE state = 1",
		"CREATE INDEX bare_many_indexed_lease ON bare_many_indexed (home_region, lease_until) WHERE state = 1",
	}
}

// bare are a floor's statements. Their first arguments are region, tenant and key; then
// come object id, fingerprint and provider call, or the answer and the object id.
type bare struct{ begin, settle string }

// inserted is what a begin writes into a table for one charge, and whatever else.
const inserted = `INSERT INTO %s (home_region, tenant_id, idem_key, object_id, fingerprint, state, fence, holder, lease_until, first_use)
	VALUES ($1::crdb_internal_region, $2::text, $3::text, $4::text, $5::bytea, 1, 1, 'floor', now() + interval '30 seconds', now())`

// changed is what a settle changes in it.
const changed = `UPDATE %s SET state = 2, settled_at = now(), status = 201, body = $4::bytea
	WHERE home_region = $1::crdb_internal_region AND tenant_id = $2::text AND idem_key = $3::text AND fence = 1 AND state = 1`

// bareRow is of one row in a table.
func bareRow(table string) bare {
	return bare{fmt.Sprintf(inserted, table), fmt.Sprintf(changed, table)}
}

// bareCalls are a claim and its outbox row, each pair in one statement.
var bareCalls = bare{
	begin: "WITH won AS (" + fmt.Sprintf(inserted, "bare_claims") + ` RETURNING lease_until)
		INSERT INTO bare_outbox (home_region, id, payload, due) SELECT $1::crdb_internal_region, $4::text, $6::bytea, lease_until FROM won`,
	settle: "WITH settled AS (" + fmt.Sprintf(changed, "bare_claims") + ` RETURNING object_id)
		DELETE FROM bare_outbox WHERE home_region = $1::crdb_internal_region AND id = $5::text AND EXISTS (SELECT 1 FROM settled)`,
}

// bareMany is of one row for each element of $3, in a table.
func bareMany(table string) bare {
	return bare{
		begin: `INSERT INTO ` + table + ` (home_region, tenant_id, idem_key, object_id, fingerprint, state, fence, holder, lease_until, first_use)
			SELECT $1::crdb_internal_region, $2::text, n.k, n.o, $5::bytea, 1, 1, 'floor', now() + interval '30 seconds', now() FROM unnest($3::text[], $4::text[]) AS n (k, o)`,
		settle: `UPDATE ` + table + ` SET state = 2, settled_at = now(), status = 201, body = $4::bytea
			WHERE home_region = $1::crdb_internal_region AND tenant_id = $2::text AND idem_key = ANY ($3::text[]) AND fence = 1 AND state = 1`,
	}
}

// bareManyCalls is bareMany with a row of an outbox for each charge while it is in flight,
// in place of an index of what is.
func bareManyCalls(table string) bare {
	of := bareMany(table)
	return bare{
		begin: "WITH won AS (" + of.begin + ` RETURNING object_id, lease_until)
			INSERT INTO bare_many_outbox (home_region, id, payload, due) SELECT $1::crdb_internal_region, object_id, convert_to(repeat('x', 300), 'UTF8'), lease_until FROM won`,
		settle: "WITH settled AS (" + of.settle + ` RETURNING object_id)
			DELETE FROM bare_many_outbox WHERE home_region = $1::crdb_internal_region AND id IN (SELECT object_id FROM settled)`,
	}
}

// bareManyTold is bareMany with a line of audit for each begin, and two for each settle.
func bareManyTold(table string) bare {
	of := bareMany(table)
	note := func(sql, lines string) string {
		return "WITH done AS (" + sql + ` RETURNING tenant_id, idem_key), noted AS (
			INSERT INTO bare_audit (home_region, tenant_id, idem_key, n, event)
			SELECT $1::crdb_internal_region, d.tenant_id, d.idem_key, l.n, 'event' FROM done AS d CROSS JOIN (VALUES ` + lines + `) AS l (n) RETURNING n)
			SELECT tenant_id FROM done`
	}
	return bare{begin: note(of.begin, "(1::int8)"), settle: note(of.settle, "(2::int8), (3::int8)")}
}

// send sends a statement that changes so many rows.
func send(ctx context.Context, pool *pgxpool.Pool, rows int, sql string, args ...any) error {
	tag, err := pool.Exec(ctx, sql, args...)
	if err == nil && tag.RowsAffected() != int64(rows) {
		err = fmt.Errorf("%d rows changed instead of %d: %s", tag.RowsAffected(), rows, sql)
	}
	return err
}

// floorFlags are those of the roles of floors on a database.
type floorFlags struct {
	urls []string // by region
	psp  string
}

func (o *floorFlags) parse(name string, args []string) error {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	_ = f.String("dir", "", "not used: every side gets one")
	f.Func("db", "connection string of the next region's database", func(u string) error {
		o.urls = append(o.urls, u)
		return nil
	})
	f.StringVar(&o.psp, "psp", "", "address of the simulator")
	if err := f.Parse(args); err != nil {
		return err
	}
	if len(o.urls) == 0 {
		return errors.New("-db is missing")
	}
	return nil
}

// pool is a node's, as [sqlstore.Open] makes it.
func pool(ctx context.Context, url string, p sqlstore.Pool) (*pgxpool.Pool, error) {
	l := ledger{url: url}
	return l.rawPool(ctx, p)
}

// sqlFloorRole is the floor of new charges on a database: the body read whole, two
// statements, and one provider call between them, in a pool with the settings of a node's.
func sqlFloorRole(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	var o floorFlags
	if err := o.parse("sqlfloor", args); err != nil {
		return err
	}
	p, err := provider(o.psp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return serveFloors(ctx, o.urls, in, out, func(region string, pool *pgxpool.Pool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			key, fingerprint := r.Header.Get("Idempotency-Key"), sha256.Sum256(body)
			id := "ch_" + key
			if err := send(r.Context(), pool, 1, bareCalls.begin, region, tenantID, key, id, fingerprint[:], body); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			res := p.Charge(r.Context(), psp.Call{Key: key, Reference: id, Amount: bodyAmount, Currency: bodyCurrency, Source: bodySource})
			if res.Outcome != psp.Approved {
				http.Error(w, fmt.Sprint(res.Err), http.StatusBadGateway)
				return
			}
			if err := send(r.Context(), pool, 1, bareCalls.settle, region, tenantID, key, body, id); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answer(w, body, false)
		}
	})
}

// sqlReaderRole is the floor of replays on a database: one row read by its key. A key
// that is not there is written, so that the same generator can fill it.
func sqlReaderRole(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var o floorFlags
	if err := o.parse("sqlreader", args); err != nil {
		return err
	}
	return serveFloors(ctx, o.urls, in, out, func(region string, pool *pgxpool.Pool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			key, fingerprint := r.Header.Get("Idempotency-Key"), sha256.Sum256(body)
			var stored []byte
			err = pool.QueryRow(r.Context(), "SELECT body FROM bare_rows WHERE home_region = $1::crdb_internal_region AND tenant_id = $2 AND idem_key = $3", region, tenantID, key).Scan(&stored)
			if err == nil {
				answer(w, stored, true)
				return
			}
			if errors.Is(err, pgx.ErrNoRows) {
				row := bareRow("bare_rows")
				body = append(body, body...) // about as long as a charge's object
				err = send(r.Context(), pool, 1, row.begin, region, tenantID, key, "ch_"+key, fingerprint[:])
				if err == nil {
					err = send(r.Context(), pool, 1, row.settle, region, tenantID, key, body)
				}
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answer(w, body, false)
		}
	})
}

// serveFloors serves a handler for each region, with a pool of its own.
func serveFloors(ctx context.Context, urls []string, in io.Reader, out io.Writer, handler func(region string, pool *pgxpool.Pool) http.HandlerFunc) (err error) {
	var serving []string
	for i, url := range urls {
		pool, err := pool(ctx, url, patientPool())
		if err != nil {
			return err
		}
		defer pool.Close()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/charges", handler(regionNames[i], pool))
		s := &http.Server{Handler: mux, ReadHeaderTimeout: startTime}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }() // ends with Close
		defer func() {
			err = errors.Join(err, s.Close())
			if served := <-done; !errors.Is(served, http.ErrServerClosed) {
				err = errors.Join(err, served)
			}
		}()
		serving = append(serving, l.Addr().String())
	}
	return serveChild(ctx, serving, in, out)
}

// patientPool is a node's pool by default, but for its patience: a machine that stalls
// should show in a percentile and not end the run.
func patientPool() sqlstore.Pool {
	p := sqlstore.DefaultPool()
	p.StatementTimeout, p.CallTimeout, p.ConnectTimeout = 20*time.Second, 30*time.Second, 10*time.Second
	return p
}
