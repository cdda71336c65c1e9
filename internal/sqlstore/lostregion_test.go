package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestCockroachDBLosesARegion kills the CockroachDB node of a region and prints what that costs those
// who use the region's rows through another: docs/DATABASE.md has the figures. With the goal region
// the rows are served while the node is away; with zone no statement of the store waits for long.
func TestCockroachDBLosesARegion(t *testing.T) {
	if testing.Short() {
		t.Skip("two losses of a region, minutes on CockroachDB")
	}
	s := dbtest.Start(t, localdb.Config{Regions: regions, Durable: true})
	if s.Kind() != localdb.CockroachDB {
		t.Skip("PostgreSQL is one server")
	}
	lost, other := regions[1], regions[2]
	require.NoError(t, s.CreateDatabase(t.Context(), "homeward", ""))
	url := s.URL(other, "homeward")
	for _, goal := range []sqlstore.Survival{sqlstore.SurviveRegion, sqlstore.SurviveZone} {
		t.Run(string(goal), func(t *testing.T) {
			m, err := sqlstore.OpenMigrator(t.Context(), url, false)
			require.NoError(t, err)
			want := sqlstore.Migration{Survive: goal}
			for _, r := range regions {
				want.Regions = append(want.Regions, claim.Region{Name: r})
			}
			require.NoError(t, m.Up(t.Context(), want, nil))
			require.NoError(t, m.Close(t.Context()))
			losesARegion(t, s, url, lost, other, goal)
		})
	}
}

