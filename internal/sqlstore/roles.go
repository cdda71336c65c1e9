package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Roles names the users of a database, each with the privileges for its purpose alone.
type Roles struct {
	// Owner owns the tables and migrates.
	Owner string
	// Node is the user of nodes and tools. It may append to the books and to audit and
	// change nothing there; it deletes by routines alone.
	Node string
	// Reader is for people and reports: claims, books and audit. It sees no secret, and
	// none of the data that providers or merchants sent.
	Reader string
}

// roleName matches names that both databases accept unchanged.
var roleName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,62}$`)

func (r Roles) validate() error {
	for _, name := range r.all() {
		if !roleName.MatchString(name) || name == "public" {
			return fmt.Errorf("roles: %q cannot be the name of one; write 1 to 63 characters of a-z, 0-9, '_' and '-', the first a letter or '_'", name)
		}
	}
	if r.Owner == r.Node || r.Node == r.Reader || r.Owner == r.Reader {
		return fmt.Errorf("roles: owner, node and reader must be three, are %s, %s and %s; a role that may migrate may change the ledger", r.Owner, r.Node, r.Reader)
	}
	return nil
}

func (r Roles) all() []string { return []string{r.Owner, r.Node, r.Reader} }

// Views: booksView shows the books in the form that accountants use, claimsView shows claims
// without what merchants, payers and providers wrote.
const (
	booksView  = "ledger_entries"
	claimsView = "claim_states"
)

// readable are the tables without secrets and without data of merchants, payers and
// providers. Tables that are not listed, such as later ones, are not readable.
var readable = []string{versionTable, "regions", "tenants", "pins", claimsView, "ledger", "ledger_carried", booksView, "audit", "audit_chains", "deployment"}

// nodeRights are the rights of the node role on a table. Those of nodes are in needed;
// tools also add tenants and keys, and drop witnesses.
func nodeRights(table string) []string {
	switch table {
	case "ledger", "audit":
		return []string{"SELECT", "INSERT"}
	case versionTable, "deployment", "ledger_carried", booksView, claimsView:
		return []string{"SELECT"}
	default:
		return []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
	}
}

// appendOnly are the tables that nobody but their owner may change rows of.
var appendOnly = []string{"audit", "ledger", "ledger_carried"}

// routines delete what is old of audit and books, with the rights of their owner; see migration/. The
// node role alone may execute them.
var routines = []string{"expire_audit", "forget_audit", "forget_books"}

// relation is a table or view of ours.
type relation struct{ name, kind, owner string }

// rolePlan reads the present roles and collects what is missing.
type rolePlan struct {
	*Migrator
	roles     Roles
	schema    string          // of our relations, as in statements
	there     map[string]bool // which of the roles exist
	relations []relation
	steps     []Step
}

// PlanRoles returns the statements that MakeRoles would run now. It assumes that
// missing roles have no privileges yet.
func (m *Migrator) PlanRoles(ctx context.Context, r Roles) (_ []Step, err error) {
	defer func() { err = m.refusedRoles(err) }()
	if err := r.validate(); err != nil {
		return nil, err
	}
	p := &rolePlan{Migrator: m, roles: r, there: map[string]bool{}}
	for _, part := range []func(context.Context) error{p.look, p.refuse, p.create, p.own, p.node, p.reader, p.execute} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	return p.steps, nil
}

// MakeRoles runs the statements that PlanRoles returns, and calls report as [Migrator.Up]
// does. It may be stopped anywhere and run again; it leaves existing roles as they are,
// including their passwords, of which it sets none.
func (m *Migrator) MakeRoles(ctx context.Context, r Roles, report func(Step)) (err error) {
	steps, err := m.PlanRoles(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = m.refusedRoles(err) }()
	report = m.reporting(report)
	for _, s := range steps {
		if err := m.again(ctx, report, func() error {
			report(s)
			_, err := m.conn.Exec(ctx, s.SQL)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w; fix the cause and run homeward migrate roles again; completed steps are kept", s.Name, &lineError{err})
		}
	}
	for _, table := range appendOnly {
		may, err := m.changes(ctx, r.Node, table)
		if err == nil && len(may) > 0 {
			err = fmt.Errorf("role %s still has the right to %s on %s: it is a superuser, owns the table, or is a member of a role that has it; revoke that, or name another with --node", r.Node, strings.Join(may, " and "), table)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refusedRoles adds to a refusal who may do this.
func (m *Migrator) refusedRoles(err error) error {
	if !hasCode(err, insufficientPrivilege) {
		return err
	}
	return fmt.Errorf("%w; %s", &lineError{err}, m.makesRoles())
}

// makesRoles describes who may do this.
func (m *Migrator) makesRoles() string {
	return fmt.Sprintf("homeward migrate roles must run as a superuser (CockroachDB: a member of admin), or as who owns database %q and its tables and may create roles", m.conn.Config().Database)
}

func (p *rolePlan) add(name, sql string, args ...any) {
	p.steps = append(p.steps, Step{Name: name, SQL: fmt.Sprintf(sql, args...)})
}

// look reads the existing roles and relations.
func (p *rolePlan) look(ctx context.Context) error {
	if ok, err := tableExists(ctx, p.conn, "ledger"); err != nil || !ok {
		return errors.Join(err, errors.New("roles: the database has no tables yet; run homeward migrate up first"))
	}
	var name string
	if err := p.conn.QueryRow(ctx, "SELECT current_schema()::text").Scan(&p.schema); err != nil {
		return err
	}
	if !roleName.MatchString(p.schema) {
		p.schema = quote(p.schema)
	}
	rows, err := p.conn.Query(ctx, "SELECT rolname::text FROM pg_roles WHERE rolname = ANY($1::text[])", p.roles.all())
	if err != nil {
		return err
	}
	if _, err := pgx.ForEachRow(rows, []any{&name}, func() error { p.there[name] = true; return nil }); err != nil {
		return err
	}
	// A sequence goes with its table on PostgreSQL, and on its own on CockroachDB.
	rows, err = p.conn.Query(ctx, `
		SELECT c.relname::text, c.relkind::text, pg_get_userbyid(c.relowner)::text
		FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = current_schema() AND (c.relname IN (SELECT name FROM `+usedTables+`) OR c.relname = ANY ($1::text[]) OR $2::bool AND c.relkind::text = 'S')
		  AND c.relkind::text IN ('r', 'v', 'S')
		ORDER BY c.relname`, []string{booksView, claimsView}, p.dialect.cockroach)
	if err != nil {
		return err
	}
	p.relations, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r relation, err error) {
		return r, row.Scan(&r.name, &r.kind, &r.owner)
	})
	return err
}

// refuse checks, before anything is done, who must not run this and which roles could
// not be kept from changing the books: a partial run would do harm.
func (p *rolePlan) refuse(ctx context.Context) error {
	var me string
	if err := p.conn.QueryRow(ctx, "SELECT current_user::text").Scan(&me); err != nil {
		return err
	}
	for role, what := range map[string]string{p.roles.Node: "for nodes", p.roles.Reader: "for readers"} {
		if me == role {
			return fmt.Errorf("roles: %s runs this command and cannot be the role %s, which must not own the tables; %s", me, what, p.makesRoles())
		}
	}
	if p.dialect.cockroach { // whose admin need be no member of the role that owns
		return nil
	}
	for _, r := range p.relations {
		var mine bool
		if err := p.conn.QueryRow(ctx, "SELECT pg_has_role($1::text, 'MEMBER')", r.owner).Scan(&mine); err != nil {
			return err
		}
		if !mine {
			return fmt.Errorf("roles: %s is owned by %s, which %s may not act for; %s", r.name, r.owner, me, p.makesRoles())
		}
	}
	for _, role := range []string{p.roles.Node, p.roles.Reader} {
		if !p.there[role] {
			continue
		}
		var super, owns bool
		if err := p.conn.QueryRow(ctx, `
			SELECT rolsuper, EXISTS (SELECT 1 FROM pg_roles AS o WHERE o.rolname = $2::text AND pg_has_role(r.oid, o.oid, 'MEMBER'))
			FROM pg_roles AS r WHERE r.rolname = $1::text`, role, p.roles.Owner).Scan(&super, &owns); err != nil {
			return err
		}
		if super || owns {
			return fmt.Errorf("roles: %s is a superuser or a member of %s, so its rights on the ledger cannot be revoked; change that, or name another role", role, p.roles.Owner)
		}
	}
	return nil
}

func (p *rolePlan) create(context.Context) error {
	for _, name := range p.roles.all() {
		if !p.there[name] {
			p.add("role "+name, "CREATE ROLE %s LOGIN", quote(name))
		}
	}
	return nil
}

// own gives our relations to the owner.
func (p *rolePlan) own(ctx context.Context) error {
	owner := p.roles.Owner
	var me string
	var member bool
	// A grantor must be a member of the role, unless he is a superuser.
	sql := "SELECT current_user::text, coalesce((SELECT rolsuper FROM pg_roles WHERE rolname = current_user), false)"
	if p.there[owner] {
		sql = "SELECT current_user::text, pg_has_role(" + literal(owner) + ", 'MEMBER')"
	}
	if err := p.conn.QueryRow(ctx, sql).Scan(&me, &member); err != nil {
		return err
	}
	if !member && me != owner {
		p.add(me+" acts for "+owner, "GRANT %s TO %s", quote(owner), quote(me))
	}
	if err := p.enter(ctx, owner, "CREATE"); err != nil {
		return err
	}
	if p.dialect.cockroach { // the owner of the database alone may add regions
		var has string
		if err := p.conn.QueryRow(ctx, "SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = current_database()").Scan(&has); err != nil {
			return err
		}
		if has != owner {
			p.add("owner of the database", "ALTER DATABASE %s OWNER TO %s", quote(p.conn.Config().Database), quote(owner))
		}
	}
	for _, r := range p.relations {
		if what := map[string]string{"r": "TABLE", "v": "VIEW", "S": "SEQUENCE"}[r.kind]; r.owner != owner {
			p.add("owner of "+r.name, "ALTER %s %s.%s OWNER TO %s", what, p.schema, quote(r.name), quote(owner))
		}
	}
	if p.dialect.cockroach {
		return nil
	}
	var others bool // the type of region columns, which is the database's own on CockroachDB
	if err := p.conn.QueryRow(ctx, `
		SELECT count(*) > 0 FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
		WHERE n.nspname = current_schema() AND t.typname = 'crdb_internal_region' AND pg_get_userbyid(t.typowner) <> $1::text`, owner).Scan(&others); err != nil {
		return err
	}
	if others {
		p.add("owner of crdb_internal_region", "ALTER DOMAIN %s.crdb_internal_region OWNER TO %s", p.schema, quote(owner))
	}
	return nil
}

// enter lets a role use the database and its schema, with more rights there.
func (p *rolePlan) enter(ctx context.Context, role string, more ...string) error {
	database := p.conn.Config().Database
	connects := false
	if p.there[role] {
		if err := p.conn.QueryRow(ctx, "SELECT has_database_privilege($1::text, $2::text, 'CONNECT')", role, database).Scan(&connects); err != nil {
			return err
		}
	}
	if !connects {
		p.add(role+" connects", "GRANT CONNECT ON DATABASE %s TO %s", quote(database), quote(role))
	}
	rights := append([]string{"USAGE"}, more...)
	lacks := !p.there[role]
	for _, right := range rights {
		if lacks {
			break
		}
		var has bool
		if err := p.conn.QueryRow(ctx, "SELECT has_schema_privilege($1::text, current_schema()::text, $2::text)", role, right).Scan(&has); err != nil {
			return err
		}
		lacks = !has
	}
	if lacks {
		p.add(role+" uses the schema", "GRANT %s ON SCHEMA %s TO %s", strings.Join(rights, ", "), p.schema, quote(role))
	}
	return nil
}

// grant gives a role the missing rights on our tables, in one step for all that have
// the same.
func (p *rolePlan) grant(ctx context.Context, role string, rights func(table string) []string) error {
	same := map[string][]string{}
	var order []string
	for _, r := range p.relations {
		if r.kind == "S" {
			continue
		}
		var lacks []string
		for _, right := range rights(r.name) {
			var has bool
			if p.there[role] {
				if err := p.conn.QueryRow(ctx, "SELECT has_table_privilege($1::text, to_regclass($2::text)::oid, $3::text)", role, p.schema+"."+quote(r.name), right).Scan(&has); err != nil {
					return err
				}
			}
			if !has {
				lacks = append(lacks, right)
			}
		}
		if list := strings.Join(lacks, ", "); list != "" {
			if same[list] == nil {
				order = append(order, list)
			}
			same[list] = append(same[list], p.schema+"."+quote(r.name))
		}
	}
	for _, list := range order {
		p.add(role+": "+list, "GRANT %s ON %s TO %s", list, strings.Join(same[list], ", "), quote(role))
	}
	return nil
}

func (p *rolePlan) node(ctx context.Context) error {
	node := p.roles.Node
	if err := errors.Join(p.enter(ctx, node), p.grant(ctx, node, nodeRights)); err != nil {
		return err
	}
	var later int
	if !p.dialect.cockroach {
		// Tables of a later migration are granted to nodes, too; otherwise a rolling
		// upgrade would wait for this command.
		if err := p.conn.QueryRow(ctx, `
			SELECT count(DISTINCT a.privilege_type)
			FROM pg_default_acl AS d JOIN pg_namespace AS n ON n.oid = d.defaclnamespace, aclexplode(d.defaclacl) AS a
			WHERE n.nspname = current_schema() AND d.defaclobjtype = 'r' AND pg_get_userbyid(d.defaclrole) = $1::text
			  AND a.grantee <> 0 AND pg_get_userbyid(a.grantee) = $2::text AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')`,
			p.roles.Owner, node).Scan(&later); err != nil {
			return err
		}
	}
	if later < 4 {
		p.add(node+" uses later tables", "ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA %s GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %s", quote(p.roles.Owner), p.schema, quote(node))
	}
	if !p.there[node] {
		return nil
	}
	for _, table := range appendOnly {
		may, err := p.changes(ctx, node, table)
		if err != nil {
			return err
		}
		if len(may) > 0 {
			p.add(node+" cannot change "+table, "REVOKE %s ON %s.%s FROM %s", strings.Join(p.dialect.changes(), ", "), p.schema, quote(table), quote(node))
		}
	}
	return nil
}

