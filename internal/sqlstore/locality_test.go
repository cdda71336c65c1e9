package sqlstore_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
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
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/notice"
)

// homePath is every statement that a request or its recovery waits for where
// gateway and home share a region.
var homePath = []string{
	"begin", "begin_here", "find", "begin_again", "change", "renew", "settle", "defer", "object", "timeline",
	"tenant", "tenant_by_api_key",
	"calls_take", "calls_message", "calls_finish", "calls_retry", "look", "calls_unpark", "calls_parked", "calls_waiting", "calls_depth", "claims_unknown",
	"events_take", "events_message", "events_finish", "events_retry", "events_unpark", "events_parked", "events_waiting", "events_waits", "events_depth",
	"expiries_take", "expiries_finish", "notices_due_take", "notices_due_retry",
	"ledger_book", "ledger_about", "ledger_reversals", "ledger_named", "ledger_transactions", "ledger_charges", "ledger_orders", "ledger_balances", "claims_settled", "unpaid", "reversing",
	"notices_keep", "notices_close", "notice", "documents",
}

// pinPath is what the first write of an opaque key sends beside that. The region
// of a pin is for the tenant's row to say, in the same statement, so no plan can
// name it: what can be seen is that no partition is searched without being named.
var pinPath = []string{"pin", "pin_read", "pin_write"}

// walkPins pins a key in the registrar's region, and confirms the pin.
func walkPins(t *testing.T, db *sqlstore.DB, p claim.Policy) {
	t.Helper()
	v, key := view(t, db, regions[0]), claim.Key{Tenant: "acme", Value: "pinned"}
	pin, err := v.Pin(t.Context(), key, regions[0])
	require.NoError(t, err)
	passed(t, v, pin.CreatedAt.Add(p.CreateWithin()))
	again, err := v.Pin(t.Context(), key, regions[0])
	require.NoError(t, err)
	require.True(t, again.CreatedAt.After(pin.CreatedAt), "confirmed")
}

// passed waits until the database's clock is past a time.
func passed(t testing.TB, v *sqlstore.View, until time.Time) {
	t.Helper()
	for {
		_, now, _, err := v.Get(t.Context(), claim.Key{Tenant: "acme", Value: "clock"}, regions[0])
		require.NoError(t, err)
		if !now.Before(until) {
			return
		}
		<-time.After(until.Sub(now))
	}
}

