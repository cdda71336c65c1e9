package sqlstore_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// queued are the queues with their tables.
var queued = map[outbox.Queue]string{
	outbox.ProviderCalls: "claims", outbox.Events: "events", outbox.Expiries: "expiries", outbox.Notices: "notices_due",
}

// ignore keeps PostgreSQL from making statistics of a table by itself.
func (d database) ignore(t *testing.T, table string) {
	t.Helper()
	if d.server.Kind() == localdb.PostgreSQL {
		d.exec(t, "ALTER TABLE "+table+" SET (autovacuum_enabled = false)")
	}
}

// young has CockroachDB make the statistics that it makes by itself, at a moment at which there is no
// row yet. It does so in a new database, and goes by them until it looks again.
func (d database) young(t *testing.T) {
	t.Helper()
	if d.server.Kind() != localdb.CockroachDB {
		return
	}
	for _, table := range d.collected(t) {
		d.exec(t, "ANALYZE "+table)
	}
}

// collected are the tables with which batches are joined, or that are read by the page, and of which
// CockroachDB makes statistics by itself.
func (d database) collected(t *testing.T) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), `SELECT t.table_name FROM [SHOW TABLES] AS t JOIN crdb_internal.create_statements AS s ON s.descriptor_name = t.table_name
		WHERE s.database_name = current_database() AND s.schema_name = 'public' AND t.schema_name = 'public' AND (t.table_name = 'tenants' OR t.locality LIKE 'REGIONAL BY ROW%') AND s.create_statement NOT LIKE '%sql_stats_automatic_collection_enabled = false%'
		ORDER BY 1`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return tables
}

// TestNoTableCountsAsSmall: of a table that CockroachDB has seen empty it reads all rows to find those of
// a batch. Two have few rows for good: a row or some for each region.
func TestNoTableCountsAsSmall(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() != localdb.CockroachDB {
		t.Skip("PostgreSQL's sessions scan no table")
	}
	require.Equal(t, []string{"audit_chains", "ledger_carried"}, d.collected(t), "the others need INJECT STATISTICS in the baseline")
}

// fill puts n due rows into a queue, two of each key, or n claims with due calls. It must
// not do anything for which PostgreSQL would plan kept statements anew.
func (d database) fill(t *testing.T, table string, n int) {
	t.Helper()
	const page = 10_000 // CockroachDB has a statement's rows in memory
	for from := 0; from < n; from += page {
		if table == "claims" {
			d.exec(t, `INSERT INTO claims (home_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint, state, fence, holder,
					lease_until, held_since, first_use, created, receipt, generation, provider_key, attempts, unknowns, not_founds, reason, provider_ref, step,
					call_payload, call_trace, call_created, call_due, call_fence)
				SELECT $1::crdb_internal_region, 'acme', 'row_' || i::text, 'row_' || md5(i::text), 'charge', 1, '', 1, 1, '',
					'2026-01-01Z', '2026-01-01Z', '2026-01-01Z', '2026-01-01Z', '', 1, '', 1, 0, 0, '', '', gen_random_uuid(),
					'{}', '', '2026-01-01Z', '2026-01-01Z'::timestamptz + i * '1 ms'::interval, 0
				FROM generate_series($2::int8, $3::int8) AS g (i)`, regions[0], from, min(from+page, n)-1)
			continue
		}
		d.exec(t, `INSERT INTO `+table+` (home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
			SELECT $1::crdb_internal_region, 'row_' || md5(i::text), 'event_log', 'acme', md5((i / 2)::int8::text), 'charge', '{}', '',
			       '2026-01-01Z'::timestamptz + i * '1 ms'::interval, '2026-01-01Z'::timestamptz + i * '1 ms'::interval, 0
			FROM generate_series($2::int8, $3::int8) AS g (i)`, regions[0], from, min(from+page, n)-1)
	}
}

