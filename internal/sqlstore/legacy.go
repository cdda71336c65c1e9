package sqlstore

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"text/template"

	"github.com/homeward-io/homeward/outbox"
)

// The texts of the queues are templates still.

type queueStatement[A any] struct{ what string }

func (s queueStatement[A]) of(q queue) statement[A] { return statement[A]{q.statement(s.what)} }

func declareOfQueues[A any](what string) queueStatement[A] {
	for _, table := range queueTables {
		declare[A](table.statement(what))
	}
	return queueStatement[A]{what}
}

type shared struct {
	Message, Call, NoCall, First, Queue string
	InOrder, PlansAreKept               bool
}

var columns = shared{
	Message: `o.id, o.kind, o.tenant_id, o.idem_key, o.operation, o.payload, o.trace_parent,
          o.created_at, o.due, o.fence, o.attempts, o.last_error, o.parked`,
	Call: `c.object_id, '` + string(outbox.KindProviderCall) + `', c.tenant_id, c.idem_key, c.operation, c.call_payload, c.call_trace,
          c.call_created, coalesce(c.call_due, c.call_parked), c.call_fence, coalesce(c.call_attempts, 0), coalesce(c.call_error, ''), c.call_parked IS NOT NULL`,
	NoCall: `call_payload = NULL, call_trace = NULL, call_created = NULL, call_due = NULL, call_parked = NULL,
        call_fence = NULL, call_attempts = NULL, call_error = NULL`,
	First: `NOT EXISTS (
              SELECT 1 FROM events AS e
              WHERE e.home_region = @home::crdb_internal_region AND e.tenant_id = o.tenant_id AND e.idem_key = o.idem_key
                AND e.kind = o.kind AND NOT e.parked
                AND (e.created_at < o.created_at OR e.created_at = o.created_at AND e.id < o.id)
              OFFSET 0)`,
}

var (
	theRows = regexp.MustCompile(`@(\w+) AS (\w+) \(([^)]*)\)`)
	theRow  = regexp.MustCompile(`@(\w+)\.(\w+)`)
	theIf   = regexp.MustCompile(`(?m)^-- (if @\w+|end)\n`)
)

func legacy(d dialect) map[string]string {
	all := map[string]string{}
	t, err := template.ParseFS(queryFiles, "query/*.sql")
	if err != nil {
		panic(err)
	}
	for _, f := range t.Templates() {
		file := strings.TrimSuffix(f.Name(), ".sql")
		tables := []queueTable{{}}
		if strings.HasPrefix(file, queueFiles) {
			tables = nil
			for _, table := range queueTables {
				if table.files == queueFiles {
					tables = append(tables, table)
				}
			}
		}
		for _, table := range tables {
			data := columns
			data.Queue, data.InOrder, data.PlansAreKept = table.table, table.inOrder, !d.cockroach
			var sql strings.Builder
			if err := f.Execute(&sql, data); err != nil {
				panic(err)
			}
			text := theRows.ReplaceAllStringFunc(theIf.ReplaceAllString(sql.String(), ""), func(rows string) string {
				m := theRows.FindStringSubmatch(rows)
				var names, lists []string
				for column := range strings.SplitSeq(m[3], ",") {
					name, typ, _ := strings.Cut(strings.TrimSpace(column), " ")
					names, lists = append(names, name), append(lists, fmt.Sprintf("@%s_%s::%s[]", m[1], name, typ))
				}
				return fmt.Sprintf("unnest(%s) AS %s (%s)", strings.Join(lists, ", "), m[2], strings.Join(names, ", "))
			})
			name := file
			if table.table != "" {
				name = table.statement(strings.TrimPrefix(file, queueFiles))
			}
			all[name] = strings.TrimSpace(theRow.ReplaceAllString(text, "@${1}_$2"))
			if what, ok := strings.CutPrefix(file, "expiries_"); ok {
				for _, table := range queueTables {
					if table.files == queueFiles {
						all[table.table+"_"+what] = strings.ReplaceAll(all[name], "expiries", table.table)
					}
				}
			}
		}
	}
	return all
}

var (
	legacyCockroach = sync.OnceValue(func() map[string]string { return legacy(cockroachDB) })
	legacyPostgres  = sync.OnceValue(func() map[string]string { return legacy(postgreSQL) })
)