// walkHome takes the store through everything that happens at home.
func walkHome(t *testing.T, db *sqlstore.DB, p claim.Policy) {
	t.Helper()
	ctx, home := t.Context(), regions[0]
	v := view(t, db, home)
	begin := func(key, body, holder string, want claim.Decision) claim.Record {
		t.Helper()
		a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, home, body, holder, "ch_"+key+holder)
		got, err := v.Begin(ctx, a)
		for err == nil && got.Decision == claim.Shared { // until it is one that began after the decline
			passed(t, v, got.Now.Add(p.DeclinePause))
			got, err = v.Begin(ctx, a)
		}
		require.NoError(t, err)
		require.Equal(t, want.String(), got.Decision.String())
		return got.Record
	}
	settle := func(rec claim.Record, verdict claim.Verdict) claim.Record {
		t.Helper()
		rec, err := v.Settle(ctx, rec, verdict)
		require.NoError(t, err)
		return rec
	}
	_, found, err := v.TenantByAPIKey(ctx, claim.HashAPIKey("sk_acme"))
	require.NoError(t, err)
	require.True(t, found)
	_, err = v.Registrar(ctx, "acme")
	require.NoError(t, err)

	held := begin("done", "1", "n", claim.Won)
	done := settle(held, claim.Verdict{Outcome: &claim.Done{
		Response: claim.Response{Status: 201}, Posting: claimtest.Posting(held, held.Minted.ID), Events: claimtest.Events(held, 2),
	}})
	begin("done", "1", "m", claim.Replay)
	begin("done", "2", "m", claim.Mismatch)
	_, _, found, err = v.Object(ctx, "acme", home, done.Minted.ID)
	require.NoError(t, err)
	require.True(t, found)
	_, err = v.Timeline(ctx, done.Key, home, 10)
	require.NoError(t, err)
	soft := settle(begin("soft", "1", "n", claim.Won), claim.Verdict{Outcome: &claim.Released{
		Reason: "insufficient_funds", Response: claim.Response{Status: 402}, Expiry: &outbox.Message{Operation: "charge", Payload: []byte("{}"), Due: done.SettledAt},
	}})
	require.Equal(t, claim.FailedRetry, soft.State)
	settle(begin("soft", "1", "n2", claim.Won), claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201}}})
	soft = settle(begin("late", "1", "n", claim.Won), claim.Verdict{Outcome: &claim.Released{Response: claim.Response{Status: 402}}})
	require.Equal(t, claim.FailedTerminal, settle(soft, claim.Verdict{Outcome: &claim.Refused{
		Reason: "expired", Response: claim.Response{Status: 402},
	}}).State)
	_, err = v.Waits(ctx, home, "acme", "evt_"+done.Minted.ID+"_")
	require.NoError(t, err)
	_, found, err = v.Unpaid(ctx, home, soft.Minted.ID)
	require.NoError(t, err)
	require.True(t, found)
	settled, err := v.Settled(ctx, home, claim.Key{}, 10)
	require.NoError(t, err)
	require.Len(t, settled, 3)

	held = begin("held", "1", "n", claim.Won)
	kept, err := v.Renew(ctx, "n", []claim.Lease{{Key: held.Key, Home: home, Fence: held.Fence}})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, kept)
	settle(held, claim.Verdict{Outcome: &claim.Unknown{Reason: "timeout"}})

	lapsed := begin("lapsed", "1", "n", claim.Won)
	passed(t, v, lapsed.LeaseUntil.Add(p.ClockOffset))
	taken, err := v.TakeOver(ctx, lapsed.Key, home, lapsed.Minted.ID, "heir", home, claim.News{})
	require.NoError(t, err)
	settle(taken, claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201}}})

	// The row of "held" is due.
	_, err = v.NextDue(ctx, home)
	require.NoError(t, err)
	walkQueue(t, v, outbox.ProviderCalls)
	walkQueue(t, v, outbox.Events)
	expiry := takeFrom(t, v, outbox.Expiries)
	require.NoError(t, v.Queue(outbox.Expiries).Finish(ctx, home, expiry.Hold()))

	fresh, err := v.Keep(ctx, home, []notice.Notice{{ID: "sim:evt_1", Provider: "sim", Body: []byte("{}")}, {ID: "sim:evt_2", Provider: "sim", Body: []byte("{}")}})
	require.NoError(t, err)
	require.Equal(t, 2, fresh)
	n := takeFrom(t, v, outbox.Notices)
	require.NoError(t, v.Queue(outbox.Notices).Retry(ctx, home, n.Hold(), 0, "boom"))
	n = takeFrom(t, v, outbox.Notices)
	require.NoError(t, v.Queue(outbox.Notices).Park(ctx, home, n.Hold(), "no"))
	n = takeFrom(t, v, outbox.Notices)
	_, err = v.CloseAll(ctx, home, []outbox.Hold{{ID: n.ID, Fence: n.Fence - 1}}, notice.ProcessedOK, "known")
	require.NoError(t, err)
	require.NoError(t, v.Close(ctx, home, n.ID, n.Fence, notice.Ignored, "of no concern"))
	closed, found, err := v.Notice(ctx, home, n.ID)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, notice.Ignored, closed.Status)

	ghost := *claimtest.Posting(done, "ghost_1")
	ghost.Region = home
	posted, err := v.Post(ctx, ghost)
	require.NoError(t, err)
	require.True(t, posted)
	_, found, err = v.Transaction(ctx, home, "ghost_1")
	require.NoError(t, err)
	require.True(t, found)
	_, err = v.Reversing(ctx, "acme", home, "ch_1", 100)
	require.NoError(t, err)
	_, err = v.Named(ctx, home, []string{"ghost_1"})
	require.NoError(t, err)
	_, err = v.ReversalsAt(ctx, home, "ch_1")
	require.NoError(t, err)
	_, err = v.About(ctx, home, "ch_1")
	require.NoError(t, err)
	for _, order := range []string{"", "order-17"} {
		for _, latest := range []bool{true, false} {
			_, err = v.Charges(ctx, home, ledger.Charges{Tenant: "acme", Order: order, Latest: latest, Limit: 11})
			require.NoError(t, err)
		}
	}
	_, found, err = v.GhostRefund(ctx, home, "re_1")
	require.NoError(t, err)
	require.False(t, found)
	posted, err = v.Book(ctx, ledger.FailureOf(ghost), []outbox.Message{{
		ID: "evt_failed", Region: home, Kind: outbox.KindLog, Tenant: "acme", Key: "k", Operation: "charge", Payload: []byte("{}"),
	}})
	require.NoError(t, err)
	require.True(t, posted)
	_, err = v.Unknown(ctx, home, true, 10)
	require.NoError(t, err)
	rows, _, err := v.Brakes(ctx)
	require.NoError(t, err)
	require.Empty(t, rows)
	books, err := v.Transactions(ctx, home, ledger.Position{}, time.Time{}, 10)
	require.NoError(t, err)
	require.Len(t, books, 3)
	balances, err := v.Balances(ctx, home, ledger.AccountKey{}, 10)
	require.NoError(t, err)
	require.Len(t, balances, 2)
	_, found, err = v.Endpoint(ctx, "acme")
	require.NoError(t, err)
	require.False(t, found)

	opaque := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "opaque"}, home, "1", "n", "ch_opaque")
	opaque.Stamped, opaque.PinHere = false, true
	first, err := v.Begin(ctx, opaque)
	require.NoError(t, err)
	require.Equal(t, claim.Won.String(), first.Decision.String())
}