// execute gives our routines to the owner, and lets the node role alone execute them.
func (p *rolePlan) execute(ctx context.Context) error {
	for _, name := range routines {
		owner, may, err := p.executes(ctx, name)
		if err != nil {
			return err
		}
		if owner != p.roles.Owner {
			p.add("owner of "+name, "ALTER FUNCTION %s.%s OWNER TO %s", p.schema, quote(name), quote(p.roles.Owner))
		}
		if slices.Contains(may, "public") {
			p.add("not everybody executes "+name, "REVOKE EXECUTE ON FUNCTION %s.%s FROM PUBLIC", p.schema, quote(name))
		}
		if !slices.Contains(may, p.roles.Node) {
			p.add(p.roles.Node+" executes "+name, "GRANT EXECUTE ON FUNCTION %s.%s TO %s", p.schema, quote(name), quote(p.roles.Node))
		}
	}
	return nil
}

// executes returns who owns a routine, and who may execute it.
func (p *rolePlan) executes(ctx context.Context, name string) (owner string, may []string, err error) {
	// CockroachDB's has_function_privilege asks about the session's user, whoever is named.
	grantees := `SELECT CASE a.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(a.grantee)::text END
		FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a WHERE a.privilege_type = 'EXECUTE'`
	if p.dialect.cockroach {
		grantees = `SELECT g.grantee::text FROM information_schema.role_routine_grants AS g
		WHERE g.routine_schema = current_schema() AND g.routine_name = p.proname AND g.privilege_type IN ('EXECUTE', 'ALL')`
	}
	err = p.conn.QueryRow(ctx, `
		SELECT pg_get_userbyid(p.proowner)::text, ARRAY(`+grantees+`)
		FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
		WHERE n.nspname = current_schema() AND p.proname = $1::text`, name).Scan(&owner, &may)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errors.New("roles: the database lacks the function " + name + "; run homeward migrate up first")
	}
	return owner, may, err
}

func (p *rolePlan) reader(ctx context.Context) error {
	reader := p.roles.Reader
	return errors.Join(p.enter(ctx, reader), p.grant(ctx, reader, func(table string) []string {
		if slices.Contains(readable, table) {
			return []string{"SELECT"}
		}
		return nil
	}))
}

// changes are the rights to change or remove rows, where the database has them.
// CockroachDB's TRUNCATE is for who may drop the table.
func (d dialect) changes() []string {
	if d.cockroach {
		return []string{"UPDATE", "DELETE"}
	}
	return []string{"UPDATE", "DELETE", "TRUNCATE"}
}

// changes returns which of the rights to change rows of a table a role has.
func (m *Migrator) changes(ctx context.Context, role, table string) (may []string, err error) {
	for _, right := range m.dialect.changes() {
		var has bool
		if err := m.conn.QueryRow(ctx, "SELECT has_table_privilege($1::text, to_regclass($2::text)::oid, $3::text)", role, quote(table), right).Scan(&has); err != nil {
			return nil, err
		}
		if has {
			may = append(may, right)
		}
	}
	return may, nil
}