// TestTakingReadsWhatItTakes fills queues behind the back of statements that have run
// while they were empty, and leaves the database without statistics, as a flood that
// comes faster than they are made: a take must not read the queue, whose length has no
// bound, but about what it takes.
func TestTakingReadsWhatItTakes(t *testing.T) {
	const rows = 50_000
	d := newDatabase(t)
	if d.server.Kind() == localdb.PostgreSQL {
		d.others(t)
		d.exec(t, "ANALYZE") // sessions keep plans only then
	}
	pool := testPool()
	pool.MaxConns, pool.MinConns = 1, 1 // one session plans
	var listener sqlstore.Listener
	db := open(t, sqlstore.Config{URL: d.url, Pool: pool}.Listen(&listener))
	v := view(t, db, regions[0])
	take := func(q outbox.Queue, limit int) int {
		t.Helper()
		got, err := v.Queue(q).Take(t.Context(), regions[0], limit, time.Hour)
		require.NoError(t, err)
		return len(got)
	}
	for q, table := range queued {
		statement := table + "_take"
		if q == outbox.ProviderCalls {
			statement = "calls_take"
		}
		t.Run(table, func(t *testing.T) {
			d.ignore(t, table)
			for range 8 { // from the sixth time on PostgreSQL may keep a plan
				require.Zero(t, take(q, 64))
			}
			d.fill(t, table, rows)
			for _, limit := range []int{1, 16, 64, 256} {
				most := 10*limit + 50 // each row is found, and found again to be written
				if q == outbox.Events {
					most = 40*limit + 50 // each is compared with its key's other row, too, and one of the two waits
				}
				if d.server.Kind() == localdb.CockroachDB {
					// It merges the first rows of each of 16 shards, and looks them up.
					most = 16*4*limit + 1000
					d.decodes(t, listener.All()[statement], limit, most)
					continue
				}
				before := d.read(t, db, table)
				require.Equal(t, limit, take(q, limit))
				require.LessOrEqual(t, d.read(t, db, table)-before, most, "rows and index entries read to take %d", limit)
			}
			d.exec(t, "DELETE FROM "+table+" WHERE true")
		})
	}
}

// TestAListReadsWhatItLists has the charges of two merchants, one of which has few, in tables with and
// without statistics: a page of a list must not read the charges beside it, by whomever and of
// whatever time they are.
func TestAListReadsWhatItLists(t *testing.T) {
	const rows = 40_000
	d := newDatabase(t)
	pool := testPool()
	pool.MaxConns, pool.MinConns = 1, 1 // one session plans
	var listener sqlstore.Listener
	db := open(t, sqlstore.Config{URL: d.url, Pool: pool}.Listen(&listener))
	v := view(t, db, regions[0])
	d.ignore(t, "ledger")
	d.young(t)
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(i int) ledger.Position { return ledger.Position{At: first.Add(time.Duration(i) * time.Second)} }
	var lists []ledger.Charges
	for _, latest := range []bool{true, false} {
		for _, c := range []ledger.Charges{
			{Tenant: "acme"}, {Tenant: "acme", After: at(rows / 3), Before: at(rows / 2)}, {Tenant: "small"}, {Tenant: "none"},
			{Tenant: "acme", Order: "order-7"}, {Tenant: "acme", Order: "one"}, {Tenant: "acme", Order: "one", After: at(rows / 3), Before: at(rows / 2)}, {Tenant: "acme", Order: "none"},
		} {
			c.Latest, c.Limit = latest, 10
			lists = append(lists, c)
		}
	}
	for range 8 { // from the sixth time on PostgreSQL may keep a plan
		for _, c := range lists {
			all, err := v.Charges(t.Context(), regions[0], c)
			require.NoError(t, err)
			require.Empty(t, all)
		}
	}
	const page = 10_000 // CockroachDB has a statement's rows in memory
	for from := 0; from < rows; from += page {
		d.exec(t, `INSERT INTO ledger (home_region, id, tenant_id, kind, at, debit_account, debit_amount, credit_account, credit_amount, currency,
				object_id, reverses, provider, provider_ref, created, order_id)
			SELECT $1::crdb_internal_region, 'ch_' || md5(i::text), CASE WHEN i % 1000 = 7 THEN 'small' ELSE 'acme' END, 'charge', '2026-01-01Z', 'provider:sim', 1,
				'merchant:acme', -1, 'usd', 'ch_' || md5(i::text), '', 'sim', i::text, '2026-01-01Z'::timestamptz + i * '1 s'::interval,
				CASE WHEN i % 2 = 0 THEN 'one' ELSE 'order-' || (i / 8)::int8::text END
			FROM generate_series($2::int8, $3::int8) AS g (i)`, regions[0], from, min(from+page, rows)-1)
	}
	for _, analysed := range []bool{false, true} {
		if analysed {
			d.exec(t, "ANALYZE ledger")
		}
		for _, c := range lists {
			before := 0
			if d.server.Kind() == localdb.PostgreSQL {
				before = d.read(t, db, "ledger")
			}
			all, err := v.Charges(t.Context(), regions[0], c)
			require.NoError(t, err)
			switch {
			case c.Tenant == "none" || c.Order == "none":
				require.Empty(t, all)
			case c.Order != "order-7":
				require.Len(t, all, c.Limit)
			}
			if d.server.Kind() == localdb.PostgreSQL {
				require.LessOrEqual(t, d.read(t, db, "ledger")-before, 4*c.Limit, "%+v: an index entry and a row of each", c)
				continue
			}
			statement := "ledger_charges"
			if c.Order != "" {
				statement = "ledger_orders"
			}
			// It merges the first rows of each of 16 shards, and looks them up.
			d.decodes(t, listener.All()[statement], c.Limit, 16*4*c.Limit)
		}
	}
}

