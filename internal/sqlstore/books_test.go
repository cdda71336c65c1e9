package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

// TestTheDatabaseKeepsTheBooks: what does not sum to zero is refused by the table,
// whoever writes, and accountants see two entries that cancel out.
func TestTheDatabaseKeepsTheBooks(t *testing.T) {
	d := newDatabase(t)
	v := view(t, open(t, sqlstore.Config{URL: d.url}), regions[0])
	for i, amount := range []int64{4200, 100} {
		post := ledger.Transaction{
			ID: fmt.Sprint("ch_", i), Region: regions[0], Tenant: "acme", Kind: ledger.Charge,
			Debit: ledger.Provider("sim"), Credit: ledger.Merchant("acme"), Amount: amount, Currency: "usd",
			Object: fmt.Sprint("ch_", i), Provider: "sim", ProviderRef: fmt.Sprint("psp_", i),
		}
		posted, err := v.Post(t.Context(), post)
		require.NoError(t, err)
		require.True(t, posted)
	}
	conn, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	const copied = `INSERT INTO ledger (home_region, id, tenant_id, kind, at, debit_account, debit_amount, credit_account, credit_amount, currency, object_id, reverses, provider, provider_ref, created)
		SELECT home_region, 'forged', tenant_id, kind, at, debit_account, %s, %s, %s, currency, object_id, reverses, provider, %s, created FROM ledger WHERE id = 'ch_0'`
	const another = "'psp_9'"
	for what, sql := range map[string]string{
		"unbalanced":  fmt.Sprintf(copied, "1", "credit_account", "-2", another),
		"both zero":   fmt.Sprintf(copied, "0", "credit_account", "0", another),
		"the reverse": fmt.Sprintf(copied, "-1", "credit_account", "1", another),
		"one account": fmt.Sprintf(copied, "1", "debit_account", "-1", another),
		"same money":  fmt.Sprintf(copied, "1", "credit_account", "-1", "provider_ref"),
	} {
		_, err := conn.Exec(t.Context(), sql)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, what)
		require.Contains(t, []string{"23514", "23505"}, pg.Code, "%s: %v", what, err) // a check, or what is unique
	}
	_, err = conn.Exec(t.Context(), fmt.Sprintf(copied, "1", "credit_account", "-1", another))
	require.NoError(t, err, "the statement itself is a good one")
	require.Equal(t, 6, d.count(t, "SELECT count(*) FROM ledger_entries"))
	require.Zero(t, d.count(t, "SELECT sum(amount)::int8 FROM ledger_entries"))
	require.Equal(t, 4301, d.count(t, "SELECT sum(amount)::int8 FROM ledger_entries WHERE account = 'provider:sim'"))
}

// TestNoticesAreKept for KeepFor after they came, and for as long as nobody has
// acted on them.
func TestNoticesAreKept(t *testing.T) {
	d := newDatabase(t)
	if d.clock == nil {
		t.Skip("CockroachDB's row-level TTL deletes them, by the hour")
	}
	v := view(t, open(t, sqlstore.Config{URL: d.url}), regions[0])
	ctx, home := t.Context(), regions[0]
	_, err := v.Keep(ctx, home, []notice.Notice{{ID: "sim:evt_1", Provider: "sim"}, {ID: "sim:evt_2", Provider: "sim"}})
	require.NoError(t, err)
	rows, err := v.Queue(outbox.Notices).Take(ctx, home, 1, time.Minute)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	d.clock.advance(t, time.Hour)
	require.NoError(t, v.Close(ctx, home, rows[0].ID, rows[0].Fence, notice.ProcessedOK, ""))
	sweep := func() (kept []bool) {
		t.Helper()
		_, err := v.Sweep(ctx, 100)
		require.NoError(t, err)
		for _, id := range []string{"sim:evt_1", "sim:evt_2"} {
			_, found, err := v.Notice(ctx, home, id)
			require.NoError(t, err)
			kept = append(kept, found)
		}
		return kept
	}
	d.clock.advance(t, notice.KeepFor-time.Hour-time.Microsecond)
	require.Equal(t, []bool{true, true}, sweep())
	d.clock.advance(t, time.Microsecond)
	require.Equal(t, []bool{false, true}, sweep(), "the second has not been acted on")
	left, err := v.Queue(outbox.Notices).Take(ctx, home, 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, v.Close(ctx, home, left[0].ID, left[0].Fence, notice.Ignored, "too late"))
	d.clock.advance(t, time.Microsecond)
	require.Equal(t, []bool{false, false}, sweep())
}

