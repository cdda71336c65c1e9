package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// simulatorRole is the provider, in memory, and an API that a gateway can be in front of.
func simulatorRole(ctx context.Context, _ []string, in io.Reader, out io.Writer) error {
	sim, err := simulator.Open(simulator.Config{})
	if err != nil {
		return err
	}
	api := &http.Server{Handler: upstream(func() time.Duration { return sim.Faults().Latency }), ReadHeaderTimeout: startTime}
	return errors.Join(serve(ctx, in, out, sim.NewServer(""), api), sim.Close())
}

// upstream is an API that takes its time and answers with what it got.
func upstream(latency func() time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if d := latency(); err == nil && d > 0 {
			err = sleepUntil(r.Context(), time.Now().Add(d))
		}
		answer(w, body, false, err)
	}
}

// provider is the adapter that all sides call the simulator with.
func provider(url string) (*httpjson.Provider, error) {
	return httpjson.New(httpjson.Config{
		Name: "simulator", BaseURL: "http://" + url,
		Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
	})
}

// bare is the least that a store could do for charges under key, with the id of the object.
type bare interface {
	begin(ctx context.Context, key, id string, body []byte) error
	settle(ctx context.Context, key, id string, body []byte) error
	// read returns the body that settled the key, nil for none, until done is called.
	read(ctx context.Context, key string) (body []byte, done func(), err error)
}

// floorRole serves floors: of new charges, with -replay of replays, with -gateway of a gateway; on
// Pebble in -dir, or on each -db, a region's.
func floorRole(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	f := flag.NewFlagSet("floor", flag.ContinueOnError)
	dir := f.String("dir", "", "store directory")
	url := f.String("psp", "", "address of the simulator")
	replay := f.Bool("replay", false, "serve replays")
	gateway := f.String("gateway", "", "address of an API to be in front of")
	recorded := f.Bool("bare", true, "store what the API gets and answers")
	var dbs []string
	f.Func("db", "connection string of the next region's database", func(u string) error { dbs = append(dbs, u); return nil })
	if err := f.Parse(args); err != nil {
		return err
	}
	p, err := provider(*url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var stores []bare
	for i, u := range dbs {
		pool, err := barePool(ctx, u)
		if err != nil {
			return err
		}
		defer pool.Close()
		stores = append(stores, bareRows{pool, regionNames[i]})
	}
	if len(dbs) == 0 {
		db, err := floorStore(*dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		stores = append(stores, bareKeys{db})
	}
	var servers []*http.Server
	for _, s := range stores {
		do := http.Handler(charger(s, p))
		switch {
		case *replay:
			do = replayer(s)
		case *gateway != "" && *recorded:
			do = recorder(s, *gateway)
		case *gateway != "":
			do = proxy(*gateway)
		}
		servers = append(servers, &http.Server{Handler: do, ReadHeaderTimeout: startTime})
	}
	return serve(ctx, in, out, servers...)
}

// charger reads the body whole, begins, makes one provider call, and settles.
func charger(s bare, p psp.Provider) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		id := "ch_" + key
		if err == nil {
			err = s.begin(r.Context(), key, id, body)
		}
		if err == nil {
			res := p.Charge(r.Context(), psp.Call{Key: key, Reference: id, Amount: bodyAmount, Currency: bodyCurrency, Source: bodySource})
			if res.Outcome != psp.Approved {
				err = fmt.Errorf("the provider did not approve: %w", res.Err)
			}
		}
		if err == nil {
			err = s.settle(r.Context(), key, id, body)
		}
		answer(w, body, false, err)
	}
}

// proxy is what a gateway does without a store.
func proxy(to string) *httputil.ReverseProxy {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression, t.MaxIdleConns, t.MaxIdleConnsPerHost = true, 0, 4*conns
	return &httputil.ReverseProxy{Transport: t, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: to})
		r.SetXForwarded()
	}}
}

// recorder reads the body whole, begins, lets the API answer, and settles with the body of that.
func recorder(s bare, to string) http.HandlerFunc {
	p := proxy(to)
	p.ModifyResponse = func(res *http.Response) error {
		body, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
		res.Body = io.NopCloser(bytes.NewReader(body))
		key := res.Request.Header.Get("Idempotency-Key")
		return s.settle(res.Request.Context(), key, "ch_"+key, body)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		if err == nil {
			err = s.begin(r.Context(), key, "ch_"+key, body)
		}
		if err != nil {
			answer(w, nil, false, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.ServeHTTP(w, r)
	}
}

// replayer reads one key. A key that is not there is made without a provider, so that the
// same generator can make those that it replays.
func replayer(s bare) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		if err == nil {
			var stored []byte
			var done func()
			if stored, done, err = s.read(r.Context(), key); stored != nil {
				answer(w, stored, true, err)
				done()
				return
			}
		}
		body = append(body, body...) // about as long as a charge's object
		if err == nil {
			err = s.begin(r.Context(), key, "ch_"+key, body)
		}
		if err == nil {
			err = s.settle(r.Context(), key, "ch_"+key, body)
		}
		answer(w, body, false, err)
	}
}

// answer sends a yes, in the least number of headers.
func answer(w http.ResponseWriter, body []byte, replayed bool, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if replayed {
		h[replayedHeader] = []string{"true"}
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body) // a client that has disconnected counts the error itself
}