// TestEndingReadsWhatItEnds does the same for rows that end together, and for the look
// that comes before a take.
func TestEndingReadsWhatItEnds(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it reads PostgreSQL's counters; on CockroachDB every plan is made for its run")
	}
	d.others(t)
	d.exec(t, "ANALYZE") // sessions keep plans only then
	pool := testPool()
	pool.MaxConns, pool.MinConns = 1, 1
	db := open(t, sqlstore.Config{URL: d.url, Pool: pool})
	v := view(t, db, regions[0])
	for q, table := range queued {
		t.Run(table, func(t *testing.T) {
			store := v.Queue(q)
			d.ignore(t, table)
			step := func(n int) {
				t.Helper()
				_, err := v.NextDue(t.Context(), regions[0])
				require.NoError(t, err)
				rows, err := store.Take(t.Context(), regions[0], n, time.Hour)
				require.NoError(t, err)
				require.Len(t, rows, n)
				looked := d.read(t, db, table)
				_, err = v.NextDue(t.Context(), regions[0])
				require.NoError(t, err)
				// An event that waits is compared with the rows of its key, and with their old versions.
				require.LessOrEqual(t, d.read(t, db, table)-looked, 40*n+500, "read by a look, past what was just taken")
				var finish []outbox.Hold
				var retry []outbox.Delay
				for i, m := range rows {
					if h := m.Hold(); i%2 == 0 {
						finish = append(finish, h)
					} else {
						retry = append(retry, outbox.Delay{Hold: h, After: time.Hour})
					}
				}
				before := d.read(t, db, table)
				require.NoError(t, store.FinishAll(t.Context(), regions[0], finish))
				require.NoError(t, store.RetryAll(t.Context(), regions[0], retry))
				require.LessOrEqual(t, d.read(t, db, table)-before, 10*n+100, "read to end %d", n)
			}
			d.fill(t, table, 40)
			for range 8 { // from the sixth time on PostgreSQL may keep a plan
				step(2)
			}
			d.exec(t, "DELETE FROM "+table+" WHERE true")
			d.fill(t, table, 50_000)
			for _, n := range []int{2, 16, 64} {
				step(n)
			}
			d.exec(t, "DELETE FROM "+table+" WHERE true")
		})
	}
}

