package sqlstore

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/sqlstore/batch"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

type bindKey struct{ TenantID, IdemKey string }

type bindRow struct {
	bindKey
	Due time.Time
}

type bindArgs struct {
	Home string
	bindKey
	Entry struct{ ID int64 }
	Rows  []bindRow
	Tags  []string
}

// loaded is what load makes of one file, x.sql.
func loaded[A any](t *testing.T, d dialect, sql string) (*query, error) {
	t.Helper()
	all, err := load(fstest.MapFS{"query/x.sql": {Data: []byte(sql)}}, []declaration{{file: "x", args: reflect.TypeFor[A]()}}, d)
	return all["x"], err
}

func TestNamesBecomeNumbers(t *testing.T) {
	const sql = `-- of @nobody::text[], and $1
SELECT 'a@b', '@home::crdb_internal_region', "@tags", /* @rows
*/ @idem_key::text, @home::crdb_internal_region, @entry_id::int8, @idem_key::text, @tags::text[] <@ ARRAY['it''s @x'],
FROM @rows AS r (tenant_id text, idem_key text, due timestamptz) WHERE h = ANY (@rows.tenant_id::text[]) AND @tenant_id::text = @home::crdb_internal_region`
	due := time.Unix(1, 0)
	args := bindArgs{
		Home: "it's", bindKey: bindKey{"acme", "k"}, Entry: struct{ ID int64 }{7}, Tags: []string{"a"},
		Rows: []bindRow{{bindKey{"t1", "k1"}, due}, {bindKey{"t2", "k2"}, due.Add(1)}},
	}
	rest := []any{int64(7), []string{"a"}, pgtype.FlatArray[string]{"t1", "t2"}, pgtype.FlatArray[string]{"k1", "k2"}, pgtype.FlatArray[time.Time]{due, due.Add(1)}, "acme"}

	q, err := loaded[bindArgs](t, postgreSQL, sql)
	require.NoError(t, err)
	text, bound := q.in(args)
	require.Equal(t, `-- of @nobody::text[], and $1
SELECT 'a@b', '@home::crdb_internal_region', "@tags", /* @rows
*/ $1::text, $2::crdb_internal_region, $3::int8, $1::text, $4::text[] <@ ARRAY['it''s @x'],
FROM (SELECT tenant_id, idem_key, due FROM unnest($5::text[], $6::text[], $7::timestamptz[]) WITH ORDINALITY AS few (tenant_id, idem_key, due, nth) WHERE nth BETWEEN 1 AND 1000000) AS r (tenant_id, idem_key, due) WHERE h = ANY ($5::text[]) AND $8::text = $2::crdb_internal_region`, text)
	require.Equal(t, append([]any{"k", "it's"}, rest...), bound)

	q, err = loaded[bindArgs](t, cockroachDB, sql)
	require.NoError(t, err)
	text, bound = q.in(args)
	require.Equal(t, `-- of @nobody::text[], and $1
SELECT 'a@b', '@home::crdb_internal_region', "@tags", /* @rows
*/ $1::text, 'it''s'::crdb_internal_region, $2::int8, $1::text, $3::text[] <@ ARRAY['it''s @x'],
FROM unnest($4::text[], $5::text[], $6::timestamptz[]) AS r (tenant_id, idem_key, due) WHERE h = ANY ($4::text[]) AND $7::text = 'it''s'::crdb_internal_region`, text)
	require.Equal(t, append([]any{"k"}, rest...), bound)
	args.Home = "there"
	elsewhere, _ := q.in(args)
	require.NotContains(t, elsewhere, "it''s'::crdb")
	require.Contains(t, elsewhere, "'there'::crdb_internal_region")

	_, bound = q.in(bindArgs{})
	require.Equal(t, pgtype.FlatArray[string]{}, bound[3], "no rows are not NULL")
}

