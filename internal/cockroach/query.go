package cockroach

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"
)

//go:embed query/*.sql
var queryFiles embed.FS

// query is one statement that the store sends, known by its file's name.
type query struct {
	name, sql string
	// finishes: it ends, keeps or recovers work that was begun; see [DB.enter].
	finishes bool
}

// finishing are the statements that do.
var finishing = []string{
	"settle", "defer", "renewable", "renew", "take_over",
	"outbox_take", "outbox_finish", "outbox_row", "outbox_retry", "outbox_park",
}

// columns are lists that several statements share, each in the order of the
// function that scans it.
var columns = struct{ Claim, Message, Tenant string }{
	// Scanned by claimRow.targets.
	Claim: `c.step, c.object_id, c.operation, c.fingerprint_version, c.fingerprint, c.state, c.fence, c.holder,
       c.lease_until, c.held_since, c.first_use, c.created, c.receipt, c.generation, c.provider_key,
       c.attempts, c.unknowns, c.not_founds, c.reason, c.provider_ref, c.settled_at,
       r.status, r.header_names, r.header_values, r.body, r.blob`,
	// Scanned by scanMessage.
	Message: `o.id, o.kind, o.tenant_id, o.idem_key, o.operation, o.payload, o.trace_parent,
          o.created_at, o.due, o.fence, o.attempts, o.last_error, o.parked`,
	// Scanned by scanTenant.
	Tenant: `t.id, t.name, t.registrar, t.previous_registrar, t.registrar_moved_at, t.rate_per_second, t.burst`,
}

// loadQueries renders every statement for a dialect.
func loadQueries(d dialect) (map[string]*query, error) {
	data := struct{ Claim, Message, Tenant, FromReplica string }{columns.Claim, columns.Message, columns.Tenant, d.fromReplica}
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
		var sql strings.Builder
		if err := t.ExecuteTemplate(&sql, path.Base(f), data); err != nil {
			return nil, fmt.Errorf("cockroach: %w", err)
		}
		name := strings.TrimSuffix(path.Base(f), ".sql")
		queries[name] = &query{name, sql.String(), slices.Contains(finishing, name)}
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
