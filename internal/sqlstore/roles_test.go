package sqlstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// rolesOf names roles of one test's own, and removes them after it.
func rolesOf(t *testing.T, d database, who string) sqlstore.Roles {
	t.Helper()
	if d.server.Kind() != localdb.PostgreSQL {
		t.Skip("roles outlive a test's database on CockroachDB")
	}
	r := sqlstore.Roles{Owner: who + "_owner", Node: who + "_node", Reader: who + "_reader"}
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), d.admin)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(context.Background())) }()
		for _, name := range []string{r.Reader, r.Node, r.Owner} {
			_, err := conn.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %[1]s", name))
			require.NoError(t, err)
		}
	})
	return r
}

// Who could change or remove what is booked is told so, for each right.
func TestWhoMayChangeTheBooksIsInDoubt(t *testing.T) {
	d := newDatabase(t)
	doubts := func(url string) string {
		db, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: url, Policy: claim.DefaultPolicy()})
		require.NoError(t, err)
		require.NoError(t, db.Close())
		return strings.Join(db.Doubts(), "\n")
	}
	require.Contains(t, doubts(d.url), "may UPDATE, DELETE")
	require.Contains(t, doubts(d.url), "homeward migrate roles")
	if d.server.Kind() != localdb.PostgreSQL {
		return
	}
	as := d.role(t, "teller")
	d.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO teller")
	for _, right := range []string{"UPDATE", "DELETE"} {
		for _, table := range []string{"ledger", "ledger_carried", "audit"} {
			require.Contains(t, doubts(as), right, "of %s", table)
			d.exec(t, "REVOKE "+right+" ON "+table+" FROM teller")
		}
	}
	require.Empty(t, doubts(as))
}