func losesARegion(t *testing.T, s *localdb.Server, url, lost, other string, goal sqlstore.Survival) {
	admin, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(context.Background())) }()
	run := func(sql string) {
		_, err := admin.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	run("CREATE TABLE IF NOT EXISTS probe (region crdb_internal_region, id INT, n INT, PRIMARY KEY (region, id)) LOCALITY REGIONAL BY ROW AS region")
	const rows = 4
	for id := range rows {
		for _, r := range []string{lost, other} {
			run(fmt.Sprintf("UPSERT INTO probe VALUES ('%s', %d, 0)", r, id))
		}
	}
	if goal == sqlstore.SurviveZone {
		// A region of one node cannot have three voters: CockroachDB would leave two elsewhere.
		run("SET override_multi_region_zone_config = true")
		rows, err := admin.Query(t.Context(), "SELECT table_name FROM [SHOW TABLES] WHERE locality LIKE 'REGIONAL BY ROW%'")
		require.NoError(t, err)
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for _, table := range tables {
			run(fmt.Sprintf(`ALTER PARTITION "%s" OF INDEX %s@* CONFIGURE ZONE USING num_voters = 1`, lost, table))
		}
	}
	db := open(t, sqlstore.Config{URL: url, Pool: sqlstore.DefaultPool()})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: other}))
	soon := func(what string, done func() bool) {
		for give := time.Now().Add(4 * time.Minute); !done(); time.Sleep(time.Second) { // no signal of it reaches a client
			require.True(t, time.Now().Before(give), what)
		}
	}
	soon("the leases of the region's rows are not there", func() bool {
		for _, table := range []string{"probe", "claims"} {
			var led, alone int
			require.NoError(t, admin.QueryRow(t.Context(), fmt.Sprintf(`SELECT count(*), count(*) FILTER (WHERE array_length(voting_replicas, 1) = 1)
				FROM [SHOW RANGES FROM TABLE %s WITH DETAILS] WHERE lease_holder_locality = 'region=%s'`, table, lost)).Scan(&led, &alone))
			if led == 0 || goal == sqlstore.SurviveZone && alone < led {
				require.NoError(t, s.PlaceLeases(t.Context(), "homeward"))
				return false
			}
		}
		return true
	})

	// Statements without a limit of their own, one after the other, on rows of both regions.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var killed atomic.Pointer[time.Time]
	var ended atomic.Int64
	var mu sync.Mutex
	type heard struct {
		region     string
		began, end time.Duration // since the loss
		err        string
	}
	var all []heard
	var loops sync.WaitGroup
	for _, r := range []string{lost, other} {
		for id := range rows {
			conn, err := pgx.Connect(t.Context(), url)
			require.NoError(t, err)
			loops.Go(func() {
				defer func() { _ = conn.Close(context.Background()) }()
				for ctx.Err() == nil && !conn.IsClosed() {
					began := time.Now()
					_, err := conn.Exec(ctx, "UPDATE probe SET n = n + 1 WHERE region = $1 AND id = $2", r, id)
					ended.Add(1)
					at := killed.Load()
					if err != nil && at == nil {
						t.Error(err)
						return
					}
					if at == nil || time.Now().Before(*at) {
						continue
					}
					h := heard{region: r, began: began.Sub(*at), end: time.Since(*at)}
					if ctx.Err() != nil {
						if h.end-h.began < time.Second {
							return
						}
						h.err = "no answer yet"
					} else if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
						h.err = pg.Code + " " + strings.SplitN(pg.Message, ":", 2)[0]
					} else if err != nil {
						h.err = err.Error()
					}
					mu.Lock()
					all = append(all, h)
					mu.Unlock()
				}
			})
		}
	}
	soon("no statement ends", func() bool { return ended.Load() > 100*rows })
	now := time.Now()
	killed.Store(&now)
	require.NoError(t, s.Kill(lost))

	// The store's own steps, as a deputy takes them.
	v := view(t, db, other)
	var slowest, served time.Duration
	for n := 0; time.Since(now) < 30*time.Second; n++ {
		key := fmt.Sprintf("%s-%d", goal, n)
		began := time.Now()
		_, err := v.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, lost, "1", "n", "ch_"+key))
		if err != nil {
			require.True(t, errors.Is(err, claim.ErrUnavailable) || errors.Is(err, claim.ErrHomeUnreachable), "%v", err)
			slowest = max(slowest, time.Since(began))
		} else if served == 0 {
			served = time.Since(now)
			break
		}
	}
	time.Sleep(10 * time.Second) // what hangs may end
	stop()
	loops.Wait()
	t.Logf("%s, survival goal %s: the node of %s was killed", s.Version(), goal, lost)
	t.Logf("  a deputy's Begin: first served after %v; the slowest refusal took %v", served.Round(10*time.Millisecond), slowest.Round(10*time.Millisecond))
	for _, r := range []string{lost, other} {
		var underway, first, longest time.Duration
		kinds := map[string]int{}
		for _, h := range all {
			if h.region != r {
				continue
			}
			if h.err != "" {
				kinds[h.err]++
			} else if h.began < 0 {
				underway = max(underway, h.end)
			} else if first == 0 || h.end < first {
				first = h.end
			}
			longest = max(longest, h.end-max(h.began, 0))
		}
		var errs []string
		for k, n := range kinds {
			errs = append(errs, fmt.Sprintf("%d × %s", n, k))
		}
		slices.Sort(errs)
		t.Logf("  rows of %s: statements under way ended within %v, the first new one after %v, the longest took %v; errors: %s", r,
			underway.Round(10*time.Millisecond), first.Round(10*time.Millisecond), longest.Round(10*time.Millisecond), strings.Join(errs, ", "))
	}
	for _, name := range []string{"kv.lease.expiration_leases_only.enabled", "kv.replica_circuit_breaker.slow_replication_threshold", "kv.dist_sender.circuit_breakers.mode"} {
		var value any
		require.NoError(t, admin.QueryRow(t.Context(), "SHOW CLUSTER SETTING "+name).Scan(&value))
		t.Logf("  %s = %v", name, value)
	}
	require.Equal(t, goal == sqlstore.SurviveRegion, served > 0)
	require.NoError(t, s.Restart(t.Context(), lost))
	soon("the region does not come back", func() bool {
		_, err := v.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: string(goal) + "-back"}, lost, "1", "n", "ch_back"+string(goal)))
		return err == nil
	})
}
