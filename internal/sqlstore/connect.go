package sqlstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/homeward-io/homeward/claim"
)

// goodURL is an example of the variable's value.
const goodURL = "as in HOMEWARD_DATABASE_URL=postgresql://user:password@host:26257/homeward?sslmode=verify-full"

// errNoURL: no database is configured.
var errNoURL = errors.New("no database is set; set its URL, " + goodURL)

// readURL parses a connection string and refuses ambiguous ones, before any part of it
// is sent, looked up or shown: what is parsed as a host or a database may be the rest
// of a password. Unless allowUnverified, it refuses another machine whose identity is
// not verified.
func readURL(text string, allowUnverified bool) (*pgx.ConnConfig, error) {
	if text == "" {
		return nil, errNoURL
	}
	if !unambiguous(text) {
		return nil, errors.New("HOMEWARD_DATABASE_URL is not clear about where its password ends: percent-encode what is special in user, password and parameters ('/' is %2F, '@' is %40, ':' is %3A, '?' is %3F, '#' is %23, '%' is %25), " + goodURL)
	}
	c, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("HOMEWARD_DATABASE_URL cannot be read: %s; write it %s", withoutSecrets(err), goodURL)
	}
	// The one place where a name could be a part of a password that was not encoded.
	secret := strings.Contains(text, "password=")
	for name := range c.RuntimeParams {
		switch {
		case strings.HasPrefix(name, "pool_") && !secret:
			return nil, fmt.Errorf("HOMEWARD_DATABASE_URL has the parameter %s; remove it and use the setting database.max_conns and its like", name)
		case strings.HasPrefix(name, "ssl") && !secret: // CockroachDB would ignore it, and TLS be off
			return nil, fmt.Errorf("HOMEWARD_DATABASE_URL has the unknown parameter %s; was sslmode, sslrootcert, sslcert or sslkey meant?", name)
		case strings.HasPrefix(name, "pool_"), strings.HasPrefix(name, "ssl"):
			return nil, errors.New("HOMEWARD_DATABASE_URL has an unknown parameter that begins with pool_ or ssl; remove it, write sslmode, or use the setting database.max_conns")
		}
	}
	if c.Database == "" {
		return nil, errors.New("HOMEWARD_DATABASE_URL names no database; write its name behind the host, " + goodURL)
	}
	if host := unverified(c); host != "" && !allowUnverified {
		return nil, fmt.Errorf("HOMEWARD_DATABASE_URL does not verify the identity of %s: anybody on the network path could read and change every charge; add sslmode=verify-full (and sslrootcert=FILE for a CA of your own), or set database.allow_unverified, HOMEWARD_DATABASE__ALLOW_UNVERIFIED=true, if that is intended", host)
	}
	return c, nil
}

// unverified returns a host on another machine that c may connect to without verifying
// its certificate and name; "" if there is none. pgx keeps each host, and each variant
// of its settings, as a fallback.
func unverified(c *pgx.ConnConfig) string {
	all := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	for _, to := range all {
		if network, _ := pgconn.NetworkAddress(to.Host, to.Port); network == "unix" || onThisMachine(to.Host) {
			continue
		}
		if to.TLSConfig == nil || to.TLSConfig.InsecureSkipVerify || to.TLSConfig.ServerName == "" {
			return to.Host
		}
	}
	return ""
}

func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// unambiguous: a URL has at most one '@', before the first '/'. Only then do all
// parsers find the same password.
func unambiguous(text string) bool {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		return true // keywords and values, which have their own quoting
	}
	if before, _, ok := strings.Cut(rest, "@"); ok {
		return strings.Count(rest, "@") == 1 && !strings.ContainsAny(before, "/?#")
	}
	return true
}

// withoutSecrets removes the password of a URL from an error.
func withoutSecrets(err error) string {
	text := oneLine(err)
	if parse, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		// The text quotes the URL, and a part of it that cannot be parsed may be a
		// secret.
		if inner := errors.Unwrap(parse); inner != nil {
			return oneLine(inner)
		}
		if i := strings.LastIndex(text, "`: "); i >= 0 {
			return text[i+len("`: "):]
		}
		return "it is no connection string"
	}
	return text
}

// unreachableError is claim.ErrUnavailable with a text for people.
type unreachableError struct{ text string }

