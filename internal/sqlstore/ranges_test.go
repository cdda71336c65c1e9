package sqlstore_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/outbox"
)

// TestNoRangeIsHot lets CockroachDB split ranges by load for a minute of charges. Then none of
// a hot table takes more than an eighth of the writes: where an index only ascends, one range
// takes all of the index's, however often it is split.
//
// The charges are of many nodes, so that few share a statement: by requests a second, which
// every build of CockroachDB counts, it splits no range between the keys of one request.
func TestNoRangeIsHot(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() != localdb.CockroachDB || testing.Short() {
		t.Skip("it watches CockroachDB split ranges, for two minutes")
	}
	set := func(name, value string) {
		d.exec(t, fmt.Sprintf("SET CLUSTER SETTING %s = %s", name, value))
		t.Cleanup(func() { d.exec(t, "RESET CLUSTER SETTING "+name) })
	}
	set("kv.allocator.load_based_rebalancing.objective", "'qps'")
	set("kv.range_split.load_qps_threshold", "20")
	var nodes []*sqlstore.View
	for range 16 {
		pool := testPool()
		pool.MaxConns, pool.MinConns = 2, 1
		nodes = append(nodes, view(t, open(t, sqlstore.Config{URL: d.url, Pool: pool, Policy: testPolicy()}), regions[0]))
	}
	charge(t, nodes, time.Minute)
	d.exec(t, "SET CLUSTER SETTING kv.range_split.by_load.enabled = false") // so that a range stays one
	t.Cleanup(func() { d.exec(t, "RESET CLUSTER SETTING kv.range_split.by_load.enabled") })
	before := d.versions(t)
	charge(t, nodes, 20*time.Second)
	after := d.versions(t)
	all, most := 0, 0
	var lines []string
	for r, n := range after {
		n -= before[r]
		all, most = all+n, max(most, n)
		lines = append(lines, fmt.Sprintf("%6d %s", n, r))
	}
	slices.Sort(lines)
	t.Logf("%d writes to %d ranges; the most:\n%s", all, len(after), strings.Join(lines[max(0, len(lines)-12):], "\n"))
	require.Greater(t, all, 1000)
	require.LessOrEqual(t, most, all/8, "writes to the range that takes the most")
}

// charge begins and settles charges at each node, one after the other, and delivers their
// events, for so long.
func charge(t *testing.T, nodes []*sqlstore.View, long time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var work sync.WaitGroup
	var n atomic.Int64
	for i, v := range nodes {
		work.Go(func() {
			for ctx.Err() == nil {
				id := uuid.NewString()
				got, err := v.Begin(ctx, claimtest.NewArrival(claim.Key{Tenant: fmt.Sprint("merchant", i), Value: id}, regions[0], "1", "n", "ch_"+id))
				if err != nil {
					continue
				}
				_, err = v.Settle(ctx, got.Record, claim.Verdict{Outcome: &claim.Done{
					Response: claim.Response{Status: 201}, Posting: claimtest.Posting(got.Record, "charge:"+id), Events: claimtest.Events(got.Record, 1),
				}})
				if err == nil {
					n.Add(1)
				}
				rows, err := v.Queue(outbox.Events).Take(ctx, regions[0], 2, time.Minute)
				for _, m := range rows {
					err = cmp.Or(err, v.Queue(outbox.Events).Finish(ctx, regions[0], m.Hold()))
				}
				if err != nil && ctx.Err() == nil {
					t.Log(err)
				}
			}
		})
	}
	work.Wait()
	t.Logf("%d charges in %v", n.Load(), long)
}

// versions counts the versions of rows and index entries in each range, which writes add to.
func (d database) versions(t *testing.T) map[string]int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, _ = conn.Exec(t.Context(), "SET allow_unsafe_internals = true") // older versions do not know it
	of := map[string]int{}
	for _, table := range []string{"claims", "pins", "ledger", "audit", "events", "expiries", "unpaid"} {
		rows, err := conn.Query(t.Context(), `SELECT string_agg(index_name, ' '), min(start_key), max((crdb_internal.range_stats(raw_start_key)->>'val_count')::int8)
			FROM [SHOW RANGES FROM TABLE `+table+` WITH INDEXES, KEYS] GROUP BY range_id`)
		require.NoError(t, err)
		var indexes, key string
		var n int
		_, err = pgx.ForEachRow(rows, []any{&indexes, &key, &n}, func() error {
			of[indexes+" "+key] = n
			return nil
		})
		require.NoError(t, err)
	}
	return of
}