// takeFrom takes one row of a queue as soon as one is due.
func takeFrom(t *testing.T, v *sqlstore.View, q outbox.Queue) outbox.Message {
	t.Helper()
	for range 100 {
		got, err := v.Queue(q).Take(t.Context(), v.Name(), 1, time.Second)
		require.NoError(t, err)
		if len(got) == 1 {
			return got[0]
		}
		<-time.After(50 * time.Millisecond)
	}
	require.FailNow(t, "no row became due")
	return outbox.Message{}
}

// walkQueue takes one row of a queue through everything.
func walkQueue(t *testing.T, v *sqlstore.View, name outbox.Queue) {
	t.Helper()
	ctx, home, q := t.Context(), v.Name(), v.Queue(name)
	m := takeFrom(t, v, name)
	_, found, err := q.Message(ctx, home, m.ID)
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, q.Retry(ctx, home, m.Hold(), 0, "boom"))
	_, err = v.NextDue(ctx, home)
	require.NoError(t, err)
	m = takeFrom(t, v, name)
	require.NoError(t, q.RetryAll(ctx, home, []outbox.Delay{{Hold: m.Hold(), Reason: "boom"}}))
	m = takeFrom(t, v, name)
	stale := m.Hold()
	stale.Fence--
	require.NoError(t, q.FinishAll(ctx, home, []outbox.Hold{stale}))
	require.NoError(t, q.Park(ctx, home, m.Hold(), "no"))
	parked, err := q.Parked(ctx, home, "", 10)
	require.NoError(t, err)
	require.Len(t, parked, 1)
	ok, err := q.Unpark(ctx, home, m.ID)
	require.NoError(t, err)
	require.True(t, ok)
	_, err = q.Depth(ctx, home)
	require.NoError(t, err)
	_, err = q.Waiting(ctx, home, 10)
	require.NoError(t, err)
	m = takeFrom(t, v, name)
	require.NoError(t, q.Finish(ctx, home, m.Hold()))
	require.ErrorIs(t, q.Finish(ctx, home, m.Hold()), outbox.ErrFenced)
}