func (e *unreachableError) Error() string { return e.text }
func (e *unreachableError) Unwrap() error { return claim.ErrUnavailable }

// connectError returns in one line why there is no connection and what to do.
func connectError(c *pgx.ConnConfig, err error) error {
	var pg *pgconn.PgError
	var certificate *tls.CertificateVerificationError
	var setting *settingError
	var readOnly *readOnlyError
	var other *otherDatabaseError
	where := fmt.Sprintf("database %q at %s", c.Database, net.JoinHostPort(c.Host, fmt.Sprint(c.Port)))
	if c.Host != "" && c.Host[0] == '/' {
		where = fmt.Sprintf("database %q in %s", c.Database, c.Host)
	}
	if hasCode(err, duplicatePrepared) || hasCode(err, noPrepared) {
		err = errPooled // a session's statements are another client's
	}
	switch {
	case errors.As(err, &pg):
		switch pg.Code {
		case "3D000":
			return fmt.Errorf("%s does not exist; create it, then run homeward migrate up --regions NAME,…", where)
		case "28P01":
			return fmt.Errorf("%s refuses user %q: %s; check the user and password of HOMEWARD_DATABASE_URL", where, c.User, pg.Message)
		case "28000": // a server that requires TLS returns this, too
			return fmt.Errorf("%s refuses user %q: %s; check the user, the password and sslmode of HOMEWARD_DATABASE_URL", where, c.User, pg.Message)
		case undefinedObject:
			return fmt.Errorf("%s does not know a parameter of HOMEWARD_DATABASE_URL: %s; remove it or correct its name", where, pg.Message)
		case codeReadOnly:
			return fmt.Errorf("%s takes no writes: %s; connect to the primary server: with several hosts in HOMEWARD_DATABASE_URL, add target_session_attrs=read-write", where, pg.Message)
		case codeDiskFull:
			return fmt.Errorf("%s has no space for writes: %s; free some on its disk or enlarge it", where, pg.Message)
		case insufficientPrivilege:
			return fmt.Errorf("%s denies user %q a right: %s; have its owner grant the rights that docs/DATABASE.md lists", where, c.User, pg.Message)
		}
		if judge(err) == refused {
			return fmt.Errorf("%s refuses the session: %s (SQLSTATE %s); check HOMEWARD_DATABASE_URL", where, pg.Message, pg.Code)
		}
	case errors.Is(err, errPooled):
		return fmt.Errorf("%s is behind a proxy that gives each transaction another session, so settings and prepared statements are lost; set pool_mode=session there, or connect to the database itself, see docs/DATABASE.md", where)
	case errors.As(err, &setting):
		return fmt.Errorf("%s does not keep a setting: %w; remove what changes it, such as a proxy that pools transactions, see docs/DATABASE.md", where, setting)
	case errors.As(err, &readOnly):
		return fmt.Errorf("%s takes no writes: %w; connect to the primary server: with several hosts in HOMEWARD_DATABASE_URL, add target_session_attrs=read-write", where, readOnly)
	case errors.As(err, &other):
		return fmt.Errorf("%s is another database than before: %w; have HOMEWARD_DATABASE_URL lead to the former one, or restart the node if it shall use this one", where, other)
	case errors.As(err, &certificate):
		return fmt.Errorf("%s has a certificate that is not trusted: %s; name its CA with sslrootcert in HOMEWARD_DATABASE_URL", where, oneLine(certificate.Err))
	}
	return &unreachableError{fmt.Sprintf("%s cannot be reached: %s; check HOMEWARD_DATABASE_URL (host, port, sslmode) and that the database runs", where, cause(err))}
}

const (
	undefinedObject       = "42704"
	undefinedTable        = "42P01"
	insufficientPrivilege = "42501"
	duplicatePrepared     = "42P05"
	noPrepared            = "26000"
)

// cause returns why a connection failed, once: pgx tries with TLS and without, at each
// address of a host, and reports every try.
func cause(err error) string {
	if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = errors.Unwrap(connect)
	}
	var said []string
	var tries interface{ Unwrap() []error }
	all := []error{err}
	if errors.As(err, &tries) {
		all = tries.Unwrap()
	}
	for _, e := range all {
		text := oneLine(e)
		if op := (*net.OpError)(nil); errors.As(e, &op) {
			text = oneLine(op.Err)
		} else if errors.Is(e, context.DeadlineExceeded) {
			text = "no answer in time"
		}
		if !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	return strings.Join(said, "; ")
}