// bareKeys are two synced commits of the body.
type bareKeys struct{ db *pebble.DB }

func (b bareKeys) begin(_ context.Context, key, _ string, body []byte) error {
	return b.db.Set([]byte("before/"+key), body, pebble.Sync)
}

func (b bareKeys) settle(_ context.Context, key, _ string, body []byte) error {
	return b.db.Set([]byte("after/"+key), body, pebble.Sync)
}

func (b bareKeys) read(_ context.Context, key string) ([]byte, func(), error) {
	body, closer, err := b.db.Get([]byte("after/" + key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil, nil
	}
	return body, func() { _ = closer.Close() }, err // it only releases a cached block
}

// floorStore opens Pebble with the sizes that internal/embedded uses.
func floorStore(dir string) (*pebble.DB, error) {
	cache := pebble.NewCache(48 << 20)
	defer cache.Unref()
	o := &pebble.Options{
		Cache: cache, MemTableSize: 8 << 20, MemTableStopWritesThreshold: 3, MaxOpenFiles: 512,
		FormatMajorVersion: pebble.FormatNewest, Logger: quietLogger{},
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range o.Levels {
		o.Levels[i].BlockSize = 8 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return pebble.Open(dir, o)
}

// quietLogger keeps Pebble's events off the terminal, but not its failures.
type quietLogger struct{}

func (quietLogger) Infof(string, ...any)              {}
func (quietLogger) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (quietLogger) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// bareRows are two statements: a claim with its outbox row, and their end. Floors have no
// pins, audit, books or events.
type bareRows struct {
	pool   *pgxpool.Pool
	region string
}

// bareSchema has the floor's tables, and the index of what is due.
func bareSchema(kind localdb.Kind) []string {
	locality, first := "", "CREATE DOMAIN crdb_internal_region AS text"
	if kind == localdb.CockroachDB {
		locality, first = " LOCALITY REGIONAL BY ROW AS home_region", "SELECT 1"
	}
	return []string{first, `CREATE TABLE bare_claims (
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
		PRIMARY KEY (home_region, tenant_id, idem_key))` + locality,
		"CREATE TABLE bare_outbox (home_region crdb_internal_region NOT NULL, id text NOT NULL, payload bytea NOT NULL, due timestamptz NOT NULL, PRIMARY KEY (home_region, id))" + locality,
		"CREATE INDEX bare_outbox_due ON bare_outbox (home_region, due, id)",
	}
}

const (
	bareBegin = `WITH won AS (
		INSERT INTO bare_claims (home_region, tenant_id, idem_key, object_id, fingerprint, state, fence, holder, lease_until, first_use)
		VALUES ($1::crdb_internal_region, $2::text, $3::text, $4::text, $5::bytea, 1, 1, 'floor', now() + interval '30 seconds', now()) RETURNING lease_until)
		INSERT INTO bare_outbox (home_region, id, payload, due) SELECT $1::crdb_internal_region, $4::text, $6::bytea, lease_until FROM won`
	bareSettle = `WITH settled AS (
		UPDATE bare_claims SET state = 2, settled_at = now(), status = 201, body = $4::bytea
		WHERE home_region = $1::crdb_internal_region AND tenant_id = $2::text AND idem_key = $3::text AND fence = 1 AND state = 1 RETURNING object_id)
		DELETE FROM bare_outbox WHERE home_region = $1::crdb_internal_region AND id = $5::text AND EXISTS (SELECT 1 FROM settled)`
	bareRead = "SELECT body FROM bare_claims WHERE home_region = $1::crdb_internal_region AND tenant_id = $2 AND idem_key = $3"
)

func (b bareRows) begin(ctx context.Context, key, id string, body []byte) error {
	fingerprint := sha256.Sum256(body)
	return b.send(ctx, bareBegin, b.region, tenantID, key, id, fingerprint[:], body)
}

func (b bareRows) settle(ctx context.Context, key, id string, body []byte) error {
	return b.send(ctx, bareSettle, b.region, tenantID, key, body, id)
}

func (b bareRows) read(ctx context.Context, key string) (body []byte, done func(), err error) {
	if err = b.pool.QueryRow(ctx, bareRead, b.region, tenantID, key).Scan(&body); errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return body, func() {}, err
}

// send sends a statement that changes one row.
func (b bareRows) send(ctx context.Context, sql string, args ...any) error {
	tag, err := b.pool.Exec(ctx, sql, args...)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%d rows changed instead of one: %s", tag.RowsAffected(), sql)
	}
	return err
}

// barePool is a node's pool, as sqlstore.Open makes it.
func barePool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	p := patientPool()
	c.MaxConns, c.MinConns = p.MaxConns, p.MinConns
	c.MaxConnLifetime, c.MaxConnLifetimeJitter = p.MaxLifetime, p.MaxLifetime/10
	c.PingTimeout = p.StatementTimeout
	c.ConnConfig.ConnectTimeout = p.ConnectTimeout
	c.ConnConfig.RuntimeParams["statement_timeout"] = fmt.Sprint(p.StatementTimeout.Milliseconds())
	return pgxpool.NewWithConfig(ctx, c)
}