// walkEndpoint takes a tenant's endpoint through everything.
func walkEndpoint(t *testing.T, v *sqlstore.View) {
	t.Helper()
	e := relay.Endpoint{Tenant: "acme", URL: "https://shop.example/hooks", Secrets: []string{"whsec_a"}}
	require.NoError(t, v.PutEndpoint(t.Context(), relay.Endpoint{}, e))
	for _, ok := range []bool{false, true} {
		_, err := v.NoteDelivery(t.Context(), e.Tenant, e.URL, ok, time.Hour)
		require.NoError(t, err)
	}
	removed, err := v.RemoveEndpoint(t.Context(), e.Tenant)
	require.NoError(t, err)
	require.True(t, removed)
}

// walkPolicy makes what walkHome and walkPins wait for a matter of seconds, and nothing else: a
// walk may take minutes, and neither an answer nor a lease that is renewed may end before it.
func walkPolicy() claim.Policy {
	p, live := testPolicy(), livePolicy()
	p.Lease, p.RenewEvery, p.LeaseMargin, p.ClockOffset = live.Lease, live.RenewEvery, live.LeaseMargin, live.ClockOffset
	p.BackoffMin, p.BackoffMax = live.BackoffMin, live.BackoffMax
	p.PinGrace = 1500 * time.Millisecond
	return p
}

func onlyCockroach(t *testing.T) database {
	t.Helper()
	d := newDatabase(t)
	if d.server.Kind() != localdb.CockroachDB {
		t.Skip("PostgreSQL has one region: run it with HOMEWARD_TEST_KIND=cockroachdb")
	}
	awaitPlacement(t, d)
	return d
}

// awaitPlacement waits until the gateway knows where the partitions of new
// tables are: it hears of it by gossip, some seconds after they are made, and
// plans for all regions before.
func awaitPlacement(t *testing.T, d database) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), "SET enforce_home_region = on")
	require.NoError(t, err)
	for _, column := range []string{"pins.registrar", "claims.home_region", "audit.home_region",
		"events.home_region", "expiries.home_region", "notices.home_region", "notices_due.home_region", "ledger.home_region"} {
		table, _, _ := strings.Cut(column, ".")
		for deadline := time.Now().Add(2 * time.Minute); ; {
			_, err := conn.Exec(t.Context(), "SELECT count(*) FROM "+table+" WHERE "+column+" = '"+regions[0]+"'")
			if err == nil {
				break
			}
			require.True(t, time.Now().Before(deadline), "%s: %v", table, err)
			<-time.After(100 * time.Millisecond)
		}
	}
}

// TestHomePathStaysHome runs the home path in sessions in which CockroachDB
// refuses any statement that would leave the gateway's region.
func TestHomePathStaysHome(t *testing.T) {
	d := onlyCockroach(t)
	var on atomic.Bool
	db := open(t, sqlstore.Config{URL: d.url, Policy: walkPolicy()}.Before("SET enforce_home_region = on", &on))
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}, "sk_acme"))
	on.Store(true)
	defer on.Store(false) // closing writes the notes of any region
	walkHome(t, db, walkPolicy())
	// The guard is on: a row that is homed elsewhere is out of reach.
	_, err := view(t, db, regions[0]).Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "far"}, regions[1], "1", "n", "ch_far"))
	require.Error(t, err)
}

// aRegion is how EXPLAIN writes a region in a span or a condition.
var aRegion = regexp.MustCompile(`'(` + strings.Join(regions, "|") + `)'`)