// TestAQueueThatThereIsNot is a mistake that is told, not a panic.
func TestAQueueThatThereIsNot(t *testing.T) {
	d := newDatabase(t)
	v := view(t, open(t, sqlstore.Config{URL: d.url}), regions[0])
	_, err := v.Queue("none").Take(t.Context(), regions[0], 1, time.Second)
	require.ErrorContains(t, err, "no statement")
}

// The functions that have old books leave do so on each database, in any region of it, with its
// own clock: rows are made old here, as the databases' clocks stand still or are the world's.
func TestOldBooksLeaveOnEachDatabase(t *testing.T) {
	d := newDatabase(t)
	db := open(t, sqlstore.Config{URL: d.url})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}))
	home, there := regions[1], regions[0]
	v := view(t, db, there)
	post := func(tx ledger.Transaction) ledger.Transaction {
		t.Helper()
		_, err := v.Post(t.Context(), tx)
		require.NoError(t, err)
		return tx
	}
	charge := func(id string) ledger.Transaction {
		return post(ledger.Transaction{
			ID: id, Region: home, Tenant: "acme", Kind: ledger.Charge, Debit: ledger.Provider("sim"), Credit: ledger.Merchant("acme"),
			Amount: 100, Currency: "usd", Object: id, Provider: "sim", ProviderRef: "psp_" + id,
		})
	}
	refund := func(id string, of ledger.Transaction, region string) {
		r := of
		r.ID, r.Object, r.ProviderRef, r.Region, r.Kind, r.Reverses, r.Debit, r.Credit, r.Amount = id, id, "psp_"+id, region, ledger.Refund, of.ID, of.Credit, of.Debit, 40
		post(r)
	}
	charge("ch_1")
	refund("re_2", charge("ch_2"), home)
	refund("re_3", charge("ch_3"), there)
	post(ledger.UnaskedOf(charge("ch_4"), ledger.DisputeOpened, "dp_4", 100))
	d.exec(t, "UPDATE ledger SET at = at - INTERVAL '401 days' WHERE true")
	charge("ch_young")
	c, now, _, err := v.AuditChain(t.Context(), home)
	require.NoError(t, err)
	if c.Version == 0 {
		_, err = v.AdvanceAudit(t.Context(), home, 0, audit.Chain{From: now})
		require.NoError(t, err)
		c.Version = 1
	}
	before, err := v.Balances(t.Context(), home, ledger.AccountKey{}, 10)
	require.NoError(t, err)
	page, err := v.LeavingBooks(t.Context(), home, ledger.Position{}, now.Add(-audit.MinKeepBooks), 100)
	require.NoError(t, err)
	var ids []string
	for i := range page.Transactions {
		ids = append(ids, page.Transactions[i].ID)
	}
	require.ElementsMatch(t, []string{"ch_1", "ch_2", "re_2"}, ids)
	next := audit.Chain{Number: 7, Digest: "d", Books: page.Next}
	for _, others := range [][]string{{"ch_1", "ch_young"}, {"ch_2"}, {"re_2"}, {"ch_3"}, {"ch_4"}, {"ch_none"}} {
		moved, err := v.ForgetBooks(t.Context(), home, c.Version, next, others)
		require.NoError(t, err)
		require.False(t, moved, "%v", others)
	}
	moved, err := v.ForgetBooks(t.Context(), home, c.Version, next, ids)
	require.NoError(t, err)
	require.True(t, moved)
	moved, err = v.ForgetBooks(t.Context(), home, c.Version, next, nil)
	require.NoError(t, err)
	require.False(t, moved, "the chain has moved")
	require.Equal(t, 3, d.count(t, "SELECT count(*) FROM ledger WHERE home_region = '"+home+"' AND id IN ('ch_3', 'ch_4', 'ch_young')"))
	require.Equal(t, 5, d.count(t, "SELECT count(*) FROM ledger"))
	after, err := v.Balances(t.Context(), home, ledger.AccountKey{}, 10)
	require.NoError(t, err)
	require.Equal(t, before, after)
	carried, err := v.Carried(t.Context(), home, ledger.AccountKey{}, 10)
	require.NoError(t, err)
	require.Equal(t, []ledger.Balance{
		{Account: "merchant:acme", Currency: "usd", Debits: 40, Credits: 200, Transactions: 3},
		{Account: "provider:sim", Currency: "usd", Debits: 200, Credits: 40, Transactions: 3},
	}, carried)
	now2, _, _, err := v.AuditChain(t.Context(), home)
	require.NoError(t, err)
	require.Equal(t, []any{c.Version + 1, uint64(7), "d"}, []any{now2.Version, now2.Number, now2.Digest})
}
