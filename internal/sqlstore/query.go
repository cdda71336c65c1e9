package sqlstore

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"

	"github.com/homeward-io/homeward/outbox"
)

//go:embed query/*.sql
var queryFiles embed.FS

// query is a statement as sent to one database.
type query struct {
	name string
	// fresh: it is planned for each run; see [load].
	fresh bool
	// round: a node sends it in rounds; see [inRounds].
	round bool
	// any is the form for any number of rows. others are those for lists of few rows or of
	// none, made when they are needed, by [formOf]; nil: there are no lists.
	any    *form
	others []atomic.Pointer[form]

	sql       string // with its notations for rows, and its parts
	args      map[string]*argument
	lists     []list
	cockroach bool
}

// list is one of a statement's lists of rows.
type list struct {
	name  string
	field []int
	// optional: parts of the text are left out where it has no rows.
	optional bool
}

// shared are texts that several statements share.
type shared struct {
	Row, Claim, Message, MessageNames, Call, NoCall, Lines, NoLines, Begun, First, Tenant, Transaction, Endpoint string
}

// columns are lists of columns, each in the order of the function that scans it, and what
// is said of them.
var columns = shared{
	// Scanned by claimRow.row.
	Row: claimColumns,
	// Scanned by claimRow.targets.
	Claim: claimColumns + `,
       c.answer_status, c.answer_header, c.answer_body, c.answer_blob`,
	// Scanned by scanMessage.
	Message: `o.id, o.kind, o.tenant_id, o.idem_key, o.operation, o.payload, o.trace_parent,
          o.created_at, o.due, o.fence, o.attempts, o.last_error, o.parked`,
	MessageNames: `id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence, attempts, last_error, parked`,
	// Message of a claim's call; scanned by scanMessage.
	Call: `c.object_id, '` + string(outbox.KindProviderCall) + `', c.tenant_id, c.idem_key, c.operation, c.call_payload, c.call_trace,
          c.call_created, coalesce(c.call_due, c.call_parked), c.call_fence, coalesce(c.call_attempts, 0), coalesce(c.call_error, ''), c.call_parked IS NOT NULL`,
	// Ends a claim's call.
	NoCall: `call_payload = NULL, call_trace = NULL, call_created = NULL, call_due = NULL, call_parked = NULL,
        call_fence = NULL, call_attempts = NULL, call_error = NULL`,
	// The further lines of a row of audit; scanned by auditLines.targets.
	Lines:   `attempt_id, attempt_event, attempt_detail, begun_id, begun_at, begun_region, begun_node, begun_detail`,
	NoLines: `NULL::uuid, NULL::text, NULL::text, NULL::uuid, NULL::timestamptz, NULL::text, NULL::text, NULL::text`,
	// Whether the first line of a claim's audit is in its row alone.
	Begun: `begun_id IS NOT NULL AND begun_noted IS NULL`,
	// Whether no row of the line of o, a row of events, came before it. The comparisons are spelt out, as CockroachDB looks no row up by its key for one
	// of tuples. The offset changes nothing but that PostgreSQL looks each row up, and does
	// not join, which it would do by guesses where it has no statistics.
	First: `NOT EXISTS (
              SELECT 1 FROM events AS e
              WHERE e.home_region = @home::crdb_internal_region AND e.tenant_id = o.tenant_id AND e.idem_key = o.idem_key
                AND e.kind = o.kind AND NOT e.parked
                AND (e.created_at < o.created_at OR e.created_at = o.created_at AND e.id < o.id)
              OFFSET 0)`,
	// Scanned by scanTenant.
	Tenant: `t.id, t.name, t.registrar, t.previous_registrar, t.registrar_moved_at, t.rate_per_second, t.burst, t.card_numbers, t.routes`,
	// Scanned by scanTransaction.
	Transaction: `l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref, l.decided_by, l.decided_why`,
	// Scanned by scanEndpoint.
	Endpoint: `e.tenant_id, e.url, e.secrets, e.failing_since, e.disabled_at`,
}

// claimColumns are in the order of claimRow.row.
const claimColumns = `c.step, c.object_id, c.operation, c.fingerprint_version, c.fingerprint, c.state, c.fence, c.holder,
       c.lease_until, c.held_since, c.first_use, c.created, c.receipt, c.generation, c.provider_key,
       c.attempts, c.unknowns, c.not_founds, c.reason, c.provider_ref, c.settled_at, c.refused_at, c.refusal, c.interim`

// planned are the files whose statements are planned for each run.
var planned = []string{
	queueFiles + "take", queueFiles + "finish_all", queueFiles + "retry_all",
	callFiles + "take", callFiles + "finish_all", callFiles + "retry_all", callFiles + "open", "look", "look_events", "ledger_named", "notices_close_all",
}