// The roles are made once, whoever asks how often: the owner migrates, nodes work and
// cannot change the books, readers read what holds no secret.
func TestRolesAreMade(t *testing.T) {
	d := newDatabase(t)
	r := rolesOf(t, d, "bank")
	m := migrator(t, d.admin)
	planned, err := m.PlanRoles(t.Context(), r)
	require.NoError(t, err)
	require.NotEmpty(t, planned)
	var made []sqlstore.Step
	makeRoles := func(m *sqlstore.Migrator) {
		t.Helper()
		made = nil
		require.NoError(t, m.MakeRoles(t.Context(), r, func(s sqlstore.Step) { made = append(made, s) }))
	}
	makeRoles(m)
	require.Equal(t, planned, made, "what is shown is what is done")
	makeRoles(m)
	require.Empty(t, made, "there is nothing left to do")
	d.exec(t, "GRANT UPDATE ON ledger TO "+r.Node)
	makeRoles(m)
	require.Len(t, made, 1)
	require.Contains(t, made[0].SQL, "REVOKE")

	for _, name := range []string{r.Owner, r.Node, r.Reader} {
		d.exec(t, "ALTER ROLE "+name+" PASSWORD 'secret'")
	}
	// The owner migrates, and what a later migration makes is the nodes' to use.
	owner := migrator(t, asUser(t, d.admin, r.Owner))
	require.NoError(t, owner.Up(t.Context(), allRegions(regions[0]), nil))
	makeRoles(owner)
	require.Empty(t, made)
	asOwner, err := pgx.Connect(t.Context(), asUser(t, d.admin, r.Owner))
	require.NoError(t, err)
	_, err = asOwner.Exec(t.Context(), "CREATE TABLE later (a int)")
	require.NoError(t, err)
	require.NoError(t, asOwner.Close(t.Context()))

	// A node works, and is in no doubt. Tools are the same role.
	db := open(t, sqlstore.Config{URL: asUser(t, d.admin, r.Node)})
	require.Empty(t, db.Doubts())
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}, "sk_acme"))
	v := view(t, db, regions[0])
	got, err := v.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "works"}, regions[0], "1", "n", "ch_1"))
	require.NoError(t, err)
	_, err = v.Settle(t.Context(), got.Record, claim.Verdict{Outcome: &claim.Done{
		Response: claim.Response{Status: 201, Body: []byte("ok")}, Posting: claimtest.Posting(got.Record, "ch_1"),
	}})
	require.NoError(t, err)
	require.NoError(t, db.Exec(t.Context(), "INSERT INTO later VALUES (1)"))
	for _, change := range []string{"UPDATE ledger SET debit_amount = 1", "DELETE FROM ledger", "TRUNCATE ledger", "UPDATE ledger_carried SET debits = 1", "DELETE FROM ledger_carried", "UPDATE audit SET node = ''", "DELETE FROM audit", "TRUNCATE audit", "ALTER TABLE ledger ADD COLUMN a int", "DELETE FROM homeward_schema_version"} {
		require.Error(t, db.Exec(t.Context(), change), change)
	}

	// A node deletes audit by the routines alone: not what is younger than three days, whatever
	// its session takes for the time, and not while the claim is there.
	d.exec(t, "UPDATE claims SET removable_at = now() - INTERVAL '1 hour'")
	d.exec(t, `CREATE SCHEMA lies; CREATE FUNCTION lies.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.now() + INTERVAL '9 years' $$; GRANT USAGE ON SCHEMA lies TO `+r.Node)
	forget := func(sql string) (n int64) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), asUser(t, d.admin, r.Node))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(context.Background())) }()
		_, err = conn.Exec(t.Context(), "SET search_path = lies, public, pg_catalog")
		require.NoError(t, err)
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT coalesce(sum(lines), 0)::int8 FROM ("+sql+") AS f (lines)").Scan(&n))
		return n
	}
	forgetAll := "SELECT forget_audit('" + regions[0] + "', array_agg(tenant_id), array_agg(idem_key), array_agg(at), array_agg(id) || array_agg(attempt_id) || array_agg(begun_id)) FROM audit"
	rows := d.count(t, "SELECT count(*) FROM audit")
	require.NotZero(t, rows)
	for _, routine := range []string{"forget_audit", "expire_audit", "forget_books"} { // as without the tests' clock
		d.exec(t, "ALTER FUNCTION "+routine+" SET search_path = pg_catalog, public, pg_temp")
	}
	d.exec(t, "UPDATE audit SET at = now() - INTERVAL '71 hours'")
	require.Zero(t, forget(forgetAll))
	require.Zero(t, forget("SELECT expire_audit(100)"))
	d.exec(t, "UPDATE audit SET at = now() - INTERVAL '73 hours'; UPDATE claims SET removable_at = now() + INTERVAL '1 hour'")
	require.Zero(t, forget(forgetAll), "its claim is there")
	require.Equal(t, rows, d.count(t, "SELECT count(*) FROM audit"))
	d.exec(t, "UPDATE claims SET removable_at = now() - INTERVAL '1 hour'")
	require.NotZero(t, forget(forgetAll))
	require.Zero(t, d.count(t, "SELECT count(*) FROM audit"))
	d.exec(t, "INSERT INTO audit (home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail) VALUES ('"+regions[0]+"', 'acme', 'old', now() - INTERVAL '401 days', gen_random_uuid(), 'claimed', '', '', 1, 1, '')")
	require.EqualValues(t, 1, forget("SELECT expire_audit(100)"))

	// Nor does it delete a transaction but by the routine, and of what age that says.
	forgetBooks := func() int64 {
		return forget("SELECT forget_books('" + regions[0] + "', 1, 2, 'd', now(), '', array_agg(id))::int FROM ledger")
	}
	d.exec(t, "INSERT INTO audit_chains (home_region, version, number, digest, from_at, part, after_tenant, after_key, after_id, books_id) VALUES ('"+regions[0]+"', 1, 1, '', now(), 0, '', '', '', '')")
	d.exec(t, "UPDATE ledger SET at = now() - INTERVAL '9599 hours'")
	require.Zero(t, forgetBooks())
	require.Equal(t, 1, d.count(t, "SELECT count(*) FROM ledger"))
	d.exec(t, "UPDATE ledger SET at = now() - INTERVAL '9601 hours'")
	require.EqualValues(t, 1, forgetBooks())
	require.Zero(t, d.count(t, "SELECT count(*) FROM ledger"))
	require.Equal(t, 2, d.count(t, "SELECT count(*) FROM ledger_carried"))

	// Readers read, and no secret.
	reader, err := pgx.Connect(t.Context(), asUser(t, d.admin, r.Reader))
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close(context.Background())) }()
	for table, may := range map[string]bool{
		"claim_states": true, "claims": false, "ledger": true, "ledger_entries": true, "ledger_carried": true, "audit": true, "tenants": true,
		"documents": false, "notices": false, "api_keys": false, "events": false, "later": false,
	} {
		_, err := reader.Exec(t.Context(), "SELECT count(*) FROM "+table)
		require.Equal(t, may, err == nil, "%s: %v", table, err)
	}
	for _, change := range []string{"DELETE FROM audit", "SELECT expire_audit(100)", "SELECT forget_audit('', '{}', '{}', '{}', '{}')", "SELECT forget_books('', 1, 1, '', now(), '', '{}')"} {
		_, err = reader.Exec(t.Context(), change)
		require.ErrorContains(t, err, "permission denied", change)
	}
}