// TestAChargeReadsItsOwnRows does the same for the life of a claim: the rows of others
// are none of its business, neither in a new database nor when a flood comes to an
// outbox that is known to be empty.
func TestAChargeReadsItsOwnRows(t *testing.T) {
	for _, tt := range []struct {
		name  string
		known bool
	}{{"new database", false}, {"known tables", true}} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDatabase(t)
			if d.server.Kind() == localdb.CockroachDB {
				t.Skip("it reads PostgreSQL's counters; on CockroachDB every plan is made for its run")
			}
			tables := []string{"claims", "audit"}
			for _, table := range tables {
				d.ignore(t, table)
			}
			if tt.known {
				d.others(t)
				d.exec(t, "ANALYZE")
			}
			pool := testPool()
			pool.MaxConns, pool.MinConns = 1, 1
			db := open(t, sqlstore.Config{URL: d.url, Pool: pool})
			require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}))
			v := view(t, db, regions[0])
			for i := range 8 {
				wholeLife(t, d, v, fmt.Sprint("early", i))
			}
			if !tt.known {
				d.others(t)
			}
			d.fill(t, "claims", 50_000)
			before := map[string]int{}
			for _, table := range tables {
				before[table] = d.read(t, db, table)
			}
			wholeLife(t, d, v, "late")
			for _, table := range tables {
				require.LessOrEqual(t, d.read(t, db, table)-before[table], 50, "rows and index entries read of %s", table)
			}
		})
	}
}

// wholeLife takes a claim through all that happens at home.
func wholeLife(t *testing.T, d database, v *sqlstore.View, key string) {
	t.Helper()
	got, err := v.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, regions[0], "1", "n", "ch_"+key))
	require.NoError(t, err)
	rec, err := v.Settle(t.Context(), got.Record, timedOut)
	require.NoError(t, err)
	d.clock.advance(t, timedOut.Outcome.(*claim.Unknown).RetryIn+testPolicy().ClockOffset)
	rec, err = v.TakeOver(t.Context(), rec.Key, rec.Home, rec.Minted.ID, "heir", rec.Home, claim.News{})
	require.NoError(t, err)
	d.clock.advance(t, testPolicy().RenewEvery)
	held, err := v.Renew(t.Context(), "heir", []claim.Lease{{Key: rec.Key, Home: rec.Home, Fence: rec.Fence}})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, held)
	_, err = v.Settle(t.Context(), rec, paid(key))
	require.NoError(t, err)
	_, _, found, err := v.Get(t.Context(), rec.Key, rec.Home)
	require.NoError(t, err)
	require.True(t, found)
	_, _, found, err = v.Object(t.Context(), "acme", rec.Home, rec.Minted.ID)
	require.NoError(t, err)
	require.True(t, found)
	back, err := v.Reversing(t.Context(), "acme", rec.Home, rec.Minted.ID, 100)
	require.NoError(t, err)
	require.Empty(t, back)
}

// others are 50,000 claims of the same tenant with what belongs to them.
func (d database) others(t *testing.T) {
	t.Helper()
	const all = `FROM generate_series(1, 50000) AS g (i)`
	d.exec(t, `INSERT INTO audit (home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
		SELECT $1::crdb_internal_region, 'acme', md5(i::text), '2026-01-01Z', gen_random_uuid(), 'settled', '', '', 1, 1, '' `+all, regions[0])
	d.exec(t, `INSERT INTO claims (home_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint, state, fence, holder,
			lease_until, held_since, first_use, created, receipt, generation, provider_key, attempts, unknowns, not_founds, reason, provider_ref, step)
		SELECT $1::crdb_internal_region, 'acme', md5(i::text), md5(i::text), 'charge', 1, '', 1, 1, '',
			'2026-01-01Z', '2026-01-01Z', '2026-01-01Z', '2026-01-01Z', '', 1, '', 1, 0, 0, '', '', gen_random_uuid() `+all, regions[0])
}