// TestFewRowsAreValues: each value of a list of few rows is an argument, and each number
// of rows has a text of its own. Only one row of the first list counts as few.
func TestFewRowsAreValues(t *testing.T) {
	type row struct {
		N  int32
		ID string
	}
	type args struct {
		Home          string
		Claims, Lines []row
	}
	const sql = `SELECT @home::crdb_internal_region FROM @claims AS c (n int4, id text)
JOIN @lines AS l (n int4, id text) ON l.n = c.n`
	q, err := loaded[args](t, postgreSQL, sql)
	require.NoError(t, err)
	one := []row{{0, "a"}}

	for range 2 { // the second time from memory
		text, bound := q.in(args{"here", one, []row{{0, "x"}, {0, "y"}}})
		require.Equal(t, `SELECT $1::crdb_internal_region FROM (VALUES ($2::int4, $3::text)) AS c (n, id)
JOIN (VALUES ($4::int4, $5::text), ($6::int4, $7::text)) AS l (n, id) ON l.n = c.n`, text)
		require.Equal(t, []any{"here", int32(0), "a", int32(0), "x", int32(0), "y"}, bound)
	}
	text, bound := q.in(args{"here", one, nil})
	require.Contains(t, text, "JOIN (SELECT NULL::int4, NULL::text WHERE false) AS l (n, id)")
	require.Equal(t, []any{"here", int32(0), "a"}, bound)

	for name, many := range map[string]args{
		"several claims": {"here", []row{{0, "a"}, {1, "b"}}, one},
		"no claim":       {"here", nil, one},
		"many lines":     {"here", one, make([]row, fewRows+1)},
	} {
		text, bound := q.in(many)
		require.Contains(t, text, "unnest($2::int4[], $3::text[])", name)
		require.Len(t, bound, 5, name)
	}

	q, err = loaded[args](t, cockroachDB, sql)
	require.NoError(t, err)
	text, _ = q.in(args{"here", one, one})
	require.Contains(t, text, "SELECT 'here'::crdb_internal_region FROM (VALUES ($1::int4, $2::text)) AS c (n, id)")
}

func TestFieldsAreNamed(t *testing.T) {
	for field, name := range map[string]string{
		"Home": "home", "TenantID": "tenant_id", "ID": "id", "URL": "url", "N": "n", "OldUnknowns": "old_unknowns", "CloseUntil": "close_until",
	} {
		require.Equal(t, name, snake(field))
	}
}