// usedTables are the tables, with the rights that a node uses. Only tools use the
// others of docs/DATABASE.md.
const usedTables = `(VALUES
    ('` + versionTable + `', 'SELECT'),
    ('deployment', 'SELECT'),
    ('regions', 'SELECT UPDATE'),
    ('tenants', 'SELECT UPDATE'),
    ('api_keys', 'SELECT'),
    ('pins', 'SELECT INSERT UPDATE DELETE'),
    ('claims', 'SELECT INSERT UPDATE DELETE'),
    ('events', 'SELECT INSERT UPDATE DELETE'),
    ('expiries', 'SELECT INSERT UPDATE DELETE'),
    ('notices', 'SELECT INSERT UPDATE DELETE'),
    ('notices_due', 'SELECT INSERT UPDATE DELETE'),
    ('ledger', 'SELECT INSERT'),
    ('ledger_carried', 'SELECT'),
    ('documents', 'SELECT INSERT UPDATE'),
    ('witnesses', 'SELECT'),
    ('audit', 'SELECT INSERT'),
    ('audit_chains', 'SELECT INSERT UPDATE'),
    ('unpaid', 'SELECT INSERT UPDATE DELETE')
) AS tables (name, uses)`

// needed returns those of the rights that the session's role lacks.
const needed = `
SELECT tables.name, rights.name, current_user
FROM ` + usedTables + `, (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS rights (name)
WHERE tables.uses LIKE '%' || rights.name || '%'
  AND NOT has_table_privilege(to_regclass(tables.name)::oid, rights.name)
ORDER BY tables.name, strpos('SELECT INSERT UPDATE DELETE', rights.name)`

// onlyReads reports whether the session's role may look claims up and write nothing, as
// the reader of [Roles].
const onlyReads = `
SELECT coalesce(has_table_privilege(to_regclass('` + claimsView + `')::oid, 'SELECT'), false) AND NOT EXISTS (
    SELECT 1 FROM ` + usedTables + `, (VALUES ('INSERT'), ('UPDATE'), ('DELETE')) AS rights (name)
    WHERE has_table_privilege(to_regclass(tables.name)::oid, rights.name))`

// missingRights returns, in one line, the rights that a node lacks, "" if none, so that
// it does not fail at a merchant's request. It ignores missing tables.
func missingRights(ctx context.Context, conn *pgx.Conn, database string) (string, error) {
	rows, err := conn.Query(ctx, needed)
	if err != nil {
		return "", err
	}
	var table, right, user, last string
	var lacks strings.Builder
	if _, err := pgx.ForEachRow(rows, []any{&table, &right, &user}, func() error {
		switch {
		case table == last:
			lacks.WriteString(", " + right)
		case last == "":
			lacks.WriteString(table + " (" + right)
		default:
			lacks.WriteString("), " + table + " (" + right)
		}
		last = table
		return nil
	}); err != nil || last == "" {
		return "", err
	}
	var reader bool
	if err := conn.QueryRow(ctx, onlyReads).Scan(&reader); err != nil {
		return "", err
	}
	if reader { // it is meant to, and must not get more
		return fmt.Sprintf("database %q does not let user %q use %s), for %[2]q only reads; nodes and tools want to be the node role, as homeward migrate roles makes it: put that one into HOMEWARD_DATABASE_URL", database, user, &lacks), nil
	}
	return fmt.Sprintf("database %q does not let user %q use %s); have their owner run homeward migrate roles, or: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %[4]s; REVOKE UPDATE, DELETE ON ledger FROM %[4]s",
		database, user, &lacks, quote(user)), nil
}

// refusedMigration adds to a missing right how to grant it.
func refusedMigration(c *pgx.ConnConfig, err error) error {
	if !hasCode(err, insufficientPrivilege) {
		return err
	}
	return fmt.Errorf("%w; homeward migrate must run as the user who owns the tables and, until they are there, may make them: have the owner of database %q run GRANT CREATE ON SCHEMA public TO %s, or GRANT CREATE ON DATABASE for CockroachDB",
		&lineError{err}, c.Database, quote(c.User))
}