// Who must not make roles is refused before anything is done, and nothing is shown to be
// done: the role of nodes, or of readers, by their own or by another's name, and a
// superuser who is to be the nodes' role.
func TestWhoMustNotMakeRoles(t *testing.T) {
	d := newDatabase(t)
	r := rolesOf(t, d, "clerk")
	require.NoError(t, migrator(t, d.admin).MakeRoles(t.Context(), r, func(sqlstore.Step) {}))
	for _, name := range []string{r.Owner, r.Node, r.Reader} {
		d.exec(t, "ALTER ROLE "+name+" PASSWORD 'secret'")
	}
	refused := func(url string, want sqlstore.Roles) {
		t.Helper()
		m := migrator(t, url)
		steps, err := m.PlanRoles(t.Context(), want)
		require.ErrorContains(t, err, "must run as a superuser")
		require.NotContains(t, err.Error(), "\n")
		require.Empty(t, steps)
		err = m.MakeRoles(t.Context(), want, func(s sqlstore.Step) { require.Fail(t, "done", s.SQL) })
		require.ErrorContains(t, err, "must run as a superuser")
	}
	others := sqlstore.Roles{Owner: r.Owner, Node: "clerk_others", Reader: "clerk_readers"}
	for _, name := range []string{r.Node, r.Reader} {
		refused(asUser(t, d.admin, name), r)
		refused(asUser(t, d.admin, name), others)
	}
	var me string
	conn, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_user::text").Scan(&me))
	refused(d.admin, sqlstore.Roles{Owner: r.Owner, Node: me, Reader: r.Reader})
}

// A reader who runs what wants the node role is told so, and not how to get its rights.
func TestAReaderIsNotToldToWrite(t *testing.T) {
	d := newDatabase(t)
	r := rolesOf(t, d, "auditor")
	require.NoError(t, migrator(t, d.admin).MakeRoles(t.Context(), r, func(sqlstore.Step) {}))
	d.exec(t, "ALTER ROLE "+r.Reader+" PASSWORD 'secret'")
	for _, tool := range []bool{true, false} {
		_, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: asUser(t, d.admin, r.Reader), Policy: claim.DefaultPolicy(), Tool: tool})
		require.ErrorContains(t, err, "nodes and tools want to be the node role")
		require.NotContains(t, err.Error(), "GRANT")
		require.NotContains(t, err.Error(), "\n")
	}
}

// What cannot be meant, or cannot be kept, is said in one line.
func TestRolesThatCannotBe(t *testing.T) {
	d := newDatabase(t)
	m := migrator(t, d.admin)
	r := sqlstore.Roles{Owner: "homeward_owner", Node: "homeward_node", Reader: "homeward_reader"}
	for _, wrong := range []sqlstore.Roles{
		{}, {Owner: r.Owner, Node: r.Owner, Reader: r.Reader}, {Owner: r.Owner, Node: r.Node, Reader: "public"}, {Owner: "x; DROP TABLE ledger", Node: r.Node, Reader: r.Reader},
	} {
		_, err := m.PlanRoles(t.Context(), wrong)
		require.ErrorContains(t, err, "roles: ")
		require.NotContains(t, err.Error(), "\n")
	}
	if d.server.Kind() != localdb.PostgreSQL {
		return
	}
	empty := migrator(t, dbtest.Database(t))
	_, err := empty.PlanRoles(t.Context(), r)
	require.ErrorContains(t, err, "run homeward migrate up first")

	// A node's role that may do anything cannot be kept from the books.
	made := rolesOf(t, d, "boss")
	d.exec(t, "CREATE ROLE "+made.Node+" LOGIN SUPERUSER")
	err = m.MakeRoles(t.Context(), made, func(s sqlstore.Step) { require.Fail(t, "done", s.SQL) })
	require.ErrorContains(t, err, "rights on the ledger cannot be revoked")
	d.exec(t, "ALTER ROLE "+made.Node+" NOSUPERUSER")
	// Nor one that may by another way.
	d.exec(t, "CREATE ROLE boss_others LOGIN; GRANT UPDATE ON ledger TO boss_others; GRANT boss_others TO "+made.Node)
	t.Cleanup(func() { d.exec(t, "DROP OWNED BY boss_others; DROP ROLE boss_others") })
	require.ErrorContains(t, m.MakeRoles(t.Context(), made, func(sqlstore.Step) {}), "still has the right to UPDATE")

	as := d.role(t, "nobody_here")
	err = migrator(t, as).MakeRoles(t.Context(), sqlstore.Roles{Owner: "a_owner", Node: "a_node", Reader: "a_reader"}, func(sqlstore.Step) {})
	require.ErrorContains(t, err, "must run as a superuser")
	require.NotContains(t, err.Error(), "\n")
}