// inRounds are the files whose statements a node sends by itself, again and again. They
// are reads. No caller waits for one, and the next round repeats it.
var inRounds = []string{queueFiles + "depth", callFiles + "depth", "look", "look_events", "regions", "restore", "brakes", "claims_unknown", "accounts"}

// queries are a dialect's statements, by their names.
type queries map[string]*query

// loadQueries returns those of a dialect, which all stores of a process share.
func loadQueries(d dialect) (queries, error) {
	if d.cockroach {
		return ofCockroachDB()
	}
	return ofPostgreSQL()
}

var (
	ofCockroachDB = sync.OnceValues(func() (queries, error) { return load(queryFiles, declared, cockroachDB) })
	ofPostgreSQL  = sync.OnceValues(func() (queries, error) { return load(queryFiles, declared, postgreSQL) })
)

// load makes the query of every statement for a dialect. It fails if a file is not
// declared or a declaration has no file, if a text has a name that its arguments lack,
// and if no dialect uses an argument.
//
// Statements that many rows of a queue share are planned anew each time on PostgreSQL:
// a kept plan was made for the table as it then was, usually empty, and stays until the
// table is analysed. A queue can grow by 100,000 rows before that. For the same reason
// the other statements name the rows of a queue that they touch (PlansAreKept), though
// they follow from the claim, and those for several claims take the region from a row
// beside the key: a look-up that needs the row cannot become a scan.
func load(files fs.FS, declared []declaration, d dialect) (queries, error) {
	t, err := template.ParseFS(files, "query/*.sql")
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	all := queries{}
	undeclared := map[string]bool{}
	for _, f := range t.Templates() {
		undeclared[f.Name()] = true
	}
	for _, s := range declared {
		file := s.file + ".sql"
		if !undeclared[file] {
			return nil, fmt.Errorf("sqlstore: query/%s is declared, and is not there or declared twice", file)
		}
		delete(undeclared, file)
		args, used := argumentsOf(s.args), map[string]bool{}
		for _, each := range []dialect{cockroachDB, postgreSQL} {
			for _, v := range s.versions() {
				sql, err := render(t.Lookup(file), each, v)
				if err != nil {
					return nil, err
				}
				q := &query{name: v.name, sql: sql, args: args, cockroach: each.cockroach}
				q.fresh, q.round = !d.cockroach && slices.Contains(planned, s.file), slices.Contains(inRounds, s.file)
				if err := q.make(used); err != nil {
					return nil, fmt.Errorf("sqlstore: query/%s, arguments in %v: %w", file, s.args, err)
				}
				if each == d {
					all[q.name] = q
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(args)) {
			if !used[name] {
				return nil, fmt.Errorf("sqlstore: query/%s does not use @%s, which is in %v", file, name, s.args)
			}
		}
	}
	for _, file := range slices.Sorted(maps.Keys(undeclared)) {
		return nil, fmt.Errorf("sqlstore: query/%s is not declared", file)
	}
	return all, nil
}

// version is one statement of a file.
type version struct {
	name  string
	table queueTable
	also  bool // it is [declaration].also
}

// versions returns those of a file: one for each table of those that share it.
func (s declaration) versions() (all []version) {
	if !strings.HasPrefix(s.file, queueFiles) {
		all = append(all, version{name: s.file})
		if s.also != "" {
			all = append(all, version{name: s.also, also: true})
		}
		return all
	}
	for _, table := range queueTables {
		if table.files == queueFiles {
			all = append(all, version{name: table.statement(strings.TrimPrefix(s.file, queueFiles)), table: table})
		}
	}
	return all
}

// render renders the text of a file for a dialect, in one of its versions.
func render(file *template.Template, d dialect, of version) (string, error) {
	data := struct {
		shared
		FromReplica, Queue          string
		InOrder, PlansAreKept, Also bool
	}{columns, d.fromReplica, of.table.table, of.table.inOrder, !d.cockroach, of.also}
	var sql strings.Builder
	if err := file.Execute(&sql, data); err != nil {
		return "", fmt.Errorf("sqlstore: %w", err)
	}
	return sql.String(), nil
}

// dialect holds the differences between the two databases.
type dialect struct {
	name      string
	cockroach bool
	// fromReplica makes the nearest replica answer a read, a few seconds in the past.
	fromReplica string
	// isolation is the level that statements need, session the settings of a session.
	isolation, session string
}

var (
	cockroachDB = dialect{name: "CockroachDB", cockroach: true, fromReplica: "AS OF SYSTEM TIME follower_read_timestamp()", isolation: serializable, session: onCockroachDB}
	postgreSQL  = dialect{name: "PostgreSQL", isolation: readCommitted, session: onPostgreSQL}
)