// read is how many rows and index entries PostgreSQL has read of a table so far.
func (d database) read(t *testing.T, db *sqlstore.DB, table string) int {
	t.Helper()
	require.NoError(t, db.Exec(t.Context(), "SELECT pg_stat_force_next_flush()"))
	return d.count(t, `SELECT s.seq_tup_read + (SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes AS i WHERE i.relid = s.relid)
		FROM pg_stat_user_tables AS s WHERE s.relname = $1`, table)
}

var decodedRows = regexp.MustCompile(`rows decoded from KV: ([\d,]+)`)

// decodes requires that CockroachDB reads at most so many rows for a statement, as it was last sent but
// for its limit.
func (d database) decodes(t *testing.T, s sqlstore.Heard, limit, most int) {
	t.Helper()
	args := slices.Clone(s.Args)
	for i, arg := range args {
		if _, ok := arg.(int64); ok {
			args[i] = int64(limit)
		}
	}
	conn, err := pgx.Connect(t.Context(), d.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), "EXPLAIN ANALYZE "+s.SQL, args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	plan := strings.Join(lines, "\n")
	m := decodedRows.FindStringSubmatch(plan)
	if m == nil && strings.Contains(plan, "KV rows decoded: 0\n") {
		return // it has no such line then
	}
	require.NotNil(t, m, plan)
	n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
	require.NoError(t, err)
	t.Log("limit", limit, "read", n)
	require.LessOrEqual(t, n, most, "%v: %s", args, plan)
}

// TestAReplicaReadsWhatItShows has tables without statistics, as in a young database: a look-up must not
// read all claims or pins of a region.
func TestAReplicaReadsWhatItShows(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it reads PostgreSQL's counters")
	}
	pool := testPool()
	pool.MaxConns, pool.MinConns = 1, 1 // one session counts
	db := open(t, sqlstore.Config{URL: d.admin, Pool: pool})
	run := func(sql string) { require.NoError(t, db.Exec(t.Context(), sql)) }
	for _, table := range []string{"claims", "pins", "tenants"} {
		d.ignore(t, table)
	}
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}))
	for _, rows := range []int{5_000, 50_000} { // the planner estimates by the files' size alone
		run(fmt.Sprintf(`INSERT INTO claims (home_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint, state, fence, holder,
				lease_until, held_since, first_use, created, receipt, generation, provider_key, attempts, unknowns, not_founds, reason, provider_ref, step, answer_status)
			SELECT '%s', 'acme', md5(i::text), md5(i::text), 'charge', 1, '', 2, 1, '',
				'2026-01-01Z', '2026-01-01Z', '2026-01-01Z', '2026-01-01Z', '', 1, '', 1, 0, 0, '', '', gen_random_uuid(), 201
			FROM generate_series(1, %d) AS g (i) ON CONFLICT DO NOTHING`, regions[0], rows))
		run("INSERT INTO pins (registrar, tenant_id, idem_key, home_region, created_at) SELECT home_region, tenant_id, idem_key, home_region, '2026-01-01Z' FROM claims ON CONFLICT DO NOTHING")
		v := view(t, db, regions[0])
		stamped, err := claim.Stamp(1, nil)
		require.NoError(t, err)
		const known = "c4ca4238a0b923820dcc509a6f75849b"
		for name, look := range map[string]func() error{
			"an opaque key": func() error {
				_, err := v.Replica(t.Context(), claim.Key{Tenant: "acme", Value: known})
				return err
			},
			"a stamped key": func() error {
				_, err := v.Replica(t.Context(), claim.Key{Tenant: "acme", Value: stamped})
				return err
			},
		} {
			t.Run(fmt.Sprintf("%s of %d", name, rows), func(t *testing.T) {
				before := d.read(t, db, "claims") + d.read(t, db, "pins")
				require.NoError(t, look())
				require.LessOrEqual(t, d.read(t, db, "claims")+d.read(t, db, "pins")-before, 10, "rows and index entries read")
			})
		}
	}
}