// aWholeRegion matches a scan of all rows of a region in a table whose statistics are set by
// a migration, as they do not follow from the rows that a test has, and the line that follows.
var aWholeRegion = regexp.MustCompile(`table: (claims|unpaid)@\w+_pkey\n[^\n]*spans: \[/'[\w-]+' - /'[\w-]+'\]\n([^\n]*)`)

// TestPlansStayHome reads the plan of every home-path statement, as it was last
// sent: each access to a table names the home region, and no other.
func TestPlansStayHome(t *testing.T) {
	d := onlyCockroach(t)
	var listener sqlstore.Listener
	db := open(t, sqlstore.Config{URL: d.url, Policy: walkPolicy()}.Listen(&listener))
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}, "sk_acme"))
	walkHome(t, db, walkPolicy())
	walkPins(t, db, walkPolicy())

	conn, err := pgx.Connect(t.Context(), d.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	heard := listener.All()
	for _, name := range slices.Concat(homePath, pinPath) {
		t.Run(name, func(t *testing.T) {
			s, ok := heard[name]
			require.True(t, ok, "walkHome does not send it")
			plan := explain(t, conn, s)
			for _, m := range aRegion.FindAllStringSubmatch(plan, -1) {
				require.Equal(t, regions[0], m[1], "%s", plan)
			}
			for _, bad := range []string{"FULL SCAN", "locality-optimized", "remote"} {
				require.NotContains(t, plan, bad)
			}
			for _, m := range aWholeRegion.FindAllStringSubmatch(plan+"\n", -1) {
				require.Contains(t, m[2], "limit:", "it reads all that a region keeps:\n%s", plan)
			}
		})
	}
	// What is heard and not listed is for housekeeping and operators.
	for name := range heard {
		if !slices.Contains(homePath, name) && !slices.Contains(pinPath, name) {
			t.Log("not on the home path:", name)
		}
	}
}

func explain(t *testing.T, conn *pgx.Conn, s sqlstore.Heard) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "EXPLAIN "+s.SQL, s.Args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err, fmt.Sprint(s.Args...))
	return strings.Join(lines, "\n")
}

// TestLeastPrivilege goes through everything as a role that may read and write
// rows and nothing else, as docs/DATABASE.md promises: of the books it may only read
// and append.
func TestLeastPrivilege(t *testing.T) {
	d := newDatabase(t)
	role := "homeward_rows"
	d.exec(t, "CREATE ROLE "+role)
	d.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+role)
	d.exec(t, "REVOKE UPDATE, DELETE ON ledger FROM "+role)
	t.Cleanup(func() {
		d.exec(t, "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM "+role)
		d.exec(t, "DROP ROLE "+role)
	})
	var on atomic.Bool
	on.Store(true)
	db := open(t, sqlstore.Config{URL: d.admin, Policy: walkPolicy()}.Before("SET ROLE "+role, &on))
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}, "sk_acme"))
	walkHome(t, db, walkPolicy())
	walkPins(t, db, walkPolicy())
	_, err := view(t, db, regions[0]).Sweep(t.Context(), 100)
	require.NoError(t, err)
	walkEndpoint(t, view(t, db, regions[0]))
	_, err = view(t, db, regions[0]).Reversals(t.Context(), "ghost_1")
	require.NoError(t, err)
	for _, refused := range []string{
		"DROP TABLE audit", "UPDATE ledger SET provider = 'other' WHERE true", "DELETE FROM ledger WHERE true",
		"INSERT INTO ledger SELECT * FROM ledger WHERE true ON CONFLICT (home_region, id) DO UPDATE SET provider = 'other'",
	} {
		require.Error(t, db.Exec(t.Context(), refused), "the role is in force")
	}
	require.Zero(t, d.count(t, "SELECT count(*) FROM ledger WHERE provider <> 'sim'"))
	require.Equal(t, 3, d.count(t, "SELECT count(*) FROM ledger"))
}