func TestStatementsThatCannotBe(t *testing.T) {
	type two struct{ ID, Other string }
	refused := func(err error, says string) {
		t.Helper()
		require.ErrorContains(t, err, "query/x.sql")
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := loaded[two](t, postgreSQL, "SELECT @id::text, @othr::text, @other::text")
	refused(err, "@othr is not a field")
	_, err = loaded[two](t, postgreSQL, "SELECT @id::text -- @other")
	refused(err, "@other")
	_, err = loaded[two](t, postgreSQL, "SELECT @id::text, @other::text, $2::text")
	refused(err, "$2 is not a name")
	_, err = loaded[struct{ Rows []struct{ At *time.Time } }](t, postgreSQL, "SELECT 1 FROM @rows AS r (at timestamptz)")
	refused(err, "*time.Time")
	_, err = loaded[two](t, postgreSQL, "SELECT @id::text{{ if not .PlansAreKept }}, @other::text{{ end }}")
	require.NoError(t, err, "it is said in the other dialect")

	file := fstest.MapFS{"query/x.sql": {Data: []byte("SELECT 1")}}
	declared := declaration{file: "x", args: reflect.TypeFor[none]()}
	_, err = load(file, nil, postgreSQL)
	refused(err, "not declared")
	_, err = load(file, []declaration{declared, declared}, postgreSQL)
	refused(err, "declared twice")
	_, err = load(fstest.MapFS{"query/y.sql": {}}, []declaration{declared}, postgreSQL)
	refused(err, "not there")
}

// TestQueuesHaveTheirStatements: each under the name of its table, planned for each run
// where PostgreSQL's plans would be too old.
func TestQueuesHaveTheirStatements(t *testing.T) {
	all, err := loadQueries(postgreSQL)
	require.NoError(t, err)
	take := queueTake.of((*View)(nil).queue(outbox.Events))
	sql, bound := take.in(all, takeArgs{"here", 3, time.Second})
	require.Contains(t, sql, "-- name: events_take\n")
	require.Equal(t, []any{pgx.QueryExecModeCacheDescribe, "here", int64(3), time.Second}, bound)
	all, err = loadQueries(cockroachDB)
	require.NoError(t, err)
	_, bound = take.in(all, takeArgs{"here", 3, time.Second})
	require.Equal(t, []any{int64(3), time.Second}, bound)
}

// BenchmarkBind is what it costs to fill a statement's arguments in.
func BenchmarkBind(b *testing.B) {
	all, err := loadQueries(cockroachDB)
	require.NoError(b, err)
	db := &DB{queries: all}
	entry := claim.AuditEntry{Event: "attempt", Region: "here", Node: "n", Generation: 1}
	rec := claim.Record{Key: claim.Key{Tenant: "acme", Value: "k"}, Home: "here", State: claim.InFlight}
	next := rec
	next.State, next.Response = claim.Completed, &claim.Response{Status: 201, Body: []byte("{}")}
	fx := &claim.Effects{Post: &ledger.Transaction{ID: "t"}, Events: []outbox.Message{{ID: "e"}}, Audit: []claim.AuditEntry{entry, entry}}
	begin, settle := batchedBegin(db), batchedSettle(db)
	creations, settlements := make([]*creation, batch.MaxSteps), make([]*settlement, batch.MaxSteps)
	for i := range batch.MaxSteps {
		creations[i] = &creation{Arrival: &claim.Arrival{
			Asked: claim.Asked{Key: rec.Key},
			Route: claim.Route{Home: rec.Home},
		}, fresh: &claim.Fresh{Record: rec}}
		settlements[i] = &settlement{old: &rec, next: &next, fx: fx}
	}
	for _, bench := range []struct {
		name string
		bind func() (string, []any)
	}{
		{"get", func() (string, []any) { return claimByKey.in(all, keyIn(rec.Home, rec.Key)) }},
		{"begin 1", func() (string, []any) { return begin.statement.in(all, begin.args(creations[:1])) }},
		{"begin 64", func() (string, []any) { return begin.statement.in(all, begin.args(creations)) }},
		{"settle 1", func() (string, []any) { return settle.statement.in(all, settle.args(settlements[:1])) }},
		{"settle 64", func() (string, []any) { return settle.statement.in(all, settle.args(settlements)) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bench.bind()
			}
		})
	}
}

// TestPartsNeedRows: what a text has about a list is left out where the list has no rows, of
// few rows and of many, and of no other list.
func TestPartsNeedRows(t *testing.T) {
	type row struct{ N int32 }
	type args struct{ Claims, Lines, Tags []row }
	const sql = `SELECT n FROM @claims AS c (n int4)
-- if @lines
UNION SELECT n FROM @lines AS l (n int4)
-- end
-- if @tags
UNION SELECT n FROM @tags AS g (n int4)
-- end
`
	q, err := loaded[args](t, cockroachDB, sql)
	require.NoError(t, err)
	for range 2 { // the second time from memory
		for _, claims := range []int{1, 5} {
			for _, lines := range []int{0, 1, 5} {
				for _, tags := range []int{0, 2} {
					text, bound := q.in(args{make([]row, claims), make([]row, lines), make([]row, tags)})
					require.Equal(t, lines > 0, strings.Contains(text, "AS l (n)"), text)
					require.Equal(t, tags > 0, strings.Contains(text, "AS g (n)"), text)
					want := 0
					alone := claims == 1 && lines <= fewRows
					for _, rows := range []int{claims, lines, tags} {
						switch {
						case alone:
							want += rows
						case rows > 0:
							want++
						}
					}
					require.Len(t, bound, want, text)
					require.Equal(t, want, strings.Count(text, "$"), text)
					require.Equal(t, alone, !strings.Contains(text, "unnest"), text)
				}
			}
		}
	}
	_, err = loaded[args](t, cockroachDB, sql+"-- if @nobody\nUNION SELECT 1\n-- end\n")
	require.ErrorContains(t, err, "@nobody")
}
