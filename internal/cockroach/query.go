package cockroach

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
)

//go:embed query/*.sql
var queryFiles embed.FS

// query is one statement that the store sends, known by its file's name.
type query struct {
	name, sql string
	// fresh: it is planned for each run; see [loadQueries].
	fresh bool
	// homed: its first argument is the region of the rows, which the text is to name.
	homed bool
	texts sync.Map // the text by region
}

// anArgument is how a statement names its arguments; homeArgument how it names its first
// where that is a region.
var anArgument = regexp.MustCompile(`\$\d+`)

const homeArgument = "$1::crdb_internal_region"

// isHomed reports whether the first argument of a statement is a region, wherever it
// stands.
func isHomed(sql string) bool {
	n := 0
	for _, a := range anArgument.FindAllString(sql, -1) {
		if a == "$1" {
			n++
		}
	}
	return n > 0 && n == strings.Count(sql, homeArgument)
}

// in is the text and its arguments to be sent. CockroachDB keeps a plan that is made for
// any arguments, and a region among them is any region: such a plan may visit all. Where
// the text names the region it is made for that, and kept; a plan for each run costs
// several times what begin itself does.
func (q *query) in(args []any) (string, []any) {
	if !q.homed || len(args) == 0 {
		return q.sql, args
	}
	home, ok := args[0].(string)
	if !ok {
		return q.sql, args
	}
	if text, ok := q.texts.Load(home); ok {
		return text.(string), args[1:]
	}
	text := strings.ReplaceAll(q.sql, homeArgument, "'"+strings.ReplaceAll(home, "'", "''")+"'::crdb_internal_region")
	text = anArgument.ReplaceAllStringFunc(text, func(a string) string {
		n, err := strconv.Atoi(a[1:])
		if err != nil {
			panic(err) // digits
		}
		return "$" + strconv.Itoa(n-1)
	})
	q.texts.Store(home, text) // as many as the topology has regions: see [View.reach]
	return text, args[1:]
}

// columns are lists that several statements share, each in the order of the
// function that scans it.
var columns = struct{ Row, Claim, Message, Tenant, Transaction, Endpoint string }{
	// Scanned by claimRow.row.
	Row: claimColumns,
	// Scanned by claimRow.targets.
	Claim: claimColumns + `,
       c.answered, c.answer_status, c.answer_header, c.answer_body, c.answer_blob,
       r.status, r.header_names, r.header_values, r.body, r.blob`,
	// Scanned by scanMessage.
	Message: `o.id, o.kind, o.tenant_id, o.idem_key, o.operation, o.payload, o.trace_parent,
          o.created_at, o.due, o.fence, o.attempts, o.last_error, o.parked`,
	// Scanned by scanTenant.
	Tenant: `t.id, t.name, t.registrar, t.previous_registrar, t.registrar_moved_at, t.rate_per_second, t.burst, t.card_numbers`,
	// Scanned by scanTransaction.
	Transaction: `l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref`,
	// Scanned by scanEndpoint.
	Endpoint: `e.tenant_id, e.url, e.secrets, e.failing_since, e.disabled_at`,
}

const claimColumns = `c.step, c.object_id, c.operation, c.fingerprint_version, c.fingerprint, c.state, c.fence, c.holder,
       c.lease_until, c.held_since, c.first_use, c.created, c.receipt, c.generation, c.provider_key,
       c.attempts, c.unknowns, c.not_founds, c.reason, c.provider_ref, c.settled_at, c.refused_at, c.refusal`

// queueFiles is how the names of the files begin whose statements every queue has,
// each on its own table and under its name.
const queueFiles = "outbox_"

// planned are the files whose statements are planned for each run.
var planned = []string{queueFiles + "take", queueFiles + "finish_all", queueFiles + "retry_all", "look"}

// loadQueries renders every statement for a dialect.
//
// What many rows of a queue share is fresh on PostgreSQL: a plan that is kept there was
// made for the table as it then was, empty as a rule, and stays until somebody analyses
// the table. A queue can grow by 100,000 rows before anybody does. For the same reason
// the other statements name there what they touch in a queue (PlansAreKept), though it
// follows from the claim, and those for several claims take the region from a row beside
// the key: what cannot be looked up without the row is not read from end to end.
func loadQueries(d dialect) (map[string]*query, error) {
	t, err := template.ParseFS(queryFiles, "query/*.sql")
	if err != nil {
		return nil, fmt.Errorf("cockroach: %w", err)
	}
	files, err := fs.Glob(queryFiles, "query/*.sql")
	if err != nil {
		return nil, fmt.Errorf("cockroach: %w", err)
	}
	queries := make(map[string]*query, len(files))
	for _, f := range files {
		name := strings.TrimSuffix(path.Base(f), ".sql")
		of := []queueTable{{}}
		if strings.HasPrefix(name, queueFiles) {
			of = slices.Collect(maps.Values(queueTables))
		}
		for _, q := range of {
			data := struct {
				Row, Claim, Message, Tenant, Transaction, Endpoint, FromReplica string
				Queue                                                           string
				InOrder, PlansAreKept                                           bool
			}{
				columns.Row, columns.Claim, columns.Message, columns.Tenant, columns.Transaction, columns.Endpoint, d.fromReplica,
				q.table, q.inOrder, !d.cockroach,
			}
			var sql strings.Builder
			if err := t.ExecuteTemplate(&sql, path.Base(f), data); err != nil {
				return nil, fmt.Errorf("cockroach: %w", err)
			}
			name := q.statement(name)
			queries[name] = &query{
				name: name, sql: sql.String(),
				homed: d.cockroach && isHomed(sql.String()),
				fresh: !d.cockroach && slices.Contains(planned, strings.TrimSuffix(path.Base(f), ".sql")),
			}
		}
	}
	return queries, nil
}

// dialect is what differs between the two databases.
type dialect struct {
	name      string
	cockroach bool
	// fromReplica lets a read be answered by the nearest replica, a few seconds
	// in the past.
	fromReplica string
}

var (
	cockroachDB = dialect{name: "CockroachDB", cockroach: true, fromReplica: "AS OF SYSTEM TIME follower_read_timestamp()"}
	postgreSQL  = dialect{name: "PostgreSQL"}
)
